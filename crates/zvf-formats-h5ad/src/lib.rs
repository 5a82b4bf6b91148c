//! Cells of `AnnData`: h5ad, a layout of HDF5.
//!
//! A crate of its own, because HDF5 is read by one of 100,000 lines.
//!
//! Not here: the table of all formats (`zvf-convert`).

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what is not named is refused, or kept as it is"
)]

mod read;
mod write;

use zvf_formats::{Attributes, Capabilities, POSITIONS_ONLY, Spec, WriteFn};
use zvf_model::Kind;

/// Cells of `AnnData`.
pub const H5AD: Spec = Spec {
    token: "h5ad",
    name: "h5ad",
    extensions: &["h5ad"],
    recognizes: |start| {
        start.bytes.starts_with(b"\x89HDF\r\n\x1a\n")
            && start.path.is_none_or(|path| path.extension().is_none_or(|end| end == "h5ad"))
    },
    read: read::open,
    write: Some(WriteFn::Whole(write::encode)),
    capabilities: Capabilities {
        kinds: &[Kind::PointCloud],
        vertex_attributes: Attributes::All,
        axes: (1, 8),
        streams_in: false,
        streams_out: false,
        ..POSITIONS_ONLY
    },
};
#[cfg(test)]
const ALL: &[&Spec] = &[&H5AD];

#[cfg(test)]
use zvf_formats_tables::CsvWriter;

#[cfg(test)]
#[path = "../../zvf-formats/tests/shared/mod.rs"]
mod shared;
