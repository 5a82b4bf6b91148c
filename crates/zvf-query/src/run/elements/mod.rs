//! Graphs, skeletons and meshes: vertices, and the edges or faces between them.
//!
//! ```text
//! link cells whose chunks reach the region  ->  records
//! chunks of these, and of the region        ->  fragments, positions
//! each element                              ->  kept, clipped or dropped
//! vertices of the answer                    ->  numbered in storage order, gathered
//! ```
//!
//! Isolated vertices in the region are in the answer in every mode. Elements are in the order of
//! their family; those of a skeleton, including implicit ones, in the order of their children, each
//! as (child, parent).

mod cells;
mod fields;
mod marks;
mod selection;

use zvf_error::{Error, Locate as _, Result};
use zvf_format::key::ChunkKey;
use zvf_format::num::{index_u32, saturating_u32, to_u64, usize_from_u32};
use zvf_format::{Class, Expected};
use zvf_model::{Batch, Elements, Kind, LinkFamily, LinkRecords};
use zvf_store::Caching;

use super::Context;
use super::fetch::{Chunks, Need, RowSource, check_end};
use super::joined_columns::locations;
use super::object_selection::is_owned;
use super::vertices::Chunk;
use crate::select::chain::Spot;
use crate::select::loaded_rows::LoadedRows;
use crate::select::pieces::{Piece, Pieces};
use crate::select::runs::list_runs;
use marks::{Marks, NONE};
use selection::KeptElements;

/// Link cells of one family, and the chunks whose vertices belong to this work.
#[derive(Clone, Default)]
pub(crate) struct Work {
    /// Chunks by their position in the table of the level, ascending.
    pub(crate) chunks: Vec<u32>,
    pub(crate) cells: Vec<LinkCell>,
    /// Cells of other work units that state which vertices have an explicit parent.
    pub(crate) parent_cells: Vec<LinkCell>,
}

/// A link cell.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LinkCell {
    pub(crate) segment: usize,
    /// Its position in the segment.
    pub(crate) place: usize,
    /// Its rank in the order of elements.
    pub(crate) order: u64,
}

/// The answer to a work unit.
pub(crate) struct Answered {
    pub(crate) batch: Batch,
    /// `None` if no other answer is merged with this one: it is complete, or has only vertices.
    pub(crate) keys: Option<ElementKeys>,
}

/// The identities of vertices and elements, by which answers are merged.
#[derive(Default)]
pub(crate) struct ElementKeys {
    /// The locations of the stored vertices: the position of the chunk in the upper 32 bits, the
    /// row in the lower ones. The vertices of cuts follow them and have no location.
    pub(crate) places: Vec<u64>,
    /// The rank of the cell of each element, and its record there; implicit elements are last.
    pub(crate) elements: Vec<(u64, u32)>,
}

impl Work {
    /// Merges works into one.
    pub(crate) fn merge(works: &[Self]) -> Self {
        if let [only] = works {
            return only.clone();
        }
        let mut all = Self::default();
        for work in works {
            all.chunks.extend_from_slice(&work.chunks);
            all.cells.extend_from_slice(&work.cells);
            all.parent_cells.extend_from_slice(&work.parent_cells);
        }
        for cells in [&mut all.cells, &mut all.parent_cells] {
            cells.sort_unstable();
            cells.dedup();
        }
        all.parent_cells.retain(|cell| all.cells.binary_search(cell).is_err());
        all
    }
}

/// The records of one cell.
struct Part {
    cell: LinkCell,
    records: LinkRecords,
    /// The ends of each record; an end in an irrelevant chunk has the cell number [`CUT`].
    ends: Vec<Spot>,
    /// The records that conditions leave out; empty without conditions.
    dropped: Vec<bool>,
}

impl Part {
    /// Returns the ends of each record.
    fn elements(&self) -> impl Iterator<Item = &[Spot]> {
        self.ends.chunks_exact(self.records.width())
    }

    /// Refuses records with ends at missing rows.
    fn check_ends(&self, cells: &[Cell]) -> Result<()> {
        for (at, end) in self.ends.iter().enumerate() {
            let cell = &cells[usize_from_u32(end.cell)];
            let rows = cell.chunk.rows.min(u32::MAX.into()); // rows are numbered with 32 bits
            if !cell.absent && u64::from(end.row) >= rows {
                let width = self.records.width();
                let stored = self.records.ends(at / width).nth(at % width);
                let row = stored.map_or(end.row.into(), |(_, row)| row);
                let expected = Expected::AtMost(i128::from(rows) - 1);
                let what = "row that a link names";
                let error = Error::new(Class::OutOfBounds, what, expected, row);
                return Err(error.at_chunk(&cell.chunk.key));
            }
        }
        Ok(())
    }
}

/// One chunk of the work.
struct Cell {
    /// Its runs are those of selected objects if the others do not affect the answer.
    chunk: Chunk,
    /// Whether its vertices belong to this work unit.
    is_own: bool,
    /// Whether its vertices belong to this or another work unit.
    counts: bool,
    /// One past the last row in any fragment.
    end: u64,
    /// Whether each run begins at or after the end of the previous one.
    ordered: bool,
    /// Whether its fragments are known to cover its rows exactly once and in order.
    tiled: bool,
    /// Whether data of its vertices is missing.
    absent: bool,
}

impl Cell {
    /// Returns the first run that contains a row. Each end of an element is looked up, and chunks
    /// may have many fragments: if they are in order, as in most stores, the run is found by binary
    /// search.
    fn find_run(&self, row: u32) -> Option<&Piece> {
        let runs = &self.chunk.runs.list;
        if !self.ordered {
            return runs.iter().find(|run| (run.start..run.end()).contains(&row));
        }
        let earlier = &runs[..runs.partition_point(|run| run.start <= row)];
        earlier.last().filter(|run| row < run.end())
    }
}

/// The cell number of ends that are cuts.
const CUT: u32 = u32::MAX;

impl Context {
    /// Answers a work unit, with the identities of its elements and vertices if `with_keys`.
    pub(super) async fn elements(&self, work: &Work, with_keys: bool) -> Result<Answered> {
        let family = self.family().await?;
        let many = work.chunks.len() + work.cells.len() > MAX_CACHED_CELLS;
        let caching = if many { Caching::Once } else { self.caching(0) };
        let mut parts = self.read_records(family.as_ref(), &work.cells, caching).await?;
        let mut others = self.read_records(family.as_ref(), &work.parent_cells, caching).await?;
        let mut cells = self.gather_cells(&mut parts, &mut others, &work.chunks).await?;
        let keys: Vec<ChunkKey> = cells.iter().map(|cell| cell.chunk.key).collect();
        let selected = self.find_owners(&keys).await?;
        // Chunks whose fragments share rows keep all runs, because those of other objects determine
        // where fragments begin; so do all chunks if there are conditions on rows, which need the
        // values of all relevant rows.
        if let (Some(selected), true) = (&selected, self.conditions.rows.is_empty()) {
            for (cell, owners) in cells.iter_mut().zip(selected).filter(|(cell, _)| cell.tiled) {
                cell.chunk.runs.retain(|fragment| is_owned(owners, fragment));
            }
        }
        let rows: Vec<u64> = cells.iter().map(|cell| cell.chunk.rows).collect();
        self.count(keys.len() + parts.len(), rows.iter().sum()); // of 32 bits each
        let mut chunks = Chunks { keys, rows, caching };
        let positions = self.read_positions(&chunks, &mut cells, &parts).await?;
        chunks.rows = cells.iter().map(|cell| cell.chunk.rows).collect();
        parts.iter().try_for_each(|part| part.check_ends(&cells))?;

        let mut marks = Marks::new(&cells);
        if let Some(selected) = selected {
            let pieces = cells.iter().flat_map(|cell| &cell.chunk.runs.list);
            let is_owned =
                |piece: &&Piece| is_owned(&selected[usize_from_u32(piece.cell)], piece.fragment);
            marks.allow_only(pieces.filter(is_owned));
        }
        if !self.conditions.rows.is_empty() {
            let ends = parts.iter().flat_map(|part| &part.ends);
            let relevant = marks.relevant_rows(&cells, ends);
            if let Some(test) = self.row_test(&chunks, &relevant, &positions).await? {
                marks.allow_only(&test.filter_pieces(&relevant)?.list);
            }
        }
        self.drop_records(&mut parts, caching).await?;
        self.order_ends(family.as_ref(), &mut parts, &others, &cells, &mut marks);
        marks.mark_inside(&cells, &positions, self.tested_region());
        let (kept, pieces, numbers, columns) = loop {
            let kept = self.keep_elements(&parts, &cells, &positions, &marks)?;
            let (pieces, numbers) = marks.number_rows(&cells, &kept.ends);
            if pieces.rows >= usize_from_u32(NONE) {
                let (cap, found) = (u64::from(NONE) - 1, to_u64(pieces.rows));
                return Err(Error::limit("vertices of elements", cap, found));
            }
            let mut read = pieces.clone();
            kept.cut_sources().for_each(|source| read.push_apart(source));
            let columns = self.columns(&chunks, &read).await?;
            let mut lost: Vec<usize> =
                read.list.iter().map(|piece| usize_from_u32(piece.cell)).collect();
            lost.dedup();
            lost.retain(|cell| columns.iter().any(|all| matches!(all[*cell], LoadedRows::Nothing)));
            if lost.is_empty() {
                break (kept, pieces, numbers, columns);
            }
            // Vertices without values are not part of the answer.
            lost.into_iter().for_each(|cell| marks.clear(cell));
        };
        let batch = self.assemble(
            &*positions,
            columns.iter().map(Vec::as_slice),
            |loaded, (dtype, width), positions| {
                kept.append_cuts(pieces.gather(loaded, dtype, width)?, loaded, positions)
            },
        )?;
        drop((positions, columns, marks));
        parts.iter_mut().for_each(|part| part.ends = Vec::new());
        let places = with_keys.then(|| locations(&self.chunks, &chunks.keys, &pieces.list));
        let places = places.transpose()?;
        let rows = pieces.rows;
        let mut all = pieces.list;
        all.extend(kept.nearest_rows(&cells)?);
        let batch = self.join_columns(batch, &chunks.keys, &all, None).await?;
        drop(all);

        let (mut rows, mut records) = number_elements(kept, self.element_width, &numbers, rows);
        drop(numbers);
        if self.kind == Kind::Skeleton {
            (rows, records) = sort_by_child(&rows, &records);
        }
        let elements = Elements::new(self.element_width, rows)?;
        let elements = self.with_link_fields(elements, &parts, &records, caching).await?;
        let keys =
            places.map(|places| ElementKeys { places, elements: element_keys(&parts, &records) });
        Ok(Answered { batch: batch.with_elements(elements)?, keys })
    }

    /// Reads the positions of own chunks, and of others if records end in them.
    async fn read_positions(
        &self,
        chunks: &Chunks,
        cells: &mut [Cell],
        parts: &[Part],
    ) -> Result<Vec<LoadedRows>> {
        let source = RowSource::Positions(&self.level);
        let ends = parts.iter().flat_map(|part| &part.ends);
        let foreign = ends.filter(|end| !cells[usize_from_u32(end.cell)].is_own).map(|end| Piece {
            cell: end.cell,
            // No chunk has a row beyond 32 bits; reading the last one detects that.
            start: end.row.min(u32::MAX - 1),
            len: 1,
            fragment: 0,
        });
        let mut needs = source.plan_needs(&chunks.rows, &foreign.collect::<Vec<_>>());
        for (cell, need) in cells.iter().zip(&mut needs).filter(|(cell, _)| cell.is_own) {
            *need = if cell.chunk.rows == 0 { Need::Nothing } else { Need::Whole };
        }
        let is_read: Vec<bool> = needs.iter().map(|need| *need != Need::Nothing).collect();
        let positions = self.read(source, chunks, needs).await?;
        for ((cell, loaded), is_read) in cells.iter_mut().zip(&positions).zip(is_read) {
            cell.chunk.rows = match loaded {
                LoadedRows::Nothing => {
                    cell.absent |= is_read;
                    0
                }
                LoadedRows::Whole(column) => {
                    let rows = to_u64(column.len());
                    check_end(&cell.chunk.key, cell.end, rows)?;
                    rows
                }
                // Rows up to the last range are known to exist.
                LoadedRows::Parts(parts) => parts
                    .last()
                    .map_or(0, |(first, column)| u64::from(*first) + to_u64(column.len())),
            };
        }
        Ok(positions)
    }

    /// Reads the records of `cells`, each cell as a part.
    async fn read_records(
        &self,
        family: Option<&LinkFamily>,
        cells: &[LinkCell],
        caching: Caching,
    ) -> Result<Vec<Part>> {
        let Some(family) = family else { return Ok(Vec::new()) };
        let runs = cells.chunk_by(|a, b| a.segment == b.segment);
        let reads = runs.map(|run| async move {
            let places: Vec<usize> = run.iter().map(|cell| cell.place).collect();
            family.segments()[run[0].segment].read(&places, caching).await
        });
        let mut parts = Vec::with_capacity(cells.len());
        let found = futures_util::future::join_all(reads).await;
        for (cell, records) in cells.iter().zip(found.into_iter().flatten()) {
            if let Some(records) = self.allow_missing(records)? {
                parts.push(Part { cell: *cell, records, ends: Vec::new(), dropped: Vec::new() });
            }
        }
        Ok(parts)
    }

    /// Collects the chunks of `parts` and those at `places`, with their rows; finds the ends of the records of `parts` and
    /// `others` among them.
    async fn gather_cells(
        &self,
        parts: &mut [Part],
        others: &mut [Part],
        places: &[u32],
    ) -> Result<Vec<Cell>> {
        let mut keys: Vec<(ChunkKey, bool)> =
            self.keys(places).into_iter().map(|key| (key, true)).collect();
        let between = parts.iter().flat_map(|part| part.records.chunks());
        keys.extend(between.map(|key| (*key, false)));
        keys.sort_unstable_by(|(a, own_a), (b, own_b)| a.cmp_numeric(b).then(own_b.cmp(own_a)));
        keys.dedup_by(|next, previous| next.0 == previous.0);
        for part in parts.iter_mut().chain(others) {
            let number = |key: &ChunkKey| {
                let found = keys.binary_search_by(|(candidate, _)| candidate.cmp_numeric(key));
                found.map_or(CUT, index_u32)
            };
            let numbers: Vec<u32> = part.records.chunks().iter().map(number).collect();
            let ends = (0..part.records.len()).flat_map(|record| part.records.ends(record));
            let place = |(chunk, row): (usize, u64)| Spot {
                cell: numbers[chunk],
                row: saturating_u32(row),
            };
            let mut all = Vec::with_capacity(part.records.len() * part.records.width());
            all.extend(ends.map(place));
            part.ends = all;
        }
        let chunk_keys: Vec<ChunkKey> = keys.iter().map(|(key, _)| *key).collect();
        let found = self.level.fragments(&chunk_keys).await;
        let mut cells = Vec::with_capacity(keys.len());
        for ((at, (key, is_own)), fragments) in (0..).zip(keys).zip(found) {
            let fragments = self.allow_missing(fragments)?;
            let absent = fragments.is_none();
            let (runs, rows, tiled) = match fragments {
                None => (Pieces::default(), 0, false),
                Some(fragments) => {
                    let view = fragments.view();
                    let rows = fragments.extent();
                    let mut runs = Pieces::default();
                    runs.extend_from(list_runs(&view, rows, None, true).at_chunk(&key)?, at);
                    (runs, rows, self.asks_for_objects() && view.tiles(rows))
                }
            };
            let counts =
                is_own || self.reach.as_ref().is_none_or(|(_, range)| range.contains(&key));
            let end = runs.end();
            let ordered = runs.list.is_sorted_by(|a, b| a.end() <= b.start);
            let chunk = Chunk { key, runs, rows };
            cells.push(Cell { chunk, is_own, counts, end, ordered, tiled, absent });
        }
        Ok(cells)
    }
}

/// Returns the identities of the elements with these `records` of `parts`.
fn element_keys(parts: &[Part], records: &[Option<(u32, u32)>]) -> Vec<(u64, u32)> {
    let key = |source: &Option<(u32, u32)>| {
        source.map_or((u64::MAX, 0), |(part, record)| {
            (parts[usize_from_u32(part)].cell.order, record)
        })
    };
    records.iter().map(key).collect()
}

/// Converts the elements to rows of the answer; returns these and the records of the elements.
fn number_elements(
    kept: KeptElements,
    width: usize,
    numbers: &[Vec<u32>],
    stored: usize,
) -> (Vec<usize>, Vec<Option<(u32, u32)>>) {
    let number = |end: &Spot| {
        if end.cell == CUT {
            return Some(stored + usize_from_u32(end.row));
        }
        let number = numbers[usize_from_u32(end.cell)][usize_from_u32(end.row)];
        (number != NONE).then(|| usize_from_u32(number))
    };
    let mut rows = Vec::with_capacity(kept.ends.len());
    let mut records = kept.records;
    let mut elements = kept.ends.chunks_exact(width);
    records.retain(|_| {
        elements.next().is_some_and(|ends| {
            let before = rows.len();
            rows.extend(ends.iter().map_while(number));
            // An element with a row outside of all fragments is not part of the geometry.
            let is_numbered = rows.len() - before == ends.len();
            if !is_numbered {
                rows.truncate(before);
            }
            is_numbered
        })
    });
    (rows, records)
}

/// Sorts the elements by their first vertices.
fn sort_by_child(
    rows: &[usize],
    records: &[Option<(u32, u32)>],
) -> (Vec<usize>, Vec<Option<(u32, u32)>>) {
    let pairs = rows.as_chunks::<2>().0;
    let mut order: Vec<usize> = (0..records.len()).collect();
    order.sort_by_key(|at| pairs[*at][0]);
    let sorted = order.iter().flat_map(|at| pairs[*at]).collect();
    (sorted, order.iter().map(|at| records[*at]).collect())
}

/// Maximum number of cells of a work unit that are cached.
const MAX_CACHED_CELLS: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_run_of_a_row_is_found_in_any_order() {
        let mut runs = Pieces::default();
        for (start, len, fragment) in [(2, 3, 0), (5, 1, 1), (9, 2, 2)] {
            runs.push(Piece { cell: 0, start, len, fragment });
        }
        let cell = |runs: &Pieces| {
            let chunk = Chunk { key: ChunkKey::new(&[0]).unwrap(), runs: runs.clone(), rows: 11 };
            let ordered = runs.list.is_sorted_by(|a, b| a.end() <= b.start);
            let (is_own, counts, tiled, absent) = (true, true, false, false);
            Cell { chunk, is_own, counts, end: runs.end(), ordered, tiled, absent }
        };
        let fragments = |runs: &Pieces| {
            let cell = cell(runs);
            [0, 2, 4, 5, 6, 9, 10, 11].map(|row| cell.find_run(row).map(|run| run.fragment))
        };
        assert!(cell(&runs).ordered);
        let found = [None, Some(0), Some(0), Some(1), None, Some(2), Some(2), None];
        assert_eq!(fragments(&runs), found);
        runs.push(Piece { cell: 0, start: 0, len: 10, fragment: 3 });
        assert!(!cell(&runs).ordered);
        let found = [Some(3), Some(0), Some(0), Some(1), Some(3), Some(2), Some(2), None];
        assert_eq!(fragments(&runs), found);
    }
}
