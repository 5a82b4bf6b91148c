//! The polygon file format.

pub(crate) mod read;
pub(crate) mod write;

use zvf_error::Result;
use zvf_formats::{ALL_KINDS, Attributes, Capabilities, IdSupport, POSITIONS_ONLY, Spec, WriteFn};
use zvf_model::Field;
use zvf_model::flow::{Header, Loss};

/// The polygon file format.
pub const PLY: Spec = Spec {
    token: "ply",
    name: "PLY",
    extensions: &["ply"],
    recognizes: |start| start.bytes.starts_with(b"ply\n") || start.bytes.starts_with(b"ply\r"),
    read: read::open,
    write: Some(WriteFn::Pieces(write::open)),
    capabilities: Capabilities {
        kinds: ALL_KINDS,
        axes: (1, 16),
        positions: PLY_TYPES,
        vertex_attributes: PLY_TYPES,
        own_names: &["x", "y", "z", "object"],
        elements: true,
        corners: 255,
        element_attributes: PLY_TYPES,
        ids: IdSupport::Bits(53),
        streams_out: false,
        check: refuse_text,
        ..POSITIONS_ONLY
    },
};

/// Refuses a header with a column of text.
fn refuse_text(header: &Header) -> Result<Option<Loss>> {
    let is_text = |field: &&Field| field.categories.is_some() || PLY_TYPES.drops(field);
    match header.fields.iter().find(is_text) {
        Some(text) => Err(write::text_refused(&text.name)),
        None => Ok(None),
    }
}

const PLY_TYPES: Attributes = Attributes::Types(&[
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float32", "int64", "float64",
]);
