//! OBJ in the table of formats.

use super::{Capabilities, NOTHING, Spec, never};
use crate::read;
use zvf_model::Kind;

pub(super) const SPEC: Spec = Spec {
    token: "obj",
    name: "OBJ",
    extensions: &["obj"],
    recognizes: never,
    read: Some(read::obj::open),
    write: None,
    can: Capabilities {
        kinds: &[Kind::Mesh, Kind::Graph, Kind::PointCloud],
        elements: true,
        ..NOTHING
    },
};
