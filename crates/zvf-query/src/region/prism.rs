//! A polygon on two axes with limits on all axes, decomposed once into convex pieces by ear
//! clipping.
//!
//! The polygon may be concave and have either orientation; it must not intersect itself. Each ear
//! is a triangle, and a triangle with the limits is a convex region, so every operation runs on the
//! pieces.

use zvf_model::Bounds;

use super::BadRegion;
use super::convex::{Convex, HalfSpace};

/// Returns the convex pieces of a prism, and a box around them.
pub(super) fn pieces(
    outline: &[[f64; 2]],
    on: [usize; 2],
    limits: &Bounds,
) -> Result<(Vec<Convex>, Bounds), BadRegion> {
    let [first, second] = on;
    if first == second || first >= limits.axes() || second >= limits.axes() {
        return Err(BadRegion::PolygonAxes { first, second });
    }
    if outline.iter().flatten().any(|x| !x.is_finite()) {
        return Err(BadRegion::NotFinite { what: "corner" });
    }
    let base = Convex::from_bounds(limits);
    let mut pieces = Vec::new();
    for [a, b, c] in ears(outline).ok_or(BadRegion::NoArea)? {
        let mut piece = base.clone();
        for [p, q] in [[a, b], [b, c], [c, a]] {
            piece = piece.with_half_space(left_half_space(p, q, on, limits.axes())?);
        }
        pieces.push(piece);
    }
    Ok((pieces, hull(outline, on, limits)?))
}

/// Returns the half-space to the left of the directed side from `p` to `q`.
fn left_half_space(
    p: [f64; 2],
    q: [f64; 2],
    on: [usize; 2],
    axes: usize,
) -> Result<HalfSpace, BadRegion> {
    let ([px, py], [qx, qy]) = (p, q);
    let (nx, ny) = (qy - py, px - qx);
    let mut normal = vec![0.0; axes];
    (normal[on[0]], normal[on[1]]) = (nx, ny);
    HalfSpace::new(&normal, nx * px + ny * py)
}

fn hull(outline: &[[f64; 2]], on: [usize; 2], limits: &Bounds) -> Result<Bounds, BadRegion> {
    let (mut low, mut high) = (limits.low().to_vec(), limits.high().to_vec());
    for (k, axis) in on.into_iter().enumerate() {
        let values = || outline.iter().map(|corner| corner[k]);
        low[axis] = low[axis].max(values().fold(f64::INFINITY, f64::min));
        high[axis] = high[axis].min(values().fold(f64::NEG_INFINITY, f64::max));
    }
    Bounds::new(&low, &high).map_err(|_empty| BadRegion::NoArea)
}

/// Returns the triangles of a simple polygon, counter-clockwise; `None` if it has no area.
fn ears(outline: &[[f64; 2]]) -> Option<Vec<[[f64; 2]; 3]>> {
    let mut corners = outline.to_vec();
    corners.dedup();
    if corners.len() > 1 && corners.first() == corners.last() {
        corners.pop();
    }
    if doubled_area(&corners) < 0.0 {
        corners.reverse();
    }
    let mut triangles = Vec::new();
    while corners.len() > 2 {
        let n = corners.len();
        let triangle = |i: usize| [corners[(i + n - 1) % n], corners[i], corners[(i + 1) % n]];
        let flat = (0..n).find(|i| turn(triangle(*i)) == 0.0);
        let at = flat.or_else(|| (0..n).find(|i| is_ear(triangle(*i), &corners)))?;
        if flat.is_none() {
            triangles.push(triangle(at));
        }
        corners.remove(at);
    }
    (!triangles.is_empty()).then_some(triangles)
}

fn is_ear(ear: [[f64; 2]; 3], corners: &[[f64; 2]]) -> bool {
    let inside = |p: &[f64; 2]| {
        let [a, b, c] = ear;
        !ear.contains(p)
            && turn([a, b, *p]) >= 0.0
            && turn([b, c, *p]) >= 0.0
            && turn([c, a, *p]) >= 0.0
    };
    turn(ear) > 0.0 && !corners.iter().any(inside)
}

/// Returns twice the signed area of a triangle: positive if it turns left.
fn turn([a, b, c]: [[f64; 2]; 3]) -> f64 {
    let ([ax, ay], [bx, by], [cx, cy]) = (a, b, c);
    (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
}

fn doubled_area(corners: &[[f64; 2]]) -> f64 {
    let next = corners.iter().cycle().skip(1);
    corners.iter().zip(next).map(|([ax, ay], [bx, by])| ax * by - ay * bx).sum()
}
