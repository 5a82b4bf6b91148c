//! Composite stores: further geometries of a level, each in its own arrays.
//!
//! ```text
//! geometry_index       attributes: a name for each geometry, its arrays, its counts
//! vertices_<name>      rows by chunk, without fragments: all rows count, chunk after chunk
//! links_<name>         rows of numbers of vertices, in the order in which they were given to the writer
//! ```

use async_recursion::async_recursion as boxed;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::key::ChunkKey;
use zvf_format::{Class, Expected};
use zvf_metadata::arrays::{ArrayAttributes as _, GeometryIndex, Vertices};
use zvf_store::{Caching, Cells, DenseArray, KeyTable};

use crate::level::CellRows;
use crate::open::row_width;
use crate::{Column, LevelReader};

/// A further geometry of a level.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/bridge.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// # let level = zvf_model::LevelReader::open(&store, zvf_model::LevelId(0)).await?;
/// assert!(level.geometries().await?.is_empty(), "this store is not composite");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ExtraGeometry {
    name: String,
    vertices: Cells,
    links: Option<DenseArray>,
    dtype: zvf_metadata::Dtype,
    width: u32,
}

impl LevelReader {
    /// Returns the further geometries of the level, in the order of their list.
    ///
    /// # Errors
    ///
    /// When their index, or the documents of their arrays, are invalid.
    #[boxed]
    pub async fn geometries(&self) -> Result<Vec<ExtraGeometry>> {
        let Some(group) = self.node().group(INDEX).await? else { return Ok(Vec::new()) };
        let index = GeometryIndex::parse(group.attributes).map_err(|error| {
            Error::from(error).at_array(format!("{}/{INDEX}", self.node().path()))
        })?;
        let mut geometries = Vec::with_capacity(index.entries.len());
        for (name, entry) in index.entries {
            let vertices = self.node().required_cells(&entry.array).await?;
            let place = |error: Error| error.at_array(vertices.path());
            let doc =
                Vertices::parse(vertices.attributes().clone()).map_err(|e| place(e.into()))?;
            let dtype = doc.dtype().map_err(|error| place(error.into()))?;
            let axes = i64::try_from(self.axes()).unwrap_or(i64::MAX); // at most 8
            let width = doc.ndim.unwrap_or(axes);
            let width = u32::try_from(width).ok().filter(|width| *width > 0).ok_or_else(|| {
                place(Error::new(Class::BadShape, "ndim", Expected::AtLeast(1), width))
            })?;
            let links = match entry.links_array.filter(|_| entry.has_links) {
                Some(array) => self.node().dense(&array).await?,
                None => None,
            };
            geometries.push(ExtraGeometry { name, vertices, links, dtype, width });
        }
        Ok(geometries)
    }
}

impl ExtraGeometry {
    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the chunks that have vertices, in numeric order.
    ///
    /// # Errors
    ///
    /// As [`LevelReader::chunks`].
    #[boxed]
    pub async fn chunks(&self) -> Result<std::sync::Arc<KeyTable>> {
        self.vertices.presence().await
    }

    /// Returns all rows of the chunks `keys`, in their order.
    ///
    /// Each answer has its own error: a chunk that is absent, or that is not a whole number of
    /// rows.
    #[boxed]
    pub async fn positions(&self, keys: &[ChunkKey], caching: Caching) -> Vec<Result<Column>> {
        let rows = CellRows { cells: &self.vertices, dtype: self.dtype, width: self.width };
        let columns = rows.read_all(keys, caching).await.into_iter().zip(keys);
        let positions = columns.map(|(column, key)| {
            column?.ok_or_else(|| {
                crate::level::missing_cell_error().at_array(self.vertices.path()).at_chunk(key)
            })
        });
        positions.collect()
    }

    /// Returns the elements, each a row of vertex numbers; `None` if there are none.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    #[boxed]
    pub async fn links(&self) -> Result<Option<Column>> {
        let Some(links) = &self.links else { return Ok(None) };
        let columns = links.shape().get(1).copied().unwrap_or(1); // one axis: a number in each row
        let width = row_width(Some(columns)).at_array(links.path())?;
        let column = Column::new(links.dtype(), width, links.read_all().await?);
        column.map(Some).at_array(links.path())
    }
}

const INDEX: &str = crate::level::GEOMETRIES;
