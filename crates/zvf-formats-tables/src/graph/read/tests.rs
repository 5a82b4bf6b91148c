//! Tests of graphs read from `GraphML` and lists of edges.

use serde_json::Value as Json;
use zvf_error::Error;

use crate::GRAPHML;
use crate::graph::read::*;
use crate::shared::golden::{self, Gathered, read_file};

fn compare(name: &str, graph: Graph, rows: &[i64], facts: &Json) {
    assert_eq!(facts["node_count"], graph.node_names.len(), "{name}");
    let bytes: Vec<u8> = rows.iter().flat_map(|row| row.to_le_bytes()).collect();
    assert_eq!(facts["links"]["sha256"], golden::sha256(&bytes), "{name}: links");
    if facts["ids"]["dtype"] == "string" && !graph.node_names.is_empty() {
        let ids = text_field("id", &graph.node_names).unwrap();
        Gathered::from_field(&ids).compare(&format!("{name}: ids"), &facts["ids"]);
    }
    let tables = [("vertex_attributes", graph.nodes), ("link_attributes", graph.edges)];
    for (key, table) in tables {
        let fields = table.into_fields(None).unwrap();
        let is_rounded = golden::is_rounded(facts);
        golden::check_columns(name, &facts[key], &golden::gather(&fields), is_rounded);
    }
}

#[test]
fn reads_golden_files_of_graphml() {
    let expected = golden::read_expected("graphml");
    let read = |path: &std::path::Path| {
        let file = read_file(path, "GraphML")?;
        let document = graphml::parse(&file)?;
        let rows = document.resolve_edges(&file)?;
        Ok((document.graph, rows))
    };
    for (name, facts) in expected["files"].as_object().unwrap() {
        let path = golden::folder("graphml").join(name);
        let (graph, rows) = read(&path).unwrap_or_else(|error: Error| panic!("{name}: {error}"));
        compare(name, graph, &rows, facts);
    }
    golden::check_good("graphml", &ReadOptions::default());
    golden::check_broken("graphml", |path| read(path).map(drop));
}

#[test]
fn reads_golden_files_of_edge_lists() {
    let expected = golden::read_expected("edgelist");
    let read = |path: &std::path::Path| {
        let file = read_file(path, "edge list")?;
        let name = path.file_name().unwrap().to_str().unwrap();
        let nodes = name
            .strip_suffix(".edges.csv")
            .map(|stem| read_file(&path.with_file_name(format!("{stem}.nodes.csv")), "edge list"));
        edges::parse(&file, nodes.transpose()?.as_ref())
    };
    for (name, facts) in expected["files"].as_object().unwrap() {
        let path = golden::folder("edgelist").join(name);
        let (graph, rows) = read(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        compare(name, graph, &rows, facts);
    }
    golden::check_good("edgelist", &ReadOptions::default());
    golden::check_broken("edgelist", |path| read(path).map(drop));
}

#[test]
fn refuses_a_graph_without_positions_and_lists_its_attributes() {
    let path = golden::folder("graphml").join("igraph.graphml");
    let columns = zvf_formats::ColumnRoles { positions: vec!["u".into()], ..Default::default() };
    let options = ReadOptions { columns, ..ReadOptions::default() };
    let error = golden::Collected::read(&path, &options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "InvalidArgument in GraphML, the nodes: expected a position \"u\", found the attributes \
         x, y, z, label; name the attributes that are positions, or give a table of nodes"
    );
}

#[test]
fn keys_and_data_must_name_a_key() {
    for (text, fault) in [
        ("<graphml><key for=\"node\"/></graphml>", "expected the id of a key, found none"),
        (
            "<graphml><graph><data>1</data></graph></graphml>",
            "expected the key of data, found none",
        ),
    ] {
        let options = ReadOptions::default();
        let error = crate::shared::dump(&GRAPHML, text.as_bytes(), &options);
        let error = error.unwrap_err();
        assert!(error.contains(fault), "{error}");
    }
}
