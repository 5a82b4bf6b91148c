//! Contents: the datasets of a file that hold an array of the packed store.
//!
//! Nothing is collected: each call walks the directory. A caller with many look-ups should cache
//! the results.
//!
//! Not here: the bytes of a dataset ([`TilePlan`](crate::TilePlan) gives their positions).

use super::{CELLS_SUFFIX, Cell, DOCUMENTS};
use crate::{Dataset, Directory, Span, TensorDtype, TileGeometry};
use zvf_format::{Class, Expected, FormatError, Found, Part, num};

/// The directory of a pack.
///
/// ```
/// use zvf_tet::pack::{Contents, DOCUMENTS};
/// use zvf_tet::{TensorCodec, DatasetSpec, TensorDtype, TetView, TileGeometry, TetLayout, MemoryBudget};
///
/// let bytes = |n| TileGeometry::new(TensorDtype::U8, &[n], &[n]).unwrap();
/// let specs = [DatasetSpec::new(DOCUMENTS, bytes(2)), DatasetSpec::new("0/mask", bytes(9))];
/// let mut layout = TetLayout::new(&specs, MemoryBudget::DEFAULT)?;
/// layout.place(TensorCodec::Raw, 2)?;
/// layout.place(TensorCodec::Raw, 9)?;
/// let end = layout.payload_end();
/// let mut file = layout.finish(false)?;
/// file.resize(end as usize, b' ');
///
/// let contents = Contents::parse(&TetView::parse(&file)?.directory())?;
/// assert_eq!(contents.documents().id(), 0);
/// let mask = contents.array("0/mask")?.unwrap();
/// assert!(mask.cells().is_none());
/// assert!(contents.array("0/vertices")?.is_none());
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Contents<'a> {
    directory: Directory<'a>,
    documents: Dataset<'a>, // u8 with one axis
}

/// The datasets of one array.
#[derive(Clone, Copy, Debug)]
pub struct PackedArray<'a> {
    values: Dataset<'a>,
    geometry: TileGeometry,     // of `values`
    cells: Option<Dataset<'a>>, // i64 with two axes, at least three columns
}

impl<'a> Contents<'a> {
    /// Checks that the directory is that of a pack.
    ///
    /// # Errors
    ///
    /// When there is no dataset of documents, or its type is not bytes.
    pub fn parse(directory: &Directory<'a>) -> Result<Self, FormatError> {
        let Some(documents) = directory.find(DOCUMENTS) else {
            let (class, expected) = (Class::BadTag, Expected::Rule("a dataset zvf/store.json"));
            return Err(refuse(class, "documents", expected, "a file that is no pack"));
        };
        if documents.element() != Some(TensorDtype::U8) || documents.rank() != 1 {
            let (class, expected) = (Class::BadShape, Expected::Rule("u8 with one axis"));
            return Err(refuse(class, "documents", expected, "another type or rank"));
        }
        Ok(Self { directory: *directory, documents })
    }

    /// Returns the dataset with the documents.
    pub const fn documents(&self) -> &Dataset<'a> {
        &self.documents
    }

    /// Returns the datasets of the array at `path`, or `None` if it stores nothing: the array has
    /// no cells or no elements, or does not exist.
    ///
    /// # Errors
    ///
    /// When there is a table of cells without values, or its type is not numbers; or when the type
    /// or extents of the values are invalid.
    pub fn array(&self, path: &str) -> Result<Option<PackedArray<'a>>, FormatError> {
        let (mut values, mut cells) = (None, None);
        for dataset in &self.directory {
            if values.is_none() && dataset.name() == path {
                values = Some(dataset);
            } else if cells.is_none() && dataset.name().strip_suffix(CELLS_SUFFIX) == Some(path) {
                cells = Some(dataset);
            }
        }
        match (values, cells) {
            (None, None) => Ok(None),
            (None, Some(_)) => {
                let expected = Expected::Rule("values beside a table of cells");
                Err(refuse(Class::CountMismatch, "cells", expected, "none"))
            }
            (Some(values), cells) => {
                if let Some(cells) = cells {
                    check_table(&cells)?;
                }
                Ok(Some(PackedArray { values, geometry: values.geometry()?, cells }))
            }
        }
    }
}

impl<'a> PackedArray<'a> {
    /// Returns the dataset with the values: the rows of all cells, or the array itself.
    pub const fn values(&self) -> &Dataset<'a> {
        &self.values
    }

    /// Returns grid and tiles of the values.
    pub const fn geometry(&self) -> &TileGeometry {
        &self.geometry
    }

    /// Returns the dataset with the table of cells, if the array consists of cells.
    pub const fn cells(&self) -> Option<&Dataset<'a>> {
        self.cells.as_ref()
    }

    /// Returns the number of coordinates of a cell, or 0 if the array does not consist of cells.
    pub fn cell_rank(&self) -> usize {
        let columns = self.cells.and_then(|cells| cells.shape().last());
        columns.map_or(0, |columns| num::saturating_usize(columns.saturating_sub(2))) // at least 3
    }

    /// Returns the number of rows of the values.
    pub fn rows(&self) -> u64 {
        self.geometry.shape().first().copied().unwrap_or(0) // a rank is at least 1
    }

    /// Returns the length of one row in bytes.
    pub fn row_len(&self) -> u64 {
        let size = self.geometry.element().size();
        // Saturates only for an array without rows.
        self.geometry.shape().iter().skip(1).fold(size, |n, extent| n.saturating_mul(*extent))
    }

    /// Returns the span of a cell's rows among the bytes of the values;
    /// [`TilePlan::dense_span`](crate::TilePlan::dense_span) of all values gives their start.
    pub fn span(&self, cell: &Cell<'_>) -> Option<Span> {
        let (offset, len) = (cell.first(), cell.count());
        let (offset, len) = (offset.checked_mul(self.row_len())?, len.checked_mul(self.row_len())?);
        (offset.checked_add(len)? <= self.geometry.byte_len()).then_some(Span { offset, len })
    }
}

/// Checks that a table has coordinates, first row and row count.
fn check_table(cells: &Dataset<'_>) -> Result<(), FormatError> {
    let columns = cells.shape().nth(1).filter(|_| cells.rank() == 2);
    if cells.element() != Some(TensorDtype::I64) || columns.is_none_or(|columns| columns < 3) {
        let (class, expected) = (Class::BadShape, Expected::Rule("i64 with three columns or more"));
        return Err(refuse(class, "cells", expected, "another type or shape"));
    }
    Ok(())
}

fn refuse(
    class: Class,
    field: &'static str,
    expected: Expected,
    found: impl Into<Found>,
) -> FormatError {
    FormatError::new(class, Part::Pack, field, 0, expected, found)
}

#[cfg(test)]
mod tests;
