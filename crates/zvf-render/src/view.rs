//! The viewpoint of a picture, and the projection of points.
//!
//! ```text
//! turn   degrees around the third axis, from the front     0  looks along the second axis, from its low end
//! lift   degrees above the plane of the first two          90 looks from above
//!
//! right   = ( cos turn,            sin turn,           0        )
//! towards = ( sin turn cos lift,  -cos turn cos lift,  sin lift )    to the viewer
//! up      = towards x right
//! ```
//!
//! All three are in pixels, so that lengths and normals are comparable.

use std::fmt;
use std::str::FromStr;

use zvf_error::{Error, Result};

use crate::error::setting_error;
use crate::size::Size;

/// A viewpoint.
///
/// ```
/// use zvf_render::View;
///
/// assert_eq!("top".parse::<View>()?, View::TOP);
/// assert_eq!("30,20".parse::<View>()?, View { turn: 30.0, lift: 20.0 });
/// # Ok::<(), zvf_error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View {
    /// Degrees around the third axis, from the front.
    pub turn: f64,
    /// Degrees above the plane of the first two axes.
    pub lift: f64,
}

impl View {
    /// From above: the first axis to the right, the second one up.
    pub const TOP: Self = Self { turn: 0.0, lift: 90.0 };
    /// The first axis to the right, the third one up.
    pub const FRONT: Self = Self { turn: 0.0, lift: 0.0 };
    /// The second axis to the right, the third one up.
    pub const SIDE: Self = Self { turn: 90.0, lift: 0.0 };
    /// From a corner: all three axes are visible.
    pub const CORNER: Self = Self { turn: 30.0, lift: 30.0 };

    /// The anatomical names are of axes that go to the right, to the front and up.
    const NAMED: [(&'static str, Self); 10] = [
        ("top", Self::TOP),
        ("front", Self::FRONT),
        ("side", Self::SIDE),
        ("corner", Self::CORNER),
        ("superior", Self::TOP),
        ("inferior", Self { turn: 0.0, lift: -90.0 }),
        ("posterior", Self::FRONT),
        ("anterior", Self { turn: 180.0, lift: 0.0 }),
        ("right", Self::SIDE),
        ("left", Self { turn: 270.0, lift: 0.0 }),
    ];
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMED.iter().find(|(_, view)| view == self) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{},{}", self.turn, self.lift),
        }
    }
}

impl FromStr for View {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if let Some((_, view)) = Self::NAMED.iter().find(|(name, _)| *name == text) {
            return Ok(*view);
        }
        let degrees =
            |text: &str| text.trim().parse::<f64>().ok().filter(|angle| angle.is_finite());
        let angles = text.split_once(',').and_then(|(turn, lift)| degrees(turn).zip(degrees(lift)));
        let expected =
            "top, front, side, corner, an anatomical name, or two angles in degrees such as 30,20";
        let (turn, lift) =
            angles.ok_or_else(|| setting_error("view", expected, format!("{text:?}")))?;
        Ok(Self { turn, lift })
    }
}

/// The projection of a box with a view and a size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Camera {
    rows: [[f64; 3]; 3], // right, up, towards
    centre: [f64; 3],
    pub(crate) scale: f64, // pixels a unit; finite and above 0
    middle: [f64; 2],      // of the picture
}

impl Camera {
    /// Fits the box from `low` to `high` into the picture.
    pub(crate) fn new(
        low: [f64; 3],
        high: [f64; 3],
        view: View,
        size: Size,
        margin: f64,
    ) -> Result<Self> {
        let ((sin, cos), (sin_lift, cos_lift)) = (sin_cos(view.turn), sin_cos(view.lift));
        let right = [cos, sin, 0.0];
        let towards = [sin * cos_lift, -cos * cos_lift, sin_lift];
        let up = cross(towards, right);
        let (mut centre, mut extent) = ([0.0; 3], [0.0; 3]);
        let corners = low.iter().zip(&high);
        for ((low, high), (centre, extent)) in corners.zip(centre.iter_mut().zip(&mut extent)) {
            *centre = low + (high - low) / 2.0;
            *extent = high - low;
        }
        let visible_extent = |axis: [f64; 3]| dot(axis.map(f64::abs), extent);
        let [width, height] = [size.width, size.height].map(f64::from);
        let room = |pixels: f64, extent: f64| (pixels - 2.0 * margin).max(1.0) / extent;
        // Without an extent, the point is in the middle.
        let scale = room(width, visible_extent(right)).min(room(height, visible_extent(up)));
        let scale = if scale == f64::INFINITY { 1.0 } else { scale };
        let finite = centre.iter().chain(&extent).all(|x| x.is_finite());
        if !finite || scale.is_nan() || scale <= 0.0 {
            let expected = "a finite box, its lowest corner first";
            let found = format!("{low:?} to {high:?}");
            return Err(setting_error("bounds", expected, found));
        }
        let middle = [width / 2.0, height / 2.0];
        Ok(Self { rows: [right, up, towards], centre, scale, middle })
    }

    /// Projects a point: pixels from the left, from the top, and towards the viewer.
    pub(crate) fn place(&self, point: [f64; 3]) -> [f64; 3] {
        let from = sub(point, self.centre);
        let [right, up, towards] = self.rows.map(|row| dot(row, from) * self.scale);
        let [x, y] = self.middle;
        [x + right, y - up, towards]
    }

    /// Returns the direction of each axis in the picture: to the right and down, at most 1 long.
    pub(crate) fn axis_ends(&self) -> [[f64; 2]; 3] {
        let [[a, b, c], [d, e, f], _] = self.rows;
        [[a, -d], [b, -e], [c, -f]]
    }

    /// Returns the step from the first axis to the third that is this step between places.
    pub(crate) fn turn_back(&self, [x, y, near]: [f64; 3]) -> [f64; 3] {
        let [[a, b, c], [d, e, f], [g, h, i]] = self.rows;
        [a * x - d * y + g * near, b * x - e * y + h * near, c * x - f * y + i * near]
    }
}

pub(crate) fn sub(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    let ([a, b, c], [d, e, f]) = (a, b);
    [a - d, b - e, c - f]
}

pub(crate) fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    let ([a, b, c], [d, e, f]) = (a, b);
    a * d + b * e + c * f
}

pub(crate) fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    let ([a, b, c], [d, e, f]) = (a, b);
    [b * f - c * e, c * d - a * f, a * e - b * d]
}

/// Returns sine and cosine of an angle in degrees, exact for right angles: a view from above has no tilt.
fn sin_cos(degrees: f64) -> (f64, f64) {
    let turned = degrees.rem_euclid(360.0);
    let right = [(0.0, (0.0, 1.0)), (90.0, (1.0, 0.0)), (180.0, (0.0, -1.0)), (270.0, (-1.0, 0.0))];
    match right.into_iter().find(|(angle, _)| *angle == turned) {
        Some((_, exact)) => exact,
        None => turned.to_radians().sin_cos(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SQUARE: Size = Size { width: 100, height: 100 };

    #[test]
    fn views_map_axes_to_pixels() {
        // A cube of side 10 around the origin has 10 pixels per unit; each point is one unit along an axis.
        for (view, x, y, z) in [
            (View::TOP, [60., 50., 0.], [50., 40., 0.], [50., 50., 10.]),
            (View::FRONT, [60., 50., 0.], [50., 50., -10.], [50., 40., 0.]),
            (View::SIDE, [50., 50., 10.], [60., 50., 0.], [50., 40., 0.]),
        ] {
            let camera = Camera::new([-5.0; 3], [5.0; 3], view, SQUARE, 0.0).unwrap();
            assert_eq!(camera.place([1.0, 0.0, 0.0]), x, "{view}");
            assert_eq!(camera.place([0.0, 1.0, 0.0]), y, "{view}");
            assert_eq!(camera.place([0.0, 0.0, 1.0]), z, "{view}");
        }
    }

    #[test]
    fn a_box_fits_from_every_view_and_touches_the_margin() {
        for view in [View::TOP, View::CORNER, View { turn: 200.0, lift: -70.0 }] {
            let camera = Camera::new([1.0, 2.0, 3.0], [4.0, 9.0, 5.0], view, SQUARE, 4.0).unwrap();
            let mut nearest = f64::INFINITY;
            for corner in 0..8 {
                let end = |bit: u8, low, high| if corner >> bit & 1 == 0 { low } else { high };
                let [x, y, _] = camera.place([end(0, 1., 4.), end(1, 2., 9.), end(2, 3., 5.)]);
                for side in [x, 100.0 - x, y, 100.0 - y] {
                    nearest = nearest.min(side);
                }
            }
            assert!((nearest - 4.0).abs() < 1e-9, "{view}: {nearest}");
        }
    }

    #[test]
    fn boxes_without_extent_are_centred_and_infinite_ones_refused() {
        let camera = Camera::new([3.0; 3], [3.0; 3], View::TOP, SQUARE, 0.0).unwrap();
        assert_eq!(camera.place([3.0; 3]), [50.0, 50.0, 0.0]);
        let flat = Camera::new([0.0; 3], [10.0, 0.0, 0.0], View::TOP, SQUARE, 0.0).unwrap();
        assert_eq!(flat.place([10.0, 0.0, 0.0]), [100.0, 50.0, 0.0]);
        for (low, high) in [(0.0, f64::INFINITY), (f64::NAN, 1.0), (f64::MIN, f64::MAX), (2.0, 1.0)]
        {
            let error = Camera::new([low; 3], [high; 3], View::TOP, SQUARE, 0.0).unwrap_err();
            let bounds = format!("{:?} to {:?}", [low; 3], [high; 3]);
            assert_eq!(
                error.sentence(),
                format!("bounds: expected a finite box, its lowest corner first, found {bounds}")
            );
        }
    }

    #[test]
    fn parses_views_by_name_or_angles() {
        for view in
            [View::TOP, View::FRONT, View::SIDE, View::CORNER, View { turn: -5.5, lift: 3.0 }]
        {
            assert_eq!(view.to_string().parse::<View>().unwrap(), view);
        }
        // The face of a head looks along the second axis: its right ear is on the left side.
        let from_the_front = "anterior".parse::<View>().unwrap();
        let camera = Camera::new([-5.0; 3], [5.0; 3], from_the_front, SQUARE, 0.0).unwrap();
        assert_eq!(camera.place([1.0, 2.0, 3.0]), [40.0, 20.0, 20.0]);
        assert_eq!(camera.turn_back([-10.0, -30.0, 20.0]), [10.0, 20.0, 30.0]);
        for text in ["", "above", "1", "1,x", "inf,0", "1,2,3"] {
            let error = text.parse::<View>().unwrap_err().sentence();
            let expected = "top, front, side, corner, an anatomical name, or two angles";
            let expected = format!("view: expected {expected} in degrees such as 30,20");
            assert_eq!(error, format!("{expected}, found {text:?}"));
        }
    }
}
