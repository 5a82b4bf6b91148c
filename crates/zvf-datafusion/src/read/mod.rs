//! Reading of tasks: the rows of the tables as record batches.

mod groups;
pub(crate) mod levels;
mod links;
mod objects;
mod vertices;

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, RecordBatch, RecordBatchOptions,
    UInt64Array, downcast_primitive_array,
};
use arrow_schema::SchemaRef;
use datafusion::error::Result;
use futures_util::stream::BoxStream;
use zvf::format::num::saturating_usize;

use crate::bad_request;
use crate::columns::{TableLayout, open_level};
use crate::handle::StoreHandle;
use crate::joined::{Memberships, is_group_column};
use crate::scan::{Scan, Task};
use crate::table::TableName;

/// The rows of one task, as a stream of record batches.
pub(crate) type Rows = BoxStream<'static, Result<RecordBatch>>;

/// The state that all tasks of a scan share.
#[derive(Clone, Debug)]
pub(crate) struct ScanContext {
    pub(crate) store: StoreHandle,
    pub(crate) scan: Scan,
    /// The columns of the answer.
    pub(crate) layout: TableLayout,
    pub(crate) schema: SchemaRef,
    /// The groups of objects, if the answer has columns of groups.
    memberships: Option<Arc<Memberships>>,
}

impl ScanContext {
    /// Creates the context of `scan`; reads the columns of its table.
    pub(crate) async fn new(store: StoreHandle, scan: Scan, schema: SchemaRef) -> Result<Self> {
        let all = TableLayout::read(&store.reader(), scan.options).await?;
        let layout = all.project(&scan.columns)?;
        let memberships = match layout.has(is_group_column) {
            true => {
                let level = open_level(&store.reader(), scan.options).await?;
                Some(Arc::new(Memberships::read(&level, &layout).await?))
            }
            false => None,
        };
        Ok(Self { store, scan, layout, schema, memberships })
    }

    /// Reads the rows of `task`.
    pub(crate) async fn rows(self, task: &Task) -> Result<Rows> {
        match self.scan.options.table {
            TableName::Vertices => vertices::rows(self, task).await,
            TableName::Objects => objects::rows(self, task).await,
            TableName::Groups => groups::rows(self).await,
            TableName::Members => groups::members(self).await,
            TableName::Links => links::rows(self, task).await,
            TableName::Levels => levels::rows(self).await,
        }
    }

    /// Returns a record batch with the columns of the answer.
    pub(crate) fn batch(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }

    /// Returns batches of `rows` rows in total, without columns, made one by one.
    fn empty_batches(self, rows: u64) -> impl Iterator<Item = Result<RecordBatch>> {
        let mut remaining = rows;
        std::iter::from_fn(move || {
            let batch_rows = remaining.min(MAX_EMPTY_BATCH_ROWS);
            remaining -= batch_rows;
            (batch_rows > 0).then(|| self.batch(Vec::new(), saturating_usize(batch_rows)))
        })
    }
}

/// Returns an array of numbers.
pub(crate) fn numbers(values: Vec<u64>) -> ArrayRef {
    Arc::new(UInt64Array::from(values))
}

/// Returns every `width`-th value of `values`, from `first` on.
pub(crate) fn take_every_nth(values: &dyn Array, first: usize, width: usize) -> Result<ArrayRef> {
    if width == 0 {
        return Err(bad_request("the positions", "an axis", "none"));
    }
    downcast_primitive_array! {
        values => Ok(Arc::new(take_every_nth_number(values, first, width))),
        other => Err(bad_request("the positions", "numbers", &other.to_string())),
    }
}

/// Copies every `width`-th number, without a list of indices: scans of large stores spend most of their time here.
fn take_every_nth_number<T: ArrowPrimitiveType>(
    values: &PrimitiveArray<T>,
    first: usize,
    width: usize,
) -> PrimitiveArray<T> {
    let rows = values.values().chunks_exact(width);
    PrimitiveArray::from_iter_values(rows.filter_map(|row| row.get(first).copied()))
}

/// Maximum rows of a batch without columns.
const MAX_EMPTY_BATCH_ROWS: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use arrow_array::{Float32Array, StringArray};

    use super::*;

    #[test]
    fn takes_every_nth_number() {
        let numbers = Float32Array::from(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let taken = take_every_nth(&numbers, 1, 3).unwrap();
        assert_eq!(taken.as_ref(), &Float32Array::from(vec![2.0, 5.0]) as &dyn Array);
        assert!(take_every_nth(&numbers, 0, 0).is_err());
        assert!(take_every_nth(&StringArray::from(vec!["a"]), 0, 1).is_err());
    }
}
