//! How far one surface lies from another, at most.
//!
//! Some points are measured first: what is not farther than these by much needs no closer look
//! ([`hausdorff`]). Of the other surface only what is near is looked at, by a grid.

use rayon::prelude::*;
use zvf_format::num::{
    f64_from_u64, saturating_floor_i64, saturating_u32_from_usize, saturating_usize, to_u64,
    usize_from_u32,
};

use super::hausdorff;
use super::plate::{Face, Plate, Triangle, bounds, middle};
use crate::offload::Stop;

/// How far any point of `from` may lie from the nearest of `to`; 0 where one of them is nothing, and infinite
/// where a corner is nowhere or so far off that its distance is no number. Once it is stopped it looks at
/// nothing more.
pub(super) fn directed_hausdorff_bound(from: &[Triangle], to: &[Triangle], stop: &Stop) -> f64 {
    if from.is_empty() || to.is_empty() {
        return 0.0;
    }
    let somewhere = |x: &f64| x.abs() < FAR;
    if !from.iter().chain(to).flatten().flatten().all(somewhere) {
        return f64::INFINITY;
    }
    let surface = Surface::new(to);
    // Corners may lie on the other surface where nothing else does.
    let center = |[a, b, c]: &Triangle| middle(*a, middle(*b, *c));
    let some = from.par_iter().step_by(SAMPLE).map(|one| surface.distance_sq(center(one)));
    let mut floor = some.reduce(|| 0.0, f64::max).max(surface.blur());
    let mut most = 0.0_f64;
    // What some found raises the floor for others.
    for round in 0..ROUNDS {
        let some = from
            .par_iter()
            .skip(round)
            .step_by(ROUNDS)
            .filter(|_| !stop.is_set())
            .map(|one| hausdorff::refine_bound(&surface, one, floor));
        let larger = |a: (f64, f64), b: (f64, f64)| (a.0.max(b.0), a.1.max(b.1));
        let found = some.reduce(|| (0.0, 0.0), larger);
        (most, floor) = larger((most, floor), found);
    }
    most.sqrt()
}

/// Triangles by where they lie, each ready to be measured to.
#[derive(Debug)]
pub(super) struct Surface {
    plates: Vec<Plate>,
    side: f64,     // of a cell
    cells_in: f64, // a length of one
    // Triangles of the cells that share a number, one number after the other.
    starts: Vec<u32>,
    cells: Vec<u32>,
    large: Vec<u32>, // those of many cells
}

impl Surface {
    fn new(triangles: &[Triangle]) -> Self {
        let size = |triangle: &Triangle| {
            let [low, high] = bounds(triangle);
            low.iter().zip(high).map(|(low, high)| high - low).fold(0.0, f64::max)
        };
        let sizes: f64 = triangles.iter().map(size).sum();
        let mean = sizes / f64_from_u64(to_u64(triangles.len()));
        let side = if mean > 0.0 && mean.is_finite() { mean * WIDE } else { 1.0 };
        let numbers = triangles.len().next_power_of_two();
        let mut surface = Self {
            plates: triangles.par_iter().map(Plate::new).collect(),
            side,
            cells_in: side.recip(),
            starts: Vec::new(),
            cells: Vec::new(),
            large: Vec::new(),
        };
        surface.starts.resize(numbers + 2, 0);
        surface.sort_in();
        surface
    }

    /// Counts the triangles of each number, and puts them one number after the other.
    fn sort_in(&mut self) {
        let plates = std::mem::take(&mut self.plates);
        for (at, plate) in (0_u32..).zip(&plates) {
            let span = self.span(&plate.bounds(), 0.0);
            if count(&span) > MANY {
                self.large.push(at);
                continue;
            }
            for_each_cell(&span, |cell| {
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
        for (at, plate) in (0_u32..).zip(&plates) {
            let span = self.span(&plate.bounds(), 0.0);
            if count(&span) > MANY {
                continue;
            }
            for_each_cell(&span, |cell| {
                let number = usize_from_u32(self.number(cell)) + 1;
                let Some(next) = self.starts.get_mut(number) else { return };
                if let Some(to) = self.cells.get_mut(usize_from_u32(*next)) {
                    *to = at;
                }
                *next += 1;
            });
        }
        self.plates = plates;
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
    fn visit_near<'s>(
        &'s self,
        [low, high]: &[[f64; 3]; 2],
        off: f64,
        mut visit: impl FnMut(&'s Plate),
    ) {
        let span = self.span(&[*low, *high], off);
        let meets = |[own_low, own_high]: &[[f64; 3]; 2]| {
            let above = own_low.iter().zip(high).all(|(own, high)| *own <= high + off);
            above && own_high.iter().zip(low).all(|(own, low)| *own >= low - off)
        };
        let some = |at: &u32| self.plates.get(usize_from_u32(*at));
        if count(&span) > to_u64(self.plates.len()) {
            self.plates.iter().filter(|one| meets(&one.bounds())).for_each(visit);
            return;
        }
        let large = self.large.iter().filter_map(some);
        large.filter(|one| meets(&one.bounds())).for_each(&mut visit);
        let [first, last] = span;
        let alone = first == last;
        for_each_cell(&span, |cell| {
            for one in self.cell(cell).iter().filter_map(some) {
                let own = one.bounds();
                // Of all its cells that are asked, the lowest one tells of it.
                let is_lowest = || {
                    let [lowest, _] = self.span(&own, 0.0);
                    lowest.iter().zip(first).map(|(own, first)| (*own).max(first)).eq(cell)
                };
                if meets(&own) && (alone || is_lowest()) {
                    visit(one);
                }
            }
        });
    }

    /// All triangles that may be so near to a box, hardly one twice, in the place of what is in `near`.
    pub(super) fn plates_near<'s>(
        &'s self,
        around: &[[f64; 3]; 2],
        off: f64,
        near: &mut Vec<&'s Plate>,
    ) {
        near.clear();
        self.visit_near(around, off, |plate| near.push(plate));
    }

    /// What is as good as nothing, squared.
    fn blur(&self) -> f64 {
        (self.side * BLUR).powi(2)
    }

    /// How far a point is from the nearest triangle, squared.
    pub(super) fn distance_sq(&self, point: [f64; 3]) -> f64 {
        let mut off = self.side / 2.0;
        loop {
            let mut nearest = f64::INFINITY;
            self.visit_near(&[point, point], off, |plate| {
                nearest = nearest.min(plate.distance_sq(point));
            });
            if nearest.sqrt() <= off || !off.is_finite() {
                return nearest;
            }
            // What is within reach tells how far to look.
            off = if nearest.is_finite() { nearest.sqrt() } else { off * 2.0 };
        }
    }

    /// How far a face is at most, by any one triangle, squared.
    pub(super) fn bound_from_any_triangle(&self, face: &Face) -> f64 {
        let bounds = bounds(face.corners());
        let mut off = self.side;
        loop {
            let (mut least, mut any) = (f64::INFINITY, false);
            self.visit_near(&bounds, off, |plate| {
                (least, any) = (least.min(plate.farthest(face, least)), true);
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
const FAR: f64 = 1e150;
/// A point of one triangle in so many is measured first.
const SAMPLE: usize = 16;
/// In so many rounds all are looked at.
const ROUNDS: usize = 32;
/// How many times as wide as a triangle a cell is.
const WIDE: f64 = 1.5;
/// Of the side of a cell, what is as good as nothing.
const BLUR: f64 = 1e-6;
/// A triangle of more cells is near everything.
const MANY: u64 = 512;

#[cfg(test)]
mod tests {
    use super::*;

    fn directed_hausdorff_bound(from: &[Triangle], to: &[Triangle]) -> f64 {
        super::directed_hausdorff_bound(from, to, &Stop::default())
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
            let plates: Vec<Plate> = to.iter().map(Plate::new).collect();
            let inside = |[a, b, c]: &Triangle| {
                let weights = (0..=12).flat_map(|u| (0..=12 - u).map(move |v| (u, v)));
                let points = weights.map(|(u, v)| {
                    let (u, v) = (f64::from(u) / 12.0, f64::from(v) / 12.0);
                    let axis = |at: usize| a[at] + (b[at] - a[at]) * u + (c[at] - a[at]) * v;
                    [axis(0), axis(1), axis(2)]
                });
                points.collect::<Vec<_>>()
            };
            let off = |point| {
                plates.iter().map(|one| one.distance_sq(point)).fold(f64::INFINITY, f64::min)
            };
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
        let surface = Surface::new(&other);
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
