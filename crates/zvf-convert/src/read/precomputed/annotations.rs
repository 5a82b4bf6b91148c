//! Annotations: points, lines, boxes, ellipsoids and polylines with properties and relationships.
//!
//! ```text
//! record      geometry f32; properties of 4 bytes, of 2, of 1; zeros to a multiple of 4
//! by_id       a record, then for each relationship u32 n and n ids
//! ```
//!
//! The index by id has everything once, with relationships, so it is what is read; the cells of the spatial index
//! are read where it is not there, all levels joined by id. A box is a point with its other corner as an
//! attribute, an ellipsoid one with its radii. Lengths are multiplied by the scale of their axis, in nanometres.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};
use zvf_format::Class;
use zvf_format::num::nearest_f32;
use zvf_metadata::Dtype;
use zvf_model::{Batch, Categories, Field, Kind, ObjectId, Parts, Value};

use super::folder::{Folder, bad};
use super::properties::property_type;
use super::shards::{Sharding, u64_at};
use super::{Objects, record, u32_at};
use crate::ConvertError;
use crate::read::values::{column, no_batch};
use crate::read::{Group, Header, Piece, ReadOptions, Reader};

/// What a record is.
struct Layout {
    kind: Shape,
    rank: usize,
    scales: Vec<f64>,
    properties: Vec<Property>,
    relationships: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Point,
    Line,
    Box,
    Ellipsoid,
    Polyline,
}

struct Property {
    name: String,
    dtype: Dtype,
    width: u32,
    categories: Option<Categories>,
}

/// One annotation.
struct Annotation {
    places: Vec<f32>, // rank numbers a vertex
    extra: Vec<f32>,  // the other corner, or radii
    properties: Vec<Vec<u8>>,
    related: Vec<Vec<u64>>,
}

pub(super) fn open(
    root: &Folder,
    info: &Map<String, Json>,
    options: &ReadOptions,
) -> Result<Reader, ConvertError> {
    let (layout, axes, unit) = layout(info)?;
    let by_id = info.get("by_id").filter(|value| !value.is_null());
    let spatial = info.get("spatial").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    let mut cells = BTreeMap::new();
    for (level, said) in spatial.iter().enumerate() {
        read_level(root, said, &format!("info spatial[{level}]"), &layout, &mut cells)?;
    }
    let mut all: BTreeMap<u64, Annotation> = BTreeMap::new();
    if let Some(said) = by_id {
        let (folder, sharding) = index(root, said, "info by_id")?;
        let objects = Objects::list(&folder, sharding)?;
        for at in 0..objects.places.len() {
            let Some((id, name, bytes)) = objects.read(at)? else { break };
            all.insert(id, layout.parse_single(&format!("by_id/{name}"), &bytes)?);
        }
        if !spatial.is_empty() && cells.len() != all.len() {
            let expected = format!("{} annotations, as by_id has", all.len());
            let found = cells.len().to_string();
            return Err(bad(Class::CountMismatch, "the spatial index", expected, found).into());
        }
    }
    if all.is_empty() {
        all = cells;
    }
    let kind = match (layout.kind, options.kind) {
        (Shape::Line, None) => Kind::Line,
        (Shape::Line, Some(kind @ (Kind::Line | Kind::Polyline))) => kind,
        (Shape::Polyline, None | Some(Kind::Polyline)) => Kind::Polyline,
        (Shape::Point | Shape::Box | Shape::Ellipsoid, None | Some(Kind::PointCloud)) => {
            Kind::PointCloud
        }
        (_, Some(kind)) => {
            let expected = "the kind of the annotations";
            return Err(bad(Class::Unsupported, "the folder", expected, kind.to_string()).into());
        }
    };
    let mut header = Header::new(kind, axes, column(Dtype::FLOAT32, rank(&layout), Vec::new())?);
    header.units = unit;
    record(&mut header, Some(info));
    let (objects, groups) = layout.describe(&all, &mut header)?;
    let pieces = layout.pieces(kind, &all, options.batch_rows.max(1))?;
    let pieces = pieces.into_iter().chain([objects]).chain(groups).map(Ok);
    Ok(Reader::new(header, pieces))
}

fn rank(layout: &Layout) -> u32 {
    u32::try_from(layout.rank).unwrap_or(u32::MAX)
}

type LayoutAndAxes = (Layout, Vec<String>, Vec<Option<String>>);

fn layout(info: &Map<String, Json>) -> Result<LayoutAndAxes, ConvertError> {
    let dimensions = info.get("dimensions").and_then(Json::as_object);
    let Some(dimensions) = dimensions.filter(|all| !all.is_empty() && all.len() <= 16) else {
        let expected = "1 to 16 axes with scale and unit";
        return Err(bad(Class::BadShape, "info dimensions", expected, "others").into());
    };
    let (mut axes, mut units, mut scales) = (Vec::new(), Vec::new(), Vec::new());
    for (name, said) in dimensions {
        let place = format!("info dimensions.{name}");
        let scale = said.get(0).and_then(Json::as_f64).filter(|s| s.is_finite() && *s > 0.0);
        let (Some(scale), Some(unit)) = (scale, said.get(1).and_then(Json::as_str)) else {
            return Err(bad(Class::BadShape, &place, "[scale, unit]", said.to_string()).into());
        };
        let (factor, unit) = match unit {
            "m" => (1e9, Some("nanometer")),
            "s" => (1.0, Some("second")),
            "" => (1.0, None),
            other => {
                return Err(bad(Class::BadTag, &place, "m, s or none", format!("{other:?}")).into());
            }
        };
        let scale = scale * factor;
        // 4e-9 * 1e9 is 4, whatever the last bit says.
        let near = scale.round();
        scales.push(if (scale - near).abs() < 1e-9 * near.max(1.0) { near } else { scale });
        axes.push(name.clone());
        units.push(unit.map(str::to_owned));
    }
    let said = info.get("annotation_type").and_then(Json::as_str).unwrap_or_default();
    let kind = match said.to_ascii_lowercase().as_str() {
        "point" => Shape::Point,
        "line" => Shape::Line,
        "axis_aligned_bounding_box" => Shape::Box,
        "ellipsoid" => Shape::Ellipsoid,
        "polyline" => Shape::Polyline,
        _ => {
            let expected = "point, line, axis_aligned_bounding_box, ellipsoid or polyline";
            return Err(
                bad(Class::BadTag, "info annotation_type", expected, format!("{said:?}")).into()
            );
        }
    };
    let mut properties: Vec<Property> = Vec::new();
    let list = info.get("properties").and_then(Json::as_array);
    for (at, said) in list.into_iter().flatten().enumerate() {
        let place = format!("info properties[{at}].type");
        let name = said.get("id").and_then(Json::as_str).unwrap_or_default().to_owned();
        let said_type = said.get("type").and_then(Json::as_str).unwrap_or_default();
        let Some((dtype, width)) = property_type(said_type) else {
            let expected = "rgb, rgba, uint8 to int32, or float32";
            return Err(bad(Class::BadTag, &place, expected, format!("{said_type:?}")).into());
        };
        if properties.iter().any(|other| other.name == name) {
            return Err(bad(Class::Duplicate, &place, "each name once", format!("{name:?}")).into());
        }
        properties.push(Property { name, dtype, width, categories: categories(said) });
    }
    let list = info.get("relationships").and_then(Json::as_array);
    let names = list.into_iter().flatten();
    let relationships =
        names.map(|said| said.get("id").and_then(Json::as_str).unwrap_or_default().to_owned());
    let relationships = relationships.collect();
    let rank = axes.len();
    Ok((Layout { kind, rank, scales, properties, relationships }, axes, units))
}

/// What the values of an enumeration are called, where every code up to the last has a name.
fn categories(said: &Json) -> Option<Categories> {
    let values: Vec<u64> =
        said.get("enum_values")?.as_array()?.iter().map(Json::as_u64).collect::<Option<_>>()?;
    let labels: Vec<&str> =
        said.get("enum_labels")?.as_array()?.iter().map(Json::as_str).collect::<Option<_>>()?;
    let is_dense = values.iter().zip(0_u64..).all(|(value, at)| *value == at);
    (is_dense && values.len() == labels.len())
        .then(|| Categories::new(labels.into_iter().map(Value::from).collect(), None))
}

/// Where an index is, and how it is sharded.
fn index(
    root: &Folder,
    said: &Json,
    place: &str,
) -> Result<(Folder, Option<Sharding>), ConvertError> {
    let Some(key) = said.get("key").and_then(Json::as_str) else {
        return Err(bad(Class::NotFound, &format!("{place}.key"), "a key", "none").into());
    };
    Ok((root.subfolder(key)?, Sharding::parse(said.get("sharding"), place)?))
}

/// All cells of one level of the spatial index.
fn read_level(
    root: &Folder,
    said: &Json,
    place: &str,
    layout: &Layout,
    to: &mut BTreeMap<u64, Annotation>,
) -> Result<(), ConvertError> {
    let (folder, sharding) = index(root, said, place)?;
    let mut read = |name: &str, bytes: &[u8]| -> Result<(), ConvertError> {
        for (id, annotation) in layout.parse_list(name, bytes)? {
            to.entry(id).or_insert(annotation);
        }
        Ok(())
    };
    let key = said.get("key").and_then(Json::as_str).unwrap_or_default();
    if sharding.is_some() {
        let cells = Objects::list(&folder, sharding)?;
        for at in 0..cells.places.len() {
            let Some((_, name, bytes)) = cells.read(at)? else { break };
            read(&format!("{key}/{name}"), &bytes)?;
        }
        return Ok(());
    }
    for name in folder.list()? {
        let is_cell = name.split('_').count() == layout.rank
            && name.split('_').all(|part| part.parse::<u64>().is_ok());
        if let Some(bytes) = folder.read(&name)?.filter(|_| is_cell) {
            read(&format!("{key}/{name}"), &bytes)?;
        }
    }
    Ok(())
}

impl Layout {
    /// Numbers of the geometry of a record, but for those of polylines.
    fn numbers(&self) -> usize {
        match self.kind {
            Shape::Point => self.rank,
            Shape::Line | Shape::Box | Shape::Ellipsoid => 2 * self.rank,
            Shape::Polyline => 0,
        }
    }

    /// Takes one record from the start of `bytes`; how long it is.
    fn parse_record(&self, place: &str, bytes: &[u8]) -> Result<(Annotation, usize), ConvertError> {
        let short = |wanted: usize| {
            let expected = format!("a record of at least {wanted} bytes");
            ConvertError::from(bad(Class::Truncated, place, expected, bytes.len().to_string()))
        };
        let (start, numbers) = match self.kind {
            Shape::Polyline => {
                let count = u32_at(bytes, 0) as usize;
                if bytes.len() < 4 || count > bytes.len() / (4 * self.rank) {
                    return Err(short(4));
                }
                (4, count * self.rank)
            }
            _ => (0, self.numbers()),
        };
        let mut at = start + numbers * 4;
        if bytes.len() < at {
            return Err(short(at));
        }
        let floats: Vec<f32> =
            bytes[start..at].chunks_exact(4).map(|x| f32::from_bits(u32_at(x, 0))).collect();
        let has_extra = matches!(self.kind, Shape::Box | Shape::Ellipsoid);
        let (places, extra) =
            if has_extra { floats.split_at(self.rank) } else { (&floats[..], &[][..]) };
        let mut properties = vec![Vec::new(); self.properties.len()];
        for size in [4, 2, 1] {
            for (to, property) in properties.iter_mut().zip(&self.properties) {
                if property.dtype.size == size {
                    let end = at + property.width as usize * size as usize;
                    *to = bytes.get(at..end).ok_or_else(|| short(end))?.to_vec();
                    at = end;
                }
            }
        }
        let end = at.next_multiple_of(4);
        let padding = bytes.get(at..end).ok_or_else(|| short(end))?;
        if padding.iter().any(|byte| *byte != 0) {
            let found = format!("{padding:02x?}");
            return Err(
                bad(Class::CountMismatch, place, "zeros after the properties", found).into()
            );
        }
        let annotation = Annotation {
            places: places.to_vec(),
            extra: extra.to_vec(),
            properties,
            related: Vec::new(),
        };
        Ok((annotation, end))
    }

    /// A record and what it is related to.
    fn parse_single(&self, place: &str, bytes: &[u8]) -> Result<Annotation, ConvertError> {
        let (mut annotation, mut at) = self.parse_record(place, bytes)?;
        for name in &self.relationships {
            let place = format!("{place}, relationship {name:?}");
            let rest = bytes.get(at + 4..).ok_or_else(|| {
                bad(Class::Truncated, &place, "a count of 32 bits", "the end of the file")
            })?;
            let count = u32_at(bytes, at) as usize;
            if rest.len() / 8 < count {
                let expected = format!("{count} ids");
                return Err(bad(
                    Class::Truncated,
                    &place,
                    expected,
                    format!("{} bytes", rest.len()),
                )
                .into());
            }
            annotation.related.push((0..count).map(|n| u64_at(rest, n * 8)).collect());
            at += 4 + count * 8;
        }
        if at != bytes.len() {
            let found = format!("{} bytes more", bytes.len() - at);
            return Err(bad(Class::Trailing, place, "the end of the file", found).into());
        }
        Ok(annotation)
    }

    /// The records of a cell, and then their ids.
    fn parse_list(
        &self,
        place: &str,
        bytes: &[u8],
    ) -> Result<Vec<(u64, Annotation)>, ConvertError> {
        if bytes.len() < 8 {
            let found = bytes.len().to_string();
            return Err(bad(Class::Truncated, place, "a count of 64 bits", found).into());
        }
        let (count, rest) = (u64_at(bytes, 0), &bytes[8..]);
        let least = self.numbers() * 4 + 8;
        let Some(count) = usize::try_from(count).ok().filter(|n| *n <= rest.len() / least.max(8))
        else {
            let expected =
                format!("at most {} annotations in {} bytes", rest.len() / least, rest.len());
            return Err(bad(Class::CountMismatch, place, expected, count.to_string()).into());
        };
        let Some(records_len) = rest.len().checked_sub(count * 8) else {
            return Err(bad(Class::Truncated, place, "an id for each", "fewer").into());
        };
        let (mut records, ids) = rest.split_at(records_len);
        let mut all = Vec::with_capacity(count);
        for n in 0..count {
            let (annotation, len) =
                self.parse_record(&format!("{place}, annotation {n}"), records)?;
            records = &records[len..];
            all.push((u64_at(ids, n * 8), annotation));
        }
        if !records.is_empty() {
            let expected = format!("{} bytes for {count} annotations", bytes.len() - records.len());
            return Err(bad(Class::CountMismatch, place, expected, bytes.len().to_string()).into());
        }
        Ok(all)
    }

    fn scaled(&self, x: f32, axis: usize) -> f32 {
        nearest_f32(f64::from(x) * self.scales.get(axis).copied().unwrap_or(1.0))
    }

    /// What is said of objects, and the groups of related ids.
    fn describe(
        &self,
        all: &BTreeMap<u64, Annotation>,
        header: &mut Header,
    ) -> Result<(Piece, Option<Piece>), ConvertError> {
        let ids: Vec<u8> = all.keys().flat_map(|id| id.to_le_bytes()).collect();
        let unsigned = Dtype { kind: zvf_metadata::DtypeKind::UInt, ..Dtype::INT64 };
        let mut fields = vec![Field::new("annotation_id", column(unsigned, 1, ids)?)];
        let extra = match self.kind {
            Shape::Box => Some("upper_corner"),
            Shape::Ellipsoid => Some("radii"),
            Shape::Point | Shape::Line | Shape::Polyline => None,
        };
        if let Some(name) = extra {
            let numbers = all.values().flat_map(|annotation| {
                annotation.extra.iter().enumerate().map(|(axis, x)| self.scaled(*x, axis))
            });
            let bytes = numbers.flat_map(f32::to_le_bytes).collect();
            fields.push(Field::new(name, column(Dtype::FLOAT32, rank(self), bytes)?));
        }
        for (at, property) in self.properties.iter().enumerate() {
            let bytes =
                all.values().flat_map(|annotation| annotation.properties[at].clone()).collect();
            let field =
                Field::new(property.name.as_str(), column(property.dtype, property.width, bytes)?);
            fields.push(match &property.categories {
                Some(categories) => field.with_categories(categories.clone()),
                None => field,
            });
        }
        let groups = self.relate(all, &mut fields, header)?;
        header.objects = true;
        header.id_field = Some("annotation_id".to_owned());
        header.object_fields = fields.iter().map(|f| f.with_column(f.column.slice(0..0))).collect();
        header.groups = !groups.is_empty();
        let objects = (0..all.len()).map(|at| ObjectId(i64::try_from(at).unwrap_or(i64::MAX)));
        let groups = (!groups.is_empty()).then_some(Piece::Groups { groups, fields: Vec::new() });
        Ok((Piece::Objects { ids: objects.collect(), fields }, groups))
    }

    /// A relationship is an attribute where no annotation has several ids, and groups otherwise.
    fn relate(
        &self,
        all: &BTreeMap<u64, Annotation>,
        fields: &mut Vec<Field>,
        header: &mut Header,
    ) -> Result<Vec<Group>, ConvertError> {
        let mut groups = Vec::new();
        for (at, name) in self.relationships.iter().enumerate() {
            let related = || all.values().map(|a| a.related.get(at).map_or(&[][..], Vec::as_slice));
            if related().all(|ids| ids.len() == 1) {
                let bytes = related().flatten().flat_map(|id| id.to_le_bytes()).collect();
                let unsigned = Dtype { kind: zvf_metadata::DtypeKind::UInt, ..Dtype::INT64 };
                fields.push(Field::new(name.as_str(), column(unsigned, 1, bytes)?));
                continue;
            }
            let mut members: BTreeMap<u64, Vec<ObjectId>> = BTreeMap::new();
            for (object, ids) in (0_i64..).zip(related()) {
                for id in ids {
                    members.entry(*id).or_default().push(ObjectId(object));
                }
            }
            if members.len() > MAX_GROUPS {
                let count = members.len();
                header.left_out.push(format!("relationship {name:?}, which has {count} ids"));
                continue;
            }
            groups.extend(
                members
                    .into_iter()
                    .map(|(id, members)| Group { name: Some(format!("{name}:{id}")), members }),
            );
        }
        Ok(groups)
    }

    /// All geometry, some annotations in each piece.
    fn pieces(
        &self,
        kind: Kind,
        all: &BTreeMap<u64, Annotation>,
        batch_rows: usize,
    ) -> Result<Vec<Piece>, ConvertError> {
        let mut pieces = Vec::new();
        let annotations: Vec<&Annotation> = all.values().collect();
        for (number, some) in annotations.chunks(batch_rows).enumerate() {
            let (mut bytes, mut ends, mut objects) = (Vec::new(), vec![0], Vec::new());
            for (at, annotation) in some.iter().enumerate() {
                for (n, x) in annotation.places.iter().enumerate() {
                    bytes.extend_from_slice(&self.scaled(*x, n % self.rank).to_le_bytes());
                }
                ends.push(bytes.len() / (4 * self.rank));
                let object = number * batch_rows + at;
                objects.push(ObjectId(i64::try_from(object).unwrap_or(i64::MAX)));
            }
            let batch = Batch::new(kind, column(Dtype::FLOAT32, rank(self), bytes)?);
            let batch = if kind.is_chain() {
                batch.with_parts(Parts::new(ends, objects).map_err(no_batch)?)
            } else {
                batch.with_vertex_objects(objects.into_iter().map(Some).collect())
            };
            pieces.push(Piece::Vertices(batch.map_err(no_batch)?));
        }
        Ok(pieces)
    }
}

/// Related ids that may become groups.
const MAX_GROUPS: usize = 100_000;
