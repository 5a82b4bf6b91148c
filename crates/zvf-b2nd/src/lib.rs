//! Caterva and B2ND arrays: n-dimensional arrays in chunks of blocks, inside Blosc2 frames.
//!
//! ```text
//! frame      header | chunk data | offsets chunk | trailer
//! header     87 fixed bytes, then named metalayers; one of them, `b2nd` or `caterva`, is the array
//! chunk      header of 16 or 32 bytes | block table | blocks
//! ```
//!
//! Headers, metalayers and trailers are msgpack and big-endian; chunks, block tables and chunk
//! offsets are little-endian. An array is divided into chunks of one shape and each chunk into
//! blocks of one shape, so a slice needs only the blocks it meets:
//!
//! 1. [`FixedHeader`] states the length of the header, [`Frame::open`] checks header and tail;
//! 2. the offsets chunk gives a [`ChunkPlace`] for each chunk number;
//! 3. [`BlockGeometry::select`] returns the chunks, blocks and runs of items that a slice touches;
//! 4. [`ChunkHeader`] and [`BlockTable`] give the byte span of each block.
//!
//! Codecs and filters are in `zvf-blosc`, reading files in `zvf-tensor`.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::as_conversions,
        clippy::std_instead_of_core,
        clippy::alloc_instead_of_core
    )
)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(test)]
extern crate std;

// Each `saturating_` operation has a bound that was checked before, as stated beside it or in the
// module header, or its result is compared with a bound next. Differences of 64-bit numbers, and
// their products with 32-bit numbers, fit in `i128`.

mod axes;
mod blocks;
mod chunk;
mod fixed;
mod frame;
mod geometry;
mod header;
mod metalayer;
mod metamap;
mod msgpack;
mod offsets;
mod partition;
mod select;
mod trailer;

pub use axes::{Axes, MAX_AXES};
#[cfg(feature = "alloc")]
pub use blocks::BlockSpans;
pub use blocks::BlockTable;
pub use chunk::{
    BloscCodec, Body, ChunkFields, ChunkHeader, ExtendedFields, FILTER_SLOTS, Filter, FilterSlot,
    Special,
};
pub use fixed::{FixedHeader, FrameFields, FrameKind};
pub use frame::{Container, Frame};
pub use geometry::BlockGeometry;
pub use header::FrameHeader;
pub use metalayer::{Metalayer, MetalayerName};
pub use metamap::Entry;
#[cfg(feature = "alloc")]
pub use offsets::encode_offsets;
pub use offsets::{ChunkFile, ChunkOffsets, ChunkPlace};
pub use partition::Partition;
pub use select::{BlockPart, BlockRun, BlockSelection, ChunkPart};
pub use trailer::FrameTrailer;
