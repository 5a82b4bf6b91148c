//! Attributes of vertices: columns whose rows are rows of vertices.
//!
//! The documents say how many values a row has, and some writers say it wrongly: they declare one where
//! they store three. So the declared width counts only where it gives one row for each row of vertices;
//! otherwise the cells decide, if they agree. That is settled once per handle, on the first chunk asked
//! for, and held against every other.

use std::ops::Range;
use std::sync::Arc;

use zvf_format::key::ChunkKey;
use zvf_format::metadata::arrays::Column as ColumnDoc;
use zvf_format::metadata::{Dtype, columns};
use zvf_format::{Class, Expected};
use zvf_store::{Caching, Cells, Partial};

use super::LevelReader;
use super::rows::CellRows;
use crate::{Categories, Column, Field, ModelError, Value};

/// One attribute of the vertices of a level; cheap to clone.
#[derive(Clone, Debug)]
pub struct AttributeReader {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: Arc<str>,
    cells: Cells,
    dtype: Dtype,
    width: u32,
    categories: Option<Categories>,
    unit: Option<Arc<str>>,
    description: Option<Arc<str>>,
}

impl LevelReader {
    /// The attribute of vertices called `name`; `None` when there is no such array.
    ///
    /// # Errors
    ///
    /// When its document does not say what is needed to read it, or the cells have no common width.
    pub async fn attribute(&self, name: &str) -> Result<Option<AttributeReader>, ModelError> {
        let Some(cells) = self.node().cells(&format!("vertex_attributes/{name}")).await? else {
            return Ok(None);
        };
        let place = |error: ModelError| error.in_array(cells.path());
        let doc = ColumnDoc::parse(cells.attributes().clone()).map_err(|e| place(e.into()))?;
        let dtype = doc.dtype().map_err(|error| place(error.into()))?;
        let width = self.attribute_width(&cells, dtype, doc.declared_columns()).await.map_err(place)?;
        let dictionary = doc.dictionary.map(|dictionary| {
            let values = dictionary.categories.iter().map(category).collect();
            Categories::new(values, dictionary.missing)
        });
        let inner = Inner {
            name: name.into(),
            dtype,
            width,
            categories: dictionary,
            unit: doc.unit.map(Into::into),
            description: doc.description.map(Into::into),
            cells,
        };
        Ok(Some(AttributeReader { inner: Arc::new(inner) }))
    }

    /// How many values a row has, by the first chunk that has both vertices and values.
    async fn attribute_width(
        &self,
        cells: &Cells,
        dtype: Dtype,
        declared: Option<u64>,
    ) -> Result<u32, ModelError> {
        let declared = declared.unwrap_or(1);
        let chunks = self.chunks().await?;
        let first: Vec<ChunkKey> = chunks.iter().take(1).collect();
        let sizes = cells.sizes(&first).await;
        let rows = self.row_counts(&first).await;
        let mut known = Vec::new();
        for (size, rows) in sizes.into_iter().zip(rows) {
            if let (Ok(Some(size)), Ok(rows)) = (size, rows) {
                known.push((rows, size.checked_div(dtype.size).unwrap_or(0)));
            }
        }
        // A first chunk that does not fit is told when it is read, with the row counts that differ.
        let width = columns(declared, known).unwrap_or(declared);
        u32::try_from(width).map_err(|_too_wide| {
            let expected = Expected::AtMost(u32::MAX.into());
            ModelError::refused(Class::LimitExceeded, "values of a row", expected, width)
        })
    }
}

impl AttributeReader {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The type of a value, as stored: of a code, where there are categories.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.inner.dtype
    }

    /// How many values a row has.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.inner.width
    }

    /// What codes stand for, where the attribute is dictionary-encoded.
    #[must_use]
    pub fn categories(&self) -> Option<&Categories> {
        self.inner.categories.as_ref()
    }

    /// What reading ranges of rows costs.
    #[must_use]
    pub fn partial(&self) -> Partial {
        self.inner.cells.partial()
    }

    /// `column` with what is known of the attribute.
    #[must_use]
    pub fn field(&self, column: Column) -> Field {
        Field {
            name: Arc::clone(&self.inner.name),
            column,
            categories: self.inner.categories.clone(),
            unit: self.inner.unit.clone(),
            description: self.inner.description.clone(),
        }
    }

    /// All values in the chunks `keys`, in their order.
    ///
    /// Each answer has its own fault. A chunk that has vertices and no values is one.
    pub async fn values(
        &self,
        keys: &[ChunkKey],
        caching: Caching,
    ) -> Vec<Result<Column, ModelError>> {
        self.rows().whole(keys, caching).await
    }

    /// Ranges of rows: for each chunk one column a range.
    ///
    /// Each answer has its own fault, as for [`values`](Self::values).
    pub async fn value_rows(
        &self,
        asks: &[(ChunkKey, Vec<Range<u64>>)],
    ) -> Vec<Result<Vec<Column>, ModelError>> {
        self.rows().some(asks).await
    }

    fn rows(&self) -> CellRows<'_> {
        CellRows { cells: &self.inner.cells, dtype: self.inner.dtype, width: self.inner.width }
    }
}

/// A category as a value; what JSON cannot tell apart stays text.
fn category(value: &serde_json::Value) -> Value {
    if let Some(text) = value.as_str() {
        Value::from(text)
    } else if let Some(flag) = value.as_bool() {
        Value::Bool(flag)
    } else if let Some(n) = value.as_i64() {
        Value::Int(n)
    } else if let Some(n) = value.as_u64() {
        Value::UInt(n)
    } else if let Some(x) = value.as_f64() {
        Value::Float(x)
    } else if value.is_null() {
        Value::Null
    } else {
        Value::Text(value.to_string())
    }
}
