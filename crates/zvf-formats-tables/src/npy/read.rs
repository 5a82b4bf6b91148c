//! Reader of NPY files: an array of positions, or of records with named fields.
//!
//! A numeric array of one or two axes holds positions, one row per vertex. In an array of records the
//! field `position` (or the one that [`ColumnRoles`](zvf_formats::ColumnRoles) names) or the fields `x`, `y`,
//! `z` are positions, `object` is the owner (-1 for none, where vertices are points), and all others are
//! attributes that keep their types. Files that this crate writes round-trip.
//!
//! An array of two axes in Fortran order stores one axis of all positions after the other. It is read
//! through one file handle per column, so it cannot be read from a stream.

mod array;
mod header;

use std::path::Path;

pub(crate) use array::Array;

use zvf_error::Result;
use zvf_formats::{Bytes, FileReader, ReadOptions, RecordTable, block_rows, point_kind};
use zvf_model::flow::{Header, Piece};

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<FileReader> {
    let path = bytes.path().map(Path::to_owned);
    let array = match path.as_deref() {
        Some(path) => Array::open(bytes, Some(&|at| Bytes::open_at(path, at, "npy")))?,
        None => Array::open(bytes, None)?,
    };
    let kind = point_kind(options, "npy")?;
    let (mut table, axes) = RecordTable::new(&array.fields, kind, options, "npy")?;
    let header = Header { vertices: Some(array.rows), ..table.vertices.header(axes)? };
    let piece_rows = block_rows(array.stride, options.batch_rows.max(1));
    Ok(FileReader::new(header, Pieces { array, table, piece_rows }).with_seek())
}

/// Iterator over the pieces of an array.
struct Pieces {
    array: Array,
    table: RecordTable,
    piece_rows: usize,
}

impl Iterator for Pieces {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        let records = self.array.read_rows(self.piece_rows).transpose()?;
        Some(records.and_then(|records| self.table.make_piece(&records)))
    }

    /// Seeks past `n` pieces without reading them, and reads the next one.
    fn nth(&mut self, n: usize) -> Option<Self::Item> {
        match self.array.seek_past(n, self.piece_rows) {
            Ok(()) => self.next(),
            Err(error) => Some(Err(error)),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
