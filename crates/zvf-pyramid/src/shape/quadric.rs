//! Quadric error: the weighted sum of squared distances of a point to planes, as one matrix.

/// A weighted sum of squared distances to planes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Quadric {
    square: [f64; 6], // xx, xy, xz, yy, yz, zz
    linear: [f64; 3],
    constant: f64,
}

impl Quadric {
    /// Returns the quadric of the plane through `at` with this unit normal.
    pub(super) fn plane(normal: [f64; 3], at: [f64; 3], weight: f64) -> Self {
        let [x, y, z] = normal;
        let offset = -dot(normal, at);
        Self {
            square: [x * x, x * y, x * z, y * y, y * z, z * z].map(|s| s * weight),
            linear: normal.map(|n| n * offset * weight),
            constant: offset * offset * weight,
        }
    }

    /// Returns the sum of both.
    pub(super) fn add(self, other: &Self) -> Self {
        let mut both = self;
        both.square.iter_mut().zip(other.square).for_each(|(to, s)| *to += s);
        both.linear.iter_mut().zip(other.linear).for_each(|(to, s)| *to += s);
        both.constant += other.constant;
        both
    }

    /// Returns the sum at a point; never negative.
    pub(super) fn evaluate(&self, point: [f64; 3]) -> f64 {
        let [x, y, z] = point;
        let [xx, xy, xz, yy, yz, zz] = self.square;
        let square =
            xx * x * x + yy * y * y + zz * z * z + 2.0 * (xy * x * y + xz * x * z + yz * y * z);
        (square + 2.0 * dot(self.linear, point) + self.constant).max(0.0)
    }

    /// Returns the minimum, if the planes determine it well.
    pub(super) fn minimum(&self) -> Option<[f64; 3]> {
        let [xx, xy, xz, yy, yz, zz] = self.square;
        let cofactors = [yy * zz - yz * yz, xz * yz - xy * zz, xy * yz - xz * yy];
        let determinant = xx * cofactors[0] + xy * cofactors[1] + xz * cofactors[2];
        let size = (xx + yy + zz) / 3.0;
        if determinant.abs() <= MIN_DETERMINANT * size * size * size {
            return None;
        }
        let inverse = [
            cofactors,
            [cofactors[1], xx * zz - xz * xz, xy * xz - xx * yz],
            [cofactors[2], xy * xz - xx * yz, xx * yy - xy * xy],
        ];
        Some(inverse.map(|row| -dot(row, self.linear) / determinant))
    }
}

pub(super) fn dot([x, y, z]: [f64; 3], [u, v, w]: [f64; 3]) -> f64 {
    x * u + y * v + z * w
}

pub(super) fn cross([x, y, z]: [f64; 3], [u, v, w]: [f64; 3]) -> [f64; 3] {
    [y * w - z * v, z * u - x * w, x * v - y * u]
}

pub(super) fn subtract([x, y, z]: [f64; 3], [u, v, w]: [f64; 3]) -> [f64; 3] {
    [x - u, y - v, z - w]
}

/// Returns the unit vector of a direction; `None` for a zero vector.
pub(super) fn unit(a: [f64; 3]) -> Option<[f64; 3]> {
    let length = dot(a, a).sqrt();
    (length > 0.0).then(|| a.map(|x| x / length))
}

/// A matrix of size one with a smaller determinant is ill-conditioned.
const MIN_DETERMINANT: f64 = 1e-4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minimum_of_three_planes_is_their_intersection() {
        let planes = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
        let corner = planes.iter().fold(Quadric::default(), |sum, normal| {
            sum.add(&Quadric::plane(*normal, [1.0, 2.0, 3.0], 2.0))
        });
        let minimum = corner.minimum().unwrap();
        assert!(subtract(minimum, [1.0, 2.0, 3.0]).iter().all(|x| x.abs() < 1e-12));
        assert_eq!(corner.evaluate([1.0, 2.0, 3.0]), 0.0);
        assert_eq!(corner.evaluate([2.0, 2.0, 1.0]), 10.0);
        let edge = Quadric::plane(planes[0], [1.0, 2.0, 3.0], 1.0);
        assert!(edge.minimum().is_none());
        assert_eq!(unit([0.0; 3]), None);
    }
}
