//! Affine maps of space, as images, scenes and folders of segments state them.

use zvf_model::flow::Space;

/// The rows of an affine map of three coordinates; the last number of a row is its shift.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Affine(pub [[f64; 4]; 3]);

impl Affine {
    /// The map that moves nothing.
    pub const IDENTITY: Self =
        Self([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]);

    /// Maps a point.
    #[inline]
    pub fn apply(&self, [x, y, z]: [f64; 3]) -> [f64; 3] {
        self.0.map(|[a, b, c, d]| a * x + b * y + c * z + d)
    }

    /// The factor by which volumes grow; negative if the map mirrors.
    pub fn determinant(&self) -> f64 {
        let [a, b, c] = self.linear();
        dot(a, cross(b, c))
    }

    /// The rows without their shifts.
    pub fn linear(&self) -> [[f64; 3]; 3] {
        self.0.map(|[x, y, z, _]| [x, y, z])
    }

    /// The map as a matrix of four rows.
    pub const fn to_matrix(self) -> [[f64; 4]; 4] {
        let [x, y, z] = self.0;
        [x, y, z, [0.0, 0.0, 0.0, 1.0]]
    }

    /// The map as the space of a header, and the map to apply: the identity unless `is_applied`.
    pub fn to_space(self, is_applied: bool) -> (Option<Space>, Self) {
        let space = Space { name: None, affine: Some(self.to_matrix()), is_applied };
        (Some(space), if is_applied { self } else { Self::IDENTITY })
    }
}

/// The vector product.
pub fn cross(u: [f64; 3], v: [f64; 3]) -> [f64; 3] {
    [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]]
}

/// The scalar product.
pub fn dot(u: [f64; 3], v: [f64; 3]) -> f64 {
    u[0] * v[0] + u[1] * v[1] + u[2] * v[2]
}
