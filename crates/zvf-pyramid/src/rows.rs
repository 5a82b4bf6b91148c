//! Numbers of the rows of a batch, in 32 bits.

use zvf_format::num::{saturating_u32_from_usize, usize_from_u32};

use crate::PyramidError;

/// No cluster, no vertex.
pub(crate) const NONE: u32 = u32::MAX;

/// The number of a row of a batch, of which there are fewer than 2^32: [`check_rows`] refuses more.
pub(crate) const fn row_number(at: usize) -> u32 {
    saturating_u32_from_usize(at)
}

/// Refuses so many rows that not all have numbers of 32 bits, the last of which stands for none.
pub(crate) fn check_rows(rows: usize) -> Result<(), PyramidError> {
    if rows < usize_from_u32(NONE) {
        return Ok(());
    }
    let expected = "fewer than 2^32: give objects to vertices, or use the methods of points";
    Err(PyramidError::unsupported("vertices that are coarsened at once", expected, rows))
}
