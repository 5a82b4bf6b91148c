//! Arrays of fixed-length rows: ids, columns of objects and groups. They are held in memory and written chunk by chunk.
//!
//! Also here: the stored form of all arrays of rows, which is a document and chunks that may lie in
//! shards.

use std::ops::{Range, RangeInclusive};

use bytes::Bytes;
use serde_json::{Value as Json, json};
use zvf_format::Class;
use zvf_format::num::{checked_usize, to_u64, usize_from_u32};
use zvf_metadata::{ArrayDoc, DataTypeKind};

use crate::arrays::{Coding, MAX_CELL_BYTES};
use crate::changes::{Changes, read_blob};
use crate::error::{At, EditError, OrFail, Result, fail};
use crate::scalar::{ColumnType, Scalar};
use crate::snapshot::{Snapshot, doc_key, parse_doc};

/// An array of fixed-length rows, held in memory.
#[derive(Clone, Debug)]
pub(crate) struct DenseArray {
    pub(crate) stored: RowChunks,
    /// Bytes of a row.
    pub(crate) size: usize,
    /// The number of bytes that are stored in another order, where they are.
    swapped: Option<usize>,
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
            DataTypeKind::PaddedBytes(size) => u32::try_from(*size).ok().map(Scalar::bytes),
            DataTypeKind::VariableLengthBytes | DataTypeKind::Other(_) => None,
        };
        let scalar = scalar.or_unsupported(|| {
            format!("{path}: columns of {} are not edited", stored.doc["data_type"])
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
        let swapped = stored.coding.is_big_endian.then(|| scalar.swapped_bytes());
        swap_bytes(swapped, &mut bytes);
        Ok(Some((Self { stored, size, swapped, bytes: Edited::new(bytes), fill }, ty)))
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
        let codec = match scalar.size() {
            1 => json!({"name": "bytes"}),
            _ => json!({"name": "bytes", "configuration": {"endian": "little"}}),
        };
        let list = |n: usize| if width > 1 { json!([n, width]) } else { json!([n]) };
        let stored = RowChunks::create(
            path,
            json!({
                "shape": list(0), "data_type": scalar.data_type(),
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk)}},
                "fill_value": fill.0, "codecs": [codec], "attributes": attrs,
            }),
        )?;
        let (size, bytes) = (scalar.size() * usize_from_u32(width), Edited::default());
        Ok(Self { stored, size, swapped: None, bytes, fill: fill.1 })
    }

    /// Copies all rows to a new array at `path`.
    pub(crate) fn copy_to(&self, path: &str) -> Self {
        let (path, is_new, changed) = (path.to_owned(), true, true);
        let stored = RowChunks { path, is_new, changed, ..self.stored.clone() };
        Self { stored, ..self.clone() }
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

    /// Sets ids from a row on, which are the last rows then.
    pub(crate) fn set_ids(&mut self, from: usize, ids: impl IntoIterator<Item = i64>) {
        let ids: Vec<u8> = ids.into_iter().flat_map(i64::to_le_bytes).collect();
        self.resize(from + ids.len() / 8);
        if self.bytes.now[from * 8..] != ids {
            self.bytes.change()[from * 8..].copy_from_slice(&ids);
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
        let is_single = single_chunk && !self.stored.is_sharded();
        let chunk_rows = if is_single { counts[0].max(1) } else { self.stored.chunk_rows };
        let mut shape = self.stored.doc["shape"].clone();
        shape[0] = json!(counts[0]);
        if let Some(stated) = self.stored.doc["attributes"].get_mut("shape") {
            *stated = shape;
        }
        let Self { stored, bytes, fill, swapped, .. } = self;
        let (bytes, old) = (&bytes.now[..], bytes.old());
        stored.flush(out, counts, chunk_rows, |span, is_same_grid| {
            let new = &bytes[span.start * size..span.end * size];
            let before = span.start * size..(span.end.min(counts[1])) * size;
            if is_same_grid && old.get(before) == Some(new) {
                return Ok(None);
            }
            let mut plain = new.to_vec();
            plain.extend(fill.repeat(chunk_rows - span.len()));
            swap_bytes(*swapped, &mut plain);
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

/// Reverses each run of so many bytes.
fn swap_bytes(count: Option<usize>, bytes: &mut [u8]) {
    count.into_iter().for_each(|count| bytes.chunks_exact_mut(count).for_each(<[u8]>::reverse));
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

/// Values that an edit changes, with those before the edit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edited<T> {
    /// The values. New ones are appended here; others are changed by [`change`](Self::change).
    pub(crate) now: Vec<T>,
    /// The number of values before the edit.
    old_len: usize,
    /// A copy of the values before the edit, once any of them changes.
    old: Option<Vec<T>>,
}

impl<T: Clone> Edited<T> {
    /// Takes the values before an edit.
    pub(crate) fn new(now: Vec<T>) -> Self {
        Self { old_len: now.len(), now, old: None }
    }

    pub(crate) fn old(&self) -> &[T] {
        self.old.as_deref().unwrap_or_else(|| &self.now[..self.old_len])
    }

    /// Returns the values for a change of any of them.
    pub(crate) fn change(&mut self) -> &mut Vec<T> {
        if self.old.is_none() {
            self.old = Some(self.old().to_vec());
        }
        &mut self.now
    }

    /// Takes the values as those before the next edit.
    pub(crate) fn settle(&mut self) {
        (self.old_len, self.old) = (self.now.len(), None);
    }
}

/// The stored form of an array of rows: its document, and its chunks.
#[derive(Clone, Debug)]
pub(crate) struct RowChunks {
    pub(crate) path: String,
    pub(crate) doc: Json,
    coding: Coding,
    pub(crate) chunk_rows: usize,
    pub(crate) is_new: bool,
    pub(crate) changed: bool,
}

impl RowChunks {
    /// Opens an array. Returns it with its document, and the number of its rows.
    pub(crate) fn open(snap: &Snapshot, path: &str) -> Result<Option<(Self, ArrayDoc, usize)>> {
        let Some(text) = snap.get(&doc_key(path))? else { return Ok(None) };
        let parsed = ArrayDoc::parse(&text).at(path)?;
        let (opened, count) = Self::with_doc(path, parse_doc(&text)?, &parsed)?;
        Ok(Some((opened, parsed, count)))
    }

    /// Creates an array whose document has these members, and those that all have.
    pub(crate) fn create(path: &str, mut doc: Json) -> Result<Self> {
        doc["chunk_key_encoding"] = json!({"name": "default", "configuration": {"separator": "/"}});
        doc["zarr_format"] = json!(3);
        doc["node_type"] = json!("array");
        doc["storage_transformers"] = json!([]);
        let packed = json!({"name": "zstd", "configuration": {"level": 0, "checksum": false}});
        doc["codecs"].as_array_mut().into_iter().for_each(|codecs| codecs.push(packed.clone()));
        let parsed = ArrayDoc::parse(&serde_json::to_vec(&doc)?).at(path)?;
        let (created, _) = Self::with_doc(path, doc, &parsed)?;
        Ok(Self { is_new: true, changed: true, ..created })
    }

    fn with_doc(path: &str, doc: Json, parsed: &ArrayDoc) -> Result<(Self, usize)> {
        if parsed.sharding().is_some() {
            check_row_shards(path, parsed)?;
        }
        let coding = Coding::open(path, parsed)?;
        let number = |sizes: &[u64]| sizes.first().copied().and_then(checked_usize);
        let chunk_rows = number(parsed.inner_chunk_shape()).filter(|rows| *rows > 0);
        let both = number(&parsed.shape).zip(chunk_rows);
        let (count, chunk_rows) = both.or_fail(Class::BadShape, || {
            let (shape, chunk) = (&parsed.shape, &parsed.chunk_shape);
            format!("{path}: expected rows in chunks, found shape {shape:?} in {chunk:?}")
        })?;
        let (path, is_new, changed) = (path.to_owned(), false, false);
        Ok((Self { path, doc, coding, chunk_rows, is_new, changed }, count))
    }

    /// Packs a new array in shards of rows, as `like` is.
    pub(crate) fn shard_like(&mut self, like: &Self) -> Result<()> {
        if !like.is_sharded() {
            return Ok(());
        }
        let chunk = &mut self.doc["chunk_grid"]["configuration"]["chunk_shape"];
        let mut inner = chunk.clone();
        inner[0] = json!(like.chunk_rows);
        chunk[0] = like.doc["chunk_grid"]["configuration"]["chunk_shape"][0].clone();
        let mut sharding = like.doc["codecs"][0].clone();
        sharding["configuration"]["chunk_shape"] = inner;
        sharding["configuration"]["codecs"] = self.doc["codecs"].take();
        self.doc["codecs"] = json!([sharding]);
        let parsed = ArrayDoc::parse(&serde_json::to_vec(&self.doc)?).at(&self.path)?;
        let (sharded, _) = Self::with_doc(&self.path, self.doc.take(), &parsed)?;
        *self = Self { is_new: true, changed: true, ..sharded };
        Ok(())
    }

    /// Returns whether the document has to be written.
    pub(crate) fn is_changed(&self) -> bool {
        self.changed || self.is_new
    }

    pub(crate) const fn is_sharded(&self) -> bool {
        self.coding.shard.is_some()
    }

    /// Returns the key of a file.
    fn key(&self, file: usize) -> String {
        let rank = self.doc["shape"].as_array().map_or(1, Vec::len); // at least 1
        format!("{}/c/{file}{}", self.path, "/0".repeat(rank.saturating_sub(1)))
    }

    /// Reads `count` rows: calls `each` with the number of rows of each chunk, and with its bytes
    /// where it is stored.
    ///
    /// # Errors
    ///
    /// When more than `most` rows are declared and not stored: a damaged shape may declare any
    /// number of them.
    pub(crate) fn read(
        &self,
        snap: &Snapshot,
        count: usize,
        most: usize,
        mut each: impl FnMut(usize, Option<Bytes>) -> Result<()>,
    ) -> Result<()> {
        let (mut rows, mut chunks, mut cells) = (0, 0, Vec::new());
        for part in 0..count.div_ceil(self.chunk_rows) {
            let length = self.chunk_rows.min(count - part * self.chunk_rows);
            let (file, place) = (part / self.coding.cells, part % self.coding.cells);
            if place == 0 {
                cells = self.coding.open_file(snap, &self.key(file))?;
            }
            let stored = read_blob(&cells[place])?;
            if stored.is_none() {
                if length > most - rows || chunks == MAX_ABSENT_CHUNKS {
                    let text = format!(
                        "{}: expected at most {most} rows in {MAX_ABSENT_CHUNKS} chunks that are declared and not stored, \
                         found more; run \"zvf validate\"",
                        self.path
                    );
                    return fail(Class::LimitExceeded, text);
                }
                rows += length;
                chunks += 1;
            }
            let plain = stored.map(|stored| self.coding.unpack(stored)).transpose();
            each(length, plain.at(&self.path)?)?;
        }
        Ok(())
    }

    /// Adds the document and the changed chunks to `out`. `encode` gets the rows of a chunk, and
    /// whether the stored chunk has the same rows; it returns no bytes for an unchanged chunk.
    pub(crate) fn flush(
        &mut self,
        out: &mut Changes,
        [count, old_count]: [usize; 2],
        chunk_rows: usize,
        encode: impl Fn(Range<usize>, bool) -> Result<Option<Vec<u8>>>,
    ) -> Result<()> {
        let old_chunk = std::mem::replace(&mut self.chunk_rows, chunk_rows);
        let (parts, is_same_grid) = (count.div_ceil(chunk_rows), old_chunk == chunk_rows);
        let (may_keep, shard) = (is_same_grid && !self.is_new, self.coding.cells);
        let rows = |part: usize| part * chunk_rows..(part * chunk_rows + chunk_rows).min(count);
        for file in 0..parts.div_ceil(shard) {
            let chunks = file * shard..(file * shard + shard).min(parts);
            let new = chunks.clone().map(|part| encode(rows(part), may_keep));
            let new = new.collect::<Result<Vec<_>>>()?;
            if new.iter().all(Option::is_none) {
                continue;
            }
            let mut cells = vec![None; shard];
            for ((part, new), cell) in chunks.zip(new).zip(&mut cells) {
                // A shard is written as a whole.
                let plain = new.map_or_else(|| encode(rows(part), false), |new| Ok(Some(new)))?;
                *cell = plain.map(|plain| self.coding.pack(plain)).transpose()?;
            }
            out.insert(self.key(file), self.coding.join(cells)?);
        }
        let before = if self.is_new { 0 } else { old_count.div_ceil(old_chunk).div_ceil(shard) };
        (parts.div_ceil(shard)..before).for_each(|file| out.insert(self.key(file), None));
        self.doc["shape"][0] = json!(count);
        if !self.is_sharded() {
            self.doc["chunk_grid"]["configuration"]["chunk_shape"][0] = json!(chunk_rows);
        }
        out.put_doc(&self.path, &self.doc)?;
        (self.is_new, self.changed) = (false, false);
        Ok(())
    }

    /// Adds the removal of the array, which had so many rows, to `out`.
    pub(crate) fn push_removal(&self, old_count: usize, out: &mut Changes) {
        if !self.is_new {
            let parts = 0..old_count.div_ceil(self.chunk_rows).div_ceil(self.coding.cells);
            parts.for_each(|part| out.insert(self.key(part), None));
            out.insert(doc_key(&self.path), None);
        }
    }
}

/// Refuses shards that are not of whole chunks of rows.
fn check_row_shards(path: &str, doc: &ArrayDoc) -> Result<()> {
    let (shard, chunk) = (&doc.chunk_shape, doc.inner_chunk_shape());
    let times = shard.first().zip(chunk.first()).filter(|_| shard.get(1..) == chunk.get(1..));
    let times = times.filter(|(shard, chunk)| shard.is_multiple_of(**chunk));
    let times = times.and_then(|(shard, chunk)| shard.checked_div(*chunk));
    times.filter(|times| (1..=MAX_SHARD_CHUNKS).contains(times)).map(drop).or_fail(Class::BadShape, || format!(
            "{path}: expected shards of 1 to {MAX_SHARD_CHUNKS} chunks of rows, found {shard:?} of {chunk:?}"
        ))
}

/// Maximum number of chunks in a shard of rows.
const MAX_SHARD_CHUNKS: u64 = 1 << 16;
/// Maximum number of chunks that are declared and not stored: each is asked for.
const MAX_ABSENT_CHUNKS: usize = 1 << 16;

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
