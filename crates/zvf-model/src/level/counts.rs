//! The known row counts of the chunks of a level.
//!
//! Reading all vertices of a chunk reveals its row count, and reading an attribute needs it. The
//! handle caches it: four bytes per chunk.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use zvf_format::key::ChunkKey;
use zvf_store::KeyTable;

/// The rows of each chunk of one table.
#[derive(Debug, Default)]
pub(super) struct Counts(OnceLock<Box<[AtomicU32]>>);

impl Counts {
    /// Records that `key` has `rows`.
    pub(super) fn record_rows(&self, chunks: &KeyTable, key: &ChunkKey, rows: u64) {
        let all = self.0.get_or_init(|| {
            let mut all = Vec::new();
            all.resize_with(chunks.len(), || AtomicU32::new(UNKNOWN));
            all.into()
        });
        if let (Ok(rows), Some(count)) =
            (u32::try_from(rows), chunks.find(key).and_then(|i| all.get(i)))
        {
            count.store(rows, Ordering::Relaxed);
        }
    }

    /// Returns the row count of `key`, if it is known.
    pub(super) fn row_count(&self, chunks: &KeyTable, key: &ChunkKey) -> Option<u64> {
        let rows = self.0.get()?.get(chunks.find(key)?)?.load(Ordering::Relaxed);
        (rows != UNKNOWN).then_some(rows.into())
    }
}

/// No chunk within the limits has this many rows.
const UNKNOWN: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_recorded_counts_are_returned() {
        let key = |x| ChunkKey::new(&[x]).unwrap();
        let chunks = KeyTable::new(1, [key(-1), key(4)]).unwrap();
        let counts = Counts::default();
        assert_eq!(counts.row_count(&chunks, &key(4)), None);
        counts.record_rows(&chunks, &key(4), 7);
        counts.record_rows(&chunks, &key(5), 8);
        counts.record_rows(&chunks, &key(-1), u64::from(UNKNOWN));
        let row_counts = [4, 5, -1].map(|x| counts.row_count(&chunks, &key(x)));
        assert_eq!(row_counts, [Some(7), None, None]);
    }
}
