//! Arrays of fixed-length rows: ids, columns of objects and groups. They are held in memory and written chunk by chunk.

use std::ops::Range;

use serde_json::{Value as Json, json};
use zvf_format::Class;
use zvf_format::num::{to_u64, usize_from_u32};
use zvf_metadata::ArrayDoc;

use crate::arrays::{Coding, MAX_CELL_BYTES, doc_bytes, doc_key, parse_array_doc};
use crate::changes::Changes;
use crate::error::{EditError, Result};
use crate::row_array::{AbsentRows, row_shape};
use crate::scalar::Scalar;
use crate::snapshot::Snapshot;

/// An array of fixed-length rows, held in memory.
#[derive(Clone, Debug)]
pub(crate) struct DenseArray {
    pub(crate) path: String,
    pub(crate) doc: Json,
    coding: Coding,
    chunk_rows: usize,
    /// Bytes of a row.
    pub(crate) size: usize,
    value_bytes: usize, // bytes of one value, the unit of byte swapping
    pub(crate) bytes: Vec<u8>,
    old_bytes: Vec<u8>,
    /// The fill value of a row.
    pub(crate) fill: Vec<u8>,
    is_new: bool,
    pub(crate) changed: bool,
}

impl DenseArray {
    pub(crate) fn open(
        snap: &Snapshot,
        path: &str,
        scalar: Scalar,
        width: u32,
    ) -> Result<Option<Self>> {
        let Some(text) = snap.get(&doc_key(path))? else { return Ok(None) };
        let doc: Json = serde_json::from_slice(&text)?;
        let parsed = parse_array_doc(path, &text)?;
        let (coding, _) = Coding::open(path, &parsed)?;
        let (count, chunk) = row_shape(path, &doc)?;
        let size = scalar.size() * usize_from_u32(width);
        let rank = doc["shape"].as_array().map_or(1, Vec::len);
        let sizes = count.checked_mul(size).zip(chunk.checked_mul(size));
        let sizes = sizes.filter(|(_, chunk)| {
            (1..=MAX_ROW_BYTES).contains(&size) && to_u64(*chunk) <= MAX_CELL_BYTES
        });
        let Some((total, chunk_bytes)) = sizes else {
            let text = format!(
                "{path}: expected rows of 1 to {MAX_ROW_BYTES} bytes, in chunks of at most {MAX_CELL_BYTES} bytes, \
                 found {count} of {size} bytes in chunks of {chunk} rows"
            );
            return Err(EditError::new(Class::BadShape, text));
        };
        let fill = fill_bytes(path, &parsed, scalar)?.repeat(usize_from_u32(width));
        let mut absent = AbsentRows::new(path, MAX_ABSENT_BYTES / size);
        let mut bytes = Vec::with_capacity(total.min(1 << 24));
        for part in 0..count.div_ceil(chunk) {
            let length = chunk.min(count - part * chunk);
            match snap.get(&dense_key(path, part, rank))? {
                None => {
                    absent.add(length)?;
                    bytes.extend(fill.repeat(length));
                }
                Some(stored) => {
                    let plain = coding
                        .codecs
                        .unpack(stored, MAX_CELL_BYTES)
                        .map_err(|error| EditError::from(error).with_place(path))?;
                    if plain.len() != chunk_bytes {
                        return Err(EditError::new(
                            Class::CountMismatch,
                            format!(
                                "{path}: a chunk has {} bytes, expected {chunk_bytes}",
                                plain.len()
                            ),
                        ));
                    }
                    bytes.extend_from_slice(&plain[..length * size]);
                }
            }
        }
        if coding.is_big_endian && scalar.size() > 1 {
            bytes.chunks_exact_mut(scalar.size()).for_each(<[u8]>::reverse);
        }
        Ok(Some(Self {
            path: path.to_owned(),
            doc,
            coding,
            chunk_rows: chunk,
            size,
            value_bytes: scalar.size(),
            old_bytes: bytes.clone(),
            bytes,
            fill,
            is_new: false,
            changed: false,
        }))
    }

    /// Opens the ids of the index at `index`, where it has a list of them.
    pub(crate) fn open_ids(snap: &Snapshot, index: &str) -> Result<Option<Self>> {
        Self::open(snap, &format!("{index}/object_ids"), Scalar::Int(8), 1)
    }

    /// Creates the ids of the index at `index`, without rows.
    pub(crate) fn create_ids(index: &str) -> Result<Self> {
        let fill = (json!(0), vec![0; 8]);
        Self::create(&format!("{index}/object_ids"), Scalar::Int(8), 1, 1, fill, json!({}))
    }

    pub(crate) fn create(
        path: &str,
        scalar: Scalar,
        width: u32,
        chunk: usize,
        fill: (Json, Vec<u8>),
        attrs: Json,
    ) -> Result<Self> {
        let data_type = match scalar {
            Scalar::Text(n) => {
                json!({"name": "fixed_length_utf32", "configuration": {"length_bytes": n * 4}})
            }
            Scalar::Bytes(n) => {
                json!({"name": "null_terminated_bytes", "configuration": {"length_bytes": n}})
            }
            Scalar::Float(_) | Scalar::Int(_) | Scalar::UInt(_) | Scalar::Bool => {
                json!(scalar.name())
            }
        };
        let codec = match scalar.size() {
            1 => json!({"name": "bytes"}),
            _ => json!({"name": "bytes", "configuration": {"endian": "little"}}),
        };
        let list = |n: usize| if width > 1 { json!([n, width]) } else { json!([n]) };
        let doc = json!({
            "shape": list(0), "data_type": data_type,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": fill.0,
            "codecs": [codec, {"name": "zstd", "configuration": {"level": 0, "checksum": false}}],
            "attributes": attrs, "zarr_format": 3, "node_type": "array", "storage_transformers": []
        });
        let (coding, _) = Coding::open(path, &parse_array_doc(path, &serde_json::to_vec(&doc)?)?)?;
        let size = scalar.size() * usize_from_u32(width);
        Ok(Self {
            path: path.to_owned(),
            doc,
            coding,
            chunk_rows: chunk,
            size,
            value_bytes: scalar.size(),
            bytes: Vec::new(),
            old_bytes: Vec::new(),
            fill: fill.1,
            is_new: true,
            changed: true,
        })
    }

    /// Copies all rows to a new array at `path`.
    pub(crate) fn copy_to(&self, path: &str) -> Self {
        Self {
            path: path.to_owned(),
            old_bytes: Vec::new(),
            is_new: true,
            changed: true,
            ..self.clone()
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() / self.size.max(1)
    }

    pub(crate) fn row(&self, i: usize) -> &[u8] {
        &self.bytes[i * self.size..(i + 1) * self.size]
    }

    pub(crate) fn set_row(&mut self, i: usize, row: &[u8]) {
        self.bytes[i * self.size..(i + 1) * self.size].copy_from_slice(row);
    }

    /// Appends fill rows or drops rows, so that there are `count`.
    pub(crate) fn resize(&mut self, count: usize) {
        while self.len() < count {
            self.bytes.extend_from_slice(&self.fill.clone());
        }
        self.bytes.truncate(count * self.size);
    }

    /// Adds the changes of the array to `out`. With `single_chunk`, the array is one chunk that grows with it.
    pub(crate) fn flush(&mut self, out: &mut Changes, single_chunk: bool) -> Result<()> {
        if self.bytes == self.old_bytes && !self.changed && !self.is_new {
            return Ok(());
        }
        let count = self.len();
        let old_chunk = self.chunk_rows;
        if single_chunk {
            self.chunk_rows = count.max(1);
        }
        let rank = self.doc["shape"].as_array().map_or(1, Vec::len);
        let old_count = self.old_bytes.len() / self.size.max(1);
        let parts = count.div_ceil(self.chunk_rows);
        for part in 0..parts {
            let span = |count: usize, chunk: usize| part * chunk..(part * chunk + chunk).min(count);
            let new = &self.bytes[bytes_of_rows(&span(count, self.chunk_rows), self.size)];
            let old = (old_chunk == self.chunk_rows
                && part * old_chunk < old_count
                && !self.is_new)
                .then(|| &self.old_bytes[bytes_of_rows(&span(old_count, old_chunk), self.size)]);
            if old == Some(new) {
                continue;
            }
            let mut plain = new.to_vec();
            plain.extend(self.fill.repeat(self.chunk_rows - new.len() / self.size.max(1)));
            if self.coding.is_big_endian && self.value_bytes > 1 {
                plain.chunks_exact_mut(self.value_bytes).for_each(<[u8]>::reverse);
            }
            out.insert(
                dense_key(&self.path, part, rank),
                Some(self.coding.codecs.pack(plain.into())?),
            );
        }
        if !self.is_new {
            for part in parts..old_count.div_ceil(old_chunk) {
                out.insert(dense_key(&self.path, part, rank), None);
            }
        }
        self.doc["shape"][0] = json!(count);
        self.doc["chunk_grid"]["configuration"]["chunk_shape"][0] = json!(self.chunk_rows);
        if self.doc["attributes"].get("shape").is_some() {
            self.doc["attributes"]["shape"] = self.doc["shape"].clone();
        }
        out.insert(doc_key(&self.path), Some(doc_bytes(&self.doc)?));
        self.old_bytes = self.bytes.clone();
        (self.is_new, self.changed) = (false, false);
        Ok(())
    }

    /// Adds the removal of the array to `out`.
    pub(crate) fn push_removal(&self, out: &mut Changes) {
        if self.is_new {
            return;
        }
        let rank = self.doc["shape"].as_array().map_or(1, Vec::len);
        let count = self.old_bytes.len() / self.size.max(1);
        for part in 0..count.div_ceil(self.chunk_rows) {
            out.insert(dense_key(&self.path, part, rank), None);
        }
        out.insert(doc_key(&self.path), None);
    }
}

fn bytes_of_rows(span: &Range<usize>, size: usize) -> Range<usize> {
    span.start * size..span.end * size
}

fn dense_key(path: &str, part: usize, rank: usize) -> String {
    format!("{path}/c/{part}{}", "/0".repeat(rank.saturating_sub(1))) // a rank is at least 1
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
        let read = |data_type: Json, fill: Json, scalar| {
            let text = json!({
                "shape": [2], "data_type": data_type,
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
                "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
                "fill_value": fill, "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
                "attributes": {}, "zarr_format": 3, "node_type": "array"
            });
            let text = serde_json::to_vec(&text).unwrap();
            fill_bytes("a", &parse_array_doc("a", &text)?, scalar)
        };
        let bytes = json!({"name": "null_terminated_bytes", "configuration": {"length_bytes": 2}});
        for (data_type, fill, scalar, expected) in [
            (json!("float32"), json!("0x7fc00001"), Scalar::Float(4), vec![1, 0, 0xc0, 0x7f]),
            (json!("float32"), json!("NaN"), Scalar::Float(4), vec![0, 0, 0xc0, 0x7f]),
            (json!("int16"), json!(-2), Scalar::Int(2), vec![0xfe, 0xff]),
            (json!("bool"), json!(true), Scalar::Bool, vec![1]),
            (bytes.clone(), json!(""), Scalar::Bytes(2), vec![0, 0]),
        ] {
            assert_eq!(read(data_type, fill, scalar), Ok(expected), "{}", scalar.name());
        }
        let error = read(bytes, json!("AAE="), Scalar::Bytes(2)).unwrap_err();
        assert_eq!(error.message, "a: fill_value is not read as |S2");
        assert_eq!(error.class, Class::Unsupported);
        assert!(read(json!("int16"), json!("x"), Scalar::Int(2)).is_err());
    }
}
