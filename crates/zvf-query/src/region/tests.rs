//! Tests of every operation on every region, most of them against sampled points.

use proptest::prelude::*;

use super::*;

fn square() -> Region {
    Region::from(Bounds::new(&[0.0, 0.0], &[4.0, 4.0]).unwrap())
}

/// Returns an L shape: a square without its upper right quarter.
fn corner_shape() -> Region {
    let outline = [[0.0, 0.0], [4.0, 0.0], [4.0, 2.0], [2.0, 2.0], [2.0, 4.0], [0.0, 4.0]];
    let limits = Bounds::new(&[f64::NEG_INFINITY; 2], &[f64::INFINITY; 2]).unwrap();
    Region::prism(&outline, [0, 1], &limits).unwrap()
}

#[test]
fn segments_that_touch_count() {
    for (region, a, b, parts) in [
        (square(), [-1.0, 2.0], [5.0, 2.0], &[(1.0 / 6.0, 5.0 / 6.0)][..]),
        (square(), [1.0, 1.0], [2.0, 2.0], &[(0.0, 1.0)]),
        (square(), [4.0, 4.0], [9.0, 9.0], &[(0.0, 0.0)]),
        (square(), [-1.0, 3.0], [1.0, 5.0], &[(0.5, 0.5)]),
        (square(), [-1.0, 4.0], [1.0, 6.0], &[]),
        (square(), [5.0, 0.0], [5.0, 4.0], &[]),
        (square(), [f64::NAN, 0.0], [1.0, 1.0], &[]),
        (Region::ball(&[0.0, 0.0], 1.0).unwrap(), [-2.0, 0.0], [2.0, 0.0], &[(0.25, 0.75)]),
        (Region::ball(&[0.0, 0.0], 1.0).unwrap(), [-2.0, 1.0], [2.0, 1.0], &[(0.5, 0.5)]),
        (Region::ball(&[0.0, 0.0], 1.0).unwrap(), [1.0, 1.0], [1.0, 1.0], &[]),
        (corner_shape(), [3.0, 1.0], [3.0, 5.0], &[(0.0, 0.25)]),
        (corner_shape(), [1.0, 3.0], [5.0, 3.0], &[(0.0, 0.25)]),
        (corner_shape(), [1.5, 4.0], [4.0, 1.5], &[(0.0, 0.2), (0.8, 1.0)]),
    ] {
        let mut found = Vec::new();
        region.clip_segment(&a, &b, &mut found);
        assert_eq!(found.len(), parts.len(), "{a:?} {b:?}: {found:?}");
        for (found, expected) in found.iter().zip(parts) {
            assert!((found.0 - expected.0).abs() < 1e-12 && (found.1 - expected.1).abs() < 1e-12);
        }
        assert_eq!(region.meets_segment(&a, &b), !parts.is_empty(), "{a:?} {b:?}");
    }
}

#[test]
fn flat_boxes_are_cut_on_their_plane() {
    let flat = Region::from(Bounds::new(&[2.0, 1.0, 3.0], &[4.0, 3.0, 3.0]).unwrap());
    let crossing_face: [&[f64]; 3] = [&[20.0, 17.0, -9.0], &[0.0, -2.0, -2.0], &[0.0, -1.0, 24.0]];
    assert!(flat.meets_face(&crossing_face));
    let box_above = Region::from(Bounds::new(&[2.0, 1.0, 24.5], &[4.0, 3.0, 24.5]).unwrap());
    assert!(!box_above.meets_face(&crossing_face));
}

#[test]
fn faces_without_a_corner_inside_are_found() {
    let cube = Region::from(Bounds::new(&[0.0; 3], &[1.0; 3]).unwrap());
    let ball = Region::ball(&[0.5; 3], 0.5).unwrap();
    let cutting: [&[f64]; 3] = [&[-9.0, -9.0, 0.5], &[9.0, -9.0, 0.5], &[0.0, 9.0, 0.5]];
    let disjoint: [&[f64]; 3] = [&[-9.0, -9.0, 1.5], &[9.0, -9.0, 1.5], &[0.0, 9.0, 1.5]];
    let quad: [&[f64]; 4] =
        [&[2.0, 0.5, 0.5], &[3.0, 0.5, 0.5], &[3.0, 0.6, 0.5], &[-1.0, 0.6, 0.5]];
    for region in [&cube, &ball] {
        assert!(region.meets_face(&cutting) && !region.meets_face(&disjoint));
        assert!(region.meets_face(&quad));
        assert!(region.meets_face(&cutting[..2]) == region.meets_segment(cutting[0], cutting[1]));
        assert!(!region.meets_face(&[]));
    }
    let [piece] = <[_; 1]>::try_from(cube.clip_face(&cutting).unwrap()).unwrap();
    let area: f64 = shoelace(&piece);
    assert!((area - 1.0).abs() < 1e-12, "the cut is the whole section of the cube, {area}");
    assert_eq!(ball.clip_face(&cutting), Err(BadRegion::CurvedCut));
    assert!(cube.clip_face(&disjoint).unwrap().is_empty());
}

fn shoelace(loop_: &[Corner]) -> f64 {
    let next = loop_.iter().cycle().skip(1);
    let cross = |(a, b): (&Corner, &Corner)| {
        a.position()[0] * b.position()[1] - a.position()[1] * b.position()[0]
    };
    loop_.iter().zip(next).map(cross).sum::<f64>().abs() / 2.0
}

#[test]
fn half_open_boxes_share_no_point() {
    let left = Region::from(Bounds::new(&[0.0], &[1.0]).unwrap()).into_half_open();
    let right = Region::from(Bounds::new(&[1.0], &[2.0]).unwrap()).into_half_open();
    for x in [0.0, 0.5, 1.0, 1.5] {
        assert!(left.contains(&[x]) != right.contains(&[x]), "{x}");
    }
    assert_eq!(left.as_box().map(|(_, closed)| closed), Some(false));
}

#[test]
fn invalid_regions_are_refused_with_a_reason() {
    for (result, message) in [
        (Region::ball(&[], 1.0), "a region needs 1 to 8 axes, the same everywhere, found 0"),
        (Region::ball(&[0.0], 1e155), "a region cannot have a squared radius that is not finite"),
    ] {
        assert_eq!(result.unwrap_err().to_string(), message);
    }
}

fn any_region() -> impl Strategy<Value = Region> {
    let x = -8..8_i32;
    prop_oneof![
        [x.clone(), x.clone(), 0..8, 0..8].prop_map(|[x, y, w, h]| {
            let (x, y, w, h) = (f64::from(x), f64::from(y), f64::from(w), f64::from(h));
            Region::from(Bounds::new(&[x, y], &[x + w, y + h]).unwrap())
        }),
        [x.clone(), x.clone(), 0..8]
            .prop_map(|[x, y, r]| { Region::ball(&[x.into(), y.into()], r.into()).unwrap() }),
        Just(corner_shape()),
        [x.clone(), x.clone(), x].prop_filter_map("no direction", |[a, b, c]| {
            let space = HalfSpace::new(&[a.into(), b.into()], c.into()).ok()?;
            Region::from_half_spaces(&[space]).ok()
        }),
    ]
}

fn any_point() -> impl Strategy<Value = [f64; 2]> {
    [-10..10_i32, -10..10].prop_map(|[x, y]| [f64::from(x), f64::from(y)])
}

fn interpolate(a: &[f64; 2], b: &[f64; 2], t: f64) -> [f64; 2] {
    [a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t]
}

proptest! {
    /// A sampled point of a segment is inside exactly when one of the parts covers it.
    #[test]
    fn parts_hold_points_inside(region in any_region(), a in any_point(), b in any_point()) {
        let mut parts = Vec::new();
        region.clip_segment(&a, &b, &mut parts);
        for step in 0..=20_u8 {
            let t = f64::from(step) / 20.0;
            let covered = parts.iter().any(|(from, to)| *from <= t && t <= *to);
            let point = interpolate(&a, &b, t);
            let inside = region.contains(&point);
            prop_assert!(on_the_edge(&region, point) || covered == inside, "t = {t}");
        }
        prop_assert!(parts.windows(2).all(|pair| pair[0].1 < pair[1].0));
    }

    /// A cell that does not meet the hull has no sampled point inside.
    #[test]
    fn the_hull_agrees_with_samples(region in any_region(), a in any_point(), b in any_point()) {
        let low = [a[0].min(b[0]), a[1].min(b[1])];
        let high = [a[0].max(b[0]), a[1].max(b[1])];
        let cell = Bounds::new(&low, &high).unwrap();
        let is_outside = region.hull().intersection(&cell).is_none();
        for i in 0..=8_u8 {
            for j in 0..=8_u8 {
                let at = |low: f64, high: f64, k: u8| low + (high - low) * f64::from(k) / 8.0;
                let inside = region.contains(&[at(low[0], high[0], i), at(low[1], high[1], j)]);
                prop_assert!(!is_outside || !inside);
            }
        }
    }

    /// A face meets a region when a sampled point of it is inside, and its cut stays inside.
    #[test]
    fn faces_agree_with_samples(region in any_region(), corners in [any_point(), any_point(), any_point()]) {
        let face: Vec<&[f64]> = corners.iter().map(|corner| &corner[..]).collect();
        let meets = region.meets_face(&face);
        for i in 0..=6_u8 {
            for j in 0..=(6 - i) {
                let (s, t) = (f64::from(i) / 6.0, f64::from(j) / 6.0);
                let point = [0, 1].map(|k| {
                    corners[0][k] * (1.0 - s - t) + corners[1][k] * s + corners[2][k] * t
                });
                // One step inside, so that rounding of the sample does not decide.
                let is_interior = [[-1e-9, 0.0], [1e-9, 0.0], [0.0, -1e-9], [0.0, 1e-9]]
                    .iter()
                    .all(|d| region.contains(&[point[0] + d[0], point[1] + d[1]]));
                prop_assert!(meets || !is_interior, "{point:?}");
            }
        }
        for piece in region.clip_face(&face).unwrap_or_default() {
            for corner in piece {
                let at = corner.position();
                prop_assert!(region.hull().contains(&[at[0], at[1]]) || near_hull(&region, at));
                prop_assert!((corner.shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            }
        }
    }
}

/// Returns whether rounding of a sample may decide its side of the boundary.
fn on_the_edge(region: &Region, [x, y]: [f64; 2]) -> bool {
    let offsets = [[-1e-9, 0.0], [1e-9, 0.0], [0.0, -1e-9], [0.0, 1e-9]];
    offsets.iter().any(|[dx, dy]| region.contains(&[x + dx, y + dy]) != region.contains(&[x, y]))
}

fn near_hull(region: &Region, at: &[f64; 8]) -> bool {
    let hull = region.hull();
    (0..2).all(|k| hull.low()[k] - 1e-9 <= at[k] && at[k] <= hull.high()[k] + 1e-9)
}
