//! A vacuum, divided between processes: tasks rewrite shares of the chunks, and one commit takes over the results.
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

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use zvf_format::Class;
use zvf_format::num::to_u64;

use crate::arrays::Chunk;
use crate::changes::Blob;
use crate::error::{EditError, Result, unsupported};
use crate::geometry::Geometry;
use crate::history::open_store_journal;
use crate::journal::Journal;
use crate::place::Place;
use crate::rebuild::{RebuiltChunk, RebuiltRows};
use crate::rewrite::{check_is_at, is_committed};
use crate::script::report_commit;
use crate::transaction::Transaction;
use crate::vacuum::commit_rebuilt;

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
    let transaction = Transaction::begin(&journal, Path::new("."))?;
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
    Ok((transaction.head(), list))
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
    let chunks: Vec<u32> = shards.iter().flatten().map(|key| geometry.chunk_number(key)).collect();
    let wasted = geometry.find_waste(&chunks)?;
    geometry.rebuild_rows(&wasted)?.to_bytes()
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
    report_commit(&journal, false, committed)
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
    let transaction = Transaction::begin(journal, Path::new("."))?;
    let what = ["which was planned for", "; plan again"];
    check_is_at(&journal.place, (head, transaction.head()), what)?;
    Ok(transaction)
}

fn plan_mismatch(what: &str, kind: &str) -> EditError {
    EditError::new(
        Class::Encoding,
        format!("the plan: {what} of {kind} is not of this store; plan again"),
    )
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
