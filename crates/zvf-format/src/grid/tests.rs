//! Positions, bins and grids: tables of boundary cases, and properties compared with simple
//! arithmetic.

use std::string::ToString;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::key::ChunkKey;

fn shape(sizes: &[f64]) -> ChunkShape {
    ChunkShape::new(sizes).unwrap()
}

fn bins(chunk: &[f64], bin: &[f64]) -> Bins {
    Bins::new(&shape(chunk), bin).unwrap()
}

fn bbox(low: &[f64], high: &[f64]) -> BoundingBox {
    BoundingBox::new(low, high).unwrap()
}

fn key(components: &[i64]) -> ChunkKey {
    ChunkKey::new(components).unwrap()
}

#[rustfmt::skip]
#[test]
fn chunks_and_bins_of_positions() {
    for (chunk, bin, x, by_position, by_bin, flat) in [
        (10.0, 5.0,   0.0,  0,  0, 0),
        (10.0, 5.0,  -0.0,  0,  0, 0),
        (10.0, 5.0,  10.0,  1,  1, 0),
        (10.0, 5.0,   9.9,  0,  0, 1),
        (10.0, 5.0,  -0.1, -1, -1, 1),
        (10.0, 5.0, -10.0, -1, -1, 0),
        // The two rules disagree, and the writer used the bin rule.
        (0.3, 0.1, 0.6, 2, 1, 2),
        (0.3, 0.1, 3.3, 11, 10, 2),
        (0.3, 0.1, 16.2, 54, 53, 2),
        (0.1, 0.05, 0.6, 5, 5, 1),
    ] {
        assert_eq!(shape(&[chunk]).chunk_of(&[x]).unwrap().components(), [by_position], "{x}");
        assert_eq!(bins(&[chunk], &[bin]).locate(&[x]).unwrap(), (key(&[by_bin]), flat), "{x}");
    }
    let spatial_bins = bins(&[4.0, 6.0, 2.0], &[2.0, 2.0, 2.0]);
    assert_eq!((spatial_bins.bins_per_chunk(), spatial_bins.count()), (&[2, 3, 1][..], 6));
    assert_eq!(spatial_bins.locate(&[3.0, 5.0, 1.0]).unwrap(), (key(&[0, 0, 0]), 5));
    assert_eq!(spatial_bins.locate(&[-1.0, -1.0, -1.0]).unwrap(), (key(&[-1, -1, -1]), 5));
}

#[test]
fn the_two_rules_sometimes_disagree() {
    let disagree = |bins: &Bins| {
        let at = |i: i32| f64::from(i) / 100.0;
        let both_rules =
            |x: f64| (bins.locate(&[x]).unwrap().0, bins.chunk_shape().chunk_of(&[x]).unwrap());
        (0..2000).map(at).filter(|x| both_rules(*x).0 != both_rules(*x).1).count()
    };
    assert_eq!(disagree(&bins(&[0.3], &[0.1])), 23);
    assert_eq!(disagree(&bins(&[0.1], &[0.05])), 0);
    assert_eq!(disagree(&Bins::from_chunk_shape(&shape(&[0.3]))), 0);
}

#[rustfmt::skip]
#[test]
fn invalid_shapes_are_refused() {
    for (sizes, message) in [
        (&[][..], "BadShape in grid, chunk_shape at byte 0: expected 1 to 8, found 0"),
        (&[1.0; 9], "LimitExceeded in grid, chunk_shape at byte 0: expected 1 to 8, found 9"),
        (&[1.0, 0.0], "BadShape in grid, chunk_shape at byte 0: expected a finite size above zero, found 0"),
        (&[-1.0], "BadShape in grid, chunk_shape at byte 0: expected a finite size above zero, found -1"),
        (&[f64::NAN], "BadShape in grid, chunk_shape at byte 0: expected a finite size above zero, found NaN"),
        (&[f64::INFINITY], "BadShape in grid, chunk_shape at byte 0: expected a finite size above zero, found inf"),
    ] {
        assert_eq!(ChunkShape::new(sizes).unwrap_err().to_string(), message);
    }
    for (bin, message) in [
        (&[1.0, 1.0][..], "BadShape in grid, bin_shape at byte 0: expected 1, found 2"),
        (&[0.0], "BadShape in grid, bin_shape at byte 0: expected a finite size above zero, found 0"),
        (&[3.0], "BadShape in grid, bin_shape at byte 0: expected a whole number of bins in a chunk, found 3.3333333333333335"),
        (&[20.0], "BadShape in grid, bin_shape at byte 0: expected a whole number of bins in a chunk, found 0.5"),
        (&[1e12], "BadShape in grid, bin_shape at byte 0: expected a whole number of bins in a chunk, found 0.00000000001"),
        (&[1e-300], "BadShape in grid, bin_shape at byte 0: expected a whole number of bins in a chunk, found inf"),
    ] {
        let message = message.replace("found inf", &std::format!("found {}", 10.0 / 1e-300));
        assert_eq!(Bins::new(&shape(&[10.0]), bin).unwrap_err().to_string(), message, "{bin:?}");
    }
    let error = Bins::new(&shape(&[1e7; 3]), &[1.0; 3]).unwrap_err();
    assert_eq!(error.to_string(), "Overflow in grid, bin_shape at byte 0: expected fewer than 2^63 bins in a chunk, found more");
    assert_eq!(Bins::new(&shape(&[1e6; 3]), &[1.0; 3]).unwrap().count(), 1_000_000_000_000_000_000);
}

#[rustfmt::skip]
#[test]
fn invalid_positions_are_refused() {
    for (position, message) in [
        (&[0.0][..], "BadShape in grid, position at byte 0: expected 2, found 1"),
        (&[0.0, f64::NAN], "OutOfBounds in grid, position at byte 0: expected a number, found NaN"),
        (&[f64::INFINITY, 0.0], "Overflow in grid, position at byte 0: expected a quotient by the chunk or bin shape of 64 bits, found inf"),
        (&[-2e19, 0.0], "Overflow in grid, position at byte 0: expected a quotient by the chunk or bin shape of 64 bits, found -20000000000000000000"),
    ] {
        let bins = bins(&[2.0, 2.0], &[1.0, 1.0]);
        assert_eq!(bins.locate(position).unwrap_err().to_string(), message);
        let by_position = shape(&[1.0, 1.0]).chunk_of(position).unwrap_err();
        assert_eq!(by_position.to_string(), message);
    }
}

#[test]
fn ratios_are_integers_within_a_billionth() {
    for (large, small, ratio) in [
        (0.3, 0.1, Some(3)),
        (1.0, 1.0, Some(1)),
        (3.000_000_000_9, 1.0, Some(3)),
        (2.999_999_999_1, 1.0, Some(3)),
        (3.000_000_001_1, 1.0, None),
        (2.999_999_998_9, 1.0, None),
        (0.5, 1.0, None),
        (1e-10, 1.0, None),
        (1e300, 1e-300, None),
        (1e300, 1.0, None),
        (4e18, 1.0, Some(4_000_000_000_000_000_000)),
    ] {
        assert_eq!(whole_ratio(large, small), ratio, "{large} / {small}");
    }
}

#[rustfmt::skip]
#[test]
fn levels_nest_in_the_root() {
    let root = shape(&[0.1, 10.0]);
    assert_eq!(shape(&[0.3, 10.0]).ratio_to(&root).unwrap().multiples(), [3, 1]);
    assert_eq!(shape(&[0.25, 10.0]).ratio_to(&root).unwrap_err().to_string(), "BadShape in grid, chunk_shape at byte 0: expected a whole multiple of the root's, found 2.5");
    assert_eq!(shape(&[0.1]).ratio_to(&root).unwrap_err().to_string(), "BadShape in grid, chunk_shape at byte 0: expected 2, found 1");
}

#[rustfmt::skip]
#[test]
fn the_chunk_shape_of_points_without_one() {
    assert_eq!(ChunkShape::default_for(&[-3.0, 1.0], &[12.0, 9.0]).unwrap(), shape(&[28.0, 28.0]));
    assert_eq!(ChunkShape::default_for(&[-9.0], &[-2.0]).unwrap(), shape(&[10.0]));
    for (low, high, message) in [
        (&[0.0][..], &[1.0, 2.0][..], "BadShape in grid, bounds at byte 0: expected 1, found 2"),
        (&[], &[], "BadShape in grid, bounds at byte 0: expected 1 to 8, found 0"),
        (&[f64::NAN, 0.0], &[1.0, 2.0], "BadShape in grid, chunk_shape at byte 0: expected a finite size above zero, found NaN"),
        (&[0.0], &[f64::INFINITY], "BadShape in grid, chunk_shape at byte 0: expected a finite size above zero, found inf"),
    ] {
        assert_eq!(ChunkShape::default_for(low, high).unwrap_err().to_string(), message);
    }
}

#[rustfmt::skip]
#[test]
fn grids_of_bounds() {
    for (low, high, size, origin, cells) in [
        (0.0, 20.0, 10.0, 0, 3),
        (0.0, 128.0, 128.0, 0, 2),
        (-3.0, 12.0, 10.0, -1, 3),
        (5.0, 5.0, 10.0, 0, 1),
        (15.0, 5.0, 10.0, 1, 1), // inverted bounds: also one cell
    ] {
        let grid = Grid::from_bounds(&[low], &[high], &shape(&[size])).unwrap();
        assert_eq!((grid.origin(), grid.shape(), grid.rank()), (&[origin][..], &[cells][..], 1));
    }
    for (low, high, message) in [
        (&[0.0, 0.0][..], &[1.0][..], "BadShape in grid, bounds at byte 0: expected 1, found 2"),
        (&[0.0], &[1.0, 1.0], "BadShape in grid, bounds at byte 0: expected 1, found 2"),
        (&[0.0], &[f64::NAN], "OutOfBounds in grid, position at byte 0: expected a number, found NaN"),
        (&[f64::NEG_INFINITY], &[1.0], "Overflow in grid, position at byte 0: expected a quotient by the chunk or bin shape of 64 bits, found -inf"),
    ] {
        assert_eq!(Grid::from_bounds(low, high, &shape(&[1.0])).unwrap_err().to_string(), message);
    }
}

#[rustfmt::skip]
#[test]
fn cells_of_a_grid() {
    let grid = Grid::new(&[-1, 2], &[3, 1]).unwrap();
    assert_eq!(grid.path(&key(&[1, 2])).unwrap().to_string(), "c/2/0");
    assert_eq!(grid.chunks().iter().map(|key| key.to_string()).collect::<Vec<_>>(), ["-1.2", "0.2", "1.2"]);
    for (components, message) in [
        (&[2, 2][..], "OutOfBounds in grid, cell at byte 0: expected at most 2, found 3"),
        (&[-2, 2], "OutOfBounds in chunk key, component at byte 0: expected at least -1, found -2"),
        (&[0], "BadShape in chunk key, origin at byte 0: expected 1, found 2"),
    ] {
        assert_eq!(grid.path(&key(components)).unwrap_err().to_string(), message);
        assert!(!grid.contains(&key(components)));
    }
    let binned = grid.with_attribute_bins(2).unwrap();
    assert_eq!((binned.origin(), binned.shape()), (&[0, -1, 2][..], &[2, 3, 1][..]));
    assert!(binned.contains(&key(&[1, 1, 2])) && !binned.contains(&key(&[2, 1, 2])));
    let empty = Grid::new(&[0, 0], &[0, 5]).unwrap();
    assert_eq!((empty.chunks().count(), empty.chunks().iter().next()), (Some(0), None));
    assert!(!empty.contains(&key(&[0, 0])));

    for (origin, shape, message) in [
        (&[0][..], &[1, 1][..], "BadShape in grid, chunk_grid_origin at byte 0: expected 2, found 1"),
        (&[], &[], "BadShape in grid, rank at byte 0: expected 1 to 16, found 0"),
        (&[0; 17], &[1; 17], "LimitExceeded in grid, rank at byte 0: expected 1 to 16, found 17"),
        (&[2], &[1 << 63], "Overflow in grid, shape at byte 0: expected origin + shape in 64 bits, found 9223372036854775808"),
    ] {
        assert_eq!(Grid::new(origin, shape).unwrap_err().to_string(), message);
    }
    let full_grid = Grid::new(&[0; 16], &[1; 16]).unwrap();
    assert_eq!(full_grid.with_attribute_bins(1).unwrap_err().to_string(), "LimitExceeded in grid, rank at byte 0: expected 1 to 16, found 17");
    let edge = Grid::new(&[i64::MAX], &[1]).unwrap();
    assert!(edge.contains(&key(&[i64::MAX])));
}

#[rustfmt::skip]
#[test]
fn invalid_boxes_are_refused() {
    for (low, high, message) in [
        (&[][..], &[][..], "BadShape in grid, box at byte 0: expected 1 to 8, found 0"),
        (&[0.0; 9], &[0.0; 9], "LimitExceeded in grid, box at byte 0: expected 1 to 8, found 9"),
        (&[0.0], &[1.0, 1.0], "BadShape in grid, box at byte 0: expected 1, found 2"),
        (&[f64::NAN], &[1.0], "InvalidArgument in grid, box at byte 0: expected numbers, found NaN"),
        (&[0.0], &[f64::NAN], "InvalidArgument in grid, box at byte 0: expected numbers, found NaN"),
        (&[0.0], &[-1.0], "InvalidArgument in grid, box at byte 0: expected an upper corner not below the lower one, found -1"),
    ] {
        assert_eq!(BoundingBox::new(low, high).unwrap_err().to_string(), message);
    }
    let line = bbox(&[0.0], &[1.0]);
    let message = "BadShape in grid, box at byte 0: expected 2, found 1";
    assert_eq!(shape(&[1.0, 1.0]).chunks_meeting(&line).unwrap_err().to_string(), message);
    let plane_bins = bins(&[1.0, 1.0], &[1.0, 1.0]);
    assert_eq!(plane_bins.chunks_meeting(&line).unwrap_err().to_string(), message);
    assert_eq!(plane_bins.bins_meeting(&line, &key(&[0, 0])).unwrap_err().to_string(), message);
    let square = bbox(&[0.0, 0.0], &[1.0, 1.0]);
    for (components, message) in [
        (&[0][..], "BadShape in grid, chunk key at byte 0: expected 2, found 1"),
        (&[0, 0, 0, 0], "BadShape in grid, chunk key at byte 0: expected 2, found 4"),
    ] {
        assert_eq!(
            plane_bins.bins_meeting(&square, &key(components)).unwrap_err().to_string(),
            message
        );
    }
    assert!(!square.contains(&[0.5]) && !square.contains(&[0.5, f64::NAN]) && square.contains(&[1.0, 0.0]));
}

#[test]
fn large_boxes_take_constant_time() {
    let bins = bins(&[10.0, 10.0], &[5.0, 5.0]);
    let grid = Grid::new(&[-1, 0], &[3, 2]).unwrap();
    for max in [1e12, 1e300, f64::MAX, f64::INFINITY] {
        let all = bins.chunks_meeting(&bbox(&[-max, -max], &[max, max])).unwrap();
        assert_eq!((all.count(), all.iter().take(3).count()), (None, 3));
        let in_grid = all.intersection(&grid.chunks()).unwrap();
        assert_eq!(in_grid.count(), Some(6));
        let keys: Vec<_> = in_grid.iter().map(|key| key.to_string()).collect();
        assert_eq!(keys, ["-1.0", "-1.1", "0.0", "0.1", "1.0", "1.1"]);
        let found = bins.bins_meeting(&bbox(&[-max, -max], &[max, max]), &key(&[1, 1])).unwrap();
        assert!(found.iter().eq(0..4));
    }
    let outside = bins.chunks_meeting(&bbox(&[1e18, 0.0], &[1e300, 0.0])).unwrap();
    let outside = outside.intersection(&grid.chunks()).unwrap();
    assert_eq!((outside.count(), outside.is_empty(), outside.axis(0)), (Some(0), true, None));
    assert!(outside.iter().next().is_none() && !outside.contains(&key(&[1, 0])));
}

#[test]
fn ranges_on_attribute_binned_levels() {
    let range = shape(&[10.0]).chunks_meeting(&bbox(&[5.0], &[15.0])).unwrap();
    assert!(range.contains(&key(&[1])) && range.contains(&key(&[7, 1])));
    assert!(!range.contains(&key(&[1, 7])) && !range.contains(&key(&[0, 0, 1])));
    let grid = Grid::new(&[0, -5], &[2, 100]).unwrap();
    let in_grid = grid.chunks().iter().filter(|key| range.contains(key));
    let keys: Vec<_> = in_grid.map(|key| key.to_string()).collect();
    assert_eq!(keys, ["0.0", "0.1", "1.0", "1.1"]);
    let grid_of_three = Grid::new(&[0; 3], &[1; 3]).unwrap();
    let message = "BadShape in grid, rank at byte 0: expected 1, found 3";
    assert_eq!(range.intersection(&grid_of_three.chunks()).unwrap_err().to_string(), message);
    let binned = bins(&[10.0], &[5.0]).bins_meeting(&bbox(&[0.0], &[4.0]), &key(&[9, 0])).unwrap();
    assert!(binned.iter().eq([0]));
}

#[rustfmt::skip]
#[test]
fn bins_of_a_chunk_in_a_box() {
    let plane_bins = bins(&[4.0, 6.0], &[2.0, 2.0]);
    for (chunk, low, high, flat) in [
        (&[0, 0][..], &[0.0, 0.0][..], &[3.9, 5.9][..], &[0, 1, 2, 3, 4, 5][..]),
        (&[0, 0], &[1.0, 2.0], &[1.0, 3.9], &[1]),
        (&[0, 0], &[1.0, 2.0], &[2.0, 4.0], &[1, 2, 4, 5]),
        (&[-1, 1], &[-9.0, 0.0], &[-2.1, 7.0], &[0]),
        (&[1, 0], &[0.0, 0.0], &[3.9, 9.0], &[]),
        (&[i64::MAX, 0], &[0.0, 0.0], &[f64::INFINITY, 9.0], &[]),
        (&[i64::MIN, 0], &[f64::NEG_INFINITY, 0.0], &[0.0, 9.0], &[]), // its bins have no numbers
    ] {
        let found = plane_bins.bins_meeting(&bbox(low, high), &key(chunk)).unwrap();
        assert!(found.iter().eq(flat.iter().copied()), "{chunk:?}: {:?}", found.iter().collect::<Vec<_>>());
        assert_eq!((found.count(), found.is_empty()), (num::to_u64(flat.len()), flat.is_empty()));
        assert!((0..9).all(|bin| found.contains(bin) == flat.contains(&bin)));
    }
}

#[test]
fn assignment_stops_at_the_first_position_without_a_chunk() {
    let plane_bins = bins(&[4.0, 4.0], &[2.0, 2.0]);
    let mut positions = [[1.0_f32; 2]; 70];
    let (mut chunks, mut flat) = ([[0; 2]; 70], [0; 70]);
    assert!(plane_bins.assign(&positions, &mut chunks, &mut flat).is_ok());
    positions[40][1] = f32::NAN;
    let error = plane_bins.assign(&positions, &mut chunks, &mut flat).unwrap_err();
    assert_eq!((error.class, error.offset), (Class::OutOfBounds, 40 * 8));
    let error = plane_bins.chunk_shape().assign(&positions, &mut chunks).unwrap_err();
    assert_eq!((error.class, error.offset), (Class::OutOfBounds, 40 * 8));
    let error = plane_bins.assign(&[[0_i16; 3]], &mut [[0; 3]], &mut [0]).unwrap_err();
    assert_eq!(error.to_string(), "BadShape in grid, position at byte 0: expected 2, found 3");
    // The shortest slice ends the assignment.
    let mut bin_numbers = [9; 33];
    assert!(plane_bins.assign(&[[2.0_f64; 2]; 70], &mut [[0; 2]; 70], &mut bin_numbers).is_ok());
    assert!(bin_numbers.iter().all(|bin| *bin == 3));
    assert!(plane_bins.assign(&[[2.0_f64; 2]; 70], &mut [[0; 2]; 70], &mut []).is_ok());
}

#[test]
fn morton_codes() {
    for (components, code) in [
        (&[1, 0][..], Some(1)),
        (&[0, 1], Some(2)),
        (&[1, 0, 0], Some(1)),
        (&[0, 1, 0], Some(2)),
        (&[0, 0, 1], Some(4)),
        (&[3, 5], Some(0b10_01_11)),
        (&[i64::MAX], Some(i64::MAX.unsigned_abs())),
        (&[1 << 31, 1 << 31], Some(0b11 << 62)),
        (&[1 << 32, 0], None),
        (&[0, -1], None),
        (&[], Some(0)),
    ] {
        assert_eq!(morton(components), code, "{components:?}");
    }
}

/// Sizes with inexact quotients, and the number of bins per chunk.
fn division() -> impl Strategy<Value = (f64, i32)> {
    let size = prop_oneof![
        Just(0.1),
        Just(0.05),
        Just(1.0),
        Just(1e-3),
        Just(7.3),
        Just(1e-160),
        Just(3e15),
        1e-6..1e6_f64
    ];
    (size, prop_oneof![1..12_i32, Just(1000), Just(1 << 20)])
}

/// Coordinates near multiples of `size`, near the limits of exact arithmetic, and anywhere.
fn coordinate(size: f64) -> impl Strategy<Value = f64> {
    let steps = prop_oneof![
        -50..50_i64,
        any::<i32>().prop_map(i64::from),
        (1_i64 << 51) - 3..(1 << 51) + 3,
        (-1_i64 << 51) - 3..(-1 << 51) + 3,
        -(1_i64 << 54)..(1 << 54)
    ];
    let error = prop_oneof![
        Just(0.0),
        Just(0.5),
        Just(1e-9),
        Just(-1e-9),
        Just(f64::EPSILON),
        Just(-f64::EPSILON)
    ];
    prop_oneof![
        9 => (steps, error).prop_map(move |(steps, error)| num::f64_from_i64(steps) * size * (1.0 + error)),
        1 => any::<f64>(),
    ]
}

fn space() -> impl Strategy<Value = (Bins, Vec<[f64; 3]>)> {
    prop::array::uniform3(division()).prop_flat_map(|divisions| {
        let bin = divisions.map(|(size, _)| size);
        let chunk = divisions.map(|(size, n)| size * f64::from(n));
        let at = (coordinate(bin[0]), coordinate(bin[1]), coordinate(bin[2]));
        let positions = prop::collection::vec(at.prop_map(|(x, y, z)| [x, y, z]), 0..100);
        (Just(bins(&chunk, &bin)), positions)
    })
}

proptest! {
    /// The fast method gives the result of the simple method, or refuses like it.
    #[test]
    fn assignment_equals_locating_each_position((bins, positions) in space()) {
        let (mut chunks, mut flat) = (std::vec![[0; 3]; positions.len()], std::vec![0; positions.len()]);
        let all: Result<Vec<_>, _> = positions.iter().map(|at| bins.locate(at)).collect();
        match bins.assign(&positions, &mut chunks, &mut flat) {
            Ok(()) => {
                for (i, (chunk, bin)) in all.unwrap().into_iter().enumerate() {
                    prop_assert_eq!((&chunks[i][..], flat[i]), (chunk.components(), bin));
                }
            }
            Err(error) => {
                let first = positions.iter().position(|at| bins.locate(at).is_err()).unwrap();
                prop_assert_eq!(error.offset, num::to_u64(first * 24));
            }
        }
        let by_position: Result<Vec<_>, _> =
            positions.iter().map(|at| bins.chunk_shape().chunk_of(at)).collect();
        match bins.chunk_shape().assign(&positions, &mut chunks) {
            Ok(()) => for (chunk, key) in chunks.iter().zip(by_position.unwrap()) {
                prop_assert_eq!(&chunk[..], key.components());
            }
            Err(_) => prop_assert!(by_position.is_err()),
        }
    }

    #[test]
    fn narrow_coordinates_are_widened_first(positions in prop::collection::vec(any::<[f32; 2]>(), 0..50)) {
        let bins = bins(&[0.3, 10.0], &[0.1, 5.0]);
        let finite: Vec<_> = positions.into_iter()
            .filter(|at| bins.locate(&at.map(f64::from)).is_ok()).collect();
        let (mut chunks, mut flat) = (std::vec![[0; 2]; finite.len()], std::vec![0; finite.len()]);
        bins.assign(&finite, &mut chunks, &mut flat).unwrap();
        for (i, at) in finite.iter().enumerate() {
            let (chunk, bin) = bins.locate(&at.map(f64::from)).unwrap();
            prop_assert_eq!((&chunks[i][..], flat[i]), (chunk.components(), bin));
        }
    }

    /// By either rule of the writer, a position in the box is in a chunk and a bin that meet the
    /// box.
    #[test]
    fn no_position_in_a_box_is_missed(
        (bins, positions) in space(), fallback in prop::array::uniform3(any::<f64>())
    ) {
        for pair in positions.chunks(2) {
            let opposite = pair.get(1).copied().unwrap_or(fallback);
            let low: Vec<_> = pair[0].iter().zip(opposite).map(|(a, b)| a.min(b)).collect();
            let high: Vec<_> = pair[0].iter().zip(opposite).map(|(a, b)| a.max(b)).collect();
            let Ok(bbox) = BoundingBox::new(&low, &high) else { continue };
            let chunks = bins.chunks_meeting(&bbox).unwrap();
            let by_position = bins.chunk_shape().chunks_meeting(&bbox).unwrap();
            for at in positions.iter().filter(|at| bbox.contains(&at[..])) {
                if let Ok((key, bin)) = bins.locate(at) {
                    prop_assert!(chunks.contains(&key));
                    prop_assert!(bins.bins_meeting(&bbox, &key).unwrap().contains(bin));
                }
                if let Ok(key) = bins.chunk_shape().chunk_of(at) {
                    prop_assert!(chunks.contains(&key) && by_position.contains(&key));
                }
            }
        }
    }

    /// Iterating a range equals testing each key, in order.
    #[test]
    fn ranges_walk_in_numeric_order(low in prop::array::uniform3(-4..4_i64), high in prop::array::uniform3(-4..4_i64)) {
        let range = ChunkRange::from_fn(3, |axis| Some((low[axis], high[axis])));
        let keys: Vec<_> = range.iter().collect();
        prop_assert!(keys.is_sorted_by(|a, b| a.cmp_numeric(b).is_lt()));
        prop_assert_eq!(range.count(), Some(num::to_u64(keys.len())));
        let all = ChunkRange::from_fn(3, |_| Some((-5, 5)));
        prop_assert!(all.iter().filter(|key| range.contains(key)).eq(keys));
    }
}
