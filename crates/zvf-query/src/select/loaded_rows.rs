//! `LoadedRows`: the rows of one chunk that are in memory, all or ranges.

use zvf_format::num::usize_from_u32;
use zvf_model::Column;

/// The rows of one chunk of one array that are in memory.
#[derive(Clone)]
pub(crate) enum LoadedRows {
    /// Nothing: the chunk is missing or was not requested.
    Nothing,
    /// Every row.
    Whole(Column),
    /// Ranges of rows by their first row, ascending and disjoint.
    Parts(Vec<(u32, Column)>),
}

impl LoadedRows {
    /// Returns the bytes of `len` rows from `start`, if they are loaded.
    pub(crate) fn bytes(&self, start: u32, len: u32) -> Option<&[u8]> {
        let (column, from) = self.column(start)?;
        let from = usize_from_u32(start).checked_sub(usize_from_u32(from))?;
        let range = from.checked_mul(column.stride())?
            ..from.checked_add(usize_from_u32(len))?.checked_mul(column.stride())?;
        column.bytes().get(range)
    }

    /// Returns `len` rows from `start` as a column that shares the bytes.
    pub(crate) fn slice(&self, start: u32, len: u32) -> Option<Column> {
        let (column, from) = self.column(start)?;
        let from = usize_from_u32(start).checked_sub(usize_from_u32(from))?;
        let end = from.checked_add(usize_from_u32(len))?;
        (end <= column.len()).then(|| column.slice(from..end))
    }

    /// Returns the column that contains row `start`, and the first row of the column.
    pub(crate) fn column(&self, start: u32) -> Option<(&Column, u32)> {
        match self {
            Self::Nothing => None,
            Self::Whole(column) => Some((column, 0)),
            Self::Parts(parts) => {
                let after = parts.partition_point(|(from, _)| *from <= start);
                let (from, column) = parts.get(after.checked_sub(1)?)?;
                Some((column, *from))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use zvf_metadata::Dtype;

    use super::*;

    #[test]
    fn rows_are_found_where_they_are_held() {
        let bytes = |n: Range<u8>| {
            Column::new("uint8".parse::<Dtype>().unwrap(), 1, n.collect::<Vec<u8>>().into())
                .unwrap()
        };
        let parts = LoadedRows::Parts(vec![(2, bytes(2..5)), (7, bytes(7..9))]);
        let held_column = LoadedRows::Whole(bytes(0..9));
        for (start, len, in_parts) in
            [(2, 3, true), (4, 1, true), (7, 2, true), (0, 1, false), (4, 2, false), (8, 2, false)]
        {
            let expected: Vec<u8> =
                (start..start + len).map(|row| u8::try_from(row).unwrap()).collect();
            assert_eq!(parts.bytes(start, len), in_parts.then_some(&expected[..]), "{start} {len}");
            if start + len <= 9 {
                assert_eq!(held_column.bytes(start, len), Some(&expected[..]));
                assert_eq!(held_column.slice(start, len).unwrap().bytes()[..], expected);
            }
        }
        assert!(held_column.slice(8, 2).is_none() && LoadedRows::Nothing.bytes(0, 0).is_none());
    }
}
