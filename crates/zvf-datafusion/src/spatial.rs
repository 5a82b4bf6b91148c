//! SQL functions for distances and lengths over all axes; those of `geodatafusion` use two axes.
//!
//! ```text
//! st_3ddistance(point, point)    between two points
//! st_3dlength(line)              of a line; 0 for a point
//! ```

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::{Array, ArrayRef, Float64Array};
use arrow_schema::DataType;
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::ArrowNativeType as _;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::bad_request;
use crate::read::take_every_nth;

/// Returns all functions of this module.
pub(crate) fn functions() -> [ScalarUDF; 2] {
    let new = |measure: Measure| {
        let arguments = if measure == Measure::Distance { 2 } else { 1 };
        let signature = Signature::any(arguments, Volatility::Immutable);
        ScalarUDF::new_from_impl(SpatialFunction { measure, signature })
    };
    [new(Measure::Distance), new(Measure::Length)]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Measure {
    Distance,
    Length,
}

/// A function over coordinates of all axes.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SpatialFunction {
    measure: Measure,
    signature: Signature,
}

impl ScalarUDFImpl for SpatialFunction {
    fn name(&self) -> &str {
        match self.measure {
            Measure::Distance => "st_3ddistance",
            Measure::Length => "st_3dlength",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let axes = |data_type: &DataType| {
            let point = match (self.measure, data_type) {
                (Measure::Length, DataType::List(item)) => item.data_type(),
                _ => data_type,
            };
            let found = data_type.to_string();
            axis_count(point)
                .ok_or_else(|| bad_request(self.name(), "a GeoArrow point or line", &found))
        };
        let axes = types.iter().map(axes).collect::<Result<Vec<_>>>()?;
        match axes.as_slice() {
            [a, b] if a != b => Err(bad_request(
                self.name(),
                &format!("a point of {a} axes"),
                &format!("one of {b}"),
            )),
            _ => Ok(DataType::Float64),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let values = match (self.measure, arrays.as_slice()) {
            (Measure::Distance, [a, b]) => distances(a.as_ref(), b.as_ref()),
            (Measure::Length, [line]) => lengths(line.as_ref()),
            _ => None,
        };
        let values =
            values.ok_or_else(|| bad_request(self.name(), "points or lines", "something else"))?;
        let values: ArrayRef = Arc::new(values);
        Ok(ColumnarValue::Array(values))
    }
}

/// Returns the number of axes of a point type.
fn axis_count(point: &DataType) -> Option<usize> {
    match point {
        DataType::FixedSizeList(item, axes) if item.data_type() == &DataType::Float64 => {
            usize::try_from(*axes).ok()
        }
        DataType::Struct(axes) => {
            let is_known = axes.iter().all(|axis| axis.data_type() == &DataType::Float64);
            is_known.then_some(axes.len())
        }
        _ => None,
    }
}

/// GeoArrow points: the numbers of each axis.
struct Points {
    axes: Vec<Float64Array>,
    nulls: Option<NullBuffer>,
}

impl Points {
    fn new(points: &dyn Array) -> Option<Self> {
        let axes = axis_count(points.data_type())?;
        let axis = |axis| match points.as_struct_opt() {
            Some(columns) => Some(columns.column(axis).as_primitive().clone()),
            None => {
                let numbers = points.as_fixed_size_list_opt()?.values();
                Some(take_every_nth(numbers, axis, axes).ok()?.as_primitive().clone())
            }
        };
        let axes = (0..axes).map(axis).collect::<Option<_>>()?;
        Some(Self { axes, nulls: points.nulls().cloned() })
    }

    fn is_valid(&self, row: usize) -> bool {
        self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
    }
}

fn distance(a: &Points, a_row: usize, b: &Points, b_row: usize) -> Option<f64> {
    let square = |(a, b): (&Float64Array, &Float64Array)| {
        let step = a.values().get(a_row)? - b.values().get(b_row)?;
        Some(step * step)
    };
    Some(a.axes.iter().zip(&b.axes).map(square).sum::<Option<f64>>()?.sqrt())
}

fn distances(a: &dyn Array, b: &dyn Array) -> Option<Float64Array> {
    let rows = a.len();
    let (a, b) = (Points::new(a)?, Points::new(b)?);
    let pair = |row: usize| match a.is_valid(row) && b.is_valid(row) {
        true => distance(&a, row, &b, row),
        false => None,
    };
    Some((0..rows).map(pair).collect())
}

fn lengths(lines: &dyn Array) -> Option<Float64Array> {
    let Some(lists) = lines.as_list_opt::<i32>() else {
        Points::new(lines)?;
        return Some((0..lines.len()).map(|row| lines.is_valid(row).then_some(0.0)).collect());
    };
    let (points, offsets) = (Points::new(lists.values())?, lists.value_offsets());
    let length = |row: usize| {
        let [start, end] = [row, row + 1].map(|at| offsets[at].as_usize());
        let pair = |end| distance(&points, end - 1, &points, end);
        lists.is_valid(row).then(|| (start + 1..end).map(pair).sum::<Option<f64>>())?
    };
    Some((0..lists.len()).map(length).collect())
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    #[tokio::test]
    async fn refuses_points_with_different_axes() {
        let context = SessionContext::new();
        super::functions().into_iter().for_each(|function| context.register_udf(function));
        let point = |axes: &str| format!("named_struct({axes})");
        let space = point("'x', 1.0, 'y', 2.0, 'z', 3.0");
        let end = point("'x', 4.0, 'y', 6.0, 'z', 3.0");
        let plane = point("'x', 1.0, 'y', 2.0");
        let sql = format!("SELECT st_3ddistance({space}, {end}) = 5.0, st_3dlength({space}) = 0.0");
        let rows = context.sql(&sql).await.unwrap().collect().await.unwrap();
        let rows = datafusion::arrow::util::pretty::pretty_format_batches(&rows).unwrap();
        assert_eq!(rows.to_string().matches("true").count(), 2, "{rows}");
        for sql in [
            format!("SELECT st_3ddistance({space}, {plane})"),
            "SELECT st_3dlength('a')".to_owned(),
            format!("SELECT st_3dlength({space}, {space})"),
        ] {
            assert!(context.sql(&sql).await.is_err(), "{sql}");
        }
    }
}
