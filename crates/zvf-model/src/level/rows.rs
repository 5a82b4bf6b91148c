//! Rows of vertices: all of a chunk, or ranges of them.

use std::ops::Range;

use zvf_format::key::ChunkKey;
use zvf_format::metadata::Dtype;
use zvf_format::{Class, Expected};
use zvf_store::{Caching, Cells};

use super::LevelReader;
use crate::{Column, ModelError};

impl LevelReader {
    /// All rows of vertices of the chunks `keys`, in their order.
    ///
    /// Each answer has its own fault: a chunk that is absent, or whose bytes are not a whole number of
    /// rows.
    pub async fn positions(
        &self,
        keys: &[ChunkKey],
        caching: Caching,
    ) -> Vec<Result<Column, ModelError>> {
        match self.vertex_rows() {
            Ok(rows) => rows.whole(keys, caching).await,
            Err(error) => keys.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    /// Ranges of rows of vertices: for each chunk one column a range.
    ///
    /// Each answer has its own fault, as for [`positions`](Self::positions); a range past the end is one.
    pub async fn position_rows(
        &self,
        asks: &[(ChunkKey, Vec<Range<u64>>)],
    ) -> Vec<Result<Vec<Column>, ModelError>> {
        match self.vertex_rows() {
            Ok(rows) => rows.some(asks).await,
            Err(error) => asks.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    /// How many rows of vertices each of the chunks `keys` has: without reading them where the store
    /// can tell.
    pub async fn row_counts(&self, keys: &[ChunkKey]) -> Vec<Result<u64, ModelError>> {
        match self.vertex_rows() {
            Ok(rows) => rows.counts(keys).await,
            Err(error) => keys.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    fn vertex_rows(&self) -> Result<CellRows<'_>, ModelError> {
        self.check_encoding()?;
        let width = u32::try_from(self.axes()).unwrap_or(u32::MAX); // at most 8
        Ok(CellRows { cells: self.vertices(), dtype: self.dtype(), width })
    }
}

/// Cells as rows of one type and width.
#[derive(Clone, Copy, Debug)]
pub(super) struct CellRows<'a> {
    pub(super) cells: &'a Cells,
    pub(super) dtype: Dtype,
    pub(super) width: u32,
}

impl CellRows<'_> {
    pub(super) async fn whole(
        &self,
        keys: &[ChunkKey],
        caching: Caching,
    ) -> Vec<Result<Column, ModelError>> {
        let payloads = self.cells.read_many(keys, caching).await;
        let each = payloads.into_iter().zip(keys).map(|(payload, key)| {
            let place = |error: ModelError| error.in_array(self.cells.path()).in_chunk(key);
            let bytes = payload.map_err(|error| place(error.into()))?.ok_or_else(|| place(absent()))?;
            Column::new(self.dtype, self.width, bytes).map_err(|error| place(error.into()))
        });
        each.collect()
    }

    pub(super) async fn some(
        &self,
        asks: &[(ChunkKey, Vec<Range<u64>>)],
    ) -> Vec<Result<Vec<Column>, ModelError>> {
        let stride = self.stride();
        let bytes = |rows: &Range<u64>| {
            rows.start.saturating_mul(stride)..rows.end.saturating_mul(stride)
        };
        let parts: Vec<(ChunkKey, Vec<Range<u64>>)> =
            asks.iter().map(|(key, rows)| (*key, rows.iter().map(bytes).collect())).collect();
        let found = self.cells.read_parts(&parts).await;
        let each = found.into_iter().zip(asks).map(|(found, (key, _))| {
            let place = |error: ModelError| error.in_array(self.cells.path()).in_chunk(key);
            let parts = found.map_err(|error| place(error.into()))?.ok_or_else(|| place(absent()))?;
            let column = |bytes| Column::new(self.dtype, self.width, bytes);
            parts.into_iter().map(column).collect::<Result<_, _>>().map_err(|error| place(error.into()))
        });
        each.collect()
    }

    pub(super) async fn counts(&self, keys: &[ChunkKey]) -> Vec<Result<u64, ModelError>> {
        let sizes = self.cells.sizes(keys).await;
        let each = sizes.into_iter().zip(keys).map(|(size, key)| {
            let place = |error: ModelError| error.in_array(self.cells.path()).in_chunk(key);
            let size = size.map_err(|error| place(error.into()))?.ok_or_else(|| place(absent()))?;
            let rows = size.checked_div(self.stride()).unwrap_or(0);
            if rows.saturating_mul(self.stride()) == size {
                return Ok(rows);
            }
            let expected = Expected::MultipleOf(self.stride().into());
            Err(place(ModelError::refused(Class::CountMismatch, "bytes of a cell", expected, size)))
        });
        each.collect()
    }

    fn stride(&self) -> u64 {
        self.dtype.size.saturating_mul(self.width.into())
    }
}

fn absent() -> ModelError {
    let expected = Expected::Rule("a cell for every chunk with vertices");
    ModelError::refused(Class::NotFound, "cell", expected, "none")
}
