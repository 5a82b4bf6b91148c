//! Compressed meshes and points of Draco.

pub(crate) mod read;
pub(crate) mod write;

use zvf_formats::{Attributes, Capabilities, POSITIONS_ONLY, Spec, WriteFn};
use zvf_model::Kind;

/// Compressed meshes and points of Draco.
pub const DRACO: Spec = Spec {
    token: "draco",
    name: "Draco",
    extensions: &["drc"],
    recognizes: |start| start.bytes.starts_with(b"DRACO"),
    read: read::open,
    write: Some(WriteFn::Whole(write::encode)),
    capabilities: Capabilities {
        kinds: &[Kind::Mesh, Kind::PointCloud],
        axes: (3, 3),
        positions: Attributes::Types(&["float32"]),
        elements: true,
        corners: 3,
        options: &[("draco.bits", "positions rounded to a grid of so many bits")],
        streams_in: false,
        streams_out: false,
        ..POSITIONS_ONLY
    },
};
