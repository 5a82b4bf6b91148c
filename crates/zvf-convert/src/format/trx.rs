//! TRX in the table of formats.

use super::{
    Attributes, CHAINS, Capabilities, GroupSupport, IdSupport, POSITIONS_ONLY, Spec, Start,
    UnitSupport,
};
use crate::{read, write};

pub(super) const SPEC: Spec = Spec {
    token: "trx",
    name: "TRX",
    extensions: &["trx"],
    recognizes: is_zip,
    read: Some(read::trx::open),
    write: Some(write::trx::open),
    can: CAN,
};

pub(super) const FOLDER: Spec = Spec {
    token: "trx-folder",
    name: "TRX",
    extensions: &[],
    recognizes: |start| start.has_member("header.json"),
    read: Some(read::trx::open),
    write: Some(write::trx::open_folder),
    can: Capabilities { is_folder: true, marker: "header.json", ..CAN },
};

/// Whether a zip is one of these and not of NumPy: the name of its first member says so, or else its name.
fn is_zip(start: &Start<'_>) -> bool {
    let first = start.bytes.get(30..).unwrap_or_default();
    let named = start
        .path
        .and_then(|path| path.extension())
        .is_some_and(|end| end.to_str().is_some_and(|end| end.eq_ignore_ascii_case("trx")));
    start.bytes.starts_with(b"PK\x03\x04") && (named || first.starts_with(b"header.json"))
}

const CAN: Capabilities = Capabilities {
    kinds: CHAINS,
    axes: (3, 3),
    positions: Attributes::Types(&["float16", "float64", "float32"]),
    vertex_attributes: Attributes::Numbers,
    object_attributes: Attributes::Numbers,
    ids: IdSupport::Order,
    groups: GroupSupport::Attributes,
    units: UnitSupport::Fixed("millimeter"),
    streams_in: false,
    streams_out: false,
    ..POSITIONS_ONLY
};
