//! Values that follow from several documents or several keys: shapes of a level, columns of a row.
//!
//! A level states its chunk shape only if it differs from the root's. Its bin shape may be stated
//! in four places; the first one present counts:
//!
//! ```text
//! bin_shape of the level                 explicit, rarely written
//! base_bin_shape, else chunk_shape       level 0 only
//! 2 x translation of the dataset         what writers leave behind
//! scale of the dataset x base bin        where the translation is missing
//! ```
//!
//! Not here: positions and cells (`zvf_format::grid`).

use alloc::format;
use alloc::vec::Vec;

use super::error::{At, LEVEL_BLOCK, MetadataError};
use super::level::LevelDoc;
use super::root::Root;
use zvf_format::{Class, Expected, grid, num};

impl LevelDoc {
    /// Returns the chunk size of this level, per axis.
    ///
    /// ```
    /// use zvf_metadata::{Axis, LevelDoc, Root, ZarrVectors};
    ///
    /// let block = ZarrVectors::new(vec![10.0], [vec![0.0], vec![1.0]]);
    /// let root = Root::new(block, Axis::spatial(1).unwrap());
    /// let coarse = LevelDoc { chunk_shape: Some(vec![30.0]), ..LevelDoc::new(1) };
    /// assert_eq!(LevelDoc::new(0).effective_chunk_shape(&root), [10.0]);
    /// assert_eq!(coarse.effective_chunk_shape(&root), [30.0]);
    /// assert_eq!(coarse.chunk_scale(&root), Ok(vec![3]));
    /// ```
    pub fn effective_chunk_shape<'a>(&'a self, root: &'a Root) -> &'a [f64] {
        self.chunk_shape.as_deref().unwrap_or(&root.zarr_vectors.chunk_shape)
    }

    /// Returns the number of components of this level's chunk keys, in a store of `axes` axes: one
    /// more if keys have a leading axis. Writers that chunk by group or by object name this axis in
    /// `chunk_dims` alone, without an attribute or values.
    ///
    /// ```
    /// use zvf_metadata::LevelDoc;
    ///
    /// let dims = ["group", "x", "y"].map(String::from).to_vec();
    /// let grouped = LevelDoc { chunk_dims: Some(dims), ..LevelDoc::new(0) };
    /// assert_eq!((LevelDoc::new(0).key_rank(2), grouped.key_rank(2)), (2, 3));
    /// ```
    pub fn key_rank(&self, axes: usize) -> usize {
        let named = self.chunk_dims.as_ref().map(Vec::len);
        let longer = axes.saturating_add(1); // no list of axes is that long
        if self.chunk_attribute_name.is_some() || named == Some(longer) { longer } else { axes }
    }

    /// Returns the number of root chunks that one chunk of this level covers, per axis.
    ///
    /// # Errors
    ///
    /// [`Class::BadShape`] when a ratio is not an integer within 1e-9, or the numbers of axes
    /// differ.
    pub fn chunk_scale(&self, root: &Root) -> Result<Vec<u64>, MetadataError> {
        let at = LEVEL_BLOCK.key("chunk_shape");
        let rule = "a whole multiple of the root's chunk";
        ratios(&at, rule, self.effective_chunk_shape(root), &root.zarr_vectors.chunk_shape)
    }

    /// Returns the bin size of this level, per axis, or `None` if no place states it. `path` is the
    /// name of the level's group.
    ///
    /// ```
    /// use zvf_metadata::{Axis, Dataset, LevelDoc, Root, ZarrVectors};
    ///
    /// let block = ZarrVectors::new(vec![10.0], [vec![0.0], vec![1.0]]);
    /// let mut root = Root::new(block, Axis::spatial(1).unwrap());
    /// root.multiscales[0].datasets.push(Dataset::new("1", vec![2.0], vec![10.0]));
    /// assert_eq!(LevelDoc::new(1).effective_bin_shape(&root, "1"), Some(vec![20.0]));
    /// assert_eq!(LevelDoc::new(2).effective_bin_shape(&root, "2"), None);
    /// ```
    pub fn effective_bin_shape(&self, root: &Root, path: &str) -> Option<Vec<f64>> {
        if let Some(explicit) = &self.bin_shape {
            return Some(explicit.clone());
        }
        let base = root.zarr_vectors.base_bin_shape();
        if self.level == 0 {
            return Some(base.to_vec());
        }
        let dataset = root.multiscale()?.dataset(path)?;
        let fits = |list: &&[f64]| list.len() == base.len() && list.iter().all(|&x| x > 0.0);
        if let Some(translation) = dataset.translation().filter(fits) {
            return Some(translation.iter().map(|x| x * 2.0).collect());
        }
        let scale = dataset.scale().filter(fits)?;
        Some(scale.iter().zip(base).map(|(scale, base)| scale * base).collect())
    }
}

/// Returns the number of bins per chunk, per axis.
///
/// ```
/// use zvf_metadata::bins_per_chunk;
///
/// assert_eq!(bins_per_chunk(&[10.0, 9.0], &[5.0, 3.0]), Ok(vec![2, 3]));
/// assert!(bins_per_chunk(&[10.0], &[3.0]).is_err());
/// ```
///
/// # Errors
///
/// [`Class::BadShape`] when a chunk is not a whole number of bins within 1e-9, or the numbers of
/// axes differ.
pub fn bins_per_chunk(chunk: &[f64], bin: &[f64]) -> Result<Vec<u64>, MetadataError> {
    ratios(&At::Document.key("bin_shape"), BINS, chunk, bin)
}

/// Returns the number of values per row. `declared` is the number in the attributes; `cells` are
/// the rows and the values of each cell.
///
/// The declared width counts if it fits every cell. Some writers declare one value although rows
/// have more. Then the width is values over rows, if that is the same integer in every cell that is
/// not empty.
///
/// ```
/// use zvf_metadata::columns;
///
/// assert_eq!(columns(3, [(2, 6), (0, 0)]), Ok(3));
/// assert_eq!(columns(1, [(2, 6), (4, 12)]), Ok(3));
/// assert!(columns(1, [(2, 6), (2, 8)]).is_err());
/// ```
///
/// # Errors
///
/// [`Class::CountMismatch`] when no width fits every cell.
pub fn columns(
    declared: u64,
    cells: impl IntoIterator<Item = (u64, u64)>,
) -> Result<u64, MetadataError> {
    let at = At::Document.key("row_shape");
    let (mut declared_fits, mut inferred_fits, mut inferred) = (true, true, None);
    for (rows, values) in cells {
        if rows == 0 && values == 0 {
            continue;
        }
        declared_fits &= rows.checked_mul(declared) == Some(values);
        let here = if values.is_multiple_of(rows) { values.checked_div(rows) } else { None };
        inferred_fits &= here.is_some_and(|n| n > 0 && *inferred.get_or_insert(n) == n);
        if !declared_fits && !inferred_fits {
            let rule = "one width that fits every cell";
            return Err(MetadataError::rule(Class::CountMismatch, &at, rule, values));
        }
    }
    Ok(if declared_fits { declared } else { inferred.unwrap_or(declared) })
}

pub(super) fn ratios(
    at: &At<'_>,
    rule: &'static str,
    lengths: &[f64],
    units: &[f64],
) -> Result<Vec<u64>, MetadataError> {
    if lengths.len() != units.len() {
        let expected = Expected::Exactly(num::to_u64(units.len()).into());
        return Err(MetadataError::new(Class::BadShape, at, expected, lengths.len()));
    }
    let axes = lengths.iter().zip(units).enumerate();
    axes.map(|(i, (&length, &unit))| {
        grid::whole_ratio(length, unit).map(i64::cast_unsigned).ok_or_else(|| {
            let error = MetadataError::rule(Class::BadShape, &at.item(i), rule, length / unit);
            error.with_text(format!("{} times", length / unit))
        })
    })
    .collect()
}

/// The message of the rule for chunks and bins.
pub(super) const BINS: &str = "a chunk to be a whole multiple of its bins";

#[cfg(test)]
mod tests {
    use std::string::ToString as _;
    use std::vec;

    use super::*;
    use crate::{Axis, Dataset, ZarrVectors};

    fn root() -> Root {
        let block = ZarrVectors::new(vec![8.0, 9.0], [vec![0.0; 2], vec![1.0; 2]]);
        Root::new(block, Axis::spatial(2).unwrap())
    }

    #[test]
    fn chunks_nest_or_are_refused() {
        let root = root();
        for (shape, expected) in [
            (vec![8.0, 9.0], Ok(vec![1, 1])),
            (vec![16.0, 27.0], Ok(vec![2, 3])),
            (vec![16.000_000_001, 9.0], Ok(vec![2, 1])),
            (vec![8.0, 9e18], Ok(vec![1, 1_000_000_000_000_000_000])),
            (
                vec![12.0, 9.0],
                Err(
                    "chunk_shape[0]: expected a whole multiple of the root's chunk, found 1.5 times",
                ),
            ),
            (
                vec![8.0, 3.0],
                Err(
                    "chunk_shape[1]: expected a whole multiple of the root's chunk, found 0.3333333333333333 times",
                ),
            ),
            (
                vec![-8.0, 9.0],
                Err(
                    "chunk_shape[0]: expected a whole multiple of the root's chunk, found -1 times",
                ),
            ),
            (
                vec![0.0, 9.0],
                Err("chunk_shape[0]: expected a whole multiple of the root's chunk, found 0 times"),
            ),
            (
                vec![1e300, 9.0],
                Err("chunk_shape[0]: expected a whole multiple of the root's chunk, found"),
            ),
            (vec![8.0], Err("chunk_shape: expected 2, found 1")),
        ] {
            let level = LevelDoc { chunk_shape: Some(shape.clone()), ..LevelDoc::new(1) };
            match (level.chunk_scale(&root), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(error), Err(message)) => {
                    let text = error.to_string();
                    let head = "BadShape in metadata, zarr_vectors_level.";
                    assert!(text.strip_prefix(head).unwrap().starts_with(message), "{text}");
                }
                (found, _) => panic!("{shape:?}: {found:?}"),
            }
        }
        assert_eq!(
            bins_per_chunk(&[1.0], &[0.0]).unwrap_err().to_string(),
            "BadShape in metadata, bin_shape[0]: expected a chunk to be a whole multiple of its bins, \
             found inf times"
        );
        assert_eq!(
            bins_per_chunk(&[66.666_666_666_666_67], &[16.666_666_666_666_668]),
            Ok(vec![4])
        );
    }

    #[test]
    fn the_first_declared_bin_is_used() {
        let mut root = root();
        let datasets = &mut root.multiscales[0].datasets;
        datasets.push(Dataset::new("0", vec![1.0, 1.0], vec![1000.0, 1000.0]));
        datasets.push(Dataset::new("1", vec![2.0, 2.0], vec![7.0, 7.0]));
        datasets.push(Dataset::new("2", vec![3.0, 4.0], vec![0.0, 0.0]));
        datasets.push(Dataset::new("3", vec![3.0], vec![-7.0, 7.0]));
        let bin = |n: u32| LevelDoc::new(n).effective_bin_shape(&root, &n.to_string());
        assert_eq!(bin(0), Some(vec![8.0, 9.0]));
        assert_eq!(bin(1), Some(vec![14.0, 14.0]));
        assert_eq!(bin(2), Some(vec![24.0, 36.0]));
        assert_eq!(bin(3), None);
        assert_eq!(bin(4), None);
        let explicit = LevelDoc { bin_shape: Some(vec![1.0, 1.0]), ..LevelDoc::new(1) };
        assert_eq!(explicit.effective_bin_shape(&root, "1"), Some(vec![1.0, 1.0]));
        root.zarr_vectors.base_bin_shape = Some(vec![4.0, 3.0]);
        assert_eq!(LevelDoc::new(0).effective_bin_shape(&root, "0"), Some(vec![4.0, 3.0]));
    }

    #[test]
    fn a_leading_axis_comes_from_an_attribute_or_the_names() {
        let dims = |names: &[&str]| Some(names.iter().map(|name| name.to_string()).collect());
        for (chunk_dims, attribute, expected) in [
            (None, None, 2),
            (dims(&["x", "y"]), None, 2),
            (dims(&["group", "x", "y"]), None, 3),
            (dims(&["kind", "x", "y"]), Some("kind".to_string()), 3),
            (None, Some("kind".to_string()), 3),
            (dims(&["a", "b", "x", "y"]), None, 2),
            (dims(&[]), None, 2),
        ] {
            let level =
                LevelDoc { chunk_dims, chunk_attribute_name: attribute, ..LevelDoc::new(0) };
            assert_eq!(level.key_rank(2), expected, "{:?}", level.chunk_dims);
        }
    }

    #[test]
    fn columns_follow_the_cells_if_the_declaration_differs() {
        const NONE: &str = "CountMismatch in metadata, row_shape: expected one width that fits every cell, found 7";
        for (declared, cells, expected) in [
            (1, vec![], Some(1)),
            (4, vec![(0, 0)], Some(4)),
            (3, vec![(1, 3), (2, 6)], Some(3)),
            (1, vec![(1, 3), (2, 6)], Some(3)),
            (4, vec![(2, 6), (3, 9)], Some(3)),
            (0, vec![(2, 2)], Some(1)),
            (1, vec![(2, 7)], None),
            (2, vec![(2, 4), (7, 7)], None),
            (1, vec![(0, 7)], None),
            (0, vec![(2, 0)], Some(0)),
            (0, vec![(2, 0), (7, 7)], None),
            (0, vec![(7, 7), (0, 0)], Some(1)),
            (u64::MAX, vec![(2, 7)], None),
        ] {
            let found = columns(declared, cells.clone());
            match expected {
                Some(expected) => assert_eq!(found, Ok(expected), "{cells:?}"),
                None => assert_eq!(found.unwrap_err().to_string(), NONE, "{cells:?}"),
            }
        }
    }
}
