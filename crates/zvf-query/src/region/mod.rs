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
//! nothing else (segments and faces are tested against the closed box), so that boxes side by side
//! never share a vertex. Arithmetic is `f64` on stored values widened without loss.
//!
//! Not here: which cells a region needs (`zvf-format::grid` and the plan), and rows of a cell (the
//! answer).

mod ball;
mod convex;
mod prism;

use thiserror::Error;
use zvf_model::Bounds;

pub(crate) use ball::Ball;
pub(crate) use convex::Convex;
pub use convex::{Corner, HalfSpace};
pub(crate) use prism::Prism;

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
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(into = "crate::data::RegionData", try_from = "crate::data::RegionData")
)]
pub struct Region {
    shape: Shape,
    hull: Bounds,    // contains the region; infinite where the region is
    half_open: bool, // only with Shape::Box
}

#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a question has one, and never lists of them")]
pub(crate) enum Shape {
    Box(Convex),
    Ball(Ball),
    Convex(Convex),
    Prism(Prism),
}

impl From<Bounds> for Region {
    fn from(bounds: Bounds) -> Self {
        Self { shape: Shape::Box(Convex::from_bounds(&bounds)), hull: bounds, half_open: false }
    }
}

impl Region {
    /// Creates the ball of everything at most `radius` away from `centre`.
    ///
    /// # Errors
    ///
    /// When `centre` has no axis, more than eight, or a coordinate that is not finite, or `radius` is
    /// negative or not finite.
    pub fn ball(centre: &[f64], radius: f64) -> Result<Self, BadRegion> {
        let ball = Ball::new(centre, radius)?;
        Ok(Self { hull: ball.hull()?, shape: Shape::Ball(ball), half_open: false })
    }

    /// Creates the region of what all of `spaces` have in common.
    ///
    /// # Errors
    ///
    /// When there is none, they differ in axes, or one has no direction or a number that is not finite.
    pub fn from_half_spaces(spaces: &[HalfSpace]) -> Result<Self, BadRegion> {
        let convex = Convex::new(spaces)?;
        Ok(Self { hull: convex.hull()?, shape: Shape::Convex(convex), half_open: false })
    }

    /// Creates a prism: the simple polygon `outline` on the two axes `on`, within `limits` on every axis.
    ///
    /// The limits of the two axes of the polygon apply as well; leave them infinite to have the
    /// polygon alone.
    ///
    /// # Errors
    ///
    /// When the polygon has fewer than three corners, no area or a number that is not finite, or the
    /// axes are equal or past those of `limits`.
    pub fn prism(outline: &[[f64; 2]], on: [usize; 2], limits: &Bounds) -> Result<Self, BadRegion> {
        let prism = Prism::new(outline, on, limits)?;
        Ok(Self { hull: prism.hull(), shape: Shape::Prism(prism), half_open: false })
    }

    /// Makes a box half-open: without the points on its upper faces. Other regions are unchanged.
    #[must_use]
    pub fn into_half_open(self) -> Self {
        let half_open = matches!(self.shape, Shape::Box(_));
        Self { half_open, ..self }
    }

    /// Returns its shape.
    #[cfg(feature = "serde")]
    pub(crate) const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the number of axes.
    #[must_use]
    pub const fn axes(&self) -> usize {
        self.hull.axes()
    }

    /// Returns a box around the region, infinite where the region is.
    #[must_use]
    pub const fn hull(&self) -> &Bounds {
        &self.hull
    }

    /// Returns the box itself when the region is one, and whether its upper faces belong to it.
    #[must_use]
    pub const fn as_box(&self) -> Option<(&Bounds, bool)> {
        match self.shape {
            Shape::Box(_) => Some((&self.hull, !self.half_open)),
            Shape::Ball(_) | Shape::Convex(_) | Shape::Prism(_) => None,
        }
    }

    /// Returns whether the boundary is curved, so that faces cannot be cut at it.
    #[must_use]
    pub const fn is_curved(&self) -> bool {
        matches!(self.shape, Shape::Ball(_))
    }

    /// Returns whether `point` is in the region. A point with a NaN is not.
    #[must_use]
    pub fn contains(&self, point: &[f64]) -> bool {
        match &self.shape {
            Shape::Box(_) if self.half_open => self.hull.contains_half_open(point),
            Shape::Box(_) => self.hull.contains(point),
            Shape::Ball(ball) => ball.contains(point),
            Shape::Convex(convex) => convex.contains(point),
            Shape::Prism(prism) => prism.pieces().any(|piece| piece.contains(point)),
        }
    }

    /// Returns whether `point` is in the region, upper faces of a half-open box included, as a cut at them can be.
    pub(crate) fn contains_closed(&self, point: &[f64]) -> bool {
        match &self.shape {
            Shape::Box(_) => self.hull.contains(point),
            Shape::Ball(_) | Shape::Convex(_) | Shape::Prism(_) => self.contains(point),
        }
    }

    /// Returns whether the segment from `a` to `b` has a point in the region.
    #[must_use]
    pub fn meets_segment(&self, a: &[f64], b: &[f64]) -> bool {
        match &self.shape {
            Shape::Box(convex) | Shape::Convex(convex) => convex.clip_segment(a, b).is_some(),
            Shape::Ball(ball) => ball.clip_segment(a, b).is_some(),
            Shape::Prism(prism) => prism.pieces().any(|piece| piece.clip_segment(a, b).is_some()),
        }
    }

    /// Finds the parts of the segment from `a` to `b` that are in the region, as intervals of its length
    /// from 0 to 1, ascending and apart, and puts them into `parts`.
    pub fn clip_segment(&self, a: &[f64], b: &[f64], parts: &mut Vec<(f64, f64)>) {
        parts.clear();
        match &self.shape {
            Shape::Box(convex) | Shape::Convex(convex) => parts.extend(convex.clip_segment(a, b)),
            Shape::Ball(ball) => parts.extend(ball.clip_segment(a, b)),
            Shape::Prism(prism) => {
                parts.extend(prism.pieces().filter_map(|piece| piece.clip_segment(a, b)));
                join_touching(parts);
            }
        }
    }

    /// Returns whether the face with these corners has a point in the region. A face of more than three
    /// corners is the fan of triangles around its first.
    #[must_use]
    pub fn meets_face(&self, corners: &[&[f64]]) -> bool {
        let [first, rest @ ..] = corners else { return false };
        match rest {
            [] => self.contains(first),
            [second] => self.meets_segment(first, second),
            _ => rest.windows(2).any(|pair| match pair {
                [second, third] => self.meets_triangle([first, second, third]),
                _ => false,
            }),
        }
    }

    fn meets_triangle(&self, corners: [&[f64]; 3]) -> bool {
        let convex = |convex: &Convex| !convex.clip_face(&corners).is_empty();
        match &self.shape {
            Shape::Box(shape) | Shape::Convex(shape) => convex(shape),
            Shape::Ball(ball) => ball.meets_triangle(corners),
            Shape::Prism(prism) => prism.pieces().any(convex),
        }
    }

    /// Returns the face with these corners cut at the region's boundary: each piece is a loop of corners that
    /// say how much of each given corner they are made of.
    ///
    /// # Errors
    ///
    /// [`BadRegion::CurvedCut`] for a ball: its cut is no polygon.
    pub fn clip_face(&self, corners: &[&[f64]]) -> Result<Vec<Vec<Corner>>, BadRegion> {
        let pieces: Vec<Vec<Corner>> = match &self.shape {
            Shape::Box(convex) | Shape::Convex(convex) => vec![convex.clip_face(corners)],
            Shape::Prism(prism) => prism.pieces().map(|piece| piece.clip_face(corners)).collect(),
            Shape::Ball(_) => return Err(BadRegion::CurvedCut),
        };
        // Fewer than three corners is contact without area.
        Ok(pieces.into_iter().filter(|piece| piece.len() > 2).collect())
    }
}

/// Sorts intervals and joins those that meet.
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
        /// How many there are where it is wrong.
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
