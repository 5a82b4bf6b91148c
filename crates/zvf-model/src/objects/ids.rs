//! From ids to rows.
//!
//! Ids need not ascend, whatever the attributes state: the table is built from the ids themselves.
//! If they ascend, they are their own index; otherwise the rows in id order are stored beside them.
//!
//! If there are too many ids for memory, they are read once. If they ascend strictly, the index
//! keeps the first id and row of each run of consecutive ids, or, if there are too many runs, the
//! first id of each block of rows: a search then reads one block. Otherwise, each search is a pass
//! over the column.

use std::collections::BTreeMap;

use bytes::Bytes;
use zvf_error::Result;
use zvf_format::num::{i64s_from_le, saturating_usize, to_u64, usize_from_u32};
use zvf_store::DenseArray;

use super::dense::pieces;
use crate::ObjectId;

/// The ids of all rows.
#[derive(Debug)]
pub(super) struct IdTable {
    ids: Bytes,              // i64 for each row
    order: Option<Vec<u32>>, // rows, ascending by id; `None` when ids ascend strictly
}

/// The row of an id, `None` without one, or the number of rows if there are several.
pub(super) type FoundRow = Result<Option<u64>, u64>;

impl IdTable {
    /// Bytes per row.
    pub(super) const BYTES: u64 = 12;

    /// Creates the table of these ids; `None` if row numbers do not fit in 32 bits.
    pub(super) fn new(ids: Bytes) -> Option<Self> {
        let numbers: &[[u8; 8]] = ids.as_chunks().0;
        let value = |row: &u32| numbers.get(usize_from_u32(*row)).map(|id| i64::from_le_bytes(*id));
        let rows = u32::try_from(numbers.len()).ok()?;
        let ascending = i64s_from_le(&ids).is_sorted_by(|a, b| a < b);
        let order = (!ascending).then(|| {
            let mut order: Vec<u32> = (0..rows).collect();
            order.sort_by_key(value); // stable: rows of one id stay in order
            order
        });
        Some(Self { ids, order })
    }

    /// Returns the id of a row.
    pub(super) fn id(&self, row: u64) -> Option<ObjectId> {
        let id = self.ids.as_chunks::<8>().0.get(saturating_usize(row))?;
        Some(ObjectId(i64::from_le_bytes(*id)))
    }

    pub(super) fn find(&self, id: ObjectId) -> FoundRow {
        let first = self.first_not_below(id);
        let same = (first..self.len()).take_while(|place| self.id_at(*place) == Some(id));
        match same.count() {
            0 => Ok(None),
            1 => Ok(self.row_at(first)),
            several => Err(to_u64(several)),
        }
    }

    fn len(&self) -> usize {
        self.ids.as_chunks::<8>().0.len()
    }

    fn row_at(&self, place: usize) -> Option<u64> {
        match &self.order {
            None => Some(to_u64(place)),
            Some(order) => order.get(place).map(|row| u64::from(*row)),
        }
    }

    fn id_at(&self, place: usize) -> Option<ObjectId> {
        self.id(self.row_at(place)?)
    }

    fn first_not_below(&self, id: ObjectId) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.id_at(middle).is_some_and(|found| found < id) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// A compact index of strictly ascending ids.
#[derive(Debug)]
pub(super) enum SparseIndex {
    /// The first row and id of each run of consecutive ids.
    Runs(Vec<(u64, i64)>),
    /// The first id of each [`BLOCK_ROWS`] rows.
    Blocks(Vec<i64>),
}

impl SparseIndex {
    /// Reads a column of `slots` ids once; `None` if they do not ascend strictly. Runs take at most
    /// `max_bytes`.
    pub(super) async fn read(
        column: &DenseArray,
        slots: u64,
        max_bytes: u64,
    ) -> Result<Option<Self>> {
        let max_runs = saturating_usize(max_bytes / to_u64(size_of::<(u64, i64)>())); // a limit
        let (mut runs, mut blocks) = (Some(Vec::new()), Vec::new()); // no runs where they are too many
        let mut last = None;
        for piece in pieces(0..slots) {
            let bytes = column.rows(piece.clone()).await?;
            for (row, id) in piece.zip(i64s_from_le(&bytes)) {
                if last.is_some_and(|last| last >= id) {
                    return Ok(None);
                }
                let is_next = last.is_some_and(|last| id - 1 == last); // above `last`, so not the least
                if !is_next {
                    runs = runs.filter(|runs| runs.len() < max_runs);
                    if let Some(runs) = &mut runs {
                        runs.push((row, id));
                    }
                }
                if row % BLOCK_ROWS == 0 {
                    blocks.push(id);
                }
                last = Some(id);
            }
        }
        Ok(Some(runs.map_or(Self::Blocks(blocks), Self::Runs)))
    }

    /// Finds the rows of `ids` in the column that was read, which has `slots` rows.
    pub(super) async fn find(
        &self,
        column: &DenseArray,
        slots: u64,
        ids: &[ObjectId],
    ) -> Result<Vec<FoundRow>> {
        let firsts = match self {
            Self::Runs(runs) => {
                let find = |id: &ObjectId| Ok(find_in_runs(runs, slots, id.0));
                return Ok(ids.iter().map(find).collect());
            }
            Self::Blocks(firsts) => firsts,
        };
        let block = |id: &ObjectId| firsts.partition_point(|first| *first <= id.0).checked_sub(1);
        let mut by_block: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (place, id) in ids.iter().enumerate() {
            if let Some(block) = block(id) {
                by_block.entry(block).or_default().push(place);
            }
        }
        let mut found = vec![Ok(None); ids.len()];
        for (block, places) in by_block {
            let start = to_u64(block) * BLOCK_ROWS;
            let bytes = column.rows(start..(start + BLOCK_ROWS).min(slots)).await?;
            let numbers: Vec<i64> = i64s_from_le(&bytes).collect();
            for place in places {
                let row = numbers.binary_search(&ids[place].0).ok();
                found[place] = Ok(row.map(|row| start + to_u64(row)));
            }
        }
        Ok(found)
    }

    /// Returns the ids of `rows`, if the index determines them.
    pub(super) fn ids(&self, rows: &[u64]) -> Option<Vec<ObjectId>> {
        let Self::Runs(runs) = self else { return None };
        let id = |row: &u64| {
            let at = runs.partition_point(|(first, _)| first <= row).checked_sub(1)?;
            let (first, id) = runs[at];
            id.checked_add_unsigned(row - first).map(ObjectId)
        };
        rows.iter().map(id).collect()
    }
}

/// Returns the row of an id from the first row and id of each run of consecutive ids in `slots`
/// rows.
fn find_in_runs(runs: &[(u64, i64)], slots: u64, id: i64) -> Option<u64> {
    let at = runs.partition_point(|(_, first)| *first <= id).checked_sub(1)?;
    let (start, first) = runs[at];
    let end = runs.get(at + 1).map_or(slots, |(row, _)| *row);
    let row = start.checked_add(id.abs_diff(first))?;
    (row < end).then_some(row)
}

/// Returns the rows of `ids` in a column of `slots`, by reading all of it.
pub(super) async fn search(
    column: &DenseArray,
    slots: u64,
    ids: &[ObjectId],
) -> Result<Vec<FoundRow>> {
    let mut rows_by_id: BTreeMap<i64, FoundRow> = ids.iter().map(|id| (id.0, Ok(None))).collect();
    for piece in pieces(0..slots) {
        let bytes = column.rows(piece.clone()).await?;
        for (row, id) in piece.zip(i64s_from_le(&bytes)) {
            if let Some(found) = rows_by_id.get_mut(&id) {
                *found = match found {
                    Ok(None) => Ok(Some(row)),
                    Ok(Some(_)) => Err(2),
                    Err(rows) => Err(*rows + 1),
                };
            }
        }
    }
    Ok(ids.iter().map(|id| rows_by_id.get(&id.0).copied().unwrap_or(Ok(None))).collect())
}

/// Rows per block of a sparse index, which is how many ids a search reads.
const BLOCK_ROWS: u64 = 1 << 14;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_in_any_order_find_their_rows() {
        #[rustfmt::skip]
        let table: [(&[i64], i64, FoundRow); 8] = [
            (&[], 0, Ok(None)),
            (&[0, 1, 5], 5, Ok(Some(2))),
            (&[0, 1, 5], 4, Ok(None)),
            (&[9, -3, 5], -3, Ok(Some(1))),
            (&[9, -3, 5], 9, Ok(Some(0))),
            (&[7, 2, 7, 7, 2, 1], 7, Err(3)),
            (&[7, 2, 7, 7, 2, 1], 1, Ok(Some(5))),
            (&[4, 4], 4, Err(2)), // ascending, but not strictly
        ];
        for (ids, id, row) in table {
            let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
            let table = IdTable::new(bytes.into()).unwrap();
            assert_eq!(table.find(ObjectId(id)), row, "{id} in {ids:?}");
        }
    }

    #[test]
    fn runs_of_consecutive_ids_find_their_rows() {
        let runs = [(0, -2), (3, 5), (4, i64::MAX - 1)]; // -2, -1, 0, 5, MAX - 1, MAX
        #[rustfmt::skip]
        let table = [
            (-3, None), (-2, Some(0)), (0, Some(2)), (1, None), (4, None), (5, Some(3)), (6, None),
            (i64::MAX - 1, Some(4)), (i64::MAX, Some(5)), (i64::MIN, None),
        ];
        for (id, row) in table {
            assert_eq!(find_in_runs(&runs, 6, id), row, "{id}");
        }
        assert_eq!(find_in_runs(&[], 0, 0), None);
        let index = SparseIndex::Runs(runs.to_vec());
        let ids = [-2, -1, 0, 5, i64::MAX - 1, i64::MAX].map(ObjectId);
        assert_eq!(index.ids(&[0, 1, 2, 3, 4, 5]), Some(ids.to_vec()));
    }
}
