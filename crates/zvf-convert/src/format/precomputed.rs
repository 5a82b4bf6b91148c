//! Precomputed folders in the table of formats.

use super::{Attributes, Capabilities, GroupSupport, IdSupport, POSITIONS_ONLY, Spec, UnitSupport};
use crate::{read, write};
use zvf_model::Kind;

pub(super) const SPEC: Spec = Spec {
    token: "precomputed",
    name: "precomputed",
    extensions: &["precomputed"],
    recognizes: |start| start.has_member("info"),
    read: Some(read::precomputed::open),
    write: Some(write::precomputed::open),
    capabilities: Capabilities {
        kinds: &[
            Kind::PointCloud,
            Kind::Line,
            Kind::Polyline,
            Kind::Graph,
            Kind::Skeleton,
            Kind::Mesh,
        ],
        axes: (1, 16),
        positions: Attributes::Types(&["float32"]),
        vertex_attributes: TYPES,
        object_attributes: TYPES,
        elements: true,
        corners: 3,
        ids: IdSupport::Bits(64),
        groups: GroupSupport::Members,
        units: UnitSupport::Fixed("nanometer"),
        streams_in: false,
        streams_out: false,
        is_folder: true,
        marker: "info",
        ..POSITIONS_ONLY
    },
};

const TYPES: Attributes =
    Attributes::Types(&["int8", "uint8", "int16", "uint16", "int32", "uint32", "float32"]);
