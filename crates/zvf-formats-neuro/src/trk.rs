//! Streamlines of `TrackVis`.

pub(crate) mod read;
pub(crate) mod write;

use zvf_formats::{Attributes, Capabilities, Spec, WriteFn};

use crate::STREAMLINES;
use crate::image::find_missing_image;

/// Streamlines of `TrackVis`.
pub const TRK: Spec = Spec {
    token: "trk",
    name: "TRK",
    extensions: &["trk"],
    recognizes: |start| start.bytes.starts_with(b"TRACK\0"),
    read: read::open,
    write: Some(WriteFn::Pieces(write::open)),
    capabilities: Capabilities {
        vertex_attributes: Attributes::Types(&["float32"]),
        object_attributes: Attributes::Types(&["float32"]),
        check: |header| Ok(find_missing_image(header, "TRK")),
        finite: true,
        ..STREAMLINES
    },
};
