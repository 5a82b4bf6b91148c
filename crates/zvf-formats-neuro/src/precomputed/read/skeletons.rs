//! Skeletons: the vertices, edges and vertex attributes of each object.
//!
//! ```text
//! u32 vertices, u32 edges; positions f32[n][3]; edges u32[m][2]; then each attribute of `info`, without padding
//! ```
//!
//! The kind `skeleton` requires trees, so a folder with a forest or a cycle is a graph. All objects are checked before
//! the first is yielded. Edges of trees are oriented from child to parent; the first vertex is the root.

use serde_json::Value as Json;
use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::{nearest_f32, to_u64};
use zvf_formats::{
    Affine, FileReader, NamedValues, ReadOptions, RecordField, RecordNumbers, Values,
    VertexBuilder, default_axes, json_items, record_bytes, row_number,
};
use zvf_metadata::Dtype;
use zvf_model::flow::{ElementHeader, Piece};
use zvf_model::{Elements, Kind, ObjectId};

use crate::precomputed::read::folder::{Folder, spot};
use crate::precomputed::read::properties::parse_property_type;
use crate::precomputed::read::shards::Sharding;
use crate::precomputed::read::{Objects, check_new_name, describe_segments, read_id, show_member};

pub(crate) fn open(
    folder: &Folder,
    info: &Json,
    properties: Option<&Json>,
    options: &ReadOptions,
) -> Result<FileReader> {
    if info.get("annotation_type").is_some() {
        let found = "that of skeletons, and an annotation_type";
        return spot("info @type").refuse(Class::BadTag, "neuroglancer_annotations_v1", found);
    }
    let attributes = parse_attributes(info)?;
    let transform = parse_transform(info)?;
    let sharding = Sharding::parse(&info["sharding"], "info")?;
    let objects = Objects::list(folder, sharding)?.select(options.segments.as_deref())?;
    let declared_transform = transform.unwrap_or(Affine::IDENTITY);
    let (space, applied_transform) = declared_transform.to_space(options.apply_space);
    let layout = SkeletonLayout { attributes, transform: applied_transform };
    let kind = match options.kind {
        Some(kind @ (Kind::Graph | Kind::Skeleton | Kind::PointCloud)) => kind,
        Some(kind) => {
            let expected = "skeleton, graph or point_cloud";
            return spot("the folder").refuse(Class::Unsupported, expected, kind);
        }
        None => layout.infer_kind(&objects)?,
    };
    let fields = layout.attributes.iter().map(|attribute| {
        NamedValues::new(attribute.name.as_str(), attribute.dtype, attribute.width)
    });
    let positions = Values::new(Dtype::FLOAT32, 3);
    let mut vertices = VertexBuilder::new(kind, positions, fields.collect(), true);
    let mut header = vertices.header(default_axes(3))?;
    if options.apply_space || declared_transform == Affine::IDENTITY {
        header = header.with_unit("nanometer");
    }
    header.elements =
        kind.has_links().then(|| ElementHeader { width: Some(2), fields: Vec::new() });
    if transform.is_none() {
        header.notes.push("info has no transform: vertices are taken for nm".to_owned());
    }
    header.space = space;
    let ids: Vec<u64> = objects.ids().collect();
    let last = Some(describe_segments(&ids, Some(info), properties, &mut header)?);
    let batch_rows = options.batch_rows.max(1);
    let mut pieces = Pieces { objects, layout, vertices, next: 0, last, batch_rows };
    Ok(FileReader::from_steps(header, move || pieces.read_next()))
}

fn parse_attributes(info: &Json) -> Result<Vec<RecordField>> {
    let mut attributes: Vec<RecordField> = Vec::new();
    for (at, json) in json_items(&info["vertex_attributes"]).iter().enumerate() {
        let place = format!("info vertex_attributes[{at}]");
        let name = read_id(json, &place)?.to_owned();
        let type_name = json["data_type"].as_str().unwrap_or_default();
        let Some((dtype, 1)) = parse_property_type(type_name) else {
            let expected = "float32, or a whole number of at most 32 bits";
            return spot(&place).refuse(Class::BadTag, expected, format!("{type_name:?}"));
        };
        let width = json["num_components"].as_u64();
        let width = width.and_then(|width| u32::try_from(width).ok());
        let width = width.filter(|width| (1..=MAX_COMPONENTS).contains(width));
        let expected = format_args!("1 to {MAX_COMPONENTS} components");
        let found = show_member(json.get("num_components"));
        let width = spot(&place).need(width, Class::LimitExceeded, expected, found)?;
        check_new_name(&place, &name, attributes.iter().map(|attribute| &*attribute.name))?;
        attributes.push(RecordField { name, dtype, width });
    }
    Ok(attributes)
}

/// Parses the transform from stored positions to nanometres.
pub(crate) fn parse_transform(info: &Json) -> Result<Option<Affine>> {
    let json = &info["transform"];
    if json.is_null() {
        return Ok(None);
    }
    let numbers: Option<Vec<f64>> =
        json.as_array().and_then(|list| list.iter().map(Json::as_f64).collect());
    let rows =
        numbers.filter(|numbers| numbers.len() == 12 && numbers.iter().all(|x| x.is_finite()));
    let rows = rows.and_then(|numbers| <[[f64; 4]; 3]>::try_from(numbers.as_chunks::<4>().0).ok());
    rows.map(|rows| Some(Affine(rows))).ok_or_else(|| {
        let found: String = json.to_string().chars().take(60).collect();
        spot("info transform").error(Class::BadShape, "12 numbers", found)
    })
}

/// The layout that all skeletons of a folder share.
struct SkeletonLayout {
    attributes: Vec<RecordField>,
    transform: Affine,
}

/// A stored skeleton, split into its parts.
struct Skeleton<'a> {
    vertices: usize,
    positions: &'a [u8],
    edges: Vec<[usize; 2]>,
    attributes: Vec<&'a [u8]>,
}

impl SkeletonLayout {
    /// Parses a skeleton, whose length must be exact.
    fn parse<'a>(&self, name: &str, bytes: &'a [u8]) -> Result<Skeleton<'a>> {
        let expected = "two counts of 32 bits";
        spot(name).ensure(bytes.len() >= 8, Class::Truncated, expected, bytes.len())?;
        let [vertices, edges] = [0, 4].map(|at| u64::from(RecordNumbers::new(bytes).u32(at)));
        let vertex_bytes = to_u64(record_bytes(&self.attributes)) + 12;
        let len = u128::from(vertices) * u128::from(vertex_bytes) + u128::from(edges) * 8 + 8;
        let expected = format_args!("{len} bytes for {vertices} vertices and {edges} edges");
        let class = if len > bytes.len() as u128 { Class::Truncated } else { Class::Trailing };
        spot(name).ensure(len == bytes.len() as u128, class, expected, bytes.len())?;
        let (vertices, edges) = (vertices as usize, edges as usize);
        let (positions, rest) = bytes[8..].split_at(vertices * 12);
        let (links, mut rest) = rest.split_at(edges * 8);
        let mut pairs = Vec::with_capacity(edges);
        for (at, pair) in links.chunks_exact(8).enumerate() {
            let pair = [0, 4].map(|end| RecordNumbers::new(pair).u32(end) as usize);
            if let Some(beyond) = pair.iter().find(|end| **end >= vertices) {
                let place = format!("{name}, edge {at}");
                let expected = format!("a vertex below {vertices}");
                return spot(&place).refuse(Class::OutOfBounds, expected, beyond);
            }
            pairs.push(pair);
        }
        let mut attributes = Vec::with_capacity(self.attributes.len());
        for attribute in &self.attributes {
            let (values, after) = rest.split_at(vertices * attribute.size());
            attributes.push(values);
            rest = after;
        }
        Ok(Skeleton { vertices, positions, edges: pairs, attributes })
    }

    /// Returns `Skeleton` if every object is one tree, `Graph` otherwise.
    fn infer_kind(&self, objects: &Objects) -> Result<Kind> {
        for at in 0.. {
            let Some((_, name, bytes)) = objects.read(at)? else { break };
            let skeleton = self.parse(&name, &bytes)?;
            if find_flipped_edges(&skeleton).is_none() {
                return Ok(Kind::Graph);
            }
        }
        Ok(Kind::Skeleton)
    }

    /// Appends the transformed positions to `to`.
    fn transform_positions(&self, positions: &[u8], to: &mut Values) {
        if self.transform == Affine::IDENTITY {
            to.push_bytes(positions);
            return;
        }
        for position in positions.as_chunks::<12>().0 {
            let stored = [0, 4, 8].map(|at| f64::from(RecordNumbers::new(position).f32(at)));
            for x in self.transform.apply(stored) {
                to.push_bytes(&nearest_f32(x).to_le_bytes());
            }
        }
    }

    /// Returns the mean scale factor of lengths, the cube root of the determinant.
    fn length_scale(&self) -> f64 {
        self.transform.determinant().abs().cbrt()
    }
}

/// Returns for each edge whether it has to be flipped to point from child to parent. Returns `None`
/// if the skeleton is not a single tree.
fn find_flipped_edges(skeleton: &Skeleton<'_>) -> Option<Vec<bool>> {
    if skeleton.vertices == 0 || skeleton.edges.len() + 1 != skeleton.vertices {
        return (skeleton.vertices == 0 && skeleton.edges.is_empty()).then(Vec::new);
    }
    let mut incident_edges: Vec<Vec<usize>> = vec![Vec::new(); skeleton.vertices];
    for (at, [a, b]) in skeleton.edges.iter().enumerate() {
        incident_edges[*a].push(at);
        incident_edges[*b].push(at);
    }
    let mut is_flipped = vec![false; skeleton.edges.len()];
    let mut is_visited = vec![false; skeleton.vertices];
    let (mut stack, mut count) = (vec![0], 1);
    is_visited[0] = true;
    while let Some(parent) = stack.pop() {
        for at in &incident_edges[parent] {
            let [a, b] = skeleton.edges[*at];
            let child = if a == parent { b } else { a };
            if !is_visited[child] {
                is_visited[child] = true;
                count += 1;
                is_flipped[*at] = a == parent;
                stack.push(child);
            }
        }
    }
    (count == skeleton.vertices).then_some(is_flipped)
}

/// Reader of the skeletons, batch by batch.
struct Pieces {
    objects: Objects,
    layout: SkeletonLayout,
    vertices: VertexBuilder,
    next: usize,         // the place of the next object, and its id
    last: Option<Piece>, // the ids and properties of the objects
    batch_rows: usize,
}

impl Pieces {
    fn read_next(&mut self) -> Result<Option<Piece>> {
        let (mut rows, kind) = (Vec::new(), self.vertices.kind());
        while self.vertices.rows() < self.batch_rows {
            let Some((id, name, bytes)) = self.objects.read(self.next)? else { break };
            let skeleton = self.layout.parse(&name, &bytes)?;
            let is_flipped = match kind {
                Kind::Skeleton => find_flipped_edges(&skeleton).ok_or_else(|| {
                    let (edges, vertices) = (skeleton.edges.len(), skeleton.vertices);
                    let found = format!("{edges} edges of {vertices} vertices");
                    let spot = spot(&name).hint("read it with --kind graph");
                    spot.error(Class::Unsupported, format!("one tree of {id}"), found)
                })?,
                _ => vec![false; skeleton.edges.len()],
            };
            let base = self.vertices.rows();
            for ([a, b], is_flipped) in skeleton.edges.iter().zip(is_flipped) {
                let (a, b) = if is_flipped { (*b, *a) } else { (*a, *b) };
                rows.extend([base + a, base + b]);
            }
            self.push_vertices(&skeleton);
        }
        if self.vertices.rows() == 0 {
            return Ok(self.last.take());
        }
        let mut batch = self.vertices.take_batch()?;
        if kind.has_links() {
            batch = batch.with_elements(Elements::new(2, rows)?)?;
        }
        Ok(Some(Piece::Vertices(batch)))
    }

    /// Adds the vertices of the next object.
    fn push_vertices(&mut self, skeleton: &Skeleton<'_>) {
        let VertexBuilder { positions, fields, .. } = &mut self.vertices;
        self.layout.transform_positions(skeleton.positions, positions);
        let scale = self.layout.length_scale();
        for (field, values) in fields.iter_mut().zip(&skeleton.attributes) {
            let is_length = field.name == "radius" && field.values.dtype() == Dtype::FLOAT32;
            if is_length && (scale - 1.0).abs() > f64::EPSILON {
                for radius in values.as_chunks::<4>().0 {
                    let radius = f64::from(f32::from_le_bytes(*radius)) * scale;
                    field.values.push_bytes(&nearest_f32(radius).to_le_bytes());
                }
            } else {
                field.values.push_bytes(values);
            }
        }
        self.vertices.end_rows(skeleton.vertices, Some(ObjectId(row_number(self.next))), 0);
        self.next += 1;
    }
}

const MAX_COMPONENTS: u32 = 4096;
