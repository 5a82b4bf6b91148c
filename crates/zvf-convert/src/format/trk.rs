//! TRK in the table of formats.

use super::{Attributes, CHAINS, Capabilities, IdSupport, POSITIONS_ONLY, Spec, UnitSupport};
use crate::{read, write};

pub(super) const SPEC: Spec = Spec {
    token: "trk",
    name: "TRK",
    extensions: &["trk"],
    recognizes: |start| start.bytes.starts_with(b"TRACK\0"),
    read: Some(read::trk::open),
    write: Some(write::trk::open),
    capabilities: Capabilities {
        kinds: CHAINS,
        axes: (3, 3),
        positions: Attributes::Types(&["float32"]),
        vertex_attributes: Attributes::Types(&["float32"]),
        object_attributes: Attributes::Types(&["float32"]),
        ids: IdSupport::Order,
        units: UnitSupport::Fixed("millimeter"),
        ..POSITIONS_ONLY
    },
};
