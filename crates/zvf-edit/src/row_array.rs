//! Arrays of variable-length rows during an edit: manifests, groups.

use bytes::Bytes;
use serde_json::{Value as Json, json};
use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_format::vlen::{VlenRows, encode_rows};

use crate::arrays::{Coding, MAX_CELL_BYTES, doc_bytes, doc_key, parse_array_doc};
use crate::changes::Changes;
use crate::error::{EditError, Result};
use crate::snapshot::Snapshot;

/// An array of variable-length rows, held in memory.
#[derive(Clone, Debug)]
pub(crate) struct RowArray {
    pub(crate) path: String,
    pub(crate) doc: Json,
    coding: Coding,
    chunk_rows: usize,
    pub(crate) rows: Vec<Bytes>,
    old_rows: Vec<Bytes>,
    is_new: bool,
    pub(crate) changed: bool,
}

/// Returns the number of rows of an array, and of rows of a chunk.
pub(crate) fn row_shape(path: &str, doc: &Json) -> Result<(usize, usize)> {
    let chunk = &doc["chunk_grid"]["configuration"]["chunk_shape"][0];
    let number = |value: &Json| value.as_u64().and_then(|n| usize::try_from(n).ok());
    let both = number(&doc["shape"][0]).zip(number(chunk).filter(|chunk| *chunk > 0));
    both.ok_or_else(|| {
        let shape = &doc["shape"];
        let message = format!("{path}: expected rows in chunks, found shape {shape} in {chunk}");
        EditError::new(Class::BadShape, message)
    })
}

/// The rows of an array that are declared and not stored. A damaged shape may declare any number of them.
#[derive(Debug)]
pub(crate) struct AbsentRows<'a> {
    path: &'a str,
    max_rows: usize,
    rows: usize,
    chunks: usize,
}

impl<'a> AbsentRows<'a> {
    pub(crate) const fn new(path: &'a str, max_rows: usize) -> Self {
        Self { path, max_rows, rows: 0, chunks: 0 }
    }

    /// Counts the rows of a chunk that is not stored.
    ///
    /// # Errors
    ///
    /// When there are more than the limit.
    pub(crate) fn add(&mut self, rows: usize) -> Result<()> {
        let (left, max_rows) = (self.max_rows - self.rows, self.max_rows);
        if rows > left || self.chunks == MAX_ABSENT_CHUNKS {
            let text = format!(
                "{}: expected at most {max_rows} rows in {MAX_ABSENT_CHUNKS} chunks that are declared and not stored, \
                 found more; run \"zvf validate\"",
                self.path
            );
            return Err(EditError::new(Class::LimitExceeded, text));
        }
        self.rows += rows;
        self.chunks += 1;
        Ok(())
    }
}

impl RowArray {
    pub(crate) fn open(snap: &Snapshot, path: &str) -> Result<Option<Self>> {
        let Some(text) = snap.get(&doc_key(path))? else { return Ok(None) };
        let doc: Json = serde_json::from_slice(&text)?;
        let (coding, _) = Coding::open(path, &parse_array_doc(path, &text)?)?;
        let (count, chunk) = row_shape(path, &doc)?;
        let mut rows = Vec::with_capacity(count.min(1 << 20));
        let mut absent = AbsentRows::new(path, MAX_ABSENT_ROWS);
        for part in 0..count.div_ceil(chunk) {
            let length = chunk.min(count - part * chunk);
            match snap.get(&format!("{path}/c/{part}"))? {
                None => {
                    absent.add(length)?;
                    rows.resize(rows.len() + length, Bytes::new());
                }
                Some(bytes) => {
                    let plain = coding
                        .codecs
                        .unpack(bytes, MAX_CELL_BYTES)
                        .map_err(|error| EditError::from(error).with_place(path))?;
                    let items = VlenRows::parse(&plain, to_u64(chunk))
                        .map_err(|error| EditError::from(error).with_place(path))?;
                    rows.extend(items.iter().take(length).map(|row| plain.slice_ref(row)));
                }
            }
        }
        Ok(Some(Self {
            path: path.to_owned(),
            doc,
            coding,
            chunk_rows: chunk,
            old_rows: rows.clone(),
            rows,
            is_new: false,
            changed: false,
        }))
    }

    pub(crate) fn create(path: &str, attrs: Json) -> Result<Self> {
        let doc = json!({
            "shape": [0], "data_type": "variable_length_bytes",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": "",
            "codecs": [{"name": "vlen-bytes", "configuration": {}}, {"name": "zstd", "configuration": {"level": 0, "checksum": false}}],
            "attributes": attrs, "zarr_format": 3, "node_type": "array", "storage_transformers": []
        });
        let (coding, _) = Coding::open(path, &parse_array_doc(path, &serde_json::to_vec(&doc)?)?)?;
        Ok(Self {
            path: path.to_owned(),
            doc,
            coding,
            chunk_rows: 1,
            rows: Vec::new(),
            old_rows: Vec::new(),
            is_new: true,
            changed: true,
        })
    }

    /// Drops all rows behind the first `count`.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.rows.truncate(count);
        self.old_rows.truncate(count);
    }

    /// Adds the changes of the array to `out`. A single chunk grows with the array up to `max_chunk_rows` rows.
    pub(crate) fn flush(&mut self, out: &mut Changes, max_chunk_rows: usize) -> Result<()> {
        let same = self.rows == self.old_rows;
        if same && !self.changed && !self.is_new {
            return Ok(());
        }
        let (count, old_chunk) = (self.rows.len(), self.chunk_rows);
        let grows = count > self.chunk_rows && self.chunk_rows < max_chunk_rows;
        if grows || self.is_new || max_chunk_rows == usize::MAX {
            self.chunk_rows = count.clamp(1, max_chunk_rows);
        }
        let parts = count.div_ceil(self.chunk_rows);
        if !same || old_chunk != self.chunk_rows {
            let chunk_rows = u32::try_from(self.chunk_rows).map_err(|_large| {
                let (path, found) = (&self.path, self.chunk_rows);
                let text = format!("{path}: expected fewer than 2^32 rows a chunk, found {found}");
                EditError::new(Class::LimitExceeded, text)
            })?;
            for part in 0..parts {
                let first = part * self.chunk_rows;
                let span = first..(first + self.chunk_rows).min(count);
                let unchanged = old_chunk == self.chunk_rows
                    && self.old_rows.get(span.clone()) == self.rows.get(span.clone());
                if unchanged && span.len() == self.chunk_rows && !self.is_new {
                    continue;
                }
                let rows: Vec<&[u8]> = self.rows[span].iter().map(AsRef::as_ref).collect();
                let plain = encode_rows(&rows, chunk_rows)?;
                out.insert(
                    format!("{}/c/{part}", self.path),
                    Some(self.coding.codecs.pack(plain.into())?),
                );
            }
            if !self.is_new {
                for part in parts..self.old_rows.len().div_ceil(old_chunk) {
                    out.insert(format!("{}/c/{part}", self.path), None);
                }
            }
        }
        self.doc["shape"] = json!([count]);
        self.doc["chunk_grid"]["configuration"]["chunk_shape"] = json!([self.chunk_rows]);
        out.insert(doc_key(&self.path), Some(doc_bytes(&self.doc)?));
        self.old_rows = self.rows.clone();
        (self.is_new, self.changed) = (false, false);
        Ok(())
    }
}

/// Maximum number of rows of an array that are declared and not stored.
const MAX_ABSENT_ROWS: usize = 1 << 24;
/// Maximum number of chunks that are declared and not stored: each is asked for.
const MAX_ABSENT_CHUNKS: usize = 1 << 16;
