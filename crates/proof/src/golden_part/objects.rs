//! The object index of a level: ids, manifests, and their rows.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use zvf_format::key::ChunkKey;
use zvf_model::{ObjectId, ObjectIndex};

use super::cells::parse_key;
use crate::contents::LevelContents;
use crate::facts::{Rows, list};
use crate::report::Facts;

/// The objects of a level, resolved here without the library.
#[derive(Default)]
pub(super) struct Objects {
    pub(super) list: Vec<Object>,
}

/// One object.
pub(super) struct Object {
    pub(super) id: ObjectId,
    /// Whether the index has an entry for it; an empty manifest is an entry.
    pub(super) present: bool,
    pub(super) entries: Vec<(ChunkKey, u64)>,
    /// The rows of its fragments: the index of the cell in [`LevelContents`], and the row in it.
    pub(super) rows: Vec<(usize, usize)>,
}

impl Objects {
    /// Reads every manifest, and looks its fragments up in `contents`.
    pub(super) async fn read(
        index: &ObjectIndex,
        contents: &LevelContents,
    ) -> anyhow::Result<Self> {
        let cells: HashMap<ChunkKey, usize> =
            contents.cells.iter().enumerate().map(|(at, cell)| (cell.key, at)).collect();
        let rows: Vec<u64> = (0..index.slots()).collect();
        let ids = index.ids_of(&rows).await?;
        let mut list = Vec::new();
        for (manifest, id) in index.manifests(&rows).await?.iter().zip(ids) {
            let entries: Vec<(ChunkKey, u64)> = manifest.references().collect();
            let mut rows = Vec::new();
            for (chunk, fragment) in &entries {
                let at = cells.get(chunk);
                let set = at.and_then(|&at| contents.cells[at].fragments.get(*fragment as usize));
                let (Some(&at), Some(set)) = (at, set) else {
                    anyhow::bail!(
                        "object {id} names fragment {fragment} of chunk {chunk}: there is none"
                    );
                };
                rows.extend(set.rows.iter().map(|&row| (at, row)));
            }
            list.push(Object { id, present: !manifest.is_absent(), entries, rows });
        }
        Ok(Self { list })
    }
}

/// Compares the index, and every listed object.
pub(super) fn check_objects(mut facts: Facts<'_>, found: &Objects, contents: &LevelContents) {
    let entries = |object: &Object| {
        let id = object.id.0;
        let row = move |(chunk, fragment): &(ChunkKey, u64)| {
            [&[id], chunk.components(), &[*fragment as i64]].concat()
        };
        object.entries.iter().map(row).collect::<Vec<_>>()
    };
    let shared = || {
        let mut owners: HashMap<(ChunkKey, u64), HashSet<i64>> = HashMap::new();
        for object in &found.list {
            for entry in &object.entries {
                owners.entry(*entry).or_default().insert(object.id.0);
            }
        }
        owners.values().filter(|object_ids| object_ids.len() > 1).count()
    };
    let ids = || found.list.iter().map(|object| object.id.0);
    let key_rank = contents.reader.key_rank();
    let objects = &found.list;
    // These members are texts, the nested objects, and the layout.
    facts.each(&["manifest_row", "objects", "layout"], |name, _| {
        Some(match name {
            "num_objects" => json!(objects.len()),
            "num_present" => json!(objects.iter().filter(|object| object.present).count()),
            "sid_ndim" => json!(key_rank),
            "ids" => json!(ids().collect::<Vec<_>>()),
            "ids_sha256" => json!(Rows::from_ints(ids().map(|id| [id])).sha256()),
            "manifest_entries" => {
                json!(objects.iter().map(|object| object.entries.len()).sum::<usize>())
            }
            "manifest_sha256" => json!(Rows::from_ints(objects.iter().flat_map(entries)).sha256()),
            "fragments_shared_by_two_or_more" => json!(shared()),
            _ => return None,
        })
    });
    for expected in list(&facts.expected["objects"]) {
        check_object(&mut facts, expected, found, contents);
    }
}

fn check_object(
    facts: &mut Facts<'_>,
    expected: &Value,
    found: &Objects,
    contents: &LevelContents,
) {
    let id = expected["id"].as_i64().unwrap_or(-1);
    let mut facts = facts.named(id, expected);
    let Some(object) = found.list.iter().find(|object| object.id == ObjectId(id)) else {
        return facts.fail("no such object");
    };
    let row = |&(cell, row): &(usize, usize)| contents.cells[cell].positions.row(row).to_vec();
    let positions = Rows(object.rows.iter().map(row).collect());
    let has_manifest = |expected: &Value| {
        let pair = |pair: &Value| (parse_key(&pair[0]), pair[1].as_u64().unwrap_or(u64::MAX));
        list(expected).map(pair).eq(object.entries.iter().copied())
    };
    facts.each(&["id"], |name, expected| {
        Some(match name {
            "fragments" => json!(object.entries.len()),
            "vertices" => json!(positions.len()),
            "positions_sha256" => json!(positions.sha256()),
            "rows_sha256_sorted" => json!(positions.sha256_sorted()),
            "manifest" if has_manifest(expected) => expected.clone(),
            "manifest" => json!("another manifest"),
            _ => return None,
        })
    });
}

/// Compares the objects in the writer's input with those found.
pub(super) fn check_truth(mut facts: Facts<'_>, found: &Objects, contents: &LevelContents) {
    let truth = facts.expected;
    for name in ["objects", "objects_in_path_order"] {
        for expected in list(&truth[name]) {
            check_object(&mut facts.of(name), expected, found, contents);
        }
    }
}
