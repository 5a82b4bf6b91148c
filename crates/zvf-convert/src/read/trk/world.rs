//! From the coordinates of a TRK file to those of the world.
//!
//! A point is in mm from the corner of the first voxel. Divided by the size of a voxel, less half of
//! one, it is in voxels from the centre of the first; axes that run otherwise than those of the matrix
//! are turned; the matrix takes it from there.

use super::header::TrkHeader;

/// An affine map of three coordinates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct World([[f64; 4]; 3]);

impl World {
    /// The map of a file; nothing where its matrix does not tell which axis is which.
    pub(super) fn from_header(header: &TrkHeader) -> Option<Self> {
        let matrix = match header.vox_to_ras {
            Some(rows) => rows.map(|row| row.map(f64::from)),
            None => IDENTITY,
        };
        let [x, y, z, _] = matrix;
        let columns = axes([x, y, z])?;
        let mut map = [[0.0; 4]; 3];
        for (axis, (along, forwards)) in header.order.into_iter().enumerate() {
            // The voxels of the matrix that run along the same axis of the world.
            let column = columns.iter().position(|(of, _)| *of == along)?;
            let flipped = columns.get(column).is_some_and(|(_, same)| *same != forwards);
            let size = f64::from(*header.voxel_size.get(axis)?);
            let last = f64::from(*header.dim.get(axis)?) - 1.0;
            // voxel = p / size - 1/2, or counted from the other end
            let (scale, shift) =
                if flipped { (-1.0 / size, last + 0.5) } else { (1.0 / size, -0.5) };
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

    /// The map that changes nothing.
    pub(crate) const fn identity() -> Self {
        let [x, y, z, _] = IDENTITY;
        Self([x, y, z])
    }

    /// As a matrix of four rows.
    pub(crate) const fn to_matrix(self) -> [[f64; 4]; 4] {
        let [x, y, z] = self.0;
        [x, y, z, [0.0, 0.0, 0.0, 1.0]]
    }

    /// Where a point is in the world.
    pub(crate) fn apply(&self, point: [f32; 3]) -> [f32; 3] {
        let [x, y, z] = point.map(f64::from);
        self.0.map(|[a, b, c, d]| to_f32(a * x + b * y + c * z + d))
    }
}

#[expect(clippy::as_conversions, reason = "rounding to the type of the file is what is wanted")]
const fn to_f32(x: f64) -> f32 {
    x as f32
}

/// For each column of the matrix, the axis of the world it runs along most, and whether forwards: each
/// axis once, strong columns first. Stretching and shearing are taken out first.
pub(crate) fn axes(matrix: [[f64; 4]; 3]) -> Option<[(usize, bool); 3]> {
    let mut turn = matrix.map(|[a, b, c, _]| [a, b, c]);
    for column in 0..3 {
        let length =
            turn.iter().filter_map(|row| row.get(column)).map(|x| x * x).sum::<f64>().sqrt();
        for row in &mut turn {
            let value = row.get_mut(column)?;
            *value /= length;
        }
    }
    // The nearest turn, by Newton's iteration: the mean with the transposed inverse.
    for _ in 0..ITERATIONS {
        let other = transposed_inverse(turn)?;
        for (row, other) in turn.iter_mut().zip(other) {
            for (value, other) in row.iter_mut().zip(other) {
                *value = (*value + other) / 2.0;
            }
        }
    }
    // The columns that run along an axis most decide first, as in nibabel: a weaker one takes what is left.
    let strength = |column: usize| {
        let squares = turn.iter().filter_map(|row| row.get(column)).map(|x| x * x);
        squares.fold(0.0, f64::max)
    };
    let mut order = [0, 1, 2];
    order.sort_by(|a, b| strength(*b).total_cmp(&strength(*a)));
    let mut found = [(0, true); 3];
    for column in order {
        let most =
            turn.iter().enumerate().filter_map(|(axis, row)| Some((axis, *row.get(column)?)));
        // The first of equal ones.
        let (axis, value) = most.rev().max_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs()))?;
        if !value.is_finite() || value == 0.0 {
            return None;
        }
        *found.get_mut(column)? = (axis, value > 0.0);
        *turn.get_mut(axis)? = [0.0; 3]; // an axis is taken once
    }
    Some(found)
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
/// Steps until nothing changes; each doubles the digits.
const ITERATIONS: usize = 24;
/// Below this volume three directions are taken to lie in a plane.
const MIN_VOLUME: f64 = 1e-9;

#[cfg(test)]
mod tests;
