//! The levels that the reference implementation builds, value for value.
//!
//! ```text
//! objects     k of n by the reference's own random choice, of all rows, with the same seed each time
//! vertices    one for each occupied bin: the mean of what refers to it, in 32 bits
//! manifests   the bins an object passes, repeats in a row left out
//! links       each vertex to that of its bin, in the order of the finer level
//! ```
//!
//! The losses of the reference are reproduced: attributes of vertices, edges and faces, and groups;
//! unless they are requested ([`LevelContent::Full`]), and then they are added to the vertices and
//! objects of the reference. This exists to compare output, and for tools that expect that output;
//! [`build`](crate::build()) gives better levels.
//!
//! Not here: bounded memory. A level is held in memory, positions and references.

mod coarsen;
mod element_cells;
mod elements;
mod full;
mod links;
mod read;
mod write;

use async_recursion::async_recursion as boxed;
use zvf_error::Result;
use zvf_format::grid::{Bins, ChunkShape};
use zvf_format::num::{f64_from_u64, index_u32, saturating_usize, to_u64, trunc_u64};
use zvf_metadata::CrossLevelStorage;
use zvf_model::{LevelId, LevelReader};
use zvf_store::{Build, BuildOptions, OpenOptions, Store};

use crate::error::{setting_error, unsupported_error};
use crate::levels;
use crate::options::link_gaps;
use crate::random::Random;
use crate::report::LevelReport;
use crate::root::Root;

/// The options of the reference.
///
/// ```
/// use zvf_pyramid::Reference;
///
/// let twice = Reference { factors: vec![(2.0, 1.0), (2.0, 2.0)], ..Reference::default() };
/// assert_eq!((twice.depth, twice.seed), (1, 0));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// For each level, the factor of its bin size over the level below, and the number of objects
    /// of that level for each kept one.
    pub factors: Vec<(f64, f64)>,
    /// For each level, how many chunks of the level below one of its chunks covers on each axis; 1
    /// where the list is too short.
    pub chunk_scales: Vec<u32>,
    /// For each level, the ascending rows of its objects if they are given; where there are none,
    /// objects are chosen.
    pub kept: Vec<Option<Vec<usize>>>,
    /// The seed for choosing objects.
    pub seed: u128,
    /// The largest level distance of links; -1 for all, 0 for none.
    pub depth: i64,
    /// Which of these links are stored.
    pub storage: CrossLevelStorage,
    /// The additional content of levels.
    pub content: LevelContent,
}

/// The content of levels in addition to vertices, objects and object attributes.
///
/// ```
/// assert_eq!(zvf_pyramid::Reference::default().content, zvf_pyramid::LevelContent::AsReference);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LevelContent {
    /// Nothing, like the reference.
    #[default]
    AsReference,
    /// Vertex attributes, edges and faces with their attributes, and groups.
    Full,
}

impl Default for Reference {
    /// No levels, and links to the next level in both directions.
    fn default() -> Self {
        let (factors, chunk_scales, kept) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            factors,
            chunk_scales,
            kept,
            seed: 0,
            depth: 1,
            storage: CrossLevelStorage::Explicit,
            content: LevelContent::default(),
        }
    }
}

impl Reference {
    fn check(&self) -> Result<()> {
        let sound = |x: f64| x.is_finite() && x > 0.0;
        if let Some((bin, _)) = self.factors.iter().find(|(bin, _)| !sound(*bin)) {
            return Err(setting_error("factor of bins", "more than 0", bin));
        }
        if let Some((_, objects)) = self.factors.iter().find(|(_, o)| !(sound(*o) && *o >= 1.0)) {
            return Err(setting_error("factor of objects", "1 or more", objects));
        }
        if self.chunk_scales.contains(&0) {
            return Err(setting_error("factor of chunks", "1 or more", 0));
        }
        if self.depth < -1 {
            return Err(setting_error("depth of links", "-1 or more", self.depth));
        }
        Ok(())
    }

    /// Returns the level distances that links cover.
    fn gaps(&self) -> std::ops::RangeInclusive<usize> {
        link_gaps(self.storage, self.depth, self.factors.len())
    }
}

/// Builds the levels of the store at `address` that the reference would build, replacing those it
/// has.
///
/// The store is replaced as a whole after everything is written; an earlier failure leaves it
/// unchanged.
///
/// # Errors
///
/// When an option is invalid, or the store is not in a local folder, is older than 0.9, has chunks
/// keyed by an attribute, or cannot be read or written.
#[boxed]
pub async fn build_reference(
    address: &str,
    reference: &Reference,
    options: &BuildOptions,
) -> Result<Vec<LevelReport>> {
    reference.check()?;
    let store = Store::open(address, OpenOptions::default()).await?;
    levels::check_version(&store)?;
    check_alone(&store).await?;
    let level = LevelReader::open(&store, LevelId(0)).await?;
    if let Some(beside) = level.extra_kinds().next() {
        let expected = "one: the reference makes levels of the first and loses the others";
        return Err(unsupported_error("kinds of geometry", expected, beside));
    }
    let linked = !reference.gaps().is_empty();
    levels::check_order(&level, linked).await?;
    let build = levels::begin(address, &store, options, levels::Kept::Level0).await?;
    let made = write_levels(&store, &build, reference).await;
    levels::publish_with_root(build, made).await
}

/// Refuses a level 0 that is part of an additive pyramid.
async fn check_alone(store: &Store) -> Result<()> {
    if store.level(0).await?.meta().is_additive() {
        let expected = "one that is read alone: put it together first, by building 0 levels that \
                        are not the reference's";
        return Err(unsupported_error("level 0", expected, "one that adds to the next"));
    }
    Ok(())
}

async fn write_levels(
    store: &Store,
    build: &Build,
    reference: &Reference,
) -> Result<(Vec<LevelReport>, zvf_metadata::Root)> {
    let mut root = Root::from_store(store);
    let mut source = read::level(store).await?;
    let mut full = match reference.content {
        LevelContent::AsReference => None,
        LevelContent::Full => Some(full::FullContent::read(store, &source).await?),
    };
    let (mut reports, mut all, mut parents) = (Vec::new(), Vec::new(), Vec::new());
    let gaps = reference.gaps();
    for (at, (bins, objects)) in reference.factors.iter().enumerate() {
        let number = index_u32(at) + 1;
        let scale = reference.chunk_scales.get(at).copied().unwrap_or(1);
        let kept_objects = match reference.kept.get(at) {
            Some(Some(rows)) => {
                rows.iter().copied().filter(|row| *row < source.objects()).collect()
            }
            _ => kept_rows(source.objects(), *objects, reference.seed),
        };
        let bin = source.bin.iter().map(|size| size * bins).collect();
        let bin: Vec<f64> = bin;
        let chunk: Vec<f64> = source.chunk.iter().map(|size| size * f64::from(scale)).collect();
        if chunk != store.root().zarr_vectors.chunk_shape {
            Bins::new(&ChunkShape::new(&chunk)?, &bin)?; // chunks of their own must be whole bins
        }
        let (level, parent) = coarsen::coarsen(&source, &kept_objects, bin, chunk)?;
        let target = write::Target { store, build, number, sparsity: 1.0 / objects };
        let more = match &mut full {
            None => None,
            Some(full) => {
                Some(full.write_level(&target, (&source, &kept_objects), (&level, &parent)).await?)
            }
        };
        write::level(&target, &source, &kept_objects, (&level, more.as_ref())).await?;
        root.add_level(number, &level.bin);
        root.announce_objects(level.ids.is_some());
        reports.push(LevelReport {
            level: number,
            vertices: to_u64(level.rows()),
            objects: to_u64(kept_objects.len()),
            elements: more.map_or(0, |more| more.elements),
            ..LevelReport::default()
        });
        all.push(std::mem::replace(&mut source, level).without_contents());
        if !gaps.is_empty() {
            parents.push(parent);
        }
    }
    all.push(source.without_contents());
    for gap in gaps.clone() {
        for (at, fine) in all.iter().enumerate() {
            let Some(coarse) = all.get(at + gap) else { break };
            let Some(steps) = parents.get(at..at + gap) else { break };
            let parent = links::compose_steps(steps);
            let both = reference.storage == CrossLevelStorage::Explicit;
            let levels = [(at, fine), (at + gap, coarse)];
            links::write((build, store.root()), levels, &parent, both).await?;
        }
    }
    root.announce_links(reference.depth, reference.storage, !gaps.is_empty());
    Ok((reports, root.finish()))
}

/// Returns the rows of the kept objects: one in `factor` of `rows`.
fn kept_rows(rows: usize, factor: f64, seed: u128) -> Vec<usize> {
    if factor <= 1.0 || rows < 2 {
        return (0..rows).collect();
    }
    let k = trunc_u64((f64_from_u64(to_u64(rows)) * (1.0 / factor)).round_ties_even());
    Random::new(seed).choose(rows, saturating_usize(k).max(1)) // of more, all are chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_same_objects_as_the_reference() {
        assert_eq!(kept_rows(4, 2.0, 0), [2, 3]);
        assert_eq!(kept_rows(3, 1.0, 0), [0, 1, 2]);
        assert_eq!(kept_rows(1, 9.0, 0), [0]);
        assert_eq!(kept_rows(5, 2.0, 0).len(), 2); // half of five, to the even number
        assert_eq!(kept_rows(9, 100.0, 3).len(), 1);
    }

    #[test]
    fn invalid_settings_are_refused() {
        let with_factors =
            |bins, objects| Reference { factors: vec![(bins, objects)], ..Reference::default() };
        let table = [
            (with_factors(0.0, 1.0), "factor of bins: expected more than 0, found 0"),
            (with_factors(f64::NAN, 1.0), "factor of bins: expected more than 0, found NaN"),
            (with_factors(2.0, 0.5), "factor of objects: expected 1 or more, found 0.5"),
            (
                Reference { chunk_scales: vec![2, 0], ..Reference::default() },
                "factor of chunks: expected 1 or more, found 0",
            ),
            (
                Reference { depth: -2, ..Reference::default() },
                "depth of links: expected -1 or more, found -2",
            ),
        ];
        for (r, message) in table {
            assert_eq!(r.check().unwrap_err().to_string(), ["InvalidArgument", message].join(", "));
        }
        assert!(with_factors(0.5, 1.0).check().is_ok());
    }

    #[test]
    fn depth_and_storage_determine_the_linked_levels() {
        let base = Reference { factors: vec![(2.0, 1.0); 3], ..Reference::default() };
        let gaps = |depth, storage| Reference { depth, storage, ..base.clone() }.gaps().count();
        assert_eq!([-1, 0, 1, 2, 9].map(|d| gaps(d, CrossLevelStorage::Explicit)), [3, 0, 1, 2, 3]);
        assert_eq!(gaps(2, CrossLevelStorage::None), 0);
    }
}
