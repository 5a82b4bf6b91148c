//! Half-spaces and their intersections.
//!
//! A segment is clipped by narrowing one interval per half-space; a face by cutting its loop of
//! corners at one half-space after another. Both work on any number of axes. A corner of a cut face
//! has the weights of the original corners, so that attributes can be interpolated.

use serde::{Deserialize, Serialize};
use zvf_model::Bounds;

use super::{BadRegion, fixed};

const AXES: usize = Bounds::MAX_AXES;

/// The points `p` with `normal · p <= offset`.
///
/// ```
/// use zvf_query::region::{HalfSpace, Region};
///
/// let below = HalfSpace::new(&[1.0, 1.0], 4.0)?;
/// assert!(Region::from_half_spaces(&[below])?.contains(&[2.0, 2.0]));
/// # Ok::<(), zvf_query::region::BadRegion>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "crate::data::HalfSpaceData", try_from = "crate::data::HalfSpaceData")]
pub struct HalfSpace {
    normal: [f64; AXES], // finite, not all zero, unused axes 0
    offset: f64,         // finite
    axes: usize,
}

impl HalfSpace {
    /// Creates the half-space of the points whose dot product with `normal` is at most `offset`.
    ///
    /// # Errors
    ///
    /// When `normal` has no axis, more than eight, or is zero, or a number is not finite.
    pub fn new(normal: &[f64], offset: f64) -> Result<Self, BadRegion> {
        let components = fixed(normal, offset, "half-space")?;
        if normal.iter().all(|n| *n == 0.0) {
            return Err(BadRegion::NoDirection);
        }
        Ok(Self { normal: components, offset, axes: normal.len() })
    }

    /// Returns the outward direction.
    ///
    /// ```
    /// use zvf_query::region::HalfSpace;
    ///
    /// let below = HalfSpace::new(&[0.0, 2.0], 6.0)?;
    /// assert_eq!((below.normal(), below.offset()), ([0.0, 2.0].as_slice(), 6.0));
    /// # Ok::<(), zvf_query::region::BadRegion>(())
    /// ```
    pub fn normal(&self) -> &[f64] {
        &self.normal[..self.axes]
    }

    /// Returns the largest dot product of the normal with a point inside.
    pub const fn offset(&self) -> f64 {
        self.offset
    }

    /// Returns the distance of `point` beyond the boundary, in units of the normal; at most 0
    /// inside.
    fn signed_distance(&self, point: &[f64]) -> f64 {
        self.normal.iter().zip(point).map(|(n, x)| n * x).sum::<f64>() - self.offset
    }

    /// Moves a corner that was computed on the boundary exactly onto it, if it is the face of a
    /// box: rounding must not leave it outside of the opposite face, which may be the same one.
    fn snap_to_faces(&self, corner: &mut Corner) {
        let mut along = self.normal.iter().zip(&mut corner.position).filter(|(n, _)| **n != 0.0);
        if let (Some((n, at)), None) = (along.next(), along.next()) {
            *at = self.offset / n;
        }
    }
}

/// A corner of a clipped face.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Corner {
    /// The weight of each original corner; they add up to 1.
    pub shares: [f64; AXES],
    position: [f64; AXES],
}

impl Corner {
    /// Returns its position.
    pub const fn position(&self) -> &[f64; AXES] {
        &self.position
    }

    fn interpolate(a: &Self, b: &Self, t: f64) -> Self {
        let mix = |from: &[f64; AXES], to: &[f64; AXES]| {
            let mut mixed = [0.0; AXES];
            for ((out, a), b) in mixed.iter_mut().zip(from).zip(to) {
                *out = a + (b - a) * t;
            }
            mixed
        };
        Self { shares: mix(&a.shares, &b.shares), position: mix(&a.position, &b.position) }
    }
}

/// The intersection of half-spaces.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Convex {
    spaces: Vec<HalfSpace>, // not empty, all with the same axes
}

impl Convex {
    pub(super) fn new(spaces: &[HalfSpace]) -> Result<Self, BadRegion> {
        let [first, rest @ ..] = spaces else { return Err(BadRegion::NoHalfSpace) };
        match rest.iter().find(|space| space.axes != first.axes) {
            Some(other) => Err(BadRegion::Axes { found: other.axes }),
            None => Ok(Self { spaces: spaces.to_vec() }),
        }
    }

    /// Returns the half-spaces of the finite faces of a box; none if the box is unbounded.
    pub(super) fn from_bounds(bounds: &Bounds) -> Self {
        let mut spaces = Vec::new();
        for (axis, (&low, &high)) in bounds.low().iter().zip(bounds.high()).enumerate() {
            for (sign, face) in [(-1.0, low), (1.0, high)] {
                let mut normal = [0.0; AXES];
                normal[axis] = sign;
                if face.is_finite() {
                    spaces.push(HalfSpace { normal, offset: sign * face, axes: bounds.axes() });
                }
            }
        }
        Self { spaces }
    }

    /// Adds a half-space.
    pub(super) fn with_half_space(mut self, space: HalfSpace) -> Self {
        self.spaces.push(space);
        self
    }

    pub(super) fn contains(&self, point: &[f64]) -> bool {
        self.spaces.iter().all(|space| space.signed_distance(point) <= 0.0)
    }

    /// Returns the bounding box of the axis-aligned half-spaces. The others can only make it
    /// smaller.
    pub(super) fn hull(&self) -> Result<Bounds, BadRegion> {
        let axes = self.spaces.first().map_or(0, |space| space.axes);
        let (mut low, mut high) = ([f64::NEG_INFINITY; AXES], [f64::INFINITY; AXES]);
        for space in &self.spaces {
            let mut along = space.normal.iter().enumerate().filter(|(_, n)| **n != 0.0);
            if let (Some((axis, n)), None) = (along.next(), along.next()) {
                let face = space.offset / n;
                if *n > 0.0 {
                    high[axis] = high[axis].min(face);
                } else {
                    low[axis] = low[axis].max(face);
                }
            }
        }
        Bounds::new(&low[..axes], &high[..axes]).map_err(|_empty| BadRegion::Apart)
    }

    /// Returns the part of the segment from `a` to `b` inside, from 0 to 1; `None` if there is none.
    pub(super) fn clip_segment(&self, a: &[f64], b: &[f64]) -> Option<(f64, f64)> {
        let (mut from, mut to) = (0.0_f64, 1.0_f64);
        for space in &self.spaces {
            let (at_a, at_b) = (space.signed_distance(a), space.signed_distance(b));
            if at_a.is_nan() || at_b.is_nan() || (at_a > 0.0 && at_b > 0.0) {
                return None;
            }
            let crossing = at_a / (at_a - at_b); // used only where the signs differ
            if at_a > 0.0 {
                from = from.max(crossing);
            } else if at_b > 0.0 {
                to = to.min(crossing);
            }
        }
        (from <= to).then_some((from, to))
    }

    /// Clips a face; returns the loop of its corners, empty if nothing is inside.
    pub(super) fn clip_face(&self, corners: &[&[f64]]) -> Vec<Corner> {
        let mut face: Vec<Corner> =
            corners.iter().take(AXES).enumerate().map(original_corner).collect();
        let mut cut = Vec::with_capacity(face.len() + 4);
        for space in &self.spaces {
            let beyond = |corner: &Corner| space.signed_distance(&corner.position);
            // An empty face has no last corner.
            let previous = face.iter().cycle().skip(face.len().saturating_sub(1));
            for (a, b) in previous.zip(&face) {
                let (at_a, at_b) = (beyond(a), beyond(b));
                if (at_a > 0.0 && at_b < 0.0) || (at_a < 0.0 && at_b > 0.0) {
                    let mut corner = Corner::interpolate(a, b, at_a / (at_a - at_b));
                    space.snap_to_faces(&mut corner);
                    cut.push(corner);
                }
                if at_b <= 0.0 {
                    cut.push(*b);
                }
            }
            std::mem::swap(&mut face, &mut cut);
            cut.clear();
        }
        face
    }
}

fn original_corner((i, position): (usize, &&[f64])) -> Corner {
    let (mut shares, mut coordinates) = ([0.0; AXES], [0.0; AXES]);
    shares[i] = 1.0;
    coordinates[..position.len()].copy_from_slice(position);
    Corner { shares, position: coordinates }
}
