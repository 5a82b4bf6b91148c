//! Bounds the distance of a triangle from a surface by the triangles below it, walking from one
//! triangle to its neighbours.
//!
//! ```text
//! parts     the triangle, cut along upright walls over the sides of what lies under it: each part has one
//!           triangle of the surface
//! bound     over a part, the distance to that triangle is largest at a corner
//! ```
//!
//! Wherever the walls are, the bound is never too small. It is too large where the nearest triangle
//! is not adjacent to the others: there no bound is found, and the whole surface must be searched
//! ([`hausdorff`](super::hausdorff)).

use super::net::Net;
use super::quadric::{dot, subtract};
use super::triangle::{Face, Triangle, nearest_sq};
use crate::rows::NONE;

/// A part of a triangle, and the triangle of the surface that is assumed to be below it.
#[derive(Debug)]
pub(super) struct Part {
    face: Face,
    over: u32,
    from: u32, // what it was cut from lies over that
}

/// Returns the triangle of a surface below a point, found by walking from `start`, or one near it;
/// and its squared distance.
pub(super) fn find_triangle_below(
    net: &Net<'_>,
    start: u32,
    point: [f64; 3],
) -> Option<(u32, f64)> {
    if !net.has(start) {
        return None;
    }
    let (mut face, mut before) = (start, NONE);
    for _ in 0..MAX_STEPS {
        let corners = net.triangle(face);
        let [a, b, c] = corners;
        let sides = [(a, b), (b, c), (c, a)].into_iter().zip(net.neighbours(face));
        let mut ways = sides.filter(|(_, next)| *next != NONE && *next != before);
        let outside = |((from, to), next): &(([f64; 3], [f64; 3]), u32)| {
            dot(subtract(point, *from), net.inward_normal(face, *next, subtract(*to, *from))) < 0.0
        };
        match ways.find(outside) {
            Some((_, next)) => (face, before) = (next, face),
            None => return Some((face, nearest_sq(&corners, point))),
        }
    }
    Some((face, nearest_sq(&net.triangle(face), point)))
}

/// Returns an upper bound on the squared distance of a triangle from a surface, if it turns out to
/// be at most `limit`; the search for the triangles below begins at `start`. A part within `enough`
/// is not cut. `open` is a reused buffer.
pub(super) fn bound_nearby(
    net: &Net<'_>,
    start: u32,
    triangle: &Triangle,
    (enough, limit): (f64, f64),
    open: &mut Vec<Part>,
) -> Option<f64> {
    open.clear();
    open.push(Part { face: Face::from_triangle(triangle), over: start, from: NONE });
    let (mut max_sq, mut steps) = (0.0_f64, 0_u32);
    while let Some(mut part) = open.pop() {
        steps += 1;
        if steps > MAX_STEPS {
            return None;
        }
        let corners = net.triangle(part.over);
        let distance_sq = farthest_corner(&corners, &part.face, enough);
        if distance_sq <= enough {
            max_sq = max_sq.max(distance_sq);
            continue;
        }
        if cut(net, &mut part, &corners, open)? {
            let distance_sq = farthest_corner(&corners, &part.face, limit);
            if distance_sq > limit {
                return None;
            }
            max_sq = max_sq.max(distance_sq);
        }
    }
    Some(max_sq)
}

/// Reduces a part to what lies over its triangle, and pushes the rest to `open`; returns whether
/// anything lies over it. That is unknown if there would be too many corners.
fn cut(net: &Net<'_>, part: &mut Part, [a, b, c]: &Triangle, open: &mut Vec<Part>) -> Option<bool> {
    for ((from, to), next) in [(a, b), (b, c), (c, a)].into_iter().zip(net.neighbours(part.over)) {
        if next == NONE || next == part.from {
            continue;
        }
        let inward = net.inward_normal(part.over, next, subtract(*to, *from));
        match part.face.side(*from, inward) {
            Some(true) => {}
            Some(false) => {
                open.push(Part { face: part.face, over: next, from: part.over });
                return Some(false);
            }
            None => {
                open.push(Part { face: Face::NOTHING, over: next, from: part.over });
                let beyond = open.last_mut()?;
                if !part.face.clip(*from, inward, &mut beyond.face) {
                    return None;
                }
            }
        }
    }
    Some(true)
}

/// Returns the squared distance of the farthest corner of a face from a triangle; infinite if it is
/// above `limit_sq`.
fn farthest_corner(triangle: &Triangle, face: &Face, limit_sq: f64) -> f64 {
    let mut farthest = 0.0_f64;
    for corner in face.corners() {
        let distance_sq = nearest_sq(triangle, *corner);
        if distance_sq.is_nan() || distance_sq > limit_sq {
            return f64::INFINITY;
        }
        farthest = farthest.max(distance_sq);
    }
    farthest
}

/// The largest number of triangles that a walk visits.
const MAX_STEPS: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a strip of squares along x, which rises by `rise` per square after the middle.
    fn strip(rise: f64) -> (Vec<[f64; 3]>, Vec<[u32; 3]>) {
        let at = (0..=8_u32).flat_map(|x| {
            let z = f64::from(x.max(4) - 4) * rise;
            [[f64::from(x), 0.0, z], [f64::from(x), 1.0, z]]
        });
        let faces = (0..8_u32).flat_map(|x| {
            let [a, b, c, d] = [0, 2, 3, 1].map(|offset| x * 2 + offset);
            [[a, b, c], [a, c, d]]
        });
        (at.collect(), faces.collect())
    }

    #[test]
    fn walking_finds_the_nearest_face_from_any_start() {
        let (at, faces) = strip(0.5);
        let net = Net::new(&at, faces);
        for start in 0..16 {
            let (face, distance_sq) = find_triangle_below(&net, start, [0.25, 0.5, 0.125]).unwrap();
            assert_eq!((face, distance_sq), (1, 0.125 * 0.125), "from {start}");
        }
        assert_eq!(find_triangle_below(&net, 99, [0.0; 3]), None);
    }

    #[test]
    fn a_large_triangle_is_bounded_by_its_farthest_part() {
        let (at, faces) = strip(0.0);
        let net = Net::new(&at, faces);
        let wide = [[0.5, 0.25, 0.25], [7.5, 0.25, 0.5], [4.0, 0.75, 0.25]];
        for start in 0..16 {
            let bound = |limit| bound_nearby(&net, start, &wide, (0.0, limit), &mut Vec::new());
            assert_eq!((bound(0.25), bound(0.24)), (Some(0.25), None), "from {start}");
        }
        // For a triangle next to the strip the bound is at most the distance of its corners from the start face.
        let shifted = wide.map(|[x, y, _]| [x, y + 1.0, 0.0]);
        let bound = |limit| bound_nearby(&net, 0, &shifted, (0.0, limit), &mut Vec::new());
        assert!((0.75 * 0.75..1.2).contains(&bound(2.0).unwrap()));
        assert_eq!(bound(0.5), None);
    }

    #[test]
    fn the_bound_covers_a_bent_surface() {
        for rise in [-2.0, -0.5, 0.5, 2.0] {
            let (at, faces) = strip(rise);
            let net = Net::new(&at, faces);
            let triangle = [[3.0, 0.5, 0.0], [5.0, 0.5, rise], [4.0, 0.75, 0.125]];
            let bound = bound_nearby(&net, 5, &triangle, (0.0, 1.0), &mut Vec::new()).unwrap();
            let weights = (0..=64).flat_map(|u| (0..=64 - u).map(move |v| (u, v)));
            let lower = weights.map(|(u, v)| {
                let (u, v) = (f64::from(u) / 64.0, f64::from(v) / 64.0);
                let [a, b, c] = triangle;
                let point: [f64; 3] =
                    std::array::from_fn(|i| a[i] + (b[i] - a[i]) * u + (c[i] - a[i]) * v);
                net.triangles()
                    .map(|triangle| nearest_sq(&triangle, point))
                    .fold(f64::INFINITY, f64::min)
            });
            let lower = lower.fold(0.0, f64::max);
            assert!(bound >= lower && bound <= lower * 1.2, "{rise}: {bound} of {lower}");
        }
    }
}
