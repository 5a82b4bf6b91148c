//! From ids to rows.
//!
//! Ids need not ascend, whatever the attributes say: the table is made from the ids themselves. Where
//! they do ascend, they are their own index; otherwise rows are kept in the order of their ids beside
//! them. Ids that are too many for memory are looked for in one pass over the column.

use std::collections::BTreeMap;

use bytes::Bytes;
use zvf_format::num::{i64s_from_le, saturating_usize, to_u64, usize_from_u32};
use zvf_store::DenseArray;

use crate::{ModelError, ObjectId};

/// The ids of all rows.
#[derive(Debug)]
pub(super) struct IdTable {
    ids: Bytes,              // i64 for each row
    order: Option<Vec<u32>>, // rows, ascending by id; `None` when ids ascend strictly
}

/// The row of an id: one or none, or how many there are.
pub(super) type FoundRow = Result<Option<u64>, u64>;

impl IdTable {
    /// What one row takes.
    pub(super) const BYTES: u64 = 12;

    /// The table of these ids; `None` when rows have no number of 32 bits.
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

    /// The id of a row.
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

    pub(super) fn duplicates(&self) -> Vec<ObjectId> {
        if self.order.is_none() {
            return Vec::new();
        }
        let ids = || (0..self.len()).filter_map(|place| self.id_at(place));
        let mut twice: Vec<ObjectId> =
            ids().zip(ids().skip(1)).filter(|(a, b)| a == b).map(|(a, _)| a).collect();
        twice.dedup();
        twice
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

/// The rows of `ids` in a column of `slots`, by reading all of it.
pub(super) async fn search(
    column: &DenseArray,
    slots: u64,
    ids: &[ObjectId],
) -> Result<Vec<FoundRow>, ModelError> {
    let mut wanted: BTreeMap<i64, FoundRow> = ids.iter().map(|id| (id.0, Ok(None))).collect();
    let mut start = 0;
    while start < slots {
        let end = start.saturating_add(BATCH).min(slots);
        let bytes = column.rows(start..end).await?;
        for (row, id) in (start..).zip(i64s_from_le(&bytes)) {
            if let Some(found) = wanted.get_mut(&id) {
                *found = match found {
                    Ok(None) => Ok(Some(row)),
                    Ok(Some(_)) => Err(2),
                    Err(rows) => Err(*rows + 1),
                };
            }
        }
        start = end;
    }
    Ok(ids.iter().map(|id| wanted.get(&id.0).copied().unwrap_or(Ok(None))).collect())
}

/// Ids read at a time.
const BATCH: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_in_any_order_find_their_rows() {
        #[rustfmt::skip]
        let table: [(&[i64], i64, FoundRow, &[i64]); 8] = [
            (&[], 0, Ok(None), &[]),
            (&[0, 1, 5], 5, Ok(Some(2)), &[]),
            (&[0, 1, 5], 4, Ok(None), &[]),
            (&[9, -3, 5], -3, Ok(Some(1)), &[]),
            (&[9, -3, 5], 9, Ok(Some(0)), &[]),
            (&[7, 2, 7, 7, 2, 1], 7, Err(3), &[2, 7]),
            (&[7, 2, 7, 7, 2, 1], 1, Ok(Some(5)), &[2, 7]),
            (&[4, 4], 4, Err(2), &[4]), // ascending, but not strictly
        ];
        for (ids, id, row, twice) in table {
            let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
            let table = IdTable::new(bytes.into()).unwrap();
            assert_eq!(table.find(ObjectId(id)), row, "{id} in {ids:?}");
            let found: Vec<i64> = table.duplicates().iter().map(|id| id.0).collect();
            assert_eq!(found, twice);
        }
    }
}
