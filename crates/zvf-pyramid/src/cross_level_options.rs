//! The options of links between levels.

use zvf_metadata::CrossLevelStorage;

/// Whether vertices are linked across levels, and how many levels apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CrossLevelOptions {
    pub(crate) storage: CrossLevelStorage,
    pub(crate) depth: i64,
}

impl CrossLevelOptions {
    /// Returns the level distances that links cover, where there are `levels` levels above the
    /// first.
    pub(crate) fn gaps(self, levels: usize) -> std::ops::RangeInclusive<usize> {
        let max_gap = usize::try_from(self.depth).unwrap_or(levels).min(levels);
        1..=if self.storage == CrossLevelStorage::None { 0 } else { max_gap }
    }

    /// Returns whether any links are written.
    pub(crate) fn is_enabled(self) -> bool {
        !self.gaps(1).is_empty()
    }
}
