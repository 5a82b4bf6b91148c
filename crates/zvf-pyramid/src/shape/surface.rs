//! How far one surface lies from another, at most.
//!
//! ```text
//! not more   a distance to one triangle is largest at a corner, so a triangle is no farther from the other
//!            surface than its farthest corner from any one triangle of that
//! not less   than what any of its corners is from the nearest triangle of all
//! ```
//!
//! What may be farthest is quartered until both are nearly the same; what comes out is never too small. Of
//! the other surface only what is near is looked at, by a grid.

use std::collections::{BinaryHeap, HashMap};

use rayon::prelude::*;

use super::quadric::{cross, dot, minus};
use crate::num::{floor, place, to_f64, to_u32, to_u64};

/// A triangle by its corners.
pub(super) type Triangle = [[f64; 3]; 3];

/// How far any point of `from` may lie from the nearest of `to`; 0 where one of them is nothing.
pub(super) fn farthest(from: &[Triangle], to: &[Triangle]) -> f64 {
    if from.is_empty() || to.is_empty() {
        return 0.0;
    }
    let surface = Surface::new(to);
    let first: Vec<Open> = from.par_iter().map(|one| surface.first(one)).collect();
    let (mut open, mut least) = (BinaryHeap::from(first), 0.0_f64);
    for _ in 0..MOST.max(from.len() / 4) {
        let Some(next) = open.pop() else { break };
        if next.most <= least * CLOSE || next.quartered >= QUARTERED {
            open.push(next);
            break;
        }
        let near = surface.near(&next.triangle, next.most.sqrt());
        for corner in &next.triangle {
            least = least.max(surface.least(*corner, &near, next.most));
        }
        for triangle in quartered(&next.triangle) {
            let most = surface.most(&triangle, &near).min(next.most);
            open.push(Open { most, triangle, quartered: next.quartered.saturating_add(1) });
        }
    }
    open.peek().map_or(0.0, |open| open.most).sqrt()
}

/// A triangle that may be the farthest one.
#[derive(Clone, Copy, Debug)]
struct Open {
    most: f64, // how far it may lie, squared
    triangle: Triangle,
    quartered: u32,
}

impl PartialEq for Open {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Open {}

impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Open {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.most.total_cmp(&other.most)
    }
}

/// Triangles by where they lie.
struct Surface<'a> {
    triangles: &'a [Triangle],
    side: f64, // of a cell
    cells: HashMap<[i64; 3], Vec<u32>>,
    large: Vec<u32>, // those of many cells
}

impl<'a> Surface<'a> {
    fn new(triangles: &'a [Triangle]) -> Self {
        let size = |triangle: &Triangle| {
            let [low, high] = corners(triangle);
            low.iter().zip(high).map(|(low, high)| high - low).fold(0.0, f64::max)
        };
        let sizes: f64 = triangles.iter().map(size).sum();
        let mean = sizes / to_f64(to_u64(triangles.len().max(1)));
        let side = if mean > 0.0 && mean.is_finite() { mean } else { 1.0 };
        let mut surface = Self { triangles, side, cells: HashMap::new(), large: Vec::new() };
        for (at, triangle) in (0_u32..).zip(triangles) {
            let span = surface.span(triangle, 0.0);
            if count(&span) > MANY {
                surface.large.push(at);
                continue;
            }
            each(&span, |cell| surface.cells.entry(cell).or_default().push(at));
        }
        surface
    }

    fn triangle(&self, at: u32) -> &Triangle {
        self.triangles.get(place(at)).unwrap_or(&NOWHERE)
    }

    /// The cells of the box around a triangle and so much more.
    fn span(&self, triangle: &Triangle, more: f64) -> [[i64; 3]; 2] {
        let [low, high] = corners(triangle);
        [low.map(|x| floor((x - more) / self.side)), high.map(|x| floor((x + more) / self.side))]
    }

    /// All triangles that may lie so near, and some others.
    fn near(&self, triangle: &Triangle, off: f64) -> Vec<u32> {
        let span = self.span(triangle, off);
        if count(&span) > to_u64(self.cells.len()) {
            return (0..to_u32(self.triangles.len())).collect();
        }
        let mut near = self.large.clone();
        each(&span, |cell| near.extend(self.cells.get(&cell).into_iter().flatten()));
        near.sort_unstable();
        near.dedup();
        near
    }

    /// A triangle with how far it may lie, by what is nearest around.
    fn first(&self, triangle: &Triangle) -> Open {
        let mut off = 0.0;
        let mut near = self.near(triangle, off);
        while near.is_empty() {
            off = f64::max(off * 2.0, self.side);
            near = self.near(triangle, off);
        }
        Open { most: self.most(triangle, &near), triangle: *triangle, quartered: 0 }
    }

    /// How far a triangle may lie from these, squared.
    fn most(&self, triangle: &Triangle, near: &[u32]) -> f64 {
        near.iter().fold(f64::INFINITY, |least, at| {
            let other = self.triangle(*at);
            let mut farthest = 0.0_f64;
            for corner in triangle {
                // Most others are farther than another one already, which their boxes tell.
                if farthest >= least || off_box(*corner, other) >= least {
                    return least;
                }
                farthest = farthest.max(squared(*corner, other));
            }
            least.min(farthest)
        })
    }

    /// How far a point is from the nearest of these, squared, or `least` where none is nearer.
    fn least(&self, point: [f64; 3], near: &[u32], least: f64) -> f64 {
        near.iter().map(|at| self.triangle(*at)).fold(least, |least, other| {
            if off_box(point, other) >= least { least } else { least.min(squared(point, other)) }
        })
    }
}

fn corners([a, b, c]: &Triangle) -> [[f64; 3]; 2] {
    let (mut low, mut high) = (*a, *a);
    for corner in [b, c] {
        low.iter_mut().zip(corner).for_each(|(to, x)| *to = to.min(*x));
        high.iter_mut().zip(corner).for_each(|(to, x)| *to = to.max(*x));
    }
    [low, high]
}

/// How many cells there are.
fn count([low, high]: &[[i64; 3]; 2]) -> u64 {
    let sides = low.iter().zip(high).map(|(low, high)| high.abs_diff(*low).saturating_add(1));
    sides.fold(1, u64::saturating_mul)
}

fn each([low, high]: &[[i64; 3]; 2], mut visit: impl FnMut([i64; 3])) {
    let ([a, b, c], [d, e, f]) = (low, high);
    for x in *a..=*d {
        for y in *b..=*e {
            for z in *c..=*f {
                visit([x, y, z]);
            }
        }
    }
}

fn quartered([a, b, c]: &Triangle) -> [Triangle; 4] {
    let [ab, bc, ca] = [middle(*a, *b), middle(*b, *c), middle(*c, *a)];
    [[*a, ab, ca], [ab, *b, bc], [ca, bc, *c], [ab, bc, ca]]
}

pub(super) fn middle(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    let [x, y, z] = a;
    let [u, v, w] = b;
    [(x + u) / 2.0, (y + v) / 2.0, (z + w) / 2.0]
}

/// How far a point is from the box around a triangle, squared.
fn off_box(point: [f64; 3], triangle: &Triangle) -> f64 {
    let [low, high] = corners(triangle);
    let sides = point.iter().zip(low.iter().zip(high));
    sides.map(|(x, (low, high))| (low - x).max(x - high).max(0.0).powi(2)).sum()
}

/// How far a point is from a triangle, squared.
fn squared(point: [f64; 3], [a, b, c]: &Triangle) -> f64 {
    let (ab, ac) = (minus(*b, *a), minus(*c, *a));
    let normal = cross(ab, ac);
    let size = dot(normal, normal);
    let from = minus(point, *a);
    let sides = [(*a, *b), (*b, *c), (*c, *a)];
    let inside = sides
        .iter()
        .all(|(from, to)| dot(cross(minus(*to, *from), minus(point, *from)), normal) >= 0.0);
    if size > 0.0 && inside {
        let height = dot(from, normal);
        return height * height / size;
    }
    let edges = sides.iter().map(|(from, to)| super::Segment::new(from, to).off(&point));
    edges.fold(f64::INFINITY, f64::min)
}

/// Triangles that are looked at again, where there are few.
const MOST: usize = 20_000;
/// How often one is quartered.
const QUARTERED: u32 = 16;
/// The square of how much too large the answer may be.
const CLOSE: f64 = 1.05;
/// A triangle of more cells is near everything.
const MANY: u64 = 512;
const NOWHERE: Triangle = [[f64::INFINITY; 3]; 3];

#[cfg(test)]
mod tests {
    use super::*;

    const FLAT: Triangle = [[0.0, 0.0, 0.0], [4.0, 0.0, 0.0], [0.0, 4.0, 0.0]];

    #[test]
    fn points_are_above_beside_or_on() {
        for (point, want) in [
            ([1.0, 1.0, 3.0], 9.0),
            ([-3.0, 0.0, 4.0], 25.0),
            ([4.0, 4.0, 0.0], 8.0),
            ([0.0, 0.0, 0.0], 0.0),
        ] {
            let found = squared(point, &FLAT);
            assert!((found - want).abs() < 1e-12, "{point:?}: {found}");
        }
        let line = [[0.0; 3], [4.0, 0.0, 0.0], [2.0, 0.0, 0.0]];
        assert_eq!(squared([2.0, 1.0, 0.0], &line), 1.0);
    }

    #[test]
    fn what_lies_over_an_edge_is_quartered() {
        let other = [[4.0, 0.0, 0.0], [4.0, 4.0, 0.0], [0.0, 4.0, 0.0]];
        let fine = [[1.0, 1.0, 0.5], [3.0, 3.0, 0.5], [1.0, 3.0, 0.5]];
        let alone = farthest(&[fine], &[FLAT]);
        let both = farthest(&[fine], &[FLAT, other]);
        assert!(alone > 1.4 && (0.5..0.513).contains(&both), "{alone} {both}");
        assert_eq!((farthest(&[fine], &[]), farthest(&[], &[fine])), (0.0, 0.0));
    }

    #[test]
    fn one_way_is_not_the_other_and_far_away_is_found() {
        let peak = [[0.0, 0.0, 0.0], [4.0, 0.0, 0.0], [2.0, 2.0, 7.0]];
        // All of the small one is near the large one, but not the other way round.
        let small = [[0.0, 0.0, 0.0], [0.1, 0.0, 0.0], [0.0, 0.1, 0.0]];
        assert!(farthest(&[small], &[FLAT]) < 1e-9);
        assert!((farthest(&[FLAT], &[small]) - 15.21_f64.sqrt()).abs() < 0.15);
        assert!((7.0..7.2).contains(&farthest(&[peak], &[FLAT])));
        let moved = FLAT.map(|[x, y, z]| [x + 1000.0, y, z]);
        let found = farthest(&[moved], &[FLAT]);
        assert!((1000.0..1025.0).contains(&found), "{found}");
    }
}
