//! The options of links between levels.

use zvf_metadata::CrossLevelStorage;

/// Whether and over how many levels vertices are linked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CrossLevelOptions {
    pub(crate) storage: CrossLevelStorage,
    pub(crate) depth: i64,
}

impl CrossLevelOptions {
    /// Returns by how many levels links go up, where there are `levels` above the first.
    pub(crate) fn gaps(self, levels: usize) -> std::ops::RangeInclusive<usize> {
        let max_gap = usize::try_from(self.depth).unwrap_or(levels).min(levels);
        1..=if self.storage == CrossLevelStorage::None { 0 } else { max_gap }
    }

    /// Returns whether any links are written.
    pub(crate) fn is_enabled(self) -> bool {
        !self.gaps(1).is_empty()
    }
}
