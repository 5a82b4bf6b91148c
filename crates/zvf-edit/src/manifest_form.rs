//! Writes the manifests of all levels in the other form, in one commit: as numbers, or as blobs.

use serde_json::{Value as Json, json};
use zvf_format::num;

use crate::arrays::read_doc;
use crate::changes::Changes;
use crate::dense::DenseArray;
use crate::error::{At, Result};
use crate::indexes::read_count;
use crate::manifest_table::DENSE_LAYOUT;
use crate::manifests::MAX_INDEX_CHUNK_ROWS;
use crate::place::Place;
use crate::renumber::{commit_whole, set_capability};
use crate::row_array::RowArray;
use crate::transaction::Transaction;

/// Writes the manifests of a store as numbers (`dense`) or as blobs, in one commit.
///
/// # Errors
///
/// When there is no store, an object of several lines has no dense manifest, or another process
/// commits meanwhile.
pub fn rewrite_manifests(store: impl Into<Place>, dense: bool) -> Result<Json> {
    let operation = if dense { "manifests dense" } else { "manifests vlen" };
    commit_whole(store, operation, |transaction| {
        let mut changes = Changes::default();
        for level in transaction.level_groups()? {
            transaction.convert_index(&level, dense, &mut changes)?;
        }
        let mut root = transaction.root.clone();
        set_capability(&mut root, "dense_manifests", dense);
        let block = &mut root["attributes"]["zarr_vectors"];
        if dense {
            block["manifest_layout"] = json!("dense");
        } else if let Some(block) = block.as_object_mut() {
            block.shift_remove("manifest_layout");
        }
        changes.put_doc("", &root)?;
        Ok(changes)
    })
}

impl Transaction {
    fn convert_index(&self, level: &str, dense: bool, changes: &mut Changes) -> Result<()> {
        let index = format!("{level}/object_index");
        let Some(mut manifests) = RowArray::open_manifests(&self.snap, &index)? else {
            return Ok(());
        };
        let Some(mut doc) = read_doc(&self.snap, &index)? else { return Ok(()) };
        let count = read_count(&index, &doc["attributes"], "num_objects")?;
        let rank = read_count(&index, &doc["attributes"], "sid_ndim")?;
        let rank = rank.unwrap_or(self.kinds[0].axes);
        manifests.convert_manifests((&index, rank), dense, changes)?;
        manifests.truncate(count.unwrap_or(usize::MAX));
        manifests.flush(changes, MAX_INDEX_CHUNK_ROWS).at(&index)?;
        if doc["attributes"]["layout"] == "vlen_manifests_v1" {
            // The row is the id, which other layouts state.
            let ids = DenseArray::open_ids(&self.snap, &index)?;
            let mut ids = ids.map_or_else(|| DenseArray::create_ids(&index), Ok)?;
            ids.bytes = (0..num::to_u64(manifests.rows.len())).flat_map(u64::to_le_bytes).collect();
            ids.flush(changes, true)?;
        }
        doc["attributes"]["layout"] = json!(if dense { DENSE_LAYOUT } else { "vlen_manifests_v2" });
        changes.put_doc(&index, &doc)
    }
}
