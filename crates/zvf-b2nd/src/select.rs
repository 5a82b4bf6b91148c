//! The parts that a slice touches: chunks, their blocks, and the runs of items in the blocks.
//!
//! A selection is a box that includes its lower corner and excludes its upper one. Everything is
//! computed lazily from the geometry, so planning a slice of a huge array costs as much as the part
//! of the plan that is used.
//!
//! An item at position p is in chunk p / c, there at l = p mod c, in block l / b, there at l mod b.
//! Positions from the chunk extent on are padding: they are clipped and do not belong to the next
//! chunk.
//!
//! Not here: steps other than 1 and lists of indices, for which the caller selects the surrounding
//! boxes.
//!
//! Nothing overflows here: all positions are inside the array or the result, and
//! [`BlockGeometry::select`] refuses a result whose length does not fit in 64 bits. Differences
//! saturate to 0 where a part begins before the box, or the box before the part.

use core::ops::Range;

use super::axes::{Axes, Coordinates, MAX_AXES, count};
use super::geometry::BlockGeometry;
use zvf_format::{Class, Expected, FormatError, Part};

/// A box of an array to be read.
///
/// ```
/// use zvf_b2nd::{BlockGeometry, Partition};
///
/// let geometry = BlockGeometry::new(Partition::new(&[7, 5], &[4, 3], &[2, 2])?, 4)?;
/// let row = geometry.select(&[4, 0], &[5, 5])?;
/// assert_eq!((row.chunks_touched(), row.blocks_touched(), row.bytes()), (2, 3, 20));
///
/// let chunk = row.chunks().last().unwrap();
/// let block = chunk.blocks().next().unwrap();
/// let run = block.runs().next().unwrap();
/// assert_eq!((chunk.number(), block.number()), (3, 0));
/// assert_eq!((run.from, run.to, run.len), (0, 12, 8));
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BlockSelection<'g> {
    geometry: &'g BlockGeometry,
    corners: Corners, // inside the shape
    bytes: u64,       // of all items
}

/// A box: from `low` to below `high`, on every axis.
#[derive(Clone, Copy, Debug)]
struct Corners {
    low: Axes,
    high: Axes,
}

/// The part of one chunk in a selection.
#[derive(Clone, Copy, Debug)]
pub struct ChunkPart<'g> {
    geometry: &'g BlockGeometry,
    number: u64,
    corners: Corners, // relative to the chunk, clipped at its extent
    target: Target,
}

/// The part of one block in a selection.
#[derive(Clone, Copy, Debug)]
pub struct BlockPart<'g> {
    geometry: &'g BlockGeometry,
    number: u32,
    corners: Corners, // relative to the block
    target: Target,
}

/// The destination of a part in the result.
#[derive(Clone, Copy, Debug)]
struct Target {
    extent: Axes, // of the whole result
    at: Axes,     // the lower corner of the part in it
}

/// Bytes that are contiguous in a decoded block and in the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRun {
    /// Offset in the decoded block.
    pub from: u64,
    /// Offset in the result.
    pub to: u64,
    /// Number of bytes.
    pub len: u64,
}

impl BlockGeometry {
    /// Selects the items from `start` to below `stop`, on every axis.
    ///
    /// # Errors
    ///
    /// When there is not one start and one stop for each axis, a stop lies outside the array or
    /// before its start, or the items have more than 2^64 - 1 bytes.
    pub fn select(&self, start: &[u64], stop: &[u64]) -> Result<BlockSelection<'_>, FormatError> {
        let shape = self.shape();
        let [low, high] = [(start, "start"), (stop, "stop")].map(|(corner, field)| {
            Axes::new(corner).filter(|axes| axes.len() == shape.len()).ok_or_else(|| {
                let expected = Expected::Exactly(count(shape.as_slice()).into());
                argument_error(field, 0, expected, count(corner))
            })
        });
        let (low, high) = (low?, high?);
        let ends = low.as_slice().iter().zip(high.as_slice()).zip(shape.as_slice());
        for (axis, ((from, to), extent)) in (0_u64..).zip(ends) {
            let allowed = Expected::Between((*from).into(), (*extent).into());
            if !allowed.allows((*to).into()) {
                return Err(argument_error("stop", axis, allowed, *to));
            }
        }
        let items = high.zip(&low, u64::saturating_sub).product();
        let bytes = items.and_then(|items| items.checked_mul(self.item_size().into()));
        let Some(bytes) = bytes else {
            let expected = Expected::AtMost(u64::MAX.into());
            return Err(FormatError::new(
                Class::Overflow,
                Part::Blocks,
                "selected bytes",
                0,
                expected,
                "more",
            ));
        };
        Ok(BlockSelection { geometry: self, corners: Corners { low, high }, bytes })
    }

    /// Selects all items.
    ///
    /// # Errors
    ///
    /// When they have more than 2^64 - 1 bytes.
    pub fn select_all(&self) -> Result<BlockSelection<'_>, FormatError> {
        let start = Axes::zeros(self.shape().len());
        self.select(start.as_slice(), self.shape().as_slice())
    }
}

impl<'g> BlockSelection<'g> {
    /// Returns the extents of the result.
    pub fn extent(&self) -> Axes {
        self.corners.extent()
    }

    /// Returns the size of the result in bytes.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the touched chunks, by ascending number.
    pub fn chunks(&self) -> impl Iterator<Item = ChunkPart<'g>> + use<'g> {
        let Self { geometry, corners, .. } = *self;
        corners.parts(geometry.chunkshape()).map(move |(at, inside)| {
            let origin = at.zip(geometry.chunkshape(), u64::saturating_mul);
            let target = Target {
                extent: corners.extent(),
                at: origin.zip(&corners.low, u64::saturating_sub), // the first may start inside
            };
            let number = at.number_in(&geometry.chunks());
            ChunkPart { geometry, number, corners: inside, target }
        })
    }

    /// Returns the number of touched chunks.
    pub fn chunks_touched(&self) -> u64 {
        let Corners { low, high } = self.corners.part_range(self.geometry.chunkshape());
        high.zip(&low, u64::saturating_sub).product().unwrap_or(u64::MAX) // at most the items
    }

    /// Returns the number of touched blocks of all chunks.
    pub fn blocks_touched(&self) -> u64 {
        let Self { geometry, corners: Corners { low, high }, .. } = self;
        let mut touched = Axes::zeros(low.len());
        let ends = low.as_slice().iter().zip(high.as_slice());
        let cuts = geometry.chunkshape().as_slice().iter().zip(geometry.blockshape().as_slice());
        for (n, ((from, to), (c, b))) in touched.as_mut().iter_mut().zip(ends.zip(cuts)) {
            *n = blocks_on_axis(*from..*to, *c, *b);
        }
        touched.product().unwrap_or(u64::MAX) // each holds an item of its own
    }
}

impl<'g> ChunkPart<'g> {
    /// Returns the number of the chunk.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Returns the touched blocks, by ascending number.
    pub fn blocks(&self) -> impl Iterator<Item = BlockPart<'g>> + use<'g> {
        let Self { geometry, corners, target, .. } = *self;
        corners.parts(geometry.blockshape()).map(move |(at, inside)| {
            let origin = at.zip(geometry.blockshape(), u64::saturating_mul);
            let ahead = origin.zip(&corners.low, u64::saturating_sub);
            let target = Target { at: target.at.zip(&ahead, u64::saturating_add), ..target };
            let number = at.number_in(&geometry.blocks());
            // At most the number of items of a padded chunk, which is limited.
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            BlockPart { geometry, number, corners: inside, target }
        })
    }

    /// Returns the number of touched blocks.
    pub fn blocks_touched(&self) -> u64 {
        let Corners { low, high } = self.corners.part_range(self.geometry.blockshape());
        high.zip(&low, u64::saturating_sub).product().unwrap_or(u64::MAX) // at most the items
    }
}

impl BlockPart<'_> {
    /// Returns the number of the block in its chunk.
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Returns the byte runs to copy, in the order of the result.
    #[must_use = "an iterator does nothing until it is asked"]
    pub fn runs(&self) -> impl Iterator<Item = BlockRun> + use<> {
        Runs::new(self)
    }

    /// Returns the total bytes of all runs.
    pub fn bytes(&self) -> u64 {
        let items = self.corners.extent().product().unwrap_or(u64::MAX); // at most those of a block
        items.saturating_mul(self.geometry.item_size().into())
    }

    /// Returns the range of the result from the first byte of the first run to the last one of the
    /// last.
    pub fn reach(&self) -> Range<u64> {
        let item = u64::from(self.geometry.item_size());
        let (mut start, mut end, mut step) = (0_u64, item, item);
        let extent = self.corners.extent();
        let axes = extent.as_slice().iter().zip(self.target.at.as_slice());
        for ((n, at), result) in axes.zip(self.target.extent.as_slice()).rev() {
            start = start.saturating_add(at.saturating_mul(step));
            end = end.saturating_add(n.saturating_sub(1).saturating_mul(step));
            step = step.saturating_mul(*result);
        }
        start..start.saturating_add(end)
    }
}

impl Corners {
    fn extent(&self) -> Axes {
        self.high.zip(&self.low, u64::saturating_sub)
    }

    /// Returns the coordinates of the parts of extent `cut` that the box meets.
    fn part_range(&self, cut: &Axes) -> Self {
        // An extent of 0 has no positions, so no part meets the box.
        let low = self.low.zip(cut, |low, cut| low.checked_div(cut).unwrap_or(0));
        let mut high = self.high.zip(cut, super::axes::div_up);
        let ends = self.low.as_slice().iter().zip(self.high.as_slice());
        for (part, (low, high)) in high.as_mut().iter_mut().zip(ends) {
            if low == high {
                *part = 0; // an empty box meets nothing, also where it starts inside a part
            }
        }
        Self { low, high }
    }

    /// Returns each part of extent `cut` that the box meets, with the box inside of that part.
    fn parts(self, cut: &Axes) -> impl Iterator<Item = (Axes, Self)> + use<> {
        let (cut, range) = (*cut, self.part_range(cut));
        Coordinates::new(range.low, range.high).map(move |at| {
            let origin = at.zip(&cut, u64::saturating_mul);
            let low = self.low.zip(&origin, u64::saturating_sub);
            let high = self.high.zip(&origin, u64::saturating_sub).zip(&cut, u64::min);
            (at, Self { low, high })
        })
    }
}

/// Returns the number of blocks that meet the positions `on` of one axis with chunks of `c` and
/// blocks of `b`.
fn blocks_on_axis(on: Range<u64>, c: u64, b: u64) -> u64 {
    let Some(last) = on.end.checked_sub(1).filter(|last| *last >= on.start) else { return 0 };
    // The range is not empty, so neither c nor b is 0.
    let chunk = |at: u64| at.checked_div(c).unwrap_or(0);
    let block = |at: u64| at.checked_rem(c).and_then(|l| l.checked_div(b)).unwrap_or(0);
    let between = chunk(last).saturating_sub(chunk(on.start));
    let in_whole_chunks = between.saturating_mul(super::axes::div_up(c, b));
    in_whole_chunks.saturating_add(block(last)).saturating_sub(block(on.start)).saturating_add(1)
}

/// The runs of one block: a walk over the outer axes; the inner ones are contiguous.
struct Runs {
    next: Option<BlockRun>,
    axes: [Walk; MAX_AXES], // the outer axes, the innermost first
}

/// One axis of the walk.
#[derive(Clone, Copy, Default)]
struct Walk {
    left: u64, // remaining steps
    steps: u64,
    from: u64, // bytes per step in the block
    to: u64,   // bytes per step in the result
}

impl Runs {
    fn new(part: &BlockPart<'_>) -> Self {
        let BlockPart { geometry, corners, target, .. } = part;
        let item = u64::from(geometry.item_size());
        let mut run = BlockRun { from: 0, to: 0, len: item };
        let mut axes = [Walk::default(); MAX_AXES];
        let mut walks = axes.iter_mut();

        let (extent, block) = (corners.extent(), geometry.blockshape());
        let sizes = extent.as_slice().iter().zip(block.as_slice()).zip(target.extent.as_slice());
        let starts = corners.low.as_slice().iter().zip(target.at.as_slice());
        let (mut from, mut to, mut together) = (item, item, true); // bytes per step
        for (((n, block), result), (low, at)) in sizes.zip(starts).rev() {
            run.from = run.from.saturating_add(low.saturating_mul(from));
            run.to = run.to.saturating_add(at.saturating_mul(to));
            if together {
                run.len = run.len.saturating_mul(*n);
            } else if let Some(walk) = walks.next() {
                let steps = n.saturating_sub(1);
                *walk = Walk { left: steps, steps, from, to };
            }
            // The next axis is contiguous with this one only if this one is complete.
            together = together && n == block && n == result;
            from = from.saturating_mul(*block);
            to = to.saturating_mul(*result);
        }
        Self { next: Some(run), axes }
    }
}

impl Iterator for Runs {
    type Item = BlockRun;

    fn next(&mut self) -> Option<BlockRun> {
        let current = self.next?;
        let mut after = current;
        self.next = None;
        for walk in &mut self.axes {
            if let Some(left) = walk.left.checked_sub(1) {
                walk.left = left;
                after.from = after.from.saturating_add(walk.from);
                after.to = after.to.saturating_add(walk.to);
                self.next = Some(after);
                break;
            }
            walk.left = walk.steps;
            after.from = after.from.saturating_sub(walk.from.saturating_mul(walk.steps));
            after.to = after.to.saturating_sub(walk.to.saturating_mul(walk.steps));
        }
        Some(current)
    }
}

fn argument_error(field: &'static str, axis: u64, expected: Expected, found: u64) -> FormatError {
    FormatError::new(Class::InvalidArgument, Part::Blocks, field, axis, expected, found)
}

#[cfg(test)]
mod tests;
