//! glTF in the table of formats.

use zvf_model::Kind;

use super::{Attributes, Capabilities, IdSupport, POSITIONS_ONLY, Spec, UnitSupport};
use crate::{read, write};

pub(super) const SPEC: Spec = Spec {
    token: "gltf",
    name: "glTF",
    extensions: &["gltf", "glb"],
    recognizes: |start| start.bytes.starts_with(b"glTF"),
    read: Some(read::gltf::open),
    write: Some(write::glb::open),
    capabilities: Capabilities {
        kinds: &[Kind::Mesh, Kind::Graph, Kind::Skeleton, Kind::PointCloud],
        axes: (3, 3),
        positions: Attributes::Types(&["float32"]),
        vertex_attributes: Attributes::Types(&["uint8", "uint16", "int8", "int16", "float32"]),
        object_attributes: Attributes::All,
        elements: true,
        corners: 3,
        ids: IdSupport::Bits(53),
        units: UnitSupport::Fixed("meter"),
        streams_in: false,
        streams_out: false,
        ..POSITIONS_ONLY
    },
};
