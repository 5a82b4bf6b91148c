//! Which attribute goes where in a point.

use serde_json::Value as Json;
use zvf_format::num::usize_from_u32;
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::Field;

use crate::ConvertError;
use crate::read::Header;
use crate::read::las::header::RECORD_BYTES;
use crate::read::las::layout::{EXTRA_TYPES, Form, LasField, UINT8, has_colours, standard_fields};

/// The points of a file in the making.
#[derive(Clone, Debug)]
pub(super) struct Schema {
    pub(super) minor: u8,
    pub(super) point_format: u8,
    pub(super) record_bytes: usize,
    pub(super) slots: Vec<Slot>,
    /// Descriptions of the extra bytes, 192 bytes each.
    pub(super) extra: Vec<u8>,
    /// Where the object of a point goes.
    pub(super) object_at: Option<usize>,
}

/// A column and where its values go.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// The number of the column among the attributes of a vertex.
    pub(super) column: usize,
    /// The first of the values of a row, and how many there are.
    pub(super) first: usize,
    pub(super) field: LasField,
}

/// What the caller, or the file that the points came from, wants.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted {
    pub(super) point_format: Option<u8>,
    pub(super) minor: Option<u8>,
    pub(super) compressed: bool,
    pub(super) octree: bool,
}

impl Schema {
    pub(super) fn new(header: &Header, wanted: Wanted) -> Result<Self, ConvertError> {
        let names: Vec<&str> = header.fields.iter().map(|field| &*field.name).collect();
        let point_format = choose_format(&names, wanted)?;
        let standard = standard_fields(point_format);
        let needed = if point_format > 5 { 4 } else { 2 };
        let minor = wanted.minor.unwrap_or(needed).max(needed);
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
            let own = standard
                .iter()
                .find(|own| own.name == *field.name && fits_standard_field(field, own));
            match own {
                Some(own) => schema.slots.push(Slot { column, first: 0, field: own.clone() }),
                None => schema.add_extra(column, field)?,
            }
        }
        if header.objects {
            schema.object_at = Some(schema.record_bytes);
            schema.describe("object", "the object of a point", 8);
            schema.record_bytes += 8;
        }
        if schema.record_bytes > usize::from(u16::MAX) {
            return Err(refuse(format!("points of {} bytes", schema.record_bytes)));
        }
        Ok(schema)
    }

    /// Extra bytes for a column: up to three values as one, more as one each.
    fn add_extra(&mut self, column: usize, field: &Field) -> Result<(), ConvertError> {
        let Some((kind, stored)) = extra_type(field.column.dtype()) else {
            return Ok(()); // text: listed as a loss before
        };
        let width = field.column.width();
        let description = field.description.as_deref().unwrap_or_default();
        let mut add = |name: &str, first: u32, width: u32| {
            let kind = kind + u8::try_from(width.saturating_sub(1)).unwrap_or(0).saturating_mul(10);
            self.describe(name, description, kind);
            let own = LasField {
                name: name.to_owned(),
                offset: self.record_bytes,
                stored,
                width,
                form: Form::Plain,
                description: None,
                extra: true,
            };
            self.record_bytes += own.size();
            let first = usize_from_u32(first);
            self.slots.push(Slot { column, first, field: own });
        };
        let count = u8::try_from(width).ok().filter(|count| *count > 3 && stored == UINT8);
        if width <= 3 {
            add(&field.name, 0, width);
        } else if let Some(count) = count {
            // Bytes that only their program understands, as they are.
            self.describe(&field.name, description, 0);
            let start = self.extra.len() - EXTRA_BYTES_RECORD;
            put(&mut self.extra, start + 3, &[count]);
            let own = LasField {
                width,
                extra: true,
                ..LasField::plain(&field.name, self.record_bytes, UINT8)
            };
            self.record_bytes += own.size();
            self.slots.push(Slot { column, first: 0, field: own });
        } else if width > 4096 {
            return Err(refuse(format!("{width} values of {:?} in each point", field.name)));
        } else {
            (0..width).for_each(|at| add(&format!("{}_{at}", field.name), at, 1));
        }
        Ok(())
    }

    fn describe(&mut self, name: &str, description: &str, kind: u8) {
        let mut raw = vec![0; EXTRA_BYTES_RECORD];
        put(&mut raw, 2, &[kind]);
        put(&mut raw, 4, truncate_text(name));
        put(&mut raw, 160, truncate_text(description));
        self.extra.extend_from_slice(&raw);
    }
}

/// The point format that has the fields that are there.
fn choose_format(names: &[&str], wanted: Wanted) -> Result<u8, ConvertError> {
    let has = |name: &str| names.contains(&name);
    let modern = if has("nir") {
        8
    } else if ["red", "green", "blue"].into_iter().all(has) {
        7
    } else {
        6
    };
    let waves = has("wavepacket_index") && has("wavepacket_offset");
    let modern = match modern {
        _ if !waves || wanted.octree => modern,
        6 => 9,
        _ => 10,
    };
    let Some(format) = wanted.point_format else { return Ok(modern) };
    if format > 10 {
        return Err(refuse(format!("point format {format}")));
    }
    let unfit = (wanted.compressed && matches!(format, 4 | 5))
        || (wanted.octree && !matches!(format, 6..=8))
        || (has("red") && !has_colours(format));
    Ok(if unfit { modern } else { format })
}

/// Whether values of a column may go to a standard field: one integer to an integer, or the same type.
fn fits_standard_field(field: &Field, own: &LasField) -> bool {
    let dtype = field.column.dtype();
    let whole =
        |dtype: Dtype| matches!(dtype.kind, DtypeKind::Int | DtypeKind::UInt | DtypeKind::Bool);
    field.column.width() == 1 && (dtype == own.stored || (whole(dtype) && whole(own.stored)))
}

/// The type of extra bytes for a column; none for text.
fn extra_type(dtype: Dtype) -> Option<(u8, Dtype)> {
    let stored = match (dtype.kind, dtype.size) {
        (DtypeKind::Bool, _) => UINT8,
        (DtypeKind::Float, 2) => Dtype::FLOAT32,
        _ => dtype,
    };
    let at = EXTRA_TYPES.iter().position(|known| *known == stored)?;
    Some((u8::try_from(at).ok()?.checked_add(1)?, stored))
}

/// What describes an attribute of extra bytes.
const EXTRA_BYTES_RECORD: usize = 192;

/// At most 32 bytes of text, of whole characters.
fn truncate_text(text: &str) -> &[u8] {
    let end = (0..=text.len().min(32)).rev().find(|end| text.is_char_boundary(*end));
    text.as_bytes().get(..end.unwrap_or(0)).unwrap_or_default()
}

pub(super) fn put(raw: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = raw.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

pub(super) fn refuse(what: String) -> ConvertError {
    ConvertError::NoType { format: "LAS", what, advice: "leave columns out, or write Parquet" }
}

/// A number of the options, or of the record of the file that the points came from.
pub(super) fn number(from: Option<&Json>) -> Option<u8> {
    from.and_then(Json::as_u64).and_then(|n| u8::try_from(n).ok())
}
