//! What is built, encoded and decoded is the same.

use zvf_format::fragment::{Fragment, FragmentIndex, FragmentIndexBuilder, RankTable};
use zvf_format::grid::{ChunkShape, Grid};
use zvf_format::key::{CellKey, ChunkKey, ChunkPath, Delta, Offsets};
use zvf_format::manifest::{BlockFragments, Manifest, ManifestBuilder};
use zvf_format::ragged::{self, Ragged};

use crate::Choices;

/// Fragments.
pub(crate) fn fragments(bytes: &[u8]) {
    let mut choices = Choices(bytes);
    let mut builder = FragmentIndexBuilder::new();
    // The ranges as they must be found, and the rows of lists: one may become a range.
    let mut kept = Vec::new();
    while !choices.0.is_empty() {
        if choices.byte() % 2 == 0 {
            let (start, count) = (choices.number(), choices.number());
            let end = start.checked_add(count);
            let is_added = builder.push_range(start, count).is_ok();
            assert_eq!(is_added, end.is_some_and(|end| i64::try_from(end).is_ok()));
            kept.extend(is_added.then_some(Ok(Fragment::Range { start, count })));
        } else {
            let rows = choices.list(Choices::number);
            // A list that becomes a range must end like one: a row of i64::MAX alone cannot.
            if builder.push_rows(&rows).is_ok() {
                assert!(rows.iter().all(|row| i64::try_from(*row).is_ok()));
                kept.push(Err(rows));
            }
        }
    }
    let blob = builder.encode();
    let index = FragmentIndex::parse_strict(&blob).unwrap();
    let table = RankTable::new(&index);
    assert_eq!(index.len(), kept.len() as u64);
    for ((f, fragment), expected) in (0..).zip(index.iter()).zip(kept) {
        assert_eq!((index.get(f), table.get(&index, f)), (Some(fragment), Some(fragment)));
        match expected {
            Ok(range) => assert_eq!(fragment, range),
            Err(rows) => assert_eq!(fragment.rows().collect::<Vec<_>>(), rows),
        }
    }
}

/// Blocks of a manifest.
pub(crate) fn manifest(bytes: &[u8]) {
    let mut choices = Choices(bytes);
    let mut builder = ManifestBuilder::new(3).unwrap();
    // The chunk, the block where it is no list, and its fragments.
    let mut kept = Vec::new();
    while !choices.0.is_empty() {
        let chunk = [choices.signed(), choices.signed(), choices.signed()];
        let (added, block, list) = match choices.byte() % 3 {
            0 => {
                let fragment = choices.number();
                let added = builder.push_single(&chunk, fragment);
                (added, Some(BlockFragments::Single(fragment)), Vec::new())
            }
            1 => {
                let (start, count) = (choices.number(), choices.number());
                let added = builder.push_range(&chunk, start, count);
                (added, Some(BlockFragments::Range { start, count }), Vec::new())
            }
            _ => {
                let list = choices.list(Choices::number);
                (builder.push_explicit(&chunk, &list), None, list)
            }
        };
        kept.extend(added.is_ok().then_some((chunk, block, list)));
    }
    let blob = builder.encode();
    let manifest = Manifest::parse(&blob, 3).unwrap();
    assert_eq!(manifest.blocks().count(), kept.len());
    for (block, (chunk, expected, list)) in manifest.blocks().zip(kept) {
        assert!(block.chunk.iter().map(|c| c.get()).eq(chunk));
        match expected {
            Some(expected) => assert_eq!(block.fragments, expected),
            None => assert_eq!(block.fragments.iter().collect::<Vec<_>>(), list),
        }
    }
}

/// Groups of rows.
pub(crate) fn ragged(bytes: &[u8]) {
    let mut choices = Choices(bytes);
    let (itemsize, ncols) = (choices.byte(), choices.byte());
    let mut slices = Vec::new();
    while !choices.0.is_empty() {
        slices.push(choices.slice());
    }
    let itemsize = 1 << (itemsize % 4);
    let ncols = u32::from(ncols % 9);
    let row = usize::from(itemsize) * ncols as usize;
    let Ok(blob) = ragged::encode(&slices, itemsize, ncols) else {
        assert!(row == 0 || slices.iter().any(|group| group.len() % row != 0));
        return;
    };
    let view = Ragged::parse_strict(&blob, itemsize, ncols).unwrap();
    assert!(view.groups().eq(slices.iter().copied()));
    assert_eq!(view.rows().len(), slices.concat().len() / row);
}

/// Keys and segments print as they parse, both orders are those of numbers and of text, and a
/// position lies in the chunk and in the grid that it should.
pub(crate) fn keys_and_grid(bytes: &[u8]) {
    let mut choices = Choices(bytes);
    let one = choices.list(Choices::signed);
    let other = choices.list(Choices::signed);
    keys(&one, &other);
    let ends = [choices.signed(), choices.signed()];
    let offsets = Offsets::new(2, &[&ends, &[choices.signed(), choices.signed()]]).unwrap();
    assert_eq!(Offsets::parse(&offsets.to_string(), 2, 3).unwrap(), offsets);
    let mut point = || [choices.number(), choices.number()].map(f64::from_bits);
    positions(point(), point(), point());
    text(&String::from_utf8_lossy(choices.0));
}

/// What parses prints as the same text.
fn text(text: &str) {
    if let Ok(key) = text.parse::<ChunkKey>() {
        assert_eq!(key.to_string(), text);
    }
    for width in 1..=3 {
        if let Ok(offsets) = Offsets::parse(text, 2, width) {
            assert_eq!(offsets.to_string(), text);
        }
        let _ = CellKey::split(text, 2, width);
    }
    if let Ok(delta) = Delta::parse_strict(text) {
        assert_eq!(delta.to_string(), text);
    }
    let _ = (text.parse::<Delta>(), text.parse::<ChunkPath>());
}

fn keys(one: &[i64], other: &[i64]) {
    let (Ok(one_key), Ok(other_key)) = (ChunkKey::new(one), ChunkKey::new(other)) else { return };
    assert_eq!(one_key.to_string().parse::<ChunkKey>().unwrap(), one_key);
    assert_eq!(one_key.cmp_numeric(&other_key), one.cmp(other));
    let texts = (one_key.to_string(), other_key.to_string());
    assert_eq!(one_key.cmp_string(&other_key), texts.0.cmp(&texts.1));
}

fn positions(low: [f64; 2], high: [f64; 2], sizes: [f64; 2]) {
    let Ok(shape) = ChunkShape::new(&sizes) else { return };
    let Ok(chunk) = shape.chunk_of(&high) else { return };
    for ((chunk, x), size) in chunk.components().iter().zip(high).zip(sizes) {
        assert_eq!((x / size).floor() as i64, *chunk);
    }
    let ordered = low.iter().zip(high).all(|(low, high)| *low <= high);
    if let Ok(grid) = Grid::from_bounds(&low, &high, &shape) {
        assert!(!ordered || grid.contains(&chunk));
    }
}
