//! Simplifies skeletons: keeps roots, forks and tips, and between them the vertices that keep the
//! line within a tolerance.
//!
//! Before that, short terminal branches are pruned, the shortest first. A branch extends from a
//! tip up to the nearest fork. When one is removed, the rest of its fork may be part of a longer
//! branch, which is then kept: of two twigs at the end of a stem one remains, and a tree is never
//! removed as a whole.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rayon::prelude::*;
use zvf_error::Result;
use zvf_format::num::usize_from_u32;
use zvf_model::{Batch, Elements};

use super::chain::douglas_peucker;
use super::largest_error::LargestError;
use super::{Coarsened, Rules, keep_heads};
use crate::columns::Points;
use crate::error::unsupported_error;
use crate::rows::{NONE, lookup, positions_in, row_number};

/// Returns the skeletons with fewer vertices between roots, forks and tips, and without terminal
/// branches shorter than `prune`.
pub(crate) fn simplify_skeletons(
    batch: &Batch,
    tolerance: f64,
    prune: f64,
    rules: &Rules,
) -> Result<Coarsened> {
    let at = Points::from_column(batch.positions());
    let parents = parents(batch);
    let gone = if prune > 0.0 {
        find_short_branches(&at, &parents, prune)
    } else {
        vec![false; batch.len()]
    };
    let children = count_children(&parents, &gone);
    let parent = |row: u32| parents[usize_from_u32(row)];
    let anchored = |row: u32| children[usize_from_u32(row)] != 1 || parent(row) == NONE;
    let remains = |row: &u32| !gone[usize_from_u32(*row)];
    let anchors: Vec<u32> =
        (0..row_number(batch.len())).filter(remains).filter(|row| anchored(*row)).collect();
    let stretches: Vec<(Vec<u32>, f64)> = anchors
        .par_iter()
        .map(|anchor| {
            let (mut rows, mut row) = (vec![*anchor], parent(*anchor));
            while row != NONE {
                rows.push(row);
                if anchored(row) {
                    break;
                }
                row = parent(row);
            }
            douglas_peucker(&at, &rows, tolerance)
        })
        .collect();
    let mut stays = vec![false; batch.len()];
    for row in stretches.iter().flat_map(|(rows, _)| rows) {
        stays[usize_from_u32(*row)] = true;
    }
    let heads: Vec<u32> =
        (0..).zip(&stays).filter(|(_, stay)| **stay).map(|(row, _)| row).collect();
    let Some(vertex_map) = nearest_heads(&parents, &heads) else {
        return Err(unsupported_error("skeletons", "trees", "a ring of vertices"));
    };
    let mut rows = Vec::new();
    for (cluster, head) in heads.iter().enumerate() {
        if parent(*head) != NONE {
            let above = vertex_map[usize_from_u32(parent(*head))];
            rows.extend([cluster, usize_from_u32(above)]);
        }
    }
    let made = keep_heads(batch, heads, vertex_map, rules)?;
    let error = stretches.iter().map(|(_, stretch_error)| *stretch_error).fold(0.0, f64::max);
    let error = error + directed_distance(&at, &parents, &gone);
    let batch = made.batch.with_elements(Elements::new(2, rows)?)?;
    Ok(Coarsened { batch, farthest: LargestError { error, at: None }, ..made })
}

/// Returns the largest distance of a vertex that is `gone` from its nearest remaining ancestor.
fn directed_distance(at: &Points, parents: &[u32], gone: &[bool]) -> f64 {
    let is_gone = |row: u32| gone[usize_from_u32(row)];
    let lost = (0..row_number(gone.len())).filter(|row| is_gone(*row));
    let distances_sq = lost.map(|row| {
        let mut stays = row;
        while is_gone(stays) {
            stays = parents[usize_from_u32(stays)]; // a root is never gone
        }
        at.distance_sq(row, stays)
    });
    distances_sq.fold(0.0, f64::max).sqrt()
}

/// Returns the parent of each vertex, if it has one. Edges go from a child to its parent.
fn parents(batch: &Batch) -> Vec<u32> {
    let mut parents = vec![NONE; batch.len()];
    let edges = batch.elements().map_or(&[][..], Elements::rows).as_chunks::<2>().0;
    edges.iter().for_each(|[child, parent]| parents[*child] = row_number(*parent));
    parents
}

/// Returns the nearest of `heads` at or above each vertex, by its index among them; `None` if a
/// vertex has no root. Every root is a head.
fn nearest_heads(parents: &[u32], heads: &[u32]) -> Option<Vec<u32>> {
    let mut nearest = positions_in(heads, parents.len());
    for start in 0..row_number(parents.len()) {
        let (mut way, mut row) = (Vec::new(), start);
        while lookup(&nearest, row) == NONE {
            way.push(usize_from_u32(row));
            if way.len() > parents.len() {
                return None; // on the way there is a vertex twice
            }
            row = parents[usize_from_u32(row)];
        }
        let found = lookup(&nearest, row);
        way.into_iter().for_each(|row| nearest[row] = found);
    }
    Some(nearest)
}

/// Returns for each vertex whether it is part of a branch shorter than `length`, or of one that
/// became so.
fn find_short_branches(at: &Points, parents: &[u32], length: f64) -> Vec<bool> {
    let gone = vec![false; parents.len()];
    let mut tree = PrunedTree { at, parents, children: count_children(parents, &gone), gone };
    let tips = (0..row_number(parents.len())).filter(|row| tree.children(*row) == 0);
    let price = |tree: &PrunedTree<'_>, tip| {
        tree.branch(tip).map(|(long, _)| Reverse((long.to_bits(), tip)))
    };
    let mut open: BinaryHeap<Reverse<(u64, u32)>> =
        tips.filter_map(|tip| price(&tree, tip)).collect();
    while let Some(Reverse((bits, tip))) = open.pop() {
        // Without a fork it has become the stem, which stays.
        let Some((long, rows)) = tree.branch(tip) else { continue };
        if long >= length {
            continue;
        }
        if long.to_bits() != bits {
            open.push(Reverse((long.to_bits(), tip))); // it has grown since
            continue;
        }
        tree.remove_branch(&rows);
    }
    tree.gone
}

/// Returns how many children each vertex has, without those that are gone.
fn count_children(parents: &[u32], gone: &[bool]) -> Vec<u32> {
    let mut children = vec![0_u32; parents.len()];
    for (parent, gone) in parents.iter().zip(gone) {
        if *parent != NONE && !gone {
            children[usize_from_u32(*parent)] += 1;
        }
    }
    children
}

/// A skeleton that loses branches.
struct PrunedTree<'a> {
    at: &'a Points,
    parents: &'a [u32],
    children: Vec<u32>, // how many are left
    gone: Vec<bool>,
}

impl PrunedTree<'_> {
    fn children(&self, row: u32) -> u32 {
        self.children[usize_from_u32(row)]
    }

    /// Returns the branch that ends at `tip`, from there up to below its fork, and its length
    /// including the step to the fork; none if there is no fork above.
    fn branch(&self, tip: u32) -> Option<(f64, Vec<u32>)> {
        let (mut rows, mut row, mut long) = (vec![tip], tip, 0.0);
        loop {
            let above = self.parents[usize_from_u32(row)];
            if above == NONE {
                return None;
            }
            long += self.at.distance_sq(row, above).sqrt();
            if self.children(above) > 1 {
                return Some((long, rows));
            }
            rows.push(above);
            row = above;
        }
    }

    fn remove_branch(&mut self, rows: &[u32]) {
        rows.iter().for_each(|row| self.gone[usize_from_u32(*row)] = true);
        let fork = self.parents[usize_from_u32(rows[rows.len() - 1])];
        self.children[usize_from_u32(fork)] -= 1; // a fork has two or more
    }
}

#[cfg(test)]
mod tests {
    use zvf_metadata::Dtype;
    use zvf_model::Kind;

    use super::*;
    use crate::columns::column;

    /// Returns a stem of five vertices and a fork with two arms of three, one of them bent.
    fn tree() -> Batch {
        #[rustfmt::skip]
        let at = [
            0.0, 0.0,  1.0, 0.0,  2.0, 0.0,  3.0, 0.0,  4.0, 0.0,
            5.0, 1.0,  6.0, 2.0,  7.0, 3.0,
            5.0, -1.0,  6.0, -4.0,  7.0, -3.0,
        ];
        let edges = [1, 0, 2, 1, 3, 2, 4, 3, 5, 4, 6, 5, 7, 6, 8, 4, 9, 8, 10, 9];
        let positions = column(Dtype::FLOAT32, 2, &at).unwrap();
        let elements = Elements::new(2, edges.to_vec()).unwrap();
        Batch::new(Kind::Skeleton, positions).with_elements(elements).unwrap()
    }

    #[test]
    fn roots_forks_and_tips_are_kept() {
        let rules = Rules { named: Vec::new(), weight: "count".to_owned() };
        for (tolerance, vertices, edges) in [
            (100.0, &[0.0, 0.0, 4.0, 0.0, 7.0, 3.0, 7.0, -3.0][..], &[1, 0, 2, 1, 3, 1][..]),
            (0.5, &[0.0, 0.0, 4.0, 0.0, 7.0, 3.0, 6.0, -4.0, 7.0, -3.0], &[1, 0, 2, 1, 3, 1, 4, 3]),
        ] {
            let coarsened = simplify_skeletons(&tree(), tolerance, 0.0, &rules).unwrap();
            assert_eq!(coarsened.batch.positions().floats(), vertices);
            assert_eq!(coarsened.batch.elements().unwrap().rows(), edges);
            assert!(coarsened.farthest.error <= tolerance);
        }
    }

    #[test]
    fn removed_vertices_belong_to_the_nearest_kept_ancestor() {
        let nearest = nearest_heads(&[NONE, 0, 1, 2, 3], &[0, 3]).unwrap();
        assert_eq!(nearest, [0, 0, 0, 1, 1]);
    }

    #[test]
    fn rings_are_refused() {
        let positions = column(Dtype::FLOAT32, 2, &[0.0, 0.0, 1.0, 0.0, 0.0, 1.0]).unwrap();
        let ring = Elements::new(2, vec![1, 0, 2, 1, 0, 2]).unwrap();
        let batch = Batch::new(Kind::Skeleton, positions).with_elements(ring).unwrap();
        let rules = Rules { named: Vec::new(), weight: "count".to_owned() };
        let error = simplify_skeletons(&batch, 1.0, 0.0, &rules).unwrap_err();
        assert_eq!(error.sentence(), "skeletons: expected trees, found a ring of vertices");
    }

    #[test]
    fn short_branches_are_pruned_and_a_stem_is_kept() {
        // A stem 0-1-2-3 with a twig of 1 at 1, and two twigs at its end, of 2 and of 3.
        let at = [0.0, 0.0, 5.0, 0.0, 9.0, 0.0, 10.0, 0.0, 5.0, 1.0, 10.0, 2.0, 10.0, -3.0];
        let at = Points { axes: 2, values: at.to_vec() };
        let parents = [NONE, 0, 1, 2, 1, 3, 3];
        let pruned = |length| -> Vec<usize> {
            let is_pruned = find_short_branches(&at, &parents, length);
            (0..7).filter(|row| is_pruned[*row]).collect()
        };
        assert_eq!(pruned(0.5), [0_usize; 0]);
        assert_eq!(pruned(1.0), [0_usize; 0]);
        assert_eq!(pruned(1.5), [4]);
        assert_eq!(pruned(2.5), [4, 5]);
        // The twig of 3 is now the end of the stem.
        assert_eq!(pruned(100.0), [4, 5]);
        let two = Points { axes: 2, values: at.values[..4].to_vec() };
        assert_eq!(find_short_branches(&two, &[NONE, 0], 100.0), [false, false]);
    }
}
