//! PLY in the table of formats.

use super::{ALL_KINDS, Attributes, Capabilities, IdSupport, POSITIONS_ONLY, Spec};
use crate::{read, write};

pub(super) const SPEC: Spec = Spec {
    token: "ply",
    name: "PLY",
    extensions: &["ply"],
    recognizes: |start| start.bytes.starts_with(b"ply\n") || start.bytes.starts_with(b"ply\r"),
    read: Some(read::ply::open),
    write: Some(write::ply::open),
    capabilities: Capabilities {
        kinds: ALL_KINDS,
        axes: (1, 16),
        positions: NUMBERS,
        vertex_attributes: NUMBERS,
        elements: true,
        corners: 255,
        element_attributes: NUMBERS,
        ids: IdSupport::Bits(53),
        streams_out: false,
        ..POSITIONS_ONLY
    },
};

const NUMBERS: Attributes = Attributes::Types(&[
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float32", "int64", "float64",
]);
