//! Objects, elements and values of JSON lines, and lines that are refused.

use std::io::Write as _;

use crate::JSONL;
use crate::jsonl::read::*;
use crate::shared::{dump, dump_file, open};

fn read(text: &str) -> Result<String, String> {
    dump(&JSONL, text.as_bytes(), &ReadOptions::default())
}

#[test]
fn reads_attributes_of_every_type() {
    let text = "{\"vertex\":0,\"position\":[1,2.5],\"n\":1,\"w\":\"NaN\",\"c\":[1,2],\"t\":\"ab\"}\n\n\
        {\"vertex\":1,\"position\":[3,4],\"n\":-2,\"w\":0.5,\"c\":[3,4],\"t\":\"c\"}\n";
    let dumped = read(text).unwrap();
    assert!(
        dumped.contains("x,y,n,w,c_0,c_1,t\n1,2.5,1,NaN,1,2,ab\n3,4,-2,0.5,3,4,c\n"),
        "{dumped}"
    );
}

#[test]
fn reads_parts_and_elements() {
    let dumped =
        read("{\"part\":0,\"object\":7,\"positions\":[[1,2],[3,4]],\"w\":[5,6]}\n").unwrap();
    assert!(dumped.contains("1,2,5,0,7\n3,4,6,0,7\n"), "{dumped}");
    let mesh = "{\"position\":[0,0]}\n{\"position\":[1,0]}\n{\"position\":[0,1]}\n{\"vertices\":[2,1,0],\"a\":9}\n";
    let dumped = dump_file(&JSONL, mesh.as_bytes(), &ReadOptions::default()).unwrap();
    assert!(dumped.contains("mesh") && dumped.contains("2,1,0,9\n"), "{dumped}");
}

#[test]
fn minus_one_is_no_object_of_a_point() {
    let text = "{\"position\":[1,2],\"object\":7}\n{\"position\":[3,4],\"object\":-1}\n\
                {\"position\":[5,6],\"object\":null}\n";
    let dumped = read(text).unwrap();
    assert!(dumped.contains("1,2,7\n3,4,\n5,6,\n"), "{dumped}");
    let lines = ReadOptions { kind: Some(Kind::Polyline), ..ReadOptions::default() };
    let error = dump(&JSONL, text.as_bytes(), &lines).unwrap_err();
    assert!(error.contains("line 3, column \"object\": expected an id"), "{error}");
    let text = text.lines().take(2).collect::<Vec<_>>().join("\n");
    let dumped = dump(&JSONL, text.as_bytes(), &lines).unwrap();
    assert!(dumped.contains("-1"), "{dumped}");
}

#[test]
fn refuses_what_the_first_lines_do_not_have() {
    let small = ReadOptions { memory: 1, ..ReadOptions::default() };
    let first = "{\"position\":[1,2],\"n\":1}\n";
    for (second, fault) in [
        ("{\"position\":[3,4],\"n\":2,\"m\":5}", "column \"m\": expected an attribute"),
        ("{\"position\":[3,4],\"n\":2,\"object\":5}", "column \"object\": expected no object"),
        ("{\"positions\":[[3,4]],\"n\":2}", "column \"n\": expected a list of 1 values"),
        ("{\"positions\":[[3,4]],\"n\":[2,5]}", "column \"n\": expected a list of 1 values"),
    ] {
        let text = format!("{first}{second}\n");
        let error = dump(&JSONL, text.as_bytes(), &small).unwrap_err();
        assert!(error.contains(fault), "{error}");
    }
    let mut chosen = small.clone();
    chosen.columns.fields = Some(vec!["n".to_owned()]);
    let text = format!("{first}{{\"position\":[3,4],\"n\":2,\"m\":5}}\n");
    let dumped = dump(&JSONL, text.as_bytes(), &chosen).unwrap();
    assert!(dumped.contains("1,2,1\n3,4,2\n"), "{dumped}");
    let graph = "{\"position\":[0]}\n{\"position\":[1]}\n{\"vertices\":[0,1]}\n{\"vertices\":[1,0],\"w\":3}\n";
    let dumped = dump_file(&JSONL, graph.as_bytes(), &ReadOptions::default()).unwrap();
    assert!(dumped.contains("1,0,3\n"), "{dumped}");
}

#[test]
fn faults_name_line_and_key() {
    assert_eq!(
        read("{\"position\":[1,2]}\n{\"position\":[1]}\n").unwrap_err(),
        "Encoding in JSON lines, line 2, column \"position\": expected a list of 2 numbers, found [1]"
    );
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"{\"position\":[1]}\n{\"vertices\":[0,1]}\n").unwrap();
    let input = zvf_formats::Input::path(file.path());
    let mut reader = open(input, Some(&JSONL), &ReadOptions::default()).unwrap();
    let error = reader.find_map(Result::err).unwrap();
    assert_eq!(error.class(), Class::OutOfBounds);
    let text = "{\"position\":[1]}\n{\"vertices\":[]}\n{\"vertices\":[0]}\n";
    assert_eq!(
        dump_file(&JSONL, text.as_bytes(), &ReadOptions::default()).unwrap_err(),
        "Encoding in JSON lines, line 2, column \"vertices\": expected a list of vertices, found []"
    );
}
