//! The msgpack forms that frames use, each with its full-width marker byte.
//!
//! ```text
//! d1 i16   d2 i32   d3 i64   cd u16   ce u32   cf u64
//! c6 i32, bytes   db i32, text   a0+n, short text   de u16, map   dc u16, array
//! ```
//!
//! Frames never use the shorter forms that msgpack also allows, so any other marker is refused.
//! This is not a msgpack parser: it has one function per form.

use zerocopy::big_endian::{I16, I32, I64, U16, U32, U64};

use zvf_format::cursor::Cursor;
use zvf_format::{Class, Expected, FormatError};

/// A number, and the offset of its marker.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<T> {
    pub(super) at: u64,
    pub(super) value: T,
}

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

/// Reads `d1`, then a signed 16-bit integer.
pub(super) fn i16(cur: &mut Cursor<'_>, field: &'static str) -> Result<At<i16>, FormatError> {
    let at = cur.position();
    marker(cur, field, 0xd1)?;
    Ok(At { at, value: cur.item::<I16>(field)?.get() })
}

/// Reads `form`, then a signed 32-bit integer: `d2`, or the length of bytes (`c6`) or of text
/// (`db`).
pub(super) fn i32(
    cur: &mut Cursor<'_>,
    field: &'static str,
    form: u8,
) -> Result<At<i32>, FormatError> {
    let at = cur.position();
    marker(cur, field, form)?;
    Ok(At { at, value: cur.item::<I32>(field)?.get() })
}

/// Reads `d3`, then a signed 64-bit integer.
pub(super) fn i64(cur: &mut Cursor<'_>, field: &'static str) -> Result<At<i64>, FormatError> {
    let at = cur.position();
    marker(cur, field, 0xd3)?;
    Ok(At { at, value: cur.item::<I64>(field)?.get() })
}

/// Reads `form`, then an unsigned 16-bit integer: `cd`, or the count of a map (`de`) or array
/// (`dc`).
pub(super) fn u16(
    cur: &mut Cursor<'_>,
    field: &'static str,
    form: u8,
) -> Result<At<u16>, FormatError> {
    let at = cur.position();
    marker(cur, field, form)?;
    Ok(At { at, value: cur.item::<U16>(field)?.get() })
}

/// Reads `ce`, then an unsigned 32-bit integer.
pub(super) fn u32(cur: &mut Cursor<'_>, field: &'static str) -> Result<At<u32>, FormatError> {
    let at = cur.position();
    marker(cur, field, 0xce)?;
    Ok(At { at, value: cur.item::<U32>(field)?.get() })
}

/// Reads `cf`, then an unsigned 64-bit integer.
pub(super) fn u64(cur: &mut Cursor<'_>, field: &'static str) -> Result<At<u64>, FormatError> {
    let at = cur.position();
    marker(cur, field, 0xcf)?;
    Ok(At { at, value: cur.item::<U64>(field)?.get() })
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

/// The bytes of each form, for encoders.
#[cfg(feature = "alloc")]
pub(super) mod write {
    use alloc::vec::Vec;

    use zerocopy::big_endian::{I16, I32, I64, U16, U32, U64};

    pub(in super::super) fn i16(out: &mut Vec<u8>, value: i16) {
        out.push(0xd1);
        out.extend(I16::new(value).to_bytes());
    }

    pub(in super::super) fn i32(out: &mut Vec<u8>, form: u8, value: i32) {
        out.push(form);
        out.extend(I32::new(value).to_bytes());
    }

    pub(in super::super) fn i64(out: &mut Vec<u8>, value: i64) {
        out.push(0xd3);
        out.extend(I64::new(value).to_bytes());
    }

    pub(in super::super) fn u16(out: &mut Vec<u8>, form: u8, value: u16) {
        out.push(form);
        out.extend(U16::new(value).to_bytes());
    }

    pub(in super::super) fn u32(out: &mut Vec<u8>, value: u32) {
        out.push(0xce);
        out.extend(U32::new(value).to_bytes());
    }

    pub(in super::super) fn u64(out: &mut Vec<u8>, value: u64) {
        out.push(0xcf);
        out.extend(U64::new(value).to_bytes());
    }
}
