//! Surfaces of brains: GIFTI and `FreeSurfer`.

pub(crate) mod read;
pub(crate) mod write;
pub(crate) mod write_freesurfer;
pub(crate) mod write_gifti;

use zvf_formats::{
    Attributes, Capabilities, GroupSupport, IdSupport, POSITIONS_ONLY, Spec, Start, UnitSupport,
    WriteFn, begins_with_element,
};
use zvf_model::Kind;

/// Surfaces of brains in XML.
pub const GIFTI: Spec = Spec {
    token: "gifti",
    name: "GIFTI",
    extensions: &["gii"],
    recognizes: |start| {
        begins_with_element(start.bytes, "GIFTI")
            || (start.is_folder && start.path.is_some_and(read::has_gifti))
    },
    read: read::gifti::open,
    write: Some(WriteFn::Whole(write_gifti::encode)),
    capabilities: SURFACES,
};

/// The capabilities of formats of brain surfaces.
const SURFACES: Capabilities = Capabilities {
    kinds: &[Kind::Mesh, Kind::PointCloud],
    axes: (1, 3),
    positions: Attributes::Types(&["int64", "float32"]),
    vertex_attributes: Attributes::Types(&["uint8", "int32", "float32"]),
    order_name: "zv_join_key",
    elements: true,
    corners: 3,
    ids: IdSupport::Order,
    units: UnitSupport::Fixed("millimeter"),
    streams_in: false,
    streams_out: false,
    is_folder: true,
    ..POSITIONS_ONLY
};

/// Surfaces of brains of `FreeSurfer`.
pub const FREESURFER: Spec = Spec {
    token: "freesurfer",
    name: "FreeSurfer",
    extensions: &[
        "white",
        "pial",
        "inflated",
        "sphere",
        "orig",
        "smoothwm",
        "thickness",
        "curv",
        "sulc",
        "area",
        "volume",
        "annot",
        "label",
    ],
    recognizes: is_freesurfer,
    read: read::freesurfer::open,
    write: Some(WriteFn::Whole(write_freesurfer::encode)),
    capabilities: Capabilities {
        vertex_attributes: Attributes::Types(&["float32"]),
        ids: IdSupport::Bits(31),
        groups: GroupSupport::Members,
        ..SURFACES
    },
};

fn is_freesurfer(start: &Start<'_>) -> bool {
    let name = start.path.and_then(|path| path.file_name()?.to_str()).unwrap_or_default();
    if start.is_folder {
        let names = ["lh.white", "rh.white", "lh.pial", "rh.pial"];
        return names.into_iter().any(|name| start.has_member(name));
    }
    let is_member = read::freesurfer::is_member(name);
    start.bytes.starts_with(b"\xff\xff\xfe")
        || start.bytes.starts_with(b"#!ascii label")
        || (start.bytes.starts_with(b"\xff\xff\xff") && is_member)
}
