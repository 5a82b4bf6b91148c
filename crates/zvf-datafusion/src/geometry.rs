//! Geometry as columns of GeoArrow: a point for each vertex, a line for each object.
//!
//! ```text
//! geoarrow.point         FixedSizeList<double>[axes]          a stored vertex
//! geoarrow.linestring    List<FixedSizeList<double>[axes]>    an object, if it is one run of vertices; else null
//! ```
//!
//! Coordinates are numbers of 64 bits, as GeoArrow has them, whatever the store holds.

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

use crate::bad_request;

/// The name of the column.
pub(crate) const NAME: &str = "geometry";

/// The column of points of so many axes.
pub(crate) fn point_field(axes: usize) -> Result<Field> {
    Ok(extension("geoarrow.point", point_type(axes)?))
}

/// The column of lines of so many axes.
pub(crate) fn line_field(axes: usize) -> Result<Field> {
    let vertices = Field::new("vertices", point_type(axes)?, false);
    Ok(extension("geoarrow.linestring", DataType::List(Arc::new(vertices))).with_nullable(true))
}

fn extension(name: &str, data_type: DataType) -> Field {
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

/// Numbers, as many for each point as `data_type` says.
fn points(data_type: &DataType, numbers: ArrayRef) -> Result<FixedSizeListArray> {
    let DataType::FixedSizeList(item, axes) = data_type else {
        return Err(bad_request("a column of geometry", "points", &data_type.to_string()));
    };
    Ok(FixedSizeListArray::try_new(Arc::clone(item), *axes, numbers, None)?)
}

/// Positions, as a store has them, as points.
pub(crate) fn point_column(data_type: &DataType, positions: &dyn Array) -> Result<ArrayRef> {
    let numbers = cast(positions.as_fixed_size_list().values(), &DataType::Float64)?;
    Ok(Arc::new(points(data_type, numbers)?))
}

/// The lines of objects, of an answer that has their vertices as parts.
pub(crate) fn line_column(
    data_type: &DataType,
    objects: &[zvf::ObjectId],
    batch: &Batch,
) -> Result<ArrayRef> {
    let DataType::List(vertices) = data_type else {
        return Err(bad_request("a column of geometry", "lines", &data_type.to_string()));
    };
    let rows = zvf::convert::record_batch(batch).map_err(crate::external)?;
    let positions = rows.column(0).as_fixed_size_list();
    let axes = usize::try_from(positions.value_length())
        .map_err(|error| bad_request("the positions", "axes", &error.to_string()))?;
    let numbers = cast(positions.values(), &DataType::Float64)?;
    let numbers = numbers.as_primitive::<Float64Type>().values();
    // The runs of each object; of several none is the line.
    let mut runs = HashMap::new();
    for part in batch.parts().iter() {
        runs.entry(part.object).or_insert_with(Vec::new).push(part.rows);
    }
    let (mut lines, mut lengths, mut present) = (Vec::new(), Vec::new(), Vec::new());
    for object in objects {
        let run = match runs.get(object).map(Vec::as_slice) {
            Some([run]) => Some(run.clone()),
            _ => None,
        };
        present.push(run.is_some());
        let run = run.unwrap_or(0..0);
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
