//! Decoding by the sequential method: everything in its given order.
//!
//! ```text
//! mesh      varint faces, varint points, method of indices (0 symbols, 1 plain), indices
//! points    u32 points
//! then      u8 decoders; for each varint attributes (meaning, type, width, normalized, varint id), u8 codings
//! then      the values of each attribute; then for each the range of its quantisation
//! ```

use zvf_format::Class;
use zvf_format::num::{nearest_f32, to_u64, usize_from_u32};

use crate::bytes::{Cursor, low_bit_mask};
use crate::{
    Attribute, Component, DracoError, Geometry, Header, Limits, Meaning, octahedron, predict,
    symbols,
};

pub(crate) fn decode(
    cursor: &mut Cursor<'_>,
    header: &Header,
    limits: Limits,
) -> Result<Geometry, DracoError> {
    let (points, faces) = if header.is_mesh {
        let start = cursor.at();
        let faces = cursor.count("faces")?;
        let points = cursor.count("points")?;
        limits.check(points, faces, start)?;
        (points, Some(read_faces(cursor, faces, points)?))
    } else {
        let start = cursor.at();
        let points = usize_from_u32(cursor.word("points")?);
        limits.check(points, 0, start)?;
        (points, None)
    };
    let (mut values, mut attributes) = (0_u64, Vec::new());
    for _ in 0..cursor.byte("the count of decoders")? {
        let all = read_descriptions(cursor)?;
        values = values.saturating_add(count_values(&all, points)); // compared next
        limits.check_values(values, cursor.at())?;
        read_attributes(cursor, points, all, &mut attributes)?;
    }
    Ok(Geometry { points, faces, attributes, keeps_order: true })
}

fn read_faces(
    cursor: &mut Cursor<'_>,
    faces: usize,
    points: usize,
) -> Result<Vec<[u32; 3]>, DracoError> {
    let Some(corners) = faces.checked_mul(3) else {
        return Err(cursor.read_error(
            Class::LimitExceeded,
            "corners in memory",
            faces.to_string(),
        ));
    };
    let flat = match cursor.byte("the method of indices")? {
        0 => {
            let mut last = 0_i64;
            let mut flat = Vec::new();
            for symbol in symbols::decode(cursor, corners, 1)? {
                let step = i64::from(symbol >> 1);
                // Does not saturate: an index below 2^32 and a step below 2^31 are added.
                last = match symbol & 1 {
                    1 => last.saturating_sub(step),
                    _ => last.saturating_add(step),
                };
                let index = u32::try_from(last).map_err(|_negative| {
                    cursor.read_error(Class::OutOfBounds, "an index", last.to_string())
                })?;
                flat.push(index);
            }
            flat
        }
        1 => read_plain_indices(cursor, corners, points)?,
        other => {
            return Err(cursor.read_error(
                Class::BadTag,
                "method 0 or 1 of indices",
                other.to_string(),
            ));
        }
    };
    Ok(flat.as_chunks::<3>().0.to_vec())
}

fn read_plain_indices(
    cursor: &mut Cursor<'_>,
    corners: usize,
    points: usize,
) -> Result<Vec<u32>, DracoError> {
    let width = match points {
        0..0x100 => 1,
        0x100..0x1_0000 => 2,
        0x1_0000..0x20_0000 => {
            if corners > cursor.rest().len() {
                let found = cursor.rest().len().to_string();
                return Err(cursor.read_error(
                    Class::Truncated,
                    format!("{corners} indices"),
                    found,
                ));
            }
            let index = |_| {
                let index = cursor.varint("an index")?;
                u32::try_from(index).map_err(|_wide| {
                    let expected = format!("points below {points}");
                    cursor.read_error(Class::OutOfBounds, expected, index.to_string())
                })
            };
            return (0..corners).map(index).collect();
        }
        _ => 4,
    };
    let bytes = cursor.take(corners.saturating_mul(width), "indices")?; // compared with the bytes
    let index =
        |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, byte| (sum << 8) | u32::from(*byte));
    Ok(bytes.chunks(width).map(index).collect())
}

/// The stored form of the values of an attribute.
pub(crate) struct Stored {
    pub(crate) attribute: Attribute,
    /// 0 unchanged, 1 integers, 2 a grid, 3 directions.
    pub(crate) coding: u8,
    pub(crate) integers: Vec<i32>,
}

impl Stored {
    /// Returns the number of integers per value.
    pub(crate) fn width(&self) -> usize {
        match self.coding {
            3 => 2,
            _ => usize_from_u32(self.attribute.width),
        }
    }

    /// Reads the part of `rows` values that precedes the shared data of all attributes.
    pub(crate) fn read_values(
        &mut self,
        cursor: &mut Cursor<'_>,
        rows: usize,
        mesh: Option<&predict::Mesh<'_>>,
    ) -> Result<(), DracoError> {
        if self.coding == 0 {
            // A size that exceeds `usize` exceeds the stream as well.
            let size = rows.saturating_mul(self.attribute.row_bytes());
            self.attribute.values = cursor.take(size, "values")?.to_vec();
        } else {
            self.integers = predict::read(cursor, rows, self.width(), mesh)?;
        }
        Ok(())
    }
}

fn read_attributes(
    cursor: &mut Cursor<'_>,
    points: usize,
    mut all: Vec<Stored>,
    to: &mut Vec<Attribute>,
) -> Result<(), DracoError> {
    for stored in &mut all {
        stored.read_values(cursor, points, None)?;
    }
    for stored in all {
        to.push(finish(cursor, stored)?);
    }
    Ok(())
}

/// Returns the number of values in `rows` rows of a decoder's attributes; saturates.
pub(crate) fn count_values(all: &[Stored], rows: usize) -> u64 {
    let widths: u64 = all.iter().map(|stored| to_u64(stored.width())).sum(); // at most 255 each
    widths.saturating_mul(to_u64(rows))
}

/// Reads the descriptions of the attributes of a decoder.
pub(crate) fn read_descriptions(cursor: &mut Cursor<'_>) -> Result<Vec<Stored>, DracoError> {
    let count = cursor.count("attributes")?;
    if count > cursor.rest().len() / MIN_DESCRIPTION_BYTES {
        let found = cursor.rest().len().to_string();
        return Err(cursor.read_error(Class::Truncated, format!("{count} attributes"), found));
    }
    let mut all = Vec::new();
    for _ in 0..count {
        let attribute = read_description(cursor)?;
        all.push(Stored { attribute, coding: 0, integers: Vec::new() });
    }
    for stored in &mut all {
        stored.coding = cursor.byte("a coding")?;
        if stored.coding > 3 || stored.coding == 3 && stored.attribute.width != 3 {
            let found = format!("{} of {} values", stored.coding, stored.attribute.width);
            return Err(cursor.read_error(
                Class::Unsupported,
                "coding 0 to 3 of an attribute",
                found,
            ));
        }
    }
    Ok(all)
}

pub(crate) fn read_description(cursor: &mut Cursor<'_>) -> Result<Attribute, DracoError> {
    let (meaning, component) = (cursor.byte("a meaning")?, cursor.byte("a type")?);
    let (width, _normalized) = (cursor.byte("a width")?, cursor.byte("a flag")?);
    let id = cursor.varint("an id")?;
    let Ok(id) = u32::try_from(id) else {
        return Err(cursor.read_error(Class::Overflow, "an id of 32 bits", id.to_string()));
    };
    let bad = |what: &str, found: u8| cursor.read_error(Class::BadTag, what, found.to_string());
    let meaning = Meaning::from_code(meaning).ok_or_else(|| bad("a meaning", meaning))?;
    let component = Component::from_code(component).ok_or_else(|| bad("a type", component))?;
    if width == 0 {
        return Err(bad("a width from 1", width));
    }
    Ok(Attribute { id, meaning, component, width: u32::from(width), values: Vec::new() })
}

/// Converts the values to the type of the attribute.
pub(crate) fn finish(cursor: &mut Cursor<'_>, stored: Stored) -> Result<Attribute, DracoError> {
    let Stored { mut attribute, coding, integers } = stored;
    match coding {
        0 => {}
        1 => {
            let size = attribute.component.size();
            if size > 4 {
                let found = format!("{:?}", attribute.component);
                return Err(cursor.read_error(
                    Class::Unsupported,
                    "a type of at most 32 bits",
                    found,
                ));
            }
            let bytes =
                integers.iter().flat_map(|value| value.to_le_bytes().into_iter().take(size));
            attribute.values = bytes.collect();
        }
        3 => {
            let bits = cursor.byte("bits of a direction")?;
            if !(2..=30).contains(&bits) || attribute.component != Component::Float32 {
                let found = format!("{bits} bits of {:?}", attribute.component);
                return Err(cursor.read_error(Class::BadShape, "2 to 30 bits of float32", found));
            }
            let square = octahedron::Square::new(u32::from(bits));
            let pairs = integers.as_chunks::<2>().0.iter();
            attribute.values =
                pairs.flat_map(|pair| square.direction(*pair)).flat_map(f32::to_le_bytes).collect();
        }
        _ => {
            let mut lows = Vec::new();
            for _ in 0..attribute.width {
                lows.push(cursor.float("a minimum")?);
            }
            let range = cursor.float("a range")?;
            let bits = cursor.byte("bits of quantisation")?;
            if !(1..=31).contains(&bits) {
                return Err(cursor.read_error(Class::BadShape, "1 to 31 bits", bits.to_string()));
            }
            if attribute.component != Component::Float32 {
                let found = format!("{:?}", attribute.component);
                return Err(cursor.read_error(Class::BadTag, "quantised float32", found));
            }
            let step = step_of(range, bits);
            let value =
                |(q, low): (&i32, &f32)| (nearest_f32(f64::from(*q)) * step + *low).to_le_bytes();
            attribute.values = integers.iter().zip(lows.iter().cycle()).flat_map(value).collect();
        }
    }
    Ok(attribute)
}

/// Returns the distance between neighbours on a grid of `bits` over `range`.
pub(crate) fn step_of(range: f32, bits: u8) -> f32 {
    range / nearest_f32(f64::from(low_bit_mask(u32::from(bits))))
}

/// Meaning, type, width, a flag, an id; and a coding.
const MIN_DESCRIPTION_BYTES: usize = 6;
