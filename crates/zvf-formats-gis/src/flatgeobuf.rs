//! `FlatGeobuf`: features with an index.

pub(crate) mod read;
pub(crate) mod write;

use zvf_formats::{Capabilities, FEATURES, Spec, WriteFn};

/// Features with an index.
pub const FLATGEOBUF: Spec = Spec {
    token: "flatgeobuf",
    name: "FlatGeobuf",
    extensions: &["fgb"],
    recognizes: |start| start.bytes.starts_with(b"fgb") && start.bytes.get(4..7) == Some(b"fgb"),
    read: read::open,
    write: Some(WriteFn::Pieces(write::open)),
    capabilities: Capabilities { ranges: true, ..FEATURES },
};
