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
//! An array consists of *cells* if each of its chunks holds any number of rows, and is *dense* if
//! its chunks hold as many items as its shape states. Dense arrays keep shape and chunk shape.
//! Cells do not fit a regular grid, so they are stored as one long dataset with a table of their
//! positions: reading a cell needs one binary search and one slice of a map, without a chunk
//! lookup.
//!
//! Absent data stays absent: a cell without rows has no row in the table, and an array without
//! cells or without elements has no dataset; its document states its type and shape. Arrays of
//! blobs (manifests, groups, names) are stored as cells of rank 1 in bytes. Types that `.tet` lacks
//! are stored as their bits ([`Carrier`]); the documents state the true type. Coordinates are those
//! of the array's own chunk keys, and may be negative if keys may.
//!
//! [`Contents`] finds the datasets of an array, [`CellTable`] a cell, [`Documents`] a document.
//!
//! Not here: reading and writing files, and the contents of documents and cells.

mod carrier;
mod cells;
mod contents;
mod documents;

pub use carrier::Carrier;
pub use cells::encode_cells;
pub use cells::{Cell, CellTable, cells_geometry};
pub use contents::{Contents, PackedArray};
pub use documents::encode_documents;
pub use documents::{DocumentPath, Documents};

/// The dataset that holds the documents; its presence marks a file as a pack.
pub const DOCUMENTS: &str = "zvf/store.json";

/// The suffix that turns the path of an array into the name of its table of cells. No array can
/// have this path: Zarr stores nothing below an array.
pub const CELLS_SUFFIX: &str = "/cells";
