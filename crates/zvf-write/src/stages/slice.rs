//! A routed part of the input: the output of one `route` step, which all others read.
//!
//! If everything fits in memory, there is one slice, whose rows and elements stay unchanged.
//! Otherwise they are files:
//!
//! ```text
//! NAME.rows       chunk after chunk: positions | fields ... | groups u64 | numbers u64 | runs: object i64, number u64, rows u32
//! NAME.chunks     for each of them: key, i64 an axis | where it starts, u64 | rows, u32 | runs, u32
//! NAME.elements   for each edge or face: vertices, u64 each | attributes
//! NAME.ids        objects that were spoken of, sorted records of 8 bytes
//! NAME.roots      the object of each root of a skeleton, likewise
//! NAME.field-N    an attribute of objects: sorted records of id | number | value
//! ```
//!
//! `groups` exist if fragments are not bins, `numbers` if a later step needs them ([`SideData`]).
//! Chains have neither: rows of a run are consecutive, so its object, the running number of its
//! first row and its length determine both. Text codes belong to this slice alone.
//!
//! Sorted data (ids and attributes of objects) has the same form in memory.
//!
//! Not here: assembling a chunk from slices (`merged_slices`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use zvf_error::Result;
use zvf_format::num::{index_u32, to_u64, usize_from_u32};
use zvf_metadata::Dtype;
use zvf_model::{Column, Field};

use super::file::{Output, WrittenFile};
use super::sorted::{sort_key, sort_key_u64};
use super::step_output::{StepOutput, Target, file};
use crate::buffer::pieces;
use crate::chunks::ChunkTable;
use crate::columns::{Attribute, row_bytes};
use crate::elements::Elements;
use crate::error::{count_u32, task_error};
use crate::level_columns::{Columns, Grouping};
use crate::objects::put_values;
use crate::routed::{ChunkPiece, RoutedBatch, gather_as_given, groups_as_given, numbers_as_given};
use crate::schema::Schema;
use crate::stop::StopFlag;
use crate::types::chain::{Chains, Run};

/// The record of a slice.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Slice {
    /// Number of input vertices.
    pub(crate) given: u64,
    /// Number of vertices that were dropped because they are outside the bounds.
    pub(crate) left_out: u64,
    /// The corners of the bounding box of the others.
    pub(crate) corners: Option<[Vec<f64>; 2]>,
    /// The sum of the hashes of their positions; 0 in memory, where nothing can be lost.
    pub(crate) sum: u64,
    /// The columns, if there was a batch.
    pub(crate) columns: Option<Columns>,
    /// The object and the chunk of the first vertex of a chain, and of the last.
    pub(crate) ends: Option<[(i64, Vec<i64>); 2]>,
    /// Vertices per element; 0 without elements.
    pub(crate) width: usize,
    /// Number of edges or faces.
    pub(crate) elements: u64,
    /// Their attributes.
    pub(crate) element_attributes: Vec<Attribute>,
    /// The attributes of objects, one for each `NAME.field-N`.
    pub(crate) fields: Vec<FieldRecord>,
    /// The files.
    pub(crate) files: Vec<WrittenFile>,
    /// The location of all other data.
    #[serde(skip)]
    pub(crate) data: SliceData,
}

/// The location of rows, elements and ids of a slice.
#[derive(Debug)]
pub(crate) enum SliceData {
    Held(Box<HeldSlice>),
    /// In files with this stem.
    Files(PathBuf),
}

/// A slice in memory.
#[derive(Debug, Default)]
pub(crate) struct HeldSlice {
    pub(crate) rows: HeldRows,
    pub(crate) elements: Elements,
    /// Their attributes, one column each.
    pub(crate) element_columns: Vec<Column>,
    /// Sorted data by name.
    pub(crate) sorted: BTreeMap<String, StepOutput>,
}

/// Rows in memory.
#[derive(Debug)]
pub(crate) struct HeldRows {
    pub(crate) batches: Vec<RoutedBatch>,
    /// The segments of each chunk of `table`, with their batches.
    pub(crate) by_chunk: Vec<Vec<(u32, u32)>>,
    pub(crate) table: ChunkTable,
    /// The objects of the runs of each chunk.
    pub(crate) chains: Chains,
}

impl Default for HeldRows {
    fn default() -> Self {
        let (table, chains) = (ChunkTable::new(0), Chains::default());
        Self { batches: Vec::new(), by_chunk: Vec::new(), table, chains }
    }
}

impl Default for SliceData {
    fn default() -> Self {
        Self::Files(PathBuf::new())
    }
}

/// An attribute of objects.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FieldRecord {
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    pub(crate) width: u32,
    pub(crate) unit: Option<String>,
    pub(crate) description: Option<String>,
    #[serde(default)]
    pub(crate) fill_is_absent: bool,
}

impl Slice {
    /// Returns the sorted data with this name; empty without.
    pub(crate) fn sorted_file(&self, suffix: &str) -> StepOutput {
        match &self.data {
            SliceData::Held(held) => {
                held.sorted.get(suffix).cloned().unwrap_or(StepOutput::Held(bytes::Bytes::new()))
            }
            SliceData::Files(stem) => StepOutput::in_file(stem, suffix),
        }
    }
}

/// The data of rows that is spilled besides their columns.
#[derive(Clone, Copy)]
pub(crate) struct SideData {
    pub(crate) groups: bool,
    pub(crate) numbers: bool,
    pub(crate) runs: bool,
}

impl SideData {
    /// Chooses the data that later steps need: elements refer to vertices by running number, and so
    /// does a caller that requests the locations of vertices.
    pub(crate) fn new(schema: &Schema, grouping: Grouping, records_locations: bool) -> Self {
        let runs = grouping == Grouping::Runs;
        Self {
            groups: grouping == Grouping::Objects || (!runs && schema.bins.count() > 1),
            numbers: !runs && (schema.kind.has_links() || records_locations),
            runs,
        }
    }

    /// Returns the number of bytes for this many rows of a chunk, with `stride` bytes per row in
    /// columns, and this many runs.
    pub(crate) fn bytes(self, stride: usize, rows: u32, runs: u32) -> usize {
        let row = stride + 8 * (usize::from(self.groups) + usize::from(self.numbers));
        // More than fits in memory cannot be read.
        let rows = row.saturating_mul(usize_from_u32(rows));
        rows.saturating_add(usize_from_u32(runs).saturating_mul(RUN))
    }
}

/// Consecutive vertices of a chain in a chunk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ChainRun {
    pub(crate) run: Run,
    /// The running number of its first vertex.
    pub(crate) first: u64,
    pub(crate) rows: u32,
}

impl ChainRun {
    fn to_le_bytes(self) -> impl Iterator<Item = u8> {
        let first = if self.run.starts_line { self.first | STARTS_LINE } else { self.first };
        let (object, first) = (self.run.object.to_le_bytes(), first.to_le_bytes());
        object.into_iter().chain(first).chain(self.rows.to_le_bytes())
    }

    /// Parses runs.
    pub(crate) fn read_all(bytes: &[u8]) -> impl Iterator<Item = Self> {
        bytes.as_chunks::<RUN>().0.iter().map(|run| {
            let (words, rest) = run.as_chunks::<8>();
            let mut rows = [0; 4];
            rows.copy_from_slice(rest);
            let (object, first) = (i64::from_le_bytes(words[0]), u64::from_le_bytes(words[1]));
            let run = Run { object, starts_line: first & STARTS_LINE != 0 };
            Self { run, first: first & !STARTS_LINE, rows: u32::from_le_bytes(rows) }
        })
    }
}

/// Writes rows, chunk by chunk in numeric order.
pub(crate) fn write_rows(
    stem: &Path,
    held: &HeldRows,
    side_data: SideData,
    stop: &StopFlag,
) -> Result<[WrittenFile; 2]> {
    let mut rows = Output::create(file(stem, "rows"), stop)?;
    let mut chunks = Output::create(file(stem, "chunks"), stop)?;
    for chunk in held.chunks() {
        let pieces = held.pieces(chunk);
        let count: usize = pieces.iter().map(|piece| piece.rows.len()).sum();
        for n in held.table.components(chunk) {
            chunks.write(&n.to_le_bytes())?;
        }
        let runs = held.chains.runs_of(chunk);
        chunks.write(&rows.bytes().to_le_bytes())?;
        for (what, n) in [("rows of a chunk", count), ("runs of a chunk", runs.len())] {
            chunks.write(&count_u32(what, n)?.to_le_bytes())?;
        }
        let columns = gather_as_given(&pieces, false);
        for column in [&columns.positions].into_iter().chain(&columns.fields) {
            rows.write(column)?;
        }
        let mut words = Vec::new();
        if side_data.groups {
            words.extend(groups_as_given(&pieces).flat_map(u64::to_le_bytes));
        }
        if side_data.numbers {
            words.extend(numbers_as_given(&pieces).flat_map(u64::to_le_bytes));
        }
        if side_data.runs {
            words.extend(chain_runs(&pieces, runs)?.into_iter().flat_map(ChainRun::to_le_bytes));
        }
        rows.write(&words)?;
    }
    Ok([rows.finish()?, chunks.finish()?])
}

impl HeldRows {
    /// Returns the chunks that have rows, in numeric order.
    pub(crate) fn chunks(&self) -> Vec<u32> {
        let mut chunks = self.table.order(&[], None).chunks;
        chunks.retain(|chunk| !self.by_chunk[usize_from_u32(*chunk)].is_empty());
        chunks
    }

    /// Returns the rows of a chunk in input order.
    pub(crate) fn pieces(&self, chunk: u32) -> Vec<ChunkPiece<'_>> {
        pieces(&self.batches, &self.by_chunk[usize_from_u32(chunk)])
    }
}

/// Returns the runs of chains for the rows of a chunk; their groups are indexes into `all`.
fn chain_runs(pieces: &[ChunkPiece<'_>], all: &[Run]) -> Result<Vec<ChainRun>> {
    let mut runs: Vec<ChainRun> = Vec::with_capacity(all.len());
    let mut last = None;
    for (group, number) in groups_as_given(pieces).zip(numbers_as_given(pieces)) {
        match runs.last_mut().filter(|_| last == Some(group)) {
            Some(run) => run.rows += 1, // a chunk has fewer rows than 2^32
            None => {
                let run = usize::try_from(group).ok().and_then(|group| all.get(group));
                let run = *run.filter(|_| to_u64(runs.len()) == group).ok_or_else(|| {
                    let expected = "rows in the order of the runs of their chunk";
                    task_error(
                        "route",
                        expected,
                        format!("run {group} after {} others", runs.len()),
                    )
                })?;
                runs.push(ChainRun { run, first: number, rows: 1 });
            }
        }
        last = Some(group);
    }
    Ok(runs)
}

/// Writes edges or faces in input order.
pub(crate) fn write_elements(
    stem: &Path,
    elements: &Elements,
    columns: &[Column],
    stop: &StopFlag,
) -> Result<WrittenFile> {
    let mut out = Output::create(file(stem, "elements"), stop)?;
    for number in 0..index_u32(elements.len()) {
        for vertex in elements.vertices(number) {
            out.write(&vertex.to_le_bytes())?;
        }
        for column in columns {
            out.write(column.row(usize_from_u32(number)))?;
        }
    }
    out.finish()
}

/// Writes sorted ids; duplicates are allowed.
pub(crate) fn write_ids(
    target: &Target,
    suffix: &str,
    mut ids: impl Iterator<Item = i64>,
    stop: &StopFlag,
) -> Result<(StepOutput, Option<WrittenFile>)> {
    let mut out = target.sequence(suffix, stop)?;
    ids.try_for_each(|id| out.write(&sort_key(id)))?;
    out.finish()
}

/// Writes one attribute of objects, given in several pieces.
pub(crate) fn write_field(
    target: &Target,
    suffix: &str,
    (dtype, width): (Dtype, u32),
    given: &[(&[i64], &Field)],
    stop: &StopFlag,
) -> Result<(FieldRecord, (StepOutput, Option<WrittenFile>))> {
    let stride = row_bytes(dtype, width);
    let mut sorter = target.sorter(suffix, stride + 16, FIELD_MEMORY, stop);
    let mut value = vec![0; stride];
    let mut at = 0_u64;
    for (ids, field) in given {
        for (row, id) in ids.iter().enumerate() {
            put_values(&mut value, field.column.row(row), usize_from_u32(width));
            sorter.push(&[&sort_key(*id), &sort_key_u64(at), &value])?;
            at += 1;
        }
    }
    let first = given.first().map(|(_, field)| *field);
    let text = |text: Option<&std::sync::Arc<str>>| text.map(|text| text.to_string());
    let record = FieldRecord {
        name: first.map_or_else(String::new, |field| field.name.to_string()),
        dtype,
        width,
        unit: text(first.and_then(|field| field.unit.as_ref())),
        description: text(first.and_then(|field| field.description.as_ref())),
        fill_is_absent: given.iter().any(|(_, field)| field.fill_is_absent),
    };
    Ok((record, sorter.finish()?))
}

/// Returns the sum of the hashes of rows of this many bytes, which does not depend on their order.
pub(crate) fn sum(rows: &[u8], stride: usize) -> u64 {
    // Common lengths are read without a loop.
    match stride {
        8 => sum_of::<8>(rows),
        12 => sum_of::<12>(rows),
        16 => sum_of::<16>(rows),
        24 => sum_of::<24>(rows),
        _ => rows.chunks_exact(stride.max(1)).map(hash).fold(0, u64::wrapping_add),
    }
}

fn sum_of<const N: usize>(rows: &[u8]) -> u64 {
    rows.as_chunks::<N>().0.iter().map(|row| hash(row)).fold(0, u64::wrapping_add)
}

/// Returns a hash of a row: words are mixed in one by one, so that it depends on each bit and on
/// their order.
#[inline]
fn hash(row: &[u8]) -> u64 {
    let mix = |state: u64, word: u64| {
        let mixed = (state ^ word).wrapping_mul(MULTIPLIER);
        mixed ^ (mixed >> 32)
    };
    let (words, rest) = row.as_chunks::<8>();
    let state = words.iter().map(|word| u64::from_le_bytes(*word)).fold(SEED, mix);
    let (words, rest) = rest.as_chunks::<4>();
    let state = words.iter().map(|word| u64::from(u32::from_le_bytes(*word))).fold(state, mix);
    let state = rest.iter().map(|byte| u64::from(*byte)).fold(state, mix);
    // The upper bits of the last word have been mixed into the lower ones only once.
    mix(state, 0)
}

const FIELD_MEMORY: u64 = 16 << 20;
/// Bytes of a run.
const RUN: usize = 20;
/// The bit of a first-vertex number that states that a line starts there; no number uses it.
const STARTS_LINE: u64 = 1 << 63;
/// An odd number whose bits are those of the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
/// Any nonzero number, so that the hash of zeros is not zero either.
const SEED: u64 = 0x2545_f491_4f6c_dd1d;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_read_as_they_were_written() {
        let run = |object, starts_line, first, rows| ChainRun {
            run: Run { object, starts_line },
            first,
            rows,
        };
        let runs = [run(-3, false, 1 << 40, 7), run(i64::MAX, true, 0, u32::MAX)];
        let bytes: Vec<u8> = runs.iter().flat_map(|run| run.to_le_bytes()).collect();
        assert_eq!(bytes.len(), 2 * RUN);
        assert_eq!(ChainRun::read_all(&bytes).collect::<Vec<_>>(), runs);
    }

    #[test]
    fn the_sum_of_hashes_does_not_depend_on_the_order() {
        for stride in [1, 3, 4, 8, 12, 16, 20, 24, 31] {
            let rows: Vec<u8> = (0..stride * 5).map(|n| (n * n * 31 % 251) as u8).collect();
            let reversed: Vec<u8> = rows.chunks(stride).rev().flatten().copied().collect();
            let expected = rows.chunks(stride).map(hash).fold(0, u64::wrapping_add);
            assert_eq!((sum(&rows, stride), sum(&reversed, stride)), (expected, expected));
            for bit in 0..rows.len() * 8 {
                let mut damaged = rows.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(sum(&damaged, stride), expected, "bit {bit} of rows of {stride}");
            }
        }
        assert_ne!(sum(&[0; 12], 12), 0);
        assert_ne!(sum(&[0; 12], 12), sum(&[0; 24], 12));
    }
}
