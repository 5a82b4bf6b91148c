//! Draco in the table of formats.

use zvf_model::Kind;

use super::{Attributes, Capabilities, POSITIONS_ONLY, Spec};
use crate::{read, write};

pub(super) const SPEC: Spec = Spec {
    token: "draco",
    name: "Draco",
    extensions: &["drc"],
    recognizes: |start| start.bytes.starts_with(b"DRACO"),
    read: Some(read::drc::open),
    write: Some(write::draco::open),
    capabilities: Capabilities {
        kinds: &[Kind::Mesh, Kind::PointCloud],
        axes: (3, 3),
        positions: Attributes::Types(&["float32"]),
        elements: true,
        corners: 3,
        streams_in: false,
        streams_out: false,
        ..POSITIONS_ONLY
    },
};
