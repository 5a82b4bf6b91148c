//! Wavefront OBJ.

pub(crate) mod read;
pub(crate) mod write;

use zvf_formats::{
    ALL_KINDS, Attributes, Capabilities, IdSupport, POSITIONS_ONLY, Spec, WriteFn,
    recognizes_nothing,
};

/// Wavefront OBJ.
pub const OBJ: Spec = Spec {
    token: "obj",
    name: "OBJ",
    extensions: &["obj"],
    recognizes: recognizes_nothing,
    read: read::open,
    write: Some(WriteFn::Whole(write::encode)),
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
