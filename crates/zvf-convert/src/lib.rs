//! Readers and writers of other file formats.
//!
//! ```text
//! npy     one record a vertex: position, attributes, part, object    NumPy opens it as it is
//! csv     the same as text, a header line first
//! jsonl   one JSON object a line: vertices, parts with their vertices, elements
//! arrow   record batches, in memory or in files of Arrow and Parquet (feature `arrow`)
//! ply     vertices with properties, edges or faces                   viewers open it
//! ```
//!
//! Each writer takes batches one after the other, so that a result larger than memory can be written
//! while it is read. What a format cannot hold is refused with the reason, never changed silently.
//!
//! [`mod@format`] is the table of all formats, [`read`] opens a file of any of them, [`mod@write`] writes one. A reader
//! yields a header and pieces, and a writer takes them, so that every format can be converted to every other.
//!
//! Not here: stores, chunks and fragments; opening the target, which is any [`std::io::Write`].

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "types of other formats and libraries are many: what is not named is refused or kept as it is"
)]
#![expect(clippy::big_endian_bytes, reason = "TCK, FreeSurfer and VTK store numbers in this order")]

#[cfg(feature = "arrow")]
mod arrow;
mod draco;
mod elements;
mod error;
pub mod format;
mod isolate;
pub mod read;
mod table;
pub mod write;

#[cfg(feature = "arrow")]
pub use arrow::{ArrowWriter, ParquetWriter, element_record_batch, record_batch};
pub use elements::elements_as_rows;
pub use error::{BadInput, ConvertError, Place};
pub use format::Format;
pub use write::csv::CsvWriter;
pub use write::jsonl::JsonlWriter;
pub use write::npy::NpyWriter;
pub use write::ply::write_ply;
