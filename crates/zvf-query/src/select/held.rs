//! Rows that were read of one chunk: all of them, or ranges.

use std::ops::Range;

use zvf_format::num::usize_from_u32;
use zvf_model::Column;

use super::pieces::Piece;

/// What is held of one chunk of one array.
#[derive(Clone, Debug)]
pub(crate) enum Held {
    /// Nothing: it is missing, or was not asked for.
    Nothing,
    /// Every row.
    Whole(Column),
    /// Ranges of rows by their first row, ascending and apart.
    Parts(Vec<(u32, Column)>),
}

impl Held {
    /// The bytes of `len` rows from `start`, when they are held.
    pub(crate) fn bytes(&self, start: u32, len: u32) -> Option<&[u8]> {
        let (column, from) = self.column(start)?;
        let from = usize_from_u32(start).checked_sub(usize_from_u32(from))?;
        let range = from.checked_mul(column.stride())?
            ..from.checked_add(usize_from_u32(len))?.checked_mul(column.stride())?;
        column.bytes().get(range)
    }

    /// The same rows as a column that shares the bytes.
    pub(crate) fn slice(&self, start: u32, len: u32) -> Option<Column> {
        let (column, from) = self.column(start)?;
        let from = usize_from_u32(start).checked_sub(usize_from_u32(from))?;
        let end = from.checked_add(usize_from_u32(len))?;
        (end <= column.len()).then(|| column.slice(from..end))
    }

    /// The column that holds row `start`, and its first row.
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

/// The ranges of rows that `pieces` of one chunk need, ascending, joined where less than `gap` rows lie
/// between.
pub(crate) fn ranges<'a>(
    pieces: impl Iterator<Item = &'a Piece>,
    gap: u32,
    scratch: &mut Vec<(u32, u32)>,
) -> Vec<Range<u64>> {
    scratch.clear();
    scratch.extend(pieces.map(|piece| (piece.start, piece.end())));
    if !scratch.is_sorted() {
        scratch.sort_unstable();
    }
    let mut joined: Vec<Range<u64>> = Vec::new();
    for &(start, end) in scratch.iter() {
        match joined.last_mut() {
            Some(last) if u64::from(start) <= last.end + u64::from(gap) => {
                last.end = last.end.max(end.into());
            }
            _ => joined.push(start.into()..end.into()),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use zvf_metadata::Dtype;

    use super::*;

    #[test]
    fn rows_are_found_where_they_are_held() {
        let bytes = |n: Range<u8>| {
            Column::new("uint8".parse::<Dtype>().unwrap(), 1, n.collect::<Vec<u8>>().into())
                .unwrap()
        };
        let parts = Held::Parts(vec![(2, bytes(2..5)), (7, bytes(7..9))]);
        let whole = Held::Whole(bytes(0..9));
        for (start, len, in_parts) in
            [(2, 3, true), (4, 1, true), (7, 2, true), (0, 1, false), (4, 2, false), (8, 2, false)]
        {
            let wanted: Vec<u8> =
                (start..start + len).map(|row| u8::try_from(row).unwrap()).collect();
            assert_eq!(parts.bytes(start, len), in_parts.then_some(&wanted[..]), "{start} {len}");
            if start + len <= 9 {
                assert_eq!(whole.bytes(start, len), Some(&wanted[..]));
                assert_eq!(whole.slice(start, len).unwrap().bytes()[..], wanted);
            }
        }
        assert!(whole.slice(8, 2).is_none() && Held::Nothing.bytes(0, 0).is_none());
    }

    #[test]
    fn close_ranges_are_joined() {
        let piece = |start, len| Piece { cell: 0, start, len, fragment: 0 };
        let pieces = [piece(9, 2), piece(0, 3), piece(5, 1), piece(1, 1)];
        let mut scratch = Vec::new();
        assert_eq!(ranges(pieces.iter(), 0, &mut scratch), [0..3, 5..6, 9..11]);
        assert_eq!(ranges(pieces.iter(), 2, &mut scratch), [0..6, 9..11]);
        assert_eq!(
            ranges(pieces.iter(), 3, &mut scratch),
            std::iter::once(0..11).collect::<Vec<_>>()
        );
    }
}
