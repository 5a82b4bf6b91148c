//! Documents with random faults: no call panics, and a parsed document is unchanged by printing and
//! parsing.

use std::string::String;
use std::vec::Vec;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{ArrayDoc, GroupDoc, LevelDoc, Limits, Node, Root, print, validate};
use super::{documents, reprint};

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(
            &[
                "",
                "0",
                "0.9.2",
                "float32",
                "add",
                "dictionary",
                "draco",
                "0x7f",
                "NaN",
                "vlen-bytes",
                "sharding_indexed",
                "dense_manifests_v1",
                "voxels",
                "1e999",
                "\u{202e}\n",
            ][..]
        )
        .prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-z_]{0,6}", inner), 0..4)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

/// Collects the paths of all parts of a value, depth first.
fn places(value: &Value, path: &str, all: &mut Vec<String>) {
    all.push(path.into());
    let step = |key: &str| std::format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
    match value {
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                places(item, &step(&std::format!("{i}")), all);
            }
        }
        Value::Object(object) => {
            for (key, value) in object {
                places(value, &step(key), all);
            }
        }
        _ => {}
    }
}

/// Returns a valid document with one value replaced, or one key removed.
fn mutated() -> impl Strategy<Value = String> {
    let document = prop::sample::select(&documents::GOOD[..]);
    (document, any::<prop::sample::Index>(), prop::option::of(any_value())).prop_map(
        |((_, text), at, replacement)| {
            let mut value: Value = serde_json::from_str(text).unwrap();
            let mut all = Vec::new();
            places(&value, "", &mut all);
            let place = at.get(&all);
            match (replacement, place.rsplit_once('/')) {
                (Some(replacement), _) => *value.pointer_mut(place).unwrap() = replacement,
                (None, Some((parent, key))) => match value.pointer_mut(parent).unwrap() {
                    Value::Object(object) => drop(object.remove(key)),
                    Value::Array(items) => drop(items.pop()),
                    _ => {}
                },
                (None, None) => {}
            }
            print(&value)
        },
    )
}

/// Parses a text as every type and calls every method.
fn walk(text: &[u8]) {
    let _node = Node::parse(text);
    let _array = ArrayDoc::parse(text).map(|array| {
        (array.items(), array.chunk_bytes(), array.inner_chunk_shape().len(), array.print())
    });
    let level = LevelDoc::parse(text);
    let points = documents::GOOD.iter().find(|(name, _)| *name == "root_points").unwrap().1;
    let valid_root = Root::parse(points.as_bytes()).unwrap();
    for root in [Root::parse(text), Ok(valid_root)].into_iter().flatten() {
        let _open = root.open_checks();
        let _findings = validate(&root, &[("0", &LevelDoc::new(0))]);
        if let Ok(level) = &level {
            let _scale = level.chunk_scale(&root);
            let _bin = level.effective_bin_shape(&root, "1");
            let _findings = validate(&root, &[("0", &LevelDoc::new(0)), ("1", level)]);
        }
    }
}

proptest! {
    /// A document with one changed value is refused in one line, or read and printed.
    #[test]
    fn one_value_off(text in mutated()) {
        walk(text.as_bytes());
        match reprint(&text) {
            Ok(printed) => prop_assert_eq!(reprint(&printed).unwrap(), printed),
            Err(error) => {
                let line = std::format!("{error}");
                prop_assert!(!line.chars().any(char::is_control), "{}", line);
                prop_assert!(line.len() < 2000, "{}", line);
            }
        }
    }

    /// Bytes of a valid document are changed or missing.
    #[test]
    fn some_bytes_off(
        (_, text) in prop::sample::select(&documents::GOOD[..]),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        end in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut text = text.as_bytes().to_vec();
        for (at, byte) in edits {
            *at.get_mut(&mut text) = byte;
        }
        if let Some(end) = end {
            text.truncate(end.index(text.len()));
        }
        walk(&text);
    }

    /// Printed values are read back, to the last bit of a number.
    #[test]
    fn any_json_is_read_back(value in any_value()) {
        let document = json!({"zarr_format": 3, "node_type": "group", "attributes": {"v": &value}});
        let text = print(&document);
        let group = GroupDoc::parse(text.as_bytes()).unwrap();
        prop_assert_eq!(&group.attributes["v"], &value);
        prop_assert_eq!(group.print(), text);
    }

    /// Any text is parsed or refused without a panic.
    #[test]
    fn any_text_is_parsed_or_refused(text in "[\\[\\]{}\",:0-9eE+\\-. a-z\\\\NIu]{0,64}") {
        let strict = GroupDoc::parse_within(
            std::format!(r#"{{"zarr_format": 3, "node_type": "group", "attributes": {{"v": {text}}}}}"#)
                .as_bytes(),
            &Limits::GROUP,
        );
        let lenient = serde_json::from_str::<Value>(&text);
        if strict.is_ok() && lenient.is_err() {
            // More than one value is possible only if the text closes the enclosing brackets.
            prop_assert!(text.contains([',', '}']), "{}", text);
        }
    }
}
