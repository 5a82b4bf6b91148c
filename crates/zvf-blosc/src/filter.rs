//! The filters of blocks before compression, and their inverses.
//!
//! Shuffles move bytes from one buffer to another; differences are computed in place; truncated
//! precision cannot be restored. A remainder that is not a whole item is unchanged. Items have one
//! byte or more.

mod bitshuffle;
mod difference;
mod shuffle;
mod truncate;

pub(crate) use self::shuffle::undo_part as undo_shuffle_part;
pub(crate) use self::truncate::cut_precision;

use zvf_b2nd::{Filter, FilterSlot};

/// The properties of a block that filters need.
#[derive(Clone, Copy)]
pub(crate) struct Block<'a> {
    pub(crate) version: u8,
    pub(crate) typesize: usize,
    pub(crate) item_size: Option<usize>,
    pub(crate) first: Option<&'a [u8]>, // the decoded block 0, for all others
}

/// Returns whether its inverse needs a second buffer.
pub(crate) const fn needs_buffer(filter: Filter) -> bool {
    matches!(filter, Filter::Shuffle | Filter::Bitshuffle)
}

/// Applies the filter of Blosc 1, a byte or bit shuffle, from one buffer to another of the same
/// length.
pub(crate) fn apply(bits: bool, typesize: usize, from: &[u8], to: &mut [u8]) {
    let items = from.len().checked_div(typesize).unwrap_or(0);
    if !bits {
        shuffle::apply(typesize, from, to);
    } else if items.is_multiple_of(8) {
        bitshuffle::apply(typesize, from, to);
    } else {
        to.copy_from_slice(from); // as Blosc 1 does
    }
}

impl Block<'_> {
    /// Applies a filter of Blosc2 that moves bytes, from `from` to `to`, which are of the same
    /// length.
    pub(crate) fn apply_moving(self, slot: FilterSlot, from: &[u8], to: &mut [u8]) {
        if slot.filter == Filter::Shuffle {
            shuffle::apply(self.width(slot.meta, self.typesize), from, to);
        } else {
            bitshuffle::apply(self.typesize, from, to);
        }
    }

    /// Applies a filter in place, except those that truncate precision.
    pub(crate) fn apply_in_place(self, slot: FilterSlot, block: &mut [u8]) {
        match slot.filter {
            Filter::Delta => difference::apply_delta(self.typesize, self.first, block),
            Filter::ByteDelta => {
                let item = self.item_size.unwrap_or(self.typesize);
                difference::apply_bytes(self.width(slot.meta, item), block);
            }
            Filter::None
            | Filter::Shuffle
            | Filter::Bitshuffle
            | Filter::TruncatePrecision
            | Filter::TruncateIntegers
            | Filter::Unknown(_) => {} // not supported here
        }
    }

    /// Undoes a filter that moves bytes, from `from` to `to`, which are of the same length.
    pub(crate) fn undo_moving(self, slot: FilterSlot, from: &[u8], to: &mut [u8]) {
        if slot.filter == Filter::Shuffle {
            shuffle::undo(self.width(slot.meta, self.typesize), from, to);
            return;
        }
        let items = from.len().checked_div(self.typesize).unwrap_or(0);
        if self.version == BLOSC1 && !items.is_multiple_of(8) {
            to.copy_from_slice(from); // Blosc 1 did nothing to such a block
        } else {
            bitshuffle::undo(self.typesize, from, to);
        }
    }

    /// Returns the item size of a shuffle in `slot`.
    pub(crate) fn shuffled_width(self, slot: FilterSlot) -> usize {
        self.width(slot.meta, self.typesize)
    }

    /// Undoes a filter in place.
    pub(crate) fn undo_in_place(self, slot: FilterSlot, block: &mut [u8]) {
        match slot.filter {
            Filter::Delta => difference::undo_delta(self.typesize, self.first, block),
            Filter::ByteDelta => {
                let item = self.item_size.unwrap_or(self.typesize);
                difference::undo_bytes(self.width(slot.meta, item), block);
            }
            Filter::None
            | Filter::Shuffle
            | Filter::Bitshuffle
            | Filter::TruncatePrecision
            | Filter::TruncateIntegers
            | Filter::Unknown(_) => {} // nothing to undo, or not supported here
        }
    }

    fn width(self, meta: u8, otherwise: usize) -> usize {
        if meta == 0 { otherwise } else { meta.into() }
    }
}

/// The version of Blosc 1 chunks.
const BLOSC1: u8 = 2;
