//! Writer of Neuroglancer precomputed: annotations, skeletons or meshes in a folder.
//!
//! ```text
//! skeleton, graph                skeletons: ID, u32 counts, positions, edges, attributes; in shards with
//!                                `precomputed.shard_bits`
//! mesh                           legacy meshes: ID:0 and one fragment each; with `precomputed.mesh` multilod, or in shards:
//!                                ID.index and ID
//! point_cloud, line, polyline    annotations: by_id/ID, rel_NAME/ID, spatial0/X_Y_Z, or shards of each
//! ```
//!
//! Lengths are nanometres. The id of an object is its attribute `segment_id` or `annotation_id` if
//! it has one, otherwise its number. Attributes of objects are segment properties, or the
//! properties of annotations, sorted by width, because some readers expect that order in a record.
//! Everything is collected until the input ends.
//!
//! A multilod mesh may begin several times: each time with its next coarser level, whose header has the size of its
//! detail as the record [`LOD_SCALE`].
//!
//! Not here: octrees of fragments.

mod annotations;
mod segments;
mod sharded;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;

use serde_json::{Value as Json, json};
use zvf_error::Result;
use zvf_format::num::to_u64;
use zvf_formats::{
    CollectedInput, CollectedPieces, FormatOptions, Millimeters, Opened, Target, cannot_hold,
    counted_loss, field_value, find_record, second_kind, value_name,
};
use zvf_metadata::DtypeKind;
use zvf_model::flow::{FlowReport, Group, Header, Loss, Piece, Sink};
use zvf_model::{Batch, Column, Field, Kind, ObjectId, Value};

use crate::precomputed::read::shards::Sharding;

pub(crate) fn open<'a>(target: Target<'a>, options: &FormatOptions) -> Opened<'a> {
    let folder = Folder(target.into_folder("precomputed")?);
    let sharding = parse_sharding(options)?;
    let is_multilod = match options.extra.get("precomputed.mesh").map(Json::as_str) {
        // Legacy meshes have neither shards nor levels.
        None => sharding.is_some() || options.extra.contains_key("precomputed.lods"),
        Some(Some("multilod")) => true,
        Some(Some("legacy")) if sharding.is_none() => false,
        Some(_) => {
            let what = "a value of precomputed.mesh".to_owned();
            return Err(cannot_hold(
                "precomputed",
                what,
                "give multilod, or legacy without shards",
            ));
        }
    };
    Ok(Box::new(PrecomputedWriter {
        folder,
        sharding,
        is_multilod,
        options: options.clone(),
        collected: Vec::new(),
    }))
}

/// Parses the options of shards; `None` without them.
fn parse_sharding(options: &FormatOptions) -> Result<Option<Sharding>> {
    let bits = |name: &str| -> Result<Option<u32>> {
        let Some(option) = options.extra.get(name) else { return Ok(None) };
        let bits = option.as_u64().and_then(|bits| u32::try_from(bits).ok());
        bits.filter(|bits| *bits <= MAX_SHARD_BITS).map(Some).ok_or_else(|| {
            let what = format!("{name} of {option}");
            cannot_hold("precomputed", what, "give a number of bits from 0 to 16")
        })
    };
    let shards = bits("precomputed.shard_bits")?;
    let minishards = bits("precomputed.minishard_bits")?.unwrap_or(DEFAULT_MINISHARD_BITS);
    Ok(shards.map(|shards| Sharding::from_bits(shards, minishards)))
}

/// Name of the header record of the largest distance of a level from the finest one, in the unit of the level.
pub const LOD_SCALE: &str = "lod_scale";
/// Largest number of shard bits, and of minishard bits: it limits the number of files, and the table of each.
const MAX_SHARD_BITS: u32 = 16;
/// Default bits of the minishards of a shard.
const DEFAULT_MINISHARD_BITS: u32 = 6;

struct PrecomputedWriter {
    folder: Folder,
    sharding: Option<Sharding>,
    is_multilod: bool,
    options: FormatOptions,
    /// The input, level by level of a mesh.
    collected: Vec<CollectedPieces>,
}

/// The target folder, which the caller publishes. The contents of files are synced here; directories are synced by the
/// publisher, in the command `zvf_publish::StagingDir`.
struct Folder(PathBuf);

impl Folder {
    fn write(&self, key: &str, bytes: &[u8]) -> Result<()> {
        let path = self.0.join(key);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut file = File::create_new(path)?;
        file.write_all(bytes)?;
        Ok(file.sync_all()?)
    }

    fn write_json(&self, key: &str, json: &Json) -> Result<()> {
        self.write(key, json.to_string().as_bytes())
    }
}

/// The complete input of one level, by object.
struct Objects {
    header: Header,
    batch: Batch,
    rows: BTreeMap<u64, Vec<usize>>, // of vertices, by id
    ids: BTreeMap<ObjectId, u64>,
    fields: Vec<Field>,                // of objects, without the id
    object_rows: BTreeMap<u64, usize>, // rows of `fields`, by id
    groups: Vec<Group>,
    lengths: Millimeters,
    unowned_vertices: usize, // where other vertices have an object
    zero_values: u64,        // of attributes: written where a value is missing
}

impl Sink for PrecomputedWriter {
    fn begin(&mut self, header: &Header) -> Result<()> {
        let is_mesh = |header: &Header| self.is_multilod && header.kind == Kind::Mesh;
        let mut before = self.collected.iter();
        if !before.all(|before| is_mesh(&before.header) && is_mesh(header)) {
            return Err(second_kind("precomputed"));
        }
        self.collected.push(CollectedPieces::new(header, &self.options, "precomputed"));
        Ok(())
    }

    fn write(&mut self, piece: Piece) -> Result<()> {
        self.collected.last_mut().map_or(Ok(()), |collected| collected.push(piece))
    }

    fn finish(self: Box<Self>) -> Result<FlowReport> {
        let levels = self.collected.into_iter().map(|level| Objects::new(level.finish()?));
        let mut levels: Vec<Objects> = levels.collect::<Result<_, _>>()?;
        let (objects, coarser) = match levels.split_first_mut() {
            Some((first, rest)) => (first, &*rest),
            None => return Ok(FlowReport::default()),
        };
        let mut report = FlowReport {
            vertices: to_u64(objects.batch.len() - objects.unowned_vertices),
            objects: to_u64(objects.rows.len()),
            elements: to_u64(objects.count_owned_elements()),
            losses: Vec::new(),
        };
        match objects.header.kind {
            Kind::Skeleton | Kind::Graph => {
                segments::write_skeletons(&self.folder, self.sharding, objects)?;
            }
            Kind::Mesh if self.is_multilod => {
                segments::write_multilod(&self.folder, self.sharding, objects, coarser)?;
                report.losses.push(Loss::new(
                    "positions are rounded to 65535 steps of the box of each object".to_owned(),
                ));
            }
            Kind::Mesh => segments::write_meshes(&self.folder, objects)?,
            _ => {
                let sharding = self.sharding;
                annotations::write(&self.folder, sharding, objects, &mut report.losses)?;
            }
        }
        report.losses.extend(objects.lengths.losses("coordinate or attribute value"));
        let sentence = "missing or not finite, written as 0";
        report.losses.extend(counted_loss(objects.zero_values, "attribute value", sentence));
        let levels = [&*objects].into_iter().chain(coarser);
        let dropped: usize = levels.map(|level| level.unowned_vertices).sum();
        let sentence = "without an object dropped: precomputed holds objects only";
        report.losses.extend(counted_loss(dropped, "vertex", sentence));
        Ok(report)
    }
}

impl Objects {
    fn new(input: CollectedInput) -> Result<Self> {
        let CollectedInput { header, batch, objects, object_fields: fields, groups, .. } = input;
        let id_field = header.id_field.as_deref();
        let id_column = fields.iter().find(|field| Some(&*field.name) == id_field);
        let mut ids = BTreeMap::new();
        let mut object_rows = BTreeMap::new();
        for (row, object) in objects.iter().enumerate() {
            let id = match id_column.map(|field| field.column.value(row, 0)) {
                Some(Value::UInt(id)) => id,
                Some(Value::Int(id)) => to_id(id)?,
                _ => to_id(object.0)?,
            };
            ids.insert(*object, id);
            if object_rows.insert(id, row).is_some() {
                let what = format!("two objects of the id {id}");
                let advice = "ids must differ: leave the column of ids out";
                return Err(cannot_hold("precomputed", what, advice));
            }
        }
        let mut rows: BTreeMap<u64, Vec<usize>> =
            object_rows.keys().map(|id| (*id, Vec::new())).collect();
        let is_chain = header.kind.is_chain();
        let points = header.kind == Kind::PointCloud && !header.objects;
        let mut add = |object: ObjectId, row: usize| -> Result<()> {
            let id = match ids.get(&object) {
                Some(id) => *id,
                None => *ids.entry(object).or_insert(to_id(object.0)?),
            };
            rows.entry(id).or_default().push(row);
            Ok(())
        };
        for part in batch.parts().iter() {
            for row in part.rows {
                add(part.object, row)?;
            }
        }
        let mut unowned_vertices = 0;
        if batch.parts().is_empty() {
            let owners = batch.vertex_objects().unwrap_or_default();
            let has_owners = owners.iter().any(Option::is_some);
            for (row, number) in (0..batch.len()).zip(0_i64..) {
                match owners.get(row).copied().flatten() {
                    Some(owner) => add(owner, row)?,
                    // A generated id could be that of another object.
                    None if has_owners => unowned_vertices += 1,
                    None if points => add(ObjectId(number), row)?,
                    None if is_chain => add(ObjectId(number / 2), row)?,
                    None => add(ObjectId(0), row)?,
                }
            }
        }
        let fields =
            fields.into_iter().filter(|field| Some(&*field.name) != header.id_field.as_deref());
        let fields = fields.filter(|f| f.column.dtype().kind != DtypeKind::Text).collect();
        let lengths = Millimeters::nanometers(&header);
        Ok(Self {
            header,
            batch,
            rows,
            ids,
            fields,
            object_rows,
            groups,
            lengths,
            unowned_vertices,
            zero_values: 0,
        })
    }

    /// Counts the edges or faces whose vertices belong to objects.
    fn count_owned_elements(&self) -> usize {
        let Some(elements) = self.batch.elements() else { return 0 };
        if self.unowned_vertices == 0 {
            return elements.len();
        }
        let owners = self.batch.vertex_objects().unwrap_or_default();
        let has_owner = |row: &usize| owners.get(*row).copied().flatten().is_some();
        elements.iter().filter(|element| element.first().is_some_and(has_owner)).count()
    }

    /// Returns a coordinate of a vertex in nanometres.
    fn coordinate(&self, row: usize, axis: usize) -> f64 {
        let x = self.batch.positions().float(row, axis); // none of an axis that there is not
        x.map_or(0.0, |x| self.lengths.convert_length(x))
    }

    /// Returns the largest distance of this level from the finest one, in nanometres.
    fn lod_scale(&self) -> f64 {
        let scale = find_record(&self.header, LOD_SCALE).as_f64().unwrap_or(0.0);
        self.lengths.convert_length(scale)
    }

    /// Returns the stored position of a vertex in three axes.
    fn position(&mut self, row: usize) -> [f32; 3] {
        [0, 1, 2].map(|axis| self.lengths.round_to_f32(self.coordinate(row, axis)))
    }

    /// Appends the stored position of a vertex.
    fn push_position(&mut self, row: usize, to: &mut Vec<u8>) {
        let width = self.batch.positions().width() as usize;
        for axis in 0..width {
            let x = self.lengths.convert_coordinate(self.batch.positions(), row, axis);
            to.extend_from_slice(&self.lengths.round_to_f32(x).to_le_bytes());
        }
    }
}

fn to_id(id: i64) -> Result<u64> {
    u64::try_from(id).map_err(|_negative| {
        let advice = "ids are 0 or more: renumber the objects";
        cannot_hold("precomputed", format!("the id {id}"), advice)
    })
}

/// Returns the type of the property of a column: its own where the format has it, otherwise `float32`.
fn property_type(column: &Column) -> &'static str {
    let types = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "float32"];
    let name = column.dtype().to_string();
    if column.dtype().kind == DtypeKind::Bool {
        return "uint8";
    }
    types.into_iter().find(|dtype| *dtype == name).unwrap_or("float32")
}

/// Appends a value in the type of its property.
fn push_value(field: &Field, row: usize, at: usize, lengths: &mut Millimeters, to: &mut Vec<u8>) {
    let (column, dtype) = (&field.column, field.column.dtype());
    let size = dtype.size as usize;
    if dtype.kind == DtypeKind::Bool || dtype.to_string() == property_type(column) {
        to.extend_from_slice(&column.row(row)[at * size..][..size]);
        return;
    }
    let wide = column.float(row, at).unwrap_or(f64::NAN);
    to.extend_from_slice(&lengths.round_to_f32(wide).to_le_bytes());
}

/// Returns the `info` of the input, if that is precomputed too.
fn recorded_info(header: &Header) -> &Json {
    &find_record(header, "precomputed")["info"]
}

/// Writes the segment properties to a separate folder, if there are any, and notes it in `of`.
fn write_segment_properties(folder: &Folder, objects: &mut Objects, of: &mut Json) -> Result<()> {
    if objects.fields.is_empty() {
        return Ok(());
    }
    let ids: Vec<String> = objects.rows.keys().map(u64::to_string).collect();
    let mut properties = Vec::new();
    for field in &objects.fields {
        let width = field.column.width() as usize;
        for at in 0..width {
            let name = value_name(field, at);
            let values = objects.rows.keys().map(|id| {
                let row = objects.object_rows.get(id);
                row.map(|row| field_value(field, *row, at)).transpose()
            });
            let values = values.collect::<Result<Vec<Option<Value>>>>()?.into_iter();
            properties.push(if field.categories.is_some() {
                let texts = values.map(|value| match value {
                    None | Some(Value::Null) => String::new(),
                    Some(value) => value.to_string(),
                });
                json!({"id": name, "type": "string", "values": texts.collect::<Vec<_>>()})
            } else {
                let numbers = values.map(|value| match value {
                    Some(Value::Int(n)) => json!(n),
                    Some(Value::UInt(n)) => json!(n),
                    Some(Value::Bool(flag)) => json!(u8::from(flag)),
                    Some(Value::Float(x)) if x.is_finite() => json!(x),
                    _ => {
                        objects.zero_values += 1;
                        json!(0)
                    }
                });
                let data_type = property_type(&field.column);
                json!({"id": name, "type": "number", "data_type": data_type, "values": numbers.collect::<Vec<_>>()})
            });
        }
    }
    let info = json!({
        "@type": "neuroglancer_segment_properties",
        "inline": {"ids": ids, "properties": properties},
    });
    of["segment_properties"] = json!("segment_properties");
    folder.write_json("segment_properties/info", &info)
}
