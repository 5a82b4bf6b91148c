//! Selection: start, stop and step along every axis, and the tiles that it touches.
//!
//! ```text
//! selected indices    start, start + step, ... below stop      n = ceil((stop - start) / step)
//! touched chunks      step <= chunk: start / chunk ..= last / chunk
//!                     step >  chunk: one for each selected index
//! ```
//!
//! In both cases the i-th touched chunk has a closed form, so the lists are never stored: the cost
//! of planning depends only on the touched chunks, not on the size of the grid.
//!
//! A selection lies inside its dataset, so its indices and counts fit in 64 bits; operations
//! saturate only for tiles without selected elements.
//!
//! Not here: labels instead of numbers; rows of the index ([`TilePlan`](super::TilePlan)).

use super::copy::AxisPiece;
use super::geometry::axes;
use super::{MAX_RANK, Runs, Tile, TileGeometry};
use zvf_format::Hint;
use zvf_format::{Class, Expected, FormatError, Found, Part, num};

/// The selection along one axis.
///
/// ```
/// use zvf_tet::AxisSlice;
///
/// assert_eq!(AxisSlice::all(5), AxisSlice { start: 0, stop: 5, step: 1 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisSlice {
    /// The first index.
    pub start: u64,
    /// The end, excluded.
    pub stop: u64,
    /// The distance between selected indices.
    pub step: u64,
}

/// A part of a dataset, with at least one element.
///
/// ```
/// use zvf_tet::{AxisSlice, TensorDtype, TileGeometry, TileSelection};
///
/// let geometry = TileGeometry::new(TensorDtype::F32, &[7, 5], &[3, 2]).unwrap();
/// let rows = AxisSlice { start: 1, stop: 7, step: 2 };
/// let columns = AxisSlice { start: 1, stop: 4, step: 1 };
/// let selection = TileSelection::new(&geometry, &[rows, columns])?;
/// assert_eq!((selection.shape(), selection.tiles_touched()), (&[3, 3][..], 4));
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileSelection {
    geometry: TileGeometry,
    axes: [AxisSlice; MAX_RANK], // start < stop <= extent, step not 0; 0..1 past the rank
    shape: [u64; MAX_RANK],      // indices selected, none 0
}

impl AxisSlice {
    /// Selects the whole of an axis.
    pub const fn all(extent: u64) -> Self {
        Self { start: 0, stop: extent, step: 1 }
    }

    /// Returns the number of selected indices, of which there must be at least one.
    const fn len(self) -> u64 {
        ceil_div(self.stop.saturating_sub(self.start), self.step)
    }

    /// Returns selected index number `k`; there must be at least one.
    const fn nth(self, k: u64) -> u64 {
        self.start.saturating_add(k.saturating_mul(self.step))
    }

    fn check(self, extent: u64, axis: usize) -> Result<(), FormatError> {
        let refuse = |field, expected, found: u64| {
            let (class, part) = (Class::InvalidArgument, Part::TetSelection);
            Err(FormatError::new(class, part, field, num::to_u64(axis), expected, found))
        };
        if self.step == 0 {
            return refuse("step", Expected::AtLeast(1), 0);
        }
        if self.stop > extent {
            return refuse("stop", Expected::AtMost(extent.into()), self.stop);
        }
        if self.start >= self.stop {
            let max = i128::from(self.stop).saturating_sub(1);
            return refuse("start", Expected::AtMost(max), self.start);
        }
        Ok(())
    }
}

impl TileSelection {
    /// Selects a part of a dataset. Bounds are not clipped, and an empty selection is an error.
    ///
    /// # Errors
    ///
    /// When the number of axes differs from the dataset's, a step is 0, a stop is past the extent,
    /// or a start is not below its stop. The offset in the error is the number of the axis.
    pub fn new(geometry: &TileGeometry, axes: &[AxisSlice]) -> Result<Self, FormatError> {
        if axes.len() != geometry.rank() {
            let expected = Expected::Exactly(num::to_u64(geometry.rank()).into());
            let (class, part, found) =
                (Class::InvalidArgument, Part::TetSelection, Found::from(axes.len()));
            let error = FormatError::new(class, part, "axes", 0, expected, found);
            return Err(error.with_hint(Hint::WrongRank));
        }
        let mut new =
            Self { geometry: *geometry, axes: [AxisSlice::all(1); MAX_RANK], shape: [1; MAX_RANK] };
        let slots = new.axes.iter_mut().zip(&mut new.shape);
        for (i, ((slot, n), (axis, extent))) in
            slots.zip(axes.iter().zip(geometry.shape())).enumerate()
        {
            axis.check(*extent, i)?;
            (*slot, *n) = (*axis, axis.len());
        }
        Ok(new)
    }

    /// Selects the whole dataset.
    ///
    /// # Errors
    ///
    /// When the dataset has no elements.
    pub fn all(geometry: &TileGeometry) -> Result<Self, FormatError> {
        let mut whole = [AxisSlice::all(1); MAX_RANK];
        for (axis, extent) in whole.iter_mut().zip(geometry.shape()) {
            *axis = AxisSlice::all(*extent);
        }
        Self::new(geometry, axes(&whole, geometry.rank()))
    }

    /// Returns the geometry of the dataset.
    pub const fn geometry(&self) -> &TileGeometry {
        &self.geometry
    }

    /// Returns the selection along each axis.
    pub fn axes(&self) -> &[AxisSlice] {
        axes(&self.axes, self.geometry.rank())
    }

    /// Returns the shape of the result, which is row-major.
    pub fn shape(&self) -> &[u64] {
        axes(&self.shape, self.geometry.rank())
    }

    /// Returns the byte length of the result.
    pub fn byte_len(&self) -> u64 {
        // At most the byte length of the dataset.
        self.shape.iter().fold(self.geometry.element().size(), |n, axis| n.saturating_mul(*axis))
    }

    /// Returns the number of tiles with selected elements.
    pub fn tiles_touched(&self) -> u64 {
        self.touched_counts().iter().fold(1, |n, axis| n.saturating_mul(*axis)) // as many as tiles
    }

    /// Returns the number of touched chunks along each axis; 1 past the rank.
    pub(super) fn touched_counts(&self) -> [u64; MAX_RANK] {
        let mut counts = [1; MAX_RANK];
        let chunks = self.geometry.chunk_shape();
        for ((count, axis), (chunk, n)) in
            counts.iter_mut().zip(&self.axes).zip(chunks.iter().zip(&self.shape))
        {
            *count = if axis.step > *chunk {
                *n
            } else {
                let last = div(axis.nth(n.saturating_sub(1)), *chunk);
                last.saturating_sub(div(axis.start, *chunk)).saturating_add(1)
            };
        }
        counts
    }

    /// Returns the chunk coordinates of the touched chunk at these places.
    pub(super) fn touched_coords(&self, places: &[u64; MAX_RANK]) -> [u64; MAX_RANK] {
        let mut coords = [0; MAX_RANK];
        let chunks = self.geometry.chunk_shape();
        for ((c, axis), (chunk, i)) in
            coords.iter_mut().zip(&self.axes).zip(chunks.iter().zip(places))
        {
            *c = if axis.step > *chunk {
                div(axis.nth(*i), *chunk)
            } else {
                div(axis.start, *chunk).saturating_add(*i)
            };
        }
        coords
    }

    /// Returns the runs to copy from a tile; none if the selection does not touch it.
    ///
    /// ```
    /// use zvf_tet::{AxisSlice, TensorDtype, TileGeometry, TileSelection};
    ///
    /// let geometry = TileGeometry::new(TensorDtype::U8, &[4, 6], &[4, 4]).unwrap();
    /// let columns = AxisSlice { start: 2, stop: 6, step: 1 };
    /// let selection = TileSelection::new(&geometry, &[AxisSlice::all(4), columns])?;
    /// let first = geometry.tile(&[0, 0]).unwrap();
    /// let runs: Vec<_> = selection.runs(&first).map(|run| (run.src, run.dst, run.count)).collect();
    /// assert_eq!(runs, [(2, 0, 2), (6, 4, 2), (10, 8, 2), (14, 12, 2)]);
    /// # Ok::<(), zvf_format::FormatError>(())
    /// ```
    pub fn runs(&self, tile: &Tile) -> Runs {
        let mut pieces = [AxisPiece::ONE; MAX_RANK];
        for ((piece, axis), (lo, extent)) in
            pieces.iter_mut().zip(&self.axes).zip(tile.lo().iter().zip(tile.extents()))
        {
            *piece = axis.piece(*lo, lo.saturating_add(*extent));
        }
        Runs::new(self.geometry.element().size(), tile.extents(), &self.shape, &pieces)
    }
}

impl AxisSlice {
    /// Returns the part of this axis between `lo` and `hi`, the bounds of a tile.
    fn piece(self, lo: u64, hi: u64) -> AxisPiece {
        let places = |end: u64| ceil_div(end.saturating_sub(self.start), self.step);
        let (from, to) = (places(lo), places(hi.min(self.stop)));
        let n = to.saturating_sub(from);
        let step = if n == 1 { 1 } else { self.step };
        AxisPiece { src: self.nth(from).saturating_sub(lo), dst: from, n, step }
    }
}

/// Divides by a chunk extent, which is never 0.
const fn div(n: u64, chunk: u64) -> u64 {
    match n.checked_div(chunk) {
        Some(quotient) => quotient,
        None => 0,
    }
}

/// Divides by a step, which is never 0, and rounds up.
const fn ceil_div(n: u64, step: u64) -> u64 {
    match n.checked_sub(1) {
        Some(before) => div(before, step).saturating_add(1),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::TensorDtype;

    fn axis(start: u64, stop: u64, step: u64) -> AxisSlice {
        AxisSlice { start, stop, step }
    }

    #[test]
    fn each_check_has_its_message() {
        let geometry = TileGeometry::new(TensorDtype::F32, &[7, 5], &[3, 2]).unwrap();
        #[rustfmt::skip]
        let table: [(&[AxisSlice], &str); 6] = [
            (&[axis(0, 7, 1)], "axes at byte 0: expected 2, found 1"),
            (&[axis(0, 7, 1), axis(0, 5, 0)], "step at byte 1: expected at least 1, found 0"),
            (&[axis(0, 8, 1), axis(0, 5, 1)], "stop at byte 0: expected at most 7, found 8"),
            (&[axis(7, 7, 1), axis(0, 5, 1)], "start at byte 0: expected at most 6, found 7"),
            (&[axis(0, 7, 1), axis(3, 2, 1)], "start at byte 1: expected at most 1, found 3"),
            (&[axis(0, 7, 1), axis(0, 0, 1)], "start at byte 1: expected at most -1, found 0"),
        ];
        for (axes, message) in table {
            let error = TileSelection::new(&geometry, axes).unwrap_err();
            assert_eq!(
                error.to_string(),
                std::format!("InvalidArgument in tet selection, {message}")
            );
        }
        assert_eq!(TileSelection::new(&geometry, &[]).unwrap_err().hint(), Some(Hint::WrongRank));
        let empty = TileGeometry::new(TensorDtype::F32, &[0, 5], &[3, 2]).unwrap();
        assert!(TileSelection::all(&empty).is_err());
    }

    #[test]
    fn arithmetic_at_the_limits() {
        let geometry = TileGeometry::new(TensorDtype::U8, &[u64::MAX], &[u64::MAX - 1]).unwrap();
        let last_two = TileSelection::new(&geometry, &[axis(u64::MAX - 2, u64::MAX, 1)]).unwrap();
        assert_eq!((last_two.shape(), last_two.tiles_touched()), (&[2][..], 2));
        let long_step = TileSelection::new(&geometry, &[axis(1, u64::MAX, u64::MAX)]).unwrap();
        assert_eq!((long_step.shape(), long_step.tiles_touched()), (&[1][..], 1));
        assert_eq!(long_step.runs(&geometry.tile(&[0]).unwrap()).next().unwrap().src, 1);
        assert_eq!(long_step.runs(&geometry.tile(&[1]).unwrap()).count(), 0);
    }

    proptest! {
        /// Touched chunks are those of the selected indices, each once and in order.
        #[test]
        fn touched_chunks_equal_a_count(
            extent in 1_u64..60, chunk in 1_u64..70, step in 1_u64..70, ends: (u64, u64),
        ) {
            let geometry = TileGeometry::new(TensorDtype::U8, &[extent], &[chunk]).unwrap();
            let start = ends.0 % extent;
            let stop = start + 1 + ends.1 % (extent - start);
            let selection = TileSelection::new(&geometry, &[axis(start, stop, step)]).unwrap();
            let indices: Vec<_> = (start..stop).step_by(usize::try_from(step).unwrap()).collect();
            prop_assert_eq!(selection.shape(), &[u64::try_from(indices.len()).unwrap()][..]);
            let mut chunks: Vec<_> = indices.iter().map(|i| i / chunk).collect();
            chunks.dedup();
            let found = (0..selection.tiles_touched())
                .map(|i| selection.touched_coords(&[i, 0, 0, 0, 0, 0, 0, 0])[0])
                .collect::<Vec<_>>();
            prop_assert_eq!(found, chunks);
        }
    }
}
