//! Rows of vertices: all rows of a chunk, or ranges.

use async_recursion::async_recursion as boxed;
use std::ops::Range;

use zvf_error::{Error, Locate as _, Result};
use zvf_format::key::ChunkKey;
use zvf_format::num::{saturating_usize, to_u64};
use zvf_format::{Class, Expected};
use zvf_metadata::Dtype;
use zvf_store::{Caching, Cells};

use super::LevelReader;
use crate::Column;

impl LevelReader {
    /// Prefetches the locations of the positions of the chunks `keys` in shards of a remote store,
    /// which saves one round trip when they are read. Errors are reported when they are read.
    pub async fn locate_positions(&self, keys: &[ChunkKey]) {
        self.vertices().locate(keys).await;
    }

    /// Returns all rows of vertices of the chunks `keys`, in their order.
    ///
    /// Each answer has its own error: a chunk that is absent, or whose bytes are not a whole number
    /// of rows.
    #[boxed]
    pub async fn positions(&self, keys: &[ChunkKey], caching: Caching) -> Vec<Result<Column>> {
        let rows = match self.vertex_rows() {
            Ok(rows) => rows,
            Err(error) => return keys.iter().map(|_| Err(error.clone())).collect(),
        };
        let mut columns = Vec::with_capacity(keys.len());
        let found = if self.is_draco() {
            let chunks = self.draco_chunks(keys, caching).await.into_iter();
            chunks.map(|chunk| Ok(chunk?.map(|chunk| chunk.positions))).collect()
        } else {
            rows.read_all(keys, caching).await
        };
        for (column, key) in found.into_iter().zip(keys) {
            columns.push(match column {
                Ok(Some(column)) => Ok(column),
                Ok(None) => self.resolve_absent(&rows, key).await,
                Err(error) => Err(error),
            });
        }
        if let Ok(chunks) = self.chunks().await {
            for (column, key) in columns.iter().zip(keys) {
                if let Ok(column) = column {
                    self.counts().record_rows(&chunks, key, to_u64(column.len()));
                }
            }
        }
        columns
    }

    /// Returns ranges of rows of vertices: for each chunk one column per range.
    ///
    /// Each answer has its own error, as for [`positions`](Self::positions), or for a range past
    /// the end.
    #[boxed]
    pub async fn position_rows(
        &self,
        asks: &[(ChunkKey, Vec<Range<u64>>)],
    ) -> Vec<Result<Vec<Column>>> {
        match self.vertex_rows() {
            Ok(_) if self.is_draco() => self.draco_rows(asks).await,
            Ok(rows) => rows.read_ranges(asks).await,
            Err(error) => asks.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    /// Returns the number of rows of vertices of each of the chunks `keys`, without reading them if
    /// the number is cached or the store states it.
    ///
    /// Each answer has its own error, as for [`positions`](Self::positions).
    #[boxed]
    pub async fn row_counts(&self, keys: &[ChunkKey]) -> Vec<Result<u64>> {
        let rows = match self.vertex_rows() {
            Ok(rows) => rows,
            Err(error) => return keys.iter().map(|_| Err(error.clone())).collect(),
        };
        let chunks = self.chunks().await.ok();
        let recorded_rows =
            |key| chunks.as_deref().and_then(|chunks| self.counts().row_count(chunks, key));
        let mut answers: Vec<Option<Result<u64>>> =
            keys.iter().map(|key| recorded_rows(key).map(Ok)).collect();
        let open: Vec<ChunkKey> = keys
            .iter()
            .zip(&answers)
            .filter(|(_, answer)| answer.is_none())
            .map(|(key, _)| *key)
            .collect();
        let found = if self.is_draco() {
            let chunks = self.draco_chunks(&open, Caching::Keep).await.into_iter();
            chunks.map(|chunk| Ok(chunk?.map(|chunk| to_u64(chunk.positions.len())))).collect()
        } else {
            rows.counts(&open).await
        };
        let mut found = found.into_iter();
        for (answer, key) in answers.iter_mut().zip(keys).filter(|(answer, _)| answer.is_none()) {
            let count = match found.next() {
                Some(Ok(Some(count))) => Ok(count),
                Some(Err(error)) => Err(error),
                Some(Ok(None)) | None => self.resolve_absent(&rows, key).await.map(|_empty| 0),
            };
            if let (Ok(count), Some(chunks)) = (&count, chunks.as_deref()) {
                self.counts().record_rows(chunks, key, *count);
            }
            *answer = Some(count);
        }
        answers
            .into_iter()
            .map(|answer| answer.unwrap_or_else(|| Err(missing_cell_error())))
            .collect()
    }

    /// Returns ranges of rows of Draco chunks, which are decoded as a whole.
    async fn draco_rows(&self, asks: &[(ChunkKey, Vec<Range<u64>>)]) -> Vec<Result<Vec<Column>>> {
        let keys: Vec<ChunkKey> = asks.iter().map(|(key, _)| *key).collect();
        let chunks = self.draco_chunks(&keys, Caching::Keep).await;
        let answers = chunks.into_iter().zip(asks).map(|(chunk, (key, ranges))| {
            let place = |error: Error| error.at_array(self.vertices().path()).at_chunk(key);
            let column = chunk?.ok_or_else(|| place(missing_cell_error()))?.positions;
            ranges.iter().map(|range| slice_rows(&column, range).map_err(place)).collect()
        });
        answers.collect()
    }

    /// Returns an empty column for a chunk without bytes that came from a listing, and an error for
    /// any other.
    async fn resolve_absent(&self, rows: &CellRows<'_>, key: &ChunkKey) -> Result<Column> {
        let place = |error: Error| error.at_array(rows.cells.path()).at_chunk(key);
        if self.chunks().await?.find(key).is_none() {
            return Err(place(missing_cell_error()));
        }
        Column::empty(rows.dtype, rows.width).map_err(|error| place(error.into()))
    }

    fn vertex_rows(&self) -> Result<CellRows<'_>> {
        self.check_encoding()?;
        let width = u32::try_from(self.axes()).unwrap_or(u32::MAX); // at most 8
        Ok(CellRows { cells: self.vertices(), dtype: self.dtype(), width })
    }
}

/// Cells as rows of one type and width.
#[derive(Clone, Copy)]
pub(crate) struct CellRows<'a> {
    pub(crate) cells: &'a Cells,
    pub(crate) dtype: Dtype,
    pub(crate) width: u32,
}

impl CellRows<'_> {
    /// Reads all rows of each chunk; `None` for chunks that are not stored.
    pub(crate) async fn read_all(
        &self,
        keys: &[ChunkKey],
        caching: Caching,
    ) -> Vec<Result<Option<Column>>> {
        let payloads = self.cells.read_many(keys, caching).await;
        let columns = payloads.into_iter().zip(keys).map(|(payload, key)| {
            let payload = payload.at_array(self.cells.path()).at_chunk(key)?;
            let column = payload.map(|bytes| Column::new(self.dtype, self.width, bytes));
            column.transpose().at_array(self.cells.path()).at_chunk(key)
        });
        columns.collect()
    }

    /// Reads ranges of rows of each chunk; a range past its end is an error.
    pub(crate) async fn read_ranges(
        &self,
        asks: &[(ChunkKey, Vec<Range<u64>>)],
    ) -> Vec<Result<Vec<Column>>> {
        let stride = self.stride();
        // A value that overflows 64 bits is past the end of any cell.
        let bytes =
            |rows: &Range<u64>| rows.start.saturating_mul(stride)..rows.end.saturating_mul(stride);
        let parts: Vec<(ChunkKey, Vec<Range<u64>>)> =
            asks.iter().map(|(key, rows)| (*key, rows.iter().map(bytes).collect())).collect();
        let found = self.cells.read_parts(&parts).await;
        let answers = found.into_iter().zip(asks).map(|(found, (key, _))| {
            let place = |error: Error| error.at_array(self.cells.path()).at_chunk(key);
            let parts = found.map_err(&place)?.ok_or_else(|| place(missing_cell_error()))?;
            let column = |bytes| Column::new(self.dtype, self.width, bytes);
            parts
                .into_iter()
                .map(column)
                .collect::<Result<_, _>>()
                .map_err(|error| place(error.into()))
        });
        answers.collect()
    }

    /// Returns the number of rows of each chunk; `None` for chunks that are not stored.
    pub(crate) async fn counts(&self, keys: &[ChunkKey]) -> Vec<Result<Option<u64>>> {
        let sizes = self.cells.sizes(keys).await;
        let counts = sizes.into_iter().zip(keys).map(|(size, key)| {
            let place = |error: Error| error.at_array(self.cells.path()).at_chunk(key);
            let Some(size) = size.map_err(&place)? else { return Ok(None) };
            let rows = size.checked_div(self.stride()).unwrap_or(0); // refused below, unless empty
            if rows * self.stride() == size {
                return Ok(Some(rows));
            }
            Err(place(Error::new(
                Class::CountMismatch,
                "bytes of a cell",
                Expected::MultipleOf(self.stride().into()),
                size,
            )))
        });
        counts.collect()
    }

    /// Returns the number of bytes per row; 0 or an overflow becomes a value that no cell can have.
    fn stride(&self) -> u64 {
        self.dtype.size.saturating_mul(self.width.into())
    }
}

/// Returns a range of rows of a column that contains all rows of a chunk.
pub(crate) fn slice_rows(column: &Column, range: &Range<u64>) -> Result<Column> {
    let rows = to_u64(column.len());
    if range.end > rows || range.start > range.end {
        return Err(Error::new(
            Class::OutOfBounds,
            "end of rows",
            Expected::AtMost(rows.into()),
            range.end,
        ));
    }
    Ok(column.slice(saturating_usize(range.start)..saturating_usize(range.end)))
}

pub(crate) fn missing_cell_error() -> Error {
    Error::new(
        Class::NotFound,
        "cell",
        "a cell for every chunk with vertices: leave the column out, or write it again",
        "none",
    )
}
