//! GeoArrow columns: a point for each vertex, a line for each object.
//!
//! ```text
//! geoarrow.point         FixedSizeList<double>[axes]          a stored vertex
//! geoarrow.linestring    List<FixedSizeList<double>[axes]>    an object that is one run of vertices; else null
//! ```
//!
//! Coordinates are 64-bit floats, as GeoArrow requires, whatever type the store has.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, FixedSizeListArray, Float64Array, ListArray};
use arrow_schema::{DataType, Field};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::cast;
use datafusion::error::Result;
use zvf::Batch;
use zvf::format::num::usize_from_u32;

use crate::bad_request;
use crate::limits::check_list_items;
use crate::values::coordinates;

/// The name of the geometry column.
pub(crate) const NAME: &str = "geometry";

/// Returns the field of a column of points with `axes` axes.
pub(crate) fn point_field(axes: usize) -> Result<Field> {
    Ok(extension_field("geoarrow.point", point_type(axes)?))
}

/// Returns the field of a column of lines with `axes` axes.
pub(crate) fn line_field(axes: usize) -> Result<Field> {
    let vertices = Field::new("vertices", point_type(axes)?, false);
    let data_type = DataType::List(Arc::new(vertices));
    Ok(extension_field("geoarrow.linestring", data_type).with_nullable(true))
}

/// Returns the field of a geometry column with a GeoArrow extension type.
fn extension_field(name: &str, data_type: DataType) -> Field {
    let metadata = [("ARROW:extension:name", name), ("ARROW:extension:metadata", "{}")];
    let metadata = metadata.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Field::new(NAME, data_type, false).with_metadata(HashMap::from(metadata))
}

fn point_type(axes: usize) -> Result<DataType> {
    let (name, size) = match axes {
        2 => ("xy", 2),
        3 => ("xyz", 3),
        4 => ("xyzm", 4),
        _ => {
            let found = format!("{axes} axes");
            return Err(bad_request("a column of geometry", "2, 3 or 4 axes", &found));
        }
    };
    Ok(DataType::FixedSizeList(Arc::new(Field::new(name, DataType::Float64, false)), size))
}

/// Returns points of type `data_type` with interleaved coordinates `numbers`.
fn points(data_type: &DataType, numbers: ArrayRef) -> Result<FixedSizeListArray> {
    let DataType::FixedSizeList(item, axes) = data_type else {
        return Err(bad_request("a column of geometry", "points", &data_type.to_string()));
    };
    Ok(FixedSizeListArray::try_new(Arc::clone(item), *axes, numbers, None)?)
}

/// Converts coordinates of a store to points.
pub(crate) fn point_column(data_type: &DataType, coordinates: &dyn Array) -> Result<ArrayRef> {
    Ok(Arc::new(points(data_type, cast(coordinates, &DataType::Float64)?)?))
}

/// Builds the lines of objects from an answer with a part for each run of vertices.
pub(crate) fn line_column(
    data_type: &DataType,
    objects: &[zvf::ObjectId],
    batch: &Batch,
) -> Result<ArrayRef> {
    let DataType::List(vertices) = data_type else {
        return Err(bad_request("a column of geometry", "lines", &data_type.to_string()));
    };
    let axes = usize_from_u32(batch.positions().width());
    let numbers = cast(&coordinates(batch.positions())?, &DataType::Float64)?;
    let numbers = numbers.as_primitive::<Float64Type>().values();
    // The runs of each object; an object with several runs has no line.
    let mut runs = HashMap::new();
    for part in batch.parts().iter() {
        runs.entry(part.object).or_insert_with(Vec::new).push(part.rows);
    }
    let (mut lines, mut lengths, mut present) = (Vec::new(), Vec::new(), Vec::new());
    let mut vertices_of_lines = 0;
    for object in objects {
        let run = match runs.get(object).map(Vec::as_slice) {
            Some([run]) => Some(run.clone()),
            _ => None,
        };
        present.push(run.is_some());
        let run = run.unwrap_or(0..0); // null
        vertices_of_lines += run.len();
        check_list_items(vertices_of_lines)?;
        lengths.push(run.len());
        let found = numbers.get(run.start * axes..run.end * axes);
        lines.extend_from_slice(found.ok_or_else(|| {
            bad_request("an answer", "the vertices of its objects", "fewer of them")
        })?);
    }
    let values = points(vertices.data_type(), Arc::new(Float64Array::from(lines)))?;
    let lengths = OffsetBuffer::from_lengths(lengths);
    let nulls = NullBuffer::from(present);
    Ok(Arc::new(ListArray::try_new(Arc::clone(vertices), lengths, Arc::new(values), Some(nulls))?))
}
