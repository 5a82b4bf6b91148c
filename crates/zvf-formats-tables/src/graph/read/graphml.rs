//! Reader of `GraphML`: keys, nodes and edges in XML.
//!
//! ```text
//! key     id, for (node, edge, graph, all), attr.name, attr.type, a default
//! graph   edgedefault; node id with data; edge source, target, directed with data
//! ```
//!
//! Edges may precede their nodes. A default applies to all elements without data of the key. Edges to missing
//! nodes, duplicate nodes, nested graphs and edges of more than two nodes are refused. The data of the graph, and
//! whether it is directed, go to the header record `graph`.

use serde_json::{Map, Value as Json, json};
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_formats::{
    BOOL, Bytes, Element, FileReader, ReadOptions, WholeFile, WholeGeometry, Xml, new_column,
    quote, text_field,
};
use zvf_model::Field;

use crate::graph::read::{Attribute, Graph, ValueKind};

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<FileReader> {
    let file = WholeFile::read(bytes, options)?;
    parse(&file)?.into_geometry(&file, options)?.into_reader("GraphML", options)
}

/// A parsed document, whose edges are not resolved yet.
#[derive(Default)]
pub(crate) struct GraphDocument {
    pub(crate) graph: Graph,
    keys: Vec<Key>,
    is_directed: bool,
    record: Map<String, Json>,
    edge_ids: Vec<Option<String>>,
    directions: Vec<bool>,
}

/// A declared key, and its attributes.
struct Key {
    id: String,
    name: String,
    node: Option<usize>, // index of the node attribute
    edge: Option<usize>,
    is_for_graph: bool,
}

/// The element that data belong to.
#[derive(Clone, Copy, Debug)]
enum Owner {
    Node,
    Edge,
    Graph,
}

pub(crate) fn parse(file: &WholeFile) -> Result<GraphDocument> {
    let mut document = GraphDocument::default();
    let (mut xml, _) = Xml::open(file, file.text()?, "graphml")?;
    let mut graph_count = 0;
    while let Some(element) = xml.next_inside(0)? {
        match &*element.name {
            "key" => document.read_key(&mut xml, &element)?,
            "graph" => {
                graph_count += 1;
                let found = "a second one";
                xml.here().ensure(graph_count <= 1, Class::Unsupported, "one graph", found)?;
                document.is_directed = element.get("edgedefault") == Some("directed");
            }
            "node" => document.read_node(&mut xml, &element)?,
            "edge" => document.read_edge(&mut xml, &element)?,
            "data" => document.read_value(&mut xml, &element, Owner::Graph)?,
            "hyperedge" => {
                return xml.here().refuse(Class::Unsupported, "edges of two nodes", "a hyperedge");
            }
            _ => xml.skip_element()?,
        }
    }
    Ok(document)
}

impl GraphDocument {
    fn read_key(&mut self, xml: &mut Xml<'_>, element: &Element) -> Result<()> {
        let id = element.get("id").map(str::to_owned);
        let id = xml.here().need(id, Class::NotFound, "the id of a key", "none")?;
        let name = element.get("attr.name").unwrap_or(&id).to_owned();
        let kind = match element.get("attr.type") {
            Some("boolean") => ValueKind::Bool,
            Some("int") => ValueKind::Int32,
            Some("long") => ValueKind::Int64,
            Some("float") => ValueKind::Float32,
            Some("double") => ValueKind::Float64,
            Some("string") | None => ValueKind::Text,
            Some(kind) => {
                let expected = "boolean, int, long, float, double or string";
                return xml.here().refuse(Class::BadTag, expected, format!("{kind:?}"));
            }
        };
        if self.keys.iter().any(|key| key.id == id) {
            let expected = "keys of different ids";
            return xml.here().refuse(Class::Duplicate, expected, format_args!("{id:?} twice"));
        }
        let mut default = None;
        let depth = xml.depth();
        while let Some(inner) = xml.next_inside(depth)? {
            let text = xml.text_of_element()?;
            if inner.name == "default" {
                default = Some(text);
            }
        }
        let scope = element.get("for").unwrap_or("all");
        let add = |table: &mut crate::graph::read::Table| {
            table.columns.push(Attribute::new(name.clone(), kind, default.clone()));
            table.columns.len() - 1
        };
        let is_for_all = scope == "all";
        let node = (is_for_all || scope == "node").then(|| add(&mut self.graph.nodes));
        let edge = (is_for_all || scope == "edge").then(|| add(&mut self.graph.edges));
        let is_for_graph = is_for_all || scope == "graph";
        self.keys.push(Key { id, name, node, edge, is_for_graph });
        Ok(())
    }

    fn read_node(&mut self, xml: &mut Xml<'_>, element: &Element) -> Result<()> {
        let id = xml.here().need(element.get("id"), Class::NotFound, "the id of a node", "none")?;
        if !self.graph.push_node(id) {
            let (expected, found) = ("each node once", format!("{} twice", quote(id, 60)));
            return xml.here().refuse(Class::Duplicate, expected, found);
        }
        self.read_data(xml, Owner::Node)?;
        self.graph.nodes.end_row().map_err(|value| bad_value(xml, value))
    }

    fn read_edge(&mut self, xml: &mut Xml<'_>, element: &Element) -> Result<()> {
        let (Some(source), Some(target)) = (element.get("source"), element.get("target")) else {
            let expected = "source and target of an edge";
            return xml.here().refuse(Class::NotFound, expected, "one of them");
        };
        let ends = [self.graph.intern(source), self.graph.intern(target)];
        self.graph.ends.push(ends);
        self.edge_ids.push(element.get("id").map(str::to_owned));
        self.directions.push(match element.get("directed") {
            Some("true" | "1") => true,
            Some("false" | "0") => false,
            Some(found) => {
                return xml.here().refuse(Class::Encoding, "true or false", format!("{found:?}"));
            }
            None => self.is_directed,
        });
        self.read_data(xml, Owner::Edge)?;
        self.graph.edges.end_row().map_err(|value| bad_value(xml, value))
    }

    /// Reads the data of a node or an edge up to its end.
    fn read_data(&mut self, xml: &mut Xml<'_>, owner: Owner) -> Result<()> {
        let depth = xml.depth();
        while let Some(inner) = xml.next_inside(depth)? {
            match &*inner.name {
                "data" => self.read_value(xml, &inner, owner)?,
                "graph" => {
                    let expected = "nodes without graphs inside";
                    return xml.here().refuse(Class::Unsupported, expected, "a nested graph");
                }
                _ => xml.skip_element()?,
            }
        }
        Ok(())
    }

    fn read_value(&mut self, xml: &mut Xml<'_>, element: &Element, owner: Owner) -> Result<()> {
        let id = xml.here().need(element.get("key"), Class::NotFound, "the key of data", "none")?;
        let Some(key) = self.keys.iter().find(|key| key.id == id) else {
            return xml.here().refuse(Class::NotFound, "a key that is declared", quote(id, 60));
        };
        let value = xml.text_of_element()?;
        let attribute = match owner {
            Owner::Node => key.node.and_then(|at| self.graph.nodes.columns.get_mut(at)),
            Owner::Edge => key.edge.and_then(|at| self.graph.edges.columns.get_mut(at)),
            Owner::Graph => {
                if key.is_for_graph {
                    self.record.insert(key.name.clone(), Json::String(value));
                }
                return Ok(());
            }
        };
        let found = format_args!("the key {:?} of something else", key.name);
        let expected = format_args!("a key for a {owner:?}");
        let attribute = xml.here().need(attribute, Class::BadTag, expected, found)?;
        if attribute.pending.replace(value).is_some() {
            let found = format!("{:?} twice", key.name);
            return xml.here().refuse(Class::Duplicate, "each key once", found);
        }
        Ok(())
    }

    fn into_geometry(mut self, file: &WholeFile, options: &ReadOptions) -> Result<WholeGeometry> {
        let rows = self.resolve_edges(file)?;
        let mut geometry =
            std::mem::take(&mut self.graph).into_geometry(&rows, options, "GraphML")?;
        if let Some((_, fields)) = &mut geometry.elements {
            if self.edge_ids.iter().any(Option::is_some) {
                let ids = self.edge_ids.into_iter().map(Option::unwrap_or_default);
                fields.push(text_field("edge_id", &ids.collect::<Vec<_>>())?);
            }
            if self.directions.iter().any(|directed| *directed != self.is_directed) {
                let flags = self.directions.iter().map(|directed| u8::from(*directed)).collect();
                fields.push(Field::new("directed", new_column(BOOL, 1, flags)?));
            }
        }
        let record = json!({"directed": self.is_directed, "data": self.record});
        geometry.header.records.push(("graph".to_owned(), record));
        Ok(geometry)
    }

    pub(crate) fn resolve_edges(&self, file: &WholeFile) -> Result<Vec<i64>> {
        self.graph.resolve_edges().map_err(|(edge, name)| {
            let spot = file.spot(format!("edge {edge}"));
            spot.error(Class::NotFound, "a node that is there", quote(&name, 60))
        })
    }
}

fn bad_value(xml: &Xml<'_>, (name, kind, text): (String, ValueKind, String)) -> Error {
    xml.here().error(Class::Encoding, format!("{} for {name:?}", kind.dtype()), quote(&text, 40))
}
