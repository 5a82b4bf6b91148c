//! Geometry to files of other formats.
//!
//! ```text
//! npy     one record a vertex: position, attributes, part, object    NumPy opens it as it is
//! csv     the same as text, a header line first
//! jsonl   one JSON object a line: vertices, parts with their vertices, elements
//! arrow   record batches, in memory or in files of Arrow and Parquet (feature `arrow`)
//! ply     vertices with properties, edges or faces                   viewers open it
//! ```
//!
//! Each writer takes batches one after the other, so that an answer larger than memory can be written
//! while it is read. What a format cannot hold is refused with the reason, never changed silently.
//!
//! Not here: stores, chunks and fragments; where the bytes go (any [`std::io::Write`]).

#[cfg(feature = "arrow")]
mod arrow;
mod csv;
mod elements;
mod error;
mod jsonl;
mod npy;
mod ply;
mod table;

#[cfg(feature = "arrow")]
pub use arrow::{ArrowWriter, ParquetWriter, element_record_batch, record_batch};
pub use csv::CsvWriter;
pub use elements::elements_as_rows;
pub use error::ConvertError;
pub use jsonl::JsonlWriter;
pub use npy::NpyWriter;
pub use ply::write_ply;
