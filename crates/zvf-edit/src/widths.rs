//! Determines the number of values in a row of a column.
//!
//! The document of a column declares the width. Some writers declare one value and store three, so the first chunk with
//! rows overrides the declaration, as it does for readers.
//!
//! Not here: columns of objects and groups, whose arrays have the width as second dimension.

use serde_json::Value as Json;
use zvf_format::Class;
use zvf_format::fragment::FragmentIndex;
use zvf_format::num::to_u64;
use zvf_metadata::Object;
use zvf_metadata::arrays::{ArrayAttributes as _, Column, LinkAttribute};

use crate::arrays::{CellArray, Chunk};
use crate::error::{At, EditError, Result, fail};
use crate::indexes::column_type;
use crate::scalar::ColumnType;
use crate::snapshot::Snapshot;

/// Returns the width that the attributes of a column of vertices or fragments declare.
fn declared_width(attrs: &Json) -> Result<u32> {
    let column = Column::parse(attributes_object(attrs))?;
    checked_width(column.declared_columns())
}

/// Returns the width that the attributes of a column of links declare.
pub(crate) fn declared_link_width(attrs: &Json) -> Result<u32> {
    let column = LinkAttribute::parse(attributes_object(attrs))?;
    checked_width(column.declared_columns())
}

/// Finds the first chunk of an array with rows. Returns it, and the number of its rows.
///
/// Skips damaged and missing chunks; an edit of them reports the error.
///
/// # Errors
///
/// When a chunk cannot be read now.
pub(crate) fn first_rows(
    snap: &Snapshot,
    array: &CellArray,
    count: impl Fn(&[u8]) -> Option<u64>,
) -> Result<Option<(Chunk, u64)>> {
    for chunk in array.chunks() {
        let bytes = match array.read_stored(snap, &chunk) {
            Err(error) if error.class.is_damage() || error.class == Class::NotFound => continue,
            bytes => bytes?,
        };
        let rows = bytes.and_then(|bytes| count(&bytes)).filter(|rows| *rows > 0);
        if let Some(rows) = rows {
            return Ok(Some((chunk, rows)));
        }
    }
    Ok(None)
}

/// Counts the fragments of a chunk.
pub(crate) fn count_fragments(bytes: &[u8]) -> Option<u64> {
    Some(to_u64(FragmentIndex::parse(bytes).ok()?.iter().count()))
}

/// Returns the type of a column of vertices or fragments. `first` is a chunk with rows, and their number.
///
/// # Errors
///
/// When the rows of that chunk cannot be read: the declared width may not be theirs.
pub(crate) fn resolve_column_type(
    snap: &Snapshot,
    array: &CellArray,
    first: Option<&(Chunk, u64)>,
) -> Result<ColumnType> {
    let attrs = &array.doc["attributes"];
    let width = declared_width(attrs).at(&array.path)?;
    let mut ty = column_type(attrs, width)?;
    let Some((chunk, rows)) = first else { return Ok(ty) };
    let Some(bytes) = array.read_stored(snap, chunk)? else { return Ok(ty) };
    let values = to_u64(bytes.len() / ty.scalar.size().max(1));
    // If no width fits the chunk, loading it reports the mismatch.
    if let Ok(width) = zvf_metadata::columns(width.into(), [(*rows, values)]) {
        ty.width = checked_width(Some(width)).at(&array.path)?;
    }
    Ok(ty)
}

/// Refuses a cell of a column that does not have one row for each item.
pub(crate) fn check_size(path: &str, chunk: &[i64], found: usize, expected: usize) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    fail(
        Class::CountMismatch,
        format!("{path} of chunk {chunk:?}: {found} bytes, expected {expected}"),
    )
}

/// Returns the attributes of an array; none where it states none.
pub(crate) fn attributes_object(attrs: &Json) -> Object {
    attrs.as_object().cloned().unwrap_or_default()
}

fn checked_width(width: Option<u64>) -> Result<u32> {
    width.and_then(|width| u32::try_from(width).ok()).ok_or_else(|| {
        EditError::new(
            Class::LimitExceeded,
            format!("row_shape: expected at most {} values a row, found more", u32::MAX),
        )
    })
}
