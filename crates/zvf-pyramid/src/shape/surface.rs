//! Upper bounds on the directed Hausdorff distance between surfaces.
//!
//! Some points are measured first: what is not farther than these by much needs no closer look. Most triangles show by
//! what lies under them and beside that how near they are ([`walk`](super::walk)). Of the others all of the surface
//! counts ([`hausdorff`]), of which only what is near is looked at, by a grid.

use rayon::prelude::*;
use zvf_format::num::{
    f64_from_u64, saturating_floor_i64, saturating_u32_from_usize, saturating_usize, to_u64,
    usize_from_u32,
};

use super::hausdorff;
use super::net::Net;
use super::plate::{Face, Plate, Triangle, bounds, middle};
use super::walk::{bound_nearby, walk_to};
use crate::offload::Stop;

/// An upper bound on the directed Hausdorff distance from some triangles of `from` to `to`; 0 where one of them is nothing, and
/// infinite where a corner is nowhere or so far off that its distance is no number. With each triangle stands one of
/// `to` which may be near it: any will do. Once it is stopped it looks at nothing more.
pub(super) fn directed_hausdorff_bound(
    (from, some): (&Net<'_>, &[[u32; 2]]),
    to: &Net<'_>,
    stop: &Stop,
) -> f64 {
    if some.is_empty() || to.len() == 0 {
        return 0.0;
    }
    let is_somewhere = |one: Option<Triangle>| {
        one.is_some_and(|one| one.as_flattened().iter().all(|x| x.abs() < MAX_DISTANCE))
    };
    let all_somewhere = some.iter().all(|[face, _]| is_somewhere(from.triangle(*face)))
        && to.triangles().all(|one| is_somewhere(Some(one)));
    if !all_somewhere {
        return f64::INFINITY;
    }
    let surface = Surface::new(to);
    let mut floor = surface.farthest_center(from, some).max(surface.zero_distance_sq());
    let mut most = 0.0_f64;
    // What some found raises the floor for others.
    for round in 0..ROUNDS {
        let larger = |a: (f64, f64), b: (f64, f64)| (a.0.max(b.0), a.1.max(b.1));
        let own = some.par_iter().skip(round).step_by(ROUNDS).filter(|_| !stop.is_set());
        let found = own.map_init(Vec::new, |open, [face, near]| {
            let Some(one) = from.triangle(*face) else { return (f64::INFINITY, floor) };
            let limits = (floor, floor * hausdorff::BOUND_RATIO_SQ);
            let start = walk_to(to, *near, center(&one)).map(|(start, _)| start);
            let nearby = start.and_then(|start| bound_nearby(to, start, &one, limits, open));
            nearby
                .map_or_else(|| hausdorff::refine_bound(&surface, &one, floor), |off| (off, floor))
        });
        (most, floor) = larger((most, floor), found.reduce(|| (0.0, 0.0), larger));
    }
    most.sqrt()
}

/// A point of a triangle that is none of its corners: these may lie on the other surface where nothing else does.
fn center([a, b, c]: &Triangle) -> [f64; 3] {
    middle(*a, middle(*b, *c))
}

/// Triangles by where they lie.
#[derive(Debug)]
pub(super) struct Surface<'a> {
    net: &'a Net<'a>,
    side: f64,     // of a cell
    cells_in: f64, // a length of one
    // Triangles of the cells that share a number, one number after the other.
    starts: Vec<u32>,
    cells: Vec<u32>,
    large: Vec<u32>, // those of many cells
}

impl<'a> Surface<'a> {
    fn new(net: &'a Net<'a>) -> Self {
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
            starts: vec![0; numbers + 2],
            cells: Vec::new(),
            large: Vec::new(),
        };
        surface.sort_in();
        surface
    }

    /// How far the farthest center of a part of some triangles is, squared.
    fn farthest_center(&self, from: &Net<'_>, some: &[[u32; 2]]) -> f64 {
        let farther = |most: f64, [face, near]: &[u32; 2]| {
            let Some(point) = from.triangle(*face).map(|one| center(&one)) else { return most };
            // What lies under it may be near enough; if not, something else may be nearer.
            match walk_to(self.net, *near, point) {
                Some((_, off)) if off <= most => most,
                Some((_, off)) if off.is_finite() => {
                    most.max(self.distance_sq_within(point, off.sqrt()))
                }
                _ => most.max(self.distance_sq(point)),
            }
        };
        let centers = some.par_iter().step_by(SAMPLE_STRIDE);
        centers.fold(|| 0.0, farther).reduce(|| 0.0, f64::max)
    }

    /// Counts the triangles of each number, and puts them one number after the other.
    fn sort_in(&mut self) {
        let spans = |own: &Self| -> Vec<[[i64; 3]; 2]> {
            own.net.triangles().map(|one| own.span(&bounds(&one), 0.0)).collect()
        };
        let spans = spans(self);
        for (at, span) in (0_u32..).zip(&spans) {
            if count(span) > MAX_CELLS {
                self.large.push(at);
                continue;
            }
            for_each_cell(span, |cell| {
                let number = usize_from_u32(self.number(cell)) + 2;
                if let Some(count) = self.starts.get_mut(number) {
                    *count += 1;
                }
            });
        }
        let mut before = 0_u32;
        for start in &mut self.starts {
            before += *start;
            *start = before;
        }
        self.cells.resize(usize_from_u32(before), 0);
        for (at, span) in (0_u32..).zip(&spans).filter(|(_, span)| count(span) <= MAX_CELLS) {
            for_each_cell(span, |cell| {
                let number = usize_from_u32(self.number(cell)) + 1;
                let Some(next) = self.starts.get_mut(number) else { return };
                if let Some(to) = self.cells.get_mut(usize_from_u32(*next)) {
                    *to = at;
                }
                *next += 1;
            });
        }
    }

    /// The number of a cell, which others may have too.
    fn number(&self, [x, y, z]: [i64; 3]) -> u32 {
        let mixed =
            x.wrapping_mul(73_856_093) ^ y.wrapping_mul(19_349_663) ^ z.wrapping_mul(83_492_791);
        let numbers = to_u64(self.starts.len().saturating_sub(2)).max(1);
        saturating_u32_from_usize(saturating_usize(
            mixed.unsigned_abs().rotate_right(7) & numbers.saturating_sub(1),
        ))
    }

    /// The triangles of a cell, and some others.
    fn cell(&self, cell: [i64; 3]) -> &[u32] {
        let number = usize_from_u32(self.number(cell));
        let ends = self.starts.get(number).zip(self.starts.get(number + 1));
        let own = ends
            .and_then(|(start, end)| self.cells.get(usize_from_u32(*start)..usize_from_u32(*end)));
        own.unwrap_or(&[])
    }

    /// The cells of a box and so much more.
    fn span(&self, [low, high]: &[[f64; 3]; 2], more: f64) -> [[i64; 3]; 2] {
        [
            low.map(|x| saturating_floor_i64((x - more) * self.cells_in)),
            high.map(|x| saturating_floor_i64((x + more) * self.cells_in)),
        ]
    }

    /// Calls `visit` with all triangles that may be so near to a box, hardly one twice.
    fn visit_near(&self, [low, high]: &[[f64; 3]; 2], off: f64, mut visit: impl FnMut(&Triangle)) {
        let span = self.span(&[*low, *high], off);
        let meets = |[own_low, own_high]: &[[f64; 3]; 2]| {
            let above = own_low.iter().zip(high).all(|(own, high)| *own <= high + off);
            above && own_high.iter().zip(low).all(|(own, low)| *own >= low - off)
        };
        let some = |at: &u32| self.net.triangle(*at);
        if count(&span) > to_u64(self.net.len()) {
            self.net.triangles().filter(|one| meets(&bounds(one))).for_each(|one| visit(&one));
            return;
        }
        let large = self.large.iter().filter_map(some);
        large.filter(|one| meets(&bounds(one))).for_each(|one| visit(&one));
        let [first, last] = span;
        let alone = first == last;
        for_each_cell(&span, |cell| {
            for one in self.cell(cell).iter().filter_map(some) {
                let own = bounds(&one);
                // Of all its cells that are asked, only the lowest one visits it.
                let is_lowest = || {
                    let [lowest, _] = self.span(&own, 0.0);
                    lowest.iter().zip(first).map(|(own, first)| (*own).max(first)).eq(cell)
                };
                if meets(&own) && (alone || is_lowest()) {
                    visit(&one);
                }
            }
        });
    }

    /// All triangles that may be so near to a box, hardly one twice, in the place of what is in `near`.
    pub(super) fn plates_near(&self, around: &[[f64; 3]; 2], off: f64, near: &mut Vec<Plate>) {
        near.clear();
        self.visit_near(around, off, |one| near.push(Plate::new(one)));
    }

    /// The distance that counts as 0, squared.
    fn zero_distance_sq(&self) -> f64 {
        (self.side * ZERO_TOLERANCE).powi(2)
    }

    /// How far a point is from the nearest triangle, squared.
    pub(super) fn distance_sq(&self, point: [f64; 3]) -> f64 {
        self.distance_sq_within(point, self.side / 2.0)
    }

    /// The same, first looked for so far off.
    fn distance_sq_within(&self, point: [f64; 3], mut off: f64) -> f64 {
        loop {
            let mut nearest = f64::INFINITY;
            self.visit_near(&[point, point], off, |one| {
                nearest = nearest.min(Plate::new(one).distance_sq(point));
            });
            if nearest.sqrt() <= off || !off.is_finite() {
                return nearest;
            }
            // The nearest triangle within reach bounds the search.
            off = if nearest.is_finite() { nearest.sqrt() } else { off * 2.0 };
        }
    }

    /// How far a face is at most, by any one triangle, squared.
    pub(super) fn bound_from_any_triangle(&self, face: &Face) -> f64 {
        let bounds = bounds(face.corners());
        let mut off = self.side;
        loop {
            let (mut least, mut any) = (f64::INFINITY, false);
            self.visit_near(&bounds, off, |one| {
                (least, any) = (least.min(Plate::new(one).farthest(face, least)), true);
            });
            if any || !off.is_finite() {
                return least;
            }
            off *= 2.0;
        }
    }
}

/// How many cells there are.
fn count([low, high]: &[[i64; 3]; 2]) -> u64 {
    let sides = low.iter().zip(high).map(|(low, high)| high.abs_diff(*low).saturating_add(1));
    sides.fold(1, u64::saturating_mul)
}

fn for_each_cell([low, high]: &[[i64; 3]; 2], mut visit: impl FnMut([i64; 3])) {
    let ([a, b, c], [d, e, f]) = (low, high);
    for x in *a..=*d {
        for y in *b..=*e {
            for z in *c..=*f {
                visit([x, y, z]);
            }
        }
    }
}

/// What is farther off than that has no distance squared.
const MAX_DISTANCE: f64 = 1e150;
/// A point of one triangle in so many is measured first.
const SAMPLE_STRIDE: usize = 16;
/// In so many rounds all are looked at.
const ROUNDS: usize = 32;
/// How many times as wide as a triangle a cell is.
const CELL_SIDE_RATIO: f64 = 1.5;
/// The distance that counts as 0, as a part of the side of a cell.
const ZERO_TOLERANCE: f64 = 1e-6;
/// A triangle of more cells is near everything.
const MAX_CELLS: u64 = 512;

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::super::plate::nearest_sq;
    use super::*;

    /// The triangles between points, of which no two are the same.
    fn between(triangles: &[Triangle]) -> (Vec<[f64; 3]>, Vec<[u32; 3]>) {
        let (mut at, mut numbers) = (Vec::new(), HashMap::new());
        let mut number = |point: [f64; 3]| {
            *numbers.entry(point.map(f64::to_bits)).or_insert_with(|| {
                at.push(point);
                u32::try_from(at.len() - 1).unwrap()
            })
        };
        let faces = triangles.iter().map(|one| one.map(&mut number)).collect();
        (at, faces)
    }

    /// The bound with some triangle to begin with and, where there is none, as far as it differs at all.
    fn directed_hausdorff_bound(from: &[Triangle], to: &[Triangle]) -> f64 {
        let ((from_at, from), (to_at, to)) = (between(from), between(to));
        let rows = 0..u32::try_from(from.len()).unwrap();
        let (from, to) = (Net::new(&from_at, from), Net::new(&to_at, to));
        let bound = |start: &dyn Fn(u32) -> u32| {
            let some: Vec<[u32; 2]> = rows.clone().map(|row| [row, start(row)]).collect();
            super::directed_hausdorff_bound((&from, &some), &to, &Stop::default())
        };
        let [nowhere, somewhere] = [bound(&|_| u32::MAX), bound(&|row| row % 7)];
        let same = nowhere == somewhere || (nowhere / somewhere - 1.0).abs() < 0.05;
        assert!(same || nowhere.max(somewhere) < 1e-6, "{nowhere}, {somewhere}");
        somewhere
    }

    const FLAT: Triangle = [[0.0, 0.0, 0.0], [4.0, 0.0, 0.0], [0.0, 4.0, 0.0]];

    #[test]
    fn what_lies_over_an_edge_is_cut_there() {
        let other = [[4.0, 0.0, 0.0], [4.0, 4.0, 0.0], [0.0, 4.0, 0.0]];
        let fine = [[1.0, 1.0, 0.5], [3.0, 3.0, 0.5], [1.0, 3.0, 0.5]];
        let alone = directed_hausdorff_bound(&[fine], &[FLAT]);
        let both = directed_hausdorff_bound(&[fine], &[FLAT, other]);
        assert!((1.5..1.58).contains(&alone) && both == 0.5, "{alone} {both}");
        assert_eq!(
            (directed_hausdorff_bound(&[fine], &[]), directed_hausdorff_bound(&[], &[fine])),
            (0.0, 0.0)
        );
    }

    #[test]
    fn one_way_is_not_the_other_and_far_away_is_found() {
        let peak = [[0.0, 0.0, 0.0], [4.0, 0.0, 0.0], [2.0, 2.0, 7.0]];
        // All of the small one is near the large one, but not the other way round.
        let small = [[0.0, 0.0, 0.0], [0.1, 0.0, 0.0], [0.0, 0.1, 0.0]];
        assert!(directed_hausdorff_bound(&[small], &[FLAT]) < 1e-9);
        assert!((directed_hausdorff_bound(&[FLAT], &[small]) - 15.21_f64.sqrt()).abs() < 0.15);
        assert!((7.0..7.35).contains(&directed_hausdorff_bound(&[peak], &[FLAT])));
        let moved = FLAT.map(|[x, y, z]| [x + 1000.0, y, z]);
        let found = directed_hausdorff_bound(&[moved], &[FLAT]);
        assert!((1000.0..1050.0).contains(&found), "{found}");
    }

    /// A hill of so many triangles on each side.
    fn hill(count: u32) -> Vec<Triangle> {
        let size = 8.0 / f64::from(count);
        let at = |x: u32, y: u32| {
            let (x, y) = (f64::from(x) * size, f64::from(y) * size);
            [x, y, (x / 3.0).sin() * (y / 2.0).cos()]
        };
        let cells = (0..count).flat_map(|x| (0..count).map(move |y| (x, y)));
        let pair = |(x, y)| {
            let [a, b, c, d] = [at(x, y), at(x + 1, y), at(x + 1, y + 1), at(x, y + 1)];
            [[a, b, c], [a, c, d]]
        };
        cells.flat_map(pair).collect()
    }

    /// The distance of many points tells what is too small, and what is much too large.
    #[test]
    fn a_hill_is_as_far_from_a_coarser_one_as_its_points_are() {
        let (fine, coarse) = (hill(40), hill(9));
        for (from, to) in [(&fine, &coarse), (&coarse, &fine)] {
            let inside = |[a, b, c]: &Triangle| {
                let weights = (0..=12).flat_map(|u| (0..=12 - u).map(move |v| (u, v)));
                let points = weights.map(|(u, v)| {
                    let (u, v) = (f64::from(u) / 12.0, f64::from(v) / 12.0);
                    let axis = |at: usize| a[at] + (b[at] - a[at]) * u + (c[at] - a[at]) * v;
                    [axis(0), axis(1), axis(2)]
                });
                points.collect::<Vec<_>>()
            };
            let off =
                |point| to.iter().map(|one| nearest_sq(one, point)).fold(f64::INFINITY, f64::min);
            let least = from.iter().flat_map(inside).map(off).fold(0.0, f64::max).sqrt();
            let found = directed_hausdorff_bound(from, to);
            assert!(found >= least && found < least * 1.06, "{found} of {least}");
        }
    }

    #[test]
    fn the_same_surface_is_no_way_off_and_one_face_may_lie_over_thousands() {
        let fine = hill(40);
        assert!(directed_hausdorff_bound(&fine, &fine) < 1e-6);
        let flat: Vec<Triangle> = fine.iter().map(|one| one.map(|[x, y, _]| [x, y, 0.0])).collect();
        let wide = [[0.0, 0.0, 0.25], [8.0, 0.0, 0.25], [8.0, 8.0, 0.25]];
        let found = directed_hausdorff_bound(&[wide], &flat);
        assert!((0.25..0.263).contains(&found), "{found}");
    }
    /// Soup, and many triangles in one place: it ends, and is right.
    #[test]
    fn triangles_that_lie_anyhow_take_no_longer_than_they_may() {
        let mut state = 7_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            f64::from(u32::try_from(state >> 40).unwrap()) / f64::from(1 << 24)
        };
        let mut soup = || -> Vec<Triangle> {
            (0..40).map(|_| std::array::from_fn(|_| std::array::from_fn(|_| next()))).collect()
        };
        let (one, other) = (soup(), soup());
        let found = directed_hausdorff_bound(&one, &other);
        let (at, faces) = between(&other);
        let net = Net::new(&at, faces);
        let surface = Surface::new(&net);
        let least =
            one.iter().flatten().map(|at| surface.distance_sq(*at)).fold(0.0, f64::max).sqrt();
        assert!(found >= least && found < 1.0, "{found} of {least}");
        let lot = vec![FLAT; 300];
        assert_eq!(directed_hausdorff_bound(&lot, &lot), 0.0);
        for nowhere in [f64::NAN, f64::INFINITY, -1e300] {
            let other = [[0.0; 3], [nowhere; 3], [1.0; 3]];
            assert_eq!(directed_hausdorff_bound(&[other], &[FLAT]), f64::INFINITY);
            assert_eq!(directed_hausdorff_bound(&[FLAT], &[other]), f64::INFINITY);
        }
    }
}
