//! Formats of maps and laser scanners: `GeoJSON`, `FlatGeobuf`, LAS, LAZ and COPC.
//!
//! ```text
//! flatgeobuf  features with an index of their boxes
//! geojson     features, as one collection or one a line
//! las         LAS, LAZ and COPC: points of laser scanners
//! ```
//!
//! Each is a folder: a `Spec`, a reader and a writer, made of the parts of `zvf-formats`.
//!
//! Not here: the table of all formats (`zvf-convert`).

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what is not named is refused, or kept as it is"
)]

mod flatgeobuf;
mod geojson;
mod las;

pub use flatgeobuf::FLATGEOBUF;
pub use geojson::{GEOJSON, GEOJSON_LINES};
pub use las::{COPC, LAS, LAZ};

#[cfg(test)]
const ALL: &[&zvf_formats::Spec] = &[&COPC, &LAZ, &LAS, &FLATGEOBUF, &GEOJSON, &GEOJSON_LINES];

#[cfg(test)]
use zvf_formats_tables::CsvWriter;

#[cfg(test)]
#[path = "../../zvf-formats/tests/shared/mod.rs"]
mod shared;
