//! The records of one family of links during an edit. Ends are vertices rather than rows, so that they follow moves.
//!
//! ```text
//! delta 0     all ends are vertices of level 0
//! delta +n    stored at level 0: the first end is a vertex of level 0, the others are rows of level n
//! delta -n    stored at level n: the first end is a row of level n, the others are vertices of level 0
//! ```
//!
//! Only cells that name a chunk of interest are read. Not here: which links exist (`linking`).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use serde_json::{Value as Json, json};
use zvf_format::grid::ChunkShape;
use zvf_format::key::{ChunkKey, Delta, Offsets};
use zvf_format::link::{self, Anchor, LinkCell, LinkInteger};
use zvf_format::{Class, num};
use zvf_metadata::DtypeKind;

use crate::arrays::{CellArray, Chunk};
use crate::cell_column::{check_size, declared_link_width, rename_array};
use crate::changes::Changes;
use crate::error::{At, EditError, Result, fail, unsupported};
use crate::indexes::{column_type, list_children, parse_scalar, read_count};
use crate::numbers::{End, NONE, Records, Vid};
use crate::scalar::ColumnType;
use crate::snapshot::{Snapshot, doc_key, read_doc};
use crate::stored_column::{StoredColumn, sibling_path};

/// By rebuilt chunk: the new row of each old row, `NONE` where it was removed.
pub(crate) type RowMoves = BTreeMap<Chunk, Vec<u32>>;

/// Maps a row of level 0 to its end after the moves.
pub(crate) fn moved_end(path: &str, moves: &RowMoves, chunk: &Chunk, row: u64) -> Result<End> {
    let Some(rows) = moves.get(chunk) else { return Ok(End::row(chunk, row)) };
    match usize::try_from(row).ok().and_then(|row| rows.get(row)) {
        Some(&NONE) => Ok(End::Removed),
        Some(now) => Ok(End::row(chunk, u64::from(*now))),
        None => Err(missing_row_error(path, chunk, row, rows.len())),
    }
}

pub(crate) fn missing_row_error(path: &str, chunk: &[i64], row: u64, count: usize) -> EditError {
    let text =
        format!("{path}/links: a record names row {row} of chunk {chunk:?}, which has {count}");
    EditError::new(Class::OutOfBounds, text)
}

/// Returns the error of a link at `path` whose end is a row that no fragment holds.
pub(crate) fn loose_end_error(path: &str) -> EditError {
    let text = "a link ends at a row that is in no fragment; run \"zvf validate\"";
    EditError::new(Class::OutOfBounds, text).with_place(path)
}

/// A column of links.
#[derive(Clone, Debug)]
pub(crate) struct LinkColumn {
    pub(crate) name: String,
    /// The path of its group.
    pub(crate) group: String,
    pub(crate) ty: ColumnType,
    pub(crate) attrs: Json,
    pub(crate) arrays: BTreeMap<String, CellArray>,
    pub(crate) is_new: bool,
}

impl StoredColumn for LinkColumn {
    fn name(&self) -> &str {
        &self.name
    }

    fn push_removal(&self, out: &mut Changes) -> Result<()> {
        self.arrays.values().try_for_each(|array| array.push_removal(out))?;
        out.insert(doc_key(&format!("{}/0", self.group)), None);
        out.insert(doc_key(&self.group), None);
        Ok(())
    }

    fn rename(&mut self, to: &str) -> Result<()> {
        to.clone_into(&mut self.name);
        self.attrs["name"] = json!(to);
        (self.group, self.is_new) = (sibling_path(&self.group, to), true);
        let mut arrays = self.arrays.iter_mut();
        arrays.try_for_each(|(offsets, array)| {
            rename_array(array, &format!("{}/0/{offsets}", self.group), to)
        })
    }
}

/// A family of links.
#[derive(Clone, Debug)]
pub(crate) struct LinkFamily {
    pub(crate) snap: Rc<Snapshot>,
    pub(crate) path: String,
    pub(crate) delta_text: String,
    pub(crate) doc: Json,
    pub(crate) is_new: bool,
    pub(crate) policy: link::LinkPolicy,
    pub(crate) arrays: BTreeMap<String, CellArray>,
    pub(crate) columns: Vec<LinkColumn>,
    pub(crate) fragments: Option<CellArray>,
    pub(crate) loaded: HashMap<(String, Chunk), usize>,
    /// The number of records in the written cells, before and after, and whether any cell differs.
    pub(crate) written: (u64, u64),
    pub(crate) differs: bool,
    /// Whether a written record was stored in another cell than the one that it belongs to.
    pub(crate) has_strays: bool,
    pub(crate) records: Records,
    /// The cells of these records.
    pub(crate) cells: Vec<(String, Chunk)>,
}

impl LinkFamily {
    /// Opens the family between a level and the one `delta` away.
    pub(crate) fn open(
        snap: &Rc<Snapshot>,
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
        let arrays = open_arrays(snap, &group)?;
        let mut columns = Vec::new();
        for name in list_children(snap, &format!("{path}/link_attributes"))? {
            let group = format!("{path}/link_attributes/{name}");
            let inner = format!("{group}/{delta_text}");
            let Some(doc) = read_doc(snap, &inner)? else { continue };
            let arrays = open_arrays(snap, &inner)?;
            let attrs = match arrays.values().next() {
                Some(array) => array.doc["attributes"].clone(),
                None if doc["attributes"].get("dtype").is_some() => doc["attributes"].clone(),
                None => declared_link_column(snap, &name)?,
            };
            let width = declared_link_width(&attrs).at(&inner)?;
            let ty = column_type(&attrs, width)?;
            columns.push(LinkColumn { name, group, ty, attrs, arrays, is_new: false });
        }
        let fragments = if delta == 0 {
            CellArray::open(snap, &format!("{path}/link_fragments"))?
        } else {
            None
        };
        let (is_new, mut empty) = (false, Self::create(snap, path, width, rank)?);
        columns.iter().for_each(|column| empty.records.add_column(&column.ty.sentinel()));
        Ok(Some(Self { delta_text, doc, is_new, policy, arrays, columns, fragments, ..empty }))
    }

    /// Returns whether there are records, or were before the edit.
    pub(crate) fn is_stored(&self) -> bool {
        !self.is_new || !self.arrays.is_empty()
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
    pub(crate) fn create(
        snap: &Rc<Snapshot>,
        path: &str,
        width: usize,
        axes: usize,
    ) -> Result<Self> {
        let doc = json!({"zarr_format": 3, "node_type": "group", "attributes": {"zv_array": "links_family", "level_delta": 0,
            "link_width": width, "directed": false, "store": "canonical", "sid_ndim": axes, "num_links": 0, "num_physical_records": 0}});
        let policy = link::LinkPolicy::new(width, axes)?;
        Ok(Self { doc, ..Self::placeholder(snap, path, policy) })
    }

    /// Returns a family without a document, in the place of one that is taken.
    pub(crate) fn placeholder(snap: &Rc<Snapshot>, path: &str, policy: link::LinkPolicy) -> Self {
        Self {
            snap: Rc::clone(snap),
            path: path.to_owned(),
            delta_text: "0".to_owned(),
            doc: Json::Null,
            is_new: true,
            policy,
            arrays: BTreeMap::new(),
            columns: Vec::new(),
            fragments: None,
            loaded: HashMap::new(),
            written: (0, 0),
            differs: false,
            has_strays: false,
            records: Records::new(&snap.journal.place.memory),
            cells: Vec::new(),
        }
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
        let (parsed, intra) = self.parse_offsets(offsets)?;
        let shape = self.row_shape(&self.arrays[offsets], intra)?;
        Ok((parsed, shape, intra))
    }

    /// Returns the chunk of each end of the records of a cell.
    pub(crate) fn end_chunks(&self, source: &Chunk, offsets: &Offsets) -> Result<Vec<Chunk>> {
        let cell = self.policy.endpoint_chunks(&ChunkKey::new(source)?, offsets)?;
        Ok(cell.chunks().iter().map(|chunk| chunk.components().to_vec()).collect())
    }

    /// Parses the offsets that an array is named after. Returns them, and whether its links are
    /// within chunks.
    pub(crate) fn parse_offsets(&self, offsets: &str) -> Result<(Offsets, bool)> {
        let parsed = Offsets::parse(offsets, self.policy.sid_ndim(), self.policy.link_width())?;
        let intra = self.policy.delta() == Delta::SAME && parsed.are_zero();
        Ok((parsed, intra))
    }

    /// Loads the records of a cell, unless they are loaded. `end` maps a row of level 0 to an end.
    pub(crate) fn load_cell(
        &mut self,
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
        let stored = array.map_or(Ok(None), |array| array.read_stored(source))?;
        let Some((array, bytes)) = array.zip(stored) else {
            self.loaded.insert(cell, 0);
            return Ok(());
        };
        let (parsed, shape, intra) = self.describe(offsets)?;
        let body = self.policy.body(intra);
        let records = LinkCell::parse(&bytes, body, shape).at(&array.path)?;
        let chunks = self.end_chunks(source, &parsed).at(&array.path)?;
        let mut values: Vec<Option<bytes::Bytes>> = Vec::new();
        for column in &self.columns {
            let array = column.arrays.get(offsets);
            let stored = array.map_or(Ok(None), |array| array.read_stored(source))?;
            if let (Some(array), Some(bytes)) = (array, &stored) {
                let expected = records.records().count() * column.ty.size();
                check_size(&array.path, source, bytes.len(), expected)?;
            }
            values.push(stored);
        }
        let (cell_number, mut count) = (num::index_u32(self.cells.len()), 0);
        let blank = self.blank_values();
        for (number, record) in (0_u32..).zip(records.records()) {
            let mut ends = Vec::with_capacity(chunks.len());
            for (place, at) in record.iter_in_input_order() {
                let chunk = &chunks[place];
                ends.push(match level_zero(place) {
                    true => end(chunk, at)?,
                    false => End::row(chunk, at),
                });
            }
            let values = blank.iter().zip(&values).map(|(blank, bytes)| {
                let size = blank.len();
                let value = bytes.as_ref().and_then(|bytes| bytes.get(count * size..)?.get(..size));
                value.unwrap_or(blank)
            });
            self.records.push(ends, (cell_number, number), values)?;
            count += 1;
        }
        self.cells.push(cell.clone());
        self.loaded.insert(cell, count);
        Ok(())
    }

    /// Adds a link between vertices. Returns its number.
    pub(crate) fn insert(
        &mut self,
        ends: impl IntoIterator<Item = Vid>,
        values: &[Vec<u8>],
    ) -> Result<u32> {
        let ends = ends.into_iter().map(End::Vertex);
        self.records.push(ends, (NONE, 0), values.iter().map(Vec::as_slice))
    }

    /// Finds the cells that name one of the chunks at an end of level 0.
    fn find_cells(
        &self,
        offsets: &str,
        chunks: &BTreeSet<Chunk>,
        level_zero: &dyn Fn(usize) -> bool,
    ) -> Result<Vec<Chunk>> {
        let (parsed, _) = self.parse_offsets(offsets)?;
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
            let ends = self.end_chunks(&source, &parsed).at(&array.path)?;
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
        chunks: &BTreeSet<Chunk>,
        level_zero: &dyn Fn(usize) -> bool,
        end: &mut dyn FnMut(&Chunk, u64) -> Result<End>,
    ) -> Result<()> {
        for (offsets, source) in self.cells_naming(chunks, level_zero)? {
            self.load_cell(&offsets, &source, level_zero, end)?;
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
        self.columns.iter().map(|column| column.ty.sentinel()).collect()
    }

    /// Returns the row shape of an array, with a permutation where its document declares one.
    pub(crate) fn row_shape(&self, array: &CellArray, intra: bool) -> Result<link::RowShape> {
        let element = Self::link_integer(array)?;
        Ok(match array.attribute("has_perm").as_bool() {
            Some(has_perm) => link::RowShape::new(element, self.policy.link_width(), has_perm)?,
            None => self.policy.row_shape(element, intra),
        })
    }
}

/// Opens the arrays in a group, by the offsets of their links.
fn open_arrays(snap: &Rc<Snapshot>, group: &str) -> Result<BTreeMap<String, CellArray>> {
    let open = |name: String| {
        let array = CellArray::open(snap, &format!("{group}/{name}")).transpose()?;
        Some(array.map(|array| (name, array)))
    };
    list_children(snap, group)?.into_iter().filter_map(open).collect()
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
