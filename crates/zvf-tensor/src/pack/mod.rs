//! Packing a whole store into one `.tet` file, and unpacking it.
//!
//! ```text
//! document of a node     -> zvf/store.json
//! array of cells         -> its payloads end to end, and a table of where each is
//! array of rows          -> the same, with the number of the row
//! array of items         -> a tensor of its shape and chunks
//! ```
//!
//! The document of an array determines its layout: items of fixed or variable size; one item per
//! chunk, or many. So a store of any version is packed, and unpacked into the same documents and
//! contents. Compressed data is compressed again, possibly to other bytes if the library differs.
//!
//! The names and the order of datasets are in `zvf_tet::pack`, reading a pack in
//! `zvf_store::Store`, which opens it like any store.

mod options;
mod plan;
mod unpack;
mod write;

pub use options::PackOptions;
pub use unpack::{UnpackCounts, unpack};
pub use write::{PackCounts, pack};
