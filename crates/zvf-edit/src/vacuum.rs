//! The vacuum of a store: removes rows in no fragment, fragments of no object, and empty rows at the end of the index.
//!
//! ```text
//! rebuild_wasted  chunks with waste -> their new cells, and the new numbers of rows and fragments
//! take_rebuilt    these             -> manifests, links, counts, coarser levels
//! ```
//!
//! The first reads only chunks, so that processes can share it; the second reads no chunks.
//!
//! A vacuum is divided between processes: tasks rewrite shares of the chunks, and one commit takes
//! over the results.
//!
//! ```text
//! plan_vacuum      chunks of each kind, in shares of whole shards: no two tasks write the same key
//! run_vacuum       a share -> its new cells and the new numbers of rows and fragments, as bytes
//! finish_vacuum    the results of all shares -> one commit at the head of the plan
//! ```
//!
//! Only the build that wrote the result of a task reads it:
//!
//! ```text
//! u64    length of the header
//! JSON   {"chunks": [[chunk, its new numbers], ...], "cells": [[key, length or null], ...]}
//! bytes  cells
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use zvf_error::format_count;
use zvf_format::num::to_u64;
use zvf_format::{Class, num};

use crate::arrays::{CellArray, Chunk};
use crate::changes::{Blob, Changes};
use crate::commit::{CommitResult, commit, open_store_journal, report_commit};
use crate::error::{EditError, Result, unsupported};
use crate::geometry::Geometry;
use crate::indexes::has_references;
use crate::journal::Journal;
use crate::levels::list_coarser;
use crate::numbers::{FragmentNumber, FragmentNumbers, NONE};
use crate::options::CommitOptions;
use crate::place::Place;
use crate::rebuild::{RebuildResult, RebuiltChunk, RebuiltRows, Tally};
use crate::rewrite::{check_is_at, is_committed};
use crate::transaction::Transaction;

/// Rewrites a store without waste, in one commit.
///
/// # Errors
///
/// When there is no store, or another process commits meanwhile.
pub fn vacuum(store: impl Into<Place>, dry_run: bool) -> Result<Json> {
    let journal = open_store_journal(&store.into())?;
    let committed = commit_vacuum(&journal, dry_run)?;
    Ok(report_commit(&journal, journal.head()?, dry_run, &committed))
}

pub(crate) fn commit_vacuum(journal: &Arc<Journal>, dry_run: bool) -> Result<CommitResult> {
    let mut transaction = Transaction::begin(journal)?;
    let mut rebuilt = Vec::new();
    for geometry in &mut transaction.kinds {
        let chunks = geometry.all_chunks();
        rebuilt.push(geometry.rebuild_wasted(&chunks)?);
    }
    commit_rebuilt(journal, transaction, rebuilt, json!({"op": "vacuum"}), dry_run)
}

/// Commits the rebuilt chunks of each kind, and drops empty rows at the end of indexes.
fn commit_rebuilt(
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
    let (message, if_head) = (Some("vacuum".to_owned()), Some(transaction.snap.head));
    let options = CommitOptions { message, if_head, dry_run, ..CommitOptions::default() };
    let mut committed = commit(journal, transaction, &options)?;
    let report = committed.report.as_ref();
    let removed = report.and_then(|report| report["links"]["removed"].as_u64());
    if let Some(removed) = removed.filter(|removed| *removed > 0) {
        let links = format_count(removed, "link");
        let text = format!("{links} went with the rows of no object at which they ended");
        committed.notices.push(json!({"code": "links_removed", "text": text}));
    }
    Ok(committed)
}

impl Transaction {
    /// Drops empty rows at the end of the indexes, unless coarser levels have the same rows, and
    /// blocks that no span names.
    fn drop_empty_rows(&mut self) -> Result<()> {
        let keeps_rows = !list_coarser(&self.snap)?.is_empty();
        for geometry in &mut self.kinds {
            let objects = &mut geometry.objects;
            if let Some(table) = &mut objects.manifests.table {
                table.is_packed = true;
            }
            if keeps_rows {
                continue;
            }
            let last = objects.manifests.rows.now.iter().rposition(|row| has_references(row));
            let rows = last.map_or(0, |last| last + 1);
            if rows == objects.manifests.len() {
                continue;
            }
            objects.drop_rows(rows);
        }
        Ok(())
    }
}

impl Geometry {
    /// Rebuilds the chunks that have fragments of no object or rows in no fragment, without them.
    /// Holds one chunk in memory at a time.
    fn rebuild_wasted(&mut self, chunks: &[u32]) -> Result<RebuiltRows> {
        let owners = self.owners_in(&chunks.iter().copied().collect())?;
        let mut named: HashMap<u32, BTreeSet<u32>> = HashMap::new();
        for (chunk, fragment) in owners.keys() {
            named.entry(*chunk).or_default().insert(*fragment);
        }
        let nobody = BTreeSet::new();
        // Flush copies of the arrays, as only the result is handed on.
        let mut arrays: Vec<CellArray> = self.arrays_mut().map(|array| array.clone()).collect();
        let mut result = RebuiltRows::default();
        for chunk in chunks {
            let named = named.remove(chunk).unwrap_or_default();
            self.forget_vertices();
            self.load_chunk(*chunk)?;
            let state = &self.chunks[chunk];
            let count = state.fragments.len();
            if let Some(last) = named.last().filter(|last| **last as usize >= count) {
                return Err(self.missing_fragment(*chunk, *last));
            }
            let is_named = !self.has_objects || named.len() == count;
            // Vertices in no fragment were not there before either.
            if is_named && state.rows.clone().all(|v| self.vertex[v].alive) {
                continue;
            }
            for (fragment, list) in (0_u32..).zip(state.fragments.iter()) {
                if self.has_objects && !named.contains(&fragment) {
                    list.iter().for_each(|v| self.vertex[*v].alive = false);
                }
            }
            let key = self.chunk_keys[*chunk].clone();
            let old = self.fragment_rows(&key, state.rows.len())?;
            let held: usize = old.iter().map(Vec::len).sum();
            let mut became = RebuiltChunk {
                rows: vec![NONE; state.rows.len()],
                fragments: vec![NONE; old.len()],
                held: [0, num::index_u32(held)], // each was loaded as a vertex
                removed: 0,
            };
            let pieces = self.chunk_pieces(*chunk, &owners, &nobody, &[])?;
            let mut row = 0_u32; // fewer rows than vertices
            for (number, piece) in (0_u32..).zip(&pieces) {
                // A row that several fragments share is copied to each; links keep the first copy.
                let from: Vec<usize> = match piece.old {
                    Some(fragment) => {
                        became.fragments[fragment as usize] = number;
                        old[fragment as usize].clone()
                    }
                    None => {
                        piece.vertices.iter().map(|v| self.vertex[*v].home.1 as usize).collect()
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
        self.forget_vertices();
        for array in &mut arrays {
            array.flush(&mut result.cells)?;
        }
        result.cells.keys.retain(|key, _| !key.ends_with("zarr.json"));
        Ok(result)
    }

    /// Takes over rebuilt chunks, on which the rest of the level depends. Returns the new numbers
    /// of their fragments.
    pub(crate) fn take_rebuilt(
        &mut self,
        rows: RebuiltRows,
        result: &mut RebuildResult,
        tally: &mut Tally,
        out: &mut Changes,
    ) -> Result<FragmentNumbers> {
        let mut numbers = FragmentNumbers::new();
        let chunks: HashSet<u32> =
            rows.chunks.keys().map(|key| self.chunk_keys.number(key)).collect();
        for ((chunk, old), objects) in self.owners_in(&chunks)? {
            let became = rows.chunks.get(&self.chunk_keys[chunk]);
            let new = became.and_then(|became| became.fragments.get(old as usize));
            let new = *new
                .filter(|new| **new != NONE)
                .ok_or_else(|| self.dangling_reference_error(chunk, old))?;
            let number = |object| FragmentNumber { object, chunk, old, new };
            numbers.extend(objects.into_iter().filter(|_| old != new).map(number));
        }
        let mut change = 0_i64;
        for (key, became) in rows.chunks {
            let [now, before] = became.held;
            change += i64::from(now) - i64::from(before);
            if became.removed > 0 {
                tally.vertices[1] += u64::from(became.removed);
                tally.free_chunks.insert(self.chunk_item(&key));
            }
            if now == 0 {
                self.arrays_mut().for_each(|array| array.remove_chunk(&key));
            }
            result.chunks.insert(key.clone());
            result.moves.insert(key, became.rows);
        }
        self.count_rows(change);
        out.keys.extend(rows.cells.keys);
        Ok(numbers)
    }

    fn dangling_reference_error(&self, chunk: u32, fragment: u32) -> EditError {
        let key = &self.chunk_keys[chunk];
        let text = format!(
            "{} of chunk {key:?}: expected fragment {fragment}, which an object has, among those that were written again, found it gone; plan again",
            self.fragments.path
        );
        EditError::new(Class::CountMismatch, text)
    }
}

/// The chunks of one kind of a store that one task of a vacuum rewrites.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct VacuumShare {
    /// The token of the kind.
    pub kind: String,
    /// The number of chunks.
    pub chunks: usize,
    /// The first and the last chunk.
    pub span: [Vec<i64>; 2],
    /// The range of shards, or of chunks where arrays are not sharded.
    shards: [usize; 2],
}

/// Divides a vacuum into about `shares` shares. Returns the head of the plan, and the shares.
///
/// # Errors
///
/// When there is no store, or it lies in a repository of versions.
pub fn plan_vacuum(store: impl Into<Place>, shares: usize) -> Result<(u64, Vec<VacuumShare>)> {
    let journal = open_store_journal(&store.into())?;
    if journal.pinned.is_some() {
        return unsupported(format!(
            "{}: a vacuum of a repository of versions is not divided; run \"zvf vacuum\"",
            journal.place
        ));
    }
    let transaction = Transaction::begin(&journal)?;
    let kinds: Vec<Vec<Vec<Chunk>>> =
        transaction.kinds.iter().map(Geometry::chunks_by_shard).collect();
    let all: usize = kinds.iter().flatten().map(Vec::len).sum();
    let size = all.div_ceil(shares.max(1)).max(1);
    let mut list = Vec::new();
    for (geometry, shards) in transaction.kinds.iter().zip(kinds) {
        let mut from = 0;
        while from < shards.len() {
            let (mut to, mut chunks) = (from, 0);
            while to < shards.len() && chunks < size {
                chunks += shards[to].len();
                to += 1;
            }
            let (first, last) = (&shards[from], &shards[to - 1]); // neither is empty
            list.push(VacuumShare {
                kind: geometry.kind.token().to_owned(),
                chunks,
                span: [first[0].clone(), last[last.len() - 1].clone()],
                shards: [from, to],
            });
            from = to;
        }
    }
    Ok((transaction.snap.head, list))
}

/// Rewrites the chunks of a share that hold waste. Returns bytes for [`finish_vacuum`], and does not change the store.
///
/// # Errors
///
/// `Conflict` when the store is no longer at `head`; when a chunk cannot be read.
pub fn run_vacuum(store: impl Into<Place>, head: u64, share: &VacuumShare) -> Result<Bytes> {
    let journal = open_store_journal(&store.into())?;
    let mut transaction = begin_at(&journal, head)?;
    let kind = transaction.find_kind(Some(&share.kind))?;
    let geometry = &mut transaction.kinds[kind];
    let [from, to] = share.shards;
    let shards = geometry.chunks_by_shard();
    let shards = shards.get(from..to).ok_or_else(|| plan_mismatch("a share", &share.kind))?;
    let chunks: Vec<u32> =
        shards.iter().flatten().map(|key| geometry.chunk_keys.number(key)).collect();
    geometry.rebuild_wasted(&chunks)?.to_bytes()
}

/// Commits the results of all shares at `head`. The commit names the plan by `digest`. Returns the report of the command.
///
/// # Errors
///
/// `Conflict` when the store is no longer at `head`; when `parts` are not results of tasks.
pub fn finish_vacuum(
    store: impl Into<Place>,
    (head, digest): (u64, &str),
    parts: impl IntoIterator<Item = (VacuumShare, Bytes)>,
) -> Result<Json> {
    let journal = open_store_journal(&store.into())?;
    let transaction = begin_at(&journal, head)?;
    let mut rebuilt: Vec<RebuiltRows> = Vec::new();
    rebuilt.resize_with(transaction.kinds.len(), RebuiltRows::default);
    for (share, bytes) in parts {
        let kind = transaction.find_kind(Some(&share.kind))?;
        let part = RebuiltRows::parse(&bytes)
            .ok_or_else(|| plan_mismatch("what a task wrote", &share.kind))?;
        rebuilt[kind].chunks.extend(part.chunks);
        rebuilt[kind].cells.keys.extend(part.cells.keys);
    }
    let committed =
        commit_rebuilt(&journal, transaction, rebuilt, vacuum_operation(digest), false)?;
    Ok(report_commit(&journal, journal.head()?, false, &committed))
}

/// Returns whether the commit after `head` is the vacuum of the plan that `digest` names.
///
/// # Errors
///
/// When there is no store, or its log cannot be read.
pub fn is_vacuumed(store: impl Into<Place>, (head, digest): (u64, &str)) -> Result<bool> {
    is_committed(store, head, &vacuum_operation(digest))
}

fn vacuum_operation(digest: &str) -> Json {
    json!({"op": "vacuum", "plan": digest})
}

fn begin_at(journal: &Arc<Journal>, head: u64) -> Result<Transaction> {
    let transaction = Transaction::begin(journal)?;
    let what = ["which was planned for", "; plan again"];
    check_is_at(&journal.place, (head, transaction.snap.head), what)?;
    Ok(transaction)
}

fn plan_mismatch(what: &str, kind: &str) -> EditError {
    let text = format!("the plan: {what} of {kind} is not of this store; plan again");
    EditError::new(Class::Encoding, text)
}

impl Geometry {
    /// Returns all chunks, grouped by shard. Where arrays have different shards, all chunks are one group.
    fn chunks_by_shard(&self) -> Vec<Vec<Chunk>> {
        let columns = self.columns.iter().map(|column| &column.array);
        let beside = self.fragment_columns.iter().map(|column| &column.array);
        let arrays = [&self.vertices, &self.fragments].into_iter().chain(columns).chain(beside);
        let grids: BTreeSet<_> = arrays.filter_map(|array| array.shard_grid()).collect();
        let chunks = self.vertices.chunks();
        let mut shards: BTreeMap<Vec<i128>, Vec<Chunk>> = BTreeMap::new();
        for chunk in chunks {
            let shard = match (grids.len(), grids.first()) {
                (0, _) => chunk.iter().copied().map(i128::from).collect(),
                (1, Some((origin, shape))) => {
                    let at = chunk.iter().zip(*origin).zip(*shape);
                    at.map(|((c, origin), side)| {
                        (i128::from(*c) - i128::from(*origin)).div_euclid((*side).into())
                    })
                    .collect()
                }
                _ => Vec::new(),
            };
            shards.entry(shard).or_default().push(chunk);
        }
        shards.into_values().collect()
    }
}

/// The header of the result of a task.
#[derive(Deserialize)]
struct Header {
    chunks: Vec<(Chunk, RebuiltChunk)>,
    cells: Vec<(String, Option<usize>)>,
}

impl RebuiltRows {
    fn to_bytes(&self) -> Result<Bytes> {
        let cell =
            |(key, blob): (&String, &Option<Blob>)| (key.clone(), blob.as_ref().map(Blob::len));
        let cells: Vec<_> = self.cells.keys.iter().map(cell).collect();
        let chunks: Vec<_> = self.chunks.iter().collect();
        let header = serde_json::to_vec(&json!({"chunks": chunks, "cells": cells}))?;
        let mut all = (to_u64(header.len())).to_le_bytes().to_vec();
        all.extend(header);
        for cell in self.cells.keys.values().flatten() {
            all.extend_from_slice(&cell.read()?);
        }
        Ok(all.into())
    }

    /// Parses the bytes that [`to_bytes`](Self::to_bytes) wrote. Returns `None` for other bytes.
    fn parse(all: &Bytes) -> Option<Self> {
        let mut rest = all.clone();
        let mut take = |count: usize| (count <= rest.len()).then(|| rest.split_to(count));
        let length = u64::from_le_bytes(*take(8)?.first_chunk()?);
        let header: Header = serde_json::from_slice(&take(usize::try_from(length).ok()?)?).ok()?;
        let chunks = header.chunks.into_iter().collect();
        let mut result = Self { chunks, ..Self::default() };
        for (key, length) in header.cells {
            let bytes = match length {
                Some(length) => Some(take(length)?),
                None => None,
            };
            result.cells.insert(key, bytes);
        }
        rest.is_empty().then_some(result)
    }
}
