//! TCK in the table of formats.

use super::{Attributes, CHAINS, Capabilities, IdSupport, POSITIONS_ONLY, Spec, UnitSupport};
use crate::{read, write};

pub(super) const SPEC: Spec = Spec {
    token: "tck",
    name: "TCK",
    extensions: &["tck"],
    recognizes: |start| start.bytes.starts_with(b"mrtrix tracks"),
    read: Some(read::tck::open),
    write: Some(write::tck::open),
    capabilities: Capabilities {
        kinds: CHAINS,
        axes: (3, 3),
        positions: Attributes::Types(&["float32"]),
        ids: IdSupport::Order,
        units: UnitSupport::Fixed("millimeter"),
        ..POSITIONS_ONLY
    },
};
