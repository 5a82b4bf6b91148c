//! Named arrays of NumPy in an archive.

pub(crate) mod read;
pub(crate) mod write;

use zvf_formats::{Capabilities, Spec, TABLE, WriteFn};

/// Arrays of NumPy, by name.
pub const NPZ: Spec = Spec {
    token: "npz",
    name: "npz",
    extensions: &["npz"],
    recognizes: |start| start.bytes.starts_with(b"PK\x03\x04"),
    read: read::open,
    write: Some(WriteFn::Whole(write::encode)),
    capabilities: Capabilities {
        own_names: &["positions", "object", "edges", "faces"],
        streams_in: false,
        streams_out: false,
        elements: true,
        ..TABLE
    },
};
