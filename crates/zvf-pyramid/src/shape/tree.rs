//! Simplifies skeletons: keeps roots, forks and tips, and between them the vertices that keep the
//! line within a tolerance.

use rayon::prelude::*;
use zvf_error::Result;
use zvf_format::num::usize_from_u32;
use zvf_model::{Batch, Elements};

use super::chain::douglas_peucker;
use super::prune::{count_children, find_short_branches};
use super::{Coarsened, Rules, distance_sq, merge_batch, point};
use crate::clusters::Clusters;
use crate::columns::{floats, gather};
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
    let axes = usize_from_u32(batch.positions().width());
    let at = floats(batch.positions());
    let parents = parents(batch);
    let gone = if prune > 0.0 {
        find_short_branches(&at, axes, &parents, prune)
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
            douglas_peucker(&at, axes, &rows, tolerance)
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
    let positions = gather(batch.positions(), &heads);
    let clusters = Clusters::new(&vertex_map, heads.len()).with_heads(heads);
    let made = merge_batch(batch, &clusters, positions, rules, false)?;
    let error = stretches.iter().map(|(_, stretch_error)| *stretch_error).fold(0.0, f64::max);
    let distance = directed_distance(&at, axes, &parents, &gone);
    Ok(Coarsened {
        batch: made.with_elements(Elements::new(2, rows)?)?,
        vertex_map,
        error: error + distance,
        at: None,
    })
}

/// Returns the largest distance of a vertex that is `gone` from its nearest remaining ancestor.
fn directed_distance(at: &[f64], axes: usize, parents: &[u32], gone: &[bool]) -> f64 {
    let is_gone = |row: u32| gone[usize_from_u32(row)];
    let lost = (0..row_number(gone.len())).filter(|row| is_gone(*row));
    let distances_sq = lost.map(|row| {
        let mut stays = row;
        while is_gone(stays) {
            stays = parents[usize_from_u32(stays)]; // a root is never gone
        }
        distance_sq(point(at, axes, row), point(at, axes, stays))
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
            assert_eq!(floats(coarsened.batch.positions()), vertices);
            assert_eq!(coarsened.batch.elements().unwrap().rows(), edges);
            assert!(coarsened.error <= tolerance);
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
}
