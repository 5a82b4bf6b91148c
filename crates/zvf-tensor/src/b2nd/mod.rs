//! Caterva and B2ND arrays: frames of Blosc2 chunks, read by blocks, and written.
//!
//! ```text
//! open     header and tail, the offsets chunk           copied, then checked
//! slice    front of each touched chunk -> its blocks    many chunks at once, blocks decoded in parallel
//! ```
//!
//! A frame is a file, a part of a larger file, an object, bytes in memory, or a directory with one
//! file per chunk. Names of chunk files are derived from numbers, so a frame cannot refer to
//! another path.
//!
//! Arrays are written whole or chunk by chunk, and edited by writing a new one next to the old: see
//! `write` and `edit`.
//!
//! The bytes of the format are in `zvf_b2nd`, blocks in `zvf-blosc`.

mod edit;
mod fetch;
mod frame;
mod new;
mod slice;
mod values;
mod write;

pub use edit::{BlockEdit, EditCounts};
pub use frame::BlockArray;
pub use new::NewBlocks;
pub use values::BlockValues;
pub use write::{BlockFile, BlockWriter, Constant};
pub(crate) use write::{chunk_box, fill_block};
