//! Outlines of documents, cut anywhere.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;

use serde_json::json;

use super::*;
use crate::{CodecSpec, DataType, KeyList};

fn long() -> ArrayDoc {
    let mut array = ArrayDoc::new(vec![40, 40], vec![1, 1], DataType::variable_length_bytes());
    array.codecs.push(CodecSpec::vlen_bytes());
    array.attributes.insert("dtype".to_string(), json!("float32"));
    array.attributes.insert("names".to_string(), json!(["a", "b", "c"]));
    let key = |at: i64| format!("{}.{}", at / 40 - 7, at % 40);
    array.nonempty_chunks = Some((0..1600).map(key).collect::<KeyList>());
    array
}

/// The outline from the ends of `text`, so many bytes each.
fn outline(text: &str, ends: usize) -> Option<ArrayDoc> {
    let text = text.as_bytes();
    ArrayDoc::outline(text.get(..ends)?, text.get(text.len().checked_sub(ends)?..)?)
}

#[test]
fn an_outline_is_the_document_without_its_list_or_none() {
    let whole = long();
    let text = whole.print();
    let mut found = 0;
    for ends in 0..text.len() {
        if let Some(outline) = outline(&text, ends) {
            assert!(whole.has_outline(&outline), "{ends}");
            assert_eq!(outline.nonempty_chunks, None, "{ends}");
            found += 1;
        }
    }
    assert!(found > text.len() / 2, "{found} of {}", text.len());
    assert!(outline(&text, 600).is_some());
}

#[test]
fn what_is_not_the_inside_of_a_list_has_no_outline() {
    let text = long().print();
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
    for (what, broken) in broken {
        assert_ne!(broken, text, "{what}");
        assert!(outline(&broken, 700).is_none(), "{what}");
    }
    assert!(ArrayDoc::outline(b"", b"").is_none());
    assert!(ArrayDoc::outline(b"\",", b"\",").is_none());
    assert!(ArrayDoc::outline(text.as_bytes(), b"\xff\",").is_none());
}

#[test]
fn what_lies_between_is_compared_with_the_whole() {
    // The list ends and another one begins, where nobody looks at first.
    let text = long().print();
    let split = text.replacen("\"3.3\", ", "\"3.3\"], \"hidden\": [", 1);
    let outline = outline(&split, 700).unwrap();
    let whole = ArrayDoc::parse(split.as_bytes()).unwrap();
    assert!(whole.attributes.contains_key("hidden") && !whole.has_outline(&outline));
    assert!(long().has_outline(&outline));
    let bare = ArrayDoc { nonempty_chunks: None, ..long() };
    assert!(!bare.has_outline(&outline));
}
