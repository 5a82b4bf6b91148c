//! Trees of neurons.

pub(crate) mod read;
pub(crate) mod write;

use zvf_formats::{
    Attributes, Capabilities, IdSupport, POSITIONS_ONLY, Spec, UnitSupport, WriteFn,
    recognizes_nothing,
};
use zvf_model::Kind;

/// Trees of neurons.
pub const SWC: Spec = Spec {
    token: "swc",
    name: "SWC",
    extensions: &["swc"],
    recognizes: recognizes_nothing,
    read: read::open,
    write: Some(WriteFn::Whole(write::encode)),
    capabilities: Capabilities {
        kinds: &[Kind::Skeleton, Kind::Graph],
        axes: (3, 3),
        finite: true,
        vertex_attributes: Attributes::Types(&["int32", "int64", "float32", "float64"]),
        vertex_names: &["radius", "type"],
        elements: true,
        ids: IdSupport::Order,
        units: UnitSupport::Fixed("micrometer"),
        streams_out: false,
        ..POSITIONS_ONLY
    },
};
