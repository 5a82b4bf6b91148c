//! Octree of COPC: divides points into nodes.
//!
//! A node has a grid of 128 cells a side. The first point of a cell stays in the node and the others go to a child, so
//! that each level is an even sample. A node of at most [`LEAF_POINTS`] points keeps all of them, as does a node of the
//! deepest level. All points are in memory.

use zvf_error::Result;

use crate::las::Grid;
use crate::las::write::schema::refuse;

/// A node of the octree with its points.
pub(crate) struct Node {
    pub(crate) key: [i32; 4], // level, x, y, z
    /// Records, in input order.
    pub(crate) rows: Vec<usize>,
}

/// The cube of the root node.
#[derive(Clone, Copy)]
pub(crate) struct Cube {
    pub(crate) corner: [f64; 3],
    pub(crate) side: f64,
}

impl Cube {
    /// Returns the cube around these bounds.
    pub(crate) fn from_bounds(min: [f64; 3], max: [f64; 3]) -> Self {
        if min.iter().zip(&max).any(|(min, max)| min > max) {
            return Self { corner: [0.0; 3], side: 1.0 };
        }
        let side = min.iter().zip(&max).map(|(min, max)| max - min).fold(0.0, f64::max);
        let side = if side > 0.0 { side * 1.000_001 } else { 1.0 };
        Self { corner: min, side }
    }

    fn cell(&self, position: [f64; 3], cells: f64) -> [i32; 3] {
        let mut cell = [0; 3];
        for ((to, x), low) in cell.iter_mut().zip(position).zip(self.corner) {
            *to = truncate(((x - low) / self.side * cells).clamp(0.0, cells - 1.0));
        }
        cell
    }

    pub(crate) fn spacing(&self) -> f64 {
        self.side / GRID_CELLS_PER_SIDE
    }
}

#[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "clamped to the cells")]
fn truncate(x: f64) -> i32 {
    x as i32
}

/// Builds the octree, and returns its nodes with points, level by level.
pub(crate) fn build_nodes(records: &[u8], size: usize, grid: &Grid, cube: Cube) -> Vec<Node> {
    let record = |row: usize| &records[row * size..(row + 1) * size];
    let mut open = vec![Node { key: [0; 4], rows: (0..records.len() / size).collect() }];
    let mut done = Vec::new();
    while let Some(mut node) = open.pop() {
        let level = node.key[0];
        if node.rows.len() <= LEAF_POINTS || level >= MAX_LEVEL {
            if !node.rows.is_empty() {
                done.push(node);
            }
            continue;
        }
        let cells = 2_f64.powi(level);
        let mut occupied = std::collections::HashSet::new();
        let mut children: [Vec<usize>; 8] = Default::default();
        node.rows.retain(|row| {
            let at = grid.position(record(*row));
            if occupied.insert(cube.cell(at, cells * GRID_CELLS_PER_SIDE)) {
                return true;
            }
            let child = cube.cell(at, cells * 2.0);
            let index = child
                .iter()
                .enumerate()
                .fold(0, |index, (axis, cell)| index | usize::from(cell & 1 == 1) << axis);
            children[index].push(*row);
            false
        });
        let [_, x, y, z] = node.key;
        for (index, rows) in (0..8).zip(children) {
            let half = |cell: i32, axis: i32| cell * 2 + (index >> axis & 1);
            let key = [level + 1, half(x, 0), half(y, 1), half(z, 2)];
            if !rows.is_empty() {
                open.push(Node { key, rows });
            }
        }
        done.push(node);
    }
    done.sort_by_key(|node| node.key);
    done
}

/// Encodes the info record of COPC.
pub(crate) fn encode_info(cube: Cube, root: (u64, u64), times: (f64, f64)) -> Vec<u8> {
    let half = cube.side / 2.0;
    let [x, y, z] = cube.corner.map(|low| low + half);
    let lengths = [x, y, z, half, cube.spacing()].map(f64::to_le_bytes);
    let root = [root.0, root.1].map(u64::to_le_bytes);
    let times = [times.0, times.1].map(f64::to_le_bytes);
    let mut raw = [&lengths[..], &root, &times].concat().concat();
    raw.resize(160, 0);
    raw
}

/// Encodes an entry of a hierarchy page.
///
/// # Errors
///
/// When it has more bytes or points than 31 bits count.
pub(crate) fn encode_entry(key: [i32; 4], at: u64, bytes: usize, points: usize) -> Result<Vec<u8>> {
    let mut raw: Vec<u8> = key.iter().flat_map(|n| n.to_le_bytes()).collect();
    raw.extend_from_slice(&at.to_le_bytes());
    for n in [bytes, points] {
        let n = i32::try_from(n).map_err(|_too_many| {
            refuse(format!("{points} points of {bytes} bytes in a node of the octree"))
        })?;
        raw.extend_from_slice(&n.to_le_bytes());
    }
    Ok(raw)
}

/// Grid cells along a side of a node.
const GRID_CELLS_PER_SIDE: f64 = 128.0;
/// Largest number of points of a node that is not divided.
const LEAF_POINTS: usize = 50_000;
const MAX_LEVEL: i32 = 16;
