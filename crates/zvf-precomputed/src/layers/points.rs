//! Points as annotations: a list for each cell of the index, and each point by its id.

use std::ops::Range;

use bytes::Bytes;
use serde_json::{Value as Json, json};
use zvf_error::Result;
use zvf_format::key::ChunkKey;
use zvf_format::num::{to_u64, usize_from_u32};
use zvf_model::{AttributeReader, Column, Kind, LevelReader, Value};
use zvf_query::{Columns, LOCATION_FIELD, Reader};
use zvf_store::Caching;

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

/// The rows of a chunk: their positions and the values of each attribute.
struct Rows {
    positions: Column,
    columns: Vec<Option<Column>>,
}

/// The part of a level to read: a chunk, or one row of it.
enum Asked {
    Chunk([ChunkKey; 1]),
    Row([(ChunkKey, Vec<Range<u64>>); 1]),
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
        grid: usize,
        cell: &[u64],
        space: &Space,
    ) -> Result<Option<Bytes>> {
        let Some(grid) = self.index.grids.get(grid) else { return Ok(None) };
        let mut records = Vec::new();
        for (place, key) in grid.chunks_of(cell) {
            let rows = self.read(&grid.level, &Asked::Chunk([key])).await?;
            for row in 0..rows.positions.len() {
                if grid.has_row(cell, &key, &rows.positions, row)
                    && let Some(id) = grid.id_of(place, to_u64(row))?
                {
                    records.push((id, self.record(grid, &rows, row, space)?));
                }
            }
            check_size("a cell", to_u64(records.len()), MAX_RECORDS)?;
        }
        Ok(list_records(records))
    }

    /// Returns a point by its id.
    pub(crate) async fn read_point(&self, id: u64, space: &Space) -> Result<Option<Bytes>> {
        let Some((grid, key, row)) = self.index.locate(id) else { return Ok(None) };
        let [count] = &grid.level.row_counts(std::slice::from_ref(&key)).await[..] else {
            return Ok(None);
        };
        if row >= count.clone()? {
            return Ok(None);
        }
        let objects = find_objects(&grid.level, &key, row).await?;
        let rows = self
            .read(&grid.level, &Asked::Row([(key, std::iter::once(row..row + 1).collect())]))
            .await?;
        let mut record = self.record(grid, &rows, 0, space)?;
        self.schema.relations.push(&objects, &mut record).await?;
        Ok(Some(record.into()))
    }

    /// Returns the points related to an object or a group, each once; `None` if there are none.
    pub(crate) async fn read_related(
        &self,
        reader: &Reader,
        relation: &str,
        id: u64,
        space: &Space,
    ) -> Result<Option<Bytes>> {
        let names = self.schema.attributes.iter().map(|attribute| attribute.name.clone());
        let names: Vec<String> = names.collect();
        let mut records = Vec::new();
        for grid in self.index.own_levels() {
            let query = self.schema.relations.query(&grid.level, relation, id).await?;
            let Some(query) = query else { continue };
            let query = query.columns(Columns::Named(names.clone())).with_places().increment_only();
            let batch = reader.run(&query).await?.batch;
            let columns =
                names.iter().map(|name| batch.field(name).map(|field| field.column.clone()));
            let rows = Rows { positions: batch.positions().clone(), columns: columns.collect() };
            let places = batch.field(LOCATION_FIELD).map(|field| &field.column);
            for row in 0..batch.len() {
                let Some(Value::UInt(place)) = places.map(|places| places.value(row, 0)) else {
                    return Err(unsupported_error("an answer without the places of its vertices"));
                };
                let point_id = grid.point_id(place >> 32, place & u64::from(u32::MAX))?;
                records.push((point_id, self.record(grid, &rows, row, space)?));
            }
        }
        records.sort_by_key(|(id, _)| *id);
        records.dedup_by_key(|(id, _)| *id);
        Ok(list_records(records))
    }

    fn record(&self, grid: &PointGrid, rows: &Rows, row: usize, space: &Space) -> Result<Vec<u8>> {
        let mut record = Vec::new();
        let values = (|attribute: usize| rows.columns[attribute].as_ref(), row);
        self.schema.push(space, (&rows.positions, &[row]), values, &mut record)?;
        record.push(grid.level_byte);
        record.resize(record.len().next_multiple_of(4), 0);
        Ok(record)
    }

    /// Reads the positions and the attributes of what is asked for.
    async fn read(&self, level: &LevelReader, asked: &Asked) -> Result<Rows> {
        let first = |found: Option<Vec<Column>>| found.and_then(|mut all| all.pop());
        let positions = match asked {
            Asked::Chunk(keys) => level.positions(keys, Caching::Keep).await.pop().transpose()?,
            Asked::Row(rows) => first(level.position_rows(rows).await.pop().transpose()?),
        };
        let positions = positions.ok_or_else(|| unsupported_error("a chunk without an answer"))?;
        let mut columns = Vec::with_capacity(self.schema.attributes.len());
        for attribute in &self.schema.attributes {
            columns.push(match (self.reader_of(level, attribute).await?, asked) {
                (None, _) => None,
                (Some(reader), Asked::Chunk(keys)) => {
                    reader.values(keys, Caching::Keep).await.pop().transpose()?
                }
                (Some(reader), Asked::Row(rows)) => {
                    first(reader.value_rows(rows).await.pop().transpose()?)
                }
            });
        }
        Ok(Rows { positions, columns })
    }

    /// Returns the attribute at a level, which may lack it or have another type.
    async fn reader_of(
        &self,
        level: &LevelReader,
        attribute: &Attribute,
    ) -> Result<Option<AttributeReader>> {
        let reader = level.attribute(&attribute.name).await?;
        Ok(reader.filter(|reader| usize_from_u32(reader.width()) == attribute.width))
    }
}

/// The largest number of points in a list.
const MAX_RECORDS: u64 = 2_000_000;
