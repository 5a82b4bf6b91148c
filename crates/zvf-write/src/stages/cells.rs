//! The step that writes vertices, fragments and attributes of one share of the chunks.
//!
//! ```text
//! NAME.entries    the fragments of objects, sorted: object | order, u64 | chunk | fragment | first row | last
//! NAME.places     where vertices are that elements may name, sorted: running number | chunk | row
//! NAME.fragments  for each chunk in the order of writing: how many fragments | the first row of each
//! ```
//!
//! `order` is the number of a run's first vertex; fragments that are whole objects go by their chunks.
//!
//! Not here: the cells themselves ([`crate::cells`]).

use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};
use zvf_format::num::{saturating_u32_from_usize, to_u64};
use zvf_store::{Build, CellSink};

use super::file::{Output, Written};
use super::known::Known;
use super::slice::{file, sum};
use super::sorted::{ExternalSorter, ascending, ascending_u32, ascending_u64};
use crate::WriteError;
use crate::cells::{Arrays, Meaning, UNOWNED, object_of};
use crate::ingest::Grouping;
use crate::run::{Group, gather};

/// What the step wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CellsRecord {
    pub(crate) chunks: u64,
    pub(crate) rows: u64,
    pub(crate) fragments: u64,
    /// Bytes of cells, before they are coded.
    pub(crate) bytes: u64,
    /// The sum of the hashes of all positions.
    pub(crate) sum: u64,
    pub(crate) parts: Vec<Part>,
    pub(crate) files: Vec<Written>,
}

/// What was written of one array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// The array.
    pub(crate) path: String,
    /// Its cells.
    pub(crate) keys: Vec<Box<str>>,
    /// Bytes of its objects.
    pub(crate) stored_bytes: u64,
    /// Its objects.
    pub(crate) objects: u64,
}

impl Part {
    /// Ends an array.
    pub(crate) fn leave(sink: CellSink) -> Result<Self, WriteError> {
        let path = sink.path().to_owned();
        let (report, keys) = sink.finish_part()?;
        let (stored_bytes, objects) = (report.stored_bytes, report.objects);
        Ok(Self { path, keys, stored_bytes, objects })
    }
}

/// Bytes of an entry.
pub(crate) const ENTRY: usize = 32;
/// Bytes of a place.
pub(crate) const PLACE: usize = 16;

/// What a chunk became.
struct Done {
    chunk: u32,
    groups: Vec<Group>,
    numbers: Vec<u64>,
    owners: Vec<i64>,
    bytes: u64,
    rows: u64,
    sum: u64,
}

/// Writes the share.
pub(crate) fn run(
    known: &Known,
    build: &Build,
    share: Range<usize>,
    stem: &Path,
) -> Result<CellsRecord, WriteError> {
    let frame = known.frame(build);
    let (layout, grouping) = known.layout();
    let bins = known.schema.bins.count();
    let meaning = match grouping {
        Grouping::Bins => Meaning::Bins(bins),
        Grouping::Objects | Grouping::Runs => Meaning::Objects,
    };
    let arrays = Arrays::new(&frame, layout, &meaning)?;
    let memory = known.options.memory / 8;
    let stride = known.columns.as_ref().map_or(1, crate::ingest::Columns::positions_stride);
    let linked = known.schema.kind.has_links();
    let numbered = linked || known.records_locations();
    let stop = known.options.stop_flag();
    let mut entries = ExternalSorter::new(file(stem, "entries"), ENTRY, memory, &stop);
    let mut places = ExternalSorter::new(file(stem, "places"), PLACE, memory, &stop);
    let mut fragments = Output::create(file(stem, "fragments"), &stop)?;
    let mut record = CellsRecord { chunks: to_u64(share.len()), ..CellsRecord::default() };
    for window in known.windows(share, memory) {
        let chunks = known.order.chunks.get(window).unwrap_or(&[]);
        let read = known.window(chunks)?;
        let done = frame.par_write_chunks(chunks, &arrays.all(), |chunk| {
            let loaded = known.load(&read, chunk)?;
            let pieces: Vec<_> = loaded.runs.iter().map(|run| run.piece(0)).collect();
            let mut rows = gather(&pieces, numbered || grouping == Grouping::Runs);
            let numbers = std::mem::take(&mut rows.numbers);
            let count = to_u64(rows.positions.len().checked_div(stride).unwrap_or(0));
            let sum = sum(&rows.positions, stride);
            let owners = loaded.owners.as_slice();
            let named = move |_| owners;
            let meaning = match grouping {
                Grouping::Bins => Meaning::Bins(bins),
                Grouping::Objects => Meaning::Objects,
                Grouping::Runs => Meaning::Runs(&named),
            };
            drop(pieces);
            let (groups, bytes) = arrays.put(&frame, chunk, rows, meaning)?;
            let owners = loaded.owners.clone();
            Ok(Done { chunk, groups, numbers, owners, bytes, rows: count, sum })
        })?;
        for done in done {
            record.rows += done.rows;
            record.fragments += to_u64(done.groups.len());
            record.bytes += done.bytes;
            record.sum = record.sum.wrapping_add(done.sum);
            push_entries(known, &mut entries, &done, grouping)?;
            if numbered {
                for (row, number) in (0_u32..).zip(&done.numbers) {
                    let (chunk, row) = (ascending_u32(done.chunk), ascending_u32(row));
                    places.push(&[&ascending_u64(*number), &chunk, &row])?;
                }
            }
            if linked {
                // Of 32 bits, as `put` has checked.
                fragments.write(&saturating_u32_from_usize(done.groups.len()).to_le_bytes())?;
                for group in &done.groups {
                    fragments.write(
                        &saturating_u32_from_usize(zvf_format::num::saturating_usize(group.start))
                            .to_le_bytes(),
                    )?;
                }
            }
        }
    }
    let sinks = arrays.into_sinks().into_iter();
    record.parts = sinks.map(Part::leave).collect::<Result<_, _>>()?;
    record.files = vec![entries.finish()?, places.finish()?, fragments.finish()?];
    Ok(record)
}

/// Remembers which objects the fragments of a chunk belong to.
fn push_entries(
    known: &Known,
    entries: &mut ExternalSorter,
    done: &Done,
    grouping: Grouping,
) -> Result<(), WriteError> {
    let chunk = ascending_u32(done.chunk);
    for (fragment, group) in (0_u32..).zip(&done.groups) {
        let fragment_bytes = ascending_u32(fragment);
        match grouping {
            Grouping::Bins => {}
            Grouping::Objects if group.group == UNOWNED => {}
            Grouping::Objects => {
                let object = ascending(object_of(group.group));
                entries.push(&[&object, &[0; 8], &chunk, &fragment_bytes, &[0; 8]])?;
            }
            Grouping::Runs => {
                let owner = done.owners.get(zvf_format::num::usize_from_u32(fragment)).copied();
                let row = |row: u64| {
                    ascending_u32(saturating_u32_from_usize(zvf_format::num::saturating_usize(row)))
                };
                let first = zvf_format::num::saturating_usize(group.start);
                let Some((object, order)) = owner.zip(done.numbers.get(first).copied()) else {
                    return Err(known.damaged("rows", "an object for each run", "none"));
                };
                let last = group.start + group.count - 1;
                let ends = [row(group.start), row(last)].concat();
                let order = ascending_u64(order);
                entries.push(&[&ascending(object), &order, &chunk, &fragment_bytes, &ends])?;
            }
        }
    }
    Ok(())
}
