//! The checks that a reader makes before it uses a root document. Each check is one function;
//! `rules` also runs all of them and names the rule.
//!
//! Not here: whether version and structure agree (that needs the store), and lints.

use alloc::vec::Vec;

use super::effective::BINS;
use super::error::{At, BLOCK, FIRST_SCALE, MetadataError};
use super::root::Root;
use super::token::Token;
use zvf_format::{Class, Expected, grid, num};

impl Root {
    /// Checks that a reader may use the store: its version and features are known; axes have unique
    /// names; chunks, bins and bounds have one finite number per axis; sizes are above 0; a chunk
    /// is a whole number of bins; geometry types are known.
    ///
    /// # Errors
    ///
    /// The first check that fails.
    pub fn open_checks(&self) -> Result<(), MetadataError> {
        let mut faults = Vec::new();
        for check in
            [version, required_capabilities, axes, chunk_shape, bounds, geometry_types, base_bins]
        {
            check(self, &mut faults);
        }
        match faults.into_iter().next() {
            Some(first) => Err(first),
            None => Ok(()),
        }
    }
}

/// Checks that the version is known or newer.
pub(super) fn version(root: &Root, faults: &mut Vec<MetadataError>) {
    faults.extend(root.zarr_vectors.zv_version.require_family().err());
}

/// Checks that every required feature is known.
pub(super) fn required_capabilities(root: &Root, faults: &mut Vec<MetadataError>) {
    let (key, rule) = ("required_capabilities", "a feature this version has");
    check_words(key, &root.zarr_vectors.required_capabilities, (Class::Unsupported, rule), faults);
}

fn check_words<K>(
    key: &'static str,
    tokens: &[Token<K>],
    (class, rule): (Class, &'static str),
    faults: &mut Vec<MetadataError>,
) {
    let list = BLOCK.key(key);
    for (i, token) in tokens.iter().enumerate() {
        if let Token::Other(word) = token {
            let error = MetadataError::rule(class, &list.item(i), rule, "another");
            faults.push(error.with_quote(word));
        }
    }
}

/// Checks that there are one to eight axes with unique names.
pub(super) fn axes(root: &Root, faults: &mut Vec<MetadataError>) {
    let list = FIRST_SCALE.key("axes");
    let axes = root.axes();
    if axes.is_empty() {
        let expected = Expected::AtLeast(1);
        faults.push(MetadataError::new(Class::BadShape, &list, expected, axes.len()));
    }
    if axes.len() > MAX_AXES {
        let expected = Expected::AtMost(num::to_u64(MAX_AXES).into());
        return faults.push(MetadataError::new(Class::LimitExceeded, &list, expected, axes.len()));
    }
    for (i, axis) in axes.iter().enumerate() {
        if axes.iter().take(i).any(|other| other.name == axis.name) {
            let at = list.item(i);
            let rule = "a name of its own";
            let error = MetadataError::rule(Class::Duplicate, &at.key("name"), rule, "it again");
            faults.push(error.with_quote(&axis.name));
        }
    }
}

/// Checks that the chunk has a size above 0 on each axis.
pub(super) fn chunk_shape(root: &Root, faults: &mut Vec<MetadataError>) {
    let (at, shape) = (BLOCK.key("chunk_shape"), &root.zarr_vectors.chunk_shape);
    faults.extend(length(&at, shape.len(), root.axes().len()));
    faults.extend(sizes(&at, shape));
}

/// Checks that there are two corners with a finite number for each axis.
pub(super) fn bounds(root: &Root, faults: &mut Vec<MetadataError>) {
    let at = BLOCK.key("bounds");
    for (i, corner) in root.zarr_vectors.bounds.iter().enumerate() {
        faults.extend(length(&at.item(i), corner.len(), root.axes().len()));
        for (axis, x) in corner.iter().enumerate() {
            if !x.is_finite() {
                let at = at.item(i);
                let at = at.item(axis);
                faults.push(MetadataError::rule(Class::BadShape, &at, "a finite number", *x));
            }
        }
    }
}

/// Checks that all types are in the vocabulary.
pub(super) fn geometry_types(root: &Root, faults: &mut Vec<MetadataError>) {
    let (key, rule) = ("geometry_types", "a known geometry type");
    check_words(key, &root.zarr_vectors.geometry_types, (Class::BadTag, rule), faults);
}

/// Checks that bins have a size above 0 on each axis, and that a chunk is a whole number of bins.
pub(super) fn base_bins(root: &Root, faults: &mut Vec<MetadataError>) {
    let Some(bins) = &root.zarr_vectors.base_bin_shape else { return };
    let at = BLOCK.key("base_bin_shape");
    faults.extend(length(&at, bins.len(), root.axes().len()));
    faults.extend(sizes(&at, bins));
    faults.extend(find_indivisible(&at, &root.zarr_vectors.chunk_shape, bins));
}

/// Checks that there are as many numbers as axes.
pub(super) fn length(at: &At<'_>, found: usize, axes: usize) -> Option<MetadataError> {
    let expected = Expected::Exactly(num::to_u64(axes).into());
    (found != axes).then(|| MetadataError::new(Class::BadShape, at, expected, found))
}

/// Finds the numbers that are not finite or not above 0.
pub(super) fn sizes(at: &At<'_>, shape: &[f64]) -> Vec<MetadataError> {
    let bad = shape.iter().enumerate().filter(|(_, x)| !(x.is_finite() && **x > 0.0));
    let rule = "a finite number above 0";
    bad.map(|(i, x)| MetadataError::rule(Class::BadShape, &at.item(i), rule, *x)).collect()
}

/// Finds the valid bin sizes that do not divide the chunk.
pub(super) fn find_indivisible(at: &At<'_>, chunk: &[f64], bins: &[f64]) -> Vec<MetadataError> {
    let axes = chunk.iter().zip(bins).enumerate();
    let bad = axes.filter(|(_, (chunk, bin))| {
        let sizes = **chunk > 0.0 && **bin > 0.0;
        sizes && grid::whole_ratio(**chunk, **bin).is_none()
    });
    bad.map(|(i, (_, bin))| MetadataError::rule(Class::BadShape, &at.item(i), BINS, *bin)).collect()
}

/// The largest number of axes accepted.
const MAX_AXES: usize = 8;
