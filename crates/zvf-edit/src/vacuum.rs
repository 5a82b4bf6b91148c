//! The vacuum of a store: removes rows in no fragment, fragments of no object, and empty rows at the end of the index.
//!
//! ```text
//! rebuild_rows    chunks with waste -> their new cells, and the new numbers of rows and fragments
//! rebuild_rest    these             -> manifests, links, counts, coarser levels
//! ```
//!
//! The first reads only chunks, so that processes can share it (`divide`); the second reads no chunks.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use zvf_format::{Class, num};

use crate::arrays::{CellArray, Chunk, chunk_text};
use crate::changes::Changes;
use crate::error::{EditError, Result};
use crate::geometry::Geometry;
use crate::history::open_store_journal;
use crate::indexes::has_references;
use crate::journal::Journal;
use crate::levels::list_coarser;
use crate::links::{RowMoves, moved_end};
use crate::numbers::NONE;
use crate::options::CommitOptions;
use crate::place::Place;
use crate::rebuild::{FragmentNumbers, RebuildResult, RebuiltChunk, RebuiltRows, Tally};
use crate::script::{CommitResult, commit_here, report_commit};
use crate::transaction::Transaction;

/// Rewrites a store without waste, in one commit.
///
/// # Errors
///
/// When there is no store, or another process commits meanwhile.
pub fn vacuum(store: impl Into<Place>, dry_run: bool) -> Result<Json> {
    let journal = open_store_journal(&store.into())?;
    let committed = commit_vacuum(&journal, dry_run)?;
    report_commit(&journal, dry_run, committed)
}

pub(crate) fn commit_vacuum(journal: &Arc<Journal>, dry_run: bool) -> Result<CommitResult> {
    let mut transaction = Transaction::begin(journal, Path::new("."))?;
    let mut rebuilt = Vec::new();
    for geometry in &mut transaction.kinds {
        let chunks = geometry.all_chunks();
        let wasted = geometry.find_waste(&chunks)?;
        rebuilt.push(geometry.rebuild_rows(&wasted)?);
    }
    commit_rebuilt(journal, transaction, rebuilt, json!({"op": "vacuum"}), dry_run)
}

/// Commits the rebuilt chunks of each kind, and drops empty rows at the end of indexes.
pub(crate) fn commit_rebuilt(
    journal: &Arc<Journal>,
    mut transaction: Transaction,
    rebuilt: Vec<RebuiltRows>,
    operation: Json,
    dry_run: bool,
) -> Result<CommitResult> {
    transaction.drop_empty_rows()?;
    transaction.rebuilt_rows = Some(rebuilt);
    transaction.operations = vec![operation];
    transaction.is_irreversible = true;
    let options =
        CommitOptions { message: Some("vacuum".to_owned()), dry_run, ..CommitOptions::default() };
    commit_here(journal, transaction, &options)
}

impl Transaction {
    /// Drops empty rows at the end of the indexes, unless coarser levels have the same rows, and
    /// blocks that no span names.
    fn drop_empty_rows(&mut self) -> Result<()> {
        let keeps_rows = !list_coarser(&self.snap)?.is_empty();
        for geometry in &mut self.kinds {
            let Some(objects) = &mut geometry.objects else { continue };
            if let Some(table) = &mut objects.manifests.table {
                table.is_packed = true;
            }
            if keeps_rows {
                continue;
            }
            let last = objects.manifests.rows.iter().rposition(|row| has_references(row));
            let rows = last.map_or(0, |last| last + 1);
            if rows == objects.manifests.rows.len() {
                continue;
            }
            objects.manifests.rows.truncate(rows);
            if let Some(ids) = &mut objects.ids {
                ids.resize(rows);
            }
            for column in &mut geometry.object_columns {
                column.array.resize(rows);
            }
            objects.list.retain(|object| object.row.is_some_and(|row| (row as usize) < rows));
        }
        Ok(())
    }
}

impl Geometry {
    /// Returns the chunks with a row in no fragment or a fragment of no object. Does not keep chunks in memory.
    pub(crate) fn find_waste(&mut self, chunks: &[u32]) -> Result<BTreeSet<u32>> {
        let owners = self.owners_in(&chunks.iter().copied().collect())?;
        let mut named: HashMap<u32, BTreeSet<u32>> = HashMap::new();
        for (chunk, fragment) in owners.into_keys() {
            named.entry(chunk).or_default().insert(fragment);
        }
        let mut wasted = BTreeSet::new();
        for chunk in chunks {
            let named = named.remove(chunk).unwrap_or_default();
            if self.has_waste(*chunk, &named)? {
                wasted.insert(*chunk);
            }
        }
        Ok(wasted)
    }

    /// Returns whether a chunk has waste. Its `named` fragments have objects.
    fn has_waste(&self, chunk: u32, named: &BTreeSet<u32>) -> Result<bool> {
        let key = &self.chunk_keys[chunk as usize];
        let size = self.position_size();
        let positions = self.vertices.read_stored(&self.snap, key)?.unwrap_or_default();
        if !positions.len().is_multiple_of(size) {
            return Ok(true); // loading it reports the error
        }
        let fragments = self.fragment_rows(key, positions.len() / size)?;
        if let Some(last) = named.last().filter(|last| **last as usize >= fragments.len()) {
            return Err(self.missing_fragment(chunk, *last));
        }
        let mut held = vec![false; positions.len() / size];
        for row in fragments.iter().flatten() {
            held[*row] = true;
        }
        let is_named = self.objects.is_none() || named.len() == fragments.len();
        Ok(!is_named || held.contains(&false))
    }

    /// Rebuilds chunks without fragments of no object and rows in no fragment.
    pub(crate) fn rebuild_rows(&mut self, chunks: &BTreeSet<u32>) -> Result<RebuiltRows> {
        let owners = self.owners_in(&chunks.iter().copied().collect())?;
        let (snap, nobody) = (Rc::clone(&self.snap), HashSet::new());
        // Flush copies of the arrays, as only the result is handed on.
        let mut arrays: Vec<CellArray> = self.arrays_mut().map(|array| array.clone()).collect();
        let mut result = RebuiltRows::default();
        for chunk in chunks {
            self.load_chunk(*chunk)?;
            let state = &self.chunks[chunk];
            for (fragment, list) in (0_u32..).zip(&state.fragments) {
                if self.objects.is_some() && !owners.contains_key(&(*chunk, fragment)) {
                    list.iter().for_each(|v| self.alive[*v as usize] = false);
                }
            }
            let key = self.chunk_keys[*chunk as usize].clone();
            let old = self.fragment_rows(&key, state.rows.len())?;
            let held: usize = old.iter().map(Vec::len).sum();
            let mut became = RebuiltChunk {
                rows: vec![NONE; state.rows.len()],
                fragments: vec![NONE; old.len()],
                held: [0, num::index_u32(held)], // each was loaded as a vertex
                removed: 0,
            };
            let pieces = self.chunk_pieces(*chunk, &owners, (&[], &nobody), &[])?;
            let mut row = 0_u32; // fewer rows than vertices
            for (number, piece) in (0_u32..).zip(&pieces) {
                // A row that several fragments share is copied to each; links keep the first copy.
                let from: Vec<usize> = match piece.old {
                    Some(fragment) => {
                        became.fragments[fragment as usize] = number;
                        old[fragment as usize].clone()
                    }
                    None => {
                        piece.vertices.iter().map(|v| self.home[*v as usize].1 as usize).collect()
                    }
                };
                for from in from {
                    let now = &mut became.rows[from];
                    *now = if *now == NONE { row } else { *now };
                    row += 1;
                }
            }
            became.held[0] = row;
            let had: HashSet<usize> = old.iter().flatten().copied().collect();
            let is_gone = |from: &&usize| became.rows[**from] == NONE;
            became.removed = num::index_u32(had.iter().filter(is_gone).count());
            if row == 0 && !pieces.is_empty() {
                continue; // objects name empty fragments of the chunk
            }
            for (array, bytes) in arrays.iter_mut().zip(self.chunk_payload(*chunk, &pieces)?) {
                if array.contains(&key) {
                    array.put_chunk(&key, bytes);
                }
            }
            result.chunks.insert(key, became);
        }
        for array in &mut arrays {
            array.flush(&snap, &mut result.cells)?;
        }
        result.cells.keys.retain(|key, _| !key.ends_with("zarr.json"));
        Ok(result)
    }

    /// Writes rebuilt chunks with the manifests, links and documents of the level that depend on them.
    pub(crate) fn rebuild_rest(
        &mut self,
        rows: RebuiltRows,
        out: &mut Changes,
        tally: &mut Tally,
    ) -> Result<RebuildResult> {
        let mut result = RebuildResult::default();
        let mut numbers = FragmentNumbers::new();
        let keys: Vec<Chunk> = rows.chunks.keys().cloned().collect();
        let chunks: HashSet<u32> = keys.iter().map(|key| self.chunk_number(key)).collect();
        for ((chunk, old), objects) in self.owners_in(&chunks)? {
            let became = rows.chunks.get(&self.chunk_keys[chunk as usize]);
            let new = became.and_then(|became| became.fragments.get(old as usize));
            let new = *new
                .filter(|new| **new != NONE)
                .ok_or_else(|| self.dangling_reference_error(chunk, old))?;
            for object in objects {
                numbers.entry((object, chunk)).or_default().push((old, None, new));
            }
        }
        let mut change = 0_i64;
        for (key, became) in &rows.chunks {
            let [now, before] = became.held;
            change += i64::from(now) - i64::from(before);
            if became.removed > 0 {
                tally.vertices[1] += u64::from(became.removed);
                tally.free_chunks.insert(format!("chunk:{}:{}", self.kind, chunk_text(key)));
            }
            if now == 0 {
                self.arrays_mut().for_each(|array| array.remove_chunk(key));
            }
        }
        self.count_rows(change);
        self.flush_arrays(out)?;
        out.keys.extend(rows.cells.keys);
        self.write_objects(&[], numbers, false, tally, out)?;
        result.moves = rows.chunks.into_iter().map(|(key, became)| (key, became.rows)).collect();
        self.move_links(&result.moves, out)?;
        self.write_level(out)?;
        result.chunks.extend(keys);
        result.changed.clone_from(&result.chunks);
        tally.chunks += num::to_u64(result.changed.len());
        Ok(result)
    }

    fn dangling_reference_error(&self, chunk: u32, fragment: u32) -> EditError {
        let key = &self.chunk_keys[chunk as usize];
        EditError::new(
            Class::CountMismatch,
            format!(
                "{} of chunk {key:?}: expected fragment {fragment}, which an object has, among those that were written again, found it gone; plan again",
                self.fragments.path
            ),
        )
    }

    /// Updates the ends of links for moved rows. Drops links with a removed end.
    fn move_links(&mut self, moves: &RowMoves, out: &mut Changes) -> Result<()> {
        if moves.is_empty() {
            return Ok(());
        }
        self.withdraw_link_groups();
        let Some(mut family) = self.links.take() else { return Ok(()) };
        let (snap, keys) = (Rc::clone(&self.snap), moves.keys().cloned().collect());
        let mut end = |chunk: &Chunk, row: u64| moved_end(&self.path, moves, chunk, row);
        family.load_cells_naming(&snap, &keys, &|_| true, &mut end)?;
        family.flush(&snap, &self.vertices, &|_| Ok(None), out)?;
        self.links = Some(family);
        Ok(())
    }
}
