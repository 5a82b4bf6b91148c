//! A JSON object a line.

pub(crate) mod read;
pub(crate) mod write;

use zvf_formats::{Attributes, Capabilities, Spec, TABLE, WriteFn, recognizes_nothing};

/// A JSON object a line.
pub const JSONL: Spec = Spec {
    token: "jsonl",
    name: "JSON lines",
    extensions: &["jsonl", "ndjson", "json"],
    recognizes: recognizes_nothing,
    read: read::open,
    write: Some(WriteFn::Pieces(write::open)),
    capabilities: Capabilities {
        own_names: &["vertex", "position", "positions", "part", "object", "element", "vertices"],
        elements: true,
        element_attributes: Attributes::All,
        ..TABLE
    },
};
