//! Triangles with shared corners, and their neighbours.

use zvf_format::num::usize_from_u32;

use super::quadric::{cross, subtract};
use super::triangle::Triangle;
use crate::rows::{Buckets, NONE, row_number};

/// The sides of triangles.
#[derive(Debug)]
pub(super) struct Edges {
    /// By the lower end: the higher end, and the side, three numbers for each triangle.
    sides: Buckets<[u32; 2]>,
}

impl Edges {
    /// Returns the sides of triangles between this many vertices.
    pub(super) fn new(faces: &[[u32; 3]], vertices: usize) -> Self {
        let sides = faces.iter().flat_map(|[a, b, c]| [(*a, *b), (*b, *c), (*c, *a)]);
        let ends =
            (0_u32..).zip(sides).map(|(side, (from, to))| (from.min(to), [from.max(to), side]));
        let mut sides = Buckets::new(vertices, ends);
        sides.sort_each(); // those with the same ends by the number of the triangle
        Self { sides }
    }

    /// Iterates over all edges in ascending order: the lower end, the higher end with the side of
    /// each triangle around.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u32, &[[u32; 2]])> {
        (0_u32..).zip(0..self.sides.len()).flat_map(move |(low, at)| {
            let same = self.sides.get(at).chunk_by(|[a, _], [b, _]| a == b);
            same.map(move |around| (low, around[0][0], around))
        })
    }
}

/// Triangles between points.
#[derive(Debug)]
pub(super) struct Net<'a> {
    at: &'a [[f64; 3]],
    faces: Vec<[u32; 3]>,
    /// The triangle across each side, where there is exactly one.
    neighbours: Vec<[u32; 3]>,
    normals: Vec<[f64; 3]>, // as long as twice the area
}

impl<'a> Net<'a> {
    pub(super) fn new(at: &'a [[f64; 3]], faces: Vec<[u32; 3]>) -> Self {
        let mut neighbours = vec![[NONE; 3]; faces.len()];
        for (.., around) in Edges::new(&faces, at.len()).iter() {
            let [[_, a], [_, b]] = around else { continue };
            for (corner, opposite) in [(a, b), (b, a)] {
                neighbours[usize_from_u32(corner / 3)][usize_from_u32(corner % 3)] = opposite / 3;
            }
        }
        let mut net = Self { at, faces, neighbours, normals: Vec::new() };
        net.normals =
            net.triangles().map(|[a, b, c]| cross(subtract(b, a), subtract(c, a))).collect();
        net
    }

    /// Returns whether there is a triangle of this number.
    pub(super) fn has(&self, face: u32) -> bool {
        usize_from_u32(face) < self.len()
    }

    pub(super) const fn len(&self) -> usize {
        self.faces.len()
    }

    /// Returns the corners of a triangle.
    pub(super) fn triangle(&self, face: u32) -> Triangle {
        self.faces[usize_from_u32(face)].map(|row| self.at[usize_from_u32(row)])
    }

    /// Returns the corners of all triangles.
    pub(super) fn triangles(&self) -> impl Iterator<Item = Triangle> {
        (0..row_number(self.len())).map(|face| self.triangle(face))
    }

    /// Returns the triangle across each side; [`NONE`] if there is none, or more than one.
    pub(super) fn neighbours(&self, face: u32) -> [u32; 3] {
        self.neighbours[usize_from_u32(face)]
    }

    /// Returns the inward normal of the plane through a side in the direction `along`. The plane bisects the angle between
    /// the triangle and the `other` one.
    pub(super) fn inward_normal(&self, face: u32, other: u32, along: [f64; 3]) -> [f64; 3] {
        let [[x, y, z], [u, v, w]] = [face, other].map(|face| self.normals[usize_from_u32(face)]);
        cross([x + u, y + v, z + w], along)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triangles_have_neighbours_across_edges() {
        // Two adjacent triangles, three that share an edge, and a degenerate one.
        let at: Vec<[f64; 3]> =
            (0..8).map(|i| [f64::from(i % 2), f64::from(i / 2), f64::from(i * i)]).collect();
        let faces = vec![[0, 1, 2], [2, 1, 3], [2, 3, 4], [3, 2, 5], [6, 6, 7]];
        let edges = Edges::new(&faces, at.len());
        let counts: Vec<(u32, u32, usize)> =
            edges.iter().map(|(low, high, faces_around)| (low, high, faces_around.len())).collect();
        assert_eq!(
            counts,
            [
                (0, 1, 1),
                (0, 2, 1),
                (1, 2, 2),
                (1, 3, 1),
                (2, 3, 3),
                (2, 4, 1),
                (2, 5, 1),
                (3, 4, 1),
                (3, 5, 1),
                (6, 6, 1),
                (6, 7, 2),
            ]
        );
        let net = Net::new(&at, faces);
        assert_eq!(net.neighbours(0), [NONE, 1, NONE]);
        assert_eq!(net.neighbours(1), [0, NONE, NONE]);
        assert_eq!(net.neighbours(2), [NONE; 3]);
        assert_eq!([4, 5].map(|face| net.has(face)), [true, false]);
        assert_eq!(net.triangle(0), [at[0], at[1], at[2]]);
        // The wall between coplanar triangles is perpendicular to them.
        let flat = [[0.0; 3], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]];
        let net = Net::new(&flat, vec![[0, 1, 2], [2, 1, 3]]);
        assert_eq!(net.inward_normal(0, 1, [-1.0, 1.0, 0.0]), [-2.0, -2.0, 0.0]);
        assert_eq!(net.inward_normal(1, 0, [1.0, -1.0, 0.0]), [2.0, 2.0, 0.0]);
    }
}
