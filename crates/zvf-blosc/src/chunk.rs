//! A chunk that is completely in memory.

use core::ops::Range;

use zvf_b2nd::ChunkHeader;

use crate::decode::Decoder;
use crate::error::BloscError;
use crate::layout::Layout;
use crate::stored::StoredParts;

/// A whole chunk with its layout.
///
/// ```
/// use zvf_blosc::Chunk;
///
/// // Blosc 1, one block of 4 items of 2 bytes, shuffled and not compressed.
/// let bytes = b"\x02\x01\x31\x02\x08\0\0\0\x08\0\0\0\x20\0\0\0\x14\0\0\0\x08\0\0\0acegbdfh";
/// let chunk = Chunk::parse(bytes)?;
/// assert_eq!(chunk.decode_all(1024)?, b"abcdefgh");
/// assert_eq!(chunk.decode_range(2..5, 1024)?, b"cde");
/// # Ok::<(), zvf_blosc::BloscError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Chunk<'a> {
    layout: Layout,
    bytes: &'a [u8], // at least cbytes of the header
}

impl<'a> Chunk<'a> {
    /// Checks header and block table; bytes after the chunk are ignored.
    ///
    /// # Errors
    ///
    /// As [`Layout::parse`], and `Truncated` when there are fewer bytes than the header states.
    pub fn parse(chunk: &'a [u8]) -> Result<Self, BloscError> {
        let layout = Layout::parse(chunk)?;
        layout.check_whole(chunk)?;
        Ok(Self { layout, bytes: chunk })
    }

    /// Returns the header.
    pub const fn header(&self) -> &ChunkHeader {
        self.layout.header()
    }

    /// Returns header and block spans.
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the bytes, for a [`Decoder`] that is reused for several chunks.
    pub fn stored_parts(&self) -> StoredParts<'a> {
        StoredParts::new(vec![(0, self.bytes)])
    }

    /// Decodes all bytes, at most `cap`.
    ///
    /// # Errors
    ///
    /// As [`Decoder::decode_range`].
    pub fn decode_all(&self, cap: u64) -> Result<Vec<u8>, BloscError> {
        self.decode_range(0..self.layout.decoded_len(), cap)
    }

    /// Decodes the bytes `range`, where neither they nor a block exceed `cap`.
    ///
    /// # Errors
    ///
    /// As [`Decoder::decode_range`].
    pub fn decode_range(&self, range: Range<u64>, cap: u64) -> Result<Vec<u8>, BloscError> {
        Decoder::new(cap).decode_range(&self.layout, &self.stored_parts(), range)
    }
}
