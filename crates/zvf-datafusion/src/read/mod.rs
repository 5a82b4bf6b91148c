//! Rows of the tables, as record batches.

mod groups;
mod levels;
mod links;
mod objects;
mod vertices;

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array, make_array};
use arrow_schema::{DataType, SchemaRef};
use datafusion::error::Result;
use futures_util::stream::BoxStream;
use zvf::format::num::{saturating_usize, to_u64};

use crate::columns::{Layout, TableName};
use crate::handle::StoreHandle;
use crate::scan::{Scan, Task};
use crate::{bad_request, external};

/// The rows of one task.
pub(crate) type Rows = BoxStream<'static, Result<RecordBatch>>;

/// What a task is read with.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) store: StoreHandle,
    pub(crate) scan: Scan,
    /// The columns of the answer.
    pub(crate) layout: Layout,
    pub(crate) schema: SchemaRef,
}

impl Reading {
    /// Makes a reader ready: the columns are looked up.
    pub(crate) async fn new(store: StoreHandle, scan: Scan, schema: SchemaRef) -> Result<Self> {
        let all = Layout::read(&store.reader(), scan.options()?).await?;
        let layout = all.named(&scan.columns)?;
        Ok(Self { store, scan, layout, schema })
    }

    /// The rows of `task`.
    pub(crate) async fn rows(self, task: &Task) -> Result<Rows> {
        match self.scan.table {
            TableName::Vertices => vertices::rows(self, task).await,
            TableName::Objects => objects::rows(self, task).await,
            TableName::Groups => groups::rows(self).await,
            TableName::Members => groups::members(self).await,
            TableName::Links => links::rows(self).await,
            TableName::Levels => levels::rows(self).await,
        }
    }

    /// A record batch of the columns of the answer.
    pub(crate) fn batch(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }

    /// Batches of `rows` rows without columns.
    pub(crate) fn bare(&self, rows: u64) -> Result<Vec<RecordBatch>> {
        let mut left = rows;
        let mut batches = Vec::new();
        while left > 0 {
            let now = left.min(MAX_BARE_ROWS);
            batches.push(self.batch(Vec::new(), saturating_usize(now))?);
            left -= now;
        }
        Ok(batches)
    }
}

/// The values of attributes that rows have, null where they are absent.
pub(crate) async fn attribute_values(
    attribute: &zvf::model::RowAttribute,
    rows: &[u64],
) -> Result<ArrayRef> {
    let values = attribute.rows(rows).await.map_err(external)?;
    let field = attribute.field(values.column().clone());
    let batch = crate::columns::rows_of(vec![field], rows.len())?;
    let batch = zvf::convert::record_batch(&batch).map_err(external)?;
    let array = Arc::clone(batch.column(1));
    if values.absent().is_empty() {
        return Ok(array);
    }
    let absent = (0..rows.len()).map(|row| Some(!values.is_present(row)));
    let absent: arrow_array::BooleanArray = absent.collect();
    Ok(datafusion::arrow::compute::nullif(&array, &absent)?)
}

/// Nothing but nulls, in place of an attribute that is not there.
pub(crate) fn nulls(data_type: &DataType, rows: usize) -> ArrayRef {
    arrow_array::new_null_array(data_type, rows)
}

pub(crate) fn numbers(values: Vec<u64>) -> ArrayRef {
    Arc::new(UInt64Array::from(values))
}

/// Every `width`-th value of `values`, from `first` on.
pub(crate) fn strided(values: &dyn Array, first: usize, width: usize) -> Result<ArrayRef> {
    let rows = values.len().checked_div(width);
    let rows = rows.ok_or_else(|| bad_request("the positions", "an axis", "none"))?;
    let places = (0..rows).map(|row| to_u64(row * width + first));
    let places = UInt64Array::from_iter_values(places);
    let taken = datafusion::arrow::compute::take(values, &places, None)?;
    Ok(make_array(taken.to_data()))
}

/// Rows of a batch without columns.
const MAX_BARE_ROWS: u64 = 1 << 20;
