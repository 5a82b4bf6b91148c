//! From stored blocks to decoded bytes.
//!
//! ```text
//! stored bytes -> streams -> filters, last slot first -> decoded block
//! ```
//!
//! Blocks are independent, with one exception: under the delta filter each is the difference to the decoded block 0. A
//! decoder reuses its buffers and codec states and never holds more than the cap for any one of them: the answer, a
//! block before its filters, a partly decoded block, and block 0.

use core::ops::Range;

use zvf_b2nd::{Body, Filter, FilterSlot, Special};
use zvf_format::num;
use zvf_format::{Class, Expected};

use crate::codec::CodecState;
use crate::error::BloscError;
use crate::filter;
use crate::layout::Layout;
use crate::opened::Opened;
use crate::stored::Stored;
use crate::stream;

/// Decodes chunks, one after the other.
///
/// ```
/// use zvf_blosc::{Decoder, Layout, Stored};
///
/// // Two raw blocks of 4 bytes, of which only the second is fetched.
/// let chunk = b"\x02\x01\x30\x01\x08\0\0\0\x04\0\0\0\x28\0\0\0\x18\0\0\0\x20\0\0\0\x04\0\0\0abcd\x04\0\0\0efgh";
/// let layout = Layout::parse(&chunk[..24])?;
/// assert_eq!(layout.spans_needed(5..7), [32..40]);
/// let stored = Stored::parts(vec![(32, &chunk[32..])]);
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
    #[must_use]
    pub fn new(cap: u64) -> Self {
        Self { cap, item_size: None, buffers: Buffers::default(), codecs: CodecState::default() }
    }

    /// Sets the size of an item where it is known: a chunk can only state up to 255 bytes, and one filter needs it.
    #[must_use]
    pub fn with_item_size(self, item_size: u32) -> Self {
        Self { item_size: Some(item_size), ..self }
    }

    /// Decodes all bytes of a chunk.
    ///
    /// # Errors
    ///
    /// As [`Decoder::decode_range`].
    pub fn decode_all(
        &mut self,
        layout: &Layout,
        stored: &Stored<'_>,
    ) -> Result<Vec<u8>, BloscError> {
        self.decode_range(layout, stored, 0..layout.decoded_len())
    }

    /// Decodes the bytes `range` of a chunk, of which `stored` has at least [`Layout::spans_needed`] of that range.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` when the range is outside of the chunk or a span is missing; `LimitExceeded` when the range or
    /// a block exceeds the cap; `Unsupported` for a codec that is not built in; otherwise the fault of a block.
    pub fn decode_range(
        &mut self,
        layout: &Layout,
        stored: &Stored<'_>,
        range: Range<u64>,
    ) -> Result<Vec<u8>, BloscError> {
        layout.check_range(&range)?;
        let len = range.end.saturating_sub(range.start);
        let mut out = vec![0; self.within_cap("decoded bytes", len)?];
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
        stored: &Stored<'_>,
        range: Range<u64>,
        out: &mut [u8],
    ) -> Result<(), BloscError> {
        layout.check_range(&range)?;
        check_len(out, range.end.saturating_sub(range.start))?;
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
            Body::Special(Special::Value(_)) => {
                let value = layout.value().map_or(Ok(&[][..]), |span| stored.need(span))?;
                repeat(value, range.start, out);
            }
            Body::Raw => {
                let start = range.start.saturating_add(layout.header().header_len().into());
                let end = range.end.saturating_add(layout.header().header_len().into());
                out.copy_from_slice(stored.need(start..end)?);
            }
            Body::Blocks => self.decode_blocks(layout, stored, range, out)?,
        }
        Ok(())
    }

    /// Opens the bytes `range`, to take parts from: faster than decoding them when the range is one block of which a
    /// part is needed, or which goes to several places.
    ///
    /// # Errors
    ///
    /// As [`Decoder::decode_range`].
    pub fn open_range<'d>(
        &'d mut self,
        layout: &Layout,
        stored: &Stored<'_>,
        range: Range<u64>,
    ) -> Result<Opened<'d>, BloscError> {
        layout.check_range(&range)?;
        let len = range.end.saturating_sub(range.start);
        let len = self.within_cap("decoded bytes", len)?;
        let mut bytes = core::mem::take(&mut self.buffers.opened);
        bytes.resize(len, 0);
        let width = match shuffled_block(layout, &range) {
            None => self.decode_into(layout, stored, range, &mut bytes).map(|()| 1),
            Some((j, slot)) => self.decode_shuffled(layout, stored, j, slot, &mut bytes),
        };
        self.buffers.opened = bytes;
        Ok(Opened::new(&self.buffers.opened, width?))
    }

    /// Decodes block `j` except its shuffle in `slot`, and returns the width of that.
    fn decode_shuffled(
        &mut self,
        layout: &Layout,
        stored: &Stored<'_>,
        j: u32,
        slot: usize,
        out: &mut [u8],
    ) -> Result<usize, BloscError> {
        let dictionary = layout.dictionary().map_or(Ok(&[][..]), |span| stored.need(span))?;
        self.start(layout, dictionary)?;
        let span = layout.span(j).unwrap_or_default();
        let (start, stored) = (span.start, stored.need(span)?);
        let Self { buffers, codecs, item_size, .. } = self;
        let block = Block { layout, item_size: *item_size, j, start, stored, first: None };
        let (slots, after) = (layout.header().filters(), slot.saturating_add(1));
        let after = slots.get(after..).unwrap_or_default();
        block.decode_filtered(after, codecs, &mut buffers.filtered, out)?;
        let slot = slots.get(slot).copied().unwrap_or_default();
        Ok(block.filter_block().shuffled_width(slot))
    }

    /// Decodes block `j` from its own stored bytes, without filters that need another block, and without a dictionary.
    ///
    /// # Errors
    ///
    /// As [`Decoder::decode_into`]; `InvalidArgument` when the body is not blocks, the block does not exist, or it
    /// needs block 0 or a dictionary, which [`Decoder::decode_into`] provides.
    pub fn decode_block(
        &mut self,
        layout: &Layout,
        j: u32,
        stored: &[u8],
        out: &mut [u8],
    ) -> Result<(), BloscError> {
        let header = layout.header();
        let (Some(span), Some(len)) = (layout.span(j), header.block_len(j)) else {
            let expected = Expected::Rule("a block of the chunk");
            return Err(BloscError::request(Class::InvalidArgument, "block", expected, j));
        };
        check_len(out, len.into())?;
        if (header.needs_first_block() && j > 0) || layout.dictionary().is_some() {
            let expected = Expected::Rule("a block that can be decoded by itself");
            return Err(BloscError::request(Class::InvalidArgument, "block", expected, j));
        }
        self.start(layout, &[])?;
        let Self { buffers, codecs, item_size, .. } = self;
        Block { layout, item_size: *item_size, j, start: span.start, stored, first: None }.decode(
            codecs,
            &mut buffers.filtered,
            out,
        )
    }

    fn decode_blocks(
        &mut self,
        layout: &Layout,
        stored: &Stored<'_>,
        range: Range<u64>,
        out: &mut [u8],
    ) -> Result<(), BloscError> {
        let header = layout.header();
        let blocks = layout.blocks_needed(range.clone());
        if blocks.is_empty() {
            return Ok(());
        }
        let dictionary = layout.dictionary().map_or(Ok(&[][..]), |span| stored.need(span))?;
        let size = self.start(layout, dictionary)?;
        let Self { buffers: Buffers { filtered, partial, first, .. }, codecs, item_size, .. } =
            self;
        let mut decode = |j, first: Option<&[u8]>, out: &mut [u8]| {
            let span = layout.span(j).unwrap_or_default();
            let (start, stored) = (span.start, stored.need(span)?);
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
            let before = u64::from(j).saturating_mul(header.blocksize().into());
            let len = header.block_len(j).unwrap_or(0);
            let block_range = part(&range, before, len);
            let (target, after) =
                rest.split_at_mut_checked(block_range.len()).unwrap_or((&mut [], &mut []));
            rest = after;
            let first = delta.then_some(first.as_slice()).filter(|_| j > 0);
            if target.len() == num::usize_from_u32(len) {
                decode(j, first, target)?;
            } else {
                partial.resize(num::usize_from_u32(len), 0);
                decode(j, first, partial)?;
                target.copy_from_slice(partial.get(block_range).unwrap_or_default());
            }
        }
        Ok(())
    }

    /// Prepares for the blocks of one chunk, and returns the size of a block.
    fn start(&mut self, layout: &Layout, dictionary: &[u8]) -> Result<usize, BloscError> {
        let size = self.within_cap("block bytes", layout.header().blocksize().into())?;
        self.codecs.start(layout.header().codec(), dictionary)?;
        Ok(size)
    }

    fn within_cap(&self, field: &'static str, len: u64) -> Result<usize, BloscError> {
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

    /// Decodes and undoes the filters of `slots`, which are the last ones.
    fn decode_filtered(
        &self,
        slots: &[FilterSlot],
        codecs: &mut CodecState,
        filtered: &mut Vec<u8>,
        out: &mut [u8],
    ) -> Result<(), BloscError> {
        let moves = slots.iter().filter(|slot| filter::moves(slot.filter)).count();
        filtered.resize(if moves > 0 { out.len() } else { 0 }, 0);

        // Filters that move bytes alternate between the two buffers, and end in `out`.
        let (mut from, mut to) = if moves % 2 == 0 {
            (&mut *out, filtered.as_mut_slice())
        } else {
            (filtered.as_mut_slice(), &mut *out)
        };
        stream::decode(codecs, self.layout.header(), self.j, self.stored, from)
            .map_err(|fault| fault.in_block(self.j, self.start))?;
        let block = self.filter_block();
        for slot in slots.iter().rev() {
            if filter::moves(slot.filter) {
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

/// Returns the block that equals `range`, and the slot of its first filter, when that is a shuffle and the block is
/// decoded by itself.
fn shuffled_block(layout: &Layout, range: &Range<u64>) -> Option<(u32, usize)> {
    let header = layout.header();
    let j = u32::try_from(range.start.checked_div(header.blocksize().into())?).ok()?;
    let start = u64::from(j).saturating_mul(header.blocksize().into());
    let block = start..start.saturating_add(header.block_len(j)?.into());
    if header.body() != Body::Blocks || block != *range || header.needs_first_block() {
        return None;
    }
    let slots = header.filters();
    let first = slots.iter().position(|slot| slot.filter != Filter::None)?;
    slots.get(first).filter(|slot| slot.filter == Filter::Shuffle).map(|_shuffle| (j, first))
}

/// Returns the bytes of a block of `len` bytes, `before` bytes into the chunk, that are in `range`.
fn part(range: &Range<u64>, before: u64, len: u32) -> Range<usize> {
    let inside = |at: u64| {
        let at = at.saturating_sub(before).min(len.into());
        num::usize_from_u32(u32::try_from(at).unwrap_or(len))
    };
    inside(range.start)..inside(range.end)
}

/// Fills `out` with the bytes `at` bytes into an endless repetition of `value`.
fn repeat(value: &[u8], at: u64, out: &mut [u8]) {
    let skipped = at.checked_rem(num::to_u64(value.len())).unwrap_or(0);
    let skipped = usize::try_from(skipped).unwrap_or(0); // less than a length in memory
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
