//! Rows of the tables, as record batches.

mod groups;
mod levels;
mod links;
mod objects;
mod vertices;

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, RecordBatch, RecordBatchOptions,
    UInt64Array, downcast_primitive_array,
};
use arrow_schema::{DataType, SchemaRef};
use datafusion::error::Result;
use futures_util::stream::BoxStream;
use zvf::format::num::saturating_usize;

use crate::bad_request;
use crate::columns::{Layout, open_level};
use crate::handle::StoreHandle;
use crate::joined::{Memberships, is_of_groups};
use crate::scan::{Scan, Task};
use crate::table::TableName;

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
    /// The groups of objects, where columns are made of them.
    memberships: Option<Arc<Memberships>>,
}

impl Reading {
    /// Makes a reader ready: the columns are looked up.
    pub(crate) async fn new(store: StoreHandle, scan: Scan, schema: SchemaRef) -> Result<Self> {
        let all = Layout::read(&store.reader(), scan.options()?).await?;
        let layout = all.named(&scan.columns)?;
        let memberships = match layout.has(is_of_groups) {
            true => {
                let level = open_level(&store.reader(), scan.level, scan.kind()?).await?;
                Some(Arc::new(Memberships::read(&level, &layout).await?))
            }
            false => None,
        };
        Ok(Self { store, scan, layout, schema, memberships })
    }

    /// The rows of `task`.
    pub(crate) async fn rows(self, task: &Task) -> Result<Rows> {
        match self.scan.table {
            TableName::Vertices => vertices::rows(self, task).await,
            TableName::Objects => objects::rows(self, task).await,
            TableName::Groups => groups::rows(self).await,
            TableName::Members => groups::members(self).await,
            TableName::Links => links::rows(self, task).await,
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

/// Nothing but nulls, in place of an attribute that is not there.
pub(crate) fn nulls(data_type: &DataType, rows: usize) -> ArrayRef {
    arrow_array::new_null_array(data_type, rows)
}

pub(crate) fn numbers(values: Vec<u64>) -> ArrayRef {
    Arc::new(UInt64Array::from(values))
}

/// Every `width`-th value of `values`, from `first` on.
pub(crate) fn strided(values: &dyn Array, first: usize, width: usize) -> Result<ArrayRef> {
    if width == 0 {
        return Err(bad_request("the positions", "an axis", "none"));
    }
    downcast_primitive_array! {
        values => Ok(Arc::new(strided_numbers(values, first, width))),
        other => Err(bad_request("the positions", "numbers", &other.to_string())),
    }
}

/// One axis of the positions, without a list of places: a scan of large stores does little else.
fn strided_numbers<T: ArrowPrimitiveType>(
    values: &PrimitiveArray<T>,
    first: usize,
    width: usize,
) -> PrimitiveArray<T> {
    let rows = values.values().chunks_exact(width);
    PrimitiveArray::from_iter_values(rows.filter_map(|row| row.get(first).copied()))
}

/// Rows of a batch without columns.
const MAX_BARE_ROWS: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use arrow_array::{Float32Array, StringArray};

    use super::*;

    #[test]
    fn an_axis_is_every_nth_number() {
        let numbers = Float32Array::from(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let second = strided(&numbers, 1, 3).unwrap();
        assert_eq!(second.as_ref(), &Float32Array::from(vec![2.0, 5.0]) as &dyn Array);
        assert!(strided(&numbers, 0, 0).is_err());
        assert!(strided(&StringArray::from(vec!["a"]), 0, 1).is_err());
    }
}
