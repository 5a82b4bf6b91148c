//! Fewer vertices of a crowded chunk: a chunk may hold more than a budget allows, and there may be no coarser level.
//!
//! ```text
//! points           a fair sample: the rows whose hash is lowest, so that a larger sample holds the smaller one
//! edges and faces  vertex clustering on a grid: each cluster of an object is drawn as its first vertex; edges and faces that
//!                  shrink to less, or that come twice, are left out
//! chains           whole objects: those whose hash is lowest, the same ones in every chunk
//! ```
//!
//! Every vertex that is left is a stored one, with its row and its values.

use std::collections::{HashMap, HashSet};

use zvf_format::num::{index_u32, usize_from_u32};

use crate::cell::{Attribute, Cell, NO_OBJECT};

/// Reduces `cell` to about `limit` vertices of its own; one that has no more is left alone.
pub fn thin_cell(cell: Cell, limit: u32) -> Cell {
    let own_count = cell.own_vertices;
    if own_count <= limit {
        return cell;
    }
    if cell.segments.is_empty() && cell.faces.is_empty() {
        let threshold = share_threshold(f64::from(limit) / f64::from(own_count));
        return retain(&cell, |at| {
            cell.rows.get(at).is_some_and(|row| hash_row(*row) <= threshold)
        });
    }
    // An object that is one cluster loses all of its edges: fewer objects are left, each with some.
    let objects = index_u32(cell.ids.len());
    let room = limit / MIN_OBJECT_VERTICES;
    if !cell.segments.is_empty() && objects > room.max(1) {
        return cluster(&sample_objects(&cell, f64::from(room) / f64::from(objects)), limit);
    }
    cluster(&cell, limit)
}

/// Leaves out whole objects: about this share of them is left, the same ones in every chunk.
pub fn sample_objects(cell: &Cell, share: f64) -> Cell {
    let threshold = share_threshold(share);
    let hash_id = |id: &i64| {
        let [low, high] = [*id as u64, (*id as u64) >> 32].map(|half| half as u32);
        hash_row(low ^ hash_row(high))
    };
    let is_kept: Vec<bool> = cell.ids.iter().map(|id| hash_id(id) <= threshold).collect();
    retain(cell, |at| {
        let slot = cell.slots.get(at).and_then(|slot| is_kept.get(usize_from_u32(*slot)));
        slot.is_none_or(|is_kept| *is_kept)
    })
}

/// Returns the cell without some vertices, and without the edges and faces that end there.
fn retain(cell: &Cell, is_kept: impl Fn(usize) -> bool) -> Cell {
    let kept: Vec<usize> = (0..cell.slots.len()).filter(|at| is_kept(*at)).collect();
    let mut moved = vec![u32::MAX; cell.slots.len()];
    for (next, at) in kept.iter().enumerate() {
        if let Some(moved) = moved.get_mut(*at) {
            *moved = index_u32(next);
        }
    }
    select(cell, &kept, &moved)
}

/// Returns a number of 32 bits that looks random, the same for the same row.
pub(crate) fn hash_row(row: u32) -> u32 {
    let mut x = row.wrapping_add(0x9e37_79b9);
    x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}

/// Returns the hash up to which rows are kept.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share is 0 to 1")]
fn share_threshold(share: f64) -> u32 {
    (share.clamp(0.0, 1.0) * f64::from(u32::MAX)) as u32
}

/// Clusters on the finest grid that has at most `limit` clusters.
fn cluster(cell: &Cell, limit: u32) -> Cell {
    let own_count = usize_from_u32(cell.own_vertices);
    let (low, side) = extent(cell);
    let (mut fits, mut fails) = (1_u32, MAX_STEPS);
    while fails - fits > 1 {
        let steps = fits.midpoint(fails);
        let mut clusters = HashSet::new();
        let few = (0..own_count).all(|at| {
            clusters.insert(cluster_of(cell, at, low, side, steps));
            clusters.len() <= usize_from_u32(limit)
        });
        *(if few { &mut fits } else { &mut fails }) = steps;
    }
    let mut firsts = HashMap::new();
    let mut moved = Vec::with_capacity(cell.slots.len());
    let mut kept_vertices = Vec::new();
    for at in 0..cell.slots.len() {
        // Vertices of other chunks stay apart: they end at a border that the other chunk shares.
        let key = (at >= own_count, cluster_of(cell, at, low, side, fits));
        moved.push(*firsts.entry(key).or_insert_with(|| {
            kept_vertices.push(at);
            index_u32(kept_vertices.len() - 1)
        }));
    }
    select(cell, &kept_vertices, &moved)
}

/// Returns the lower corner of a cell's vertices, and the longest side of their box.
fn extent(cell: &Cell) -> ([f32; 3], f32) {
    let (mut low, mut high) = ([f32::INFINITY; 3], [f32::NEG_INFINITY; 3]);
    for point in cell.positions.as_chunks::<3>().0 {
        for ((x, low), high) in point.iter().zip(&mut low).zip(&mut high) {
            (*low, *high) = (low.min(*x), high.max(*x));
        }
    }
    let side = low.iter().zip(high).map(|(low, high)| high - low).fold(0.0, f32::max);
    (low, if side > 0.0 { side } else { 1.0 })
}

#[expect(clippy::cast_possible_truncation, reason = "a step of a grid")]
#[expect(clippy::cast_precision_loss, reason = "at most some thousand steps")]
fn cluster_of(cell: &Cell, at: usize, low: [f32; 3], side: f32, steps: u32) -> (u32, [i32; 3]) {
    let slot = cell.slots.get(at).copied().unwrap_or(NO_OBJECT);
    let mut place = [0; 3];
    if let Some(point) = cell.positions.as_chunks::<3>().0.get(at) {
        for ((place, x), low) in place.iter_mut().zip(point).zip(low) {
            *place = ((x - low) / side * steps as f32) as i32;
        }
    }
    (slot, place)
}

/// Returns the edges or faces between what is left: each once, none that has a corner twice.
fn rename<const N: usize>(rows: &[u32], moved: &[u32]) -> Vec<u32> {
    let mut distinct = HashSet::new();
    let mut renamed = Vec::new();
    'rows: for row in rows.as_chunks::<N>().0 {
        let mut corners = *row;
        for corner in &mut corners {
            *corner = moved.get(usize_from_u32(*corner)).copied().unwrap_or(u32::MAX);
            if *corner == u32::MAX {
                continue 'rows;
            }
        }
        let mut sorted = corners;
        sorted.sort_unstable();
        let is_whole = sorted.windows(2).all(|pair| pair.first() != pair.last());
        if is_whole && distinct.insert(sorted) {
            renamed.extend(corners);
        }
    }
    renamed
}

/// Returns the cell with some of its vertices, whose numbers `moved` gives: [`u32::MAX`] where one is left out.
fn select(cell: &Cell, kept: &[usize], moved: &[u32]) -> Cell {
    let own_count = usize_from_u32(cell.own_vertices);
    let points = cell.positions.as_chunks::<3>().0;
    let pick = |list: &[u32]| kept.iter().filter_map(|at| list.get(*at).copied()).collect();
    let attribute = |attribute: &Attribute| {
        let width = usize_from_u32(attribute.width);
        let values =
            kept.iter().filter_map(|at| attribute.values.get(at * width..(at + 1) * width));
        Attribute { values: values.flatten().copied().collect(), ..attribute.clone() }
    };
    let own_kept = kept.iter().filter(|at| **at < own_count).count();
    let axes = cell.ghost_cells.len() / (cell.slots.len() - own_count).max(1);
    let ghosts = kept.iter().filter_map(|at| at.checked_sub(own_count));
    let ghosts = ghosts.filter_map(|at| cell.ghost_cells.get(at * axes..(at + 1) * axes));
    Cell {
        origin: cell.origin,
        positions: kept.iter().filter_map(|at| points.get(*at)).flatten().copied().collect(),
        own_vertices: index_u32(own_kept),
        stored_vertices: cell.stored_vertices,
        slots: pick(&cell.slots),
        ids: cell.ids.clone(),
        rows: pick(&cell.rows),
        segments: rename::<2>(&cell.segments, moved),
        faces: rename::<3>(&cell.faces, moved),
        rim: rename::<3>(&cell.rim, moved),
        ghost_cells: ghosts.flatten().copied().collect(),
        attributes: cell.attributes.iter().map(attribute).collect(),
        is_complete: cell.is_complete,
        ..Cell::default()
    }
}

/// Vertices that are left of each object of a crowded cell of edges.
const MIN_OBJECT_VERTICES: u32 = 4;
/// The finest grid has less steps along its longest side.
const MAX_STEPS: u32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn float(n: u32) -> f32 {
        f32::from(u16::try_from(n).unwrap())
    }

    /// Returns a flat grid of `n` by `n` vertices with two triangles per square.
    fn surface(n: u32) -> Cell {
        let mut cell = Cell { own_vertices: n * n, stored_vertices: n * n, ..Cell::default() };
        cell.ids = vec![7];
        let values = (0..n * n).map(float).collect();
        cell.attributes = vec![Attribute { name: "row".to_owned(), width: 1, values }];
        for row in 0..n * n {
            cell.positions.extend([float(row % n), float(row / n), 0.0]);
            cell.rows.push(row);
            cell.slots.push(0);
            if row % n + 1 < n && row / n + 1 < n {
                cell.faces.extend([row, row + 1, row + n, row + 1, row + n + 1, row + n]);
            }
        }
        cell
    }

    #[test]
    fn a_thinned_surface_keeps_positions_and_attributes() {
        let full = surface(100);
        let thinned = thin_cell(full.clone(), 400);
        assert!((200..=400).contains(&thinned.own_vertices), "{}", thinned.own_vertices);
        assert_eq!(thinned.stored_vertices, 10_000);
        // Almost two triangles per square are left.
        assert!(thinned.faces.len() / 3 > thinned.slots.len(), "{} faces", thinned.faces.len() / 3);
        assert!(thinned.faces.iter().all(|row| *row < thinned.own_vertices));
        for (at, row) in thinned.rows.iter().enumerate() {
            let start = usize_from_u32(*row) * 3;
            let stored = &full.positions[start..start + 3];
            assert!(thinned.positions[at * 3..at * 3 + 3].iter().eq(stored));
            assert!(thinned.attributes[0].values[at..].starts_with(&[float(*row)]));
        }
        assert_eq!(thin_cell(full.clone(), 10_000), full);
    }

    /// Returns `n` chains of twenty vertices each.
    fn chains(n: u32) -> Cell {
        let mut cell = Cell { own_vertices: n * 20, stored_vertices: n * 20, ..Cell::default() };
        for row in 0..n * 20 {
            cell.positions.extend([float(row % 20), float(row / 20), 0.0]);
            cell.rows.push(row);
            cell.slots.push(row / 20);
            if row % 20 > 0 {
                cell.segments.extend([row - 1, row]);
            }
        }
        cell.ids = (0..i64::from(n)).collect();
        cell
    }

    #[test]
    fn crowded_chains_keep_edges() {
        // As many vertices as objects: each object was one cluster without an edge.
        let thinned = thin_cell(chains(1000), 1000);
        assert!(thinned.segments.len() / 2 > 300, "{} edges", thinned.segments.len() / 2);
        assert!(thinned.own_vertices <= 1200, "{}", thinned.own_vertices);
        let sampled = sample_objects(&chains(1000), 0.25);
        let objects: HashSet<u32> = sampled.slots.iter().copied().collect();
        assert!((200..300).contains(&objects.len()), "{} objects", objects.len());
        assert_eq!(sampled.slots.len(), objects.len() * 20, "objects are whole");
        assert_eq!(sampled.segments.len() / 2, objects.len() * 19);
    }

    #[test]
    fn smaller_samples_are_subsets_of_larger_ones() {
        let mut full = surface(100);
        full.faces.clear();
        let small = thin_cell(full.clone(), 1000);
        let large = thin_cell(full, 3000);
        assert!((800..1200).contains(&small.own_vertices), "{}", small.own_vertices);
        assert!((2700..3300).contains(&large.own_vertices), "{}", large.own_vertices);
        let large: HashSet<u32> = large.rows.into_iter().collect();
        assert!(small.rows.iter().all(|row| large.contains(row)));
    }
}
