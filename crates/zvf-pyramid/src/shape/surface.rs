//! How far a fine surface lies from a coarse one, at most.
//!
//! A distance to a triangle is largest at a corner of what lies all on one side of it, so a fine triangle
//! is no farther from a coarse one than its farthest corner. Where no coarse triangle is near all three,
//! the fine one is quartered, a few times. What comes out is never too small.

use super::quadric::{cross, dot, minus};

/// A triangle by its corners.
pub(super) type Triangle = [[f64; 3]; 3];

/// How far any point of `fine` may lie from the nearest of `coarse`; 0 without any of those.
pub(super) fn off(fine: &Triangle, coarse: &[Triangle]) -> f64 {
    off_within(fine, coarse, QUARTERED).sqrt()
}

fn off_within(fine: &Triangle, coarse: &[Triangle], times: u32) -> f64 {
    let farthest = |one: &Triangle| {
        let corners = fine.iter().map(|corner| squared(*corner, one));
        corners.fold(0.0, f64::max)
    };
    let whole = coarse.iter().map(farthest).fold(f64::INFINITY, f64::min);
    if !whole.is_finite() {
        return 0.0;
    }
    let nearest = |corner: &[f64; 3]| {
        coarse.iter().map(|one| squared(*corner, one)).fold(f64::INFINITY, f64::min)
    };
    // No cut makes it less than what the corners are off.
    let least = fine.iter().map(nearest).fold(0.0, f64::max);
    if times == 0 || whole <= least * CLOSE {
        return whole;
    }
    let quarters = quartered(fine);
    let cut = quarters.iter().map(|part| off_within(part, coarse, times.saturating_sub(1)));
    cut.fold(0.0, f64::max).min(whole)
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

/// How far a point is from a triangle, squared.
pub(super) fn squared(point: [f64; 3], [a, b, c]: &Triangle) -> f64 {
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
    let edges = sides.iter().map(|(from, to)| super::off_segment(&point, from, to));
    edges.fold(f64::INFINITY, f64::min)
}

const QUARTERED: u32 = 3;
/// As good as it gets.
const CLOSE: f64 = 1.21;

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
        let apart = off(&fine, &[FLAT]);
        let both = off(&fine, &[FLAT, other]);
        assert!(apart > 1.4 && (0.5..0.6).contains(&both), "{apart} {both}");
        assert_eq!(off(&fine, &[]), 0.0);
    }
}
