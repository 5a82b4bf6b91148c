//! Metadata between the header and the geometry: names and values, which are skipped.
//!
//! ```text
//! varint n, n x (varint id, entries); entries of the whole
//! entries    varint n, n x (u8 size, name, varint size, value); varint n, n x (u8 size, name, entries)
//! ```

use zvf_format::Class;

use crate::DracoError;
use crate::bytes::Cursor;

/// Skips all metadata.
pub(crate) fn skip(cursor: &mut Cursor<'_>) -> Result<(), DracoError> {
    let attributes = cursor.count("metadata of attributes")?;
    check(cursor, attributes)?;
    for _ in 0..attributes {
        cursor.varint("an id")?;
        skip_entries(cursor)?;
    }
    skip_entries(cursor)
}

/// Skips entries and nested ones; keeps the number left at each level.
fn skip_entries(cursor: &mut Cursor<'_>) -> Result<(), DracoError> {
    let mut open = vec![read_own(cursor)?];
    while let Some(left) = open.last_mut() {
        let Some(others) = left.checked_sub(1) else {
            open.pop();
            continue;
        };
        *left = others;
        let size = usize::from(cursor.byte("the size of a name")?);
        cursor.take(size, "a name")?;
        if open.len() >= MAX_DEPTH {
            let expected = format!("at most {MAX_DEPTH} levels of metadata");
            return Err(cursor.read_error(Class::LimitExceeded, expected, "more"));
        }
        open.push(read_own(cursor)?);
    }
    Ok(())
}

/// Reads the values of one level; returns the number of nested levels.
fn read_own(cursor: &mut Cursor<'_>) -> Result<usize, DracoError> {
    let entries = cursor.count("metadata")?;
    check(cursor, entries)?;
    for _ in 0..entries {
        let size = usize::from(cursor.byte("the size of a name")?);
        cursor.take(size, "a name")?;
        let size = cursor.count("the size of a value")?;
        cursor.take(size, "a value")?;
    }
    let below = cursor.count("metadata below")?;
    check(cursor, below)?;
    Ok(below)
}

fn check(cursor: &Cursor<'_>, count: usize) -> Result<(), DracoError> {
    let left = cursor.rest().len();
    if count <= left {
        return Ok(());
    }
    Err(cursor.read_error(Class::Truncated, format!("{count} entries"), format!("{left} bytes")))
}

const MAX_DEPTH: usize = 64;
