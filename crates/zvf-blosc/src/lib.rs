//! Blosc 1 and Blosc2 chunks, decoded block by block, and written.
//!
//! A chunk is a header, a table of block positions and blocks that were filtered and compressed each by
//! itself. So a part of a chunk needs a part of its bytes: [`parse_header`] reads 16 or 32 of them, a
//! [`Layout`] needs the table, [`Layout::spans_needed`] names the rest, and a [`Decoder`] turns the blocks
//! into the bytes asked for. With the whole chunk at hand, [`Chunk`] does all of it.
//!
//! ```
//! use zvf_blosc::Chunk;
//!
//! // Blosc 1, 12 bytes of which all were incompressible.
//! let bytes = b"\x02\x01\x02\x04\x0c\0\0\0\x0c\0\0\0\x1c\0\0\0twelve bytes";
//! let chunk = Chunk::parse(bytes)?;
//! assert_eq!(chunk.decode_range(7..12, 1024)?, b"bytes");
//! # Ok::<(), zvf_blosc::BloscError>(())
//! ```
//!
//! * Any input is answered with bytes or a [`BloscError`]. Memory is bounded by the cap that the caller
//!   gives: a claim in the chunk is compared with it, or with the bytes at hand, before it is acted upon.
//! * Codecs: BloscLZ, LZ4, zlib, Zstandard. Snappy and registered codecs are refused as `Unsupported`, and
//!   so are chunks with blocks of varying length.
//! * Filters: all that can be undone, and those with nothing to undo.
//!
//! * An [`Encoder`] writes chunks of both versions, with blocks of the size asked for.
//!
//! Not here: who stores the chunk.
//!
//! # Features
//!
//! `zstd` (default) decodes Zstandard with its C library. `ruzstd` does it in Rust where `zstd` is off.
//! `fast-codecs` is LZ4 through its C library and vector code for shuffles, with the few lines of unsafe code that
//! takes; without it there are none. Chunks are read alike with it and without; those of LZ4 are written in other
//! bytes.
#![cfg_attr(not(feature = "fast-codecs"), forbid(unsafe_code))]
#![cfg_attr(
    not(test),
    deny(clippy::arithmetic_side_effects, clippy::as_conversions, clippy::indexing_slicing)
)]

mod blosclz;
mod chunk;
mod codec;
mod decode;
mod encode;
mod error;
mod filter;
mod layout;
mod lz4;
mod opened;
mod stored;
mod stream;

pub use chunk::Chunk;
pub use decode::Decoder;
pub use encode::{Blosc2Settings, Compressor, Encoder, Settings, Shuffle, constant_chunk};
pub use error::{BlockFault, BloscError, RequestFault};
pub use layout::{Layout, parse_header};
pub use opened::Opened;
pub use stored::Stored;
