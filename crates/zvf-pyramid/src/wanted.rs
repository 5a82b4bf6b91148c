//! Which links between levels are wanted.

use zvf_metadata::CrossLevelStorage;

/// Which links are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) storage: CrossLevelStorage,
    pub(crate) depth: i64,
}

impl Wanted {
    /// By how many levels links go up, where there are `levels` above the first.
    pub(crate) fn gaps(self, levels: usize) -> std::ops::RangeInclusive<usize> {
        let most = usize::try_from(self.depth).unwrap_or(levels).min(levels);
        1..=if self.storage == CrossLevelStorage::None { 0 } else { most }
    }

    /// Whether there are any.
    pub(crate) fn any(self) -> bool {
        !self.gaps(1).is_empty()
    }
}
