//! Encoding of Blosc2 chunks.
//!
//! ```text
//! 32              header: version 5, extended; filters in their slots
//! 4 for each      positions of the blocks
//! ..              blocks in their order, each of one stream, or of one for each byte of an item:
//!                 i32 0                 all zero
//!                 i32 -v, token 1       all bytes are v
//!                 i32 n, n bytes        codec data, or the plain bytes when those are not longer
//! ```
//!
//! If all items are equal, the chunk is a header and at most one item. If compression gains
//! nothing, the body is the plain bytes. Only the filter that truncates precision is lossy, and
//! only as the first one: readers then get the truncated values, even in an uncompressed chunk. The
//! output is deterministic.
//!
//! Dictionaries, and filters and codecs that need further libraries, are not supported.

use zvf_b2nd::{
    ChunkFields, ChunkHeader, ExtendedFields, FILTER_SLOTS, Filter, FilterSlot, Special,
};
use zvf_format::num;
use zvf_format::{Class, Expected};

use super::{CODEC_FORMAT, Compressor, Encoder, ONE_STREAM, RAW, check_len, stored_len};
use crate::error::BloscError;
use crate::filter;

/// How a Blosc2 chunk is encoded.
///
/// ```
/// use zvf_blosc::{Blosc2Settings, Compressor};
///
/// let settings = Blosc2Settings { typesize: 8, ..Blosc2Settings::default() };
/// assert_eq!((settings.compressor, settings.level), (Compressor::Zstd, 5));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blosc2Settings {
    /// The compressor of streams.
    pub compressor: Compressor,
    /// The compression level: 0 none, 9 best.
    pub level: u8,
    /// The filters before compression, first slot first.
    pub filters: [FilterSlot; FILTER_SLOTS],
    /// Bytes of an item, not 0; 1 for items of more than 255.
    pub typesize: u8,
    /// Bytes of a block.
    pub block_size: u32,
    /// Whether a full block is one stream for each byte of an item: worthwhile for LZ4 and
    /// `BloscLZ` after a shuffle. Small blocks are never split.
    pub split: bool,
}

impl Default for Blosc2Settings {
    /// Returns Zstandard at level 5 over shuffled items of four bytes, in blocks of 16 KiB that are
    /// not split.
    fn default() -> Self {
        let shuffle = FilterSlot { filter: Filter::Shuffle, meta: 0 };
        let mut filters = [FilterSlot::default(); FILTER_SLOTS];
        if let Some(last) = filters.last_mut() {
            *last = shuffle;
        }
        Self {
            compressor: Compressor::Zstd,
            level: 5,
            filters,
            typesize: 4,
            block_size: 16 << 10,
            split: false,
        }
    }
}

impl Encoder {
    /// Encodes a Blosc2 chunk of `plain`.
    ///
    /// ```
    /// use zvf_blosc::{Blosc2Settings, Chunk, Encoder};
    ///
    /// let plain: Vec<u8> = (0..10_000_u32).flat_map(u32::to_le_bytes).collect();
    /// let bytes = Encoder::default().encode_blosc2(&plain, &Blosc2Settings::default())?;
    /// let chunk = Chunk::parse(&bytes)?;
    /// assert_eq!((chunk.header().fields().version, chunk.header().block_count()), (5, 3));
    /// assert_eq!(chunk.decode_range(4000..4004, 1 << 20)?, 1000_u32.to_le_bytes());
    /// # Ok::<(), zvf_blosc::BloscError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `LimitExceeded` for more bytes than a chunk can have; `InvalidArgument` for a level above 9,
    /// items or blocks of 0 bytes, or an invalid truncation of precision; `Unsupported` for an
    /// unsupported filter, or for Zstandard if it is not built in.
    pub fn encode_blosc2(
        &mut self,
        plain: &[u8],
        settings: &Blosc2Settings,
    ) -> Result<Vec<u8>, BloscError> {
        check_len(plain.len(), MAX_CHUNK_BYTES)?;
        check(settings)?;
        let settings = &with_lane_counts(settings);
        let cut = cut(plain, settings)?;
        let plain = cut.as_deref().unwrap_or(plain);
        if let Some((special, value)) = find_repeated_value(plain, settings.typesize) {
            return constant_chunk(special, value, plain.len(), settings);
        }
        if settings.level > 0
            && let Some(chunk) = self.blocks(plain, settings)?
        {
            return Ok(chunk);
        }
        let mut out = header(settings, plain.len(), plain.len().saturating_add(HEADER), RAW, 0)?;
        out.extend_from_slice(plain);
        Ok(out)
    }

    /// Returns the chunk with its blocks, or `None` when that gains nothing.
    fn blocks(
        &mut self,
        plain: &[u8],
        settings: &Blosc2Settings,
    ) -> Result<Option<Vec<u8>>, BloscError> {
        let block = block_len(settings, plain.len());
        let raw = plain.len().saturating_add(HEADER);
        let (typesize, full) = (usize::from(settings.typesize), num::to_u64(block));
        let items = block.checked_div(typesize).unwrap_or(0); // an item has bytes
        let splits = settings.split
            && full.checked_rem(settings.typesize.into()) == Some(0)
            && items >= SMALLEST_STREAM;

        let table = plain.len().div_ceil(block).saturating_mul(4).saturating_add(HEADER); // compared next
        if table >= raw {
            return Ok(None);
        }
        let mut out = vec![0; table];
        let mut positions = Vec::with_capacity(table);
        let first = plain.chunks(block).next().unwrap_or_default();
        for (number, bytes) in plain.chunks(block).enumerate() {
            if out.len() >= raw {
                return Ok(None);
            }
            positions.extend_from_slice(&stored_len(out.len())?.to_le_bytes());
            let first = (number > 0).then_some(first);
            let filtered = self.apply_filters(bytes, first, settings);
            let is_split = splits && filtered.len() == block;
            let stream = if is_split { items } else { filtered.len() };
            for stream in filtered.chunks(stream.max(1)) {
                self.stream_or_run(stream, settings, &mut out)?;
            }
            self.filtered = filtered;
        }
        if out.len() >= raw {
            return Ok(None);
        }
        let flags = if splits { 0 } else { ONE_STREAM };
        let mut front = header(settings, plain.len(), out.len(), flags, 0)?;
        front.extend_from_slice(&positions);
        for (byte, right) in out.iter_mut().zip(front) {
            *byte = right;
        }
        Ok(Some(out))
    }

    /// Applies the filters to the block, in a reused buffer.
    fn apply_filters(
        &mut self,
        block: &[u8],
        first: Option<&[u8]>,
        settings: &Blosc2Settings,
    ) -> Vec<u8> {
        let (mut from, mut to) =
            (core::mem::take(&mut self.filtered), core::mem::take(&mut self.moved));
        from.clear();
        from.extend_from_slice(block);
        to.resize(block.len(), 0);
        let typesize = usize::from(settings.typesize);
        let about = filter::Block { version: VERSION, typesize, item_size: None, first };
        for slot in settings.filters {
            if filter::needs_buffer(slot.filter) {
                about.apply_moving(slot, &from, &mut to);
                core::mem::swap(&mut from, &mut to);
            } else {
                about.apply_in_place(slot, &mut from);
            }
        }
        self.moved = to;
        from
    }

    /// Appends one stream, or only the byte that it repeats.
    fn stream_or_run(
        &mut self,
        bytes: &[u8],
        settings: &Blosc2Settings,
        out: &mut Vec<u8>,
    ) -> Result<(), BloscError> {
        if let Some(value) = one_byte(bytes) {
            out.extend_from_slice(&i32::from(value).saturating_neg().to_le_bytes());
            if value != 0 {
                out.push(RUN);
            }
            return Ok(());
        }
        self.stream(bytes, settings.compressor, settings.level, out)
    }
}

/// Encodes a chunk of `nbytes` bytes that are all zero, NaN, a repeated `value`, or unwritten.
///
/// ```
/// use zvf_blosc::{Blosc2Settings, Chunk, constant_chunk};
/// use zvf_b2nd::Special;
///
/// let settings = Blosc2Settings { typesize: 2, ..Blosc2Settings::default() };
/// let chunk = constant_chunk(Special::Value(2), b"ab", 6, &settings)?;
/// assert_eq!(chunk.len(), 34);
/// assert_eq!(Chunk::parse(&chunk)?.decode_all(6)?, b"ababab");
/// # Ok::<(), zvf_blosc::BloscError>(())
/// ```
///
/// # Errors
///
/// `LimitExceeded` for more bytes than a chunk can have, and as
/// [`ChunkHeader::new`](zvf_b2nd::ChunkHeader::new) when the value does not fit.
pub fn constant_chunk(
    special: Special,
    value: &[u8],
    nbytes: usize,
    settings: &Blosc2Settings,
) -> Result<Vec<u8>, BloscError> {
    let (code, value) = match special {
        Special::Zeros => (1, &[][..]),
        Special::Nan => (2, &[][..]),
        Special::Value(_) => (3, value),
        Special::Unwritten => (4, &[][..]),
    };
    let cbytes = HEADER.saturating_add(value.len());
    let mut out = header(settings, nbytes, cbytes, 0, code << 4)?;
    out.extend_from_slice(value);
    Ok(out)
}

fn header(
    settings: &Blosc2Settings,
    nbytes: usize,
    cbytes: usize,
    flags: u8,
    blosc2_flags: u8,
) -> Result<Vec<u8>, BloscError> {
    let mut extended = ExtendedFields {
        compressor: settings.compressor.number(),
        blosc2_flags,
        ..ExtendedFields::default()
    };
    let slots = extended.filters.iter_mut().zip(&mut extended.filter_metas);
    for ((id, meta), slot) in slots.zip(settings.filters) {
        (*id, *meta) = (slot.filter.id(), slot.meta);
    }
    let header = ChunkHeader::new(ChunkFields {
        version: VERSION,
        codec_version: CODEC_FORMAT,
        flags: EXTENDED | flags | settings.compressor.code() << 5,
        typesize: settings.typesize,
        nbytes: check_len(nbytes, MAX_CHUNK_BYTES)?,
        blocksize: stored_len(block_len(settings, nbytes))?,
        cbytes: stored_len(cbytes)?,
        extended: Some(extended),
    })?;
    Ok(header.encode())
}

/// Returns the bytes of a block, clipped to the chunk.
fn block_len(settings: &Blosc2Settings, nbytes: usize) -> usize {
    num::usize_from_u32(settings.block_size).min(nbytes.max(1))
}

/// Returns the item whose repetition is the whole input.
fn find_repeated_value(plain: &[u8], typesize: u8) -> Option<(Special, &[u8])> {
    let item = plain.get(..typesize.into())?;
    let after = plain.get(typesize.into()..)?;
    let divides = plain.len().checked_rem(typesize.into()) == Some(0);
    let before = plain.get(..after.len())?;
    match one_byte(plain) {
        Some(0) => Some((Special::Zeros, &[])),
        _ if divides && before == after && !after.is_empty() => {
            Some((Special::Value(typesize.into()), item))
        }
        _ => None,
    }
}

/// Returns the byte that all of them equal.
fn one_byte(bytes: &[u8]) -> Option<u8> {
    let (first, rest) = bytes.split_first()?;
    let same = bytes.get(..rest.len()) == Some(rest);
    same.then_some(*first)
}

/// Sets the number of lanes for each byte delta: without it a reader takes the size of an item,
/// which may be more than a chunk can state.
fn with_lane_counts(settings: &Blosc2Settings) -> Blosc2Settings {
    let mut with_lanes = *settings;
    for slot in with_lanes.filters.iter_mut().filter(|slot| slot.filter == Filter::ByteDelta) {
        if slot.meta == 0 {
            slot.meta = settings.typesize;
        }
    }
    with_lanes
}

/// Truncates the precision of the bytes, if that is requested.
fn cut(plain: &[u8], settings: &Blosc2Settings) -> Result<Option<Vec<u8>>, BloscError> {
    let mut used = settings.filters.iter().filter(|slot| slot.filter != Filter::None);
    let first = used.next().filter(|slot| slot.filter == Filter::TruncatePrecision);
    let refused = |rule, found| {
        let class = Class::InvalidArgument;
        BloscError::request(class, "precision", Expected::Rule(rule), found)
    };
    if used.any(|slot| slot.filter == Filter::TruncatePrecision) {
        return Err(refused("cut by the first filter, once", "another place"));
    }
    let Some(slot) = first else { return Ok(None) };
    let mut bytes = plain.to_vec();
    if filter::cut_precision(settings.typesize.into(), slot.meta, &mut bytes) {
        return Ok(Some(bytes));
    }
    Err(refused("1 bit or more of the mantissa of floats of 4 or 8 bytes", "others"))
}

fn check(settings: &Blosc2Settings) -> Result<(), BloscError> {
    let class = Class::InvalidArgument;
    if settings.level > 9 {
        return Err(BloscError::request(class, "level", Expected::AtMost(9), settings.level));
    }
    for (field, found) in
        [("typesize", settings.typesize.into()), ("block size", settings.block_size)]
    {
        if found == 0 {
            return Err(BloscError::request(class, field, Expected::AtLeast(1), found));
        }
    }
    let unwritten =
        |slot: &FilterSlot| matches!(slot.filter, Filter::TruncateIntegers | Filter::Unknown(_));
    if settings.filters.iter().any(unwritten) {
        return Err(BloscError::Unsupported("writing this filter"));
    }
    Ok(())
}

const HEADER: usize = 32;
const VERSION: u8 = 5;
const EXTENDED: u8 = 0b101;
/// The token after the length of a run.
const RUN: u8 = 1;
/// Shorter streams are not worth their length fields.
const SMALLEST_STREAM: usize = 32;
/// The largest number of decoded bytes of a chunk, which leaves room for the header.
const MAX_CHUNK_BYTES: i32 = i32::MAX - 32;

#[cfg(test)]
mod tests;
