//! Reads one chunk as arrays.
//!
//! Vertices of other chunks that an element or a step needs come along as ghosts, after the own ones. A chain of several
//! fragments is joined only inside of a fragment here; the rest are bridges.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use futures_util::TryStreamExt as _;
use zvf_error::Result;
use zvf_format::key::{ChunkKey, Delta};
use zvf_format::num::{index_u32, usize_from_u32};
use zvf_model::{Batch, Column, LevelReader, ObjectId};
use zvf_query::Reader;
use zvf_store::KeyTable;

use crate::bridges;
use crate::cell::{Attribute, Cell, NO_OBJECT, to_f32};
use crate::error::{error_to_json, request_error};
use crate::neighbours::{FarRow, StoredRow, find_elements, read_far, stored_rows};
use crate::request::{CellRequest, cell_query};
use crate::thin::{hash_row, sample_objects, thin_cell};

/// Reads one chunk.
///
/// # Errors
///
/// When the store, the level or the kind is not there, an attribute is unknown, or the chunk cannot be read.
pub async fn load_cell(reader: &Reader, request: &CellRequest) -> Result<Cell> {
    let level = reader.level_of_kind(request.level, request.kind).await?;
    let sizes = level.chunk_shape().sizes();
    if request.cell.len() != sizes.len() {
        return Err(request_error(format!("cell: expected {} numbers", sizes.len())));
    }
    let corner = |(at, size): (&i64, &f64)| zvf_format::num::f64_from_i64(*at) * size;
    let low: Vec<f64> = request.cell.iter().zip(sizes).map(corner).collect();
    let table = level.chunks().await?;
    let cell_chunks: Vec<(u32, ChunkKey)> = (0_u32..)
        .zip(table.iter())
        .filter(|(_, key)| key.components().ends_with(&request.cell))
        .collect();
    let places: Vec<u32> = cell_chunks.iter().map(|(place, _)| *place).collect();
    let keys: Vec<ChunkKey> = cell_chunks.iter().map(|(_, key)| *key).collect();
    // Rows of several fragments come once for each.
    let is_tiled = level.tiles().await?;
    let mut builder = Builder::new(request, &low);
    builder.names_rows |= !is_tiled;
    let columns = known_columns(&level, &request.columns).await?;
    let mut batches = reader.stream(cell_query(request, columns.clone(), &level, &request.cell)?);
    while let Some(batch) = batches.try_next().await? {
        builder.push(&batch)?;
    }
    let mut faults = Vec::new();
    let mut joins = match request.kind.has_links() {
        true => find_elements(&level, request.kind, &keys, &mut faults).await?,
        false => Vec::new(),
    };
    let mut has_all_steps = true;
    if request.kind.is_chain() {
        let (steps, is_complete) = bridges::find_steps(&level, &cell_chunks, &mut faults).await?;
        joins.extend(steps.into_iter().map(Vec::from));
        has_all_steps = is_complete;
    }
    let is_far = |row: &StoredRow| !places.contains(&row.0);
    // An edge that leaves another chunk is drawn there, and one end alone is no edge.
    joins.retain(|ends| ends.len() > 2 || (ends.len() == 2 && !is_far(&ends[0])));
    let rows = joins.iter().flatten().copied().filter(is_far);
    let far = read_far(reader, &level, request, &columns, rows, &mut faults).await?;
    builder.join(&joins, &far);
    let mut cell = builder.finish(&table, level.axes());
    cell.is_complete = has_all_steps
        && (!request.kind.has_links()
            || level.links(Delta::SAME).await?.is_none_or(|family| family.is_complete()));
    if let Some(share) = request.share {
        cell = sample_objects(&cell, share);
    }
    if let Some(limit) = request.limit {
        cell = thin_cell(cell, limit.get());
    }
    cell.faults = faults.iter().map(error_to_json).collect();
    cell.faults.dedup();
    Ok(cell)
}

/// Returns those of `columns` that the level has: coarser ones often lack some, and are drawn without.
async fn known_columns(level: &LevelReader, columns: &[String]) -> Result<Vec<String>> {
    let mut found = Vec::with_capacity(columns.len());
    for column in columns {
        let is_known = match column.strip_prefix("object.") {
            Some(name) => level.object_attribute(name).await?.is_some(),
            None => level.attribute(column).await?.is_some(),
        };
        if is_known {
            found.push(column.clone());
        }
    }
    Ok(found)
}

#[derive(Clone, Copy)]
struct Vertex {
    position: [f32; 3],
    slot: u32,
    /// The place of its chunk, and its row there.
    stored: StoredRow,
}

struct Builder<'a> {
    /// Whether elements or steps join rows.
    joins_rows: bool,
    /// Whether rows are distinguished by number: something joins them, or they may come again.
    names_rows: bool,
    axes: &'a [usize],
    origin: [f64; 3],
    /// Those of the chunk; the ghosts follow them.
    vertices: Vec<Vertex>,
    own_count: usize,
    /// Which vertex a stored row is, where something joins rows.
    vertex_of_row: HashMap<StoredRow, u32>,
    slots: HashMap<ObjectId, u32>,
    ids: Vec<i64>,
    segments: Vec<u32>,
    faces: Vec<u32>,
    /// Faces that other chunks draw.
    rim: Vec<u32>,
    attributes: Vec<Attribute>,
    /// Vertices of the chunk that came.
    stored_count: u32,
    /// Points whose hash is larger are left out: a cloud that is far above its limit need not be in memory.
    threshold: u32,
    limit: usize,
}

impl<'a> Builder<'a> {
    fn new(request: &'a CellRequest, low: &[f64]) -> Self {
        let mut origin = [0.0; 3];
        for (origin, axis) in origin.iter_mut().zip(&request.axes) {
            *origin = low.get(*axis).copied().unwrap_or(0.0); // an axis that is not there is flat
        }
        let attribute =
            |name: &String| Attribute { name: name.clone(), width: 1, values: Vec::new() };
        Self {
            joins_rows: request.kind.is_chain() || request.kind.has_links(),
            names_rows: request.kind.is_chain() || request.kind.has_links(),
            axes: &request.axes,
            origin,
            vertices: Vec::new(),
            own_count: 0,
            vertex_of_row: HashMap::new(),
            slots: HashMap::new(),
            ids: Vec::new(),
            segments: Vec::new(),
            faces: Vec::new(),
            rim: Vec::new(),
            attributes: request.columns.iter().map(attribute).collect(),
            stored_count: 0,
            threshold: u32::MAX,
            limit: request.limit.map_or(usize::MAX, |limit| usize_from_u32(limit.get())),
        }
    }

    /// Adds what a batch holds; a vertex that came before is not added again.
    fn push(&mut self, batch: &Batch) -> Result<()> {
        let mut fresh = Vec::with_capacity(batch.len());
        for (i, stored) in stored_rows(batch).into_iter().enumerate() {
            if self.names_rows {
                match self.vertex_of_row.entry(stored) {
                    Entry::Occupied(_) => continue,
                    Entry::Vacant(row) => row.insert(index_u32(self.vertices.len())),
                };
            }
            let object = batch.vertex_objects().and_then(|owners| owners.get(i).copied().flatten());
            let slot = object.map_or(NO_OBJECT, |object| self.slot(object));
            self.stored_count += 1;
            if hash_row(stored.1) > self.threshold {
                continue; // only points have a threshold
            }
            let position = self.position(batch.positions(), i);
            self.vertices.push(Vertex { position, slot, stored });
            fresh.push(i);
        }
        self.push_attributes(batch, &fresh)?;
        if !self.joins_rows && self.vertices.len() / 2 > self.limit {
            self.lower_threshold();
        }
        Ok(())
    }

    /// Lets go of every other point, as often as it takes.
    fn lower_threshold(&mut self) {
        while self.vertices.len() / 2 > self.limit && self.threshold > 1 {
            self.threshold /= 2;
            let is_kept: Vec<bool> = self
                .vertices
                .iter()
                .map(|vertex| hash_row(vertex.stored.1) <= self.threshold)
                .collect();
            for attribute in &mut self.attributes {
                let values = attribute.values.chunks(usize_from_u32(attribute.width)).zip(&is_kept);
                let values = values.filter_map(|(values, is_kept)| is_kept.then_some(values));
                attribute.values = values.flatten().copied().collect();
            }
            let mut is_kept = is_kept.into_iter();
            self.vertices.retain(|_| is_kept.next().unwrap_or(true));
        }
    }

    fn slot(&mut self, object: ObjectId) -> u32 {
        let ids = &mut self.ids;
        *self.slots.entry(object).or_insert_with(|| {
            ids.push(object.0);
            index_u32(ids.len() - 1)
        })
    }

    fn position(&self, column: &Column, row: usize) -> [f32; 3] {
        let mut position = [0.0; 3];
        for ((value, axis), origin) in position.iter_mut().zip(self.axes).zip(self.origin) {
            // An axis that is not there is flat; relative to the chunk, f32 is fine enough to draw.
            *value = column.float(row, *axis).map_or(0.0, |x| to_f32(x - origin));
        }
        position
    }

    fn push_attributes(&mut self, batch: &Batch, rows: &[usize]) -> Result<()> {
        for attribute in &mut self.attributes {
            let bare = attribute.name.strip_prefix("link.").unwrap_or(&attribute.name);
            let Some(field) = batch.field(&attribute.name).or_else(|| batch.field(bare)) else {
                let count = rows.len() * usize_from_u32(attribute.width);
                attribute.values.resize(attribute.values.len() + count, f32::NAN);
                continue;
            };
            let width = field.column.width();
            if width != attribute.width {
                // The rows before lack the attribute.
                let count = attribute.values.len() / usize_from_u32(attribute.width);
                attribute.values = vec![f32::NAN; count * usize_from_u32(width)];
                attribute.width = width;
            }
            for row in rows {
                for c in 0..usize_from_u32(attribute.width) {
                    let value = field.column.float(*row, c).map_or(f32::NAN, to_f32);
                    attribute.values.push(value);
                }
            }
        }
        Ok(())
    }

    /// Adds an edge or a face. The chunk of the first end draws it; others take its faces for their normals.
    fn push_element(&mut self, ends: &[u32]) {
        let is_drawn = ends.first().is_some_and(|first| usize_from_u32(*first) < self.own_count);
        match *ends {
            [a, b] if is_drawn => self.segments.extend([a, b]),
            // A face of more corners is a fan of triangles.
            [first, ref rest @ ..] if rest.len() > 1 => {
                let list = if is_drawn { &mut self.faces } else { &mut self.rim };
                for pair in rest.windows(2) {
                    list.push(first);
                    list.extend(pair);
                }
            }
            _ => {}
        }
    }

    /// Joins vertices by their stored rows: what ends at a row that a condition left out, or that cannot be read, is no
    /// part of the cell.
    fn join(&mut self, joins: &[Vec<StoredRow>], far: &HashMap<StoredRow, FarRow>) {
        self.own_count = self.vertices.len();
        for ends in joins {
            let is_there = |end| self.vertex_of_row.contains_key(end) || far.contains_key(end);
            if ends.iter().all(is_there) {
                let own = ends.iter().find_map(|end| self.vertex_of_row.get(end)).copied();
                let ends: Vec<u32> = ends.iter().map(|end| self.ghost(*end, own, far)).collect();
                self.push_element(&ends);
            }
        }
    }

    /// Returns the vertex of a stored row; one of another chunk is added, of the object of `own`,
    /// which it is joined to.
    fn ghost(
        &mut self,
        stored: StoredRow,
        own: Option<u32>,
        far: &HashMap<StoredRow, FarRow>,
    ) -> u32 {
        if let Some(vertex) = self.vertex_of_row.get(&stored) {
            return *vertex;
        }
        let number = index_u32(self.vertices.len());
        let row = far.get(&stored);
        let own = own.map(usize_from_u32);
        let slot = match row.and_then(|row| row.object) {
            Some(object) => self.slot(object),
            None => own.and_then(|own| self.vertices.get(own)).map_or(NO_OBJECT, |own| own.slot),
        };
        let mut relative = [0.0; 3];
        for ((value, axis), origin) in relative.iter_mut().zip(self.axes).zip(self.origin) {
            let x = row.and_then(|row| row.position.get(*axis));
            *value = x.map_or(0.0, |x| to_f32(x - origin));
        }
        self.vertices.push(Vertex { position: relative, slot, stored });
        for (at, attribute) in self.attributes.iter_mut().enumerate() {
            let width = usize_from_u32(attribute.width);
            let values = row.and_then(|row| row.values.get(at).cloned());
            let is_read = !attribute.name.starts_with("object.") || values != Some(Vec::new());
            let values = match own.filter(|_| !is_read) {
                Some(own) => attribute.values.chunks(width).nth(own).map(<[f32]>::to_vec),
                None => values,
            };
            let values = values.filter(|values| values.len() == width);
            attribute.values.extend(values.unwrap_or_else(|| vec![f32::NAN; width]));
        }
        self.vertex_of_row.insert(stored, number);
        number
    }

    /// Returns the cell.
    fn finish(self, table: &KeyTable, axes: usize) -> Cell {
        let mut cell = Cell {
            origin: self.origin,
            own_vertices: index_u32(self.own_count),
            stored_vertices: self.stored_count,
            segments: self.segments,
            faces: self.faces,
            rim: self.rim,
            ids: self.ids,
            attributes: self.attributes,
            ..Cell::default()
        };
        for (number, Vertex { position, slot, stored }) in self.vertices.into_iter().enumerate() {
            cell.positions.extend(position);
            cell.slots.push(slot);
            cell.rows.push(stored.1);
            if number >= self.own_count {
                let key = table.row(usize_from_u32(stored.0)).unwrap_or_default();
                let cell_of = key.get(key.len().saturating_sub(axes)..).unwrap_or_default();
                // Chunks that lie further out are refused when they are listed.
                let cell_of = cell_of.iter().map(|at| i32::try_from(*at).unwrap_or(i32::MAX));
                cell.ghost_cells.extend(cell_of);
            }
        }
        cell
    }
}
