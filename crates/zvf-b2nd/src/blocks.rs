//! The block table of a chunk: the start of each block, from which its end follows.
//!
//! ```text
//! offset      size  field
//! header      4n    positions, i32, from the start of the chunk, in any order
//! header+4n   4     dictionary size      only with a dictionary
//!             size  dictionary
//!             ...   blocks
//! ```
//!
//! Little-endian. Threads write blocks as they finish, so positions need not ascend. A block ends
//! at the next higher position, or at the end of the chunk. If positions ascend, as usual, an end
//! is one lookup; otherwise [`BlockTable::span`] searches the table, and
//! [`BlockTable::sorted_spans`] (feature `alloc`) computes all ends at once.
//!
//! The contents of spans are decoded by `zvf-blosc`.

use core::ops::Range;

use zerocopy::little_endian::I32;

use super::chunk::{Body, ChunkHeader};
use zvf_format::cursor::Cursor;
use zvf_format::num;
use zvf_format::{Class, Expected, FormatError, Part};

/// The positions of the blocks of one chunk, borrowed from its front.
///
/// ```
/// use zvf_b2nd::{BlockTable, ChunkHeader};
///
/// // Two blocks of 8 bytes, the second written first.
/// let front = b"\x02\x01\x10\x01\x10\0\0\0\x08\0\0\0\x28\0\0\0\x20\0\0\0\x18\0\0\0";
/// let table = BlockTable::parse(&ChunkHeader::parse(front)?, front)?;
/// assert_eq!((table.span(0), table.span(1), table.span(2)), (Some(32..40), Some(24..32), None));
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BlockTable<'a> {
    positions: &'a [I32], // each from the end of table and dictionary to below cbytes
    dictionary: (u64, u64), // start and end; empty without one
    cbytes: u32,
    ascending: bool, // each position is above the one before it
}

impl<'a> BlockTable<'a> {
    /// Returns the number of bytes of the chunk that [`BlockTable::parse`] needs.
    pub fn front_len(header: &ChunkHeader) -> u64 {
        // At most four bytes for each of fewer than 2^32 blocks, after the header.
        header.table().end.saturating_add(if header.has_dictionary() { 4 } else { 0 })
    }

    /// Checks the table in the front of the chunk that `header` belongs to.
    ///
    /// A chunk without blocks (a raw copy, a special value) has an empty table.
    ///
    /// # Errors
    ///
    /// When there are fewer bytes than [`BlockTable::front_len`], a position lies in the table or
    /// in the dictionary or outside the chunk, or the dictionary is not of 1 to 131072 bytes inside
    /// the chunk.
    pub fn parse(header: &ChunkHeader, front: &'a [u8]) -> Result<Self, FormatError> {
        let cbytes = header.cbytes();
        if header.body() != Body::Blocks {
            return Ok(Self { positions: &[], dictionary: (0, 0), cbytes, ascending: true });
        }
        let mut cur = Cursor::new(Part::BloscChunk, front);
        cur.bytes("header", header.header_len().into())?;
        let positions = cur.array::<I32>("block positions", header.block_count().into())?;
        let dictionary = if header.has_dictionary() {
            parse_dictionary(&mut cur, cbytes.into())?
        } else {
            (cur.position(), cur.position())
        };

        let (mut ascending, mut last) = (true, 0);
        let allowed = Expected::Between(dictionary.1.into(), i128::from(cbytes).saturating_sub(1));
        for (at, position) in positions.with_offsets() {
            let position = position.get();
            if !allowed.allows(position.into()) {
                let class = if position < 0 { Class::Negative } else { Class::OutOfBounds };
                return Err(cur.refuse(class, "block position", at, allowed, position));
            }
            if header.has_varying_blocks() && position <= last {
                let expected = Expected::AtLeast(i128::from(last).saturating_add(1));
                let class = Class::NotMonotonic;
                return Err(cur.refuse(class, "block position", at, expected, position));
            }
            ascending &= position > last;
            last = position;
        }
        Ok(Self { positions: positions.items, dictionary, cbytes, ascending })
    }

    /// Returns the number of blocks in the table.
    pub const fn len(&self) -> usize {
        self.positions.len()
    }

    /// Returns whether the chunk is not stored in blocks, or has none.
    pub const fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Returns the start of block `j` in the chunk, or `None` beyond the last.
    pub fn start(&self, j: u32) -> Option<u64> {
        self.positions
            .get(num::usize_from_u32(j))
            .map(|position| position.get().unsigned_abs().into())
    }

    /// Returns the bytes of block `j` in the chunk, or `None` beyond the last.
    ///
    /// Constant time if the positions ascend, otherwise linear in the number of blocks.
    pub fn span(&self, j: u32) -> Option<Range<u64>> {
        let start = self.start(j)?;
        let next = if self.ascending {
            self.start(j.checked_add(1)?)
        } else {
            self.starts().map(u64::from).filter(|other| *other > start).min()
        };
        Some(start..next.unwrap_or(self.cbytes.into()))
    }

    /// Returns the range of the dictionary in the chunk, if there is one.
    pub const fn dictionary(&self) -> Option<Range<u64>> {
        let (start, end) = self.dictionary;
        if start == end { None } else { Some(start..end) }
    }

    /// Returns all spans at once.
    #[cfg(feature = "alloc")]
    pub fn sorted_spans(&self) -> BlockSpans {
        let mut sorted: alloc::vec::Vec<u32> = self.starts().collect();
        sorted.sort_unstable();
        let span = |start| {
            let next = sorted.partition_point(|other| *other <= start);
            (start, sorted.get(next).copied().unwrap_or(self.cbytes))
        };
        BlockSpans { spans: self.starts().map(span).collect() }
    }

    fn starts(&self) -> impl Iterator<Item = u32> {
        self.positions.iter().map(|position| position.get().unsigned_abs())
    }
}

/// The spans of all blocks of a chunk, by number.
///
/// ```
/// use zvf_b2nd::{BlockTable, ChunkHeader};
///
/// let front = b"\x02\x01\x10\x01\x10\0\0\0\x08\0\0\0\x28\0\0\0\x20\0\0\0\x18\0\0\0";
/// let spans = BlockTable::parse(&ChunkHeader::parse(front)?, front)?.sorted_spans();
/// assert_eq!(spans.get(0), Some(32..40));
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[cfg(feature = "alloc")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockSpans {
    spans: alloc::vec::Vec<(u32, u32)>, // start and end
}

#[cfg(feature = "alloc")]
impl BlockSpans {
    /// Returns the bytes of block `j` in the chunk, or `None` beyond the last.
    pub fn get(&self, j: u32) -> Option<Range<u64>> {
        let (start, end) = *self.spans.get(num::usize_from_u32(j))?;
        Some(start.into()..end.into())
    }
}

fn parse_dictionary(cur: &mut Cursor<'_>, cbytes: u64) -> Result<(u64, u64), FormatError> {
    let at = cur.position();
    let size = cur.item::<I32>("dictionary size")?.get();
    let room = cbytes.saturating_sub(cur.position()).min(DICTIONARY_MAX);
    let allowed = Expected::Between(1, room.into());
    if !allowed.allows(size.into()) {
        let class = if size < 0 { Class::Negative } else { Class::OutOfBounds };
        return Err(cur.refuse(class, "dictionary size", at, allowed, size));
    }
    // Both lie inside the chunk, so the sum does not saturate.
    Ok((cur.position(), cur.position().saturating_add(size.unsigned_abs().into())))
}

/// The largest size of a dictionary in bytes.
const DICTIONARY_MAX: u64 = 131_072;

#[cfg(all(test, feature = "alloc"))]
mod tests;
