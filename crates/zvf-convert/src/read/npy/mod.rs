//! An array of NumPy: rows of positions, or records with named fields.
//!
//! An array of numbers of one or two axes is positions, one row a vertex. Of an array of records, the
//! field `position` (or another, as [`ColumnRoles`](super::ColumnRoles) say) or the fields `x`, `y`, `z`
//! are positions, `object` is the owner (-1 for none, where vertices are points), all others are
//! attributes with the types they have. Files that this crate writes read back as they were.
//!
//! An array of two axes in Fortran order holds one axis of all positions after the other: it is read
//! from several places of a file at once, and not from a stream.

mod array;
mod header;

use std::path::Path;

pub(super) use array::Array;

use super::input::Bytes;
use super::record::block;
use super::roles::{RecordTable, point_kind};
use super::{Header, Piece, ReadOptions, Reader};
use crate::ConvertError;

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<Reader, ConvertError> {
    let path = bytes.path().map(Path::to_owned);
    let array = match path.as_deref() {
        Some(path) => Array::open(bytes, Some(&|at| Bytes::from(path, at)))?,
        None => Array::open(bytes, None)?,
    };
    let kind = point_kind(options, "npy")?;
    let (mut table, axes) = RecordTable::new(array.fields(), kind, options, "npy")?;
    let header = Header { vertices: Some(array.rows()), ..table.vertices.header(axes)? };
    let rows = block(array.stride(), options.batch_rows.max(1));
    Ok(Reader::new(header, Records { array, table, rows }).seeking())
}

/// Records in the course of being read.
struct Records {
    array: Array,
    table: RecordTable,
    rows: usize, // of a piece
}

impl Iterator for Records {
    type Item = Result<Piece, ConvertError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.array.next(self.rows) {
            Ok(Some(records)) => Some(self.table.piece(&records)),
            Ok(None) => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// Reads only the piece that is returned.
    fn nth(&mut self, n: usize) -> Option<Self::Item> {
        match self.array.seek_past(n, self.rows) {
            Ok(()) => self.next(),
            Err(error) => Some(Err(error)),
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
