//! Selects the chunks that can contain points of a box.
//!
//! A box is a range of keys, however large; a level is a table of its keys. The smaller of the two
//! is iterated over. The selection covers both rules by which writers assign points to chunks.

use zvf_format::FormatError;
use zvf_format::grid::{Bins, BoundingBox, ChunkRange, ChunkShape};
use zvf_format::num::{index_u32, to_u64};
use zvf_model::Bounds;
use zvf_store::KeyTable;

/// Returns a box in the type of the grid.
pub(crate) fn bounding_box(bounds: &Bounds) -> Result<BoundingBox, FormatError> {
    BoundingBox::new(bounds.low(), bounds.high())
}

/// Returns the chunks that can contain a position in the box.
pub(crate) fn chunk_range_of_box(
    shape: &ChunkShape,
    bins: Option<&Bins>,
    bbox: &BoundingBox,
) -> Result<ChunkRange, FormatError> {
    match bins {
        Some(bins) => bins.chunks_meeting(bbox),
        None => shape.chunks_meeting(bbox),
    }
}

/// Returns the positions in `table` of its keys in `range`, ascending. If keys have an additional
/// first component, it is the bin of an attribute and may have any value.
pub(crate) fn chunks_in_range(table: &KeyTable, range: &ChunkRange) -> Vec<u32> {
    let count = range.count();
    // Only compared.
    let few = count.is_some_and(|n| n.saturating_mul(LOOK_UP_COST_KEYS) < to_u64(table.len()));
    if few && range.rank() == table.rank() {
        return range.iter().filter_map(|key| table.find(&key)).map(index_u32).collect();
    }
    let Some((first, last)) = range.axis(0) else { return Vec::new() };
    // Keys with the same prefix are adjacent, unless the bin of an attribute comes first.
    let (from, to) = if range.rank() == table.rank() {
        let end = last.checked_add(1);
        (table.lower_bound(&[first]), end.map_or(table.len(), |end| table.lower_bound(&[end])))
    } else {
        (0, table.len())
    };
    let rows = table.rows().enumerate().take(to).skip(from);
    rows.filter(|(_, row)| meets_key(range, row)).map(|(at, _)| index_u32(at)).collect()
}

/// Returns the positions of all keys of `table`; no presence list has 2^32 keys.
pub(crate) fn all_chunks(table: &KeyTable) -> Vec<u32> {
    (0..index_u32(table.len())).collect()
}

/// Returns whether the key with these components is in `range`.
fn meets_key(range: &ChunkRange, components: &[i64]) -> bool {
    // The number of additional leading components of the key.
    let spatial = components.len().saturating_sub(range.rank());
    let mut axes = components.iter().skip(spatial).enumerate();
    axes.all(|(axis, at)| range.axis(axis).is_some_and(|(low, high)| (low..=high).contains(at)))
}

/// A look-up costs about as much as skipping this many keys.
const LOOK_UP_COST_KEYS: u64 = 8;

#[cfg(test)]
mod tests {
    use zvf_format::key::ChunkKey;

    use super::*;

    fn find_keys(table: &KeyTable, low: [f64; 2], high: [f64; 2]) -> Vec<String> {
        let shape = ChunkShape::new(&[10.0, 10.0]).unwrap();
        let bbox = BoundingBox::new(&low, &high).unwrap();
        let range = chunk_range_of_box(&shape, None, &bbox).unwrap();
        let at = chunks_in_range(table, &range);
        at.iter().map(|at| table.get(*at as usize).unwrap().to_string()).collect()
    }

    #[test]
    fn small_and_large_boxes_find_the_same_keys() {
        let all: Vec<ChunkKey> = (-3..20)
            .flat_map(|x| (-3..20).map(move |y| ChunkKey::new(&[x, y]).unwrap()))
            .filter(|key| key.components() != [1, 1])
            .collect();
        let table = KeyTable::new(2, all).unwrap();
        for (low, high, keys) in [
            ([1.0, 1.0], [2.0, 2.0], &["0.0"][..]),
            ([1.0, 1.0], [10.0, 10.0], &["0.0", "0.1", "1.0"]), // closed, and 1.1 does not exist
            ([-1e300, -25.0], [-25.0, 1.0], &["-3.-3", "-3.-2", "-3.-1", "-3.0"]),
            ([500.0, 0.0], [501.0, 1.0], &[]),
        ] {
            assert_eq!(find_keys(&table, low, high), keys);
        }
        let all = find_keys(&table, [f64::NEG_INFINITY; 2], [f64::INFINITY; 2]);
        assert_eq!(all.len(), table.len());
    }

    #[test]
    fn a_leading_attribute_bin_is_not_restricted() {
        let keys =
            ["0.0.0", "0.5.5", "1.0.0", "7.0.1"].map(|text| text.parse::<ChunkKey>().unwrap());
        let table = KeyTable::new(3, keys).unwrap();
        assert_eq!(find_keys(&table, [0.0, 0.0], [9.0, 11.0]), ["0.0.0", "1.0.0", "7.0.1"]);
    }
}
