//! Graphs, skeletons and meshes: vertices, and the edges or faces between them.
//!
//! ```text
//! link cells whose chunks reach the region  ->  records
//! chunks of these, and of the region        ->  fragments, positions
//! each element                              ->  kept, cut or left out
//! vertices that are left                    ->  numbered in storage order, gathered
//! ```
//!
//! An isolated vertex is geometry as well: those in the region come along in every mode. Elements come
//! in the order of their family; those of a skeleton in the order of their children, each as (child,
//! parent), implied ones among them.

mod cells;
mod fields;
mod kept;
mod marks;

use zvf_format::key::ChunkKey;
use zvf_format::num::{saturating_u32, saturating_usize, to_u64, usize_from_u32};
use zvf_format::{Class, Expected};
use zvf_model::{Batch, Elements, Kind, LinkFamily, LinkRecords, ModelError, Owner};
use zvf_store::Caching;

use super::Context;
use super::asked::is_owned;
use super::fetch::{Need, Of};
use super::vertices::check_end;
use crate::error::QueryError;
use crate::select::held::Held;
use crate::select::pieces::{Piece, Pieces, not_held, ranges};
use crate::select::runs::{Runs, runs};
use kept::Kept;
use marks::{Marks, NONE};

/// Link cells of one family, and chunks whose vertices count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Work {
    /// Chunks by their place in the table of the level, ascending.
    pub(crate) chunks: Vec<u32>,
    /// Cells: the number of the segment, and the place in it.
    pub(crate) cells: Vec<(usize, usize)>,
    /// Cells that belong to other work, and state which vertices have a parent other than the implied one.
    pub(crate) parent_cells: Vec<(usize, usize)>,
}

/// An answer whose vertices and elements can be distinguished from those of other answers.
pub(crate) struct Keyed {
    pub(crate) batch: Batch,
    /// Where the vertices are stored, in their order: the place of the chunk in the upper 32 bits, the row in
    /// the lower ones. The vertices of cuts come behind these and have none.
    pub(crate) places: Vec<u64>,
    /// Segment, cell and record of each element; those that are no records come behind.
    pub(crate) elements: Vec<(u64, u64, u64)>,
}

/// The records of one cell.
struct Part {
    segment: usize,
    place: usize,
    records: LinkRecords,
    /// The number of each of its chunks in the query; [`CUT`] for one that does not matter.
    chunks: Vec<u32>,
    /// The records that conditions leave out; empty without conditions.
    dropped: Vec<bool>,
}

/// How many rows are known to be there: all of a chunk that is held whole, and as far as ranges were read
/// of others.
fn rows_present(held: &Held) -> u64 {
    match held {
        Held::Nothing => 0,
        Held::Whole(column) => to_u64(column.len()),
        Held::Parts(parts) => {
            let ends = parts.iter().map(|(first, column)| u64::from(*first) + to_u64(column.len()));
            // Without parts no row was read.
            ends.max().unwrap_or(0)
        }
    }
}

/// Refuses records that end at rows that are not there, whichever way was asked.
fn check_ends(part: &Part, chunks: &[Chunk]) -> Result<(), QueryError> {
    let known = |cell: &u32| {
        let chunk = chunks.get(usize_from_u32(*cell)).filter(|chunk| !chunk.absent)?;
        Some((chunk, chunk.rows.min(u32::MAX.into()))) // rows are numbered with 32 bits
    };
    let known: Vec<Option<(&Chunk, u64)>> = part.chunks.iter().map(known).collect();
    for record in 0..part.records.len() {
        for (place, row) in part.records.ends(record) {
            let Some(Some((chunk, rows))) = known.get(place).copied() else { continue };
            if row >= rows {
                let (what, expected) =
                    ("row that a link names", Expected::AtMost(i128::from(rows) - 1));
                let error = ModelError::refused(Class::OutOfBounds, what, expected, row);
                return Err(error.in_chunk(&chunk.key).into());
            }
        }
    }
    Ok(())
}

/// One chunk of the query.
struct Chunk {
    key: ChunkKey,
    /// Whether its vertices count by themselves.
    own: bool,
    /// Whether they do in this work or in other work.
    counts: bool,
    /// The rows that fragments name; where objects are asked for and nothing is lost by it, of their fragments alone.
    runs: Runs,
    /// The row behind the last one that any fragment names.
    end: u64,
    rows: u64,
    /// Whether its fragments are known to cover its rows once and in order.
    tiled: bool,
    /// Whether something that makes its vertices is missing: then nothing is known of it.
    absent: bool,
}

/// The cell number of ends that are cuts.
const CUT: u32 = u32::MAX;

impl Context {
    /// The answer to some of the cells.
    pub(super) async fn elements(&self, work: &Work) -> Result<Batch, QueryError> {
        Ok(self.elements_keyed(work, false).await?.batch)
    }

    /// The same, with the identity of its elements and vertices where `with_keys` asks for it.
    pub(super) async fn elements_keyed(
        &self,
        work: &Work,
        with_keys: bool,
    ) -> Result<Keyed, QueryError> {
        let family = self.family().await?;
        let rows = work.chunks.len() + work.cells.len();
        let caching = if rows > MAX_CACHED_CELLS { Caching::Once } else { self.caching(0) };
        let (mut parts, mut parent_cells) = match &family {
            Some(family) => (
                self.records(family, &work.cells, caching).await?,
                self.records(family, &work.parent_cells, caching).await?,
            ),
            None => (Vec::new(), Vec::new()),
        };
        let mut chunks = self.gather_chunks(&mut parts, &mut parent_cells, &work.chunks).await?;
        let asked_owners = self.retain_asked(&mut chunks).await?;
        let keys: Vec<ChunkKey> = chunks.iter().map(|chunk| chunk.key).collect();
        let extents: Vec<u64> = chunks.iter().map(|chunk| chunk.rows).collect();
        let asked = extents.iter().fold(0_u64, |sum, rows| sum.saturating_add(*rows)); // claims
        self.count(keys.len() + parts.len(), asked);

        let of = Of::Positions(&self.warm.level);
        let needs = ends_needed(of, &chunks, &parts);
        let wanted: Vec<bool> = needs.iter().map(|need| *need != Need::Nothing).collect();
        let positions = self.read(of, &keys, needs, caching).await?;
        for ((chunk, held), wanted) in chunks.iter_mut().zip(&positions).zip(wanted) {
            chunk.absent |= wanted && matches!(held, Held::Nothing);
            chunk.rows = rows_present(held);
            if let Held::Whole(_) = held {
                check_end(&chunk.key, chunk.end, chunk.rows)?;
            }
        }
        for part in &parts {
            check_ends(part, &chunks)?;
        }
        let extents: Vec<u64> = chunks.iter().map(|chunk| chunk.rows).collect();
        let allowed = asked_owners.map(|owners| allowed(&chunks, &owners));
        let known = (keys.as_slice(), extents.as_slice(), positions.as_slice());
        let allowed = self.filter_rows(&chunks, &parts, known, allowed, caching).await?;
        self.drop_records(&mut parts, caching).await?;
        let mut marks = Marks::new(&chunks, &positions, allowed);
        let mut kept =
            self.kept(family.as_ref(), &parts, &parent_cells, &chunks, &positions, &mut marks)?;

        let (pieces, numbers, columns) = loop {
            let (pieces, numbers) = marks.numbered(&chunks, &kept.ends);
            if pieces.rows >= usize_from_u32(NONE) {
                let (cap, found) = (u64::from(NONE) - 1, to_u64(pieces.rows));
                return Err(QueryError::limit("vertices of elements", cap, found));
            }
            let mut read = pieces.clone();
            kept.sources().for_each(|source| read.push_apart(source));
            let columns = self.columns(&keys, &extents, &read, caching).await?;
            let lost = find_lost(&read, &columns, keys.len());
            if !lost.contains(&true) {
                break (pieces, numbers, columns);
            }
            // Without a value there is no vertex: what is left is numbered anew.
            kept = kept.without_lost(&lost);
            marks.forget(&lost);
        };
        let batch = self.gathered(&pieces, &positions, &columns)?;
        let batch = self.with_cuts(batch, &kept, &positions, &columns)?;
        drop((positions, columns));
        let places = if with_keys { self.vertex_places(&keys, &pieces)? } else { Vec::new() };
        let rows = pieces.rows;
        let mut all = pieces.list;
        all.extend(kept.nearest(&chunks));
        let batch = self.join_columns(batch, &keys, &all, None).await?;
        drop(all);

        let width = self.element_width;
        let (rows, from) = numbered(kept, width, &numbers, rows);
        drop(numbers);
        let (rows, from) =
            if self.kind == Kind::Skeleton { by_child(rows, from) } else { (rows, from) };
        let elements = Elements::new(width, rows)?;
        let elements = self.with_link_fields(elements, &parts, &from, caching).await?;
        let keys = if with_keys { element_keys(&parts, &from) } else { Vec::new() };
        Ok(Keyed { batch: batch.with_elements(elements)?, places, elements: keys })
    }

    /// Where the vertices of `pieces` are stored.
    fn vertex_places(&self, keys: &[ChunkKey], pieces: &Pieces) -> Result<Vec<u64>, QueryError> {
        let mut places = Vec::with_capacity(pieces.rows);
        for piece in &pieces.list {
            // A chunk that records name and the presence list does not comes with no place.
            let place = keys.get(usize_from_u32(piece.cell)).and_then(|key| self.chunks.find(key));
            let place = place.ok_or_else(not_held)?;
            let first = to_u64(place) << 32 | u64::from(piece.start);
            places.extend(first..first + u64::from(piece.len));
        }
        Ok(places)
    }

    /// The records of `cells`, each cell a part.
    async fn records(
        &self,
        family: &LinkFamily,
        cells: &[(usize, usize)],
        caching: Caching,
    ) -> Result<Vec<Part>, QueryError> {
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

    /// The chunks of `parts` and those at `own`, with their rows; `parts` and `parent_cells` learn the numbers of
    /// theirs.
    async fn gather_chunks(
        &self,
        parts: &mut [Part],
        parent_cells: &mut [Part],
        own: &[u32],
    ) -> Result<Vec<Chunk>, QueryError> {
        let mut keys: Vec<(ChunkKey, bool)> =
            self.keys(own).into_iter().map(|key| (key, true)).collect();
        let between = parts.iter().flat_map(|part| part.records.chunks());
        keys.extend(between.map(|key| (*key, false)));
        keys.sort_unstable_by(|(a, own_a), (b, own_b)| a.cmp_numeric(b).then(own_b.cmp(own_a)));
        keys.dedup_by(|next, kept| next.0 == kept.0);
        for part in parts.iter_mut().chain(parent_cells) {
            let number = |key: &ChunkKey| {
                let found = keys.binary_search_by(|(one, _)| one.cmp_numeric(key));
                found.map_or(CUT, |number| saturating_u32(to_u64(number)))
            };
            part.chunks = part.records.chunks().iter().map(number).collect();
        }
        let only: Vec<ChunkKey> = keys.iter().map(|(key, _)| *key).collect();
        let found = self.warm.level.fragments(&only).await;
        let mut chunks = Vec::with_capacity(keys.len());
        for ((key, own), fragments) in keys.into_iter().zip(found) {
            let fragments = self.allow_missing(fragments)?;
            let absent = fragments.is_none();
            let (runs, rows, tiled) = match fragments {
                None => (Runs::default(), 0, false),
                Some(fragments) => {
                    let view = fragments.view()?;
                    let rows = fragments.extent();
                    let runs =
                        runs(&view, rows, None, true).map_err(|error| error.in_chunk(&key))?;
                    (runs, rows, self.asks_for_objects() && view.tiles(rows))
                }
            };
            let counts = own || self.reach.as_ref().is_none_or(|(_, range)| range.contains(&key));
            let end = runs.end();
            chunks.push(Chunk { key, own, counts, runs, end, rows, tiled, absent });
        }
        Ok(chunks)
    }

    /// For each chunk the fragments of the objects that are asked for, of which alone the rows are kept; `None` when
    /// nothing is asked of objects.
    ///
    /// Where a row is in several fragments, those of other objects say where fragments begin: then all rows stay. Conditions
    /// on rows read the values of all rows that matter.
    async fn retain_asked(
        &self,
        chunks: &mut [Chunk],
    ) -> Result<Option<Vec<Vec<Owner>>>, QueryError> {
        let keys: Vec<ChunkKey> = chunks.iter().map(|chunk| chunk.key).collect();
        let Some(asked) = self.owners_asked(&keys).await? else { return Ok(None) };
        if self.conditions.rows.is_empty() {
            for (at, chunk) in chunks.iter_mut().enumerate().filter(|(_, chunk)| chunk.tiled) {
                let owners = asked.get(at).map(Vec::as_slice).unwrap_or_default();
                chunk.runs.retain(|fragment| is_owned(owners, fragment));
            }
        }
        Ok(Some(asked))
    }

    /// As `allowed`, without the rows for which the conditions on rows do not hold.
    async fn filter_rows(
        &self,
        chunks: &[Chunk],
        parts: &[Part],
        (keys, rows, positions): (&[ChunkKey], &[u64], &[Held]),
        allowed: Option<Vec<Vec<bool>>>,
        caching: Caching,
    ) -> Result<Option<Vec<Vec<bool>>>, QueryError> {
        if self.conditions.rows.is_empty() {
            return Ok(allowed);
        }
        let all = rows_that_matter(chunks, parts);
        let Some(test) = self.row_test(keys, rows, &all, positions, caching).await? else {
            return Ok(allowed);
        };
        let empty = |rows: &u64| vec![false; saturating_usize(*rows)];
        let mut passing: Vec<Vec<bool>> = rows.iter().map(empty).collect();
        for piece in test.filter_pieces(&all)?.list {
            let rows = passing.get_mut(usize_from_u32(piece.cell));
            if let Some(rows) = rows.and_then(|rows| {
                rows.get_mut(usize_from_u32(piece.start)..usize_from_u32(piece.end()))
            }) {
                rows.fill(true);
            }
        }
        for (own, before) in passing.iter_mut().zip(allowed.into_iter().flatten()) {
            own.iter_mut().zip(before).for_each(|(own, before)| *own &= before);
        }
        Ok(Some(passing))
    }
}

/// The rows of each chunk that belong to the objects asked for.
fn allowed(chunks: &[Chunk], asked: &[Vec<Owner>]) -> Vec<Vec<bool>> {
    let each = chunks.iter().enumerate().map(|(at, chunk)| {
        let owners = asked.get(at).map(Vec::as_slice).unwrap_or_default();
        let mut allowed = vec![false; saturating_usize(chunk.rows)];
        for run in &chunk.runs.list {
            let end = usize_from_u32(run.end()).min(allowed.len()); // no end of a record is behind it
            let rows = allowed.get_mut(usize_from_u32(run.start)..end);
            if let Some(rows) = rows.filter(|_| is_owned(owners, run.fragment)) {
                rows.fill(true);
            }
        }
        allowed
    });
    each.collect()
}

/// All rows of chunks whose vertices count, and of the others those that records end at.
fn rows_that_matter(chunks: &[Chunk], parts: &[Part]) -> Pieces {
    let mut ends: Vec<Vec<bool>> =
        chunks.iter().map(|chunk| vec![chunk.own; saturating_usize(chunk.rows)]).collect();
    for part in parts {
        for i in 0..part.records.len() {
            for (place, row) in part.records.ends(i) {
                let cell = part.chunks.get(place).copied().unwrap_or(CUT);
                let end = ends
                    .get_mut(usize_from_u32(cell))
                    .and_then(|rows| rows.get_mut(saturating_usize(row)));
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
            let end = usize_from_u32(run.end()).min(ends.len()); // no end of a record is behind it
            let rows = ends.get(usize_from_u32(run.start)..end).unwrap_or_default();
            for same in rows.chunk_by(|a, b| a == b) {
                let len = saturating_u32(to_u64(same.len()));
                if same.first() == Some(&true) {
                    all.push_apart(Piece { cell, start, len, fragment: run.fragment });
                }
                start += len;
            }
        }
    }
    all
}

/// The chunks of which a column that was read is missing.
fn find_lost(read: &Pieces, columns: &[Vec<Held>], cells: usize) -> Vec<bool> {
    let mut lost = vec![false; cells];
    for piece in &read.list {
        let cell = usize_from_u32(piece.cell);
        let missing = columns.iter().any(|column| matches!(column.get(cell), Some(Held::Nothing)));
        if let (true, Some(lost)) = (missing, lost.get_mut(cell)) {
            *lost = true;
        }
    }
    lost
}

/// The identity of the elements that came `from` these records of `parts`.
fn element_keys(parts: &[Part], from: &[Option<(u32, u32)>]) -> Vec<(u64, u64, u64)> {
    let key = |source: &Option<(u32, u32)>| {
        let (part, record) = (*source)?;
        let part = parts.get(usize_from_u32(part))?;
        Some((to_u64(part.segment), to_u64(part.place), u64::from(record)))
    };
    from.iter().map(|source| key(source).unwrap_or((u64::MAX, 0, 0))).collect()
}

/// The elements as rows of the answer, and the records they are.
fn numbered(
    kept: Kept,
    width: usize,
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
    let mut from = kept.from;
    let mut elements = kept.ends.chunks(width.max(1));
    from.retain(|_| {
        let ends = elements.next().unwrap_or_default();
        let before = rows.len();
        rows.extend(ends.iter().map_while(number));
        // An element of a row that no fragment names is not part of the geometry.
        let is_numbered = !ends.is_empty() && rows.len() - before == ends.len();
        if !is_numbered {
            rows.truncate(before);
        }
        is_numbered
    });
    (rows, from)
}

/// The elements in the order of their first vertices.
fn by_child(
    rows: Vec<usize>,
    from: Vec<Option<(u32, u32)>>,
) -> (Vec<usize>, Vec<Option<(u32, u32)>>) {
    let mut order: Vec<usize> = (0..from.len()).collect();
    let pairs = rows.as_chunks::<2>().0;
    order.sort_by_key(|at| pairs.get(*at).map(|[child, _]| *child));
    let sorted = order.iter().filter_map(|at| pairs.get(*at)).flatten().copied().collect();
    let sources = order.iter().filter_map(|at| from.get(*at).copied()).collect();
    (sorted, sources)
}

/// What to read of the positions of each chunk: all where its vertices count, else the ends of records.
fn ends_needed(of: Of<'_>, chunks: &[Chunk], parts: &[Part]) -> Vec<Need> {
    let mut ends: Vec<Vec<Piece>> = vec![Vec::new(); chunks.len()];
    let is_own = |cell: &u32| chunks.get(usize_from_u32(*cell)).is_some_and(|chunk| chunk.own);
    // Chunks that are read whole need no list of the ends in them.
    for part in parts.iter().filter(|part| !part.chunks.iter().all(is_own)) {
        for i in 0..part.records.len() {
            for (place, row) in part.records.ends(i) {
                let cell = part.chunks.get(place).copied().unwrap_or(CUT);
                let foreign = chunks.get(usize_from_u32(cell)).is_some_and(|chunk| !chunk.own);
                if foreign && let Some(ends) = ends.get_mut(usize_from_u32(cell)) {
                    // A row that 32 bits do not hold is there in no chunk: reading this one shows that.
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
    let each = chunks.iter().zip(ends).map(|(chunk, ends)| {
        if chunk.own {
            return if chunk.rows == 0 { Need::Nothing } else { Need::Whole };
        }
        of.need(chunk.rows, to_u64(ends.len()), |gap| ranges(ends.iter(), gap, &mut Vec::new()))
    });
    each.collect()
}

/// Cells that are not kept with the handle.
const MAX_CACHED_CELLS: usize = 512;
