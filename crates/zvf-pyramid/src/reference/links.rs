//! Links from each vertex to its parent, and back.

use rayon::prelude::*;
use zvf_error::Result;
use zvf_format::grid::ChunkShape;
use zvf_format::num::{index_u32, to_u64, usize_from_u32};
use zvf_metadata::Root;
use zvf_store::{Build, CodecPipeline};

use super::coarsen::{NONE, ReferenceLevel};
use crate::links::{LinkedLevel, write_family};

/// Composes the parents of successive levels.
pub(super) fn compose_steps(steps: &[Vec<u32>]) -> Vec<u32> {
    let Some((first, rest)) = steps.split_first() else { return Vec::new() };
    rest.iter().fold(first.clone(), |parents, step| {
        let next = |parent: &u32| step.get(usize_from_u32(*parent)).copied().unwrap_or(NONE);
        parents.par_iter().map(next).collect()
    })
}

/// Writes the upward links of two levels, and with `both` also the downward ones.
///
/// A cell of either direction holds the links between two chunks, in the order of the finer one.
pub(super) async fn write(
    place: (&Build, &Root),
    [(at, fine), (above, coarse)]: [(usize, &ReferenceLevel); 2],
    parents: &[u32],
    both: bool,
) -> Result<()> {
    let (up, down) = (linked(at, fine)?, linked(above, coarse)?);
    let mut links = pairs([fine, coarse], parents);
    let (count, codecs) = (to_u64(links.len()), CodecPipeline::default());
    write_family(place, [&up, &down], codecs.clone(), count, |push| {
        links.iter().try_for_each(|[fine, coarse]| push(*fine, *coarse))
    })
    .await?;
    if !both {
        return Ok(());
    }
    links.par_sort_by_key(|[_, coarse]| coarse >> 32); // keeps their order in each chunk
    write_family(place, [&down, &up], codecs, count, |push| {
        links.iter().try_for_each(|[fine, coarse]| push(*coarse, *fine))
    })
    .await
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
