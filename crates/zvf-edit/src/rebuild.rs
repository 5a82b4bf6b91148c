//! Rebuilds chunks for a commit: determines which chunks change, and writes their rows and fragments.
//!
//! ```text
//! 1  changed objects            compares their pieces in each chunk before and after; chunks that differ are rebuilt
//! 2  rebuilt chunks             fragments of all their objects, ids ascending; new rows last; every row in one fragment
//! 3  manifests                  of changed objects, and of objects whose fragments were renumbered
//! 4  links                      of every cell that names a rebuilt chunk, by vertex
//! 5  counts, claims, the grid   from the written chunks
//! ```
//!
//! Chunks in which only values changed keep their rows.
//!
//! Not here: the index of objects (`manifests`), removal of waste (`vacuum`).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::json;
use zvf_format::Class;
use zvf_format::num::{checked_usize, index_u32, saturating_usize, to_u64, usize_from_u32};

use crate::arrays::{CellArray, Chunk, bounding_chunks};
use crate::cell_column::encode_spans;
use crate::changes::Changes;
use crate::error::{At, OrFail, Result};
use crate::geometry::{Geometry, ObjectPiece};
use crate::links::RowMoves;
use crate::numbers::{FragmentNumber, FragmentNumbers, FragmentOwners, NONE, Vertex, Vid};

/// The counts of a commit.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) vertices: [u64; 4], // added, removed, moved, changed
    pub(crate) links: [u64; 3],    // added, removed, changed
    pub(crate) added: BTreeSet<i64>,
    pub(crate) removed: BTreeSet<i64>,
    pub(crate) changed: BTreeSet<i64>,
    pub(crate) chunks: u64,
    pub(crate) low: Vec<f64>,
    pub(crate) high: Vec<f64>,
    /// Items of chunks in which points without objects changed or were removed.
    pub(crate) free_chunks: BTreeSet<String>,
}

impl Tally {
    /// Extends the box of changed positions by a position.
    pub(crate) fn extend_box(&mut self, position: &[f64]) {
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
#[derive(Default)]
pub(crate) struct RebuildResult {
    /// The rebuilt chunks.
    pub(crate) chunks: BTreeSet<Chunk>,
    /// Chunks in which anything changed.
    pub(crate) changed: BTreeSet<Chunk>,
    /// Chunks with ends of changed edges or faces, and chunks of objects that only visit them in another order.
    pub(crate) linked_chunks: BTreeSet<Chunk>,
    /// The objects of these edges and faces.
    pub(crate) linked_objects: BTreeSet<i64>,
    /// The moves of the rows of rebuilt chunks whose vertices were forgotten.
    pub(crate) moves: RowMoves,
}

/// The rebuilt chunks of one kind, as a task of a vacuum hands them on.
#[derive(Clone, Debug, Default)]
pub(crate) struct RebuiltRows {
    pub(crate) chunks: BTreeMap<Chunk, RebuiltChunk>,
    /// New bytes of cells by key, without documents.
    pub(crate) cells: Changes,
}

/// The new numbers of the rows and fragments of a rebuilt chunk.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct RebuiltChunk {
    /// The new row of each old row, `NONE` where it was removed.
    pub(crate) rows: Vec<u32>,
    /// The new number of each old fragment, `NONE` where it was removed.
    pub(crate) fragments: Vec<u32>,
    /// The number of rows in fragments, now and before.
    pub(crate) held: [u32; 2],
    /// The number of rows that were removed from fragments.
    pub(crate) removed: u32,
}

/// The vertices of pieces, by number.
pub(crate) type PieceVertices = BTreeMap<u32, Vec<Vid>>;

/// The changed objects, and the chunks that they affect.
#[derive(Default)]
pub(crate) struct ObjectChanges {
    pub(crate) changed: BTreeSet<u32>,
    /// The vertices of their pieces.
    pub(crate) pieces: PieceVertices,
    /// Chunks in which an object has or had a piece.
    chunks: BTreeSet<u32>,
    /// Chunks in which the pieces of an object differ.
    rebuilt: BTreeSet<u32>,
    /// Chunks of objects that only visit them in another order.
    reordered: BTreeSet<u32>,
}

impl ObjectChanges {
    /// Adds the chunks of an object, by comparing its pieces in each chunk before and after the edit.
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

/// The payloads of a chunk in the order of [`Geometry::arrays_mut`], all empty for a chunk without rows.
type ChunkPayload = Vec<Vec<u8>>;

/// A piece of an added or changed object in a chunk: its number, and its vertices.
type ChunkPiece<'a> = (usize, &'a [Vid]);

/// A future fragment of a rebuilt chunk.
pub(crate) struct NewFragment {
    /// The sort key: whether it has no object, the least id of its objects, then its order among theirs.
    key: (bool, i64, usize),
    /// The unchanged objects that name it.
    pub(crate) owners: Vec<u32>,
    /// The number of the piece that it is, of an added or changed object.
    pub(crate) piece: Option<usize>,
    pub(crate) old: Option<u32>,
    pub(crate) vertices: Vec<Vid>,
}

impl NewFragment {
    fn new(key: (bool, i64, usize), vertices: Vec<Vid>) -> Self {
        Self { key, owners: Vec::new(), piece: None, old: None, vertices }
    }
}

impl Geometry {
    /// Writes the changes of this kind.
    ///
    /// A vacuum has rebuilt chunks before, in which nothing else is changed.
    pub(crate) fn rebuild(
        &mut self,
        rows: Option<RebuiltRows>,
        out: &mut Changes,
        tally: &mut Tally,
    ) -> Result<RebuildResult> {
        let mut result = RebuildResult::default();
        self.update_segments()?;
        let mut renumbered = match rows {
            Some(rows) => self.take_rebuilt(rows, &mut result, tally, out)?,
            None => self.rebuild_added(&mut result, tally)?,
        };
        let added = self.pieces.len();
        let objects = self.compare_objects(tally);
        let rebuilt: BTreeSet<u32> = &objects.rebuilt | &self.free_chunks();
        let involved: Vec<u32> = rebuilt.union(&objects.chunks).copied().collect();
        for chunk in &involved {
            self.load_chunk(*chunk)?;
        }
        // Rows stay in the other chunks, and only objects say which links they imply.
        let linked = if self.has_links() { rebuilt.iter().copied().collect() } else { involved };
        self.load_links(&linked)?;
        result.linked_chunks.extend(self.chunk_keys_of(&objects.reordered));
        let (changed, pieces) = (&objects.changed, &objects.pieces);
        renumbered.extend(self.rebuild_chunks(&rebuilt, changed, pieces, tally)?);
        self.find_unmoved(pieces)?;
        self.write_values(&rebuilt, &mut result, tally, out)?;
        self.write_objects(changed, renumbered, false, tally, out)?;
        self.update_implied_links(&objects)?;
        result.chunks.extend(self.chunk_keys_of(&rebuilt));
        self.write_links(&mut result, added, tally, out)?;
        self.write_level(out)?;
        result.changed.extend(result.chunks.iter().cloned());
        tally.chunks += to_u64(result.changed.len());
        Ok(result)
    }

    /// Returns the chunk and row of a vertex after the commit; `None` for one that is removed.
    pub(crate) fn place_after(&self, v: Vid) -> Option<(Chunk, u32)> {
        let Vertex { place, home, alive, .. } = self.vertex[v];
        let stays = Some(home).filter(|_| alive);
        let place = if place.0 == NONE { stays } else { Some(place) };
        let (chunk, row) = place.filter(|(chunk, _)| *chunk != NONE)?;
        Some((self.chunk_keys[chunk].clone(), row))
    }

    /// Returns the keys of chunks.
    pub(crate) fn chunk_keys_of(&self, chunks: &BTreeSet<u32>) -> impl Iterator<Item = Chunk> {
        chunks.iter().map(|chunk| self.chunk_keys[*chunk].clone())
    }

    /// Compares the pieces of every touched object before and after the edit, and numbers the new
    /// ones of those that changed.
    fn compare_objects(&mut self, tally: &mut Tally) -> ObjectChanges {
        let (mut changes, mut pieces) = (ObjectChanges::default(), Vec::new());
        for (number, state) in self.objects.known.iter().filter(|(_, state)| state.touched) {
            let number = *number;
            let new = if state.exists { self.pieces(number) } else { Vec::new() };
            let (starts, new): (Vec<bool>, Vec<(u32, Vec<Vid>)>) = new.into_iter().unzip();
            let old_vertices: HashSet<Vid> = state.vertices_before.iter().copied().collect();
            let old: Vec<(u32, Vec<Vid>)> = state
                .refs
                .iter()
                .map(|(chunk, fragment)| (*chunk, self.old_piece(*chunk, *fragment, &old_vertices)))
                .collect();
            if old == new
                && !self.parents_changed.contains(&number)
                && !state.vertices_before.iter().any(|v| self.vertex[*v].home.0 == NONE)
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
            changes.changed.insert(number);
            for (starts_line, (chunk, vertices)) in starts.into_iter().zip(new) {
                let piece = ObjectPiece::new(number, chunk, starts_line);
                let at = index_u32(self.pieces.len() + pieces.len());
                pieces.push(ObjectPiece { count: index_u32(vertices.len()), ..piece });
                changes.pieces.insert(at, vertices);
            }
        }
        self.pieces.extend(pieces);
        changes
    }

    /// Finds the fragments of pieces whose chunks were not rebuilt: each is an old one of its object.
    fn find_unmoved(&mut self, pieces: &PieceVertices) -> Result<()> {
        for (number, vertices) in pieces {
            let ObjectPiece { object, chunk, fragment, .. } = self.pieces[usize_from_u32(*number)];
            if fragment != NONE {
                continue;
            }
            let (state, fragments) = (&self.objects.known[&object], &self.chunks[&chunk].fragments);
            let is_it = |(at, fragment): &&(u32, u32)| {
                *at == chunk && fragments.get(*fragment) == Some(vertices)
            };
            let found = state.refs.iter().find(is_it).or_fail(Class::CountMismatch, || {
                let chunk = &self.chunk_keys[chunk];
                let place = format!("{}: object {}", self.path, state.id);
                format!(
                    "{place}: a piece of it is no fragment of chunk {chunk:?}; run \"zvf validate\""
                )
            })?;
            self.pieces[usize_from_u32(*number)].fragment = found.1;
        }
        Ok(())
    }

    /// Returns the chunks that vertices without objects left or entered.
    fn free_chunks(&self) -> BTreeSet<u32> {
        let mut chunks = BTreeSet::new();
        for v in &self.free_changed {
            let Vertex { home: (home, _), chunk, alive, .. } = self.vertex[*v];
            if alive {
                chunks.insert(chunk);
            }
            if home != NONE && (!alive || home != chunk || !self.has_objects) {
                chunks.insert(home);
            }
        }
        chunks
    }

    /// Gives rows to objects that were added and removed.
    pub(crate) fn keep_rows(&mut self, out: &mut Changes, tally: &mut Tally) -> Result<()> {
        if index_u32(self.objects.manifests.len()) < self.objects.count {
            self.write_objects(&BTreeSet::new(), FragmentNumbers::new(), true, tally, out)?;
        }
        Ok(())
    }

    /// Returns the vertices of a fragment of an object that is loaded.
    fn old_piece(&self, chunk: u32, fragment: u32, old_vertices: &HashSet<Vid>) -> Vec<Vid> {
        let list = &self.chunks[&chunk].fragments[fragment];
        // Copies of shared rows are vertices of the object, so that its pieces differ.
        if list.iter().all(|v| old_vertices.contains(v)) { list.to_vec() } else { Vec::new() }
    }

    /// Writes the rows and fragments of rebuilt chunks, with these pieces of the `touched` objects.
    /// Returns the fragments of others that got another number.
    pub(crate) fn rebuild_chunks(
        &mut self,
        rebuilt: &BTreeSet<u32>,
        touched: &BTreeSet<u32>,
        pieces: &PieceVertices,
        tally: &mut Tally,
    ) -> Result<FragmentNumbers> {
        let mut by_chunk: HashMap<u32, Vec<ChunkPiece<'_>>> = HashMap::new();
        for (number, vertices) in pieces {
            let number = usize_from_u32(*number);
            by_chunk.entry(self.pieces[number].chunk).or_default().push((number, vertices));
        }
        let set: HashSet<u32> = rebuilt.iter().copied().collect();
        let owners = self.owners_in(&set)?;
        let mut numbers = FragmentNumbers::new();
        let mut keys: Vec<Chunk> = Vec::new();
        let mut row_change = 0_i64;
        for chunk in rebuilt {
            // Each is a vertex, which has a number of 32 bits.
            let held = self.chunks[chunk].fragments.vertices.len();
            row_change -= i64::from(index_u32(held));
            let changed = by_chunk.get(chunk).map(Vec::as_slice).unwrap_or_default();
            let fragments = self.chunk_pieces(*chunk, &owners, touched, changed)?;
            let mut row = 0_u32;
            for (new, fragment) in (0_u32..).zip(&fragments) {
                let first = row;
                for v in &fragment.vertices {
                    let vertex = &mut self.vertex[*v];
                    if vertex.place.0 == NONE {
                        vertex.place = (*chunk, row);
                    }
                    if !vertex.existed && vertex.home.0 == NONE {
                        tally.vertices[0] += 1;
                    }
                    row += 1;
                }
                if let Some(number) = fragment.piece {
                    let piece = &mut self.pieces[number];
                    (piece.fragment, piece.row, piece.count) = (new, first, row - first);
                }
                // Those of an object are old fragments.
                let (chunk, old) = (*chunk, fragment.old.unwrap_or(new));
                let kept = fragment.owners.iter().filter(|_| old != new);
                numbers.extend(kept.map(|object| FragmentNumber {
                    object: *object,
                    chunk,
                    old,
                    new,
                }));
            }
            row_change += i64::from(row);
            let (payload, key) =
                (self.chunk_payload(*chunk, &fragments)?, self.chunk_keys[*chunk].clone());
            self.arrays_mut().zip(payload).for_each(|(array, bytes)| array.put_chunk(&key, bytes));
            keys.extend((row > 0).then_some(key));
        }
        self.extend_arrays(&keys)?;
        self.count_rows(row_change);
        Ok(numbers)
    }

    /// Adds `change` to the vertex count of the level.
    ///
    /// Some writers leave the count at 0 or do not update it, and readers must not rely on it. A negative sum proves such a
    /// count; it becomes 0 as those writers have it, rather than refusing the edit.
    pub(crate) fn count_rows(&mut self, change: i64) {
        // A count that is absent stays absent.
        let count = self.doc.pointer_mut("/attributes/zarr_vectors_level/vertex_count");
        let Some(count) = count.filter(|_| change != 0) else { return };
        if let Some(new) = count.as_i64().and_then(|stated| stated.checked_add(change)) {
            *count = json!(new.max(0));
        }
    }

    /// Returns the arrays of vertices, fragments, columns of vertices, and columns of fragments, in this order.
    pub(crate) fn arrays_mut(&mut self) -> impl Iterator<Item = &mut CellArray> {
        let columns = self.columns.iter_mut().map(|column| &mut column.array);
        let beside = self.fragment_columns.iter_mut().map(|column| &mut column.array);
        [&mut self.vertices, &mut self.fragments].into_iter().chain(columns).chain(beside)
    }

    /// Returns the future fragments of a rebuilt chunk in order, `changed` ones of `touched` objects
    /// and old ones.
    pub(crate) fn chunk_pieces(
        &self,
        chunk: u32,
        owners: &FragmentOwners,
        touched: &BTreeSet<u32>,
        changed: &[ChunkPiece<'_>],
    ) -> Result<Vec<NewFragment>> {
        if !self.has_objects {
            return self.bin_pieces(chunk);
        }
        let claimed: HashSet<Vid> =
            changed.iter().flat_map(|(_, vertices)| vertices.iter().copied()).collect();
        let mut pieces = self.kept_pieces(chunk, owners, touched, &claimed)?;
        for (number, vertices) in changed {
            let id = self.objects.id(self.pieces[*number].object);
            let fragment = NewFragment::new((false, id, *number), vertices.to_vec());
            pieces.push(NewFragment { piece: Some(*number), ..fragment });
        }
        let arrived = self.arrived_vertices(chunk, &claimed);
        if !arrived.is_empty() {
            match pieces.iter_mut().find(|piece| piece.key.0) {
                Some(piece) => piece.vertices.extend(arrived),
                None => pieces.push(NewFragment::new((true, 0, 0), arrived)), // the only one without an object
            }
        }
        pieces.sort_by_key(|piece| piece.key);
        Ok(pieces)
    }

    /// Returns the old fragments of a chunk that stay: those of unchanged objects, and of vertices without objects.
    fn kept_pieces(
        &self,
        chunk: u32,
        owners: &FragmentOwners,
        touched: &BTreeSet<u32>,
        claimed: &HashSet<Vid>,
    ) -> Result<Vec<NewFragment>> {
        let mut pieces = Vec::new();
        for (n, (fragment, list)) in (0_u32..).zip(self.chunks[&chunk].fragments.iter()).enumerate()
        {
            let named = owners.get(&(chunk, fragment)).map(Vec::as_slice).unwrap_or_default();
            let still: Vec<u32> =
                named.iter().copied().filter(|object| !touched.contains(object)).collect();
            if still.is_empty() && !named.is_empty() {
                continue;
            }
            // Vertices without objects are removed and moved individually.
            let stays = |v: &Vid| {
                let vertex = &self.vertex[*v];
                vertex.alive && vertex.chunk == chunk && !claimed.contains(v)
            };
            let vertices: Vec<Vid> = match named.is_empty() {
                true => list.iter().copied().filter(stays).collect(),
                false => list.to_vec(),
            };
            if vertices.is_empty() && (!list.is_empty() || named.is_empty()) {
                continue;
            }
            let first_id = still.iter().map(|object| self.objects.id(*object)).min();
            let key = first_id.map_or((true, 0, n), |id| (false, id, n));
            let piece = NewFragment::new(key, vertices);
            pieces.push(NewFragment { owners: still, old: Some(fragment), ..piece });
        }
        Ok(pieces)
    }

    /// Returns the vertices without objects that entered a chunk and are not in a piece of it.
    fn arrived_vertices(&self, chunk: u32, claimed: &HashSet<Vid>) -> Vec<Vid> {
        let arrives = |v: &Vid| {
            let vertex = &self.vertex[*v];
            let is_here = vertex.alive && vertex.chunk == chunk;
            vertex.owner == NONE && is_here && vertex.home.0 != chunk && !claimed.contains(v)
        };
        self.free_changed.iter().copied().filter(arrives).collect()
    }

    /// Encodes the payloads of a chunk with these fragments.
    pub(crate) fn chunk_payload(&self, chunk: u32, pieces: &[NewFragment]) -> Result<ChunkPayload> {
        let beside = 2 + self.columns.len();
        let mut payload: ChunkPayload = vec![Vec::new(); beside + self.fragment_columns.len()];
        if pieces.iter().all(|piece| piece.vertices.is_empty()) {
            return Ok(payload);
        }
        payload[1] = encode_spans(pieces.iter().map(|piece| to_u64(piece.vertices.len())))?;
        for piece in pieces {
            for v in &piece.vertices {
                payload[0].extend_from_slice(self.position_bytes(*v));
            }
            for (c, bytes) in payload[beside..].iter_mut().enumerate() {
                bytes.extend(self.fragment_value(c, chunk, piece)?);
            }
        }
        for (column, values) in self.columns.iter().zip(&mut payload[2..]) {
            let mut vertices = pieces.iter().flat_map(|piece| &piece.vertices);
            if column.is_loaded {
                vertices.try_for_each(|v| column.data.copy_row(*v, values))?;
                continue;
            }
            // New vertices have values, so that the column would be loaded.
            let homes = vertices.clone().map(|v| self.vertex[*v].home.0);
            let read = |home: u32| {
                let (key, rows) = (&self.chunk_keys[home], &self.chunks[&home].rows);
                Ok((home, column.need_rows(key, rows.len())?))
            };
            let cells = homes.collect::<BTreeSet<_>>().into_iter().map(read);
            let (cells, size) = (cells.collect::<Result<HashMap<_, _>>>()?, column.ty.size());
            for v in vertices {
                let (home, row) = self.vertex[*v].home;
                values.extend_from_slice(&cells[&home][row as usize * size..][..size]);
            }
        }
        Ok(payload)
    }

    /// Returns the fragments of a chunk without objects: one for each bin, rows that stay before new rows.
    fn bin_pieces(&self, chunk: u32) -> Result<Vec<NewFragment>> {
        // A bin without vertices has a fragment as well.
        let bins = checked_usize(self.bins.count())
            .or_unsupported(|| "a chunk has more bins than memory has bytes".to_owned())?;
        let mut lists: Vec<Vec<(bool, u32, Vid)>> = vec![Vec::new(); bins];
        let is_in_chunk = |v: &Vid| self.vertex[*v].alive && self.vertex[*v].chunk == chunk;
        let state = &self.chunks[&chunk];
        let mut members: Vec<Vid> = state.rows.clone().filter(is_in_chunk).collect();
        members.extend(
            self.free_changed
                .iter()
                .copied()
                .filter(|v| is_in_chunk(v) && self.vertex[*v].home.0 != chunk),
        );
        let mut old_bins: HashMap<Vid, u64> = HashMap::new();
        for (bin, list) in (0_u64..).zip(state.fragments.iter()) {
            old_bins.extend(list.iter().map(|v| (*v, bin)));
        }
        for v in members {
            let (_, bin) = self.locate(&self.position(v))?;
            let (home, row) = self.vertex[v].home;
            let stays = home == chunk && (bins == 1 || old_bins.get(&v) == Some(&bin));
            // Below the number of bins.
            lists[saturating_usize(bin)].push((!stays, if stays { row } else { v }, v));
        }
        if lists.iter().all(Vec::is_empty) {
            return Ok(Vec::new());
        }
        let pieces = lists.into_iter().enumerate().map(|(bin, mut list)| {
            list.sort_unstable();
            NewFragment::new((true, 0, bin), list.into_iter().map(|(_, _, v)| v).collect())
        });
        Ok(pieces.collect())
    }

    /// Returns the value of a fragment in a column, which it inherits from the old fragment of its first vertex.
    fn fragment_value(&self, column: usize, chunk: u32, piece: &NewFragment) -> Result<Vec<u8>> {
        let column = &self.fragment_columns[column];
        let changed = piece.piece.map(|number| [self.pieces[number].object]);
        let owners = changed.as_ref().map_or(&*piece.owners, |object| object);
        let kept = self.objects.owner_value((&column.name, &column.ty), owners);
        if let Some(value) = kept.at(&column.array.path)? {
            return Ok(value);
        }
        let came_from = || -> Option<(u32, u32)> {
            if let Some(old) = piece.old {
                return Some((chunk, old));
            }
            let first = piece.vertices.first()?;
            let (home, _) = self.vertex[*first].home;
            Some((home, self.chunks.get(&home)?.fragments.find(*first)?))
        };
        let Some((home, old)) = came_from() else { return Ok(column.ty.sentinel()) };
        let state = &self.chunks[&home];
        if let Some(set) = column.data.get(&(home, old)) {
            return Ok(set.clone());
        }
        let (size, old) = (column.ty.size(), old as usize);
        let chunk = &self.chunk_keys[home];
        let stored = column.read_rows(chunk, state.fragments.len())?;
        let row = stored.as_ref().and_then(|bytes| bytes.get(old * size..(old + 1) * size));
        Ok(row.map_or_else(|| column.fill.clone(), <[u8]>::to_vec))
    }

    /// Extends the arrays of the level to these chunks.
    pub(crate) fn extend_arrays(&mut self, keys: &[Chunk]) -> Result<()> {
        let Some((low, high)) = bounding_chunks(keys) else { return Ok(()) };
        if self.vertices.contains_range(&low, &high)
            && self.fragments.contains_range(&low, &high)
            && self.columns.iter().all(|column| column.array.contains_range(&low, &high))
        {
            return Ok(());
        }
        for array in self.arrays_mut() {
            array.extend_grid(&low, &high)?;
        }
        self.links.extend_grids(&low, &high)
    }
}
