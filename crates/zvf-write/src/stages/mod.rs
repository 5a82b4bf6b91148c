//! Building a level from more than fits in memory, step by step.
//!
//! Input is taken in until memory is full, routed, and put aside as a *slice*. When all slices are
//! there, every chunk is put together from those that have rows of it. Each step reads files, and writes
//! files and cells; what it wrote it says in a small record. No step needs another one of its own kind,
//! so that they may run in any order and anywhere.
//!
//! ```text
//! route    a part of the input       rows by chunk, elements, objects              slice
//! cells    a share of the chunks     vertices, fragments, attributes; where        cells
//!                                    vertices and the fragments of objects went
//! join     the elements of a slice   their ends, sorted by chunk                   join
//! links    a share of the chunks     links within chunks and between               links
//! finish   all                       presence, objects, attributes of objects      index, here
//! ```
//!
//! Memory is held for a window of chunks and for a few sorted runs, each a fixed part of the setting, and
//! for what is known of each chunk. Whoever does the same step again writes the same bytes.
//!
//! One process does it all in a scratch folder ([`Stages`]); several share a folder and keep a journal
//! (`tasks`).

mod cells;
mod file;
mod index;
mod join;
mod known;
mod links;
mod slice;
mod sorted;
mod source;

use std::path::{Path, PathBuf};

use zvf_format::key::Offsets;
use zvf_format::num::to_u64;
use zvf_metadata::LevelDoc;
use zvf_store::{Build, CellSink};

pub(crate) use cells::{CellsRecord, PLACE, Part};
pub(crate) use file::{Output, Written, open, temporary_path};
pub(crate) use join::JoinRecord;
pub(crate) use known::{Known, row_bytes};
pub(crate) use links::LinksRecord;
pub(crate) use slice::{Beside, ColumnsRecord, RowsAside, Slice};
pub(crate) use slice::{sum, write_elements, write_field, write_ids, write_rows};
#[cfg(test)]
pub(crate) use sorted::ascending;
pub(crate) use sorted::{ExternalSorter, KWayMerge, ascending_u64, number_u32, number_u64};

use crate::WriteError;
use crate::cells::Arrays;
use crate::cells::Meaning;
use crate::ingest::{Grouping, Outcome, Placed, Said};
use crate::kinds::Ids;
use crate::objects::Objects;
use crate::report::{Notice, Report};

/// The records of all steps of a level, each with where its files are.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    pub(crate) cells: Vec<(CellsRecord, PathBuf)>,
    pub(crate) joins: Vec<(JoinRecord, PathBuf)>,
    pub(crate) links: Vec<LinksRecord>,
}

/// Whether links are joined, and slice by slice.
pub(crate) fn joins(known: &Known) -> usize {
    if known.schema.kind.has_links() {
        known.slices.len()
    } else {
        usize::from(known.schema.kind.is_chain())
    }
}

/// The `join` step of this number.
pub(crate) fn join(
    known: &Known,
    number: usize,
    cells: &[PathBuf],
    stem: &Path,
) -> Result<JoinRecord, WriteError> {
    if !known.schema.kind.has_links() {
        let entries: Vec<PathBuf> = cells.iter().map(|stem| slice::file(stem, "entries")).collect();
        return join::chains(known, &entries, stem);
    }
    let Some(slice) = known.slices.get(number) else {
        return Err(known.damaged("join", known.slices.len(), number));
    };
    let before = known.slices.iter().take(number).map(|slice| slice.elements);
    let first = before.sum::<u64>();
    let places: Vec<PathBuf> = cells.iter().map(|stem| slice::file(stem, "places")).collect();
    join::elements(known, slice, first, &places, stem)
}

/// The `cells` step of a share.
pub(crate) fn cells(
    known: &Known,
    build: &Build,
    (share, shares): (u32, u32),
    stem: &Path,
) -> Result<CellsRecord, WriteError> {
    cells::run(known, build, known.share(share, shares), stem)
}

/// The `links` step of a share.
pub(crate) fn links(
    known: &Known,
    build: &Build,
    (share, shares): (u32, u32),
    cells: &Path,
    joins: &[PathBuf],
) -> Result<LinksRecord, WriteError> {
    let joined: Vec<PathBuf> = joins.iter().map(|stem| slice::file(stem, "links")).collect();
    let fragments = slice::file(cells, "fragments");
    links::run(known, build, known.share(share, shares), &joined, &fragments)
}

impl Stages {
    /// Does every step, in `folder`.
    pub(crate) fn run(known: &Known, build: &Build, folder: &Path) -> Result<Self, WriteError> {
        let mut all = Self::default();
        let stem = folder.join("cells");
        all.cells.push((cells(known, build, (0, 1), &stem)?, stem.clone()));
        for number in 0..joins(known) {
            let to = folder.join(format!("join-{number}"));
            all.joins.push((join(known, number, std::slice::from_ref(&stem), &to)?, to));
        }
        if !all.joins.is_empty() {
            let joins: Vec<PathBuf> = all.joins.iter().map(|(_, stem)| stem.clone()).collect();
            all.links.push(links(known, build, (0, 1), &stem, &joins)?);
        }
        Ok(all)
    }

    /// Compares what came out with what went in, and writes what is said of all: presence, objects, the
    /// level. `folder` takes what does not fit in memory.
    pub(crate) async fn finish(
        self,
        known: &Known,
        build: &Build,
        objects: &Objects,
        folder: &Path,
        edit_level: impl FnOnce(&mut LevelDoc),
    ) -> Result<Outcome, WriteError> {
        self.check(known)?;
        index::check_roots(known)?;
        let frame = known.frame(build);
        let (layout, grouping) = known.layout();
        let bins = Meaning::Bins(known.schema.bins.count());
        let meaning = if grouping == Grouping::Bins { &bins } else { &Meaning::Objects };
        let parts: Vec<&Part> = self.cells.iter().flat_map(|(record, _)| &record.parts).collect();
        for sink in Arrays::new(&frame, layout, meaning)?.into_sinks() {
            end(sink, &parts).await?;
        }
        let (links, rows, segments, grouped) = self.finish_links(known, &frame).await?;
        let entries: Vec<PathBuf> =
            self.cells.iter().map(|(_, stem)| slice::file(stem, "entries")).collect();
        let ids = index::Ids::gather(known, &entries, folder.join("ids"))?;
        let bins = grouping == Grouping::Bins;
        let points = known.schema.kind == zvf_model::Kind::PointCloud;
        let indexed = !(bins && points && ids.count == 0 && !objects.any());
        if indexed {
            index::write(known, &frame, &ids, &entries).await?;
            objects.write_groups(build, known.at(), known.schema.kind).await?;
        }
        let said = Said {
            schema: &known.schema,
            columns: known.columns.as_ref(),
            vertices: known.kept(),
            indexed,
            owners: !bins && !known.options.compat,
            links: known.schema.kind.has_links() || links > 0,
            grouped,
            explicit: known.explicit(),
        };
        said.write(build, known.at(), edit_level).await?;
        let sum = |of: &dyn Fn(&CellsRecord) -> u64| {
            self.cells.iter().map(|(record, _)| of(record)).sum::<u64>()
        };
        let files = known.slices.iter().flat_map(|slice| &slice.files);
        let sparse = known.schema.kind.is_chain() && ids.sparse;
        let report = Report {
            vertices: known.kept(),
            left_out: known.slices.iter().map(|slice| slice.left_out).sum::<u64>(),
            chunks: to_u64(known.table.len()),
            fragments: sum(&|record| record.fragments),
            objects: if indexed { ids.count } else { 0 },
            links,
            link_rows: rows,
            link_segments: segments,
            cell_bytes: sum(&|record| record.bytes),
            spilled_bytes: files.map(|file| file.bytes).sum::<u64>(),
            notices: sparse.then_some(Notice::SparseIds).into_iter().collect(),
            kinds: Vec::new(),
        };
        let (schema, bounds) = (known.schema.clone(), known.bounds.clone());
        let (explicit, ids) = (known.explicit(), Ids::Kept { path: ids.path, _folder: None });
        let files = self.cells.iter().map(|(_, stem)| slice::file(stem, "places"));
        let placed = known.records_locations().then(|| Placed::Files(files.collect()));
        Ok(Outcome { schema, bounds, grouped, explicit, report, ids, placed })
    }

    /// Whether every vertex and every element that went in has come out.
    fn check(&self, known: &Known) -> Result<(), WriteError> {
        let same = |what: &str, expected: u64, found: u64| {
            if expected == found { Ok(()) } else { Err(known.damaged(what, expected, found)) }
        };
        // `same` compares the sum.
        let given = known.slices.iter().map(|slice| slice.given.saturating_sub(slice.left_out));
        let rows = self.cells.iter().map(|(record, _)| record.rows).sum::<u64>();
        same("vertices in cells", given.sum::<u64>(), rows)?;
        let chunks = self.cells.iter().map(|(record, _)| record.chunks);
        same("chunks", to_u64(known.table.len()), chunks.sum::<u64>())?;
        let went = known.slices.iter().map(|slice| slice.sum).fold(0, u64::wrapping_add);
        let came = self.cells.iter().map(|(record, _)| record.sum).fold(0, u64::wrapping_add);
        same("the sum of the hashes of all positions", went, came)?;
        if known.schema.kind.has_links() {
            let elements = known.slices.iter().map(|slice| slice.elements);
            let joined = self.joins.iter().map(|(record, _)| record.elements);
            let (elements, joined) = (elements.sum::<u64>(), joined.sum::<u64>());
            same("elements", elements, joined)?;
            let between = self.joins.iter().map(|(record, _)| record.between);
            let inside = self.links.iter().map(|r| r.inside + r.implied);
            let inside = inside.sum::<u64>();
            let between = between.sum::<u64>();
            same("links", elements, inside + between)?;
        }
        Ok(())
    }

    /// Ends the arrays of links: links, rows, arrays between chunks, and whether links are grouped.
    async fn finish_links(
        &self,
        known: &Known,
        frame: &crate::cells::Frame<'_>,
    ) -> Result<(u64, u64, u64, bool), WriteError> {
        let step = links::Step::new(known, frame)?;
        let total = |of: &dyn Fn(&LinksRecord) -> u64| self.links.iter().map(of).sum::<u64>();
        let inside = total(&|record| record.inside);
        let rows = total(&|record| record.rows) + inside;
        let between = self.joins.iter().map(|(record, _)| record.between);
        let logical = inside + between.sum::<u64>();
        if !step.elements && logical == 0 {
            return Ok((0, 0, 0, false));
        }
        let parts: Vec<&Part> = self.links.iter().flat_map(|record| &record.parts).collect();
        let mut segments: Vec<Offsets> = Vec::new();
        let mut steps: Vec<&Vec<Vec<i64>>> = self.links.iter().flat_map(|r| &r.segments).collect();
        steps.sort();
        steps.dedup();
        for offsets in steps {
            let offsets: Vec<&[i64]> = offsets.iter().map(Vec::as_slice).collect();
            segments.push(Offsets::new(frame.table.rank(), &offsets)?);
        }
        if step.elements {
            end(step.index(frame)?, &parts).await?;
            let zero = step.segment(frame, &step.zero, inside > 0)?;
            end(zero.links, &parts).await?;
            for sink in zero.columns {
                end(sink, &parts).await?;
            }
        }
        for offsets in &segments {
            let segment = step.segment(frame, offsets, true)?;
            end(segment.links, &parts).await?;
            for sink in segment.columns {
                end(sink, &parts).await?;
            }
        }
        step.describe(frame, logical, rows).await?;
        let grouped = step.elements && self.links.iter().all(|record| record.grouped);
        let count = to_u64(segments.len());
        Ok((logical, rows, count, grouped && !known.options.compat))
    }
}

/// Ends an array with all the cells that were written of it, which must be there.
async fn end(sink: CellSink, parts: &[&Part]) -> Result<(), WriteError> {
    let own = || parts.iter().filter(|part| part.path == sink.path());
    let keys: Vec<Box<str>> = own().flat_map(|part| &part.keys).cloned().collect();
    let lost = sink.missing(&keys).await?;
    if !lost.is_empty() {
        return Err(WriteError::Lost { array: sink.path().to_owned(), chunks: lost });
    }
    drop(keys);
    for part in own() {
        sink.record_external(&part.keys)?;
    }
    sink.finish(|_| {}).await?;
    Ok(())
}
