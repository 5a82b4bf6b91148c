//! The layouts of arrays in files for each format version, behind types that hide the version.
//!
//! ```text
//! array      chunks by their index, in objects or shards: what the other three are views of
//! cells      chunks of spatial arrays                  an array (C), tiny (A, B), packed in a .tet
//! rows       manifests, groups, names                  vlen-bytes arrays, or data and offsets
//! dense      attributes, ids, numbers                  numeric arrays, or data with a shape
//! ```
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::as_conversions))]

mod array;
mod blocks;
mod cells;
mod dense;
mod fill;
mod grid;
mod names;
mod packed;
mod part;
mod presence;
mod rows;
mod shard;
mod span;
mod table;
mod tables;
#[cfg(test)]
mod tests;
mod tiny;
mod utf32;

pub(crate) use array::{ChunkArray, Located};
pub use cells::Cells;
pub use dense::DenseArray;
pub use fill::fill_item;
pub(crate) use names::chunk_folder;
pub use names::{name_chunk, parse_chunk_name};
pub(crate) use presence::chunk_grid;
pub use rows::Rows;
pub use table::{KeyFinder, KeyTable};
pub(crate) use tables::SharedTables;
