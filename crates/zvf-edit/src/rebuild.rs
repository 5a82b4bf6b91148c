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
use zvf_model::Kind;

use crate::arrays::{CellArray, Chunk};
use crate::error::Result;
use crate::geometry::{Geometry, NONE, Vid};
use crate::journal::Changes;
use crate::links::RowMoves;

/// What a commit did, in numbers.
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
    /// Takes in a position.
    fn cover(&mut self, position: &[f64]) {
        if self.low.is_empty() {
            (self.low, self.high) = (position.to_vec(), position.to_vec());
        }
        for (axis, value) in position.iter().enumerate() {
            self.low[axis] = self.low[axis].min(*value);
            self.high[axis] = self.high[axis].max(*value);
        }
    }
}

/// What a rebuilt kind came to.
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

/// What the references of an object to a chunk become: the old fragment or none, which of its pieces, the new fragment.
pub(crate) type Numbers = HashMap<(u32, u32), Vec<(u32, Option<usize>, u32)>>;

/// An object that changed, and what it comes to: the vertices of each run or chunk, by the number of the chunk.
pub(crate) type ChangedObject = (u32, Vec<(u32, Vec<Vid>)>);

/// What a chunk is written as, in the order of [`Geometry::arrays_mut`]; nothing where it has no rows.
pub(crate) type ChunkPayload = Vec<Vec<u8>>;

/// The objects that name fragments of chunks.
type Owners = HashMap<(u32, u32), Vec<u32>>;

/// What becomes a fragment.
pub(crate) struct Piece {
    key: (i64, usize),
    owners: Vec<u32>,              // objects that did not change and name it
    changed: Option<(u32, usize)>, // the object that did, and which of its pieces this is
    pub(crate) old: Option<u32>,
    pub(crate) vertices: Vec<Vid>,
}

impl Geometry {
    /// Writes what changed of this kind.
    pub(crate) fn rebuild(&mut self, out: &mut Changes, tally: &mut Tally) -> Result<Rebuilt> {
        let mut rebuilt = self.forced.clone();
        let mut object_chunks: BTreeSet<u32> = BTreeSet::new();
        let mut changed_objects: Vec<ChangedObject> = Vec::new();
        let mut turned: BTreeSet<u32> = BTreeSet::new(); // chunks of objects that only go through them in another order
        let count = self.objects.as_ref().map_or(0, |objects| objects.list.len());
        for number in 0..count as u32 {
            let Some(state) = self.object(number).filter(|state| state.touched) else { continue };
            let (id, exists, existed) = (state.id, state.exists, state.existed);
            let new = if exists { self.pieces(number) } else { Vec::new() };
            let state = self.object(number).cloned().unwrap_or_default();
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
            let by_chunk = |pieces: &[(u32, Vec<Vid>)]| {
                let mut map: BTreeMap<u32, Vec<Vec<Vid>>> = BTreeMap::new();
                for (chunk, piece) in pieces {
                    map.entry(*chunk).or_default().push(piece.clone());
                }
                map
            };
            let (before, after) = (by_chunk(&old), by_chunk(&new));
            for chunk in before.keys().chain(after.keys()) {
                object_chunks.insert(*chunk);
                if before.get(chunk) != after.get(chunk) {
                    rebuilt.insert(*chunk);
                }
            }
            if before == after {
                turned.extend(before.into_keys());
            }
            match (existed, exists) {
                (false, true) => tally.added.insert(id),
                (true, false) => tally.removed.insert(id),
                (true, true) => tally.changed.insert(id),
                (false, false) => true,
            };
            changed_objects.push((number, new));
        }
        let free = self.free_changed.clone();
        for v in &free {
            let (home, _) = self.home[*v as usize];
            if self.alive[*v as usize] {
                rebuilt.insert(self.at[*v as usize]);
            }
            if home != NONE
                && (!self.alive[*v as usize]
                    || home != self.at[*v as usize]
                    || self.objects.is_none())
            {
                rebuilt.insert(home);
            }
        }
        for chunk in &rebuilt {
            self.load_chunk(*chunk)?;
        }
        let involved: Vec<u32> = rebuilt.union(&object_chunks).copied().collect();
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
        let mut result = Rebuilt::default();
        let turned = turned.iter().map(|chunk| self.chunk_keys[*chunk as usize].clone());
        result.linked_chunks.extend(turned);
        let renumbered = self.rebuild_chunks(&rebuilt, &changed_objects, &mut result, tally)?;
        self.write_values(&rebuilt, &mut result, tally, out)?;
        self.write_objects(&changed_objects, renumbered, false, tally, out)?;
        self.follow_links(&rebuilt, &changed_objects)?;
        result.chunks =
            rebuilt.iter().map(|chunk| self.chunk_keys[*chunk as usize].clone()).collect();
        self.write_links(&mut result, tally, out)?;
        self.write_level(out)?;
        result.changed.extend(result.chunks.iter().cloned());
        tally.chunks += result.changed.len() as u64;
        Ok(result)
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
            row_change -= self.chunks[chunk].fragments.iter().map(Vec::len).sum::<usize>() as i64;
            let here = by_chunk.get(chunk).map(Vec::as_slice).unwrap_or_default();
            let pieces = self.chunk_pieces(*chunk, &owners, (changed, &touched), here)?;
            let mut row = 0_u32;
            for (number, piece) in pieces.iter().enumerate() {
                for v in &piece.vertices {
                    result.places.entry(*v).or_insert((*chunk, row));
                    if !self.was[*v as usize] && self.home[*v as usize].0 == NONE {
                        tally.vertices[0] += 1;
                    }
                    row += 1;
                }
                for object in &piece.owners {
                    let old = piece.old.unwrap_or(NONE);
                    numbers.entry((*object, *chunk)).or_default().push((old, None, number as u32));
                }
                if let Some((object, n)) = piece.changed {
                    numbers.entry((object, *chunk)).or_default().push((
                        NONE,
                        Some(n),
                        number as u32,
                    ));
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
    pub(crate) fn count_rows(&mut self, change: i64) {
        // What is not stated stays so.
        let count = self.doc.pointer_mut("/attributes/zarr_vectors_level/vertex_count");
        let count = count.filter(|_| change != 0);
        if let Some((count, stated)) = count.and_then(|count| count.as_i64().map(|n| (count, n))) {
            *count = json!((stated + change).max(0)); // a count that was never kept stays at 0
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
        let state = &self.chunks[&chunk];
        let mut pieces: Vec<Piece> = Vec::new();
        let list = self.objects.as_ref().map(|objects| &objects.list);
        let id_of = |object: u32| list.map_or(0, |list| list[object as usize].id);
        let claimed: HashSet<Vid> =
            here.iter().flat_map(|(i, n)| changed[*i].1[*n].1.iter().copied()).collect();
        for (fragment, list) in state.fragments.iter().enumerate() {
            let named: &[u32] =
                owners.get(&(chunk, fragment as u32)).map(Vec::as_slice).unwrap_or_default();
            let still: Vec<u32> =
                named.iter().copied().filter(|object| !touched.contains(object)).collect();
            if still.is_empty() && !named.is_empty() {
                continue;
            }
            let vertices: Vec<Vid> = match named.is_empty() {
                // Vertices without objects may go and move by themselves.
                true => list
                    .iter()
                    .copied()
                    .filter(|v| {
                        self.alive[*v as usize]
                            && self.at[*v as usize] == chunk
                            && !claimed.contains(v)
                    })
                    .collect(),
                false => list.clone(),
            };
            if vertices.is_empty() && (!list.is_empty() || named.is_empty()) {
                continue;
            }
            let key = still
                .iter()
                .map(|object| id_of(*object))
                .min()
                .map_or((i64::MAX, fragment), |id| (id, fragment));
            pieces.push(Piece {
                key,
                owners: still,
                changed: None,
                old: Some(fragment as u32),
                vertices,
            });
        }
        for (i, n) in here {
            let (object, new) = &changed[*i];
            let vertices = new[*n].1.clone();
            pieces.push(Piece {
                key: (id_of(*object), *n),
                owners: Vec::new(),
                changed: Some((*object, *n)),
                old: None,
                vertices,
            });
        }
        let arrived: Vec<Vid> = self
            .free_changed
            .iter()
            .copied()
            .filter(|v| {
                self.owner[*v as usize] == NONE
                    && self.alive[*v as usize]
                    && self.at[*v as usize] == chunk
                    && self.home[*v as usize].0 != chunk
                    && !claimed.contains(v)
            })
            .collect();
        if !arrived.is_empty() {
            match pieces.iter_mut().find(|piece| piece.key.0 == i64::MAX) {
                Some(piece) => piece.vertices.extend(arrived),
                None => pieces.push(Piece {
                    key: (i64::MAX, usize::MAX),
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
            let count = piece.vertices.len() as u64;
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
        let bins = self.bins.count() as usize;
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
        let mut old_bins: HashMap<Vid, usize> = HashMap::new();
        for (bin, list) in state.fragments.iter().enumerate() {
            old_bins.extend(list.iter().map(|v| (*v, bin)));
        }
        for v in members {
            let (_, bin) = self.locate(&self.position(v))?;
            let (home, row) = self.home[v as usize];
            let stays = home == chunk && (bins == 1 || old_bins.get(&v) == Some(&(bin as usize)));
            lists[bin as usize].push((!stays, if stays { row } else { v }, v));
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
        let came_from = || -> Option<(u32, usize)> {
            if let Some(old) = piece.old {
                return Some((chunk, old as usize));
            }
            let first = piece.vertices.first()?;
            let (home, _) = self.home[*first as usize];
            let fragments = &self.chunks.get(&home)?.fragments;
            Some((home, fragments.iter().position(|list| list.contains(first))?))
        };
        let Some((home, old)) = came_from() else { return Ok(column.fill.clone()) };
        let state = &self.chunks[&home];
        if let Some(set) = column.set.get(&(home, old as u32)) {
            return Ok(set.clone());
        }
        let size = column.ty.size();
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

    /// Values in chunks whose rows stay, columns that are new, and what each change counts as.
    fn write_values(
        &mut self,
        rebuilt: &BTreeSet<u32>,
        result: &mut Rebuilt,
        tally: &mut Tally,
        out: &mut Changes,
    ) -> Result<()> {
        for array in std::mem::take(&mut self.erased) {
            array.erase(out);
        }
        for array in std::mem::take(&mut self.erased_rows) {
            array.erase(out);
        }
        for key in std::mem::take(&mut self.erased_keys) {
            out.insert(key, None);
        }
        let new_columns = self.columns.iter().any(|column| column.is_new);
        let mut chunks: BTreeSet<u32> = self.changed_chunks.iter().copied().collect();
        if new_columns {
            chunks.extend(self.all_chunks());
        }
        let size = self.scalar.size() * self.axes;
        for chunk in chunks.union(rebuilt).copied().collect::<Vec<_>>() {
            self.load_chunk(chunk)?;
            let key = self.chunk_keys[chunk as usize].clone();
            let rows = self.chunks[&chunk].rows.clone();
            let old_positions = self.vertices.stored(&self.snap, &key)?.unwrap_or_default();
            let mut differs: Vec<bool> = vec![false; rows.len()];
            for (row, v) in rows.iter().enumerate() {
                let i = *v as usize;
                if self.was[i] && !self.alive[i] {
                    tally.vertices[1] += 1;
                    if self.owner[i] == NONE {
                        tally.free_chunks.insert(format!(
                            "chunk:{}:{}",
                            self.kind,
                            crate::arrays::chunk_text(&key)
                        ));
                    }
                } else if self.alive[i]
                    && old_positions.get(row * size..(row + 1) * size)
                        != Some(self.position_bytes(*v))
                {
                    tally.vertices[2] += 1;
                    differs[row] = true;
                }
            }
            for column in self.columns.iter().filter(|column| !column.is_new) {
                let width = column.ty.size();
                let old = column.array.stored(&self.snap, &key)?.unwrap_or_default();
                for (row, v) in rows.iter().enumerate() {
                    let i = *v as usize;
                    let new = &column.data[i * width..(i + 1) * width];
                    if self.alive[i]
                        && old.get(row * width..(row + 1) * width) != Some(new)
                        && !column.array.path.is_empty()
                        && !old.is_empty()
                    {
                        if !differs[row] {
                            tally.vertices[3] += 1;
                        }
                        differs[row] = true;
                    }
                }
            }
            for (row, v) in rows.iter().enumerate() {
                if differs[row] {
                    let owner = self.owner_of(*v)?;
                    match self.object(owner).map(|object| object.id) {
                        Some(id) if !tally.added.contains(&id) && !tally.removed.contains(&id) => {
                            tally.changed.insert(id);
                        }
                        Some(_) => {}
                        None => {
                            tally.free_chunks.insert(format!(
                                "chunk:{}:{}",
                                self.kind,
                                crate::arrays::chunk_text(&key)
                            ));
                        }
                    }
                }
            }
            let mut seen: Vec<Vid> = rows
                .iter()
                .zip(&differs)
                .filter(|(_, differs)| **differs)
                .map(|(v, _)| *v)
                .collect();
            if !seen.is_empty() {
                result.changed.insert(key.clone());
            }
            for v in seen.drain(..) {
                tally.cover(&self.decimal_position(v));
            }
            if rebuilt.contains(&chunk) || rows.is_empty() {
                continue;
            }
            let positions: Vec<u8> =
                rows.iter().flat_map(|v| self.position_bytes(*v).to_vec()).collect();
            if old_positions != positions {
                self.vertices.put(&key, positions);
            }
            for column in &mut self.columns {
                let width = column.ty.size();
                let mut bytes = Vec::with_capacity(rows.len() * width);
                for v in &rows {
                    bytes.extend_from_slice(
                        &column.data[*v as usize * width..(*v as usize + 1) * width],
                    );
                }
                if column.array.read(&self.snap, &key)?.as_deref() != Some(&bytes[..]) {
                    column.array.put(&key, bytes);
                }
            }
        }
        for v in result.places.keys() {
            if self.home[*v as usize].0 == NONE {
                tally.cover(&self.decimal_position(*v));
            }
        }
        self.write_fragment_columns(rebuilt)?;
        for column in &mut self.columns {
            if let Some(categories) = &column.ty.categories {
                column.array.set_attribute("categories", json!(categories.values));
            }
        }
        self.vertices.flush(&self.snap, out)?;
        self.fragments.flush(&self.snap, out)?;
        if !self.columns.is_empty() {
            self.ensure_group("vertex_attributes", out)?;
        }
        for column in &mut self.columns {
            column.array.flush(&self.snap, out)?;
        }
        Ok(())
    }
}
