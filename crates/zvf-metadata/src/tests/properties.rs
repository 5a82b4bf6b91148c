//! Documents with something wrong at random: nothing panics, and what is read is printed and read
//! again as the same.

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

/// The places of a value, depth first.
fn places(value: &Value, here: &str, all: &mut Vec<String>) {
    all.push(here.into());
    let step = |key: &str| std::format!("{here}/{}", key.replace('~', "~0").replace('/', "~1"));
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

/// A good document with one value replaced, or one key taken out.
fn mutated() -> impl Strategy<Value = String> {
    let good = prop::sample::select(&documents::GOOD[..]);
    (good, any::<prop::sample::Index>(), prop::option::of(any_value())).prop_map(
        |((_, text), at, with)| {
            let mut value: Value = serde_json::from_str(text).unwrap();
            let mut all = Vec::new();
            places(&value, "", &mut all);
            let place = at.get(&all);
            match (with, place.rsplit_once('/')) {
                (Some(with), _) => *value.pointer_mut(place).unwrap() = with,
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

/// Reads a text as everything there is and asks what can be asked.
fn walk(text: &[u8]) {
    let _node = Node::parse(text);
    let _array = ArrayDoc::parse(text).map(|array| {
        (array.items(), array.chunk_bytes(), array.inner_chunk_shape().len(), array.print())
    });
    let level = LevelDoc::parse(text);
    let points = documents::GOOD.iter().find(|(name, _)| *name == "root_points").unwrap().1;
    let sound = Root::parse(points.as_bytes()).unwrap();
    for root in [Root::parse(text), Ok(sound)].into_iter().flatten() {
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
    /// One value of a good document is another one: it is refused in one line, or read and printed.
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

    /// Bytes of a good document are others, or missing.
    #[test]
    fn some_bytes_off(
        (_, text) in prop::sample::select(&documents::GOOD[..]),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut text = text.as_bytes().to_vec();
        for (at, byte) in edits {
            *at.get_mut(&mut text) = byte;
        }
        if let Some(cut) = cut {
            text.truncate(cut.index(text.len()));
        }
        walk(&text);
    }

    /// What is printed is read as it was, to the last bit of a number.
    #[test]
    fn any_json_reads_as_it_is(value in any_value()) {
        let document = json!({"zarr_format": 3, "node_type": "group", "attributes": {"v": &value}});
        let text = print(&document);
        let group = GroupDoc::parse(text.as_bytes()).unwrap();
        prop_assert_eq!(&group.attributes["v"], &value);
        prop_assert_eq!(group.print(), text);
    }

    /// Any text is answered, whatever it is.
    #[test]
    fn any_text_is_answered(text in "[\\[\\]{}\",:0-9eE+\\-. a-z\\\\NIu]{0,64}") {
        let strict = GroupDoc::parse_within(
            std::format!(r#"{{"zarr_format": 3, "node_type": "group", "attributes": {{"v": {text}}}}}"#)
                .as_bytes(),
            &Limits::GROUP,
        );
        let lenient = serde_json::from_str::<Value>(&text);
        if strict.is_ok() && lenient.is_err() {
            // Only what closes the brackets around it may be more than one value.
            prop_assert!(text.contains([',', '}']), "{}", text);
        }
    }
}
