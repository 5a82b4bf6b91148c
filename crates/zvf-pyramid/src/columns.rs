//! Converts positions to floats and back, and gathers rows of columns.

use std::ops::Range;

use bytes::Bytes;
use zvf_error::Result;
use zvf_format::num::usize_from_u32;
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::{Column, push_number};

use crate::rows::row_number;

/// Positions as floats.
#[derive(Clone, Debug, Default)]
pub(crate) struct Points {
    pub(crate) axes: usize,
    pub(crate) values: Vec<f64>,
}

impl Points {
    pub(crate) fn from_column(positions: &Column) -> Self {
        Self { axes: usize_from_u32(positions.width()), values: positions.floats() }
    }

    /// Returns the positions as a column like `positions`.
    pub(crate) fn to_column(&self, positions: &Column) -> Result<Column> {
        column(positions.dtype(), positions.width(), &self.values)
    }

    pub(crate) fn point(&self, row: u32) -> &[f64] {
        let start = usize_from_u32(row) * self.axes;
        &self.values[start..start + self.axes]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[f64]> + Clone {
        self.values.chunks_exact(self.axes.max(1))
    }

    pub(crate) fn distance_sq(&self, a: u32, b: u32) -> f64 {
        distance_sq(self.point(a), self.point(b))
    }

    pub(crate) fn length(&self, a: usize, b: usize) -> f64 {
        self.distance_sq(row_number(a), row_number(b)).sqrt()
    }
}

/// Returns values as a column of this type; rounds them for integer types.
pub(crate) fn column(dtype: Dtype, width: u32, values: &[f64]) -> Result<Column> {
    let mut bytes = Vec::with_capacity(values.len() * 8);
    for x in values {
        push_number(&mut bytes, dtype, *x);
    }
    Ok(Column::new(Dtype { big_endian: false, ..dtype }, width, bytes.into())?)
}

/// Returns some rows of a column, in this order.
pub(crate) fn gather(column: &Column, rows: &[u32]) -> Column {
    Column::pick(&[column], runs(rows))
}

/// Returns rows as runs of consecutive ones, for [`Column::pick`] of a single column.
pub(crate) fn runs(rows: &[u32]) -> impl Iterator<Item = (usize, Range<usize>)> + Clone {
    let runs = rows.chunk_by(|row, next| row.checked_add(1) == Some(*next));
    runs.map(|run| (0, usize_from_u32(run[0])..usize_from_u32(run[0]) + run.len()))
}

/// Returns integers as an unsigned 64-bit column.
pub(crate) fn counts(values: &[u64]) -> Result<Column> {
    let dtype = Dtype { kind: DtypeKind::UInt, size: 8, big_endian: false };
    let bytes: Vec<u8> = values.iter().flat_map(|n| n.to_le_bytes()).collect();
    Ok(Column::new(dtype, 1, Bytes::from(bytes))?)
}

/// Returns the squared distance between two points.
pub(crate) fn distance_sq(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_rounded_and_clamped_to_their_type() {
        for (dtype, values, expected) in [
            ("int8", [-200.0, -0.6, 2.5, 300.0], [-128.0, -1.0, 3.0, 127.0]),
            ("uint8", [-5.0, 0.4, 254.6, 300.0], [0.0, 0.0, 255.0, 255.0]),
            ("int64", [-1e300, -1.0, 7.0, 7.4], [-9_223_372_036_854_775_808.0, -1.0, 7.0, 7.0]),
            ("uint64", [-1.0, 0.0, 7.6, 1e300], [0.0, 0.0, 8.0, 18_446_744_073_709_551_615.0]),
            ("float32", [0.5, -1.0, 1e3, 0.0], [0.5, -1.0, 1e3, 0.0]),
        ] {
            let column = column(dtype.parse::<Dtype>().unwrap(), 1, &values).unwrap();
            assert_eq!(column.floats(), expected, "{dtype}");
        }
    }

    #[test]
    fn rows_are_gathered() {
        let source = column(Dtype::FLOAT32, 2, &[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!(gather(&source, &[1, 0, 1]).floats(), [3.0, 4.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(gather(&source, &[0, 1, 1]).floats(), [1.0, 2.0, 3.0, 4.0, 3.0, 4.0]);
    }
}
