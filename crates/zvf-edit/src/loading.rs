//! Loads the chunks, objects, values and links of one kind of a store, and writes the values of
//! chunks whose rows stay and of new columns, with the document of a level.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;

use serde_json::json;
use zvf_format::fragment::FragmentIndex;
use zvf_format::grid::BoundingBox;
use zvf_format::key::ChunkKey;
use zvf_format::{Class, num};
use zvf_model::Kind;

use crate::arrays::{Chunk, chunk_text};
use crate::changes::Changes;
use crate::error::{At, Result, fail};
use crate::geometry::{ChunkState, Geometry};
use crate::indexes::OBJECT_BYTES;
use crate::links::missing_row_error;
use crate::numbers::{End, NONE, VERTEX_BYTES, Vertex, Vid, vertex_number};
use crate::rebuild::{RebuildResult, Tally};
use crate::snapshot::read_doc;

impl Geometry {
    /// Loads a chunk, unless it is loaded.
    pub(crate) fn load_chunk(&mut self, number: u32) -> Result<()> {
        if self.chunks.contains_key(&number) {
            return Ok(());
        }
        let key = self.chunk_keys[number].clone();
        let Some(positions) = self.vertices.read_stored(&key)? else {
            self.chunks.insert(number, ChunkState::default());
            return Ok(());
        };
        let rows = self.append_rows(&key, number, positions.into())?;
        let mut state = ChunkState { rows, ..ChunkState::default() };
        self.read_fragments(&key, &mut state)?;
        if self.kind == Kind::Skeleton && !self.has_explicit_links {
            for fragment in state.fragments.iter() {
                for pair in fragment.windows(2) {
                    self.vertex[pair[1]].parent = pair[0];
                }
            }
        }
        for v in &state.fragments.vertices {
            self.vertex[*v].existed = true;
        }
        self.chunks.insert(number, state);
        Ok(())
    }

    /// Numbers the rows of a chunk as vertices, and appends their positions and values.
    fn append_rows(
        &mut self,
        key: &Chunk,
        number: u32,
        mut positions: Vec<u8>,
    ) -> Result<Range<Vid>> {
        let size = self.position_size();
        let count = positions.len() / size;
        if count * size != positions.len() {
            let text = format!(
                "{} of chunk {key:?}: {} bytes are no whole number of rows of {size}",
                self.vertices.path,
                positions.len()
            );
            return fail(Class::Misaligned, text);
        }
        let base = vertex_number(self.vertex.list.len())?;
        let end = vertex_number(self.vertex.list.len() + count)?;
        self.held.add(count * (size + VERTEX_BYTES))?;
        self.positions.append(&mut positions);
        for column in self.columns.iter_mut().filter(|column| column.is_loaded) {
            let rows = column.need_rows(key, count)?;
            column.data.push(&rows);
        }
        let (owner, parent, alive, existed) = (NONE, NONE, false, false);
        self.vertex.list.extend((0..end - base).map(|row| {
            let (home, place) = ((number, row), (NONE, NONE));
            Vertex { home, chunk: number, place, owner, parent, alive, existed }
        }));
        Ok(base..end)
    }

    /// Loads the values of a column, unless they are loaded.
    pub(crate) fn load_values(&mut self, column: usize) -> Result<()> {
        let column = &mut self.columns[column];
        if std::mem::replace(&mut column.is_loaded, true) {
            return Ok(());
        }
        // The rows of a chunk were numbered one after the other. New vertices have values.
        for run in self.vertex.list.chunk_by(|a, b| a.home.0 == b.home.0) {
            let key = &self.chunk_keys[run[0].home.0];
            let rows = column.need_rows(key, run.len())?;
            column.data.push(&rows);
        }
        Ok(())
    }

    /// Loads the values of all columns.
    pub(crate) fn load_all_values(&mut self) -> Result<()> {
        (0..self.columns.len()).try_for_each(|column| self.load_values(column))
    }

    /// Reads the fragments of a chunk. A row that several fragments hold becomes one vertex for each.
    fn read_fragments(&mut self, key: &Chunk, state: &mut ChunkState) -> Result<()> {
        for rows in self.fragment_rows(key, state.rows.len())? {
            state
                .fragments
                .push(rows.into_iter().map(|row| state.rows.start + num::index_u32(row)));
        }
        for at in 0..state.fragments.vertices.len() {
            let v = &mut state.fragments.vertices[at];
            if std::mem::replace(&mut self.vertex[*v].alive, true) {
                *v = self.copy_vertex(*v, NONE)?;
                self.free_changed.remove(v);
            }
        }
        Ok(())
    }

    /// Reads the rows of each fragment of a chunk with `count` rows.
    ///
    /// # Errors
    ///
    /// When rows have no fragments: taken for rows in no fragment, they would be given up.
    pub(crate) fn fragment_rows(&self, key: &Chunk, count: usize) -> Result<Vec<Vec<usize>>> {
        let blob = self.fragments.read_stored(key)?.unwrap_or_default();
        if blob.is_empty() {
            let text = format!(
                "{} of chunk {key:?}: expected the fragments of {count} rows, found none; run \
                 \"zvf validate\"",
                self.fragments.path
            );
            return if count == 0 { Ok(Vec::new()) } else { fail(Class::NotFound, text) };
        }
        let index = FragmentIndex::parse(&blob)
            .and_then(|index| index.check_rows(num::to_u64(count)).map(|()| index))
            .at(&self.fragments.path)?;
        // `check_rows` compared them with the number of rows.
        let rows =
            index.iter().map(|fragment| fragment.rows().map(num::saturating_usize).collect());
        Ok(rows.collect())
    }

    /// Returns all chunks that hold vertices, ascending.
    pub(crate) fn all_chunks(&mut self) -> Vec<u32> {
        let keys = self.vertices.chunks();
        keys.iter().map(|key| self.chunk_keys.number(key)).collect()
    }

    /// Loads all chunks and objects.
    pub(crate) fn load_all(&mut self) -> Result<()> {
        if self.all_loaded {
            return Ok(());
        }
        for chunk in self.all_chunks() {
            self.load_chunk(chunk)?;
        }
        for object in self.objects.numbers() {
            self.load_object(object)?;
        }
        self.all_loaded = true;
        Ok(())
    }

    /// Loads the vertices of an object, unless they are loaded.
    pub(crate) fn load_object(&mut self, object: u32) -> Result<()> {
        if !self.has_objects || self.object(object).is_some_and(|object| object.loaded) {
            return Ok(());
        }
        let refs = self.ordered_references(object)?;
        let mut vertices = Vec::new();
        let (lines, mut line) = (self.line_starts(object)?, 0);
        for (n, (chunk, fragment)) in refs.iter().enumerate() {
            line += u32::from(lines.contains(&n));
            self.load_chunk(*chunk)?;
            let state = &self.chunks[chunk];
            let list = state.fragments.get(*fragment).map(<[Vid]>::to_vec);
            let list = list.ok_or_else(|| self.missing_fragment(*chunk, *fragment))?;
            let is_shared = self.has_shared_fragments
                && self
                    .load_owners()?
                    .get(&(*chunk, *fragment))
                    .is_some_and(|owners| owners.len() > 1);
            for v in list {
                // Vertices that several objects share are copied, so that each object has its own.
                let v = if is_shared
                    || self.vertex[v].owner != NONE && self.vertex[v].owner != object
                {
                    self.copy_vertex(v, object)?
                } else {
                    v
                };
                self.vertex[v].owner = object;
                vertices.push(v);
                if !lines.is_empty() && self.kind.is_chain() {
                    self.line_of.insert(v, line);
                }
            }
        }
        if self.kind == Kind::Skeleton {
            let chunks: Vec<u32> = refs.iter().map(|(chunk, _)| *chunk).collect();
            self.load_links(&chunks)?;
        }
        self.held.add(OBJECT_BYTES + 8 * (vertices.len() + refs.len()))?;
        let state = self.objects.know(object);
        state.loaded = true;
        state.vertices_before = vertices.clone();
        state.vertices = vertices;
        state.refs = refs;
        Ok(())
    }

    /// Returns the object of a vertex, and loads it; `NONE` for a vertex without one.
    pub(crate) fn owner_of(&mut self, v: Vid) -> Result<u32> {
        let owner = self.vertex[v].owner;
        let (chunk, _) = self.vertex[v].home;
        let is_known = owner != NONE || chunk == NONE || self.all_loaded;
        if is_known || !self.has_objects || self.owned_chunks.contains(&chunk) {
            return Ok(owner);
        }
        let Some(fragment) = self.chunks[&chunk].fragments.find(v) else { return Ok(NONE) };
        let found = self.owners_in(&HashSet::from([chunk]))?;
        for object in found.get(&(chunk, fragment)).into_iter().flatten() {
            self.load_object(*object)?;
        }
        Ok(self.vertex[v].owner)
    }

    /// Loads and returns all vertices, in the order of [`loaded_vertices`](Self::loaded_vertices).
    pub(crate) fn all_vertices(&mut self) -> Result<Vec<Vid>> {
        self.load_all()?;
        Ok(self.loaded_vertices())
    }

    /// Loads the chunks that meet a box, with all of their objects. Returns all loaded vertices;
    /// those in the box are among them.
    pub(crate) fn vertices_near(&mut self, bbox: &BoundingBox) -> Result<Vec<Vid>> {
        let range = self.bins.chunks_meeting(bbox)?;
        let mut chunks = HashSet::new();
        for key in self.vertices.chunks() {
            if range.contains(&ChunkKey::new(&key)?) {
                chunks.insert(self.chunk_keys.number(&key));
            }
        }
        let mut ascending = Vec::from_iter(chunks.iter().copied());
        ascending.sort_unstable_by_key(|chunk| &self.chunk_keys[*chunk]);
        ascending.into_iter().try_for_each(|chunk| self.load_chunk(chunk))?;
        let owners = self.owners_in(&chunks)?;
        let owners: BTreeSet<u32> = owners.into_values().flatten().collect();
        owners.into_iter().try_for_each(|object| self.load_object(object))?;
        self.owned_chunks.extend(chunks);
        Ok(self.loaded_vertices())
    }

    /// Returns the loaded vertices: by object and index, then those without objects by chunk and
    /// row.
    fn loaded_vertices(&self) -> Vec<Vid> {
        let by_id: BTreeMap<i64, u32> = self.existing_objects().into_iter().collect();
        let mut all = Vec::new();
        for number in by_id.values() {
            all.extend(self.vertices_of(*number));
        }
        let is_free = |v: &Vid| self.vertex[*v].alive && self.vertex[*v].owner == NONE;
        let mut free: Vec<Vid> =
            (0..num::index_u32(self.vertex.list.len())).filter(is_free).collect();
        let mut chunks: Vec<u32> = (0..num::index_u32(self.chunk_keys.list.len())).collect();
        chunks.sort_unstable_by_key(|chunk| &self.chunk_keys[*chunk]);
        let mut places = vec![0; chunks.len()];
        (0_u32..).zip(chunks).for_each(|(place, chunk)| places[chunk as usize] = place);
        free.sort_unstable_by_key(|v| {
            let (home, row) = self.vertex[*v].home;
            (places.get(home as usize).copied().unwrap_or(NONE), row, *v) // new ones are last
        });
        all.extend(free);
        all
    }

    /// Loads the links at vertices.
    pub(crate) fn load_links_of<'a>(
        &mut self,
        vertices: impl IntoIterator<Item = &'a Vid>,
    ) -> Result<()> {
        let chunks: HashSet<u32> = vertices
            .into_iter()
            .map(|v| self.vertex[*v].home.0)
            .filter(|chunk| *chunk != NONE)
            .collect();
        let chunks: Vec<u32> = chunks.into_iter().collect();
        self.load_links(&chunks)
    }

    /// Loads the links with an end in one of the chunks.
    pub(crate) fn load_links(&mut self, chunks: &[u32]) -> Result<()> {
        if self.links.is_new {
            return Ok(()); // none is stored
        }
        let mut family = self.take_links();
        let keys: BTreeSet<Chunk> =
            chunks.iter().map(|chunk| self.chunk_keys[*chunk].clone()).collect();
        let before = family.records.numbers().end;
        let loaded = family.load_cells_naming(&keys, &|_| true, &mut |chunk, row| {
            self.vertex_at(chunk, row).map(End::Vertex)
        });
        let fresh = before..family.records.numbers().end;
        if self.kind == Kind::Skeleton {
            for number in fresh {
                let ends: Vec<Vid> = family.records.vertices(number).collect();
                if ends.len() == 2 {
                    let (child, parent) = match family.policy.is_directed() {
                        true => self.order_child_first(ends[0], ends[1]),
                        false => (ends[0], ends[1]),
                    };
                    let ends = [child, parent].map(End::Vertex);
                    family.records.ends_mut(number).clone_from_slice(&ends);
                    self.vertex[child].parent = parent;
                }
            }
        }
        self.links = family;
        loaded
    }

    /// Loads all links.
    pub(crate) fn load_all_links(&mut self) -> Result<()> {
        let chunks = self.all_chunks();
        self.load_links(&chunks)
    }

    /// Orders the ends of an edge, as directed families store them in either order: the child is the first row of a fragment.
    fn order_child_first(&self, a: Vid, b: Vid) -> (Vid, Vid) {
        let is_first = |v: Vid| {
            let (chunk, _) = self.vertex[v].home;
            self.chunks
                .get(&chunk)
                .is_some_and(|state| state.fragments.iter().any(|list| list.first() == Some(&v)))
        };
        if is_first(b) && !is_first(a) { (b, a) } else { (a, b) }
    }

    /// Returns the vertex of a row of a chunk.
    pub(crate) fn vertex_at(&mut self, chunk: &[i64], row: u64) -> Result<Vid> {
        let number = self.chunk_keys.number(chunk);
        self.load_chunk(number)?;
        let rows = self.chunks[&number].rows.clone();
        let found = num::checked_usize(row).and_then(|row| rows.clone().nth(row));
        found.ok_or_else(|| missing_row_error(&self.path, chunk, row, rows.len()))
    }
}

impl Geometry {
    /// Writes the values of chunks whose rows stay and of new columns, and counts the changed vertices.
    pub(crate) fn write_values(
        &mut self,
        rebuilt: &BTreeSet<u32>,
        result: &mut RebuildResult,
        tally: &mut Tally,
        out: &mut Changes,
    ) -> Result<()> {
        out.keys.append(&mut self.erased.keys);
        let mut chunks: BTreeSet<u32> = self.changed_chunks.iter().copied().collect();
        if self.columns.iter().any(|column| column.is_new) {
            chunks.extend(self.all_chunks());
        }
        for chunk in chunks.union(rebuilt).copied().collect::<Vec<_>>() {
            self.load_chunk(chunk)?;
            let key = self.chunk_keys[chunk].clone();
            let rows = self.chunks[&chunk].rows.clone().collect::<Vec<Vid>>();
            let old_positions = self.vertices.read_stored(&key)?.unwrap_or_default();
            let differing = self.count_vertices(&key, &rows, &old_positions, tally)?;
            self.count_owners(&key, &differing, tally)?;
            if !differing.is_empty() {
                result.changed.insert(key.clone());
            }
            for v in differing {
                tally.extend_box(&self.decimal_position(v));
            }
            if !rebuilt.contains(&chunk) && !rows.is_empty() {
                self.put_values(&key, &rows, &old_positions)?;
            }
        }
        self.extend_box(tally);
        self.write_fragment_columns(rebuilt)?;
        self.flush_vertices(out)
    }

    /// Extends the box of changed positions by the new vertices.
    pub(crate) fn extend_box(&self, tally: &mut Tally) {
        for (v, vertex) in (0..).zip(&self.vertex.list) {
            if vertex.home.0 == NONE && vertex.place.0 != NONE {
                tally.extend_box(&self.decimal_position(v));
            }
        }
    }

    /// Counts the moved, changed and removed vertices of a chunk. Returns those that moved or changed.
    fn count_vertices(
        &self,
        key: &Chunk,
        rows: &[Vid],
        old_positions: &[u8],
        tally: &mut Tally,
    ) -> Result<Vec<Vid>> {
        let size = self.position_size();
        let mut differs = vec![false; rows.len()];
        for (row, v) in rows.iter().enumerate() {
            let Vertex { existed, alive, owner, .. } = self.vertex[*v];
            if existed && !alive {
                tally.vertices[1] += 1;
                if owner == NONE {
                    tally.free_chunks.insert(self.chunk_item(key));
                }
            } else if alive
                && old_positions.get(row * size..(row + 1) * size) != Some(self.position_bytes(*v))
            {
                tally.vertices[2] += 1;
                differs[row] = true;
            }
        }
        for column in self.columns.iter().filter(|column| column.is_loaded && !column.is_new) {
            let width = column.ty.size();
            let old = column.array.read_stored(key)?.unwrap_or_default();
            if old.is_empty() {
                continue;
            }
            for (row, v) in rows.iter().enumerate() {
                // A column may have fewer rows.
                let old = old.get(row * width..(row + 1) * width).unwrap_or_default();
                if self.vertex[*v].alive && !column.data.is_row(*v, old)? {
                    tally.vertices[3] += u64::from(!differs[row]);
                    differs[row] = true;
                }
            }
        }
        Ok(rows.iter().zip(differs).filter_map(|(v, differs)| differs.then_some(*v)).collect())
    }

    /// Counts the objects of differing vertices as changed, or the chunk of a vertex without an object.
    fn count_owners(&mut self, key: &Chunk, differing: &[Vid], tally: &mut Tally) -> Result<()> {
        for v in differing {
            let owner = self.owner_of(*v)?;
            match self.object_id(owner) {
                Some(id) if !tally.added.contains(&id) && !tally.removed.contains(&id) => {
                    tally.changed.insert(id);
                }
                Some(_) => {}
                None => {
                    tally.free_chunks.insert(self.chunk_item(key));
                }
            }
        }
        Ok(())
    }

    /// Returns the item by which transactions on vertices without objects conflict.
    pub(crate) fn chunk_item(&self, key: &[i64]) -> String {
        format!("chunk:{}:{}", self.kind, chunk_text(key))
    }

    /// Stages the positions and values of a chunk whose rows stay, where they differ from the stored ones.
    fn put_values(&mut self, key: &Chunk, rows: &[Vid], old_positions: &[u8]) -> Result<()> {
        let positions: Vec<u8> =
            rows.iter().flat_map(|v| self.position_bytes(*v).to_vec()).collect();
        if old_positions != positions {
            self.vertices.put_chunk(key, positions);
        }
        for column in self.columns.iter_mut().filter(|column| column.is_loaded) {
            let mut bytes = Vec::with_capacity(rows.len() * column.ty.size());
            rows.iter().try_for_each(|v| column.data.copy_row(*v, &mut bytes))?;
            if column.array.read(key)?.as_deref() != Some(&bytes[..]) {
                column.array.put_chunk(key, bytes);
            }
        }
        Ok(())
    }

    /// Flushes positions, fragments and columns.
    fn flush_vertices(&mut self, out: &mut Changes) -> Result<()> {
        self.columns.iter_mut().for_each(|column| column.array.set_categories(&column.ty));
        self.fragment_columns.iter_mut().for_each(|column| column.array.set_categories(&column.ty));
        if !self.columns.is_empty() {
            self.ensure_group("vertex_attributes", out)?;
        }
        self.arrays_mut().try_for_each(|array| array.flush(out))
    }

    /// Adds the document of the group `name` if it does not exist.
    pub(crate) fn ensure_group(&self, name: &str, out: &mut Changes) -> Result<()> {
        out.ensure_group(&self.snap, &format!("{}/{name}", self.path))
    }

    /// Writes the document of the level: counts and claims.
    pub(crate) fn write_level(&mut self, out: &mut Changes) -> Result<()> {
        if !self.fragment_columns.is_empty() {
            self.ensure_group("fragment_attributes", out)?;
        }
        let present = &mut self.doc["attributes"]["zarr_vectors_level"]["arrays_present"];
        if let Some(list) = present.as_array_mut()
            && self.objects.count > 0
            && !list.iter().any(|listed| listed == "object_index")
        {
            list.push(json!("object_index"));
        }
        if read_doc(&self.snap, &self.path)?.as_ref() != Some(&self.doc) {
            out.put_doc(&self.path, &self.doc)?;
        }
        Ok(())
    }
}
