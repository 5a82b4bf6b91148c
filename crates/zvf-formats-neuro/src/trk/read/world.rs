//! Transform from the coordinates of a TRK file to those of the world.
//!
//! A point is in mm from the corner of the first voxel. Divided by the size of a voxel, less half of
//! one, it is in voxels from the centre of the first. Axes whose direction differs from that of the matrix
//! are flipped, and then the matrix is applied.

use zvf_format::num::nearest_f32;

use crate::trk::read::header::TrkHeader;

/// An affine map of three coordinates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct World([[f64; 4]; 3]);

impl World {
    /// Returns the map of a file; `None` where its matrix does not determine the axes.
    pub(crate) fn from_header(header: &TrkHeader) -> Option<Self> {
        let matrix = match header.vox_to_ras {
            Some(rows) => rows.map(|row| row.map(f64::from)),
            None => IDENTITY,
        };
        let [x, y, z, _] = matrix;
        let columns = closest_axes([x, y, z])?;
        let mut map = [[0.0; 4]; 3];
        for (axis, (along, forwards)) in header.order.into_iter().enumerate() {
            // The voxels of the matrix that run along the same axis of the world.
            let column = columns.iter().position(|(axis, _)| *axis == along)?;
            let is_flipped = columns.get(column).is_some_and(|(_, same)| *same != forwards);
            let size = f64::from(*header.voxel_size.get(axis)?);
            let last = f64::from(*header.dim.get(axis)?) - 1.0;
            // voxel = p / size - 1/2, or counted from the other end
            let (scale, shift) =
                if is_flipped { (-1.0 / size, last + 0.5) } else { (1.0 / size, -0.5) };
            for (row, from) in map.iter_mut().zip([x, y, z]) {
                let weight = *from.get(column)?;
                *row.get_mut(axis)? += weight * scale;
                *row.get_mut(3)? += weight * shift;
            }
        }
        for (row, from) in map.iter_mut().zip([x, y, z]) {
            *row.get_mut(3)? += from[3];
        }
        Some(Self(map))
    }

    /// Returns the identity.
    pub(crate) const fn identity() -> Self {
        let [x, y, z, _] = IDENTITY;
        Self([x, y, z])
    }

    /// Returns the map as a matrix of four rows.
    pub(crate) const fn to_matrix(self) -> [[f64; 4]; 4] {
        let [x, y, z] = self.0;
        [x, y, z, [0.0, 0.0, 0.0, 1.0]]
    }

    /// Converts a point to the world.
    pub(crate) fn apply(&self, point: [f32; 3]) -> [f32; 3] {
        let [x, y, z] = point.map(f64::from);
        self.0.map(|[a, b, c, d]| nearest_f32(a * x + b * y + c * z + d))
    }
}

/// Returns the axis of the world that is closest to each column of the matrix, and whether the column runs forwards:
/// each axis once, strong columns first. Stretching and shearing are removed before.
pub(crate) fn closest_axes(matrix: [[f64; 4]; 3]) -> Option<[(usize, bool); 3]> {
    let mut rotation = matrix.map(|[a, b, c, _]| [a, b, c]);
    for column in 0..3 {
        let length =
            rotation.iter().filter_map(|row| row.get(column)).map(|x| x * x).sum::<f64>().sqrt();
        for row in &mut rotation {
            let value = row.get_mut(column)?;
            *value /= length;
        }
    }
    // The nearest rotation (polar decomposition), by Newton's iteration: the mean with the transposed inverse.
    for _ in 0..ITERATIONS {
        let inverse = transposed_inverse(rotation)?;
        for (row, inverse_row) in rotation.iter_mut().zip(inverse) {
            for (value, inverse_value) in row.iter_mut().zip(inverse_row) {
                *value = (*value + inverse_value) / 2.0;
            }
        }
    }
    // Columns are assigned in the order of their largest component, as in nibabel.
    let strength = |column: usize| {
        let squares = rotation.iter().filter_map(|row| row.get(column)).map(|x| x * x);
        squares.fold(0.0, f64::max)
    };
    let mut order = [0, 1, 2];
    order.sort_by(|a, b| strength(*b).total_cmp(&strength(*a)));
    let mut directions = [(0, true); 3];
    for column in order {
        let values =
            rotation.iter().enumerate().filter_map(|(axis, row)| Some((axis, *row.get(column)?)));
        // Of equal values the first is chosen.
        let (axis, value) = values.rev().max_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs()))?;
        if !value.is_finite() || value == 0.0 {
            return None;
        }
        *directions.get_mut(column)? = (axis, value > 0.0);
        *rotation.get_mut(axis)? = [0.0; 3]; // an axis is assigned once
    }
    Some(directions)
}

pub(crate) fn transposed_inverse([a, b, c]: [[f64; 3]; 3]) -> Option<[[f64; 3]; 3]> {
    let cross = |u: [f64; 3], v: [f64; 3]| {
        [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]]
    };
    let rows = [cross(b, c), cross(c, a), cross(a, b)];
    let volume: f64 = a.iter().zip(rows[0]).map(|(a, b)| a * b).sum();
    (volume.is_finite() && volume.abs() > MIN_VOLUME)
        .then(|| rows.map(|row| row.map(|x| x / volume)))
}

const IDENTITY: [[f64; 4]; 4] =
    [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]];
/// Iterations until convergence, which is quadratic.
const ITERATIONS: usize = 24;
/// Below this volume three directions count as coplanar.
const MIN_VOLUME: f64 = 1e-9;

#[cfg(test)]
mod tests;
