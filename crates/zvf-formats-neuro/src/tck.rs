//! Streamlines of `MRtrix`.

pub(crate) mod read;
pub(crate) mod write;

use zvf_formats::{Capabilities, Spec, WriteFn};

use crate::STREAMLINES;

/// Streamlines of `MRtrix`.
pub const TCK: Spec = Spec {
    token: "tck",
    name: "TCK",
    extensions: &["tck"],
    recognizes: |start| start.bytes.starts_with(b"mrtrix tracks"),
    read: read::open,
    write: Some(WriteFn::Pieces(write::open)),
    capabilities: Capabilities {
        finite: true,
        options: &[("tck.f64", "true for positions of 64 bits")],
        ..STREAMLINES
    },
};
