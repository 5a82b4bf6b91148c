//! The arithmetic of the format: from positions to chunks and bins, and from boxes to ranges of
//! both.
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
//! Implementations must follow each line exactly, including rounding: the results are part of the
//! names of stored objects, so a result that is off by one names another chunk. The first line and
//! the fourth can disagree (chunk 0.3, bin 0.1, position 0.6: chunk 2 by its position, chunk 1 by
//! its bin), and both occur in stores. So a position is *searched* by both rules
//! ([`Bins::chunks_meeting`]) and *written* by the rule of its writer. Division is monotone even
//! when rounded, so the chunks of a closed box lie between those of its corners under each rule,
//! and no range has to be widened by a guess.
//!
//! Not here: which chunks hold data; positions outside the bounds of a store.

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

/// The largest number of axes of a space.
pub const MAX_AXES: usize = 8;

/// Returns `large / small`, if that is an integer within 1e-9 and at least one.
///
/// ```
/// use zvf_format::grid::whole_ratio;
///
/// assert_eq!(whole_ratio(0.3, 0.1), Some(3));
/// assert_eq!(whole_ratio(5.0, 2.0), None);
/// ```
pub fn whole_ratio(large: f64, small: f64) -> Option<i64> {
    let ratio = large / small;
    let nearest = num::floor_i64(ratio + 0.5)?;
    ((ratio - num::f64_from_i64(nearest)).abs() <= 1e-9 && nearest >= 1).then_some(nearest)
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

/// Returns the result of [`floor`], clamped to the range of `i64`.
fn floor_clamped(position: f64, size: f64) -> i64 {
    let quotient = position / size;
    num::floor_i64(quotient).unwrap_or(if quotient < 0.0 { i64::MIN } else { i64::MAX })
}

/// Checks that a number of axes is valid for a space.
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
