//! Distances to triangles, and clipping of flat convex faces to the part over a triangle.
//!
//! The distance to a triangle is convex: its maximum over a face is at one of the corners.

use super::quadric::{cross, dot, subtract};

/// A triangle by its corners.
pub(super) type Triangle = [[f64; 3]; 3];

/// A triangle with precomputed values for measuring distances.
#[derive(Debug)]
pub(super) struct MeasuredTriangle {
    corners: Triangle,
    normal: [f64; 3],
    size: f64,             // of the normal, squared
    inward: [[f64; 3]; 3], // across each side
}

impl MeasuredTriangle {
    pub(super) fn new(corners: &Triangle) -> Self {
        let [a, b, c] = *corners;
        let normal = cross(subtract(b, a), subtract(c, a));
        let inward =
            [subtract(b, a), subtract(c, b), subtract(a, c)].map(|along| cross(normal, along));
        Self { corners: *corners, normal, size: dot(normal, normal), inward }
    }

    /// Returns the squared distance of a point.
    pub(super) fn distance_sq(&self, point: [f64; 3]) -> f64 {
        let [a, b, c] = self.corners;
        let over =
            |(from, inward): (&[f64; 3], &[f64; 3])| dot(subtract(point, *from), *inward) >= 0.0;
        if self.size > 0.0 && self.corners.iter().zip(&self.inward).all(over) {
            let height = dot(subtract(point, a), self.normal);
            return height * height / self.size;
        }
        segment_distance_sq(point, a, b)
            .min(segment_distance_sq(point, b, c))
            .min(segment_distance_sq(point, c, a))
    }

    /// Returns the squared distance of the farthest corner of a face; stops at the first one above
    /// `limit_sq`.
    pub(super) fn farthest_corner(&self, face: &Face, limit_sq: f64) -> f64 {
        let mut farthest = 0.0_f64;
        for corner in face.corners() {
            farthest = farthest.max(self.distance_sq(*corner));
            if farthest > limit_sq {
                break;
            }
        }
        farthest
    }
}

/// Returns the squared distance of a point from a segment.
fn segment_distance_sq(point: [f64; 3], from: [f64; 3], to: [f64; 3]) -> f64 {
    let (along, to_point) = (subtract(to, from), subtract(point, from));
    let length = dot(along, along);
    let share = if length > 0.0 { (dot(to_point, along) / length).clamp(0.0, 1.0) } else { 0.0 };
    let offset = subtract(to_point, along.map(|x| x * share));
    dot(offset, offset)
}

/// Returns the squared distance of a point from a triangle, to the nearest point up to rounding.
pub(super) fn nearest_sq([a, b, c]: &Triangle, point: [f64; 3]) -> f64 {
    let (ab, ac, ap) = (subtract(*b, *a), subtract(*c, *a), subtract(point, *a));
    let (d1, d2) = (dot(ab, ap), dot(ac, ap));
    if d1 <= 0.0 && d2 <= 0.0 {
        return dot(ap, ap);
    }
    let bp = subtract(point, *b);
    let (d3, d4) = (dot(ab, bp), dot(ac, bp));
    if d3 >= 0.0 && d4 <= d3 {
        return dot(bp, bp);
    }
    let line_distance_sq = |from: [f64; 3], along: [f64; 3], share: f64| {
        let offset = subtract(from, along.map(|x| x * share));
        dot(offset, offset)
    };
    let vc = d1 * d4 - d3 * d2;
    if vc <= 0.0 && d1 >= 0.0 && d3 <= 0.0 {
        return line_distance_sq(ap, ab, d1 / (d1 - d3));
    }
    let cp = subtract(point, *c);
    let (d5, d6) = (dot(ab, cp), dot(ac, cp));
    if d6 >= 0.0 && d5 <= d6 {
        return dot(cp, cp);
    }
    let vb = d5 * d2 - d1 * d6;
    if vb <= 0.0 && d2 >= 0.0 && d6 <= 0.0 {
        return line_distance_sq(ap, ac, d2 / (d2 - d6));
    }
    let va = d3 * d6 - d5 * d4;
    if va <= 0.0 && d4 >= d3 && d5 >= d6 {
        return line_distance_sq(bp, subtract(*c, *b), (d4 - d3) / ((d4 - d3) + (d5 - d6)));
    }
    let all = va + vb + vc;
    line_distance_sq(subtract(ap, ab.map(|x| x * (vb / all))), ac, vc / all)
}

/// A flat convex face.
#[derive(Clone, Copy, Debug)]
pub(super) struct Face {
    at: [[f64; 3]; MAX_CORNERS],
    len: usize,
}

impl Face {
    pub(super) const NOTHING: Self = Self { at: [[0.0; 3]; MAX_CORNERS], len: 0 };

    pub(super) fn from_triangle(triangle: &Triangle) -> Self {
        let mut face = Self::NOTHING;
        triangle.iter().for_each(|corner| face.push(*corner));
        face
    }

    pub(super) fn corners(&self) -> &[[f64; 3]] {
        self.at.get(..self.len).unwrap_or(&self.at)
    }

    fn push(&mut self, corner: [f64; 3]) {
        if let Some(to) = self.at.get_mut(self.len) {
            *to = corner;
        }
        self.len += 1;
    }

    const fn is_nothing(&self) -> bool {
        self.len == 0
    }

    /// Returns whether the whole face lies on one side of a plane or in it, and on which side.
    pub(super) fn side(&self, through: [f64; 3], normal: [f64; 3]) -> Option<bool> {
        let (mut in_front, mut behind) = (true, true);
        for corner in self.corners() {
            let side = dot(subtract(*corner, through), normal);
            (in_front, behind) = (in_front && side >= 0.0, behind && side <= 0.0);
        }
        (in_front || behind).then_some(in_front)
    }

    /// Returns the parts on either side of a plane through the face; `None` if there are too many
    /// corners.
    fn cut(&self, through: [f64; 3], normal: [f64; 3]) -> Option<[Self; 2]> {
        let (mut front, mut behind) = (*self, Self::NOTHING);
        front.clip(through, normal, &mut behind).then_some([front, behind])
    }

    /// Removes the part on the other side of a plane and puts it into `behind`; returns whether all
    /// corners fit.
    pub(super) fn clip(&mut self, through: [f64; 3], normal: [f64; 3], behind: &mut Self) -> bool {
        let side = |corner: &[f64; 3]| dot(subtract(*corner, through), normal);
        let (all, count) = (self.at, self.len);
        let all = all.get(..count).unwrap_or(&all);
        (self.len, behind.len) = (0, 0);
        let mut distance = all.first().map_or(0.0, side);
        for (corner, next) in all.iter().zip(all.iter().skip(1).chain(all.first())) {
            let next_distance = side(next);
            if distance >= 0.0 {
                self.push(*corner);
            }
            if distance <= 0.0 {
                behind.push(*corner);
            }
            if distance * next_distance < 0.0 {
                let along =
                    subtract(*next, *corner).map(|x| x * (distance / (distance - next_distance)));
                let mut between = *corner;
                between.iter_mut().zip(along).for_each(|(x, more)| *x += more);
                self.push(between);
                behind.push(between);
            }
            distance = next_distance;
        }
        self.len.max(behind.len) <= MAX_CORNERS
    }

    /// Clips the face to the prism over a triangle and pushes the parts outside of the prism to
    /// `outside`. Returns `None` if no part lies over the triangle, or a cut fails: then the caller
    /// discards the content of `outside`.
    pub(super) fn clip_to(
        &self,
        measured: &MeasuredTriangle,
        outside: &mut Vec<Self>,
    ) -> Option<Self> {
        let planes = || measured.corners.iter().zip(&measured.inward);
        if planes().any(|(through, inward)| self.side(*through, *inward) == Some(false)) {
            return None;
        }
        let mut over = *self;
        for (through, inward) in planes() {
            match over.side(*through, *inward) {
                Some(true) => {}
                Some(false) => return None,
                None => {
                    let [front, behind] = over.cut(*through, *inward)?;
                    over = front;
                    outside.push(behind);
                }
            }
        }
        Some(over)
    }

    /// Returns both halves, split across the longest diagonal, or through two corners if there are
    /// many; the face itself if it has no extent.
    pub(super) fn halves(&self) -> impl Iterator<Item = Self> + use<> {
        let pairs = self.corners().iter().flat_map(|a| self.corners().iter().map(move |b| (a, b)));
        let length = |(a, b): &(&[f64; 3], &[f64; 3])| {
            let along = subtract(**b, **a);
            dot(along, along)
        };
        let longest = pairs.max_by(|a, b| length(a).total_cmp(&length(b)));
        let across = |(from, to): (&[f64; 3], &[f64; 3])| {
            let (through, along) = (midpoint(*from, *to), subtract(*to, *from));
            if self.side(through, along).is_some() { None } else { self.cut(through, along) }
        };
        let parts = if self.len > MAX_UNSPLIT_CORNERS { None } else { longest.and_then(across) };
        parts.unwrap_or_else(|| self.fans()).into_iter().filter(|half| !half.is_nothing())
    }

    /// Returns both sides of the line from the first corner to the middle one.
    fn fans(&self) -> [Self; 2] {
        let middle = self.len / 2;
        let [mut first, mut second] = [Self::NOTHING; 2];
        for (number, corner) in self.corners().iter().enumerate() {
            if number <= middle {
                first.push(*corner);
            }
            if number >= middle || number == 0 {
                second.push(*corner);
            }
        }
        if self.len > 3 { [first, second] } else { [*self, Self::NOTHING] }
    }
}

/// Returns the bounding box of some points.
pub(super) fn bounds(points: &[[f64; 3]]) -> [[f64; 3]; 2] {
    let (mut low, mut high) = ([f64::INFINITY; 3], [f64::NEG_INFINITY; 3]);
    for point in points {
        low.iter_mut().zip(point).for_each(|(to, x)| *to = to.min(*x));
        high.iter_mut().zip(point).for_each(|(to, x)| *to = to.max(*x));
    }
    [low, high]
}

pub(super) fn midpoint([x, y, z]: [f64; 3], [u, v, w]: [f64; 3]) -> [f64; 3] {
    [(x + u) / 2.0, (y + v) / 2.0, (z + w) / 2.0]
}

/// The largest number of corners of a face: a triangle cut by five planes.
const MAX_CORNERS: usize = 8;
/// A face with more corners is split along a diagonal.
const MAX_UNSPLIT_CORNERS: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    const FLAT: Triangle = [[0.0, 0.0, 0.0], [4.0, 0.0, 0.0], [0.0, 4.0, 0.0]];

    fn area(face: &Face) -> f64 {
        let Some(origin) = face.corners().first() else { return 0.0 };
        let fan = face.corners().windows(2).map(|pair| {
            let normal = cross(subtract(pair[0], *origin), subtract(pair[1], *origin));
            dot(normal, normal).sqrt() / 2.0
        });
        fan.sum()
    }

    #[test]
    fn distances_are_those_to_the_triangle() {
        let measured = MeasuredTriangle::new(&FLAT);
        for (point, expected) in [
            ([1.0, 1.0, 3.0], 9.0),
            ([-3.0, 0.0, 4.0], 25.0),
            ([4.0, 4.0, 0.0], 8.0),
            ([0.0, 0.0, 0.0], 0.0),
        ] {
            let actual = measured.distance_sq(point);
            assert!((actual - expected).abs() < 1e-12, "{point:?}: {actual}");
        }
        // Both distance functions agree at every point.
        let steps = || (-6..=12).map(|step| f64::from(step) * 0.5);
        let tilted = [[0.0, 0.5, 0.0], [4.0, 0.0, 1.0], [1.0, 4.0, -0.5]];
        for triangle in [FLAT, tilted] {
            let measured = MeasuredTriangle::new(&triangle);
            for point in
                steps().flat_map(|x| steps().flat_map(move |y| steps().map(move |z| [x, y, z])))
            {
                let (by_plate, by_triangle) =
                    (measured.distance_sq(point), nearest_sq(&triangle, point));
                assert!(
                    (by_plate - by_triangle).abs() < 1e-12,
                    "{point:?}: {by_plate}, {by_triangle}"
                );
            }
        }
        let line = MeasuredTriangle::new(&[[0.0; 3], [4.0, 0.0, 0.0], [2.0, 0.0, 0.0]]);
        assert_eq!(line.distance_sq([2.0, 1.0, 0.0]), 1.0);
    }

    #[test]
    fn clipping_splits_a_face_into_inside_and_outside() {
        let (measured, mut outside) = (MeasuredTriangle::new(&FLAT), Vec::new());
        let face = Face::from_triangle(&[[1.0, 1.0, 1.0], [5.0, 1.0, 1.0], [1.0, 5.0, 1.0]]);
        let inside = face.clip_to(&measured, &mut outside).unwrap();
        assert!((area(&inside) - 2.0).abs() < 1e-12, "{inside:?}");
        let outside_area: f64 = outside.iter().map(area).sum();
        assert!((area(&inside) + outside_area - area(&face)).abs() < 1e-12);
        assert_eq!(measured.farthest_corner(&inside, 9.0), 1.0);

        let distant = Face::from_triangle(&[[9.0, 9.0, 0.0], [8.0, 9.0, 0.0], [9.0, 8.0, 0.0]]);
        let count = outside.len();
        assert!(distant.clip_to(&measured, &mut outside).is_none() && outside.len() == count);
    }

    #[test]
    fn halves_have_the_area_of_the_face() {
        let mut faces = vec![Face::from_triangle(&FLAT)];
        for _ in 0..6 {
            faces = faces.iter().flat_map(Face::halves).collect();
        }
        assert!(faces.len() == 64 && faces.iter().all(|face| area(face) > 0.0));
        let total: f64 = faces.iter().map(area).sum();
        assert!((total - 8.0).abs() < 1e-12);
        // A degenerate face is not split.
        let point = Face::from_triangle(&[[1.0; 3]; 3]);
        assert_eq!(point.halves().count(), 1);
    }
}
