//! The msgpack forms that frames use, each with its full-width marker byte.
//!
//! ```text
//! d1 i16   d2 i32   d3 i64   cd u16   ce u32   cf u64
//! c6 i32, bytes   db i32, text   a0+n, short text   de u16, map   dc u16, array
//! ```
//!
//! Frames never use the shorter forms that msgpack also allows, so any other marker is refused.
//! This is not a msgpack parser: its user names the form.

#[cfg(feature = "alloc")]
use zerocopy::IntoBytes;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use zvf_format::cursor::Cursor;
use zvf_format::{Class, Expected, FormatError};

/// A number, and the offset of its marker.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<T> {
    pub(super) at: u64,
    pub(super) value: T,
}

/// A number as frames store it.
pub(super) trait Number:
    Copy + FromBytes + Immutable + KnownLayout + Unaligned + 'static
{
}

impl<W: Copy + FromBytes + Immutable + KnownLayout + Unaligned + 'static> Number for W {}

/// Reads one byte with a single valid value.
pub(super) fn marker(
    cur: &mut Cursor<'_>,
    field: &'static str,
    expected: u8,
) -> Result<(), FormatError> {
    let At { at, value } = byte(cur, field)?;
    if value == expected {
        return Ok(());
    }
    Err(cur.refuse(Class::BadTag, field, at, Expected::Exactly(expected.into()), value))
}

/// Reads one byte with its own meaning.
pub(super) fn byte(cur: &mut Cursor<'_>, field: &'static str) -> Result<At<u8>, FormatError> {
    let at = cur.position();
    let value = *cur.item::<u8>(field)?;
    Ok(At { at, value })
}

/// Reads `form`, then a number of that form.
pub(super) fn number<W: Number, N>(
    cur: &mut Cursor<'_>,
    field: &'static str,
    form: u8,
    get: fn(W) -> N,
) -> Result<At<N>, FormatError> {
    let at = cur.position();
    marker(cur, field, form)?;
    Ok(At { at, value: get(*cur.item::<W>(field)?) })
}

/// Reads `form`, then a number that cannot be negative.
pub(super) fn size<W: Number, N: Copy + Into<i64>>(
    cur: &mut Cursor<'_>,
    field: &'static str,
    form: u8,
    get: fn(W) -> N,
) -> Result<u64, FormatError> {
    let found = number(cur, field, form, get)?;
    to_unsigned(cur, field, found)
}

/// Converts a number that cannot be negative.
pub(super) fn to_unsigned<T>(
    cur: &Cursor<'_>,
    field: &'static str,
    found: At<T>,
) -> Result<u64, FormatError>
where
    T: Copy + Into<i64>,
{
    let value: i64 = found.value.into();
    u64::try_from(value).map_err(|_negative| {
        cur.refuse(Class::Negative, field, found.at, Expected::AtLeast(0), value)
    })
}

/// Appends `form`, then a number of that form.
#[cfg(feature = "alloc")]
pub(super) fn write(
    out: &mut alloc::vec::Vec<u8>,
    form: u8,
    number: &(impl IntoBytes + Immutable),
) {
    out.push(form);
    out.extend(number.as_bytes());
}
