//! Readers and writers of other file formats.
//!
//! ```text
//! format           the table of all formats: names, detection, capabilities
//! read             readers: files to a header and pieces of geometry
//! write            writers of pieces, and the losses of a conversion
//! table, elements  a batch as rows of scalars, and its edges or faces as a table, for formats that hold tables
//! arrow            batches as record batches, in memory or in files of Arrow and Parquet (feature `arrow`)
//! draco, isolate   Draco streams as columns; decoders of others, of which a panic becomes an error
//! dtypes, error
//! ```
//!
//! Each writer takes batches one after the other, so that a result larger than memory can be
//! written while it is read. Data that a format does not support is refused with the reason, never
//! changed silently.
//!
//! [`read`] opens a file of any format of the table, [`mod@write`] writes one. A reader yields a header and pieces, and a writer takes them, so that every format can be converted to every other.
//!
//! Not here: stores, chunks and fragments; opening the target, which is any [`std::io::Write`].

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "types of other formats and libraries are many: what is not named is refused or kept as it is"
)]
#![expect(clippy::big_endian_bytes, reason = "TCK, FreeSurfer and VTK store numbers in this order")]

#[cfg(feature = "arrow")]
mod arrow;
mod calendar;
mod draco;
mod dtypes;
mod elements;
mod error;
pub mod format;
mod isolate;
pub mod read;
mod table;
pub mod write;

#[cfg(feature = "arrow")]
pub use arrow::{attribute_array, record_batch};
pub use calendar::civil_date;
pub use elements::elements_as_rows;
pub use format::Format;
