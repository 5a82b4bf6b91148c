//! Object indexes of numbers: spans of rows of one long table of references.
//!
//! ```text
//! manifest_spans    i64 [n, 2]       start, count: the references of row r
//! manifest_blocks   i64 [m, S + 1]   chunk, fragment
//! ```
//!
//! Spans may lie in any order; references that no span names are left over from edits. The arrays that are
//! there decide, whatever layout is declared.

use std::ops::Range;

use bytes::Bytes;
use zvf_error::Result;
use zvf_format::num::{i64s_from_le, saturating_usize, to_u64};
use zvf_metadata::Dtype;
use zvf_store::DenseArray;

use super::manifest::Entry;
use crate::level::LevelState;
use crate::rules::C;
use crate::validation::Validation;

/// Both arrays.
#[derive(Debug)]
pub(super) struct Table {
    spans: DenseArray,
    blocks: DenseArray,
    stride: u64, // bytes of a reference
}

impl Table {
    /// Returns the arrays of a level, where they are there and of the right form; what is wrong with them is reported.
    pub(super) async fn open(
        run: &mut Validation,
        level: &LevelState,
        rank: u64,
    ) -> Result<Option<Self>> {
        let columns = rank + 1;
        let spans = array(run, level, SPANS, 2).await?;
        let blocks = array(run, level, BLOCKS, columns).await?;
        Ok(spans.zip(blocks).map(|(spans, blocks)| Self { spans, blocks, stride: columns * 8 }))
    }

    /// Returns whether a level has one of the arrays, in any form.
    pub(super) async fn exists(run: &Validation, level: &LevelState) -> bool {
        // A document that cannot be read is there.
        !matches!(run.store.nodes().node(&level.path(SPANS)).await, Ok(None))
    }

    /// Returns the number of rows of the index.
    pub(super) fn len(&self) -> u64 {
        self.spans.len()
    }

    /// Returns its path below the root.
    pub(super) fn path(&self) -> String {
        self.spans.path().to_string()
    }

    /// Reads the rows `range` of the index.
    pub(super) async fn range(&self, range: Range<u64>) -> Result<Vec<Entry>> {
        let spans = self.spans.rows(range).await?;
        let pairs: Vec<i64> = i64s_from_le(&spans).collect();
        let pairs = pairs.as_chunks::<2>().0;
        let block_ranges: Vec<Option<Range<u64>>> =
            pairs.iter().map(|pair| self.span(*pair)).collect();
        let pieces = self.pieces(block_ranges.iter().flatten()).await?;
        let entry = |(block_range, pair): (Option<Range<u64>>, &[i64; 2])| {
            let [start, count] = *pair;
            block_range.map_or(Entry::Outside { start, count, blocks: self.blocks.len() }, |span| {
                Entry::Blocks(self.cut(&pieces, &span))
            })
        };
        Ok(block_ranges.into_iter().zip(pairs).map(entry).collect())
    }

    fn span(&self, [start, count]: [i64; 2]) -> Option<Range<u64>> {
        let (start, count) = (u64::try_from(start).ok()?, u64::try_from(count).ok()?);
        let end = start.checked_add(count).filter(|end| *end <= self.blocks.len())?;
        Some(start..end)
    }

    /// Returns the rows that any of `spans` names, near ones together, ascending.
    async fn pieces(&self, spans: impl Iterator<Item = &Range<u64>>) -> Result<Vec<(u64, Bytes)>> {
        let mut spans: Vec<&Range<u64>> = spans.filter(|span| !span.is_empty()).collect();
        spans.sort_unstable_by_key(|span| (span.start, span.end));
        let mut joined: Vec<Range<u64>> = Vec::new();
        for span in spans {
            match joined.last_mut() {
                // The sum is only compared.
                Some(last) if span.start <= last.end.saturating_add(MAX_GAP_ROWS) => {
                    last.end = last.end.max(span.end);
                }
                _ => joined.push(span.clone()),
            }
        }
        let mut pieces = Vec::with_capacity(joined.len());
        for piece in joined {
            pieces.push((piece.start, self.blocks.rows(piece).await?));
        }
        Ok(pieces)
    }

    fn cut(&self, pieces: &[(u64, Bytes)], span: &Range<u64>) -> Bytes {
        let after = pieces.partition_point(|(start, _)| *start <= span.start);
        let piece = after.checked_sub(1).and_then(|at| pieces.get(at));
        let cut = piece.and_then(|(start, bytes)| {
            // Compared with the bytes: a span without rows may lie anywhere behind the piece.
            let at = |row: u64| saturating_usize((row - start).saturating_mul(self.stride));
            let range = at(span.start)..at(span.end);
            (range.end <= bytes.len()).then(|| bytes.slice(range))
        });
        // Each span that has rows lies in a piece that was read.
        cut.unwrap_or_default()
    }
}

/// Checks C24: one of the arrays, of two axes of numbers.
async fn array(
    run: &mut Validation,
    level: &LevelState,
    name: &str,
    columns: u64,
) -> Result<Option<DenseArray>> {
    let path = level.path(name);
    let array = run.take(C[2], &path, level.node.dense(name).await)?;
    let Some(array) = array else { return Ok(None) };
    let Some(array) = array else {
        run.add(C[24].at(&path).expects("node", "the numbers of the index", "nothing"));
        return Ok(None);
    };
    let fits = matches!(array.shape(), [_, found] if *found == columns);
    if array.dtype() == Dtype::INT64 && fits {
        return Ok(Some(array));
    }
    let expected = format!("two axes of int64, {columns} columns");
    let found = format!("{} {:?}", array.dtype(), array.shape());
    run.add(C[24].at(&path).expects("type", expected, found));
    Ok(None)
}

/// Returns the bytes of a row in memory besides its references.
pub(super) fn weight(entry: &Entry) -> u64 {
    match entry {
        Entry::Blob(bytes) | Entry::Blocks(bytes) => to_u64(bytes.len()),
        Entry::Outside { .. } => 0,
    }
}

const SPANS: &str = "object_index/manifest_spans";
const BLOCKS: &str = "object_index/manifest_blocks";
/// Rows between two spans that are read rather than left out.
const MAX_GAP_ROWS: u64 = 1024;
