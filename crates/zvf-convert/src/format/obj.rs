//! OBJ in the table of formats.

use super::{
    ALL_KINDS, Attributes, Capabilities, IdSupport, POSITIONS_ONLY, Spec, recognizes_nothing,
};
use crate::{read, write};

pub(super) const SPEC: Spec = Spec {
    token: "obj",
    name: "OBJ",
    extensions: &["obj"],
    recognizes: recognizes_nothing,
    read: Some(read::obj::open),
    write: Some(write::obj::open),
    capabilities: Capabilities {
        kinds: ALL_KINDS,
        vertex_attributes: Attributes::Types(&["float32"]),
        vertex_names: &["color"],
        elements: true,
        ids: IdSupport::Bits(64),
        streams_out: false,
        ..POSITIONS_ONLY
    },
};
