//! Reads without a copy from a mapped file: three kinds of span, and the conditions for a typed
//! view.
//!
//! * *Byte stream*: the payloads of all touched tiles are contiguous, raw, and hold exactly the
//!   selected elements, in the order of the tiles. It suits sums and extremes, but nothing that has
//!   a shape.
//! * *Dense*: a byte stream that is also row-major, so that the span is the array.
//! * *Strided*: the selection lies in one raw tile, and is read there with the strides of that
//!   tile.
//!
//! Each is computed from a [`TilePlan`] and gives positions in the file; the caller has the map.

use super::geometry::axes;
use super::{MAX_RANK, Span, TensorDtype, TilePlan, TileSelection};

/// A selection inside one raw tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StridedView {
    offset: u64,
    selection: TileSelection,
    strides: [u64; MAX_RANK],
}

impl TilePlan<'_, '_> {
    /// Returns the span that holds exactly the selected elements, tile by tile.
    ///
    /// The elements are in the order of the tiles: use it for results that do not depend on the
    /// order.
    pub fn byte_stream(&self) -> Option<Span> {
        let mut span: Option<Span> = None;
        for touched in self.tiles() {
            let touched = touched.ok().filter(super::TouchedTile::is_raw)?;
            let Span { offset, len } =
                span.unwrap_or(Span { offset: touched.row().payload_offset(), len: 0 });
            if touched.row().payload_offset() != offset.checked_add(len)? {
                return None;
            }
            span = Some(Span { offset, len: len.checked_add(touched.row().raw_byte_len())? });
        }
        // The lengths are equal only if every touched tile is selected completely.
        span.filter(|span| span.len == self.selection().byte_len())
    }

    /// Returns the span that holds exactly the selection, row-major.
    pub fn dense_span(&self) -> Option<Span> {
        let selection = self.selection();
        let in_order =
            selection.axes().iter().all(|axis| axis.step == 1) && is_row_major(selection);
        if in_order { self.byte_stream() } else { None }
    }

    /// Returns the selection inside one raw tile.
    pub fn strided_view(&self) -> Option<StridedView> {
        if self.selection().tiles_touched() != 1 {
            return None;
        }
        let touched = self.tiles().next()?.ok()?;
        if !touched.is_raw() {
            return None;
        }
        let run = touched.runs().next()?;
        let mut strides = [0; MAX_RANK];
        let mut bytes = self.selection().geometry().element().size();
        let tile = touched.tile().extents().iter().zip(self.selection().axes());
        for (stride, (extent, axis)) in strides.iter_mut().zip(tile).rev() {
            *stride = bytes.saturating_mul(axis.step); // too large only where there is one index
            bytes = bytes.saturating_mul(*extent); // at most the tile
        }
        let offset = touched.row().payload_offset().checked_add(run.src)?;
        Some(StridedView { offset, selection: *self.selection(), strides })
    }
}

impl StridedView {
    /// Returns the offset of the first element.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the extents.
    pub fn shape(&self) -> &[u64] {
        self.selection.shape()
    }

    /// Returns the bytes from one index to the next, along each axis; undefined for an axis with
    /// one index.
    pub fn strides(&self) -> &[u64] {
        axes(&self.strides, self.shape().len())
    }

    /// Returns the span, if the elements are contiguous.
    pub fn as_dense(&self) -> Option<Span> {
        let mut bytes = self.selection.geometry().element().size();
        for (n, stride) in self.shape().iter().zip(self.strides()).rev() {
            if *n > 1 && *stride != bytes {
                return None;
            }
            bytes = bytes.saturating_mul(*n); // at most the dataset
        }
        Some(Span { offset: self.offset, len: bytes })
    }
}

/// Returns whether elements at this offset of a map can be viewed as numbers in place: maps start
/// on a page, so the offset must be aligned for the element, and the machine must be little-endian.
///
/// ```
/// use zvf_tet::{TensorDtype, is_viewable};
///
/// assert_eq!(is_viewable(2016, TensorDtype::F32), cfg!(target_endian = "little"));
/// assert!(!is_viewable(2019, TensorDtype::F32));
/// assert!(is_viewable(2019, TensorDtype::U8));
/// ```
pub fn is_viewable(offset: u64, element: TensorDtype) -> bool {
    let fits = offset.checked_rem(element.size()) == Some(0);
    fits && (element == TensorDtype::U8 || cfg!(target_endian = "little"))
}

/// Returns whether consecutive tiles are row-major: from some axis on there is one tile only, and
/// before the axis ahead of that, tiles have an extent of 1.
fn is_row_major(selection: &TileSelection) -> bool {
    let touched = selection.touched_counts();
    let thin = selection.geometry().chunk_shape().iter().zip(selection.shape()).zip(&touched);
    let thin =
        thin.take_while(|((chunk, n), touched)| **chunk == 1 || (**n == 1 && **touched == 1));
    let partial = thin.count();
    touched.iter().skip(partial.saturating_add(1)).all(|touched| *touched == 1)
}

#[cfg(test)]
mod tests;
