//! Checks of one cell of links: rows, ends, attributes and fragments.

use serde::{Deserialize, Serialize};
use zvf_format::fragment::{Fragment, FragmentIndex};
use zvf_format::key::ChunkKey;
use zvf_format::link::{LinkCell, LinkRecord};
use zvf_format::num::{mix_bits, saturating_usize, to_u64};
use zvf_format::{Class, FormatError};
use zvf_model::read_two_widths;

use super::segment::{LinkChecks, Segment};
use crate::chunks::{ChunkTable, Ends, hash, row_id};
use crate::finding::Finding;
use crate::findings::Findings;
use crate::hash::hash_all;
use crate::pipeline::Cell;
use crate::rule::Severity;
use crate::rules::{C, G};

/// The report of a cell.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct LinkReport {
    pub(crate) found: Findings,
    /// Rows of the cell; `None` if they could not be read.
    pub(crate) rows: Option<u64>,
    /// Rows of the cell if rows of 64 bits were appended to those of 32 that its array states.
    #[serde(default)]
    pub(crate) two_widths: Option<u64>,
    pub(crate) bytes: u64,
    pub(crate) cells: u64,
    /// The number of different chunks of the ends of its records, and the index of the chunk of the cell among them.
    pub(crate) copies: (usize, usize),
    /// The sum of the hashes of all records, equal for each copy.
    pub(crate) sum: u64,
    /// Rows that are a child, by their number in the level.
    pub(crate) children: Vec<u64>,
    /// Fragments whose first row is a child.
    pub(crate) followed: Vec<usize>,
    /// The sum of the links by the chunk they are reported for.
    pub(crate) bridges: Option<(usize, u64)>,
    /// The rows of this level that are a source, by their number in the level; the sum of the links.
    pub(crate) sources: Vec<u64>,
    pub(crate) between: u64,
    /// The first link from a child to a later parent in the same fragment: its offset and the two rows.
    #[serde(skip)]
    pub(super) backward: Option<(u64, u64, u64)>,
    /// The first and last row that each record names, where groups are compared.
    #[serde(skip)]
    pub(super) spans: Vec<(u64, u64)>,
}

/// Checks the links of one chunk, by its cells in the arrays of the checks: rows, fragments, attributes.
pub(crate) fn check_cell(checks: &LinkChecks, key: &ChunkKey, cells: &[Cell]) -> LinkReport {
    let found = checks.fresh.new_empty();
    let mut report = LinkReport { found, copies: (1, 0), ..Default::default() };
    let (rows, cells) = cells.split_at(1);
    let segment = &*checks.segment;
    let (fragments, attributes) = cells.split_at(usize::from(segment.fragments.is_some()));
    match &rows[0] {
        Err(error) => report.found.add(crate::cells::cell_finding(segment.path(), key, error)),
        // Older families store empty cells.
        Ok(None) if !segment.array.recorded => report.rows = Some(0),
        Ok(None) => {
            let expected = "a cell, because it is listed";
            let finding = C[28].at(segment.path());
            report.found.add(finding.expects("nonempty_chunks", expected, "none").in_cell(key));
        }
        Ok(Some(bytes)) => {
            report.cells = 1;
            report.bytes = to_u64(bytes.len());
            match LinkCell::parse(bytes, segment.body, segment.shape) {
                Ok(cell) => report.check_records(checks, key, &cell),
                Err(error) => {
                    let rule = match (error.class, error.field) {
                        (_, "perm_idx") => C[19],
                        (Class::Negative, "vi") => C[18],
                        _ => C[36],
                    };
                    report
                        .found
                        .add(Finding::from_format(rule, segment.path(), &error).in_cell(key));
                }
            }
        }
    }
    report.two_widths = match &rows[0] {
        Ok(Some(bytes)) if segment.shape.element().size() == 4 => {
            count_two_widths(checks, key, bytes, fragments)
        }
        _ => report.rows,
    };
    for ((array, row), cell) in segment.attributes.iter().zip(attributes) {
        report.check_attribute(&array.path, *row, key, cell);
    }
    report.check_fragments(checks, key, fragments);
    report
}

/// Counts the rows of a cell that states 32 bits and may have 64.
fn count_two_widths(
    checks: &LinkChecks,
    key: &ChunkKey,
    bytes: &[u8],
    fragments: &[Cell],
) -> Option<u64> {
    let chunks = checks.segment.chunks(key)?;
    let tables =
        std::iter::once(&checks.source_chunks).chain(std::iter::repeat(&checks.target_chunks));
    let rows =
        chunks.iter().zip(tables).map(|(chunk, table)| table.rows(table.find(chunk.components())?));
    let rows = rows.collect::<Option<Vec<u64>>>()?;
    let index = match fragments {
        [Ok(Some(index))] => FragmentIndex::parse(index).ok(),
        _ => None,
    };
    let Segment { body, shape, .. } = *checks.segment;
    let groups = read_two_widths((bytes, body), index.as_ref(), shape, &rows)?;
    Some(groups.iter().map(|group| to_u64(group.len())).sum())
}

impl LinkReport {
    fn check_records(&mut self, checks: &LinkChecks, key: &ChunkKey, cell: &LinkCell<'_>) {
        let path = checks.segment.path();
        self.rows = Some(to_u64(cell.len()));
        self.found.add_lints(C[42], path, key, &cell.lints());
        let Some(chunks) = checks.segment.chunks(key) else {
            let finding = C[16].at(path).in_cell(key);
            self.found.add(finding.expects("chunks of the ends", "keys of 64 bits", "others"));
            return;
        };
        let ends = self.check_ends(checks, key, &chunks);
        let hashes: Vec<u64> = chunks.iter().map(|chunk| hash(chunk.components())).collect();
        self.copies = chunk_count_and_rank(&chunks);
        let (mut bad, rows): (u64, Vec<Option<u64>>) =
            (0, ends.iter().map(|end| end.and_then(|(table, place)| table.rows(place))).collect());
        let shape = checks.segment.shape;
        let record = u64::from(shape.size());
        // The records are the last bytes of the cell.
        let first = self.bytes - record * to_u64(cell.len());
        let item = u64::from(shape.element().size());
        let perm = if shape.has_perm() { item } else { 0 };
        for (at, link) in (0_u64..).zip(cell.records()) {
            let ends_of_rows = link.rows().iter().zip(&rows).enumerate();
            let over = ends_of_rows
                .filter_map(|(end, (vi, rows))| Some((end, *vi, (*rows)?)))
                .find(|(_, vi, rows)| vi >= rows);
            if let Some((end, vi, rows)) = over {
                bad += 1;
                if bad == 1 {
                    let offset = first + at * record + perm + to_u64(end) * item;
                    let finding = C[18].at(path).in_cell(key).with_offset(offset);
                    let expected = format!("below {rows}, the rows of its chunk");
                    self.found.add(finding.expects("vi", expected, vi));
                }
                continue;
            }
            let offset = first + at * record;
            self.add_record(checks, offset, &link, &chunks, &hashes, &ends);
            if checks.grouped {
                let rows = link.rows().iter().copied();
                self.spans.extend(rows.clone().min().zip(rows.max()));
            }
        }
        if let Some((offset, child, parent)) = self.backward {
            let expected = format!("a row before {child}, its child in the same fragment");
            let finding = G[6].at(path).in_cell(key).with_offset(offset);
            self.found.add(finding.expects("parent", expected, parent));
        }
        if bad > 1 {
            let more = bad - 1;
            let found = format!("{more} more that are not");
            let finding = C[18].at(path);
            self.found.add(finding.expects("links", "rows of their chunks", found).in_cell(key));
        }
    }

    /// Checks C15, C16, C17: the chunks of the ends; returns their places in the tables of their levels.
    fn check_ends<'a>(
        &mut self,
        checks: &'a LinkChecks,
        key: &ChunkKey,
        chunks: &[ChunkKey],
    ) -> Vec<Option<(&'a ChunkTable, usize)>> {
        let within = checks.segment.family.delta().0 == 0;
        let mut ends = Vec::with_capacity(chunks.len());
        for (at, chunk) in chunks.iter().enumerate() {
            let table = if at == 0 { &*checks.source_chunks } else { &*checks.target_chunks };
            let place = table.find(chunk.components());
            if place.is_none() && (at == 0 || checks.has_target) {
                let rule = if at == 0 {
                    C[15]
                } else if within {
                    C[16]
                } else {
                    C[17]
                };
                let end = if at == 0 { "source" } else { "end" };
                let finding = rule.at(checks.segment.path()).in_cell(key);
                self.found.add(finding.expects(end, "a chunk of its level", chunk));
            }
            ends.push(place.map(|place| (table, place)));
        }
        ends
    }

    /// Adds a record to the sums that it is used for.
    fn add_record(
        &mut self,
        checks: &LinkChecks,
        offset: u64,
        link: &LinkRecord,
        chunks: &[ChunkKey],
        hashes: &[u64],
        ends: &[Option<(&ChunkTable, usize)>],
    ) {
        let uses = checks.uses;
        let place = |at: usize| ends.get(at).copied().flatten();
        // Each end has a chunk.
        let hash = |at: usize, row: u64| row_id(hashes.get(at).copied().unwrap_or(0), row);
        if self.copies.0 > 1 {
            // Hash the ends in input order, so that all copies have the same hash.
            let stated = hash_all(link.iter_in_input_order().map(|(at, row)| hash(at, row)));
            self.sum = self.sum.wrapping_add(stated);
        }
        if uses.faces && has_equal_corners(link, chunks) {
            let finding = G[9].at(checks.segment.path());
            let finding = chunks.first().map_or(finding.clone(), |key| finding.in_cell(key));
            self.found.add(finding.expects("face", "corners that differ", "the same row at each"));
        }
        if uses.child
            && let Some((at, row)) = link.iter_in_input_order().next()
            && let Some((table, chunk)) = place(at)
        {
            let parent = link.iter_in_input_order().nth(1);
            let parent = parent.filter(|(at, _)| place(*at).map(|p| p.1) == Some(chunk));
            if let Some(parent) = self.add_child((table, chunk), row, parent.map(|(_, row)| row)) {
                self.backward.get_or_insert((offset, row, parent));
            }
        }
        if uses.bridges
            && let Some((_, chunk)) = place(0)
        {
            let sum = link
                .rows()
                .iter()
                .enumerate()
                .fold(0_u64, |sum, (at, row)| sum.wrapping_add(hash(at, *row)));
            let (_, total) = self.bridges.get_or_insert((chunk, 0));
            *total = total.wrapping_add(mix_bits(sum));
        }
        if let Some(source_is_finer) = uses.between {
            let source = place(0).zip(link.rows().first());
            let source = source.and_then(|((table, chunk), row)| table.row(chunk, *row));
            let all = link.rows().iter().enumerate().map(|(at, row)| hash(at, *row));
            self.add_between(source, all, source_is_finer);
        }
    }

    /// Adds a child; returns its `parent`, a row of the same chunk, if it is after the child in the
    /// fragment that has both.
    pub(super) fn add_child(
        &mut self,
        (table, chunk): (&ChunkTable, usize),
        row: u64,
        parent: Option<u64>,
    ) -> Option<u64> {
        self.children.extend(table.row(chunk, row));
        self.followed.extend(find_first_row(table, chunk, row));
        parent.filter(|parent| is_backward(table, chunk, row, *parent))
    }

    /// Adds a link between levels by its source row in the level and the hashes of its ends.
    pub(super) fn add_between(
        &mut self,
        source: Option<u64>,
        ends: impl Iterator<Item = u64>,
        source_is_finer: bool,
    ) {
        self.sources.extend(source);
        self.between = self.between.wrapping_add(hash_pair(ends, source_is_finer));
    }

    /// Checks C20: a row of values for each link.
    fn check_attribute(&mut self, path: &str, row: u64, key: &ChunkKey, cell: &Cell) {
        match cell {
            Err(error) => self.found.add(crate::cells::cell_finding(path, key, error)),
            Ok(bytes) => {
                let found = bytes.as_ref().map_or(0, |bytes| to_u64(bytes.len()));
                self.cells += u64::from(bytes.is_some());
                self.bytes += found;
                let Some(rows) = self.rows else { return };
                let expected_bytes = rows.saturating_mul(row); // too large: more than any cell has
                if found != expected_bytes {
                    let expected = format!("{expected_bytes}, {rows} links of {row}");
                    let finding = C[20].at(path).in_cell(key);
                    self.found.add(finding.expects("bytes of the rows", expected, found));
                }
            }
        }
    }

    /// Checks C41, G10: the fragments over the links of a chunk.
    fn check_fragments(&mut self, checks: &LinkChecks, key: &ChunkKey, cell: &[Cell]) {
        let (Some(array), Some(rows), [cell]) = (&checks.segment.fragments, self.rows, cell) else {
            return;
        };
        let path = &array.path;
        let bytes = match cell {
            Err(error) => return self.found.add(crate::cells::cell_finding(path, key, error)),
            Ok(None) => {
                let finding = C[41].at(path).in_cell(key);
                return self.found.add(finding.expects("cell", "fragments over the links", "none"));
            }
            Ok(Some(bytes)) => bytes,
        };
        self.cells += 1;
        self.bytes += to_u64(bytes.len());
        let fault = |error: &FormatError| {
            let finding = Finding::from_format(C[41], path, error).in_cell(key);
            Finding { severity: Severity::Error, ..finding }
        };
        let index = match FragmentIndex::parse(bytes) {
            Ok(index) => index,
            Err(error) => return self.found.add(fault(&error)),
        };
        self.found.add_lints(C[41], path, key, &index.lints());
        if let Err(error) = index.check_rows(rows) {
            return self.found.add(fault(&error));
        }
        if index.rows_total() != Some(rows) {
            let found = index.rows_total().map_or_else(|| "too many".to_owned(), |n| n.to_string());
            self.found
                .add(C[41].at(path).expects("rows of the fragments", rows, found).in_cell(key));
        }
        if checks.grouped {
            self.check_groups(checks, path, key, &index);
        }
    }

    /// Checks G10: group k holds links among the rows of fragment k, and every link is in one group.
    fn check_groups(
        &mut self,
        checks: &LinkChecks,
        path: &str,
        key: &ChunkKey,
        index: &FragmentIndex<'_>,
    ) {
        let Some(place) = checks.source_chunks.find(key.components()) else { return };
        let finding = || G[10].at(path).in_cell(key);
        if let Some(fragments) = checks.source_chunks.fragments(place).filter(|n| *n != index.len())
        {
            return self.found.add(finding().expects("groups of links", fragments, index.len()));
        }
        let mut is_grouped = vec![false; self.spans.len()];
        // Fragments that are not kept are not compared.
        let ends = checks.source_chunks.fragment_ends(place).unwrap_or_default();
        for (k, group) in index.iter().enumerate() {
            // The rows of a fragment that is not a range are not kept.
            let inside = ends.get(k).filter(|ends| ends.is_range);
            for row in group_rows(&group) {
                let at = saturating_usize(row); // compared with the links
                if let Some(flag) = is_grouped.get_mut(at).filter(|flag| !**flag) {
                    *flag = true;
                } else {
                    return self.found.add(finding().expects("link", "in one group", row));
                }
                let span = self.spans.get(at).zip(inside).filter(|((low, high), ends)| {
                    *low < u64::from(ends.first) || *high > u64::from(ends.last) || ends.count == 0
                });
                if span.is_some() {
                    let expected = format!("rows of fragment {k}");
                    let found = format!("link {row}, which leads elsewhere");
                    return self.found.add(finding().expects("group of links", expected, found));
                }
            }
        }
        if let Some(row) = is_grouped.iter().position(|flag| !flag) {
            self.found.add(finding().expects("link", "in one group", format!("{row} in none")));
        }
    }
}

/// Returns the number of distinct chunks, and the index of the first chunk among them in ascending order.
fn chunk_count_and_rank(chunks: &[ChunkKey]) -> (usize, usize) {
    let mut sorted: Vec<&[i64]> = chunks.iter().map(ChunkKey::components).collect();
    let first = sorted.first().copied();
    sorted.sort_unstable();
    sorted.dedup();
    // The first chunk is among them.
    (sorted.len(), sorted.iter().position(|chunk| Some(*chunk) == first).unwrap_or(0))
}

/// Returns the hash of a link between levels, the same from both sides.
fn hash_pair(mut ends: impl Iterator<Item = u64>, source_is_finer: bool) -> u64 {
    let (source, others) = (hash_all(ends.next()), hash_all(ends));
    hash_all(if source_is_finer { [source, others] } else { [others, source] })
}

/// Returns whether a face has the same row at every corner.
fn has_equal_corners(link: &LinkRecord, chunks: &[ChunkKey]) -> bool {
    let same_row = link.rows().windows(2).all(|pair| pair.first() == pair.last());
    same_row && chunks.windows(2).all(|pair| pair.first() == pair.last())
}

/// Returns whether a parent is after its child in the fragment that has both.
fn is_backward(table: &ChunkTable, chunk: usize, child: u64, parent: u64) -> bool {
    parent >= child
        && table
            .find_range(chunk, child)
            .is_some_and(|fragment| table.find_range(chunk, parent) == Some(fragment))
}

/// Returns the rows of a group, at most as many as there are links.
fn group_rows(group: &Fragment<'_>) -> Vec<u64> {
    match group {
        // A group has at most as many rows as links, which was checked.
        Fragment::Range { start, count } => (*start..start.saturating_add(*count)).collect(),
        Fragment::Rows(rows) => rows.iter().map(|row| row.get().unsigned_abs()).collect(),
    }
}

/// Returns the fragment of a chunk that begins with `row`.
fn find_first_row(table: &ChunkTable, chunk: usize, row: u64) -> Option<usize> {
    let ends: &[Ends] = table.fragment_ends(chunk)?;
    // Binary search for ascending fragments, else linear search.
    let at = ends.partition_point(|ends| u64::from(ends.first) < row);
    let begins = |ends: &Ends| ends.count > 0 && u64::from(ends.first) == row;
    let from = |at: usize| ends.get(at..).and_then(|rest| Some(at + rest.iter().position(begins)?));
    let found = match ends.get(at) {
        Some(ends) if begins(ends) => Some(at),
        _ => from(at).or_else(|| from(0)),
    }?;
    table.fragment(chunk, to_u64(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_of_a_link_have_the_same_hash() {
        let [fine, coarse] = [(2, 7), (1, 3)].map(|(chunk, row)| row_id(hash(&[chunk]), row));
        let up = hash_pair([fine, coarse].into_iter(), true);
        assert_eq!(up, hash_pair([coarse, fine].into_iter(), false));
        assert_ne!(up, hash_pair([coarse, fine].into_iter(), true));
    }
}
