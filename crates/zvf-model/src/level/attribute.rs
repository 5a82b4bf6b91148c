//! Attributes of vertices and fragments: columns with one row per vertex or fragment.
//!
//! The documents state the number of values per row, and some writers state it wrongly: they
//! declare one and store three. So the declared width counts only if it gives one row per vertex;
//! otherwise the cells decide. This is determined once per handle, on the first chunk that has
//! rows, and checked on every chunk that is read whole.
//!
//! ```text
//! vertex_attributes/<name>      a row for each row of vertices
//! fragment_attributes/<name>    a row for each fragment
//! ```
//!
//! An attribute that bins the level is not stored separately: the first component of a chunk key is
//! the code of all rows of that chunk.

use async_recursion::async_recursion as boxed;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::{join, try_join_all};
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::key::ChunkKey;
use zvf_format::num::{saturating_usize, to_u64};
use zvf_metadata::{Dtype, columns};
use zvf_store::{Caching, Cells, Partial};

use super::LevelReader;
use super::rows::{CellRows, missing_cell_error, slice_rows};
use crate::open::{column, open_strictly, refuse_stored, row_width};
use crate::{Categories, Column, Field, Value};

/// One attribute of the vertices or of the fragments of a level; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/bridge.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// # let level = zvf_model::LevelReader::open(&store, zvf_model::LevelId(0)).await?;
/// let radius = level.attribute("radius").await?.expect("the level has it");
/// let chunks: Vec<_> = level.chunks().await?.iter().collect();
/// let values = radius.values(&chunks, zvf_store::Caching::Once).await.remove(0)?;
/// assert_eq!(radius.field(values).value(1, 0)?, zvf_model::Value::Int(6));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct AttributeReader {
    level: LevelReader,
    info: Arc<AttributeInfo>,
}

/// The array of an opened attribute, and its metadata.
#[derive(Debug)]
pub(super) struct AttributeInfo {
    name: Arc<str>,
    scope: AttributeScope,
    cells: Option<Cells>, // `None` where it is a part of the keys
    dtype: Dtype,
    width: u32,
    categories: Option<Categories>,
    unit: Option<Arc<str>>,
    description: Option<Arc<str>>,
}

/// The items that the attribute has rows for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum AttributeScope {
    Vertices,
    Fragments,
}

impl LevelReader {
    /// Returns the attribute of vertices called `name`; `None` if there is no such array.
    ///
    /// # Errors
    ///
    /// When its document lacks information that is needed to read it.
    #[boxed]
    pub async fn attribute(&self, name: &str) -> Result<Option<AttributeReader>> {
        self.column(AttributeScope::Vertices, "vertex_attributes", name, None).await
    }

    /// Like [`attribute`](Self::attribute), for a caller that will read the chunk `near` anyway: if
    /// a chunk must be examined, it is that one.
    ///
    /// # Errors
    ///
    /// As [`attribute`](Self::attribute).
    #[boxed]
    pub async fn attribute_near(
        &self,
        name: &str,
        near: &ChunkKey,
    ) -> Result<Option<AttributeReader>> {
        self.column(AttributeScope::Vertices, "vertex_attributes", name, Some(near)).await
    }

    /// Like [`attribute_near`](Self::attribute_near), for a name that is listed: `None` only if an
    /// empty folder is left of it.
    ///
    /// # Errors
    ///
    /// As [`attribute`](Self::attribute), and when its document is missing.
    #[boxed]
    pub async fn listed_attribute(
        &self,
        name: &str,
        near: Option<&ChunkKey>,
    ) -> Result<Option<AttributeReader>> {
        let found = self.column(AttributeScope::Vertices, "vertex_attributes", name, near).await?;
        if found.is_none() {
            refuse_stored(self.node(), &format!("vertex_attributes/{name}")).await?;
        }
        Ok(found)
    }

    /// Returns all attributes of vertices.
    ///
    /// # Errors
    ///
    /// As [`listed_attribute`](Self::listed_attribute).
    #[boxed]
    pub async fn vertex_attributes(&self) -> Result<Vec<AttributeReader>> {
        let names = self.attribute_names().await?.names;
        let opened = names.iter().map(|name| self.listed_attribute(name, None));
        Ok(try_join_all(opened).await?.into_iter().flatten().collect())
    }

    /// Returns the attribute of fragments called `name`; `None` if there is no such array.
    ///
    /// # Errors
    ///
    /// As [`attribute`](Self::attribute).
    #[boxed]
    pub async fn fragment_attribute(&self, name: &str) -> Result<Option<AttributeReader>> {
        self.column(AttributeScope::Fragments, "fragment_attributes", name, None).await
    }

    async fn column(
        &self,
        scope: AttributeScope,
        family: &str,
        name: &str,
        near: Option<&ChunkKey>,
    ) -> Result<Option<AttributeReader>> {
        let path = format!("{family}/{name}");
        let reader = |info| AttributeReader { level: self.clone(), info };
        if let Some(info) = self.attributes().find(&path) {
            return Ok(Some(reader(info)));
        }
        let Some(cells) = self.node().cells(&path).await? else {
            let of_vertices = scope == AttributeScope::Vertices;
            let values = if of_vertices { self.values_in_keys(name).await } else { None };
            let info = values.map(|values| AttributeInfo::from_keys(name, values));
            return Ok(info.map(|info| reader(self.attributes().keep(path, info))));
        };
        let place = |error: Error| error.at_array(cells.path());
        if scope == AttributeScope::Vertices && !self.keeps_order().await? {
            let error = Error::new(
                Class::Unsupported,
                "attribute",
                "vertices in the order of the attribute: leave it out",
                "a Draco stream that does not keep the order",
            );
            return Err(place(error));
        }
        let opened = open_strictly(|take| column(cells.attributes(), take));
        let (doc, dtype, declared) = opened.map_err(place)?;
        let width = match near {
            Some(near) if self.fits(&cells, dtype, declared, near).await => declared,
            _ => self.attribute_width(scope, &cells, dtype, declared).await?,
        };
        let width = row_width(Some(width)).map_err(place)?;
        let categories = doc.dictionary.as_ref().map(Categories::from_dictionary);
        let (unit, description) = (doc.unit.map(Into::into), doc.description.map(Into::into));
        let name = name.into();
        let info = AttributeInfo {
            name,
            scope,
            cells: Some(cells),
            dtype,
            width,
            categories,
            unit,
            description,
        };
        Ok(Some(reader(self.attributes().keep(path, info))))
    }

    /// Returns the values of the first component of chunk keys, if it encodes the attribute `name`
    /// and there is a value for every chunk.
    async fn values_in_keys(&self, name: &str) -> Option<Vec<Value>> {
        let (_, values) =
            self.bin_attribute().filter(|(bin_attribute, _)| *bin_attribute == name)?;
        if let Ok(chunks) = self.chunks().await {
            let has_value = |bin: &i64| usize::try_from(*bin).is_ok_and(|bin| bin < values.len());
            let is_known = |key: &[i64]| key.first().is_some_and(has_value);
            let ends = [chunks.row(0), chunks.row(chunks.len().saturating_sub(1))]; // keys are sorted
            if !ends.into_iter().flatten().all(is_known) {
                return None;
            }
        }
        Some(values)
    }

    /// Returns the number of values per row: the declared one, unless the first chunk with rows
    /// contradicts it.
    async fn attribute_width(
        &self,
        scope: AttributeScope,
        cells: &Cells,
        dtype: Dtype,
        declared: u64,
    ) -> Result<u64> {
        let Ok(chunks) = self.chunks().await else { return Ok(declared) };
        for key in chunks.iter() {
            let key = [key];
            let (mut sizes, mut rows) = join(cells.sizes(&key), self.rows_of(scope, &key)).await;
            let (Some(Ok(Some(size))), Some(Ok(rows))) = (sizes.pop(), rows.pop()) else { break };
            if rows > 0 {
                let values = size.checked_div(dtype.size).unwrap_or(0); // a type without bytes has none
                // If no width fits the chunk, reading it reports the differing counts.
                return Ok(columns(declared, [(rows, values)]).unwrap_or(declared));
            }
        }
        Ok(declared)
    }

    /// Returns whether the declared width gives one row for each vertex in the fragments of a
    /// chunk.
    async fn fits(&self, cells: &Cells, dtype: Dtype, declared: u64, near: &ChunkKey) -> bool {
        let near = [*near];
        let (mut fragments, mut sizes) = join(self.fragments(&near), cells.sizes(&near)).await;
        let (Some(Ok(fragments)), Some(Ok(Some(size)))) = (fragments.pop(), sizes.pop()) else {
            return false;
        };
        let rows = fragments.extent();
        let row = declared.checked_mul(dtype.size);
        rows > 0 && row.and_then(|row| row.checked_mul(rows)) == Some(size)
    }

    async fn rows_of(&self, scope: AttributeScope, keys: &[ChunkKey]) -> Vec<Result<u64>> {
        match scope {
            AttributeScope::Vertices => self.row_counts(keys).await,
            AttributeScope::Fragments => {
                let found = self.fragments(keys).await;
                found.into_iter().map(|fragments| Ok(fragments?.len())).collect()
            }
        }
    }
}

impl AttributeInfo {
    /// Describes an attribute of vertices that is encoded in the first component of chunk keys.
    fn from_keys(name: &str, values: Vec<Value>) -> Self {
        Self {
            name: name.into(),
            scope: AttributeScope::Vertices,
            cells: None,
            dtype: Dtype::INT64,
            width: 1,
            categories: Some(Categories::new(values, None)),
            unit: None,
            description: None,
        }
    }
}

impl AttributeReader {
    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// Returns the type of a stored value: of a code, if there are categories.
    pub fn dtype(&self) -> Dtype {
        self.info.dtype
    }

    /// Returns the number of values per row.
    pub fn width(&self) -> u32 {
        self.info.width
    }

    /// Returns the categories, if the attribute is dictionary-encoded.
    pub fn categories(&self) -> Option<&Categories> {
        self.info.categories.as_ref()
    }

    /// Returns the cost of reading ranges of rows.
    pub fn part_cost(&self) -> Partial {
        self.info.cells.as_ref().map_or(Partial::Ranges, Cells::part_cost)
    }

    /// Returns whether the first component of a chunk key is the code of all rows of that chunk.
    pub fn is_part_of_key(&self) -> bool {
        self.info.cells.is_none()
    }

    /// Returns `column` with the metadata of the attribute.
    pub fn field(&self, column: Column) -> Field {
        Field {
            name: Arc::clone(&self.info.name),
            column,
            categories: self.info.categories.clone(),
            unit: self.info.unit.clone(),
            description: self.info.description.clone(),
            fill_is_absent: false,
        }
    }

    /// Returns all values in the chunks `keys`, in their order.
    ///
    /// Each answer has its own error: a chunk with different numbers of values and rows, a chunk
    /// with rows but no values, or invalid codes.
    #[boxed]
    pub async fn values(&self, keys: &[ChunkKey], caching: Caching) -> Vec<Result<Column>> {
        let counts = self.level.rows_of(self.info.scope, keys).await;
        let Some(rows) = self.rows() else {
            let columns = counts.into_iter().zip(keys);
            return columns.map(|(count, key)| self.repeat_code(key, count?)).collect();
        };
        let columns = rows.read_all(keys, caching).await;
        let chunks = columns.into_iter().zip(counts).zip(keys);
        chunks.map(|((column, count), key)| self.align_rows(column?, count?, key)).collect()
    }

    /// Like [`values`](Self::values), but returns `None` for a chunk with rows and no values:
    /// attributes of fragments may be written for some chunks only.
    #[boxed]
    pub async fn values_where_written(
        &self,
        keys: &[ChunkKey],
        caching: Caching,
    ) -> Vec<Result<Option<Column>>> {
        let Some(rows) = self.rows() else {
            let columns = self.values(keys, caching).await.into_iter();
            return columns.map(|column| column.map(Some)).collect();
        };
        let columns = rows.read_all(keys, caching).await;
        let counts = self.level.rows_of(self.info.scope, keys).await;
        let answers = columns.into_iter().zip(counts).zip(keys).map(|((column, count), key)| {
            let Some(column) = column? else { return Ok(None) };
            self.align_rows(Some(column), count?, key).map(Some)
        });
        answers.collect()
    }

    /// Returns ranges of rows: for each chunk one column per range.
    ///
    /// Each answer has its own error: a range past the end, a chunk without values, or invalid
    /// codes.
    #[boxed]
    pub async fn value_rows(
        &self,
        asks: &[(ChunkKey, Vec<Range<u64>>)],
    ) -> Vec<Result<Vec<Column>>> {
        let Some(rows) = self.rows() else {
            let keys: Vec<ChunkKey> = asks.iter().map(|(key, _)| *key).collect();
            let columns = self.values(&keys, Caching::Once).await.into_iter().zip(asks);
            let slices = columns.map(|(column, (key, ranges))| {
                let column = column?;
                let slice =
                    |range| slice_rows(&column, range).map_err(|error| self.place(error, key));
                ranges.iter().map(slice).collect()
            });
            return slices.collect();
        };
        let found = rows.read_ranges(asks).await;
        let answers = found.into_iter().zip(asks).map(|(found, (key, _))| {
            let columns = found?;
            columns.iter().try_for_each(|column| self.check_codes(column, key))?;
            Ok(columns)
        });
        answers.collect()
    }

    /// Aligns the values of a chunk with its `count` rows.
    fn align_rows(&self, column: Option<Column>, count: u64, key: &ChunkKey) -> Result<Column> {
        let place = |error| self.place(error, key);
        let column = match column {
            Some(column) => column,
            None if count > 0 => return Err(place(missing_cell_error())),
            None => Column::empty(self.info.dtype, self.info.width).map_err(|e| place(e.into()))?,
        };
        if to_u64(column.len()) != count {
            let found = column.len();
            let what = match self.info.scope {
                AttributeScope::Vertices => "rows of a vertex attribute",
                AttributeScope::Fragments => "rows of a fragment attribute",
            };
            return Err(place(Error::new(Class::CountMismatch, what, count, found)));
        }
        self.check_codes(&column, key)?;
        Ok(column)
    }

    fn check_codes(&self, column: &Column, key: &ChunkKey) -> Result<()> {
        let Some(categories) = &self.info.categories else { return Ok(()) };
        categories.present(column).map(drop).map_err(|error| self.place(error.into(), key))
    }

    /// Adds the chunk `key` of this attribute to `error`.
    fn place(&self, error: Error, key: &ChunkKey) -> Error {
        let cells = self.info.cells.as_ref().unwrap_or_else(|| self.level.vertices());
        error.at_array(cells.path()).at_chunk(key)
    }

    /// Returns the code of the chunk `key` for each of its `count` rows.
    fn repeat_code(&self, key: &ChunkKey, count: u64) -> Result<Column> {
        let code = key.components().first().copied().unwrap_or(-1).to_le_bytes(); // -1: no key is empty
        let bytes = code.repeat(saturating_usize(count));
        let column = Column::new(self.info.dtype, self.info.width, bytes.into());
        let column = column.map_err(|error| self.place(error.into(), key))?;
        self.check_codes(&column, key)?;
        Ok(column)
    }

    /// Returns the rows in cells; `None` if the attribute is encoded in the keys.
    fn rows(&self) -> Option<CellRows<'_>> {
        let AttributeInfo { cells, dtype, width, .. } = &*self.info;
        cells.as_ref().map(|cells| CellRows { cells, dtype: *dtype, width: *width })
    }
}

/// The attributes that a handle has opened, by their path.
#[derive(Debug, Default)]
pub(super) struct Attributes(Mutex<HashMap<String, Arc<AttributeInfo>>>);

impl Attributes {
    fn find(&self, path: &str) -> Option<Arc<AttributeInfo>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned()
    }

    /// Caches `info` under `path` unless there is an entry; returns the cached one.
    fn keep(&self, path: String, info: AttributeInfo) -> Arc<AttributeInfo> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(path).or_insert_with(|| Arc::new(info)))
    }
}
