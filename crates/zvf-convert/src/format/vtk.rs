//! VTK, legacy and XML, in the table of formats.

use super::{ALL_KINDS, Attributes, Capabilities, IdSupport, POSITIONS_ONLY, Spec};
use crate::{read, write};

pub(super) const SPEC: Spec = Spec {
    token: "vtk",
    name: "VTK",
    extensions: &["vtk"],
    recognizes: |start| start.bytes.starts_with(b"# vtk DataFile Version"),
    read: Some(read::vtk::open),
    write: None,
    capabilities: POLY_DATA,
};

pub(super) const XML: Spec = Spec {
    token: "vtp",
    name: "VTP",
    extensions: &["vtp"],
    recognizes: |start| super::begins_with_element(start.bytes, "VTKFile"),
    read: Some(read::vtk::open_xml),
    write: Some(write::vtp::open),
    capabilities: POLY_DATA,
};

const POLY_DATA: Capabilities = Capabilities {
    kinds: ALL_KINDS,
    axes: (1, 3),
    vertex_attributes: Attributes::All,
    object_attributes: Attributes::All,
    elements: true,
    element_attributes: Attributes::All,
    ids: IdSupport::Bits(64),
    streams_in: false,
    streams_out: false,
    ..POSITIONS_ONLY
};
