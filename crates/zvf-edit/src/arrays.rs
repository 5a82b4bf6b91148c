//! Arrays of a store during an edit: the document, cells that are read, and cells that are staged for the commit.
//!
//! ```text
//! CellArray    one payload for each spatial chunk: vertices, fragments, attributes, links
//! ```
//!
//! Not here: arrays of rows (`row_array`), and what a payload means.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use serde_json::{Map, Value as Json, json};
use zvf_format::Class;
use zvf_format::num::{checked_usize, saturating_usize, to_u64};
use zvf_format::shard::{IndexLocation, ShardIndex, encode_index};
use zvf_format::vlen::{VlenCell, encode_cell};
use zvf_metadata::{ArrayDoc, CodecKind};
use zvf_store::CodecPipeline;

use crate::changes::{Blob, Changes, read_blob};
use crate::error::{At, OrFail, Result, fail, unsupported};
use crate::scalar::ColumnType;
use crate::snapshot::{Snapshot, doc_key};

/// The absolute coordinates of a spatial chunk.
pub(crate) type Chunk = Vec<i64>;

/// Formats the coordinates of a chunk as in `nonempty_chunks`.
pub(crate) fn chunk_text(chunk: &[i64]) -> String {
    let parts: Vec<String> = chunk.iter().map(i64::to_string).collect();
    parts.join(".")
}

fn need_integers(path: &str, object: &Json, name: &str) -> Result<Vec<i64>> {
    let list = object[name].as_array();
    let list = list.and_then(|list| list.iter().map(Json::as_i64).collect());
    list.or_fail(Class::Encoding, || {
        format!("{path}, {name}: expected a list of whole numbers, found {}", object[name])
    })
}

fn attributes(doc: &mut Json) -> Option<&mut Map<String, Json>> {
    doc.get_mut("attributes")?.as_object_mut()
}

/// The encoding of the chunks of an array, and their files: each is a chunk, or a shard of chunks.
#[derive(Clone, Debug)]
pub(crate) struct Coding {
    codecs: CodecPipeline,
    pub(crate) is_big_endian: bool,
    /// The chunks of a shard along each axis, where the array is sharded.
    pub(crate) shard: Option<Vec<i64>>,
    /// The number of chunks of a file.
    pub(crate) cells: usize,
    checksum: bool, // whether the shard index has one
}

impl Coding {
    /// Returns the encoding that a document declares.
    pub(crate) fn open(path: &str, doc: &ArrayDoc) -> Result<Self> {
        if !doc.chunk_key_encoding.is_usual() {
            return unsupported(format!(
                "{path}: arrays whose chunks have other names than c/0/1 are not edited"
            ));
        }
        let sharding = doc.sharding();
        let list = sharding.map_or(&doc.codecs, |sharding| &sharding.codecs);
        let mut is_big_endian = false;
        let mut steps = Vec::new();
        for codec in list {
            let kind = codec.kind();
            if matches!(kind, CodecKind::Transpose { .. }) {
                return unsupported(format!("{path}: arrays with turned axes are not edited"));
            }
            if let CodecKind::Bytes { big_endian } = kind {
                is_big_endian = *big_endian == Some(true);
            } else if !matches!(kind, CodecKind::VlenBytes) {
                steps.push(codec.clone());
            }
        }
        let codecs = CodecPipeline::from_specs(&steps).at(path)?;
        let Some(sharding) = sharding else {
            return Ok(Self { codecs, is_big_endian, shard: None, cells: 1, checksum: true });
        };
        if sharding.index_at_start {
            return unsupported(format!("{path}: shards with their index in front are not edited"));
        }
        let checksum =
            sharding.index_codecs.iter().any(|codec| matches!(codec.kind(), CodecKind::Crc32c));
        // The chunk of a sharded array is the shard.
        let sides = doc.chunk_shape.iter().zip(doc.inner_chunk_shape());
        let sides = sides.map(|(shard, chunk)| shard.checked_div(*chunk).filter(|side| *side > 0));
        let count = |cells: u64, side: Option<u64>| cells.checked_mul(side?);
        let cells = sides.clone().try_fold(1, count).filter(|cells| *cells <= MAX_SHARD_CELLS);
        let cells = cells.and_then(checked_usize).or_fail(Class::BadShape, || {
            let shard = &doc.chunk_shape;
            format!(
                "{path}: shards of {shard:?} cells: expected at most {MAX_SHARD_CELLS} cells in one"
            )
        })?;
        let shard = sides.map(|side| side.and_then(|side| i64::try_from(side).ok())).collect();
        Ok(Self { codecs, is_big_endian, shard, cells, checksum })
    }

    /// Returns the file of a chunk, and the index of the chunk in it.
    pub(crate) fn locate(&self, chunk: &[i64]) -> (Vec<i64>, usize) {
        let Some(shard) = &self.shard else { return (chunk.to_vec(), 0) };
        let sides = || chunk.iter().zip(shard);
        let place = sides().fold(0, |place, (at, side)| place * side + at.rem_euclid(*side));
        // Below the number of chunks, which fits.
        let place = saturating_usize(place.cast_unsigned());
        (sides().map(|(at, side)| at.div_euclid(*side)).collect(), place)
    }

    /// Opens the chunks of a file; none of a file that is not there.
    pub(crate) fn open_file(&self, snap: &Snapshot, key: &str) -> Result<Vec<Option<Blob>>> {
        let stored = snap.open_object(key)?;
        let Some(shard) = stored.as_ref().filter(|_| self.shard.is_some()) else {
            let mut cells = vec![None; self.cells];
            cells[0] = stored;
            return Ok(cells);
        };
        let (count, len) = (to_u64(self.cells), to_u64(shard.len()));
        let span = IndexLocation::End.span(count, self.checksum, len).at(key)?;
        let bytes = shard.part(to_usize(&span)).read()?;
        let index = ShardIndex::parse(&bytes, count, self.checksum).at(key)?;
        index.check_spans(len, IndexLocation::End).at(key)?;
        let cell = |i| index.get(i).map(|span| shard.part(to_usize(&span)));
        Ok((0..self.cells).map(cell).collect())
    }

    /// Decodes a chunk.
    pub(crate) fn unpack(&self, stored: Bytes) -> zvf_error::Result<Bytes> {
        self.codecs.unpack(stored, MAX_CELL_BYTES)
    }

    /// Encodes a chunk.
    pub(crate) fn pack(&self, plain: Vec<u8>) -> Result<Bytes> {
        Ok(self.codecs.pack(plain.into())?)
    }

    /// Returns the file of these chunks; `None` without chunks.
    pub(crate) fn join(&self, mut cells: Vec<Option<Bytes>>) -> Result<Option<Bytes>> {
        if self.shard.is_none() {
            return Ok(cells.pop().flatten());
        } else if cells.iter().all(Option::is_none) {
            return Ok(None);
        }
        let mut body = Vec::new();
        let mut spans: Vec<Option<Range<u64>>> = Vec::new();
        for cell in &cells {
            spans.push(cell.as_ref().map(|cell| {
                let from = to_u64(body.len());
                body.extend_from_slice(cell);
                from..to_u64(body.len())
            }));
        }
        body.extend(encode_index(&spans, self.checksum)?);
        Ok(Some(body.into()))
    }
}

/// An array with one payload for each spatial chunk.
#[derive(Clone, Debug)]
pub(crate) struct CellArray {
    snap: Rc<Snapshot>,
    pub(crate) path: String,
    pub(crate) doc: Json,
    origin: Vec<i64>,
    shape: Vec<i64>,
    coding: Coding,
    present: BTreeSet<Chunk>,
    staged: Changes<Chunk>,
    /// The origin and the stored chunks from before the origin changed.
    old_grid: Option<(Vec<i64>, BTreeSet<Chunk>)>,
    is_new: bool,
    changed: bool,
}

impl CellArray {
    pub(crate) fn open(snap: &Rc<Snapshot>, path: &str) -> Result<Option<Self>> {
        let Some(text) = snap.get(&doc_key(path))? else { return Ok(None) };
        let doc: Json = serde_json::from_slice(&text).at(path)?;
        if doc["node_type"] != "array" {
            return unsupported(format!(
                "{path}: stores of formats before 0.9 are not edited; write them again with \"zvf \
                 rewrite --format-version 0.9.2\""
            ));
        }
        let typed = ArrayDoc::parse(&text).at(path)?;
        let coding = Coding::open(path, &typed)?;
        let shape = need_integers(path, &doc, "shape")?;
        let origin = match doc["attributes"]["chunk_grid_origin"].is_null() {
            true => vec![0; shape.len()],
            false => need_integers(path, &doc["attributes"], "chunk_grid_origin")?,
        };
        if origin.len() != shape.len() {
            let text = format!(
                "{path}, chunk_grid_origin: expected {} numbers, found {}",
                shape.len(),
                origin.len()
            );
            return fail(Class::BadShape, text);
        }
        let Some(list) = &typed.nonempty_chunks else {
            return unsupported(format!(
                "{path}: without the list nonempty_chunks it is not known what is stored; run \"zvf repair\", \
                 with --end-deferral where the presence of the level is deferred"
            ));
        };
        let rank = shape.len();
        let chunk = |key: &str| key.split('.').map(|part| part.parse().ok()).collect::<Option<_>>();
        let present = list.iter().map(|key| chunk(key).filter(|chunk: &Chunk| chunk.len() == rank));
        let present: Option<BTreeSet<Chunk>> = present.collect();
        let present = present.or_fail(Class::Encoding, || {
            format!("{path}: nonempty_chunks contains an invalid chunk key")
        })?;
        Ok(Some(Self {
            snap: Rc::clone(snap),
            path: path.to_owned(),
            doc,
            origin,
            shape,
            coding,
            present,
            staged: Changes::default(),
            old_grid: None,
            is_new: false,
            changed: false,
        }))
    }

    /// Opens an array that must be there.
    pub(crate) fn need(snap: &Rc<Snapshot>, path: &str) -> Result<Self> {
        Self::open(snap, path)?
            .or_fail(Class::NotFound, || format!("{path}/zarr.json: the array is not there"))
    }

    /// Creates an empty array with the grid and the codecs of `like`.
    pub(crate) fn create(like: &Self, path: &str, attrs: Json) -> Self {
        let mut doc = like.doc.clone();
        doc["attributes"] = attrs;
        Self {
            path: path.to_owned(),
            doc,
            present: BTreeSet::new(),
            staged: Changes::default(),
            old_grid: None,
            is_new: true,
            changed: true,
            ..like.clone()
        }
    }

    /// Copies all cells to a new array at `path`.
    pub(crate) fn copy_to(&self, path: &str) -> Result<Self> {
        let mut copy = Self::create(self, path, self.doc["attributes"].clone());
        for chunk in self.chunks() {
            if let Some(payload) = self.read(&chunk)? {
                copy.put_chunk(&chunk, payload);
            }
        }
        Ok(copy)
    }

    /// Returns the nonempty chunks, staged changes included, ascending.
    pub(crate) fn chunks(&self) -> Vec<Chunk> {
        let mut all = self.present.clone();
        for (chunk, blob) in &self.staged.keys {
            match blob {
                Some(_) => all.insert(chunk.clone()),
                None => all.remove(chunk),
            };
        }
        all.into_iter().collect()
    }

    pub(crate) fn contains(&self, chunk: &[i64]) -> bool {
        match self.staged.keys.get(chunk) {
            Some(blob) => blob.is_some(),
            None => self.present.contains(chunk),
        }
    }

    /// Reads the payload that a chunk had before the edit. Returns `None` for an empty chunk.
    ///
    /// # Errors
    ///
    /// When a chunk that is listed is not stored: taken for an empty one, its rows would be given up.
    pub(crate) fn read_stored(&self, chunk: &[i64]) -> Result<Option<Bytes>> {
        if self.is_new || !self.present.contains(chunk) {
            return Ok(None);
        }
        let origin = self.old_grid.as_ref().map_or(&self.origin, |(origin, _)| origin);
        let (file, place) = self.locate(chunk, origin)?;
        let key = cell_key(&self.path, &file);
        let cell = self.coding.open_file(&self.snap, &key)?.swap_remove(place);
        let cell = cell.or_fail(Class::NotFound, || {
            let chunk = self.coding.shard.as_ref().map(|_| format!(", {}", chunk_text(chunk)));
            let (chunk, why) = (chunk.unwrap_or_default(), "but nothing is stored");
            format!("{key}{chunk}: nonempty_chunks names the chunk, {why}; run \"zvf repair\"")
        })?;
        let plain = self.coding.unpack(cell.read()?);
        let plain = if self.coding.shard.is_some() { plain? } else { plain.at(&key)? };
        let cell = VlenCell::parse(&plain).at(&self.path)?;
        Ok(Some(plain.slice_ref(cell.payload())))
    }

    /// Reads the payload of a chunk, staged changes included.
    pub(crate) fn read(&self, chunk: &[i64]) -> Result<Option<Bytes>> {
        match self.staged.get(chunk)? {
            Some(bytes) => Ok(bytes),
            None => self.read_stored(chunk),
        }
    }

    /// Returns the file of the cell of a chunk in the grid with this origin, and the index of the
    /// cell in it.
    fn locate(&self, chunk: &[i64], origin: &[i64]) -> Result<(Vec<i64>, usize)> {
        let at: Option<Vec<i64>> =
            chunk.iter().zip(origin).map(|(c, o)| c.checked_sub(*o)).collect();
        let at = at.or_fail(Class::OutOfBounds, || {
            let (chunk, origin) = (chunk_text(chunk), chunk_text(origin));
            format!(
                "{}: chunk {chunk} is 2^63 chunks or more from the origin of the grid, {origin}",
                self.path
            )
        })?;
        Ok(self.coding.locate(&at))
    }

    /// Stages the payload of a chunk. An empty payload removes the chunk.
    pub(crate) fn put_chunk(&mut self, chunk: &[i64], payload: impl Into<Bytes>) {
        let payload: Bytes = payload.into();
        self.staged.insert(chunk.to_vec(), (!payload.is_empty()).then_some(payload));
    }

    /// Removes a chunk from the list of stored chunks. The caller removes its bytes.
    pub(crate) fn remove_chunk(&mut self, chunk: &[i64]) {
        self.changed |= self.present.remove(chunk);
    }

    /// Returns the origin and the shape of the shard grid; `None` where the array is not sharded.
    pub(crate) fn shard_grid(&self) -> Option<(&[i64], &[i64])> {
        Some((&self.origin, self.coding.shard.as_deref()?))
    }

    /// Extends the grid to chunks from `low` to `high`, both included.
    ///
    /// # Errors
    ///
    /// When the origin or the shape would not fit 64 bits.
    pub(crate) fn extend_grid(&mut self, low: &[i64], high: &[i64]) -> Result<()> {
        let rank = self.shape.len();
        let unit = self.coding.shard.clone().unwrap_or_else(|| vec![1; rank]);
        let (mut origin, mut shape) = (self.origin.clone(), self.shape.clone());
        for axis in 0..rank {
            let [old, low, high] = [origin[axis], low[axis], high[axis]].map(i128::from);
            let (extent, unit) = (i128::from(shape[axis]), i128::from(unit[axis]));
            // The origin moves by whole shards, so that each shard keeps its chunks.
            let new = old - ((old - low).max(0) + unit - 1) / unit * unit;
            let bounds =
                i64::try_from(new).ok().zip(i64::try_from((old + extent).max(high + 1) - new).ok());
            (origin[axis], shape[axis]) = bounds.or_fail(Class::OutOfBounds, || {
                format!(
                    "{}: a grid with chunks from {low} to {high} does not fit 64 bits",
                    self.path
                )
            })?;
        }
        if origin != self.origin {
            if self.old_grid.is_none() && !self.is_new {
                self.old_grid = Some((self.origin.clone(), self.present.clone()));
            }
            self.origin = origin;
        }
        if shape != self.shape || self.old_grid.is_some() {
            self.shape = shape;
            self.changed = true;
        }
        Ok(())
    }

    /// Returns whether the grid contains all chunks from `low` to `high`, both included.
    pub(crate) fn contains_range(&self, low: &[i64], high: &[i64]) -> bool {
        (0..self.shape.len()).all(|axis| {
            let end = i128::from(self.origin[axis]) + i128::from(self.shape[axis]);
            low[axis] >= self.origin[axis] && i128::from(high[axis]) < end
        })
    }

    pub(crate) fn attribute(&self, name: &str) -> &Json {
        &self.doc["attributes"][name]
    }

    pub(crate) fn set_attribute(&mut self, name: &str, value: Json) {
        if self.doc["attributes"][name] != value {
            self.doc["attributes"][name] = value;
            self.changed = true;
        }
    }

    /// States the categories of a column, to which values may have added some.
    pub(crate) fn set_categories(&mut self, ty: &ColumnType) {
        if let Some(categories) = &ty.categories {
            self.set_attribute("categories", json!(categories.values));
        }
    }

    pub(crate) fn remove_attribute(&mut self, name: &str) -> bool {
        let removed = attributes(&mut self.doc).and_then(|attrs| attrs.shift_remove(name));
        self.changed |= removed.is_some();
        removed.is_some()
    }

    /// Adds the changes of the array to `out`.
    pub(crate) fn flush(&mut self, out: &mut Changes) -> Result<()> {
        let now: BTreeSet<Chunk> = self.chunks().into_iter().collect();
        let mut staged = std::mem::take(&mut self.staged);
        if let Some((_, present)) = &self.old_grid {
            // A new origin gives every cell a new key.
            for chunk in present.clone() {
                if !staged.keys.contains_key(&chunk) {
                    let bytes = self.read_stored(&chunk)?;
                    staged.insert(chunk, bytes);
                }
            }
        }
        let old_grid = self.old_grid.take();
        if let Some((origin, present)) = &old_grid {
            self.push_cell_removals(origin, present, out)?;
        }
        self.flush_cells(&staged.keys, old_grid.is_some(), out)?;
        let presence_changed = now != self.present;
        self.present = now;
        if presence_changed || self.changed || self.is_new {
            self.update_doc();
            out.put_doc(&self.path, &self.doc)?;
        }
        (self.is_new, self.changed) = (false, false);
        Ok(())
    }

    /// Adds the files of staged cells to `out`: each has one cell, or those of a shard.
    fn flush_cells(
        &self,
        staged: &BTreeMap<Chunk, Option<Blob>>,
        moved: bool,
        out: &mut Changes,
    ) -> Result<()> {
        let mut files: BTreeMap<Vec<i64>, Vec<(&Chunk, Option<&Blob>)>> = BTreeMap::new();
        for (chunk, blob) in staged {
            let (file, _) = self.locate(chunk, &self.origin)?;
            files.entry(file).or_default().push((chunk, blob.as_ref()));
        }
        for (file, cells) in files {
            // A file of one cell that is not listed has nothing to keep.
            let (key, is_sharded) = (cell_key(&self.path, &file), self.coding.shard.is_some());
            let is_new = moved || !is_sharded && !self.present.contains(cells[0].0);
            let old = match is_new {
                true => vec![None; self.coding.cells],
                false => self.coding.open_file(&self.snap, &key)?,
            };
            let old = old.iter().map(read_blob).collect::<Result<Vec<Option<Bytes>>>>()?;
            let mut new = old.clone();
            for (chunk, blob) in cells {
                let bytes = blob.map(Blob::read).transpose()?;
                // Another program may have packed the same bytes in another way.
                if !is_sharded && !is_new && self.read_stored(chunk)? == bytes {
                    continue;
                }
                let pack = |bytes: Bytes| self.coding.pack(encode_cell(&bytes)?);
                let (_, place) = self.locate(chunk, &self.origin)?;
                new[place] = bytes.map(pack).transpose()?;
            }
            if new != old {
                out.insert(key, self.coding.join(new)?);
            }
        }
        Ok(())
    }

    fn update_doc(&mut self) {
        let mut names: Vec<String> = self.present.iter().map(|chunk| chunk_text(chunk)).collect();
        names.sort();
        self.doc["shape"] = json!(self.shape);
        let origin = self.origin.clone();
        if let Some(attrs) = attributes(&mut self.doc) {
            attrs.insert("nonempty_chunks".to_owned(), json!(names));
            if origin.iter().any(|o| *o != 0) {
                attrs.insert("chunk_grid_origin".to_owned(), json!(origin));
            } else {
                attrs.shift_remove("chunk_grid_origin");
            }
        }
    }

    /// Adds the removal of the array to `out`.
    pub(crate) fn push_removal(&self, out: &mut Changes) -> Result<()> {
        if self.is_new {
            return Ok(());
        }
        let (origin, present) = match &self.old_grid {
            Some((origin, present)) => (origin, present),
            None => (&self.origin, &self.present),
        };
        self.push_cell_removals(origin, present, out)?;
        out.insert(doc_key(&self.path), None);
        Ok(())
    }

    /// Adds the removal of the cells of chunks, or of their shards, in the grid with this origin.
    fn push_cell_removals(
        &self,
        origin: &[i64],
        present: &BTreeSet<Chunk>,
        out: &mut Changes,
    ) -> Result<()> {
        for chunk in present {
            out.insert(cell_key(&self.path, &self.locate(chunk, origin)?.0), None);
        }
        Ok(())
    }
}

fn to_usize(span: &Range<u64>) -> Range<usize> {
    // Spans were checked against the length of the shard.
    saturating_usize(span.start)..saturating_usize(span.end)
}

/// Returns the key of a file of an array.
fn cell_key(path: &str, file: &[i64]) -> String {
    let parts: Vec<String> = file.iter().map(i64::to_string).collect();
    format!("{path}/c/{}", parts.join("/"))
}

/// Returns the lowest and the highest coordinates of chunks; `None` without chunks.
pub(crate) fn bounding_chunks<'a>(
    chunks: impl IntoIterator<Item = &'a Chunk>,
) -> Option<(Chunk, Chunk)> {
    let mut chunks = chunks.into_iter();
    let first = chunks.next()?;
    let (mut low, mut high) = (first.clone(), first.clone());
    for chunk in chunks {
        for (axis, c) in chunk.iter().enumerate() {
            low[axis] = low[axis].min(*c);
            high[axis] = high[axis].max(*c);
        }
    }
    Some((low, high))
}

/// Maximum number of cells of a shard, whose index of 16 bytes each is held.
const MAX_SHARD_CELLS: u64 = 1 << 24;
/// Maximum length of a decoded cell in bytes, the limit of the format.
pub(crate) const MAX_CELL_BYTES: u64 = 1 << 32;
