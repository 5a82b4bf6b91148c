//! Cells that wait until their shard is whole.
//!
//! ```text
//! cells    encoded, those that are there, in C order
//! index    16 bytes for each cell of the shard: offset and nbytes, or all ones; then a CRC-32C
//! ```
//!
//! Not here: how a cell is encoded, and where a shard is written.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use bytes::Bytes;
use zvf_format::num::{saturating_usize, to_u64};
use zvf_format::shard::encode_index;
use zvf_format::{Class, Expected, Found};

use super::room::Kept;
use crate::error::{Op, StoreError};

/// The shards of one array.
#[derive(Debug)]
pub(super) struct Shards {
    shape: Box<[u64]>, // cells per axis, none 0
    cells: u64,        // their product
    open: BTreeMap<Box<[u64]>, BTreeMap<u64, Held>>,
    closed: BTreeSet<Box<[u64]>>,
}

#[derive(Debug)]
struct Held {
    parts: Vec<Bytes>,
    _kept: Kept,
}

impl Shards {
    /// Shards of this shape, in an array of `rank` axes.
    pub(super) fn new(shape: &[u64], rank: usize) -> Result<Self, StoreError> {
        let refused = |expected, found| {
            let class = Class::InvalidArgument;
            Err(StoreError::refused(class, Op::Open, "cells per shard", expected, found))
        };
        if shape.len() != rank {
            return refused(Expected::Rule("one number for each axis"), "another count");
        }
        let cells = shape.iter().try_fold(1_u64, |all, &n| all.checked_mul(n));
        match cells {
            Some(cells @ 1..=MAX_CELLS) => {
                let (open, closed) = (BTreeMap::new(), BTreeSet::new());
                Ok(Self { shape: shape.into(), cells, open, closed })
            }
            _ => refused(Expected::Rule("at least 1 on each axis, 16777216 in all"), "another"),
        }
    }

    /// The shard of the cell at `index`, and the place of the cell in it.
    pub(super) fn locate(&self, index: &[u64]) -> (Box<[u64]>, u64) {
        let axes = || index.iter().zip(&self.shape);
        let shard = axes().map(|(i, n)| i.checked_div(*n).unwrap_or(0)).collect();
        let place = axes().fold(0_u64, |place, (i, n)| {
            place.saturating_mul(*n).saturating_add(i.checked_rem(*n).unwrap_or(0))
        });
        (shard, place)
    }

    /// Keeps a cell until its shard is taken.
    pub(super) fn keep(
        &mut self,
        index: &[u64],
        parts: Vec<Bytes>,
        kept: Kept,
    ) -> Result<(), StoreError> {
        let (shard, place) = self.locate(index);
        let refused = |found| {
            let expected = Expected::Rule("each cell once, before its shard is closed");
            Err(StoreError::refused(Class::Duplicate, Op::Write, "cell", expected, found))
        };
        if self.closed.contains(&shard) {
            return refused("one of a closed shard");
        }
        let cells = self.open.entry(shard).or_default();
        match cells.insert(place, Held { parts, _kept: kept }) {
            None => Ok(()),
            Some(_) => refused("one that is there"),
        }
    }

    /// The shard that holds the cell at `index`, to be written; `None` when nothing is in it.
    pub(super) fn take(&mut self, index: &[u64]) -> Option<Whole> {
        let (shard, _) = self.locate(index);
        self.take_one(shard)
    }

    /// The next shard that is not closed, in order.
    pub(super) fn take_next(&mut self) -> Option<Whole> {
        let shard = self.open.keys().next().cloned()?;
        self.take_one(shard)
    }

    fn take_one(&mut self, shard: Box<[u64]>) -> Option<Whole> {
        let cells = self.open.remove(&shard)?;
        self.closed.insert(shard.clone());
        Some(Whole { index: shard, cells, room: self.cells })
    }
}

/// All cells of one shard.
pub(super) struct Whole {
    pub(super) index: Box<[u64]>,
    cells: BTreeMap<u64, Held>,
    room: u64,
}

impl Whole {
    /// The bytes of the shard; its cells give their room back.
    pub(super) fn assemble(self) -> Result<Vec<Bytes>, StoreError> {
        let mut spans: Vec<Option<Range<u64>>> = vec![None; saturating_usize(self.room)];
        let mut parts = Vec::new();
        let mut end = 0_u64;
        for (place, held) in self.cells {
            let start = end;
            for part in held.parts {
                end += to_u64(part.len());
                parts.push(part);
            }
            let Some(span) = spans.get_mut(saturating_usize(place)) else {
                let (expected, found) = (Expected::AtMost(self.room.into()), Found::from(place));
                let (class, what) = (Class::OutOfBounds, "cell of a shard");
                return Err(StoreError::refused(class, Op::Write, what, expected, found));
            };
            *span = Some(start..end);
        }
        parts.push(encode_index(&spans, true)?.into());
        Ok(parts)
    }
}

/// An index of more would be larger than what it points to.
const MAX_CELLS: u64 = 1 << 24;

#[cfg(test)]
mod tests {
    use super::super::room::MemoryLimiter;
    use super::*;

    #[test]
    fn the_bytes_of_a_shard() {
        // Two of four cells, the later one first.
        let room = MemoryLimiter::new(1000, true);
        let mut shards = Shards::new(&[2, 2], 2).unwrap();
        let cell = |text: &'static str| vec![Bytes::from_static(text.as_bytes())];
        shards.keep(&[3, 4], cell("second"), room.keep(6).unwrap()).unwrap();
        shards.keep(&[2, 4], cell("one"), room.keep(3).unwrap()).unwrap();
        let whole = shards.take(&[3, 5]).unwrap();
        assert_eq!(*whole.index, [1, 2]);
        let stored = whole.assemble().unwrap().concat();
        let (bytes, sum) = stored.split_at(stored.len() - 4);
        #[rustfmt::skip]
        assert_eq!(bytes, [
            &b"onesecond"[..],
            &[0, 0, 0, 0, 0, 0, 0, 0], &[3, 0, 0, 0, 0, 0, 0, 0],
            &[255; 16],
            &[3, 0, 0, 0, 0, 0, 0, 0], &[6, 0, 0, 0, 0, 0, 0, 0],
            &[255; 16],
        ].concat());
        assert_eq!(sum, crc32c::crc32c(&bytes[9..]).to_le_bytes());
        assert_eq!(room.held(), 0);
        assert!(shards.take_next().is_none());
    }

    #[test]
    fn every_refusal_has_its_words() {
        let room = MemoryLimiter::new(1000, true);
        let mut shards = Shards::new(&[2], 1).unwrap();
        let mut keep = |i: u64, close: bool| {
            let kept = shards.keep(&[i], vec![Bytes::from_static(b"x")], room.keep(1).unwrap());
            if close {
                shards.take(&[i]);
            }
            kept.map_err(|error| error.to_string())
        };
        let rule = "expected each cell once, before its shard is closed, found";
        assert_eq!(keep(0, false), Ok(()));
        assert_eq!(keep(0, true), Err(format!("Duplicate, cell: {rule} \"one that is there\"")));
        assert_eq!(
            keep(1, false),
            Err(format!("Duplicate, cell: {rule} \"one of a closed shard\""))
        );
        let plan = |shape: &[u64]| Shards::new(shape, 2).unwrap_err().to_string();
        let what = "InvalidArgument, cells per shard: expected";
        assert_eq!(plan(&[1]), format!("{what} one number for each axis, found \"another count\""));
        for shape in [[0, 1], [1 << 24, 2], [u64::MAX, u64::MAX]] {
            let rule = "at least 1 on each axis, 16777216 in all, found \"another\"";
            assert_eq!(plan(&shape), format!("{what} {rule}"));
        }
    }
}
