//! The region of space of a query, and the geometric operations on it.
//!
//! ```text
//! Region     made of                                clip segments   clip polygons
//! box        two corners, closed or half-open       yes             yes
//! ball       centre and radius                      yes             no: the cut would be curved
//! convex     half-spaces                            yes             yes
//! prism      a polygon on two axes, limits on       yes             yes, in the convex pieces
//!            the others                                             of the polygon
//! ```
//!
//! All tests are closed: touching counts. A half-open box leaves out points on its upper faces, and
//! nothing else (segments and faces are tested against the closed box), so that adjacent boxes
//! never share a vertex. Arithmetic is `f64` on stored values widened without loss.
//!
//! Not here: the cells that a region needs (`zvf-format::grid` and the plan), and the rows of a
//! cell (the answer).

mod ball;
mod convex;
mod prism;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use zvf_model::Bounds;

use ball::Ball;
use convex::Convex;
pub use convex::{Corner, HalfSpace};

/// A region of space.
///
/// ```
/// use zvf_model::Bounds;
/// use zvf_query::region::Region;
///
/// let region = Region::from(Bounds::new(&[0.0, 0.0], &[4.0, 4.0])?);
/// assert!(region.contains(&[4.0, 2.0]));
/// assert!(region.meets_segment(&[-1.0, 3.0], &[3.0, 7.0])); // touches the corner (0, 4)
/// assert!(!region.meets_segment(&[-1.0, 4.0], &[3.0, 8.0]));
/// # Ok::<(), zvf_model::BadBounds>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "Form", try_from = "Form")]
pub struct Region {
    pub(crate) form: Form,
    hull: Bounds, // contains the region; infinite where the region is
    ball: Option<Ball>,
    pieces: Vec<Convex>, // not empty unless it is a ball
}

/// The definition of a region, which is also its form as data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Form {
    Box {
        #[serde(with = "crate::data::numbers")]
        low: Vec<f64>,
        #[serde(with = "crate::data::numbers")]
        high: Vec<f64>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        half_open: bool,
    },
    Ball {
        #[serde(with = "crate::data::numbers")]
        centre: Vec<f64>,
        #[serde(with = "crate::data::number")]
        radius: f64,
    },
    HalfSpaces(Vec<HalfSpace>),
    Prism {
        outline: Vec<[f64; 2]>,
        on: [usize; 2],
        #[serde(with = "crate::data::numbers")]
        low: Vec<f64>,
        #[serde(with = "crate::data::numbers")]
        high: Vec<f64>,
    },
}

impl From<Bounds> for Region {
    fn from(bounds: Bounds) -> Self {
        let (low, high) = (bounds.low().to_vec(), bounds.high().to_vec());
        let form = Form::Box { low, high, half_open: false };
        Self { form, hull: bounds, ball: None, pieces: vec![Convex::from_bounds(&bounds)] }
    }
}

impl Region {
    /// Creates the ball of all points at most `radius` away from `centre`.
    ///
    /// # Errors
    ///
    /// When `centre` has no axis, more than eight, or a coordinate that is not finite, or `radius` is
    /// negative or not finite.
    pub fn ball(centre: &[f64], radius: f64) -> Result<Self, BadRegion> {
        let ball = Ball::new(centre, radius)?;
        let form = Form::Ball { centre: centre.to_vec(), radius };
        Ok(Self { form, hull: ball.hull()?, ball: Some(ball), pieces: Vec::new() })
    }

    /// Creates the intersection of `spaces`.
    ///
    /// # Errors
    ///
    /// When there is none, they differ in axes, or one has no direction or a number that is not finite.
    pub fn from_half_spaces(spaces: &[HalfSpace]) -> Result<Self, BadRegion> {
        let convex = Convex::new(spaces)?;
        let form = Form::HalfSpaces(spaces.to_vec());
        Ok(Self { form, hull: convex.hull()?, ball: None, pieces: vec![convex] })
    }

    /// Creates a prism: the simple polygon `outline` on the two axes `on`, within `limits` on every axis.
    ///
    /// The limits also apply to the two axes of the polygon; leave them infinite for the polygon
    /// alone.
    ///
    /// # Errors
    ///
    /// When the polygon has fewer than three corners, no area or a number that is not finite, or the
    /// axes are equal or past those of `limits`.
    pub fn prism(outline: &[[f64; 2]], on: [usize; 2], limits: &Bounds) -> Result<Self, BadRegion> {
        let (pieces, hull) = prism::pieces(outline, on, limits)?;
        let (outline, low, high) =
            (outline.to_vec(), limits.low().to_vec(), limits.high().to_vec());
        Ok(Self { form: Form::Prism { outline, on, low, high }, hull, ball: None, pieces })
    }

    /// Makes a box half-open: without the points on its upper faces. Other regions are unchanged.
    #[must_use]
    pub fn into_half_open(mut self) -> Self {
        if let Form::Box { half_open, .. } = &mut self.form {
            *half_open = true;
        }
        self
    }

    /// Returns the number of axes.
    pub const fn axes(&self) -> usize {
        self.hull.axes()
    }

    /// Returns a bounding box, which is infinite if the region is.
    pub const fn hull(&self) -> &Bounds {
        &self.hull
    }

    /// Returns the box if the region is one, and whether its upper faces belong to it.
    pub const fn as_box(&self) -> Option<(&Bounds, bool)> {
        if let Form::Box { half_open, .. } = &self.form {
            return Some((&self.hull, !*half_open));
        }
        None
    }

    /// Returns whether the boundary is curved, so that faces cannot be clipped at it.
    pub const fn is_curved(&self) -> bool {
        self.ball.is_some()
    }

    /// Returns whether `point` is in the region. False for a point with NaN.
    pub fn contains(&self, point: &[f64]) -> bool {
        match (self.as_box(), &self.ball) {
            (Some((bounds, true)), _) => bounds.contains(point),
            (Some((bounds, false)), _) => bounds.contains_half_open(point),
            (None, Some(ball)) => ball.contains(point),
            (None, None) => self.pieces.iter().any(|piece| piece.contains(point)),
        }
    }

    /// Returns whether `point` is in the region, including the upper faces of a half-open box,
    /// where a cut may be.
    pub(crate) fn contains_closed(&self, point: &[f64]) -> bool {
        self.as_box().map_or_else(|| self.contains(point), |(bounds, _)| bounds.contains(point))
    }

    /// Returns whether the segment from `a` to `b` has a point in the region.
    pub fn meets_segment(&self, a: &[f64], b: &[f64]) -> bool {
        match &self.ball {
            Some(ball) => ball.clip_segment(a, b).is_some(),
            None => self.pieces.iter().any(|piece| piece.clip_segment(a, b).is_some()),
        }
    }

    /// Appends to `parts` the parts of the segment from `a` to `b` that are in the region, as
    /// disjoint ascending intervals from 0 to 1.
    pub fn clip_segment(&self, a: &[f64], b: &[f64], parts: &mut Vec<(f64, f64)>) {
        parts.clear();
        match &self.ball {
            Some(ball) => parts.extend(ball.clip_segment(a, b)),
            None => parts.extend(self.pieces.iter().filter_map(|piece| piece.clip_segment(a, b))),
        }
        join_touching(parts);
    }

    /// Returns whether the face with these corners has a point in the region. A face of more than three
    /// corners is the fan of triangles around its first.
    pub fn meets_face(&self, corners: &[&[f64]]) -> bool {
        match corners {
            [] => false,
            [only] => self.contains(only),
            [first, second] => self.meets_segment(first, second),
            [first, rest @ ..] => {
                let mut fan = rest.windows(2).map(|pair| [*first, pair[0], pair[1]]);
                match &self.ball {
                    Some(ball) => fan.any(|corners| ball.meets_triangle(corners)),
                    None => fan.any(|corners| {
                        self.pieces.iter().any(|piece| !piece.clip_face(&corners).is_empty())
                    }),
                }
            }
        }
    }

    /// Clips the face with these corners at the region's boundary: each piece is a loop of corners
    /// with the weights of the original corners.
    ///
    /// # Errors
    ///
    /// [`BadRegion::CurvedCut`] for a ball: its cut is not a polygon.
    pub fn clip_face(&self, corners: &[&[f64]]) -> Result<Vec<Vec<Corner>>, BadRegion> {
        if self.ball.is_some() {
            return Err(BadRegion::CurvedCut);
        }
        let pieces = self.pieces.iter().map(|piece| piece.clip_face(corners));
        // Fewer than three corners is contact without area.
        Ok(pieces.filter(|piece| piece.len() > 2).collect())
    }
}

/// Returns a point or direction with unused axes 0, if it and a number that belongs to it are
/// finite.
fn fixed(
    values: &[f64],
    number: f64,
    what: &'static str,
) -> Result<[f64; Bounds::MAX_AXES], BadRegion> {
    let mut fixed = [0.0; Bounds::MAX_AXES];
    match fixed.get_mut(..values.len()) {
        Some(used @ [_, ..]) => used.copy_from_slice(values),
        Some([]) | None => return Err(BadRegion::Axes { found: values.len() }),
    }
    let finite = number.is_finite() && values.iter().all(|x| x.is_finite());
    if finite { Ok(fixed) } else { Err(BadRegion::NotFinite { what }) }
}

/// Sorts intervals and merges touching ones.
fn join_touching(parts: &mut Vec<(f64, f64)>) {
    parts.sort_by(|a, b| a.0.total_cmp(&b.0));
    parts.dedup_by(|next, last| {
        let touch = next.0 <= last.1;
        if touch {
            last.1 = last.1.max(next.1);
        }
        touch
    });
}

/// An invalid region, or an operation that a region does not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BadRegion {
    /// No axis, more than eight, or parts that differ in axes.
    #[error("a region needs 1 to 8 axes, the same everywhere, found {found}")]
    Axes {
        /// The invalid number.
        found: usize,
    },
    /// A number that is NaN or infinite.
    #[error("a region cannot have a {what} that is not finite")]
    NotFinite {
        /// What the number is.
        what: &'static str,
    },
    /// A radius below zero.
    #[error("a ball cannot have a negative radius")]
    NegativeRadius,
    /// A half-space whose normal is zero.
    #[error("a half-space needs a direction: its normal is zero")]
    NoDirection,
    /// Nothing to intersect.
    #[error("a convex region needs at least one half-space")]
    NoHalfSpace,
    /// Half-spaces that do not meet.
    #[error("the half-spaces do not meet: no point is in all of them")]
    Apart,
    /// A polygon without area.
    #[error(
        "a prism needs a simple polygon with area: at least three corners that are not in line"
    )]
    NoArea,
    /// Axes that do not exist or are the same.
    #[error(
        "a prism's polygon lies on two different axes of the store, found {first} and {second}"
    )]
    PolygonAxes {
        /// The first axis given.
        first: usize,
        /// The second axis given.
        second: usize,
    },
    /// Faces cut at a ball.
    #[error("faces cannot be clipped to a ball, the cut would be curved: use touch, or a box")]
    CurvedCut,
}

impl From<BadRegion> for zvf_error::Error {
    fn from(error: BadRegion) -> Self {
        Self::from_cause(zvf_format::Class::InvalidArgument, error).with_op("query")
    }
}

#[cfg(test)]
mod tests;
