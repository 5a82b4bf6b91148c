//! All cells of a level: the input of brute force.

use anyhow::Context as _;
use zvf_error::Result;
use zvf_format::fragment::Fragment;
use zvf_format::key::ChunkKey;
use zvf_model::{AttributeReader, Batch, Column, LevelReader};
use zvf_store::{Caching, LevelNode};

use crate::facts::Rows;

/// All positions and fragments of a level.
pub(crate) struct LevelContents {
    pub(crate) reader: LevelReader,
    pub(crate) cells: Vec<Cell>,
}

/// One chunk.
pub(crate) struct Cell {
    pub(crate) key: ChunkKey,
    /// Rows as stored.
    pub(crate) positions: Column,
    pub(crate) fragments: Vec<Rowset>,
}

/// The rows of one fragment.
pub(crate) struct Rowset {
    /// The first row, if the fragment is a range: an empty one may still have a start.
    pub(crate) start: Option<u64>,
    pub(crate) rows: Vec<usize>,
}

impl LevelContents {
    /// Reads everything.
    pub(crate) async fn read(reader: LevelReader) -> Result<Self> {
        let keys: Vec<ChunkKey> = reader.chunks().await?.iter().collect();
        let positions = reader.positions(&keys, Caching::Once).await;
        let fragments = reader.fragments(&keys).await;
        let mut cells = Vec::new();
        for ((key, positions), fragments) in keys.into_iter().zip(positions).zip(fragments) {
            let (positions, fragments) = (positions?, fragments?);
            fragments.check_rows(positions.len() as u64)?;
            let fragments = fragments.view().iter().map(rowset_from_fragment).collect();
            cells.push(Cell { key, positions, fragments });
        }
        Ok(Self { reader, cells })
    }

    /// Returns the values of an attribute, chunk by chunk, rows as stored.
    pub(crate) async fn read_values(&self, attribute: &AttributeReader) -> Result<Vec<Column>> {
        let keys: Vec<ChunkKey> = self.cells.iter().map(|cell| cell.key).collect();
        attribute.values(&keys, Caching::Once).await.into_iter().collect()
    }

    /// Returns rows of columns parallel to the positions, in the order of vertices: chunks by
    /// number, fragments of a chunk in order, rows of a fragment in order.
    pub(crate) fn rows_in_order(&self, columns: &[&Column]) -> Rows {
        let mut rows = Vec::new();
        for (cell, column) in self.cells.iter().zip(columns) {
            for set in &cell.fragments {
                rows.extend(set.rows.iter().map(|&row| column.row(row).to_vec()));
            }
        }
        Rows(rows)
    }

    /// Returns the positions in the order of vertices.
    pub(crate) fn positions(&self) -> Rows {
        self.rows_in_order(&self.cells.iter().map(|cell| &cell.positions).collect::<Vec<_>>())
    }

    /// Returns the positions in the order of vertices, as numbers.
    pub(crate) fn points(&self) -> Vec<Vec<f64>> {
        let mut points = Vec::new();
        for cell in &self.cells {
            for &row in cell.fragments.iter().flat_map(|set| &set.rows) {
                points.push(point_at(&cell.positions, row));
            }
        }
        points
    }
}

/// Payloads by their keys.
pub(crate) type Payloads = Vec<(String, Vec<u8>)>;

/// Returns the cells of an array of a level; none if there is no such array.
pub(crate) async fn read_cells(level: &LevelNode, path: &str) -> anyhow::Result<Payloads> {
    let Some(cells) = level.cells(path).await? else { return Ok(Vec::new()) };
    let keys: Vec<_> = cells.presence().await?.iter().collect();
    let payloads = cells.read_many(&keys, Caching::Once).await;
    let pairs = keys.iter().zip(payloads).map(|(key, payload)| {
        Ok((key.to_string(), payload?.context("a cell that is listed")?.to_vec()))
    });
    pairs.collect()
}

/// Returns the rows of an array of a level; none if there is no such array.
pub(crate) async fn read_rows(level: &LevelNode, path: &str) -> anyhow::Result<Payloads> {
    let Some(rows) = level.rows(path).await? else { return Ok(Vec::new()) };
    let all = rows.range(0..rows.count().await?).await?;
    Ok(all.iter().enumerate().map(|(at, row)| (at.to_string(), row.to_vec())).collect())
}

/// Returns all rows of positions as numbers.
pub(crate) fn points(positions: &Column) -> Vec<Vec<f64>> {
    (0..positions.len()).map(|row| point_at(positions, row)).collect()
}

/// Returns one row of positions as numbers.
pub(crate) fn point_at(positions: &Column, row: usize) -> Vec<f64> {
    let coordinate = |c| positions.float(row, c).unwrap_or(f64::NAN);
    (0..positions.width() as usize).map(coordinate).collect()
}

/// Returns the points of each edge or face.
pub(crate) fn element_points(batch: &Batch) -> Vec<Vec<Vec<f64>>> {
    let point = |row: &usize| point_at(batch.positions(), *row);
    let elements = batch.elements().into_iter().flat_map(|elements| elements.iter());
    elements.map(|rows| rows.iter().map(point).collect()).collect()
}

fn rowset_from_fragment(fragment: Fragment<'_>) -> Rowset {
    match fragment {
        Fragment::Range { start, count } => {
            let rows = start as usize..(start + count) as usize;
            Rowset { start: Some(start), rows: rows.collect() }
        }
        Fragment::Rows(rows) => {
            Rowset { start: None, rows: rows.iter().map(|row| row.get() as usize).collect() }
        }
    }
}
