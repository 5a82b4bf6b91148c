//! Decodes the codec chains of Zarr: from the stored bytes of a chunk to its payload.
//!
//! ```text
//! array   -> transpose* -> bytes | vlen-bytes -> (zstd | gzip | blosc | crc32c)*  -> stored
//!            with the feature `more-codecs` also the ones named in `more`
//! sharded -> sharding_indexed { a chain as above for each cell; index: bytes, crc32c? }
//! ```
//!
//! Each stream is decoded under a limit, in memory that grows with the decoded bytes and never with
//! the claims of a header. An empty chain costs nothing: the stored bytes are passed on unchanged.
//!
//! Not here: where bytes are stored (`layout`), and the parsing of documents.
#![cfg_attr(
    not(test),
    deny(clippy::arithmetic_side_effects, clippy::as_conversions, clippy::indexing_slicing)
)]

use bytes::Bytes;
use zvf_blosc::Decoder;
use zvf_error::Result;
use zvf_format::num::to_u64;
use zvf_format::{Class, Expected, FormatError, Found, Part};

#[cfg_attr(not(test), expect(clippy::indexing_slicing, reason = "the places are our own"))]
mod batch;
mod blosc;
mod checksum;
mod coding;
mod encode;
mod gzip;
#[cfg(feature = "more-codecs")]
mod more;
#[cfg_attr(not(test), expect(clippy::indexing_slicing, reason = "the places are our own"))]
mod order;
#[cfg_attr(target_arch = "wasm32", path = "zstd_rust.rs")]
mod zstd;

pub(crate) use batch::{Caps, Job, decode_many, spread};
pub(crate) use blosc::{Blocks, header_len};
pub(crate) use coding::{Coding, IndexCoding, Packing};
pub use encode::CodecPipeline;
pub(crate) use encode::{Encoder, is_joined, len};
pub(crate) use order::{Items, swap_items};

/// The cost of reading a part of a chunk.
///
/// ```
/// # use zvf_store::Partial;
/// let dear = |partial| matches!(partial, Partial::Whole);
/// assert!(dear(Partial::Whole) && !dear(Partial::Blocks) && !dear(Partial::Ranges));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Partial {
    /// Only the requested bytes.
    Ranges,
    /// The compressed blocks that contain the requested bytes.
    Blocks,
    /// The whole chunk: its stream is one piece, or has a checksum over all of it.
    Whole,
}

/// Steps from bytes to bytes, in the order of the writer.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    steps: Vec<Step>,
}

/// One codec from bytes to bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Blosc,
    Crc32c,
    Gzip,
    Zstd,
    /// One that zarrs provides.
    #[cfg(feature = "more-codecs")]
    More(Box<more::More>),
}

impl Chain {
    /// Returns the chain of `steps`, in the order of the writer.
    pub(crate) fn new(steps: Vec<Step>) -> Self {
        Self { steps }
    }

    /// Returns whether the stored bytes equal the payload.
    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Returns the cost of reading a part.
    pub(crate) fn part_cost(&self) -> Partial {
        match self.steps.as_slice() {
            [] => Partial::Ranges,
            [Step::Blosc] => Partial::Blocks,
            _ => Partial::Whole,
        }
    }

    /// Decodes `stored`, if the result is at most `cap` bytes.
    pub(crate) fn decode(&self, stored: Bytes, cap: u64, scratch: &mut Scratch) -> Result<Bytes> {
        let mut bytes = stored;
        for (left, step) in self.steps.iter().enumerate().rev() {
            // Intermediate results may be slightly larger than the final one.
            let cap = if left == 0 {
                cap
            } else {
                cap.saturating_add(cap / 8).saturating_add(STEP_OVERHEAD_BYTES)
            };
            bytes = step.decode(bytes, cap, scratch)?;
        }
        match to_u64(bytes.len()) <= cap {
            true => Ok(bytes),
            false => Err(cap_error("chunk", cap, bytes.len()).into()),
        }
    }
}

impl Step {
    fn decode(&self, mut bytes: Bytes, cap: u64, scratch: &mut Scratch) -> Result<Bytes> {
        match self {
            Self::Blosc => Ok(shrink_buffer(blosc::decode(scratch.blosc(cap), &bytes)?)),
            Self::Crc32c => {
                bytes.truncate(checksum::verify_checksum(&bytes)?);
                Ok(bytes)
            }
            Self::Gzip => Ok(shrink_buffer(gzip::decode(&bytes, cap)?)),
            Self::Zstd => Ok(shrink_buffer(scratch.zstd.decode(&bytes, cap)?)),
            #[cfg(feature = "more-codecs")]
            Self::More(more) => more.decode(&bytes),
        }
    }
}

/// Returns the decoded bytes without unused buffer capacity, because the cache charges only the
/// bytes.
fn shrink_buffer(mut decoded: Vec<u8>) -> Bytes {
    if decoded.capacity().saturating_sub(decoded.len()) > decoded.len() / 8 {
        decoded.shrink_to_fit();
    }
    decoded.into()
}

/// Decoder state that is reused from one chunk to the next.
#[derive(Default)]
pub(crate) struct Scratch {
    zstd: zstd::Zstd,
    blosc: Option<(u64, Decoder)>, // the cap it was made with
}

impl Scratch {
    /// Returns a decoder that produces at most `cap` bytes.
    pub(crate) fn blosc(&mut self, cap: u64) -> &mut Decoder {
        let fresh = || (cap, Decoder::new(cap));
        let (_, decoder) = match self.blosc.take_if(|(made_with, _)| *made_with != cap) {
            Some(_other) => self.blosc.insert(fresh()),
            None => self.blosc.get_or_insert_with(fresh),
        };
        decoder
    }
}

/// Refuses decoded bytes beyond `cap`.
fn check_cap(codec: &'static str, decoded: usize, cap: u64) -> Result<(), FormatError> {
    if to_u64(decoded) <= cap {
        return Ok(());
    }
    Err(cap_error(codec, cap, cap.saturating_add(1))) // how much more there would be was not decoded
}

fn cap_error(codec: &'static str, cap: u64, found: impl Into<Found>) -> FormatError {
    stream_error(Class::LimitExceeded, codec, 0, Expected::AtMost(cap.into()), found)
}

/// Returns the error for a byte of what a codec made.
pub(crate) fn stream_error(
    class: Class,
    codec: &'static str,
    at: u64,
    expected: Expected,
    found: impl Into<Found>,
) -> FormatError {
    FormatError::new(class, Part::CodecStream, codec, at, expected, found)
}

/// Frames and checksums of an intermediate codec.
const STEP_OVERHEAD_BYTES: u64 = 64 << 10;
