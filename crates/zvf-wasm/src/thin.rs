//! Fewer vertices of a crowded chunk: a chunk may hold more than a budget allows, and there may be no coarser level.
//!
//! ```text
//! points           a fair sample: the rows whose hash is lowest, so that a larger sample holds the smaller one
//! edges and faces  vertex clustering on a grid: each cluster of an object is drawn as its first vertex; edges and faces that
//!                  shrink to less, or that come twice, are left out
//! ```
//!
//! Every vertex that is left is a stored one, with its row and its values.

use std::collections::{HashMap, HashSet};

use zvf_format::num::{index_u32, usize_from_u32};

use crate::cell::{Attribute, Cell, NO_OBJECT};

/// Reduces `cell` to about `limit` vertices of its own; one that has no more is left alone.
#[must_use]
pub fn thin_cell(cell: Cell, limit: u32) -> Cell {
    let own_count = cell.own_vertices;
    if own_count <= limit {
        return cell;
    }
    if cell.segments.is_empty() && cell.faces.is_empty() {
        let share = f64::from(limit) / f64::from(own_count);
        let threshold = share_threshold(share);
        let is_kept = |at: usize| cell.rows.get(at).is_some_and(|row| hash_row(*row) <= threshold);
        let kept_vertices: Vec<usize> = (0..cell.slots.len()).filter(|at| is_kept(*at)).collect();
        return select(
            &cell,
            &kept_vertices,
            index_u32(kept_vertices.len()),
            Vec::new(),
            Vec::new(),
        );
    }
    cluster(&cell, limit)
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
    let own_kept = index_u32(kept_vertices.iter().filter(|at| **at < own_count).count());
    let segments = rename::<2>(&cell.segments, &moved);
    let faces = rename::<3>(&cell.faces, &moved);
    select(cell, &kept_vertices, own_kept, segments, faces)
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

/// Returns the edges or faces between clusters: each once, none that has a corner twice.
fn rename<const N: usize>(rows: &[u32], moved: &[u32]) -> Vec<u32> {
    let mut distinct = HashSet::new();
    let mut renamed = Vec::new();
    'rows: for row in rows.as_chunks::<N>().0 {
        let mut corners = *row;
        for corner in &mut corners {
            let Some(cluster) = moved.get(usize_from_u32(*corner)) else { continue 'rows };
            *corner = *cluster;
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

/// Returns the cell with some of its vertices.
fn select(
    cell: &Cell,
    kept: &[usize],
    own_vertices: u32,
    segments: Vec<u32>,
    faces: Vec<u32>,
) -> Cell {
    let points = cell.positions.as_chunks::<3>().0;
    let pick = |list: &[u32]| kept.iter().filter_map(|at| list.get(*at).copied()).collect();
    let attribute = |attribute: &Attribute| {
        let width = usize_from_u32(attribute.width);
        let values =
            kept.iter().filter_map(|at| attribute.values.get(at * width..(at + 1) * width));
        Attribute { values: values.flatten().copied().collect(), ..attribute.clone() }
    };
    Cell {
        origin: cell.origin,
        positions: kept.iter().filter_map(|at| points.get(*at)).flatten().copied().collect(),
        own_vertices,
        stored_vertices: cell.stored_vertices,
        slots: pick(&cell.slots),
        ids: cell.ids.clone(),
        rows: pick(&cell.rows),
        segments,
        faces,
        attributes: cell.attributes.iter().map(attribute).collect(),
        is_complete: cell.is_complete,
    }
}

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
