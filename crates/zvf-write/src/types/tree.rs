//! Skeletons: the stored order of the vertices of trees.
//!
//! In a stored skeleton, the parent of a vertex is the previous row, unless a link gives another
//! one, and the first row of a fragment has none. So each tree is stored depth first from its root,
//! with children in the order of their edges; then most edges need no link, and a root is the first
//! row of its object's fragment. (The reference implementation stores only one tree depth first,
//! and may put the root of another behind a row that is not its parent.)
//!
//! Trees must be complete: an edge refers to vertices of its own batch.

use zvf_error::Result;
use zvf_format::num::{index_u32, to_u64, usize_from_u32};
use zvf_model::{Kind, ObjectId};

use crate::error::{parent_error, roots_error, unfit_error};

/// The rows of a batch, tree by tree.
#[derive(Debug)]
pub(crate) struct Trees {
    /// Rows, depth first.
    pub(crate) order: Vec<u32>,
    /// The tree of each row.
    pub(crate) tree: Vec<u32>,
    /// The root of each tree.
    pub(crate) roots: Vec<u32>,
}

/// Orders `rows` vertices, given their edges as (child, parent).
///
/// `first` is the running number of row 0, for messages.
pub(crate) fn trees(rows: u32, edges: &[usize], first: u64) -> Result<Trees> {
    let fault = |row: u32, fault| parent_error(first + u64::from(row), fault);
    let (pairs, _) = edges.as_chunks::<2>();
    let mut parents = vec![NONE; usize_from_u32(rows)];
    let mut ends = vec![0_u32; usize_from_u32(rows)]; // first how many children, then where they end
    for [child, parent] in pairs {
        let slot = &mut parents[*child];
        if *slot != NONE {
            return Err(fault(index_u32(*child), "has two parents"));
        }
        *slot = index_u32(*parent);
        ends[*parent] += 1;
    }
    let mut total = 0_u32;
    for end in &mut ends {
        total += *end;
        *end = total;
    }
    // Filled from the back, so that children keep the order of their edges.
    let mut children = vec![0_u32; pairs.len()];
    let mut starts = ends.clone();
    for [child, parent] in pairs.iter().rev() {
        let start = &mut starts[*parent];
        *start -= 1;
        children[usize_from_u32(*start)] = index_u32(*child);
    }
    let children_of = |row: u32| {
        let row = usize_from_u32(row);
        &children[usize_from_u32(starts[row])..usize_from_u32(ends[row])]
    };
    let roots = (0..rows).zip(&parents).filter(|(_, parent)| **parent == NONE).map(|(row, _)| row);
    let roots: Vec<u32> = roots.collect();
    let (mut order, mut tree) =
        (Vec::with_capacity(usize_from_u32(rows)), vec![NONE; usize_from_u32(rows)]);
    let mut stack = Vec::new();
    for (number, root) in (0_u32..).zip(&roots) {
        stack.push(*root);
        while let Some(row) = stack.pop() {
            order.push(row);
            tree[usize_from_u32(row)] = number;
            stack.extend(children_of(row).iter().rev());
        }
    }
    match (0..rows).zip(&tree).find(|(_, tree)| **tree == NONE) {
        Some((row, _)) => Err(fault(row, "is in a cycle of parents, or leads to one")),
        None => Ok(Trees { order, tree, roots }),
    }
}

impl Trees {
    /// Checks that every object of the batch is a single tree, given the object of each row, and
    /// returns the objects.
    pub(crate) fn objects(&self, objects: &[i64], edges: &[usize], first: u64) -> Result<Vec<i64>> {
        let (pairs, _) = edges.as_chunks::<2>();
        if let Some([child, _]) =
            pairs.iter().find(|[child, parent]| objects[*child] != objects[*parent])
        {
            let vertex = first + to_u64(*child);
            return Err(parent_error(vertex, "has its parent in another object"));
        }
        let mut rooted: Vec<i64> =
            self.roots.iter().map(|root| objects[usize_from_u32(*root)]).collect();
        rooted.sort_unstable();
        check_once(&rooted)?;
        Ok(rooted)
    }
}

/// Refuses an object with several roots, given the objects of all roots in order.
fn check_once(rooted: &[i64]) -> Result<()> {
    match rooted.chunk_by(|a, b| a == b).find(|same| same.len() > 1) {
        Some(same) => Err(roots_error(ObjectId(same[0]), to_u64(same.len()))),
        None => Ok(()),
    }
}

/// Checks that a skeleton's edges have two ends.
pub(crate) fn check_width(width: usize) -> Result<()> {
    if width == 2 {
        return Ok(());
    }
    Err(unfit_error(Kind::Skeleton, "an edge", "2 vertices, the child first", width))
}

const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_come_in_the_order_of_their_edges() {
        // 4 is a root with children 2 and 0; 0 has 3; 1 is isolated.
        let trees = trees(5, &[2, 4, 0, 4, 3, 0], 0).unwrap();
        assert_eq!(trees.roots, [1, 4]);
        assert_eq!(trees.order, [1, 4, 2, 0, 3]);
        assert_eq!(trees.tree, [1, 0, 1, 1, 1]);
        assert_eq!(trees.objects(&[7, 3, 7, 7, 7], &[2, 4], 0).unwrap(), [3, 7]);
    }

    #[test]
    fn graphs_that_are_no_tree_are_refused() {
        let tree = trees(3, &[1, 0], 0).unwrap();
        let errors = [
            trees(3, &[0, 1, 0, 2], 10).unwrap_err(),
            trees(3, &[1, 2, 2, 1], 10).unwrap_err(),
            tree.objects(&[1, 2, 3], &[1, 0], 10).unwrap_err(),
            tree.objects(&[1, 1, 1], &[1, 0], 0).unwrap_err(),
            check_width(3).unwrap_err(),
        ];
        assert_eq!(
            errors.map(|error| error.sentence()),
            [
                "vertex 10 of a skeleton has two parents",
                "vertex 11 of a skeleton is in a cycle of parents, or leads to one",
                "vertex 11 of a skeleton has its parent in another object",
                "object 1 of a skeleton must be one tree, found 2 vertices without a parent",
                "a batch of skeleton: an edge: expected 2 vertices, the child first, found 3",
            ]
        );
    }
}
