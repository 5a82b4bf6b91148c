//! A vacuum, divided between processes: shares of chunks are written again by tasks, and one commit takes them over.
//!
//! ```text
//! plan_vacuum      chunks of each kind, in shares of whole shards: no two tasks write one key
//! run_vacuum       a share -> its cells, and where rows and fragments lie now, as bytes
//! finish_vacuum    those of all shares -> one commit at the head of the plan
//! ```
//!
//! The bytes of a task are only for the build that made them:
//!
//! ```text
//! u64    length of the header
//! JSON   {"chunks": [[chunk, rows, fragments, [held now, before], removed], ...], "cells": [[key, length or null], ...]}
//! u32    what rows and fragments of each chunk became
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
use crate::error::{EditError, Result};
use crate::geometry::Geometry;
use crate::history::journal;
use crate::journal::Journal;
use crate::place::Place;
use crate::rebuild::{RebuiltChunk, RebuiltRows};
use crate::transaction::Transaction;
use crate::vacuum::{commit_rebuilt, report_vacuum};

/// Chunks of one kind of a store, which one task of a vacuum writes again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct VacuumShare {
    /// The kind, as the store names it.
    pub kind: String,
    /// How many chunks these are.
    pub chunks: usize,
    /// The first and the last.
    pub span: [Vec<i64>; 2],
    /// Which shards, or chunks where there are none: the first, and the one behind the last.
    shards: [usize; 2],
}

/// Divides a vacuum into about `shares` shares; the head that they are of.
///
/// # Errors
///
/// When there is no store, or it lies in a repository of versions.
pub fn plan_vacuum(store: impl Into<Place>, shares: usize) -> Result<(u64, Vec<VacuumShare>)> {
    let own = journal(&store.into())?;
    if own.pinned.is_some() {
        return Err(EditError::unsupported(format!(
            "{}: a vacuum of a repository of versions is not divided; run \"zvf vacuum\"",
            own.place
        )));
    }
    let transaction = Transaction::begin(&own, Path::new("."))?;
    let kinds: Vec<Vec<Vec<Chunk>>> = transaction.kinds.iter().map(Geometry::shards).collect();
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
            let ends = [shards[from].first(), shards[to - 1].last()];
            list.push(VacuumShare {
                kind: geometry.kind.token().to_owned(),
                chunks,
                span: ends.map(|chunk| chunk.cloned().unwrap_or_default()),
                shards: [from, to],
            });
            from = to;
        }
    }
    Ok((transaction.head(), list))
}

/// Writes the chunks of a share again that hold waste: what [`finish_vacuum`] takes over. The store stays as it is.
///
/// # Errors
///
/// `Conflict` when the store is not at `head` any longer; when a chunk cannot be read.
pub fn run_vacuum(store: impl Into<Place>, head: u64, share: &VacuumShare) -> Result<Bytes> {
    let own = journal(&store.into())?;
    let mut transaction = begin_at(&own, head)?;
    let kind = transaction.kind_named(Some(&json!(share.kind)))?;
    let geometry = &mut transaction.kinds[kind];
    let [from, to] = share.shards;
    let shards = geometry.shards();
    let own = shards.get(from..to).ok_or_else(|| plan_mismatch("a share", &share.kind))?;
    let chunks: Vec<u32> = own.iter().flatten().map(|key| geometry.chunk_number(key)).collect();
    let wasted = geometry.find_waste(&chunks)?;
    geometry.rebuild_rows(&wasted)?.to_bytes()
}

/// Takes over what tasks wrote of all shares, in one commit at `head`, which names the plan by `digest`: the report of the
/// command.
///
/// # Errors
///
/// `Conflict` when the store is not at `head` any longer; when `parts` are not those of tasks.
pub fn finish_vacuum(
    store: impl Into<Place>,
    (head, digest): (u64, &str),
    parts: impl IntoIterator<Item = (VacuumShare, Bytes)>,
) -> Result<Json> {
    let own = journal(&store.into())?;
    let transaction = begin_at(&own, head)?;
    let mut rebuilt: Vec<RebuiltRows> = Vec::new();
    rebuilt.resize_with(transaction.kinds.len(), RebuiltRows::default);
    for (share, bytes) in parts {
        let kind = transaction.kind_named(Some(&json!(share.kind)))?;
        let part = RebuiltRows::parse(&bytes)
            .ok_or_else(|| plan_mismatch("what a task wrote", &share.kind))?;
        rebuilt[kind].chunks.extend(part.chunks);
        rebuilt[kind].cells.extend(part.cells);
    }
    let committed = commit_rebuilt(&own, transaction, rebuilt, operation(digest), false)?;
    report_vacuum(&own, false, committed)
}

/// Whether the plan that `digest` names was committed after `head`.
///
/// # Errors
///
/// When there is no store, or its log cannot be read.
pub fn is_vacuumed(store: impl Into<Place>, (head, digest): (u64, &str)) -> Result<bool> {
    let own = journal(&store.into())?;
    let Some(record) = own.record(head + 1)? else { return Ok(false) };
    Ok(record.operations()? == json!([operation(digest)]))
}

fn operation(digest: &str) -> Json {
    json!({"op": "vacuum", "plan": digest})
}

fn begin_at(own: &Arc<Journal>, head: u64) -> Result<Transaction> {
    let transaction = Transaction::begin(own, Path::new("."))?;
    if transaction.head() == head {
        return Ok(transaction);
    }
    let found = transaction.head();
    Err(EditError::conflict(
        format!(
            "{}: expected head {head}, which was planned for, found {found}; plan again",
            own.place
        ),
        vec![format!("head:{found}")],
    ))
}

fn plan_mismatch(what: &str, kind: &str) -> EditError {
    EditError::new(
        Class::Encoding,
        format!("the plan: {what} of {kind} is not of this store; plan again"),
    )
}

impl Geometry {
    /// All chunks, those of a shard together. Arrays with different shards make one of all.
    fn shards(&self) -> Vec<Vec<Chunk>> {
        let columns = self.columns.iter().map(|column| &column.array);
        let beside = self.fragment_columns.iter().map(|column| &column.array);
        let arrays = [&self.vertices, &self.fragments].into_iter().chain(columns).chain(beside);
        let grids: BTreeSet<_> = arrays.filter_map(|array| array.shards()).collect();
        let chunks = self.vertices.chunks();
        let mut shards: BTreeMap<Chunk, Vec<Chunk>> = BTreeMap::new();
        for chunk in chunks {
            let shard = match (grids.len(), grids.first()) {
                (0, _) => chunk.clone(),
                (1, Some((origin, shape))) => {
                    let at = chunk.iter().zip(*origin).zip(*shape);
                    at.map(|((c, origin), shape)| (c - origin).div_euclid(*shape)).collect()
                }
                _ => Chunk::new(),
            };
            shards.entry(shard).or_default().push(chunk);
        }
        shards.into_values().collect()
    }
}

/// What the bytes of a task begin with.
#[derive(Deserialize, Serialize)]
struct Header {
    chunks: Vec<(Chunk, usize, usize, [u64; 2], u64)>,
    cells: Vec<(String, Option<usize>)>,
}

impl RebuiltRows {
    fn to_bytes(&self) -> Result<Bytes> {
        let chunk = |(key, became): (&Chunk, &RebuiltChunk)| {
            (key.clone(), became.rows.len(), became.fragments.len(), became.held, became.removed)
        };
        let header = Header {
            chunks: self.chunks.iter().map(chunk).collect(),
            cells: self
                .cells
                .iter()
                .map(|(k, bytes)| (k.clone(), bytes.as_ref().map(Bytes::len)))
                .collect(),
        };
        let header = serde_json::to_vec(&header)?;
        let mut all = (to_u64(header.len())).to_le_bytes().to_vec();
        all.extend(header);
        for became in self.chunks.values() {
            let numbers = became.rows.iter().chain(&became.fragments);
            all.extend(numbers.flat_map(|number| number.to_le_bytes()));
        }
        for cell in self.cells.values().flatten() {
            all.extend_from_slice(cell);
        }
        Ok(all.into())
    }

    /// Those that [`to_bytes`](Self::to_bytes) wrote; none where these are others.
    fn parse(all: &Bytes) -> Option<Self> {
        let mut rest = all.clone();
        let mut take = |count: usize| (count <= rest.len()).then(|| rest.split_to(count));
        let length = u64::from_le_bytes(*take(8)?.first_chunk()?);
        let header: Header = serde_json::from_slice(&take(usize::try_from(length).ok()?)?).ok()?;
        let mut result = Self::default();
        for (key, rows, fragments, held, removed) in header.chunks {
            let mut numbers = |count: usize| -> Option<Vec<u32>> {
                let bytes = take(count.checked_mul(4)?)?;
                let numbers = bytes.chunks_exact(4);
                numbers.map(|bytes| Some(u32::from_le_bytes(*bytes.first_chunk()?))).collect()
            };
            let (rows, fragments) = (numbers(rows)?, numbers(fragments)?);
            result.chunks.insert(key, RebuiltChunk { rows, fragments, held, removed });
        }
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
