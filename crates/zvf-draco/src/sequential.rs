//! The sequential method: everything in the order that was given.
//!
//! ```text
//! mesh      varint faces, varint points, method of indices (0 symbols, 1 plain), indices
//! points    u32 points
//! then      u8 decoders; for each varint attributes (meaning, type, width, normalized, varint id), u8 codings
//! then      the values of each attribute; then for each the range of its quantisation
//! ```

use zvf_format::Class;

use crate::bytes::Cursor;
use crate::{Attribute, Component, DracoError, Geometry, Header, Limits, Meaning, symbols};

pub(crate) fn decode(
    cursor: &mut Cursor<'_>,
    header: &Header,
    limits: Limits,
) -> Result<Geometry, DracoError> {
    if header.has_metadata {
        return Err(cursor.bad(Class::Unsupported, "no metadata", "metadata"));
    }
    let (points, faces) = if header.is_mesh {
        let start = cursor.at();
        let faces = cursor.count("faces")?;
        let points = cursor.count("points")?;
        limits.check(points, faces, start)?;
        (points, Some(read_faces(cursor, faces, points)?))
    } else {
        let start = cursor.at();
        let points = usize::try_from(cursor.word("points")?).unwrap_or(usize::MAX);
        limits.check(points, 0, start)?;
        (points, None)
    };
    let mut attributes = Vec::new();
    for _ in 0..cursor.byte("the count of decoders")? {
        read_attributes(cursor, points, &mut attributes)?;
    }
    Ok(Geometry { points, faces, attributes, keeps_order: true })
}

fn read_faces(
    cursor: &mut Cursor<'_>,
    faces: usize,
    points: usize,
) -> Result<Vec<[u32; 3]>, DracoError> {
    let corners = faces.checked_mul(3).unwrap_or(usize::MAX);
    let flat = match cursor.byte("the method of indices")? {
        0 => {
            let mut last = 0_i64;
            let mut flat = Vec::new();
            for symbol in symbols::decode(cursor, corners, 1)? {
                let step = i64::from(symbol >> 1);
                last += if symbol & 1 == 1 { -step } else { step };
                let index = u32::try_from(last).map_err(|_negative| {
                    cursor.bad(Class::OutOfBounds, "an index", last.to_string())
                })?;
                flat.push(index);
            }
            flat
        }
        1 => read_plain_indices(cursor, corners, points)?,
        other => {
            return Err(cursor.bad(Class::BadTag, "method 0 or 1 of indices", other.to_string()));
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
                return Err(cursor.bad(Class::Truncated, format!("{corners} indices"), found));
            }
            let index = |_| {
                let index = cursor.varint("an index")?;
                Ok(u32::try_from(index).unwrap_or(u32::MAX)) // beyond all points
            };
            return (0..corners).map(index).collect();
        }
        _ => 4,
    };
    let bytes = cursor.take(corners.checked_mul(width).unwrap_or(usize::MAX), "indices")?;
    let index =
        |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, byte| (sum << 8) | u32::from(*byte));
    Ok(bytes.chunks(width).map(index).collect())
}

/// How the values of an attribute are stored.
struct Stored {
    attribute: Attribute,
    coding: u8,
    integers: Vec<i32>,
}

fn read_attributes(
    cursor: &mut Cursor<'_>,
    points: usize,
    to: &mut Vec<Attribute>,
) -> Result<(), DracoError> {
    let count = cursor.count("attributes")?;
    if count > cursor.rest().len() {
        let found = cursor.rest().len().to_string();
        return Err(cursor.bad(Class::Truncated, format!("{count} attributes"), found));
    }
    let mut all = Vec::new();
    for _ in 0..count {
        let attribute = read_description(cursor)?;
        all.push(Stored { attribute, coding: 0, integers: Vec::new() });
    }
    for stored in &mut all {
        stored.coding = cursor.byte("a coding")?;
        if stored.coding > 2 {
            let found = stored.coding.to_string();
            return Err(cursor.bad(Class::Unsupported, "coding 0 to 2 of an attribute", found));
        }
    }
    for stored in &mut all {
        let width = usize::try_from(stored.attribute.width).unwrap_or(1);
        if stored.coding == 0 {
            let row = width * stored.attribute.component.size();
            let size = points.checked_mul(row).unwrap_or(usize::MAX);
            stored.attribute.values = cursor.take(size, "values")?.to_vec();
        } else {
            stored.integers = read_integers(cursor, points, width)?;
        }
    }
    for stored in all {
        to.push(finish(cursor, stored)?);
    }
    Ok(())
}

fn read_description(cursor: &mut Cursor<'_>) -> Result<Attribute, DracoError> {
    let (meaning, component) = (cursor.byte("a meaning")?, cursor.byte("a type")?);
    let (width, _normalized) = (cursor.byte("a width")?, cursor.byte("a flag")?);
    let id = u32::try_from(cursor.varint("an id")?).unwrap_or(u32::MAX);
    let bad = |what: &str, found: u8| cursor.bad(Class::BadTag, what, found.to_string());
    let meaning = Meaning::from_code(meaning).ok_or_else(|| bad("a meaning", meaning))?;
    let component = Component::from_code(component).ok_or_else(|| bad("a type", component))?;
    if width == 0 {
        return Err(bad("a width from 1", width));
    }
    Ok(Attribute { id, meaning, component, width: u32::from(width), values: Vec::new() })
}

/// The numbers of an attribute, prediction undone.
fn read_integers(
    cursor: &mut Cursor<'_>,
    points: usize,
    width: usize,
) -> Result<Vec<i32>, DracoError> {
    let prediction = cursor.signed("a prediction")?;
    let transform = match prediction {
        NO_PREDICTION => None,
        DIFFERENCE => Some(cursor.signed("a transform")?),
        other => {
            let expected = "no prediction, or that of differences";
            return Err(cursor.bad(Class::Unsupported, expected, other.to_string()));
        }
    };
    let count = points.checked_mul(width).unwrap_or(usize::MAX);
    let symbols = if cursor.byte("a flag of compression")? > 0 {
        symbols::decode(cursor, count, width)?
    } else {
        read_plain_integers(cursor, count)?
    };
    let zigzag = |symbol: u32| (symbol >> 1).cast_signed() ^ -(symbol & 1).cast_signed();
    let mut values: Vec<i32> = symbols.into_iter().map(zigzag).collect();
    match transform {
        None => {}
        Some(WRAP) if points > 0 => {
            let (low, high) = (cursor.word("a minimum")?, cursor.word("a maximum")?);
            undo_wrapped(&mut values, width, low.cast_signed(), high.cast_signed(), cursor)?;
        }
        Some(DELTA | NO_TRANSFORM | WRAP) => {
            for at in width..values.len() {
                let before = values.get(at - width).copied().unwrap_or(0);
                if let Some(value) = values.get_mut(at) {
                    *value = value.wrapping_add(before);
                }
            }
        }
        Some(other) => {
            let expected = "a transform of differences";
            return Err(cursor.bad(Class::Unsupported, expected, other.to_string()));
        }
    }
    Ok(values)
}

fn read_plain_integers(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<u32>, DracoError> {
    let width = usize::from(cursor.byte("bytes of a number")?);
    if !(1..=4).contains(&width) {
        return Err(cursor.bad(Class::BadShape, "1 to 4 bytes of a number", width.to_string()));
    }
    let bytes = cursor.take(count.checked_mul(width).unwrap_or(usize::MAX), "numbers")?;
    let number =
        |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, byte| (sum << 8) | u32::from(*byte));
    Ok(bytes.chunks(width).map(number).collect())
}

/// Differences that wrap around between the smallest and the largest value.
fn undo_wrapped(
    values: &mut [i32],
    width: usize,
    low: i32,
    high: i32,
    cursor: &Cursor<'_>,
) -> Result<(), DracoError> {
    if low > high {
        let found = format!("{low} to {high}");
        return Err(cursor.bad(Class::Codec, "a range of values", found));
    }
    let (low, high) = (i64::from(low), i64::from(high));
    let span = high - low + 1;
    for at in 0..values.len() {
        let before = at.checked_sub(width).and_then(|at| values.get(at)).copied().unwrap_or(0);
        let Some(value) = values.get_mut(at) else { break };
        let mut sum = i64::from(before).clamp(low, high) + i64::from(*value);
        if sum > high {
            sum -= span;
        } else if sum < low {
            sum += span;
        }
        *value = i32::try_from(sum).unwrap_or(*value);
    }
    Ok(())
}

/// The values in the type of the attribute.
fn finish(cursor: &mut Cursor<'_>, stored: Stored) -> Result<Attribute, DracoError> {
    let Stored { mut attribute, coding, integers } = stored;
    match coding {
        0 => {}
        1 => {
            let size = attribute.component.size();
            if size > 4 {
                let found = format!("{:?}", attribute.component);
                return Err(cursor.bad(Class::Unsupported, "a type of at most 32 bits", found));
            }
            let bytes =
                integers.iter().flat_map(|value| value.to_le_bytes().into_iter().take(size));
            attribute.values = bytes.collect();
        }
        _ => {
            let width = usize::try_from(attribute.width).unwrap_or(1);
            let mut low = Vec::with_capacity(width);
            for _ in 0..width {
                low.push(cursor.float("a minimum")?);
            }
            let range = cursor.float("a range")?;
            let bits = cursor.byte("bits of quantisation")?;
            if !(1..=31).contains(&bits) {
                return Err(cursor.bad(Class::BadShape, "1 to 31 bits", bits.to_string()));
            }
            if attribute.component != Component::Float32 {
                let found = format!("{:?}", attribute.component);
                return Err(cursor.bad(Class::BadTag, "quantised float32", found));
            }
            let step = step_of(range, bits);
            let value = |(at, q): (usize, &i32)| {
                let low = low.get(at % width).copied().unwrap_or(0.0);
                (as_float(*q) * step + low).to_le_bytes()
            };
            attribute.values = integers.iter().enumerate().flat_map(value).collect();
        }
    }
    Ok(attribute)
}

/// The distance between neighbours on a grid of `bits` over `range`.
#[expect(clippy::cast_precision_loss, reason = "as all decoders compute it")]
pub(crate) const fn step_of(range: f32, bits: u8) -> f32 {
    range / ((1_u32 << bits) - 1) as f32
}

#[expect(clippy::cast_precision_loss, reason = "as all decoders compute it")]
const fn as_float(q: i32) -> f32 {
    q as f32
}

pub(crate) const NO_PREDICTION: i8 = -2;
const DIFFERENCE: i8 = 0;
const NO_TRANSFORM: i8 = -1;
const DELTA: i8 = 0;
const WRAP: i8 = 1;
