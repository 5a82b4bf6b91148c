//! Points as annotations: a list for each cell of the index, and each point by its id.

use bytes::Bytes;
use serde_json::{Value as Json, json};
use zvf_error::Result;
use zvf_format::key::ChunkKey;
use zvf_format::num::{to_u64, usize_from_u32};
use zvf_model::{Batch, Kind, LevelReader, Value};
use zvf_query::{Columns, LOCATION_FIELD, Query, Reader};

use super::attributes::Attribute;
use super::error::{check_size, unsupported_error};
use super::grid::{PointGrid, PointIndex};
use super::records::{RecordSchema, list_records};
use super::relations::find_objects;
use super::space::Space;

/// A cloud of points as annotations.
#[derive(Debug)]
pub(crate) struct Points {
    index: PointIndex,
    schema: RecordSchema,
}

impl Points {
    /// Opens the points of `levels`, the finest first; there is at least one.
    pub(crate) async fn new(levels: &[LevelReader], max_cell_rows: u64) -> Result<Self> {
        let index = PointIndex::new(levels, max_cell_rows).await?;
        let attributes = Attribute::of_vertices(&levels[0]).await?;
        let schema = RecordSchema::new(Kind::PointCloud, &levels[0], attributes).await?;
        Ok(Self { index, schema })
    }

    pub(crate) fn info(&self, space: &Space) -> Json {
        let grids = self.index.grids.iter().enumerate().map(|(at, grid)| {
            json!({"key": format!("spatial{at}"), "grid_shape": grid.shape, "chunk_size": grid.cell,
                "limit": grid.limit})
        });
        let grids: Vec<Json> = grids.collect();
        self.schema.info(space, (&self.index.low, &self.index.high()), &grids)
    }

    /// Returns the list of a cell; `None` if it is empty.
    pub(crate) async fn cell(
        &self,
        reader: &Reader,
        grid: usize,
        cell: &[u64],
        space: &Space,
    ) -> Result<Option<Bytes>> {
        let Some(grid) = self.index.grids.get(grid) else { return Ok(None) };
        let mut records = Vec::new();
        for key in grid.chunks_of(cell) {
            let batch = self.read_chunk(reader, grid, &key).await?;
            for (row, id) in point_ids(grid, &batch)?.into_iter().enumerate() {
                if grid.has(id) && grid.has_row(cell, &key, batch.positions(), row) {
                    records.push((id, self.record(grid, &batch, row, space)?));
                }
            }
            check_size("a cell", to_u64(records.len()), MAX_RECORDS)?;
        }
        Ok(list_records(records))
    }

    /// Returns a point by its id.
    pub(crate) async fn read_point(
        &self,
        reader: &Reader,
        id: u64,
        space: &Space,
    ) -> Result<Option<Bytes>> {
        let Some((grid, key, row)) = self.index.locate(id) else { return Ok(None) };
        let batch = self.read_chunk(reader, grid, &key).await?;
        let Some(at) = point_ids(grid, &batch)?.iter().position(|other| *other == id) else {
            return Ok(None);
        };
        let mut record = self.record(grid, &batch, at, space)?;
        let objects = find_objects(&grid.level, &key, row).await?;
        self.schema.relations.push(&objects, &mut record).await?;
        Ok(Some(record.into()))
    }

    /// Returns the points related to an object or a group; `None` if there are none.
    pub(crate) async fn read_related(
        &self,
        reader: &Reader,
        relation: &str,
        id: u64,
        space: &Space,
    ) -> Result<Option<Bytes>> {
        let mut records = Vec::new();
        for grid in self.index.own_levels() {
            let query = self.schema.relations.query(&grid.level, relation, id).await?;
            let Some(query) = query else { continue };
            let batch = self.run(reader, grid, query).await?;
            for (row, id) in point_ids(grid, &batch)?.into_iter().enumerate() {
                records.push((id, self.record(grid, &batch, row, space)?));
            }
        }
        Ok(list_records(records))
    }

    fn record(
        &self,
        grid: &PointGrid,
        batch: &Batch,
        row: usize,
        space: &Space,
    ) -> Result<Vec<u8>> {
        let mut record = Vec::new();
        let column = |attribute: usize| {
            let attribute = &self.schema.attributes[attribute];
            let field = batch.field(&attribute.name).map(|field| &field.column);
            // A coarser level may have rows of another width.
            field.filter(|column| usize_from_u32(column.width()) == attribute.width)
        };
        self.schema.push(space, (batch.positions(), &[row]), (column, row), &mut record)?;
        record.push(grid.level_byte);
        record.resize(record.len().next_multiple_of(4), 0);
        Ok(record)
    }

    /// Reads the points of a chunk: the rows in its fragments.
    async fn read_chunk(&self, reader: &Reader, grid: &PointGrid, key: &ChunkKey) -> Result<Batch> {
        let place = grid.chunks.find(key);
        let next = place.and_then(|place| grid.chunks.get(place + 1));
        let query = Query::all().in_chunks(Some(*key), next).of_kind(Kind::PointCloud);
        let query = query.at_level(grid.level.level());
        self.run(reader, grid, query).await
    }

    /// Answers a question for points of the level of a grid, with the attributes that it has.
    async fn run(&self, reader: &Reader, grid: &PointGrid, query: Query) -> Result<Batch> {
        let mut names = Vec::with_capacity(self.schema.attributes.len());
        for Attribute { name, .. } in &self.schema.attributes {
            if grid.level.attribute(name).await?.is_some() {
                names.push(name.clone());
            }
        }
        let query = query.columns(Columns::Named(names)).with_places().increment_only();
        Ok(reader.run(&query).await?.batch)
    }
}

/// Returns the ids of the points of an answer.
fn point_ids(grid: &PointGrid, batch: &Batch) -> Result<Vec<u64>> {
    let places = batch.field(LOCATION_FIELD).map(|field| &field.column);
    let id = |row: usize| match places.map(|places| places.value(row, 0)) {
        Some(Value::UInt(place)) => grid.point_id(place >> 32, place & u64::from(u32::MAX)),
        _ => Err(unsupported_error("an answer without the places of its vertices")),
    };
    (0..batch.len()).map(id).collect()
}

/// The largest number of points in a list.
const MAX_RECORDS: u64 = 2_000_000;
