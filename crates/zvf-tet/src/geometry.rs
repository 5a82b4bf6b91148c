//! Grid and tiles of one dataset.
//!
//! ```text
//! count[d] = ceil(shape[d] / chunk_shape[d])
//! lo = c * chunk_shape     hi = min(lo + chunk_shape, shape)     tile = hi - lo per axis
//! ```
//!
//! Tiles at the far edges are clipped, not padded, and row-major over the clipped extents. Products
//! are checked once, when a geometry is created; after that nothing here can overflow.
//!
//! Not here: the mapping from index rows to tiles ([`Lookup`](super::Lookup)).

use super::{MAX_RANK, TensorDtype};
use zvf_format::num::count_items;

/// Shape, chunk shape and element type of a dataset, with its grid.
///
/// ```
/// use zvf_tet::{TensorDtype, TileGeometry};
///
/// let geometry = TileGeometry::new(TensorDtype::F32, &[7, 5], &[3, 2]).unwrap();
/// assert_eq!(geometry.counts(), [3, 3]);
/// let corner = geometry.tile(&[2, 2]).unwrap();
/// assert_eq!((corner.lo(), corner.extents(), corner.byte_len()), (&[6, 4][..], &[1, 1][..], 4));
/// assert!(geometry.tile(&[3, 0]).is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileGeometry {
    element: TensorDtype,
    rank: usize,                  // 1 to MAX_RANK
    shape: [u64; MAX_RANK],       // 1 past the rank; product and element size fit in u64
    chunk_shape: [u64; MAX_RANK], // none 0; 1 past the rank
    counts: [u64; MAX_RANK],      // 1 past the rank
}

/// The part of a dataset that one chunk holds.
///
/// ```
/// use zvf_tet::{TensorDtype, TileGeometry};
///
/// // A chunk larger than the dataset holds all of it.
/// let geometry = TileGeometry::new(TensorDtype::I32, &[3, 2], &[8, u64::MAX]).unwrap();
/// assert_eq!(geometry.tile(&[0, 0]).unwrap().extents(), [3, 2]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    rank: usize,
    coords: [u64; MAX_RANK],
    lo: [u64; MAX_RANK],
    extents: [u64; MAX_RANK], // none 0
    byte_len: u64,
}

impl TileGeometry {
    /// Returns the grid of a dataset, or `None` when the ranks differ or are not 1 to 8, a chunk
    /// extent is 0, or the byte length does not fit in 64 bits.
    pub fn new(element: TensorDtype, shape: &[u64], chunk_shape: &[u64]) -> Option<Self> {
        Self::from_extents(element, shape.iter().copied(), chunk_shape.iter().copied())
    }

    pub(super) fn from_extents(
        element: TensorDtype,
        shape: impl ExactSizeIterator<Item = u64>,
        chunk_shape: impl ExactSizeIterator<Item = u64>,
    ) -> Option<Self> {
        let rank = shape.len();
        if rank == 0 || rank > MAX_RANK || chunk_shape.len() != rank {
            return None;
        }
        let (shape, chunk_shape) = (padded(1, shape), padded(1, chunk_shape));
        let mut new = Self { element, rank, shape, chunk_shape, counts: [1; MAX_RANK] };
        for (count, (shape, chunk)) in
            new.counts.iter_mut().zip(new.shape.iter().zip(&new.chunk_shape))
        {
            *count = shape.checked_sub(1).map_or(Some(0), |last| last.checked_div(*chunk))?;
            *count = count.saturating_add(u64::from(*shape > 0)); // at most the extent
        }
        if new.chunk_shape.contains(&0) {
            return None; // also when the extent is 0 and nothing was divided
        }
        count_items(&new.shape)?.checked_mul(element.size())?;
        Some(new)
    }

    /// Returns the element type.
    pub const fn element(&self) -> TensorDtype {
        self.element
    }

    /// Returns the number of axes.
    pub const fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the extents.
    pub fn shape(&self) -> &[u64] {
        axes(&self.shape, self.rank)
    }

    /// Returns the extents of one chunk.
    pub fn chunk_shape(&self) -> &[u64] {
        axes(&self.chunk_shape, self.rank)
    }

    /// Returns the number of tiles along each axis.
    pub fn counts(&self) -> &[u64] {
        axes(&self.counts, self.rank)
    }

    /// Returns the number of elements; a `u64`, because they need not fit in memory.
    pub fn len(&self) -> u64 {
        count_items(&self.shape).unwrap_or(0) // checked when made
    }

    /// Returns whether an extent is 0.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Returns the byte length of all elements.
    pub fn byte_len(&self) -> u64 {
        self.len().saturating_mul(self.element.size()) // checked when made
    }

    /// Returns the number of tiles, which is the number of rows of a complete dataset.
    pub fn tile_count(&self) -> u64 {
        count_items(&self.counts).unwrap_or(0) // no count exceeds its extent
    }

    /// Returns the tile at these grid coordinates, or `None` outside the grid.
    pub fn tile(&self, coords: &[u64]) -> Option<Tile> {
        let all = padded(0, coords.iter().copied());
        if coords.len() == self.rank { self.tile_at(all) } else { None }
    }

    /// Returns the tile at a position in grid order, last axis fastest, or `None` past the last.
    pub fn nth_tile(&self, position: u64) -> Option<Tile> {
        self.tile_at(self.coords_at(position)?)
    }

    /// Returns the tile like [`tile`](Self::tile), from an array that is 0 past the rank.
    pub(super) fn tile_at(&self, coords: [u64; MAX_RANK]) -> Option<Tile> {
        let (mut lo, mut extents) = ([0; MAX_RANK], [1; MAX_RANK]);
        let axes = self.shape.iter().zip(&self.chunk_shape).zip(coords.iter().zip(&self.counts));
        let mut byte_len = self.element.size();
        for ((lo, extent), ((shape, chunk), (c, count))) in
            lo.iter_mut().zip(&mut extents).zip(axes)
        {
            if c >= count {
                return None;
            }
            *lo = c.checked_mul(*chunk)?; // below the extent, since c is below the count
            *extent = shape.checked_sub(*lo)?.min(*chunk);
            byte_len = byte_len.checked_mul(*extent)?; // at most the dataset
        }
        Some(Tile { rank: self.rank, coords, lo, extents, byte_len })
    }

    /// Returns the position of a tile in grid order, last axis fastest, or `None` outside the grid.
    pub fn position(&self, coords: &[u64]) -> Option<u64> {
        if coords.len() != self.rank {
            return None;
        }
        let mut position = 0_u64;
        for (c, count) in coords.iter().zip(&self.counts) {
            if c >= count {
                return None;
            }
            position = position.checked_mul(*count)?.checked_add(*c)?;
        }
        Some(position)
    }

    /// Returns the coordinates of the tile at a position in grid order; they are 0 past the rank.
    pub(super) fn coords_at(&self, position: u64) -> Option<[u64; MAX_RANK]> {
        let (mut coords, mut rest) = ([0; MAX_RANK], position);
        for (c, count) in coords.iter_mut().zip(&self.counts).rev() {
            *c = rest.checked_rem(*count)?;
            rest = rest.checked_div(*count)?;
        }
        (rest == 0).then_some(coords)
    }
}

impl Tile {
    /// Returns the grid coordinates.
    pub fn coords(&self) -> &[u64] {
        axes(&self.coords, self.rank)
    }

    /// Returns the position of the first element in the dataset.
    pub fn lo(&self) -> &[u64] {
        axes(&self.lo, self.rank)
    }

    /// Returns the extents, clipped at the far edges.
    pub fn extents(&self) -> &[u64] {
        axes(&self.extents, self.rank)
    }

    /// Returns the byte length of the elements: the `raw_byte_len` of the tile's row.
    pub const fn byte_len(&self) -> u64 {
        self.byte_len
    }
}

/// Returns the values of the axes there are, and `other` for the rest.
fn padded(other: u64, values: impl Iterator<Item = u64>) -> [u64; MAX_RANK] {
    let mut all = [other; MAX_RANK];
    for (to, from) in all.iter_mut().zip(values) {
        *to = from;
    }
    all
}

/// Returns the first `rank` items of an array.
pub(super) fn axes<T>(all: &[T; MAX_RANK], rank: usize) -> &[T] {
    all.get(..rank).unwrap_or(all)
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn impossible_geometries_are_refused() {
        let extent = 1 << 40;
        #[rustfmt::skip]
        let table: [(&[u64], &[u64], Option<u64>); 13] = [
            // shape, chunk shape, tiles
            (&[5], &[5], Some(1)),
            (&[7, 5], &[3, 2], Some(9)),
            (&[3, 2], &[8, 8], Some(1)),
            (&[5], &[u64::MAX], Some(1)),
            (&[0], &[4], Some(0)),
            (&[u64::MAX, u64::MAX, 0], &[1, 1, 1], Some(0)),
            (&[1 << 61], &[1], Some(1 << 61)),
            (&[1 << 62], &[1], None), // 4 bytes each
            (&[extent, extent], &[extent, extent], None),
            (&[5], &[0], None),
            (&[0], &[0], None),
            (&[5], &[5, 5], None),
            (&[1; 9], &[1; 9], None),
        ];
        for (shape, chunk, tiles) in table {
            let geometry = TileGeometry::new(TensorDtype::F32, shape, chunk);
            assert_eq!(geometry.map(|g| g.tile_count()), tiles, "{shape:?} {chunk:?}");
        }
        assert_eq!(TileGeometry::new(TensorDtype::F32, &[], &[]), None);
    }

    #[test]
    fn tiles_of_the_worked_example() {
        let geometry = TileGeometry::new(TensorDtype::F32, &[7, 5], &[3, 2]).unwrap();
        for (coords, lo, extents, bytes) in [
            ([0, 0], [0, 0], [3, 2], 24),
            ([0, 2], [0, 4], [3, 1], 12),
            ([1, 1], [3, 2], [3, 2], 24),
            ([2, 0], [6, 0], [1, 2], 8),
            ([2, 2], [6, 4], [1, 1], 4),
        ] {
            let tile = geometry.tile(&coords).unwrap();
            assert_eq!((tile.coords(), tile.lo()), (&coords[..], &lo[..]));
            assert_eq!((tile.extents(), tile.byte_len()), (&extents[..], bytes));
        }
        for outside in [&[3, 0][..], &[0, 3], &[u64::MAX, 0], &[0], &[0, 0, 0]] {
            assert_eq!(geometry.tile(outside), None);
            assert_eq!(geometry.position(outside), None);
        }
        assert_eq!((geometry.len(), geometry.byte_len(), geometry.is_empty()), (35, 140, false));
    }

    proptest! {
        /// Tiles cover each element once, and positions count them in grid order.
        #[test]
        fn tiles_partition(extents in prop::collection::vec((0_u64..9, 1_u64..5), 1..4)) {
            let (shape, chunk): (Vec<u64>, Vec<u64>) = extents.into_iter().unzip();
            let geometry = TileGeometry::new(TensorDtype::U8, &shape, &chunk).unwrap();
            let mut covered = 0;
            for position in 0..geometry.tile_count() {
                let coords = geometry.coords_at(position).unwrap();
                let coords = axes(&coords, shape.len());
                prop_assert_eq!(geometry.position(coords), Some(position));
                let tile = geometry.tile(coords).unwrap();
                covered += tile.byte_len();
                for ((lo, extent), shape) in tile.lo().iter().zip(tile.extents()).zip(&shape) {
                    prop_assert!(*extent > 0 && lo + extent <= *shape);
                }
            }
            prop_assert_eq!(covered, geometry.byte_len());
            prop_assert!(geometry.coords_at(geometry.tile_count()).is_none());
        }
    }
}
