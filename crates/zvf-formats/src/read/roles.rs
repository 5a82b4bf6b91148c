//! Roles of the fields of a record, and conversion of blocks of records to vertices.

use std::fmt::Display;

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::usize_from_u32;
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::flow::Piece;
use zvf_model::{Column, Kind, ObjectId, Value};

use crate::error::Spot;
use crate::read::ReadOptions;
use crate::read::record::VertexBuilder;
use crate::read::values::{NamedValues, Slot, Values, row_bytes};

/// A field of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordField {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub dtype: Dtype,
    /// Number of values in a record.
    pub width: u32,
}

impl RecordField {
    /// Returns the number of bytes in a record.
    pub const fn size(&self) -> usize {
        row_bytes(self.dtype, self.width)
    }
}

/// Returns the bytes of a record with these fields. A sum that does not fit saturates, and is more than any limit.
pub fn record_bytes(fields: &[RecordField]) -> usize {
    fields.iter().fold(0, |sum, field| sum.saturating_add(field.size()))
}

/// Converts blocks of records to batches of vertices.
#[derive(Debug)]
pub struct RecordTable {
    stride: usize, // not 0
    roles: Roles,
    /// The vertices of the current batch.
    pub vertices: VertexBuilder,
    format: &'static str,
}

impl RecordTable {
    /// Creates a table of records with these fields. Returns it with the names of the axes.
    pub fn new(
        fields: &[RecordField],
        kind: Kind,
        options: &ReadOptions,
        format: &'static str,
    ) -> Result<(Self, Vec<String>)> {
        let roles = Roles::assign(fields, options, format)?;
        let plain = |places: &[PlacedField]| -> Vec<RecordField> {
            places.iter().map(|place| place.field.clone()).collect()
        };
        let owned = roles.object.is_some() || kind.is_chain();
        let (positions, others) = (plain(&roles.positions), plain(&roles.fields));
        let (vertices, axes) = build_vertices(kind, &positions, &others, owned, format)?;
        Ok((Self { stride: record_bytes(fields).max(1), roles, vertices, format }, axes))
    }

    /// Returns the number of bytes of a record.
    pub const fn stride(&self) -> usize {
        self.stride
    }

    /// Converts a block of complete records.
    pub fn make_piece(&mut self, records: &[u8]) -> Result<Piece> {
        let Self { stride, roles, vertices, format } = self;
        let gather = |field: &PlacedField| {
            let mut values = Values::new(field.field.dtype, 1);
            values.push_records(records, *stride, field.slot);
            values.take()
        };
        let objects = roles.object.as_ref().map(gather).transpose()?;
        let parts = roles.part.as_ref().map(gather).transpose()?;
        match merge_slots(&roles.positions) {
            Some(slot) => vertices.positions.push_records(records, *stride, slot),
            None => {
                for record in records.chunks_exact(*stride) {
                    for place in &roles.positions {
                        vertices.positions.push_bytes(place.slot.slice(record));
                    }
                }
            }
        }
        for (place, field) in roles.fields.iter().zip(&mut vertices.fields) {
            field.values.push_records(records, *stride, place.slot);
        }
        let (kind, rows) = (vertices.kind(), records.chunks_exact(*stride).len());
        let Some(objects) = objects.filter(|_| rows > 0) else {
            if rows > 0 {
                vertices.end_rows(rows, None, 0);
            }
            return vertices.take();
        };
        for row in 0..rows {
            let part = match parts.as_ref().map(|parts| parts.value(row, 0)) {
                Some(Value::Int(part)) => part,
                _ => 0, // there is no column of parts
            };
            vertices.end_row(owner_at(&objects, row, kind, format)?, part);
        }
        vertices.take()
    }
}

/// Merges the slots of fields into one, if each begins where the one before it ends.
fn merge_slots(places: &[PlacedField]) -> Option<Slot> {
    let first = places.first()?.slot;
    places.iter().skip(1).try_fold(first, |all, place| {
        let size = all.size.saturating_add(place.slot.size); // a saturated size is longer than every record
        (place.slot.offset == all.offset.saturating_add(all.size)).then_some(Slot { size, ..all })
    })
}

/// Returns the kind of a table without edges or faces: the one in the options, which must have no links.
pub fn point_kind(options: &ReadOptions, format: &'static str) -> Result<Kind> {
    let kind = options.kind.unwrap_or(Kind::PointCloud);
    if !kind.has_links() {
        return Ok(kind);
    }
    let hint = "choose points, lines, polylines or streamlines with --kind";
    let expected = format!("edges or faces of a {kind}");
    Spot::new(format, "the file").hint(hint).refuse(Class::Unsupported, expected, "vertices only")
}

/// The names of the fields of a table, from which fields are chosen by name or by role.
pub struct FieldNames<'a, P> {
    names: Vec<&'a str>,
    spot: Spot<P>,
    what: &'static str, // what a field is called
}

impl<'a, P: Display> FieldNames<'a, P> {
    /// Lists the names for choosing; `what` is what messages call one of them: a column.
    pub fn new(spot: Spot<P>, what: &'static str, names: impl Iterator<Item = &'a str>) -> Self {
        Self { names: names.collect(), spot, what }
    }

    /// Returns the index of the first field of this name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|named| *named == name)
    }

    /// Returns the index of a field that has to be there.
    pub fn require(&self, name: &String) -> Result<usize> {
        let missing = || self.error(Class::InvalidArgument, format_args!("{} {name:?}", self.what));
        self.find(name).ok_or_else(missing)
    }

    /// Returns the fields of positions: the chosen ones, or else those of the usual names. One number called `points` is
    /// not a position next to `x`.
    pub fn positions(
        &self,
        chosen: &[String],
        is_list: impl Fn(usize) -> bool,
    ) -> Result<Vec<usize>> {
        match chosen {
            [] => {
                let axes: Vec<_> = AXES.into_iter().map_while(|axis| self.find(axis)).collect();
                let whole = POSITIONS.iter().filter_map(|name| self.find(name));
                let list = whole.clone().find(|at| is_list(*at));
                let list = list.or_else(|| whole.clone().next().filter(|_| axes.is_empty()));
                Ok(list.map_or(axes, |at| vec![at]))
            }
            names => names.iter().map(|name| self.require(name)).collect(),
        }
    }

    /// Returns the chosen fields, or else all that have no other role.
    pub fn others(
        &self,
        chosen: Option<&Vec<String>>,
        has_role: impl Fn(usize) -> bool,
    ) -> Result<Vec<usize>> {
        match chosen {
            Some(names) => names.iter().map(|name| self.require(name)).collect(),
            None => Ok((0..self.names.len()).filter(|at| !has_role(*at)).collect()),
        }
    }

    /// Returns an error that lists the names.
    pub fn error(&self, class: Class, expected: impl Display) -> Error {
        let shown: Vec<String> =
            self.names.iter().take(MAX_NAMES).map(|name| format!("{name:?}")).collect();
        let more = if self.names.len() > MAX_NAMES { ", …" } else { "" };
        self.spot.error(class, expected, format_args!("{}{more}", shown.join(", ")))
    }

    /// Returns the error of a table without positions, which advises how to choose them.
    pub fn no_positions(&self, class: Class, expected: impl Display, noun: &str) -> Error {
        let names = self.names.iter().copied();
        self.error(class, expected).or_hint(|| Some(advise_positions(noun, names)))
    }
}

/// Names that a message shows.
const MAX_NAMES: usize = 12;

/// The fields of a record by role.
#[derive(Debug)]
pub(crate) struct Roles {
    positions: Vec<PlacedField>,
    object: Option<PlacedField>,
    part: Option<PlacedField>,
    fields: Vec<PlacedField>,
}

/// A field and its byte range in a record.
#[derive(Clone, Debug)]
struct PlacedField {
    field: RecordField,
    slot: Slot,
}

impl Roles {
    fn assign(fields: &[RecordField], options: &ReadOptions, format: &'static str) -> Result<Self> {
        let spot = Spot::new(format, "the fields of a record");
        let placed = place_fields(fields);
        let names = FieldNames::new(spot, "a field", fields.iter().map(|field| &*field.name));
        for (at, placed_field) in placed.iter().enumerate() {
            if placed.iter().take(at).any(|earlier| earlier.field.name == placed_field.field.name) {
                let found = format!("{:?} twice", placed_field.field.name);
                return spot.refuse(Class::Duplicate, "another name for each field", found);
            }
        }
        let columns = &options.columns;
        let pick = |at: usize| placed.get(at).cloned();
        let positions = match (columns.positions.as_slice(), placed.as_slice()) {
            ([], [only]) if only.field.name.is_empty() => vec![0],
            (chosen, all) => names.positions(chosen, |at| all[at].field.width > 1)?,
        };
        if positions.is_empty() {
            let expected = "a field \"position\", or \"x\", \"y\", \"z\"";
            return Err(names.no_positions(Class::InvalidArgument, expected, "fields"));
        }
        let object = columns.object.as_ref().map(|name| names.require(name)).transpose()?;
        let object_at = object.or_else(|| names.find(OBJECT));
        let object = object_at.and_then(pick);
        if let Some(object) = &object
            && (object.field.width != 1
                || !matches!(object.field.dtype.kind, DtypeKind::Int | DtypeKind::UInt))
        {
            let found = format!("{} x {}", object.field.dtype, object.field.width);
            return spot.refuse(Class::Unsupported, "one whole number for the object", found);
        }
        let is_integer = |place: &PlacedField| {
            place.field.width == 1 && place.field.dtype.kind == DtypeKind::Int && object.is_some()
        };
        let part_at = names.find(PART).filter(|at| placed.get(*at).is_some_and(is_integer));
        let fields = names.others(columns.fields.as_ref(), |at| {
            positions.contains(&at) || [object_at, part_at].contains(&Some(at))
        })?;
        let [positions, fields] =
            [positions, fields].map(|all| all.into_iter().filter_map(pick).collect());
        Ok(Self { positions, object, part: part_at.and_then(pick), fields })
    }
}

/// Assigns consecutive byte ranges to the fields of a record.
fn place_fields(fields: &[RecordField]) -> Vec<PlacedField> {
    let mut offset = 0_usize;
    let mut placed = Vec::with_capacity(fields.len());
    for field in fields {
        let slot = Slot { offset, size: field.size() };
        offset = offset.saturating_add(slot.size); // a saturated offset is past the end of every record
        placed.push(PlacedField { field: field.clone(), slot });
    }
    placed
}

/// Creates a builder of vertices with these columns. Returns it with the names of the axes.
pub fn build_vertices(
    kind: Kind,
    positions: &[RecordField],
    fields: &[RecordField],
    owned: bool,
    format: &'static str,
) -> Result<(VertexBuilder, Vec<String>)> {
    // A saturated width is refused as too wide.
    let width = positions.iter().fold(0_u32, |sum, field| sum.saturating_add(field.width));
    let dtype = positions.first().map_or(Dtype::FLOAT32, |field| field.dtype);
    check_position_type(dtype, width, format)?;
    for field in positions {
        let expected = format_args!("{dtype} for every axis");
        let spot = Spot::new(format, &field.name).hint("convert them to one type first");
        spot.ensure(field.dtype == dtype, Class::Unsupported, expected, field.dtype)?;
    }
    let axes = match positions {
        [_] => default_axes(width),
        several => several.iter().map(|field| field.name.clone()).collect(),
    };
    let fields =
        fields.iter().map(|field| NamedValues::new(&*field.name, field.dtype, field.width));
    let positions = Values::new(dtype, width);
    Ok((VertexBuilder::new(kind, positions, fields.collect(), owned), axes))
}

/// Checks that a store supports such positions: the number of axes, and a numeric type.
pub fn check_position_type(dtype: Dtype, width: u32, format: &'static str) -> Result<()> {
    let is_too_wide = usize::try_from(width).map_or(true, |width| width > MAX_AXES);
    if is_too_wide || width == 0 {
        let expected = format!("from 1 to {MAX_AXES} axes of positions");
        return Spot::new(format, "the positions").refuse(Class::BadShape, expected, width);
    }
    if matches!(dtype.kind, DtypeKind::Bool | DtypeKind::Text) {
        return Spot::new(format, "the positions").refuse(Class::Unsupported, "numbers", dtype);
    }
    Ok(())
}

/// Returns the default names of `width` axes.
pub fn default_axes(width: u32) -> Vec<String> {
    (0..usize_from_u32(width))
        .map(|axis| AXES.get(axis).map_or_else(|| format!("x{axis}"), |name| (*name).to_owned()))
        .collect()
}

/// Returns the object in `row` of a column of ids, if it has one.
pub fn owner_at(
    column: &Column,
    row: usize,
    kind: Kind,
    format: &'static str,
) -> Result<Option<ObjectId>> {
    let id = match column.as_slice::<i64>().filter(|_| column.width() == 1) {
        Some(ids) => ids.get(row).map_or(Value::Null, |id| Value::Int(*id)),
        None => column.value(row, 0),
    };
    match id {
        Value::Int(-1) if !kind.is_chain() => Ok(None),
        Value::Int(id) => Ok(Some(ObjectId(id))),
        Value::UInt(id) => match i64::try_from(id) {
            Ok(id) => Ok(Some(ObjectId(id))),
            Err(_) => {
                Spot::new(format, "the objects").refuse(Class::Overflow, "a number below 2^63", id)
            }
        },
        Value::Null | Value::Bool(_) | Value::Float(_) | Value::Text(_) => match kind.is_chain() {
            true => {
                let expected = describe_owner_ids(kind);
                Spot::new(format, "the objects").refuse(Class::Encoding, expected, "none")
            }
            false => Ok(None),
        },
    }
}

/// Describes the ids that a kind needs whose vertices all belong to an object.
pub fn describe_owner_ids(kind: Kind) -> String {
    format!("an id for each vertex of a {kind}")
}

/// Default names of axes.
pub const AXES: [&str; 4] = ["x", "y", "z", "t"];
/// Default names of a field of positions.
const POSITIONS: [&str; 5] = ["position", "positions", "vertices", "points", "xyz"];
/// Number of axes that a store can have.
pub const MAX_AXES: usize = 8;
/// Default name of the column of objects.
pub const OBJECT: &str = "object";
/// Default name of the column that separates the runs of an object.
pub const PART: &str = "part";

/// Advises how to name the columns of positions, where `names` has some: `x_um`, `centroid_y`.
fn advise_positions<'a>(noun: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    if let [only] = names.as_slice()
        && let Some(separator) = [';', '|', '\t'].into_iter().find(|c| only.contains(*c))
    {
        return format!("set what separates columns, as in --separator {separator:?}");
    }
    let is_of = |name: &str, axis: &str| {
        let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
        words.any(|word| word.eq_ignore_ascii_case(axis))
    };
    let find = |axis: &&str| names.iter().copied().find(|name| is_of(name, axis));
    let mut found: Vec<&str> = AXES.iter().map_while(find).collect();
    if found.len() < 2 {
        found = vec!["x", "y", "z"];
    }
    format!("name the {noun} of positions, as in --positions {}", found.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_vertex_of_a_line_needs_an_object() {
        let ids = [7_i64, -1].map(i64::to_le_bytes).concat();
        let ids = Column::new(Dtype::INT64, 1, ids.into()).unwrap();
        let read_owner =
            |row, kind| owner_at(&ids, row, kind, "npy").map_err(|error| error.to_string());
        assert_eq!(read_owner(0, Kind::PointCloud), Ok(Some(ObjectId(7))));
        assert_eq!(read_owner(1, Kind::PointCloud), Ok(None));
        assert_eq!(read_owner(2, Kind::PointCloud), Ok(None));
        assert_eq!(read_owner(1, Kind::Polyline), Ok(Some(ObjectId(-1))));
        let error = read_owner(2, Kind::Polyline).unwrap_err();
        assert!(
            error.contains("expected an id for each vertex of a polyline, found none"),
            "{error}"
        );
    }
}
