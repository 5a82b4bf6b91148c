//! A polygon on two axes with limits on all axes, divided into convex pieces once, by ear clipping.
//!
//! The polygon may be concave and wound either way; it must not cross itself. Each ear is a triangle, and a triangle
//! with the limits is a convex region, so every operation runs on the pieces.

use zvf_model::Bounds;

use super::BadRegion;
use super::convex::{Convex, HalfSpace};

/// The pieces of the prism.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Prism {
    pieces: Vec<Convex>, // not empty
    hull: Bounds,
    source: Source,
}

/// What a prism was made of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Source {
    pub(crate) outline: Vec<[f64; 2]>,
    pub(crate) on: [usize; 2],
    pub(crate) limits: Bounds,
}

impl Prism {
    pub(super) fn new(
        outline: &[[f64; 2]],
        on: [usize; 2],
        limits: &Bounds,
    ) -> Result<Self, BadRegion> {
        let [first, second] = on;
        if first == second || first >= limits.axes() || second >= limits.axes() {
            return Err(BadRegion::PolygonAxes { first, second });
        }
        if outline.iter().flatten().any(|x| !x.is_finite()) {
            return Err(BadRegion::NotFinite { what: "corner" });
        }
        let base = Convex::from_bounds(limits);
        let mut pieces = Vec::new();
        for ear in ears(outline).ok_or(BadRegion::NoArea)? {
            let mut piece = base.clone();
            let [a, b, c] = ear;
            for [p, q] in [[a, b], [b, c], [c, a]] {
                piece = piece.with_half_space(left_half_space(p, q, on, limits.axes())?);
            }
            pieces.push(piece);
        }
        let source = Source { outline: outline.to_vec(), on, limits: *limits };
        Ok(Self { pieces, hull: hull(outline, on, limits)?, source })
    }

    #[cfg(feature = "serde")]
    pub(crate) const fn source(&self) -> &Source {
        &self.source
    }

    pub(super) fn pieces(&self) -> impl Iterator<Item = &Convex> {
        self.pieces.iter()
    }

    pub(super) const fn hull(&self) -> Bounds {
        self.hull
    }
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
    let mut normal = [0.0; Bounds::MAX_AXES];
    for (axis, n) in on.into_iter().zip([nx, ny]) {
        if let Some(to) = normal.get_mut(axis) {
            *to = n;
        }
    }
    HalfSpace::new(normal.get(..axes).unwrap_or(&normal), nx * px + ny * py)
}

fn hull(outline: &[[f64; 2]], on: [usize; 2], limits: &Bounds) -> Result<Bounds, BadRegion> {
    let (mut low, mut high) = (limits.low().to_vec(), limits.high().to_vec());
    for (k, axis) in on.into_iter().enumerate() {
        let values = || outline.iter().filter_map(|corner| corner.get(k).copied());
        if let (Some(low), Some(high)) = (low.get_mut(axis), high.get_mut(axis)) {
            *low = low.max(values().fold(f64::INFINITY, f64::min));
            *high = high.min(values().fold(f64::NEG_INFINITY, f64::max));
        }
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
        let corner = |i: usize| corners.get(i.checked_rem(n)?).copied();
        let triangle = |i: usize| {
            Some([
                corner(i.checked_add(n)?.checked_sub(1)?)?,
                corner(i)?,
                corner(i.checked_add(1)?)?,
            ])
        };
        let flat = (0..n).find(|i| triangle(*i).is_some_and(|ear| turn(ear) == 0.0));
        let ear = (0..n).find(|i| triangle(*i).is_some_and(|ear| is_ear(ear, &corners)));
        let at = flat.or(ear)?;
        if flat.is_none() {
            triangles.push(triangle(at)?);
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
