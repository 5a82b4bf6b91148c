//! `FreeSurfer` in the table of formats.

use super::gifti::SURFACES;
use super::{Attributes, Capabilities, GroupSupport, IdSupport, Spec, Start};
use crate::{read, write};

pub(super) const SPEC: Spec = Spec {
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
    read: Some(read::surface::freesurfer::open),
    write: Some(write::freesurfer::open),
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
    let is_member = read::surface::freesurfer::is_member(name);
    start.bytes.starts_with(b"\xff\xff\xfe")
        || start.bytes.starts_with(b"#!ascii label")
        || (start.bytes.starts_with(b"\xff\xff\xff") && is_member)
}
