//! The object index and the attributes of objects, in bounded memory: all inputs are sorted by id
//! and merged in one pass.
//!
//! Not here: groups, which are few ([`crate::objects`]).

use std::collections::BTreeSet;
use std::ops::Range;

use rayon::prelude::*;
use zvf_error::{Error, Result};
use zvf_format::manifest::{Manifest, ManifestBuilder};
use zvf_format::num::{to_u64, usize_from_u32};
use zvf_metadata::arrays::{ArrayAttributes as _, Column as ColumnAttributes, IndexAttrs, Rows};
use zvf_metadata::{Dtype, DtypeKind, FillValue, GroupDoc, ManifestLayout, path_segment};
use zvf_model::Column;
use zvf_store::{DensePlan, DenseSink, RowPlan, RowSink};

use super::cells::{CellsOutput, chunk_of};
use super::merged_slices::MergedSlices;
use super::slice::FieldRecord;
use super::sorted::{KWayMerge, number, number_u32, sort_key, sort_key_u32};
use super::step_output::{StepOutput, Target};
use crate::cells::{FRAGMENT, Frame, SEGMENT};
use crate::columns::row_bytes;
use crate::error::{roots_error, setting_error, task_error, unfit_error};
use crate::level_columns::Grouping;
use crate::objects::{absent_values, attribute_plan, common_type, put_values};
use crate::spill_folder::SpillFolder;
use crate::stop::StopFlag;

/// The ids of all objects, ascending.
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
        let (mut entries, mut spoken) = (merged.entries(cells)?, merged.open_numbers("ids")?);
        let mut out = target.sequence("ids", &merged.options.stop_flag())?;
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
}

/// The step that writes the index and the attributes of objects, and the segments of fragments.
#[derive(Clone, Copy)]
pub(crate) struct IndexStep<'a> {
    pub(crate) merged: &'a MergedSlices,
    pub(crate) frame: &'a Frame<'a>,
    pub(crate) ids: &'a Ids,
    pub(crate) cells: &'a [&'a CellsOutput],
    pub(crate) target: &'a Target,
}

impl IndexStep<'_> {
    /// Writes all of it.
    pub(crate) async fn write(&self) -> Result<()> {
        let Self { merged, frame, ids, .. } = *self;
        let present = self.write_manifests().await?;
        let plan = DensePlan {
            chunk_rows: (ids.count > ONE_CHUNK).then_some(ONE_CHUNK),
            // An id 0 alone is stored too: a reader that cannot list would ask for it in vain.
            fill: FillValue::int(if ids.count == 1 { -1 } else { 0 }),
            ..DensePlan::new(Dtype::INT64)
        };
        let put_id = |id: i64, block: &mut Vec<u8>| {
            block.extend(id.to_le_bytes());
            Ok(())
        };
        self.write_rows("object_index/object_ids", plan, put_id)?.finish(|_| {}).await?;
        let rank = to_u64(frame.table.rank());
        let mut index = IndexAttrs::new(ids.count, present, rank, true);
        if merged.options.dense {
            index.layout = Some(ManifestLayout::DenseManifestsV1.into());
        }
        let document = GroupDoc::new(index.to_attributes());
        frame.build.group(&frame.path("object_index"), &document).await?;
        let fields = merged.slices.iter().flat_map(|slice| &slice.fields);
        let names: BTreeSet<&str> = fields.map(|field| field.name.as_str()).collect();
        for name in names {
            self.write_field(name).await?;
        }
        let grouping = merged.columns.grouping;
        let is_given = merged.columns.fragment.iter().any(|attribute| *attribute.name == *SEGMENT);
        if merged.options.keeps_columns() && grouping != Grouping::Bins && !is_given {
            self.write_segments().await?;
        }
        Ok(())
    }

    fn for_each_id(&self, mut visit: impl FnMut(i64) -> Result<()>) -> Result<()> {
        let mut ids = self.ids.read(&self.merged.options.stop_flag())?;
        while let Some(id) = ids.head_number() {
            visit(id)?;
            ids.advance()?;
        }
        Ok(())
    }

    /// Writes an array with a row for each object, many rows at a time.
    fn write_rows(
        &self,
        path: &str,
        plan: DensePlan,
        mut put: impl FnMut(i64, &mut Vec<u8>) -> Result<()>,
    ) -> Result<DenseSink> {
        let mut sink = self.frame.build.dense(&self.frame.path(path), plan)?;
        let mut block = Vec::new();
        self.for_each_id(|id| {
            put(id, &mut block)?;
            if block.len() >= BLOCK_BYTES {
                sink.push(&block)?;
                block.clear();
            }
            Ok(())
        })?;
        sink.push(&block)?;
        Ok(sink)
    }

    /// Writes the manifest of each object and the number of its vertices, and returns how many have
    /// fragments.
    async fn write_manifests(&self) -> Result<u64> {
        let Self { merged, frame, .. } = *self;
        let mut sink = ManifestSink::open(frame, merged.options.dense)?;
        let mut counts = self.open_counts()?;
        let mut entries = merged.entries(self.cells)?;
        let mut block = Manifests::default();
        self.for_each_id(|id| {
            let (before, mut vertices) = (block.fragments.len(), 0);
            while let Some(entry) = entries.head().filter(|entry| number(entry) == id) {
                let (chunk, starts_line) = chunk_of(entry);
                let is_another = starts_line && block.fragments.len() > before;
                block.fragments.push((chunk, number_u32(entry, 20), is_another));
                let [first, last] = [24, 28].map(|at| number_u32(entry, at));
                let more = last.checked_sub(first).ok_or_else(|| {
                    task_error("entries", format!("a last row from {first} on"), last)
                })?;
                vertices += u64::from(more) + 1;
                entries.advance()?;
            }
            block.objects.push(before..block.fragments.len());
            if counts.is_some() {
                let max = u64::from(u32::MAX);
                let count = u32::try_from(vertices)
                    .map_err(|_too_many| Error::limit("vertices of an object", max, vertices))?;
                block.counts.extend(count.to_le_bytes());
            }
            if block.objects.len() >= BLOCK_OBJECTS || block.fragments.len() >= BLOCK_FRAGMENTS {
                block.write(frame, &mut sink, counts.as_mut())?;
            }
            Ok(())
        })?;
        block.write(frame, &mut sink, counts.as_mut())?;
        sink.finish().await?;
        if let Some(counts) = counts {
            counts.finish(|_| {}).await?;
        }
        Ok(block.present)
    }

    /// Opens the column with the number of vertices of each object, unless there is one of that
    /// name or none is written.
    fn open_counts(&self) -> Result<Option<DenseSink>> {
        let Self { merged, frame, ids, .. } = *self;
        let mut fields = merged.slices.iter().flat_map(|slice| &slice.fields);
        if !merged.options.keeps_columns() || fields.any(|field| field.name == VERTEX_COUNT) {
            return Ok(None);
        }
        let dtype = Dtype { kind: DtypeKind::UInt, size: 4, big_endian: false };
        let mut says = Rows::object_attribute(VERTEX_COUNT, dtype, vec![ids.count]);
        says.fill_sentinel_meaning = None; // 0 is the number of an object without vertices
        says.extras.insert(DERIVED.to_owned(), true.into());
        let plan = DensePlan::object_attribute(dtype, None, FillValue::uint(0));
        let plan = DensePlan { attributes: says.to_attributes(), ..plan };
        let path = frame.path(&format!("object_attributes/{VERTEX_COUNT}"));
        frame.build.dense(&path, plan).map(Some)
    }

    /// Writes the segment of each fragment: the attribute of its object, or the row of the object;
    /// 0 without an object.
    async fn write_segments(&self) -> Result<()> {
        let Self { merged, frame, target, .. } = *self;
        let mut values = MergedField::open(merged, SEGMENT)?.filter(MergedField::is_integer);
        let mut sorter = merged.sorter(target, "segments", 16);
        let (mut entries, mut row) = (merged.entries(self.cells)?, 0_u64);
        self.for_each_id(|id| {
            let segment = match &mut values {
                Some(values) => values.integer(id)?,
                None => row,
            };
            while let Some(entry) = entries.head().filter(|entry| number(entry) == id) {
                let place = sort_key_u32(merged.order.place(chunk_of(entry).0));
                let fragment = sort_key_u32(number_u32(entry, 20));
                sorter.push(&[&place, &fragment, &segment.to_le_bytes()])?;
                entries.advance()?;
            }
            row += 1;
            Ok(())
        })?;
        let (sorted, _) = sorter.finish()?;
        let mut sorted = merged.open([&sorted], 16)?;
        let dtype = Dtype { kind: DtypeKind::UInt, size: 8, big_endian: false };
        let column = ColumnAttributes::new(FRAGMENT, SEGMENT, dtype, 1, Vec::new());
        let path = format!("fragment_attributes/{SEGMENT}");
        let sink = frame.numbers(&path, column.to_attributes())?;
        for chunks in merged.order.shards(&merged.order.chunks) {
            frame.check_stop()?;
            for chunk in chunks {
                let (mut cell, place) = (Vec::new(), merged.order.place(*chunk));
                while let Some(record) = sorted.head().filter(|entry| number_u32(entry, 0) == place)
                {
                    cell.resize(usize_from_u32(number_u32(record, 4)) * 8, 0);
                    cell.extend_from_slice(&record[8..]);
                    sorted.advance()?;
                }
                // The only fragment of a chunk that no object names is that of vertices without
                // one.
                cell.resize(cell.len().max(8), 0);
                sink.put(&frame.table.key(*chunk)?, cell.into())?;
            }
            sink.close_shard(&frame.table.key(chunks[0])?)?;
        }
        sink.finish(|_| {}).await.map(drop)
    }

    /// Writes one attribute of objects.
    async fn write_field(&self, name: &str) -> Result<()> {
        let count = self.ids.count;
        let Some(mut field) = MergedField::open(self.merged, name)? else { return Ok(()) };
        let (dtype, width) = field.ty;
        let found = count.max(1).saturating_mul(to_u64(row_bytes(dtype, width))); // to be compared
        let max = i64::MAX.cast_unsigned().min(to_u64(usize::MAX / 2));
        if found > max {
            return Err(Error::limit("bytes of an attribute", max, found));
        }
        let texts = [field.record.unit.as_deref(), field.record.description.as_deref()];
        let plan = attribute_plan(name, (dtype, width), count, texts);
        let path = format!("object_attributes/{}", path_segment(name));
        let (mut has_absent, mut has_fill) = (false, false);
        let put_value = |id, block: &mut Vec<u8>| {
            block.extend_from_slice(field.value(id)?);
            has_absent |= !field.is_given;
            has_fill |= field.is_given && field.value == field.none;
            Ok(())
        };
        let sink = self.write_rows(&path, plan, put_value)?;
        // The number that stands for absent elsewhere may be meant.
        let is_number = matches!(dtype.kind, DtypeKind::Int | DtypeKind::UInt);
        let is_meant = has_fill && is_number && !field.record.fill_is_absent;
        if is_meant && has_absent {
            let what = format!("the object attribute {name:?}, which some objects lack");
            let expected = "no value that stands for absent";
            return Err(unfit_error(self.merged.schema.kind, what, expected, "it"));
        }
        let done = sink.finish(|says| {
            if is_meant {
                says.remove("fill_sentinel_meaning");
            }
        });
        done.await.map(drop)
    }
}

/// The arrays that manifests are written to.
enum ManifestSink {
    Blobs(Box<RowSink>),
    /// Spans, blocks, and the number of blocks so far.
    Dense(Box<[DenseSink; 2]>, u64),
}

impl ManifestSink {
    fn open(frame: &Frame<'_>, is_dense: bool) -> Result<Self> {
        if !is_dense {
            let codecs = frame.with_checksum(RowPlan::manifests().codecs);
            let plan = RowPlan { codecs, ..RowPlan::manifests() };
            let sink = frame.build.rows(&frame.path("object_index/manifests"), plan)?;
            return Ok(Self::Blobs(Box::new(sink)));
        }
        let open = |name: &str, columns: u64| {
            let (columns, chunk_rows) = (Some(columns), Some(to_u64(BLOCK_OBJECTS)));
            let plan = DensePlan { columns, chunk_rows, ..DensePlan::new(Dtype::INT64) };
            frame.build.dense(&frame.path(&format!("object_index/{name}")), plan)
        };
        let blocks = open("manifest_blocks", to_u64(frame.table.rank()) + 1)?;
        Ok(Self::Dense(Box::new([open("manifest_spans", 2)?, blocks]), 0))
    }

    async fn finish(self) -> Result<()> {
        match self {
            Self::Blobs(sink) => sink.finish(|_| {}).await.map(drop),
            Self::Dense(sinks, _) => {
                let [spans, blocks] = *sinks;
                spans.finish(|_| {}).await?;
                blocks.finish(|_| {}).await.map(drop)
            }
        }
    }
}

/// The manifests of some objects.
#[derive(Default)]
struct Manifests {
    fragments: Vec<(u32, u32, bool)>, // chunk, number there, and whether another line starts
    objects: Vec<Range<usize>>,       // of each, which of those
    present: u64,                     // objects that had fragments so far
    counts: Vec<u8>,                  // the number of vertices of each object
}

impl Manifests {
    /// Encodes them on all cores, and starts over.
    fn write(
        &mut self,
        frame: &Frame<'_>,
        sink: &mut ManifestSink,
        counts: Option<&mut DenseSink>,
    ) -> Result<()> {
        match sink {
            ManifestSink::Blobs(sink) => self.write_blobs(frame, sink)?,
            ManifestSink::Dense(sinks, count) => {
                let [spans, blocks] = &mut **sinks;
                self.write_blocks(frame, (spans, blocks), count)?;
            }
        }
        self.present += to_u64(self.objects.iter().filter(|range| !range.is_empty()).count());
        if let Some(counts) = counts {
            counts.push(&self.counts)?;
        }
        self.objects.clear();
        self.fragments.clear();
        self.counts.clear();
        Ok(())
    }

    /// Writes the manifests as rows of blocks, after the first `count` blocks.
    fn write_blocks(
        &self,
        frame: &Frame<'_>,
        (spans, blocks): (&mut DenseSink, &mut DenseSink),
        count: &mut u64,
    ) -> Result<()> {
        frame.check_stop()?;
        if self.fragments.iter().any(|(.., is_another)| *is_another) {
            let expected = "objects of one line each: others have no dense manifest";
            return Err(setting_error("manifests", expected, "dense"));
        }
        for range in &self.objects {
            let start = if range.is_empty() { 0 } else { *count };
            let span = [start, to_u64(range.len())].map(u64::to_le_bytes);
            spans.push(span.as_flattened())?;
            *count += to_u64(range.len());
        }
        let row = |(chunk, fragment, _): &(u32, u32, bool)| {
            let chunk = frame.table.components(*chunk).iter().copied();
            chunk.chain([i64::from(*fragment)]).flat_map(i64::to_le_bytes).collect::<Vec<u8>>()
        };
        let rows: Vec<u8> = self.fragments.iter().flat_map(row).collect();
        blocks.push(&rows)
    }

    /// Writes them as blobs.
    fn write_blobs(&self, frame: &Frame<'_>, sink: &mut RowSink) -> Result<()> {
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
        Ok(())
    }
}

/// Refuses objects with several trees.
pub(crate) fn check_roots(merged: &MergedSlices) -> Result<()> {
    let mut roots = merged.open_numbers("roots")?;
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

/// The values of an attribute of objects, merged from all slices.
struct MergedField<'a> {
    record: &'a FieldRecord,
    ty: (Dtype, u32),
    sources: Vec<KWayMerge>,
    none: Vec<u8>,
    value: Vec<u8>,
    is_given: bool, // whether an object has the value
}

impl<'a> MergedField<'a> {
    fn open(merged: &'a MergedSlices, name: &str) -> Result<Option<Self>> {
        let mut given: Vec<(StepOutput, &FieldRecord)> = Vec::new();
        for slice in &merged.slices {
            for (number, field) in slice.fields.iter().enumerate() {
                if field.name == name {
                    Column::empty(field.dtype, field.width)?; // a row fits in memory
                    let stored = slice.sorted_file(&format!("field-{number}"));
                    given.push((stored, field));
                }
            }
        }
        let Some(record) = given.first().map(|(_, record)| *record) else { return Ok(None) };
        let types = given.iter().map(|(_, field)| (field.dtype, field.width));
        let (dtype, width) = common_type(merged.schema.kind, name, types)?;
        let sources = given.iter().map(|(stored, field)| {
            let stride = row_bytes(field.dtype, width) + 16;
            merged.open([stored], stride)
        });
        let (sources, none) =
            (sources.collect::<Result<_>>()?, absent_values(dtype, usize_from_u32(width)));
        let (ty, value, is_given) = ((dtype, width), none.clone(), false);
        Ok(Some(Self { record, ty, sources, none, value, is_given }))
    }

    /// Returns the value of an object. Ids ascend from call to call.
    fn value(&mut self, id: i64) -> Result<&[u8]> {
        self.value.clone_from(&self.none);
        self.is_given = false;
        for source in &mut self.sources {
            while let Some(record) = source.head().filter(|record| number(record) <= id) {
                if number(record) == id {
                    put_values(&mut self.value, &record[16..], usize_from_u32(self.ty.1));
                    self.is_given = true;
                }
                source.advance()?;
            }
        }
        Ok(&self.value)
    }

    fn is_integer(&self) -> bool {
        matches!(self.ty, (Dtype { kind: DtypeKind::Int | DtypeKind::UInt, .. }, 1))
    }

    /// Returns the value of an object, of integers, as a number of 64 bits.
    fn integer(&mut self, id: i64) -> Result<u64> {
        let (dtype, _) = self.ty;
        let value = self.value(id)?;
        let is_negative =
            dtype.kind == DtypeKind::Int && value.last().is_some_and(|byte| *byte > 0x7f);
        let mut wide = if is_negative { [0xff; 8] } else { [0; 8] };
        wide.iter_mut().zip(value).for_each(|(to, from)| *to = *from);
        Ok(u64::from_le_bytes(wide))
    }
}

/// The column with the number of vertices of each object.
pub(crate) const VERTEX_COUNT: &str = "vertex_count";
/// The attribute of an array that follows from others, and is not exported.
const DERIVED: &str = "derived";
/// Maximum number of ids in a single chunk: more are divided, so that no reader must keep all of
/// them.
const ONE_CHUNK: u64 = 1 << 20;
/// Number of objects whose manifests are encoded together.
const BLOCK_OBJECTS: usize = 16_384;
/// Maximum number of their fragments, except for those of the last object.
const BLOCK_FRAGMENTS: usize = 1 << 20;
/// Bytes of rows that are passed to an array together.
const BLOCK_BYTES: usize = 1 << 16;
