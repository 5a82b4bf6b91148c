//! The object index and the attributes of objects, in bounded memory: all inputs are sorted by id
//! and merged in one pass.
//!
//! Not here: groups, which are few ([`crate::objects`]).

use std::ops::Range;

use rayon::prelude::*;
use zvf_error::{Error, Result};
use zvf_format::manifest::{Manifest, ManifestBuilder};
use zvf_format::num::{to_u64, usize_from_u32};
use zvf_metadata::arrays::ObjectIndex;
use zvf_metadata::{Dtype, GroupDoc, path_segment};
use zvf_store::{DensePlan, DenseSink, RowPlan, RowSink};

use super::cells::{CellsOutput, ENTRY, chunk_of};
use super::merged_slices::MergedSlices;
use super::slice::FieldRecord;
use super::sorted::{KWayMerge, number, number_u32, sort_key};
use super::step_output::{StepOutput, Target};
use crate::cells::Frame;
use crate::columns::row_bytes;
use crate::error::roots_error;
use crate::objects::{absent_values, attribute_plan, put_values};
use crate::spill_folder::SpillFolder;
use crate::stop::StopFlag;

/// The ids of all objects, ascending.
#[derive(Debug)]
pub(crate) struct Ids {
    stored: StepOutput,
    pub(crate) count: u64,
    /// Whether they are not 0, 1, 2 and so on.
    pub(crate) sparse: bool,
    _folder: Option<SpillFolder>, // where they may be
}

impl Default for Ids {
    fn default() -> Self {
        Self {
            stored: StepOutput::Held(bytes::Bytes::new()),
            count: 0,
            sparse: false,
            _folder: None,
        }
    }
}

#[cfg(test)]
impl From<StepOutput> for Ids {
    fn from(stored: StepOutput) -> Self {
        Self { stored, ..Self::default() }
    }
}

impl Ids {
    /// Returns the ids of all objects: those with fragments, and those that were only declared.
    pub(crate) fn gather(
        merged: &MergedSlices,
        cells: &[&CellsOutput],
        target: &Target,
    ) -> Result<Self> {
        let stop = merged.options.stop_flag();
        let spoken: Vec<StepOutput> =
            merged.slices.iter().map(|slice| slice.sorted_file("ids")).collect();
        let mut entries = open_entries(merged, cells)?;
        let mut spoken = KWayMerge::open(&spoken, 8, &stop)?;
        let mut out = target.sequence("ids", &stop)?;
        let (mut count, mut sparse, mut last) = (0_u64, false, None);
        loop {
            let heads = [entries.head_number(), spoken.head_number()];
            let Some(id) = heads.into_iter().flatten().min() else { break };
            if last != Some(id) {
                out.write(&sort_key(id))?;
                sparse |= i64::try_from(count) != Ok(id);
                count += 1;
            }
            last = Some(id);
            if heads[0] == Some(id) {
                entries.advance()?;
            } else {
                spoken.advance()?;
            }
        }
        let (stored, _) = out.finish()?;
        Ok(Self { stored, count, sparse, _folder: None })
    }

    /// Returns the same ids, which keep their scratch folder until they are dropped.
    pub(crate) fn with_scratch(self, folder: SpillFolder) -> Self {
        Self { _folder: Some(folder), ..self }
    }

    /// Reads them one after the other.
    pub(crate) fn read(&self, stop: &StopFlag) -> Result<KWayMerge> {
        KWayMerge::open([&self.stored], 8, stop)
    }

    fn for_each(&self, stop: &StopFlag, mut visit: impl FnMut(i64) -> Result<()>) -> Result<()> {
        let mut ids = self.read(stop)?;
        while let Some(id) = ids.head_number() {
            visit(id)?;
            ids.advance()?;
        }
        Ok(())
    }
}

fn open_entries(merged: &MergedSlices, cells: &[&CellsOutput]) -> Result<KWayMerge> {
    let entries = cells.iter().map(|left| &left.entries);
    KWayMerge::open(entries, ENTRY, &merged.options.stop_flag())
}

/// Writes the index and the attributes of objects.
pub(crate) async fn write(
    merged: &MergedSlices,
    frame: &Frame<'_>,
    ids: &Ids,
    cells: &[&CellsOutput],
) -> Result<()> {
    let rank = to_u64(frame.table.rank());
    let present = write_manifests(merged, frame, ids, cells).await?;
    let plan = DensePlan {
        chunk_rows: (ids.count > ONE_CHUNK).then_some(ONE_CHUNK),
        ..DensePlan::new(Dtype::INT64)
    };
    let mut sink = frame.build.dense(&frame.path("object_index/object_ids"), plan)?;
    let mut block = Vec::new();
    ids.for_each(&merged.options.stop_flag(), |id| {
        block.extend_from_slice(&id.to_le_bytes());
        push_whole(&mut sink, &mut block, BLOCK_BYTES)
    })?;
    push_whole(&mut sink, &mut block, 1)?;
    sink.finish(|_| {}).await?;
    let index = ObjectIndex::new(ids.count, present, rank, true);
    frame.build.group(&frame.path("object_index"), &GroupDoc::new(index.to_attributes())).await?;
    write_fields(merged, frame, ids).await
}

/// Passes on a block of rows once it has this many bytes.
fn push_whole(sink: &mut DenseSink, block: &mut Vec<u8>, bytes: usize) -> Result<()> {
    if block.len() >= bytes {
        sink.push(block)?;
        block.clear();
    }
    Ok(())
}

/// Writes the manifest of each object, and returns how many have fragments.
async fn write_manifests(
    merged: &MergedSlices,
    frame: &Frame<'_>,
    ids: &Ids,
    cells: &[&CellsOutput],
) -> Result<u64> {
    let path = frame.path("object_index/manifests");
    let codecs = frame.with_checksum(RowPlan::manifests().codecs);
    let mut sink = frame.build.rows(&path, RowPlan { codecs, ..RowPlan::manifests() })?;
    let mut entries = open_entries(merged, cells)?;
    let mut block = Manifests::default();
    ids.for_each(&merged.options.stop_flag(), |id| {
        let before = block.fragments.len();
        while let Some(entry) = entries.head().filter(|entry| number(entry) == id) {
            let (chunk, starts_line) = chunk_of(entry);
            let is_another = starts_line && block.fragments.len() > before;
            block.fragments.push((chunk, number_u32(entry, 20), is_another));
            entries.advance()?;
        }
        block.objects.push(before..block.fragments.len());
        if block.objects.len() >= BLOCK_OBJECTS || block.fragments.len() >= BLOCK_FRAGMENTS {
            block.write(frame, &mut sink)?;
        }
        Ok(())
    })?;
    block.write(frame, &mut sink)?;
    sink.finish(|_| {}).await?;
    Ok(block.present)
}

/// The manifests of some objects.
#[derive(Default)]
struct Manifests {
    fragments: Vec<(u32, u32, bool)>, // chunk, number there, and whether another line starts
    objects: Vec<Range<usize>>,       // of each, which of those
    present: u64,                     // objects that had fragments so far
}

impl Manifests {
    /// Encodes them on all cores, and starts over.
    fn write(&mut self, frame: &Frame<'_>, sink: &mut RowSink) -> Result<()> {
        let rank = to_u64(frame.table.rank());
        let blobs = self.objects.par_iter().map(|range| {
            frame.check_stop()?;
            let mut manifest = ManifestBuilder::new(rank)?;
            for (chunk, fragment, is_another) in &self.fragments[range.clone()] {
                let chunk = frame.table.components(*chunk);
                if *is_another {
                    manifest.push_explicit(chunk, &[])?;
                }
                manifest.push_single(chunk, (*fragment).into())?;
            }
            let blob = manifest.encode();
            Manifest::parse(&blob, rank)?; // it reads back
            Ok(blob)
        });
        for blob in blobs.collect::<Result<Vec<Vec<u8>>>>()? {
            sink.push(&blob)?;
        }
        self.present += to_u64(self.objects.iter().filter(|range| !range.is_empty()).count());
        self.objects.clear();
        self.fragments.clear();
        Ok(())
    }
}

/// Refuses objects with several trees.
pub(crate) fn check_roots(merged: &MergedSlices) -> Result<()> {
    let roots: Vec<StepOutput> =
        merged.slices.iter().map(|slice| slice.sorted_file("roots")).collect();
    let mut roots = KWayMerge::open(&roots, 8, &merged.options.stop_flag())?;
    let (mut last, mut count) = (None, 0_u64);
    loop {
        let object = roots.head_number();
        if object != last {
            if let (Some(object), 2..) = (last, count) {
                return Err(roots_error(zvf_model::ObjectId(object), count));
            }
            (last, count) = (object, 0);
        }
        if object.is_none() {
            return Ok(());
        }
        count += 1;
        roots.advance()?;
    }
}

async fn write_fields(merged: &MergedSlices, frame: &Frame<'_>, ids: &Ids) -> Result<()> {
    let all = merged.slices.iter().flat_map(|slice| &slice.fields);
    let mut names: Vec<&str> = all.map(|field| field.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        write_field(merged, frame, ids, name).await?;
    }
    Ok(())
}

/// Writes one attribute of objects.
async fn write_field(
    merged: &MergedSlices,
    frame: &Frame<'_>,
    ids: &Ids,
    name: &str,
) -> Result<()> {
    let mut given: Vec<(StepOutput, &FieldRecord, Dtype)> = Vec::new();
    for slice in &merged.slices {
        for (number, field) in slice.fields.iter().enumerate() {
            if field.name == name {
                let stored = slice.sorted_file(&format!("field-{number}"));
                given.push((stored, field, field.dtype.parse::<Dtype>()?));
            }
        }
    }
    let Some((_, first, _)) = given.first() else { return Ok(()) };
    let (dtype, width) = common_type(merged, &given)?;
    let stride = row_bytes(dtype, width);
    let found = ids.count.max(1).saturating_mul(to_u64(stride)); // to be compared
    let max = i64::MAX.cast_unsigned().min(to_u64(usize::MAX / 2));
    if found > max {
        return Err(Error::limit("bytes of an attribute", max, found));
    }
    let texts = [first.unit.as_deref(), first.description.as_deref()];
    let plan = attribute_plan(name, (dtype, width), ids.count, texts);
    let mut sources = Vec::with_capacity(given.len());
    for (stored, _, stored_type) in &given {
        let stride = row_bytes(*stored_type, width) + 16;
        sources.push(KWayMerge::open([stored], stride, &merged.options.stop_flag())?);
    }
    let path = frame.path(&format!("object_attributes/{}", path_segment(name)));
    let mut sink = frame.build.dense(&path, plan)?;
    let none = absent_values(dtype, usize_from_u32(width));
    let (mut block, mut value) = (Vec::new(), none.clone());
    ids.for_each(&merged.options.stop_flag(), |id| {
        value.clone_from(&none);
        for source in &mut sources {
            while let Some(record) = source.head().filter(|record| number(record) <= id) {
                if number(record) == id {
                    put_values(&mut value, &record[16..], usize_from_u32(width));
                }
                source.advance()?;
            }
        }
        block.extend_from_slice(&value);
        push_whole(&mut sink, &mut block, BLOCK_BYTES)
    })?;
    push_whole(&mut sink, &mut block, 1)?;
    sink.finish(|_| {}).await?;
    Ok(())
}

/// Returns the common type of the values of all slices: their type, or the longest text.
fn common_type(
    merged: &MergedSlices,
    given: &[(StepOutput, &FieldRecord, Dtype)],
) -> Result<(Dtype, u32)> {
    let fields = given.iter().map(|(_, field, dtype)| {
        let column = zvf_model::Column::empty(*dtype, field.width)?;
        Ok(zvf_model::Field::new(field.name.as_str(), column))
    });
    let fields: Vec<zvf_model::Field> = fields.collect::<Result<_>>()?;
    crate::objects::common_type(merged.schema.kind, fields.iter())
}

/// Maximum number of ids in a single chunk: more are divided, so that no reader must keep all of
/// them.
const ONE_CHUNK: u64 = 1 << 20;
/// Number of objects whose manifests are encoded together.
const BLOCK_OBJECTS: usize = 16_384;
/// Maximum number of their fragments, except for those of the last object.
const BLOCK_FRAGMENTS: usize = 1 << 20;
/// Bytes of rows that are passed to an array together.
const BLOCK_BYTES: usize = 1 << 16;
