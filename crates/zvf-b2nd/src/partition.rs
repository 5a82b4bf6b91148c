//! The partition of an array: shape, chunkshape and blockshape, and derived numbers.
//!
//! ```text
//! per axis     s extent, c chunk extent, b block extent
//! chunks       ceil(s / c)
//! blocks       ceil(c / b), in each chunk
//! padded       blocks x b, the chunk extent rounded up to whole blocks
//! ```
//!
//! Every chunk is stored at its padded extent, also at the edge of the array. The limits keep all
//! products inside the types that frames store them in, so that no later computation can overflow.
//!
//! An error names the byte of the metalayer that would state the extent, even for numbers from
//! another source.

use super::axes::{Axes, MAX_AXES, count, div_up};
use zvf_format::{Class, Expected, FormatError, Found, Part};

/// The two levels of partition of an array, checked against all caps.
///
/// ```
/// use zvf_b2nd::Partition;
///
/// let partition = Partition::new(&[7, 5], &[4, 3], &[2, 2])?;
/// assert_eq!(partition.chunks().as_slice(), [2, 2]);
/// assert_eq!(partition.blocks().as_slice(), [2, 2]);
/// assert_eq!(partition.padded_shape().as_slice(), [4, 4]);
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    shape: Axes, // the product, and each sum with chunkshape, at most i64::MAX
    // In these, the product is at most `i32::MAX`, and an extent is 0 only if the shape has a 0.
    chunkshape: Axes,
    blockshape: Axes,
    padded: Axes,
}

impl Partition {
    /// Checks that an array can be divided like this.
    ///
    /// # Errors
    ///
    /// When the three do not have the same number of axes, at most sixteen; when a chunk or block
    /// extent is zero and the array is not empty; when the items of the array exceed 2^63 - 1, or
    /// those of a chunk, padded chunk or block 2^31 - 1.
    pub fn new(shape: &[u64], chunkshape: &[u64], blockshape: &[u64]) -> Result<Self, FormatError> {
        let n = count(shape);
        let at = Positions { n };
        let Some(shape) = Axes::new(shape) else {
            let expected = Expected::Between(0, AXES);
            return Err(refuse(Class::BadShape, "ndim", NDIM_AT, expected, n));
        };
        let chunkshape = axes_of_rank("chunkshape", chunkshape, n, at.chunkshape_header())?;
        let blockshape = axes_of_rank("blockshape", blockshape, n, at.blockshape_header())?;

        let rows = shape.as_slice().iter().zip(chunkshape.as_slice()).zip(blockshape.as_slice());
        for (axis, ((s, c), b)) in (0_u64..).zip(rows) {
            check_axis(at, axis, *s, *c, *b)?;
        }

        let blocks = chunkshape.zip(&blockshape, div_up);
        let padded = blocks.zip(&blockshape, u64::saturating_mul); // at most c + b, on each axis
        check_items("shape", &shape, at.shape_header(), ITEMS_MAX)?;
        check_items("chunkshape", &chunkshape, at.chunkshape_header(), CHUNK_MAX)?;
        check_items("blockshape", &blockshape, at.blockshape_header(), CHUNK_MAX)?;
        check_items("padded chunkshape", &padded, at.chunkshape_header(), CHUNK_MAX)?;
        Ok(Self { shape, chunkshape, blockshape, padded })
    }

    /// Returns the extents of the array.
    pub const fn shape(&self) -> &Axes {
        &self.shape
    }

    /// Returns the extents of a chunk, without padding.
    pub const fn chunkshape(&self) -> &Axes {
        &self.chunkshape
    }

    /// Returns the extents of a block.
    pub const fn blockshape(&self) -> &Axes {
        &self.blockshape
    }

    /// Returns the number of chunks along each axis.
    pub fn chunks(&self) -> Axes {
        self.shape.zip(&self.chunkshape, div_up)
    }

    /// Returns the number of blocks of a chunk along each axis.
    pub fn blocks(&self) -> Axes {
        self.chunkshape.zip(&self.blockshape, div_up)
    }

    /// Returns the extents of a chunk as stored, in whole blocks.
    pub const fn padded_shape(&self) -> &Axes {
        &self.padded
    }

    /// Returns the number of items, padding not counted.
    pub fn items(&self) -> u64 {
        self.shape.product().unwrap_or(u64::MAX) // capped by `new`
    }
}

fn axes_of_rank(
    field: &'static str,
    extents: &[u64],
    n: u64,
    at: u64,
) -> Result<Axes, FormatError> {
    match Axes::new(extents) {
        Some(axes) if count(extents) == n => Ok(axes),
        Some(_) | None => {
            let expected = Expected::Exactly(n.into());
            Err(refuse(Class::CountMismatch, field, at, expected, count(extents)))
        }
    }
}

fn check_axis(at: Positions, axis: u64, s: u64, c: u64, b: u64) -> Result<(), FormatError> {
    for (field, at, extent, needed) in [
        ("chunkshape", at.chunkshape(axis), c, s > 0),
        ("blockshape", at.blockshape(axis), b, s > 0 || c > 0),
    ] {
        if extent > CHUNK_MAX {
            let expected = Expected::AtMost(CHUNK_MAX.into());
            return Err(refuse(Class::Overflow, field, at, expected, extent));
        }
        if extent == 0 && needed {
            return Err(refuse(Class::BadShape, field, at, Expected::AtLeast(1), extent));
        }
    }
    let max_extent = ITEMS_MAX.saturating_sub(c); // c is at most CHUNK_MAX here
    if s > max_extent {
        let expected = Expected::AtMost(max_extent.into());
        return Err(refuse(Class::Overflow, "shape", at.shape(axis), expected, s));
    }
    Ok(())
}

fn check_items(
    field: &'static str,
    extents: &Axes,
    at: u64,
    max_items: u64,
) -> Result<(), FormatError> {
    match extents.product() {
        Some(items) if items <= max_items => Ok(()),
        Some(items) => {
            Err(refuse(Class::Overflow, field, at, Expected::AtMost(max_items.into()), items))
        }
        None => {
            let expected = Expected::AtMost(max_items.into());
            Err(refuse(Class::Overflow, field, at, expected, "a product above 2^64"))
        }
    }
}

fn refuse(
    class: Class,
    field: &'static str,
    at: u64,
    expected: Expected,
    found: impl Into<Found>,
) -> FormatError {
    FormatError::new(class, Part::Caterva, field, at, expected, found)
}

/// The offsets of the extents in a metalayer of `n` axes, at most sixteen: none is large.
#[derive(Clone, Copy)]
struct Positions {
    n: u64,
}

impl Positions {
    const fn shape_header(self) -> u64 {
        NDIM_AT.saturating_add(1)
    }

    const fn chunkshape_header(self) -> u64 {
        self.shape(self.n)
    }

    const fn blockshape_header(self) -> u64 {
        self.chunkshape(self.n)
    }

    const fn shape(self, axis: u64) -> u64 {
        self.shape_header().saturating_add(1).saturating_add(axis.saturating_mul(9))
    }

    const fn chunkshape(self, axis: u64) -> u64 {
        self.chunkshape_header().saturating_add(1).saturating_add(axis.saturating_mul(5))
    }

    const fn blockshape(self, axis: u64) -> u64 {
        self.blockshape_header().saturating_add(1).saturating_add(axis.saturating_mul(5))
    }
}

/// The offset of the number of axes in the metalayer.
const NDIM_AT: u64 = 2;
/// [`MAX_AXES`], as errors print it.
const AXES: i128 = 16;
const _: () = assert!(MAX_AXES == 16, "AXES says the same");
/// The largest number of items of an array: its extents are stored as `i64`.
const ITEMS_MAX: u64 = i64::MAX.unsigned_abs();
/// The largest number of items of a chunk or block: their extents are stored as `i32`.
pub(super) const CHUNK_MAX: u64 = 0x7fff_ffff;

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    const BIG: u64 = 1 << 31;

    #[test]
    #[rustfmt::skip]
    fn derived_extents() {
        type Row = (&'static [u64], &'static [u64], &'static [u64], [&'static [u64]; 3]);
        let rows: [Row; 6] = [
            (&[7, 5], &[4, 3], &[2, 2],  [&[2, 2], &[2, 2], &[4, 4]]),
            (&[], &[], &[],              [&[], &[], &[]]),
            (&[0, 4], &[0, 4], &[0, 4],  [&[0, 1], &[0, 1], &[0, 4]]),
            (&[0], &[5], &[2],           [&[0], &[3], &[6]]),
            (&[5, 3], &[8, 8], &[3, 3],  [&[1, 1], &[3, 3], &[9, 9]]),
            (&[5], &[4], &[6],           [&[2], &[1], &[6]]),
        ];
        for (s, c, b, derived) in rows {
            let partition = Partition::new(s, c, b).unwrap();
            let found = [partition.chunks(), partition.blocks(), *partition.padded_shape()];
            assert_eq!(found.map(|axes| axes.as_slice().to_vec()), derived.map(<[u64]>::to_vec));
        }
    }

    #[test]
    #[rustfmt::skip]
    fn at_the_caps() {
        for (s, c, b) in [
            ([i64::MAX.unsigned_abs() - 1, 1], [1, 1], [1, 1]),
            ([1, 1], [BIG - 1, 1], [BIG - 1, 1]),
            ([0, 1 << 62], [BIG - 1, 1], [1, 1]),
        ] {
            assert!(Partition::new(&s, &c, &b).is_ok(), "{s:?} {c:?} {b:?}");
        }
    }

    #[test]
    #[rustfmt::skip]
    fn each_check_has_its_message() {
        type Row = (&'static [u64], &'static [u64], &'static [u64], &'static str);
        let rows: [Row; 13] = [
            (&[1; 17], &[1; 17], &[1; 17], "BadShape in array metalayer, ndim at byte 2: expected 0 to 16, found 17"),
            (&[1, 1], &[1], &[1, 1], "CountMismatch in array metalayer, chunkshape at byte 22: expected 2, found 1"),
            (&[1, 1], &[1, 1], &[1; 17], "CountMismatch in array metalayer, blockshape at byte 33: expected 2, found 17"),
            (&[1, (1 << 63) - 3], &[1, 3], &[1, 1], "Overflow in array metalayer, shape at byte 13: expected at most 9223372036854775804, found 9223372036854775805"),
            (&[0, 0], &[1, BIG], &[1, 1], "Overflow in array metalayer, chunkshape at byte 28: expected at most 2147483647, found 2147483648"),
            (&[1, 1], &[1, u64::MAX], &[1, 1], "Overflow in array metalayer, chunkshape at byte 28: expected at most 2147483647, found 18446744073709551615"),
            (&[0, 0], &[1, 1], &[BIG, 1], "Overflow in array metalayer, blockshape at byte 34: expected at most 2147483647, found 2147483648"),
            (&[1, 1], &[1, 0], &[1, 1], "BadShape in array metalayer, chunkshape at byte 28: expected at least 1, found 0"),
            (&[1, 0], &[1, 1], &[1, 0], "BadShape in array metalayer, blockshape at byte 39: expected at least 1, found 0"),
            (&[1 << 32, 1 << 31], &[1, 1], &[1, 1], "Overflow in array metalayer, shape at byte 3: expected at most 9223372036854775807, found 9223372036854775808"),
            (&[1, 1], &[1 << 16, 1 << 15], &[1, 1], "Overflow in array metalayer, chunkshape at byte 22: expected at most 2147483647, found 2147483648"),
            (&[1, 1], &[1, 1], &[1 << 16, 1 << 15], "Overflow in array metalayer, blockshape at byte 33: expected at most 2147483647, found 2147483648"),
            (&[1, 1], &[BIG - 1, 1], &[2, 1], "Overflow in array metalayer, padded chunkshape at byte 22: expected at most 2147483647, found 2147483648"),
        ];
        for (s, c, b, message) in rows {
            assert_eq!(Partition::new(s, c, b).unwrap_err().to_string(), message);
        }
        let wrapped = Partition::new(&[1 << 62, 1 << 62], &[1, 1], &[1, 1]).unwrap_err();
        assert_eq!(wrapped.to_string(), "Overflow in array metalayer, shape at byte 3: expected at most 9223372036854775807, found a product above 2^64");
    }
}
