//! Measures of graphs and surfaces, implemented independently of the library.

use std::collections::BTreeMap;

use zvf_model::Batch;

use crate::fixtures::values;

fn sides(batch: &Batch) -> Vec<[usize; 2]> {
    let elements = batch.elements().unwrap();
    let width = elements.width();
    let face = |face: &[usize]| -> Vec<[usize; 2]> {
        let count = if width > 2 { width } else { 1 };
        (0..count).map(|i| [face[i], face[(i + 1) % width]]).collect()
    };
    elements.rows().chunks(width).flat_map(face).collect()
}

/// Returns the number of connected components.
pub(crate) fn components(batch: &Batch) -> usize {
    count_components(batch.len(), &sides(batch))
}

fn count_components(count: usize, edges: &[[usize; 2]]) -> usize {
    let mut roots: Vec<usize> = (0..count).collect();
    loop {
        let mut changed = false;
        for [a, b] in edges {
            let least = roots[*a].min(roots[*b]);
            changed |= roots[*a] != least || roots[*b] != least;
            (roots[*a], roots[*b]) = (least, least);
        }
        if !changed {
            return (0..count).filter(|row| roots[*row] == *row).count();
        }
    }
}

/// Returns the Euler characteristic: vertices minus edges plus faces.
pub(crate) fn euler(batch: &Batch) -> i64 {
    let edges: BTreeMap<[usize; 2], u32> = count_faces(batch);
    batch.len() as i64 - edges.len() as i64 + batch.elements().unwrap().len() as i64
}

fn count_faces(batch: &Batch) -> BTreeMap<[usize; 2], u32> {
    let mut counts = BTreeMap::new();
    for [a, b] in sides(batch) {
        *counts.entry([a.min(b), a.max(b)]).or_insert(0) += 1;
    }
    counts
}

/// Returns the number of borders: loops of edges with one face.
pub(crate) fn borders(batch: &Batch) -> usize {
    let counts = count_faces(batch);
    assert!(counts.values().all(|count| *count < 3));
    let border: Vec<[usize; 2]> =
        counts.into_iter().filter(|(_, n)| *n == 1).map(|(e, _)| e).collect();
    let mut border_vertices: Vec<usize> = border.iter().flatten().copied().collect();
    border_vertices.sort_unstable();
    border_vertices.dedup();
    let number = |row: usize| border_vertices.binary_search(&row).unwrap();
    let edges: Vec<[usize; 2]> = border.iter().map(|[a, b]| [number(*a), number(*b)]).collect();
    count_components(border_vertices.len(), &edges)
}

pub(crate) fn distance_to_segment(at: &[f64], from: &[f64], to: &[f64]) -> f64 {
    let (mut projection, mut length) = (0.0, 0.0);
    for c in 0..at.len() {
        projection += (at[c] - from[c]) * (to[c] - from[c]);
        length += (to[c] - from[c]).powi(2);
    }
    let share = if length > 0.0 { (projection / length).clamp(0.0, 1.0) } else { 0.0 };
    (0..at.len()).map(|c| (at[c] - from[c] - share * (to[c] - from[c])).powi(2)).sum::<f64>().sqrt()
}

/// Returns the largest distance of sampled points of `fine` from `coarse`: a lower bound, too small by at most
/// the spacing of the samples.
pub(crate) fn surface_distance(fine: &Batch, coarse: &Batch) -> f64 {
    let corners = |batch: &Batch| -> Vec<[Vec<f64>; 3]> {
        let at = values(batch.positions());
        let point = |row: usize| at[row * 3..row * 3 + 3].to_vec();
        let faces = batch.elements().unwrap().rows().chunks(3);
        faces.map(|face| [point(face[0]), point(face[1]), point(face[2])]).collect()
    };
    let target = corners(coarse);
    let mut max_distance = 0.0_f64;
    for [a, b, c] in corners(fine) {
        for (u, v) in [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.5, 0.5), (0.33, 0.33), (0.5, 0.0)] {
            let at: Vec<f64> =
                (0..3).map(|i| a[i] + u * (b[i] - a[i]) + v * (c[i] - a[i])).collect();
            let distance =
                target.iter().map(|face| distance_to_face(&at, face)).fold(f64::INFINITY, f64::min);
            max_distance = max_distance.max(distance);
        }
    }
    max_distance
}

/// Returns the distance to a triangle, by solving for the nearest point of its plane.
fn distance_to_face(at: &[f64], [a, b, c]: &[Vec<f64>; 3]) -> f64 {
    let subtract =
        |p: &[f64], q: &[f64]| -> Vec<f64> { p.iter().zip(q).map(|(p, q)| p - q).collect() };
    let dot = |p: &[f64], q: &[f64]| -> f64 { p.iter().zip(q).map(|(p, q)| p * q).sum() };
    let (u, v, w) = (subtract(b, a), subtract(c, a), subtract(at, a));
    let (uu, uv, vv, wu, wv) = (dot(&u, &u), dot(&u, &v), dot(&v, &v), dot(&w, &u), dot(&w, &v));
    let determinant = uu * vv - uv * uv;
    let (s, t) = ((vv * wu - uv * wv) / determinant, (uu * wv - uv * wu) / determinant);
    if s >= 0.0 && t >= 0.0 && s + t <= 1.0 {
        let foot: Vec<f64> = (0..3).map(|i| a[i] + s * u[i] + t * v[i]).collect();
        let offset = subtract(at, &foot);
        return dot(&offset, &offset).sqrt();
    }
    [(a, b), (b, c), (c, a)]
        .iter()
        .map(|(p, q)| distance_to_segment(at, p, q))
        .fold(f64::INFINITY, f64::min)
}
