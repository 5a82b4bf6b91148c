//! Geometry by brute force, as expected results. Boxes are closed.
//!
//! All functions clip: a segment against one pair of faces after the other, a polygon against one
//! half-space after the other. A non-empty result means that the box is met.

/// An axis-aligned box, its faces included.
pub(crate) struct Cube {
    pub(crate) low: Vec<f64>,
    pub(crate) high: Vec<f64>,
}

impl Cube {
    pub(crate) fn contains(&self, point: &[f64]) -> bool {
        let sides = self.low.iter().zip(&self.high);
        point.iter().zip(sides).all(|(x, (low, high))| low <= x && x <= high)
    }

    /// Returns whether a point is inside, upper faces excluded.
    pub(crate) fn contains_half_open(&self, point: &[f64]) -> bool {
        let sides = self.low.iter().zip(&self.high);
        point.iter().zip(sides).all(|(x, (low, high))| low <= x && x < high)
    }

    pub(crate) fn centre(&self) -> Vec<f64> {
        self.low.iter().zip(&self.high).map(|(low, high)| low.midpoint(*high)).collect()
    }

    pub(crate) fn longest_side(&self) -> f64 {
        self.low.iter().zip(&self.high).map(|(low, high)| high - low).fold(0.0, f64::max)
    }

    /// Returns the part of the segment from `a` to `b` inside the box, as parameters; `None` if it
    /// is empty.
    fn clip_segment(&self, a: &[f64], b: &[f64]) -> Option<(f64, f64)> {
        let (mut from, mut to) = (0.0_f64, 1.0_f64);
        for axis in 0..a.len() {
            let (start, step) = (a[axis], b[axis] - a[axis]);
            if step == 0.0 {
                if start < self.low[axis] || self.high[axis] < start {
                    return None;
                }
                continue;
            }
            let (at_low, at_high) =
                ((self.low[axis] - start) / step, (self.high[axis] - start) / step);
            from = from.max(at_low.min(at_high));
            to = to.min(at_low.max(at_high));
        }
        (from <= to).then_some((from, to))
    }

    /// Returns whether a point of a chain is inside; a single point is a chain.
    pub(crate) fn meets_chain(&self, points: &[Vec<f64>]) -> bool {
        points.iter().any(|point| self.contains(point))
            || points.windows(2).any(|pair| self.clip_segment(&pair[0], &pair[1]).is_some())
    }

    /// Returns the length of the part of a chain inside the box.
    pub(crate) fn length_inside(&self, points: &[Vec<f64>]) -> f64 {
        let part = |pair: &[Vec<f64>]| {
            let (from, to) = self.clip_segment(&pair[0], &pair[1]).unwrap_or_default();
            (to - from) * distance(&pair[0], &pair[1])
        };
        points.windows(2).map(part).sum()
    }

    /// Returns whether a point of an edge, or of a flat face, is inside.
    pub(crate) fn meets_element(&self, corners: &[Vec<f64>]) -> bool {
        match corners {
            [a, b] => self.clip_segment(a, b).is_some(),
            // A face with more corners is a fan of triangles.
            [first, rest @ ..] => rest.windows(2).any(|pair| {
                self.meets_triangle(&[first.clone(), pair[0].clone(), pair[1].clone()])
            }),
            [] => false,
        }
    }

    fn meets_triangle(&self, corners: &[Vec<f64>; 3]) -> bool {
        let mut left = corners.to_vec();
        for axis in 0..self.low.len() {
            left = clip_to_half_space(&left, |point| point[axis] - self.low[axis]);
            left = clip_to_half_space(&left, |point| self.high[axis] - point[axis]);
        }
        !left.is_empty()
    }
}

/// Returns the part of a polygon where `depth` is not negative.
fn clip_to_half_space(polygon: &[Vec<f64>], depth: impl Fn(&[f64]) -> f64) -> Vec<Vec<f64>> {
    let mut left = Vec::new();
    for (i, point) in polygon.iter().enumerate() {
        let next = &polygon[(i + 1) % polygon.len()];
        let (depth_here, depth_next) = (depth(point), depth(next));
        if depth_here >= 0.0 {
            left.push(point.clone());
        }
        if (depth_here > 0.0 && depth_next < 0.0) || (depth_here < 0.0 && depth_next > 0.0) {
            let t = depth_here / (depth_here - depth_next);
            left.push(point.iter().zip(next).map(|(a, b)| a + t * (b - a)).collect());
        }
    }
    left
}

/// Returns the length of a chain.
pub(crate) fn chain_length(points: &[Vec<f64>]) -> f64 {
    points.windows(2).map(|pair| distance(&pair[0], &pair[1])).sum()
}

pub(crate) fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_what_it_should() {
        let unit = Cube { low: vec![0.0; 3], high: vec![1.0; 3] };
        assert_eq!(unit.clip_segment(&[-1.0, 0.5, 0.5], &[3.0, 0.5, 0.5]), Some((0.25, 0.5)));
        assert_eq!(unit.clip_segment(&[-1.0, 1.5, 0.5], &[3.0, 1.5, 0.5]), None);
        assert_eq!(unit.clip_segment(&[1.0, 1.0, 1.0], &[2.0, 2.0, 2.0]), Some((0.0, 0.0)));
        let through = [vec![-9.0, 0.5, 0.5], vec![9.0, -9.0, 0.5], vec![9.0, 9.0, 0.5]];
        assert!(unit.meets_element(&through), "a face around the box, no corner or side near it");
        let outside = [vec![2.0, 0.0, 0.5], vec![0.0, 2.5, 0.5], vec![2.0, 2.0, 0.5]];
        assert!(!unit.meets_element(&outside));
    }
}
