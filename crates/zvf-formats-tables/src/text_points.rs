//! Points as lines of numbers: XYZ and PTS.

pub(crate) mod read;
pub(crate) mod write;

use zvf_formats::{Attributes, Capabilities, POSITIONS_ONLY, Spec, WriteFn, recognizes_nothing};

/// Lines of coordinates.
pub const XYZ: Spec = Spec {
    token: "xyz",
    name: "XYZ",
    extensions: &["xyz", "asc"],
    recognizes: recognizes_nothing,
    read: read::open,
    write: Some(WriteFn::Pieces(|file| write::open(file, "XYZ"))),
    capabilities: Capabilities {
        kinds: read::KINDS,
        positions: Attributes::Numbers,
        vertex_attributes: Attributes::Numbers,
        streams_in: false,
        refusal: write::refuse,
        ..POSITIONS_ONLY
    },
};

/// Lines of coordinates, counted.
pub const PTS: Spec = Spec {
    token: "pts",
    name: "PTS",
    extensions: &["pts"],
    read: read::open_pts,
    write: Some(WriteFn::Pieces(|file| write::open(file, "PTS"))),
    capabilities: Capabilities {
        streams_out: false,
        refusal: write::refuse_pts,
        ..XYZ.capabilities
    },
    ..XYZ
};
