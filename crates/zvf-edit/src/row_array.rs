//! Arrays of variable-length rows during an edit: manifests, groups. And the stored form of all arrays of rows.

use std::ops::Range;

use bytes::Bytes;
use serde_json::{Value as Json, json};
use zvf_format::Class;
use zvf_format::num::{checked_usize, to_u64};
use zvf_format::vlen::{VlenRows, encode_rows};
use zvf_metadata::ArrayDoc;

use crate::arrays::{Coding, MAX_CELL_BYTES, doc_key, parse_doc};
use crate::changes::Changes;
use crate::error::{At, EditError, Result, fail};
use crate::snapshot::Snapshot;

/// An array of variable-length rows, held in memory.
#[derive(Clone, Debug)]
pub(crate) struct RowArray {
    pub(crate) stored: RowChunks,
    pub(crate) rows: Vec<Bytes>,
    old_rows: Vec<Bytes>,
}

impl RowArray {
    pub(crate) fn open(snap: &Snapshot, path: &str) -> Result<Option<Self>> {
        let Some((stored, _, count)) = RowChunks::open(snap, path)? else { return Ok(None) };
        let mut rows = Vec::with_capacity(count.min(1 << 20));
        stored.read(snap, count, MAX_ABSENT_ROWS, |length, plain| {
            let Some(plain) = plain else {
                rows.resize(rows.len() + length, Bytes::new());
                return Ok(());
            };
            let items = VlenRows::parse(&plain, to_u64(stored.chunk_rows)).at(path)?;
            rows.extend(items.iter().take(length).map(|row| plain.slice_ref(row)));
            Ok(())
        })?;
        Ok(Some(Self { stored, old_rows: rows.clone(), rows }))
    }

    pub(crate) fn create(path: &str, attrs: Json) -> Result<Self> {
        let stored = RowChunks::create(
            path,
            json!({
                "shape": [0], "data_type": "variable_length_bytes",
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}},
                "fill_value": "", "codecs": [{"name": "vlen-bytes", "configuration": {}}], "attributes": attrs,
            }),
        )?;
        Ok(Self { stored, rows: Vec::new(), old_rows: Vec::new() })
    }

    /// Drops all rows behind the first `count`.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.rows.truncate(count);
        self.old_rows.truncate(count);
    }

    /// Adds the changes of the array to `out`. A single chunk grows with the array up to `max_chunk_rows` rows.
    pub(crate) fn flush(&mut self, out: &mut Changes, max_chunk_rows: usize) -> Result<()> {
        let (rows, old_rows, stored) = (&self.rows, &self.old_rows, &mut self.stored);
        if rows == old_rows && !stored.is_changed() {
            return Ok(());
        }
        let (count, mut chunk_rows) = (rows.len(), stored.chunk_rows);
        let grows = count > chunk_rows && chunk_rows < max_chunk_rows;
        if grows || stored.is_new || max_chunk_rows == usize::MAX {
            chunk_rows = count.clamp(1, max_chunk_rows);
        }
        let padded = u32::try_from(chunk_rows).map_err(|_large| {
            let path = &stored.path;
            let text = format!("{path}: expected fewer than 2^32 rows a chunk, found {chunk_rows}");
            EditError::new(Class::LimitExceeded, text)
        })?;
        stored.flush(out, [count, old_rows.len()], chunk_rows, |span, is_same_grid| {
            let new = &rows[span.clone()];
            let is_whole = new.len() == chunk_rows || count == old_rows.len();
            if is_same_grid && is_whole && old_rows.get(span) == Some(new) {
                return Ok(None);
            }
            let new: Vec<&[u8]> = new.iter().map(AsRef::as_ref).collect();
            Ok(Some(encode_rows(&new, padded)?))
        })?;
        self.old_rows = self.rows.clone();
        Ok(())
    }
}

/// The stored form of an array of rows: its document, and its chunks.
#[derive(Clone, Debug)]
pub(crate) struct RowChunks {
    pub(crate) path: String,
    pub(crate) doc: Json,
    pub(crate) coding: Coding,
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
        let (coding, _) = Coding::open(path, parsed)?;
        let number = |sizes: &[u64]| sizes.first().copied().and_then(checked_usize);
        let chunk_rows = number(&parsed.chunk_shape).filter(|rows| *rows > 0);
        let both = number(&parsed.shape).zip(chunk_rows);
        let (count, chunk_rows) = both.ok_or_else(|| {
            let (shape, chunk) = (&parsed.shape, &parsed.chunk_shape);
            let text =
                format!("{path}: expected rows in chunks, found shape {shape:?} in {chunk:?}");
            EditError::new(Class::BadShape, text)
        })?;
        let (path, is_new, changed) = (path.to_owned(), false, false);
        Ok((Self { path, doc, coding, chunk_rows, is_new, changed }, count))
    }

    /// Returns whether the document has to be written.
    pub(crate) fn is_changed(&self) -> bool {
        self.changed || self.is_new
    }

    fn key(&self, part: usize) -> String {
        let rank = self.doc["shape"].as_array().map_or(1, Vec::len); // at least 1
        format!("{}/c/{part}{}", self.path, "/0".repeat(rank.saturating_sub(1)))
    }

    /// Reads `count` rows: calls `each` with the number of rows of each chunk, and with its bytes where it is stored.
    ///
    /// # Errors
    ///
    /// When more than `most` rows are declared and not stored: a damaged shape may declare any number of them.
    pub(crate) fn read(
        &self,
        snap: &Snapshot,
        count: usize,
        most: usize,
        mut each: impl FnMut(usize, Option<Bytes>) -> Result<()>,
    ) -> Result<()> {
        let (mut rows, mut chunks) = (0, 0);
        for part in 0..count.div_ceil(self.chunk_rows) {
            let length = self.chunk_rows.min(count - part * self.chunk_rows);
            let stored = snap.get(&self.key(part))?;
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
            let unpack = |bytes| self.coding.codecs.unpack(bytes, MAX_CELL_BYTES);
            let plain = stored.map(unpack).transpose();
            each(length, plain.at(&self.path)?)?;
        }
        Ok(())
    }

    /// Adds the document to `out`, with the chunks of which `encode` returns bytes. It gets the rows of each, and whether
    /// the chunk was stored with the same.
    pub(crate) fn flush(
        &mut self,
        out: &mut Changes,
        [count, old_count]: [usize; 2],
        chunk_rows: usize,
        encode: impl Fn(Range<usize>, bool) -> Result<Option<Vec<u8>>>,
    ) -> Result<()> {
        let old_chunk = std::mem::replace(&mut self.chunk_rows, chunk_rows);
        let (parts, is_same_grid) = (count.div_ceil(chunk_rows), old_chunk == chunk_rows);
        for part in 0..parts {
            let span = part * chunk_rows..(part * chunk_rows + chunk_rows).min(count);
            if let Some(plain) = encode(span, is_same_grid && !self.is_new)? {
                out.insert(self.key(part), Some(self.coding.codecs.pack(plain.into())?));
            }
        }
        let before = if self.is_new { 0 } else { old_count.div_ceil(old_chunk) };
        (parts..before).for_each(|part| out.insert(self.key(part), None));
        self.doc["shape"][0] = json!(count);
        self.doc["chunk_grid"]["configuration"]["chunk_shape"][0] = json!(chunk_rows);
        out.put_doc(&self.path, &self.doc)?;
        (self.is_new, self.changed) = (false, false);
        Ok(())
    }

    /// Adds the removal of the array, which had so many rows, to `out`.
    pub(crate) fn push_removal(&self, old_count: usize, out: &mut Changes) {
        if !self.is_new {
            let parts = 0..old_count.div_ceil(self.chunk_rows);
            parts.for_each(|part| out.insert(self.key(part), None));
            out.insert(doc_key(&self.path), None);
        }
    }
}

/// Maximum number of rows of an array that are declared and not stored.
const MAX_ABSENT_ROWS: usize = 1 << 24;
/// Maximum number of chunks that are declared and not stored: each is asked for.
const MAX_ABSENT_CHUNKS: usize = 1 << 16;
