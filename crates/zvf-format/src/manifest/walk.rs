//! The blocks of a manifest, the references they expand to, and the only function that reads a
//! block.
//!
//! Parsing and walking read blocks the same way, so that they cannot disagree.

use core::iter::FusedIterator;

use zerocopy::little_endian::{I64, U32};

use super::PART;
use crate::cursor::Cursor;
use crate::error::{Class, Expected, FormatError};
use crate::fragment::Numbers;
use crate::num;

/// One block: a chunk and some of its fragments.
///
/// ```
/// use zvf_format::manifest::{BlockFragments, Manifest};
///
/// let blob = b"\x01\0\0\0\x04\0\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0";
/// let manifest = Manifest::parse(blob, 1)?;
/// let block = manifest.blocks().next().unwrap();
/// assert_eq!((block.chunk[0].get(), block.fragments), (4, BlockFragments::Single(5)));
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Block<'a> {
    /// The absolute coordinates of the chunk, S of them.
    pub chunk: &'a [I64],
    /// The fragments of the chunk, as stored.
    pub fragments: BlockFragments<'a>,
}

/// The fragments of one block, in the mode they are stored in.
///
/// ```
/// use zvf_format::manifest::BlockFragments;
///
/// let fragments = BlockFragments::Range { start: 5, count: 3 };
/// assert_eq!(fragments.iter().collect::<Vec<_>>(), [5, 6, 7]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockFragments<'a> {
    /// Mode 0.
    Single(u64),
    /// Mode 1; the end is at most `i64::MAX`.
    Range {
        /// The first fragment.
        start: u64,
        /// The number of fragments.
        count: u64,
    },
    /// Mode 2; none is negative.
    Explicit(&'a [I64]),
}

impl<'a> BlockFragments<'a> {
    /// Returns the number of fragments; a `u64`, because a block of a few bytes can stand for more
    /// than memory holds.
    pub const fn len(&self) -> u64 {
        match self {
            Self::Single(_) => 1,
            Self::Range { count, .. } => *count,
            Self::Explicit(list) => num::to_u64(list.len()),
        }
    }

    /// Returns whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns an iterator over the fragment numbers in order, expanded one by one.
    pub fn iter(&self) -> Numbers<'a> {
        match self {
            Self::Single(fragment) => Numbers::range(*fragment, 1),
            Self::Range { start, count } => Numbers::range(*start, *count),
            Self::Explicit(list) => Numbers::list(list),
        }
    }

    /// Returns the first fragment that a chunk of `count` fragments does not have.
    pub fn first_missing(&self, count: u64) -> Option<u64> {
        match self {
            Self::Single(fragment) => Some(*fragment).filter(|fragment| *fragment >= count),
            Self::Range { start, count: n } => {
                let end = start.saturating_add(*n); // a claim, compared with the count
                (end > count).then_some((*start).max(count))
            }
            Self::Explicit(_) => self.iter().find(|fragment| *fragment >= count),
        }
    }
}

impl<'a> IntoIterator for &BlockFragments<'a> {
    type Item = u64;
    type IntoIter = Numbers<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The blocks of a manifest, in order.
///
/// ```
/// use zvf_format::manifest::Manifest;
///
/// assert!(Manifest::parse(&[0; 4], 3)?.blocks().next().is_none());
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Blocks<'a> {
    cur: Cursor<'a>, // at a block that parses, when any are left
    left: u32,
    sid_ndim: u64,
}

impl<'a> Blocks<'a> {
    /// Begins a walk over `left` blocks. Every block must parse.
    pub(super) const fn new(blocks: &'a [u8], left: u32, sid_ndim: u64) -> Self {
        Self { cur: Cursor::new(PART, blocks), left, sid_ndim }
    }

    /// Returns the offset of the next block from the first.
    pub(super) const fn at(&self) -> u64 {
        self.cur.position()
    }
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Block<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let block = block(&mut self.cur, self.sid_ndim).ok(); // it parsed before
        if block.is_none() {
            self.left = 0;
        }
        block
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (num::usize_from_u32(self.left), Some(num::usize_from_u32(self.left)))
    }
}

impl FusedIterator for Blocks<'_> {}

/// One fragment of one chunk, as an object refers to it.
///
/// ```
/// use zvf_format::manifest::Manifest;
///
/// let blob = b"\x01\0\0\0\x04\0\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0";
/// let reference = Manifest::parse(blob, 1)?.references().next().unwrap();
/// assert_eq!((reference.chunk[0].get(), reference.fragment), (4, 5));
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FragmentRef<'a> {
    /// The absolute coordinates of the chunk.
    pub chunk: &'a [I64],
    /// The number of the fragment in the chunk.
    pub fragment: u64,
}

/// The references of a manifest, in order.
///
/// ```
/// use zvf_format::manifest::Manifest;
///
/// assert_eq!(Manifest::parse(&[0; 4], 3)?.references().count(), 0);
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Debug)]
pub struct References<'a> {
    blocks: Blocks<'a>,
    chunk: &'a [I64], // of the block that `fragments` are from
    fragments: Numbers<'a>,
}

impl<'a> References<'a> {
    pub(super) const fn new(blocks: Blocks<'a>) -> Self {
        Self { blocks, chunk: &[], fragments: Numbers::range(0, 0) }
    }
}

impl<'a> Iterator for References<'a> {
    type Item = FragmentRef<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(fragment) = self.fragments.next() {
                return Some(FragmentRef { chunk: self.chunk, fragment });
            }
            let block = self.blocks.next()?;
            (self.chunk, self.fragments) = (block.chunk, block.fragments.iter());
        }
    }
}

impl FusedIterator for References<'_> {}

/// Reads one block.
pub(super) fn block<'a>(cur: &mut Cursor<'a>, sid_ndim: u64) -> Result<Block<'a>, FormatError> {
    let chunk = cur.array::<I64>("chunk", sid_ndim)?.items;
    let at = cur.position();
    let mode = *cur.item::<u8>("mode")?;
    let fragments = match mode {
        SINGLE => BlockFragments::Single(read_unsigned(cur, "fragment")?),
        RANGE => range(cur)?,
        EXPLICIT => BlockFragments::Explicit(list(cur)?),
        _ => return Err(cur.refuse(Class::BadTag, "mode", at, Expected::Between(0, 2), mode)),
    };
    Ok(Block { chunk, fragments })
}

fn range<'a>(cur: &mut Cursor<'_>) -> Result<BlockFragments<'a>, FormatError> {
    let at = cur.position();
    let (start, count) = (read_unsigned(cur, "start")?, read_unsigned(cur, "count")?);
    let end = start.saturating_add(count); // both below 2^63
    if i64::try_from(end).is_err() {
        let expected = Expected::AtMost(i64::MAX.into());
        return Err(cur.refuse(Class::Overflow, "start + count", at, expected, end));
    }
    Ok(BlockFragments::Range { start, count })
}

fn list<'a>(cur: &mut Cursor<'a>) -> Result<&'a [I64], FormatError> {
    let n = cur.item::<U32>("n")?.get();
    let list = cur.array::<I64>("fragments", n.into())?;
    for (at, fragment) in list.with_offsets() {
        if fragment.get() < 0 {
            let expected = Expected::AtLeast(0);
            return Err(cur.refuse(Class::Negative, "fragment", at, expected, fragment.get()));
        }
    }
    Ok(list.items)
}

/// Reads a number that cannot be negative.
fn read_unsigned(cur: &mut Cursor<'_>, field: &'static str) -> Result<u64, FormatError> {
    let at = cur.position();
    let n = cur.item::<I64>(field)?.get();
    u64::try_from(n)
        .map_err(|_source| cur.refuse(Class::Negative, field, at, Expected::AtLeast(0), n))
}

pub(super) const SINGLE: u8 = 0;
pub(super) const RANGE: u8 = 1;
pub(super) const EXPLICIT: u8 = 2;
