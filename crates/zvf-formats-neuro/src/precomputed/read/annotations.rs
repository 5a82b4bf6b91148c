//! Annotations: points, lines, boxes, ellipsoids and polylines with properties and relationships.
//!
//! ```text
//! record      geometry f32; properties of 4 bytes, of 2, of 1; zero padding to a multiple of 4
//! by_id       a record, then for each relationship u32 n and n ids
//! ```
//!
//! The index by id is used if it exists, because it holds each annotation once, with relationships; the spatial index
//! must then have the same count. Otherwise the cells of all levels of the spatial index are joined by id. A box is a
//! point with its opposite corner as an attribute, an ellipsoid is a point with its radii. Lengths are multiplied by the
//! scale of their axis, in nanometres.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::{index_u32, nearest_f32};
use zvf_formats::{
    FileReader, ReadOptions, RecordNumbers, UINT64, Values, VertexBuilder, json_items, new_column,
};
use zvf_metadata::Dtype;
use zvf_model::flow::{Group, Header, Piece};
use zvf_model::{Categories, Field, Kind, ObjectId, Value};

use crate::precomputed::read::folder::{Folder, spot};
use crate::precomputed::read::properties::parse_property_type;
use crate::precomputed::read::shards::Sharding;
use crate::precomputed::read::{Objects, finish_objects, push_record, read_id};

/// The layout of a record.
struct RecordLayout {
    geometry: AnnotationType,
    rank: usize,
    scales: Vec<f64>,
    properties: Vec<Property>,
    relationships: Vec<String>,
}

#[derive(Clone, Copy)]
enum AnnotationType {
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

/// A parsed annotation.
struct Annotation {
    positions: Vec<f32>, // `rank` numbers per vertex
    extra: Vec<f32>,     // the opposite corner, or radii
    properties: Vec<Vec<u8>>,
    related: Vec<Vec<u64>>,
}

pub(crate) fn open(root: &Folder, info: &Json, options: &ReadOptions) -> Result<FileReader> {
    let (layout, axes, units) = parse_layout(info)?;
    let (by_id, spatial) = (&info["by_id"], json_items(&info["spatial"]));
    let mut cells = BTreeMap::new();
    for (level, json) in spatial.iter().enumerate() {
        read_level(root, json, &format!("info spatial[{level}]"), &layout, &mut cells)?;
    }
    let mut annotations: BTreeMap<u64, Annotation> = BTreeMap::new();
    if !by_id.is_null() {
        let (_, folder, sharding) = open_index(root, by_id, "info by_id")?;
        let objects = Objects::list(&folder, sharding)?;
        for at in 0.. {
            let Some((id, name, bytes)) = objects.read(at)? else { break };
            annotations.insert(id, layout.parse_single(&format!("by_id/{name}"), &bytes)?);
        }
        if !spatial.is_empty() && cells.len() != annotations.len() {
            let expected = format!("{} annotations, as by_id has", annotations.len());
            let found = cells.len().to_string();
            return spot("the spatial index").refuse(Class::CountMismatch, expected, found);
        }
    }
    if annotations.is_empty() {
        annotations = cells;
    }
    let kind = match (layout.geometry, options.kind) {
        (AnnotationType::Line, None) => Kind::Line,
        (AnnotationType::Line, Some(kind @ (Kind::Line | Kind::Polyline))) => kind,
        (AnnotationType::Polyline, None | Some(Kind::Polyline)) => Kind::Polyline,
        (
            AnnotationType::Point | AnnotationType::Box | AnnotationType::Ellipsoid,
            None | Some(Kind::PointCloud),
        ) => Kind::PointCloud,
        (_, Some(kind)) => {
            let expected = "the kind of the annotations";
            return spot("the folder").refuse(Class::Unsupported, expected, kind);
        }
    };
    let positions = Values::new(Dtype::FLOAT32, rank(&layout));
    let mut vertices = VertexBuilder::new(kind, positions, Vec::new(), true);
    let mut header = vertices.header(axes)?;
    header.units = units;
    push_record(&mut header, Some(info));
    if by_id.is_null() && !layout.relationships.is_empty() {
        header.left_out.push("relationships, which only the index by id has".to_owned());
    }
    let (objects, groups) = layout.describe_objects(&annotations, &mut header)?;
    let pieces = layout.build_pieces(&mut vertices, &annotations, options.batch_rows.max(1))?;
    let pieces = pieces.into_iter().chain([objects]).chain(groups).map(Ok);
    Ok(FileReader::new(header, pieces))
}

fn rank(layout: &RecordLayout) -> u32 {
    index_u32(layout.rank) // at most 16
}

/// The layout, the names of the axes and their units.
type LayoutAndAxes = (RecordLayout, Vec<String>, Vec<Option<String>>);

fn parse_layout(info: &Json) -> Result<LayoutAndAxes> {
    let dimensions = info["dimensions"].as_object();
    let dimensions = dimensions.filter(|all| !all.is_empty() && all.len() <= 16);
    let expected = "1 to 16 axes with scale and unit";
    let dimensions =
        spot("info dimensions").need(dimensions, Class::BadShape, expected, "others")?;
    let (mut axes, mut units, mut scales) = (Vec::new(), Vec::new(), Vec::new());
    for (name, json) in dimensions {
        let place = format!("info dimensions.{name}");
        let scale = json[0].as_f64().filter(|s| s.is_finite() && *s > 0.0);
        let (Some(scale), Some(unit)) = (scale, json[1].as_str()) else {
            return spot(&place).refuse(Class::BadShape, "[scale, unit]", json);
        };
        let (factor, unit) = match unit {
            "m" => (1e9, Some("nanometer")),
            "s" => (1.0, Some("second")),
            "" => (1.0, None),
            unit => {
                return spot(&place).refuse(Class::BadTag, "m, s or none", format!("{unit:?}"));
            }
        };
        let scale = scale * factor;
        // 4e-9 * 1e9 is not exactly 4, so a scale near an integer is rounded.
        let rounded = scale.round();
        let is_near = (scale - rounded).abs() < 1e-9 * rounded.max(1.0);
        scales.push(if is_near { rounded } else { scale });
        axes.push(name.clone());
        units.push(unit.map(str::to_owned));
    }
    let type_name = info["annotation_type"].as_str().unwrap_or_default();
    let geometry = match type_name.to_ascii_lowercase().as_str() {
        "point" => AnnotationType::Point,
        "line" => AnnotationType::Line,
        "axis_aligned_bounding_box" => AnnotationType::Box,
        "ellipsoid" => AnnotationType::Ellipsoid,
        "polyline" => AnnotationType::Polyline,
        _ => {
            let expected = "point, line, axis_aligned_bounding_box, ellipsoid or polyline";
            let found = format!("{type_name:?}");
            return spot("info annotation_type").refuse(Class::BadTag, expected, found);
        }
    };
    let mut properties: Vec<Property> = Vec::new();
    for (at, json) in json_items(&info["properties"]).iter().enumerate() {
        let place = format!("info properties[{at}].type");
        let name = read_id(json, &format!("info properties[{at}]"))?.to_owned();
        let type_name = json["type"].as_str().unwrap_or_default();
        let Some((dtype, width)) = parse_property_type(type_name) else {
            let expected = "rgb, rgba, uint8 to int32, or float32";
            return spot(&place).refuse(Class::BadTag, expected, format!("{type_name:?}"));
        };
        crate::precomputed::read::check_new_name(
            &place,
            &name,
            properties.iter().map(|property| property.name.as_str()),
        )?;
        properties.push(Property { name, dtype, width, categories: parse_categories(json) });
    }
    let relationships = json_items(&info["relationships"]).iter().enumerate();
    let relationships = relationships
        .map(|(at, json)| read_id(json, &format!("info relationships[{at}]")).map(str::to_owned));
    let relationships = relationships.collect::<Result<_, _>>()?;
    let rank = axes.len();
    Ok((RecordLayout { geometry, rank, scales, properties, relationships }, axes, units))
}

/// Parses the labels of an enumeration. Returns `None` unless the codes are dense from 0.
fn parse_categories(json: &Json) -> Option<Categories> {
    let values: Vec<u64> =
        json["enum_values"].as_array()?.iter().map(Json::as_u64).collect::<Option<_>>()?;
    let labels: Vec<&str> =
        json["enum_labels"].as_array()?.iter().map(Json::as_str).collect::<Option<_>>()?;
    let is_dense = values.iter().zip(0_u64..).all(|(value, at)| *value == at);
    (is_dense && values.len() == labels.len())
        .then(|| Categories::new(labels.into_iter().map(Value::from).collect(), None))
}

/// Opens the folder of an index. Returns it with its key and its sharding.
fn open_index<'a>(
    root: &Folder,
    json: &'a Json,
    place: &str,
) -> Result<(&'a str, Folder, Option<Sharding>)> {
    let key = json["key"].as_str();
    let key = spot(&format!("{place}.key")).need(key, Class::NotFound, "a key", "none")?;
    Ok((key, root.subfolder(key)?, Sharding::parse(&json["sharding"], place)?))
}

/// Reads all cells of one level of the spatial index into `to`.
fn read_level(
    root: &Folder,
    json: &Json,
    place: &str,
    layout: &RecordLayout,
    to: &mut BTreeMap<u64, Annotation>,
) -> Result<()> {
    let (key, folder, sharding) = open_index(root, json, place)?;
    let mut add_cell = |name: &str, bytes: &[u8]| -> Result<()> {
        for (id, annotation) in layout.parse_list(name, bytes)? {
            to.entry(id).or_insert(annotation);
        }
        Ok(())
    };
    if sharding.is_some() {
        let cells = Objects::list(&folder, sharding)?;
        for at in 0.. {
            let Some((_, name, bytes)) = cells.read(at)? else { break };
            add_cell(&format!("{key}/{name}"), &bytes)?;
        }
        return Ok(());
    }
    for name in folder.list()? {
        let is_cell = name.split('_').count() == layout.rank
            && name.split('_').all(|part| part.parse::<u64>().is_ok());
        if let Some(bytes) = folder.read(&name)?.filter(|_| is_cell) {
            add_cell(&format!("{key}/{name}"), &bytes)?;
        }
    }
    Ok(())
}

impl RecordLayout {
    /// Returns the count of numbers in the geometry of a record; 0 for polylines, whose length varies.
    fn geometry_len(&self) -> usize {
        match self.geometry {
            AnnotationType::Point => self.rank,
            AnnotationType::Line | AnnotationType::Box | AnnotationType::Ellipsoid => 2 * self.rank,
            AnnotationType::Polyline => 0,
        }
    }

    /// Parses the record at the start of `bytes`. Returns it with its length.
    fn parse_record(&self, place: &str, bytes: &[u8]) -> Result<(Annotation, usize)> {
        let too_short = |min_bytes: usize| {
            let expected = format!("a record of at least {min_bytes} bytes");
            spot(place).error(Class::Truncated, expected, bytes.len())
        };
        let (start, number_count) = match self.geometry {
            AnnotationType::Polyline => {
                let count = RecordNumbers::new(bytes).u32(0) as usize;
                if bytes.len() < 4 || count > bytes.len() / (4 * self.rank) {
                    return Err(too_short(4));
                }
                (4, count * self.rank)
            }
            _ => (0, self.geometry_len()),
        };
        let mut at = start + number_count * 4;
        if bytes.len() < at {
            return Err(too_short(at));
        }
        let floats: Vec<f32> =
            bytes[start..at].chunks_exact(4).map(|x| RecordNumbers::new(x).f32(0)).collect();
        let has_extra = matches!(self.geometry, AnnotationType::Box | AnnotationType::Ellipsoid);
        let (positions, extra) =
            if has_extra { floats.split_at(self.rank) } else { (&floats[..], &[][..]) };
        let mut properties = vec![Vec::new(); self.properties.len()];
        for size in [4, 2, 1] {
            for (to, property) in properties.iter_mut().zip(&self.properties) {
                if property.dtype.size == size {
                    let end = at + property.width as usize * size as usize;
                    *to = bytes.get(at..end).ok_or_else(|| too_short(end))?.to_vec();
                    at = end;
                }
            }
        }
        let end = at.next_multiple_of(4);
        let padding = bytes.get(at..end).ok_or_else(|| too_short(end))?;
        if padding.iter().any(|byte| *byte != 0) {
            let found = format!("{padding:02x?}");
            return spot(place).refuse(Class::CountMismatch, "zeros after the properties", found);
        }
        let annotation = Annotation {
            positions: positions.to_vec(),
            extra: extra.to_vec(),
            properties,
            related: Vec::new(),
        };
        Ok((annotation, end))
    }

    /// Parses a record of the index by id, with its relationships.
    fn parse_single(&self, place: &str, bytes: &[u8]) -> Result<Annotation> {
        let (mut annotation, mut at) = self.parse_record(place, bytes)?;
        for name in &self.relationships {
            let place = format!("{place}, relationship {name:?}");
            let rest = bytes.get(at + 4..).ok_or_else(|| {
                spot(&place).error(Class::Truncated, "a count of 32 bits", "the end of the file")
            })?;
            let count = RecordNumbers::new(bytes).u32(at) as usize;
            let expected = format_args!("{count} ids");
            let found = format_args!("{} bytes", rest.len());
            spot(&place).ensure(rest.len() / 8 >= count, Class::Truncated, expected, found)?;
            annotation
                .related
                .push((0..count).map(|n| RecordNumbers::new(rest).u64(n * 8)).collect());
            at += 4 + count * 8;
        }
        if at != bytes.len() {
            let found = format!("{} bytes more", bytes.len() - at);
            return spot(place).refuse(Class::Trailing, "the end of the file", found);
        }
        Ok(annotation)
    }

    /// Parses a cell of the spatial index: a count, the records, then their ids.
    fn parse_list(&self, place: &str, bytes: &[u8]) -> Result<Vec<(u64, Annotation)>> {
        let here = spot(place);
        here.ensure(bytes.len() >= 8, Class::Truncated, "a count of 64 bits", bytes.len())?;
        let (count, rest) = (RecordNumbers::new(bytes).u64(0), &bytes[8..]);
        let min_bytes = self.geometry_len() * 4 + 8; // of a record with its id
        let max_count = rest.len() / min_bytes;
        let fitting = usize::try_from(count).ok().filter(|n| *n <= max_count);
        let expected = format_args!("at most {max_count} annotations in {} bytes", rest.len());
        let count = spot(place).need(fitting, Class::CountMismatch, expected, count)?;
        let Some(records_len) = rest.len().checked_sub(count * 8) else {
            return spot(place).refuse(Class::Truncated, "an id for each", "fewer");
        };
        let (mut records, ids) = rest.split_at(records_len);
        let mut annotations = Vec::with_capacity(count);
        for n in 0..count {
            let (annotation, len) =
                self.parse_record(&format!("{place}, annotation {n}"), records)?;
            records = &records[len..];
            annotations.push((RecordNumbers::new(ids).u64(n * 8), annotation));
        }
        if !records.is_empty() {
            let expected = format!("{} bytes for {count} annotations", bytes.len() - records.len());
            return spot(place).refuse(Class::CountMismatch, expected, bytes.len());
        }
        Ok(annotations)
    }

    fn scale_length(&self, x: f32, axis: usize) -> f32 {
        nearest_f32(f64::from(x) * self.scales[axis])
    }

    /// Builds the piece of the objects and that of the groups, and describes both in the header.
    fn describe_objects(
        &self,
        annotations: &BTreeMap<u64, Annotation>,
        header: &mut Header,
    ) -> Result<(Piece, Option<Piece>)> {
        let ids: Vec<u8> = annotations.keys().flat_map(|id| id.to_le_bytes()).collect();
        let mut fields = vec![Field::new("annotation_id", new_column(UINT64, 1, ids)?)];
        let extra = match self.geometry {
            AnnotationType::Box => Some("upper_corner"),
            AnnotationType::Ellipsoid => Some("radii"),
            AnnotationType::Point | AnnotationType::Line | AnnotationType::Polyline => None,
        };
        if let Some(name) = extra {
            let numbers = annotations.values().flat_map(|annotation| {
                annotation.extra.iter().enumerate().map(|(axis, x)| self.scale_length(*x, axis))
            });
            let bytes = numbers.flat_map(f32::to_le_bytes).collect();
            fields.push(Field::new(name, new_column(Dtype::FLOAT32, rank(self), bytes)?));
        }
        for (at, property) in self.properties.iter().enumerate() {
            let values = annotations.values();
            let bytes = values.flat_map(|annotation| annotation.properties[at].clone()).collect();
            let field = Field::new(
                property.name.as_str(),
                new_column(property.dtype, property.width, bytes)?,
            );
            fields.push(match &property.categories {
                Some(categories) => field.with_categories(categories.clone()),
                None => field,
            });
        }
        let groups = self.convert_relationships(annotations, &mut fields, header)?;
        header.groups = !groups.is_empty();
        let groups = (!groups.is_empty()).then_some(Piece::Groups { groups, fields: Vec::new() });
        let objects = finish_objects("annotation_id", annotations.len(), fields, header);
        Ok((objects, groups))
    }

    /// Converts each relationship to an object attribute if every annotation has exactly one id, to groups otherwise.
    fn convert_relationships(
        &self,
        annotations: &BTreeMap<u64, Annotation>,
        fields: &mut Vec<Field>,
        header: &mut Header,
    ) -> Result<Vec<Group>> {
        let mut groups = Vec::new();
        for (at, name) in self.relationships.iter().enumerate() {
            let related =
                || annotations.values().map(|a| a.related.get(at).map_or(&[][..], Vec::as_slice));
            if related().all(|ids| ids.len() == 1) {
                let bytes = related().flatten().flat_map(|id| id.to_le_bytes()).collect();
                fields.push(Field::new(name.as_str(), new_column(UINT64, 1, bytes)?));
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

    /// Builds the vertices, `batch_rows` annotations in each piece.
    fn build_pieces(
        &self,
        vertices: &mut VertexBuilder,
        annotations: &BTreeMap<u64, Annotation>,
        batch_rows: usize,
    ) -> Result<Vec<Piece>> {
        let mut pieces = Vec::new();
        let annotations: Vec<(i64, &Annotation)> = (0..).zip(annotations.values()).collect();
        for chunk in annotations.chunks(batch_rows) {
            for (id, annotation) in chunk {
                for (n, x) in annotation.positions.iter().enumerate() {
                    let length = self.scale_length(*x, n % self.rank);
                    vertices.positions.push_bytes(&length.to_le_bytes());
                }
                let rows = annotation.positions.len() / self.rank;
                vertices.end_rows(rows, Some(ObjectId(*id)), *id);
            }
            pieces.push(vertices.take()?);
        }
        Ok(pieces)
    }
}

/// Limit of the ids of a relationship that become groups.
const MAX_GROUPS: usize = 100_000;
