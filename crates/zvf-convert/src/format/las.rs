//! LAS, LAZ and COPC in the table of formats.

use zvf_model::Kind;

use super::{Attributes, Capabilities, IdSupport, POSITIONS_ONLY, Spec, UnitSupport};
use crate::{read, write};

const POINTS: Capabilities = Capabilities {
    kinds: &[Kind::PointCloud],
    axes: (1, 3),
    positions: Attributes::Numbers,
    vertex_attributes: Attributes::Numbers,
    ids: IdSupport::Bits(64),
    units: UnitSupport::Any,
    streams_in: false,
    ..POSITIONS_ONLY
};

const MAGIC: &[u8] = b"LASF";

pub(super) const LAS: Spec = Spec {
    token: "las",
    name: "LAS",
    extensions: &["las"],
    recognizes: |start| start.bytes.starts_with(MAGIC),
    read: Some(read::las::open),
    write: Some(write::las::open),
    capabilities: POINTS,
};

pub(super) const LAZ: Spec = Spec {
    token: "laz",
    name: "LAZ",
    extensions: &["laz"],
    recognizes: |start| {
        start.bytes.starts_with(MAGIC)
            && start.bytes.get(104).is_some_and(|format| format & 0x80 != 0)
    },
    read: Some(read::las::open),
    write: Some(write::las::open_compressed),
    capabilities: POINTS,
};

pub(super) const COPC: Spec = Spec {
    token: "copc",
    name: "COPC",
    extensions: &["copc.laz"],
    recognizes: |start| {
        start.bytes.starts_with(MAGIC) && start.bytes.get(377..382) == Some(b"copc\0")
    },
    read: Some(read::las::copc::open),
    write: Some(write::las::open_octree),
    capabilities: Capabilities { ranges: true, ..POINTS },
};
