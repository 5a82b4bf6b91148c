//! Arrays of NumPy.

pub(crate) mod read;
pub(crate) mod write;

use zvf_formats::{Capabilities, Spec, TABLE, WriteFn};

/// An array of NumPy.
pub const NPY: Spec = Spec {
    token: "npy",
    name: "npy",
    extensions: &["npy"],
    recognizes: |start| start.bytes.starts_with(b"\x93NUMPY"),
    read: read::open,
    write: Some(WriteFn::Pieces(write::open)),
    capabilities: Capabilities { own_names: &["position", "object"], streams_out: false, ..TABLE },
};
