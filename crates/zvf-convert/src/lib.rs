//! Geometry to files of other formats, and back.
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
//! [`read`] has the other direction: npy, CSV, PLY, OBJ, SWC and TRK to batches, in bounded memory.
//!
//! Not here: stores, chunks and fragments; where the bytes go (any [`std::io::Write`]).

#[cfg(feature = "arrow")]
mod arrow;
mod csv;
mod elements;
mod error;
mod isolate;
mod jsonl;
mod npy;
mod ply;
pub mod read;
mod table;

#[cfg(feature = "arrow")]
pub use arrow::{ArrowWriter, ParquetWriter, element_record_batch, record_batch};
pub use csv::CsvWriter;
pub use elements::elements_as_rows;
pub use error::{BadInput, ConvertError, Place};
pub use jsonl::JsonlWriter;
pub use npy::NpyWriter;
pub use ply::write_ply;
