//! Attribute values as Arrow arrays.

use arrow_array::{ArrayRef, BooleanArray, new_null_array};
use arrow_schema::DataType;
use datafusion::arrow::compute::nullif;
use datafusion::error::Result;
use zvf::model::RowAttribute;

use crate::columns::arrow_values;
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
