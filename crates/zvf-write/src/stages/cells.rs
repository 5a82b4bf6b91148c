//! The step that writes vertices, fragments and attributes of one share of the chunks.
//!
//! ```text
//! NAME.entries    the fragments of objects, sorted: object | order, u64 | chunk | fragment | first row | last
//! NAME.places     where vertices are that elements may name ([`super::places`])
//! NAME.fragments  for each chunk in the order of writing: how many fragments | the first row of each
//! ```
//!
//! `order` is the number of a run's first vertex; fragments that are whole objects are ordered by
//! chunk. Rows are those of the chunk. The highest bit of the chunk states that a line starts with
//! the run.
//!
//! Not here: the cells themselves ([`crate::cells`]).

use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};
use zvf_error::Result;
use zvf_format::num::{index_u32, saturating_usize, to_u64, usize_from_u32};
use zvf_store::{Build, CellSink};

use super::file::WrittenFile;
use super::merged_slices::MergedSlices;
use super::places::{PLACE, PlaceTable, Places};
use super::slice::sum;
use super::sorted::{ExternalSorter, KWayMerge, number_u32, sort_key, sort_key_u32, sort_key_u64};
use super::step_output::{Sequence, StepOutput, Target};
use crate::cells::{Arrays, Meaning, UNOWNED, object_of};
use crate::error::task_error;
use crate::level_columns::Grouping;
use crate::routed::{Group, first_numbers, gather};
use crate::types::chain::Run;

/// The record of the step.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct CellsRecord {
    pub(crate) chunks: u64,
    pub(crate) rows: u64,
    pub(crate) fragments: u64,
    /// Bytes of cells, before encoding.
    pub(crate) bytes: u64,
    /// The sum of the hashes of all positions.
    pub(crate) sum: u64,
    pub(crate) parts: Vec<ArrayCounts>,
    pub(crate) files: Vec<WrittenFile>,
}

/// The counts of one array.
#[derive(Serialize, Deserialize)]
pub(crate) struct ArrayCounts {
    /// The array.
    pub(crate) path: String,
    /// Its cells.
    pub(crate) keys: Vec<Box<str>>,
    /// Bytes of its objects.
    stored_bytes: u64,
    /// Its objects.
    pub(crate) objects: u64,
}

impl ArrayCounts {
    /// Ends this process's part of some arrays.
    pub(crate) fn finish_all(sinks: Vec<CellSink>) -> Result<Vec<Self>> {
        let parts = sinks.into_iter().map(|sink| {
            let path = sink.path().to_owned();
            let (report, keys) = sink.finish_part()?;
            let (stored_bytes, objects) = (report.stored_bytes, report.objects);
            Ok(Self { path, keys, stored_bytes, objects })
        });
        parts.collect()
    }
}

/// The output for later steps.
pub(crate) struct CellsOutput {
    pub(crate) entries: StepOutput,
    pub(crate) places: Places,
    pub(crate) fragments: StepOutput,
}

impl MergedSlices {
    /// Merges the fragments of objects.
    pub(super) fn entries(&self, cells: &[&CellsOutput]) -> Result<KWayMerge> {
        self.open(cells.iter().map(|left| &left.entries), ENTRY)
    }
}

impl CellsOutput {
    /// Returns the output of a step in files with this stem.
    pub(crate) fn in_files(stem: &Path) -> Self {
        let stored = |suffix| StepOutput::in_file(stem, suffix);
        let places = Places::Sorted(stored("places"));
        Self { entries: stored("entries"), places, fragments: stored("fragments") }
    }
}

/// Bytes of an entry.
pub(crate) const ENTRY: usize = 32;
/// The flag in the chunk number of an entry.
const STARTS_LINE: u32 = 1 << 31;

/// Returns the chunk of an entry, and whether a line starts with its run.
pub(crate) fn chunk_of(entry: &[u8]) -> (u32, bool) {
    let chunk = number_u32(entry, 16);
    (chunk & !STARTS_LINE, chunk & STARTS_LINE != 0)
}

/// The result of writing a chunk.
struct WrittenChunk {
    chunk: u32,
    groups: Vec<Group>,
    numbers: Vec<u64>, // of rows, unless a table has their places already
    firsts: Vec<u64>,  // of each run of a chain, the number of its first vertex
    runs: Vec<Run>,
    bytes: u64,
    rows: u64,
    sum: u64,
}

/// Writes the share, and returns the arrays, which are still open.
pub(crate) fn run(
    merged: &MergedSlices,
    build: &Build,
    share: Range<usize>,
    target: &Target,
) -> Result<(CellsRecord, CellsOutput, Vec<CellSink>)> {
    let frame = merged.frame(build);
    let columns = &merged.columns;
    let grouping = columns.grouping;
    let arrays = Arrays::new(&frame, columns)?;
    let memory = merged.options.memory / 8;
    let mut left = CellsBuilder::new(merged, grouping, target)?;
    let mut record = CellsRecord { chunks: to_u64(share.len()), ..CellsRecord::default() };
    for window in merged.windows(share, memory) {
        let chunks = &merged.order.chunks[window];
        let read = merged.window(chunks)?;
        let done = frame.par_write_chunks(chunks, &arrays.sinks(), |chunk| {
            let loaded = merged.load(&read, chunk)?;
            let pieces = loaded.pieces();
            let mut rows = gather(&pieces, left.numbered);
            let is_runs = grouping == Grouping::Runs;
            let firsts = if is_runs { first_numbers(&pieces, &rows.groups) } else { Vec::new() };
            drop(pieces);
            let mut numbers = std::mem::take(&mut rows.numbers);
            if let Some(table) = left.places.table() {
                table.put(chunk, &numbers);
                numbers = Vec::new();
            }
            let stride = columns.positions_stride();
            let count = to_u64(rows.positions.len() / stride);
            // For rows that stayed in memory there is no sum to compare with.
            let sum = if merged.held_slice().is_some() { 0 } else { sum(&rows.positions, stride) };
            let meaning = match grouping {
                Grouping::Bins => Meaning::Bins(merged.schema.bins.count()),
                Grouping::Objects => Meaning::Objects,
                Grouping::Runs => Meaning::Runs(&loaded.runs),
            };
            let (groups, bytes) = arrays.put(&frame, chunk, rows, meaning)?;
            let runs = loaded.runs.into_owned();
            Ok(WrittenChunk { chunk, groups, numbers, firsts, runs, bytes, rows: count, sum })
        })?;
        for done in done {
            record.rows += done.rows;
            record.fragments += to_u64(done.groups.len());
            record.bytes += done.bytes;
            record.sum = record.sum.wrapping_add(done.sum);
            left.push(&done)?;
        }
    }
    let (left, files) = left.finish()?;
    record.files = files;
    Ok((record, left, arrays.into_sinks()))
}

/// The output of the step while it grows.
struct CellsBuilder {
    grouping: Grouping,
    numbered: bool, // whether it is asked where vertices went
    linked: bool,   // whether it is asked for the fragments of each chunk
    entries: ExternalSorter,
    places: Places<ExternalSorter>,
    fragments: Sequence,
}

impl CellsBuilder {
    fn new(merged: &MergedSlices, grouping: Grouping, target: &Target) -> Result<Self> {
        let linked = merged.schema.kind.has_links();
        let numbered = linked || merged.records_locations;
        let given = merged.slices.iter().map(|slice| slice.given).sum::<u64>();
        let places = match target {
            Target::Memory => Places::Held(PlaceTable::new(if numbered { given } else { 0 })),
            Target::Files(_) => Places::Sorted(merged.sorter(target, "places", PLACE)),
        };
        let entries = merged.sorter(target, "entries", ENTRY);
        let fragments = target.sequence("fragments", &merged.options.stop_flag())?;
        Ok(Self { grouping, numbered, linked, entries, places, fragments })
    }

    fn push(&mut self, done: &WrittenChunk) -> Result<()> {
        push_entries(&mut self.entries, done, self.grouping)?;
        if let Places::Sorted(places) = &mut self.places {
            for (row, number) in (0_u32..).zip(&done.numbers) {
                let (chunk, row) = (sort_key_u32(done.chunk), sort_key_u32(row));
                places.push(&[&sort_key_u64(*number), &chunk, &row])?;
            }
        }
        if self.linked {
            self.fragments.write(&index_u32(done.groups.len()).to_le_bytes())?;
            for group in &done.groups {
                self.fragments.write(&row_number(group.start).to_le_bytes())?;
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<(CellsOutput, Vec<WrittenFile>)> {
        let (entries, first) = self.entries.finish()?;
        let (places, second) = match self.places {
            Places::Held(table) => (Places::Held(table), None),
            Places::Sorted(places) => {
                let (stored, written) = places.finish()?;
                (Places::Sorted(stored), written)
            }
        };
        let (fragments, third) = self.fragments.finish()?;
        let files = [first, second, third].into_iter().flatten().collect();
        Ok((CellsOutput { entries, places, fragments }, files))
    }
}

/// Converts a row number of a chunk to 32 bits, which [`Arrays::put`] has checked.
fn row_number(row: u64) -> u32 {
    index_u32(saturating_usize(row))
}

/// Records the objects of the fragments of a chunk.
fn push_entries(
    entries: &mut ExternalSorter,
    done: &WrittenChunk,
    grouping: Grouping,
) -> Result<()> {
    let chunk = sort_key_u32(done.chunk);
    for (fragment, group) in (0_u32..).zip(&done.groups) {
        let fragment_bytes = sort_key_u32(fragment);
        let ends = [group.start, group.start + group.count - 1];
        let ends = ends.map(|row| sort_key_u32(row_number(row))).concat();
        match grouping {
            Grouping::Bins => {}
            Grouping::Objects if group.group == UNOWNED => {}
            Grouping::Objects => {
                let object = sort_key(object_of(group.group));
                entries.push(&[&object, &[0; 8], &chunk, &fragment_bytes, &ends])?;
            }
            Grouping::Runs => {
                let at = usize_from_u32(fragment);
                let run = done.runs.get(at).copied();
                let Some((run, first)) = run.zip(done.firsts.get(at).copied()) else {
                    return Err(task_error("rows", "an object for each run", "none"));
                };
                let chunk = if run.starts_line { done.chunk | STARTS_LINE } else { done.chunk };
                let (order, chunk) = (sort_key_u64(first), sort_key_u32(chunk));
                entries.push(&[&sort_key(run.object), &order, &chunk, &fragment_bytes, &ends])?;
            }
        }
    }
    Ok(())
}
