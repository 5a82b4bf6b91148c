//! Decodes stored blocks.
//!
//! ```text
//! stored bytes -> streams -> filters, last slot first -> decoded block
//! ```
//!
//! Blocks are independent, with one exception: under the delta filter each is the difference from
//! the decoded block 0. A decoder reuses its buffers and codec states, and none of its buffers
//! exceeds the cap: the output, a block before its filters, a partly decoded block, and block 0.

use core::ops::Range;

use zvf_b2nd::{Body, FILTER_SLOTS, Filter, FilterSlot, Special};
use zvf_format::num;
use zvf_format::{Class, Expected};

use crate::codec::CodecState;
use crate::error::BloscError;
use crate::filter;
use crate::layout::Layout;
use crate::opened::OpenedRange;
use crate::stored::StoredParts;
use crate::stream;

/// Decodes chunks, one after the other.
///
/// ```
/// use zvf_blosc::{Decoder, Layout, StoredParts};
///
/// // Two raw blocks of 4 bytes, of which only the second is fetched.
/// let chunk = b"\x02\x01\x30\x01\x08\0\0\0\x04\0\0\0\x28\0\0\0\x18\0\0\0\x20\0\0\0\x04\0\0\0abcd\x04\0\0\0efgh";
/// let layout = Layout::parse(&chunk[..24])?;
/// assert_eq!(layout.spans_needed(5..7), [32..40]);
/// let stored = StoredParts::new(vec![(32, &chunk[32..])]);
/// assert_eq!(Decoder::new(1024).decode_range(&layout, &stored, 5..7)?, b"fg");
/// # Ok::<(), zvf_blosc::BloscError>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    cap: u64,
    item_size: Option<u32>,
    buffers: Buffers,
    codecs: CodecState,
}

/// Buffers that are reused, each at most as long as a block.
#[derive(Debug, Default)]
struct Buffers {
    filtered: Vec<u8>, // a block between filters
    partial: Vec<u8>,  // a decoded block of which a part is needed
    first: Vec<u8>,    // the decoded block 0
    opened: Vec<u8>,   // the source of parts; as long as the range
}

impl Decoder {
    /// Creates a decoder that refuses more than `cap` bytes in one answer or one block.
    pub fn new(cap: u64) -> Self {
        Self { cap, item_size: None, buffers: Buffers::default(), codecs: CodecState::default() }
    }

    /// Sets the size of an item, which must not be 0, if the caller knows it: a chunk can only
    /// state up to 255 bytes, and one filter needs it.
    #[must_use]
    pub fn with_item_size(self, item_size: u32) -> Self {
        Self { item_size: Some(item_size).filter(|size| *size > 0), ..self }
    }

    /// Decodes all bytes of a chunk.
    ///
    /// # Errors
    ///
    /// As [`Decoder::decode_range`].
    pub fn decode_all(
        &mut self,
        layout: &Layout,
        stored: &StoredParts<'_>,
    ) -> Result<Vec<u8>, BloscError> {
        self.decode_range(layout, stored, 0..layout.decoded_len())
    }

    /// Decodes the bytes `range` of a chunk; `stored` must hold at least [`Layout::spans_needed`]
    /// for that range.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` when the range is outside of the chunk or a span is missing;
    /// `LimitExceeded` when the range or a block exceeds the cap; `Unsupported` for a codec that is
    /// not built in; otherwise the fault of a block.
    pub fn decode_range(
        &mut self,
        layout: &Layout,
        stored: &StoredParts<'_>,
        range: Range<u64>,
    ) -> Result<Vec<u8>, BloscError> {
        let len = layout.check_range(&range)?;
        let mut out = vec![0; self.check_cap("decoded bytes", len)?];
        self.decode_into(layout, stored, range, &mut out)?;
        Ok(out)
    }

    /// Decodes as [`Decoder::decode_range`] into `out`, which is as long as the range.
    ///
    /// # Errors
    ///
    /// As `decode_range`, and `InvalidArgument` when `out` has another length.
    pub fn decode_into(
        &mut self,
        layout: &Layout,
        stored: &StoredParts<'_>,
        range: Range<u64>,
        out: &mut [u8],
    ) -> Result<(), BloscError> {
        check_len(out, layout.check_range(&range)?)?;
        match layout.header().body() {
            Body::Special(Special::Zeros | Special::Unwritten) => out.fill(0),
            Body::Special(Special::Nan) => {
                let nan = if out.is_empty() || layout.header().fields().typesize == 4 {
                    F32_NAN.as_slice()
                } else {
                    &F64_NAN
                };
                repeat(nan, range.start, out);
            }
            Body::Special(Special::Value(bytes)) => {
                let value = stored.require_span(layout.body_range(0..bytes.into()))?;
                repeat(value, range.start, out);
            }
            Body::Raw => out.copy_from_slice(stored.require_span(layout.body_range(range))?),
            Body::Blocks => self.decode_blocks(layout, stored, range, out)?,
        }
        Ok(())
    }

    /// Opens the bytes `range`, from which parts are copied. It is faster than decoding them if the
    /// range is one block and only a part of it is needed, or its parts go to several places.
    ///
    /// # Errors
    ///
    /// As [`Decoder::decode_range`].
    pub fn open_range<'d>(
        &'d mut self,
        layout: &Layout,
        stored: &StoredParts<'_>,
        range: Range<u64>,
    ) -> Result<OpenedRange<'d>, BloscError> {
        let len = layout.check_range(&range)?;
        let len = self.check_cap("decoded bytes", len)?;
        let mut bytes = core::mem::take(&mut self.buffers.opened);
        bytes.resize(len, 0);
        let width = match Shuffled::find(layout, &range) {
            None => self.decode_into(layout, stored, range, &mut bytes).map(|()| 1),
            Some(block) => self.decode_shuffled(layout, stored, &block, &mut bytes),
        };
        self.buffers.opened = bytes;
        Ok(OpenedRange::new(&self.buffers.opened, width?))
    }

    /// Decodes a block except for its shuffle, and returns the width of that shuffle.
    fn decode_shuffled(
        &mut self,
        layout: &Layout,
        stored: &StoredParts<'_>,
        shuffled: &Shuffled,
        out: &mut [u8],
    ) -> Result<usize, BloscError> {
        let dictionary =
            layout.dictionary().map_or(Ok(&[][..]), |span| stored.require_span(span))?;
        self.start(layout, dictionary)?;
        let Shuffled { j, shuffle, others } = *shuffled;
        let (start, stored) = stored_block(layout, stored, j)?;
        let Self { buffers, codecs, item_size, .. } = self;
        let block = Block { layout, item_size: *item_size, j, start, stored, first: None };
        block.decode_filtered(&others, codecs, &mut buffers.filtered, out)?;
        Ok(block.filter_block().shuffled_width(shuffle))
    }

    fn decode_blocks(
        &mut self,
        layout: &Layout,
        stored: &StoredParts<'_>,
        range: Range<u64>,
        out: &mut [u8],
    ) -> Result<(), BloscError> {
        let header = layout.header();
        let blocks = layout.blocks_needed(range.clone());
        if blocks.is_empty() {
            return Ok(());
        }
        let dictionary =
            layout.dictionary().map_or(Ok(&[][..]), |span| stored.require_span(span))?;
        let size = self.start(layout, dictionary)?;
        let Self { buffers: Buffers { filtered, partial, first, .. }, codecs, item_size, .. } =
            self;
        let mut decode = |j, first: Option<&[u8]>, out: &mut [u8]| {
            let (start, stored) = stored_block(layout, stored, j)?;
            Block { layout, item_size: *item_size, j, start, stored, first }
                .decode(codecs, filtered, out)
        };

        let delta = header.needs_first_block();
        if delta {
            first.resize(size.min(num::usize_from_u32(header.nbytes())), 0);
            decode(0, None, first)?;
        }
        let mut rest = out;
        for j in blocks {
            let (before, len) = layout.block(j).ok_or_else(|| refuse_block(j))?;
            let block_range = part(&range, before, len);
            // The blocks cover the range, and `out` has its length.
            let (target, after) = rest.split_at_mut_checked(block_range.len()).unwrap_or_default();
            rest = after;
            let first = delta.then_some(first.as_slice()).filter(|_| j > 0);
            if target.len() == num::usize_from_u32(len) {
                decode(j, first, target)?;
            } else {
                partial.resize(num::usize_from_u32(len), 0);
                decode(j, first, partial)?;
                // The range is inside the block, and has the length of the target.
                target.copy_from_slice(partial.get(block_range).unwrap_or_default());
            }
        }
        Ok(())
    }

    /// Prepares for the blocks of one chunk, and returns the size of a block.
    fn start(&mut self, layout: &Layout, dictionary: &[u8]) -> Result<usize, BloscError> {
        let size = self.check_cap("block bytes", layout.header().blocksize().into())?;
        self.codecs.start(layout.header().codec(), dictionary)?;
        Ok(size)
    }

    fn check_cap(&self, field: &'static str, len: u64) -> Result<usize, BloscError> {
        let cap = Expected::AtMost(self.cap.into());
        match usize::try_from(len) {
            Ok(short) if len <= self.cap => Ok(short),
            Ok(_) | Err(_) => Err(BloscError::request(Class::LimitExceeded, field, cap, len)),
        }
    }
}

/// One block, and the inputs of its decoding.
struct Block<'a> {
    layout: &'a Layout,
    item_size: Option<u32>,
    j: u32,
    start: u64, // offset of `stored` in the chunk
    stored: &'a [u8],
    first: Option<&'a [u8]>, // the decoded block 0, for all others
}

impl Block<'_> {
    /// Decodes into `out`, which is as long as the block, with `filtered` for intermediate steps.
    fn decode(
        &self,
        codecs: &mut CodecState,
        filtered: &mut Vec<u8>,
        out: &mut [u8],
    ) -> Result<(), BloscError> {
        self.decode_filtered(&self.layout.header().filters(), codecs, filtered, out)
    }

    /// Decodes and undoes the filters of `slots`: all of them, or all after the first.
    fn decode_filtered(
        &self,
        slots: &[FilterSlot],
        codecs: &mut CodecState,
        filtered: &mut Vec<u8>,
        out: &mut [u8],
    ) -> Result<(), BloscError> {
        let moves = slots.iter().filter(|slot| filter::needs_buffer(slot.filter)).count();
        filtered.resize(if moves > 0 { out.len() } else { 0 }, 0);

        // Filters that move bytes alternate between the two buffers, so that the last one writes to
        // `out`.
        let (mut from, mut to) = if moves % 2 == 0 {
            (&mut *out, filtered.as_mut_slice())
        } else {
            (filtered.as_mut_slice(), &mut *out)
        };
        stream::decode(codecs, self.layout.header(), self.j, self.stored, from)
            .map_err(|fault| fault.with_block(self.j, self.start))?;
        let block = self.filter_block();
        for slot in slots.iter().rev() {
            if filter::needs_buffer(slot.filter) {
                block.undo_moving(*slot, from, to);
                core::mem::swap(&mut from, &mut to);
            } else if slot.filter != Filter::None {
                block.undo_in_place(*slot, from);
            }
        }
        Ok(())
    }

    /// Returns the properties of a block that filters need.
    fn filter_block(&self) -> filter::Block<'_> {
        let fields = self.layout.header().fields();
        filter::Block {
            version: fields.version,
            typesize: num::usize_from_u32(fields.typesize.into()),
            item_size: self.item_size.map(num::usize_from_u32),
            first: self.first,
        }
    }
}

/// A block that is decoded independently and whose first filter is a shuffle.
struct Shuffled {
    j: u32,
    shuffle: FilterSlot,
    others: [FilterSlot; FILTER_SLOTS], // after it
}

impl Shuffled {
    /// Returns the block that equals `range`, if it is of this type.
    fn find(layout: &Layout, range: &Range<u64>) -> Option<Self> {
        let header = layout.header();
        let j = u32::try_from(range.start.checked_div(header.blocksize().into())?).ok()?;
        let (start, len) = layout.block(j)?;
        let block = start..start.checked_add(len.into())?;
        if header.body() != Body::Blocks || block != *range || header.needs_first_block() {
            return None;
        }
        let mut others = header.filters();
        let first = others.iter_mut().find(|slot| slot.filter != Filter::None)?;
        let shuffle = core::mem::take(first);
        (shuffle.filter == Filter::Shuffle).then_some(Self { j, shuffle, others })
    }
}

/// Returns the start of block `j` in the chunk, and its stored bytes.
fn stored_block<'a>(
    layout: &Layout,
    stored: &StoredParts<'a>,
    j: u32,
) -> Result<(u64, &'a [u8]), BloscError> {
    let span = layout.span(j).ok_or_else(|| refuse_block(j))?;
    Ok((span.start, stored.require_span(span)?))
}

fn refuse_block(j: u32) -> BloscError {
    let expected = Expected::Rule("a block of the chunk");
    BloscError::request(Class::InvalidArgument, "block", expected, j)
}

/// Returns the bytes of a block of `len` bytes, `before` bytes into the chunk, that are in `range`.
fn part(range: &Range<u64>, before: u64, len: u32) -> Range<usize> {
    // The range may begin before the block and end after it.
    let inside = |at: u64| num::saturating_usize(at.saturating_sub(before).min(len.into()));
    inside(range.start)..inside(range.end)
}

/// Fills `out` with the bytes `at` bytes into an endless repetition of `value`.
fn repeat(value: &[u8], at: u64, out: &mut [u8]) {
    // A value has at least one byte, and the remainder is below its length.
    let skipped = at.checked_rem(num::to_u64(value.len())).map_or(0, num::saturating_usize);
    for (byte, value) in out.iter_mut().zip(value.iter().cycle().skip(skipped)) {
        *byte = *value;
    }
}

fn check_len(out: &[u8], len: u64) -> Result<(), BloscError> {
    let found = num::to_u64(out.len());
    if found == len {
        return Ok(());
    }
    let expected = Expected::Exactly(len.into());
    Err(BloscError::request(Class::InvalidArgument, "length of output", expected, found))
}

const F32_NAN: [u8; 4] = [0, 0, 0xc0, 0x7f];
const F64_NAN: [u8; 8] = [0, 0, 0, 0, 0, 0, 0xf8, 0x7f];

#[cfg(test)]
mod tests;
