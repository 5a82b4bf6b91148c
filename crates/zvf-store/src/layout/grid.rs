//! The grid of a dense array: which chunks contain a run of rows, and where each item goes.
//!
//! Shapes and rows come from the array's document and were compared with the limits before anything
//! here is allocated for them.

use std::borrow::Borrow;
use std::num::NonZeroU64;
use std::ops::Range;

use zvf_format::num::{saturating_usize, to_u64};

use crate::item_box::ItemBox;

/// A regular grid of chunks over an array of fixed-size items.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    pub(crate) shape: Box<[u64]>,
    pub(crate) chunk: Box<[NonZeroU64]>, // as many axes
    pub(crate) width: u64,               // bytes of an item
}

impl Grid {
    /// Returns the grid with chunks of extents `chunk`; `None` if an extent is zero or an axis has
    /// none.
    pub(crate) fn new(shape: Box<[u64]>, chunk: &[u64], width: u64) -> Option<Self> {
        let extents = chunk.iter().map(|&extent| NonZeroU64::new(extent));
        let chunk: Box<[NonZeroU64]> = extents.collect::<Option<_>>()?;
        (chunk.len() == shape.len()).then_some(Self { shape, chunk, width })
    }

    /// Returns the number of rows along the first axis; 1 for an array without axes.
    pub(crate) fn rows(&self) -> u64 {
        self.shape.first().copied().unwrap_or(1)
    }

    /// Returns the number of rows of one chunk.
    pub(crate) fn chunk_rows(&self) -> NonZeroU64 {
        self.chunk.first().copied().unwrap_or(NonZeroU64::MIN) // without axes, one row
    }

    /// Returns the number of bytes of one row, or `None` if it does not fit in 64 bits.
    pub(crate) fn row_bytes(&self) -> Option<u64> {
        count_bytes(self.shape.get(1..).unwrap_or_default(), self.width) // without axes, one item
    }

    /// Returns the number of bytes of one chunk, or `None` if it overflows 64 bits.
    pub(crate) fn chunk_bytes(&self) -> Option<u64> {
        self.chunk.iter().try_fold(self.width, |bytes, extent| bytes.checked_mul(extent.get()))
    }

    /// Returns whether every chunk contains only whole rows, so that rows are contiguous bytes.
    pub(crate) fn is_row_wise(&self) -> bool {
        let mut axes = self.chunk.iter().zip(&self.shape).skip(1);
        axes.all(|(chunk, extent)| chunk.get() == *extent)
    }

    /// Returns the chunks that contain `rows`, in C order; `None` if there are more than `max`.
    pub(crate) fn touched_chunks(&self, rows: &Range<u64>, max: u64) -> Option<Vec<Vec<u64>>> {
        let axes = self.shape.iter().zip(&self.chunk).enumerate();
        let spans = axes.map(|(axis, (&extent, &chunk))| {
            let items = if axis == 0 { rows.clone() } else { 0..extent };
            (items.start / chunk, items.end.div_ceil(chunk.get()))
        });
        let (start, stop) = spans.unzip();
        let touched = ItemBox { start, stop };
        (touched.items() <= max).then(|| touched.indexes().collect())
    }

    /// Returns the position of chunk `index` in the grid, in C order; `None` if it overflows 64
    /// bits.
    pub(crate) fn slot(&self, index: &[u64]) -> Option<u64> {
        let counts = self.shape.iter().zip(&self.chunk);
        linear_index(index, counts.map(|(extent, chunk)| extent.div_ceil(chunk.get())))
    }

    /// Returns the box of a chunk, which must have items in `rows`, and that of these rows.
    pub(crate) fn boxes(&self, index: &[u64], rows: &Range<u64>) -> [ItemBox; 2] {
        // The last chunk may reach beyond 2^64; what is beyond the rows does not count.
        let axes = index.iter().zip(&self.chunk);
        let start: Vec<u64> = axes.map(|(at, chunk)| at.saturating_mul(chunk.get())).collect();
        let ends = start.iter().zip(&self.chunk);
        let stop = ends.map(|(at, chunk)| at.saturating_add(chunk.get())).collect();
        let mut all = ItemBox::whole(&self.shape);
        for (ends, row) in [(&mut all.start, rows.start), (&mut all.stop, rows.end)] {
            if let Some(first) = ends.first_mut() {
                *first = row;
            }
        }
        [ItemBox { start, stop }, all]
    }
}

/// Returns the position of an item in C order, if 64 bits can count it.
pub(super) fn linear_index(
    index: &[u64],
    extents: impl IntoIterator<Item = impl Borrow<u64>>,
) -> Option<u64> {
    let mut axes = index.iter().zip(extents);
    axes.try_fold(0_u64, |at, (index, extent)| {
        at.checked_mul(*extent.borrow())?.checked_add(*index)
    })
}

/// Returns the number of bytes of an array of `shape`, or `None` if it overflows 64 bits.
pub(crate) fn count_bytes(shape: &[u64], width: u64) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(width, |bytes, &extent| bytes.checked_mul(extent))
}

/// Returns a buffer of `len` bytes filled with repeated `item`.
pub(crate) fn fill_buffer(len: u64, item: &[u8]) -> Vec<u8> {
    let is_zero = item.iter().all(|&byte| byte == 0);
    match len.checked_div(to_u64(item.len())) {
        Some(count) if !is_zero => item.repeat(saturating_usize(count)),
        _ => vec![0; saturating_usize(len)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item_box::paste_items;

    fn grid(shape: &[u64], chunk: &[u64]) -> Grid {
        Grid::new(shape.into(), chunk, 1).unwrap()
    }

    #[test]
    fn rows_touch_chunks() {
        type Row<'a> = (&'a [u64], &'a [u64], Range<u64>, Option<&'a [&'a [u64]]>);
        #[rustfmt::skip]
        let table: [Row<'_>; 7] = [
            (&[10], &[4], 3..5, Some(&[&[0], &[1]])),
            (&[10], &[4], 4..4, Some(&[])),
            (&[10], &[4], 8..10, Some(&[&[2]])),
            (&[3, 5], &[2, 3], 2..3, Some(&[&[1, 0], &[1, 1]])),
            (&[], &[], 0..1, Some(&[&[]])),
            (&[1 << 40, 1 << 40], &[1, 1], 0..1 << 40, None),
            (&[9, 0], &[3, 3], 0..9, Some(&[])),
        ];
        for (shape, chunk, rows, chunks) in table {
            let found = grid(shape, chunk).touched_chunks(&rows, 1000);
            let chunks = chunks.map(|chunks| chunks.iter().map(|c| c.to_vec()).collect::<Vec<_>>());
            assert_eq!(found, chunks, "{shape:?} {rows:?}");
        }
        assert_eq!(grid(&[3, 5], &[2, 3]).slot(&[1, 1]), Some(3));
        assert_eq!(grid(&[u64::MAX, 5], &[1, 1]).slot(&[u64::MAX, 1]), None);
    }

    #[test]
    fn chunks_paste_into_rows() {
        // Every item is its position in the array; chunks are cut by hand, with x beyond the edge.
        let grid = grid(&[3, 5], &[2, 3]);
        let chunks: [(&[u64], &[u8]); 4] = [
            (&[0, 0], b"abcfgh"),
            (&[0, 1], b"dexijx"),
            (&[1, 0], b"klmxxx"),
            (&[1, 1], b"noxxxx"),
        ];
        for (rows, expected) in
            [(0..3, &b"abcdefghijklmno"[..]), (1..3, b"fghijklmno"), (2..3, b"klmno")]
        {
            let mut to = vec![b'?'; expected.len()];
            for (index, bytes) in chunks {
                if grid.touched_chunks(&rows, 9).unwrap().contains(&index.to_vec()) {
                    let [from, into] = grid.boxes(index, &rows);
                    paste_items(1, (bytes, &from), (&mut to, &into));
                }
            }
            assert_eq!(to, expected, "{rows:?}");
        }
        let mut item = [0];
        let scalar = Grid::new([].into(), &[], 1).unwrap();
        let [from, into] = scalar.boxes(&[], &(0..1));
        paste_items(1, (b"a", &from), (&mut item, &into));
        assert_eq!(item, *b"a");
    }

    #[test]
    fn buffers_repeat_their_item() {
        assert_eq!(fill_buffer(4, b"ab"), b"abab");
        assert_eq!(fill_buffer(3, b"\0"), [0; 3]);
        assert_eq!(count_bytes(&[1 << 40, 0, 1 << 40], 8), Some(0));
        assert_eq!(count_bytes(&[1 << 40, 1 << 40], 8), None);
    }
}
