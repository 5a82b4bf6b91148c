//! Pieces of a dense array: which chunks hold a run of rows, and where each item goes.
//!
//! Shapes and rows come from the array's document and were compared with the caps before anything here
//! is sized by them: no extent of a chunk is zero, a chunk has as many bytes as its shape says, and so have the rows
//! that it is pasted into. Arithmetic here relies on that.

use std::ops::Range;

use zvf_format::num::{saturating_usize, to_u64};

/// A regular grid of chunks over an array of items of one size.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    pub(crate) shape: Box<[u64]>,
    pub(crate) chunk: Box<[u64]>, // as many axes; none is zero
    pub(crate) width: u64,        // bytes of an item
}

impl Grid {
    /// Rows along the first axis; an array without axes has one.
    pub(crate) fn rows(&self) -> u64 {
        self.shape.first().copied().unwrap_or(1)
    }

    /// Rows of one chunk.
    pub(crate) fn chunk_rows(&self) -> u64 {
        self.chunk.first().copied().unwrap_or(1)
    }

    /// Bytes of one row, or `None` where 64 bits do not count them.
    pub(crate) fn row_bytes(&self) -> Option<u64> {
        bytes_of(self.shape.get(1..).unwrap_or_default(), self.width)
    }

    /// Bytes of one chunk, or `None` where 64 bits do not count them.
    pub(crate) fn chunk_bytes(&self) -> Option<u64> {
        bytes_of(&self.chunk, self.width)
    }

    /// Whether every chunk holds whole rows and nothing beside them, so that rows are runs of bytes.
    pub(crate) fn is_row_wise(&self) -> bool {
        self.chunk.get(1..) == self.shape.get(1..)
    }

    /// The chunks that hold `rows`, in C order; `None` when there are more than `most`.
    pub(crate) fn touched(&self, rows: &Range<u64>, most: u64) -> Option<Vec<Vec<u64>>> {
        let mut spans = Vec::with_capacity(self.shape.len());
        for (axis, (&extent, &chunk)) in self.shape.iter().zip(&self.chunk).enumerate() {
            let items = if axis == 0 { rows.clone() } else { 0..extent };
            spans.push(items.start / chunk..items.end.div_ceil(chunk));
        }
        let count =
            spans.iter().try_fold(1_u64, |count, span| count.checked_mul(span.end - span.start))?;
        if count > most {
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

    /// The place of chunk `index` in the grid, in C order; `None` where 64 bits do not hold it.
    pub(crate) fn slot(&self, index: &[u64]) -> Option<u64> {
        index.iter().zip(self.shape.iter().zip(&self.chunk)).try_fold(
            0_u64,
            |slot, (&index, (&extent, &chunk))| {
                slot.checked_mul(extent.div_ceil(chunk))?.checked_add(index)
            },
        )
    }

    /// Copies what `bytes`, all of chunk `index`, holds of `rows` to its place in `to`, which is all of
    /// `rows`. The chunk is one that `rows` touch.
    pub(crate) fn paste(&self, bytes: &[u8], index: &[u64], rows: &Range<u64>, to: &mut [u8]) {
        let extents = self.shape.iter().zip(index.iter().zip(&self.chunk)).enumerate();
        let axes: Vec<AxisOverlap> = extents
            .map(|(axis, (&extent, (&index, &chunk)))| {
                let target = if axis == 0 { rows.clone() } else { 0..extent };
                AxisOverlap::new(index * chunk, chunk, &target)
            })
            .collect();
        let (outer, run) = match axes.split_last() {
            Some((last, outer)) => (outer, last.clone()),
            None => {
                (axes.as_slice(), AxisOverlap { from: 0, to: 0, count: 1, chunk: 1, target: 1 })
            }
        };
        let width = saturating_usize(self.width);
        let len = run.count * width;
        let mut at = vec![0_usize; outer.len()];
        loop {
            let (mut from, mut into) = (0_usize, 0_usize);
            for (axis, &at) in outer.iter().zip(&at) {
                from = from * axis.chunk + axis.from + at;
                into = into * axis.target + axis.to + at;
            }
            let from = (from * run.chunk + run.from) * width;
            let into = (into * run.target + run.to) * width;
            to[into..into + len].copy_from_slice(&bytes[from..from + len]);
            if !advance(&mut at, outer) {
                return;
            }
        }
    }
}

/// What a chunk and a target have in common along one axis.
#[derive(Clone, Debug)]
struct AxisOverlap {
    from: usize,   // first common item, counted in the chunk
    to: usize,     // the same, counted in the target
    count: usize,  // common items
    chunk: usize,  // items of the chunk
    target: usize, // items of the target
}

impl AxisOverlap {
    /// What `chunk` items from `start` on and `target` have in common, which is something.
    fn new(start: u64, chunk: u64, target: &Range<u64>) -> Self {
        let low = start.max(target.start);
        // The last chunk may reach beyond 2^64; what is beyond the target does not count anyway.
        let high = start.saturating_add(chunk).min(target.end);
        Self {
            from: saturating_usize(low - start),
            to: saturating_usize(low - target.start),
            count: saturating_usize(high - low),
            chunk: saturating_usize(chunk),
            target: saturating_usize(target.end - target.start),
        }
    }
}

/// The next position along the axes, last one fastest; false after the last.
fn advance(at: &mut [usize], axes: &[AxisOverlap]) -> bool {
    for (at, axis) in at.iter_mut().zip(axes).rev() {
        *at += 1;
        if *at < axis.count {
            return true;
        }
        *at = 0;
    }
    false
}

/// Bytes of an array of `shape`, or `None` where 64 bits do not count them.
pub(crate) fn bytes_of(shape: &[u64], width: u64) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(width, |bytes, &extent| bytes.checked_mul(extent))
}

/// A buffer of `len` bytes that repeats `item`, whole.
pub(crate) fn filled(len: u64, item: &[u8]) -> Vec<u8> {
    if item.iter().all(|&byte| byte == 0) {
        return vec![0; saturating_usize(len)];
    }
    item.repeat(saturating_usize(len / to_u64(item.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(shape: &[u64], chunk: &[u64]) -> Grid {
        Grid { shape: shape.into(), chunk: chunk.into(), width: 1 }
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
            let touched = grid(shape, chunk).touched(&rows, 1000);
            let chunks = chunks.map(|chunks| chunks.iter().map(|c| c.to_vec()).collect::<Vec<_>>());
            assert_eq!(touched, chunks, "{shape:?} {rows:?}");
        }
        assert_eq!(grid(&[3, 5], &[2, 3]).slot(&[1, 1]), Some(3));
        assert_eq!(grid(&[u64::MAX, 5], &[1, 1]).slot(&[u64::MAX, 1]), None);
    }

    #[test]
    fn chunks_paste_into_rows() {
        // Every item is its place in the array; chunks are cut by hand, with x beyond the edge.
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
                if grid.touched(&rows, 9).unwrap().contains(&index.to_vec()) {
                    grid.paste(bytes, index, &rows, &mut to);
                }
            }
            assert_eq!(to, expected, "{rows:?}");
        }
        let mut one = [0];
        Grid { shape: [].into(), chunk: [].into(), width: 1 }.paste(b"a", &[], &(0..1), &mut one);
        assert_eq!(one, *b"a");
    }

    #[test]
    fn buffers_repeat_their_item() {
        assert_eq!(filled(4, b"ab"), b"abab");
        assert_eq!(filled(3, b"\0"), [0; 3]);
        assert_eq!(bytes_of(&[1 << 40, 0, 1 << 40], 8), Some(0));
        assert_eq!(bytes_of(&[1 << 40, 1 << 40], 8), None);
    }
}
