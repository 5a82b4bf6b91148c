//! Caterva and B2ND arrays: frames of Blosc2 chunks, read down to the blocks that a slice needs, and
//! written.
//!
//! ```text
//! open     header and tail, the offsets chunk           copied, then checked
//! slice    front of each touched chunk -> its blocks    many chunks at once, blocks decoded in parallel
//! ```
//!
//! A frame is a file, a part of a larger file, an object, bytes in memory, or a directory with a file for
//! each chunk. Names of chunk files are made from numbers; nothing in a frame can name another path.
//!
//! Arrays are written whole or chunk by chunk, and changed by writing a new one beside: see `write` and `edit`.
//!
//! Not here: the bytes of the format (`zvf_b2nd`), blocks (`zvf-blosc`).

mod edit;
mod fetch;
mod frame;
mod lent;
mod new;
mod values;
mod write;

pub use edit::{BlockEdit, Edited};
pub use frame::BlockArray;
pub use new::NewBlocks;
pub use values::BlockValues;
pub use write::{BlockFile, BlockWriter, Constant};
