//! Conversion of a batch to an Arrow record batch, one row per vertex.
//!
//! ```text
//! position          fixed-size list of D numbers   as stored
//! each attribute    a number, or such a list       as stored; a dictionary where it has categories
//! part, object      int64                          where the batch has parts or owners; null for none
//! ```
//!
//! Columns are shared with the batch, not copied, unless their bytes are not aligned; `column` lists the types that are
//! always copied.
//!
//! Not here: files (see `files`).

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field as ArrowField, Schema};
use zvf_error::Result;
use zvf_formats::{Table, row_number};
use zvf_model::Batch;

use crate::column::{self, attribute_array};
use crate::from_arrow_error;

/// Converts the vertices of `batch` with their attributes.
///
/// ```
/// use zvf_formats_arrow::record_batch;
/// use zvf_metadata::Dtype;
/// use zvf_model::{Batch, Column, Kind};
///
/// let points = [1.5_f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat();
/// let batch = Batch::new(Kind::PointCloud, Column::new(Dtype::FLOAT32, 2, points.into())?);
/// let rows = record_batch(&batch)?;
/// assert_eq!((rows.num_rows(), rows.schema().field(0).name().as_str()), (2, "position"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// When a code has no category, or a column has a type that Arrow lacks.
pub fn record_batch(batch: &Batch) -> Result<RecordBatch> {
    named_record_batch(batch, "position", 0)
}

/// Converts the vertices of `batch` with the positions called `first`, and the parts counted from `first_part`.
pub(crate) fn named_record_batch(
    batch: &Batch,
    first: &str,
    first_part: usize,
) -> Result<RecordBatch> {
    let mut columns = vec![column::position_array(first, batch.positions())?];
    for field in batch.fields() {
        columns.push(attribute_array(field)?);
    }
    let table = Table::new(batch, &[]).with_first_part(first_part);
    let rows = 0..batch.len();
    if !batch.parts().offsets().is_empty() {
        let parts = rows.clone().map(|row| table.part(row).map(row_number));
        columns.push(name_int64("part", parts.collect()));
    }
    if !batch.parts().offsets().is_empty() || batch.vertex_objects().is_some() {
        let objects = rows.map(|row| table.object(row).map(|object| object.0));
        columns.push(name_int64("object", objects.collect()));
    }
    let (fields, arrays): (Vec<ArrowField>, Vec<ArrayRef>) = columns.into_iter().unzip();
    let schema = Schema::new(fields);
    RecordBatch::try_new(Arc::new(schema), arrays).map_err(from_arrow_error)
}

fn name_int64(name: &str, values: Int64Array) -> (ArrowField, ArrayRef) {
    (ArrowField::new(name, DataType::Int64, true), Arc::new(values))
}
