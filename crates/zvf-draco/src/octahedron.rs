//! Directions as positions in a square: an unfolded octahedron.
//!
//! The upper half is the diamond in the middle of the square, the lower half its corners.

use zvf_format::num::nearest_f32;

use crate::bytes::low_bit_mask;

/// A square with a number of positions on each side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Square {
    max: i32,    // the largest coordinate
    center: i32, // of the middle
    modulus: i32,
}

impl Square {
    /// Creates the square for coordinates of 2 to 30 bits.
    pub(crate) const fn new(bits: u32) -> Self {
        let modulus = low_bit_mask(bits).cast_signed();
        let max = modulus.saturating_sub(1); // it is 3 or more
        Self { max, center: max / 2, modulus }
    }

    /// Creates the square for the largest number of a transform, whose bits are all ones.
    pub(crate) fn from_modulus(modulus: i32) -> Option<Self> {
        let bits = modulus.count_ones();
        let is_ones = modulus == low_bit_mask(bits).cast_signed();
        ((2..=30).contains(&bits) && is_ones).then(|| Self::new(bits))
    }

    /// Returns the unit vector of a position.
    pub(crate) fn direction(self, place: [i32; 2]) -> [f32; 3] {
        let scale = 2.0 / nearest_f32(f64::from(self.max));
        let [mut y, mut z] = place.map(|x| nearest_f32(f64::from(x)) * scale - 1.0);
        let x = 1.0 - y.abs() - z.abs();
        let over = (-x).max(0.0);
        y += if y < 0.0 { over } else { -over };
        z += if z < 0.0 { over } else { -over };
        let norm = x * x + y * y + z * z;
        if norm < 1e-6 {
            return [0.0; 3];
        }
        let factor = 1.0 / norm.sqrt();
        [x * factor, y * factor, z * factor]
    }

    /// Returns the position of a direction of any length, or of the opposite one.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "coordinates have 32 bits and the square 30: every product and sum has less than 63"
    )]
    pub(crate) fn place(self, direction: [i32; 3], is_opposite: bool) -> [i32; 2] {
        let direction = direction.map(i64::from);
        let center = i64::from(self.center);
        let sum: i64 = direction.iter().map(|x| x.abs()).sum();
        let [x, y, z] = if sum == 0 {
            [center, 0, 0]
        } else {
            let x = direction[0] * center / sum;
            let y = direction[1] * center / sum;
            let z = center - x.abs() - y.abs();
            [x, y, if direction[2] >= 0 { z } else { -z }]
        };
        // The opposite of the rounded position, as in all decoders.
        let [x, y, z] = if is_opposite { [-x, -y, -z] } else { [x, y, z] };
        let max = i64::from(self.max);
        let (s, t) = if x >= 0 {
            (y + center, z + center)
        } else {
            let s = if y < 0 { z.abs() } else { max - z.abs() };
            (s, if z < 0 { y.abs() } else { max - y.abs() })
        };
        self.canonicalize(s, t)
    }

    /// Returns the canonical position of a direction.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "positions are in the square, whose sides have 30 bits"
    )]
    fn canonicalize(self, s: i64, t: i64) -> [i32; 2] {
        let (max, center) = (i64::from(self.max), i64::from(self.center));
        let (s, t) = match (s, t) {
            (0, 0) => (max, max),
            (0, t) if t == max => (max, max),
            (s, 0) if s == max => (max, max),
            (0, t) if t > center => (0, 2 * center - t),
            (s, t) if s == max && t < center => (s, 2 * center - t),
            (s, t) if t == max && s < center => (2 * center - s, t),
            (s, 0) if s > center => (2 * center - s, 0),
            other => other,
        };
        let to_coordinate = |x: i64| i32::try_from(x).unwrap_or(self.center); // within the square
        [to_coordinate(s), to_coordinate(t)]
    }

    /// Adds a correction to a predicted position.
    pub(crate) fn correct(self, predicted: [i32; 2], by: [i32; 2], is_canonical: bool) -> [i32; 2] {
        let center = self.center;
        let mut place = predicted.map(|x| x.wrapping_sub(center));
        // A saturated sum is outside.
        let is_inside = place[0].unsigned_abs().saturating_add(place[1].unsigned_abs())
            <= center.unsigned_abs();
        if !is_inside {
            place = self.turn_inside_out(place);
        }
        let turns = if is_canonical { quarter_turns(place) } else { 0 };
        let turned = turn(place, turns);
        let moved = [turned[0].wrapping_add(by[0]), turned[1].wrapping_add(by[1])];
        let wrapped = moved.map(|x| {
            if x > center {
                x.wrapping_sub(self.modulus)
            } else if x < center.wrapping_neg() {
                x.wrapping_add(self.modulus)
            } else {
                x
            }
        });
        let back = match turns {
            1 => 3,
            3 => 1,
            same => same,
        };
        let mut place = turn(wrapped, back);
        if !is_inside {
            place = self.turn_inside_out(place);
        }
        place.map(|x| x.wrapping_add(center))
    }

    /// Exchanges the diamond and the corners.
    fn turn_inside_out(self, [s, t]: [i32; 2]) -> [i32; 2] {
        let (sign_s, sign_t) = match (s, t) {
            (0.., 0..) => (1, 1),
            (s, t) if s <= 0 && t <= 0 => (-1, -1),
            (s, t) => (if s > 0 { 1 } else { -1 }, if t > 0 { 1 } else { -1 }),
        };
        let corner = |sign: i32| sign.wrapping_mul(self.center); // the center has 29 bits
        let (corner_s, corner_t) = (corner(sign_s), corner(sign_t));
        let s = s.wrapping_mul(2).wrapping_sub(corner_s);
        let t = t.wrapping_mul(2).wrapping_sub(corner_t);
        let (s, t) = if sign_s == sign_t { (t.wrapping_neg(), s.wrapping_neg()) } else { (t, s) };
        [s.wrapping_add(corner_s) / 2, t.wrapping_add(corner_t) / 2]
    }
}

/// Returns the number of quarter turns that bring a position to the lower left.
const fn quarter_turns([x, y]: [i32; 2]) -> u8 {
    if x == 0 {
        return if y == 0 {
            0
        } else if y > 0 {
            3
        } else {
            1
        };
    }
    if x > 0 {
        if y >= 0 { 2 } else { 1 }
    } else if y <= 0 {
        0
    } else {
        3
    }
}

const fn turn([x, y]: [i32; 2], quarters: u8) -> [i32; 2] {
    match quarters {
        1 => [y, x.wrapping_neg()],
        2 => [x.wrapping_neg(), y.wrapping_neg()],
        3 => [y.wrapping_neg(), x],
        _ => [x, y],
    }
}

#[cfg(test)]
mod tests {
    use super::Square;

    #[test]
    fn directions_come_back() {
        let square = Square::new(10);
        for direction in [[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, 0, -1], [3, -4, 5], [-7, 2, -1]] {
            let place = square.place(direction.map(|x: i32| x * 1000), false);
            let found = square.direction(place);
            let length = direction.iter().map(|x| (x * x) as f32).sum::<f32>().sqrt();
            for (found, expected) in found.iter().zip(direction) {
                assert!((found - expected as f32 / length).abs() < 0.01, "{direction:?}: {found}");
            }
        }
    }

    #[test]
    fn a_correction_of_nothing_keeps_the_place() {
        let square = Square::new(6);
        // Positions on the rim are equivalent to others.
        for s in 1..62 {
            for t in 1..62 {
                for is_canonical in [false, true] {
                    let place = square.correct([s, t], [0, 0], is_canonical);
                    assert_eq!(place, [s, t], "{s} {t}");
                }
            }
        }
    }
}
