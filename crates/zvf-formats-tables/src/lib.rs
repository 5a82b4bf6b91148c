//! Formats of tables, points as text and graphs.
//!
//! ```text
//! csv          CSV and TSV
//! graph        GraphML and lists of edges
//! jsonl        a JSON object a line
//! npy          an array of NumPy
//! npz          arrays of NumPy by name
//! text_points  XYZ and PTS: points as lines of numbers
//! ```
//!
//! Each is a folder: a `Spec`, a reader and a writer, made of the parts of `zvf-formats`.
//!
//! Not here: the table of all formats (`zvf-convert`).

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what is not named is refused, or kept as it is"
)]

mod csv;
mod graph;
mod jsonl;
mod npy;
mod npz;
mod text_points;

pub use csv::read::{TextRow, TextTable, is_missing_word, read_table};
pub use csv::write::CsvWriter;
pub use csv::{CSV, TSV};
pub use graph::{EDGES, GRAPHML};
pub use jsonl::JSONL;
pub use npy::NPY;
pub use npy::write::encode_header as encode_npy_header;
pub use npz::NPZ;
pub use text_points::{PTS, XYZ};

#[cfg(test)]
const ALL: &[&zvf_formats::Spec] = &[&CSV, &TSV, &GRAPHML, &EDGES, &JSONL, &NPY, &NPZ, &XYZ, &PTS];

#[cfg(test)]
#[path = "../../zvf-formats/tests/shared/mod.rs"]
mod shared;
