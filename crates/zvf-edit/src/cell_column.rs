//! Columns with a row for each vertex or fragment, in a cell for each chunk.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use serde_json::{Value as Json, json};
use zvf_format::Class;
use zvf_format::fragment::{FragmentIndex, FragmentIndexBuilder};
use zvf_format::num::to_u64;
use zvf_metadata::arrays::{ArrayAttributes as _, Column, LinkColumnAttrs};

use crate::arrays::{CellArray, Chunk};
use crate::changes::Changes;
use crate::error::{At, OrFail, Result, fail};
use crate::indexes::{column_type, list_children};
use crate::row_pages::RowPages;
use crate::scalar::ColumnType;
use crate::snapshot::{Snapshot, attributes_object};
use crate::stored_column::{StoredColumn, sibling_path};

/// A column. `D` holds values after the edit.
#[derive(Clone, Debug)]
pub(crate) struct CellColumn<D> {
    pub(crate) name: String,
    pub(crate) array: CellArray,
    pub(crate) ty: ColumnType,
    pub(crate) data: D,
    /// Whether `data` has the stored values as well.
    pub(crate) is_loaded: bool,
    /// The value of new rows.
    pub(crate) fill: Vec<u8>,
    /// Whether this transaction added it, so that every chunk must be written.
    pub(crate) is_new: bool,
}

impl<D> StoredColumn for CellColumn<D> {
    fn name(&self) -> &str {
        &self.name
    }

    fn push_removal(&self, out: &mut Changes) -> Result<()> {
        self.array.push_removal(out)
    }

    fn rename(&mut self, to: &str) -> Result<()> {
        to.clone_into(&mut self.name);
        let path = sibling_path(&self.array.path, to);
        rename_array(&mut self.array, &path, to)
    }
}

/// A column of vertices, with the rows of all vertices loaded so far, once a value is needed.
pub(crate) type VertexColumn = CellColumn<RowPages>;

/// A column of fragments, with the values that were set, by chunk number and fragment.
pub(crate) type FragmentColumn = CellColumn<BTreeMap<(u32, u32), Vec<u8>>>;

impl<D> CellColumn<D> {
    /// Opens the columns of a group. `like` has as many rows in each chunk, which `count` counts.
    pub(crate) fn open_all(
        snap: &Rc<Snapshot>,
        group: &str,
        (like, count): (&CellArray, impl Fn(&[u8]) -> Option<u64>),
        data: impl Fn(&ColumnType) -> D,
    ) -> Result<Vec<Self>> {
        let names = list_children(snap, group)?;
        let first = if names.is_empty() { None } else { first_rows(like, count)? };
        let open = |name: String| {
            let array = CellArray::need(snap, &format!("{group}/{name}"))?;
            let ty = resolve_column_type(&array, first.as_ref())?;
            let (fill, data) = (ty.sentinel(), data(&ty));
            Ok(Self { name, array, ty, data, is_loaded: false, fill, is_new: false })
        };
        names.into_iter().map(open).collect()
    }

    /// Reads the rows of a chunk before the edit; of a column with a new name, the staged ones.
    ///
    /// # Errors
    ///
    /// When the number of rows is not `count`.
    pub(crate) fn read_rows(&self, chunk: &[i64], count: usize) -> Result<Option<Bytes>> {
        let stored = self.array.read_stored(chunk)?;
        let bytes = stored.map_or_else(|| self.array.read(chunk), |bytes| Ok(Some(bytes)))?;
        if let Some(bytes) = &bytes {
            check_size(&self.array.path, chunk, bytes.len(), count * self.ty.size())?;
        }
        Ok(bytes)
    }
}

impl VertexColumn {
    /// Reads the rows of a chunk of `count` vertices, which all have a value.
    pub(crate) fn need_rows(&self, key: &[i64], count: usize) -> Result<Bytes> {
        match self.read_rows(key, count)? {
            Some(bytes) => Ok(bytes),
            None if self.is_new => Ok(self.fill.repeat(count).into()),
            None => fail(
                Class::CountMismatch,
                format!(
                    "{} of chunk {key:?}: nothing is stored, expected {count} rows",
                    self.array.path
                ),
            ),
        }
    }
}

/// Replaces the array of a column by its copy at `path`, with the name `to`.
pub(crate) fn rename_array(array: &mut CellArray, path: &str, to: &str) -> Result<()> {
    *array = array.copy_to(path)?;
    array.set_attribute("name", json!(to));
    Ok(())
}

/// Returns the width that the attributes of a column of links declare.
pub(crate) fn declared_link_width(attrs: &Json) -> Result<u32> {
    let column = LinkColumnAttrs::parse(attributes_object(attrs))?;
    checked_width(column.declared_columns())
}

/// Finds the first chunk of an array with rows. Returns it, and the number of its rows.
///
/// Skips damaged and missing chunks; an edit of them reports the error.
///
/// # Errors
///
/// When a chunk cannot be read now.
fn first_rows(
    array: &CellArray,
    count: impl Fn(&[u8]) -> Option<u64>,
) -> Result<Option<(Chunk, u64)>> {
    for chunk in array.chunks() {
        let bytes = match array.read_stored(&chunk) {
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
    Some(FragmentIndex::parse(bytes).ok()?.len())
}

/// Encodes consecutive spans of these lengths.
pub(crate) fn encode_spans(counts: impl IntoIterator<Item = u64>) -> Result<Vec<u8>> {
    let (mut index, mut start) = (FragmentIndexBuilder::new(), 0);
    for count in counts {
        index.push_range(start, count)?;
        start += count;
    }
    Ok(index.encode())
}

/// Returns the type of a column of vertices or fragments. `first` is a chunk with rows, and their number.
///
/// # Errors
///
/// When the rows of that chunk cannot be read: the declared width may not be theirs.
fn resolve_column_type(array: &CellArray, first: Option<&(Chunk, u64)>) -> Result<ColumnType> {
    let attrs = &array.doc["attributes"];
    let declared = || checked_width(Column::parse(attributes_object(attrs))?.declared_columns());
    let width = declared().at(&array.path)?;
    let mut ty = column_type(attrs, width)?;
    let Some((chunk, rows)) = first else { return Ok(ty) };
    let Some(bytes) = array.read_stored(chunk)? else { return Ok(ty) };
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

fn checked_width(width: Option<u64>) -> Result<u32> {
    width.and_then(|width| u32::try_from(width).ok()).or_fail(Class::LimitExceeded, || {
        format!("row_shape: expected at most {} values a row, found more", u32::MAX)
    })
}
