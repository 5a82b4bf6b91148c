//! GIFTI in the table of formats.

use zvf_model::Kind;

use super::{Attributes, Capabilities, IdSupport, POSITIONS_ONLY, Spec, UnitSupport};
use crate::{read, write};

pub(super) const SPEC: Spec = Spec {
    token: "gifti",
    name: "GIFTI",
    extensions: &["gii"],
    recognizes: |start| {
        super::begins_with_element(start.bytes, "GIFTI")
            || (start.is_folder && start.path.is_some_and(read::surface::has_gifti))
    },
    read: Some(read::surface::gifti::open),
    write: Some(write::gifti::open),
    capabilities: SURFACES,
};

/// The capabilities of formats of brain surfaces.
pub(super) const SURFACES: Capabilities = Capabilities {
    kinds: &[Kind::Mesh, Kind::PointCloud],
    axes: (1, 3),
    positions: Attributes::Types(&["int64", "float32"]),
    vertex_attributes: Attributes::Types(&["uint8", "int32", "float32"]),
    elements: true,
    corners: 3,
    ids: IdSupport::Order,
    units: UnitSupport::Fixed("millimeter"),
    streams_in: false,
    streams_out: false,
    is_folder: true,
    ..POSITIONS_ONLY
};
