//! Writer of `FlatGeobuf`, with a packed Hilbert R-tree over the boxes of features.
//!
//! The tree needs all boxes before the first feature, so features are held until the file ends. Past the memory limit
//! they are written as they come, without a tree and without a count.

use std::io::Write;

use flatbuffers::{FlatBufferBuilder, Push, WIPOffset};
use serde_json::Value as Json;
use zvf_error::{Error, Result};
use zvf_format::num::{index_u32, to_u64, usize_from_u32};
use zvf_formats::crs::code_of;
use zvf_formats::{
    FeatureShape, FeatureSink, FeatureWriter, NewFile, OpenedWriter, Target, cannot_hold,
    count_u32, field_value,
};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::flow::Loss;
use zvf_model::{Field, Value};

use crate::flatgeobuf::read::feature::TYPES;

pub(crate) fn open<'a>(file: NewFile<'a, '_>) -> OpenedWriter<'a> {
    let NewFile { target, options, header } = file;
    FeatureWriter::open(header, options, "FlatGeobuf", |fields| {
        let columns = fields.iter().map(|field| (field.name.to_string(), column_type(field)));
        let crs = header.crs.clone();
        let is_named = crs.as_ref().is_none_or(|crs| code_of(crs).is_some() || is_wkt(crs));
        let loss = Loss::new("the CRS is not stated: it has neither a code nor WKT");
        let sink = Sink {
            out: target,
            memory: options.memory / 2,
            columns: columns.collect(),
            crs,
            held: Some(HeldFeatures::default()),
            axes: header.axes.len(),
        };
        Ok((sink, Some(loss).filter(|_| !is_named).into_iter().collect()))
    })
}

struct Sink<'a> {
    out: Target<'a>,
    memory: u64,
    columns: Vec<(String, u8)>, // name, type
    crs: Option<Json>,
    /// Features held for the tree; `None` once they are written without a tree.
    held: Option<HeldFeatures>,
    axes: usize,
}

#[derive(Default)]
struct HeldFeatures {
    bytes: Vec<u8>,
    features: Vec<Item>,
    kinds: Vec<u8>,
}

/// A held feature.
struct Item {
    bounds: [f64; 4],
    at: usize,
    len: usize,
}

impl FeatureSink for Sink<'_> {
    fn write(&mut self, shape: &FeatureShape, fields: &[Field], row: usize) -> Result<()> {
        let (kind, _) = shape.geometry_type();
        let feature = encode_feature(shape, kind, fields, &self.columns, row)?;
        let Some(held) = &mut self.held else { return Ok(self.out.write_all(&feature)?) };
        held.features.push(Item {
            bounds: compute_bounds(shape),
            at: held.bytes.len(),
            len: feature.len(),
        });
        held.bytes.extend_from_slice(&feature);
        if !shape.parts.is_empty() && !held.kinds.contains(&kind) {
            held.kinds.push(kind);
        }
        if let Some(held) = self.held.take_if(|held| to_u64(held.bytes.len()) > self.memory) {
            let header = self.encode_header(0, 0, 0, None);
            self.out.write_all(MAGIC)?;
            self.out.write_all(&header)?;
            self.out.write_all(&held.bytes)?;
        }
        Ok(())
    }

    fn end(mut self: Box<Self>, _: &mut Vec<Loss>) -> Result<()> {
        if let Some(mut held) = self.held.take() {
            let all = held.features.iter().map(|item| item.bounds).fold(EMPTY_BOX, unite_boxes);
            // A feature without a geometry has no box, so there is no tree.
            let has_tree = held.features.iter().all(|item| item.bounds[0] <= item.bounds[2])
                && !held.features.is_empty();
            let width = if has_tree { NODE_WIDTH } else { 0 };
            if has_tree {
                held.features.sort_by_key(|item| hilbert_index(item.bounds, all));
            }
            held.kinds.sort_unstable();
            let kind = match held.kinds[..] {
                [only] => only,
                // GDAL has no unknown type with heights, and reads a single part as several.
                [_, several @ (4 | 5)] if self.axes == 3 => several,
                _ => 0,
            };
            let count = to_u64(held.features.len());
            let extent = has_tree.then_some(all);
            let header = self.encode_header(kind, count, width, extent);
            self.out.write_all(MAGIC)?;
            self.out.write_all(&header)?;
            if has_tree {
                let tree = encode_tree(&held.features);
                self.out.write_all(&tree)?;
            }
            for item in &held.features {
                self.out.write_all(&held.bytes[item.at..item.at + item.len])?;
            }
        }
        Ok(self.out.flush()?)
    }
}

impl Sink<'_> {
    fn encode_header(&self, kind: u8, count: u64, width: u16, extent: Option<[f64; 4]>) -> Vec<u8> {
        let mut to = FlatBufferBuilder::new();
        let mut columns = Vec::new();
        for (name, kind) in &self.columns {
            let name = to.create_string(name);
            let column = to.start_table();
            to.push_slot_always(slot(0), name);
            to.push_slot(slot(1), *kind, 0);
            columns.push(to.end_table(column));
        }
        let columns = to.create_vector(&columns);
        let extent = extent.map(|extent| to.create_vector(&extent));
        let crs = self.crs.as_ref().and_then(|crs| write_crs(&mut to, crs));
        let header = to.start_table();
        push_some(&mut to, 1, extent);
        to.push_slot(slot(2), kind, 0);
        to.push_slot(slot(3), self.axes == 3, false);
        to.push_slot_always(slot(7), columns);
        to.push_slot(slot(8), count, 0);
        to.push_slot(slot(9), width, 16);
        push_some(&mut to, 10, crs);
        let header = to.end_table(header);
        to.finish_size_prefixed(header, None);
        to.finished_data().to_vec()
    }
}

type Offset = WIPOffset<flatbuffers::TableFinishedWIPOffset>;

fn is_wkt(crs: &Json) -> bool {
    crs.as_str().is_some_and(|text| text.contains('['))
}

fn write_crs(to: &mut FlatBufferBuilder<'_>, crs: &Json) -> Option<Offset> {
    let code = code_of(crs);
    let wkt = crs.as_str().filter(|_| is_wkt(crs));
    if code.is_none() && wkt.is_none() {
        return None;
    }
    let org = code.as_ref().map(|(org, _)| to.create_string(org));
    let wkt = wkt.map(|wkt| to.create_string(wkt));
    let table = to.start_table();
    push_some(to, 0, org);
    to.push_slot(slot(1), code.map_or(0, |(_, code)| code), 0);
    push_some(to, 4, wkt);
    Some(to.end_table(table))
}

/// Adds a field, if there is a value.
fn push_some(to: &mut FlatBufferBuilder<'_>, field: u16, value: Option<impl Push>) {
    if let Some(value) = value {
        to.push_slot_always(slot(field), value);
    }
}

/// Returns the offset of a field in the vtable.
const fn slot(field: u16) -> u16 {
    4 + 2 * field
}

/// Returns the type of a column. Types that the format lacks are text, and several values are JSON.
fn column_type(field: &Field) -> u8 {
    if field.column.width() > 1 {
        return 12;
    }
    if let Some(categories) = &field.categories {
        let is_flag = |value: &Value| matches!(value, Value::Bool(_));
        return if categories.values().iter().all(is_flag) { 2 } else { 11 };
    }
    let dtype = field.column.dtype();
    let is_half = dtype.kind == DtypeKind::Float && dtype.size == 2;
    let stored = if is_half { Dtype::FLOAT32 } else { dtype };
    let kind = (0..).zip(TYPES).find(|(_, number)| *number == stored);
    kind.map_or(11, |(kind, _)| kind)
}

/// Encodes a feature with its size in front. A larger one than 2 GiB is refused, as offsets have 32 bits.
fn encode_feature(
    shape: &FeatureShape,
    kind: u8,
    fields: &[Field],
    columns: &[(String, u8)],
    row: usize,
) -> Result<Vec<u8>> {
    let mut to = FlatBufferBuilder::new();
    let properties = encode_properties(fields, columns, row)?;
    let bytes = shape.positions.len() * 8 + shape.parts.len() * 4 + properties.len();
    if bytes > MAX_FEATURE_BYTES {
        let what = format!("a feature of {bytes} bytes");
        return Err(cannot_hold("FlatGeobuf", what, "write it in parts"));
    }
    let properties = to.create_vector(&properties);
    let geometry = (!shape.parts.is_empty()).then(|| encode_geometry(&mut to, shape, kind));
    let table = to.start_table();
    push_some(&mut to, 0, geometry);
    to.push_slot_always(slot(1), properties);
    let table = to.end_table(table);
    to.finish_size_prefixed(table, None);
    Ok(to.finished_data().to_vec())
}

fn encode_geometry(to: &mut FlatBufferBuilder<'_>, shape: &FeatureShape, kind: u8) -> Offset {
    let positions = shape.positions.chunks(shape.axes.max(1));
    let xy: Vec<f64> =
        positions.clone().flat_map(|position| position.iter().take(2)).copied().collect();
    let z: Vec<f64> = positions.flat_map(|position| position.iter().skip(2)).copied().collect();
    let ends = (kind == 5).then(|| {
        let ends = shape.parts.iter().scan(0, |end, part| {
            *end += part.len;
            Some(index_u32(*end))
        });
        to.create_vector(&ends.collect::<Vec<u32>>())
    });
    let z = (!z.is_empty()).then(|| to.create_vector(&z));
    let xy = to.create_vector(&xy);
    let table = to.start_table();
    push_some(to, 0, ends);
    to.push_slot_always(slot(1), xy);
    push_some(to, 2, z);
    to.push_slot(slot(6), kind, 0);
    to.end_table(table)
}

fn encode_properties(fields: &[Field], columns: &[(String, u8)], row: usize) -> Result<Vec<u8>> {
    let mut to = Vec::new();
    for (number, (field, (_, kind))) in (0_u16..).zip(fields.iter().zip(columns)) {
        let mut text = |text: &str| {
            to.extend_from_slice(&number.to_le_bytes());
            let count = count_u32(text.len(), "FlatGeobuf", "bytes of a text")?;
            to.extend_from_slice(&count.to_le_bytes());
            to.extend_from_slice(text.as_bytes());
            Ok::<_, Error>(())
        };
        if *kind == 12 {
            let values: Vec<String> = (0..usize_from_u32(field.column.width()))
                .map(|at| field.column.value(row, at).to_string())
                .collect();
            text(&format!("[{}]", values.join(",")))?;
            continue;
        }
        match field_value(field, row, 0)? {
            Value::Null => {}
            Value::Float(x) if x.is_nan() => {}
            Value::Text(string) => text(&string)?,
            Value::Bool(flag) if *kind == 2 => {
                to.extend_from_slice(&number.to_le_bytes());
                to.push(u8::from(flag));
            }
            value if *kind == 11 => text(&value.to_string())?,
            value => {
                to.extend_from_slice(&number.to_le_bytes());
                to.extend_from_slice(&bytes_of(
                    &value,
                    field.column.dtype(),
                    field.column.row(row),
                ));
            }
        }
    }
    Ok(to)
}

/// Returns the bytes of a number in the type of its column.
#[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "half precision fits")]
fn bytes_of(value: &Value, dtype: Dtype, stored: &[u8]) -> Vec<u8> {
    match value {
        Value::Float(x) if dtype.size == 2 => (*x as f32).to_le_bytes().to_vec(),
        _ => stored.to_vec(),
    }
}

const EMPTY_BOX: [f64; 4] = [f64::INFINITY, f64::INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY];

fn unite_boxes(a: [f64; 4], b: [f64; 4]) -> [f64; 4] {
    [a[0].min(b[0]), a[1].min(b[1]), a[2].max(b[2]), a[3].max(b[3])]
}

fn compute_bounds(shape: &FeatureShape) -> [f64; 4] {
    let positions = shape.positions.chunks(shape.axes.max(1));
    positions.fold(EMPTY_BOX, |all, position| match position {
        [x, y, ..] => unite_boxes(all, [*x, *y, *x, *y]),
        _ => all,
    })
}

/// Returns the position of the middle of a box on a Hilbert curve through the extent of all boxes.
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 16 bits"
)]
fn hilbert_index(bounds: [f64; 4], all: [f64; 4]) -> u64 {
    let scale = |axis: usize| {
        let (low, high) = (all[axis], all[axis + 2]);
        let middle = f64::midpoint(bounds[axis], bounds[axis + 2]);
        let share = if high > low { (middle - low) / (high - low) } else { 0.0 };
        (share * 65535.0).clamp(0.0, 65535.0) as u32
    };
    let (mut x, mut y) = (scale(0), scale(1));
    let mut place = 0_u64;
    for bit in (0..16).rev() {
        let side = 1_u32 << bit;
        let (right, up) = (u32::from(x & side > 0), u32::from(y & side > 0));
        place += u64::from(side) * u64::from(side) * u64::from((3 * right) ^ up);
        if up == 0 {
            if right == 1 {
                (x, y) = (65535 - x, 65535 - y);
            }
            (x, y) = (y, x);
        }
    }
    place
}

/// Encodes the nodes of the tree, root first.
fn encode_tree(features: &[Item]) -> Vec<u8> {
    let mut at = 0_u64;
    let leaves = features.iter().map(|item| {
        let start = at;
        at += to_u64(item.len);
        (item.bounds, start)
    });
    let mut levels: Vec<Vec<([f64; 4], u64)>> = vec![leaves.collect()];
    let width = usize::from(NODE_WIDTH);
    loop {
        let below = levels.last().map_or(&[][..], Vec::as_slice);
        let above: Vec<_> = below
            .chunks(width)
            .zip((0_u64..).step_by(width))
            .map(|(nodes, first)| {
                (
                    nodes.iter().fold(EMPTY_BOX, |all, (node_box, _)| unite_boxes(all, *node_box)),
                    first,
                )
            })
            .collect();
        let is_root = above.len() <= 1;
        levels.push(above);
        if is_root {
            break;
        }
    }
    let mut raw = Vec::new();
    let mut start = 0_u64; // of the level below
    for (height, level) in levels.iter().enumerate().rev() {
        start += to_u64(level.len());
        for (bounds, to) in level {
            bounds.iter().for_each(|x| raw.extend_from_slice(&x.to_le_bytes()));
            let to = if height > 0 { start + to } else { *to };
            raw.extend_from_slice(&to.to_le_bytes());
        }
    }
    raw
}

const MAGIC: &[u8; 8] = b"fgb\x03fgb\0";
const NODE_WIDTH: u16 = 16;
/// Bytes of the values of a feature; offsets within 2 GiB leave room for the tables.
const MAX_FEATURE_BYTES: usize = (1 << 31) - (1 << 16);

#[cfg(test)]
mod tests {
    use zvf_format::num::usize_from_u32;
    use zvf_formats::{Extents, FormatOptions, Input, ReadOptions};
    use zvf_model::flow::Piece;

    use super::slot;
    use crate::shared::{open, pieces};
    use crate::{FLATGEOBUF, GEOJSON};

    fn convert(text: String, memory: u64) -> Vec<u8> {
        let input = Input::reader(std::io::Cursor::new(text.into_bytes()));
        let reader = open(input, Some(&GEOJSON), &ReadOptions::default()).unwrap();
        let options = FormatOptions { memory, ..FormatOptions::default() };
        crate::shared::convert(reader, &FLATGEOBUF, &options).unwrap().0
    }

    #[test]
    fn features_come_back() {
        let text = r#"{"type":"FeatureCollection","features":[
{"type":"Feature","id":7,"properties":{"a":1,"t":"x","b":true},"geometry":{"type":"MultiLineString","coordinates":[[[0,1,5],[2,3,5]],[[4,5,5],[6,7,5]]]}},
{"type":"Feature","id":9,"properties":{"a":2,"t":null,"b":false},"geometry":null},
{"type":"Feature","id":8,"properties":{"a":3,"t":"y","b":false},"geometry":{"type":"LineString","coordinates":[[0,1,5],[2,3,5]]}}
]}"#;
        let options = ReadOptions::default();
        let expected = pieces(text.as_bytes(), &GEOJSON, &options);
        for memory in [256 << 20, 2000] {
            let found = convert(text.to_owned(), memory);
            assert_eq!(pieces(&found, &FLATGEOBUF, &options), expected, "{memory}");
            let word = |at: usize| u32::from_le_bytes(found[at..at + 4].try_into().unwrap());
            let table = 12 + usize_from_u32(word(12));
            let slots = table - usize_from_u32(word(table)) + usize::from(slot(2));
            let kind = table + usize_from_u32(word(slots) & 0xFFFF);
            assert_eq!(found[kind], 5, "all have several parts");
        }
    }

    #[test]
    fn of_two_columns_of_one_name_the_first_is_read() {
        let text = r#"{"type":"Feature","properties":{"first":1,"other":2},"geometry":{"type":"Point","coordinates":[0,1]}}"#;
        let mut bytes = convert(text.to_owned(), 256 << 20);
        let at = bytes.windows(5).position(|name| name == b"other").unwrap();
        bytes[at..at + 5].copy_from_slice(b"first");
        let input = Input::reader(std::io::Cursor::new(bytes));
        let reader = open(input, Some(&FLATGEOBUF), &ReadOptions::default()).unwrap();
        let header = reader.header().clone();
        assert_eq!(header.left_out, ["column \"first\": another one has its name"]);
        assert_eq!(header.object_fields.iter().filter(|field| &*field.name == "first").count(), 1);
        let pieces: Vec<Piece> = reader.collect::<Result<_, _>>().unwrap();
        let values = pieces.iter().find_map(|piece| match piece {
            Piece::Objects { fields, .. } => fields.iter().find(|field| &*field.name == "first"),
            _ => None,
        });
        assert_eq!(values.unwrap().value(0, 0).unwrap().to_string(), "1");
    }

    #[test]
    fn the_tree_finds_boxes() {
        let point = |n: u32| {
            let (x, y) = (f64::from(n * 7 % 101), f64::from(n * 13 % 97));
            format!(
                r#"{{"type":"Feature","properties":{{"n":{n}}},"geometry":{{"type":"Point","coordinates":[{x},{y}]}}}}"#
            )
        };
        let points: Vec<String> = (0..700).map(point).collect();
        let bytes = convert(points.join("\n"), 256 << 20);
        let all = pieces(&bytes, &FLATGEOBUF, &ReadOptions::default());
        let count = |pieces: &[Piece]| {
            let rows = pieces
                .iter()
                .map(|piece| if let Piece::Vertices(batch) = piece { batch.len() } else { 0 });
            rows.sum::<usize>()
        };
        assert_eq!(count(&all), 700);
        let bounds = Extents { min: vec![10.0, 20.0], max: vec![30.0, 40.0] };
        let inside = (0..700)
            .filter(|n| bounds.contains(&[f64::from(n * 7 % 101), f64::from(n * 13 % 97)]))
            .count();
        let options = ReadOptions { bounds: Some(bounds), ..ReadOptions::default() };
        let some = pieces(&bytes, &FLATGEOBUF, &options);
        assert_eq!(count(&some), inside);
    }
}
