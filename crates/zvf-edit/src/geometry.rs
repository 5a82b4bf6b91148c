//! One kind of a store during an edit: vertices by number and objects as lists of vertices, loaded on demand.
//!
//! A vertex gets its number when its chunk is read, and keeps it when it moves. `home` is its chunk and row before the
//! edit; positions and columns here hold the state after it. Nothing is written before the commit.
//!
//! Not here: which changes are allowed (`objects`, `vertices`), how chunks are rebuilt (`rebuild`).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use serde_json::Value as Json;
use zvf_format::fragment::FragmentIndex;
use zvf_format::grid::{Bins, ChunkShape};
use zvf_format::{Class, num};
use zvf_metadata::{DtypeKind, LinksConvention, Token};
use zvf_model::Kind;

use crate::arrays::{CellArray, Chunk, read_doc};
use crate::dense::DenseArray;
use crate::error::{At, EditError, Result, fail, missing_column_error, unsupported};
use crate::grid::read_grid;
use crate::indexes::{Object, Objects, RowColumn, list_children, open_row_columns, parse_scalar};
use crate::links::LinkFamily;
use crate::numbers::{NONE, Vid, vertex_number};
use crate::row_pages::RowPages;
use crate::scalar::{ColumnType, Scalar};
use crate::snapshot::Snapshot;
use crate::widths::{check_size, count_fragments, first_rows, resolve_column_type};

/// A column of vertices.
#[derive(Clone, Debug)]
pub(crate) struct VertexColumn {
    pub(crate) name: String,
    pub(crate) array: CellArray,
    pub(crate) ty: ColumnType,
    /// The rows of all vertices loaded so far, once a value is needed.
    pub(crate) data: RowPages,
    pub(crate) is_loaded: bool,
    /// The value of new rows.
    pub(crate) fill: Vec<u8>,
    /// Whether this transaction added it, so that every chunk must be written.
    pub(crate) is_new: bool,
}

impl VertexColumn {
    /// Reads the rows of a chunk of `count` vertices.
    pub(crate) fn read_rows(&self, snap: &Snapshot, key: &Chunk, count: usize) -> Result<Bytes> {
        // What is staged is of after the edit, but in a column that got another name.
        let stored = self.array.read_stored(snap, key)?;
        match stored.map_or_else(|| self.array.read(snap, key), |bytes| Ok(Some(bytes)))? {
            Some(bytes) => {
                check_size(&self.array.path, key, bytes.len(), count * self.ty.size())?;
                Ok(bytes)
            }
            None if self.is_new => Ok(self.fill.repeat(count).into()),
            None => fail(
                Class::CountMismatch,
                format!(
                    "{} of chunk {key:?}: nothing is stored, expected {count} rows",
                    self.array.path
                ),
            ),
        }
    }
}

/// A column of fragments.
#[derive(Clone, Debug)]
pub(crate) struct FragmentColumn {
    pub(crate) name: String,
    pub(crate) array: CellArray,
    pub(crate) ty: ColumnType,
    /// The values that were set, by chunk number and fragment.
    pub(crate) set: HashMap<(u32, u32), Vec<u8>>,
    pub(crate) fill: Vec<u8>,
    pub(crate) is_new: bool,
}

impl FragmentColumn {
    /// Reads the stored rows of the fragments of a chunk.
    ///
    /// # Errors
    ///
    /// When the number of rows is not the number of fragments.
    pub(crate) fn stored_rows(
        &self,
        snap: &Snapshot,
        chunk: &[i64],
        fragments: usize,
    ) -> Result<Option<Bytes>> {
        let Some(bytes) = self.array.read_stored(snap, chunk)? else { return Ok(None) };
        check_size(&self.array.path, chunk, bytes.len(), fragments * self.ty.size())?;
        Ok(Some(bytes))
    }
}

/// The vertices of a chunk that was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChunkState {
    /// The vertex of each row.
    pub(crate) rows: Vec<Vid>,
    /// The vertices of each fragment.
    pub(crate) fragments: Vec<Vec<Vid>>,
}

/// A piece of an added object: its vertices that become one fragment.
#[derive(Clone, Debug, Default)]
pub(crate) struct AddedPiece {
    pub(crate) object: u32,
    pub(crate) chunk: u32,
    /// Whether another line of the object starts with it.
    pub(crate) starts_line: bool,
    /// Once its chunk is rebuilt: the number of its fragment, its first row, and the count of rows.
    pub(crate) fragment: u32,
    pub(crate) row: u32,
    pub(crate) count: u32,
}

/// One kind of a store.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    pub(crate) kind: Kind,
    /// The path of its group at level 0: `0`, or `0/<kind>`.
    pub(crate) path: String,
    pub(crate) snap: Rc<Snapshot>,
    pub(crate) doc: Json,
    pub(crate) axes: usize,
    pub(crate) shape: ChunkShape,
    pub(crate) bins: Bins,
    pub(crate) convention: String,
    pub(crate) scalar: Scalar,
    pub(crate) vertices: CellArray,
    pub(crate) fragments: CellArray,
    pub(crate) columns: Vec<VertexColumn>,
    pub(crate) fragment_columns: Vec<FragmentColumn>,
    pub(crate) object_columns: Vec<RowColumn>,
    pub(crate) objects: Option<Objects>,
    pub(crate) links: Option<LinkFamily>,
    /// Arrays to remove. Their keys are removed before anything is written.
    pub(crate) erased_arrays: Vec<CellArray>,
    pub(crate) erased_rows: Vec<DenseArray>,
    pub(crate) erased_keys: Vec<String>,

    pub(crate) chunk_keys: Vec<Chunk>,
    chunk_numbers: HashMap<Chunk, u32>,
    pub(crate) chunks: HashMap<u32, ChunkState>,

    /// Vertices that were added and have no numbers yet: chunk, piece, position and values of each.
    pub(crate) added: Option<RowPages>,
    /// The pieces of added objects whose vertices have no numbers.
    pub(crate) pieces: Vec<AddedPiece>,
    pub(crate) positions: Vec<u8>,
    /// The chunk and row of each vertex before the edit; the chunk is `NONE` for a new vertex.
    pub(crate) home: Vec<(u32, u32)>,
    /// The chunk of each vertex after the edit.
    pub(crate) new_chunk: Vec<u32>,
    pub(crate) alive: Vec<bool>,
    /// Whether a fragment held the vertex before the edit.
    pub(crate) existed: Vec<bool>,
    pub(crate) owner: Vec<u32>,
    /// For skeletons: the parent of each vertex.
    pub(crate) parent: Vec<Vid>,
    pub(crate) changed_chunks: HashSet<u32>,
    /// Objects of kind line with an end in a chunk that is rebuilt.
    pub(crate) line_objects: BTreeSet<u32>,
    /// The line of each vertex of an object that has several. New vertices are of the line of the one before them.
    pub(crate) line_of: HashMap<Vid, u32>,
    /// Objects in which the parent of a vertex changed.
    pub(crate) parents_changed: HashSet<u32>,
    /// Vertices without objects that were added, removed or moved.
    pub(crate) free_changed: BTreeSet<Vid>,
    pub(crate) all_loaded: bool,
    has_shared_fragments: bool,
    pub(crate) owners: Option<HashMap<(u32, u32), Vec<u32>>>,
}

impl Geometry {
    /// Opens one kind of a store at level 0.
    pub(crate) fn open(snap: &Rc<Snapshot>, root: &Json, kind: Kind, path: &str) -> Result<Self> {
        let zv = &root["attributes"]["zarr_vectors"];
        let doc = read_doc(snap, path)?.ok_or_else(|| {
            EditError::new(
                Class::NotFound,
                format!("{path}/zarr.json: the group of {kind} is not there"),
            )
        })?;
        let level = &doc["attributes"]["zarr_vectors_level"];
        refuse_level(path, level)?;
        let (shape, bins) = read_grid(level, zv)?;
        let (vertices, fragments) =
            (need_array(snap, path, "vertices")?, need_array(snap, path, "vertex_fragments")?);
        if vertices.attribute("encoding") == "draco" {
            return unsupported(format!("{path}/vertices: Draco chunks are not edited"));
        }
        let scalar = parse_scalar(vertices.attribute("dtype"), "float32")?;
        if matches!(scalar.kind(), DtypeKind::Bool | DtypeKind::Text) {
            return unsupported(format!(
                "{path}/vertices: positions of type {} are not edited",
                scalar.name()
            ));
        }
        let convention = read_convention(path, level, zv)?;
        let axes = shape.axes();
        let columns = open_vertex_columns(snap, path, &vertices, axes * scalar.size())?;
        let fragment_columns = open_fragment_columns(snap, path, &fragments)?;
        let object_columns = open_row_columns(snap, &format!("{path}/object_attributes"))?;
        let objects = Objects::open(snap, &format!("{path}/object_index"), axes)?;
        let links = LinkFamily::open(snap, path, 0, axes)?;
        let has_shared_fragments = level["shared_fragments"] == true;
        Ok(Self {
            kind,
            path: path.to_owned(),
            snap: Rc::clone(snap),
            doc,
            axes,
            shape,
            bins,
            convention,
            scalar,
            vertices,
            fragments,
            columns,
            fragment_columns,
            object_columns,
            objects,
            links,
            erased_arrays: Vec::new(),
            erased_rows: Vec::new(),
            erased_keys: Vec::new(),
            chunk_keys: Vec::new(),
            chunk_numbers: HashMap::new(),
            chunks: HashMap::new(),
            added: None,
            pieces: Vec::new(),
            positions: Vec::new(),
            home: Vec::new(),
            new_chunk: Vec::new(),
            alive: Vec::new(),
            existed: Vec::new(),
            owner: Vec::new(),
            parent: Vec::new(),
            changed_chunks: HashSet::new(),
            line_objects: BTreeSet::new(),
            line_of: HashMap::new(),
            parents_changed: HashSet::new(),
            free_changed: BTreeSet::new(),
            all_loaded: false,
            has_shared_fragments,
            owners: None,
        })
    }

    /// Returns whether the vertices of an object have an order.
    pub(crate) fn is_ordered(&self) -> bool {
        matches!(self.kind, Kind::Line | Kind::Polyline | Kind::Streamline)
    }

    /// Returns whether links are stored explicitly, rather than implied by objects.
    pub(crate) fn has_links(&self) -> bool {
        matches!(self.kind, Kind::Graph | Kind::Mesh)
    }

    /// Returns the number of a chunk, a new one for a new chunk.
    pub(crate) fn chunk_number(&mut self, key: &[i64]) -> u32 {
        if let Some(number) = self.chunk_numbers.get(key) {
            return *number;
        }
        let number = num::index_u32(self.chunk_keys.len());
        self.chunk_keys.push(key.to_vec());
        self.chunk_numbers.insert(key.to_vec(), number);
        number
    }

    /// Returns the position of a vertex, widened to `f64`.
    pub(crate) fn position(&self, v: Vid) -> Vec<f64> {
        self.decode_position(self.position_bytes(v))
    }

    pub(crate) fn decode_position(&self, bytes: &[u8]) -> Vec<f64> {
        let values = bytes.chunks_exact(self.scalar.size());
        values.map(|value| self.scalar.to_f64(value)).collect()
    }

    /// Returns the number of bytes of a position.
    pub(crate) fn position_size(&self) -> usize {
        self.scalar.size() * self.axes
    }

    /// Returns the position of a vertex as the shortest decimals that encode to the stored bytes.
    pub(crate) fn decimal_position(&self, v: Vid) -> Vec<f64> {
        let size = self.scalar.size();
        self.position_bytes(v)
            .chunks_exact(size)
            .map(|value| self.scalar.to_decimal(value))
            .collect()
    }

    pub(crate) fn position_bytes(&self, v: Vid) -> &[u8] {
        let size = self.position_size();
        &self.positions[v as usize * size..(v as usize + 1) * size]
    }

    /// Returns the chunk of a position, and its bin where there are no objects.
    pub(crate) fn locate(&self, position: &[f64]) -> Result<(Chunk, u64)> {
        if self.objects.is_none() {
            let (chunk, bin) = self.bins.locate(position)?;
            return Ok((chunk.components().to_vec(), bin));
        }
        Ok((self.shape.chunk_of(position)?.components().to_vec(), 0))
    }

    /// Moves a vertex to an encoded position.
    pub(crate) fn move_vertex(&mut self, v: Vid, position: &[u8]) -> Result<()> {
        if self.position_bytes(v) == position {
            return Ok(());
        }
        let size = self.position_size();
        self.positions[v as usize * size..(v as usize + 1) * size].copy_from_slice(position);
        let (chunk, _) = self.locate(&self.position(v))?;
        let number = self.chunk_number(&chunk);
        self.mark_changed(v)?;
        if self.objects.is_none() {
            self.free_changed.insert(v);
        } else if number != self.new_chunk[v as usize] {
            self.touch_owner(v)?;
            if self.owner[v as usize] == NONE {
                self.free_changed.insert(v);
            }
        }
        self.new_chunk[v as usize] = number;
        Ok(())
    }

    /// Sets a value of a vertex. Returns whether it is another one.
    pub(crate) fn set_value(&mut self, column: usize, v: Vid, row: &[u8]) -> Result<bool> {
        self.load_values(column)?;
        let data = &mut self.columns[column].data;
        if data.is_row(v, row)? {
            return Ok(false);
        }
        data.set_row(v, row)?;
        self.mark_changed(v).map(|()| true)
    }

    fn mark_changed(&mut self, v: Vid) -> Result<()> {
        let (chunk, _) = self.home[v as usize];
        if chunk == NONE {
            return self.touch_owner(v);
        }
        self.changed_chunks.insert(chunk);
        Ok(())
    }

    fn touch_owner(&mut self, v: Vid) -> Result<()> {
        let owner = self.owner_of(v)?;
        if owner != NONE { self.mark_object_changed(owner) } else { Ok(()) }
    }

    /// Adds a vertex. The caller adds its values.
    pub(crate) fn new_vertex(&mut self, position: &[u8], owner: u32) -> Result<Vid> {
        let v = vertex_number(self.home.len())?;
        self.positions.extend_from_slice(position);
        let (chunk, _) = self.locate(&self.position(v))?;
        let number = self.chunk_number(&chunk);
        self.home.push((NONE, 0));
        self.new_chunk.push(number);
        self.alive.push(true);
        self.existed.push(false);
        self.owner.push(owner);
        self.parent.push(NONE);
        if owner == NONE {
            self.free_changed.insert(v);
        }
        Ok(v)
    }

    /// Adds a copy of a vertex, with its position and values.
    pub(crate) fn copy_vertex(&mut self, v: Vid, owner: u32) -> Result<Vid> {
        self.load_all_values()?;
        let position = self.position_bytes(v).to_vec();
        let copy = self.new_vertex(&position, owner)?;
        for column in &mut self.columns {
            let row = column.data.row(v)?;
            column.data.push(&row);
        }
        Ok(copy)
    }

    /// Returns the links, none where the kind has no family of links yet.
    pub(crate) fn links_or_new(&mut self) -> Result<&mut LinkFamily> {
        let width = if self.kind == Kind::Mesh { 3 } else { 2 };
        let family = match self.links.take() {
            Some(family) => family,
            None => LinkFamily::create(&self.path, width, self.axes)?,
        };
        Ok(self.links.insert(family))
    }

    /// Loads a chunk, unless it is loaded.
    pub(crate) fn load_chunk(&mut self, number: u32) -> Result<()> {
        if self.chunks.contains_key(&number) {
            return Ok(());
        }
        let key = self.chunk_keys[number as usize].clone();
        let Some(positions) = self.vertices.read_stored(&self.snap, &key)? else {
            self.chunks.insert(number, ChunkState::default());
            return Ok(());
        };
        let rows = self.append_rows(&key, number, positions.into())?;
        let mut state = ChunkState { rows: rows.collect(), fragments: Vec::new() };
        self.read_fragments(&key, &mut state)?;
        if self.kind == Kind::Skeleton && self.convention != "explicit" {
            for fragment in &state.fragments {
                for pair in fragment.windows(2) {
                    self.parent[pair[1] as usize] = pair[0];
                }
            }
        }
        for v in state.fragments.iter().flatten() {
            self.existed[*v as usize] = true;
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
            return fail(
                Class::Misaligned,
                format!(
                    "{} of chunk {key:?}: {} bytes are no whole number of rows of {size}",
                    self.vertices.path,
                    positions.len()
                ),
            );
        }
        let base = vertex_number(self.home.len())?;
        let end = vertex_number(self.home.len() + count)?;
        self.positions.append(&mut positions);
        for column in self.columns.iter_mut().filter(|column| column.is_loaded) {
            let rows = column.read_rows(&self.snap, key, count)?;
            column.data.push(&rows);
        }
        self.home.extend((0..end - base).map(|row| (number, row)));
        self.new_chunk.resize(self.home.len(), number);
        self.alive.resize(self.home.len(), false);
        self.existed.resize(self.home.len(), false);
        self.owner.resize(self.home.len(), NONE);
        self.parent.resize(self.home.len(), NONE);
        Ok(base..end)
    }

    /// Returns the index of a column of vertices.
    pub(crate) fn need_column(&self, name: &str) -> Result<usize> {
        let column = self.columns.iter().position(|column| column.name == name);
        column.ok_or_else(|| missing_column_error(format!("vertices of {}", self.kind), name))
    }

    /// Loads the values of a column, unless they are loaded.
    pub(crate) fn load_values(&mut self, column: usize) -> Result<()> {
        let column = &mut self.columns[column];
        if std::mem::replace(&mut column.is_loaded, true) {
            return Ok(());
        }
        // The rows of a chunk were numbered one after the other. New vertices have values.
        for run in self.home.chunk_by(|a, b| a.0 == b.0) {
            let key = &self.chunk_keys[run[0].0 as usize];
            let rows = column.read_rows(&self.snap, key, run.len())?;
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
        let mut copies = Vec::new();
        for rows in self.fragment_rows(key, state.rows.len())? {
            let mut list = Vec::new();
            for row in rows {
                let v = state.rows[row];
                if std::mem::replace(&mut self.alive[v as usize], true) {
                    copies.push((state.fragments.len(), list.len(), v));
                }
                list.push(v);
            }
            state.fragments.push(list);
        }
        for (fragment, place, v) in copies {
            let copy = self.copy_vertex(v, NONE)?;
            self.free_changed.remove(&copy);
            state.fragments[fragment][place] = copy;
        }
        Ok(())
    }

    /// Reads the rows of each fragment of a chunk with `count` rows.
    ///
    /// # Errors
    ///
    /// When rows have no fragments: taken for rows in no fragment, they would be given up.
    pub(crate) fn fragment_rows(&self, key: &Chunk, count: usize) -> Result<Vec<Vec<usize>>> {
        let blob = self.fragments.read_stored(&self.snap, key)?.unwrap_or_default();
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
        keys.iter().map(|key| self.chunk_number(key)).collect()
    }

    /// Loads all chunks and objects.
    pub(crate) fn load_all(&mut self) -> Result<()> {
        if self.all_loaded {
            return Ok(());
        }
        for chunk in self.all_chunks() {
            self.load_chunk(chunk)?;
        }
        for object in self.object_numbers() {
            self.load_object(object)?;
        }
        self.all_loaded = true;
        Ok(())
    }

    /// Loads the vertices of an object, unless they are loaded.
    pub(crate) fn load_object(&mut self, object: u32) -> Result<()> {
        let Some(objects) = &self.objects else { return Ok(()) };
        if objects.list[object as usize].loaded {
            return Ok(());
        }
        let refs = self.ordered_references(object)?;
        let mut vertices = Vec::new();
        let (lines, mut line) = (self.line_starts(object)?, 0);
        for (n, (chunk, fragment)) in refs.iter().enumerate() {
            line += u32::from(lines.contains(&n));
            self.load_chunk(*chunk)?;
            let state = &self.chunks[chunk];
            let list = state.fragments.get(*fragment as usize).cloned();
            let list = list.ok_or_else(|| self.missing_fragment(*chunk, *fragment))?;
            let is_shared = self.has_shared_fragments
                && self
                    .load_owners()?
                    .get(&(*chunk, *fragment))
                    .is_some_and(|owners| owners.len() > 1);
            for v in list {
                // Vertices that several objects share are copied, so that each object has its own.
                let v = if is_shared
                    || self.owner[v as usize] != NONE && self.owner[v as usize] != object
                {
                    self.copy_vertex(v, object)?
                } else {
                    v
                };
                self.owner[v as usize] = object;
                vertices.push(v);
                if !lines.is_empty() && self.is_ordered() {
                    self.line_of.insert(v, line);
                }
            }
        }
        if self.kind == Kind::Skeleton {
            let chunks: Vec<u32> = refs.iter().map(|(chunk, _)| *chunk).collect();
            self.load_links(&chunks)?;
        }
        if let Some(objects) = &mut self.objects {
            let state = &mut objects.list[object as usize];
            state.loaded = true;
            state.vertices_before = vertices.clone();
            state.vertices = vertices;
            state.refs = refs;
        }
        Ok(())
    }

    /// Returns the object of a vertex, and loads it; `NONE` for a vertex without one.
    pub(crate) fn owner_of(&mut self, v: Vid) -> Result<u32> {
        let owner = self.owner[v as usize];
        let (chunk, _) = self.home[v as usize];
        if owner != NONE || chunk == NONE || self.objects.is_none() || self.all_loaded {
            return Ok(owner);
        }
        let fragments = &self.chunks[&chunk].fragments;
        let Some((fragment, _)) = (0_u32..).zip(fragments).find(|(_, list)| list.contains(&v))
        else {
            return Ok(NONE);
        };
        let found = self.owners_in(&HashSet::from([chunk]))?;
        for object in found.get(&(chunk, fragment)).into_iter().flatten() {
            self.load_object(*object)?;
        }
        Ok(self.owner[v as usize])
    }

    /// Marks an object as changed in the number, order or chunks of its vertices.
    pub(crate) fn mark_object_changed(&mut self, object: u32) -> Result<()> {
        self.load_object(object)?;
        if let Some(objects) = &mut self.objects {
            objects.list[object as usize].touched = true;
        }
        Ok(())
    }

    /// Returns the number of the object with an id, if it exists.
    pub(crate) fn find_object(&self, id: i64) -> Option<u32> {
        let objects = self.objects.as_ref()?;
        let object = *objects.by_id.get(&id)?;
        objects.list[object as usize].exists.then_some(object)
    }

    pub(crate) fn object(&self, object: u32) -> Option<&Object> {
        self.objects.as_ref()?.list.get(object as usize)
    }

    /// Returns the numbers of all objects, removed ones included.
    pub(crate) fn object_numbers(&self) -> Range<u32> {
        0..num::index_u32(self.objects.as_ref().map_or(0, |all| all.list.len()))
    }

    /// Returns of each piece of an object whether another line starts with it.
    pub(crate) fn starting_pieces(&self, pieces: &[(u32, Vec<Vid>)]) -> Vec<bool> {
        let mut last = None;
        let starts = pieces.iter().map(|(_, vertices)| {
            let line = vertices.iter().find_map(|v| self.line_of.get(v)).or(last);
            std::mem::replace(&mut last, line).is_some_and(|before| Some(before) != line)
        });
        starts.collect()
    }

    /// Returns the vertices of an object in order; none for an unknown number.
    pub(crate) fn vertices_of(&self, object: u32) -> Vec<Vid> {
        self.object(object).map(|object| object.vertices.clone()).unwrap_or_default()
    }

    /// Returns an object whose number is known.
    pub(crate) fn known_object(&self, object: u32) -> Result<&Object> {
        self.object(object).ok_or_else(|| EditError::invalid("there are no objects"))
    }

    pub(crate) fn object_mut(&mut self, object: u32) -> Result<&mut Object> {
        let objects =
            self.objects.as_mut().and_then(|objects| objects.list.get_mut(object as usize));
        objects.ok_or_else(|| EditError::invalid("there are no objects"))
    }

    /// Returns the fragments that the vertices of an object form after the edit, each with its chunk.
    pub(crate) fn pieces(&self, object: u32) -> Vec<(u32, Vec<Vid>)> {
        let Some(state) = self.object(object) else { return Vec::new() };
        if self.is_ordered() {
            let mut runs: Vec<(u32, Vec<Vid>)> = Vec::new();
            let mut line = None;
            for v in &state.vertices {
                let (chunk, before) = (self.new_chunk[*v as usize], line);
                line = self.line_of.get(v).or(line);
                let continues = before.is_none() || before == line;
                match runs.last_mut() {
                    Some((last, run)) if *last == chunk && continues => run.push(*v),
                    _ => runs.push((chunk, vec![*v])),
                }
            }
            return runs;
        }
        let mut by_chunk: HashMap<u32, Vec<(bool, usize, Vid)>> = HashMap::new();
        let order: Vec<Vid> = match self.kind == Kind::Skeleton {
            true => self.depth_first(&state.vertices),
            false => state.vertices.clone(),
        };
        for (place, v) in order.iter().enumerate() {
            let chunk = self.new_chunk[*v as usize];
            let (home, row) = self.home[*v as usize];
            let stays = home == chunk && self.kind != Kind::Skeleton;
            let key = if stays { row as usize } else { place };
            by_chunk.entry(chunk).or_default().push((!stays, key, *v));
        }
        let mut pieces: Vec<(u32, Vec<Vid>)> = by_chunk
            .into_iter()
            .map(|(chunk, mut list)| {
                list.sort_unstable();
                (chunk, list.into_iter().map(|(_, _, v)| v).collect())
            })
            .collect();
        pieces.sort_by(|a, b| self.chunk_keys[a.0 as usize].cmp(&self.chunk_keys[b.0 as usize]));
        pieces
    }
}

/// Refuses levels that edits do not support.
fn refuse_level(path: &str, level: &Json) -> Result<()> {
    for name in ["chunk_dims", "chunk_attribute_name"] {
        if level.get(name).is_some_and(|value| !value.is_null()) {
            return unsupported(format!("{path}: levels divided by an attribute are not edited"));
        }
    }
    if level["refinement"] == "add" {
        return unsupported(format!("{path}: levels that add to each other are not edited"));
    }
    Ok(())
}

/// Reads the convention of links from the level or the root. It decides which edges are stored.
fn read_convention(path: &str, level: &Json, zv: &Json) -> Result<String> {
    let both = [&level["links_convention"], &zv["links_convention"]];
    let Some(stated) = both.into_iter().find(|value| !value.is_null()) else {
        return Ok("implicit_sequential".to_owned()); // the default of the format
    };
    let word = stated.as_str().map(Token::<LinksConvention>::from_text);
    let known = word.filter(|word| word.known_word().is_some()).ok_or_else(|| {
        EditError::unsupported(format!("{path}, links_convention: {stated} is not edited"))
    })?;
    Ok(known.as_str().to_owned())
}

fn need_array(snap: &Snapshot, path: &str, name: &str) -> Result<CellArray> {
    let inner = format!("{path}/{name}");
    let array = CellArray::open(snap, &inner)?;
    let text = || format!("{inner}/zarr.json: the array is not there");
    array.ok_or_else(|| EditError::new(Class::NotFound, text()))
}

/// Opens the columns of vertices. A position has `row_bytes` bytes.
fn open_vertex_columns(
    snap: &Snapshot,
    path: &str,
    vertices: &CellArray,
    row_bytes: usize,
) -> Result<Vec<VertexColumn>> {
    let names = list_children(snap, &format!("{path}/vertex_attributes"))?;
    let rows = |bytes: &[u8]| bytes.len().checked_div(row_bytes).map(num::to_u64);
    let first = if names.is_empty() { None } else { first_rows(snap, vertices, rows)? };
    let open = |name: String| {
        let array = need_array(snap, path, &format!("vertex_attributes/{name}"))?;
        let ty = resolve_column_type(snap, &array, first.as_ref())?;
        let fill = ty.sentinel();
        let data = RowPages::new(ty.size());
        Ok(VertexColumn { name, array, ty, data, is_loaded: false, fill, is_new: false })
    };
    names.into_iter().map(open).collect()
}

fn open_fragment_columns(
    snap: &Snapshot,
    path: &str,
    fragments: &CellArray,
) -> Result<Vec<FragmentColumn>> {
    let names = list_children(snap, &format!("{path}/fragment_attributes"))?;
    let first = if names.is_empty() { None } else { first_rows(snap, fragments, count_fragments)? };
    let open = |name: String| {
        let array = need_array(snap, path, &format!("fragment_attributes/{name}"))?;
        let ty = resolve_column_type(snap, &array, first.as_ref())?;
        let fill = ty.sentinel();
        Ok(FragmentColumn { name, array, ty, set: HashMap::new(), fill, is_new: false })
    };
    names.into_iter().map(open).collect()
}
