//! Chunks, fragments, positions and attributes against what the reference found.

use serde_json::{Value, json};
use zvf_format::fragment::Fragment;
use zvf_format::key::ChunkKey;
use zvf_format::Class;
use zvf_model::{Column, ColumnBuilder, ModelError};
use zvf_store::Caching;

use crate::archive::inline;
use crate::told::{Told, every_level, key, same_rows, sha256};

/// All chunks of a level, and each of `columns` by fragment.
fn in_order(told: &Told, columns: Vec<Result<Column, ModelError>>) -> Result<Column, ModelError> {
    let keys: Vec<ChunkKey> = inline(told.level.chunks()).unwrap().iter().collect();
    let mut all: Option<ColumnBuilder> = None;
    for (fragments, column) in inline(told.level.fragments(&keys)).into_iter().zip(columns) {
        let ordered = fragments?.in_order(&column?)?;
        all.get_or_insert_with(|| ColumnBuilder::like(&ordered)).push_rows(&ordered, 0..ordered.len());
    }
    Ok(all.map_or_else(|| Column::empty(told.level.dtype(), 1).unwrap(), ColumnBuilder::finish))
}

fn fragment_rows(fragment: Fragment<'_>) -> Value {
    match fragment {
        Fragment::Range { start, count } => json!({"range": [start, count]}),
        Fragment::Rows(_) => json!({"rows": fragment.rows().collect::<Vec<_>>()}),
    }
}

#[test]
fn chunks_fragments_and_positions_of_every_level() {
    let (mut levels, mut cells) = (0, 0);
    every_level(|told| {
        let Told { name, level, expected, .. } = told;
        let chunks = inline(level.chunks()).unwrap();
        assert_eq!(chunks.len(), expected["chunk_count"], "{name}");
        let keys: Vec<ChunkKey> = chunks.iter().collect();
        let positions = inline(level.positions(&keys, Caching::Once));
        if name.starts_with("ms3_draco") {
            let error = positions[0].as_ref().unwrap_err();
            assert_eq!(
                (error.class(), error.array()),
                (Class::Unsupported, Some("0/vertices")),
                "{error}"
            );
            return;
        }
        for cell in expected["cells"].as_array().into_iter().flatten() {
            let key = [key(&cell["chunk"])];
            let at = chunks.find(&key[0]).unwrap();
            assert_eq!(positions[at].as_ref().unwrap().len(), cell["rows"], "{name} {}", key[0]);
            let fragments = inline(level.fragments(&key)).pop().unwrap().unwrap();
            assert_eq!(fragments.len(), cell["fragments"].as_u64().unwrap());
            let view = fragments.view().unwrap();
            let shown: Vec<Value> = view.iter().map(fragment_rows).collect();
            if let Some(told) = cell["fragment_rows"].as_array() {
                let ranges = told.iter().all(|one| one.get("range").is_some());
                if ranges {
                    assert_eq!(shown, *told, "{name} {}", key[0]);
                }
            }
            cells += 1;
        }
        let stride = usize::try_from(level.dtype().size).unwrap() * level.axes();
        let all = in_order(told, positions).unwrap();
        same_rows(&expected["vertices"], all.bytes(), stride, name);
        if inline(level.tiles()).unwrap() {
            let raw = inline(level.positions(&keys, Caching::Once));
            let raw: Vec<u8> =
                raw.into_iter().flat_map(|column| column.unwrap().bytes().to_vec()).collect();
            assert_eq!(raw[..], all.bytes()[..], "{name}");
        }
        levels += 1;
    });
    assert!(levels >= 97 && cells > 600, "{levels} levels, {cells} cells");
}

#[test]
fn attributes_of_every_level() {
    let (mut seen, mut wide) = (0, 0);
    every_level(|told| {
        let Told { name, level, expected, .. } = told;
        let Some(attributes) = expected["vertex_attributes"].as_object() else { return };
        let listed = inline(level.attribute_names()).unwrap();
        let names: Vec<&String> = attributes.keys().collect();
        assert_eq!(listed.names.iter().collect::<Vec<_>>(), names, "{name}");
        let keys: Vec<ChunkKey> = inline(level.chunks()).unwrap().iter().collect();
        for (attribute, expected) in attributes {
            let told_name = format!("{name} {attribute}");
            let reader = inline(level.attribute(attribute)).unwrap().unwrap();
            let values = inline(reader.values(&keys, Caching::Once));
            if let Some(error) = expected["error"].as_str() {
                let first = values.into_iter().find_map(Result::err);
                panic!("{told_name}: {error}; here {first:?}");
            }
            assert_eq!(reader.dtype().to_string(), expected["dtype"].as_str().unwrap(), "{told_name}");
            let all = in_order(told, values).unwrap_or_else(|error| panic!("{told_name}: {error}"));
            // The reference reads vectors that are declared scalar flattened.
            if reader.width() == expected["ncols"] {
                same_rows(expected, all.bytes(), all.stride(), &told_name);
            } else {
                assert_eq!(sha256(all.bytes()), expected["sha256"], "{told_name}");
                wide += 1;
            }
            if let Some(categories) = expected["categories"].as_array() {
                let known: Vec<String> =
                    reader.categories().unwrap().values().iter().map(ToString::to_string).collect();
                let told: Vec<&str> = categories.iter().map(|one| one.as_str().unwrap()).collect();
                assert_eq!(known, told);
                assert_eq!(json!(reader.categories().unwrap().missing()), expected["fill_code"]);
            }
            seen += 1;
        }
    });
    assert!(seen > 60 && wide >= 1, "{seen} attributes, {wide} wider than declared");
}

#[test]
fn fragment_attributes_of_every_level() {
    let mut seen = 0;
    every_level(|told| {
        let Some(attributes) = told.expected["fragment_attributes"].as_object() else { return };
        for (name, expected) in attributes {
            let reader = inline(told.level.fragment_attribute(name)).unwrap().unwrap();
            assert_eq!(reader.width(), expected["ncols"], "{} {name}", told.name);
            for cell in expected["cells"].as_array().unwrap() {
                let key = [key(&cell["chunk"])];
                let values = inline(reader.values_where_written(&key, Caching::Once)).pop().unwrap();
                let Some(values) = values.unwrap() else {
                    assert_eq!(cell["absent"], true, "{} {name} {}", told.name, key[0]);
                    assert!(inline(reader.values(&key, Caching::Once))[0].is_err());
                    continue;
                };
                assert_eq!((values.len()), cell["rows"], "{} {name}", told.name);
                assert_eq!(sha256(values.bytes()), cell["sha256"], "{} {name}", told.name);
            }
            seen += 1;
        }
    });
    assert!(seen > 3, "{seen}");
}
