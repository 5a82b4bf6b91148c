//! The locations of records for every policy, and the inverse.

use std::string::ToString;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::grid::ChunkShape;
use crate::key::{Delta, Offsets};

#[test]
fn permutations_round_trip() {
    for (order, code) in [
        (&[][..], 0),
        (&[0], 0),
        (&[0, 1], 0),
        (&[1, 0], 1),
        (&[0, 1, 2], 0),
        (&[0, 2, 1], 1),
        (&[1, 0, 2], 2),
        (&[1, 2, 0], 3),
        (&[2, 0, 1], 4),
        (&[2, 1, 0], 5),
        (&[2, 0, 3, 1], 13),
        (&[3, 2, 1, 0], 23),
        (&[7, 6, 5, 4, 3, 2, 1, 0], 40319),
    ] {
        let permutation = Permutation::new(order).unwrap();
        assert_eq!((permutation.order(), permutation.code()), (order, code));
        let width = order.len().try_into().unwrap();
        assert_eq!(Permutation::from_code(code.into(), width), Some(permutation));
    }
    for order in [&[1][..], &[0, 0], &[0, 2], &[255, 0], &[0, 1, 2, 3, 4, 5, 6, 7, 8]] {
        assert_eq!(Permutation::new(order), None, "{order:?}");
    }
}

#[test]
fn codes_and_permutations_are_bijective() {
    let widest = if cfg!(miri) { 5 } else { 8 }; // 46 232 permutations are too many to interpret
    for width in 0..=widest {
        let codes = (1..=u64::from(width)).product::<u64>();
        let mut last = None;
        for code in 0..codes {
            let permutation = Permutation::from_code(code, width).unwrap();
            let order = permutation.order().to_vec();
            assert!(last.is_none_or(|last| last < order), "ascending, so all differ");
            assert_eq!(u64::from(permutation.code()), code);
            assert_eq!(Permutation::new(&order), Some(permutation));
            for (i, place) in order.iter().enumerate() {
                assert_eq!(usize::from(permutation.inverse().order()[usize::from(*place)]), i);
            }
            last = Some(order);
        }
        for code in [codes, codes + 1, u64::MAX] {
            assert_eq!(Permutation::from_code(code, width), None);
        }
    }
    assert_eq!(Permutation::from_code(0, 9), None);
    assert_eq!(Permutation::identity(3).order(), [0, 1, 2]);
}

struct Case {
    name: &'static str,
    family: LinkPolicy,
    chunks: &'static [&'static str],
    rows: &'static [u64],
    /// The source, offsets, permutation and rows of each copy.
    copies: &'static [(&'static str, &'static str, Option<u16>, &'static [u64])],
}

fn family(width: usize, rank: usize) -> LinkPolicy {
    LinkPolicy::new(width, rank).unwrap()
}

/// Returns the anchor of chunks of 10 and 20 over a root of 10: one level up, in `rank` components.
fn up(rank: usize) -> Anchor {
    let root = ChunkShape::new(&[10.0]).unwrap();
    let coarse = ChunkShape::new(&[20.0]).unwrap().ratio_to(&root).unwrap();
    Anchor::from_ratios(&root.ratio_to(&root).unwrap(), &coarse, rank).unwrap()
}

#[rustfmt::skip]
#[test]
fn records_are_placed_by_policy() {
    let duplicate = |width, rank| family(width, rank).with_storage(LinkStorage::Duplicate);
    for Case { name, family, chunks, rows, copies } in [
        Case { name: "sorted already", family: family(2, 2), chunks: &["0.0", "1.0"], rows: &[2, 0],
            copies: &[("0.0", "+1.0", Some(0), &[2, 0])] },
        Case { name: "swapped", family: family(2, 2), chunks: &["1.0", "0.0"], rows: &[1, 3],
            copies: &[("0.0", "+1.0", Some(1), &[3, 1])] },
        Case { name: "numeric order of chunks", family: family(2, 1), chunks: &["10", "2"], rows: &[0, 0],
            copies: &[("2", "+8", Some(1), &[0, 0])] },
        Case { name: "negative chunks", family: family(2, 1), chunks: &["-1", "-2"], rows: &[7, 8],
            copies: &[("-2", "+1", Some(1), &[8, 7])] },
        Case { name: "inside a chunk, nothing moves", family: family(2, 2), chunks: &["0.0", "0.0"], rows: &[5, 1],
            copies: &[("0.0", "0.0", None, &[5, 1])] },
        Case { name: "loop", family: duplicate(2, 1), chunks: &["3", "3"], rows: &[4, 4],
            copies: &[("3", "0", None, &[4, 4])] },
        Case { name: "face", family: family(3, 3), chunks: &["1.0.0", "0.0.0", "0.0.0"], rows: &[0, 0, 1],
            copies: &[("0.0.0", "0.0.0_+1.0.0", Some(3), &[0, 1, 0])] },
        Case { name: "face over three chunks", family: family(3, 3), chunks: &["0.0.0", "1.0.0", "0.1.0"], rows: &[1, 2, 3],
            copies: &[("0.0.0", "0.+1.0_+1.0.0", Some(1), &[1, 3, 2])] },
        Case { name: "same row twice stays in input order", family: family(3, 1), chunks: &["1", "0", "1"], rows: &[2, 9, 2],
            copies: &[("0", "+1_+1", Some(2), &[9, 2, 2])] },
        Case { name: "directed", family: family(2, 2).with_direction(), chunks: &["0.1", "0.0"], rows: &[5, 6],
            copies: &[("0.1", "0.-1", None, &[5, 6])] },
        Case { name: "duplicate edge", family: duplicate(2, 1), chunks: &["1", "0"], rows: &[7, 8],
            copies: &[("0", "+1", Some(1), &[8, 7]), ("1", "-1", Some(0), &[7, 8])] },
        Case { name: "duplicate and directed", family: duplicate(2, 1).with_direction(), chunks: &["1", "0"], rows: &[7, 8],
            copies: &[("0", "+1", Some(1), &[8, 7]), ("1", "-1", Some(0), &[7, 8])] },
        // The copy of chunk 0 starts with its lowest row, which was last; the others keep the given
        // order.
        Case { name: "duplicate face", family: duplicate(4, 1), chunks: &["2", "0", "1", "0"], rows: &[5, 9, 6, 3],
            copies: &[("0", "+2_0_+1", Some(18), &[3, 5, 9, 6]),
                      ("1", "+1_-1_-1", Some(12), &[6, 5, 9, 3]),
                      ("2", "-2_-1_-2", Some(0), &[5, 9, 6, 3])] },
        Case { name: "up one level", family: family(2, 1).with_delta(Delta(1), up(1)).unwrap(), chunks: &["-1", "0"], rows: &[4, 2],
            copies: &[("-1", "+1", None, &[4, 2])] },
        Case { name: "up one level, same place", family: family(2, 1).with_delta(Delta(1), up(1)).unwrap(), chunks: &["3", "1"], rows: &[4, 2],
            copies: &[("3", "0", None, &[4, 2])] },
        Case { name: "between levels even duplicates are one", family: duplicate(2, 1).with_delta(Delta(-1), up(1)).unwrap(), chunks: &["3", "3"], rows: &[4, 2],
            copies: &[("3", "+2", None, &[4, 2])] },
        Case { name: "attribute bins in front", family: family(2, 2).with_delta(Delta(1), up(2)).unwrap(), chunks: &["3.5", "3.2"], rows: &[4, 2],
            copies: &[("3.5", "0.0", None, &[4, 2])] },
        Case { name: "one endpoint", family: family(1, 2).with_delta(Delta(-1), Anchor::identity(2).unwrap()).unwrap(), chunks: &["0.0"], rows: &[2],
            copies: &[("0.0", "self", None, &[2])] },
    ] {
        let chunks: Vec<_> = chunks.iter().map(|text| key(text)).collect();
        let ends = endpoints(&chunks, rows);
        let placed: Vec<_> = family.place(&ends).unwrap().collect();
        assert_eq!(placed.len(), copies.len(), "{name}");
        for (placement, (source, offsets, perm, rows)) in placed.iter().zip(copies) {
            assert_eq!(placement.source().to_string(), *source, "{name}");
            assert_eq!(placement.offsets().to_string(), *offsets, "{name}");
            assert_eq!((placement.record().perm(), placement.record().rows()), (*perm, *rows), "{name}");
            assert_eq!(placement.is_intra(), placement.offsets().are_zero(), "{name}");
            assert_eq!(placement.endpoint(0).unwrap().chunk, placement.source());
            assert_eq!(placement.endpoint(ends.len()), None);
        }
    }
}

#[rustfmt::skip]
#[test]
fn records_that_cannot_be_placed_are_refused() {
    let duplicate = family(2, 1).with_storage(LinkStorage::Duplicate);
    let policy = family(2, 1).with_delta(Delta(1), Anchor::identity(1).unwrap()).unwrap();
    let root = ChunkShape::new(&[1.0]).unwrap();
    let ratio = |n: f64| ChunkShape::new(&[n]).unwrap().ratio_to(&root).unwrap();
    let anchor = Anchor::from_ratios(&ratio(2.0), &ratio(1.0), 1).unwrap();
    let down = family(2, 1).with_delta(Delta(-1), anchor).unwrap();
    let (min, max) = ("-9223372036854775808", "9223372036854775807");
    for (family, chunks, message) in [
        (family(2, 1), &["0"][..], "CountMismatch in link record, link_width at byte 0: expected 2, found 1"),
        (family(1, 1), &["0", "1"], "CountMismatch in link record, link_width at byte 0: expected 1, found 2"),
        (family(2, 1), &["0", "1.0"], "BadShape in link record, sid_ndim at byte 0: expected 1, found 2"),
        (family(2, 1), &[min, "0"], "Overflow in link record, chunk at byte 0: expected an offset in 64 bits, found 0"),
        (family(2, 1).with_direction(), &[max, "-2"], "Overflow in link record, chunk at byte 0: expected an offset in 64 bits, found -2"),
        // The first copy fits, the second does not.
        (duplicate, &["0", min], "Overflow in link record, chunk at byte 0: expected an offset in 64 bits, found 0"),
        (policy, &[max, "-2"], "Overflow in link record, chunk at byte 0: expected an offset in 64 bits, found -2"),
        (down, &["5000000000000000000", "0"], "Overflow in link record, source at byte 0: expected an anchor in 64 bits, found 5000000000000000000"),
        (down, &["0", "1.0"], "BadShape in link record, sid_ndim at byte 0: expected 1, found 2"),
    ] {
        let chunks: Vec<_> = chunks.iter().map(|text| key(text)).collect();
        let ends = endpoints(&chunks, &[0; 2][..chunks.len()]);
        assert_eq!(family.place(&ends).unwrap_err().to_string(), message);
    }
    assert!(family(2, 1).place(&endpoints(&[key("-4611686018427387904"), key("4611686018427387903")], &[0, 0])).is_ok());
}

#[rustfmt::skip]
#[test]
fn invalid_families_are_refused() {
    for (width, rank, message) in [
        (0, 2, "BadShape in link record, link_width at byte 0: expected 1 to 8, found 0"),
        (9, 2, "LimitExceeded in link record, link_width at byte 0: expected 1 to 8, found 9"),
        (2, 0, "BadShape in link record, rank at byte 0: expected 1 to 16, found 0"),
        (2, 17, "LimitExceeded in link record, rank at byte 0: expected 1 to 16, found 17"),
    ] {
        assert_eq!(LinkPolicy::new(width, rank).unwrap_err().to_string(), message);
    }
    let family_of_two = family(2, 2);
    assert_eq!(family_of_two.with_delta(Delta(1), up(1)).unwrap_err().to_string(), "BadShape in link record, sid_ndim at byte 0: expected 2, found 1");
    assert_eq!(family_of_two.with_delta(Delta(0), up(2)).unwrap_err().to_string(), "InvalidArgument in link record, delta at byte 0: expected levels of the same chunk shape, found 0");
    assert!(family_of_two.with_delta(Delta(0), Anchor::identity(2).unwrap()).is_ok());
}

#[test]
fn the_policy_decides_the_row() {
    for (directed, store, delta, intra, has_perm, body) in [
        (false, LinkStorage::Canonical, 0, true, false, Body::Flat),
        (false, LinkStorage::Canonical, 0, false, true, Body::Inline),
        (false, LinkStorage::Canonical, 1, true, false, Body::Inline),
        (false, LinkStorage::Canonical, 1, false, false, Body::Inline),
        (false, LinkStorage::Duplicate, 0, false, true, Body::Inline),
        (true, LinkStorage::Canonical, 0, false, false, Body::Inline),
        (true, LinkStorage::Canonical, 0, true, false, Body::Flat),
        (true, LinkStorage::Duplicate, 0, false, true, Body::Inline),
        (true, LinkStorage::Duplicate, 0, true, false, Body::Flat),
        (true, LinkStorage::Duplicate, -1, false, false, Body::Inline),
    ] {
        let mut family = family(3, 2).with_storage(store);
        family = family.with_delta(Delta(delta), Anchor::identity(2).unwrap()).unwrap();
        if directed {
            family = family.with_direction();
        }
        assert_eq!((family.has_perm(intra), family.body(intra)), (has_perm, body));
        let shape = family.row_shape(LinkInteger::I32, intra);
        assert_eq!((shape.columns(), shape.has_perm()), (3 + u8::from(has_perm), has_perm));
        assert_eq!(
            (family.is_directed(), family.store(), family.delta()),
            (directed, store, Delta(delta))
        );
    }
}

#[rustfmt::skip]
#[test]
fn anchors_round_down() {
    let root = ChunkShape::new(&[1.0, 1.0]).unwrap();
    let ratio = |a: f64, b: f64| ChunkShape::new(&[a, b]).unwrap().ratio_to(&root).unwrap();
    for (source, target, chunk, anchor) in [
        (ratio(1.0, 1.0), ratio(1.0, 1.0), "-7.7", "-7.7"),
        (ratio(1.0, 1.0), ratio(2.0, 4.0), "3.3", "1.0"),
        (ratio(1.0, 1.0), ratio(2.0, 4.0), "-1.-1", "-1.-1"),
        (ratio(1.0, 1.0), ratio(2.0, 4.0), "-2.-5", "-1.-2"),
        (ratio(2.0, 4.0), ratio(1.0, 1.0), "3.-3", "6.-12"),
        (ratio(2.0, 3.0), ratio(3.0, 2.0), "-1.-1", "-1.-2"),
        (ratio(2.0, 3.0), ratio(4.0, 6.0), "9223372036854775807.-9223372036854775808", "4611686018427387903.-4611686018427387904"),
    ] {
        let between = Anchor::from_ratios(&source, &target, 2).unwrap();
        assert_eq!(between.map_chunk(&key(chunk)).unwrap().to_string(), anchor);
        // A leading bin of an attribute is the same on both levels.
        let binned = Anchor::from_ratios(&source, &target, 3).unwrap();
        assert_eq!(binned.map_chunk(&key(&["9.", chunk].concat())).unwrap().to_string(), ["9.", anchor].concat());
    }
    let down = Anchor::from_ratios(&ratio(2.0, 2.0), &ratio(1.0, 1.0), 2).unwrap();
    assert_eq!(down.map_chunk(&key("0.5000000000000000000")).unwrap_err().to_string(), "Overflow in link record, source at byte 0: expected an anchor in 64 bits, found 5000000000000000000");
    assert_eq!(down.map_chunk(&key("0")).unwrap_err().to_string(), "BadShape in link record, sid_ndim at byte 0: expected 2, found 1");
    let line = ChunkShape::new(&[1.0]).unwrap();
    let line = line.ratio_to(&line).unwrap();
    assert_eq!(Anchor::from_ratios(&line, &ratio(1.0, 1.0), 2).unwrap_err().to_string(), "BadShape in link record, axes at byte 0: expected 1, found 2");
    assert_eq!(Anchor::from_ratios(&ratio(1.0, 1.0), &ratio(1.0, 1.0), 1).unwrap_err().to_string(), "BadShape in link record, axes at byte 0: expected at most 1, found 2");
    assert_eq!(Anchor::identity(0).unwrap_err().to_string(), "BadShape in link record, rank at byte 0: expected 1 to 16, found 0");
}

#[rustfmt::skip]
#[test]
fn endpoints_of_a_cell() {
    let faces = family(3, 2);
    let offsets = Offsets::parse("0.0_+1.-1", 2, 3).unwrap();
    assert_eq!(faces.endpoint_chunks(&key("4.-2"), &offsets).unwrap().to_string(), "4.-2.4.-2.5.-3");
    let up = family(2, 1).with_delta(Delta(1), up(1)).unwrap();
    let offsets = Offsets::parse("+1", 1, 2).unwrap();
    assert_eq!(up.endpoint_chunks(&key("-3"), &offsets).unwrap().to_string(), "-3.-1");
    for (family, source, offsets, message) in [
        (family(3, 2), "0.0", Offsets::parse("+1.0", 2, 2), "BadShape in link record, link_width of offsets at byte 0: expected 3, found 2"),
        (family(2, 2), "0.0", Offsets::parse("+1", 1, 2), "BadShape in link record, sid_ndim of offsets at byte 0: expected 2, found 1"),
        (family(2, 1), "0.0", Offsets::parse("+1", 1, 2), "BadShape in link record, sid_ndim at byte 0: expected 1, found 2"),
        (family(2, 1), "1", Offsets::parse("+9223372036854775807", 1, 2), "Overflow in link record, offsets at byte 0: expected anchor + offset in 64 bits, found 9223372036854775807"),
    ] {
        assert_eq!(family.endpoint_chunks(&key(source), &offsets.unwrap()).unwrap_err().to_string(), message);
    }
}

fn any_record() -> impl Strategy<Value = (usize, Vec<ChunkKey>, Vec<u64>)> {
    (1..9_usize, 1..4_usize).prop_flat_map(|(width, rank)| {
        let chunk = prop::collection::vec(-2..3_i64, rank)
            .prop_map(|components| ChunkKey::new(&components).unwrap());
        let chunks = prop::collection::vec(chunk, width);
        (Just(rank), chunks, prop::collection::vec(0..4_u64, width))
    })
}

fn any_family(width: usize, rank: usize, policy: (bool, bool, i32, i8, i8)) -> LinkPolicy {
    let (directed, duplicate, delta, source, target) = policy;
    let root = ChunkShape::new(&[1.0]).unwrap();
    let ratio = |n: i8| ChunkShape::new(&[f64::from(n)]).unwrap().ratio_to(&root).unwrap();
    let anchor = match delta {
        0 => Anchor::identity(rank),
        _ => Anchor::from_ratios(&ratio(source), &ratio(target), rank),
    };
    let mut family = family(width, rank).with_delta(Delta(delta), anchor.unwrap()).unwrap();
    if directed {
        family = family.with_direction();
    }
    if duplicate { family.with_storage(LinkStorage::Duplicate) } else { family }
}

proptest! {
    /// The endpoints are restored from every copy, and every copy is stored at its expected
    /// location.
    #[test]
    fn placing_is_invertible(
        (rank, chunks, rows) in any_record(),
        policy in (any::<bool>(), any::<bool>(), -1..2_i32, 1..4_i8, 1..4_i8),
    ) {
        let family = any_family(rows.len(), rank, policy);
        let ends = endpoints(&chunks, &rows);
        let placed: Vec<_> = family.place(&ends).unwrap().collect();
        for placement in &placed {
            let (offsets, record) = (placement.offsets(), placement.record());
            prop_assert_eq!(record.perm().is_some(), family.has_perm(placement.is_intra()));
            let cell = family.endpoint_chunks(placement.source(), &offsets).unwrap();
            let restored: Vec<_> =
                record.iter_in_input_order().map(|(place, row)| (cell.chunks()[place], row)).collect();
            prop_assert_eq!(
                restored,
                ends.iter().map(|end| (*end.chunk, end.row)).collect::<Vec<_>>()
            );
            let canonical = family.store() == LinkStorage::Canonical && !family.is_directed();
            if canonical && family.delta() == Delta::SAME {
                prop_assert!(offsets.are_sorted());
            }
        }
        let mut distinct: Vec<_> = chunks.iter().map(ToString::to_string).collect();
        distinct.sort();
        distinct.dedup();
        let copies = family.store() == LinkStorage::Duplicate && family.delta() == Delta::SAME;
        prop_assert_eq!(placed.len(), if copies { distinct.len() } else { 1 });
        let sources: Vec<_> = placed.iter().map(Placement::source).collect();
        prop_assert!(sources.is_sorted_by(|a, b| a.cmp_numeric(b).is_lt()));
    }

    /// Sorting equals a stable sort.
    #[test]
    fn sorting_is_stable((rank, chunks, rows) in any_record()) {
        let ends = endpoints(&chunks, &rows);
        let family = family(rows.len(), rank);
        let placement = family.place(&ends).unwrap().next().unwrap();
        let mut order: Vec<u8> = (0..u8::try_from(rows.len()).unwrap()).collect();
        if chunks.iter().any(|chunk| *chunk != chunks[0]) {
            order.sort_by(|a, b| {
                let (a, b) = (&ends[usize::from(*a)], &ends[usize::from(*b)]);
                a.chunk.cmp_numeric(b.chunk).then(a.row.cmp(&b.row))
            });
        }
        prop_assert_eq!(placement.order().order().to_vec(), order);
    }
}
