//! Values of objects and groups: columns by row, in which rows may be absent.
//!
//! ```text
//! object_attributes/<name>   row r is of row r of the object index
//! group_attributes/<name>    row g is of group g
//! absent                     a byte of present_mask is 0 (until 0.8.0), or all items of the row are the
//!                            array's fill value and the document says that this means absence
//! ```
//!
//! An array may be shorter than the number of objects or groups: rows past its end were never
//! written.

use async_recursion::async_recursion as boxed;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::OnceCell;
use zvf_error::{Locate as _, Result};
use zvf_format::num::{checked_product, saturating_usize, to_u64, usize_from_u32};
use zvf_metadata::arrays::{Absence, ArrayAttributes as _, Rows as Doc};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_store::{DenseArray, LevelNode};

use crate::open::{list_nodes, refuse_stored, row_width};
use crate::{Column, ColumnBuilder, Field, Value};

/// One attribute of objects or groups; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/bridge.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// # let level = zvf_model::LevelReader::open(&store, zvf_model::LevelId(0)).await?;
/// use zvf_model::Value;
///
/// let mass = level.object_attribute("mass").await?.expect("objects have it");
/// let values = mass.rows(&[0, 1]).await?;
/// assert_eq!((values.value(0, 0), values.value(1, 0)), (Value::Float(2.5), Value::Null));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RowAttribute {
    inner: Arc<OpenedRows>,
}

#[derive(Debug)]
struct OpenedRows {
    name: String,
    array: DenseArray,
    width: u32,
    absence: Absence,
    unit: Option<Arc<str>>,
    description: Option<Arc<str>>,
    is_derived: bool,
    mask: OnceCell<Option<Bytes>>,
}

/// Values of some rows; some of the values may be absent.
///
/// ```
/// use zvf_metadata::Dtype;
/// use zvf_model::{Column, RowValues, Value};
///
/// let bytes = [7_i64, 0].map(i64::to_le_bytes).concat();
/// let values = RowValues::new(Column::new(Dtype::INT64, 1, bytes.into())?, vec![1]);
/// assert_eq!((values.value(0, 0), values.value(1, 0)), (Value::Int(7), Value::Null));
/// # Ok::<(), zvf_model::BadColumn>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RowValues {
    column: Column,
    absent: Vec<usize>, // ascending
}

impl RowAttribute {
    /// Opens all attributes in a folder of a level.
    pub(crate) async fn open_all(node: &LevelNode, folder: &str) -> Result<Vec<Self>> {
        let mut all = Vec::new();
        for name in list_nodes(node, folder).await?.names {
            let path = format!("{folder}/{name}");
            match node.dense(&path).await? {
                Some(array) => all.push(Self::new(&name, array)?),
                None => refuse_stored(node, &path).await?,
            }
        }
        Ok(all)
    }

    /// Creates the attribute called `name` that `array` holds.
    pub(crate) fn new(name: &str, array: DenseArray) -> Result<Self> {
        let doc = Doc::parse(array.attributes().clone()).at_array(array.path())?;
        let columns = array.shape().get(1..).unwrap_or_default(); // of one axis: one value a row
        let width = row_width(checked_product(columns)).at_array(array.path())?;
        Column::empty(array.dtype(), width).at_array(array.path())?;
        let absence = doc.absence();
        let text = |key: &str| doc.extras.get(key).and_then(|text| text.as_str()).map(Into::into);
        let (unit, description) = (text("unit"), text("description"));
        let is_derived = doc.extras.get("derived") == Some(&true.into());
        let (name, mask) = (name.to_owned(), OnceCell::new());
        let inner = OpenedRows { name, array, width, absence, unit, description, is_derived, mask };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the type of a value.
    pub fn dtype(&self) -> Dtype {
        self.inner.array.dtype()
    }

    /// Returns the number of values per row.
    pub fn width(&self) -> u32 {
        self.inner.width
    }

    /// Returns whether the writer states that the values follow from other arrays, so that a copy
    /// in another store or format has no use.
    pub fn is_derived(&self) -> bool {
        self.inner.is_derived
    }

    /// Returns the number of stored rows, including absent ones; a `u64`, because they are not in
    /// memory.
    pub fn len(&self) -> u64 {
        self.inner.array.len()
    }

    /// Returns whether there are no stored rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns `column` with the metadata of the attribute.
    pub fn field(&self, column: Column) -> Field {
        let OpenedRows { name, unit, description, .. } = &*self.inner;
        let (unit, description) = (unit.clone(), description.clone());
        let fill_is_absent = self.inner.absence != Absence::Never;
        Field { unit, description, fill_is_absent, ..Field::new(name.as_str(), column) }
    }

    /// Returns the values of the rows `range`; rows past the end are absent.
    ///
    /// # Errors
    ///
    /// When the values cannot be read, or are more than the budget.
    #[boxed]
    pub async fn range(&self, range: std::ops::Range<u64>) -> Result<RowValues> {
        let stored = range.start.min(self.len())..range.end.min(self.len());
        let bytes = self.inner.array.rows(stored.clone()).await?;
        let mask = self.mask().await?;
        let present: Vec<Option<u64>> =
            range.map(|row| (row < stored.end).then_some(row)).collect();
        self.values(bytes, &present, mask)
    }

    /// Returns the values of `rows`, in that order; rows past the end are absent.
    ///
    /// # Errors
    ///
    /// As [`range`](Self::range).
    #[boxed]
    pub async fn rows(&self, rows: &[u64]) -> Result<RowValues> {
        let present: Vec<Option<u64>> =
            rows.iter().map(|row| (*row < self.len()).then_some(*row)).collect();
        let stored: Vec<u64> = present.iter().flatten().copied().collect();
        let bytes = self.inner.array.take(&stored).await?;
        let mask = self.mask().await?;
        self.values(bytes, &present, mask)
    }

    async fn mask(&self) -> Result<Option<&Bytes>> {
        if self.inner.absence != Absence::Mask {
            return Ok(None);
        }
        let mask = &self.inner.mask;
        Ok(mask.get_or_try_init(|| self.inner.array.present_mask()).await?.as_ref())
    }

    /// Returns the values of `rows` from the stored `bytes`.
    fn values(
        &self,
        bytes: Bytes,
        rows: &[Option<u64>],
        mask: Option<&Bytes>,
    ) -> Result<RowValues> {
        let (dtype, width, fill) = (self.dtype(), self.inner.width, self.inner.array.fill());
        let stored = Column::new(dtype, width, bytes).at_array(self.inner.array.path())?;
        let (mut absent, mut at) = (Vec::new(), 0_usize);
        for (i, row) in rows.iter().enumerate() {
            let is_present = row.is_some_and(|row| match (self.inner.absence, mask) {
                (Absence::Mask, Some(mask)) => mask.get(saturating_usize(row)) != Some(&0),
                (Absence::FillValue, _) => !is_fill_row(dtype, stored.row(at), fill),
                (Absence::Mask | Absence::Never, _) => true,
            });
            at += usize::from(row.is_some());
            if !is_present {
                absent.push(i);
            }
        }
        if to_u64(stored.len()) == to_u64(rows.len()) {
            return Ok(RowValues { column: stored, absent });
        }
        let missing = fill.repeat(usize_from_u32(width));
        let (mut all, mut at) = (ColumnBuilder::empty_like(&stored), 0_usize);
        for row in rows {
            match row {
                Some(_) => {
                    all.push_row(&stored, at);
                    at += 1;
                }
                None => all.push_bytes(&missing),
            }
        }
        Ok(RowValues { column: all.finish(), absent })
    }
}

impl RowValues {
    /// Creates values from `column`. `absent` lists the rows without a value, in ascending order.
    pub const fn new(column: Column, absent: Vec<usize>) -> Self {
        Self { column, absent }
    }

    /// Returns the stored values: absent rows contain the fill value.
    pub const fn column(&self) -> &Column {
        &self.column
    }

    /// Returns the rows that are absent, ascending.
    pub fn absent_rows(&self) -> &[usize] {
        &self.absent
    }

    /// Returns whether row `i` has values.
    pub fn is_present(&self, i: usize) -> bool {
        i < self.column.len() && self.absent.binary_search(&i).is_err()
    }

    /// Returns value `c` of row `i`; [`Value::Null`] if it is absent.
    pub fn value(&self, i: usize, c: usize) -> Value {
        if self.is_present(i) { self.column.value(i, c) } else { Value::Null }
    }
}

/// Returns whether every item of a row is the fill value; all NaN values are equal.
pub fn is_fill_row(dtype: Dtype, row: &[u8], fill: &[u8]) -> bool {
    let nan = |item: &[u8]| is_nan(dtype, item);
    row.chunks_exact(fill.len().max(1)).all(|item| item == fill || (nan(fill) && nan(item)))
}

fn is_nan(dtype: Dtype, item: &[u8]) -> bool {
    dtype.kind == DtypeKind::Float
        && matches!(Value::decode(dtype, item), Value::Float(x) if x.is_nan())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_fill_values_are_detected() {
        let dtype = |text: &str| text.parse::<Dtype>().unwrap();
        #[rustfmt::skip]
        let table: [(&str, &[u8], &[u8], bool); 8] = [
            ("int16", &[0, 0x80, 0, 0x80], &[0, 0x80], true),
            ("int16", &[0, 0x80, 1, 0x80], &[0, 0x80], false),
            ("float32", &[0, 0, 0xc0, 0x7f], &[0, 0, 0xc0, 0x7f], true),
            ("float32", &[1, 0, 0xc0, 0xff], &[0, 0, 0xc0, 0x7f], true), // another NaN
            ("float32", &[0, 0, 0, 0], &[0, 0, 0xc0, 0x7f], false),
            ("float16", &[1, 0x7e], &[0, 0x7e], true),
            ("float64", &[1, 0, 0, 0, 0, 0, 0xf8, 0xff], &[0, 0, 0, 0, 0, 0, 0xf8, 0x7f], true),
            ("uint32", &[1, 0, 0xc0, 0xff], &[0, 0, 0xc0, 0x7f], false),
        ];
        for (name, row, fill, is) in table {
            assert_eq!(is_fill_row(dtype(name), row, fill), is, "{name} {row:?}");
        }
    }
}
