//! Graphs, skeletons and meshes: vertices, and the edges or faces between them.
//!
//! ```text
//! link cells whose chunks reach the region  ->  records
//! chunks of these, and of the region        ->  fragments, positions
//! each element                              ->  kept, clipped or dropped
//! vertices of the answer                    ->  numbered in storage order, gathered
//! ```
//!
//! Isolated vertices in the region are in the answer in every mode. Elements are in the order of their family;
//! those of a skeleton, including implied ones, in the order of their children, each as (child, parent).

mod cells;
mod fields;
mod marks;
mod selection;

use zvf_error::{Error, Locate as _, Result};
use zvf_format::key::ChunkKey;
use zvf_format::num::{index_u32, saturating_u32, saturating_usize, to_u64, usize_from_u32};
use zvf_format::{Class, Expected};
use zvf_model::{Batch, Elements, Kind, LinkFamily, LinkRecords, Owner};
use zvf_store::Caching;

use super::Context;
use super::fetch::{Need, RowSource};
use super::object_selection::is_owned;
use super::vertices::check_end;
use crate::select::loaded_rows::LoadedRows;
use crate::select::pieces::{Piece, Pieces, coalesce_ranges, missing_row_error};
use crate::select::runs::{Runs, list_runs};
use marks::{Marks, NONE};
use selection::KeptElements;

/// Link cells of one family, and the chunks whose vertices belong to this work.
#[derive(Clone, Debug, Default)]
pub(crate) struct Work {
    /// Chunks by their place in the table of the level, ascending.
    pub(crate) chunks: Vec<u32>,
    /// Cells: the number of the segment, and the place in it.
    pub(crate) cells: Vec<(usize, usize)>,
    /// Cells that belong to other work, and state which vertices have a parent other than the implied one.
    pub(crate) parent_cells: Vec<(usize, usize)>,
}

/// An answer with the identities of its vertices and elements, by which answers can be merged.
pub(crate) struct KeyedElements {
    pub(crate) batch: Batch,
    /// The places of the stored vertices: that of the chunk in the upper 32 bits, the row in the lower ones. The
    /// vertices of cuts follow them and have no places.
    pub(crate) places: Vec<u64>,
    /// Segment, cell and record of each element; implied elements are last.
    pub(crate) elements: Vec<(u64, u64, u64)>,
}

/// The records of one cell.
struct Part {
    segment: usize,
    place: usize,
    records: LinkRecords,
    /// The number of each of its chunks in this work; [`CUT`] for one that does not matter.
    chunks: Vec<u32>,
    /// The records that conditions leave out; empty without conditions.
    dropped: Vec<bool>,
}

/// Returns how many rows of a chunk are known to exist: all rows if it is held whole, else those up to the last
/// range that was read.
fn count_known_rows(loaded: &LoadedRows) -> u64 {
    match loaded {
        LoadedRows::Nothing => 0,
        LoadedRows::Whole(column) => to_u64(column.len()),
        LoadedRows::Parts(parts) => {
            let ends = parts.iter().map(|(first, column)| u64::from(*first) + to_u64(column.len()));
            // Without parts no row was read.
            ends.max().unwrap_or(0)
        }
    }
}

/// Refuses records with ends at rows that do not exist.
fn check_ends(part: &Part, chunks: &[Chunk]) -> Result<()> {
    let with_rows = |cell: &u32| {
        let chunk = chunks.get(usize_from_u32(*cell)).filter(|chunk| !chunk.absent)?;
        Some((chunk, chunk.rows.min(u32::MAX.into()))) // rows are numbered with 32 bits
    };
    let chunks_with_rows: Vec<Option<(&Chunk, u64)>> = part.chunks.iter().map(with_rows).collect();
    for record in 0..part.records.len() {
        for (place, row) in part.records.ends(record) {
            let Some(Some((chunk, rows))) = chunks_with_rows.get(place).copied() else { continue };
            if row >= rows {
                let error = Error::new(
                    Class::OutOfBounds,
                    "row that a link names",
                    Expected::AtMost(i128::from(rows) - 1),
                    row,
                );
                return Err(error.at_chunk(&chunk.key));
            }
        }
    }
    Ok(())
}

/// One chunk of the work.
struct Chunk {
    key: ChunkKey,
    /// Whether its vertices belong to this work.
    is_own: bool,
    /// Whether its vertices belong to this work or to other work.
    counts: bool,
    /// The rows that fragments name; only of the fragments of selected objects, if that does not change the answer.
    runs: Runs,
    /// One past the last row that any fragment names.
    end: u64,
    rows: u64,
    /// Whether its fragments are known to cover its rows once and in order.
    tiled: bool,
    /// Whether data of its vertices is missing.
    absent: bool,
}

/// The cell number of ends that are cuts.
const CUT: u32 = u32::MAX;

impl Context {
    /// Answers a unit of work.
    pub(super) async fn elements(&self, work: &Work) -> Result<Batch> {
        Ok(self.keyed_elements(work, false).await?.batch)
    }

    /// Answers a unit of work, with the identities of its elements and vertices if `with_keys`.
    pub(super) async fn keyed_elements(
        &self,
        work: &Work,
        with_keys: bool,
    ) -> Result<KeyedElements> {
        let family = self.family().await?;
        let rows = work.chunks.len() + work.cells.len();
        let caching = if rows > MAX_CACHED_CELLS { Caching::Once } else { self.caching(0) };
        let (mut parts, mut parent_cells) = match &family {
            Some(family) => (
                self.read_records(family, &work.cells, caching).await?,
                self.read_records(family, &work.parent_cells, caching).await?,
            ),
            None => (Vec::new(), Vec::new()),
        };
        let mut chunks = self.gather_chunks(&mut parts, &mut parent_cells, &work.chunks).await?;
        let owners = self.retain_selected(&mut chunks).await?;
        let keys: Vec<ChunkKey> = chunks.iter().map(|chunk| chunk.key).collect();
        let extents: Vec<u64> = chunks.iter().map(|chunk| chunk.rows).collect();
        self.count(keys.len() + parts.len(), extents.iter().sum()); // of 32 bits each

        let source = RowSource::Positions(&self.cache.level);
        let needs = plan_position_needs(source, &chunks, &parts);
        let is_read: Vec<bool> = needs.iter().map(|need| *need != Need::Nothing).collect();
        let positions = self.read(source, &keys, needs, caching).await?;
        for ((chunk, loaded), is_read) in chunks.iter_mut().zip(&positions).zip(is_read) {
            chunk.absent |= is_read && matches!(loaded, LoadedRows::Nothing);
            chunk.rows = count_known_rows(loaded);
            if let LoadedRows::Whole(_) = loaded {
                check_end(&chunk.key, chunk.end, chunk.rows)?;
            }
        }
        for part in &parts {
            check_ends(part, &chunks)?;
        }
        let extents: Vec<u64> = chunks.iter().map(|chunk| chunk.rows).collect();
        let allowed = owners.map(|owners| mark_owned_rows(&chunks, &owners));
        let loaded = (keys.as_slice(), extents.as_slice(), positions.as_slice());
        let allowed = self.filter_rows(&chunks, &parts, loaded, allowed, caching).await?;
        self.drop_records(&mut parts, caching).await?;
        let mut marks = Marks::new(&chunks, &positions, allowed);
        let mut kept = self.keep_elements(
            family.as_ref(),
            &parts,
            &parent_cells,
            &chunks,
            &positions,
            &mut marks,
        )?;

        let (pieces, numbers, columns) = loop {
            let (pieces, numbers) = marks.number_rows(&chunks, &kept.ends);
            if pieces.rows >= usize_from_u32(NONE) {
                let (cap, found) = (u64::from(NONE) - 1, to_u64(pieces.rows));
                return Err(Error::limit("vertices of elements", cap, found));
            }
            let mut read = pieces.clone();
            kept.cut_sources().for_each(|source| read.push_apart(source));
            let columns = self.columns(&keys, &extents, &read, caching).await?;
            let lost = find_lost(&read, &columns, keys.len());
            if !lost.contains(&true) {
                break (pieces, numbers, columns);
            }
            // Vertices without values are dropped; the others are numbered again.
            kept = kept.drop_lost(&lost);
            marks.clear_lost(&lost);
        };
        let batch = self.gather_rows(&pieces, &positions, &columns)?;
        let batch = self.append_cuts(batch, &kept, &positions, &columns)?;
        drop((positions, columns));
        let places = if with_keys { self.vertex_places(&keys, &pieces)? } else { Vec::new() };
        let rows = pieces.rows;
        let mut all = pieces.list;
        all.extend(kept.nearest_rows(&chunks)?);
        let batch = self.join_columns(batch, &keys, &all, None).await?;
        drop(all);

        let width = self.element_width;
        let (rows, records) = number_elements(kept, &numbers, rows);
        drop(numbers);
        let (rows, records) = if self.kind == Kind::Skeleton {
            sort_by_child(rows, records)
        } else {
            (rows, records)
        };
        let elements = Elements::new(width, rows)?;
        let elements = self.with_link_fields(elements, &parts, &records, caching).await?;
        let keys = if with_keys { element_keys(&parts, &records) } else { Vec::new() };
        Ok(KeyedElements { batch: batch.with_elements(elements)?, places, elements: keys })
    }

    /// Returns the places of the vertices of `pieces`.
    fn vertex_places(&self, keys: &[ChunkKey], pieces: &Pieces) -> Result<Vec<u64>> {
        let mut places = Vec::with_capacity(pieces.rows);
        for piece in &pieces.list {
            // A chunk that records name has no place if the presence list does not name it.
            let place = keys.get(usize_from_u32(piece.cell)).and_then(|key| self.chunks.find(key));
            let place = place.ok_or_else(missing_row_error)?;
            let first = u64::from(index_u32(place)) << 32 | u64::from(piece.start);
            places.extend(first..first + u64::from(piece.len));
        }
        Ok(places)
    }

    /// Reads the records of `cells`, each cell as a part.
    async fn read_records(
        &self,
        family: &LinkFamily,
        cells: &[(usize, usize)],
        caching: Caching,
    ) -> Result<Vec<Part>> {
        let runs: Vec<(usize, Vec<usize>)> = cells
            .chunk_by(|a, b| a.0 == b.0)
            .filter_map(|run| {
                let places = run.iter().map(|(_, place)| *place).collect();
                Some((run.first()?.0, places))
            })
            .collect();
        let reads = runs.iter().filter_map(|(number, places)| {
            let segment = family.segments().get(*number)?;
            Some(segment.read(places, caching))
        });
        let mut parts = Vec::with_capacity(cells.len());
        let found = futures_util::future::join_all(reads).await;
        for ((segment, places), found) in runs.into_iter().zip(found) {
            for (place, records) in places.into_iter().zip(found) {
                if let Some(records) = self.allow_missing(records)? {
                    let (chunks, dropped) = (Vec::new(), Vec::new());
                    parts.push(Part { segment, place, records, chunks, dropped });
                }
            }
        }
        Ok(parts)
    }

    /// Collects the chunks of `parts` and those at `places`, with their rows; stores the numbers of their chunks in
    /// `parts` and `parent_cells`.
    async fn gather_chunks(
        &self,
        parts: &mut [Part],
        parent_cells: &mut [Part],
        places: &[u32],
    ) -> Result<Vec<Chunk>> {
        let mut keys: Vec<(ChunkKey, bool)> =
            self.keys(places).into_iter().map(|key| (key, true)).collect();
        let between = parts.iter().flat_map(|part| part.records.chunks());
        keys.extend(between.map(|key| (*key, false)));
        keys.sort_unstable_by(|(a, own_a), (b, own_b)| a.cmp_numeric(b).then(own_b.cmp(own_a)));
        keys.dedup_by(|next, previous| next.0 == previous.0);
        for part in parts.iter_mut().chain(parent_cells) {
            let number = |key: &ChunkKey| {
                let found = keys.binary_search_by(|(candidate, _)| candidate.cmp_numeric(key));
                found.map_or(CUT, index_u32)
            };
            part.chunks = part.records.chunks().iter().map(number).collect();
        }
        let chunk_keys: Vec<ChunkKey> = keys.iter().map(|(key, _)| *key).collect();
        let found = self.cache.level.fragments(&chunk_keys).await;
        let mut chunks = Vec::with_capacity(keys.len());
        for ((key, is_own), fragments) in keys.into_iter().zip(found) {
            let fragments = self.allow_missing(fragments)?;
            let absent = fragments.is_none();
            let (runs, rows, tiled) = match fragments {
                None => (Runs::default(), 0, false),
                Some(fragments) => {
                    let view = fragments.view();
                    let rows = fragments.extent();
                    let runs = list_runs(&view, rows, None, true).at_chunk(&key)?;
                    (runs, rows, self.asks_for_objects() && view.tiles(rows))
                }
            };
            let counts =
                is_own || self.reach.as_ref().is_none_or(|(_, range)| range.contains(&key));
            let end = runs.end();
            chunks.push(Chunk { key, is_own, counts, runs, end, rows, tiled, absent });
        }
        Ok(chunks)
    }

    /// Retains the runs of selected objects; returns for each chunk the fragments of these objects, or `None` if the query
    /// selects all objects.
    ///
    /// Retains all runs of chunks whose fragments share rows, because those of other objects determine where fragments
    /// begin, and all runs if there are conditions on rows, which read the values of all relevant rows.
    async fn retain_selected(&self, chunks: &mut [Chunk]) -> Result<Option<Vec<Vec<Owner>>>> {
        let keys: Vec<ChunkKey> = chunks.iter().map(|chunk| chunk.key).collect();
        let Some(selected) = self.find_owners(&keys).await? else { return Ok(None) };
        if self.conditions.rows.is_empty() {
            for (chunk, owners) in chunks.iter_mut().zip(&selected).filter(|(chunk, _)| chunk.tiled)
            {
                chunk.runs.retain(|fragment| is_owned(owners, fragment));
            }
        }
        Ok(Some(selected))
    }

    /// Restricts `allowed` to the rows that pass the conditions on rows.
    async fn filter_rows(
        &self,
        chunks: &[Chunk],
        parts: &[Part],
        (keys, rows, positions): (&[ChunkKey], &[u64], &[LoadedRows]),
        allowed: Option<Vec<Vec<bool>>>,
        caching: Caching,
    ) -> Result<Option<Vec<Vec<bool>>>> {
        if self.conditions.rows.is_empty() {
            return Ok(allowed);
        }
        let all = relevant_rows(chunks, parts);
        let Some(test) = self.row_test(keys, rows, &all, positions, caching).await? else {
            return Ok(allowed);
        };
        let empty = |rows: &u64| vec![false; saturating_usize(*rows)]; // rows that exist
        let mut passing: Vec<Vec<bool>> = rows.iter().map(empty).collect();
        for piece in test.filter_pieces(&all)?.list {
            let rows = passing.get_mut(usize_from_u32(piece.cell));
            if let Some(rows) = rows.and_then(|rows| {
                rows.get_mut(usize_from_u32(piece.start)..usize_from_u32(piece.end()))
            }) {
                rows.fill(true);
            }
        }
        for (passes, before) in passing.iter_mut().zip(allowed.into_iter().flatten()) {
            passes.iter_mut().zip(before).for_each(|(passes, before)| *passes &= before);
        }
        Ok(Some(passing))
    }
}

/// Marks the rows of each chunk that belong to selected objects.
fn mark_owned_rows(chunks: &[Chunk], selected: &[Vec<Owner>]) -> Vec<Vec<bool>> {
    let allowed_rows = chunks.iter().zip(selected).map(|(chunk, owners)| {
        let mut allowed = vec![false; saturating_usize(chunk.rows)]; // rows that exist
        for run in &chunk.runs.list {
            let end = usize_from_u32(run.end()).min(allowed.len()); // no end of a record is behind it
            let rows = allowed.get_mut(usize_from_u32(run.start)..end);
            if let Some(rows) = rows.filter(|_| is_owned(owners, run.fragment)) {
                rows.fill(true);
            }
        }
        allowed
    });
    allowed_rows.collect()
}

/// Returns all rows of own chunks, and of other chunks the rows at which records end.
fn relevant_rows(chunks: &[Chunk], parts: &[Part]) -> Pieces {
    let no_ends = |chunk: &Chunk| vec![chunk.is_own; saturating_usize(chunk.rows)]; // rows that exist
    let mut ends: Vec<Vec<bool>> = chunks.iter().map(no_ends).collect();
    for part in parts {
        for i in 0..part.records.len() {
            for (place, row) in part.records.ends(i) {
                let cell = part.chunks.get(place).copied().unwrap_or(CUT);
                let rows = ends.get_mut(usize_from_u32(cell));
                // Rows were checked by `check_ends`.
                let end = rows.and_then(|rows| rows.get_mut(saturating_usize(row)));
                if let Some(end) = end {
                    *end = true;
                }
            }
        }
    }
    let mut all = Pieces::default();
    for (cell, (chunk, ends)) in (0_u32..).zip(chunks.iter().zip(ends)) {
        for run in &chunk.runs.list {
            let mut start = run.start;
            // No end of a record is behind the rows that are known, nor in a run that begins there.
            let end = usize_from_u32(run.end()).min(ends.len());
            let rows = ends.get(usize_from_u32(run.start)..end).unwrap_or_default();
            for same in rows.chunk_by(|a, b| a == b) {
                let len = index_u32(same.len()); // of a run
                if same.first() == Some(&true) {
                    all.push_apart(Piece { cell, start, len, fragment: run.fragment });
                }
                start += len;
            }
        }
    }
    all
}

/// Finds the chunks of which a column is missing.
fn find_lost(read: &Pieces, columns: &[Vec<LoadedRows>], cells: usize) -> Vec<bool> {
    let mut lost = vec![false; cells];
    for piece in &read.list {
        let cell = usize_from_u32(piece.cell);
        let missing =
            columns.iter().any(|column| matches!(column.get(cell), Some(LoadedRows::Nothing)));
        if let (true, Some(lost)) = (missing, lost.get_mut(cell)) {
            *lost = true;
        }
    }
    lost
}

/// Returns the identities of the elements with these `records` of `parts`.
fn element_keys(parts: &[Part], records: &[Option<(u32, u32)>]) -> Vec<(u64, u64, u64)> {
    let key = |source: &Option<(u32, u32)>| {
        let (part, record) = (*source)?;
        let part = parts.get(usize_from_u32(part))?;
        Some((to_u64(part.segment), to_u64(part.place), u64::from(record)))
    };
    records.iter().map(|source| key(source).unwrap_or((u64::MAX, 0, 0))).collect()
}

/// Converts the elements to rows of the answer; returns these and the records of the elements.
fn number_elements(
    mut kept: KeptElements,
    numbers: &[Vec<u32>],
    stored: usize,
) -> (Vec<usize>, Vec<Option<(u32, u32)>>) {
    let number = |end: &crate::select::chain::Place| {
        if end.cell == CUT {
            return stored.checked_add(usize_from_u32(end.row));
        }
        let number = numbers.get(usize_from_u32(end.cell))?.get(usize_from_u32(end.row)).copied();
        number.filter(|n| *n != NONE).map(usize_from_u32)
    };
    let mut rows = Vec::with_capacity(kept.ends.len());
    let mut records = std::mem::take(&mut kept.records);
    let mut elements = kept.elements();
    records.retain(|_| {
        elements.next().is_some_and(|ends| {
            let before = rows.len();
            rows.extend(ends.iter().map_while(number));
            // An element of a row that no fragment names is not part of the geometry.
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
    rows: Vec<usize>,
    records: Vec<Option<(u32, u32)>>,
) -> (Vec<usize>, Vec<Option<(u32, u32)>>) {
    let mut order: Vec<usize> = (0..records.len()).collect();
    let pairs = rows.as_chunks::<2>().0;
    order.sort_by_key(|at| pairs.get(*at).map(|[child, _]| *child));
    let sorted = order.iter().filter_map(|at| pairs.get(*at)).flatten().copied().collect();
    let sources = order.iter().filter_map(|at| records.get(*at).copied()).collect();
    (sorted, sources)
}

/// Plans what to read of the positions of each chunk: all of own chunks, else the ends of records.
fn plan_position_needs(source: RowSource<'_>, chunks: &[Chunk], parts: &[Part]) -> Vec<Need> {
    let mut ends: Vec<Vec<Piece>> = vec![Vec::new(); chunks.len()];
    let is_own = |cell: &u32| chunks.get(usize_from_u32(*cell)).is_some_and(|chunk| chunk.is_own);
    // Chunks that are read whole need no list of the ends in them.
    for part in parts.iter().filter(|part| !part.chunks.iter().all(is_own)) {
        for i in 0..part.records.len() {
            for (place, row) in part.records.ends(i) {
                let cell = part.chunks.get(place).copied().unwrap_or(CUT);
                let foreign = chunks.get(usize_from_u32(cell)).is_some_and(|chunk| !chunk.is_own);
                if foreign && let Some(ends) = ends.get_mut(usize_from_u32(cell)) {
                    // No chunk has a row beyond 32 bits; reading the last one detects that.
                    ends.push(Piece {
                        cell,
                        start: saturating_u32(row).min(u32::MAX - 1),
                        len: 1,
                        fragment: 0,
                    });
                }
            }
        }
    }
    let needs = chunks.iter().zip(ends).map(|(chunk, ends)| {
        if chunk.is_own {
            return if chunk.rows == 0 { Need::Nothing } else { Need::Whole };
        }
        source.plan_need(chunk.rows, to_u64(ends.len()), |gap| {
            coalesce_ranges(ends.iter(), gap, &mut Vec::new())
        })
    });
    needs.collect()
}

/// Maximum cells of a work unit that are cached with the handle.
const MAX_CACHED_CELLS: usize = 512;
