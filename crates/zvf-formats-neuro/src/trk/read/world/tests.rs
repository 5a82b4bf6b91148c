//! Tests of orientations against values of nibabel, where those are right.

use crate::trk::read::world::*;

fn header(order: &str, matrix: Option<[[f32; 4]; 3]>, size: [f32; 3], dim: [i16; 3]) -> TrkHeader {
    let axes = order.chars().map(|letter| match letter {
        'L' => (0, false),
        'R' => (0, true),
        'P' => (1, false),
        'A' => (1, true),
        'I' => (2, false),
        _ => (2, true),
    });
    let axes: Vec<(usize, bool)> = axes.collect();
    TrkHeader {
        big_endian: false,
        dim,
        voxel_size: size,
        scalars: Vec::new(),
        properties: Vec::new(),
        vox_to_ras: matrix.map(|[x, y, z]| [x, y, z, [0.0, 0.0, 0.0, 1.0]]),
        order: axes.try_into().unwrap(),
        count: None,
    }
}

#[test]
fn converts_points_to_the_world() {
    let twice = [[2.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0], [0.0, 0.0, 2.0, 0.0]];
    let mirrored = [[-2.0, 0.0, 0.0, 90.0], [0.0, 2.0, 0.0, -126.0], [0.0, 0.0, 2.0, -72.0]];
    let sheared = [[1.9, 0.3, 0.0, 5.0], [-0.3, 2.9, 0.2, 6.0], [0.1, -0.2, 1.0, 7.0]];
    let exchanged = [[0.0, 2.0, 0.0, 0.0], [3.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]];
    let (small, brain) = ([10, 20, 30], [91, 109, 91]);
    for (order, matrix, size, dim, expected) in [
        ("RAS", Some(twice), [2.0; 3], small, [[-1.0, -1.0, -1.0], [1.0, 2.0, 3.0]]),
        ("LPS", Some(twice), [2.0; 3], small, [[19.0, 39.0, -1.0], [17.0, 36.0, 3.0]]),
        ("LAS", Some(mirrored), [2.0; 3], brain, [[91.0, -127.0, -73.0], [89.0, -124.0, -69.0]]),
        ("RAS", Some(mirrored), [2.0; 3], brain, [[-91.0, -127.0, -73.0], [-89.0, -124.0, -69.0]]),
        ("RAS", Some(sheared), [2.0, 3.0, 1.0], small, [[3.9, 4.6, 6.55], [6.1, 8.0, 10.45]]),
        ("ARS", Some(exchanged), [3.0, 2.0, 1.0], small, [[-1.0, -1.5, -0.5], [2.0, 0.5, 3.5]]),
        ("RAS", Some(exchanged), [2.0, 3.0, 1.0], small, [[-1.0, -1.5, -0.5], [1.0, 1.5, 3.5]]),
        // Counted from the other end of the axis that runs to the left: 20 voxels of it.
        (
            "LAS",
            Some(exchanged),
            [2.0, 3.0, 1.0],
            [20, 10, 30],
            [[39.0, -1.5, -0.5], [37.0, 1.5, 3.5]],
        ),
        ("RAS", None, [2.0; 3], small, [[-0.5, -0.5, -0.5], [0.5, 1.0, 1.5]]),
    ] {
        let world = world_of(&header(order, matrix, size, dim)).unwrap();
        for (point, expected) in [[0.0, 0.0, 0.0], [2.0, 3.0, 4.0]].into_iter().zip(expected) {
            let found = world.apply(point);
            let near = found.iter().zip(expected).all(|(a, b): (&f64, f64)| (a - b).abs() < 1e-5);
            assert!(near, "{order} {matrix:?}: {found:?} instead of {expected:?}");
        }
    }
}

#[test]
fn strong_columns_choose_their_axis_first() {
    // nibabel 5.4 calls it ALS: the third column runs upwards more than the second one runs downwards.
    let oblique = [
        [-1.776, -0.947, -1.058, -8.408],
        [1.98, -1.032, -0.665, -64.321],
        [-0.347, -1.042, 1.62, -12.82],
    ];
    assert_eq!(closest_axes(oblique), Some([(1, true), (0, false), (2, true)]));
}

#[test]
fn refuses_a_flat_matrix() {
    for matrix in [
        [[0.0; 4]; 3],
        [[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]],
        [[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]],
    ] {
        assert_eq!(world_of(&header("RAS", Some(matrix), [1.0; 3], [1; 3])), None);
    }
}
