//! JSON lines in the table of formats.

use super::{Attributes, Capabilities, Spec, TABLE, recognizes_nothing};
use crate::{read, write};

pub(super) const SPEC: Spec = Spec {
    token: "jsonl",
    name: "JSON lines",
    extensions: &["jsonl", "ndjson", "json"],
    recognizes: recognizes_nothing,
    read: Some(read::jsonl::open),
    write: Some(write::jsonl::open),
    capabilities: Capabilities { elements: true, element_attributes: Attributes::All, ..TABLE },
};
