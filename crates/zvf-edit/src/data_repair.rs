//! Repairs of cells and rows that other cells determine, each in one commit that can be undone.
//!
//! ```text
//! columns       vertex_count of objects, segment_id and object_id of fragments
//! link widths   rows of 64 bits in cells that state 32 become rows of 32
//! face index    links within chunks are sorted by the fragment of their rows; the level says so
//! ```

use serde_json::{Value as Json, json};
use zvf_format::fragment::{Fragment, FragmentIndex};
use zvf_format::key::Offsets;
use zvf_format::link::{self, Body, LinkCell, RowShape};
use zvf_format::{Class, num};
use zvf_model::read_two_widths;

use crate::arrays::{CellArray, Chunk, bounding_chunks};
use crate::cell_column::encode_spans;
use crate::changes::Changes;
use crate::error::{At, OrFail, Result, fail, refused};
use crate::indexes::{Objects, columns_path, open_row_columns, read_count};
use crate::kept_columns::{SEGMENT_ID, VERTEX_COUNT};
use crate::linking::LINK_GROUPS;
use crate::links::{LinkColumn, LinkFamily};
use crate::place::Place;
use crate::renumber::{commit_whole, set_capability};
use crate::snapshot::read_doc;
use crate::transaction::Transaction;

/// A repair of data that other data determine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DataRepair {
    /// The columns `vertex_count` of objects, `segment_id` and `object_id` of fragments.
    Columns,
    /// Cells of links to which rows of another width were appended.
    LinkWidths,
    /// Not a fault: the groups of links by fragment, which older stores do not have.
    FaceIndex,
}

/// Repairs all levels of a store, in one commit.
///
/// # Errors
///
/// When there is no store, the right data does not follow from the rest, or another process commits
/// meanwhile.
pub fn repair_data(store: impl Into<Place>, repair: DataRepair) -> Result<Json> {
    let operation = match repair {
        DataRepair::Columns => "repair columns",
        DataRepair::LinkWidths => "repair link widths",
        DataRepair::FaceIndex => "index faces",
    };
    commit_whole(store, operation, |transaction| {
        let mut changes = Changes::default();
        for path in transaction.level_groups()? {
            match repair {
                DataRepair::Columns => transaction.count_columns(&path, &mut changes),
                DataRepair::LinkWidths => transaction.narrow_links(&path, &mut changes),
                DataRepair::FaceIndex => transaction.index_faces(&path, &mut changes),
            }?;
        }
        if repair == DataRepair::FaceIndex && !changes.is_empty() {
            let mut root = transaction.root.clone();
            set_capability(&mut root, GROUPED, true);
            changes.put_doc("", &root)?;
        }
        Ok(changes)
    })
}

impl Transaction {
    /// Counts the columns of a level again that the store keeps.
    fn count_columns(&self, path: &str, out: &mut Changes) -> Result<()> {
        let (snap, axes) = (&self.snap, self.kinds[0].axes);
        let Some(mut index) = Objects::open(snap, path, axes)? else { return Ok(()) };
        let is_needed = |name: &str| [SEGMENT_ID, VERTEX_COUNT].contains(&name);
        index.columns = open_row_columns(snap, &columns_path(path), is_needed)?;
        index.write_vertex_counts(snap, out)?;
        index.write_fragments(snap, None, out)
    }

    /// Writes cells of links with rows of two widths again, with rows of the width that their
    /// arrays state.
    fn narrow_links(&self, path: &str, out: &mut Changes) -> Result<()> {
        let (snap, axes) = (&self.snap, self.kinds[0].axes);
        let Some(mut family) = LinkFamily::open(snap, path, 0, axes)? else { return Ok(()) };
        let names: Vec<String> = family.arrays.keys().cloned().collect();
        let vertex_fragments = CellArray::need(snap, &format!("{path}/vertex_fragments"))?;
        let (mut total, mut wide_cells) = (0, 0);
        for name in names {
            let (offsets, shape, intra) = family.describe(&name)?;
            for chunk in family.arrays[&name].chunks() {
                let Some(bytes) = family.arrays[&name].read_stored(&chunk)? else { continue };
                let body = family.policy.body(intra);
                if shape.element().size() != 4 {
                    total += num::to_u64(LinkCell::parse(&bytes, body, shape)?.len());
                    continue;
                }
                let index = match (&family.fragments, intra) {
                    (Some(fragments), true) => fragments.read_stored(&chunk)?,
                    _ => None,
                };
                let rows = rows_of_ends(&family, &vertex_fragments, (&chunk, &offsets))?;
                let index = index.as_deref().map(FragmentIndex::parse).transpose()?;
                let groups = read_two_widths((&bytes, body), index.as_ref(), shape, &rows);
                let groups = groups.or_fail(Class::OutOfBounds, || format!(
                        "{path}/links/0/{name} of chunk {chunk:?}: its rows name others than there are, whatever their width"
                    ))?;
                let count: usize = groups.iter().map(Vec::len).sum();
                total += num::to_u64(count);
                let groups: Vec<&[_]> = groups.iter().map(Vec::as_slice).collect();
                let narrow = link::encode(&groups, body, shape)?;
                if bytes == narrow {
                    continue;
                }
                wide_cells += 1;
                if let Some(array) = family.arrays.get_mut(&name) {
                    array.put_chunk(&chunk, narrow);
                }
                if let Some(fragments) = family.fragments.as_mut().filter(|_| intra) {
                    let counts = groups.iter().map(|group| num::to_u64(group.len()));
                    fragments.put_chunk(&chunk, encode_spans(counts)?);
                }
            }
        }
        let stated = read_count(path, &family.doc["attributes"], "num_links")?.map(num::to_u64);
        if wide_cells > 0 && stated.is_some_and(|stated| stated != total) {
            return refused(format!(
                "{path}/links/0: expected {} links, as num_links says, found {total} in rows of two widths",
                stated.unwrap_or(total)
            ));
        }
        let arrays = family.arrays.values_mut().chain(family.fragments.iter_mut());
        for array in arrays.filter(|_| wide_cells > 0) {
            array.flush(out)?;
        }
        Ok(())
    }

    /// Sorts the links within each chunk by the fragment of their rows, and states that in both
    /// spellings.
    fn index_faces(&self, path: &str, out: &mut Changes) -> Result<()> {
        let (snap, axes) = (&self.snap, self.kinds[0].axes);
        let Some(mut family) = LinkFamily::open(snap, path, 0, axes)? else { return Ok(()) };
        let mut within = None;
        for name in family.arrays.keys() {
            let (_, shape, intra) = family.describe(name)?;
            within = if intra { Some((shape, name.clone())) } else { within };
        }
        let Some((shape, name)) = within else { return Ok(()) };
        let vertex_fragments = CellArray::need(snap, &format!("{path}/vertex_fragments"))?;
        family.fragments_or_new(&vertex_fragments);
        let Some(mut link_fragments) = family.fragments.take() else { return Ok(()) };
        let Some(mut links) = family.arrays.remove(&name) else { return Ok(()) };
        let columns = family.columns.iter_mut();
        let column =
            |column: &mut LinkColumn| Some((column.ty.size(), column.arrays.remove(&name)?));
        let mut columns: Vec<(usize, CellArray)> = columns.filter_map(column).collect();
        if let Some((low, high)) = bounding_chunks(&vertex_fragments.chunks()) {
            link_fragments.extend_grid(&low, &high)?;
        }
        for chunk in vertex_fragments.chunks() {
            let blob = vertex_fragments.read_stored(&chunk)?.unwrap_or_default();
            let index = FragmentIndex::parse(&blob).at(&vertex_fragments.path)?;
            let bytes = links.read_stored(&chunk)?.unwrap_or_default();
            let owners = group_links(&bytes, shape, &index);
            let owners = owners.at(&format!("{path}/links/0/{name} of chunk {chunk:?}"))?;
            let mut order: Vec<usize> = (0..owners.len()).collect();
            order.sort_by_key(|at| owners[*at]);
            let mut counts = vec![0_u64; num::saturating_usize(index.len())];
            owners.iter().for_each(|owner| counts[*owner] += 1);
            link_fragments.put_chunk(&chunk, encode_spans(counts)?);
            links.put_chunk(&chunk, sort_rows(&bytes, shape.size().into(), &order)?);
            for (size, array) in &mut columns {
                let values = array.read_stored(&chunk)?.unwrap_or_default();
                // A cell without values: all are absent.
                if !values.is_empty() {
                    array.put_chunk(&chunk, sort_rows(&values, *size, &order).at(&array.path)?);
                }
            }
        }
        links.set_attribute(LINK_GROUPS, json!("per_vertex_fragment"));
        let columns = columns.iter_mut().map(|(_, array)| array);
        [&mut links, &mut link_fragments]
            .into_iter()
            .chain(columns)
            .try_for_each(|a| a.flush(out))?;
        let Some(mut level) = read_doc(snap, path)? else { return Ok(()) };
        level["attributes"]["zarr_vectors_level"][GROUPED] = json!(true);
        out.put_doc(path, &level)
    }
}

/// Returns the number of rows of the chunk of each end of the links of a cell.
fn rows_of_ends(
    family: &LinkFamily,
    fragments: &CellArray,
    (source, offsets): (&Chunk, &Offsets),
) -> Result<Vec<u64>> {
    let rows = family.end_chunks(source, offsets)?.into_iter().map(|chunk| {
        match fragments.read_stored(&chunk)?.filter(|blob| !blob.is_empty()) {
            Some(blob) => Ok(FragmentIndex::parse(&blob).at(&fragments.path)?.extent()),
            None => Ok(0),
        }
    });
    rows.collect()
}

/// Returns the fragment of each link of a chunk.
///
/// # Errors
///
/// When a link joins rows of two fragments, or of none: then links have no groups.
fn group_links(bytes: &[u8], shape: RowShape, index: &FragmentIndex<'_>) -> Result<Vec<usize>> {
    // Spans, and not a table of rows: a range may claim any number of them.
    let mut spans: Vec<(u64, u64, usize)> = Vec::new();
    for (number, fragment) in index.iter().enumerate() {
        match fragment {
            Fragment::Range { start, count } => spans.push((start, count, number)),
            Fragment::Rows(_) => spans.extend(fragment.rows().map(|row| (row, 1, number))),
        }
    }
    spans.sort_unstable();
    let owner = |row: &u64| {
        let before = spans.partition_point(|(start, ..)| start <= row).checked_sub(1)?;
        let (start, count, number) = spans[before];
        (row - start < count).then_some(number)
    };
    let cell = LinkCell::parse(bytes, Body::Flat, shape)?;
    let fragment = |record: link::LinkRecord| {
        let mut ends = record.rows().iter().map(owner);
        let first = ends.next().flatten();
        first.filter(|first| ends.all(|end| end == Some(*first))).or_refused(|| {
            format!(
                "the link of rows {:?} joins two fragments: links are not grouped by fragment",
                record.rows()
            )
        })
    };
    cell.records().map(fragment).collect()
}

/// Returns rows of so many bytes in another order.
///
/// # Errors
///
/// When there are more rows, or fewer: in their old order they would belong to other links.
fn sort_rows(bytes: &[u8], size: usize, order: &[usize]) -> Result<Vec<u8>> {
    if bytes.len() != order.len() * size {
        let text = format!("expected {} links, found {} bytes of {size}", order.len(), bytes.len());
        return fail(Class::CountMismatch, text);
    }
    Ok(order.iter().flat_map(|row| bytes[row * size..][..size].iter().copied()).collect())
}

/// The statement of a level, and the token of a store, that links are grouped by fragment.
const GROUPED: &str = "fragment_link_groups";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_of_another_length_is_not_sorted() {
        assert_eq!(sort_rows(b"aabbcc", 2, &[2, 0, 1]).unwrap(), b"ccaabb");
        for bytes in [&b"aabb"[..], b"aabbccdd"] {
            assert_eq!(sort_rows(bytes, 2, &[2, 0, 1]).unwrap_err().class, Class::CountMismatch);
        }
    }
}
