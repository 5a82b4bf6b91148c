//! The records of one family of links during an edit. Ends are vertices rather than rows, so that they follow moves.
//!
//! ```text
//! delta 0     all ends are vertices of level 0
//! delta +n    stored at level 0: the first end is a vertex of level 0, the others are rows of level n
//! delta -n    stored at level n: the first end is a row of level n, the others are vertices of level 0
//! ```
//!
//! Only cells that name a chunk of interest are read. Not here: which links exist (`linking`, `follow`).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value as Json, json};
use zvf_format::fragment::FragmentIndexBuilder;
use zvf_format::grid::ChunkShape;
use zvf_format::key::{ChunkKey, Delta, Offsets};
use zvf_format::link::{self, Anchor, Endpoint, LinkCell, LinkInteger, LinkRecord};
use zvf_format::{Class, num};
use zvf_metadata::DtypeKind;
use zvf_metadata::arrays::LinksFamily;

use crate::arrays::{CellArray, Chunk, chunk_text, read_doc};
use crate::changes::Changes;
use crate::error::{At, EditError, Result, fail, unsupported};
use crate::indexes::{column_type, list_children, parse_scalar, read_count};
use crate::numbers::{NONE, Vid};
use crate::scalar::ColumnType;
use crate::snapshot::Snapshot;
use crate::widths;

/// One end of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// A vertex of level 0.
    Vertex(Vid),
    /// A row of another level, or one whose new number is known.
    Row(Chunk, u64),
    /// A row that was removed.
    Removed,
}

/// By rebuilt chunk: the new row of each old row, `NONE` where it was removed.
pub(crate) type RowMoves = BTreeMap<Chunk, Vec<u32>>;

/// Maps a row of level 0 to its end after the moves.
pub(crate) fn moved_end(path: &str, moves: &RowMoves, chunk: &Chunk, row: u64) -> Result<End> {
    let Some(rows) = moves.get(chunk) else { return Ok(End::Row(chunk.clone(), row)) };
    match usize::try_from(row).ok().and_then(|row| rows.get(row)) {
        Some(&NONE) => Ok(End::Removed),
        Some(now) => Ok(End::Row(chunk.clone(), u64::from(*now))),
        None => Err(missing_row_error(path, chunk, row, rows.len())),
    }
}

pub(crate) fn missing_row_error(path: &str, chunk: &[i64], row: u64, count: usize) -> EditError {
    EditError::new(
        Class::OutOfBounds,
        format!("{path}/links: a record names row {row} of chunk {chunk:?}, which has {count}"),
    )
}

/// Returns the error of a link at `path` whose end is a row that no fragment holds.
pub(crate) fn loose_end_error(path: &str) -> EditError {
    let text = "a link ends at a row that is in no fragment; run \"zvf validate\"";
    EditError::new(Class::OutOfBounds, text).with_place(path)
}

/// One link.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) ends: Vec<End>,
    /// The array, chunk and row where it is stored; `None` for a new link.
    pub(crate) cell: Option<(String, Chunk, u32)>,
    /// Its row of each column.
    pub(crate) values: Vec<Vec<u8>>,
    pub(crate) alive: bool,
    pub(crate) changed: bool,
}

impl Record {
    /// Creates a link between vertices.
    pub(crate) fn new(ends: impl IntoIterator<Item = Vid>, values: Vec<Vec<u8>>) -> Self {
        let ends = ends.into_iter().map(End::Vertex).collect();
        Self::with_ends(ends, values)
    }

    pub(crate) fn with_ends(ends: Vec<End>, values: Vec<Vec<u8>>) -> Self {
        Self { ends, cell: None, values, alive: true, changed: true }
    }

    /// Returns the ends that are vertices of level 0.
    pub(crate) fn vertices(&self) -> impl Iterator<Item = Vid> {
        self.ends.iter().filter_map(|end| if let End::Vertex(v) = end { Some(*v) } else { None })
    }

    /// Returns whether it was added, removed or changed.
    pub(crate) fn is_changed(&self) -> bool {
        match self.cell {
            None => self.alive,
            Some(_) => !self.alive || self.changed,
        }
    }
}

/// A column of links.
#[derive(Clone, Debug)]
pub(crate) struct LinkColumn {
    pub(crate) name: String,
    pub(crate) ty: ColumnType,
    pub(crate) attrs: Json,
    pub(crate) arrays: BTreeMap<String, CellArray>,
    pub(crate) fill: Vec<u8>,
    pub(crate) is_new: bool,
}

/// A record with its sort key: whether it is new in the cell and its old row, then its number.
type PlacedRecord = ((bool, u32), usize, LinkRecord);

/// A family of links.
#[derive(Clone, Debug)]
pub(crate) struct LinkFamily {
    pub(crate) path: String,
    delta_text: String,
    pub(crate) doc: Json,
    is_new: bool,
    pub(crate) policy: link::LinkPolicy,
    pub(crate) arrays: BTreeMap<String, CellArray>,
    pub(crate) columns: Vec<LinkColumn>,
    pub(crate) fragments: Option<CellArray>,
    loaded: HashMap<(String, Chunk), usize>,
    /// The number of records in the written cells, before and after, and whether any cell differs.
    written: (u64, u64),
    differs: bool,
    /// Whether a written record was stored in another cell than the one that it belongs to.
    pub(crate) has_strays: bool,
    pub(crate) records: Vec<Record>,
    pub(crate) by_vertex: HashMap<Vid, Vec<u32>>,
}

impl LinkFamily {
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
        // The default width is 2.
        let width = read_count(&group, attrs, "link_width")?.unwrap_or(2);
        let rank = read_count(&group, attrs, "sid_ndim")?.unwrap_or(axes);
        let mut policy = link::LinkPolicy::new(width, rank)?;
        let (directed, store) = (&attrs["directed"], &attrs["store"]);
        let is_known = (directed.is_null() || directed.is_boolean())
            && (store.is_null() || store == "canonical" || store == "duplicate");
        if !is_known {
            return unsupported(format!(
                "{group}: links that are directed: {directed} and store: {store} are not edited"
            ));
        }
        if *directed == true {
            policy = policy.with_direction();
        }
        if store == "duplicate" {
            return unsupported(format!(
                "{group}: links that are stored once for each chunk they touch are not edited; \
                 write the store again with \"zvf rewrite --format-version 0.9.2\""
            ));
        }
        let mut arrays = BTreeMap::new();
        for name in list_children(snap, &group)? {
            arrays.extend(
                CellArray::open(snap, &format!("{group}/{name}"))?.map(|array| (name, array)),
            );
        }
        let mut columns = Vec::new();
        for name in list_children(snap, &format!("{path}/link_attributes"))? {
            let inner = format!("{path}/link_attributes/{name}/{delta_text}");
            if read_doc(snap, &inner)?.is_none() {
                continue;
            }
            let mut column_arrays: BTreeMap<String, CellArray> = BTreeMap::new();
            for offsets in list_children(snap, &inner)? {
                column_arrays.extend(
                    CellArray::open(snap, &format!("{inner}/{offsets}"))?
                        .map(|array| (offsets, array)),
                );
            }
            let attrs = match column_arrays.values().next() {
                Some(array) => array.doc["attributes"].clone(),
                None => declared_link_column(snap, &name)?,
            };
            let width = widths::declared_link_width(&attrs).at(&inner)?;
            let ty = column_type(&attrs, width)?;
            let fill = ty.sentinel();
            columns.push(LinkColumn {
                name,
                ty,
                attrs,
                arrays: column_arrays,
                fill,
                is_new: false,
            });
        }
        let fragments = if delta == 0 {
            CellArray::open(snap, &format!("{path}/link_fragments"))?
        } else {
            None
        };
        let (is_new, empty) = (false, Self::create(path, width, rank)?);
        Ok(Some(Self { delta_text, doc, is_new, policy, arrays, columns, fragments, ..empty }))
    }

    /// Sets the delta and the anchor of a family between levels with different chunks.
    pub(crate) fn move_across(
        mut self,
        delta: i32,
        level_shape: &ChunkShape,
        linked_shape: &ChunkShape,
        root: &ChunkShape,
    ) -> Result<Self> {
        let anchor = Anchor::from_ratios(
            &level_shape.ratio_to(root)?,
            &linked_shape.ratio_to(root)?,
            self.policy.sid_ndim(),
        )?;
        self.policy = self.policy.with_delta(Delta(delta), anchor)?;
        Ok(self)
    }

    /// Creates a family without records.
    pub(crate) fn create(path: &str, width: usize, axes: usize) -> Result<Self> {
        let doc = json!({"zarr_format": 3, "node_type": "group", "attributes": {"zv_array": "links_family", "level_delta": 0,
            "link_width": width, "directed": false, "store": "canonical", "sid_ndim": axes, "num_links": 0, "num_physical_records": 0}});
        Ok(Self {
            path: path.to_owned(),
            delta_text: "0".to_owned(),
            doc,
            is_new: true,
            policy: link::LinkPolicy::new(width, axes)?,
            arrays: BTreeMap::new(),
            columns: Vec::new(),
            fragments: None,
            loaded: HashMap::new(),
            written: (0, 0),
            differs: false,
            has_strays: false,
            records: Vec::new(),
            by_vertex: HashMap::new(),
        })
    }

    fn link_integer(array: &CellArray) -> Result<LinkInteger> {
        let scalar = parse_scalar(array.attribute("dtype"), "int64")?;
        let is_signed = scalar.kind() == DtypeKind::Int;
        match u8::try_from(scalar.size()) {
            Ok(size) if is_signed || scalar.kind() == DtypeKind::UInt => {
                Ok(LinkInteger::new(size, is_signed)?)
            }
            _ => {
                let text = format!("{}: expected integers, found {}", array.path, scalar.name());
                fail(Class::BadTag, text)
            }
        }
    }

    /// Returns the offsets of an array, the shape of its rows, and whether it has the links within
    /// chunks.
    pub(crate) fn describe(&self, offsets: &str) -> Result<(Offsets, link::RowShape, bool)> {
        let (width, rank) = (self.policy.link_width(), self.policy.sid_ndim());
        let parsed = Offsets::parse(offsets, rank, width)?;
        let intra = self.policy.delta() == Delta::SAME && parsed.are_zero();
        let shape = self.row_shape(&self.arrays[offsets], intra)?;
        Ok((parsed, shape, intra))
    }

    /// Loads the records of a cell, unless they are loaded. `end` maps a row of level 0 to an end.
    pub(crate) fn load_cell(
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
        let array = self.arrays.get(offsets);
        let stored = array.map_or(Ok(None), |array| array.read_stored(snap, source))?;
        let Some((array, bytes)) = array.zip(stored) else {
            self.loaded.insert(cell, 0);
            return Ok(());
        };
        let (parsed, shape, intra) = self.describe(offsets)?;
        let (body, width) = (self.policy.body(intra), self.policy.link_width());
        let records = LinkCell::parse(&bytes, body, shape).at(&array.path)?;
        let key = ChunkKey::new(source)?;
        let chunks =
            end_chunks(source, &self.policy.anchor().map_chunk(&key)?, &parsed).at(&array.path)?;
        let mut values: Vec<Option<bytes::Bytes>> = Vec::new();
        for column in &self.columns {
            let array = column.arrays.get(offsets);
            let stored = array.map_or(Ok(None), |array| array.read_stored(snap, source))?;
            if let (Some(array), Some(bytes)) = (array, &stored) {
                let expected = records.records().count() * column.ty.size();
                widths::check_size(&array.path, source, bytes.len(), expected)?;
            }
            values.push(stored);
        }
        let mut found = Vec::new();
        for (row, (number, record)) in (0_u32..).zip(records.records()).enumerate() {
            let mut ends = Vec::with_capacity(width);
            for (place, at) in record.iter_in_input_order() {
                let chunk = &chunks[place];
                ends.push(match level_zero(place) {
                    true => end(chunk, at)?,
                    false => End::Row(chunk.clone(), at),
                });
            }
            let mut record_values = Vec::with_capacity(self.columns.len());
            for (column, bytes) in self.columns.iter().zip(&values) {
                let size = column.ty.size();
                let value =
                    bytes.as_ref().and_then(|bytes| bytes.get(row * size..(row + 1) * size));
                record_values.push(value.map_or_else(|| column.fill.clone(), <[u8]>::to_vec));
            }
            found.push(Record {
                ends,
                cell: Some((offsets.to_owned(), source.clone(), number)),
                values: record_values,
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

    /// Adds a record, and returns its number.
    pub(crate) fn insert(&mut self, record: Record) -> u32 {
        let number = num::index_u32(self.records.len());
        for v in record.vertices() {
            let list = self.by_vertex.entry(v).or_default();
            if list.last() != Some(&number) {
                list.push(number);
            }
        }
        self.records.push(record);
        number
    }

    /// Returns the records with an end at a vertex.
    pub(crate) fn records_at(&self, v: Vid) -> Vec<u32> {
        let all = self.by_vertex.get(&v).into_iter().flatten();
        all.copied().filter(|record| self.records[num::usize_from_u32(*record)].alive).collect()
    }

    /// Finds the cells that name one of the chunks at an end of level 0.
    fn find_cells(
        &self,
        offsets: &str,
        chunks: &BTreeSet<Chunk>,
        level_zero: &dyn Fn(usize) -> bool,
    ) -> Result<Vec<Chunk>> {
        let (width, rank) = (self.policy.link_width(), self.policy.sid_ndim());
        let parsed = Offsets::parse(offsets, rank, width)?;
        let array = &self.arrays[offsets];
        let mut sources = BTreeSet::new();
        if self.policy.delta() == Delta::SAME {
            for chunk in chunks {
                // A source that does not fit 64 bits is not stored.
                let others = parsed.iter().filter_map(|step| -> Option<Chunk> {
                    chunk.iter().zip(step).map(|(c, o)| c.checked_sub(*o)).collect()
                });
                let all = std::iter::once(chunk.clone()).chain(others);
                sources.extend(all.filter(|source| array.contains(source)));
            }
            return Ok(sources.into_iter().collect());
        }
        for source in array.chunks() {
            let anchor = self.policy.anchor().map_chunk(&ChunkKey::new(&source)?)?;
            let ends = end_chunks(&source, &anchor, &parsed).at(&array.path)?;
            let mut ends = ends.iter().enumerate();
            if ends.any(|(place, chunk)| level_zero(place) && chunks.contains(chunk)) {
                sources.insert(source);
            }
        }
        Ok(sources.into_iter().collect())
    }

    /// Loads all cells that name one of the chunks.
    pub(crate) fn load_cells_naming(
        &mut self,
        snap: &Snapshot,
        chunks: &BTreeSet<Chunk>,
        level_zero: &dyn Fn(usize) -> bool,
        end: &mut dyn FnMut(&Chunk, u64) -> Result<End>,
    ) -> Result<()> {
        for (offsets, source) in self.cells_naming(chunks, level_zero)? {
            self.load_cell(snap, &offsets, &source, level_zero, end)?;
        }
        Ok(())
    }

    /// Finds the cells that name one of the chunks, each with its offsets.
    pub(crate) fn cells_naming(
        &self,
        chunks: &BTreeSet<Chunk>,
        level_zero: &dyn Fn(usize) -> bool,
    ) -> Result<Vec<(String, Chunk)>> {
        let mut cells = Vec::new();
        for offsets in self.arrays.keys() {
            let found = self.find_cells(offsets, chunks, level_zero)?.into_iter();
            cells.extend(found.map(|source| (offsets.clone(), source)));
        }
        Ok(cells)
    }

    /// Extends all arrays to chunks from `low` to `high`, both included.
    pub(crate) fn extend_grids(&mut self, low: &[i64], high: &[i64]) -> Result<()> {
        let column_arrays = self.columns.iter_mut().flat_map(|column| column.arrays.values_mut());
        let arrays = self.arrays.values_mut().chain(column_arrays);
        for array in arrays.chain(self.fragments.iter_mut()) {
            array.extend_grid(low, high)?;
        }
        Ok(())
    }

    /// Returns the values of a link that states none.
    pub(crate) fn blank_values(&self) -> Vec<Vec<u8>> {
        self.columns.iter().map(|column| column.fill.clone()).collect()
    }

    /// Removes all loaded records, which the caller recreates.
    pub(crate) fn clear_records(&mut self) {
        self.records.clear();
        self.by_vertex.clear();
    }

    /// Loads the cells that name these chunks for their counts only.
    pub(crate) fn load_counts(&mut self, snap: &Snapshot, chunks: &BTreeSet<Chunk>) -> Result<()> {
        self.load_cells_naming(snap, chunks, &|_| false, &mut |_, _| Ok(End::Removed))
    }

    /// Writes the loaded cells and new ones, where they differ. Returns whether any did.
    pub(crate) fn flush(
        &mut self,
        snap: &Snapshot,
        like: &CellArray,
        place: &dyn Fn(Vid) -> Result<Option<(Chunk, u64)>>,
        out: &mut Changes,
    ) -> Result<bool> {
        self.write_cells(snap, like, place)?;
        let ((before, after), changed) = (self.written, self.differs);
        if self.is_new && after == 0 {
            return Ok(false);
        }
        let names = json!(self.arrays.keys().collect::<Vec<_>>());
        let list = self.doc["attributes"].get(LinksFamily::SEGMENTS);
        let lists_others = list.is_some_and(|list| list["names"] != names);
        if before != after || self.is_new || lists_others {
            self.write_document(snap, (before, after), out)?;
        }
        for column in &mut self.columns {
            if column.is_new || before != after {
                column.write_documents(snap, &self.path, (self.policy.delta(), &self.doc), out)?;
            }
            for array in column.arrays.values_mut() {
                array.flush(snap, out)?;
            }
        }
        for array in self.arrays.values_mut().chain(self.fragments.iter_mut()) {
            array.flush(snap, out)?;
        }
        Ok(changed || before != after)
    }

    /// Writes the loaded cells and new ones, where they differ, and forgets their records.
    pub(crate) fn write_cells(
        &mut self,
        snap: &Snapshot,
        like: &CellArray,
        place: &dyn Fn(Vid) -> Result<Option<(Chunk, u64)>>,
    ) -> Result<()> {
        for ((offsets, source), mut list) in self.place_records(place)? {
            list.sort_by_key(|(key, number, _)| (*key, *number));
            // A cell that was not loaded had no records.
            let old = self.loaded.get(&(offsets.clone(), source.clone())).copied().unwrap_or(0);
            self.written.0 += num::to_u64(old);
            self.written.1 += num::to_u64(list.len());
            self.has_strays |= list.iter().any(|((is_moved, _), number, _)| {
                *is_moved && self.records[*number].cell.is_some()
            });
            if old > 0 || !list.is_empty() {
                self.differs |= self.write_cell(snap, like, (&offsets, &source), &list)?;
            }
        }
        self.loaded.clear();
        self.clear_records();
        Ok(())
    }

    /// Forgets what was written.
    pub(crate) fn begin_again(&mut self) {
        (self.written, self.has_strays) = ((0, 0), false);
    }

    /// Assigns records to cells; every loaded cell has an entry. Records with a removed end are dropped.
    fn place_records(
        &self,
        place: &dyn Fn(Vid) -> Result<Option<(Chunk, u64)>>,
    ) -> Result<BTreeMap<(String, Chunk), Vec<PlacedRecord>>> {
        let mut cells: BTreeMap<(String, Chunk), Vec<PlacedRecord>> =
            self.loaded.keys().map(|cell| (cell.clone(), Vec::new())).collect();
        for (number, record) in self.records.iter().enumerate().filter(|(_, record)| record.alive) {
            let found = record.ends.iter().map(|end| match end {
                End::Vertex(v) => place(*v),
                End::Row(chunk, row) => Ok(Some((chunk.clone(), *row))),
                End::Removed => Ok(None),
            });
            // A link goes with a removed vertex.
            let Some(found) = found.collect::<Result<Option<Vec<_>>>>()? else { continue };
            for (cell, placed) in self.placements(&found)? {
                let key = match &record.cell {
                    Some((old, chunk, row)) if *old == cell.0 && *chunk == cell.1 => (false, *row),
                    _ => (true, num::index_u32(number)),
                };
                cells.entry(cell).or_default().push((key, number, placed));
            }
        }
        Ok(cells)
    }

    /// Returns the cells of a record with these ends, and its form in each.
    pub(crate) fn placements(
        &self,
        ends: &[(Chunk, u64)],
    ) -> Result<Vec<((String, Chunk), LinkRecord)>> {
        let ends = ends.iter().map(|(chunk, row)| Ok((ChunkKey::new(chunk)?, *row)));
        let ends = ends.collect::<Result<Vec<_>>>()?;
        let ends: Vec<Endpoint<'_>> =
            ends.iter().map(|(chunk, row)| Endpoint { chunk, row: *row }).collect();
        let placements = self.policy.place(&ends)?.map(|placement| {
            let offsets = match self.policy.link_width() {
                1 => "self".to_owned(),
                _ => placement.offsets().to_string(),
            };
            ((offsets, placement.source().components().to_vec()), placement.record())
        });
        Ok(placements.collect())
    }

    /// Writes the records of a cell and their values. Returns whether the records differ from the stored ones.
    fn write_cell(
        &mut self,
        snap: &Snapshot,
        like: &CellArray,
        (offsets, source): (&str, &Chunk),
        list: &[PlacedRecord],
    ) -> Result<bool> {
        let (width, rank) = (self.policy.link_width(), self.policy.sid_ndim());
        let parsed = Offsets::parse(offsets, rank, width)?;
        let intra = self.policy.delta() == Delta::SAME && parsed.are_zero();
        let mut array = match self.arrays.remove(offsets) {
            Some(array) => array,
            None => self.create_array(like, offsets, (&parsed, intra)),
        };
        let written = self.write_records(snap, &mut array, (source, intra), list);
        let steps = array.attribute("offsets").clone();
        self.arrays.insert(offsets.to_owned(), array);
        let differs = written?;
        for at in 0..self.columns.len() {
            self.write_column(snap, like, (offsets, source, &steps), (at, list))?;
        }
        if intra && differs {
            self.write_fragments(like, source, list.len())?;
        }
        Ok(differs)
    }

    /// Creates the array of the records with these offsets.
    fn create_array(
        &self,
        like: &CellArray,
        offsets: &str,
        (parsed, intra): (&Offsets, bool),
    ) -> CellArray {
        let width = self.policy.link_width();
        let path = format!("{}/links/{}/{offsets}", self.path, self.delta_text);
        let steps: Vec<Vec<i64>> = parsed.iter().map(<[i64]>::to_vec).collect();
        let attrs = json!({"nonempty_chunks": [], "zv_array": "links", "dtype": "int64", "offsets": steps,
            "has_perm": self.policy.has_perm(intra), "link_width": width, "level_delta": self.policy.delta().0});
        CellArray::create(like, &path, attrs)
    }

    /// Writes records to a cell, unless the same are stored. Returns whether they differ.
    fn write_records(
        &self,
        snap: &Snapshot,
        array: &mut CellArray,
        (source, intra): (&Chunk, bool),
        list: &[PlacedRecord],
    ) -> Result<bool> {
        let shape = self.row_shape(array, intra)?;
        let body = self.policy.body(intra);
        let rows: Vec<LinkRecord> = list.iter().map(|(.., record)| *record).collect();
        let bytes = if rows.is_empty() { Vec::new() } else { link::encode(&[&rows], body, shape)? };
        let stored = array.read_stored(snap, source)?;
        let same = stored.as_deref().unwrap_or_default() == bytes
            || stored.as_deref().is_some_and(|stored| same_records(stored, &rows, body, shape));
        if !same {
            array.put_chunk(source, bytes);
        }
        Ok(!same)
    }

    /// Returns the row shape of an array, with a permutation where its document declares one.
    fn row_shape(&self, array: &CellArray, intra: bool) -> Result<link::RowShape> {
        let element = Self::link_integer(array)?;
        Ok(match array.attribute("has_perm").as_bool() {
            Some(has_perm) => link::RowShape::new(element, self.policy.link_width(), has_perm)?,
            None => self.policy.row_shape(element, intra),
        })
    }

    /// Writes the values of the records of a cell to the column `at`.
    fn write_column(
        &mut self,
        snap: &Snapshot,
        like: &CellArray,
        (offsets, source, steps): (&str, &Chunk, &Json),
        (at, list): (usize, &[PlacedRecord]),
    ) -> Result<()> {
        let values: Vec<u8> = list
            .iter()
            .flat_map(|(_, number, _)| self.records[*number].values[at].iter().copied())
            .collect();
        let column = &mut self.columns[at];
        if !column.arrays.contains_key(offsets) {
            if values.is_empty() {
                return Ok(());
            }
            let path = format!(
                "{}/link_attributes/{}/{}/{offsets}",
                self.path, column.name, self.delta_text
            );
            let mut attrs = column.attrs.clone();
            attrs["nonempty_chunks"] = json!([]);
            attrs["zv_array"] = json!("link_attribute");
            attrs["name"] = json!(column.name);
            attrs["offsets"] = steps.clone();
            attrs["level_delta"] = json!(self.policy.delta().0);
            if let Some(attrs) = attrs.as_object_mut() {
                attrs.shift_remove("chunk_grid_origin");
            }
            column.arrays.insert(offsets.to_owned(), CellArray::create(like, &path, attrs));
        }
        if let Some(array) = column.arrays.get_mut(offsets)
            && array.read(snap, source)?.as_deref().unwrap_or_default() != values
        {
            array.put_chunk(source, values);
        }
        Ok(())
    }

    /// Writes one fragment with all records within a chunk.
    fn write_fragments(&mut self, like: &CellArray, source: &Chunk, count: usize) -> Result<()> {
        let path = format!("{}/link_fragments", self.path);
        let fragments = self.fragments.get_or_insert_with(|| {
            let attrs = json!({"nonempty_chunks": [], "zv_array": "link_fragments", "encoding": "fragment_index_v1"});
            CellArray::create(like, &path, attrs)
        });
        let mut index = FragmentIndexBuilder::new();
        index.push_range(0, num::to_u64(count))?;
        fragments.put_chunk(source, if count == 0 { Vec::new() } else { index.encode() });
        Ok(())
    }

    /// Writes the document of the family, after `before` of its records became `after`.
    fn write_document(
        &mut self,
        snap: &Snapshot,
        (before, after): (u64, u64),
        out: &mut Changes,
    ) -> Result<()> {
        for name in ["num_links", "num_physical_records"] {
            // A count that is absent stays absent.
            let place = format!("{}/links/{}", self.path, self.delta_text);
            let Some(old) = read_count(&place, &self.doc["attributes"], name)? else { continue };
            let all = num::to_u64(old).checked_add(after);
            let count = all.and_then(|all| all.checked_sub(before)).ok_or_else(|| {
                let text = format!(
                    "{place}, {name}: expected all links, of which {before} changed, found {old}; run \"zvf validate\"",
                );
                EditError::new(Class::CountMismatch, text)
            })?;
            self.doc["attributes"][name] = json!(count);
        }
        let rows = self.doc["attributes"]["num_physical_records"].as_u64();
        if let Some(list) = self.doc["attributes"].get_mut(LinksFamily::SEGMENTS) {
            *list = LinksFamily::segment_list(self.arrays.keys().map(String::as_str), rows);
        }
        let group = format!("{}/links", self.path);
        if self.is_new {
            out.ensure_group(snap, &group)?;
        }
        out.put_doc(&format!("{group}/{}", self.delta_text), &self.doc)
    }
}

/// Returns the attributes of a column of links that has no array yet, as the root declares it.
fn declared_link_column(snap: &Snapshot, name: &str) -> Result<Json> {
    let mut attrs = json!({"dtype": "float32"}); // the type of columns that name none
    let Some(root) = read_doc(snap, "")? else { return Ok(attrs) };
    let spec = &root["attributes"]["zarr_vectors"]["attribute_specs"]["link"][name];
    if !spec["dtype"].is_null() {
        attrs["dtype"] = spec["dtype"].clone();
    }
    if !spec["channels"].is_null() {
        attrs["row_shape"] = json!([spec["channels"]]);
    }
    Ok(attrs)
}

impl LinkColumn {
    /// Writes the documents of the groups above the arrays of a column. `family` is the document of the family.
    fn write_documents(
        &self,
        snap: &Snapshot,
        level: &str,
        (delta, family): (Delta, &Json),
        out: &mut Changes,
    ) -> Result<()> {
        let above = format!("{level}/link_attributes");
        let group = format!("{above}/{}", self.name);
        if self.is_new {
            out.ensure_group(snap, &above)?;
            out.ensure_group(snap, &group)?;
        }
        let mut doc = json!({"zarr_format": 3, "node_type": "group", "attributes": {"zv_array": "link_attribute_family", "name": self.name,
            "level_delta": delta.0}});
        if let Some(count) = family["attributes"].get("num_links") {
            doc["attributes"]["num_links"] = count.clone();
        }
        out.put_doc(&format!("{group}/{delta}"), &doc)?;
        Ok(())
    }
}

/// Returns the chunk of each end of a record: `source` for the first, and `anchor` moved by the offset of each other.
pub(crate) fn end_chunks(
    source: &Chunk,
    anchor: &ChunkKey,
    offsets: &Offsets,
) -> Result<Vec<Chunk>> {
    let others = offsets
        .iter()
        .map(|step| anchor.components().iter().zip(step).map(|(a, o)| a.checked_add(*o)).collect());
    let ends: Option<Vec<Chunk>> = std::iter::once(Some(source.clone())).chain(others).collect();
    ends.ok_or_else(|| {
        let text = format!(
            "links of chunk {}: an end at {offsets} does not fit 64 bits",
            chunk_text(source)
        );
        EditError::new(Class::OutOfBounds, text)
    })
}

fn same_records(
    stored: &[u8],
    rows: &[LinkRecord],
    body: link::Body,
    shape: link::RowShape,
) -> bool {
    // The grouping of records within a cell does not matter.
    LinkCell::parse(stored, body, shape)
        .is_ok_and(|cell| cell.len() == rows.len() && cell.records().eq(rows.iter().copied()))
}
