//! Writer of GLB: a node for each object, with its vertices relative to the middle of its box, or to 0 if they are `float32`.
//!
//! Positions are `float32` offsets from the translation of the node, which is `float64` in JSON.
//! The factor to metres is the scale of the root node, and `asset.extras.unit` is the unit of the
//! numbers. Indices have 16 bits where that is enough. Attributes are `_NAME` of floats or of 8 or
//! 16 bits, each value at a multiple of four bytes; ids and attributes of objects are `extras` of
//! nodes.

use std::collections::HashMap;
use std::io::Write;

use serde_json::{Map, Value as Json, json};
use zvf_error::Result;
use zvf_format::num::{nearest_f32, usize_from_u32};
use zvf_formats::{
    CollectedInput, Encoded, Target, cannot_hold, meters_per_unit, narrow, row_to_json, value_name,
    value_to_json,
};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::{Column, Field, Kind, ObjectId};

/// A glTF document and its buffer.
#[derive(Default)]
struct Scene {
    binary: Vec<u8>,
    views: Vec<Json>,
    accessors: Vec<Json>,
    meshes: Vec<Json>,
    nodes: Vec<Json>,
}

/// The vertices and elements of an object.
#[derive(Default)]
struct ObjectRows {
    rows: Vec<usize>,
    elements: Vec<usize>, // numbers of vertices
}

/// Writes a file.
pub(crate) fn encode(input: &CollectedInput, out: &mut Target<'_>) -> Encoded {
    let (mode, width) = match input.header.kind {
        Kind::Mesh => (4, 3),
        Kind::PointCloud => (0, 1),
        _ => (1, 2),
    };
    let mut scene = Scene::default();
    scene.nodes.push(Json::Null); // the root, once its children are known
    for (id, part) in split_objects(input, width) {
        scene.push_object(input, id, &part, mode)?;
    }
    let factor = input.header.unit().and_then(meters_per_unit);
    let children: Vec<usize> = (1..scene.nodes.len()).collect();
    let mut root = json!({"name": "root"});
    if !children.is_empty() {
        root["children"] = json!(children);
    }
    if let Some(factor) = factor.filter(|factor| (*factor - 1.0).abs() > f64::EPSILON) {
        root["scale"] = json!([factor, factor, factor]);
    }
    scene.nodes[0] = root;
    scene.write(input.header.unit(), out)?;
    Ok(input.report(Vec::new()))
}

/// Splits the input into objects; vertices without an object come last.
fn split_objects(input: &CollectedInput, width: usize) -> Vec<(Option<ObjectId>, ObjectRows)> {
    let owners = input.owners();
    let owner = |row: usize| owners.as_ref().and_then(|owners| owners[row]);
    let mut ids: Vec<Option<ObjectId>> = input.object_ids().into_iter().map(Some).collect();
    ids.push(None);
    let places: HashMap<Option<ObjectId>, usize> =
        ids.iter().enumerate().map(|(at, id)| (*id, at)).collect();
    let mut parts: Vec<ObjectRows> = ids.iter().map(|_| ObjectRows::default()).collect();
    for row in 0..input.batch.len() {
        parts[places[&owner(row)]].rows.push(row);
    }
    let mut add = |element: &[usize]| {
        parts[places[&owner(element[0])]].elements.extend_from_slice(element);
    };
    match width {
        3 => input.triangles().iter().for_each(|(triangle, _)| add(triangle)),
        2 => input.edges().iter().for_each(|(edge, _)| add(edge)),
        _ => {}
    }
    let has_rows = |(_, part): &(Option<ObjectId>, ObjectRows)| !part.rows.is_empty();
    ids.into_iter().zip(parts).filter(has_rows).collect()
}

impl Scene {
    fn push_object(
        &mut self,
        input: &CollectedInput,
        id: Option<ObjectId>,
        part: &ObjectRows,
        mode: u32,
    ) -> Result<()> {
        // Vertices of another object that an element uses are copied to this one.
        let mut rows = part.rows.clone();
        let mut places: HashMap<usize, usize> =
            rows.iter().enumerate().map(|(at, row)| (*row, at)).collect();
        for row in &part.elements {
            places.entry(*row).or_insert_with(|| {
                rows.push(*row);
                rows.len() - 1
            });
        }
        let points: Vec<[f64; 3]> = rows.iter().map(|row| input.point(*row)).collect();
        // Offsets of `float32` coordinates would be rounded.
        let is_exact = input.batch.positions().dtype() == Dtype::FLOAT32;
        let middle = if is_exact { [0.0; 3] } else { middle_of(&points) };
        let mut attributes = Map::new();
        attributes.insert("POSITION".to_owned(), json!(self.push_positions(&points, middle)));
        for field in input.batch.fields() {
            self.push_attribute(field, &rows, &mut attributes);
        }
        let mut primitive = json!({"attributes": attributes, "mode": mode});
        if mode != 0 {
            let indices = part.elements.iter().map(|row| places[row]);
            primitive["indices"] = json!(self.push_indices(indices.collect(), rows.len())?);
        }
        let mut node = json!({"mesh": self.meshes.len(), "translation": middle});
        let extras = collect_extras(input, id)?;
        if let Some(name) = extras.get("name").and_then(Json::as_str) {
            node["name"] = json!(name);
        }
        if !extras.is_empty() {
            node["extras"] = Json::Object(extras);
        }
        if part.elements.is_empty()
            && let Some(primitive) = primitive.as_object_mut()
        {
            primitive["mode"] = json!(0); // points, for vertices without elements
            primitive.remove("indices");
        }
        self.meshes.push(json!({"primitives": [primitive]}));
        self.nodes.push(node);
        Ok(())
    }

    fn push_view(&mut self, bytes: &[u8], stride: Option<usize>, target: u32) -> usize {
        let offset = self.binary.len();
        self.binary.extend_from_slice(bytes);
        self.binary.resize(self.binary.len().next_multiple_of(4), 0);
        let mut view = json!({
            "buffer": 0, "byteOffset": offset, "byteLength": bytes.len(), "target": target,
        });
        if let Some(stride) = stride {
            view["byteStride"] = json!(stride);
        }
        self.views.push(view);
        self.views.len() - 1
    }

    fn push_accessor(&mut self, accessor: Json) -> usize {
        self.accessors.push(accessor);
        self.accessors.len() - 1
    }

    fn push_positions(&mut self, points: &[[f64; 3]], middle: [f64; 3]) -> usize {
        let (mut low, mut high) = ([f32::INFINITY; 3], [f32::NEG_INFINITY; 3]);
        let mut bytes = Vec::with_capacity(points.len() * 12);
        for point in points {
            for (axis, x) in point.iter().enumerate() {
                let x = nearest_f32(x - middle[axis]);
                low[axis] = low[axis].min(x);
                high[axis] = high[axis].max(x);
                bytes.extend(x.to_le_bytes());
            }
        }
        let view = self.push_view(&bytes, None, VERTICES);
        self.push_accessor(json!({
            "bufferView": view, "componentType": 5126, "count": points.len(), "type": "VEC3",
            "min": low, "max": high,
        }))
    }

    fn push_attribute(&mut self, field: &Field, rows: &[usize], to: &mut Map<String, Json>) {
        let is_text = field.column.dtype().kind == DtypeKind::Text;
        let width = usize_from_u32(field.column.width());
        if is_text {
            return; // listed as a loss before
        }
        let step = if width <= 4 { width } else { 1 };
        for first in (0..width).step_by(step) {
            let is_whole = step == width;
            let name = if is_whole { field.name.to_string() } else { value_name(field, first) };
            let name = attribute_name(&name);
            let accessor = self.push_values(&field.column, first..first + step, rows, &name);
            to.insert(name, json!(accessor));
        }
    }

    fn push_values(
        &mut self,
        column: &Column,
        places: std::ops::Range<usize>,
        rows: &[usize],
        name: &str,
    ) -> usize {
        let (code, size) = match (column.dtype().kind, column.dtype().size) {
            (DtypeKind::Int, 1) => (5120, 1),
            (DtypeKind::UInt | DtypeKind::Bool, 1) => (5121, 1),
            (DtypeKind::Int, 2) => (5122, 2),
            (DtypeKind::UInt, 2) => (5123, 2),
            _ => (5126, 4),
        };
        let width = places.len();
        let stride = (width * size).next_multiple_of(4);
        let mut bytes = Vec::with_capacity(rows.len() * stride);
        for row in rows {
            if size == 4 {
                for c in places.clone() {
                    let x = nearest_f32(column.float(*row, c).unwrap_or(f64::NAN));
                    bytes.extend(x.to_le_bytes());
                }
            } else {
                let row = column.row(*row);
                bytes.extend_from_slice(&row[places.start * size..places.end * size]);
            }
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        let view = self.push_view(&bytes, Some(stride), VERTICES);
        let kind = ["SCALAR", "VEC2", "VEC3", "VEC4"][width - 1];
        let mut accessor = json!({
            "bufferView": view, "componentType": code, "count": rows.len(), "type": kind,
        });
        if name.starts_with("COLOR_") && size < 4 {
            accessor["normalized"] = json!(true);
        }
        self.push_accessor(accessor)
    }

    fn push_indices(&mut self, indices: Vec<usize>, vertices: usize) -> Result<usize> {
        let short = vertices < 65_535; // the largest number is reserved for primitive restart
        let mut bytes = Vec::with_capacity(indices.len() * 4);
        for index in &indices {
            let index = u32::try_from(*index).ok().filter(|index| *index < u32::MAX);
            let Some(index) = index else {
                let what = format!("an object of {vertices} vertices");
                return Err(cannot_hold("glTF", what, "write it in parts"));
            };
            let index = index.to_le_bytes();
            bytes.extend_from_slice(if short { &index[..2] } else { &index });
        }
        let view = self.push_view(&bytes, None, INDICES);
        let code = if short { 5123 } else { 5125 };
        Ok(self.push_accessor(json!({
            "bufferView": view, "componentType": code, "count": indices.len(), "type": "SCALAR",
        })))
    }

    fn write(self, unit: Option<&str>, out: &mut Target<'_>) -> Result<()> {
        let mut asset = json!({"version": "2.0", "generator": "zvf"});
        if let Some(unit) = unit {
            asset["extras"] = json!({"unit": unit});
        }
        let mut document = json!({
            "asset": asset, "scene": 0, "scenes": [{"nodes": [0]}], "nodes": self.nodes,
        });
        if !self.meshes.is_empty() {
            document["meshes"] = json!(self.meshes);
            document["accessors"] = json!(self.accessors);
            document["bufferViews"] = json!(self.views);
            document["buffers"] = json!([{"byteLength": self.binary.len()}]);
        }
        let mut text = document.to_string().into_bytes();
        text.resize(text.len().next_multiple_of(4), b' ');
        let binary = if self.meshes.is_empty() { 0 } else { 8 + self.binary.len() };
        let total = 20 + text.len() + binary;
        let word = |size: usize| {
            let advice = "write it in parts: a file has at most 4 GiB";
            narrow::<u32, _>(size, "GLB", format_args!("{size} bytes"), advice)
        };
        out.write_all(b"glTF\x02\0\0\0")?;
        out.write_all(&word(total)?.to_le_bytes())?;
        out.write_all(&word(text.len())?.to_le_bytes())?;
        out.write_all(b"JSON")?;
        out.write_all(&text)?;
        if binary > 0 {
            out.write_all(&word(self.binary.len())?.to_le_bytes())?;
            out.write_all(b"BIN\0")?;
            out.write_all(&self.binary)?;
        }
        Ok(())
    }
}

fn middle_of(points: &[[f64; 3]]) -> [f64; 3] {
    std::array::from_fn(|axis| {
        let all = points.iter().map(|point| point[axis]);
        let (low, high) = all
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
        low / 2.0 + high / 2.0
    })
}

/// Returns the glTF name of an attribute: a name of the format stays, any other gets an underscore.
fn attribute_name(name: &str) -> String {
    let is_valid =
        name.starts_with("COLOR_") || name.starts_with("TEXCOORD_") || name.starts_with('_');
    if is_valid { name.to_owned() } else { format!("_{name}") }
}

/// Returns the id and the attributes of an object.
fn collect_extras(input: &CollectedInput, id: Option<ObjectId>) -> Result<Map<String, Json>> {
    let mut extras = Map::new();
    let Some(id) = id else { return Ok(extras) };
    extras.insert("object_id".to_owned(), json!(id.0));
    let Some(row) = input.object_row(id) else { return Ok(extras) };
    for field in &input.object_fields {
        extras.insert(field.name.to_string(), row_to_json(field, row, value_to_json)?);
    }
    Ok(extras)
}

/// Targets of buffer views: `ARRAY_BUFFER` and `ELEMENT_ARRAY_BUFFER`.
const VERTICES: u32 = 34_962;
const INDICES: u32 = 34_963;
