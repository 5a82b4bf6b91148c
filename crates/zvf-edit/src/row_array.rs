//! Arrays of variable-length rows during an edit: manifests, groups.

use bytes::Bytes;
use serde_json::{Value as Json, json};
use zvf_format::Class;
use zvf_format::num::{to_u64, usize_from_u32};
use zvf_format::vlen::{VlenRows, encode_rows};

use crate::changes::Changes;
use crate::documents::read_doc;
use crate::error::{At, OrFail, Result};
use crate::manifest_table::{DENSE_LAYOUT, ManifestTable};
use crate::row_chunks::{Edited, RowChunks};
use crate::snapshot::Snapshot;

/// An array of variable-length rows, held in memory.
#[derive(Clone, Debug)]
pub(crate) struct RowArray {
    pub(crate) stored: RowChunks,
    /// The numbers that are stored instead, in an index of manifests that is dense.
    pub(crate) table: Option<ManifestTable>,
    pub(crate) rows: Edited<Bytes>,
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
        Ok(Some(Self { stored, table: None, rows: Edited::new(rows) }))
    }

    /// Opens the manifests of the index at `index`. Its layout decides which arrays they are; where
    /// these are missing, the others are read.
    pub(crate) fn open_manifests(snap: &Snapshot, index: &str) -> Result<Option<Self>> {
        let Some(doc) = read_doc(snap, index)? else { return Ok(None) };
        let blobs = format!("{index}/manifests");
        let is_dense = doc["attributes"]["layout"] == DENSE_LAYOUT;
        let found = if is_dense { None } else { Self::open(snap, &blobs)? };
        if found.is_some() {
            return Ok(found);
        }
        let Some((table, rows)) = ManifestTable::open(snap, index)? else {
            return if is_dense { Self::open(snap, &blobs) } else { Ok(None) };
        };
        let created = Self::create(&blobs, json!({}))?;
        Ok(Some(Self { table: Some(table), rows: Edited::new(rows), ..created }))
    }

    /// Writes the manifests in the other form, if they are not in it: as numbers, or as blobs.
    pub(crate) fn convert_manifests(
        &mut self,
        (index, rank): (&str, usize),
        is_dense: bool,
        out: &mut Changes,
    ) -> Result<()> {
        if self.table.is_some() == is_dense {
            return Ok(());
        }
        match &self.table {
            Some(table) => table.push_removal(out),
            None => self.stored.push_removal(self.rows.old().len(), out),
        }
        let mut rows = Edited::default();
        rows.now.clone_from(&self.rows.now);
        let created = Self::create(&format!("{index}/manifests"), json!({}))?;
        let table = is_dense.then(|| ManifestTable::create(index, rank)).transpose()?;
        *self = Self { table, rows, ..created };
        Ok(())
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
        Ok(Self { stored, table: None, rows: Edited::default() })
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.now.len()
    }

    pub(crate) fn row(&self, row: u32) -> &Bytes {
        &self.rows.now[usize_from_u32(row)]
    }

    /// Drops all rows behind the first `count`, as if they had never been. None was changed.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.rows.now.truncate(count);
        self.rows.settle();
    }

    /// Adds the changes of the array to `out`. A single chunk grows with the array up to `max_chunk_rows` rows.
    pub(crate) fn flush(&mut self, out: &mut Changes, max_chunk_rows: usize) -> Result<()> {
        let (rows, old_rows) = (&self.rows.now[..], self.rows.old());
        let stored = &mut self.stored;
        if let Some(table) = &mut self.table {
            table.flush(rows, old_rows, out)?;
        } else if rows != old_rows || stored.is_changed() {
            let (count, mut chunk_rows) = (rows.len(), stored.chunk_rows);
            let grows = count > chunk_rows && chunk_rows < max_chunk_rows;
            let is_free = stored.shard_chunks.is_none(); // the chunks of a shard keep their size
            if is_free && (grows || stored.is_new || max_chunk_rows == usize::MAX) {
                chunk_rows = count.clamp(1, max_chunk_rows);
            }
            let padded = u32::try_from(chunk_rows).ok().or_fail(Class::LimitExceeded, || {
                let path = &stored.path;
                format!("{path}: expected fewer than 2^32 rows a chunk, found {chunk_rows}")
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
        }
        self.rows.settle();
        Ok(())
    }
}

/// Maximum number of rows of an array that are declared and not stored.
const MAX_ABSENT_ROWS: usize = 1 << 24;
