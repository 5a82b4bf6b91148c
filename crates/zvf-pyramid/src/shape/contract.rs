//! Coarsens graphs, skeletons and meshes: connected vertices inside a cell become one.
//!
//! Only vertices that are connected inside their cell are merged, so connected components remain
//! the same. Edges and faces follow; degenerate ones are dropped, and equal ones become one. A tree
//! remains a tree.

use std::collections::HashMap;

use zvf_error::Result;
use zvf_format::num::usize_from_u32;
use zvf_model::{Batch, Elements, Kind, ObjectId};

use super::points::cell_of;
use super::{Coarsened, Rules, merge_to_means};
use crate::clusters::{Clusters, Numbers};
use crate::columns::Points;
use crate::rows::{NONE, row_number};

/// Returns the batch with vertices merged inside cells, except `fixed` ones. `directed` edges are
/// equal only if they have the same direction.
pub(crate) fn contract_cells(
    batch: &Batch,
    cell: f64,
    directed: bool,
    fixed: &[bool],
    rules: &Rules,
) -> Result<Coarsened> {
    let at = Points::from_column(batch.positions());
    let owner = |row: usize| -> Option<ObjectId> { batch.vertex_objects()?[row] };
    let home = |row: usize| Some((owner(row), cell_of(at.point(row_number(row)), cell)?));
    let mut joined = UnionFind::new(batch.len());
    let elements = batch.elements();
    for [a, b] in elements.iter().flat_map(|elements| sides(elements)) {
        let fixed = [a, b].iter().any(|row| fixed.get(*row) == Some(&true));
        if !fixed && home(a).is_some_and(|home_of_a| home(b) == Some(home_of_a)) {
            joined.union(a, b);
        }
    }
    let mut numbers = Numbers::new();
    let vertex_map = (0..batch.len()).map(|row| numbers.intern(joined.find(row))).collect();
    let mut made = merge_to_means(batch, &at, (vertex_map, numbers.len()), rules)?;
    if let Some(elements) = elements {
        let ordered = directed || batch.kind() == Kind::Skeleton;
        let elements = map_elements(elements, &made.vertex_map, ordered, rules)?;
        made.batch = made.batch.with_elements(elements)?;
    }
    Ok(made)
}

/// Returns the pairs of vertices that an element joins: its sides.
pub(crate) fn sides(elements: &Elements) -> impl Iterator<Item = [usize; 2]> {
    elements.rows().chunks_exact(elements.width()).flat_map(|element| {
        let next = element.iter().cycle().skip(1);
        let count = if element.len() > 2 { element.len() } else { element.len().saturating_sub(1) };
        element.iter().zip(next).map(|(a, b)| [*a, *b]).take(count)
    })
}

/// Returns elements between clusters, without those that have two ends in one cluster or an end in
/// none, and without duplicates.
pub(crate) fn map_elements(
    elements: &Elements,
    vertex_map: &[u32],
    ordered: bool,
    rules: &Rules,
) -> Result<Elements> {
    let (mut numbers, mut rows) = (HashMap::<Vec<u32>, u32>::new(), Vec::new());
    let mut same = Vec::with_capacity(elements.len());
    for element in elements.rows().chunks_exact(elements.width()) {
        let ends: Vec<u32> = element.iter().map(|row| vertex_map[*row]).collect();
        let distinct = |(i, end): (usize, &u32)| {
            *end != NONE && !ends.iter().take(i).any(|other| other == end)
        };
        if !ends.iter().enumerate().all(distinct) {
            same.push(NONE);
            continue;
        }
        let next = row_number(numbers.len());
        let number = *numbers.entry(canonical_ends(&ends, ordered)).or_insert(next);
        if number == next {
            rows.extend(ends.iter().map(|end| usize_from_u32(*end)));
        }
        same.push(number);
    }
    let clusters = Clusters::new(&same, numbers.len());
    let fields = rules.element_fields(elements, &clusters)?;
    Ok(Elements::new(elements.width(), rows)?.with_fields(fields)?)
}

/// Returns the canonical order of ends: sorted for an edge without direction, rotated to the lowest
/// for a face.
fn canonical_ends(ends: &[u32], ordered: bool) -> Vec<u32> {
    let mut ends = ends.to_vec();
    if ends.len() > 2 {
        // There is at least one end.
        let lowest = ends.iter().enumerate().min_by_key(|(_, end)| **end).map_or(0, |(i, _)| i);
        ends.rotate_left(lowest);
    } else if !ordered {
        ends.sort_unstable();
    }
    ends
}

/// Union-find over vertex rows, with path halving.
pub(crate) struct UnionFind {
    above: Vec<u32>, // a vertex of the same piece; itself for one of each
}

impl UnionFind {
    pub(crate) fn new(rows: usize) -> Self {
        Self { above: (0..row_number(rows)).collect() }
    }

    /// Returns the representative of the component of `row`.
    pub(crate) fn find(&mut self, row: usize) -> usize {
        let mut at = row;
        loop {
            let above = usize_from_u32(self.above[at]);
            if above == at {
                return at;
            }
            self.above[at] = self.above[above]; // halves the way for the next one
            at = usize_from_u32(self.above[at]);
        }
    }

    pub(crate) fn union(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        self.above[a.max(b)] = row_number(a.min(b));
    }
}

#[cfg(test)]
mod tests {
    use zvf_metadata::Dtype;
    use zvf_model::Field;

    use super::*;
    use crate::columns::column;

    fn rules() -> Rules {
        Rules { named: Vec::new(), weight: "count".to_owned() }
    }

    fn batch(kind: Kind, at: &[f64], width: usize, rows: &[usize]) -> Batch {
        let positions = column(Dtype::FLOAT32, 2, at).unwrap();
        let elements = Elements::new(width, rows.to_vec()).unwrap();
        Batch::new(kind, positions).with_elements(elements).unwrap()
    }

    /// Returns a grid of nodes with unit spacing, joined to their neighbours.
    fn grid(side: usize) -> Batch {
        let at: Vec<f64> = (0..side * side)
            .flat_map(|i| [(i / side) as f64 + 0.5, (i % side) as f64 + 0.5])
            .collect();
        let mut rows = Vec::new();
        for i in 0..side * side {
            if i / side + 1 < side {
                rows.extend([i, i + side]);
            }
            if i % side + 1 < side {
                rows.extend([i, i + 1]);
            }
        }
        batch(Kind::Graph, &at, 2, &rows)
    }

    #[test]
    fn a_grid_is_contracted_to_a_coarser_grid() {
        let coarsened = contract_cells(&grid(20), 2.0, false, &[], &rules()).unwrap();
        assert_eq!((coarsened.batch.len(), coarsened.batch.elements().unwrap().len()), (100, 180));
        let error = coarsened.farthest.error;
        assert!((error - 0.5_f64.sqrt()).abs() < 1e-6, "{error}");
        let counts = coarsened.batch.field("count").unwrap().column.floats();
        assert_eq!(counts, [4.0; 100]);
    }

    #[test]
    fn components_stay_apart_and_parallel_edges_are_merged() {
        // Two parallel edges in one cell, and two between cells.
        let at = [0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 1.1, 0.1, 1.2, 0.1];
        let batch = batch(Kind::Graph, &at, 2, &[0, 1, 0, 3, 4, 1, 3, 4, 2, 2]);
        let weight = column(Dtype::FLOAT32, 1, &[1.0, 2.0, 4.0, 8.0, 16.0]).unwrap();
        let elements = batch.elements().unwrap().clone();
        let elements = elements.with_field(Field::new("w", weight)).unwrap();
        let batch = batch.with_elements(elements).unwrap();
        let contract = |directed, rule| {
            let mut rules = rules();
            rules.named.push(("w".to_owned(), rule));
            let coarsened = contract_cells(&batch, 1.0, directed, &[], &rules).unwrap().batch;
            let elements = coarsened.elements().unwrap().clone();
            (coarsened.len(), elements.rows().to_vec(), elements.fields()[0].column.floats())
        };
        use crate::rule::Aggregation;
        assert_eq!(contract(false, Aggregation::Sum), (3, vec![0, 2], vec![6.0]));
        assert_eq!(contract(false, Aggregation::Mean), (3, vec![0, 2], vec![3.0]));
        assert_eq!(contract(true, Aggregation::Sum), (3, vec![0, 2, 2, 0], vec![2.0, 4.0]));
    }

    #[test]
    fn equal_faces_are_merged_unless_their_orientation_differs() {
        let at = [0.0, 0.0, 0.1, 0.1, 2.0, 0.0, 4.0, 0.0, 2.5, 0.5];
        let rows = [0, 2, 3, 3, 1, 2, 3, 2, 1, 0, 1, 2, 2, 4, 3];
        let coarsened =
            contract_cells(&batch(Kind::Mesh, &at, 3, &rows), 1.0, false, &[], &rules()).unwrap();
        assert_eq!(coarsened.batch.len(), 3);
        assert_eq!(coarsened.batch.elements().unwrap().rows(), [0, 1, 2, 2, 1, 0]);
    }

    #[test]
    fn vertices_of_different_objects_are_not_merged() {
        let owners = [ObjectId(1), ObjectId(2)].map(Some);
        let graph = batch(Kind::Graph, &[0.1, 0.1, 0.2, 0.2], 2, &[0, 1]);
        assert_eq!(contract_cells(&graph, 1.0, false, &[], &rules()).unwrap().batch.len(), 1);
        let graph = graph.with_vertex_objects(owners.to_vec()).unwrap();
        assert_eq!(contract_cells(&graph, 1.0, false, &[], &rules()).unwrap().batch.len(), 2);
    }
}
