//! Cells of rows of 32 bits to which rows of 64 bits were appended: a fault of zarr-vectors 0.9.2.
//!
//! Groups have rows of one width each. The groups of a flat cell are counted in rows of 64 bits, so
//! that two old rows are one. A group has 64 bits where that names rows that exist, else 32.

use zvf_format::fragment::{Fragment, FragmentIndex};
use zvf_format::link::{Body, LinkCell, LinkInteger, LinkRecord, RowShape};
use zvf_format::num::checked_usize;
use zvf_format::ragged::Ragged;

/// Reads the groups of a cell whose rows have the shape `narrow`, of 32 bits, or the same with 64.
/// `index` has the fragments over the rows of a flat cell, and `rows` the number of rows of the
/// chunk of each end. Returns `None` if a group names other rows, whatever their width.
///
/// ```
/// use zvf_format::fragment::{FragmentIndex, FragmentIndexBuilder};
/// use zvf_format::link::{Body, LinkInteger, RowShape};
///
/// let edges = RowShape::new(LinkInteger::I32, 2, false)?;
/// let cell = b"\0\0\0\0\x01\0\0\0\x01\0\0\0\x02\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0";
/// let mut index = FragmentIndexBuilder::new();
/// index.push_range(0, 1)?; // two rows of 32 bits
/// index.push_range(1, 1)?; // one of 64
/// let index = index.encode();
/// let index = FragmentIndex::parse(&index)?;
/// let groups = zvf_model::read_two_widths((cell, Body::Flat), Some(&index), edges, &[4, 4]);
/// let groups = groups.expect("the rows are there");
/// assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
/// assert_eq!(groups[1][0].rows(), [2, 3]);
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
pub fn read_two_widths(
    (cell, body): (&[u8], Body),
    index: Option<&FragmentIndex<'_>>,
    narrow: RowShape,
    rows: &[u64],
) -> Option<Vec<Vec<LinkRecord>>> {
    let element = match narrow.element() {
        LinkInteger::I32 => LinkInteger::I64,
        LinkInteger::U32 => LinkInteger::U64,
        LinkInteger::I8
        | LinkInteger::U8
        | LinkInteger::I16
        | LinkInteger::U16
        | LinkInteger::I64
        | LinkInteger::U64 => return None,
    };
    let wide = RowShape::new(element, narrow.link_width(), narrow.has_perm()).ok()?;
    let groups: Vec<&[u8]> = match body {
        Body::Inline => {
            let ragged = Ragged::parse(cell, narrow.element().size(), narrow.columns().into());
            ragged.ok()?.groups().collect()
        }
        Body::Flat => {
            let groups = index.and_then(|index| divide(cell, index, wide.size().into()));
            groups.unwrap_or_else(|| vec![cell])
        }
    };
    let read = |group| read_rows(group, wide, rows).or_else(|| read_rows(group, narrow, rows));
    groups.into_iter().map(read).collect()
}

/// Divides a flat cell by the index of its fragments, in rows of so many bytes; `None` if that does
/// not cover the cell.
fn divide<'a>(cell: &'a [u8], index: &FragmentIndex<'_>, size: usize) -> Option<Vec<&'a [u8]>> {
    let (mut groups, mut end) = (Vec::new(), 0_usize);
    for fragment in index.iter() {
        let Fragment::Range { start, count } = fragment else { return None };
        let from = checked_usize(start)?.checked_mul(size)?;
        let after = end.checked_add(checked_usize(count)?.checked_mul(size)?)?;
        if after > end && from != end {
            return None;
        }
        groups.push(cell.get(end..after)?);
        end = after;
    }
    (end == cell.len()).then_some(groups)
}

fn read_rows(group: &[u8], shape: RowShape, rows: &[u64]) -> Option<Vec<LinkRecord>> {
    let records: Vec<_> = LinkCell::parse(group, Body::Flat, shape).ok()?.records().collect();
    let exists = |record: &LinkRecord| record.rows().iter().zip(rows).all(|(row, n)| row < n);
    records.iter().all(exists).then_some(records)
}
