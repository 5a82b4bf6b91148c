//! Pixels, each with the nearest drawn thing: points, lines and triangles.
//!
//! A pixel is a unit square, the first one from 0 to 1; a shape is drawn at the pixels whose centre
//! it covers. If two things cover a pixel, the nearer one wins; if they are equally near, the first
//! one. Lines are clipped and triangles bounded before pixels are touched, so geometry outside
//! costs nothing. Positions that are not finite are not drawn. Pixel coordinates that overflow 64
//! bits saturate, which is far outside.
//!
//! Projection is in `view`, the meaning of inks in `ink` and `picture`.

use zvf_format::num::{f64_from_i64, nearest_f32, saturating_floor_i64};

use crate::ink::Ink;
use crate::size::Size;
use crate::view::{cross, dot, sub};

/// The thing drawn at a pixel.
#[derive(Clone, Copy)]
pub(crate) struct Pixel {
    pub(crate) near: f32, // depth; -inf where nothing is drawn
    pub(crate) ink: Ink,
    pub(crate) shade: u8, // 255 in full light
}

/// A picture under construction.
pub(crate) struct Canvas {
    size: Size,
    pixels: Vec<Pixel>, // row by row from the top
    mixes: bool,        // inks are numbers, interpolated between corners
    shade: u8,          // of dots and lines: that of the face whose outline they are
}

/// A corner: pixels from the left, from the top, and towards the viewer; and its ink.
pub(crate) type Corner = ([f64; 3], Ink);

impl Canvas {
    pub(crate) fn new(size: Size) -> Self {
        Self { size, pixels: vec![EMPTY; size.area()], mixes: false, shade: LIGHT }
    }

    /// Sets whether inks are numbers from now on.
    pub(crate) const fn mix(&mut self, mixes: bool) {
        self.mixes = mixes;
    }

    /// Returns the pixels, row by row from the top.
    pub(crate) fn pixels(&self) -> &[Pixel] {
        &self.pixels
    }

    pub(crate) const fn size(&self) -> Size {
        self.size
    }

    /// Draws a dot that is `width` pixels wide.
    pub(crate) fn point(&mut self, (at, ink): Corner, width: u32) {
        let [x, y, near] = at;
        if !is_finite(at) {
            return;
        }
        if width <= 1 {
            return self.put(
                saturating_floor_i64(x),
                saturating_floor_i64(y),
                near,
                ink,
                self.shade,
            );
        }
        let radius = f64::from(width) / 2.0;
        let Some((left, right)) = clamp_to_pixels(x - radius, x + radius, self.size.width) else {
            return;
        };
        let Some((top, bottom)) = clamp_to_pixels(y - radius, y + radius, self.size.height) else {
            return;
        };
        for row in top..=bottom {
            for column in left..=right {
                let (dx, dy) = (f64_from_i64(column) + 0.5 - x, f64_from_i64(row) + 0.5 - y);
                if dx * dx + dy * dy <= radius * radius {
                    self.put(column, row, near, ink, self.shade);
                }
            }
        }
    }

    /// Draws a line that is `width` pixels wide.
    pub(crate) fn segment(&mut self, [from, to]: [Corner; 2], width: u32) {
        let ((from, first), (to, last)) = (from, to);
        let along = sub(to, from);
        if !is_finite(from) || !is_finite(along) {
            return;
        }
        let Some((start, end)) = self.cut(from, along, f64::from(width)) else { return };
        let [dx, dy, _] = along;
        let steps = ((end - start) * dx.abs().max(dy.abs())).ceil().max(1.0);
        let mut step = 0.0;
        while step <= steps {
            let t = start + (end - start) * step / steps;
            let [x, y, near] = point_along(from, along, t);
            let ink = if self.mixes {
                Ink::number(first.as_number() + (last.as_number() - first.as_number()) * t)
            } else if t <= 0.5 {
                first
            } else {
                last
            };
            self.point(([x, y, near], ink), width);
            step += 1.0;
        }
    }

    /// Draws a triangle, lit from the upper left; one that covers no pixel centre is drawn as its outline.
    pub(crate) fn triangle(&mut self, corners: [Corner; 3]) {
        let [(a, _), (b, _), (c, _)] = corners;
        if !(is_finite(a) && is_finite(b) && is_finite(c)) {
            return;
        }
        let shade = light(a, b, c);
        if !self.fill(corners, shade) && self.meets([a, b, c]) {
            let [first, second, third] = corners;
            self.shade = shade;
            for ends in [[first, second], [second, third], [third, first]] {
                self.segment(ends, 1);
            }
            self.shade = LIGHT;
        }
    }

    /// Fills a triangle; returns whether it covers a pixel centre.
    fn fill(&mut self, [(a, ink_a), (b, ink_b), (c, ink_c)]: [Corner; 3], shade: u8) -> bool {
        let ([ax, ay, az], [bx, by, bz], [cx, cy, cz]) = (a, b, c);
        let area = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax);
        let width = self.size.width;
        let columns = clamp_to_pixels(ax.min(bx).min(cx), ax.max(bx).max(cx), width);
        let rows = clamp_to_pixels(ay.min(by).min(cy), ay.max(by).max(cy), self.size.height);
        let (Some((left, right)), Some((top, bottom))) = (columns, rows) else { return false };
        if area == 0.0 || !area.is_finite() {
            return false;
        }
        let numbers = [ink_a, ink_b, ink_c].map(Ink::as_number);
        let mut filled = false;
        for row in top..=bottom {
            let y = f64_from_i64(row) + 0.5;
            for column in left..=right {
                let x = f64_from_i64(column) + 0.5;
                // Barycentric coordinates; they sum to 1.
                let first = ((bx - x) * (cy - y) - (by - y) * (cx - x)) / area;
                let second = ((cx - x) * (ay - y) - (cy - y) * (ax - x)) / area;
                let third = 1.0 - first - second;
                if first < -ROUNDING || second < -ROUNDING || third < -ROUNDING {
                    continue;
                }
                filled = true;
                let shares = [first, second, third];
                let ink = if self.mixes {
                    Ink::number(dot(shares, numbers))
                } else if first >= second && first >= third {
                    ink_a
                } else if second >= third {
                    ink_b
                } else {
                    ink_c
                };
                self.put(column, row, dot(shares, [az, bz, cz]), ink, shade);
            }
        }
        filled
    }

    /// Returns whether the bounding box of the corners intersects the picture.
    fn meets(&self, [[ax, ay, _], [bx, by, _], [cx, cy, _]]: [[f64; 3]; 3]) -> bool {
        clamp_to_pixels(ax.min(bx).min(cx), ax.max(bx).max(cx), self.size.width).is_some()
            && clamp_to_pixels(ay.min(by).min(cy), ay.max(by).max(cy), self.size.height).is_some()
    }

    /// Clips a line to the picture extended by `margin`; returns the range as fractions of its length.
    fn cut(&self, [x, y, _]: [f64; 3], [dx, dy, _]: [f64; 3], margin: f64) -> Option<(f64, f64)> {
        let (mut start, mut end) = (0.0_f64, 1.0_f64);
        for (from, step, side) in [(x, dx, self.size.width), (y, dy, self.size.height)] {
            let (low, high) = (-margin, f64::from(side) + margin);
            if step == 0.0 {
                if from < low || from > high {
                    return None;
                }
                continue;
            }
            let (enter, leave) = ((low - from) / step, (high - from) / step);
            start = start.max(enter.min(leave));
            end = end.min(enter.max(leave));
        }
        (start <= end).then_some((start, end))
    }

    /// Draws a thing at a pixel, unless a nearer one is already there; ignores pixels outside the
    /// picture.
    fn put(&mut self, x: i64, y: i64, near: f64, ink: Ink, shade: u8) {
        let (Ok(x), Ok(y)) = (u32::try_from(x), u32::try_from(y)) else { return };
        if x >= self.size.width || y >= self.size.height {
            return;
        }
        let index = self.size.index(x, y);
        let near = nearest_f32(near);
        if let Some(pixel) = self.pixels.get_mut(index)
            && near > pixel.near
        {
            *pixel = Pixel { near, ink, shade };
        }
    }
}

/// Returns the pixels of a row that an interval intersects.
fn clamp_to_pixels(low: f64, high: f64, pixels: u32) -> Option<(i64, i64)> {
    let last = i64::from(pixels) - 1;
    let (low, high) = (saturating_floor_i64(low).max(0), saturating_floor_i64(high).min(last));
    (low <= high).then_some((low, high))
}

/// Returns the brightness of a face: equal for both sides, and never black.
fn light(a: [f64; 3], b: [f64; 3], c: [f64; 3]) -> u8 {
    let normal = cross(sub(b, a), sub(c, a));
    let length = dot(normal, normal).sqrt();
    let lit = (dot(normal, TO_THE_LIGHT) / length).abs();
    // A face without an area has no normal.
    if lit.is_nan() {
        LIGHT
    } else {
        crate::colour::round_u8(255.0 * (DIMMEST + (1.0 - DIMMEST) * lit))
    }
}

fn point_along([x, y, z]: [f64; 3], [dx, dy, dz]: [f64; 3], t: f64) -> [f64; 3] {
    [x + dx * t, y + dy * t, z + dz * t]
}

fn is_finite(at: [f64; 3]) -> bool {
    at.iter().all(|x| x.is_finite())
}

const EMPTY: Pixel = Pixel { near: f32::NEG_INFINITY, ink: Ink::EMPTY, shade: LIGHT };
const LIGHT: u8 = u8::MAX;
/// The brightness of a face at grazing light.
const DIMMEST: f64 = 0.35;
/// A unit vector in pixels: to the left, up (rows count downwards) and towards the viewer.
const TO_THE_LIGHT: [f64; 3] = [-0.36, -0.48, 0.8];
/// Coordinates this little below 0 are on the edge: two faces that share it leave no gap.
const ROUNDING: f64 = 1e-9;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: Ink = Ink::EMPTY;

    fn ink(n: u8) -> Ink {
        Ink::colour([n, 0, 0])
    }

    fn canvas(width: u32, height: u32) -> Canvas {
        Canvas::new(Size::new(width, height).unwrap())
    }

    /// Returns the picture as text, one character per pixel: `.` for nothing, else the first part of the colour.
    fn rows_of_canvas(canvas: &Canvas) -> Vec<String> {
        let sign = |pixel: &Pixel| match pixel.near {
            f32::NEG_INFINITY => '.',
            _ => char::from(b'0' + pixel.ink.as_colour()[0]),
        };
        let width = canvas.size().width() as usize;
        canvas.pixels().chunks(width).map(|row| row.iter().map(sign).collect()).collect()
    }

    #[test]
    fn draws_points() {
        for (at, width, expected) in [
            ([1.0, 1.0, 0.0], 1, ["....", ".1..", "...."]),
            ([3.99, 2.99, 0.0], 1, ["....", "....", "...1"]),
            ([-0.01, 1.0, 0.0], 1, ["....", "....", "...."]),
            ([4.0, 1.0, 0.0], 1, ["....", "....", "...."]),
            ([1.5, 1.5, 0.0], 3, ["111.", "111.", "111."]),
            ([2.0, 1.0, 0.0], 2, [".11.", ".11.", "...."]),
            ([-1.0, 1.5, 0.0], 4, ["1...", "1...", "1..."]),
            ([f64::NAN, 1.0, 0.0], 1, ["....", "....", "...."]),
            ([0.0, 1.0, f64::INFINITY], 3, ["....", "....", "...."]),
        ] {
            let mut canvas = canvas(4, 3);
            canvas.point((at, ink(1)), width);
            assert_eq!(rows_of_canvas(&canvas), expected, "{at:?} of {width}");
        }
    }

    #[test]
    fn draws_lines() {
        let far = 1e12;
        for (from, to, width, expected) in [
            ([0.5, 0.5], [3.5, 2.5], 1, ["1...", ".11.", "...1"]),
            ([3.5, 1.5], [0.5, 1.5], 1, ["....", "2211", "...."]),
            ([-far, 1.5], [far, 1.5], 1, ["....", "1122", "...."]),
            ([2.5, -far], [2.5, far], 1, ["..1.", "..1.", "..2."]),
            ([-5.0, 9.0], [-1.0, 9.0], 1, ["....", "....", "...."]),
            ([0.5, 1.5], [3.5, 1.5], 3, ["1122", "1122", "1122"]),
            ([1.5, 1.5], [1.5, 1.5], 1, ["....", ".1..", "...."]),
            ([f64::NAN, 1.5], [1.5, 1.5], 1, ["....", "....", "...."]),
            ([-f64::MAX, 1.5], [f64::MAX, 1.5], 1, ["....", "....", "...."]),
        ] {
            let mut canvas = canvas(4, 3);
            let end = |[x, y]: [f64; 2], ink| ([x, y, 0.0], ink);
            canvas.segment([end(from, ink(1)), end(to, ink(2))], width);
            let actual: Vec<String> = rows_of_canvas(&canvas);
            let is_same =
                |a: &str, b: &str| a.chars().zip(b.chars()).all(|(a, b)| (a == '.') == (b == '.'));
            assert!(
                actual.iter().zip(expected).all(|(a, b)| is_same(a, b)),
                "{from:?} {to:?} of {width}: {actual:?}"
            );
        }
        let mut canvas = canvas(4, 1);
        canvas.segment([([0.5, 0.5, 0.0], ink(1)), ([3.5, 0.5, 0.0], ink(2))], 1);
        assert_eq!(rows_of_canvas(&canvas), ["1122"], "each half has the ink of its end");
    }

    #[test]
    fn draws_triangles() {
        for (corners, expected) in [
            ([[0., 0.], [4., 0.], [0., 4.]], ["1111", "111.", "11..", "1..."]),
            ([[0., 0.], [0., 4.], [4., 0.]], ["1111", "111.", "11..", "1..."]),
            ([[-9., -9.], [99., -9.], [-9., 99.]], ["1111"; 4]),
            ([[5., 0.], [9., 0.], [5., 4.]], ["...."; 4]),
            // A degenerate triangle, and one smaller than a pixel.
            ([[0., 1.5], [2., 1.5], [4., 1.5]], ["....", "1111", "....", "...."]),
            ([[1.1, 1.1], [1.2, 1.1], [1.1, 1.2]], ["....", ".1..", "....", "...."]),
            ([[f64::NAN, 0.], [4., 0.], [0., 4.]], ["...."; 4]),
        ] {
            let mut canvas = canvas(4, 4);
            canvas.triangle(corners.map(|[x, y]| ([x, y, 0.0], ink(1))));
            assert_eq!(rows_of_canvas(&canvas), expected, "{corners:?}");
            let shades = canvas.pixels().iter().filter(|pixel| pixel.near > f32::NEG_INFINITY);
            assert!(shades.clone().all(|pixel| pixel.shade == light_of(corners)), "{corners:?}");
        }
    }

    fn light_of(corners: [[f64; 2]; 3]) -> u8 {
        let [a, b, c] = corners.map(|[x, y]| [x, y, 0.0]);
        light(a, b, c)
    }

    #[test]
    fn nearer_triangles_hide_farther_ones_in_any_order() {
        let flat = |z: f64, n: u8| [[0., 0.], [8., 0.], [0., 8.]].map(|[x, y]| ([x, y, z], ink(n)));
        for order in [[1, 2, 3], [3, 2, 1], [2, 3, 1]] {
            let mut canvas = canvas(1, 1);
            for n in order {
                canvas.triangle(flat(f64::from(n), n));
            }
            assert_eq!(rows_of_canvas(&canvas), ["3"], "{order:?}");
        }
        // Two triangles intersect: each is visible where it is nearer.
        let mut canvas = canvas(4, 1);
        let sloped = |left: f64, right: f64, n| {
            [
                ([0., -9., left], ink(n)),
                ([4., -9., right], ink(n)),
                ([2., 99., (left + right) / 2.], ink(n)),
            ]
        };
        canvas.triangle(sloped(0.0, 4.0, 1));
        canvas.triangle(sloped(4.0, 0.0, 2));
        assert_eq!(rows_of_canvas(&canvas), ["2211"]);
    }

    #[test]
    fn numbers_are_interpolated_linearly() {
        let mut canvas = canvas(4, 1);
        canvas.mix(true);
        canvas
            .segment([([0.5, 0.5, 0.0], Ink::number(0.0)), ([3.5, 0.5, 0.0], Ink::number(3.0))], 1);
        let values: Vec<f64> = canvas.pixels().iter().map(|pixel| pixel.ink.as_number()).collect();
        assert_eq!(values, [0.0, 1.0, 2.0, 3.0]);
        let corner = |x: f64, y: f64, value| ([x, y, 1.0], Ink::number(value));
        canvas.triangle([corner(-4.0, 0.0, -4.0), corner(8.0, 0.0, 8.0), corner(-4.0, 9.0, -4.0)]);
        let values: Vec<f64> = canvas.pixels().iter().map(|pixel| pixel.ink.as_number()).collect();
        assert_eq!(values, [0.5, 1.5, 2.5, 3.5]);
    }

    #[test]
    fn faces_are_shaded_by_their_angle_to_the_light() {
        let shade = |c| light([0.0; 3], [1.0, 0.0, 0.0], c);
        assert_eq!(shade([0.0, 1.0, 0.0]), 222); // across the view: 0.35 + 0.65 * 0.8
        assert_eq!(shade([0.0, -1.0, 0.0]), 222); // back of the face
        assert_eq!(shade([0.0, 0.0, 1.0]), 169); // seen from its edge
        assert_eq!(shade([2.0, 0.0, 0.0]), 255); // degenerate face
    }

    proptest! {
        /// Two triangles of a square leave no gap, at any rotation.
        #[test]
        fn faces_that_share_an_edge_leave_no_gap(
            turn in 0.0..6.3_f64, x in 8.0..12.0_f64, y in 8.0..12.0_f64,
        ) {
            let mut canvas = canvas(20, 20);
            let corner = |angle: f64| {
                let (sin, cos) = (turn + angle).sin_cos();
                ([x + 7.0 * cos, y + 7.0 * sin, 0.0], A)
            };
            let [a, b, c, d] = [0.0, 1.0, 2.0, 3.0].map(|n| corner(n * std::f64::consts::FRAC_PI_2));
            canvas.triangle([a, b, c]);
            canvas.triangle([c, d, a]);
            for (at, pixel) in canvas.pixels().iter().enumerate() {
                let (dx, dy) = ((at % 20) as f64 + 0.5 - x, (at / 20) as f64 + 0.5 - y);
                // Only pixels in the inscribed circle are tested.
                if dx.hypot(dy) < 4.9 {
                    prop_assert!(pixel.near == 0.0, "{dx} {dy}");
                }
            }
        }
    }
}
