//! A mesh during edge collapse: the faces around each vertex, and the cost of each edge.
//!
//! The corners of the faces around a vertex form a linked list. When an edge collapses, two such
//! lists are joined without new memory.

use std::collections::HashMap;

use zvf_format::num::usize_from_u32;

use super::net::Edges;
use super::quadric::{Quadric, cross, dot, subtract, unit};
use super::queue::Queue;
use super::triangle::{bounds, midpoint};
use crate::offload::Stop;
use crate::rows::{NONE, row_number};

/// The surroundings of an edge, in reusable buffers.
#[derive(Default)]
struct Scratch {
    rings: [Vec<IncidentFace>; 2], // around either end
    near: [Vec<u32>; 2],           // neighbours of either end
    over: [Vec<[u32; 2]>; 2],
}

/// A face around a vertex: which corner of it is the vertex, and the vertices of its three corners.
type IncidentFace = (u32, [u32; 3]);

/// The corners of a face, and the next corner of the same vertex after each of them.
#[derive(Clone, Copy, Debug)]
struct Face {
    corners: [u32; 3], // `NONE` where the face was removed
    next: [u32; 3],
}

/// A mesh during edge collapse.
pub(super) struct Mesh {
    at: Vec<[f64; 3]>,
    faces: Vec<Face>,
    first: Vec<u32>, // the first corner in the list of each vertex
    into: Vec<u32>,  // the vertex that each one was merged into; itself where it was not
    quadrics: Vec<Quadric>,
    border: Vec<bool>,
    fixed: Vec<bool>,
    stamps: Vec<u32>, // how often a vertex changed
    owners: Vec<u32>, // a number for each object
    queue: Queue,
    low: [f64; 3], // the corners of the box around the mesh
    high: [f64; 3],
}

impl Mesh {
    /// Creates a mesh of `faces` between vertices at the positions `at`; `fixed` vertices never
    /// move. `owners` has the number of the object of each vertex.
    pub(super) fn new(
        at: Vec<[f64; 3]>,
        faces: &[[u32; 3]],
        fixed: &[bool],
        owners: Vec<u32>,
    ) -> Self {
        let count = at.len();
        let [low, high] = bounds(&at);
        let mut mesh = Self {
            low,
            high,
            fixed: find_seams(&at, fixed),
            at,
            faces: Vec::with_capacity(faces.len()),
            first: vec![NONE; count],
            into: (0_u32..).take(count).collect(),
            quadrics: vec![Quadric::default(); count],
            border: vec![false; count],
            stamps: vec![0; count],
            owners,
            queue: Queue::default(),
        };
        mesh.take_faces(faces);
        mesh.take_edges(faces);
        mesh
    }

    fn take_faces(&mut self, faces: &[[u32; 3]]) {
        for (number, corners) in (0_u32..).zip(faces) {
            let normal = self.normal(*corners);
            let [a, ..] = *corners;
            let area = dot(normal, normal).sqrt() / 2.0;
            let plane = unit(normal).map(|unit| Quadric::plane(unit, self.point(a), area));
            let mut next = [NONE; 3];
            for ((corner, next), vertex) in (number * 3..).zip(&mut next).zip(corners) {
                *next = std::mem::replace(&mut self.first[usize_from_u32(*vertex)], corner);
                self.add_plane(*vertex, plane.as_ref());
            }
            self.faces.push(Face { corners: *corners, next });
        }
    }

    fn take_edges(&mut self, faces: &[[u32; 3]]) {
        let edges = Edges::new(faces, self.at.len());
        let mut count = 0;
        for (a, b, around) in edges.iter() {
            count += 1;
            if around.len() == 2 {
                continue;
            }
            let along = subtract(self.point(b), self.point(a));
            let [_, side] = around[0];
            let wall = unit(cross(along, self.normal(faces[usize_from_u32(side / 3)])));
            let wall =
                wall.map(|wall| Quadric::plane(wall, self.point(a), WALL * dot(along, along)));
            for vertex in [a, b] {
                self.border[usize_from_u32(vertex)] = true;
                self.fixed[usize_from_u32(vertex)] |= around.len() > 2;
                self.add_plane(vertex, wall.as_ref());
            }
        }
        self.queue = Queue::with_capacity(count);
        edges.iter().for_each(|(a, b, _)| self.offer(a, b));
    }

    fn add_plane(&mut self, vertex: u32, plane: Option<&Quadric>) {
        let quadric = &mut self.quadrics[usize_from_u32(vertex)];
        *quadric = plane.map_or(*quadric, |plane| quadric.add(plane));
    }

    pub(super) fn point(&self, vertex: u32) -> [f64; 3] {
        self.at[usize_from_u32(vertex)]
    }

    /// Returns the positions of the vertices.
    pub(super) fn points(&self) -> &[[f64; 3]] {
        &self.at
    }

    /// Returns the corners of each face; `None` if it was removed.
    pub(super) fn faces(&self) -> impl Iterator<Item = Option<[u32; 3]>> {
        self.faces.iter().map(Face::live_corners)
    }

    /// Returns the vertex that each one was finally merged into.
    pub(super) fn heads(&self) -> Vec<u32> {
        (0..row_number(self.into.len())).map(|row| self.head(row)).collect()
    }

    /// Returns a face around a vertex, if one is left.
    pub(super) fn face_at(&self, vertex: u32) -> Option<u32> {
        self.faces_of(vertex).next().map(|(corner, _)| corner / 3)
    }

    fn normal(&self, [a, b, c]: [u32; 3]) -> [f64; 3] {
        let a = self.point(a);
        cross(subtract(self.point(b), a), subtract(self.point(c), a))
    }

    /// Returns the vertex that `row` was merged into.
    fn head(&self, row: u32) -> u32 {
        let mut row = row;
        while self.into[usize_from_u32(row)] != row {
            row = self.into[usize_from_u32(row)];
        }
        row
    }

    /// Returns the remaining faces of a vertex.
    fn faces_of(&self, vertex: u32) -> impl Iterator<Item = IncidentFace> {
        let mut next = self.first[usize_from_u32(vertex)];
        let all = std::iter::from_fn(move || {
            let corner = next;
            let face = self.faces.get(usize_from_u32(corner / 3))?; // none at the end
            next = face.next[usize_from_u32(corner % 3)];
            Some((corner, face))
        });
        all.filter_map(|(corner, face)| Some((corner, face.live_corners()?)))
    }

    /// Returns the position that the edge would collapse to, and the cost.
    fn cheapest_position(&self, a: u32, b: u32) -> Option<(f64, [f64; 3])> {
        let quadric = |vertex| self.quadrics[usize_from_u32(vertex)];
        let both = quadric(a).add(&quadric(b));
        let (from, to) = (self.point(a), self.point(b));
        let held = |vertex| self.fixed[usize_from_u32(vertex)];
        let onto = |vertex| held(vertex) || self.border[usize_from_u32(vertex)];
        let along = subtract(to, from);
        let length = dot(along, along);
        let cost = |at: [f64; 3]| both.evaluate(at) + EVEN * length * length;
        let only = |at: [f64; 3]| Some((cost(at), at));
        match (onto(a), onto(b)) {
            _ if held(a) && held(b) => return None,
            _ if held(a) => return only(from),
            _ if held(b) => return only(to),
            (true, false) => return only(from),
            (false, true) => return only(to),
            _ => {}
        }
        let center = midpoint(from, to);
        let free = both.minimum().filter(|least| {
            let offset = subtract(*least, center);
            // A position outside the bounding box of the mesh may be outside the bounds of the
            // store.
            let mut sides = least.iter().zip(self.low.iter().zip(&self.high));
            dot(offset, offset) <= length && sides.all(|(x, (low, high))| (low..=high).contains(&x))
        });
        let candidates = [Some(from), Some(to), Some(center), free].into_iter().flatten();
        candidates.map(|at| (cost(at), at)).min_by(|(a, _), (b, _)| a.total_cmp(b))
    }

    /// Adds an edge to the queue.
    fn offer(&mut self, a: u32, b: u32) {
        let (a, b) = (a.min(b), a.max(b));
        if self.owners[usize_from_u32(a)] != self.owners[usize_from_u32(b)] {
            return;
        }
        let stamp = |vertex| self.stamps[usize_from_u32(vertex)];
        if let Some((cost, _)) = self.cheapest_position(a, b) {
            self.queue.push((cost.to_bits(), a, b, stamp(a), stamp(b)));
        }
    }

    /// Collapses edges until `target` faces are left, or no more edges can collapse.
    pub(super) fn reduce(&mut self, target: usize, stop: &Stop) {
        let mut left = self.faces.len();
        let mut scratch = Scratch::default();
        while left > target && !stop.is_set() {
            let Some((_, a, b, ..)) = self.queue.pop(&self.stamps) else { break };
            let Some((_, at)) = self.cheapest_position(a, b) else { continue };
            if self.may_collapse(a, b, at, &mut scratch) {
                left -= self.collapse(a, b, at, &mut scratch);
            }
        }
        // These are needed only while collapsing.
        self.queue = Queue::default();
        self.quadrics = Vec::new();
    }

    fn may_collapse(&self, a: u32, b: u32, at: [f64; 3], scratch: &mut Scratch) -> bool {
        let Scratch { rings: [ring_a, ring_b], near: [near_a, near_b], over: [over_a, over_b] } =
            scratch;
        for (vertex, ring) in [(a, &mut *ring_a), (b, &mut *ring_b)] {
            ring.clear();
            ring.extend(self.faces_of(vertex));
        }
        let count = |ring: &[IncidentFace], end| {
            ring.iter().filter(|(_, face)| face.contains(&end)).count()
        };
        let shared = count(ring_a, b);
        let on_border = [a, b].iter().all(|end| self.border[usize_from_u32(*end)]);
        let sound = match shared {
            2 => !on_border,
            1 => on_border,
            _ => false,
        };
        if !sound {
            return false;
        }
        collect_neighbours(a, ring_a, near_a);
        collect_neighbours(b, ring_b, near_b);
        let common = || near_a.iter().filter(|v| near_b.binary_search(v).is_ok());
        if common().count() != shared {
            return false;
        }
        // Faces that would coincide.
        collect_opposite_sides(a, b, ring_a, over_a);
        collect_opposite_sides(b, a, ring_b, over_b);
        if over_a.iter().any(|side| over_b.contains(side)) || over_a.is_empty() && over_b.is_empty()
        {
            return false;
        }
        // A lone triangle on a border would vanish with it.
        let is_border_edge = |ring, end| count(ring, end) == 1;
        if on_border
            && shared == 1
            && common().any(|v| is_border_edge(ring_a, *v) && is_border_edge(ring_b, *v))
        {
            return false;
        }
        self.keeps_turned((a, b), at, ring_a) && self.keeps_turned((b, a), at, ring_b)
    }

    /// Returns whether the remaining faces of `moved` keep their direction, within a limit.
    fn keeps_turned(
        &self,
        (moved, other): (u32, u32),
        at: [f64; 3],
        ring: &[IncidentFace],
    ) -> bool {
        let mut stay = ring.iter().filter(|(_, face)| !face.contains(&other));
        stay.all(|(_, face)| {
            let before = self.normal(*face);
            let corners = face.map(|v| if v == moved { at } else { self.point(v) });
            let [a, b, c] = corners;
            let after = cross(subtract(b, a), subtract(c, a));
            let sizes = (dot(before, before) * dot(after, after)).sqrt();
            // Two zero vectors have no direction to lose.
            dot(before, after) >= TURNED * sizes && (sizes > 0.0 || dot(before, before) <= 0.0)
        })
    }

    /// Collapses the edge from `a` to `b`: `a` moves to `at`, and `b` is merged into it. Returns
    /// how many faces were removed. `scratch` has the faces around both ends.
    fn collapse(&mut self, a: u32, b: u32, at: [f64; 3], scratch: &mut Scratch) -> usize {
        let Scratch { rings: [ring_a, ring_b], near: [near, _], .. } = scratch;
        let mut gone = 0_usize;
        for (corner, _) in &*ring_b {
            let face = &mut self.faces[usize_from_u32(corner / 3)];
            if face.corners.contains(&a) {
                gone += 1;
                face.corners = [NONE; 3];
            } else {
                face.corners = face.corners.map(|v| if v == b { a } else { v });
            }
        }
        self.join(a, ring_a, ring_b);
        let quadric = self.quadrics[usize_from_u32(b)];
        self.add_plane(a, Some(&quadric));
        self.at[usize_from_u32(a)] = at;
        for flags in [&mut self.border, &mut self.fixed] {
            flags[usize_from_u32(a)] |= flags[usize_from_u32(b)];
        }
        self.into[usize_from_u32(b)] = a;
        for vertex in [a, b] {
            let stamp = &mut self.stamps[usize_from_u32(vertex)];
            *stamp = stamp.wrapping_add(1);
        }
        collect_neighbours(a, ring_a, near);
        for neighbour in near {
            self.offer(a, *neighbour);
        }
        gone
    }

    /// Joins the corner lists of two vertices into one list of `a`, which then has all their faces;
    /// `ring_a` becomes the faces around it.
    fn join(&mut self, a: u32, ring_a: &mut Vec<IncidentFace>, ring_b: &[IncidentFace]) {
        ring_a.extend_from_slice(ring_b);
        let mut next = NONE;
        ring_a.retain_mut(|(corner, face)| {
            let entry = &mut self.faces[usize_from_u32(*corner / 3)];
            let Some(corners) = entry.live_corners() else { return false };
            *face = corners;
            entry.next[usize_from_u32(*corner % 3)] = std::mem::replace(&mut next, *corner);
            true
        });
        self.first[usize_from_u32(a)] = next;
    }
}

impl Face {
    /// Returns its corners; `None` if it was removed.
    fn live_corners(&self) -> Option<[u32; 3]> {
        let [first, ..] = self.corners;
        (first != NONE).then_some(self.corners)
    }
}

/// Collects the neighbours of a vertex into `all`, ascending.
fn collect_neighbours(vertex: u32, ring: &[IncidentFace], all: &mut Vec<u32>) {
    all.clear();
    let corners = ring.iter().flat_map(|(_, face)| face);
    all.extend(corners.filter(|corner| **corner != vertex));
    all.sort_unstable();
    all.dedup();
}

/// Collects into `sides` the sides opposite to a vertex, of its faces without `other`, with the
/// lower end first.
fn collect_opposite_sides(
    vertex: u32,
    other: u32,
    ring: &[IncidentFace],
    sides: &mut Vec<[u32; 2]>,
) {
    let side = |(_, face): &IncidentFace| {
        let ends = || face.iter().copied().filter(|corner| *corner != vertex);
        [ends().min().unwrap_or(NONE), ends().max().unwrap_or(NONE)]
    };
    sides.clear();
    sides.extend(ring.iter().filter(|(_, face)| !face.contains(&other)).map(side));
}

/// Returns which vertices coincide with another one (seams), or are `fixed` anyway.
fn find_seams(at: &[[f64; 3]], fixed: &[bool]) -> Vec<bool> {
    let bits = |at: &[f64; 3]| at.map(|x| (x + 0.0).to_bits());
    let mut counts: HashMap<[u64; 3], u32> = HashMap::with_capacity(at.len());
    for position in at {
        let count = counts.entry(bits(position)).or_insert(0);
        *count += 1;
    }
    let doubled = at.iter().map(|at| counts.get(&bits(at)).is_some_and(|count| *count > 1));
    let also = |row: usize| fixed.get(row) == Some(&true);
    doubled.enumerate().map(|(row, doubled)| doubled || also(row)).collect()
}

/// The weight of a border edge relative to a face, for its squared length.
const WALL: f64 = 100.0;
/// Prefers short edges where costs are equal, as on a plane.
const EVEN: f64 = 1e-6;
/// The cosine of the largest rotation of a face.
const TURNED: f64 = 0.17;
