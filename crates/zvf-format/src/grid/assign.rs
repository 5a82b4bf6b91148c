//! Assigns many positions at once to chunks and bins, with the results of [`Bins::locate`].
//!
//! Blocks of positions run through plain loops over `f64`, which the compiler vectorizes on every
//! target: division, rounding by adding and subtracting a large number, and an integer division by
//! multiplication that is then corrected. All of it is exact while quotients stay below 2^51. A
//! block with a larger quotient or a NaN is processed one position at a time.

use super::{Bins, ChunkShape, check_axis_count};
use crate::error::FormatError;
use crate::num;

impl Bins {
    /// Writes the chunk and the flat bin index of every position.
    ///
    /// Stops at the end of the shortest slice. A coordinate may be of any type that is exact in
    /// `f64`.
    ///
    /// # Errors
    ///
    /// When `D` is not the number of axes, or a position has no chunk. The offset of the error is
    /// then the offset of the position in bytes, and the output from there on is unspecified.
    ///
    /// ```
    /// use zvf_format::grid::{Bins, ChunkShape};
    ///
    /// let bins = Bins::new(&ChunkShape::new(&[4.0, 4.0]).unwrap(), &[2.0, 2.0]).unwrap();
    /// let (mut chunks, mut flat) = ([[0; 2]; 2], [0; 2]);
    /// bins.assign(&[[5.0_f32, 1.0], [-1.0, 3.0]], &mut chunks, &mut flat).unwrap();
    /// assert_eq!((chunks, flat), ([[1, 0], [-1, 0]], [0, 3]));
    /// ```
    pub fn assign<T: Copy + Into<f64>, const D: usize>(
        &self,
        positions: &[[T; D]],
        chunks: &mut [[i64; D]],
        bins: &mut [u64],
    ) -> Result<(), FormatError> {
        self.blocks(positions, chunks, Some(bins))
    }

    fn blocks<T: Copy + Into<f64>, const D: usize>(
        &self,
        positions: &[[T; D]],
        chunks: &mut [[i64; D]],
        bins: Option<&mut [u64]>,
    ) -> Result<(), FormatError> {
        check_axis_count("position", self.chunk_shape().axes(), D)?;
        let tables = (self.count() < WHOLE_BELOW).then(|| Tables::<D>::new(self));
        let mut unasked = [0; BLOCK];
        let mut bins = bins.map(|bins| bins.chunks_mut(BLOCK));
        let blocks = positions.chunks(BLOCK).zip(chunks.chunks_mut(BLOCK));
        for (block, (positions, chunks)) in (0_u64..).zip(blocks) {
            let bins = match &mut bins {
                None => &mut unasked[..],
                Some(rest) => match rest.next() {
                    Some(bins) => bins,
                    None => break,
                },
            };
            let exact = tables.as_ref().is_some_and(|tables| tables.run(positions, chunks, bins));
            if !exact {
                // Inside the slice, so it cannot saturate.
                let first = block.saturating_mul(num::to_u64(size_of::<[[T; D]; BLOCK]>()));
                self.assign_each(positions, chunks, bins)
                    .map_err(|error| error.with_base_offset(first))?;
            }
        }
        Ok(())
    }

    fn assign_each<T: Copy + Into<f64>, const D: usize>(
        &self,
        positions: &[[T; D]],
        chunks: &mut [[i64; D]],
        bins: &mut [u64],
    ) -> Result<(), FormatError> {
        let out = chunks.iter_mut().zip(bins);
        for (number, (position, (chunk, bin))) in (0_u64..).zip(positions.iter().zip(out)) {
            let (key, flat) = self.locate(&position.map(Into::into)).map_err(|error| {
                // Inside the block, so it cannot saturate.
                error.with_base_offset(number.saturating_mul(num::to_u64(size_of::<[T; D]>())))
            })?;
            for (to, from) in chunk.iter_mut().zip(key.components()) {
                *to = *from;
            }
            *bin = flat;
        }
        Ok(())
    }
}

impl ChunkShape {
    /// Writes the chunk of every position, as [`Self::chunk_of`] gives it.
    ///
    /// # Errors
    ///
    /// As [`Bins::assign`].
    ///
    /// ```
    /// use zvf_format::grid::ChunkShape;
    ///
    /// let mut chunks = [[0; 1]; 2];
    /// ChunkShape::new(&[0.3]).unwrap().assign(&[[0.6_f64], [-0.1]], &mut chunks).unwrap();
    /// assert_eq!(chunks, [[2], [-1]]);
    /// ```
    pub fn assign<T: Copy + Into<f64>, const D: usize>(
        &self,
        positions: &[[T; D]],
        chunks: &mut [[i64; D]],
    ) -> Result<(), FormatError> {
        Bins::from_chunk_shape(self).blocks(positions, chunks, None)
    }
}

/// Number of positions per block.
const BLOCK: usize = 32;

/// Below this, integers and their sums here are exact in `f64`.
const WHOLE_BELOW: u64 = 1 << 51;
const LIMIT: f64 = 2_251_799_813_685_248.0; // the same
/// 1.5 * 2^52. Between 2^52 and 2^53 `f64` has no fractions, so adding this rounds to an integer,
/// which is then in the low bits.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// The divisors of each coordinate of a block, laid out like the block.
struct Tables<const D: usize> {
    bin: [[f64; D]; BLOCK],
    per_chunk: [[f64; D]; BLOCK],
    inverse: [[f64; D]; BLOCK], // of `per_chunk`, rounded
}

impl<const D: usize> Tables<D> {
    fn new(bins: &Bins) -> Self {
        let (mut bin, mut per_chunk) = ([1.0; D], [1.0; D]);
        let axes = bins.bin_shape().iter().zip(bins.bins_per_chunk());
        for ((bin, per_chunk), (size, n)) in bin.iter_mut().zip(&mut per_chunk).zip(axes) {
            (*bin, *per_chunk) = (*size, num::f64_from_i64(*n));
        }
        let inverse = per_chunk.map(|n| 1.0 / n);
        Self { bin: [bin; BLOCK], per_chunk: [per_chunk; BLOCK], inverse: [inverse; BLOCK] }
    }

    /// Processes one block and returns whether the results are exact.
    fn run<T: Copy + Into<f64>>(
        &self,
        positions: &[[T; D]],
        chunks: &mut [[i64; D]],
        bins: &mut [u64],
    ) -> bool {
        let mut local = [[0.0; D]; BLOCK];
        let mut exact = 1_u64; // 0 after a quotient that is too large, or no number
        let coordinates = positions.as_flattened().iter().zip(chunks.as_flattened_mut());
        let divisors = self.bin.as_flattened().iter().zip(self.per_chunk.as_flattened());
        let divisors = divisors.zip(self.inverse.as_flattened());
        let places = coordinates.zip(divisors).zip(local.as_flattened_mut());
        for (((x, chunk), ((size, n), inverse)), local) in places {
            let quotient = (*x).into() / size;
            exact &= u64::from(quotient.abs() < LIMIT);
            let bin = floor(quotient);
            // Off by one at most; the remainder of the bin shows in which direction.
            let near = floor(bin * inverse);
            let left = bin - near * n;
            let (down, up) = (f64_from_bool(left < 0.0), f64_from_bool(left >= *n));
            *local = left + (down - up) * n;
            *chunk = to_i64(near + (up - down));
        }
        let mut n = [1.0; D];
        if let Some(first) = self.per_chunk.first() {
            n = *first;
        }
        for (bin, local) in bins.iter_mut().zip(&local) {
            let flat = local.iter().zip(n).fold(0.0, |flat, (at, n)| flat * n + at);
            *bin = to_i64(flat).unsigned_abs();
        }
        exact == 1
    }
}

/// Returns the largest whole number not above `x`, which is below [`LIMIT`].
fn floor(x: f64) -> f64 {
    let nearest = (x + ROUND) - ROUND;
    nearest - f64_from_bool(nearest > x)
}

fn f64_from_bool(condition: bool) -> f64 {
    if condition { 1.0 } else { 0.0 }
}

/// Converts a whole number below [`LIMIT`] to an integer.
fn to_i64(x: f64) -> i64 {
    let bits = (x + ROUND).to_bits().wrapping_sub(ROUND.to_bits()); // the sign wraps around
    bits.cast_signed()
}
