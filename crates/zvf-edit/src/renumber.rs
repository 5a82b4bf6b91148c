//! Renumbers all objects from 0 without gaps, on all levels, in groups and in columns of owners.
//!
//! ```text
//! index         rows of removed objects are dropped; the others are sorted by id, kind after kind
//! columns       of objects: the same rows; of fragments: object_id; of renumbered levels: source_id
//! groups        members
//! ```
//!
//! An id names another object afterwards, so the commit cannot be undone and conflicts with every other.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use zvf_format::{Class, num};

use crate::changes::Changes;
use crate::commit::{CommitResult, commit_rewrite, open_store_journal, report_commit};
use crate::dense::DenseArray;
use crate::error::{At, OrFail, Result, unsupported};
use crate::geometry::Geometry;
use crate::indexes::{
    Objects, columns_path, index_path, open_row_column, open_row_columns, read_count,
};
use crate::journal::Journal;
use crate::levels::list_coarser;
use crate::manifests::MAX_INDEX_CHUNK_ROWS;
use crate::options::CommitOptions;
use crate::place::Place;
use crate::row_array::{DENSE_LAYOUT, RowArray};
use crate::snapshot::{parse_doc, read_doc};
use crate::transaction::Transaction;

/// The new rows and ids of one kind.
struct Numbering {
    /// The old row of each new one.
    rows: Vec<usize>,
    /// The first new id.
    first: i64,
}

/// Renumbers all objects in one commit.
pub(crate) fn commit_renumbering(journal: &Arc<Journal>, dry_run: bool) -> Result<CommitResult> {
    let mut transaction = Transaction::begin(journal)?;
    let changes = transaction.renumber()?;
    commit_rewritten(journal, &transaction, changes, "renumber", (true, dry_run))
}

/// Makes the changes of an operation on the whole store, and commits them.
pub(crate) fn commit_whole(
    store: impl Into<Place>,
    operation: &str,
    change: impl FnOnce(&Transaction) -> Result<Changes>,
) -> Result<Json> {
    let journal = open_store_journal(&store.into())?;
    let transaction = Transaction::begin(&journal)?;
    let changes = change(&transaction)?;
    let committed = commit_rewritten(&journal, &transaction, changes, operation, (false, false))?;
    Ok(report_commit(&journal, journal.head()?, false, &committed))
}

/// States in the document of the root whether the store has a capability.
pub(crate) fn set_capability(root: &mut Json, token: &str, is_there: bool) {
    let tokens = &mut root["attributes"]["zarr_vectors"]["format_capabilities"];
    let mut list = tokens.as_array().cloned().unwrap_or_default(); // absent is empty
    list.retain(|known| known != token);
    list.extend(is_there.then(|| json!(token)));
    *tokens = list.into();
}

/// Commits the changes of an operation on the whole store, which conflicts with every other.
fn commit_rewritten(
    journal: &Arc<Journal>,
    transaction: &Transaction,
    mut changes: Changes,
    operation: &str,
    (is_irreversible, dry_run): (bool, bool),
) -> Result<CommitResult> {
    let mut before = Changes::default();
    transaction.drop_unchanged(&mut changes, &mut before)?;
    if changes.is_empty() {
        return Ok(CommitResult::default());
    }
    let root = changes.get("zarr.json")?.flatten();
    let mut root = root.map_or_else(|| Ok(transaction.root.clone()), |root| parse_doc(&root))?;
    journal.mark(&mut root);
    changes.put_doc("", &root)?;
    transaction.drop_unchanged(&mut changes, &mut before)?;
    let message = Some(operation.to_owned());
    let options = CommitOptions { message, dry_run, ..CommitOptions::default() };
    let items = (json!(["*"]), &[json!({"op": operation})][..]);
    let bytes = (&changes, &before);
    commit_rewrite(journal, transaction.snap.head, bytes, items, is_irreversible, &options)
}

impl Transaction {
    /// Returns the changes that give all objects the ids 0 to n - 1.
    fn renumber(&mut self) -> Result<Changes> {
        let mut changes = Changes::default();
        let mut new: HashMap<i64, i64> = HashMap::new();
        let mut numberings = Vec::new();
        let mut next = 0_i64;
        for kind in &self.kinds {
            let objects = kind.existing_objects();
            let first = next;
            for (id, _) in &objects {
                new.insert(*id, next);
                next += 1;
            }
            let rows = objects.into_iter().map(|(_, row)| num::usize_from_u32(row));
            numberings.push(Numbering { rows: rows.collect(), first });
        }
        let levels = list_coarser(&self.snap)?;
        for (kind, numbering) in self.kinds.iter().zip(&numberings) {
            self.renumber_level(&kind.path, kind, numbering, &new, &mut changes)?;
            for level in &levels {
                let path = kind.group_at_level(*level);
                self.renumber_level(&path, kind, numbering, &new, &mut changes)?;
            }
        }
        self.groups.renumber(&new);
        self.groups.flush(&self.snap, &mut changes)?;
        let mut root = self.root.clone();
        root["attributes"]["zvf"]["next_id"] = json!(next);
        changes.put_doc("", &root)?;
        Ok(changes)
    }

    /// Renumbers the index of one level, and the columns and marks that name its objects.
    fn renumber_level(
        &self,
        path: &str,
        kind: &Geometry,
        numbering: &Numbering,
        new: &HashMap<i64, i64>,
        changes: &mut Changes,
    ) -> Result<()> {
        let Some(mut level) = read_doc(&self.snap, path)? else { return Ok(()) };
        let is_first = path == kind.path;
        let block = &level["attributes"]["zarr_vectors_level"];
        if is_first || block["preserves_object_ids"] == true {
            self.renumber_index(path, numbering, changes)?;
        } else if let Some(name) = block["zvf.coarsening"]["source_id"].as_str() {
            self.renumber_sources(&columns_path(path), name, new, changes)?;
        }
        let old = level.clone();
        let attributes = &mut level["attributes"];
        if !is_first && attributes["zarr_vectors_level"]["preserves_object_ids"] == true {
            attributes["zarr_vectors_level"]["inherited_num_objects"] = json!(numbering.rows.len());
        }
        if let Some(built) = attributes["zvf"]["built_rows"].as_u64() {
            let rows = numbering.rows.iter().filter(|row| num::to_u64(**row) < built).count();
            attributes["zvf"]["built_rows"] = json!(rows);
        }
        if let Some(list) = attributes["zvf"]["stale"]["objects"].as_array() {
            let mut ids: Vec<i64> =
                list.iter().filter_map(|id| new.get(&id.as_i64()?).copied()).collect();
            ids.sort_unstable();
            attributes["zvf"]["stale"]["objects"] = json!(ids);
        }
        if level != old {
            changes.put_doc(path, &level)?;
        }
        Ok(())
    }

    fn renumber_index(
        &self,
        path: &str,
        numbering: &Numbering,
        changes: &mut Changes,
    ) -> Result<()> {
        let (index, axes) = (index_path(path), self.kinds[0].axes);
        let Some(mut objects) = Objects::open(&self.snap, path, axes)? else { return Ok(()) };
        let (count, manifests) = (numbering.rows.len(), &mut objects.manifests);
        let row = |row: &usize| manifests.rows.now.get(*row).cloned();
        let rows = numbering.rows.iter().map(row).collect::<Option<_>>();
        let rows = rows.or_fail(Class::CountMismatch, || {
            format!("{index}/manifests: expected a row for each object, found fewer")
        })?;
        *manifests.rows.change() = rows;
        match &mut objects.ids {
            Some(ids) => ids.set_ids(0, (numbering.first..).take(count)),
            None if numbering.first == 0 => {}
            None => {
                return unsupported(format!(
                    "{index}: rows stand for ids, which begin at {} now; write the store again \
                     with \"zvf rewrite --format-version 0.9.2\"",
                    numbering.first
                ));
            }
        }
        objects.columns = open_row_columns(&self.snap, &columns_path(path), |_name| true)?;
        for column in &mut objects.columns {
            let (old, size) = (&column.array.bytes.now, column.array.size);
            let row = |row: &usize| old.get(row * size..(row + 1) * size);
            let rows = numbering.rows.iter().map(|at| row(at).unwrap_or(&column.array.fill));
            let rows = rows.collect::<Vec<_>>().concat();
            *column.array.bytes.change() = rows;
        }
        objects.flush(changes)?;
        objects.write_fragments(&self.snap, None, changes)
    }

    /// Renumbers the column of a renumbered level that holds the ids of its objects at level 0.
    fn renumber_sources(
        &self,
        group: &str,
        name: &str,
        new: &HashMap<i64, i64>,
        changes: &mut Changes,
    ) -> Result<()> {
        let Some(mut column) = open_row_column(&self.snap, group, name)? else { return Ok(()) };
        let path = column.array.stored.path.clone();
        for row in 0..column.array.len() {
            let old = column.ty.scalar.to_i64(column.array.row(row));
            let id = match old.and_then(|old| new.get(&old)) {
                Some(id) => column.ty.scalar.encode_id(*id),
                None => Ok(column.array.fill.clone()), // of a removed object
            };
            column.array.set_row(row, &id.at(&path)?);
        }
        column.array.flush(changes, false)
    }
}

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
        let index = index_path(level);
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
            ids.set_ids(0, (0..).take(manifests.len()));
            ids.flush(changes, true)?;
        }
        doc["attributes"]["layout"] = json!(if dense { DENSE_LAYOUT } else { "vlen_manifests_v2" });
        changes.put_doc(&index, &doc)
    }
}
