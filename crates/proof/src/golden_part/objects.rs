//! The object index of a level: ids, manifests, and their rows.

use std::collections::{HashMap, HashSet};

use anyhow::Context;
use serde_json::{Value, json};
use zvf_format::key::ChunkKey;
use zvf_model::{ObjectId, ObjectIndex};

use crate::contents::LevelContents;
use crate::facts::{Rows, given, list};

/// The objects of a level, resolved here without the library.
pub(crate) struct Objects<'a> {
    list: Vec<Object>,
    contents: &'a LevelContents,
}

/// One object.
struct Object {
    id: ObjectId,
    /// Whether the index has an entry for it; an empty manifest is an entry.
    present: bool,
    entries: Vec<(ChunkKey, u64)>,
    /// The rows of its fragments: the index of the cell in [`LevelContents`], and the row in it.
    rows: Vec<(usize, usize)>,
}

impl<'a> Objects<'a> {
    /// Reads every manifest, and looks its fragments up in `contents`.
    pub(crate) async fn read(
        index: &ObjectIndex,
        contents: &'a LevelContents,
    ) -> anyhow::Result<Self> {
        let cells: HashMap<ChunkKey, usize> =
            contents.cells.iter().enumerate().map(|(at, cell)| (cell.key, at)).collect();
        let rows: Vec<u64> = (0..index.slots()).collect();
        let ids = index.ids_of(&rows).await?;
        let mut list = Vec::new();
        for (manifest, id) in index.manifests(&rows).await?.iter().zip(ids) {
            let (mut entries, mut rows) = (Vec::new(), Vec::new());
            // A hostile range is longer than all fragments.
            for (chunk, fragment) in manifest.references() {
                let at = cells.get(&chunk).copied();
                let set = at.and_then(|at| contents.cells[at].fragments.get(fragment as usize));
                let (at, set) = at.zip(set).with_context(|| {
                    format!("object {id} names fragment {fragment} of chunk {chunk}: there is none")
                })?;
                rows.extend(set.rows.iter().map(|&row| (at, row)));
                entries.push((chunk, fragment));
            }
            list.push(Object { id, present: !manifest.is_absent(), entries, rows });
        }
        Ok(Self { list, contents })
    }

    /// Returns the facts of the index, and of every expected object.
    pub(crate) fn describe(&self, expected: &Value) -> Value {
        let all = &self.list;
        let entries = |object: &Object| {
            let id = object.id.0;
            let row = move |(chunk, fragment): &(ChunkKey, u64)| {
                [&[id], chunk.components(), &[*fragment as i64]].concat()
            };
            object.entries.iter().map(row).collect::<Vec<_>>()
        };
        let mut owners: HashMap<(ChunkKey, u64), HashSet<i64>> = HashMap::new();
        for object in all {
            for entry in &object.entries {
                owners.entry(*entry).or_default().insert(object.id.0);
            }
        }
        let ids: Vec<i64> = all.iter().map(|object| object.id.0).collect();
        json!({
            "num_objects": all.len(),
            "num_present": all.iter().filter(|object| object.present).count(),
            "sid_ndim": self.contents.reader.key_rank(),
            "ids_sha256": Rows::from_ints(ids.iter().map(|id| [*id])).sha256(),
            "ids": ids,
            "manifest_entries": all.iter().map(|object| object.entries.len()).sum::<usize>(),
            "manifest_sha256": Rows::from_ints(all.iter().flat_map(entries)).sha256(),
            "fragments_shared_by_two_or_more":
                owners.values().filter(|object_ids| object_ids.len() > 1).count(),
            "objects": self.describe_some(&expected["objects"]),
        })
    }

    /// Returns the facts of these objects; null for one that there is not.
    pub(super) fn describe_some(&self, expected: &Value) -> Value {
        let position =
            |&(cell, row): &(usize, usize)| self.contents.cells[cell].positions.row(row).to_vec();
        let describe = |object: &Object| {
            let positions = Rows(object.rows.iter().map(position).collect());
            let entries = object.entries.iter();
            json!({
                "id": given(),
                "fragments": object.entries.len(),
                "vertices": positions.len(),
                "positions_sha256": positions.sha256(),
                "rows_sha256_sorted": positions.sha256_sorted(),
                "manifest":
                    entries.map(|(key, f)| json!([key.components(), f])).collect::<Vec<_>>(),
            })
        };
        let find = |expected: &Value| self.list.iter().find(|o| expected["id"] == o.id.0);
        list(expected).map(|expected| find(expected).map_or(Value::Null, describe)).collect()
    }
}
