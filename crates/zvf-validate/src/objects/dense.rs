//! Object indexes as numeric arrays: spans of rows of one long table of references.
//!
//! ```text
//! manifest_spans    i64 [n, 2]       start, count: the references of row r
//! manifest_blocks   i64 [m, S + 1]   chunk, fragment
//! ```
//!
//! Spans may be in any order; edits leave references behind that no span names. The existing arrays
//! determine the layout, whatever is declared.

use std::ops::Range;

use bytes::Bytes;
use zvf_error::Result;
use zvf_format::num::{i64s_from_le, to_u64};
use zvf_metadata::Dtype;
use zvf_model::open::references;
use zvf_store::DenseArray;

use super::manifest::Entry;
use crate::level::LevelState;
use crate::rules::C;
use crate::validation::Validation;

/// Both arrays of the index.
pub(super) struct Table {
    spans: DenseArray,
    blocks: DenseArray,
}

impl Table {
    /// Returns the arrays of a level, if they exist and have the right form; faults are reported.
    pub(super) async fn open(
        run: &mut Validation,
        level: &LevelState,
        rank: u64,
    ) -> Result<Option<Self>> {
        let mut open = async |name, columns: u64| {
            let expected = format!("two axes of int64, {columns} columns");
            let fits = |axes: &[u64]| matches!(axes, [_, found] if *found == columns);
            let what = "the numbers of the index";
            open_numbers(run, &level.path(name), what, &expected, fits).await
        };
        let (spans, blocks) = (open(SPANS, 2).await?, open(BLOCKS, rank + 1).await?);
        Ok(spans.zip(blocks).map(|(spans, blocks)| Self { spans, blocks }))
    }

    /// Returns whether a level has one of the arrays, in any form.
    pub(super) async fn exists(run: &Validation, level: &LevelState) -> bool {
        // A document that cannot be read exists.
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
        let numbers: Vec<i64> = i64s_from_le(&spans).collect();
        let pairs = numbers.as_chunks::<2>().0;
        let entry = |(references, pair): (Result<Bytes>, &[i64; 2])| {
            let [start, count] = *pair;
            let outside = |_| Entry::Outside { start, count, blocks: self.blocks.len() };
            references.map_or_else(outside, Entry::Blocks)
        };
        Ok(references(pairs, &self.blocks).await?.into_iter().zip(pairs).map(entry).collect())
    }
}

/// Checks C24: one of the arrays, of two axes of numbers.
pub(super) async fn open_numbers(
    run: &mut Validation,
    path: &str,
    what: &str,
    expected: &str,
    fits: impl Fn(&[u64]) -> bool,
) -> Result<Option<DenseArray>> {
    let Some(array) = run.dense(path).await? else { return Ok(None) };
    let Some(array) = array else {
        run.add(C[24].at(path).expects("node", what, "nothing"));
        return Ok(None);
    };
    if array.dtype() == Dtype::INT64 && fits(array.shape()) {
        return Ok(Some(array));
    }
    let found = format!("{} {:?}", array.dtype(), array.shape());
    run.add(C[24].at(path).expects("type", expected, found));
    Ok(None)
}

/// Returns the memory of a row in bytes, without its references.
pub(super) fn weight(entry: &Entry) -> u64 {
    match entry {
        Entry::Blob(bytes) | Entry::Blocks(bytes) => to_u64(bytes.len()),
        Entry::Outside { .. } => 0,
    }
}

const SPANS: &str = "object_index/manifest_spans";
const BLOCKS: &str = "object_index/manifest_blocks";
