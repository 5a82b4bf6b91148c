//! Conversion of edges and faces to a separate table, for formats with one table per file.

use zvf_error::Result;
use zvf_format::num::{i64s_from_le, to_u64};
use zvf_metadata::Dtype;
use zvf_model::{Batch, BatchPart, Column};

use crate::error::cannot_hold;
use crate::write::narrow;

/// Returns the elements of `batch` as a batch for the writers of tables, with the vertices of each element as its
/// position. Vertices are counted from `first`, for batches that are parts of one result.
///
/// ```
/// use zvf_formats::elements_as_rows;
/// use zvf_metadata::Dtype;
/// use zvf_model::{Batch, Column, Elements, Kind};
///
/// let points = Column::new(Dtype::FLOAT32, 2, vec![0; 24].into())?;
/// let batch = Batch::new(Kind::Graph, points).with_elements(Elements::new(2, vec![0, 1, 1, 2])?)?;
/// let rows = elements_as_rows(&batch, 10)?.unwrap();
/// assert_eq!(rows.positions().as_slice::<i64>(), Some(&[10, 11, 11, 12][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// When a vertex has a number past the largest `int64`.
pub fn elements_as_rows(batch: &Batch, first: u64) -> Result<Option<Batch>> {
    let Some(elements) = batch.elements() else { return Ok(None) };
    let mut bytes = Vec::with_capacity(elements.rows().len() * 8);
    for row in elements.rows() {
        let row = u128::from(to_u64(*row)) + u128::from(first);
        let what = format_args!("vertex number {row}");
        let row: i64 = narrow(row, "a table of elements", what, "write it in parts")?;
        bytes.extend_from_slice(&row.to_le_bytes());
    }
    let what = format_args!("elements of {} vertices", elements.width());
    let width = narrow(elements.width(), "a table of elements", what, "write JSON lines")?;
    let rows = Batch::new(batch.kind(), Column::new(Dtype::INT64, width, bytes.into())?);
    Ok(Some(elements.fields().iter().cloned().try_fold(rows, Batch::with_field)?))
}

/// Returns the vertices of the elements of a piece, all in one list.
///
/// # Errors
///
/// When they are not `int64`.
pub fn element_vertices(rows: &Column) -> Result<impl ExactSizeIterator<Item = i64>> {
    if rows.dtype() == Dtype::INT64 {
        return Ok(i64s_from_le(rows.bytes()));
    }
    let what = format!("vertices of elements as {}", rows.dtype());
    Err(cannot_hold("a piece", what, "convert them to int64 first"))
}

/// Returns the triangles of a face as a fan from its first corner.
pub fn fan<T: Copy>(corners: &[T]) -> impl Iterator<Item = [T; 3]> {
    let rest = corners.get(1..).unwrap_or_default();
    rest.array_windows().map(|[second, third]| [corners[0], *second, *third])
}

/// Returns the pairs of neighbours within the parts of chains.
pub fn neighbours(batch: &Batch) -> impl Iterator<Item = [usize; 2]> {
    let pairs = |part: BatchPart| part.rows.clone().zip(part.rows.skip(1));
    batch.parts().iter().flat_map(pairs).map(|(from, to)| [from, to])
}

/// Converts the number of a row in memory, which is below 2^63.
pub const fn row_number(row: usize) -> i64 {
    to_u64(row).cast_signed()
}

#[cfg(test)]
mod tests {
    use zvf_model::{Elements, Field, Kind};

    use super::*;

    #[test]
    fn keeps_attributes_and_returns_none_without_elements() {
        let points = || Column::new(Dtype::FLOAT32, 1, vec![0; 12].into()).unwrap();
        assert_eq!(elements_as_rows(&Batch::new(Kind::Graph, points()), 0).unwrap(), None);
        let weight = Field::new("w", Column::new(Dtype::INT64, 1, vec![9; 8].into()).unwrap());
        let elements = Elements::new(3, vec![2, 1, 0]).unwrap().with_field(weight).unwrap();
        let batch = Batch::new(Kind::Mesh, points()).with_elements(elements).unwrap();
        let rows = elements_as_rows(&batch, 5).unwrap().unwrap();
        assert_eq!(rows.positions().as_slice::<i64>().unwrap(), [7, 6, 5]);
        assert_eq!(rows.fields()[0].column.len(), 1);
        let error = elements_as_rows(&batch, u64::MAX).unwrap_err().to_string();
        assert!(error.contains("vertex number 18446744073709551617"), "{error}");
    }

    #[test]
    fn vertices_of_elements_need_no_alignment() {
        let numbers = [7_i64, -1].map(i64::to_le_bytes).concat();
        for shift in 0..8 {
            let padded = [&vec![0_u8; shift][..], &numbers[..]].concat();
            let bytes = Column::new("uint8".parse::<Dtype>().unwrap(), 1, padded.into()).unwrap();
            let bytes = bytes.slice(shift..shift + 16).bytes().clone();
            let rows = Column::new(Dtype::INT64, 1, bytes).unwrap();
            assert!(element_vertices(&rows).unwrap().eq([7_i64, -1]), "{shift}");
        }
        let narrow = Column::new(Dtype::FLOAT32, 1, vec![0; 8].into()).unwrap();
        assert!(element_vertices(&narrow).is_err());
    }
}
