//! Outlines of documents, cut at any position.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;

use serde_json::json;

use super::*;
use crate::{CodecSpec, DataType, KeyList};

fn long_document() -> ArrayDoc {
    let mut array = ArrayDoc::new(vec![40, 40], vec![1, 1], DataType::variable_length_bytes());
    array.codecs.push(CodecSpec::vlen_bytes());
    array.attributes.insert("dtype".to_string(), json!("float32"));
    array.attributes.insert("names".to_string(), json!(["a", "b", "c"]));
    let key = |at: i64| format!("{}.{}", at / 40 - 7, at % 40);
    array.nonempty_chunks = Some((0..1600).map(key).collect::<KeyList>());
    array
}

/// Returns the outline from the first and last `ends` bytes of `text`.
fn outline(text: &str, ends: usize) -> Option<ArrayDoc> {
    let text = text.as_bytes();
    ArrayDoc::outline(text.get(..ends)?, text.get(text.len().checked_sub(ends)?..)?)
}

#[test]
fn an_outline_is_absent_or_the_document_without_its_list() {
    let document = long_document();
    let text = document.print();
    let mut found = 0;
    for ends in 0..text.len() {
        if let Some(outline) = outline(&text, ends) {
            assert!(document.has_outline(&outline), "{ends}");
            assert_eq!(outline.nonempty_chunks, None, "{ends}");
            found += 1;
        }
    }
    assert!(found > text.len() / 2, "{found} of {}", text.len());
    assert!(outline(&text, 600).is_some());
}

#[test]
fn texts_cut_outside_of_the_list_have_no_outline() {
    let text = long_document().print();
    let broken: [(&str, String); 7] = [
        ("another list", text.replace("nonempty_chunks", "nonempty_things")),
        ("a key twice", text.replace("\"zarr_format\"", "\"shape\"")),
        ("another node", text.replace("\"node_type\": \"array\"", "\"node_type\": \"group\"")),
        ("cut off", text.trim_end().trim_end_matches('}').to_string()),
        ("more behind it", format!("{text}, 7")),
        ("a key that is none", text.replacen("\"-7.1\"", "\"-7.x\"", 1)),
        ("a number for a key", text.replacen("\"32.38\"", "32", 1)),
    ];
    assert!(outline(&text, 700).is_some());
    for (label, broken) in broken {
        assert_ne!(broken, text, "{label}");
        assert!(outline(&broken, 700).is_none(), "{label}");
    }
    assert!(ArrayDoc::outline(b"", b"").is_none());
    assert!(ArrayDoc::outline(b"\",", b"\",").is_none());
    assert!(ArrayDoc::outline(text.as_bytes(), b"\xff\",").is_none());
}

#[test]
fn an_outline_is_compared_with_the_full_document() {
    // The list ends and another one starts in the part that the outline skips.
    let text = long_document().print();
    let split = text.replacen("\"3.3\", ", "\"3.3\"], \"hidden\": [", 1);
    let outline = outline(&split, 700).unwrap();
    let document = ArrayDoc::parse(split.as_bytes()).unwrap();
    assert!(document.attributes.contains_key("hidden") && !document.has_outline(&outline));
    assert!(long_document().has_outline(&outline));
    let without_list = ArrayDoc { nonempty_chunks: None, ..long_document() };
    assert!(!without_list.has_outline(&outline));
}
