//! SWC in the table of formats.

use super::{
    Attributes, Capabilities, IdSupport, POSITIONS_ONLY, Spec, UnitSupport, recognizes_nothing,
};
use crate::{read, write};
use zvf_model::Kind;

pub(super) const SPEC: Spec = Spec {
    token: "swc",
    name: "SWC",
    extensions: &["swc"],
    recognizes: recognizes_nothing,
    read: Some(read::swc::open),
    write: Some(write::swc::open),
    capabilities: Capabilities {
        kinds: &[Kind::Skeleton, Kind::Graph],
        axes: (3, 3),
        vertex_attributes: Attributes::Types(&["int32", "int64", "float32", "float64"]),
        vertex_names: &["radius", "type"],
        elements: true,
        ids: IdSupport::Order,
        units: UnitSupport::Fixed("micrometer"),
        streams_out: false,
        ..POSITIONS_ONLY
    },
};
