//! How arrays of each format version lie in files, behind types that do not tell.

mod table;

pub use table::KeyTable;
