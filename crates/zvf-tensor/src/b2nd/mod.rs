//! Caterva and B2ND arrays: frames of Blosc2 chunks, read down to the blocks that a slice needs.
//!
//! ```text
//! open     header and tail, the offsets chunk           copied, then checked
//! slice    front of each touched chunk -> its blocks    many chunks at once, blocks decoded in parallel
//! ```
//!
//! A frame is a file, a part of a larger file, an object, bytes in memory, or a directory with a file for
//! each chunk. Names of chunk files are made from numbers; nothing in a frame can name another path.
//!
//! Not here: the bytes of the format (`zvf_format::caterva`), blocks (`zvf-blosc`).

mod fetch;
mod frame;
mod values;

pub use frame::BlockArray;
pub use values::BlockValues;
