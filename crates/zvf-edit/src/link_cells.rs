//! Writes the records of a family of links to the cells that they belong to, and its documents.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use zvf_format::key::{ChunkKey, Delta, Offsets};
use zvf_format::link::{self, Endpoint, LinkCell, LinkRecord};
use zvf_format::{Class, num};
use zvf_metadata::arrays::LinksFamily;

use crate::arrays::{CellArray, Chunk};
use crate::cell_column::encode_spans;
use crate::changes::Changes;
use crate::error::{OrFail, Result};
use crate::indexes::read_count;
use crate::links::{LinkColumn, LinkFamily};
use crate::numbers::{End, NONE, Vid};
use crate::snapshot::Snapshot;

/// A record with its sort key: whether it is new in the cell and its old row, then its number.
type PlacedRecord = ((bool, u32), u32);

/// Returns the chunk and row of a vertex; `None` for one that is removed.
type PlaceOf<'a> = &'a dyn Fn(Vid) -> Result<Option<(Chunk, u64)>>;

impl LinkFamily {
    /// Writes the loaded cells and new ones, where they differ. Returns whether any did.
    pub(crate) fn flush(
        &mut self,
        like: &CellArray,
        place: PlaceOf<'_>,
        out: &mut Changes,
    ) -> Result<bool> {
        self.write_cells(like, place)?;
        let ((before, after), changed) = (self.written, self.differs);
        if self.is_new && after == 0 {
            return Ok(false);
        }
        let names = json!(self.arrays.keys().collect::<Vec<_>>());
        let list = self.doc["attributes"].get(LinksFamily::SEGMENTS);
        let lists_others = list.is_some_and(|list| list["names"] != names);
        if before != after || self.is_new || lists_others {
            self.write_document((before, after), out)?;
        }
        for column in &mut self.columns {
            if column.is_new || before != after {
                column.write_documents(
                    &self.snap,
                    &self.path,
                    (self.policy.delta(), &self.doc),
                    out,
                )?;
            }
            for array in column.arrays.values_mut() {
                array.set_categories(&column.ty);
                array.flush(out)?;
            }
        }
        for array in self.arrays.values_mut().chain(self.fragments.iter_mut()) {
            array.flush(out)?;
        }
        Ok(changed || before != after)
    }

    /// Writes the loaded cells and new ones, where they differ, and forgets their records.
    pub(crate) fn write_cells(&mut self, like: &CellArray, place: PlaceOf<'_>) -> Result<()> {
        for ((offsets, source), mut list) in self.place_records(place)? {
            list.sort_unstable();
            // A cell that was not loaded had no records.
            let old = self.loaded.get(&(offsets.clone(), source.clone())).copied().unwrap_or(0);
            self.written.0 += num::to_u64(old);
            self.written.1 += num::to_u64(list.len());
            let is_stray = |((is_moved, _), number): &PlacedRecord| {
                *is_moved && self.records[*number].cell.0 != NONE
            };
            self.has_strays |= list.iter().any(is_stray);
            if old > 0 || !list.is_empty() {
                let rows = list.iter().map(|(_, number)| {
                    // The record was placed here, so that all its ends were found.
                    let ends =
                        self.find_ends(*number, place)?.or_fail(Class::CountMismatch, || {
                            format!("{}/links: a link lost an end; this is a bug in zvf", self.path)
                        })?;
                    self.placement(&ends).map(|(_, row)| row)
                });
                let rows = rows.collect::<Result<Vec<LinkRecord>>>()?;
                self.differs |= self.write_cell(like, (&offsets, &source), (&list, &rows))?;
            }
        }
        self.loaded.clear();
        self.records.clear();
        self.cells.clear();
        Ok(())
    }

    /// Assigns records to cells; every loaded cell has an entry. Records with a removed end are dropped.
    fn place_records(
        &self,
        place: PlaceOf<'_>,
    ) -> Result<BTreeMap<(String, Chunk), Vec<PlacedRecord>>> {
        let mut cells: BTreeMap<(String, Chunk), Vec<PlacedRecord>> =
            self.loaded.keys().map(|cell| (cell.clone(), Vec::new())).collect();
        for number in self.records.alive() {
            // A link goes with a removed vertex.
            let Some(found) = self.find_ends(number, place)? else { continue };
            let (old, row) = self.records[number].cell;
            let old = self.cells.get(num::usize_from_u32(old));
            let (cell, _) = self.placement(&found)?;
            let key = if old == Some(&cell) { (false, row) } else { (true, number) };
            cells.entry(cell).or_default().push((key, number));
        }
        Ok(cells)
    }

    /// Returns the chunk and row of each end of a record; `None` where one is removed.
    fn find_ends(&self, number: u32, place: PlaceOf<'_>) -> Result<Option<Vec<(Chunk, u64)>>> {
        let found = self.records.ends(number).iter().map(|end| match end {
            End::Vertex(v) => place(*v),
            End::Row(row) => Ok(Some((**row).clone())),
            End::Removed => Ok(None),
        });
        found.collect()
    }

    /// Returns the cell of a record with these ends, and its form there: families that store a
    /// record twice are not edited.
    pub(crate) fn placement(&self, ends: &[(Chunk, u64)]) -> Result<((String, Chunk), LinkRecord)> {
        let ends = ends.iter().map(|(chunk, row)| Ok((ChunkKey::new(chunk)?, *row)));
        let ends = ends.collect::<Result<Vec<_>>>()?;
        let ends: Vec<Endpoint<'_>> =
            ends.iter().map(|(chunk, row)| Endpoint { chunk, row: *row }).collect();
        let placement = self.policy.place(&ends)?.next().or_fail(Class::CountMismatch, || {
            format!("{}/links: a link has no cell; this is a bug in zvf", self.path)
        })?;
        let offsets = match self.policy.link_width() {
            1 => "self".to_owned(),
            _ => placement.offsets().to_string(),
        };
        Ok(((offsets, placement.source().components().to_vec()), placement.record()))
    }

    /// Writes the records of a cell and their values. Returns whether the records differ from the stored ones.
    fn write_cell(
        &mut self,
        like: &CellArray,
        (offsets, source): (&str, &Chunk),
        (list, rows): (&[PlacedRecord], &[LinkRecord]),
    ) -> Result<bool> {
        let (parsed, intra) = self.parse_offsets(offsets)?;
        let mut array = match self.arrays.remove(offsets) {
            Some(array) => array,
            None => self.create_array(like, offsets, (&parsed, intra)),
        };
        let written = self.write_records(&mut array, (source, intra), rows);
        let steps = array.attribute("offsets").clone();
        self.arrays.insert(offsets.to_owned(), array);
        let differs = written?;
        for at in 0..self.columns.len() {
            self.write_column(like, (offsets, source, &steps), (at, list))?;
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
        array: &mut CellArray,
        (source, intra): (&Chunk, bool),
        rows: &[LinkRecord],
    ) -> Result<bool> {
        let shape = self.row_shape(array, intra)?;
        let body = self.policy.body(intra);
        let bytes = if rows.is_empty() { Vec::new() } else { link::encode(&[rows], body, shape)? };
        let stored = array.read_stored(source)?;
        let same = stored.as_deref().unwrap_or_default() == bytes
            || stored.as_deref().is_some_and(|stored| same_records(stored, rows, body, shape));
        if !same {
            array.put_chunk(source, bytes);
        }
        Ok(!same)
    }

    /// Writes the values of the records of a cell to the column `at`.
    fn write_column(
        &mut self,
        like: &CellArray,
        (offsets, source, steps): (&str, &Chunk, &Json),
        (at, list): (usize, &[PlacedRecord]),
    ) -> Result<()> {
        let values: Vec<&[u8]> =
            list.iter().map(|(_, number)| self.records.value(*number, at)).collect();
        let values = values.concat();
        let column = &mut self.columns[at];
        if !column.arrays.contains_key(offsets) {
            if values.is_empty() {
                return Ok(());
            }
            let path = format!("{}/{}/{offsets}", column.group, self.delta_text);
            let mut attrs = column.attrs.clone();
            attrs["nonempty_chunks"] = json!([]);
            attrs["zv_array"] = json!("link_attribute");
            attrs["name"] = json!(column.name);
            attrs["offsets"] = steps.clone();
            attrs["level_delta"] = json!(self.policy.delta().0);
            if let Some(attrs) = attrs.as_object_mut() {
                attrs.shift_remove("chunk_grid_origin");
                attrs.shift_remove("num_links");
            }
            column.arrays.insert(offsets.to_owned(), CellArray::create(like, &path, attrs));
        }
        if let Some(array) = column.arrays.get_mut(offsets)
            && array.read(source)?.as_deref().unwrap_or_default() != values
        {
            array.put_chunk(source, values);
        }
        Ok(())
    }

    /// Writes one fragment with all records within a chunk.
    fn write_fragments(&mut self, like: &CellArray, source: &Chunk, count: usize) -> Result<()> {
        let index = encode_spans([num::to_u64(count)])?;
        let index = if count == 0 { Vec::new() } else { index };
        self.fragments_or_new(like).put_chunk(source, index);
        Ok(())
    }

    /// Returns the fragments of the links within chunks, none where there is no array of them.
    pub(crate) fn fragments_or_new(&mut self, like: &CellArray) -> &mut CellArray {
        self.fragments.get_or_insert_with(|| {
            let attrs = json!({"nonempty_chunks": [], "zv_array": "link_fragments", "encoding": "fragment_index_v1"});
            CellArray::create(like, &format!("{}/link_fragments", self.path), attrs)
        })
    }

    /// Writes the document of the family, after `before` of its records became `after`.
    fn write_document(&mut self, (before, after): (u64, u64), out: &mut Changes) -> Result<()> {
        for name in ["num_links", "num_physical_records"] {
            // A count that is absent stays absent.
            let place = format!("{}/links/{}", self.path, self.delta_text);
            let Some(old) = read_count(&place, &self.doc["attributes"], name)? else { continue };
            let all = num::to_u64(old).checked_add(after);
            let text = || {
                format!(
                    "{place}, {name}: expected at least the {before} links that changed, found {old}; run \"zvf validate\"",
                )
            };
            let count = all.and_then(|all| all.checked_sub(before));
            let count = count.or_fail(Class::CountMismatch, text)?;
            self.doc["attributes"][name] = json!(count);
        }
        let rows = self.doc["attributes"]["num_physical_records"].as_u64();
        if let Some(list) = self.doc["attributes"].get_mut(LinksFamily::SEGMENTS) {
            *list = LinksFamily::segment_list(self.arrays.keys().map(String::as_str), rows);
        }
        let group = format!("{}/links", self.path);
        if self.is_new {
            out.ensure_group(&self.snap, &group)?;
        }
        out.put_doc(&format!("{group}/{}", self.delta_text), &self.doc)
    }
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
        if self.is_new {
            out.ensure_group(snap, &above)?;
            out.ensure_group(snap, &self.group)?;
        }
        // Without arrays, no other document states the type of the values.
        let mut attrs = if self.arrays.is_empty() { self.attrs.clone() } else { json!({}) };
        attrs["zv_array"] = json!("link_attribute_family");
        attrs["name"] = json!(self.name);
        attrs["level_delta"] = json!(delta.0);
        if let Some(count) = family["attributes"].get("num_links") {
            attrs["num_links"] = count.clone();
        }
        let doc = json!({"zarr_format": 3, "node_type": "group", "attributes": attrs});
        out.put_doc(&format!("{}/{delta}", self.group), &doc)
    }
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
