//! The positions of the blocks of a chunk, from the front of the chunk alone.
//!
//! ```text
//! 16 or 32 bytes    header
//! 4 for each block  table              only when the body is blocks
//! 4                 dictionary size    only with a dictionary
//! ```
//!
//! A layout owns its data, so it can outlive the bytes it was read from.
//!
//! The meaning of header fields and table entries is in `zvf_b2nd`.

use core::ops::Range;

use zvf_b2nd::{BlockSpans, BlockTable, Body, ChunkHeader, Special};
use zvf_format::num;
use zvf_format::{Class, Expected, FormatError};

use crate::error::BloscError;

/// Parses the header of a chunk: the first 16 or 32 bytes of its front.
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
    /// Returns the number of bytes of a chunk with this header that [`Layout::parse`] needs.
    pub fn front_len(header: &ChunkHeader) -> u64 {
        BlockTable::front_len(header)
    }

    /// Checks the front of a chunk; later bytes are ignored.
    ///
    /// # Errors
    ///
    /// As [`parse_header`] and [`BlockTable::parse`].
    pub fn parse(front: &[u8]) -> Result<Self, BloscError> {
        let header = parse_header(front)?;
        let table = BlockTable::parse(&header, front)?;
        Ok(Self { header, spans: table.sorted_spans(), dictionary: table.dictionary() })
    }

    /// Returns the header.
    pub const fn header(&self) -> &ChunkHeader {
        &self.header
    }

    /// Returns the decoded length of the chunk.
    pub fn decoded_len(&self) -> u64 {
        self.header.nbytes().into()
    }

    /// Returns the blocks that hold bytes of `decoded`, clipped to the chunk.
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
        let after = last.checked_div(size).unwrap_or(0).saturating_add(1); // size is not 0
        let number = |block: u64| u32::try_from(block).unwrap_or(u32::MAX); // fewer than nbytes
        number(first)..number(after)
    }

    /// Returns the byte ranges of the chunk that decoding `decoded` needs, except for the front:
    /// ascending and disjoint.
    ///
    /// Includes block 0 if a block depends on it, and the dictionary.
    pub fn spans_needed(&self, decoded: Range<u64>) -> Vec<Range<u64>> {
        let blocks = self.blocks_needed(decoded.clone());
        if blocks.is_empty() {
            return Vec::new();
        }
        let mut spans = Vec::new();
        match self.header.body() {
            Body::Raw => {
                spans.push(self.body_range(decoded.start..decoded.end.min(self.decoded_len())));
            }
            Body::Special(Special::Value(bytes)) => spans.push(self.body_range(0..bytes.into())),
            Body::Blocks => {
                spans.extend(self.dictionary.clone());
                if self.header.needs_first_block() {
                    spans.extend(self.span(0));
                }
                spans.extend(blocks.filter_map(|j| self.span(j)));
            }
            Body::Special(Special::Zeros | Special::Nan | Special::Unwritten) => {}
        }
        merge_spans(spans)
    }

    /// Returns the stored bytes of block `j` in the chunk, or `None` beyond the last and where the
    /// body is not blocks.
    pub fn span(&self, j: u32) -> Option<Range<u64>> {
        self.spans.get(j)
    }

    /// Returns the range of the dictionary in the chunk, if there is one.
    pub fn dictionary(&self) -> Option<Range<u64>> {
        self.dictionary.clone()
    }

    /// Returns the offset of block `j` in the decoded chunk and its length, or `None` beyond the
    /// last.
    pub(crate) fn block(&self, j: u32) -> Option<(u64, u32)> {
        let start = u64::from(j).checked_mul(self.header.blocksize().into())?;
        Some((start, self.header.block_len(j)?))
    }

    /// Returns the range in the chunk of bytes after the header: of a raw copy, or of the value of
    /// all items.
    pub(crate) fn body_range(&self, bytes: Range<u64>) -> Range<u64> {
        let header = u64::from(self.header.header_len());
        bytes.start.saturating_add(header)..bytes.end.saturating_add(header)
    }

    /// Checks that a range is inside of the decoded chunk, and returns its length.
    pub(crate) fn check_range(&self, decoded: &Range<u64>) -> Result<u64, BloscError> {
        let (class, decoded_len) = (Class::InvalidArgument, self.decoded_len());
        if decoded.end > decoded_len {
            let expected = Expected::AtMost(decoded_len.into());
            return Err(BloscError::request(class, "end of range", expected, decoded.end));
        }
        decoded.end.checked_sub(decoded.start).ok_or_else(|| {
            let expected = Expected::AtMost(decoded.end.into());
            BloscError::request(class, "start of range", expected, decoded.start)
        })
    }

    /// Checks that all bytes of the chunk are present.
    pub(crate) fn check_whole(&self, chunk: &[u8]) -> Result<(), BloscError> {
        let (cbytes, len) = (u64::from(self.header.cbytes()), num::to_u64(chunk.len()));
        if len >= cbytes {
            return Ok(());
        }
        let (expected, part) = (Expected::Bytes(cbytes), zvf_format::Part::BloscChunk);
        Err(FormatError::new(Class::Truncated, part, "chunk", 0, expected, len).into())
    }
}

/// Sorts spans and merges those that overlap or touch.
///
/// ```
/// assert_eq!(zvf_blosc::merge_spans(vec![7..9, 0..3, 2..4, 4..5]), [0..5, 7..9]);
/// ```
pub fn merge_spans(mut spans: Vec<Range<u64>>) -> Vec<Range<u64>> {
    spans.sort_unstable_by_key(|span| (span.start, span.end));
    spans.dedup_by(|next, last| {
        let touches = next.start <= last.end;
        last.end = if touches { last.end.max(next.end) } else { last.end };
        touches
    });
    spans
}
