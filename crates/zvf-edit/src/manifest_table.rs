//! Manifests as numbers, in indexes of the layout `dense_manifests_v1`.
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
use serde_json::json;
use zvf_format::manifest::{Manifest, ManifestBuilder};
use zvf_format::{Class, num};

use crate::changes::Changes;
use crate::dense::DenseArray;
use crate::error::{At, OrFail, Result, fail, unsupported};
use crate::numbers::MAX_OBJECT_REFERENCES;
use crate::scalar::Scalar;
use crate::snapshot::Snapshot;

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
    pub(crate) fn open(snap: &Snapshot, index: &str) -> Result<Option<(Self, Vec<Bytes>)>> {
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
        let mut span = num::i64s_from_le(self.spans.row(row));
        let (start, count) = (span.next().unwrap_or(0), span.next().unwrap_or(0)); // two a row
        let mut builder = ManifestBuilder::new(num::to_u64(rank))?;
        if count == 0 {
            return Ok(builder.encode().into()); // its start says nothing
        }
        let blocks = self.blocks.len();
        let start = usize::try_from(start).ok();
        let span = start.zip(usize::try_from(count).ok());
        let span = span.and_then(|(start, count)| Some(start..start.checked_add(count)?));
        let Some(span) = span.filter(|span| span.end <= blocks) else {
            let text = format!(
                "{index}/{SPANS} row {row}: expected blocks below {blocks}, found {count} from {}; run \"zvf validate\"",
                num::i64s_from_le(self.spans.row(row)).next().unwrap_or(0)
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
            let fill = (json!(0), vec![0; num::usize_from_u32(width) * 8]);
            DenseArray::create(&path, Scalar::INT64, width, CHUNK_ROWS, fill, json!({}))
        };
        let (spans, blocks) = (create(SPANS, 2)?, create(BLOCKS, rank + 1)?);
        Ok(Self { spans, blocks, is_packed: true })
    }

    /// Adds the changes of the arrays to `out`, for `rows` that were `old_rows`.
    pub(crate) fn flush(
        &mut self,
        rows: &[Bytes],
        old_rows: &[Bytes],
        out: &mut Changes,
    ) -> Result<()> {
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
            let span = [start, count].map(|number| num::to_u64(number).to_le_bytes());
            self.spans.set_row(row, span.as_flattened());
        }
        self.is_packed = false;
        self.spans.flush(out, false)?;
        self.blocks.flush(out, false)
    }

    /// Adds the removal of the arrays to `out`.
    pub(crate) fn push_removal(&self, out: &mut Changes) {
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
    let manifest = Manifest::parse(blob, num::to_u64(rank))?;
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
