//! Tests of the manifest: golden bytes, one row per check, properties.

use std::string::ToString;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::fragment::tests::hex;

/// A block that owns its numbers.
#[derive(Clone, Debug, PartialEq)]
enum Owned {
    Single(Vec<i64>, u64),
    Range(Vec<i64>, u64, u64),
    Explicit(Vec<i64>, Vec<u64>),
}

use Owned::{Explicit, Range, Single};

fn build(sid_ndim: u64, blocks: &[Owned]) -> Vec<u8> {
    let mut builder = ManifestBuilder::new(sid_ndim).unwrap();
    for block in blocks {
        match block {
            Single(chunk, fragment) => builder.push_single(chunk, *fragment),
            Range(chunk, start, count) => builder.push_range(chunk, *start, *count),
            Explicit(chunk, fragments) => builder.push_explicit(chunk, fragments),
        }
        .unwrap();
    }
    builder.encode()
}

fn owned(block: Block<'_>) -> Owned {
    let chunk = block.chunk.iter().map(|c| c.get()).collect();
    match block.fragments {
        BlockFragments::Single(fragment) => Single(chunk, fragment),
        BlockFragments::Range { start, count } => Range(chunk, start, count),
        BlockFragments::Explicit(list) => {
            Explicit(chunk, list.iter().map(|f| f.get() as u64).collect())
        }
    }
}

fn decode(blob: &[u8], sid_ndim: u64) -> Vec<Owned> {
    Manifest::parse(blob, sid_ndim).unwrap().blocks().map(owned).collect()
}

/// Returns the references of a block as a list.
fn references(block: &Owned) -> Vec<(Vec<i64>, u64)> {
    match block {
        Single(chunk, fragment) => vec![(chunk.clone(), *fragment)],
        Range(chunk, start, count) => (0..*count).map(|i| (chunk.clone(), start + i)).collect(),
        Explicit(chunk, list) => list.iter().map(|f| (chunk.clone(), *f)).collect(),
    }
}

#[rustfmt::skip]
fn golden() -> Vec<(Vec<Owned>, &'static str)> {
    vec![
        (vec![], "00000000"),
        (vec![Single(vec![1, -2], 5)],
         "01000000 0100000000000000 feffffffffffffff 00 0500000000000000"),
        (vec![Range(vec![1, -2], 5, 3)],
         "01000000 0100000000000000 feffffffffffffff 01 0500000000000000 0300000000000000"),
        (vec![Explicit(vec![1, -2], vec![5, 2, 9])],
         "01000000 0100000000000000 feffffffffffffff 02 03000000
          0500000000000000 0200000000000000 0900000000000000"),
        (vec![Single(vec![0, 0], 0), Range(vec![0, 1], 2, 2), Explicit(vec![1, 0], vec![3, 1])],
         "03000000
          0000000000000000 0000000000000000 00 0000000000000000
          0000000000000000 0100000000000000 01 0200000000000000 0200000000000000
          0100000000000000 0000000000000000 02 02000000 0300000000000000 0100000000000000"),
    ]
}

#[test]
fn golden_bytes_both_ways() {
    for (blocks, blob) in golden() {
        assert_eq!(build(2, &blocks), hex(blob), "encode, {blocks:?}");
        assert_eq!(decode(&hex(blob), 2), blocks, "parse");
    }
}

#[test]
fn the_smallest_mode_is_chosen() {
    for (fragments, stored) in [
        (vec![5], Single(vec![7], 5)),
        (vec![5, 6], Range(vec![7], 5, 2)),
        (vec![5, 7], Explicit(vec![7], vec![5, 7])),
        (vec![6, 5], Explicit(vec![7], vec![6, 5])),
        (vec![], Explicit(vec![7], vec![])),
    ] {
        let mut builder = ManifestBuilder::new(1).unwrap();
        builder.push_fragments(&[7], &fragments).unwrap();
        assert_eq!(decode(&builder.encode(), 1), [stored]);
    }
}

#[rustfmt::skip]
const REFUSED: [(u64, &str, &str); 18] = [
    (0, "00000000", "BadShape in object manifest, sid_ndim at byte 0: expected 1 to 16, found 0"),
    (17, "00000000", "LimitExceeded in object manifest, sid_ndim at byte 0: expected 1 to 16, found 17"),
    (1, "", "Truncated in object manifest, B at byte 0: expected 4 bytes, found 0"),
    (1, "000000", "Truncated in object manifest, B at byte 0: expected 4 bytes, found 3"),
    (3, "ffffffff", "Truncated in object manifest, blocks at byte 4: expected 124554051555 bytes, found 0"),
    (1, "01000000 0000000000000000 02 000000",
     "Truncated in object manifest, blocks at byte 4: expected 13 bytes, found 12"),
    // The second block is large enough for the first check, but not for its chunk or mode.
    (1, "02000000 0000000000000000 00 0000000000000000 0000000000000000 00",
     "Truncated in object manifest, fragment at byte 30: expected 8 bytes, found 0"),
    (1, "02000000 0000000000000000 01 0000000000000000 0000000000000000 00",
     "Truncated in object manifest, chunk at byte 29: expected 8 bytes, found 1"),
    (1, "02000000 0000000000000000 00 0000000000000000 0000000000000000",
     "Truncated in object manifest, blocks at byte 4: expected 26 bytes, found 25"),
    (1, "02000000 0000000000000000 02 01000000 0000000000000000 0000000000000000",
     "Truncated in object manifest, mode at byte 33: expected 1 bytes, found 0"),
    (1, "01000000 0000000000000000 01 0000000000000000 00",
     "Truncated in object manifest, count at byte 21: expected 8 bytes, found 1"),
    (1, "01000000 0000000000000000 02 01000020 0000000000000000",
     "Truncated in object manifest, fragments at byte 17: expected 4294967304 bytes, found 8"),
    (1, "01000000 0000000000000000 03 0000000000000000",
     "BadTag in object manifest, mode at byte 12: expected 0 to 2, found 3"),
    (1, "01000000 0000000000000000 00 ffffffffffffffff",
     "Negative in object manifest, fragment at byte 13: expected at least 0, found -1"),
    (1, "01000000 0000000000000000 01 0000000000000000 ffffffffffffffff",
     "Negative in object manifest, count at byte 21: expected at least 0, found -1"),
    (1, "01000000 0000000000000000 01 ffffffffffffff7f 0100000000000000",
     "Overflow in object manifest, start + count at byte 13: \
      expected at most 9223372036854775807, found 9223372036854775808"),
    (1, "01000000 0000000000000000 02 02000000 0000000000000000 0000000000000080",
     "Negative in object manifest, fragment at byte 25: expected at least 0, found -9223372036854775808"),
    (1, "01000000 0000000000000000 00 0000000000000000 0000",
     "Trailing in object manifest, bytes after the end at byte 21: expected 0, found 2"),
];

#[test]
fn every_check_has_its_message() {
    for (sid_ndim, blob, message) in REFUSED {
        let error = Manifest::parse(&hex(blob), sid_ndim).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn references_are_checked_against_the_level() {
    let level = |chunk: &[I64]| (chunk[0].get() == -1).then_some(8);
    let valid = [Single(vec![-1], 7), Range(vec![-1], 5, 3), Range(vec![-1], 8, 0)];
    let lists = [Explicit(vec![-1], vec![7, 0]), Explicit(vec![-1], vec![])];
    let blob = build(1, &[valid.as_slice(), &lists].concat());
    assert_eq!(Manifest::parse(&blob, 1).unwrap().check(level), Ok(()));

    #[rustfmt::skip]
    let invalid = [
        (Single(vec![1], 0), "chunk at byte 46: expected a chunk of the grid, found one outside it"),
        (Single(vec![-1], 8), "fragment at byte 55: expected at most 7, found 8"),
        (Range(vec![-1], 6, 3), "start + count at byte 55: expected at most 8, found 9"),
        (Range(vec![-1], 0, 1 << 62), "start + count at byte 55: expected at most 8, found 4611686018427387904"),
        (Range(vec![-1], 9, 0), "start + count at byte 55: expected at most 8, found 9"),
        (Explicit(vec![-1], vec![0, 8]), "fragment at byte 67: expected at most 7, found 8"),
    ];
    for (block, message) in invalid {
        let blob = build(1, &[Explicit(vec![-1], vec![1, 2]), Explicit(vec![-1], vec![]), block]);
        // 4, then 8 + 1 + 4 + 16, then 8 + 1 + 4: the third block begins at 46.
        let error = Manifest::parse(&blob, 1).unwrap().check(level).unwrap_err();
        assert_eq!(error.to_string(), std::format!("OutOfBounds in object manifest, {message}"));
    }
}

#[test]
fn ranges_expand_under_a_cap_only() {
    let blob = build(1, &[Range(vec![0], 0, 1 << 62), Single(vec![0], 1)]);
    let manifest = Manifest::parse(&blob, 1).unwrap();
    assert_eq!(manifest.len(), Some((1 << 62) + 1));
    assert!(manifest.references_within((1 << 62) + 1).is_ok());
    assert_eq!(
        manifest.references_within(100).unwrap_err().to_string(),
        "LimitExceeded in object manifest, references at byte 0: \
         expected at most 100, found 4611686018427387905"
    );
    let half = Range(vec![0], 0, i64::MAX as u64);
    let blob = build(1, &[half.clone(), half, Explicit(vec![0], vec![1, 1])]);
    let manifest = Manifest::parse(&blob, 1).unwrap();
    assert_eq!((manifest.len(), manifest.is_empty()), (None, false));
    assert_eq!(
        manifest.references_within(u64::MAX).unwrap_err().to_string(),
        "LimitExceeded in object manifest, references at byte 0: \
         expected at most 18446744073709551615, found 18446744073709551616"
    );
}

#[test]
fn empty_blocks_have_no_reference() {
    for blocks in [vec![], vec![Range(vec![0], 3, 0), Explicit(vec![0], vec![])]] {
        let blob = build(1, &blocks);
        let manifest = Manifest::parse(&blob, 1).unwrap();
        assert!(manifest.is_empty() && manifest.references().next().is_none());
        assert_eq!(manifest.blocks().size_hint(), (blocks.len(), Some(blocks.len())));
    }
}

#[test]
fn the_builder_refuses_what_the_parser_refuses() {
    assert_eq!(ManifestBuilder::new(0).unwrap_err().class, Class::BadShape);
    assert_eq!(ManifestBuilder::new(17).unwrap_err().class, Class::LimitExceeded);
    let mut builder = ManifestBuilder::new(2).unwrap();
    let max = i64::MAX as u64;
    #[rustfmt::skip]
    let table = [
        (builder.push_single(&[0], 0), "BadShape in object manifest, chunk at byte 0: expected 2, found 1"),
        (builder.push_single(&[0, 0], max + 1),
         "Overflow in object manifest, fragment at byte 0: \
          expected at most 9223372036854775807, found 9223372036854775808"),
        (builder.push_range(&[0, 0], max, 1),
         "Overflow in object manifest, start + count at byte 0: \
          expected at most 9223372036854775807, found 9223372036854775808"),
        (builder.push_explicit(&[0, 0], &[0, max + 1]),
         "Overflow in object manifest, fragment at byte 0: \
          expected at most 9223372036854775807, found 9223372036854775808"),
        (builder.push_fragments(&[0, 0, 0], &[1, 2]),
         "BadShape in object manifest, chunk at byte 0: expected 2, found 3"),
    ];
    for (result, message) in table {
        assert_eq!(result.unwrap_err().to_string(), message);
    }
    assert_eq!(builder.encode(), [0; 4]);
}

fn any_blocks(sid_ndim: usize) -> impl Strategy<Value = Vec<Owned>> {
    let chunk = move || prop::collection::vec(any::<i64>(), sid_ndim);
    let block = prop_oneof![
        (chunk(), 0..1_u64 << 63).prop_map(|(c, f)| Single(c, f)),
        (chunk(), 0..1_u64 << 62, 0..20_u64).prop_map(|(c, s, n)| Range(c, s, n)),
        (chunk(), prop::collection::vec(0..1_u64 << 63, 0..5)).prop_map(|(c, l)| Explicit(c, l)),
    ];
    prop::collection::vec(block, 0..12)
}

fn any_manifest() -> impl Strategy<Value = (u64, Vec<Owned>)> {
    (1..=4_usize).prop_flat_map(|s| any_blocks(s).prop_map(move |blocks| (s as u64, blocks)))
}

proptest! {
    /// Built blocks are read back, block by block and reference by reference.
    #[test]
    fn round_trip((sid_ndim, blocks) in any_manifest()) {
        let blob = build(sid_ndim, &blocks);
        prop_assert_eq!(&decode(&blob, sid_ndim), &blocks);
        let manifest = Manifest::parse(&blob, sid_ndim).unwrap();
        let expected: Vec<_> = blocks.iter().flat_map(references).collect();
        let found = manifest.references().map(|r| {
            (r.chunk.iter().map(|c| c.get()).collect::<Vec<_>>(), r.fragment)
        });
        prop_assert_eq!(found.collect::<Vec<_>>(), &expected[..]);
        prop_assert_eq!(manifest.len(), Some(expected.len() as u64));
        let owned = ManifestBlob::parse(&blob, sid_ndim).unwrap();
        prop_assert!(owned.view().blocks().eq(manifest.blocks()));
    }

    /// A blob that was not parsed before gives wrong values, and never a panic.
    #[test]
    fn unparsed_blobs_cause_no_panic(blob: Vec<u8>, s in 0..20_u64) {
        let manifest = Manifest::unchecked(&blob, s);
        prop_assert!(manifest.blocks().count() <= blob.len());
        let _ = (manifest.len(), manifest.references().take(9).count());
    }

    /// A blob determines its own length.
    #[test]
    fn every_prefix_is_refused((s, blocks) in any_manifest(), end: prop::sample::Index) {
        let blob = build(s, &blocks);
        let end = end.index(blob.len());
        prop_assert_eq!(Manifest::parse(&blob[..end], s).unwrap_err().class, Class::Truncated);
    }

    /// One wrong byte is refused, or makes another manifest: no blob has two readings.
    #[test]
    fn one_byte_off((s, blocks) in any_manifest(), at: prop::sample::Index, byte: u8) {
        let mut blob = build(s, &blocks);
        *at.get_mut(&mut blob) = byte;
        if let Ok(manifest) = Manifest::parse(&blob, s) {
            let decoded: Vec<_> = manifest.blocks().map(owned).collect();
            prop_assert_eq!(&build(s, &decoded), &blob);
            let top = 1_u64 << 63;
            prop_assert!(manifest.references().take(1000).all(|r| r.fragment < top));
        }
    }
}
