//! Bins divide a chunk into equal parts. Each bin can be a fragment.
//!
//! Like chunks, bins are numbered through space from the origin, without regard to chunk borders; a
//! chunk is a fixed number of consecutive bins. Writers assign bins this way, and where the bin and
//! the chunk of a position disagree, the bin decides.

use super::{
    BoundingBox, ChunkRange, ChunkShape, MAX_AXES, check_axis_count, floor, refuse, whole_ratio,
};
use crate::error::{Class, Expected, FormatError};
use crate::key::{ChunkKey, MAX_RANK};
use crate::{num, used_items};

/// A chunk shape divided into bins.
///
/// ```
/// use zvf_format::grid::{Bins, ChunkShape};
///
/// let chunk = ChunkShape::new(&[0.3]).unwrap();
/// let bins = Bins::new(&chunk, &[0.1]).unwrap();
/// let (by_bin, bin) = bins.locate(&[0.6]).unwrap();
/// assert_eq!((by_bin.components(), bin), (&[1][..], 2));
/// assert_eq!(chunk.chunk_of(&[0.6]).unwrap().components(), [2]); // by its position
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bins {
    chunk: ChunkShape,
    bin: ChunkShape,            // of the same rank
    per_chunk: [i64; MAX_AXES], // each at least 1, their product fits; 1 from the rank on
}

impl Bins {
    /// Divides `chunk` into bins of this shape.
    ///
    /// # Errors
    ///
    /// When the ranks differ, a size is not finite or not above zero, the chunk is not a whole
    /// number of bins (within 1e-9), or there are 2^63 bins or more.
    pub fn new(chunk: &ChunkShape, bin_shape: &[f64]) -> Result<Self, FormatError> {
        check_axis_count("bin_shape", chunk.axes(), bin_shape.len())?;
        let bin = ChunkShape::new(bin_shape).map_err(|mut error| {
            error.field = "bin_shape";
            error
        })?;
        let mut per_chunk = [1; MAX_AXES];
        for (to, (large, small)) in per_chunk.iter_mut().zip(chunk.sizes().iter().zip(bin.sizes()))
        {
            *to = whole_ratio(*large, *small).ok_or_else(|| {
                let expected = Expected::Rule("a whole number of bins in a chunk");
                refuse(Class::BadShape, "bin_shape", expected, large / small)
            })?;
        }
        if per_chunk.iter().try_fold(1_i64, |all, n| all.checked_mul(*n)).is_none() {
            let expected = Expected::Rule("fewer than 2^63 bins in a chunk");
            return Err(refuse(Class::Overflow, "bin_shape", expected, "more"));
        }
        Ok(Self { chunk: *chunk, bin, per_chunk })
    }

    /// Creates one bin per chunk, for a level without a bin shape. The chunk by bin and the chunk
    /// by position are then equal.
    pub const fn from_chunk_shape(chunk: &ChunkShape) -> Self {
        Self { chunk: *chunk, bin: *chunk, per_chunk: [1; MAX_AXES] }
    }

    /// Returns the shape of a chunk.
    pub const fn chunk_shape(&self) -> &ChunkShape {
        &self.chunk
    }

    /// Returns the size of a bin on each axis.
    pub fn bin_shape(&self) -> &[f64] {
        self.bin.sizes()
    }

    /// Returns the number of bins per chunk on each axis, at least one.
    pub fn bins_per_chunk(&self) -> &[i64] {
        used_items(&self.per_chunk, self.chunk.axes)
    }

    /// Returns the number of bins per chunk.
    pub fn count(&self) -> u64 {
        // Cannot saturate: `new` checked the product.
        self.per_chunk.iter().fold(1, |all, n| all.saturating_mul(n.unsigned_abs()))
    }

    /// Finds the chunk of a position by its bin, and the flat index of that bin in the chunk.
    ///
    /// # Errors
    ///
    /// When the position has another rank, a NaN, or a coordinate so large that its bin number does
    /// not fit in 64 bits.
    pub fn locate(&self, position: &[f64]) -> Result<(ChunkKey, u64), FormatError> {
        check_axis_count("position", self.chunk.axes(), position.len())?;
        let (mut components, mut flat) = ([0; MAX_RANK], 0);
        let axes = position.iter().zip(self.bin_shape()).zip(self.bins_per_chunk());
        for (to, ((x, size), n)) in components.iter_mut().zip(axes) {
            let (chunk, local) = divide(floor(*x, *size)?, *n);
            *to = chunk;
            flat = add_axis(flat, *n, local);
        }
        Ok((ChunkKey::from_checked(components, self.chunk.axes), flat))
    }

    /// Returns the chunks in which a position of the box can lie, whether its writer assigned
    /// chunks by position or by bin.
    ///
    /// # Errors
    ///
    /// When the box has another rank.
    pub fn chunks_meeting(&self, bbox: &BoundingBox) -> Result<ChunkRange, FormatError> {
        let by_position = self.chunk.chunks_meeting(bbox)?;
        Ok(ChunkRange::from_fn(self.chunk.axes, |axis| {
            let (low, high) = by_position.axis(axis)?;
            let (first, last) = bbox.reach(axis, *self.bin_shape().get(axis)?)?;
            let n = *self.bins_per_chunk().get(axis)?;
            Some((divide(first, n).0.min(low), divide(last, n).0.max(high)))
        }))
    }

    /// Returns the bins of a chunk in which a position of the box can lie. If the key has one more
    /// component, the first is the bin of an attribute.
    ///
    /// # Errors
    ///
    /// When the box or the key has another rank.
    pub fn bins_meeting(
        &self,
        bbox: &BoundingBox,
        chunk: &ChunkKey,
    ) -> Result<BinRange, FormatError> {
        let axes = self.chunk.axes();
        check_axis_count("box", axes, bbox.axes())?;
        let extra = chunk.rank().checked_sub(axes);
        let Some(key) = chunk.spatial(axes).filter(|_| matches!(extra, Some(0 | 1))) else {
            let expected = Expected::Exactly(num::to_u64(axes).into());
            return Err(refuse(Class::BadShape, "chunk key", expected, chunk.rank()));
        };
        let local = ChunkRange::from_fn(self.chunk.axes, |axis| {
            // These are 64-bit numbers, so products and differences fit in `i128`.
            let (first, last) = bbox.reach(axis, *self.bin_shape().get(axis)?)?;
            let n = i128::from(*self.bins_per_chunk().get(axis)?);
            let start = i128::from(*key.get(axis)?).saturating_mul(n);
            let first = i128::from(first).saturating_sub(start).max(0);
            let last = i128::from(last).saturating_sub(start).min(n.saturating_sub(1));
            Some((i64::try_from(first).ok()?, i64::try_from(last).ok()?))
        });
        Ok(BinRange { local, per_chunk: self.per_chunk })
    }
}

/// Some bins of one chunk.
///
/// ```
/// use zvf_format::grid::{Bins, BoundingBox, ChunkShape};
/// use zvf_format::key::ChunkKey;
///
/// let bins = Bins::new(&ChunkShape::new(&[4.0, 4.0]).unwrap(), &[2.0, 2.0]).unwrap();
/// let bbox = BoundingBox::new(&[1.0, 2.0], &[3.0, 3.0]).unwrap();
/// let chunk = ChunkKey::new(&[0, 0]).unwrap();
/// assert!(bins.bins_meeting(&bbox, &chunk).unwrap().iter().eq([1, 3]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BinRange {
    local: ChunkRange, // within 0..per_chunk on every axis, or empty
    per_chunk: [i64; MAX_AXES],
}

impl BinRange {
    /// Returns whether there are no bins.
    pub const fn is_empty(&self) -> bool {
        self.local.is_empty()
    }

    /// Returns how many bins there are.
    pub fn count(&self) -> u64 {
        self.local.count().unwrap_or(u64::MAX) // at most the bins of a chunk, which fit
    }

    /// Returns whether the bin with this flat index is among them.
    pub fn contains(&self, flat: u64) -> bool {
        let axes = (0..self.local.rank()).rev();
        let rest = axes.zip(self.per_chunk.iter().take(self.local.rank()).rev()).try_fold(
            flat,
            |rest, (axis, n)| {
                let (low, high) = self.local.axis(axis)?;
                let n = n.unsigned_abs();
                let at = rest.checked_rem(n)?;
                let inside = (low.unsigned_abs()..=high.unsigned_abs()).contains(&at);
                if inside { rest.checked_div(n) } else { None }
            },
        );
        rest == Some(0)
    }

    /// Returns an iterator over the flat indexes, ascending. With one fragment per bin, these are
    /// the fragment numbers.
    pub fn iter(&self) -> impl Iterator<Item = u64> + use<> {
        let per_chunk = self.per_chunk;
        self.local.iter().map(move |bin| {
            let axes = bin.components().iter().zip(per_chunk);
            axes.fold(0, |flat, (at, n)| add_axis(flat, n, *at))
        })
    }
}

/// Extends a flat index by the next axis, at place `at` of the `n` bins there. It cannot saturate:
/// a chunk has fewer than 2^63 bins.
const fn add_axis(flat: u64, n: i64, at: i64) -> u64 {
    flat.saturating_mul(n.unsigned_abs()).saturating_add(at.unsigned_abs())
}

/// Returns the chunk of a bin on one axis, and the bin counted from the start of the chunk.
fn divide(bin: i64, per_chunk: i64) -> (i64, i64) {
    // `per_chunk` is at least 1, so neither can fail.
    (
        bin.checked_div_euclid(per_chunk).unwrap_or(bin),
        bin.checked_rem_euclid(per_chunk).unwrap_or(0),
    )
}
