//! Orders the vertices of skeletons by nothing but their content.
//!
//! A stored tree is in depth-first order from its root, and reading it again returns siblings by
//! the chunks they lie in, not in the order in which they were written. So siblings are ordered
//! here by their content and that of their subtrees. Where two are equal, either order gives the
//! same bytes.

use zvf_error::Result;
use zvf_format::num::{to_u64, usize_from_u32};
use zvf_model::{Batch, Elements};

use super::Coarsened;
use crate::batches::gather_rows;
use crate::rows::{NONE, lookup, positions_in, row_number};

/// Returns the same trees with vertices in depth-first order and each edge at the position of its
/// child. Anything that is not a tree is unchanged: the writer refuses it.
pub(crate) fn order_canonically(made: Coarsened) -> Result<Coarsened> {
    let tree = Tree::new(&made.batch);
    let order = tree.depth_first(&tree.ranks(&made.batch));
    let edges = order.iter().map(|row| tree.edges[usize_from_u32(*row)]);
    let edges: Vec<u32> = edges.filter(|edge| *edge != NONE).collect();
    if order.len() != made.batch.len() || to_u64(edges.len()) != made.elements() {
        return Ok(made);
    }
    let place = positions_in(&order, order.len());
    let batch = gather_rows(&made.batch, &order, &edges, &place)?;
    let vertex_map = made.vertex_map.iter().map(|row| lookup(&place, *row)).collect();
    Ok(Coarsened { batch, vertex_map, ..made })
}

/// Trees given by edges from a child to its parent.
struct Tree {
    edges: Vec<u32>,         // to the parent of each vertex
    children: Vec<Vec<u32>>, // of each vertex
    roots: Vec<u32>,
}

impl Tree {
    fn new(batch: &Batch) -> Self {
        let mut edges = vec![NONE; batch.len()];
        let mut children: Vec<Vec<u32>> = vec![Vec::new(); batch.len()];
        let pairs = batch.elements().map_or(&[][..], Elements::rows).as_chunks::<2>().0;
        for (edge, [child, parent]) in (0_u32..).zip(pairs) {
            // With a second parent it is not a tree, and many could make the walk endless.
            if edges[*child] == NONE {
                edges[*child] = edge;
                children[*parent].push(row_number(*child));
            }
        }
        let roots = (0..).zip(&edges).filter(|(_, edge)| **edge == NONE).map(|(row, _)| row);
        Self { roots: roots.collect(), edges, children }
    }

    fn children(&self, row: u32) -> &[u32] {
        &self.children[usize_from_u32(row)]
    }

    /// Returns a rank for each vertex: equal for equal subtrees, and larger for higher ones.
    fn ranks(&self, batch: &Batch) -> Vec<u32> {
        let mut ranks = vec![0_u32; batch.len()];
        let mut next = 0_u32;
        for level in self.levels() {
            let mut keyed: Vec<(Vec<u8>, Vec<u32>, u32)> = level
                .iter()
                .map(|row| {
                    let rank_of = |child: &u32| ranks[usize_from_u32(*child)];
                    let mut below: Vec<u32> = self.children(*row).iter().map(rank_of).collect();
                    below.sort_unstable();
                    (self.content(batch, *row), below, *row)
                })
                .collect();
            keyed.sort_unstable();
            for alike in keyed.chunk_by(|a, b| (&a.0, &a.1) == (&b.0, &b.1)) {
                alike.iter().for_each(|(.., row)| ranks[usize_from_u32(*row)] = next);
                next += 1; // one a vertex at most, of which there are fewer
            }
        }
        ranks
    }

    /// Returns the vertices by the height of their subtrees, tips first.
    fn levels(&self) -> Vec<Vec<u32>> {
        let mut heights = vec![0_usize; self.edges.len()];
        let mut levels: Vec<Vec<u32>> = Vec::new();
        for row in self.depth_first(&[]).into_iter().rev() {
            let below = self.children(row).iter().map(|child| heights[usize_from_u32(*child)]);
            let height = below.max().map_or(0, |height| height + 1); // a tip has nothing below
            heights[usize_from_u32(row)] = height;
            if levels.len() <= height {
                levels.resize(height + 1, Vec::new());
            }
            levels[height].push(row);
        }
        levels
    }

    /// Returns the values of a vertex and of the edge to its parent.
    fn content(&self, batch: &Batch, row: u32) -> Vec<u8> {
        let at = usize_from_u32(row);
        let mut bytes = batch.positions().row(at).to_vec();
        batch.fields().iter().for_each(|field| bytes.extend_from_slice(field.column.row(at)));
        let edge = self.edges[at];
        if let Some(elements) = batch.elements().filter(|_| edge != NONE) {
            let mut fields: Vec<_> = elements.fields().iter().collect();
            fields.sort_by(|a, b| a.name.cmp(&b.name));
            let values = fields.into_iter().map(|field| field.column.row(usize_from_u32(edge)));
            values.for_each(|value| bytes.extend_from_slice(value));
        }
        bytes
    }

    /// Returns the vertices in depth-first order, with siblings and roots sorted by `ranks` if
    /// there are any.
    fn depth_first(&self, ranks: &[u32]) -> Vec<u32> {
        let rank = |row: &u32| ranks.get(usize_from_u32(*row));
        let mut open = self.roots.clone();
        open.sort_by_key(|row| std::cmp::Reverse(rank(row)));
        let mut order = Vec::with_capacity(self.edges.len());
        while let Some(row) = open.pop() {
            order.push(row);
            let first = open.len();
            open.extend_from_slice(self.children(row));
            open[first..].sort_by_key(|row| std::cmp::Reverse(rank(row)));
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use zvf_metadata::Dtype;
    use zvf_model::{Field, Kind};

    use super::*;
    use crate::columns::column;

    /// Returns a root with three arms: the first two differ in their tips, the third is a copy of the second.
    fn tree(order: &[usize]) -> Batch {
        let at = [0.0, 1.0, 2.0, 1.0, 3.0, 1.0, 3.0];
        let parents = [usize::MAX, 0, 1, 0, 3, 0, 5];
        let new_row = |row: usize| order.iter().position(|old_row| *old_row == row).unwrap();
        let reordered: Vec<f64> = order.iter().map(|row| at[*row]).collect();
        let edges: Vec<usize> = order
            .iter()
            .filter(|row| parents[**row] != usize::MAX)
            .flat_map(|row| [new_row(*row), new_row(parents[*row])])
            .collect();
        let weight = edges.chunks(2).map(|edge| reordered[edge[0]] * 2.0).collect::<Vec<_>>();
        let weight = Field::new("w", column(Dtype::FLOAT32, 1, &weight).unwrap());
        Batch::new(Kind::Skeleton, column(Dtype::FLOAT32, 1, &reordered).unwrap())
            .with_elements(Elements::new(2, edges).unwrap().with_field(weight).unwrap())
            .unwrap()
    }

    #[test]
    fn canonical_order_depends_on_content_only() {
        let orders = [
            [0, 1, 2, 3, 4, 5, 6],
            [0, 5, 6, 3, 4, 1, 2],
            [6, 4, 2, 1, 3, 5, 0],
            [2, 0, 6, 5, 1, 4, 3],
        ];
        for order in orders {
            let result = order_canonically(Coarsened::from_batch(tree(&order))).unwrap();
            assert_eq!(result.batch.positions().floats(), [0.0, 1.0, 2.0, 1.0, 3.0, 1.0, 3.0]);
            let edges = result.batch.elements().unwrap();
            assert_eq!(edges.rows(), [1, 0, 2, 1, 3, 0, 4, 3, 5, 0, 6, 5], "{order:?}");
            assert_eq!(edges.fields()[0].column.floats(), [2.0, 4.0, 2.0, 6.0, 2.0, 6.0]);
            let input = tree(&order).positions().floats();
            let output = result.batch.positions().floats();
            for (row, to) in result.vertex_map.iter().enumerate() {
                assert_eq!(input[row], output[*to as usize]);
            }
        }
    }
}
