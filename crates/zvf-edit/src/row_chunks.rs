//! The stored form of an array of rows during an edit: its document, and its chunks, which may lie
//! in shards.

use std::ops::Range;

use bytes::Bytes;
use serde_json::{Value as Json, json};
use zvf_format::Class;
use zvf_format::num::checked_usize;
use zvf_metadata::ArrayDoc;

use crate::arrays::{Coding, MAX_CELL_BYTES};
use crate::changes::{Changes, read_blob};
use crate::documents::{doc_key, parse_doc};
use crate::error::{At, EditError, OrFail, Result, fail};
use crate::snapshot::Snapshot;

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
    pub(crate) coding: Coding,
    pub(crate) chunk_rows: usize,
    /// The number of chunks in a shard, where the array is sharded.
    pub(crate) shard_chunks: Option<usize>,
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
        let (coding, shard) = Coding::open(path, parsed)?;
        let number = |sizes: &[u64]| sizes.first().copied().and_then(checked_usize);
        let chunk_rows = number(parsed.inner_chunk_shape()).filter(|rows| *rows > 0);
        let shard_chunks = match shard {
            Some(_) => Some(count_shard_chunks(path, parsed)?),
            None => None,
        };
        let both = number(&parsed.shape).zip(chunk_rows);
        let (count, chunk_rows) = both.ok_or_else(|| {
            let (shape, chunk) = (&parsed.shape, &parsed.chunk_shape);
            let text =
                format!("{path}: expected rows in chunks, found shape {shape:?} in {chunk:?}");
            EditError::new(Class::BadShape, text)
        })?;
        let (path, is_new, changed) = (path.to_owned(), false, false);
        Ok((Self { path, doc, coding, chunk_rows, shard_chunks, is_new, changed }, count))
    }

    /// Packs a new array in shards of rows, as `like` is.
    pub(crate) fn shard_like(&mut self, like: &Self) -> Result<()> {
        if like.shard_chunks.is_none() {
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

    fn key(&self, part: usize) -> String {
        let rank = self.doc["shape"].as_array().map_or(1, Vec::len); // at least 1
        format!("{}/c/{part}{}", self.path, "/0".repeat(rank.saturating_sub(1)))
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
        let (mut rows, mut chunks, mut shard) = (0, 0, Vec::new());
        for part in 0..count.div_ceil(self.chunk_rows) {
            let length = self.chunk_rows.min(count - part * self.chunk_rows);
            let stored = match self.shard_chunks {
                None => snap.get(&self.key(part))?,
                Some(size) => {
                    if part % size == 0 {
                        let found = snap.open_object(&self.key(part / size))?;
                        let split = found.map(|found| self.coding.split_shard(&found, size));
                        shard = split.transpose().at(&self.path)?.unwrap_or_default();
                    }
                    read_blob(shard.get(part % size).unwrap_or(&None))?
                }
            };
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
        let (may_keep, shard) = (is_same_grid && !self.is_new, self.shard_chunks.unwrap_or(1));
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
                *cell = plain.map(|plain| self.coding.codecs.pack(plain.into())).transpose()?;
            }
            out.insert(self.key(file), self.coding.join(cells, self.shard_chunks.is_some())?);
        }
        let before = if self.is_new { 0 } else { old_count.div_ceil(old_chunk).div_ceil(shard) };
        (parts.div_ceil(shard)..before).for_each(|file| out.insert(self.key(file), None));
        self.doc["shape"][0] = json!(count);
        if self.shard_chunks.is_none() {
            self.doc["chunk_grid"]["configuration"]["chunk_shape"][0] = json!(chunk_rows);
        }
        out.put_doc(&self.path, &self.doc)?;
        (self.is_new, self.changed) = (false, false);
        Ok(())
    }

    /// Adds the removal of the array, which had so many rows, to `out`.
    pub(crate) fn push_removal(&self, old_count: usize, out: &mut Changes) {
        if !self.is_new {
            let shard = self.shard_chunks.unwrap_or(1);
            let parts = 0..old_count.div_ceil(self.chunk_rows).div_ceil(shard);
            parts.for_each(|part| out.insert(self.key(part), None));
            out.insert(doc_key(&self.path), None);
        }
    }
}

/// Returns the number of chunks in a shard of rows.
fn count_shard_chunks(path: &str, doc: &ArrayDoc) -> Result<usize> {
    let (shard, chunk) = (&doc.chunk_shape, doc.inner_chunk_shape());
    let fits = shard.get(1..) == chunk.get(1..);
    let times = shard.first().zip(chunk.first()).filter(|_| fits);
    let times = times.and_then(|(shard, chunk)| {
        shard.is_multiple_of(*chunk).then(|| shard.checked_div(*chunk)).flatten()
    });
    let times = times.filter(|times| (1..=MAX_SHARD_CHUNKS).contains(times));
    times.and_then(checked_usize).or_fail(Class::BadShape, || format!(
            "{path}: expected shards of 1 to {MAX_SHARD_CHUNKS} chunks of rows, found {shard:?} of {chunk:?}"
        ))
}

/// Maximum number of chunks in a shard of rows.
const MAX_SHARD_CHUNKS: u64 = 1 << 16;
/// Maximum number of chunks that are declared and not stored: each is asked for.
const MAX_ABSENT_CHUNKS: usize = 1 << 16;
