//! Arrays of fixed-length rows: ids, columns of objects and groups. They are held in memory and written chunk by chunk.

use std::ops::RangeInclusive;

use serde_json::{Value as Json, json};
use zvf_format::Class;
use zvf_format::num::{to_u64, usize_from_u32};
use zvf_metadata::{ArrayDoc, DataTypeKind, DtypeKind};

use crate::arrays::MAX_CELL_BYTES;
use crate::changes::Changes;
use crate::error::{EditError, OrFail, Result, fail};
use crate::row_chunks::{Edited, RowChunks};
use crate::scalar::{ColumnType, Scalar};
use crate::snapshot::Snapshot;

/// An array of fixed-length rows, held in memory.
#[derive(Clone, Debug)]
pub(crate) struct DenseArray {
    pub(crate) stored: RowChunks,
    /// Bytes of a row.
    pub(crate) size: usize,
    value_bytes: usize, // bytes of one value, the unit of byte swapping
    pub(crate) bytes: Edited<u8>,
    /// The fill value of a row.
    pub(crate) fill: Vec<u8>,
}

impl DenseArray {
    /// Opens an array. Returns it with the type of its rows.
    pub(crate) fn open(snap: &Snapshot, path: &str) -> Result<Option<(Self, ColumnType)>> {
        let Some((stored, parsed, count)) = RowChunks::open(snap, path)? else { return Ok(None) };
        let scalar = match parsed.data_type.kind() {
            DataTypeKind::Fixed(dtype) => Scalar::plain(*dtype),
            DataTypeKind::PaddedBytes(size) => u32::try_from(*size).ok().map(Scalar::Bytes),
            DataTypeKind::VariableLengthBytes | DataTypeKind::Other(_) => None,
        };
        let scalar = scalar.ok_or_else(|| {
            let data_type = &stored.doc["data_type"];
            EditError::unsupported(format!("{path}: columns of {data_type} are not edited"))
        })?;
        // The second dimension, where there is one.
        let width = match parsed.shape[..] {
            [_] => Some(1),
            [_, width] => u32::try_from(width).ok(),
            _ => None,
        };
        let width = width.or_fail(Class::BadShape, || format!(
                "{path}, shape: expected the number of rows, and of values a row below 2^32, found {:?}",
                parsed.shape
            ))?;
        let ty = ColumnType { width, ..ColumnType::from_scalar(scalar) };
        let (size, chunk) = (ty.size(), stored.chunk_rows);
        let sizes = count.checked_mul(size).zip(chunk.checked_mul(size));
        let sizes = sizes.filter(|(_, chunk)| {
            (1..=MAX_ROW_BYTES).contains(&size) && to_u64(*chunk) <= MAX_CELL_BYTES
        });
        let Some((total, chunk_bytes)) = sizes else {
            let text = format!(
                "{path}: expected rows of 1 to {MAX_ROW_BYTES} bytes, in chunks of at most {MAX_CELL_BYTES} bytes, \
                 found {count} of {size} bytes in chunks of {chunk} rows"
            );
            return fail(Class::BadShape, text);
        };
        let fill = fill_bytes(path, &parsed, scalar)?.repeat(usize_from_u32(width));
        let mut bytes = Vec::with_capacity(total.min(1 << 24));
        stored.read(snap, count, MAX_ABSENT_BYTES / size, |length, plain| {
            match plain {
                None => bytes.extend(fill.repeat(length)),
                Some(plain) if plain.len() == chunk_bytes => {
                    bytes.extend_from_slice(&plain[..length * size]);
                }
                Some(plain) => {
                    let found = plain.len();
                    let text = format!("{path}: a chunk has {found} bytes, expected {chunk_bytes}");
                    return fail(Class::CountMismatch, text);
                }
            }
            Ok(())
        })?;
        if stored.coding.is_big_endian && scalar.size() > 1 {
            bytes.chunks_exact_mut(scalar.size()).for_each(<[u8]>::reverse);
        }
        let (value_bytes, bytes) = (scalar.size(), Edited::new(bytes));
        Ok(Some((Self { stored, size, value_bytes, bytes, fill }, ty)))
    }

    /// Opens the ids of the index at `index`, where it has a list of them.
    pub(crate) fn open_ids(snap: &Snapshot, index: &str) -> Result<Option<Self>> {
        Self::open_integers(snap, &format!("{index}/object_ids"), 1..=1)
    }

    /// Opens an array of int64, with so many a row.
    pub(crate) fn open_integers(
        snap: &Snapshot,
        path: &str,
        widths: RangeInclusive<u32>,
    ) -> Result<Option<Self>> {
        let Some((array, ty)) = Self::open(snap, path)? else { return Ok(None) };
        let integers = ColumnType { width: ty.width, ..ColumnType::from_scalar(Scalar::INT64) };
        if ty == integers && widths.contains(&ty.width) {
            return Ok(Some(array));
        }
        let (found, least) = (ty.scalar.name(), widths.start());
        let text =
            format!("{path}: expected {least} int64 a row or more, found {} of {found}", ty.width);
        fail(Class::BadTag, text)
    }

    /// Creates the ids of the index at `index`, without rows.
    pub(crate) fn create_ids(index: &str) -> Result<Self> {
        let fill = (json!(0), vec![0; 8]);
        Self::create(&format!("{index}/object_ids"), Scalar::INT64, 1, 1, fill, json!({}))
    }

    pub(crate) fn create(
        path: &str,
        scalar: Scalar,
        width: u32,
        chunk: usize,
        fill: (Json, Vec<u8>),
        attrs: Json,
    ) -> Result<Self> {
        let data_type = match (scalar, scalar.kind()) {
            (Scalar::Plain(dtype), DtypeKind::Text) => {
                json!({"name": "fixed_length_utf32", "configuration": {"length_bytes": dtype.size}})
            }
            (Scalar::Bytes(n), _) => {
                json!({"name": "null_terminated_bytes", "configuration": {"length_bytes": n}})
            }
            (Scalar::Plain(dtype), _) => json!(dtype),
        };
        let codec = match scalar.size() {
            1 => json!({"name": "bytes"}),
            _ => json!({"name": "bytes", "configuration": {"endian": "little"}}),
        };
        let list = |n: usize| if width > 1 { json!([n, width]) } else { json!([n]) };
        let stored = RowChunks::create(
            path,
            json!({
                "shape": list(0), "data_type": data_type,
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk)}},
                "fill_value": fill.0, "codecs": [codec], "attributes": attrs,
            }),
        )?;
        let (size, value_bytes) = (scalar.size() * usize_from_u32(width), scalar.size());
        Ok(Self { stored, size, value_bytes, bytes: Edited::default(), fill: fill.1 })
    }

    /// Copies all rows to a new array at `path`.
    pub(crate) fn copy_to(&self, path: &str) -> Self {
        let (path, is_new, changed) = (path.to_owned(), true, true);
        let stored = RowChunks { path, is_new, changed, ..self.stored.clone() };
        let mut bytes = Edited::default();
        bytes.now.clone_from(&self.bytes.now);
        Self { stored, bytes, fill: self.fill.clone(), ..*self }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.now.len() / self.size.max(1)
    }

    pub(crate) fn row(&self, i: usize) -> &[u8] {
        &self.bytes.now[i * self.size..(i + 1) * self.size]
    }

    pub(crate) fn set_row(&mut self, i: usize, row: &[u8]) {
        if self.row(i) != row {
            let span = i * self.size..(i + 1) * self.size;
            self.bytes.change()[span].copy_from_slice(row);
        }
    }

    /// Appends fill rows or drops rows, so that there are `count`.
    pub(crate) fn resize(&mut self, count: usize) {
        let missing = count.checked_sub(self.len());
        match missing {
            Some(missing) => self.bytes.now.extend(self.fill.repeat(missing)),
            None => self.bytes.change().truncate(count * self.size),
        }
    }

    /// Adds the changes of the array to `out`. With `single_chunk`, the array is one chunk that grows with it.
    pub(crate) fn flush(&mut self, out: &mut Changes, single_chunk: bool) -> Result<()> {
        if self.bytes.now == self.bytes.old() && !self.stored.is_changed() {
            return Ok(());
        }
        let (counts, size) = ([self.len(), self.bytes.old().len() / self.size], self.size);
        let is_single = single_chunk && self.stored.shard_chunks.is_none();
        let chunk_rows = if is_single { counts[0].max(1) } else { self.stored.chunk_rows };
        let swapped = self.stored.coding.is_big_endian && self.value_bytes > 1;
        let mut shape = self.stored.doc["shape"].clone();
        shape[0] = json!(counts[0]);
        if let Some(stated) = self.stored.doc["attributes"].get_mut("shape") {
            *stated = shape;
        }
        let Self { stored, bytes, fill, value_bytes, .. } = self;
        let (bytes, old) = (&bytes.now[..], bytes.old());
        stored.flush(out, counts, chunk_rows, |span, is_same_grid| {
            let new = &bytes[span.start * size..span.end * size];
            let before = span.start * size..(span.end.min(counts[1])) * size;
            if is_same_grid && old.get(before) == Some(new) {
                return Ok(None);
            }
            let mut plain = new.to_vec();
            plain.extend(fill.repeat(chunk_rows - span.len()));
            if swapped {
                plain.chunks_exact_mut(*value_bytes).for_each(<[u8]>::reverse);
            }
            Ok(Some(plain))
        })?;
        self.bytes.settle();
        Ok(())
    }

    /// Adds the removal of the array to `out`.
    pub(crate) fn push_removal(&self, out: &mut Changes) {
        self.stored.push_removal(self.bytes.old().len() / self.size, out);
    }
}

/// Encodes the fill value of an array.
///
/// # Errors
///
/// When it is not a value of the type of the rows.
fn fill_bytes(path: &str, doc: &ArrayDoc, scalar: Scalar) -> Result<Vec<u8>> {
    scalar.encode_fill(doc.fill_value.fill()).map_err(|error| {
        let message = format!("{path}: fill_value is not read as {}", scalar.name());
        EditError::new(Class::Unsupported, message).with_cause(error)
    })
}

/// Maximum bytes of a row, of which one with the fill value is held.
const MAX_ROW_BYTES: usize = 1 << 24;
/// Maximum bytes of rows that are declared and not stored.
const MAX_ABSENT_BYTES: usize = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fill_values_are_read_exactly_or_refused() {
        let read = |data_type: Json, fill: Json, scalar: &str| {
            let text = json!({
                "shape": [2], "data_type": data_type,
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
                "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
                "fill_value": fill, "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
                "attributes": {}, "zarr_format": 3, "node_type": "array"
            });
            let text = serde_json::to_vec(&text).unwrap();
            fill_bytes("a", &ArrayDoc::parse(&text)?, Scalar::parse(scalar)?.0)
        };
        let bytes = json!({"name": "null_terminated_bytes", "configuration": {"length_bytes": 2}});
        for (data_type, fill, scalar, expected) in [
            (json!("float32"), json!("0x7fc00001"), "float32", vec![1, 0, 0xc0, 0x7f]),
            (json!("float32"), json!("NaN"), "float32", vec![0, 0, 0xc0, 0x7f]),
            (json!("int16"), json!(-2), "int16", vec![0xfe, 0xff]),
            (json!("bool"), json!(true), "bool", vec![1]),
            (bytes.clone(), json!(""), "|S2", vec![0, 0]),
        ] {
            assert_eq!(read(data_type, fill, scalar), Ok(expected), "{scalar}");
        }
        let error = read(bytes, json!("AAE="), "|S2").unwrap_err();
        assert_eq!(error.message, "a: fill_value is not read as |S2");
        assert_eq!(error.class, Class::Unsupported);
        assert!(read(json!("int16"), json!("x"), "int16").is_err());
    }
}
