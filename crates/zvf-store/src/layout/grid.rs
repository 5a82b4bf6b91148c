//! The grid of a dense array: which chunks contain a run of rows, and where each item goes.
//!
//! Shapes and rows come from the array's document and were compared with the limits before anything
//! here is allocated for them.

use std::borrow::Borrow;
use std::num::NonZeroU64;
use std::ops::Range;

use zvf_format::num::{checked_usize, saturating_usize, to_u64};

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
        let mut spans = Vec::with_capacity(self.shape.len());
        for (axis, (&extent, &chunk)) in self.shape.iter().zip(&self.chunk).enumerate() {
            let items = if axis == 0 { rows.clone() } else { 0..extent };
            spans.push(items.start / chunk..items.end.div_ceil(chunk.get()));
        }
        let count = spans.iter().try_fold(1_u64, |count, span: &Range<u64>| {
            count.checked_mul(span.end.checked_sub(span.start)?)
        })?;
        if count > max {
            return None;
        }
        let mut all = vec![Vec::new()];
        for span in spans {
            let longer = all.iter().flat_map(|index: &Vec<u64>| {
                span.clone().map(move |last| [index.as_slice(), &[last]].concat())
            });
            all = longer.collect();
        }
        Some(all)
    }

    /// Returns the position of chunk `index` in the grid, in C order; `None` if it overflows 64
    /// bits.
    pub(crate) fn slot(&self, index: &[u64]) -> Option<u64> {
        let counts = self.shape.iter().zip(&self.chunk);
        linear_index(index, counts.map(|(extent, chunk)| extent.div_ceil(chunk.get())))
    }

    /// Copies the items of `rows` from `bytes`, which is all of chunk `index`, to their positions
    /// in `to`, which holds all of `rows`. Returns `None` if either is shorter than its shape
    /// requires, or `rows` does not intersect the chunk.
    pub(crate) fn paste(
        &self,
        bytes: &[u8],
        index: &[u64],
        rows: &Range<u64>,
        to: &mut [u8],
    ) -> Option<()> {
        let extents = self.shape.iter().zip(index.iter().zip(&self.chunk)).enumerate();
        let axes: Vec<AxisOverlap> = extents
            .map(|(axis, (&extent, (&index, &chunk)))| {
                let target = if axis == 0 { rows.clone() } else { 0..extent };
                AxisOverlap::new(index.checked_mul(chunk.get())?, chunk.get(), &target)
            })
            .collect::<Option<_>>()?;
        let (outer, run) = match axes.split_last() {
            Some((last, outer)) => (outer, last.clone()),
            None => {
                (axes.as_slice(), AxisOverlap { from: 0, to: 0, count: 1, chunk: 1, target: 1 })
            }
        };
        let width = saturating_usize(self.width); // what does not fit is in neither buffer
        let len = run.count.checked_mul(width)?;
        let mut at = vec![0_usize; outer.len()];
        loop {
            let (mut from, mut into) = (0_usize, 0_usize);
            for (axis, &at) in outer.iter().zip(&at) {
                from = from.checked_mul(axis.chunk)?.checked_add(axis.from)?.checked_add(at)?;
                into = into.checked_mul(axis.target)?.checked_add(axis.to)?.checked_add(at)?;
            }
            let from = from.checked_mul(run.chunk)?.checked_add(run.from)?.checked_mul(width)?;
            let into = into.checked_mul(run.target)?.checked_add(run.to)?.checked_mul(width)?;
            to.get_mut(into..)?.get_mut(..len)?.copy_from_slice(bytes.get(from..)?.get(..len)?);
            if !advance(&mut at, outer) {
                return Some(());
            }
        }
    }
}

/// The overlap of a chunk and a target along one axis.
#[derive(Clone, Debug)]
struct AxisOverlap {
    from: usize,   // first common item, counted in the chunk
    to: usize,     // the same, counted in the target
    count: usize,  // common items
    chunk: usize,  // items of the chunk
    target: usize, // items of the target
}

impl AxisOverlap {
    /// Returns the overlap of `chunk` items from `start` on with `target`; `None` if it is empty or
    /// does not fit in memory.
    fn new(start: u64, chunk: u64, target: &Range<u64>) -> Option<Self> {
        let low = start.max(target.start);
        // The last chunk may reach beyond 2^64; anything beyond the target does not count.
        let high = start.saturating_add(chunk).min(target.end);
        Some(Self {
            from: checked_usize(low.checked_sub(start)?)?,
            to: checked_usize(low.checked_sub(target.start)?)?,
            count: checked_usize(high.checked_sub(low)?).filter(|count| *count > 0)?,
            chunk: checked_usize(chunk)?,
            target: checked_usize(target.end.checked_sub(target.start)?)?,
        })
    }
}

/// Moves to the next position along the axes, last one fastest; returns false after the last.
fn advance(at: &mut [usize], axes: &[AxisOverlap]) -> bool {
    for (at, axis) in at.iter_mut().zip(axes).rev() {
        *at = at.saturating_add(1); // at most the count
        if *at < axis.count {
            return true;
        }
        *at = 0;
    }
    false
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
                    grid.paste(bytes, index, &rows, &mut to).unwrap();
                }
            }
            assert_eq!(to, expected, "{rows:?}");
        }
        let mut item = [0];
        let scalar = Grid::new([].into(), &[], 1).unwrap();
        scalar.paste(b"a", &[], &(0..1), &mut item).unwrap();
        assert_eq!(item, *b"a");
        // A chunk that is too short, and one that the rows do not intersect.
        assert_eq!(grid.paste(b"abcfg", &[0, 0], &(0..3), &mut [0; 15]), None);
        assert_eq!(grid.paste(b"abcfgh", &[0, 0], &(2..3), &mut [0; 5]), None);
    }

    #[test]
    fn buffers_repeat_their_item() {
        assert_eq!(fill_buffer(4, b"ab"), b"abab");
        assert_eq!(fill_buffer(3, b"\0"), [0; 3]);
        assert_eq!(count_bytes(&[1 << 40, 0, 1 << 40], 8), Some(0));
        assert_eq!(count_bytes(&[1 << 40, 1 << 40], 8), None);
    }
}
