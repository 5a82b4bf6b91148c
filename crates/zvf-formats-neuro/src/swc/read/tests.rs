//! Tests of the SWC reader: forests in any order, and malformed files.

use zvf_formats::ReadOptions;
use zvf_metadata::Dtype;
use zvf_model::Kind;

use crate::SWC;
use crate::shared::{dump, fault};

const FOREST: &[u8] =
    b"# caf\xe9\n\n 5 1 0 0 0 2.5 -1\n7 3 1 0 0 1 6 more\n6 3 2 0 0 1 5 # note\n1 0 9 9 9 .5 -1\n";

#[test]
fn every_tree_is_an_object() {
    let default = ReadOptions::default;
    let points = ReadOptions { kind: Some(Kind::PointCloud), ..default() };
    let small =
        ReadOptions { batch_rows: 3, positions: "float64".parse::<Dtype>().ok(), ..default() };
    let names = "x,y,z,radius,type,object\n";
    let (first, last) = ("0,0,0,2.5,1,0\n1,0,0,1,3,0\n2,0,0,1,3,0\n", "9,9,9,0.5,0,1\n");
    let fields = "radius float32, type int32";
    let more = "not values after the seventh of a line";
    for (options, expected) in [
        (
            default(),
            format!(
                "skeleton of float32, {fields}, elements of Some(2), {more}\n{names}{first}{last}v0,v1\n1,2\n2,0\n"
            ),
        ),
        (points, format!("point_cloud of float32, {fields}, {more}\n{names}{first}{last}")),
        (
            small,
            format!(
                "skeleton of float64, radius float64, type int32, elements of Some(2), {more}\n{names}{first}\
                 v0,v1\n1,2\n2,0\n{names}{last}v0,v1\n"
            ),
        ),
    ] {
        assert_eq!(dump(&SWC, FOREST, &options).unwrap(), expected);
    }
    let empty = dump(&SWC, b"# nothing\n", &default()).unwrap();
    assert_eq!(empty, format!("skeleton of float32, {fields}, elements of Some(2)\n"));
}

#[test]
fn trees_are_never_cut() {
    // Two interleaved trees, then one that is larger than a batch, then a small one.
    let rows = ["1 -1", "2 -1", "3 1", "4 2", "10 -1", "11 10", "12 11", "20 -1"];
    let text: String = rows
        .iter()
        .map(|row| row.split_once(' ').unwrap())
        .map(|(id, parent)| format!("{id} 0 0 0 0 1 {parent}\n"))
        .collect();
    let trees = |batch_rows| {
        let options = ReadOptions { batch_rows, ..ReadOptions::default() };
        let dumped = dump(&SWC, text.as_bytes(), &options).unwrap();
        let batches = dumped.split("x,y,z,radius,type,object\n").skip(1);
        batches.map(|batch| batch.replace("0,0,0,1,0,", "").replace('\n', " ")).collect::<Vec<_>>()
    };
    let third = "2 2 2 v0,v1 5,4 6,5 ";
    assert_eq!(trees(1), ["0 1 0 1 v0,v1 2,0 3,1 ", third, "3 v0,v1 "]);
    assert_eq!(trees(4), ["0 1 0 1 v0,v1 2,0 3,1 ", "2 2 2 3 v0,v1 5,4 6,5 "]);
    assert_eq!(trees(7), ["0 1 0 1 2 2 2 v0,v1 2,0 3,1 5,4 6,5 ", "3 v0,v1 "]);
}

#[test]
fn refuses_malformed_files() {
    for (text, message) in [
        (
            "1 1 0 0 0 1\n",
            "CountMismatch, line 1: id, type, x, y, z, radius and parent, found 6 values",
        ),
        ("a 1 0 0 0 1 -1\n", "Encoding, line 1, column \"id\": a whole number, found \"a\""),
        ("-2 1 0 0 0 1 -1\n", "Negative, line 1, column \"id\": 0 or more, found \"-2\""),
        (
            "1 1.5 0 0 0 1 -1\n",
            "Encoding, line 1, column \"type\": a whole number of 32 bits, found \"1.5\"",
        ),
        ("1 1 0 nan 0 1 -1\n", "Encoding, line 1, column \"y\": a number, found \"nan\""),
        ("1 1 0 0 1e999 1 -1\n", "Encoding, line 1, column \"z\": a number, found \"1e999\""),
        ("1 1 0 0 0 r -1\n", "Encoding, line 1, column \"radius\": a number, found \"r\""),
        ("1 1 0 0 0 1 x\n", "Encoding, line 1, column \"parent\": a whole number, found \"x\""),
        (
            "1 1 0 0 0 1 -1\n1 1 0 0 0 1 -1\n",
            "Duplicate, line 2, column \"id\": another id for each node, found \"1\"",
        ),
        (
            "# a\n1 1 0 0 0 1 -1\n2 1 0 0 0 1 3\n",
            "OutOfBounds, line 3, column \"parent\": the id of a node, or -1, found \"3\"",
        ),
        (
            "1 1 0 0 0 1 1\n",
            "BadShape, line 1, column \"parent\": a way up to a root, found \"a circle\"",
        ),
        (
            "1 1 0 0 0 1 -1\n2 1 0 0 0 1 3\n3 1 0 0 0 1 4\n4 1 0 0 0 1 3\n",
            "BadShape, line 2, column \"parent\": a way up to a root, found \"a circle\"",
        ),
    ] {
        let found = dump(&SWC, text.as_bytes(), &ReadOptions::default());
        assert_eq!(fault(found, "SWC"), message, "{text}");
    }
    for (options, message) in [
        (
            ReadOptions { kind: Some(Kind::Mesh), ..ReadOptions::default() },
            "Unsupported, the file: skeleton, graph or point_cloud, found mesh",
        ),
        (
            ReadOptions { positions: Some(Dtype::INT64), ..ReadOptions::default() },
            "Unsupported, the file: a type of floats for positions, found int64",
        ),
        (
            ReadOptions { memory: 400, ..ReadOptions::default() },
            "LimitExceeded, line 5: at most 2 nodes, for the memory allowed, found more; allow \
             more memory",
        ),
    ] {
        assert_eq!(fault(dump(&SWC, FOREST, &options), "SWC"), message);
    }
}

#[test]
fn finding_roots_takes_linear_time() {
    // With children first, the path from the first node is as long as possible.
    let nodes = 200_000;
    // The root is node 1, whose parent would be 0.
    let text: String = (1..=nodes).rev().map(|id| format!("{id} 3 0 0 0 1 {}\n", id - 1)).collect();
    let text = text.replace(" 1 0\n", " 1 -1\n");
    let dumped = dump(&SWC, text.as_bytes(), &ReadOptions::default()).unwrap();
    assert_eq!(dumped.lines().filter(|line| line.ends_with(",0")).count(), nodes);
}
