//! Graphs: `GraphML` and lists of edges.

pub(crate) mod read;
pub(crate) mod write_edges;
pub(crate) mod write_graphml;

use zvf_formats::{
    Attributes, Capabilities, IdSupport, POSITIONS_ONLY, Spec, WriteFn, begins_with_element,
};
use zvf_model::Kind;

/// Graphs in XML.
pub const GRAPHML: Spec = Spec {
    token: "graphml",
    name: "GraphML",
    extensions: &["graphml"],
    recognizes: |start| begins_with_element(start.bytes, "graphml"),
    read: read::graphml::open,
    write: Some(WriteFn::Whole(write_graphml::encode)),
    capabilities: GRAPH,
};

/// Lists of edges.
pub const EDGES: Spec = Spec {
    token: "edgelist",
    name: "edge list",
    extensions: &["edgelist", "edges"],
    recognizes: |start| {
        let name = start.path.and_then(|path| path.file_name()?.to_str());
        name.is_some_and(|name| name.ends_with(".edges.csv"))
    },
    read: read::edges::open,
    write: Some(WriteFn::Whole(write_edges::encode)),
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
