//! Pack: a whole store in one `.tet` file.
//!
//! ```text
//! dataset                 type                        content
//! zvf/store.json          u8 [bytes]                  every group and array document, by path
//! <array path>            its type [rows, ...],       the cells, end to end in the order of their
//!                         or u8 [bytes]               coordinates; one chunk, or split on axis 0
//! <array path>/cells      i64 [cells, R + 2]          coordinates, first row, row count; sorted
//! <array path>            its type, its shape         an array that is not made of cells
//! ```
//!
//! An array is *cells* when its chunks hold any number of rows each, and *dense* when they hold what
//! its shape says. Dense arrays keep shape and chunk shape. Cells do not fit a regular grid; so they
//! are one long dataset and a table that says where each of them is: one binary search and one slice of
//! a map, without a chunk lookup.
//!
//! What is not stored is not there: a cell without rows has no row in the table, an array without cells
//! or without elements has no dataset at all, and its document says what it would have been. Arrays of
//! blobs (manifests, groups, names) are cells of rank 1 in bytes. Types that `.tet` lacks are stored
//! as their bits ([`Carrier`]); the documents keep the true type. Coordinates are those of the array's own
//! chunk keys, and may be negative where keys may.
//!
//! [`Contents`] finds the datasets of an array, [`CellTable`] a cell, [`Documents`] a document.
//!
//! Not here: reading and writing files, what is in a document, and what is in a cell.

mod carrier;
mod cells;
mod contents;
mod documents;

pub use carrier::Carrier;
#[cfg(feature = "alloc")]
pub use cells::encode_cells;
pub use cells::{Cell, CellTable, cells_geometry};
pub use contents::{Contents, PackedArray};
#[cfg(feature = "alloc")]
pub use documents::encode_documents;
pub use documents::{DocumentPath, Documents};

/// The dataset that holds the documents, and makes a file a pack.
pub const DOCUMENTS: &str = "zvf/store.json";

/// What is added to the path of an array to name its table of cells. No array can be there: Zarr
/// has nothing below an array.
pub const CELLS_SUFFIX: &str = "/cells";
