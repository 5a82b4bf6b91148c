//! Columns and attribute values as Arrow arrays.

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::{ArrayRef, BooleanArray, new_null_array};
use arrow_schema::DataType;
use datafusion::arrow::compute::nullif;
use datafusion::error::Result;
use zvf::Column;
use zvf::convert::attribute_array;
use zvf::model::RowAttribute;

use crate::external_error;

/// Reads the values of an attribute for `rows`, null where they are absent: all of them where there
/// is no attribute.
pub(crate) async fn attribute_values(
    attribute: Option<&RowAttribute>,
    data_type: &DataType,
    rows: &[u64],
) -> Result<ArrayRef> {
    let Some(attribute) = attribute else { return Ok(new_null_array(data_type, rows.len())) };
    let values = attribute.rows(rows).await.map_err(external_error)?;
    let array = arrow_values(&attribute.field(values.column().clone()))?;
    if values.absent_rows().is_empty() {
        return Ok(array);
    }
    let is_absent = (0..rows.len()).map(|row| Some(!values.is_present(row)));
    let is_absent: BooleanArray = is_absent.collect();
    Ok(nullif(&array, &is_absent)?)
}

/// Returns the values of a column.
pub(crate) fn arrow_values(field: &zvf::Field) -> Result<ArrayRef> {
    Ok(attribute_array(field).map_err(external_error)?.1)
}

/// Returns the coordinates of positions, vertex by vertex.
pub(crate) fn coordinates(positions: &Column) -> Result<ArrayRef> {
    let rows = arrow_values(&zvf::Field::new("position", positions.clone()))?;
    let numbers = rows.as_fixed_size_list_opt().map(|rows| Arc::clone(rows.values()));
    Ok(numbers.unwrap_or(rows)) // of one axis
}
