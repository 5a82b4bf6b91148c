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
mod read;
mod write;

use async_recursion::async_recursion as boxed;
use rayon::prelude::*;
use zvf_error::Result;
use zvf_format::grid::{Bins, ChunkShape};
use zvf_format::num::{
    f64_from_u64, index_u32, saturating_usize, to_u64, trunc_u64, usize_from_u32,
};
use zvf_metadata::{CrossLevelStorage, Root as RootDocument};
use zvf_model::{LevelId, LevelReader};
use zvf_store::{Build, BuildOptions, CodecPipeline, OpenOptions, Store};

use self::coarsen::{NONE, ReferenceLevel};
use crate::error::unsupported_error;
use crate::levels;
use crate::links::{LinkedLevel, write_family};
use crate::options::{check_number, is_positive, link_gaps};
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
        for (bins, _) in &self.factors {
            check_number("factor of bins", "more than 0", Some(*bins), is_positive)?;
        }
        let from_1 = |x: f64| is_positive(x) && x >= 1.0;
        for (_, objects) in &self.factors {
            check_number("factor of objects", "1 or more", Some(*objects), from_1)?;
        }
        for scale in &self.chunk_scales {
            check_number("factor of chunks", "1 or more", Some(*scale), |scale| scale > 0)?;
        }
        check_number("depth of links", "-1 or more", Some(self.depth), |depth| depth >= -1)
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
    levels::publish(build, made, false).await
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
) -> Result<(Vec<LevelReport>, RootDocument)> {
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
        let target = write::Target {
            store,
            build,
            number,
            sparsity: 1.0 / objects,
            source: &source,
            kept_objects: &kept_objects,
            level: &level,
            parents: &parent,
        };
        let more = match &mut full {
            None => None,
            Some(full) => Some(full.write_level(&target).await?),
        };
        write::level(&target, more.as_ref()).await?;
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
            let parent = compose_steps(steps);
            let both = reference.storage == CrossLevelStorage::Explicit;
            let levels = [(at, fine), (at + gap, coarse)];
            write_links((build, store.root()), levels, &parent, both).await?;
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

/// Composes the parents of successive levels.
fn compose_steps(steps: &[Vec<u32>]) -> Vec<u32> {
    let Some((first, rest)) = steps.split_first() else { return Vec::new() };
    rest.iter().fold(first.clone(), |parents, step| {
        let next = |parent: &u32| step.get(usize_from_u32(*parent)).copied().unwrap_or(NONE);
        parents.par_iter().map(next).collect()
    })
}

/// Writes the upward links of two levels, and with `both` also the downward ones.
///
/// A cell of either direction holds the links between two chunks, in the order of the finer one.
async fn write_links(
    place: (&Build, &RootDocument),
    [(at, fine), (above, coarse)]: [(usize, &ReferenceLevel); 2],
    parents: &[u32],
    both: bool,
) -> Result<()> {
    let (up, down) = (linked(at, fine)?, linked(above, coarse)?);
    let mut links = pairs([fine, coarse], parents);
    let codecs = CodecPipeline::default();
    write_family(place, [&up, &down], codecs.clone(), |push| {
        links.iter().try_for_each(|[fine, coarse]| push(*fine, *coarse))
    })
    .await?;
    if !both {
        return Ok(());
    }
    links.par_sort_by_key(|[_, coarse]| coarse >> 32); // keeps their order in each chunk
    write_family(place, [&down, &up], codecs, |push| {
        links.iter().try_for_each(|[fine, coarse]| push(*coarse, *fine))
    })
    .await
    .map(drop)
}

fn linked(number: usize, level: &ReferenceLevel) -> Result<LinkedLevel> {
    let (number, keys, shape) = (index_u32(number), level.keys.clone(), &level.chunk);
    Ok(LinkedLevel { number, path: number.to_string(), keys, shape: ChunkShape::new(shape)? })
}

/// Returns the places of all vertices that have a parent, each with that of the parent.
fn pairs([fine, coarse]: [&ReferenceLevel; 2], parents: &[u32]) -> Vec<[u64; 2]> {
    let place = |chunk: usize, row: u64| to_u64(chunk) << 32 | row;
    let chunks = (0..fine.keys.len()).into_par_iter().flat_map_iter(|chunk| {
        let parents = (0_u64..).zip(&parents[fine.rows_of_chunk(chunk)]);
        parents.filter(|(_, parent)| **parent != NONE).map(move |(row, parent)| {
            let (above, at) = coarse.locate(*parent);
            [place(chunk, row), place(above, at)]
        })
    });
    chunks.collect()
}

#[cfg(test)]
mod tests {
    use zvf_format::key::ChunkKey;

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

    #[test]
    fn composes_parents_over_levels() {
        assert_eq!(compose_steps(&[vec![1, 0, NONE], vec![5, 6]]), [6, 5, NONE]);
        assert_eq!(compose_steps(&[vec![1, NONE], vec![5]]), [NONE, NONE]);
        assert!(compose_steps(&[]).is_empty());
    }

    #[test]
    fn links_are_in_the_order_of_the_finer_level() {
        let level = |starts: &[usize]| ReferenceLevel {
            keys: vec![ChunkKey::new(&[0]).unwrap(); starts.len() - 1],
            starts: starts.to_vec(),
            ..ReferenceLevel::default()
        };
        let parents = [0, 0, 4, NONE, 1, 0, 2];
        let links = pairs([&level(&[0, 2, 7]), &level(&[0, 2, 2, 5])], &parents);
        let at = |chunk: u64, row: u64| chunk << 32 | row;
        let expected = [
            [at(0, 0), at(0, 0)],
            [at(0, 1), at(0, 0)],
            [at(1, 0), at(2, 2)],
            [at(1, 2), at(0, 1)],
            [at(1, 3), at(0, 0)],
            [at(1, 4), at(2, 0)],
        ];
        assert_eq!(links, expected);
    }
}
