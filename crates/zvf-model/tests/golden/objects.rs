//! Objects, their attributes, their owners by fragment, and groups.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use zvf_format::fragment::Fragment;
use zvf_metadata::DtypeKind;
use zvf_model::{Column, ColumnBuilder, Members, ObjectId, RowAttribute, Value as One};
use zvf_store::Caching;

use crate::cases::{LevelCase, sha256};
use archives::inline;

fn ids(objects: &Value) -> Vec<ObjectId> {
    let listed = objects["objects"].as_array().unwrap();
    listed.iter().map(|object| ObjectId(object["id"].as_i64().unwrap())).collect()
}

pub(crate) fn objects(case: &LevelCase) -> usize {
    let LevelCase { name, level, expected, .. } = case;
    let expected = &expected["objects"];
    let index = inline(level.objects()).unwrap();
    if expected.is_null() {
        assert!(index.is_none(), "{name}");
        return 0;
    }
    let index = index.unwrap();
    assert_eq!(index.slots(), expected["num_objects"].as_u64().unwrap(), "{name}");
    let listed = inline(index.ids(0..index.slots())).unwrap();
    if let Some(ids) = expected["ids"].as_array() {
        assert_eq!(json!(listed.iter().map(|id| id.0).collect::<Vec<_>>()), json!(ids), "{name}");
    }
    let ids = ids(expected);
    let rows: Vec<u64> =
        inline(index.find(&ids)).unwrap().into_iter().map(Option::unwrap).collect();
    assert_eq!(inline(index.ids_of(&rows)).unwrap(), ids, "{name}");
    assert_eq!(inline(index.find(&[ObjectId(i64::MIN), ObjectId(1 << 50)])).unwrap(), [None, None]);

    // The list of objects may be incomplete.
    let all_slots: Vec<u64> = (0..index.slots()).collect();
    let (mut bytes, mut entries) = (Vec::new(), 0);
    for (manifest, id) in inline(index.manifests(&all_slots)).unwrap().iter().zip(&listed) {
        for (chunk, fragment) in manifest.references() {
            let numbers = [id.0].into_iter().chain(chunk.components().iter().copied());
            let numbers = numbers.chain([i64::try_from(fragment).unwrap()]);
            bytes.extend(numbers.flat_map(i64::to_le_bytes));
            entries += 1;
        }
    }
    assert_eq!(entries, expected["manifest_entries"], "{name}");
    assert_eq!(sha256(&bytes), expected["manifest_sha256"], "{name}");
    if let Some(present) = expected["num_present"].as_u64() {
        let mut found = 0;
        inline(index.scan(|manifest| {
            found += u64::from(!manifest.is_absent());
            Ok(())
        }))
        .unwrap();
        assert_eq!(found, present, "{name}");
    }
    if case.is_draco() {
        return 0;
    }
    vertices(case, &rows);
    ids.len()
}

/// Checks the vertices of each object against its manifest.
fn vertices(case: &LevelCase, rows: &[u64]) {
    let LevelCase { name, level, expected, .. } = case;
    let index = inline(level.objects()).unwrap().unwrap();
    let followed = inline(level.follow(&index, rows)).unwrap();
    let keys: Vec<_> = followed.chunks.iter().map(|fragments| *fragments.chunk()).collect();
    let cells: Vec<Column> =
        inline(level.positions(&keys, Caching::Once)).into_iter().map(Result::unwrap).collect();
    for (object, expected) in
        followed.objects.iter().zip(expected["objects"]["objects"].as_array().unwrap())
    {
        assert_eq!(object.id.0, expected["id"]);
        assert_eq!(object.runs.len(), expected["fragments"], "{name} object {}", object.id);
        let mut all = ColumnBuilder::empty_like(
            cells.first().unwrap_or(&Column::empty(level.dtype(), 1).unwrap()),
        );
        for run in &object.runs {
            let view = followed.chunks[run.chunk].view();
            match view.get(run.fragment).unwrap() {
                fragment @ Fragment::Range { .. } | fragment @ Fragment::Rows(_) => fragment
                    .rows()
                    .for_each(|row| all.push_row(&cells[run.chunk], usize::try_from(row).unwrap())),
            }
        }
        let all = all.finish();
        assert_eq!(all.len(), expected["vertices"], "{name} object {}", object.id);
        assert_eq!(
            sha256(all.bytes()),
            expected["positions_sha256"],
            "{name} object {}",
            object.id
        );
    }
}

pub(crate) fn owners(case: &LevelCase) -> usize {
    let LevelCase { name, level, .. } = case;
    let keys = case.chunks();
    let all = inline(level.owners(&keys, Some(&|_, _| true))).unwrap();
    let Some(index) = inline(level.objects()).unwrap() else {
        assert!(all.is_none());
        return 0;
    };
    let all = all.unwrap();
    let (mut expected, mut crossing) = (BTreeSet::new(), BTreeSet::new());
    let chain = level.kinds().iter().any(|kind| kind.is_chain());
    inline(index.scan(|manifest| {
        let mut before: Option<Vec<i64>> = None;
        for (chunk, fragment) in manifest.references() {
            expected.insert((chunk.to_string(), fragment, manifest.row()));
            let space = chunk.spatial(level.axes()).unwrap().to_vec();
            let is_distant = |before: &Vec<i64>| {
                before.iter().zip(&space).map(|(a, b)| a.abs_diff(*b)).sum::<u64>() > 1
            };
            if chain && before.as_ref().is_some_and(is_distant) {
                crossing.insert(manifest.row());
            }
            before = Some(space);
        }
        Ok(())
    }))
    .unwrap();
    let found: BTreeSet<_> = keys
        .iter()
        .zip(&all.chunks)
        .flat_map(|(key, owners)| {
            owners
                .all()
                .iter()
                .map(|owner| (key.to_string(), u64::from(owner.fragment), u64::from(owner.row)))
        })
        .collect();
    assert_eq!(found, expected, "{name}");
    assert_eq!(all.crossing, crossing.into_iter().collect::<Vec<_>>(), "{name}");
    let none = inline(level.owners(&[], Some(&|_, _| false))).unwrap().unwrap();
    assert!(none.chunks.is_empty() && none.crossing.is_empty());
    found.len()
}

/// Returns values as JSON, absent ones as null.
pub(crate) fn values_as_json(attribute: &RowAttribute, rows: u64) -> Vec<Value> {
    let values = inline(attribute.range(0..rows)).unwrap();
    let value_of = |i: usize, c: usize| match values.value(i, c) {
        One::Null => Value::Null,
        One::Bool(b) => json!(b),
        One::Int(n) => json!(n),
        One::UInt(n) => json!(n),
        One::Float(x) => json!(x),
        other => json!(other.to_string()),
    };
    let width = usize::try_from(attribute.width()).unwrap();
    let row = |i| match width {
        1 => value_of(i, 0),
        _ => Value::Array((0..width).map(|c| value_of(i, c)).collect()),
    };
    (0..values.column().len()).map(row).collect()
}

pub(crate) fn attributes(case: &LevelCase) -> usize {
    let LevelCase { name, level, expected, .. } = case;
    let Some(attributes) = expected["object_attributes"].as_object() else { return 0 };
    let listed = inline(level.object_attribute_names()).unwrap();
    assert_eq!(
        listed.names.iter().collect::<Vec<_>>(),
        attributes.keys().collect::<Vec<_>>(),
        "{name}"
    );
    for (attribute, expected) in attributes {
        let context = format!("{name} {attribute}");
        let reader = inline(level.object_attribute(attribute)).unwrap().unwrap();
        let shape = expected["shape"].as_array().unwrap();
        let width = shape.get(1).map_or(1, |n| n.as_u64().unwrap());
        assert_eq!(
            (reader.len(), u64::from(reader.width())),
            (shape[0].as_u64().unwrap(), width),
            "{context}"
        );
        let values = inline(reader.range(0..reader.len())).unwrap();
        if reader.dtype().kind == DtypeKind::Text {
            let texts = serde_json::to_vec(&values_as_json(&reader, reader.len())).unwrap();
            assert_eq!(sha256(&texts), expected["sha256"], "{context}");
        } else {
            let dtype = expected["dtype"].as_str().unwrap();
            assert_eq!(reader.dtype().to_string(), dtype, "{context}");
            assert_eq!(sha256(values.column().bytes()), expected["sha256"], "{context}");
        }
        if let Some(absent) = expected["absent_rows"].as_array() {
            assert_eq!(json!(values.absent_rows()), json!(absent), "{context}");
        }
        let backwards: Vec<u64> = (0..reader.len() + 2).rev().collect();
        let read_rows = inline(reader.rows(&backwards)).unwrap();
        for (i, row) in backwards.iter().enumerate() {
            let row = usize::try_from(*row).unwrap();
            assert_eq!(read_rows.is_present(i), values.is_present(row), "{context} {row}");
            if values.is_present(row) {
                assert_eq!(read_rows.column().row(i), values.column().row(row), "{context} {row}");
            }
        }
    }
    attributes.len()
}

pub(crate) fn groups(case: &LevelCase) -> usize {
    let LevelCase { name, level, expected, .. } = case;
    let groups = inline(level.groups()).unwrap();
    let Some(listed) = expected["groups"].as_array() else {
        assert!(groups.is_none(), "{name}");
        return 0;
    };
    let groups = groups.unwrap();
    let members = inline(groups.members(&(0..groups.len()).collect::<Vec<_>>())).unwrap();
    assert_eq!(members.len(), listed.len(), "{name}");
    for (group, (members, expected)) in (0..).zip(members.iter().zip(listed)) {
        let found = match members {
            Members::Ids(ids) => json!(ids.iter().map(|id| id.0).collect::<Vec<_>>()),
            Members::Range { start, stop } => json!({"range": [start, stop]}),
        };
        assert_eq!(found, *expected, "{name} group {group}");
        assert_eq!(groups.find(&groups.name(group).unwrap()), Some(group));
    }
    assert_eq!((groups.name(groups.len()), groups.find("no such group")), (None, None));
    let attributes = expected["group_attributes"].as_object();
    for (attribute, expected) in attributes.into_iter().flatten() {
        let reader = inline(level.group_attribute(attribute)).unwrap().unwrap();
        let values = expected.get("values").unwrap_or(expected);
        assert_eq!(json!(values_as_json(&reader, reader.len())), *values, "{name} {attribute}");
    }
    listed.len()
}
