//! SWC in the table of formats.

use super::{Attributes, Capabilities, NOTHING, Spec, UnitSupport, never};
use crate::read;
use zvf_model::Kind;

pub(super) const SPEC: Spec = Spec {
    token: "swc",
    name: "SWC",
    extensions: &["swc"],
    recognizes: never,
    read: Some(read::swc::open),
    write: None,
    can: Capabilities {
        kinds: &[Kind::Skeleton],
        axes: (3, 3),
        vertex_attributes: Attributes::Types(&["int64", "float64"]),
        elements: true,
        units: UnitSupport::Fixed("micrometer"),
        ..NOTHING
    },
};
