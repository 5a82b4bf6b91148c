//! The rules of level 2: validation of root and level documents.
//!
//! ```text
//! M1  root readable          M8  chunks nest, bins fit      M15 level invariants
//! M2  one axis or more       M9  vertex_count               M16 multiscales fit levels and bins
//! M3  chunk_shape            M10 bin_shape                  M17 attribute_specs
//! M4  bounds                 M11 bin_ratio                  M19 attribute names
//! M5  conventions            M12 object_sparsity
//! M6  geometry_types         M13 level readable
//! M7  base_bin_shape         M14 root invariants
//! ```
//!
//! All findings are reported, in the order of the rules. Parsing itself refuses documents that
//! break M1 and M13, so the caller converts parse errors to these findings. M14 also covers
//! requirements of the version's own validation that readers do not have, such as a second axis.
//!
//! Not here: the severity of a finding; M18, which concerns arrays.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::checks::{
    self, axes, base_bins, bounds, chunk_shape, find_indivisible, geometry_types, length, sizes,
};
use super::dtype::Dtype;
use super::effective::BINS;
use super::error::{At, BLOCK, FIRST_SCALE, LEVEL_BLOCK, MetadataError};
use super::level::LevelDoc;
use super::multiscales::Dataset;
use super::root::Root;
use super::token::{Capability, ObjectIndexConvention, Refinement, Token, Vocabulary};
use zvf_format::{Class, Expected};

/// A rule of level 2.
///
/// ```
/// use zvf_metadata::MetadataRule;
///
/// assert_eq!(MetadataRule::M7.to_string(), "M7");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the module lists them; the specification words them")]
pub enum MetadataRule {
    M1,
    M2,
    M3,
    M4,
    M5,
    M6,
    M7,
    M8,
    M9,
    M10,
    M11,
    M12,
    M13,
    M14,
    M15,
    M16,
    M17,
    M19,
}

impl fmt::Display for MetadataRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}"))
    }
}

/// A broken rule, and its place.
///
/// ```
/// use zvf_metadata::{Root, MetadataRule, validate};
///
/// let text = br#"{"zarr_format": 3, "node_type": "group", "attributes": {"zarr_vectors":
///     {"zv_version": "0.9.2", "chunk_shape": [1, -1], "bounds": [[0, 0], [1, 1]],
///      "geometry_types": ["mesh"]}, "multiscales": [{"axes": [{"name": "x"}, {"name": "y"}]}]}}"#;
/// let findings = validate(&Root::parse(text).unwrap(), &[]);
/// assert_eq!((findings.len(), findings[0].rule), (1, MetadataRule::M3));
/// assert_eq!(findings[0].error.path, "zarr_vectors.chunk_shape[1]");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataFinding {
    /// The rule.
    pub rule: MetadataRule,
    /// The index of the level whose document it is; `None` for the root.
    pub level: Option<usize>,
    /// The error.
    pub error: MetadataError,
}

/// Finds all errors in the documents of a store. Each level is given with the name of its group.
pub fn validate(root: &Root, levels: &[(&str, &LevelDoc)]) -> Vec<MetadataFinding> {
    let mut findings = Vec::new();
    let mut add = |rule, level, error| findings.push(MetadataFinding { rule, level, error });
    let root_rules: [(MetadataRule, Check); 10] = [
        (MetadataRule::M2, axis_presence),
        (MetadataRule::M3, chunk_shape),
        (MetadataRule::M4, bounds),
        (MetadataRule::M4, corners),
        (MetadataRule::M5, conventions),
        (MetadataRule::M6, geometry_presence),
        (MetadataRule::M7, base_bins),
        (MetadataRule::M14, root_invariants),
        (MetadataRule::M17, attribute_specs),
        (MetadataRule::M19, declared_names),
    ];
    for (rule, check) in root_rules {
        let mut faults = Vec::new();
        check(root, &mut faults);
        faults.into_iter().for_each(|error| add(rule, None, error));
    }
    for (i, (name, level)) in levels.iter().enumerate() {
        let faults = level_faults(root, name, level, levels).into_iter();
        faults.for_each(|(rule, error)| add(rule, Some(i), error));
    }
    let faults = datasets(root, levels).into_iter();
    faults.for_each(|error| add(MetadataRule::M16, None, error));
    findings.sort_by_key(|finding| finding.rule); // stable: documents keep their order
    findings
}

/// Checks rule M19 for the name of an attribute array: letters, digits and underscores.
///
/// ```
/// use zvf_metadata::validate_attribute_name;
///
/// assert!(validate_attribute_name("cell_type").is_none());
/// assert!(validate_attribute_name("a/b").is_some());
/// ```
pub fn validate_attribute_name(name: &str) -> Option<MetadataError> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !name.is_empty() && name.chars().all(good) {
        return None;
    }
    let at = At::Document.key("name");
    let rule = "letters, digits and underscores";
    Some(MetadataError::rule(Class::InvalidKey, &at, rule, "another name").with_quote(name))
}

/// Returns the last part of an attribute's path: its name, with percent encoding for bytes that a
/// path cannot hold. The array itself states the full name.
///
/// ```
/// assert_eq!(zvf_metadata::path_segment("dose/mg"), "dose%2Fmg");
/// ```
pub fn path_segment(name: &str) -> Cow<'_, str> {
    let is_reserved = matches!(name, "." | ".." | "zarr.json");
    let is_bad = |c: char| matches!(c, '/' | '\\') || c.is_control() || (c == '.' && is_reserved);
    if !name.contains(is_bad) {
        return name.into();
    }
    let mut path = String::with_capacity(name.len());
    for c in name.chars() {
        if is_bad(c) {
            let mut bytes = [0; 4];
            path.extend(c.encode_utf8(&mut bytes).bytes().map(|byte| format!("%{byte:02X}")));
        } else {
            path.push(c);
        }
    }
    path.into()
}

type Check = fn(&Root, &mut Vec<MetadataError>);

fn axis_presence(root: &Root, faults: &mut Vec<MetadataError>) {
    if root.axes().is_empty() {
        axes(root, faults);
    }
}

fn corners(root: &Root, faults: &mut Vec<MetadataError>) {
    let at = BLOCK.key("bounds");
    let at = at.item(1);
    let [low, high] = &root.zarr_vectors.bounds;
    for (i, (low, high)) in low.iter().zip(high).enumerate() {
        if low > high {
            let rule = "no less than the lowest corner";
            faults.push(MetadataError::rule(Class::BadShape, &at.item(i), rule, *high));
        }
    }
}

fn conventions(root: &Root, faults: &mut Vec<MetadataError>) {
    let block = &root.zarr_vectors;
    check_vocabulary("links_convention", block.links_convention.as_ref(), faults);
    check_vocabulary("object_index_convention", block.object_index_convention.as_ref(), faults);
    check_vocabulary("cross_chunk_strategy", block.cross_chunk_strategy.as_ref(), faults);
}

fn check_vocabulary<K: Vocabulary>(
    key: &'static str,
    token: Option<&Token<K>>,
    faults: &mut Vec<MetadataError>,
) {
    if let Some(Token::Other(word)) = token
        && !word.is_empty()
    {
        let rule = "a known word";
        let error = MetadataError::rule(Class::BadTag, &BLOCK.key(key), rule, "another");
        faults.push(error.with_quote(word));
    }
}

fn geometry_presence(root: &Root, faults: &mut Vec<MetadataError>) {
    if root.zarr_vectors.geometry_types.is_empty() {
        let (at, expected) = (BLOCK.key("geometry_types"), Expected::AtLeast(1));
        faults.push(MetadataError::new(Class::BadShape, &at, expected, 0_u8));
    }
}

fn root_invariants(root: &Root, faults: &mut Vec<MetadataError>) {
    checks::version(root, faults);
    checks::required_capabilities(root, faults);
    if !root.axes().is_empty() {
        axes(root, faults);
        axis_kinds(root, faults);
    }
    geometry_types(root, faults);
    let zv = &root.zarr_vectors;
    check_vocabulary("cross_level_storage", zv.cross_level_storage.as_ref(), faults);
    let (depth, factor) = (zv.cross_level_depth(), zv.reduction_factor());
    for (key, found, least) in [("cross_level_depth", depth, -1), ("reduction_factor", factor, 2)] {
        if found < least {
            let expected = Expected::AtLeast(least.into());
            faults.push(MetadataError::new(Class::OutOfBounds, &BLOCK.key(key), expected, found));
        }
    }
    if zv.object_index_convention == Some(Token::Known(ObjectIndexConvention::Identity))
        && has_several_chunks(root)
    {
        let at = BLOCK.key("object_index_convention");
        let rule = "identity in stores of one chunk only";
        faults.push(MetadataError::rule(Class::BadTag, &at, rule, "several chunks"));
    }
}

/// Checks that there are two axes or more, two of them in space, in the required order of kinds.
fn axis_kinds(root: &Root, faults: &mut Vec<MetadataError>) {
    let list = FIRST_SCALE.key("axes");
    let all = root.axes();
    let space = all.iter().filter(|axis| axis.kind == "space").count();
    if space < 2 {
        let rule = "two axes in space";
        faults.push(MetadataError::rule(Class::BadShape, &list, rule, space));
    }
    let rank = |kind: &str| match kind {
        "time" => 0_u8,
        "channel" => 1,
        "space" => 3,
        _ => 2,
    };
    for (i, [before, after]) in (1..).zip(all.array_windows::<2>()) {
        if rank(&before.kind) > rank(&after.kind) {
            let at = list.item(i);
            let rule = "time before channel before others before space";
            let error = MetadataError::rule(Class::NonCanonical, &at.key("type"), rule, "another");
            faults.push(error.with_quote(&after.kind));
        }
    }
}

fn has_several_chunks(root: &Root) -> bool {
    let [low, high] = &root.zarr_vectors.bounds;
    let corners = low.iter().zip(high).zip(&root.zarr_vectors.chunk_shape);
    let floor = |x: f64| zvf_format::num::floor_i64(x);
    corners.into_iter().any(|((low, high), chunk)| floor(low / chunk) != floor(high / chunk))
}

fn attribute_specs(root: &Root, faults: &mut Vec<MetadataError>) {
    let specs = match root.zarr_vectors.attribute_specs() {
        None => return,
        Some(Err(error)) => return faults.push(error),
        Some(Ok(specs)) => specs,
    };
    let at = BLOCK.key("attribute_specs");
    for (scope, names) in &specs.scopes {
        let at = at.name(scope);
        if !["vertex", "object", "link"].contains(&scope.as_str()) {
            let rule = "vertex, object or link";
            faults.push(MetadataError::rule(Class::BadTag, &at, rule, "another").with_quote(scope));
        }
        for (name, spec) in names {
            let at = at.name(name);
            faults.extend(Dtype::parse_at(&at.key("dtype"), &spec.dtype).err());
            if spec.channels == 0 {
                let (at, expected) = (at.key("channels"), Expected::AtLeast(1));
                faults.push(MetadataError::new(Class::BadShape, &at, expected, 0_u8));
            }
        }
    }
}

fn declared_names(root: &Root, faults: &mut Vec<MetadataError>) {
    let Some(Ok(specs)) = root.zarr_vectors.attribute_specs() else { return };
    let names = specs.scopes.iter().flat_map(|(_, names)| names);
    faults.extend(names.filter_map(|(name, _)| validate_attribute_name(name)));
}

/// Finds the bins that do not divide the chunk. Bins larger than the chunk do not hinder readers,
/// so they are [`Class::NonCanonical`].
fn level_bins(at: &At<'_>, chunk: &[f64], bins: &[f64]) -> Vec<MetadataError> {
    let larger = chunk.iter().zip(bins).enumerate().filter(|(_, (chunk, bin))| bin > chunk);
    let refuse = |i, bin: &f64| MetadataError::rule(Class::NonCanonical, &at.item(i), BINS, *bin);
    let larger: Vec<_> = larger.map(|(i, (_, bin))| refuse(i, bin)).collect();
    if larger.is_empty() { find_indivisible(at, chunk, bins) } else { larger }
}

fn level_faults(
    root: &Root,
    name: &str,
    level: &LevelDoc,
    levels: &[(&str, &LevelDoc)],
) -> Vec<(MetadataRule, MetadataError)> {
    let mut faults = Vec::new();
    let dimensions = root.axes().len();
    let chunk = level.effective_chunk_shape(root);
    if level.chunk_shape.is_some() {
        faults.extend(level.chunk_scale(root).err().map(|error| (MetadataRule::M8, error)));
    }
    if level.level > 0
        && let Some(bins) = level.effective_bin_shape(root, name)
    {
        let at = LEVEL_BLOCK.key("chunk_shape");
        faults.extend(
            level_bins(&at, chunk, &bins).into_iter().map(|error| (MetadataRule::M8, error)),
        );
    }
    if level.vertex_count < 0 {
        let (at, found) = (LEVEL_BLOCK.key("vertex_count"), level.vertex_count);
        let error = MetadataError::new(Class::Negative, &at, Expected::AtLeast(0), found);
        faults.push((MetadataRule::M9, error));
    }
    if let Some(bins) = &level.bin_shape {
        let at = LEVEL_BLOCK.key("bin_shape");
        let bad = length(&at, bins.len(), dimensions).into_iter();
        let bad = bad.chain(sizes(&at, bins)).chain(find_indivisible(&at, chunk, bins));
        faults.extend(bad.map(|error| (MetadataRule::M10, error)));
    }
    if let Some(ratios) = &level.bin_ratio {
        let at = LEVEL_BLOCK.key("bin_ratio");
        faults
            .extend(length(&at, ratios.len(), dimensions).map(|error| (MetadataRule::M11, error)));
        let small = |ratio: f64| ratio.is_nan() || ratio < 1.0;
        for (i, ratio) in ratios.iter().enumerate().filter(|(_, ratio)| small(**ratio)) {
            let error = MetadataError::rule(Class::BadShape, &at.item(i), "at least 1", *ratio);
            faults.push((MetadataRule::M11, error));
        }
    }
    let sparsity = level.object_sparsity;
    if !(sparsity > 0.0 && sparsity <= 1.0) {
        let (at, rule) = (LEVEL_BLOCK.key("object_sparsity"), "above 0 and at most 1");
        faults.push((
            MetadataRule::M12,
            MetadataError::rule(Class::OutOfBounds, &at, rule, sparsity),
        ));
    }
    let invariants = level_invariants(root, name, level, levels).into_iter();
    faults.extend(invariants.map(|error| (MetadataRule::M15, error)));
    faults
}

fn level_invariants(
    root: &Root,
    name: &str,
    level: &LevelDoc,
    levels: &[(&str, &LevelDoc)],
) -> Vec<MetadataError> {
    let mut faults = Vec::new();
    let mut say = |key: &'static str, class: Class, rule: &'static str, found: &'static str| {
        faults.push(MetadataError::rule(class, &LEVEL_BLOCK.key(key), rule, found));
    };
    if name.parse() != Ok(level.level) {
        say("level", Class::CountMismatch, "the name of its group", "another number");
    }
    let base = level.level == 0;
    match level.parent_level {
        Some(_) if base => say("parent_level", Class::OutOfBounds, "none at level 0", "one"),
        None if level.level > 0 => say("parent_level", Class::BadTag, "a level", "none"),
        Some(parent) if parent < 0 || parent >= level.level => {
            say("parent_level", Class::OutOfBounds, "a finer level", "another");
        }
        _ => {}
    }
    if base && level.bin_shape.is_some() {
        say("bin_shape", Class::NonCanonical, "none at level 0", "one");
    }
    let values = level.chunk_attribute_values.as_ref();
    if values.is_some() != level.chunk_attribute_name.is_some() {
        say("chunk_attribute_name", Class::CountMismatch, "a name and its values", "one of them");
    }
    if values.is_some_and(Vec::is_empty) {
        say("chunk_attribute_values", Class::BadShape, "a value for each bin", "none");
    }
    if level.preserves_object_ids {
        if base {
            say("preserves_object_ids", Class::OutOfBounds, "false at level 0", "true");
        }
        if level.inherited_num_objects.is_none() {
            say("inherited_num_objects", Class::BadTag, "a count", "nothing");
        }
    }
    if level.inherited_num_objects.is_some_and(|n| n < 0) {
        say("inherited_num_objects", Class::Negative, "at least 0", "less");
    }
    if matches!(level.refinement, Some(Token::Other(_))) {
        say("refinement", Class::BadTag, "replace or add", "another word");
    }
    if level.refinement == Some(Token::Known(Refinement::Add)) {
        if !levels.iter().any(|(_, other)| other.level > level.level) {
            say("refinement", Class::OutOfBounds, "replace at the coarsest level", "add");
        }
        // A reader that does not support such levels must not take a part for the whole.
        let required = &root.zarr_vectors.required_capabilities;
        if !required.iter().any(|token| token.known_word() == Some(Capability::AdditiveLevels)) {
            say(
                "refinement",
                Class::NonCanonical,
                "additive_levels among required_capabilities of the root",
                "no word of it",
            );
        }
    }
    faults
}

/// Checks rule M16.
fn datasets(root: &Root, levels: &[(&str, &LevelDoc)]) -> Vec<MetadataError> {
    let mut faults = Vec::new();
    let Some(multiscale) = root.multiscale() else { return faults };
    let list = FIRST_SCALE.key("datasets");
    for (name, _) in levels {
        if multiscale.dataset(name).is_none() {
            let rule = "an entry for each level";
            faults.push(
                MetadataError::rule(Class::CountMismatch, &list, rule, "none").with_quote(name),
            );
        }
    }
    for (i, dataset) in multiscale.datasets.iter().enumerate() {
        let at = list.item(i);
        match levels.iter().find(|(name, _)| *name == dataset.path) {
            Some((_, level)) => dataset_faults(root, level, dataset, &at, &mut faults),
            None if levels.is_empty() => {}
            None => {
                let rule = "the name of a level";
                let error = MetadataError::rule(Class::CountMismatch, &at, rule, "another");
                faults.push(error.with_quote(&dataset.path));
            }
        }
    }
    faults
}

fn dataset_faults(
    root: &Root,
    level: &LevelDoc,
    dataset: &Dataset,
    at: &At<'_>,
    faults: &mut Vec<MetadataError>,
) {
    let at = at.key("coordinateTransformations");
    let base = root.zarr_vectors.base_bin_shape();
    let Some(scale) = dataset.scale() else {
        return faults.push(MetadataError::rule(Class::BadTag, &at, "a scale", "none"));
    };
    if let Some(error) = length(&at, scale.len(), root.axes().len()) {
        return faults.push(error);
    }
    faults.extend(sizes(&at, scale));
    let Some(bins) = level.effective_bin_shape(root, &dataset.path) else { return };
    let wanted = bins.iter().zip(base).map(|(bin, base)| bin / base);
    if !is_nearly_equal(wanted, scale) {
        let rule = "a scale of the level's bin over the base bin";
        faults.push(MetadataError::rule(Class::CountMismatch, &at, rule, "another"));
    }
    let offset = level.level == 0 && root.zarr_vectors.coordinate_offset.is_some();
    if let Some(translation) = dataset.translation().filter(|_| !offset)
        && !is_nearly_equal(bins.iter().map(|bin| bin / 2.0), translation)
    {
        let rule = "a translation of half the level's bin";
        faults.push(MetadataError::rule(Class::CountMismatch, &at, rule, "another"));
    }
}

fn is_nearly_equal(wanted: impl ExactSizeIterator<Item = f64>, found: &[f64]) -> bool {
    let close = |(wanted, found): (f64, &f64)| {
        (wanted - found).abs() <= NEAR * wanted.abs().max(found.abs())
    };
    wanted.len() == found.len() && wanted.zip(found).all(close)
}

/// The relative tolerance between two numbers that were computed in different ways.
const NEAR: f64 = 1e-6;

#[cfg(test)]
mod tests;
