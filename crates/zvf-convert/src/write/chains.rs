//! Runs of vertices as the streamlines of a file.

use std::collections::HashSet;
use std::ops::Range;

use zvf_format::num::nearest_f32;
use zvf_model::{Batch, Column, Kind, ObjectId};

use super::Loss;
use crate::read::Header;

/// What the next vertices are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Rows of the batch.
    pub(crate) rows: Range<usize>,
    /// Their object.
    pub(crate) object: ObjectId,
    /// Whether they go on where the batch before stopped.
    pub(crate) goes_on: bool,
}

/// Follows the objects of a file from batch to batch.
#[derive(Debug, Default)]
pub(crate) struct Chains {
    open: Option<ObjectId>,
    seen: HashSet<ObjectId>,
    next: i64, // where batches name no objects
    split: u64,
}

impl Chains {
    /// The runs of a batch. A part goes on only from the end of the batch before: two parts of an object beside
    /// each other are two streamlines.
    pub(crate) fn runs(&mut self, batch: &Batch) -> Vec<Run> {
        let mut runs = Vec::new();
        if !batch.parts().is_empty() {
            for part in batch.parts().iter() {
                runs.push((part.rows, part.object));
            }
        } else if let Some(owners) = batch.vertex_objects() {
            let mut start = 0;
            for own in owners.chunk_by(|a, b| a == b) {
                let object = own.first().copied().flatten().unwrap_or(ObjectId(-1));
                runs.push((start..start + own.len(), object));
                start += own.len();
            }
        } else if batch.kind() == Kind::Line {
            for start in (0..batch.len()).step_by(2) {
                runs.push((start..(start + 2).min(batch.len()), ObjectId(self.next)));
                self.next += 1;
            }
        } else if !batch.is_empty() {
            runs.push((0..batch.len(), ObjectId(self.next)));
            self.next += 1;
        }
        let mut found = Vec::with_capacity(runs.len());
        for (at, (rows, object)) in runs.into_iter().enumerate() {
            let goes_on = at == 0 && self.open == Some(object);
            let is_new = self.seen.insert(object);
            self.split += u64::from(!is_new && !goes_on);
            self.open = Some(object);
            found.push(Run { rows, object, goes_on });
        }
        found
    }

    /// Those of `ids` that had no vertices so far, once each.
    pub(crate) fn take_unseen(&mut self, ids: &[ObjectId]) -> Vec<ObjectId> {
        let new: Vec<_> = ids.iter().copied().filter(|id| self.seen.insert(*id)).collect();
        if !new.is_empty() {
            self.open = None;
        }
        new
    }

    /// The loss of objects that came in several parts.
    pub(crate) fn losses(&self) -> Vec<Loss> {
        let split = (self.split > 0).then(|| {
            let text =
                format!("objects of several parts are split: {} streamlines more", self.split);
            Loss::new(text)
        });
        split.into_iter().collect()
    }
}

/// Positions in mm, row by row, and how many became others when they were rounded.
#[derive(Debug)]
pub(crate) struct Millimeters {
    factor: f64,
    is_known: bool,
    changed: u64,
}

impl Millimeters {
    /// By what is said of units; lengths without one are taken for mm.
    pub(crate) fn new(header: &Header) -> Self {
        let factor = header.unit().and_then(factor);
        Self { factor: factor.unwrap_or(1.0), is_known: factor.is_some(), changed: 0 }
    }

    /// The same in nanometres.
    pub(crate) fn nanometers(header: &Header) -> Self {
        let millimeters = Self::new(header);
        if !millimeters.is_known {
            return millimeters;
        }
        // 1e-3 * 1e6 is 1000, whatever the last bit says.
        Self { factor: (millimeters.factor * 1e6).round(), ..millimeters }
    }

    /// Whether the unit is a length.
    pub(crate) const fn is_known(&self) -> bool {
        self.is_known
    }

    /// A length in the unit that positions get.
    pub(crate) const fn length(&self, x: f64) -> f64 {
        x * self.factor
    }

    /// One coordinate of a position.
    pub(crate) fn scaled(&self, positions: &Column, row: usize, axis: usize) -> f64 {
        positions.float(row, axis).unwrap_or(f64::NAN) * self.factor
    }

    /// The same as it is stored in 32 bits.
    pub(crate) fn stored(&self, positions: &Column, row: usize, axis: usize) -> f64 {
        f64::from(nearest_f32(self.scaled(positions, row, axis)))
    }

    /// Whether positions stay what they are.
    pub(crate) fn is_identity(&self) -> bool {
        self.factor == 1.0
    }

    /// The position in `row`, as near as there are numbers of 64 bits.
    pub(crate) fn position(&self, positions: &Column, row: usize) -> [f64; 3] {
        [0, 1, 2].map(|axis| positions.float(row, axis).unwrap_or(f64::NAN) * self.factor)
    }

    /// Rounds a number to 32 bits, and counts it where that changes it.
    pub(crate) fn round_to_f32(&mut self, x: f64) -> f32 {
        let narrow = nearest_f32(x);
        self.changed += u64::from(f64::from(narrow) != x && !x.is_nan());
        narrow
    }

    /// The loss of precision, where there was any.
    pub(crate) fn losses(&self, what: &str) -> Vec<Loss> {
        let changed = (self.changed > 0)
            .then(|| Loss::new(format!("{} {what} were rounded to float32", self.changed)));
        changed.into_iter().collect()
    }
}

/// Millimetres in a unit of length.
fn factor(unit: &str) -> Option<f64> {
    let known = [
        ("meter", 1e3),
        ("centimeter", 10.0),
        ("millimeter", 1.0),
        ("micrometer", 1e-3),
        ("nanometer", 1e-6),
        ("m", 1e3),
        ("cm", 10.0),
        ("mm", 1.0),
        ("um", 1e-3),
        ("nm", 1e-6),
    ];
    known.into_iter().find(|(name, _)| *name == unit).map(|(_, factor)| factor)
}
