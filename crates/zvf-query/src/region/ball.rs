//! A closed ball in any number of axes.

use zvf_model::Bounds;

use super::{BadRegion, fixed};

const AXES: usize = Bounds::MAX_AXES;

/// All points at most `radius` away from `centre`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ball {
    centre: [f64; AXES], // finite, unused axes 0
    axes: usize,
    radius: f64, // not negative; its square is finite
}

impl Ball {
    pub(super) fn new(centre: &[f64], radius: f64) -> Result<Self, BadRegion> {
        let position = fixed(centre, radius, "centre or radius")?;
        if radius < 0.0 {
            return Err(BadRegion::NegativeRadius);
        }
        // Squares of distances are compared: if this one were infinite, no point would be outside.
        if !(radius * radius).is_finite() {
            return Err(BadRegion::NotFinite { what: "squared radius" });
        }
        Ok(Self { centre: position, axes: centre.len(), radius })
    }

    pub(super) fn hull(&self) -> Result<Bounds, BadRegion> {
        let centre = &self.centre[..self.axes];
        let low: Vec<f64> = centre.iter().map(|x| x - self.radius).collect();
        let high: Vec<f64> = centre.iter().map(|x| x + self.radius).collect();
        Bounds::new(&low, &high).map_err(|_overflow| BadRegion::NotFinite { what: "extent" })
    }

    pub(super) fn contains(&self, point: &[f64]) -> bool {
        self.holds(norm_squared(&self.offset_from_centre(point)))
    }

    /// Returns the part of the segment inside: where a quadratic function is at most zero.
    pub(super) fn clip_segment(&self, a: &[f64], b: &[f64]) -> Option<(f64, f64)> {
        let (from, to) = (self.offset_from_centre(a), self.offset_from_centre(b));
        let along = difference(&to, &from);
        let length = norm_squared(&along);
        if length == 0.0 {
            return self.holds(norm_squared(&from)).then_some((0.0, 1.0));
        }
        let middle = -dot(&from, &along) / length;
        let mut nearest = from;
        for (x, d) in nearest.iter_mut().zip(along) {
            *x += d * middle;
        }
        let spare = self.radius * self.radius - norm_squared(&nearest);
        if spare.is_nan() || spare < 0.0 {
            return None;
        }
        let half = (spare / length).sqrt();
        let (enter, leave) = ((middle - half).max(0.0), (middle + half).min(1.0));
        (enter <= leave).then_some((enter, leave))
    }

    /// Returns whether the point of the triangle that is nearest to the centre is inside.
    pub(super) fn meets_triangle(&self, corners: [&[f64]; 3]) -> bool {
        let [a, b, c] = corners.map(|corner| self.offset_from_centre(corner));
        let sides = [[a, b], [b, c], [c, a]];
        let on_a_side = sides.iter().any(|[p, q]| self.holds(norm_squared(&nearest_point(p, q))));
        on_a_side || self.holds_interior(&a, &b, &c)
    }

    /// Returns whether the projection of the centre on the triangle's plane is in the triangle, and
    /// near enough.
    fn holds_interior(&self, a: &[f64; AXES], b: &[f64; AXES], c: &[f64; AXES]) -> bool {
        let (u, v) = (difference(b, a), difference(c, a));
        let (uu, uv, vv) = (dot(&u, &u), dot(&u, &v), dot(&v, &v));
        let (ua, va) = (-dot(&u, a), -dot(&v, a));
        let area = uu * vv - uv * uv;
        let (s, t) = ((vv * ua - uv * va) / area, (uu * va - uv * ua) / area);
        if area <= 0.0 || s < 0.0 || t < 0.0 || s + t > 1.0 {
            return false;
        }
        let mut foot = *a;
        for ((x, u), v) in foot.iter_mut().zip(u).zip(v) {
            *x += u * s + v * t;
        }
        self.holds(norm_squared(&foot))
    }

    fn holds(&self, squared: f64) -> bool {
        squared <= self.radius * self.radius
    }

    fn offset_from_centre(&self, point: &[f64]) -> [f64; AXES] {
        let mut from = [0.0; AXES];
        for ((to, x), c) in from.iter_mut().zip(point).zip(self.centre) {
            *to = x - c;
        }
        from
    }
}

/// Returns the point of the segment from `p` to `q` that is nearest to the origin.
fn nearest_point(p: &[f64; AXES], q: &[f64; AXES]) -> [f64; AXES] {
    let along = difference(q, p);
    let length = norm_squared(&along);
    let t = if length == 0.0 { 0.0 } else { (-dot(p, &along) / length).clamp(0.0, 1.0) };
    let mut nearest = *p;
    for (x, d) in nearest.iter_mut().zip(along) {
        *x += d * t;
    }
    nearest
}

fn difference(a: &[f64; AXES], b: &[f64; AXES]) -> [f64; AXES] {
    let mut out = *a;
    for (x, y) in out.iter_mut().zip(b) {
        *x -= y;
    }
    out
}

fn dot(a: &[f64; AXES], b: &[f64; AXES]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn norm_squared(a: &[f64; AXES]) -> f64 {
    dot(a, a)
}
