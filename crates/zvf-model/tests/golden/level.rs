//! Chunks, fragments, positions and attributes compared with zarr-vectors.

use serde_json::{Value, json};
use zvf_error::Result;
use zvf_format::Class;
use zvf_format::fragment::Fragment;
use zvf_format::key::ChunkKey;
use zvf_model::{Column, ColumnBuilder};
use zvf_store::Caching;

use crate::cases::{LevelCase, key, same_rows, sha256};
use archives::inline;

/// Returns all chunks of a level, and each of `columns` by fragment.
fn in_order(case: &LevelCase, columns: Vec<Result<Column>>) -> Result<Column> {
    let keys = case.chunks();
    let mut all: Option<ColumnBuilder> = None;
    for (fragments, column) in inline(case.level.fragments(&keys)).into_iter().zip(columns) {
        let (fragments, column) = (fragments?, column?);
        fragments.check_rows(column.len() as u64)?;
        let all = all.get_or_insert_with(|| ColumnBuilder::empty_like(&column));
        for fragment in &fragments.view() {
            fragment.rows().for_each(|row| all.push_row(&column, row as usize));
        }
    }
    Ok(all.map_or_else(|| Column::empty(case.level.dtype(), 1).unwrap(), ColumnBuilder::finish))
}

fn fragment_rows(fragment: Fragment<'_>) -> Value {
    match fragment {
        Fragment::Range { start, count } => json!({"range": [start, count]}),
        Fragment::Rows(_) => json!(fragment.rows().collect::<Vec<_>>()),
    }
}

pub(crate) fn positions(case: &LevelCase) -> usize {
    let LevelCase { name, level, expected, .. } = case;
    let chunks = inline(level.chunks()).unwrap();
    assert_eq!(chunks.len(), expected["chunk_count"], "{name}");
    let keys = case.chunks();
    let positions = inline(level.positions(&keys, Caching::Once));
    if case.is_draco() {
        if zvf_draco::DECODES {
            // Streams have their own order: rows are counted, and attributes are refused.
            let counts = inline(level.row_counts(&keys));
            for (column, count) in positions.iter().zip(counts) {
                assert_eq!(column.as_ref().unwrap().len() as u64, count.unwrap(), "{name}");
            }
            assert!(!inline(level.keeps_order()).unwrap(), "{name}");
            return 0;
        }
        let error = positions[0].as_ref().unwrap_err();
        assert_eq!(
            (error.class(), error.array()),
            (Class::Unsupported, Some("0/vertices")),
            "{error}"
        );
        return 0;
    }
    let cells = expected["cells"].as_array().map(Vec::as_slice).unwrap_or_default();
    for cell in cells {
        let key = [key(&cell["chunk"])];
        let at = chunks.find(&key[0]).unwrap();
        assert_eq!(positions[at].as_ref().unwrap().len(), cell["rows"], "{name} {}", key[0]);
        let fragments = inline(level.fragments(&key)).pop().unwrap().unwrap();
        assert_eq!(fragments.len(), cell["fragments"].as_u64().unwrap());
        let view = fragments.view();
        let fragments_rows: Vec<Value> = view.iter().map(fragment_rows).collect();
        if let Some(row_lists) = cell["fragment_rows"].as_array() {
            assert!(row_lists.len() == fragments_rows.len(), "{name} {}", key[0]);
            for (rows, found) in row_lists.iter().zip(&fragments_rows) {
                if rows.get("range").is_some() {
                    assert_eq!(found, rows, "{name} {}", key[0]);
                }
            }
        }
    }
    let stride = usize::try_from(level.dtype().size).unwrap() * level.axes();
    let all = in_order(case, positions).unwrap();
    same_rows(&expected["vertices"], all.bytes(), stride, name);
    if inline(level.tiles()).unwrap() {
        let raw = inline(level.positions(&keys, Caching::Once));
        let raw: Vec<u8> =
            raw.into_iter().flat_map(|column| column.unwrap().bytes().to_vec()).collect();
        assert_eq!(raw[..], all.bytes()[..], "{name}");
    }
    some_rows(case, &keys);
    cells.len()
}

/// Checks that ranges of rows equal the rows of the full chunk.
fn some_rows(case: &LevelCase, keys: &[ChunkKey]) {
    let payloads = inline(case.level.positions(keys, Caching::Once));
    let counts = inline(case.level.row_counts(keys));
    let reads: Vec<_> = keys
        .iter()
        .zip(&counts)
        .map(|(key, count)| {
            let count = *count.as_ref().unwrap();
            (*key, vec![count / 2..count, 0..count.min(1)])
        })
        .collect();
    let parts = inline(case.level.position_rows(&reads));
    for ((payload, parts), (key, ranges)) in payloads.iter().zip(parts).zip(reads) {
        let (payload, parts) = (payload.as_ref().unwrap(), parts.unwrap());
        for (part, range) in parts.iter().zip(ranges) {
            let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
            assert_eq!(*part, payload.slice(range), "{} {key}", case.name);
        }
    }
}

pub(crate) fn attributes(case: &LevelCase) -> usize {
    let LevelCase { name, level, expected, .. } = case;
    let Some(attributes) = expected["vertex_attributes"].as_object() else { return 0 };
    let listed = inline(level.attribute_names()).unwrap();
    // zarr-vectors does not return the attribute that bins a level.
    let bins = level.bin_attribute().map(|(name, _)| name);
    assert_eq!(
        listed.names.iter().filter(|name| Some(name.as_str()) != bins).collect::<Vec<_>>(),
        attributes.keys().collect::<Vec<_>>(),
        "{name}"
    );
    let keys = case.chunks();
    for (attribute, expected) in attributes {
        let context = format!("{name} {attribute}");
        let reader = inline(level.attribute(attribute)).unwrap().unwrap();
        let values = inline(reader.values(&keys, Caching::Once));
        if !expected["error"].is_null() {
            let error = values.into_iter().find_map(Result::err).expect(&context);
            assert_eq!(error.class(), Class::CountMismatch, "{context}: {error}");
            continue;
        }
        assert_eq!(reader.dtype().to_string(), expected["dtype"].as_str().unwrap(), "{context}");
        let all = in_order(case, values).unwrap_or_else(|error| panic!("{context}: {error}"));
        // zarr-vectors returns vectors that are declared scalar in flattened form.
        if reader.width() == expected["ncols"] {
            same_rows(expected, all.bytes(), all.stride(), &context);
        } else {
            let flattened = name.starts_with("sl3_vector_attr") || name.starts_with("ms3_tri");
            assert!(flattened, "{context}");
            assert_eq!(
                (reader.width(), sha256(all.bytes())),
                (3, expected_hash(expected)),
                "{context}"
            );
        }
        if let Some(categories) = expected["categories"].as_array() {
            let found_categories = reader.categories().unwrap();
            let labels: Vec<String> =
                found_categories.values().iter().map(ToString::to_string).collect();
            let names: Vec<&str> =
                categories.iter().map(|category| category.as_str().unwrap()).collect();
            assert_eq!(labels, names, "{context}");
            assert_eq!(json!(found_categories.missing_code()), expected["fill_code"], "{context}");
        }
    }
    attributes.len()
}

fn expected_hash(expected: &Value) -> String {
    expected["sha256"].as_str().unwrap().to_owned()
}

pub(crate) fn fragment_attributes(case: &LevelCase) -> usize {
    let Some(attributes) = case.expected["fragment_attributes"].as_object() else { return 0 };
    let mut count = 0;
    for (name, expected) in attributes {
        let reader = inline(case.level.fragment_attribute(name)).unwrap().unwrap();
        assert_eq!(reader.width(), expected["ncols"], "{} {name}", case.name);
        for cell in expected["cells"].as_array().unwrap() {
            let key = [key(&cell["chunk"])];
            let values = inline(reader.values_where_written(&key, Caching::Once)).pop().unwrap();
            let Some(values) = values.unwrap() else {
                assert_eq!(cell["absent"], true, "{} {name} {}", case.name, key[0]);
                assert!(inline(reader.values(&key, Caching::Once))[0].is_err());
                continue;
            };
            assert_eq!((values.len()), cell["rows"], "{} {name}", case.name);
            assert_eq!(sha256(values.bytes()), cell["sha256"], "{} {name}", case.name);
            count += 1;
        }
    }
    count
}
