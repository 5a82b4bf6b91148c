//! Readers and writers of other file formats.
//!
//! ```text
//! format   the table of all formats: names, detection, capabilities
//! read     opens a file of any format: a header and pieces of geometry
//! write    writes one, and lists the losses of a conversion
//! ```
//!
//! Each writer takes batches one after the other, so that a result larger than memory can be
//! written while it is read. Data that a format does not support is refused with the reason, never
//! changed silently.
//!
//! Not here: single formats, which stand in the crates of their families (`zvf-formats-tables` and
//! others) on the ground of `zvf-formats`; stores, chunks and fragments; opening the target, which
//! is any [`std::io::Write`].

#[cfg(feature = "dots")]
mod dots;
pub mod format;
pub mod read;
#[cfg(test)]
mod tests;
pub mod write;

pub use format::Format;
pub use zvf_formats::civil_date;
pub use zvf_formats::elements_as_rows;
#[cfg(feature = "arrow")]
pub use zvf_formats_arrow::{attribute_array, record_batch};

#[cfg(test)]
use tests::ALL;
#[cfg(test)]
use zvf_formats_tables::CsvWriter;
