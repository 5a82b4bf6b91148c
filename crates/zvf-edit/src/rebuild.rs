//! From what changed to the cells that hold it: which chunks are written again, and what their rows become.
//!
//! ```text
//! 1  objects that changed       what they come to in each chunk, before and after; chunks that differ are rebuilt
//! 2  chunks to rebuild          fragments of all their objects, ids ascending; new rows last; every row in one fragment
//! 3  manifests                  of the objects that changed, and of those whose fragments got another number
//! 4  links                      of every cell that names a rebuilt chunk, by vertex
//! 5  counts, claims, the grid   from what was written
//! ```
//!
//! Chunks in which only values changed are written with their rows as they are.
//!
//! Not here: the index of objects (`manifests`), a store without waste (`vacuum`).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::json;
use zvf_format::fragment::FragmentIndexBuilder;
use zvf_format::num::{checked_usize, saturating_u32_from_usize, saturating_usize, to_u64};
use zvf_model::Kind;

use crate::arrays::{CellArray, Chunk};
use crate::changes::Changes;
use crate::error::{EditError, Result};
use crate::geometry::Geometry;
use crate::links::RowMoves;
use crate::numbers::{NONE, Vid};

/// The counts of a commit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) vertices: [u64; 4], // added, removed, moved, changed
    pub(crate) links: [u64; 3],    // added, removed, changed
    pub(crate) added: BTreeSet<i64>,
    pub(crate) removed: BTreeSet<i64>,
    pub(crate) changed: BTreeSet<i64>,
    pub(crate) chunks: u64,
    pub(crate) low: Vec<f64>,
    pub(crate) high: Vec<f64>,
    /// Chunks of points without objects in which vertices changed or went.
    pub(crate) free_chunks: BTreeSet<String>,
}

impl Tally {
    /// Extends the box of changed positions to a position.
    pub(crate) fn cover(&mut self, position: &[f64]) {
        if self.low.is_empty() {
            (self.low, self.high) = (position.to_vec(), position.to_vec());
        }
        for (axis, value) in position.iter().enumerate() {
            self.low[axis] = self.low[axis].min(*value);
            self.high[axis] = self.high[axis].max(*value);
        }
    }
}

/// The result of rebuilding a kind.
#[derive(Debug, Default)]
pub(crate) struct Rebuilt {
    /// Rebuilt chunks.
    pub(crate) chunks: BTreeSet<Chunk>,
    /// Where each of their vertices lies now.
    pub(crate) places: HashMap<Vid, (u32, u32)>,
    /// Boxes around chunks in which anything changed.
    pub(crate) changed: BTreeSet<Chunk>,
    /// Chunks with ends of edges or faces that came, went or changed, and of objects that only go through them in another
    /// order.
    pub(crate) linked_chunks: BTreeSet<Chunk>,
    /// The objects of these edges and faces.
    pub(crate) linked_objects: BTreeSet<i64>,
    /// Where the rows of rebuilt chunks lie now, instead of `places`, where no vertex came or changed.
    pub(crate) moves: RowMoves,
}

/// Chunks of one kind that are written again, as they are handed on.
#[derive(Debug, Default)]
pub(crate) struct RebuiltRows {
    pub(crate) chunks: BTreeMap<Chunk, RebuiltChunk>,
    /// New bytes of cells, by key; documents are not among them.
    pub(crate) cells: Changes,
}

/// What became of a chunk.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RebuiltChunk {
    /// For each row it had the new one, `NONE` where it went.
    pub(crate) rows: Vec<u32>,
    /// The same of fragments.
    pub(crate) fragments: Vec<u32>,
    /// Rows of fragments that it has now, and had.
    pub(crate) held: [u64; 2],
    /// Rows that had a fragment, and have none now.
    pub(crate) removed: u64,
}

/// What the references of an object to a chunk become: the old fragment or none, which of its pieces, the new fragment.
pub(crate) type Numbers = HashMap<(u32, u32), Vec<(u32, Option<usize>, u32)>>;

/// An object that changed, and what it comes to: the vertices of each run or chunk, by the number of the chunk.
pub(crate) type ChangedObject = (u32, Vec<(u32, Vec<Vid>)>);

/// The objects that changed, and the chunks they change.
#[derive(Debug, Default)]
struct ObjectChanges {
    changed: Vec<ChangedObject>,
    /// Chunks in which an object has or had a piece.
    chunks: BTreeSet<u32>,
    /// Chunks in which the pieces of an object differ.
    rebuilt: BTreeSet<u32>,
    /// Chunks of objects that only go through them in another order.
    reordered: BTreeSet<u32>,
}

impl ObjectChanges {
    /// Compares the pieces of an object in each chunk, before and after the edit.
    fn compare_chunks(&mut self, old: &[(u32, Vec<Vid>)], new: &[(u32, Vec<Vid>)]) {
        let (before, after) = (group_by_chunk(old), group_by_chunk(new));
        for chunk in before.keys().chain(after.keys()) {
            self.chunks.insert(*chunk);
            if before.get(chunk) != after.get(chunk) {
                self.rebuilt.insert(*chunk);
            }
        }
        if before == after {
            self.reordered.extend(before.into_keys());
        }
    }
}

fn group_by_chunk(pieces: &[(u32, Vec<Vid>)]) -> BTreeMap<u32, Vec<&[Vid]>> {
    let mut map: BTreeMap<u32, Vec<&[Vid]>> = BTreeMap::new();
    for (chunk, piece) in pieces {
        map.entry(*chunk).or_default().push(piece);
    }
    map
}

/// What a chunk is written as, in the order of [`Geometry::arrays_mut`]; nothing where it has no rows.
pub(crate) type ChunkPayload = Vec<Vec<u8>>;

/// The objects that name fragments of chunks.
type Owners = HashMap<(u32, u32), Vec<u32>>;

/// The key of fragments whose vertices have no object: they come last.
const UNOWNED_KEY: i64 = i64::MAX;

/// What becomes a fragment.
pub(crate) struct Piece {
    key: (i64, usize), // the least id of its objects, and its place among their pieces
    owners: Vec<u32>,  // objects that did not change and name it
    changed: Option<(u32, usize)>, // the object that did, and which of its pieces this is
    pub(crate) old: Option<u32>,
    pub(crate) vertices: Vec<Vid>,
}

impl Geometry {
    /// Writes what changed of this kind.
    pub(crate) fn rebuild(&mut self, out: &mut Changes, tally: &mut Tally) -> Result<Rebuilt> {
        let objects = self.compare_objects(tally);
        let rebuilt: BTreeSet<u32> = [&self.forced, &objects.rebuilt, &self.free_chunks()]
            .into_iter()
            .flatten()
            .copied()
            .collect();
        let involved: Vec<u32> = rebuilt.union(&objects.chunks).copied().collect();
        for chunk in &involved {
            self.load_chunk(*chunk)?;
        }
        self.load_links(&involved)?;
        if self.kind == Kind::Line {
            // Before anything is written: manifests are about to name other fragments.
            let owners = self.owners_in(&rebuilt.iter().copied().collect())?;
            for object in owners.into_values().flatten() {
                self.load_object(object)?;
                self.lines.insert(object);
            }
        }
        let changed = &objects.changed;
        let mut result = Rebuilt::default();
        result.linked_chunks.extend(self.keys_of(&objects.reordered));
        let renumbered = self.rebuild_chunks(&rebuilt, changed, &mut result, tally)?;
        self.write_values(&rebuilt, &mut result, tally, out)?;
        self.write_objects(changed, renumbered, false, tally, out)?;
        self.follow_links(&rebuilt, changed)?;
        result.chunks = self.keys_of(&rebuilt).collect();
        self.write_links(&mut result, tally, out)?;
        self.write_level(out)?;
        result.changed.extend(result.chunks.iter().cloned());
        tally.chunks += to_u64(result.changed.len());
        Ok(result)
    }

    /// The keys of some chunks.
    fn keys_of(&self, chunks: &BTreeSet<u32>) -> impl Iterator<Item = Chunk> {
        chunks.iter().map(|chunk| self.chunk_keys[*chunk as usize].clone())
    }

    /// Compares the pieces of every touched object before and after the edit.
    fn compare_objects(&self, tally: &mut Tally) -> ObjectChanges {
        let mut changes = ObjectChanges::default();
        for number in self.object_numbers() {
            let Some(state) = self.object(number).filter(|state| state.touched) else { continue };
            let new = if state.exists { self.pieces(number) } else { Vec::new() };
            let own: HashSet<Vid> = state.before.iter().copied().collect();
            let old: Vec<(u32, Vec<Vid>)> = state
                .refs
                .iter()
                .map(|(chunk, fragment)| (*chunk, self.old_piece(*chunk, *fragment, &own)))
                .collect();
            if old == new
                && !self.parents_changed.contains(&number)
                && !state.before.iter().any(|v| self.home[*v as usize].0 == NONE)
            {
                continue;
            }
            changes.compare_chunks(&old, &new);
            match (state.existed, state.exists) {
                (false, true) => tally.added.insert(state.id),
                (true, false) => tally.removed.insert(state.id),
                (true, true) => tally.changed.insert(state.id),
                (false, false) => true,
            };
            changes.changed.push((number, new));
        }
        changes
    }

    /// The chunks that vertices without objects left or reached.
    fn free_chunks(&self) -> BTreeSet<u32> {
        let mut chunks = BTreeSet::new();
        for v in &self.free_changed {
            let i = *v as usize;
            let (home, _) = self.home[i];
            if self.alive[i] {
                chunks.insert(self.at[i]);
            }
            if home != NONE && (!self.alive[i] || home != self.at[i] || self.objects.is_none()) {
                chunks.insert(home);
            }
        }
        chunks
    }

    /// Gives rows to the objects that came and went.
    pub(crate) fn keep_rows(&mut self, out: &mut Changes, tally: &mut Tally) -> Result<()> {
        let gone = self
            .objects
            .as_ref()
            .is_some_and(|objects| objects.list.iter().any(|object| object.row.is_none()));
        if gone { self.write_objects(&[], Numbers::new(), true, tally, out) } else { Ok(()) }
    }

    fn old_piece(&self, chunk: u32, fragment: u32, own: &HashSet<Vid>) -> Vec<Vid> {
        let list = self.chunks.get(&chunk).and_then(|state| state.fragments.get(fragment as usize));
        let list = list.cloned().unwrap_or_default();
        // The copies of shared rows are the object's own, and make it differ.
        if list.iter().all(|v| own.contains(v)) { list } else { Vec::new() }
    }

    /// Rows and fragments of the chunks that are written again. The fragments that got another number, by object.
    fn rebuild_chunks(
        &mut self,
        rebuilt: &BTreeSet<u32>,
        changed: &[ChangedObject],
        result: &mut Rebuilt,
        tally: &mut Tally,
    ) -> Result<Numbers> {
        let set: HashSet<u32> = rebuilt.iter().copied().collect();
        let owners = self.owners_in(&set)?;
        let touched: HashSet<u32> = changed.iter().map(|(object, _)| *object).collect();
        // (object, chunk) -> what its references become: (old fragment or none, which piece, new fragment)
        let mut numbers = Numbers::new();
        let mut by_chunk: HashMap<u32, Vec<(usize, usize)>> = HashMap::new();
        for (i, (_, new)) in changed.iter().enumerate() {
            for (n, (chunk, _)) in new.iter().enumerate() {
                by_chunk.entry(*chunk).or_default().push((i, n));
            }
        }
        let mut keys: Vec<Chunk> = Vec::new();
        let mut payloads: Vec<(Chunk, ChunkPayload)> = Vec::new();
        let mut row_change = 0_i64;
        for chunk in rebuilt {
            let key = self.chunk_keys[*chunk as usize].clone();
            row_change -= self.chunks[chunk]
                .fragments
                .iter()
                .map(|list| i64::from(saturating_u32_from_usize(list.len()))) // vertices have numbers of 32 bits
                .sum::<i64>();
            let here = by_chunk.get(chunk).map(Vec::as_slice).unwrap_or_default();
            let pieces = self.chunk_pieces(*chunk, &owners, (changed, &touched), here)?;
            let mut row = 0_u32;
            for (number, piece) in (0_u32..).zip(&pieces) {
                for v in &piece.vertices {
                    result.places.entry(*v).or_insert((*chunk, row));
                    if !self.was[*v as usize] && self.home[*v as usize].0 == NONE {
                        tally.vertices[0] += 1;
                    }
                    row += 1;
                }
                for object in &piece.owners {
                    let old = piece.old.unwrap_or(NONE);
                    numbers.entry((*object, *chunk)).or_default().push((old, None, number));
                }
                if let Some((object, n)) = piece.changed {
                    numbers.entry((object, *chunk)).or_default().push((NONE, Some(n), number));
                }
            }
            row_change += i64::from(row);
            if row > 0 {
                keys.push(key.clone());
            }
            payloads.push((key, self.chunk_payload(*chunk, &pieces)?));
        }
        self.grow(&keys);
        for (key, payload) in payloads {
            for (array, bytes) in self.arrays_mut().zip(payload) {
                array.put(&key, bytes);
            }
        }
        self.count_rows(row_change);
        Ok(numbers)
    }

    /// Adds to the number of vertices that the level says it has.
    ///
    /// Other writers leave that number at 0 or do not update it, and readers must not rely on it. A sum below 0 proves
    /// that it was such a number: then it becomes 0, as these writers have it, and the edit is not refused.
    pub(crate) fn count_rows(&mut self, change: i64) {
        // What is not stated stays so.
        let count = self.doc.pointer_mut("/attributes/zarr_vectors_level/vertex_count");
        let Some(count) = count.filter(|_| change != 0) else { return };
        if let Some(new) = count.as_i64().and_then(|stated| stated.checked_add(change)) {
            *count = json!(new.max(0));
        }
    }

    /// Vertices, fragments, columns of vertices, columns of fragments.
    pub(crate) fn arrays_mut(&mut self) -> impl Iterator<Item = &mut CellArray> {
        let columns = self.columns.iter_mut().map(|column| &mut column.array);
        let beside = self.fragment_columns.iter_mut().map(|column| &mut column.array);
        [&mut self.vertices, &mut self.fragments].into_iter().chain(columns).chain(beside)
    }

    /// What becomes the fragments of a chunk that is written again, in their order. `here` says which pieces of the objects
    /// that changed lie in it.
    pub(crate) fn chunk_pieces(
        &self,
        chunk: u32,
        owners: &Owners,
        (changed, touched): (&[ChangedObject], &HashSet<u32>),
        here: &[(usize, usize)],
    ) -> Result<Vec<Piece>> {
        if self.objects.is_none() {
            return self.bin_pieces(chunk);
        }
        let claimed: HashSet<Vid> =
            here.iter().flat_map(|(i, n)| changed[*i].1[*n].1.iter().copied()).collect();
        let mut pieces = self.kept_pieces(chunk, owners, touched, &claimed);
        for (i, n) in here {
            let (object, new) = &changed[*i];
            pieces.push(Piece {
                key: (self.id_of(*object), *n),
                owners: Vec::new(),
                changed: Some((*object, *n)),
                old: None,
                vertices: new[*n].1.clone(),
            });
        }
        let arrived = self.arrived_vertices(chunk, &claimed);
        if !arrived.is_empty() {
            match pieces.iter_mut().find(|piece| piece.key.0 == UNOWNED_KEY) {
                Some(piece) => piece.vertices.extend(arrived),
                None => pieces.push(Piece {
                    key: (UNOWNED_KEY, usize::MAX),
                    owners: Vec::new(),
                    changed: None,
                    old: None,
                    vertices: arrived,
                }),
            }
        }
        pieces.sort_by_key(|piece| piece.key);
        Ok(pieces)
    }

    /// The id of an object that is in the list.
    fn id_of(&self, object: u32) -> i64 {
        self.object(object).map_or(0, |object| object.id)
    }

    /// The old fragments of a chunk that stay: those of objects that did not change, and of vertices without objects.
    fn kept_pieces(
        &self,
        chunk: u32,
        owners: &Owners,
        touched: &HashSet<u32>,
        claimed: &HashSet<Vid>,
    ) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for (n, (fragment, list)) in (0_u32..).zip(&self.chunks[&chunk].fragments).enumerate() {
            let named = owners.get(&(chunk, fragment)).map(Vec::as_slice).unwrap_or_default();
            let still: Vec<u32> =
                named.iter().copied().filter(|object| !touched.contains(object)).collect();
            if still.is_empty() && !named.is_empty() {
                continue;
            }
            // Vertices without objects may go and move by themselves.
            let stays = |v: &Vid| {
                let i = *v as usize;
                self.alive[i] && self.at[i] == chunk && !claimed.contains(v)
            };
            let vertices: Vec<Vid> = match named.is_empty() {
                true => list.iter().copied().filter(stays).collect(),
                false => list.clone(),
            };
            if vertices.is_empty() && (!list.is_empty() || named.is_empty()) {
                continue;
            }
            let first_id = still.iter().map(|object| self.id_of(*object)).min();
            let key = (first_id.unwrap_or(UNOWNED_KEY), n);
            let old = Some(fragment);
            pieces.push(Piece { key, owners: still, changed: None, old, vertices });
        }
        pieces
    }

    /// Vertices without objects that come to a chunk and are in no piece of it yet.
    fn arrived_vertices(&self, chunk: u32, claimed: &HashSet<Vid>) -> Vec<Vid> {
        let arrives = |v: &Vid| {
            let i = *v as usize;
            self.owner[i] == NONE
                && self.alive[i]
                && self.at[i] == chunk
                && self.home[i].0 != chunk
                && !claimed.contains(v)
        };
        self.free_changed.iter().copied().filter(arrives).collect()
    }

    /// What a chunk is written as that has these fragments.
    pub(crate) fn chunk_payload(&self, chunk: u32, pieces: &[Piece]) -> Result<ChunkPayload> {
        let beside = 2 + self.columns.len();
        let mut payload: ChunkPayload = vec![Vec::new(); beside + self.fragment_columns.len()];
        if pieces.iter().all(|piece| piece.vertices.is_empty()) {
            return Ok(payload);
        }
        let mut index = FragmentIndexBuilder::new();
        let mut row = 0_u64;
        for piece in pieces {
            let count = to_u64(piece.vertices.len());
            index.range(row, count)?;
            row += count;
            for v in &piece.vertices {
                payload[0].extend_from_slice(self.position_bytes(*v));
                for (column, values) in self.columns.iter().zip(&mut payload[2..]) {
                    let size = column.ty.size();
                    let at = *v as usize * size;
                    values.extend_from_slice(&column.data[at..at + size]);
                }
            }
            for (c, bytes) in payload[beside..].iter_mut().enumerate() {
                bytes.extend(self.fragment_value(c, chunk, piece)?);
            }
        }
        payload[1] = index.encode();
        Ok(payload)
    }

    /// Fragments of a chunk without objects: one for each bin, rows that stay before rows that come.
    fn bin_pieces(&self, chunk: u32) -> Result<Vec<Piece>> {
        // One list a bin: a bin without vertices has a fragment as well.
        let bins = checked_usize(self.bins.count())
            .ok_or_else(|| EditError::unsupported("a chunk has more bins than memory has bytes"))?;
        let mut lists: Vec<Vec<(bool, u32, Vid)>> = vec![Vec::new(); bins];
        let here = |v: &Vid| self.alive[*v as usize] && self.at[*v as usize] == chunk;
        let state = &self.chunks[&chunk];
        let mut members: Vec<Vid> = state.rows.iter().copied().filter(here).collect();
        members.extend(
            self.free_changed
                .iter()
                .copied()
                .filter(|v| here(v) && self.home[*v as usize].0 != chunk),
        );
        let mut old_bins: HashMap<Vid, u64> = HashMap::new();
        for (bin, list) in (0_u64..).zip(&state.fragments) {
            old_bins.extend(list.iter().map(|v| (*v, bin)));
        }
        for v in members {
            let (_, bin) = self.locate(&self.position(v))?;
            let (home, row) = self.home[v as usize];
            let stays = home == chunk && (bins == 1 || old_bins.get(&v) == Some(&bin));
            lists[saturating_usize(bin)].push((!stays, if stays { row } else { v }, v));
        }
        if lists.iter().all(Vec::is_empty) {
            return Ok(Vec::new());
        }
        let pieces = lists.into_iter().enumerate().map(|(bin, mut list)| {
            list.sort_unstable();
            let vertices: Vec<Vid> = list.into_iter().map(|(_, _, v)| v).collect();
            Piece { key: (0, bin), owners: Vec::new(), changed: None, old: None, vertices }
        });
        Ok(pieces.collect())
    }

    /// What a fragment has in a column: what the one had that its first vertex came from.
    fn fragment_value(&self, column: usize, chunk: u32, piece: &Piece) -> Result<Vec<u8>> {
        let column = &self.fragment_columns[column];
        if column.name == "object_id" {
            let id = |object: u32| self.object(object).map_or(-1, |object| object.id);
            let owner = match (piece.changed, piece.owners.as_slice()) {
                (Some((object, _)), _) => id(object),
                (None, [one]) => id(*one),
                (None, []) => -1,
                (None, _) => -2,
            };
            let bytes = column.ty.scalar.encode_id(owner);
            return bytes.map_err(|error| error.with_place(&column.array.path));
        }
        let came_from = || -> Option<(u32, u32)> {
            if let Some(old) = piece.old {
                return Some((chunk, old));
            }
            let first = piece.vertices.first()?;
            let (home, _) = self.home[*first as usize];
            let fragments = &self.chunks.get(&home)?.fragments;
            let (old, _) = (0_u32..).zip(fragments).find(|(_, list)| list.contains(first))?;
            Some((home, old))
        };
        let Some((home, old)) = came_from() else { return Ok(column.fill.clone()) };
        let state = &self.chunks[&home];
        if let Some(set) = column.set.get(&(home, old)) {
            return Ok(set.clone());
        }
        let (size, old) = (column.ty.size(), old as usize);
        let chunk = &self.chunk_keys[home as usize];
        let stored = column.stored_rows(&self.snap, chunk, state.fragments.len())?;
        let row = stored.as_ref().and_then(|bytes| bytes.get(old * size..(old + 1) * size));
        Ok(row.map_or_else(|| column.fill.clone(), <[u8]>::to_vec))
    }

    /// Makes every array of the level large enough for chunks.
    fn grow(&mut self, keys: &[Chunk]) {
        let Some(first) = keys.first() else { return };
        let (mut low, mut high) = (first.clone(), first.clone());
        for key in keys {
            for (axis, value) in key.iter().enumerate() {
                low[axis] = low[axis].min(*value);
                high[axis] = high[axis].max(*value);
            }
        }
        if self.vertices.covers(&low, &high)
            && self.fragments.covers(&low, &high)
            && self.columns.iter().all(|column| column.array.covers(&low, &high))
        {
            return;
        }
        self.vertices.grow(&low, &high);
        self.fragments.grow(&low, &high);
        for column in &mut self.columns {
            column.array.grow(&low, &high);
        }
        for column in &mut self.fragment_columns {
            column.array.grow(&low, &high);
        }
        if let Some(family) = &mut self.links {
            family.grow(&low, &high);
        }
    }
}
