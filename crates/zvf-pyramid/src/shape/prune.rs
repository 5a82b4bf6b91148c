//! Prunes the short terminal branches of skeletons, the shortest first.
//!
//! A branch extends from a tip up to the nearest fork. When one is removed, the rest of its fork
//! may be part of a longer branch, which is then kept: of two twigs at the end of a stem one
//! remains, and a tree is never removed as a whole.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use zvf_format::num::usize_from_u32;

use super::{distance_sq, point};
use crate::rows::{NONE, row_number};

/// Returns for each vertex whether it is part of a branch shorter than `length`, or of one that
/// became so.
pub(super) fn find_short_branches(
    at: &[f64],
    axes: usize,
    parents: &[u32],
    length: f64,
) -> Vec<bool> {
    let mut tree = Tree::new(at, axes, parents);
    let tips = (0..row_number(parents.len())).filter(|row| tree.children(*row) == 0);
    let price =
        |tree: &Tree<'_>, tip| tree.branch(tip).map(|(long, _)| Reverse((long.to_bits(), tip)));
    let mut open: BinaryHeap<Reverse<(u64, u32)>> =
        tips.filter_map(|tip| price(&tree, tip)).collect();
    while let Some(Reverse((bits, tip))) = open.pop() {
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
pub(super) fn count_children(parents: &[u32], gone: &[bool]) -> Vec<u32> {
    let mut children = vec![0_u32; parents.len()];
    for (parent, gone) in parents.iter().zip(gone) {
        if *parent != NONE && !gone {
            children[usize_from_u32(*parent)] += 1;
        }
    }
    children
}

struct Tree<'a> {
    at: &'a [f64],
    axes: usize,
    parents: &'a [u32],
    children: Vec<u32>, // how many are left
    gone: Vec<bool>,
}

impl<'a> Tree<'a> {
    fn new(at: &'a [f64], axes: usize, parents: &'a [u32]) -> Self {
        let gone = vec![false; parents.len()];
        Self { at, axes, parents, children: count_children(parents, &gone), gone }
    }

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
            let position = point(self.at, self.axes, row);
            long += distance_sq(position, point(self.at, self.axes, above)).sqrt();
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
    use super::*;

    #[test]
    fn short_branches_are_pruned_and_a_stem_is_kept() {
        // A stem 0-1-2-3 with a twig of 1 at 1, and two twigs at its end, of 2 and of 3.
        let at = [0.0, 0.0, 5.0, 0.0, 9.0, 0.0, 10.0, 0.0, 5.0, 1.0, 10.0, 2.0, 10.0, -3.0];
        let parents = [NONE, 0, 1, 2, 1, 3, 3];
        let pruned = |length| -> Vec<usize> {
            let is_pruned = find_short_branches(&at, 2, &parents, length);
            (0..7).filter(|row| is_pruned[*row]).collect()
        };
        assert_eq!(pruned(0.5), [0_usize; 0]);
        assert_eq!(pruned(1.0), [0_usize; 0]);
        assert_eq!(pruned(1.5), [4]);
        assert_eq!(pruned(2.5), [4, 5]);
        // The twig of 3 is now the end of the stem.
        assert_eq!(pruned(100.0), [4, 5]);
        assert_eq!(find_short_branches(&at[..4], 2, &[NONE, 0], 100.0), [false, false]);
    }
}
