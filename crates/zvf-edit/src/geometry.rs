//! One kind of a store during an edit: vertices by number and objects as lists of vertices, loaded on demand.
//!
//! A vertex gets its number when its chunk is read, and keeps it when it moves. `home` is its chunk and row before the
//! edit; positions and columns here hold the state after it. Nothing is written before the commit.
//!
//! Not here: which changes are allowed (`objects`, `vertices`), how chunks are rebuilt (`rebuild`).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;

use serde_json::Value as Json;
use zvf_format::grid::{Bins, ChunkShape};
use zvf_format::{Class, num};
use zvf_metadata::{DtypeKind, LevelDoc, LinksConvention, Token, ZarrVectors};
use zvf_model::Kind;

use crate::arrays::{CellArray, Chunk};
use crate::cell_column::{CellColumn, FragmentColumn, VertexColumn, count_fragments};
use crate::changes::Changes;
use crate::error::{At, OrFail, Result, missing_column_error, unsupported};
use crate::indexes::{
    Object, Objects, columns_path, index_path, open_row_columns, parse_scalar, refuse_stored,
};
use crate::links::LinkFamily;
use crate::memory::HeldMemory;
use crate::numbers::{
    ChunkKeys, FragmentOwners, NONE, VERTEX_BYTES, Vertex, VertexLists, Vertices, Vid,
    vertex_number,
};
use crate::row_pages::RowPages;
use crate::scalar::{ColumnType, Scalar};
use crate::snapshot::{LEVEL_BLOCK, Snapshot, read_block, read_doc};
use crate::stored_column::position;

/// The vertices of a chunk that was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChunkState {
    /// The vertices of its rows.
    pub(crate) rows: Range<Vid>,
    /// The vertices of each fragment.
    pub(crate) fragments: VertexLists,
}

/// A piece of an added or changed object: its vertices that become one fragment.
#[derive(Clone, Debug)]
pub(crate) struct ObjectPiece {
    pub(crate) object: u32,
    pub(crate) chunk: u32,
    /// Whether another line of the object starts with it.
    pub(crate) starts_line: bool,
    /// The number of its fragment, `NONE` until its chunk is rebuilt, with its first row there and
    /// the count of its rows.
    pub(crate) fragment: u32,
    pub(crate) row: u32,
    pub(crate) count: u32,
}

impl ObjectPiece {
    pub(crate) const fn new(object: u32, chunk: u32, starts_line: bool) -> Self {
        Self { object, chunk, starts_line, fragment: NONE, row: 0, count: 0 }
    }
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
    pub(crate) axis_names: Vec<String>,
    pub(crate) shape: ChunkShape,
    pub(crate) bins: Bins,
    /// Whether all links are stored, and none follows from the order of rows.
    pub(crate) has_explicit_links: bool,
    pub(crate) scalar: Scalar,
    pub(crate) vertices: CellArray,
    pub(crate) fragments: CellArray,
    pub(crate) columns: Vec<VertexColumn>,
    pub(crate) fragment_columns: Vec<FragmentColumn>,
    /// The objects; none where there is no index of them.
    pub(crate) objects: Objects,
    /// Whether vertices belong to objects.
    pub(crate) has_objects: bool,
    pub(crate) links: LinkFamily,
    /// The keys of dropped columns, which are removed before anything is written.
    pub(crate) erased: Changes,

    pub(crate) chunk_keys: ChunkKeys,
    pub(crate) chunks: HashMap<u32, ChunkState>,

    /// Vertices that were added and have no numbers yet: chunk, piece, position and values of each.
    pub(crate) added: Option<RowPages>,
    /// The pieces of added objects whose vertices have no numbers. The commit appends those of
    /// changed objects.
    pub(crate) pieces: Vec<ObjectPiece>,
    pub(crate) positions: Vec<u8>,
    pub(crate) vertex: Vertices,
    pub(crate) changed_chunks: HashSet<u32>,
    /// The line of each vertex of an object that has several. New vertices are of the line of the one before them.
    pub(crate) line_of: HashMap<Vid, u32>,
    /// Objects in which the parent of a vertex changed.
    pub(crate) parents_changed: HashSet<u32>,
    /// Vertices without objects that were added, removed or moved.
    pub(crate) free_changed: BTreeSet<Vid>,
    pub(crate) all_loaded: bool,
    /// The memory of its vertices and objects.
    pub(crate) held: HeldMemory,
    /// Chunks whose objects are all loaded.
    pub(crate) owned_chunks: HashSet<u32>,
    pub(crate) has_shared_fragments: bool,
    pub(crate) owners: Option<FragmentOwners>,
}

impl Geometry {
    /// Opens one kind of a store at level 0.
    pub(crate) fn open(
        snap: &Rc<Snapshot>,
        root: &ZarrVectors,
        kind: Kind,
        path: &str,
    ) -> Result<Self> {
        let doc = read_doc(snap, path)?.or_fail(Class::NotFound, || {
            format!("{path}/zarr.json: the group of {kind} is not there")
        })?;
        let level: LevelDoc = read_block(&doc, LEVEL_BLOCK).at(path)?;
        refuse_level(path, &level)?;
        let shape = ChunkShape::new(level.chunk_shape.as_ref().unwrap_or(&root.chunk_shape))?;
        let bins = Bins::new(&shape, root.base_bin_shape.as_deref().unwrap_or(shape.sizes()))?;
        let vertices = CellArray::need(snap, &format!("{path}/vertices"))?;
        let fragments = CellArray::need(snap, &format!("{path}/vertex_fragments"))?;
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
        let has_explicit_links = read_convention(path, &level, root)? == LinksConvention::Explicit;
        let axes = shape.axes();
        let size = axes * scalar.size();
        let rows = |bytes: &[u8]| bytes.len().checked_div(size).map(num::to_u64);
        let pages = |ty: &ColumnType| RowPages::new(ty.size());
        let group = format!("{path}/vertex_attributes");
        let columns = CellColumn::open_all(snap, &group, (&vertices, rows), pages)?;
        let (group, counted) =
            (format!("{path}/fragment_attributes"), (&fragments, count_fragments));
        let fragment_columns = CellColumn::open_all(snap, &group, counted, |_| BTreeMap::new())?;
        let stored = Objects::open(snap, path, axes)?;
        let has_objects = stored.is_some();
        let is_named = |name: &str| level.arrays_present.iter().any(|present| present == name);
        if !has_objects && is_named("object_index") {
            refuse_stored(snap, &index_path(path))?;
        }
        let is_dense = root.manifest_layout.as_deref() == Some("dense");
        let create = || Objects::create(path, axes, is_dense);
        let mut objects = stored.map_or_else(create, Ok)?;
        objects.columns = open_row_columns(snap, &columns_path(path), |_name| true)?;
        let width = if kind == Kind::Mesh { 3 } else { 2 };
        let create = || LinkFamily::create(snap, path, width, axes);
        let stored = LinkFamily::open(snap, path, 0, axes)?;
        if stored.is_none() && is_named("links") {
            refuse_stored(snap, &format!("{path}/links/0"))?;
        }
        let links = stored.map_or_else(create, Ok)?;
        let mut held = HeldMemory::new(&snap.journal.place.memory);
        held.add(objects.index_bytes())?;
        Ok(Self {
            kind,
            path: path.to_owned(),
            snap: Rc::clone(snap),
            doc,
            axes,
            axis_names: Vec::new(), // known from the root
            shape,
            bins,
            has_explicit_links,
            scalar,
            vertices,
            fragments,
            columns,
            fragment_columns,
            objects,
            has_objects,
            links,
            erased: Changes::default(),
            chunk_keys: ChunkKeys::default(),
            chunks: HashMap::new(),
            added: None,
            pieces: Vec::new(),
            positions: Vec::new(),
            vertex: Vertices::default(),
            changed_chunks: HashSet::new(),
            line_of: HashMap::new(),
            parents_changed: HashSet::new(),
            free_changed: BTreeSet::new(),
            all_loaded: false,
            held,
            owned_chunks: HashSet::new(),
            has_shared_fragments: level.shared_fragments,
            owners: None,
        })
    }

    /// Returns whether links are stored explicitly, rather than implied by objects.
    pub(crate) fn has_links(&self) -> bool {
        matches!(self.kind, Kind::Graph | Kind::Mesh)
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
        let values = self.position_bytes(v).chunks_exact(self.scalar.size());
        values.map(|value| self.scalar.to_decimal(value)).collect()
    }

    pub(crate) fn position_bytes(&self, v: Vid) -> &[u8] {
        let size = self.position_size();
        &self.positions[v as usize * size..(v as usize + 1) * size]
    }

    /// Returns the chunk of a position, and its bin where there are no objects.
    pub(crate) fn locate(&self, position: &[f64]) -> Result<(Chunk, u64)> {
        if !self.has_objects {
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
        let number = self.chunk_keys.number(&chunk);
        self.mark_changed(v)?;
        if !self.has_objects {
            self.free_changed.insert(v);
        } else if number != self.vertex[v].chunk {
            self.touch_owner(v)?;
            if self.vertex[v].owner == NONE {
                self.free_changed.insert(v);
            }
        }
        self.vertex[v].chunk = number;
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
        let (chunk, _) = self.vertex[v].home;
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
        let v = vertex_number(self.vertex.list.len())?;
        self.held.add(position.len() + VERTEX_BYTES)?;
        self.positions.extend_from_slice(position);
        let (chunk, _) = self.locate(&self.position(v))?;
        let (chunk, home) = (self.chunk_keys.number(&chunk), (NONE, NONE));
        let (parent, alive, existed) = (NONE, true, false);
        self.vertex.list.push(Vertex { place: home, home, chunk, owner, parent, alive, existed });
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

    /// Takes the links, which the caller puts back.
    pub(crate) fn take_links(&mut self) -> LinkFamily {
        let none = LinkFamily::placeholder(&self.snap, &self.path, self.links.policy);
        std::mem::replace(&mut self.links, none)
    }

    /// Returns the index of a column of vertices.
    pub(crate) fn need_column(&self, name: &str) -> Result<usize> {
        let column = position(&self.columns, name);
        column.ok_or_else(|| missing_column_error(format!("vertices of {}", self.kind), name))
    }

    /// Marks an object as changed in the number, order or chunks of its vertices.
    pub(crate) fn mark_object_changed(&mut self, object: u32) -> Result<()> {
        self.load_object(object)?;
        self.objects.know(object).touched = true;
        Ok(())
    }

    /// Returns the number of the object with an id, if it exists.
    pub(crate) fn find_object(&self, id: i64) -> Option<u32> {
        self.objects.find(id).filter(|object| self.objects.exists(*object))
    }

    /// Returns an object that was loaded, changed or added.
    pub(crate) fn object(&self, object: u32) -> Option<&Object> {
        self.objects.known.get(&object)
    }

    /// Returns the id of an object; `None` for [`NONE`].
    pub(crate) fn object_id(&self, object: u32) -> Option<i64> {
        (object < self.objects.count).then(|| self.objects.id(object))
    }

    /// Returns the vertices of an object in order; none for an unknown number.
    pub(crate) fn vertices_of(&self, object: u32) -> Vec<Vid> {
        self.object(object).map(|object| object.vertices.clone()).unwrap_or_default()
    }

    /// Returns the fragments that the vertices of an object form after the edit: whether another
    /// line starts with it, and its chunk and vertices.
    pub(crate) fn pieces(&self, object: u32) -> Vec<(bool, (u32, Vec<Vid>))> {
        let Some(state) = self.object(object) else { return Vec::new() };
        if self.kind.is_chain() {
            let mut runs: Vec<(bool, (u32, Vec<Vid>))> = Vec::new();
            let mut line = None;
            for v in &state.vertices {
                let (chunk, before) = (self.vertex[*v].chunk, line);
                line = self.line_of.get(v).or(line);
                let continues = before.is_none() || before == line;
                match runs.last_mut() {
                    Some((_, (last, run))) if *last == chunk && continues => run.push(*v),
                    _ => runs.push((!continues, (chunk, vec![*v]))),
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
            let chunk = self.vertex[*v].chunk;
            let (home, row) = self.vertex[*v].home;
            let stays = home == chunk && self.kind != Kind::Skeleton;
            let key = if stays { row as usize } else { place };
            by_chunk.entry(chunk).or_default().push((!stays, key, *v));
        }
        let pieces = by_chunk.into_iter().map(|(chunk, mut list)| {
            list.sort_unstable();
            (false, (chunk, list.into_iter().map(|(_, _, v)| v).collect()))
        });
        let mut pieces: Vec<_> = pieces.collect();
        pieces.sort_by_key(|(_, (chunk, _))| &self.chunk_keys[*chunk]);
        pieces
    }
}

/// Refuses levels that edits do not support.
fn refuse_level(path: &str, level: &LevelDoc) -> Result<()> {
    if level.chunk_dims.is_some() || level.chunk_attribute_name.is_some() {
        return unsupported(format!("{path}: levels divided by an attribute are not edited"));
    }
    if level.is_additive() {
        return unsupported(format!("{path}: levels that add to each other are not edited"));
    }
    Ok(())
}

/// Returns the convention of links, as the level or the root states it. It decides which edges are
/// stored.
fn read_convention(path: &str, level: &LevelDoc, root: &ZarrVectors) -> Result<LinksConvention> {
    let stated: Token<LinksConvention> =
        level.links_convention.clone().unwrap_or_else(|| root.links_convention());
    let word = stated.as_str();
    let known = stated.known_word();
    known.or_unsupported(|| format!("{path}, links_convention: {word:?} is not edited"))
}
