//! npy and npz in the table of formats.

use super::{Spec, TABLE};
use crate::format::Capabilities;
use crate::{read, write};

pub(super) const SPEC: Spec = Spec {
    token: "npy",
    name: "npy",
    extensions: &["npy"],
    recognizes: |start| start.bytes.starts_with(b"\x93NUMPY"),
    read: Some(read::npy::open),
    write: Some(write::npy::open),
    capabilities: Capabilities { streams_out: false, ..TABLE },
};

pub(super) const NPZ: Spec = Spec {
    token: "npz",
    name: "npz",
    extensions: &["npz"],
    recognizes: |start| start.bytes.starts_with(b"PK\x03\x04"),
    read: Some(read::npz::open),
    write: Some(write::npz::open),
    capabilities: Capabilities { streams_in: false, streams_out: false, elements: true, ..TABLE },
};
