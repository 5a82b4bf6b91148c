//! Schema of a point record: the field of each attribute.

use serde_json::Value as Json;
use zvf_format::num::usize_from_u32;
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::Field;

use crate::ConvertError;
use crate::read::Header;
use crate::read::las::header::RECORD_BYTES;
use crate::read::las::layout::{EXTRA_TYPES, Form, LasField, UINT8, has_colours, standard_fields};

/// The layout of the point records of a file.
#[derive(Clone, Debug)]
pub(super) struct Schema {
    pub(super) minor: u8,
    pub(super) point_format: u8,
    pub(super) record_bytes: usize,
    pub(super) slots: Vec<Slot>,
    /// Descriptions of the extra bytes, 192 bytes each.
    pub(super) extra: Vec<u8>,
    /// The offset of the object of a point.
    pub(super) object_at: Option<usize>,
}

/// A column and the field that holds its values.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// The index of the column among the attributes of vertices.
    pub(super) column: usize,
    /// The index of the first value of a row that the field holds.
    pub(super) first: usize,
    pub(super) field: LasField,
}

/// The requested format, from the options or from the header record of the input.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SchemaRequest {
    pub(super) point_format: Option<u8>,
    pub(super) minor: Option<u8>,
    pub(super) compressed: bool,
    pub(super) octree: bool,
}

impl Schema {
    pub(super) fn new(header: &Header, request: SchemaRequest) -> Result<Self, ConvertError> {
        let names: Vec<&str> = header.fields.iter().map(|field| &*field.name).collect();
        let point_format = choose_format(&names, request)?;
        let standard = standard_fields(point_format);
        let needed = if point_format > 5 { 4 } else { 2 };
        let minor = request.minor.unwrap_or(needed).max(needed);
        let minor = if matches!(point_format, 4 | 5) { minor.max(3) } else { minor };
        let mut schema = Self {
            minor,
            point_format,
            record_bytes: RECORD_BYTES.get(usize::from(point_format)).copied().unwrap_or(0).into(),
            slots: Vec::new(),
            extra: Vec::new(),
            object_at: None,
        };
        for (column, field) in header.fields.iter().enumerate() {
            let standard_field = standard.iter().find(|candidate| {
                candidate.name == *field.name && fits_standard_field(field, candidate)
            });
            match standard_field {
                Some(standard_field) => {
                    schema.slots.push(Slot { column, first: 0, field: standard_field.clone() });
                }
                None => schema.add_extra(column, field)?,
            }
        }
        if header.objects {
            schema.object_at = Some(schema.record_bytes);
            schema.push_description("object", "the object of a point", 8);
            schema.record_bytes += 8;
        }
        if schema.record_bytes > usize::from(u16::MAX) {
            return Err(refuse(format!("points of {} bytes", schema.record_bytes)));
        }
        Ok(schema)
    }

    /// Adds extra bytes for a column: one attribute of up to three values, otherwise one attribute a value.
    fn add_extra(&mut self, column: usize, field: &Field) -> Result<(), ConvertError> {
        let Some((kind, stored)) = extra_type(field.column.dtype()) else {
            return Ok(()); // text: listed as a loss before
        };
        let width = field.column.width();
        let description = field.description.as_deref().unwrap_or_default();
        let mut add = |name: &str, first: u32, width: u32| {
            let kind = kind + u8::try_from(width.saturating_sub(1)).unwrap_or(0).saturating_mul(10);
            self.push_description(name, description, kind);
            let extra_field = LasField {
                name: name.to_owned(),
                offset: self.record_bytes,
                stored,
                width,
                form: Form::Plain,
                description: None,
                extra: true,
            };
            self.record_bytes += extra_field.size();
            let first = usize_from_u32(first);
            self.slots.push(Slot { column, first, field: extra_field });
        };
        let count = u8::try_from(width).ok().filter(|count| *count > 3 && stored == UINT8);
        if width <= 3 {
            add(&field.name, 0, width);
        } else if let Some(count) = count {
            // An array of bytes is undocumented extra bytes.
            self.push_description(&field.name, description, 0);
            let start = self.extra.len() - DESCRIPTION_BYTES;
            put_bytes(&mut self.extra, start + 3, &[count]);
            let extra_field = LasField {
                width,
                extra: true,
                ..LasField::new(&field.name, self.record_bytes, UINT8)
            };
            self.record_bytes += extra_field.size();
            self.slots.push(Slot { column, first: 0, field: extra_field });
        } else if width > 4096 {
            return Err(refuse(format!("{width} values of {:?} in each point", field.name)));
        } else {
            (0..width).for_each(|at| add(&format!("{}_{at}", field.name), at, 1));
        }
        Ok(())
    }

    /// Adds a description of extra bytes.
    fn push_description(&mut self, name: &str, description: &str, kind: u8) {
        let mut raw = vec![0; DESCRIPTION_BYTES];
        put_bytes(&mut raw, 2, &[kind]);
        put_bytes(&mut raw, 4, truncate_text(name));
        put_bytes(&mut raw, 160, truncate_text(description));
        self.extra.extend_from_slice(&raw);
    }
}

/// Chooses the point format: the requested one, or the one that has the fields of the input.
fn choose_format(names: &[&str], request: SchemaRequest) -> Result<u8, ConvertError> {
    let has_field = |name: &str| names.contains(&name);
    let modern = if has_field("nir") {
        8
    } else if ["red", "green", "blue"].into_iter().all(has_field) {
        7
    } else {
        6
    };
    let has_waves = has_field("wavepacket_index") && has_field("wavepacket_offset");
    let modern = match modern {
        _ if !has_waves || request.octree => modern,
        6 => 9,
        _ => 10,
    };
    let Some(format) = request.point_format else { return Ok(modern) };
    if format > 10 {
        return Err(refuse(format!("point format {format}")));
    }
    let is_unfit = (request.compressed && matches!(format, 4 | 5))
        || (request.octree && !matches!(format, 6..=8))
        || (has_field("red") && !has_colours(format));
    Ok(if is_unfit { modern } else { format })
}

/// Returns whether a standard field holds the values of a column: both are integers, or of the same type.
fn fits_standard_field(field: &Field, las_field: &LasField) -> bool {
    let dtype = field.column.dtype();
    let is_integer =
        |dtype: Dtype| matches!(dtype.kind, DtypeKind::Int | DtypeKind::UInt | DtypeKind::Bool);
    field.column.width() == 1
        && (dtype == las_field.stored || (is_integer(dtype) && is_integer(las_field.stored)))
}

/// Returns the type of extra bytes for a column; `None` for text.
fn extra_type(dtype: Dtype) -> Option<(u8, Dtype)> {
    let stored = match (dtype.kind, dtype.size) {
        (DtypeKind::Bool, _) => UINT8,
        (DtypeKind::Float, 2) => Dtype::FLOAT32,
        _ => dtype,
    };
    let at = EXTRA_TYPES.iter().position(|dtype| *dtype == stored)?;
    Some((u8::try_from(at).ok()?.checked_add(1)?, stored))
}

/// Bytes of a description of extra bytes.
const DESCRIPTION_BYTES: usize = 192;

/// Returns the longest prefix of complete characters of at most 32 bytes.
fn truncate_text(text: &str) -> &[u8] {
    let end = (0..=text.len().min(32)).rev().find(|end| text.is_char_boundary(*end));
    text.as_bytes().get(..end.unwrap_or(0)).unwrap_or_default()
}

/// Copies `bytes` to `raw` from `at` on, where they fit.
pub(super) fn put_bytes(raw: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = raw.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

pub(super) fn refuse(what: String) -> ConvertError {
    ConvertError::NoType { format: "LAS", what, advice: "leave columns out, or write Parquet" }
}

/// Returns a JSON number of at most 8 bits.
pub(super) fn parse_u8(number: Option<&Json>) -> Option<u8> {
    number.and_then(Json::as_u64).and_then(|n| u8::try_from(n).ok())
}
