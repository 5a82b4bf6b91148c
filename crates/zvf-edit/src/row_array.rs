//! Arrays of variable-length rows during an edit: groups, and manifests, which an index of the
//! layout `dense_manifests_v1` has as numbers.
//!
//! ```text
//! manifest_spans    int64 [n, 2]       start, count: the blocks of row r
//! manifest_blocks   int64 [m, S + 1]   chunk, fragment
//! ```
//!
//! During an edit, manifests are blobs as in other layouts. A changed row gets new blocks at the
//! end; its old blocks stay, and no span names them. A vacuum writes all blocks again, in the order
//! of rows.

use bytes::Bytes;
use serde_json::{Value as Json, json};
use zvf_format::manifest::{Manifest, ManifestBuilder};
use zvf_format::num::{to_u64, usize_from_u32};
use zvf_format::vlen::{VlenRows, encode_rows};
use zvf_format::{Class, num};

use crate::changes::Changes;
use crate::dense::{DenseArray, Edited, RowChunks};
use crate::error::{At, OrFail, Result, fail, unsupported};
use crate::numbers::MAX_OBJECT_REFERENCES;
use crate::scalar::Scalar;
use crate::snapshot::{Snapshot, read_doc};

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
            let is_free = !stored.is_sharded(); // the chunks of a shard keep their size
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

/// The layout of such an index.
pub(crate) const DENSE_LAYOUT: &str = "dense_manifests_v1";

/// Both arrays of such an index.
#[derive(Clone, Debug)]
pub(crate) struct ManifestTable {
    spans: DenseArray,
    blocks: DenseArray,
    /// Whether all blocks are written again.
    pub(crate) is_packed: bool,
}

impl ManifestTable {
    /// Opens the arrays of the index at `index`, where it has them. Returns them with a blob for
    /// each row.
    fn open(snap: &Snapshot, index: &str) -> Result<Option<(Self, Vec<Bytes>)>> {
        let open = |name: &str, widths| {
            DenseArray::open_integers(snap, &format!("{index}/{name}"), widths)
        };
        let arrays = open(SPANS, 2..=2)?.zip(open(BLOCKS, 2..=u32::MAX)?);
        let Some((spans, blocks)) = arrays else { return Ok(None) };
        let rank = blocks.size / 8 - 1;
        let table = Self { spans, blocks, is_packed: false };
        let mut named = 0;
        let rows = (0..table.spans.len()).map(|row| table.blob(index, rank, row, &mut named));
        let rows = rows.collect::<Result<_>>()?;
        Ok(Some((table, rows)))
    }

    /// Encodes the manifest of a row. `named` counts the blocks of all rows.
    fn blob(&self, index: &str, rank: usize, row: usize, named: &mut usize) -> Result<Bytes> {
        let span: Vec<i64> = num::i64s_from_le(self.spans.row(row)).collect();
        let (first, count) = (span[0], span[1]); // two a row
        let mut builder = ManifestBuilder::new(to_u64(rank))?;
        if count == 0 {
            return Ok(builder.encode().into()); // its start says nothing
        }
        let blocks = self.blocks.len();
        let span = usize::try_from(first).ok().zip(usize::try_from(count).ok());
        let span = span.and_then(|(start, count)| Some(start..start.checked_add(count)?));
        let Some(span) = span.filter(|span| span.end <= blocks) else {
            let text = format!(
                "{index}/{SPANS} row {row}: expected blocks below {blocks}, found {count} from {first}; run \"zvf validate\""
            );
            return fail(Class::OutOfBounds, text);
        };
        *named += span.len();
        if *named > blocks + MAX_SHARED_BLOCKS {
            let text = format!(
                "{index}/{SPANS}: expected spans that share at most {MAX_SHARED_BLOCKS} blocks, found more"
            );
            return fail(Class::LimitExceeded, text);
        }
        for block in span {
            let numbers: Vec<i64> = num::i64s_from_le(self.blocks.row(block)).collect();
            let (chunk, fragment) = numbers.split_at(rank);
            let fragment = fragment.first().and_then(|fragment| u64::try_from(*fragment).ok());
            let fragment = fragment.or_fail(Class::Negative, || {
                format!(
                    "{index}/{BLOCKS} row {block}: expected a fragment of 0 or more, found {}",
                    numbers[rank]
                )
            })?;
            builder.push_single(chunk, fragment)?;
        }
        Ok(builder.encode().into())
    }

    /// Creates the arrays of the index at `index`, without rows. Chunk keys have `rank` components.
    pub(crate) fn create(index: &str, rank: usize) -> Result<Self> {
        let create = |name: &str, width: usize| {
            let (path, width) = (format!("{index}/{name}"), num::index_u32(width));
            let fill = (json!(0), vec![0; usize_from_u32(width) * 8]);
            DenseArray::create(&path, Scalar::INT64, width, CHUNK_ROWS, fill, json!({}))
        };
        let (spans, blocks) = (create(SPANS, 2)?, create(BLOCKS, rank + 1)?);
        Ok(Self { spans, blocks, is_packed: true })
    }

    /// Adds the changes of the arrays to `out`, for `rows` that were `old_rows`.
    fn flush(&mut self, rows: &[Bytes], old_rows: &[Bytes], out: &mut Changes) -> Result<()> {
        let rank = self.blocks.size / 8 - 1;
        if self.is_packed {
            self.blocks.resize(0);
        }
        self.spans.resize(rows.len());
        for (row, blob) in rows.iter().enumerate() {
            if !self.is_packed && old_rows.get(row) == Some(blob) {
                continue;
            }
            let start = self.blocks.len();
            let place = || format!("{} row {row}", self.spans.stored.path);
            self.blocks.bytes.now.extend(block_rows(blob, rank).at(&place())?);
            let count = self.blocks.len() - start;
            let start = if count == 0 { 0 } else { start };
            let span = [start, count].map(|number| to_u64(number).to_le_bytes());
            self.spans.set_row(row, span.as_flattened());
        }
        self.is_packed = false;
        self.spans.flush(out, false)?;
        self.blocks.flush(out, false)
    }

    /// Adds the removal of the arrays to `out`.
    fn push_removal(&self, out: &mut Changes) {
        self.spans.push_removal(out);
        self.blocks.push_removal(out);
    }
}

/// Encodes a manifest as rows of blocks.
///
/// # Errors
///
/// When it divides its fragments into several lines, for which blocks have no form.
fn block_rows(blob: &[u8], rank: usize) -> Result<Vec<u8>> {
    let mut rows = Vec::new();
    if blob.is_empty() {
        return Ok(rows);
    }
    let manifest = Manifest::parse(blob, to_u64(rank))?;
    if manifest.blocks().any(|block| block.fragments.is_empty()) {
        return unsupported(
            "an object of several lines has no dense manifest; use \"zvf rewrite --in-place --manifests vlen\"",
        );
    }
    for reference in manifest.references_within(MAX_OBJECT_REFERENCES)? {
        rows.extend(reference.chunk.iter().flat_map(|component| component.get().to_le_bytes()));
        rows.extend(reference.fragment.to_le_bytes());
    }
    Ok(rows)
}

const SPANS: &str = "manifest_spans";
const BLOCKS: &str = "manifest_blocks";
/// Rows in a chunk of new arrays, as the reference implementation writes them.
const CHUNK_ROWS: usize = 16_384;
/// Maximum number of blocks that are named again: spans in a few bytes could name each block any
/// number of times.
const MAX_SHARED_BLOCKS: usize = 1 << 24;
