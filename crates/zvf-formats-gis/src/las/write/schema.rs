//! Schema of a point record: the field of each attribute.

use serde_json::Value as Json;
use zvf_error::{Error, Result};
use zvf_format::num::usize_from_u32;
use zvf_formats::{UINT8, cannot_hold};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::Field;
use zvf_model::flow::Header;

use crate::las::read::header::RECORD_BYTES;
use crate::las::read::layout::{EXTRA_TYPES, LasField, has_colours, standard_fields};

/// The layout of the point records of a file.
pub(crate) struct Schema {
    pub(crate) minor: u8,
    pub(crate) point_format: u8,
    pub(crate) record_bytes: u16,
    pub(crate) slots: Vec<Slot>,
    /// Descriptions of the extra bytes, 192 bytes each.
    pub(crate) extra: Vec<u8>,
    /// The offset of the object of a point.
    pub(crate) object_at: Option<usize>,
    /// Names and descriptions of extra bytes that are longer than their place.
    pub(crate) truncated_texts: u64,
}

/// A column and the field that holds its values.
#[derive(Clone)]
pub(crate) struct Slot {
    /// The index of the column among the attributes of vertices.
    pub(crate) column: usize,
    /// The index of the first component of a row in the field.
    pub(crate) first: usize,
    pub(crate) field: LasField,
}

/// The requested format, from the options or from the header record of the input.
#[derive(Clone, Copy, Default)]
pub(crate) struct SchemaRequest {
    pub(crate) point_format: Option<u8>,
    pub(crate) minor: Option<u8>,
    pub(crate) compressed: bool,
    pub(crate) octree: bool,
}

impl Schema {
    pub(crate) fn new(header: &Header, request: SchemaRequest) -> Result<Self> {
        let names: Vec<&str> = header.fields.iter().map(|field| &*field.name).collect();
        let point_format = choose_format(&names, request)?;
        let standard = standard_fields(point_format);
        let needed = if point_format > 5 { 4 } else { 2 };
        let minor = request.minor.unwrap_or(needed).max(needed);
        let minor = if matches!(point_format, 4 | 5) { minor.max(3) } else { minor };
        let mut schema = Self {
            minor,
            point_format,
            record_bytes: RECORD_BYTES[usize::from(point_format)],
            slots: Vec::new(),
            extra: Vec::new(),
            object_at: None,
            truncated_texts: 0,
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
            schema.push_description("object", "the object of a point", 8);
            schema.object_at = Some(schema.extend_record(8)?);
        }
        Ok(schema)
    }

    /// Adds `bytes` to the record, and returns their offset.
    fn extend_record(&mut self, bytes: usize) -> Result<usize> {
        let offset = usize::from(self.record_bytes);
        self.record_bytes = u16::try_from(offset + bytes)
            .map_err(|_too_long| refuse(format!("points of more than {} bytes", u16::MAX)))?;
        Ok(offset)
    }

    /// Adds extra bytes for a column: one attribute of up to three values, otherwise one attribute a value.
    fn add_extra(&mut self, column: usize, field: &Field) -> Result<()> {
        let Some((kind, stored)) = extra_type(field.column.dtype()) else {
            return Ok(()); // text: listed as a loss before
        };
        let width = field.column.width();
        let description = field.description.as_deref().unwrap_or_default();
        let mut add = |name: &str, first: u32, width: u8| -> Result<()> {
            self.push_description(name, description, kind + (width - 1) * 10); // at most 30
            let mut extra_field = LasField::new(name, 0, stored);
            (extra_field.width, extra_field.extra) = (u32::from(width), true);
            extra_field.offset = self.extend_record(extra_field.size())?;
            let first = usize_from_u32(first);
            self.slots.push(Slot { column, first, field: extra_field });
            Ok(())
        };
        match u8::try_from(width) {
            Ok(width @ 1..=3) => add(&field.name, 0, width),
            Ok(count) if stored == UINT8 => {
                // An array of bytes is undocumented extra bytes.
                self.push_description(&field.name, description, 0);
                let start = self.extra.len() - DESCRIPTION_BYTES;
                put_bytes(&mut self.extra, start + 3, &[count]);
                let offset = self.extend_record(usize::from(count))?;
                let extra_field =
                    LasField { width, extra: true, ..LasField::new(&field.name, offset, UINT8) };
                self.slots.push(Slot { column, first: 0, field: extra_field });
                Ok(())
            }
            _ if width > 4096 => {
                Err(refuse(format!("{width} values of {:?} in each point", field.name)))
            }
            _ => (0..width).try_for_each(|at| add(&format!("{}_{at}", field.name), at, 1)),
        }
    }

    /// Adds a description of extra bytes.
    fn push_description(&mut self, name: &str, description: &str, kind: u8) {
        let mut raw = vec![0; DESCRIPTION_BYTES];
        put_bytes(&mut raw, 2, &[kind]);
        for (at, text) in [(4, name), (160, description)] {
            put_bytes(&mut raw, at, truncate_text(text, 32));
            self.truncated_texts += u64::from(text.len() > 32);
        }
        self.extra.extend_from_slice(&raw);
    }
}

/// Chooses the point format: the requested one, or the one that has the fields of the input.
fn choose_format(names: &[&str], request: SchemaRequest) -> Result<u8> {
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

/// Returns whether a standard field can represent the values of a column: both are integers, or
/// have the same type.
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

/// Returns the longest prefix of complete characters of at most `n` bytes.
pub(crate) fn truncate_text(text: &str, n: usize) -> &[u8] {
    &text.as_bytes()[..text.floor_char_boundary(n)]
}

/// Copies `bytes` to their place in `raw`, which begins at `at`.
pub(crate) fn put_bytes(raw: &mut [u8], at: usize, bytes: &[u8]) {
    raw[at..at + bytes.len()].copy_from_slice(bytes);
}

pub(crate) fn refuse(what: String) -> Error {
    cannot_hold("LAS", what, "leave columns out, or write Parquet")
}

/// Returns a JSON number of at most 8 bits.
pub(crate) fn parse_u8(number: &Json) -> Option<u8> {
    u8::try_from(number.as_u64()?).ok()
}
