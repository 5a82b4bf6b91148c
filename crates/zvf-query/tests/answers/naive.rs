//! Simple and slow geometry for integer coordinates, independent of the algorithms of the crate.

use zvf_model::Bounds;
use zvf_query::region::Region;

/// A region as the tests represent it.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Box { low: Vec<f64>, high: Vec<f64>, closed: bool },
    Ball { centre: Vec<f64>, radius: f64 },
}

impl Shape {
    pub(crate) fn region(&self) -> Region {
        match self {
            Self::Box { low, high, closed } => {
                let region = Region::from(Bounds::new(low, high).unwrap());
                if *closed { region } else { region.into_half_open() }
            }
            Self::Ball { centre, radius } => Region::ball(centre, *radius).unwrap(),
        }
    }

    /// Returns the corners of the bounding box.
    pub(crate) fn hull(&self) -> (Vec<f64>, Vec<f64>) {
        match self {
            Self::Box { low, high, .. } => (low.clone(), high.clone()),
            Self::Ball { centre, radius } => (
                centre.iter().map(|x| x - radius).collect(),
                centre.iter().map(|x| x + radius).collect(),
            ),
        }
    }

    pub(crate) fn contains(&self, point: &[f64]) -> bool {
        match self {
            Self::Box { low, high, closed } => point
                .iter()
                .zip(low)
                .zip(high)
                .all(|((x, l), h)| x >= l && if *closed { x <= h } else { x < h }),
            Self::Ball { centre, radius } => {
                let squares = point.iter().zip(centre).map(|(x, c)| (x - c) * (x - c));
                squares.sum::<f64>() <= radius * radius
            }
        }
    }

    /// Returns the part of a segment in the closed region.
    pub(crate) fn clip(&self, a: &[f64], b: &[f64]) -> Option<(f64, f64)> {
        let (mut from, mut to) = (0.0_f64, 1.0_f64);
        match self {
            Self::Box { low, high, .. } => {
                for axis in 0..a.len() {
                    let (a, step) = (a[axis], b[axis] - a[axis]);
                    let (low, high) = (low[axis], high[axis]);
                    if step == 0.0 {
                        if a < low || a > high {
                            return None;
                        }
                        continue;
                    }
                    let (enter, exit) = ((low - a) / step, (high - a) / step);
                    from = from.max(enter.min(exit));
                    to = to.min(enter.max(exit));
                }
            }
            Self::Ball { centre, radius } => {
                let sum = |f: &dyn Fn(usize) -> f64| (0..a.len()).map(f).sum::<f64>();
                let aa = sum(&|i| (b[i] - a[i]) * (b[i] - a[i]));
                let half = sum(&|i| (b[i] - a[i]) * (a[i] - centre[i]));
                let cc = sum(&|i| (a[i] - centre[i]) * (a[i] - centre[i])) - radius * radius;
                if aa == 0.0 {
                    return (cc <= 0.0).then_some((0.0, 1.0));
                }
                let root = half * half - aa * cc;
                if root < 0.0 {
                    return None;
                }
                from = from.max((-half - root.sqrt()) / aa);
                to = to.min((-half + root.sqrt()) / aa);
            }
        }
        (from <= to).then_some((from, to))
    }

    /// Returns whether a triangle meets the region; `None` if they only touch, or nearly touch.
    pub(crate) fn meets_triangle(&self, corners: &[Vec<f64>]) -> Option<bool> {
        match self {
            Self::Box { low, high, .. } => {
                let gap = separation(corners, low, high);
                if gap == 0.0 { None } else { Some(gap < 0.0) }
            }
            Self::Ball { centre, radius } => {
                let gap = distance(centre, corners) - radius;
                if gap.abs() < 1e-6 { None } else { Some(gap < 0.0) }
            }
        }
    }
}

/// Returns the largest gap between the projections of a triangle and a box on any axis that can
/// separate them; 0 if they only touch.
fn separation(corners: &[Vec<f64>], low: &[f64], high: &[f64]) -> f64 {
    let axes = low.len();
    let lift = |p: &[f64]| [p[0], p[1], p.get(2).copied().unwrap_or(0.0)];
    let c: Vec<[f64; 3]> = corners.iter().map(|p| lift(p)).collect();
    let sub = |a: [f64; 3], b: [f64; 3]| [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
    let edges = [sub(c[1], c[0]), sub(c[2], c[1]), sub(c[0], c[2])];
    let units = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    let mut normals: Vec<[f64; 3]> = units[..axes].to_vec();
    if axes == 2 {
        normals.extend(edges.iter().map(|e| [-e[1], e[0], 0.0]));
    } else {
        normals.push(cross(edges[0], edges[1]));
        normals.extend(edges.iter().flat_map(|e| units.map(|u| cross(*e, u))));
        // The normals of its edges separate a flat triangle from a box in its plane.
        let plane = cross(edges[0], edges[1]);
        normals.extend(edges.iter().map(|e| cross(*e, plane)));
    }
    let dot = |a: [f64; 3], b: [f64; 3]| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    let mut widest = f64::NEG_INFINITY;
    for normal in normals.into_iter().filter(|n| n.iter().any(|x| *x != 0.0)) {
        let at: Vec<f64> = c.iter().map(|p| dot(*p, normal)).collect();
        let (mut projected_min, mut projected_max) = (0.0, 0.0);
        for axis in 0..axes {
            let (a, b) = (normal[axis] * low[axis], normal[axis] * high[axis]);
            projected_min += a.min(b);
            projected_max += a.max(b);
        }
        let first = at.iter().copied().fold(f64::INFINITY, f64::min);
        let last = at.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        widest = widest.max((first - projected_max).max(projected_min - last));
    }
    widest
}

fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

/// Returns the distance from a point to a triangle by nested searches.
fn distance(point: &[f64], corners: &[Vec<f64>]) -> f64 {
    let distance_sq = |p: &[f64]| p.iter().zip(point).map(|(x, c)| (x - c) * (x - c)).sum::<f64>();
    let at = |u: f64, v: f64| -> Vec<f64> {
        let shares = [1.0 - u - v, u, v];
        (0..point.len()).map(|i| (0..3).map(|k| corners[k][i] * shares[k]).sum()).collect()
    };
    // The distance is a convex function of u and v: nested searches for the minimum.
    let minimize = |low: f64, high: f64, f: &dyn Fn(f64) -> f64| {
        let (mut low, mut high) = (low, high);
        for _ in 0..80 {
            let (a, b) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
            if f(a) < f(b) { high = b } else { low = a }
        }
        f((low + high) / 2.0)
    };
    minimize(0.0, 1.0, &|u| minimize(0.0, 1.0 - u, &|v| distance_sq(&at(u, v)))).sqrt()
}
