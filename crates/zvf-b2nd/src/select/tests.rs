//! Selections: chunks, blocks and runs, against a walk over every item.

use std::string::ToString;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::super::partition::Partition;
use super::*;

fn seed() -> BlockGeometry {
    BlockGeometry::new(Partition::new(&[7, 5], &[4, 3], &[2, 2]).unwrap(), 4).unwrap()
}

#[test]
fn a_row_across_two_chunks() {
    let geometry = seed();
    let row = geometry.select(&[4, 0], &[5, 5]).unwrap();
    let mut plan = Vec::new();
    for chunk in row.chunks() {
        for block in chunk.blocks() {
            for BlockRun { from, to, len } in block.runs() {
                plan.push((chunk.number(), block.number(), from, to, len));
            }
        }
    }
    // Chunk 2 holds columns 0 to 2, and block 1 of it only column 2; chunk 3 holds columns 3 and 4.
    assert_eq!(plan, [(2, 0, 0, 0, 8), (2, 1, 0, 8, 4), (3, 0, 0, 12, 8)]);
    assert_eq!(row.extent().as_slice(), [1, 5]);
}

#[test]
fn contiguous_items_are_one_run() {
    // Blocks as wide as the result: the rows of a block are one run, and so is all of it.
    let geometry =
        BlockGeometry::new(Partition::new(&[9, 4, 3], &[4, 4, 3], &[2, 4, 3]).unwrap(), 2).unwrap();
    for (start, stop, runs) in [
        ([0, 0, 0], [2, 4, 3], vec![(0, 0, 48)]),
        ([1, 0, 0], [2, 4, 3], vec![(24, 0, 24)]),
        ([0, 0, 0], [2, 3, 3], vec![(0, 0, 18), (24, 18, 18)]),
        ([0, 1, 1], [1, 3, 2], vec![(8, 0, 2), (14, 2, 2)]),
    ] {
        let selection = geometry.select(&start, &stop).unwrap();
        let block = selection.chunks().next().unwrap().blocks().next().unwrap();
        let found: Vec<_> = block.runs().map(|run| (run.from, run.to, run.len)).collect();
        assert_eq!(found, runs, "{start:?} {stop:?}");
    }
}

#[test]
fn an_empty_selection_touches_nothing() {
    let geometry = seed();
    for (start, stop) in [([0, 0], [0, 5]), ([5, 1], [5, 1]), ([7, 5], [7, 5])] {
        let none = geometry.select(&start, &stop).unwrap();
        assert_eq!((none.chunks_touched(), none.blocks_touched(), none.bytes()), (0, 0, 0));
        assert_eq!(none.chunks().count(), 0);
    }
    let empty = BlockGeometry::new(Partition::new(&[0, 4], &[0, 4], &[0, 4]).unwrap(), 4).unwrap();
    assert_eq!(empty.select_all().unwrap().chunks().count(), 0);
}

#[test]
fn a_scalar_is_one_item() {
    let scalar = BlockGeometry::new(Partition::new(&[], &[], &[]).unwrap(), 8).unwrap();
    let all = scalar.select_all().unwrap();
    assert_eq!((all.chunks_touched(), all.blocks_touched(), all.bytes()), (1, 1, 8));
    let block = all.chunks().next().unwrap().blocks().next().unwrap();
    assert_eq!(block.runs().collect::<Vec<_>>(), [BlockRun { from: 0, to: 0, len: 8 }]);
}

#[test]
fn huge_selections_are_counted_in_constant_time() {
    let extent = 1 << 62;
    let huge = BlockGeometry::new(Partition::new(&[extent], &[10], &[4]).unwrap(), 1).unwrap();
    let all = huge.select_all().unwrap();
    let chunks = extent / 10 + 1; // the last holds 4 items, 1 block
    assert_eq!((all.chunks_touched(), all.blocks_touched()), (chunks, chunks * 3 - 2));
}

#[test]
#[rustfmt::skip]
fn each_check_has_its_message() {
    let geometry = seed();
    type Row = (&'static [u64], &'static [u64], &'static str);
    let rows: [Row; 5] = [
        (&[0], &[7, 5], "InvalidArgument in block geometry, start at byte 0: expected 2, found 1"),
        (&[0, 0], &[7, 5, 1], "InvalidArgument in block geometry, stop at byte 0: expected 2, found 3"),
        (&[0, 0], &[7, 6], "InvalidArgument in block geometry, stop at byte 1: expected 0 to 5, found 6"),
        (&[3, 0], &[2, 5], "InvalidArgument in block geometry, stop at byte 0: expected 3 to 7, found 2"),
        (&[8, 0], &[8, 5], "InvalidArgument in block geometry, stop at byte 0: expected 8 to 7, found 8"),
    ];
    for (start, stop, message) in rows {
        assert_eq!(geometry.select(start, stop).unwrap_err().to_string(), message);
    }
    let huge = BlockGeometry::new(Partition::new(&[1 << 62], &[1], &[1]).unwrap(), 8).unwrap();
    assert_eq!(
        huge.select_all().unwrap_err().to_string(),
        "Overflow in block geometry, selected bytes at byte 0: expected at most 18446744073709551615, found more"
    );
}

/// Returns the position of an item, from the definition: chunk, block in it, byte in the decoded
/// block.
fn expected_position(geometry: &BlockGeometry, item: &[u64]) -> (u64, u32, u64) {
    let (mut chunk, mut block, mut position) = (0, 0, 0);
    for (i, x) in item.iter().enumerate() {
        let (c, b) = (geometry.chunkshape().as_slice()[i], geometry.blockshape().as_slice()[i]);
        let s = geometry.shape().as_slice()[i];
        chunk = chunk * s.div_ceil(c) + x / c;
        block = block * c.div_ceil(b) + x % c / b;
        position = position * b + x % c % b;
    }
    (chunk, block as u32, position * u64::from(geometry.item_size()))
}

proptest! {
    /// Runs copy each item of the box to its place once, from its position by definition.
    #[test]
    fn runs_cover_the_box(
        axes in prop::collection::vec((1_u64..9, 1_u64..6, 1_u64..5, 0_u64..9, 0_u64..9), 0..4),
        item_size in 1_u32..4,
    ) {
        let column = |f: fn(&(u64, u64, u64, u64, u64)) -> u64| -> Vec<u64> {
            axes.iter().map(f).collect()
        };
        let (s, c, b) = (column(|a| a.0), column(|a| a.1), column(|a| a.2));
        let start = column(|a| a.3.min(a.4).min(a.0));
        let stop = column(|a| a.3.max(a.4).min(a.0));
        let geometry = BlockGeometry::new(Partition::new(&s, &c, &b).unwrap(), item_size).unwrap();
        let selection = geometry.select(&start, &stop).unwrap();

        let mut found = vec![None; selection.bytes() as usize];
        let (mut chunks, mut blocks) = (0, 0);
        for chunk in selection.chunks() {
            chunks += 1;
            for block in chunk.blocks() {
                blocks += 1;
                let runs: Vec<_> = block.runs().collect();
                prop_assert_eq!(block.bytes(), runs.iter().map(|run| run.len).sum::<u64>());
                let last = runs.last().unwrap();
                prop_assert_eq!(block.reach(), runs[0].to..last.to + last.len);
                for run in runs {
                    for i in 0..run.len {
                        let place = &mut found[(run.to + i) as usize];
                        prop_assert_eq!(*place, None);
                        *place = Some((chunk.number(), block.number(), run.from + i));
                    }
                }
            }
        }
        prop_assert_eq!((chunks, blocks), (selection.chunks_touched(), selection.blocks_touched()));

        let items = Coordinates::new(selection.corners.low, selection.corners.high);
        let mut expected = Vec::new();
        for item in items {
            let (chunk, block, from) = expected_position(&geometry, item.as_slice());
            expected.extend((0..u64::from(item_size)).map(|i| Some((chunk, block, from + i))));
        }
        prop_assert_eq!(found, expected);
    }
}
