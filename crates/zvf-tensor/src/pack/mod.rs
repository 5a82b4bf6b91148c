//! A whole store in one `.tet` file, and back.
//!
//! ```text
//! document of a node     -> zvf/store.json
//! array of cells         -> its payloads end to end, and a table of where each is
//! array of rows          -> the same, with the number of the row
//! array of items         -> a tensor of its shape and chunks
//! ```
//!
//! What an array is follows from its document: items of one size, or of any length; chunks of one item, or of
//! many. So a store of any version is packed, as it is, and unpacked into the same documents and contents.
//! Bytes that were compressed are compressed again, which another library may do differently.
//!
//! Not here: where the datasets lie and what they are called (`zvf_tet::pack`), and reading a pack
//! (`zvf_store::Store` opens it like any store).

mod plan;
mod unpack;
mod write;

pub use unpack::{Unpacked, unpack};
pub use write::{PackOptions, Packed, pack};
