//! A surface with a grid for finding triangles by position.

use rayon::prelude::*;
use zvf_format::num::{f64_from_u64, saturating_floor_i64, saturating_u32, to_u64, usize_from_u32};

use super::net::Net;
use super::triangle::{Face, MeasuredTriangle, Triangle, bounds, midpoint};
use super::walk::find_triangle_below;
use crate::rows::Buckets;

/// Returns a point of a triangle that is not a corner: corners may lie on the other surface even if
/// nothing else does.
pub(super) fn center([a, b, c]: &Triangle) -> [f64; 3] {
    midpoint(*a, midpoint(*b, *c))
}

/// A spatial hash of triangles.
#[derive(Debug)]
pub(super) struct Surface<'a> {
    net: &'a Net<'a>,
    side: f64,     // of a cell
    cells_in: f64, // a length of one
    mask: u64,     // of the number of a cell, which several cells may share
    cells: Buckets<u32>,
    large: Vec<u32>, // triangles of many cells
}

impl<'a> Surface<'a> {
    pub(super) fn new(net: &'a Net<'a>) -> Self {
        let size = |triangle: Triangle| {
            let [low, high] = bounds(&triangle);
            low.iter().zip(high).map(|(low, high)| high - low).fold(0.0, f64::max)
        };
        let sizes: f64 = net.triangles().map(size).sum();
        let mean = sizes / f64_from_u64(to_u64(net.len()));
        let side = if mean > 0.0 && mean.is_finite() { mean * CELL_SIDE_RATIO } else { 1.0 };
        let numbers = net.len().next_power_of_two();
        let mut surface = Self {
            net,
            side,
            cells_in: side.recip(),
            mask: to_u64(numbers - 1),
            cells: Buckets::default(),
            large: Vec::new(),
        };
        let triangles = net.triangles();
        let spans: Vec<_> =
            triangles.map(|triangle| surface.span(&bounds(&triangle), 0.0)).collect();
        let spans = || (0_u32..).zip(&spans);
        let large = spans().filter(|(_, span)| count(span) > MAX_CELLS).map(|(at, _)| at);
        surface.large = large.collect();
        let small = spans().filter(|(_, span)| count(span) <= MAX_CELLS);
        let mask = surface.mask;
        let numbered = |at: u32| move |cell: [i64; 3]| (number_of(cell, mask), at);
        let small = small.flat_map(|(at, span)| cells(span).map(numbered(at)));
        surface.cells = Buckets::new(numbers, small);
        surface
    }

    /// Returns the largest squared distance of the centre of some triangles.
    pub(super) fn farthest_center(&self, from: &Net<'_>, some: &[[u32; 2]]) -> f64 {
        let farther = |max_sq: f64, [face, near]: &[u32; 2]| {
            let point = center(&from.triangle(*face));
            // The triangle below may be near enough; otherwise another one may be nearer.
            match find_triangle_below(self.net, *near, point) {
                Some((_, distance_sq)) if distance_sq <= max_sq => max_sq,
                Some((_, distance_sq)) if distance_sq.is_finite() => {
                    max_sq.max(self.distance_sq_within(point, distance_sq.sqrt()))
                }
                _ => max_sq.max(self.distance_sq(point)),
            }
        };
        let centers = some.par_iter().step_by(SAMPLE_STRIDE);
        centers.fold(|| 0.0, farther).reduce(|| 0.0, f64::max)
    }

    /// Returns the triangles of a cell, and possibly others.
    fn cell(&self, cell: [i64; 3]) -> &[u32] {
        self.cells.get(usize_from_u32(number_of(cell, self.mask)))
    }

    /// Returns the cells of a box, enlarged by `more`.
    fn span(&self, [low, high]: &[[f64; 3]; 2], more: f64) -> [[i64; 3]; 2] {
        [
            low.map(|x| saturating_floor_i64((x - more) * self.cells_in)),
            high.map(|x| saturating_floor_i64((x + more) * self.cells_in)),
        ]
    }

    /// Calls `visit` with all triangles that may be within this distance of a box, rarely one
    /// twice.
    fn visit_near(
        &self,
        [low, high]: &[[f64; 3]; 2],
        radius: f64,
        mut visit: impl FnMut(&Triangle),
    ) {
        let span = self.span(&[*low, *high], radius);
        let meets = |[own_low, own_high]: &[[f64; 3]; 2]| {
            let above = own_low.iter().zip(high).all(|(bound, high)| *bound <= high + radius);
            above && own_high.iter().zip(low).all(|(bound, low)| *bound >= low - radius)
        };
        let some = |at: &u32| self.net.triangle(*at);
        if count(&span) > to_u64(self.net.len()) {
            self.net
                .triangles()
                .filter(|triangle| meets(&bounds(triangle)))
                .for_each(|triangle| visit(&triangle));
            return;
        }
        let large = self.large.iter().map(some);
        large.filter(|triangle| meets(&bounds(triangle))).for_each(|triangle| visit(&triangle));
        let [first, last] = span;
        let alone = first == last;
        cells(&span).for_each(|cell| {
            for triangle in self.cell(cell).iter().map(some) {
                let triangle_bounds = bounds(&triangle);
                // Of all its cells in the range, only the lowest one visits it.
                let is_lowest = || {
                    let [lowest, _] = self.span(&triangle_bounds, 0.0);
                    lowest.iter().zip(first).map(|(start, first)| (*start).max(first)).eq(cell)
                };
                if meets(&triangle_bounds) && (alone || is_lowest()) {
                    visit(&triangle);
                }
            }
        });
    }

    /// Replaces the content of `near` by all triangles that may be within this distance of a box,
    /// rarely one twice.
    pub(super) fn triangles_near(
        &self,
        around: &[[f64; 3]; 2],
        radius: f64,
        near: &mut Vec<MeasuredTriangle>,
    ) {
        near.clear();
        self.visit_near(around, radius, |triangle| near.push(MeasuredTriangle::new(triangle)));
    }

    /// Returns the squared distance that counts as 0.
    pub(super) fn zero_distance_sq(&self) -> f64 {
        (self.side * ZERO_TOLERANCE).powi(2)
    }

    /// Returns the squared distance of a point from the nearest triangle.
    pub(super) fn distance_sq(&self, point: [f64; 3]) -> f64 {
        self.distance_sq_within(point, self.side / 2.0)
    }

    /// Does the same, searching first within this radius.
    fn distance_sq_within(&self, point: [f64; 3], mut radius: f64) -> f64 {
        loop {
            let mut nearest = f64::INFINITY;
            self.visit_near(&[point, point], radius, |triangle| {
                nearest = nearest.min(MeasuredTriangle::new(triangle).distance_sq(point));
            });
            if nearest.sqrt() <= radius || !radius.is_finite() {
                return nearest;
            }
            // The nearest triangle found bounds the search.
            radius = if nearest.is_finite() { nearest.sqrt() } else { radius * 2.0 };
        }
    }

    /// Returns an upper bound on the squared distance of a face, from any one triangle.
    pub(super) fn bound_from_any_triangle(&self, face: &Face) -> f64 {
        let bounds = bounds(face.corners());
        let mut radius = self.side;
        loop {
            let (mut least, mut any) = (f64::INFINITY, false);
            self.visit_near(&bounds, radius, |triangle| {
                (least, any) =
                    (least.min(MeasuredTriangle::new(triangle).farthest_corner(face, least)), true);
            });
            if any || !radius.is_finite() {
                return least;
            }
            radius *= 2.0;
        }
    }
}

/// Returns the number of cells.
fn count([low, high]: &[[i64; 3]; 2]) -> u64 {
    // Only compared.
    let sides = low.iter().zip(high).map(|(low, high)| high.abs_diff(*low).saturating_add(1));
    sides.fold(1, u64::saturating_mul)
}

fn cells([low, high]: &[[i64; 3]; 2]) -> impl Iterator<Item = [i64; 3]> + Clone + use<> {
    let ([a, b, c], [d, e, f]) = (*low, *high);
    (a..=d).flat_map(move |x| (b..=e).flat_map(move |y| (c..=f).map(move |z| [x, y, z])))
}

/// Returns the number of a cell, which other cells may share.
fn number_of([x, y, z]: [i64; 3], mask: u64) -> u32 {
    let mixed =
        x.wrapping_mul(73_856_093) ^ y.wrapping_mul(19_349_663) ^ z.wrapping_mul(83_492_791);
    saturating_u32(mixed.unsigned_abs().rotate_right(7) & mask) // fits, as triangles do
}

/// Of this many triangles, one point is measured first.
const SAMPLE_STRIDE: usize = 16;
/// The side of a cell relative to the width of a triangle.
const CELL_SIDE_RATIO: f64 = 1.5;
/// The distance that counts as 0, as a fraction of the side of a cell.
const ZERO_TOLERANCE: f64 = 1e-6;
/// A triangle in more cells counts as near everything.
const MAX_CELLS: u64 = 512;
