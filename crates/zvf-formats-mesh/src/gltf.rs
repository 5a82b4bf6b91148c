//! Scenes of glTF, as text or as GLB.

pub(crate) mod read;
pub(crate) mod write;

use zvf_formats::{
    Attributes, Capabilities, IdSupport, POSITIONS_ONLY, Spec, UnitSupport, WriteFn,
};
use zvf_model::Kind;

/// Scenes of glTF, as text or as GLB.
pub const GLTF: Spec = Spec {
    token: "gltf",
    name: "glTF",
    extensions: &["gltf", "glb"],
    recognizes: |start| start.bytes.starts_with(b"glTF"),
    read: read::open,
    write: Some(WriteFn::Whole(write::encode)),
    capabilities: Capabilities {
        kinds: &[Kind::Mesh, Kind::Graph, Kind::Skeleton, Kind::PointCloud],
        axes: (3, 3),
        positions: Attributes::Types(&["float32"]),
        finite: true,
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
