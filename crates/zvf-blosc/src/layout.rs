//! Where the blocks of a chunk lie, from the front of the chunk alone.
//!
//! ```text
//! 16 or 32 bytes    header
//! 4 for each block  table              only when the body is blocks
//! 4                 dictionary size    only with a dictionary
//! ```
//!
//! A layout owns what it needs, so it can be kept while the bytes it was read from are not.
//!
//! Not here: the meaning of header fields and table entries (`zvf_b2nd`).

use core::ops::Range;

use zvf_b2nd::{BlockSpans, BlockTable, Body, ChunkHeader, Special};
use zvf_format::num;
use zvf_format::{Class, Expected, FormatError};

use crate::error::BloscError;

/// The header of a chunk: 16 or 32 bytes of its front are looked at.
///
/// # Errors
///
/// As [`ChunkHeader::parse`], and `Unsupported` for blocks of varying length.
pub fn parse_header(front: &[u8]) -> Result<ChunkHeader, BloscError> {
    let header = ChunkHeader::parse(front)?;
    if header.has_varying_blocks() {
        return Err(BloscError::Unsupported("blocks of varying length"));
    }
    Ok(header)
}

/// The header of a chunk, and the byte span of each of its blocks.
///
/// ```
/// use zvf_blosc::{Layout, parse_header};
///
/// // Blosc 1: three blocks of 8 bytes, stored in 12 bytes each.
/// let front = b"\x02\x01\x30\x01\x18\0\0\0\x08\0\0\0\x40\0\0\0\x1c\0\0\0\x28\0\0\0\x34\0\0\0";
/// assert_eq!(Layout::front_len(&parse_header(&front[..16])?), 28);
/// let layout = Layout::parse(front)?;
/// assert_eq!(layout.blocks_needed(10..20), 1..3);
/// assert_eq!(layout.spans_needed(10..20), [40..64]);
/// # Ok::<(), zvf_blosc::BloscError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Layout {
    header: ChunkHeader, // not of varying blocks
    spans: BlockSpans,   // as many as blocks when the body is blocks, otherwise none
    dictionary: Option<Range<u64>>,
}

impl Layout {
    /// How many bytes of a chunk with this header [`Layout::parse`] needs.
    #[must_use]
    pub fn front_len(header: &ChunkHeader) -> u64 {
        BlockTable::front_len(header)
    }

    /// Checks the front of a chunk; bytes behind it are not looked at.
    ///
    /// # Errors
    ///
    /// As [`parse_header`] and [`BlockTable::parse`].
    pub fn parse(front: &[u8]) -> Result<Self, BloscError> {
        let header = parse_header(front)?;
        let table = BlockTable::parse(&header, front)?;
        Ok(Self { header, spans: table.sorted(), dictionary: table.dictionary() })
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &ChunkHeader {
        &self.header
    }

    /// Bytes of the chunk when decoded.
    #[must_use]
    pub fn decoded_len(&self) -> u64 {
        self.header.nbytes().into()
    }

    /// The blocks that hold any byte of `decoded`, clipped to what there is.
    #[must_use]
    pub fn blocks_needed(&self, decoded: Range<u64>) -> Range<u32> {
        let end = decoded.end.min(self.decoded_len());
        let size = u64::from(self.header.blocksize());
        let (Some(last), Some(first)) = (end.checked_sub(1), decoded.start.checked_div(size))
        else {
            return 0..0;
        };
        if decoded.start > last {
            return 0..0;
        }
        let after = last.checked_div(size).unwrap_or(0).saturating_add(1);
        let number = |block: u64| u32::try_from(block).unwrap_or(u32::MAX); // fewer than nbytes
        number(first)..number(after)
    }

    /// The bytes of the chunk, besides its front, that decoding `decoded` takes: ascending, apart.
    ///
    /// Where a block can only be decoded with block 0 at hand, that is among them; so is a dictionary.
    #[must_use]
    pub fn spans_needed(&self, decoded: Range<u64>) -> Vec<Range<u64>> {
        let blocks = self.blocks_needed(decoded.clone());
        if blocks.is_empty() {
            return Vec::new();
        }
        let mut spans = Vec::new();
        match self.header.body() {
            Body::Raw => {
                let header = u64::from(self.header.header_len());
                let end = decoded.end.min(self.decoded_len());
                let inside = |at: u64| at.saturating_add(header);
                spans.push(inside(decoded.start)..inside(end));
            }
            Body::Special(Special::Value(_)) => spans.extend(self.value()),
            Body::Blocks => {
                spans.extend(self.dictionary.clone());
                if self.header.needs_first_block() {
                    spans.extend(self.span(0));
                }
                spans.extend(blocks.filter_map(|j| self.span(j)));
            }
            Body::Special(Special::Zeros | Special::Nan | Special::Unwritten) => {}
        }
        merge(spans)
    }

    /// The stored bytes of block `j` in the chunk, or `None` past the last and where the body is no blocks.
    #[must_use]
    pub fn span(&self, j: u32) -> Option<Range<u64>> {
        self.spans.get(j)
    }

    /// Where the dictionary lies in the chunk, when there is one.
    #[must_use]
    pub fn dictionary(&self) -> Option<Range<u64>> {
        self.dictionary.clone()
    }

    /// Where the value lies that all items have, when there is one.
    pub(crate) fn value(&self) -> Option<Range<u64>> {
        let Body::Special(Special::Value(bytes)) = self.header.body() else { return None };
        let start = u64::from(self.header.header_len());
        Some(start..start.saturating_add(bytes.into()))
    }

    /// Checks that a range lies in the decoded chunk.
    pub(crate) fn check_range(&self, decoded: &Range<u64>) -> Result<(), BloscError> {
        let (class, most) = (Class::InvalidArgument, self.decoded_len());
        if decoded.end > most {
            let expected = Expected::AtMost(most.into());
            return Err(BloscError::request(class, "end of range", expected, decoded.end));
        }
        if decoded.start > decoded.end {
            let expected = Expected::AtMost(decoded.end.into());
            return Err(BloscError::request(class, "start of range", expected, decoded.start));
        }
        Ok(())
    }

    /// Checks that all bytes of the chunk are there.
    pub(crate) fn check_whole(&self, chunk: &[u8]) -> Result<(), BloscError> {
        let (cbytes, len) = (u64::from(self.header.cbytes()), num::to_u64(chunk.len()));
        if len >= cbytes {
            return Ok(());
        }
        let (expected, part) = (Expected::Bytes(cbytes), zvf_format::Part::BloscChunk);
        Err(FormatError::new(Class::Truncated, part, "chunk", 0, expected, len).into())
    }
}

/// Sorts spans and joins those that touch.
fn merge(mut spans: Vec<Range<u64>>) -> Vec<Range<u64>> {
    spans.sort_unstable_by_key(|span| (span.start, span.end));
    let mut merged: Vec<Range<u64>> = Vec::new();
    for span in spans {
        match merged.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            Some(_) | None => merged.push(span),
        }
    }
    merged
}
