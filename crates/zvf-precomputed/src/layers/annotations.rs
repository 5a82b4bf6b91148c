//! Lines and polylines as annotations: one per object, in every cell that it touches.

use bytes::Bytes;
use serde_json::{Value as Json, json};
use zvf_error::Result;
use zvf_format::key::ChunkKey;
use zvf_format::num::{f64_from_i64, index_u32, to_u64};
use zvf_model::{Batch, Bounds, Kind, LevelReader, ObjectId, RowAttribute, RowValues};
use zvf_query::{Columns, Mode, Query, Reader};

use super::error::{check_size, unsupported_error};
use super::grid::extent;
use super::records::{RecordSchema, list_records};
use super::segments::{object_attributes, object_of, read_object};
use super::space::{Space, can_halve, chunk_sizes, has_cell};

/// The objects of a level as annotations.
#[derive(Debug)]
pub(crate) struct ChainAnnotations {
    kind: Kind,
    level: LevelReader,
    schema: RecordSchema,
    values: Vec<RowAttribute>,
    first: Vec<i64>,
    shape: Vec<u64>,
    cell: Vec<f64>,
    limit: u64,
}

impl ChainAnnotations {
    pub(crate) async fn new(kind: Kind, level: LevelReader, max_cell_rows: u64) -> Result<Self> {
        let (attributes, values): (Vec<_>, Vec<_>) =
            object_attributes(&level).await?.into_iter().unzip();
        let schema = RecordSchema::new(kind, &level, attributes).await?;
        let mut cell = chunk_sizes(&level);
        let chunks = level.chunks().await?;
        let ends = extent(&chunks, cell.len())?;
        let mut first: Vec<i64> = ends.iter().map(|(low, _)| *low).collect();
        let shape = ends.iter().map(|(low, high)| (high - low + 1).cast_unsigned());
        let mut shape: Vec<u64> = shape.collect();
        let keys: Vec<ChunkKey> = chunks.iter().collect();
        let mut limit = 1;
        for rows in level.row_counts(&keys).await {
            // Each object of a cell has a vertex in it or crosses it, so the number of vertices is
            // a good estimate.
            limit = limit.max(rows?);
        }
        // Cells with too many vertices are halved; each part has about the same number.
        while limit > max_cell_rows
            && shape.iter().all(|cells| *cells < MAX_CELLS_ALONG)
            && first.iter().zip(&shape).all(|(first, cells)| can_halve(*first, *cells))
        {
            shape.iter_mut().for_each(|cells| *cells *= 2);
            first.iter_mut().for_each(|first| *first *= 2);
            cell.iter_mut().for_each(|size| *size /= 2.0);
            limit = limit.div_ceil(1 << cell.len());
        }
        Ok(Self { kind, level, schema, values, first, shape, cell, limit })
    }

    pub(crate) fn info(&self, space: &Space) -> Json {
        let (low, high) = self.corners(&vec![0; self.cell.len()], &self.shape);
        let grid = json!({"key": "spatial0", "grid_shape": self.shape, "chunk_size": self.cell,
            "limit": self.limit});
        self.schema.info(space, (&low, &high), &[grid])
    }

    /// Returns the corners of a range of cells, in the unit of the store.
    fn corners(&self, from: &[u64], to: &[u64]) -> (Vec<f64>, Vec<f64>) {
        let along = |cells: &[u64]| -> Vec<f64> {
            let axes = cells.iter().zip(&self.first).zip(&self.cell);
            axes.map(|((at, first), size)| f64_from_i64(first + at.cast_signed()) * size).collect()
        };
        (along(from), along(to))
    }

    /// Returns the list of a cell; `None` if no object touches it.
    pub(crate) async fn cell(
        &self,
        reader: &Reader,
        cell: &[u64],
        space: &Space,
    ) -> Result<Option<Bytes>> {
        if !has_cell(&self.shape, cell) {
            return Ok(None);
        }
        let next: Vec<u64> = cell.iter().map(|at| at + 1).collect();
        let (low, high) = self.corners(cell, &next);
        let bounds =
            Bounds::new(&low, &high).map_err(|error| unsupported_error(error.to_string()))?;
        let query = Query::all().in_region(bounds).mode(Mode::Touch).at_level(self.level.level());
        let query = query.of_kind(self.kind).columns(Columns::None).limit_bytes(MAX_CELL_BYTES);
        let batch = reader.run(&query).await?.batch;
        Ok(list_records(self.records(&batch, space).await?))
    }

    pub(crate) async fn read_annotation(
        &self,
        reader: &Reader,
        id: u64,
        space: &Space,
    ) -> Result<Option<Bytes>> {
        let found = read_object(reader, &self.level, self.kind, id, Columns::None).await?;
        let Some(batch) = found else { return Ok(None) };
        let records = self.records(&batch, space).await?;
        let found = records.into_iter().find(|(record_id, _)| *record_id == id);
        let Some((_, mut record)) = found else { return Ok(None) };
        self.schema.relations.push(object_of(id).as_slice(), &mut record).await?;
        Ok(Some(record.into()))
    }

    /// Returns the annotations related to an object or a group; `None` if there are none.
    pub(crate) async fn read_related(
        &self,
        reader: &Reader,
        relation: &str,
        id: u64,
        space: &Space,
    ) -> Result<Option<Bytes>> {
        let query = self.schema.relations.query(&self.level, relation, id).await?;
        let Some(query) = query else { return Ok(None) };
        let batch = reader.run(&query.columns(Columns::None)).await?.batch;
        Ok(list_records(self.records(&batch, space).await?))
    }

    /// Returns the records of the objects of a batch; a line has two vertices, so other objects are
    /// omitted.
    async fn records(&self, batch: &Batch, space: &Space) -> Result<Vec<(u64, Vec<u8>)>> {
        let mut parts: Vec<(ObjectId, Vec<usize>)> = Vec::new();
        for part in batch.parts().iter() {
            match parts.last_mut() {
                Some((object, rows)) if *object == part.object => rows.extend(part.rows),
                _ => parts.push((part.object, part.rows.collect())),
            }
        }
        let objects: Vec<ObjectId> = parts.iter().map(|(object, _)| *object).collect();
        let (places, values) = self.read_values(&objects).await?;
        let mut records = Vec::new();
        for ((object, rows), place) in parts.iter().zip(places) {
            let Ok(id) = u64::try_from(object.0) else { continue };
            let mut record = Vec::new();
            if self.kind != Kind::Line {
                check_size("a polyline", to_u64(rows.len()), u32::MAX.into())?;
                record.extend(index_u32(rows.len()).to_le_bytes());
            } else if rows.len() != 2 {
                continue;
            }
            // Without a place no row is read.
            let column = |attribute: usize| place.map(|_| values[attribute].column());
            let of_object = (column, place.unwrap_or(0));
            self.schema.push(space, (batch.positions(), rows), of_object, &mut record)?;
            record.resize(record.len().next_multiple_of(4), 0);
            records.push((id, record));
        }
        Ok(records)
    }

    /// Returns the values of all attributes of objects, and the index of each object in them.
    async fn read_values(
        &self,
        objects: &[ObjectId],
    ) -> Result<(Vec<Option<usize>>, Vec<RowValues>)> {
        let Some(index) = self.level.objects().await? else {
            return Ok((vec![None; objects.len()], Vec::new()));
        };
        let (mut rows, mut places) = (Vec::new(), Vec::with_capacity(objects.len()));
        for row in index.find(objects).await? {
            places.push(row.map(|_| rows.len()));
            rows.extend(row);
        }
        let mut values = Vec::with_capacity(self.values.len());
        for attribute in &self.values {
            values.push(attribute.rows(&rows).await?);
        }
        Ok((places, values))
    }
}

/// The number of cells along an axis from which they are no longer halved.
const MAX_CELLS_ALONG: u64 = 1 << 20;
/// The memory limit of the geometry that touches one cell, in bytes.
const MAX_CELL_BYTES: u64 = 1 << 28;
