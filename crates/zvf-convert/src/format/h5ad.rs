//! h5ad in the table of formats.

use zvf_model::Kind;

use super::{Attributes, Capabilities, POSITIONS_ONLY, Spec};
use crate::{read, write};

pub(super) const SPEC: Spec = Spec {
    token: "h5ad",
    name: "h5ad",
    extensions: &["h5ad"],
    recognizes: |start| {
        start.bytes.starts_with(b"\x89HDF\r\n\x1a\n")
            && start.path.is_none_or(|path| path.extension().is_none_or(|end| end == "h5ad"))
    },
    read: Some(read::h5ad::open),
    write: Some(write::h5ad::open),
    capabilities: Capabilities {
        kinds: &[Kind::PointCloud],
        vertex_attributes: Attributes::All,
        axes: (1, 8),
        streams_in: false,
        streams_out: false,
        ..POSITIONS_ONLY
    },
};
