//! Upper bounds on the directed Hausdorff distance between surfaces.
//!
//! First, the distances of some points are measured: they give a lower bound of the result, the
//! `floor`. A triangle that is hardly farther than that needs no closer look. Most triangles are
//! bounded by the nearest triangles and their neighbours ([`walk`](super::walk)). The others are
//! compared with all triangles near them, by branch and bound:
//!
//! ```text
//! floor     the largest distance of a point that was measured; a bound that is hardly larger is good enough
//! cut       the face is cut along the sides of the triangles below it: over each of these the distance is
//!           largest at a corner
//! left      parts of the face that are farther: their corners raise the floor, or they are halved and examined again
//! ```
//!
//! The result is never too small. It is hardly too large either, unless so many triangles are near
//! that the search ends early: then the bound of a face is the distance of its farthest corner from
//! one triangle.

use rayon::prelude::*;
use zvf_format::num::to_u64;

use super::net::Net;
use super::surface::{Surface, center};
use super::triangle::{Face, MeasuredTriangle, Triangle, bounds};
use super::walk::{bound_nearby, find_triangle_below};
use crate::offload::Stop;

/// Returns an upper bound on the directed Hausdorff distance from the triangles `some` of `from` to
/// `to`: 0 if either has no triangles, and infinite if a corner is not finite or its squared
/// distance overflows. The second number of each pair in `some` is a triangle of `to` that is
/// probably near the first; any will do. The search ends once `stop` is set.
pub(super) fn directed_hausdorff_bound(
    (from, some): (&Net<'_>, &[[u32; 2]]),
    to: &Net<'_>,
    stop: &Stop,
) -> f64 {
    if some.is_empty() || to.len() == 0 {
        return 0.0;
    }
    let is_somewhere =
        |triangle: Triangle| triangle.as_flattened().iter().all(|x| x.abs() < MAX_DISTANCE);
    let mut measured = some.iter().map(|[face, _]| from.triangle(*face)).chain(to.triangles());
    if !measured.all(is_somewhere) {
        return f64::INFINITY;
    }
    let surface = Surface::new(to);
    let mut floor = surface.farthest_center(from, some).max(surface.zero_distance_sq());
    let mut max_sq = 0.0_f64;
    // Distances found in one round raise the floor of the next.
    for round in 0..ROUNDS {
        let larger = |a: (f64, f64), b: (f64, f64)| (a.0.max(b.0), a.1.max(b.1));
        let faces = some.par_iter().skip(round).step_by(ROUNDS).filter(|_| !stop.is_set());
        let found = faces.map_init(Vec::new, |open, [face, near]| {
            let triangle = from.triangle(*face);
            let limits = (floor, floor * BOUND_RATIO_SQ);
            let start = find_triangle_below(to, *near, center(&triangle)).map(|(start, _)| start);
            let nearby = start.and_then(|start| bound_nearby(to, start, &triangle, limits, open));
            nearby.map_or_else(
                || refine_bound(&surface, &triangle, floor),
                |bound_sq| (bound_sq, floor),
            )
        });
        (max_sq, floor) = larger((max_sq, floor), found.reduce(|| (0.0, 0.0), larger));
    }
    max_sq.sqrt()
}

/// Returns an upper bound on the squared distance of a triangle from a surface, no tighter than
/// needed if it is hardly above `floor`; and the floor, raised to the squared distances of measured
/// points.
fn refine_bound(surface: &Surface<'_>, triangle: &Triangle, floor: f64) -> (f64, f64) {
    let first = TrianglePiece { face: Face::from_triangle(triangle), halved: 0, crowd: usize::MAX };
    let mut look = BoundSearch { surface, max_sq: 0.0, floor, room: BASE_PAIRS, open: vec![first] };
    let (mut near, mut left, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(piece) = look.open.pop() {
        look.bound_piece(&piece, &mut near, [&mut left, &mut rest]);
    }
    (look.max_sq, look.floor)
}

/// A part of a triangle that is still to be bounded.
#[derive(Debug)]
struct TrianglePiece {
    face: Face,
    halved: u32,  // the number of halvings that made it
    crowd: usize, // the number of triangles near the part that was halved
}

#[derive(Debug)]
struct BoundSearch<'a> {
    surface: &'a Surface<'a>,
    max_sq: f64,
    floor: f64,
    room: u64, // how many pairs of a face and a triangle may still be looked at
    open: Vec<TrianglePiece>,
}

impl BoundSearch<'_> {
    /// Bounds the distance of a piece; `near`, `left` and `rest` are reused buffers.
    fn bound_piece(
        &mut self,
        piece: &TrianglePiece,
        near: &mut Vec<MeasuredTriangle>,
        [left, rest]: [&mut Vec<Face>; 2],
    ) {
        let face = &piece.face;
        if self.room == 0 || piece.halved >= MAX_HALVINGS {
            self.max_sq = self.max_sq.max(self.surface.bound_from_any_triangle(face));
            return;
        }
        let limit = self.floor * BOUND_RATIO_SQ;
        self.surface.triangles_near(&bounds(face.corners()), limit.sqrt(), near);
        let crowd = near.len();
        if piece.crowd == usize::MAX {
            self.room += to_u64(crowd) * PAIRS_PER_TRIANGLE;
        }
        // Halving only helps while the halves have clearly fewer triangles near them.
        if crowd > MAX_NEAR_TRIANGLES && crowd < piece.crowd.saturating_sub(piece.crowd / 4) {
            self.halve(piece, crowd);
            return;
        }
        // If one triangle is near enough to the whole face, nothing has to be cut.
        if let Some(distance_sq) = distance_sq_to_one(face, near, limit) {
            self.max_sq = self.max_sq.max(distance_sq);
            return;
        }
        self.cut(face, near, limit, left, rest);
        for face in left.drain(..) {
            let farther = |max_sq: f64, at: &[f64; 3]| max_sq.max(self.surface.distance_sq(*at));
            self.floor = face.corners().iter().fold(self.floor, farther);
            let left = TrianglePiece { face, ..*piece };
            if self.floor > limit {
                self.open.push(left);
            } else {
                self.halve(&left, crowd);
            }
        }
    }

    fn halve(&mut self, piece: &TrianglePiece, crowd: usize) {
        self.room = self.room.saturating_sub(1);
        let halved = piece.halved + 1;
        self.open.extend(piece.face.halves().map(|face| TrianglePiece { face, halved, crowd }));
    }

    /// Removes the parts of a face that are at most `limit` from one of `triangles`, and puts the
    /// others into `left`.
    fn cut(
        &mut self,
        face: &Face,
        triangles: &[MeasuredTriangle],
        limit: f64,
        left: &mut Vec<Face>,
        rest: &mut Vec<Face>,
    ) {
        left.clear();
        left.push(*face);
        for measured in triangles {
            let mut at = 0;
            for _ in 0..left.len() {
                let Some(face) = left.get(at) else { break };
                if let Some(distance_sq) = distance_sq_over(face, measured, limit, rest) {
                    self.max_sq = self.max_sq.max(distance_sq);
                    left.swap_remove(at);
                    left.append(rest);
                } else {
                    at += 1;
                }
            }
            self.room = self.room.saturating_sub(to_u64(left.len()) + 1);
            if self.room == 0 || left.is_empty() {
                break;
            }
        }
        // A part that lies over no triangle may still be near one.
        left.retain(|face| {
            let near = distance_sq_to_one(face, triangles, limit);
            self.max_sq = near.map_or(self.max_sq, |distance_sq| self.max_sq.max(distance_sq));
            near.is_none()
        });
    }
}

/// Returns the squared distance of a face from the first triangle that is at most `limit` from the
/// whole face; `None` without such a triangle. The distance to one triangle is largest at a corner
/// of the face.
fn distance_sq_to_one(face: &Face, triangles: &[MeasuredTriangle], limit: f64) -> Option<f64> {
    triangles
        .iter()
        .map(|measured| measured.farthest_corner(face, limit))
        .find(|distance_sq| *distance_sq <= limit)
}

/// Returns the squared distance from a triangle of the part of a face that lies over it, and puts
/// the other parts into `rest`; `None` if there is no such part, or if it is farther than `limit`.
fn distance_sq_over(
    face: &Face,
    measured: &MeasuredTriangle,
    limit: f64,
    rest: &mut Vec<Face>,
) -> Option<f64> {
    let over = face.clip_to(measured, rest).map(|over| measured.farthest_corner(&over, limit));
    let distance_sq = over.filter(|distance_sq| *distance_sq <= limit);
    if distance_sq.is_none() {
        rest.clear();
    }
    distance_sq
}

/// The square of the ratio by which a bound may be too large.
const BOUND_RATIO_SQ: f64 = 1.1;
/// The number of triangles near a face above which it is halved at once.
const MAX_NEAR_TRIANGLES: usize = 128;
/// The largest number of halvings of a face.
const MAX_HALVINGS: u32 = 24;
/// The number of pairs of a face and a triangle that are compared, and how many more for each triangle near the face.
const BASE_PAIRS: u64 = 100_000;
const PAIRS_PER_TRIANGLE: u64 = 64;
/// The coordinate up to which squared distances are finite.
const MAX_DISTANCE: f64 = 1e150;
/// The number of rounds into which the triangles are divided.
const ROUNDS: usize = 32;

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::super::triangle::nearest_sq;
    use super::*;

    /// Splits triangles into distinct points and the numbers of their corners.
    fn index_points(triangles: &[Triangle]) -> (Vec<[f64; 3]>, Vec<[u32; 3]>) {
        let (mut at, mut numbers) = (Vec::new(), HashMap::new());
        let mut number = |point: [f64; 3]| {
            *numbers.entry(point.map(f64::to_bits)).or_insert_with(|| {
                at.push(point);
                u32::try_from(at.len() - 1).unwrap()
            })
        };
        let faces = triangles.iter().map(|triangle| triangle.map(&mut number)).collect();
        (at, faces)
    }

    /// Returns the bound; checks that start triangles change it by little or not at all.
    fn directed_hausdorff_bound(from: &[Triangle], to: &[Triangle]) -> f64 {
        let ((from_at, from), (to_at, to)) = (index_points(from), index_points(to));
        let rows = 0..u32::try_from(from.len()).unwrap();
        let (from, to) = (Net::new(&from_at, from), Net::new(&to_at, to));
        let bound = |start: &dyn Fn(u32) -> u32| {
            let starts: Vec<[u32; 2]> = rows.clone().map(|row| [row, start(row)]).collect();
            super::directed_hausdorff_bound((&from, &starts), &to, &Stop::default())
        };
        let [without_start, with_start] = [bound(&|_| u32::MAX), bound(&|row| row % 7)];
        let is_close =
            without_start == with_start || (without_start / with_start - 1.0).abs() < 0.05;
        assert!(is_close || without_start.max(with_start) < 1e-6, "{without_start}, {with_start}");
        with_start
    }

    const FLAT: Triangle = [[0.0, 0.0, 0.0], [4.0, 0.0, 0.0], [0.0, 4.0, 0.0]];

    #[test]
    fn triangles_are_split_at_edges_of_the_target() {
        let neighbour = [[4.0, 0.0, 0.0], [4.0, 4.0, 0.0], [0.0, 4.0, 0.0]];
        let fine = [[1.0, 1.0, 0.5], [3.0, 3.0, 0.5], [1.0, 3.0, 0.5]];
        let over_one = directed_hausdorff_bound(&[fine], &[FLAT]);
        let over_two = directed_hausdorff_bound(&[fine], &[FLAT, neighbour]);
        assert!((1.5..1.58).contains(&over_one) && over_two == 0.5, "{over_one} {over_two}");
        assert_eq!(
            (directed_hausdorff_bound(&[fine], &[]), directed_hausdorff_bound(&[], &[fine])),
            (0.0, 0.0)
        );
    }

    #[test]
    fn the_bound_is_directed_and_covers_large_distances() {
        let peak = [[0.0, 0.0, 0.0], [4.0, 0.0, 0.0], [2.0, 2.0, 7.0]];
        // The small triangle is near the large one, but not the other way round.
        let small_face = [[0.0, 0.0, 0.0], [0.1, 0.0, 0.0], [0.0, 0.1, 0.0]];
        assert!(directed_hausdorff_bound(&[small_face], &[FLAT]) < 1e-9);
        assert!((directed_hausdorff_bound(&[FLAT], &[small_face]) - 15.21_f64.sqrt()).abs() < 0.15);
        assert!((7.0..7.35).contains(&directed_hausdorff_bound(&[peak], &[FLAT])));
        let moved = FLAT.map(|[x, y, z]| [x + 1000.0, y, z]);
        let bound = directed_hausdorff_bound(&[moved], &[FLAT]);
        assert!((1000.0..1050.0).contains(&bound), "{bound}");
    }

    /// Returns a hill of `count` by `count` squares, each of two triangles.
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

    /// The distance of sampled points is a lower bound, and the result may exceed it by little.
    #[test]
    fn the_bound_is_close_to_the_sampled_distance() {
        let (fine, coarse) = (hill(40), hill(9));
        for (from, to) in [(&fine, &coarse), (&coarse, &fine)] {
            let sample = |[a, b, c]: &Triangle| {
                let weights = (0..=12).flat_map(|u| (0..=12 - u).map(move |v| (u, v)));
                let points = weights.map(|(u, v)| {
                    let (u, v) = (f64::from(u) / 12.0, f64::from(v) / 12.0);
                    let axis = |at: usize| a[at] + (b[at] - a[at]) * u + (c[at] - a[at]) * v;
                    [axis(0), axis(1), axis(2)]
                });
                points.collect::<Vec<_>>()
            };
            let distance_sq = |point| {
                to.iter().map(|triangle| nearest_sq(triangle, point)).fold(f64::INFINITY, f64::min)
            };
            let lower = from.iter().flat_map(sample).map(distance_sq).fold(0.0, f64::max).sqrt();
            let bound = directed_hausdorff_bound(from, to);
            assert!(bound >= lower && bound < lower * 1.06, "{bound} of {lower}");
        }
    }

    #[test]
    fn equal_surfaces_have_distance_zero_and_large_faces_are_bounded() {
        let fine = hill(40);
        assert!(directed_hausdorff_bound(&fine, &fine) < 1e-6);
        let flat: Vec<Triangle> =
            fine.iter().map(|triangle| triangle.map(|[x, y, _]| [x, y, 0.0])).collect();
        let wide = [[0.0, 0.0, 0.25], [8.0, 0.0, 0.25], [8.0, 8.0, 0.25]];
        let bound = directed_hausdorff_bound(&[wide], &flat);
        assert!((0.25..0.263).contains(&bound), "{bound}");
    }
    /// Random triangles, and many equal ones: the search ends with a correct bound.
    #[test]
    fn random_equal_and_invalid_triangles_are_bounded() {
        let mut state = 7_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            f64::from(u32::try_from(state >> 40).unwrap()) / f64::from(1 << 24)
        };
        let mut soup = || -> Vec<Triangle> {
            (0..40).map(|_| std::array::from_fn(|_| std::array::from_fn(|_| random()))).collect()
        };
        let (first, second) = (soup(), soup());
        let bound = directed_hausdorff_bound(&first, &second);
        let (at, faces) = index_points(&second);
        let net = Net::new(&at, faces);
        let surface = Surface::new(&net);
        let lower_bound =
            first.iter().flatten().map(|at| surface.distance_sq(*at)).fold(0.0, f64::max).sqrt();
        assert!(bound >= lower_bound && bound < 1.0, "{bound} of {lower_bound}");
        let copies = vec![FLAT; 300];
        assert_eq!(directed_hausdorff_bound(&copies, &copies), 0.0);
        for coordinate in [f64::NAN, f64::INFINITY, -1e300] {
            let invalid = [[0.0; 3], [coordinate; 3], [1.0; 3]];
            assert_eq!(directed_hausdorff_bound(&[invalid], &[FLAT]), f64::INFINITY);
            assert_eq!(directed_hausdorff_bound(&[FLAT], &[invalid]), f64::INFINITY);
        }
    }
}
