//! Transform from the coordinates of a TRK file to those of the world.
//!
//! A point is in mm from the corner of the first voxel. Divided by the size of a voxel, less half of
//! one, it is in voxels from the centre of the first. Axes whose direction differs from that of the matrix
//! are flipped, and then the matrix is applied.

use zvf_formats::{Affine, cross, dot};

use crate::trk::read::header::TrkHeader;

/// Returns the map of a file; `None` where its matrix does not determine the axes.
pub(crate) fn world_of(header: &TrkHeader) -> Option<Affine> {
    let [x, y, z] = match header.vox_to_ras {
        Some([x, y, z, _]) => [x, y, z].map(|row| row.map(f64::from)),
        None => Affine::IDENTITY.0,
    };
    let columns = closest_axes([x, y, z])?;
    let mut map = [[0.0; 4]; 3];
    for (axis, (along, forwards)) in header.order.into_iter().enumerate() {
        // The voxels of the matrix that run along the same axis of the world.
        let column = columns.iter().position(|(axis, _)| *axis == along)?;
        let is_flipped = columns[column].1 != forwards;
        let size = f64::from(header.voxel_size[axis]);
        let last = f64::from(header.dim[axis]) - 1.0;
        // voxel = p / size - 1/2, or counted from the other end
        let (scale, shift) =
            if is_flipped { (-1.0 / size, last + 0.5) } else { (1.0 / size, -0.5) };
        for (row, from) in map.iter_mut().zip([x, y, z]) {
            row[axis] += from[column] * scale;
            row[3] += from[column] * shift;
        }
    }
    for (row, from) in map.iter_mut().zip([x, y, z]) {
        row[3] += from[3];
    }
    Some(Affine(map))
}

/// Returns the axis of the world that is closest to each column of the matrix, and whether the column runs forwards:
/// each axis once, strong columns first. Stretching and shearing are removed before.
pub(crate) fn closest_axes(matrix: [[f64; 4]; 3]) -> Option<[(usize, bool); 3]> {
    let mut rotation = Affine(matrix).linear();
    for column in 0..3 {
        let length = rotation.iter().map(|row| row[column] * row[column]).sum::<f64>().sqrt();
        rotation.iter_mut().for_each(|row| row[column] /= length);
    }
    for _ in 0..ITERATIONS {
        let inverse = transposed_inverse(rotation)?;
        for (row, inverse_row) in rotation.iter_mut().zip(inverse) {
            for (value, inverse_value) in row.iter_mut().zip(inverse_row) {
                *value = (*value + inverse_value) / 2.0;
            }
        }
    }
    // Columns are assigned in the order of their largest component, as in nibabel.
    let strength =
        |column: &usize| rotation.iter().map(|row| row[*column] * row[*column]).fold(0.0, f64::max);
    let mut order = [0, 1, 2];
    order.sort_by(|a, b| strength(b).total_cmp(&strength(a)));
    let mut directions = [(0, true); 3];
    for column in order {
        let size = |axis: &usize| rotation[*axis][column].abs();
        // Of equal values the first is chosen.
        let axis = (0..3).rev().max_by(|a, b| size(a).total_cmp(&size(b)))?;
        let value = rotation[axis][column];
        if !value.is_finite() || value == 0.0 {
            return None;
        }
        directions[column] = (axis, value > 0.0);
        rotation[axis] = [0.0; 3]; // an axis is assigned once
    }
    Some(directions)
}

pub(crate) fn transposed_inverse([a, b, c]: [[f64; 3]; 3]) -> Option<[[f64; 3]; 3]> {
    let rows = [cross(b, c), cross(c, a), cross(a, b)];
    let volume = dot(a, rows[0]);
    (volume.is_finite() && volume.abs() > MIN_VOLUME)
        .then(|| rows.map(|row| row.map(|x| x / volume)))
}

/// Iterations until convergence, which is quadratic.
const ITERATIONS: usize = 24;
/// Below this volume three directions count as coplanar.
const MIN_VOLUME: f64 = 1e-9;

#[cfg(test)]
mod tests;
