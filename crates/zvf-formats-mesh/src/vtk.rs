//! Data of VTK: the old form, and in XML.

pub(crate) mod read;
pub(crate) mod write;

use zvf_formats::{
    ALL_KINDS, Attributes, Capabilities, IdSupport, POSITIONS_ONLY, Spec, WriteFn,
    begins_with_element,
};

/// Data of VTK, the old form.
pub const VTK: Spec = Spec {
    token: "vtk",
    name: "VTK",
    extensions: &["vtk"],
    recognizes: |start| start.bytes.starts_with(b"# vtk DataFile Version"),
    read: read::open,
    write: None,
    capabilities: Capabilities {
        kinds: ALL_KINDS,
        axes: (1, 3),
        vertex_attributes: Attributes::All,
        own_names: &["object_id"],
        object_attributes: Attributes::All,
        refusal: |header, scope, _| {
            (scope == "object" && !header.kind.is_chain()).then_some("only lines have some")
        },
        elements: true,
        element_attributes: Attributes::All,
        ids: IdSupport::Bits(64),
        streams_in: false,
        streams_out: false,
        ..POSITIONS_ONLY
    },
};

/// Data of VTK in XML.
pub const VTP: Spec = Spec {
    token: "vtp",
    name: "VTP",
    extensions: &["vtp"],
    recognizes: |start| begins_with_element(start.bytes, "VTKFile"),
    read: read::open_xml,
    write: Some(WriteFn::Whole(write::encode)),
    ..VTK
};
