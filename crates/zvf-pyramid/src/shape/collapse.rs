//! Meshes: edges collapsed one after the other, first where the surface changes least.
//!
//! ```text
//! cost       squared distances to the planes of the faces around, weighted by area; a plane upright on
//!            each border edge keeps borders where they are
//! never      what would change how the surface hangs together, turn a face over, join objects, or move
//!            a vertex that another one lies on: there is a seam
//! borders    collapse along themselves only; inner vertices may collapse onto them
//! ```
//!
//! So holes and handles stay, and so does the number of pieces.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use zvf_format::num::{
    f64_from_u64, round_half_up_u64, saturating_u32_from_usize, saturating_usize, to_u64,
    usize_from_u32,
};
use zvf_model::{Batch, Elements};

use super::plate::{Triangle, middle};
use super::quadric::{Quadric, cross, dot, minus, unit};
use super::surface::directed_hausdorff_bound;
use super::{Coarsened, Rules, merged};
use crate::PyramidError;
use crate::clusters::{Clusters, NONE};
use crate::columns::{column, floats};
use crate::offload::Stop;

/// The mesh with about `keep` of its faces; vertices that are `fixed` stay. What it gives once it was
/// stopped is of no use to anybody.
pub(crate) fn collapsed(
    batch: &Batch,
    keep: f64,
    fixed: &[bool],
    rules: &Rules,
    stop: &Stop,
) -> Result<Coarsened, PyramidError> {
    let axes = usize_from_u32(batch.positions().width());
    let triangles = batch.elements().is_none_or(|elements| elements.width() == 3);
    if !triangles || !(2..=3).contains(&axes) {
        let expected = "triangles on two or three axes: other faces can be clustered";
        return Err(PyramidError::unsupported("mesh to collapse", expected, "others"));
    }
    let mut mesh = Mesh::new(batch, axes, fixed);
    let before = mesh.at.clone();
    let faces = mesh.faces.clone();
    let target = saturating_usize(round_half_up_u64(f64_from_u64(to_u64(faces.len())) * keep));
    mesh.reduce(target, stop);

    let heads: Vec<u32> = (0..saturating_u32_from_usize(batch.len()))
        .filter(|row| mesh.into.get(usize_from_u32(*row)) == Some(row))
        .collect();
    let mut number = vec![NONE; batch.len()];
    for (cluster, head) in (0_u32..).zip(&heads) {
        if let Some(to) = number.get_mut(usize_from_u32(*head)) {
            *to = cluster;
        }
    }
    let of: Vec<u32> = (0..saturating_u32_from_usize(batch.len()))
        .map(|row| number.get(usize_from_u32(mesh.head(row))).copied().unwrap_or(NONE))
        .collect();
    let at = heads.iter().flat_map(|head| mesh.point(*head).into_iter().take(axes));
    let at: Vec<f64> = at.zip(mesh.middle.iter().cycle()).map(|(x, middle)| x + middle).collect();
    let positions = column(batch.positions().dtype(), batch.positions().width(), &at)?;
    mesh.let_go_of_edges();
    let error = mesh.error(&before, &faces, stop) + rounding(&at, &floats(&positions), axes);
    let clusters = Clusters::new(&of, heads.len()).headed(heads);
    let mut made = merged(batch, &clusters, positions, rules, true)?;
    if let Some(elements) = batch.elements() {
        made = made.with_elements(mesh.elements(elements, &number, rules)?)?;
    }
    Ok(Coarsened { batch: made, vertex_map: of, error, at: None })
}

/// The bits of a cost, the ends of an edge, and how often these had changed when it was worked out.
type Priced = (u64, u32, u32, u32, u32);

/// What is known around an edge: memory that is used again.
#[derive(Default)]
struct Scratch {
    near: [Vec<u32>; 2], // neighbours of either end
    common: Vec<u32>,
    over: [Vec<[u32; 2]>; 2],
}

/// A mesh while edges collapse.
struct Mesh {
    at: Vec<[f64; 3]>,
    faces: Vec<[u32; 3]>,
    alive: Vec<bool>,      // of faces
    around: Vec<Vec<u32>>, // faces of each vertex, dead ones among them
    into: Vec<u32>,        // what a vertex became, itself while it is there
    quadrics: Vec<Quadric>,
    border: Vec<bool>,
    fixed: Vec<bool>,
    stamps: Vec<u32>, // how often a vertex changed
    owners: Vec<u32>, // a number for each object
    heap: BinaryHeap<Reverse<Priced>>,
    middle: Vec<f64>, // of the box, one number an axis
    low: [f64; 3],    // of the box, from there
    high: [f64; 3],
}

impl Mesh {
    fn new(batch: &Batch, axes: usize, fixed: &[bool]) -> Self {
        let values = floats(batch.positions());
        let middle = middle_of(&values, axes);
        let at: Vec<[f64; 3]> = values
            .chunks_exact(axes)
            .map(|position| {
                let mut at = [0.0; 3];
                let own = position.iter().zip(&middle);
                at.iter_mut().zip(own).for_each(|(to, (x, middle))| *to = x - middle);
                at
            })
            .collect();
        let rows = batch.elements().map_or(&[][..], Elements::rows);
        let faces: Vec<[u32; 3]> = rows
            .as_chunks::<3>()
            .0
            .iter()
            .map(|face| face.map(saturating_u32_from_usize))
            .collect();
        let count = at.len();
        let mut numbers = crate::clusters::Numbers::new();
        let owners = match batch.vertex_objects() {
            Some(objects) => objects.iter().map(|object| numbers.intern(*object)).collect(),
            None => vec![0; count],
        };
        let (mut low, mut high) = ([f64::INFINITY; 3], [f64::NEG_INFINITY; 3]);
        for at in &at {
            low.iter_mut().zip(at).for_each(|(to, x)| *to = to.min(*x));
            high.iter_mut().zip(at).for_each(|(to, x)| *to = to.max(*x));
        }
        let mut mesh = Self {
            low,
            high,
            fixed: seams(&at, fixed),
            at,
            alive: vec![true; faces.len()],
            around: vec![Vec::new(); count],
            into: (0..saturating_u32_from_usize(count)).collect(),
            quadrics: vec![Quadric::default(); count],
            border: vec![false; count],
            stamps: vec![0; count],
            owners,
            heap: BinaryHeap::new(),
            middle,
            faces,
        };
        mesh.prepare();
        mesh
    }

    fn prepare(&mut self) {
        let mut edges: Vec<(u32, u32, u32)> = Vec::with_capacity(self.faces.len() * 3);
        for (number, [a, b, c]) in (0_u32..).zip(self.faces.clone()) {
            let normal = self.normal([a, b, c]);
            let area = dot(normal, normal).sqrt() / 2.0;
            let plane = unit(normal).map(|unit| Quadric::plane(unit, self.point(a), area));
            for vertex in [a, b, c] {
                if let Some(around) = self.around.get_mut(usize_from_u32(vertex)) {
                    around.push(number);
                }
                if let (Some(to), Some(plane)) =
                    (self.quadrics.get_mut(usize_from_u32(vertex)), &plane)
                {
                    *to = to.add(plane);
                }
            }
            for (from, to) in [(a, b), (b, c), (c, a)] {
                edges.push((from.min(to), from.max(to), number));
            }
        }
        edges.sort_unstable(); // the same for the same mesh
        let same =
            |one: &(u32, u32, u32), other: &(u32, u32, u32)| (one.0, one.1) == (other.0, other.1);
        for around in edges.chunk_by(same) {
            let (count, Some((a, b, first))) = (around.len(), around.first()) else { continue };
            if count == 2 {
                continue;
            }
            let along = minus(self.point(*b), self.point(*a));
            let face = self.faces.get(usize_from_u32(*first)).copied().unwrap_or([*a, *b, *a]);
            let wall = unit(cross(along, self.normal(face)));
            let wall =
                wall.map(|wall| Quadric::plane(wall, self.point(*a), WALL * dot(along, along)));
            for vertex in [*a, *b] {
                mark(&mut self.border, vertex);
                if count > 2 {
                    mark(&mut self.fixed, vertex);
                }
                if let (Some(to), Some(wall)) =
                    (self.quadrics.get_mut(usize_from_u32(vertex)), &wall)
                {
                    *to = to.add(wall);
                }
            }
        }
        edges.dedup_by(|other, one| same(one, other));
        for (a, b, _) in edges {
            self.offer(a, b);
        }
    }

    fn point(&self, vertex: u32) -> [f64; 3] {
        self.at.get(usize_from_u32(vertex)).copied().unwrap_or([0.0; 3])
    }

    fn normal(&self, [a, b, c]: [u32; 3]) -> [f64; 3] {
        let a = self.point(a);
        cross(minus(self.point(b), a), minus(self.point(c), a))
    }

    /// The vertex that `row` became.
    fn head(&self, row: u32) -> u32 {
        let mut row = row;
        loop {
            match self.into.get(usize_from_u32(row)) {
                Some(next) if *next != row => row = *next,
                _ => return row,
            }
        }
    }

    fn is(flags: &[bool], vertex: u32) -> bool {
        flags.get(usize_from_u32(vertex)).copied().unwrap_or(false)
    }

    /// The faces of a vertex that are there.
    fn faces_of(&self, vertex: u32) -> impl Iterator<Item = (u32, [u32; 3])> {
        let around = self.around.get(usize_from_u32(vertex)).map_or(&[][..], Vec::as_slice);
        around.iter().filter_map(|number| {
            let alive = self.alive.get(usize_from_u32(*number)) == Some(&true);
            let face = self.faces.get(usize_from_u32(*number))?;
            alive.then_some((*number, *face))
        })
    }

    /// Puts the neighbours of a vertex to `all`, ascending.
    fn neighbours(&self, vertex: u32, all: &mut Vec<u32>) {
        all.clear();
        let corners = self.faces_of(vertex).flat_map(|(_, face)| face);
        all.extend(corners.filter(|other| *other != vertex));
        all.sort_unstable();
        all.dedup();
    }

    /// Where the edge would collapse to, and at what cost.
    fn cheapest_position(&self, a: u32, b: u32) -> Option<(f64, [f64; 3])> {
        let own = |vertex| self.quadrics.get(usize_from_u32(vertex)).copied().unwrap_or_default();
        let both = own(a).add(&own(b));
        let (from, to) = (self.point(a), self.point(b));
        let held = |vertex| Self::is(&self.fixed, vertex);
        let onto = |vertex| held(vertex) || Self::is(&self.border, vertex);
        let along = minus(to, from);
        let length = dot(along, along);
        let center = middle(from, to);
        let free = both.minimum().filter(|least| {
            let off = minus(*least, center);
            // What lies outside the box of the mesh may lie outside the bounds of the store.
            let mut sides = least.iter().zip(self.low.iter().zip(&self.high));
            dot(off, off) <= length && sides.all(|(x, (low, high))| (low..=high).contains(&x))
        });
        let candidates = match (onto(a), onto(b)) {
            _ if held(a) && held(b) => return None,
            _ if held(a) => [Some(from), None, None, None],
            _ if held(b) => [Some(to), None, None, None],
            (true, false) => [Some(from), None, None, None],
            (false, true) => [Some(to), None, None, None],
            _ => [Some(from), Some(to), Some(center), free],
        };
        let candidates = candidates.into_iter().flatten();
        let cost = |at: [f64; 3]| both.at(at) + EVEN * length * length;
        candidates.map(|at| (cost(at), at)).min_by(|(a, _), (b, _)| a.total_cmp(b))
    }

    /// Notes an edge.
    fn offer(&mut self, a: u32, b: u32) {
        let (a, b) = (a.min(b), a.max(b));
        if self.owners.get(usize_from_u32(a)) != self.owners.get(usize_from_u32(b)) {
            return;
        }
        let stamp = |vertex| self.stamps.get(usize_from_u32(vertex)).copied().unwrap_or(0);
        if let Some((cost, _)) = self.cheapest_position(a, b) {
            self.heap.push(Reverse((cost.to_bits(), a, b, stamp(a), stamp(b))));
        }
    }

    fn reduce(&mut self, target: usize, stop: &Stop) {
        let mut left = self.faces.len();
        let mut scratch = Scratch::default();
        while left > target && !stop.is_set() {
            let Some(Reverse((_, a, b, first, second))) = self.heap.pop() else { break };
            let is = |vertex, stamp| self.stamps.get(usize_from_u32(vertex)) == Some(&stamp);
            if !is(a, first) || !is(b, second) {
                continue;
            }
            let Some((_, at)) = self.cheapest_position(a, b) else { continue };
            if self.may_collapse(a, b, at, &mut scratch) {
                left = left.saturating_sub(self.collapse(a, b, at, &mut scratch));
            }
        }
    }

    fn may_collapse(&self, a: u32, b: u32, at: [f64; 3], scratch: &mut Scratch) -> bool {
        let Scratch { near: [near_a, near_b], common, over: [over_a, over_b] } = scratch;
        let shared = self.faces_of(a).filter(|(_, face)| face.contains(&b)).count();
        let on_border = Self::is(&self.border, a) && Self::is(&self.border, b);
        let sound = match shared {
            2 => !on_border,
            1 => on_border,
            _ => false,
        };
        if !sound {
            return false;
        }
        self.neighbours(a, near_a);
        self.neighbours(b, near_b);
        common.clear();
        common.extend(near_a.iter().filter(|v| near_b.binary_search(v).is_ok()));
        if common.len() != shared {
            return false;
        }
        // Faces that would come to lie on each other.
        self.across(a, b, over_a);
        self.across(b, a, over_b);
        if over_a.iter().any(|side| over_b.contains(side)) || over_a.is_empty() && over_b.is_empty()
        {
            return false;
        }
        // A lone triangle on a border would vanish with it.
        let lonely = |vertex| Self::is(&self.border, vertex) && shared == 1;
        if lonely(a)
            && common.iter().any(|v| self.is_border_edge(a, *v) && self.is_border_edge(b, *v))
        {
            return false;
        }
        self.keeps_turned(a, b, at) && self.keeps_turned(b, a, at)
    }

    /// Puts the sides across from a vertex to `sides`, of its faces without `other`: the lower end first.
    fn across(&self, vertex: u32, other: u32, sides: &mut Vec<[u32; 2]>) {
        let side = |face: [u32; 3]| {
            let ends = || face.into_iter().filter(|corner| *corner != vertex);
            [ends().min().unwrap_or(NONE), ends().max().unwrap_or(NONE)]
        };
        sides.clear();
        let faces = self.faces_of(vertex).map(|(_, face)| face);
        sides.extend(faces.filter(|face| !face.contains(&other)).map(side));
    }

    fn is_border_edge(&self, a: u32, b: u32) -> bool {
        self.faces_of(a).filter(|(_, face)| face.contains(&b)).count() == 1
    }

    /// Whether the faces of `moved` that stay look where they looked.
    fn keeps_turned(&self, moved: u32, other: u32, at: [f64; 3]) -> bool {
        let mut stay = self.faces_of(moved).filter(|(_, face)| !face.contains(&other));
        stay.all(|(_, face)| {
            let before = self.normal(face);
            let corners = face.map(|v| if v == moved { at } else { self.point(v) });
            let [a, b, c] = corners;
            let after = cross(minus(b, a), minus(c, a));
            let sizes = (dot(before, before) * dot(after, after)).sqrt();
            // Two zero vectors have no direction to lose.
            dot(before, after) >= TURNED * sizes && (sizes > 0.0 || dot(before, before) <= 0.0)
        })
    }

    /// Puts both ends to `at`, and tells how many faces went.
    fn collapse(&mut self, a: u32, b: u32, at: [f64; 3], scratch: &mut Scratch) -> usize {
        let moved = self.around.get_mut(usize_from_u32(b)).map(std::mem::take).unwrap_or_default();
        let mut gone = 0_usize;
        for number in moved {
            let dead = self.alive.get(usize_from_u32(number)) != Some(&true);
            let Some(face) = self.faces.get(usize_from_u32(number)).copied().filter(|_| !dead)
            else {
                continue;
            };
            if face.contains(&a) {
                gone += 1;
                if let Some(alive) = self.alive.get_mut(usize_from_u32(number)) {
                    *alive = false;
                }
                continue;
            }
            if let Some(to) = self.faces.get_mut(usize_from_u32(number)) {
                *to = face.map(|v| if v == b { a } else { v });
            }
            if let Some(around) = self.around.get_mut(usize_from_u32(a)) {
                around.push(number);
            }
        }
        if let Some(around) = self.around.get_mut(usize_from_u32(a)) {
            around.retain(|number| self.alive.get(usize_from_u32(*number)) == Some(&true));
        }
        let other = self.quadrics.get(usize_from_u32(b)).copied().unwrap_or_default();
        if let Some(own) = self.quadrics.get_mut(usize_from_u32(a)) {
            *own = own.add(&other);
        }
        if let Some(to) = self.at.get_mut(usize_from_u32(a)) {
            *to = at;
        }
        for flags in [&mut self.border, &mut self.fixed] {
            if Self::is(flags, b) {
                mark(flags, a);
            }
        }
        if let Some(into) = self.into.get_mut(usize_from_u32(b)) {
            *into = a;
        }
        for vertex in [a, b] {
            if let Some(stamp) = self.stamps.get_mut(usize_from_u32(vertex)) {
                *stamp = stamp.wrapping_add(1);
            }
        }
        let [near, _] = &mut scratch.near;
        self.neighbours(a, near);
        for other in near {
            self.offer(a, *other);
        }
        gone
    }

    /// Frees what only collapsing needs.
    fn let_go_of_edges(&mut self) {
        self.heap = BinaryHeap::new();
        self.around = Vec::new();
        self.quadrics = Vec::new();
    }

    /// The faces that are there, between the vertices that are.
    fn elements(
        &self,
        elements: &Elements,
        number: &[u32],
        rules: &Rules,
    ) -> Result<Elements, PyramidError> {
        let (mut rows, mut same, mut next) = (Vec::new(), Vec::new(), 0_u32);
        for (face, alive) in self.faces.iter().zip(&self.alive) {
            if *alive {
                let corner = |v: &u32| {
                    number.get(usize_from_u32(*v)).copied().map_or(usize::MAX, usize_from_u32)
                };
                rows.extend(face.iter().map(corner));
                same.push(next);
                next += 1;
            } else {
                same.push(NONE);
            }
        }
        let clusters = Clusters::new(&same, usize_from_u32(next));
        let mut made = Elements::new(3, rows)?;
        for field in rules.element_fields(elements, &clusters)? {
            made = made.with_field(field)?;
        }
        Ok(made)
    }

    /// How far the surface that was and that which is may lie from each other.
    fn error(&self, before: &[[f64; 3]], faces: &[[u32; 3]], stop: &Stop) -> f64 {
        let corner = |v: u32| before.get(usize_from_u32(v)).copied().unwrap_or([0.0; 3]);
        let there = |at: usize| self.alive.get(at) == Some(&true);
        // What is as it was is as near as can be.
        let same = |at: usize| {
            there(at)
                && self.faces.get(at) == faces.get(at)
                && faces
                    .get(at)
                    .is_some_and(|face| face.iter().all(|v| corner(*v) == self.point(*v)))
        };
        let was = faces.iter().enumerate().filter(|(at, _)| !same(*at));
        let fine: Vec<Triangle> = was.map(|(_, face)| face.map(corner)).collect();
        let all = self.faces.iter().enumerate().filter(|(at, _)| there(*at));
        let coarse: Vec<Triangle> = all.map(|(_, face)| face.map(|v| self.point(v))).collect();
        let all: Vec<Triangle> = faces.iter().map(|face| face.map(corner)).collect();
        let made = self.faces.iter().enumerate().filter(|(at, _)| there(*at) && !same(*at));
        let made: Vec<Triangle> = made.map(|(_, face)| face.map(|v| self.point(v))).collect();
        directed_hausdorff_bound(&fine, &coarse, stop)
            .max(directed_hausdorff_bound(&made, &all, stop))
    }
}

/// How far rounding moved the farthest position.
fn rounding(at: &[f64], stored: &[f64], axes: usize) -> f64 {
    let pairs = at.chunks_exact(axes).zip(stored.chunks_exact(axes));
    pairs.map(|(at, stored)| super::distance_sq(at, stored)).fold(0.0, f64::max).sqrt()
}

fn mark(flags: &mut [bool], vertex: u32) {
    if let Some(flag) = flags.get_mut(usize_from_u32(vertex)) {
        *flag = true;
    }
}

/// The middle of the box around all positions.
fn middle_of(values: &[f64], axes: usize) -> Vec<f64> {
    let mut box_of = vec![(f64::INFINITY, f64::NEG_INFINITY); axes];
    for position in values.chunks_exact(axes.max(1)) {
        for ((low, high), x) in box_of.iter_mut().zip(position) {
            (*low, *high) = (low.min(*x), high.max(*x));
        }
    }
    let middle = |(low, high): &(f64, f64)| if low <= high { (low + high) / 2.0 } else { 0.0 };
    box_of.iter().map(middle).collect()
}

/// Which vertices lie exactly where another one does, or are `fixed` anyway.
fn seams(at: &[[f64; 3]], fixed: &[bool]) -> Vec<bool> {
    let bits = |at: &[f64; 3]| at.map(|x| (x + 0.0).to_bits());
    let mut seen: HashMap<[u64; 3], u32> = HashMap::with_capacity(at.len());
    for position in at {
        let count = seen.entry(bits(position)).or_insert(0);
        *count += 1;
    }
    let doubled = at.iter().map(|at| seen.get(&bits(at)).is_some_and(|count| *count > 1));
    let also = |row: usize| fixed.get(row) == Some(&true);
    doubled.enumerate().map(|(row, doubled)| doubled || also(row)).collect()
}

/// How much more a border edge counts than a face, for its length squared.
const WALL: f64 = 100.0;
/// What makes short edges go first where nothing else tells, as on a plane.
const EVEN: f64 = 1e-6;
/// The cosine of how far a face may turn.
const TURNED: f64 = 0.17;
