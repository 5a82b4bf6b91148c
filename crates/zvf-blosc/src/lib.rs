//! Blosc 1 and Blosc2 chunks, decoded block by block, and encoded.
//!
//! A chunk is a header, a table of block positions and independently filtered and compressed
//! blocks. So a part of a chunk needs a part of its bytes: [`parse_header`] reads 16 or 32 of them,
//! a [`Layout`] needs the table, [`Layout::spans_needed`] lists the rest, and a [`Decoder`] decodes
//! the requested bytes. With the whole chunk in memory, [`Chunk`] does all of it.
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
//! * Any input gives bytes or a [`BloscError`]. Memory is bounded by the caller's cap: a length
//!   that the chunk claims is first compared with it, or with the available bytes.
//! * Codecs: BloscLZ, LZ4, zlib, Zstandard. Snappy and registered codecs are refused as
//!   `Unsupported`, and so are chunks with blocks of varying length.
//! * Filters: all reversible ones, and those with nothing to undo.
//!
//! * An [`Encoder`] writes chunks of both versions, with blocks of the requested size.
//!
//! Not here: storage of chunks.
//!
//! # Features
//!
//! `zstd` (default) decodes Zstandard with its C library. `ruzstd` decodes it in Rust if `zstd` is
//! off. `fast-codecs` uses the C library of LZ4 and vector code for shuffles, with a few lines of
//! unsafe code; without it there is none. Decoding gives the same bytes with it and without; LZ4
//! chunks are encoded to other bytes.
#![cfg_attr(not(feature = "fast-codecs"), forbid(unsafe_code))]
#![cfg_attr(
    not(test),
    deny(clippy::arithmetic_side_effects, clippy::as_conversions, clippy::indexing_slicing)
)]

// Each `saturating_` operation has a bound that was checked before: lengths and positions are those
// of bytes in memory, or of a chunk, which has fewer than 2^31. Others are explained beside them.

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
mod prefix;
mod stored;
mod stream;

pub use chunk::Chunk;
pub use decode::Decoder;
pub use encode::{Blosc2Settings, Compressor, Encoder, Settings, Shuffle, constant_chunk};
pub use error::{BlockFault, BloscError, RequestFault};
pub use layout::{Layout, merge_spans, parse_header};
pub use opened::OpenedRange;
pub use stored::StoredParts;
