//! `GraphML` and edge lists in the table of formats.

use zvf_model::Kind;

use super::{Attributes, Capabilities, IdSupport, POSITIONS_ONLY, Spec};
use crate::{read, write};

pub(super) const GRAPHML: Spec = Spec {
    token: "graphml",
    name: "GraphML",
    extensions: &["graphml"],
    recognizes: |start| super::begins_with_element(start.bytes, "graphml"),
    read: Some(read::graph::graphml::open),
    write: Some(write::graphml::open),
    capabilities: GRAPH,
};

pub(super) const EDGES: Spec = Spec {
    token: "edgelist",
    name: "edge list",
    extensions: &["edgelist", "edges"],
    recognizes: |start| {
        let name = start.path.and_then(|path| path.file_name()?.to_str());
        name.is_some_and(|name| name.ends_with(".edges.csv"))
    },
    read: Some(read::graph::edges::open),
    write: Some(write::edges::open),
    capabilities: Capabilities {
        positions: Attributes::None,
        vertex_attributes: Attributes::None,
        ids: IdSupport::None,
        ..GRAPH
    },
};

const GRAPH: Capabilities = Capabilities {
    kinds: &[Kind::Graph, Kind::Skeleton],
    axes: (1, 3),
    positions: Attributes::Types(&["float32", "float64"]),
    vertex_attributes: Attributes::All,
    elements: true,
    corners: 2,
    element_attributes: Attributes::All,
    ids: IdSupport::Bits(64),
    streams_in: false,
    streams_out: false,
    ..POSITIONS_ONLY
};
