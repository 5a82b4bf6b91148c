//! `FlatGeobuf` in the table of formats.

use super::{Capabilities, FEATURES, Spec};
use crate::{read, write};

pub(super) const SPEC: Spec = Spec {
    token: "flatgeobuf",
    name: "FlatGeobuf",
    extensions: &["fgb"],
    recognizes: |start| start.bytes.starts_with(b"fgb") && start.bytes.get(4..7) == Some(b"fgb"),
    read: Some(read::flatgeobuf::open),
    write: Some(write::flatgeobuf::open),
    capabilities: Capabilities { ranges: true, ..FEATURES },
};
