//! The records of one family of links, by vertex instead of by row: what a change of rows does to them follows.
//!
//! ```text
//! delta 0     every end is a vertex of level 0
//! delta +n    of level 0: the first end is, the others stay where they are
//! delta -n    of level n: the first end stays, the others are vertices of level 0
//! ```
//!
//! Only cells that name a chunk in question are read. Not here: which links there should be (`ops`).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value as Json, json};
use zvf_format::Class;
use zvf_format::grid::ChunkShape;
use zvf_format::key::{ChunkKey, Delta, Offsets};
use zvf_format::link::{self, Anchor, Endpoint, LinkCell, LinkInteger, LinkRecord};
use zvf_model::Kind;

use crate::arrays::{CellArray, Chunk, doc_bytes, doc_key, plain_group, read_doc};
use crate::error::{EditError, Result};
use crate::geometry::{Geometry, NONE, Vid};
use crate::indexes::{children, column_type};
use crate::journal::Changes;
use crate::scalar::Type;
use crate::snapshot::Snapshot;
use crate::widths;

/// One end of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// A vertex of level 0.
    Vertex(Vid),
    /// A row of another level, or one that has its place already.
    At(Chunk, u64),
    /// A row that is gone.
    Gone,
}

/// Where rows lie now: by chunk that was written again, for each row it had the new one, `NONE` where it went.
pub(crate) type RowMoves = BTreeMap<Chunk, Vec<u32>>;

/// The end that a row of level 0 has come to be.
pub(crate) fn moved_end(path: &str, moves: &RowMoves, chunk: &Chunk, row: u64) -> Result<End> {
    let Some(rows) = moves.get(chunk) else { return Ok(End::At(chunk.clone(), row)) };
    match usize::try_from(row).ok().and_then(|row| rows.get(row)) {
        Some(&NONE) => Ok(End::Gone),
        Some(now) => Ok(End::At(chunk.clone(), u64::from(*now))),
        None => Err(no_such_row(path, chunk, row, rows.len())),
    }
}

fn no_such_row(path: &str, chunk: &[i64], row: u64, count: usize) -> EditError {
    EditError::new(
        Class::OutOfBounds,
        format!("{path}/links: a record names row {row} of chunk {chunk:?}, which has {count}"),
    )
}

/// One record.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) ends: Vec<End>,
    /// Where it was stored: array, chunk, row.
    pub(crate) cell: Option<(String, Chunk, u32)>,
    /// One row a column.
    pub(crate) values: Vec<Vec<u8>>,
    pub(crate) alive: bool,
    pub(crate) changed: bool,
}

impl Record {
    /// Whether it came, went or changed.
    pub(crate) fn differs(&self) -> bool {
        match self.cell {
            None => self.alive,
            Some(_) => !self.alive || self.changed,
        }
    }
}

/// A column of links.
#[derive(Debug)]
pub(crate) struct LinkColumn {
    pub(crate) name: String,
    pub(crate) ty: Type,
    pub(crate) attrs: Json,
    pub(crate) arrays: BTreeMap<String, CellArray>,
    pub(crate) fill: Vec<u8>,
    pub(crate) is_new: bool,
}

/// A record with what it is sorted by: whether it is new, the row it had, and its number.
type PlacedRecord = ((bool, u32), usize, LinkRecord);

/// A family of links.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) path: String,
    delta_text: String,
    pub(crate) doc: Json,
    is_new: bool,
    pub(crate) family: link::LinkPolicy,
    pub(crate) arrays: BTreeMap<String, CellArray>,
    pub(crate) columns: Vec<LinkColumn>,
    pub(crate) fragments: Option<CellArray>,
    loaded: HashMap<(String, Chunk), usize>,
    loaded_all: bool,
    pub(crate) records: Vec<Record>,
    pub(crate) by_vertex: HashMap<Vid, Vec<u32>>,
}

impl Family {
    /// Opens the family between a level and the one `delta` away.
    pub(crate) fn open(
        snap: &Snapshot,
        path: &str,
        delta: i32,
        axes: usize,
    ) -> Result<Option<Self>> {
        let delta_text = Delta(delta).to_string();
        let group = format!("{path}/links/{delta_text}");
        let Some(doc) = read_doc(snap, &group)? else { return Ok(None) };
        let attrs = &doc["attributes"];
        let width = attrs["link_width"].as_u64().unwrap_or(2) as usize;
        let rank = attrs["sid_ndim"].as_u64().map_or(axes, |n| n as usize);
        let mut family = link::LinkPolicy::new(width, rank)?;
        if attrs["directed"] == true {
            family = family.directed();
        }
        if attrs["store"] == "duplicate" {
            return Err(EditError::unsupported(format!(
                "{group}: links that are stored once for each chunk they touch are not edited; write the store again with \"zvf migrate\""
            )));
        }
        let mut arrays = BTreeMap::new();
        for name in children(snap, &group)? {
            arrays.extend(
                CellArray::open(snap, &format!("{group}/{name}"))?.map(|array| (name, array)),
            );
        }
        let mut columns = Vec::new();
        for name in children(snap, &format!("{path}/link_attributes"))? {
            let inner = format!("{path}/link_attributes/{name}/{delta_text}");
            if read_doc(snap, &inner)?.is_none() {
                continue;
            }
            let mut own = BTreeMap::new();
            for offsets in children(snap, &inner)? {
                own.extend(
                    CellArray::open(snap, &format!("{inner}/{offsets}"))?
                        .map(|array| (offsets, array)),
                );
            }
            let attrs = own.values().next().map_or_else(
                || json!({"dtype": "float32"}),
                |array: &CellArray| array.doc["attributes"].clone(),
            );
            let width =
                widths::declared_of_links(&attrs).map_err(|error| error.with_place(&inner))?;
            let ty = column_type(&attrs, width)?;
            let fill = ty.sentinel();
            columns.push(LinkColumn { name, ty, attrs, arrays: own, fill, is_new: false });
        }
        let fragments = if delta == 0 {
            CellArray::open(snap, &format!("{path}/link_fragments"))?
        } else {
            None
        };
        Ok(Some(Self {
            path: path.to_owned(),
            delta_text,
            doc,
            is_new: false,
            family,
            arrays,
            columns,
            fragments,
            loaded: HashMap::new(),
            loaded_all: false,
            records: Vec::new(),
            by_vertex: HashMap::new(),
        }))
    }

    /// The family of another level, whose chunks have another size.
    pub(crate) fn move_across(
        mut self,
        delta: i32,
        own: &ChunkShape,
        other: &ChunkShape,
        root: &ChunkShape,
    ) -> Result<Self> {
        let anchor = Anchor::between_levels(
            &own.ratio_to(root)?,
            &other.ratio_to(root)?,
            self.family.sid_ndim(),
        )?;
        self.family = self.family.with_delta(Delta(delta), anchor)?;
        Ok(self)
    }

    /// A family without records.
    pub(crate) fn create(path: &str, width: usize, axes: usize) -> Result<Self> {
        let doc = json!({"zarr_format": 3, "node_type": "group", "attributes": {"zv_array": "links_family", "level_delta": 0,
            "link_width": width, "directed": false, "store": "canonical", "sid_ndim": axes, "num_links": 0, "num_physical_records": 0}});
        Ok(Self {
            path: path.to_owned(),
            delta_text: "0".to_owned(),
            doc,
            is_new: true,
            family: link::LinkPolicy::new(width, axes)?,
            arrays: BTreeMap::new(),
            columns: Vec::new(),
            fragments: None,
            loaded: HashMap::new(),
            loaded_all: true,
            records: Vec::new(),
            by_vertex: HashMap::new(),
        })
    }

    fn element(array: &CellArray) -> Result<LinkInteger> {
        let name = array.attribute("dtype").as_str().unwrap_or("int64");
        let bytes: u8 = match name.trim_start_matches(|c: char| !c.is_ascii_digit()) {
            "8" => 1,
            "16" => 2,
            "32" => 4,
            _ => 8,
        };
        Ok(LinkInteger::new(bytes, !name.starts_with('u'))?)
    }

    /// Reads the records of a cell, once. `end` finds what a row of level 0 is.
    fn load_cell(
        &mut self,
        snap: &Snapshot,
        offsets: &str,
        source: &Chunk,
        level_zero: &dyn Fn(usize) -> bool,
        end: &mut dyn FnMut(&Chunk, u64) -> Result<End>,
    ) -> Result<()> {
        let cell = (offsets.to_owned(), source.clone());
        if self.loaded.contains_key(&cell) {
            return Ok(());
        }
        let array = &self.arrays[offsets];
        let Some(bytes) = array.stored(snap, source)? else {
            self.loaded.insert(cell, 0);
            return Ok(());
        };
        let (width, rank) = (self.family.link_width(), self.family.sid_ndim());
        let parsed = Offsets::parse(offsets, rank, width)?;
        let intra = self.family.delta() == Delta::SAME && parsed.are_zero();
        let flat = intra;
        let body = self.family.body(flat);
        let mut shape = self.family.row_shape(Self::element(array)?, flat);
        if let Some(has_perm) = array.attribute("has_perm").as_bool() {
            shape = link::RowShape::new(Self::element(array)?, width, has_perm)?;
        }
        let records = LinkCell::parse(&bytes, body, shape)
            .map_err(|error| EditError::from(error).with_place(&array.path))?;
        let key = ChunkKey::new(source)?;
        let anchor = self.family.anchor().map_chunk(&key)?;
        let place_chunk = |place: usize| -> Chunk {
            match place {
                0 => source.clone(),
                _ => {
                    let step = parsed.get(place).unwrap_or_default();
                    anchor.components().iter().zip(step).map(|(a, o)| a + o).collect()
                }
            }
        };
        let mut values: Vec<Option<bytes::Bytes>> = Vec::new();
        for column in &self.columns {
            let own = column.arrays.get(offsets);
            let stored = own.map_or(Ok(None), |array| array.stored(snap, source))?;
            if let (Some(array), Some(bytes)) = (own, &stored) {
                let expected = records.records().count() * column.ty.size();
                widths::check_size(&array.path, source, bytes.len(), expected)?;
            }
            values.push(stored);
        }
        let mut found = Vec::new();
        for (row, record) in records.records().enumerate() {
            let mut ends = Vec::with_capacity(width);
            for (place, at) in record.in_input_order() {
                let chunk = place_chunk(place);
                ends.push(if level_zero(place) { end(&chunk, at)? } else { End::At(chunk, at) });
            }
            let mut own = Vec::with_capacity(self.columns.len());
            for (column, bytes) in self.columns.iter().zip(&values) {
                let size = column.ty.size();
                let value =
                    bytes.as_ref().and_then(|bytes| bytes.get(row * size..(row + 1) * size));
                own.push(value.map_or_else(|| column.fill.clone(), <[u8]>::to_vec));
            }
            found.push(Record {
                ends,
                cell: Some((offsets.to_owned(), source.clone(), row as u32)),
                values: own,
                alive: true,
                changed: false,
            });
        }
        self.loaded.insert(cell, found.len());
        for record in found {
            self.insert(record);
        }
        Ok(())
    }

    /// Adds a record.
    pub(crate) fn insert(&mut self, record: Record) -> u32 {
        let number = self.records.len() as u32; // bounded by memory
        for end in &record.ends {
            if let End::Vertex(v) = end {
                let list = self.by_vertex.entry(*v).or_default();
                if list.last() != Some(&number) {
                    list.push(number);
                }
            }
        }
        self.records.push(record);
        number
    }

    /// The records at a vertex.
    pub(crate) fn records_at(&self, v: Vid) -> Vec<u32> {
        let all = self.by_vertex.get(&v).into_iter().flatten();
        all.copied().filter(|record| self.records[*record as usize].alive).collect()
    }

    /// The sources whose cells name one of the chunks, at one of the places that are level 0.
    fn cells_naming(
        &self,
        offsets: &str,
        chunks: &BTreeSet<Chunk>,
        level_zero: &dyn Fn(usize) -> bool,
    ) -> Result<Vec<Chunk>> {
        let (width, rank) = (self.family.link_width(), self.family.sid_ndim());
        let parsed = Offsets::parse(offsets, rank, width)?;
        let array = &self.arrays[offsets];
        let mut sources = BTreeSet::new();
        if self.family.delta() == Delta::SAME {
            for chunk in chunks {
                for place in 0..width {
                    let source: Chunk = match place {
                        0 => chunk.clone(),
                        _ => chunk
                            .iter()
                            .zip(parsed.get(place).unwrap_or_default())
                            .map(|(c, o)| c - o)
                            .collect(),
                    };
                    if array.holds(&source) {
                        sources.insert(source);
                    }
                }
            }
            return Ok(sources.into_iter().collect());
        }
        for source in array.chunks() {
            let anchor = self.family.anchor().map_chunk(&ChunkKey::new(&source)?)?;
            let names = (0..width).filter(|place| level_zero(*place)).any(|place| {
                let chunk: Chunk = match place {
                    0 => source.clone(),
                    _ => anchor
                        .components()
                        .iter()
                        .zip(parsed.get(place).unwrap_or_default())
                        .map(|(a, o)| a + o)
                        .collect(),
                };
                chunks.contains(&chunk)
            });
            if names {
                sources.insert(source);
            }
        }
        Ok(sources.into_iter().collect())
    }

    /// Reads every cell that names one of the chunks.
    pub(crate) fn load_naming(
        &mut self,
        snap: &Snapshot,
        chunks: &BTreeSet<Chunk>,
        level_zero: &dyn Fn(usize) -> bool,
        end: &mut dyn FnMut(&Chunk, u64) -> Result<End>,
    ) -> Result<()> {
        let names: Vec<String> = self.arrays.keys().cloned().collect();
        for offsets in names {
            for source in self.cells_naming(&offsets, chunks, level_zero)? {
                self.load_cell(snap, &offsets, &source, level_zero, end)?;
            }
        }
        Ok(())
    }

    /// Makes room for chunks from `low` to `high` in every array.
    pub(crate) fn grow(&mut self, low: &[i64], high: &[i64]) {
        let own = self.columns.iter_mut().flat_map(|column| column.arrays.values_mut());
        for array in self.arrays.values_mut().chain(own).chain(self.fragments.iter_mut()) {
            array.grow(low, high);
        }
    }

    /// Forgets what is stored in the cells that were read: the records are about to be made anew.
    pub(crate) fn clear_records(&mut self) {
        self.records.clear();
        self.by_vertex.clear();
    }

    /// Marks the cells naming these chunks as read, without their records.
    pub(crate) fn load_counts(&mut self, snap: &Snapshot, chunks: &BTreeSet<Chunk>) -> Result<()> {
        self.load_naming(snap, chunks, &|_| false, &mut |_, _| Ok(End::Gone))
    }

    /// Writes the cells that were read or get records, where they differ.
    pub(crate) fn flush(
        &mut self,
        snap: &Snapshot,
        like: &CellArray,
        place: &dyn Fn(Vid) -> Option<(Chunk, u64)>,
        out: &mut Changes,
    ) -> Result<bool> {
        let (width, rank) = (self.family.link_width(), self.family.sid_ndim());
        let mut cells: BTreeMap<(String, Chunk), Vec<PlacedRecord>> = BTreeMap::new();
        for cell in self.loaded.keys() {
            cells.entry(cell.clone()).or_default();
        }
        for (number, record) in self.records.iter().enumerate().filter(|(_, record)| record.alive) {
            let mut ends: Vec<(ChunkKey, u64)> = Vec::with_capacity(width);
            for end in &record.ends {
                let (chunk, row) = match end {
                    End::Vertex(v) => match place(*v) {
                        Some(found) => found,
                        None => continue,
                    },
                    End::At(chunk, row) => (chunk.clone(), *row),
                    End::Gone => continue,
                };
                ends.push((ChunkKey::new(&chunk)?, row));
            }
            if ends.len() < width {
                continue; // an end is gone
            }
            let ends: Vec<Endpoint<'_>> =
                ends.iter().map(|(chunk, row)| Endpoint { chunk, row: *row }).collect();
            for placement in self.family.place(&ends)? {
                let offsets = match width {
                    1 => "self".to_owned(),
                    _ => placement.offsets().to_string(),
                };
                let source = placement.source().components().to_vec();
                let key = match &record.cell {
                    Some((old, chunk, row)) if *old == offsets && *chunk == source => (false, *row),
                    _ => (true, number as u32),
                };
                cells.entry((offsets, source)).or_default().push((key, number, placement.record()));
            }
        }
        let mut changed = false;
        let (mut before, mut after) = (0_i64, 0_i64);
        for ((offsets, source), mut list) in cells {
            list.sort_by_key(|(key, number, _)| (*key, *number));
            let old = self.loaded.get(&(offsets.clone(), source.clone())).copied().unwrap_or(0); // none
            before += old as i64;
            after += list.len() as i64;
            if old == 0 && list.is_empty() {
                continue;
            }
            let parsed = Offsets::parse(&offsets, rank, width)?;
            let intra = self.family.delta() == Delta::SAME && parsed.are_zero();
            if !self.arrays.contains_key(&offsets) {
                let path = format!("{}/links/{}/{offsets}", self.path, self.delta_text);
                let steps: Vec<Vec<i64>> =
                    (1..width).map(|k| parsed.get(k).unwrap_or_default().to_vec()).collect();
                let attrs = json!({"nonempty_chunks": [], "zv_array": "links", "dtype": "int64", "offsets": steps,
                    "has_perm": self.family.has_perm(intra), "link_width": width, "level_delta": self.family.delta().0});
                self.arrays.insert(offsets.clone(), CellArray::create(like, &path, attrs));
            }
            let Some(array) = self.arrays.get_mut(&offsets) else { continue };
            let mut shape = self.family.row_shape(Self::element(array)?, intra);
            if let Some(has_perm) = array.attribute("has_perm").as_bool() {
                shape = link::RowShape::new(Self::element(array)?, width, has_perm)?;
            }
            let rows: Vec<LinkRecord> = list.iter().map(|(.., record)| *record).collect();
            let bytes = if rows.is_empty() {
                Vec::new()
            } else {
                link::encode(&[&rows], self.family.body(intra), shape)?
            };
            let stored = array.stored(snap, &source)?;
            let same = stored.as_deref().unwrap_or_default() == bytes
                || stored.as_deref().is_some_and(|stored| {
                    same_records(stored, &rows, self.family.body(intra), shape)
                });
            if !same {
                array.put(&source, bytes);
                changed = true;
            }
            for (i, column) in self.columns.iter_mut().enumerate() {
                let values: Vec<u8> = list
                    .iter()
                    .flat_map(|(_, number, _)| self.records[*number].values[i].clone())
                    .collect();
                if !column.arrays.contains_key(&offsets) {
                    if values.is_empty() {
                        continue;
                    }
                    let path = format!(
                        "{}/link_attributes/{}/{}/{offsets}",
                        self.path, column.name, self.delta_text
                    );
                    let mut attrs = column.attrs.clone();
                    attrs["nonempty_chunks"] = json!([]);
                    attrs["zv_array"] = json!("link_attribute");
                    attrs["name"] = json!(column.name);
                    attrs["offsets"] = self.arrays[&offsets].attribute("offsets").clone();
                    attrs["level_delta"] = json!(self.family.delta().0);
                    if let Some(attrs) = attrs.as_object_mut() {
                        attrs.shift_remove("chunk_grid_origin");
                    }
                    column.arrays.insert(offsets.clone(), CellArray::create(like, &path, attrs));
                }
                if let Some(array) = column.arrays.get_mut(&offsets)
                    && array.read(snap, &source)?.as_deref().unwrap_or_default() != values
                {
                    array.put(&source, values);
                }
            }
            if intra && !same && self.family.delta() == Delta::SAME {
                if self.fragments.is_none() {
                    let attrs = json!({"nonempty_chunks": [], "zv_array": "link_fragments", "encoding": "fragment_index_v1"});
                    self.fragments = Some(CellArray::create(
                        like,
                        &format!("{}/link_fragments", self.path),
                        attrs,
                    ));
                }
                if let Some(fragments) = &mut self.fragments {
                    let mut index = zvf_format::fragment::FragmentIndexBuilder::new();
                    index.range(0, rows.len() as u64)?;
                    fragments
                        .put(&source, if rows.is_empty() { Vec::new() } else { index.encode() });
                }
            }
        }
        if self.is_new && after == 0 {
            return Ok(false);
        }
        let delta = after - before;
        if delta != 0 || self.is_new {
            for name in ["num_links", "num_physical_records"] {
                // A count that the document does not state stays unstated.
                let Some(old) = self.doc["attributes"][name].as_i64() else { continue };
                let count = old.checked_add(delta).filter(|count| *count >= 0).ok_or_else(|| {
                    let text = format!(
                        "{}/links/{}, {name}: expected all links, of which {before} changed, found {old}; run \"zvf validate\"",
                        self.path, self.delta_text
                    );
                    EditError::new(Class::CountMismatch, text)
                })?;
                self.doc["attributes"][name] = json!(count);
            }
            let group = format!("{}/links", self.path);
            if self.is_new && read_doc(snap, &group)?.is_none() {
                out.insert(doc_key(&group), Some(doc_bytes(&plain_group())?));
            }
            out.insert(
                doc_key(&format!("{group}/{}", self.delta_text)),
                Some(doc_bytes(&self.doc)?),
            );
        }
        for column in &mut self.columns {
            let group = format!("{}/link_attributes/{}", self.path, column.name);
            let inner = format!("{group}/{}", self.delta_text);
            if column.is_new {
                let above = format!("{}/link_attributes", self.path);
                for path in [&above, &group] {
                    if read_doc(snap, path)?.is_none() {
                        out.insert(doc_key(path), Some(doc_bytes(&plain_group())?));
                    }
                }
            }
            if column.is_new || delta != 0 {
                let mut doc = json!({"zarr_format": 3, "node_type": "group", "attributes": {"zv_array": "link_attribute_family", "name": column.name,
                    "level_delta": self.family.delta().0}});
                if let Some(count) = self.doc["attributes"].get("num_links") {
                    doc["attributes"]["num_links"] = count.clone();
                }
                out.insert(doc_key(&inner), Some(doc_bytes(&doc)?));
            }
            for array in column.arrays.values_mut() {
                array.flush(snap, out)?;
            }
        }
        for array in self.arrays.values_mut().chain(self.fragments.iter_mut()) {
            array.flush(snap, out)?;
        }
        Ok(changed || delta != 0)
    }
}

fn same_records(
    stored: &[u8],
    rows: &[LinkRecord],
    body: link::Body,
    shape: link::RowShape,
) -> bool {
    // One group for each write is as good as one for all.
    LinkCell::parse(stored, body, shape)
        .is_ok_and(|cell| cell.len() == rows.len() && cell.records().eq(rows.iter().copied()))
}

impl Geometry {
    /// Reads the links that name these chunks.
    pub(crate) fn load_links(&mut self, chunks: &[u32]) -> Result<()> {
        if self.kind == Kind::Line {
            return Ok(()); // made anew from the objects
        }
        let Some(mut family) = self.links.take() else { return Ok(()) };
        let keys: BTreeSet<Chunk> =
            chunks.iter().map(|chunk| self.chunk_keys[*chunk as usize].clone()).collect();
        let snap = std::rc::Rc::clone(&self.snap);
        let before = family.records.len();
        let loaded = family.load_naming(&snap, &keys, &|_| true, &mut |chunk, row| {
            self.vertex_at(chunk, row).map(End::Vertex)
        });
        let fresh = before..family.records.len();
        if self.kind == Kind::Skeleton {
            for number in fresh {
                let ends: Vec<Vid> = family.records[number]
                    .ends
                    .iter()
                    .map(|end| if let End::Vertex(v) = end { *v } else { 0 })
                    .collect();
                if ends.len() == 2 {
                    let (child, parent) = match family.family.is_directed() {
                        true => self.child_first(ends[0], ends[1]),
                        false => (ends[0], ends[1]),
                    };
                    family.records[number].ends = vec![End::Vertex(child), End::Vertex(parent)];
                    self.parent[child as usize] = parent;
                }
            }
        }
        self.links = Some(family);
        loaded
    }

    /// Reads every link.
    pub(crate) fn load_all_links(&mut self) -> Result<()> {
        let chunks = self.all_chunks();
        self.load_links(&chunks)?;
        if let Some(family) = &mut self.links {
            family.loaded_all = true;
        }
        Ok(())
    }

    /// Records of directed families come in either order: the child is the first row of a fragment.
    fn child_first(&self, a: Vid, b: Vid) -> (Vid, Vid) {
        let is_first = |v: Vid| {
            let (chunk, _) = self.home[v as usize];
            self.chunks
                .get(&chunk)
                .is_some_and(|state| state.fragments.iter().any(|list| list.first() == Some(&v)))
        };
        if is_first(b) && !is_first(a) { (b, a) } else { (a, b) }
    }

    /// The vertex of a row of a chunk.
    pub(crate) fn vertex_at(&mut self, chunk: &[i64], row: u64) -> Result<Vid> {
        let number = self.chunk_number(chunk);
        self.load_chunk(number)?;
        let rows = &self.chunks[&number].rows;
        let found = rows.get(row as usize).copied();
        found.ok_or_else(|| no_such_row(&self.path, chunk, row, rows.len()))
    }
}
