//! From positions to chunks and bins and back to boxes: the arithmetic of the format.
//!
//! ```text
//! chunk of a position    floor(position / chunk_shape)                in f64, per axis
//! bin of a position      floor(position / bin_shape)                  in f64, per axis
//! bins_per_chunk         chunk_shape / bin_shape, whole within 1e-9
//! chunk of a bin         floor(bin / bins_per_chunk)                  in integers
//! flat bin index         C order over bins_per_chunk of bin - chunk * bins_per_chunk
//! grid of an array       origin = floor(low / chunk_shape)
//!                        shape  = floor(high / chunk_shape) - origin + 1, at least 1
//! ```
//!
//! Each line is exactly that, rounding included: results are names of stored things, and a result that
//! is nearly right names another chunk. The first line and the fourth can disagree (chunk 0.3, bin 0.1,
//! position 0.6: chunk 2 by its position, chunk 1 by its bin), and both occur in stores. So a position
//! is *looked for* by both rules ([`Bins::chunks_meeting`]) and *put* by the one its writer chose.
//! Division is monotone even when rounded, so the chunks of a closed box lie between those of its
//! corners under each rule, and nothing has to be widened by guesswork.
//!
//! Not here: which chunks hold anything; what to do with a position outside the bounds of a store.

use crate::error::{Class, Expected, FormatError, Found, Part};
use crate::num;

mod assign;
mod bbox;
mod bins;
mod extent;
mod morton;
mod range;
mod shape;

pub use bbox::BoundingBox;
pub use bins::{BinRange, Bins};
pub use extent::Grid;
pub use morton::morton;
pub use range::ChunkRange;
pub use shape::{ChunkShape, LevelRatio};

/// The most axes a space can have.
pub const MAX_AXES: usize = 8;

/// How far from a whole number a ratio of sizes may be.
const WHOLE_WITHIN: f64 = 1e-9;

/// Returns how many times `small` goes into `large`, when that is a whole number and at least one.
fn whole_ratio(large: f64, small: f64) -> Option<i64> {
    let ratio = large / small;
    let nearest = num::floor_i64(ratio + 0.5)?;
    ((ratio - num::f64_from_i64(nearest)).abs() <= WHOLE_WITHIN && nearest >= 1).then_some(nearest)
}

/// Returns a coordinate in units of `size`, rounded down.
fn floor(position: f64, size: f64) -> Result<i64, FormatError> {
    num::floor_i64(position / size).ok_or_else(|| {
        let (class, rule) = if position.is_nan() {
            (Class::OutOfBounds, "a number")
        } else {
            (Class::Overflow, "a quotient by the chunk or bin shape of 64 bits")
        };
        refuse(class, "position", Expected::Rule(rule), position)
    })
}

/// Returns what [`floor`] does, and the nearest integer of 64 bits where there is none.
fn floor_clamped(position: f64, size: f64) -> i64 {
    let quotient = position / size;
    num::floor_i64(quotient).unwrap_or(if quotient < 0.0 { i64::MIN } else { i64::MAX })
}

/// Checks a number of axes: one that a space can have.
fn check_axes(field: &'static str, axes: usize) -> Result<u8, FormatError> {
    const { assert!(MAX_AXES == 8) };
    let class = if axes == 0 { Class::BadShape } else { Class::LimitExceeded };
    match u8::try_from(axes) {
        Ok(small @ 1..=8) => Ok(small),
        _ => Err(refuse(class, field, Expected::Between(1, 8), axes)),
    }
}

/// Checks that two numbers of axes agree.
fn check_axis_count(field: &'static str, want: usize, found: usize) -> Result<(), FormatError> {
    if want == found {
        return Ok(());
    }
    let expected = Expected::Exactly(num::to_u64(want).into());
    Err(refuse(Class::BadShape, field, expected, found))
}

fn refuse(
    class: Class,
    field: &'static str,
    expected: Expected,
    found: impl Into<Found>,
) -> FormatError {
    FormatError::new(class, Part::Grid, field, 0, expected, found)
}

#[cfg(test)]
mod tests;
