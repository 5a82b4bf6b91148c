//! All slices together: the chunks, the locations of their rows, and the division into shares.
//!
//! Every step after the first one computes this from the records of the first steps, with the same
//! result. Chunks are numbered in numeric order. A few numbers per chunk are kept in memory, about
//! as much as the presence lists of the store; rows in files are read on demand.
//!
//! ```text
//! shares     the chunks in the order of writing, cut between shards where the rows before are as many
//!            as their part of all: half-open ranges, every chunk in one of them
//! ```

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use bytes::Bytes;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::{index_u32, to_u64, usize_from_u32};
use zvf_model::{Extent, Kind};

use super::file::append_to_name;
use super::lists::{MergedLists, identify};
use super::slice::{ChainRun, HeldSlice, SideData, Slice, SliceData};
use super::sorted::{ExternalSorter, KWayMerge};
use super::source::{FileSource, LoadedSpan, Span, Stored};
use super::spans::SpanIndex;
use super::step_output::{StepOutput, Target, file};
use crate::WriteOptions;
use crate::cells::{self, Frame};
use crate::chunks::{ChunkTable, Order};
use crate::columns::Attribute;
use crate::elements::check_width;
use crate::error::{task_error, unfit_error};
use crate::geometry_path::GeometryPath;
use crate::level::bounds;
use crate::level_columns::{Columns, Grouping};
use crate::route::Segment;
use crate::routed::{ChunkPiece, Numbers, RoutedBatch};
use crate::schema::Schema;
use crate::types::chain::Run;

/// All slices of a store, merged: their chunks, columns and sources.
#[derive(Debug)]
pub(crate) struct MergedSlices {
    pub(crate) schema: Schema,
    pub(crate) options: WriteOptions,
    pub(crate) slices: Vec<Slice>,
    pub(crate) table: ChunkTable,
    pub(crate) order: Order,
    pub(crate) bounds: [Vec<f64>; 2],
    pub(crate) columns: Columns,
    /// The attributes of elements.
    pub(crate) element_attributes: Vec<Attribute>,
    /// Vertices per element.
    pub(crate) width: usize,
    grid: [Vec<i64>; 2],
    /// Where the level is; by default the finest one.
    pub(crate) geometry: GeometryPath,
    /// Whether the locations of vertices are reported at the end.
    pub(crate) records_locations: bool,
    rows: Vec<u64>, // of each chunk
    sources: Vec<Stored>,
    spans: Option<SpanIndex>, // where slices are in files
}

/// The rows of some chunks, read from all slices in files.
pub(crate) struct Window {
    by_chunk: FxHashMap<u32, Vec<(usize, LoadedSpan)>>, // with the numbers of the slices, ascending
}

/// The rows of one chunk.
#[derive(Debug, Default)]
pub(crate) struct LoadedChunk<'a> {
    held: Vec<ChunkPiece<'a>>,
    read: Vec<RoutedBatch>, // one for each slice in files that has any
    /// The runs of chains.
    pub(crate) runs: Cow<'a, [Run]>,
}

impl LoadedChunk<'_> {
    /// Returns its pieces in input order.
    pub(crate) fn pieces(&self) -> Vec<ChunkPiece<'_>> {
        self.held.iter().copied().chain(self.read.iter().map(|batch| batch.piece(0))).collect()
    }
}

impl MergedSlices {
    /// Merges these slices. If they are in files, the merged data is read from files whose names
    /// begin with `stem`, or stored there for others.
    pub(crate) fn from_slices(
        schema: &Schema,
        options: &WriteOptions,
        mut slices: Vec<Slice>,
        stem: Option<&Path>,
    ) -> Result<Self> {
        let mut schema = schema.clone();
        if options.compat {
            schema.shard = None;
        }
        let rank = schema.key_rank();
        let mut sources: Vec<Stored> = slices.iter_mut().map(Stored::new).collect();
        let stop = options.stop_flag();
        let identity = identify(&slices)?;
        let stem = stem.map(|stem| append_to_name(stem, &format!("-{identity:08x}")));
        let path = stem.as_ref().map(|stem| file(stem, "lists"));
        let (mut lists, table) = MergedLists::load(rank, &mut sources, (path.as_deref(), &stop))?;
        let corners = slices.iter().filter_map(|slice| slice.corners.clone()).reduce(Extent::union);
        let bounds = bounds(&schema, options.outside, corners);
        let grid = cells::extent(&table, &bounds, &schema)?;
        let axes = index_u32(schema.axes.len());
        let (columns, codes) = columns(schema.kind, axes, &mut slices)?;
        let columns = columns.unwrap_or_else(|| Columns::without_vertices(axes));
        let (width, element_attributes) = elements(schema.kind, &mut slices)?;
        let rows = std::mem::take(&mut lists.rows);
        let mut last = None;
        for ((slice, codes), source) in slices.iter().zip(codes).zip(&mut sources) {
            let Stored::File(source) = source else { continue };
            source.codes = codes;
            source.goes_on = match &slice.ends {
                Some([first, _]) if last == Some(first) => table.find(&first.1),
                _ => None,
            };
            last = slice.ends.as_ref().map(|[_, end]| end).or(last);
        }
        let options = options.clone();
        let count = |field: fn(&Slice) -> u64| slices.iter().map(field).sum::<u64>();
        let attribute_bytes = element_attributes.iter().map(Attribute::stride).sum();
        let elements = (count(|slice| slice.elements), width, attribute_bytes);
        let stride = row_bytes(&columns, count(|slice| slice.given), elements);
        let bytes = |chunk: u32| rows[usize_from_u32(chunk)].saturating_mul(stride); // above any limit
        // Rows of a chunk are read, then ordered and encoded.
        let limit = options.memory.max(MIN_MEMORY);
        let mut chunks = 0..index_u32(rows.len());
        if let Some(large) = chunks.find(|chunk| stem.is_some() && bytes(*chunk) > limit) {
            let expected = format!("at most {limit} bytes of rows");
            let error = Error::new(Class::LimitExceeded, "chunk", expected, bytes(large));
            let advice = "choose smaller chunks, or raise the memory limit";
            return Err(error.at_chunk(&table.key(large)?).with_hint(advice));
        }
        if let (Some(shard), Some(max_bytes)) = (&schema.shard, schema.shard_bytes) {
            schema.shard = table.fitting_shard(&grid[0], shard.clone(), bytes, max_bytes);
        }
        let order = table.order(&grid[0], schema.shard.as_deref());
        let spans = stem.map(|stem| {
            let path = file(&stem, "spans");
            SpanIndex::load(path, (lists.entries, &sources), (&table, &order), &options)
        });
        let spans = spans.transpose()?;
        Ok(Self {
            schema,
            options,
            slices,
            table,
            order,
            bounds,
            columns,
            element_attributes,
            width,
            grid,
            geometry: GeometryPath::level(0),
            records_locations: false,
            rows,
            sources,
            spans,
        })
    }

    /// Returns the slice in memory, if it is the only one.
    pub(crate) fn held_slice(&self) -> Option<&HeldSlice> {
        match self.slices.as_slice() {
            [Slice { data: SliceData::Held(held), .. }] => Some(held),
            _ => None,
        }
    }

    /// Returns the arrays of the level in a build.
    pub(crate) fn frame<'a>(&'a self, build: &'a zvf_store::Build) -> Frame<'a> {
        let Self { table, order, grid, schema, options, geometry, .. } = self;
        let (geometry, stop) = (*geometry, options.stop_flag());
        Frame { build, table, order, options, schema, grid, geometry, stop }
    }

    /// Merges sorted records of this width.
    pub(super) fn open<'a>(
        &self,
        stored: impl IntoIterator<Item = &'a StepOutput>,
        width: usize,
    ) -> Result<KWayMerge> {
        KWayMerge::open(stored, width, &self.options.stop_flag())
    }

    /// Merges the sorted numbers of this name that all slices have.
    pub(super) fn open_numbers(&self, suffix: &str) -> Result<KWayMerge> {
        let stored: Vec<StepOutput> =
            self.slices.iter().map(|slice| slice.sorted_file(suffix)).collect();
        self.open(&stored, 8)
    }

    /// Returns a sorter with its share of the memory.
    pub(super) fn sorter(&self, target: &Target, suffix: &str, width: usize) -> ExternalSorter {
        target.sorter(suffix, width, self.options.memory / 8, &self.options.stop_flag())
    }

    /// Returns whether every edge of a skeleton is stored.
    pub(crate) fn has_explicit_edges(&self) -> bool {
        let attributes = !self.element_attributes.is_empty() && !self.options.compat;
        self.schema.explicit || (self.schema.kind == Kind::Skeleton && attributes)
    }

    /// Returns the number of vertices of the store.
    pub(crate) fn vertex_count(&self) -> u64 {
        self.rows.iter().copied().sum::<u64>()
    }

    /// Returns the number of rows of a chunk.
    fn row_count(&self, chunk: u32) -> u64 {
        self.rows[usize_from_u32(chunk)]
    }

    /// Returns the bytes that a chunk takes while it is written; saturates above any limit.
    pub(crate) fn weight(&self, chunk: u32) -> u64 {
        self.row_count(chunk).saturating_mul(row_bytes(&self.columns, 1, (0, 0, 0)))
    }

    /// Returns the chunks of one of `shares`, as a range of positions in writing order.
    pub(crate) fn share(&self, number: u32, shares: u32) -> Range<usize> {
        let total = u128::from(self.vertex_count());
        let cut = |number: u32| {
            let part = total * u128::from(number);
            part / u128::from(shares.max(1))
        };
        let (from, to) = (cut(number), cut(number + 1));
        let (mut start, mut end, mut at, mut before) = (None, 0_usize, 0_usize, 0_u128);
        let chunks = &self.order.chunks;
        for shard in self.order.shards(chunks) {
            let mine = before >= from && (before < to || number + 1 == shares);
            let next = at + shard.len();
            if mine {
                start.get_or_insert(at);
                end = next;
            }
            let rows = shard.iter().map(|chunk| u128::from(self.row_count(*chunk)));
            before += rows.sum::<u128>();
            at = next;
        }
        start.unwrap_or(0)..end // 0 without chunks
    }

    /// Divides a share into windows of whole shards, each of about this many bytes; a single window
    /// if the rows are already in memory.
    pub(crate) fn windows(&self, share: Range<usize>, memory: u64) -> Vec<Range<usize>> {
        let memory = if self.held_slice().is_some() { u64::MAX } else { memory };
        let mut windows: Vec<Range<usize>> = Vec::new();
        let chunks = &self.order.chunks[share.clone()];
        let (mut start, mut at, mut held) = (share.start, share.start, 0_u64);
        for shard in self.order.shards(chunks) {
            // Saturates above any limit.
            let bytes = shard.iter().map(|chunk| self.weight(*chunk)).fold(0, u64::saturating_add);
            if at > start && held.saturating_add(bytes) > memory {
                windows.push(start..at);
                (start, held) = (at, 0);
            }
            held = held.saturating_add(bytes);
            at += shard.len();
        }
        if at > start {
            windows.push(start..at);
        }
        windows
    }

    /// Reads the rows of these chunks, which are consecutive in writing order, from all slices in
    /// files, on all cores.
    pub(crate) fn window(&self, chunks: &[u32]) -> Result<Window> {
        let mut window = Window { by_chunk: FxHashMap::default() };
        let Some(spans) = &self.spans else { return Ok(window) };
        let spans = spans.find(&self.order, chunks)?;
        let (side_data, stride) = (self.side_data(), self.columns.stride());
        let size = |span: Span| side_data.bytes(stride, span.rows, span.runs);
        let read = self.sources.par_iter().zip(spans).map(|(source, spans)| match source {
            Stored::Held(_) => Ok(Vec::new()),
            Stored::File(source) => source.read(spans, size),
        });
        let read: Vec<Vec<LoadedSpan>> = read.collect::<Result<_, _>>()?;
        for (source, spans) in read.into_iter().enumerate() {
            for span in spans {
                window.by_chunk.entry(span.chunk).or_default().push((source, span));
            }
        }
        Ok(window)
    }

    /// Returns the rows of a chunk of a window in input order, with groups that are numbered over
    /// all slices.
    pub(crate) fn load(&self, window: &Window, chunk: u32) -> Result<LoadedChunk<'_>> {
        if let [Stored::Held(source)] = self.sources.as_slice() {
            let (held, runs) = source.chunk(chunk);
            return Ok(LoadedChunk { held, runs: runs.into(), ..LoadedChunk::default() });
        }
        let mut loaded = LoadedChunk::default();
        let mut all = Vec::new();
        for (number, stored) in window.by_chunk.get(&chunk).map_or(&[][..], Vec::as_slice) {
            let Stored::File(source) = &self.sources[*number] else {
                unreachable!("the rows of a window are read from files")
            };
            let mut base = to_u64(all.len());
            let (mut batch, runs) = self.decode_span(source, stored)?;
            let starts_line = runs.first().is_some_and(|run| run.starts_line);
            let same = source.goes_on == Some(chunk) && base > 0 && !starts_line;
            base -= u64::from(same);
            if self.columns.grouping == Grouping::Runs {
                batch.groups.iter_mut().for_each(|group| *group += base);
                all.extend(runs.into_iter().skip(usize::from(same)));
            }
            batch.segments = vec![Segment { chunk, start: 0, count: stored.span.rows }];
            loaded.read.push(batch);
        }
        loaded.runs = all.into();
        Ok(loaded)
    }

    /// Returns which data of rows was spilled besides their columns.
    fn side_data(&self) -> SideData {
        SideData::new(&self.schema, self.columns.grouping, self.records_locations)
    }

    fn decode_span(
        &self,
        source: &FileSource,
        stored: &LoadedSpan,
    ) -> Result<(RoutedBatch, Vec<Run>)> {
        let (LoadedSpan { span, bytes, .. }, columns) = (stored, &self.columns);
        let attributes = columns.attributes().count();
        if source.codes.len() != attributes {
            let (expected, found) = (format!("{attributes} attributes"), source.codes.len());
            return Err(task_error("columns of a slice with rows", expected, found));
        }
        let side_data = self.side_data();
        let rows = usize_from_u32(span.rows);
        let mut bytes = bytes.clone();
        // The parts counted in `SideData::bytes`, one after the other.
        let mut take = |stride: usize| bytes.split_to(stride * rows);
        let positions = columns.positions_column(take(columns.positions_stride()))?;
        let mut fields = Vec::new();
        for (attribute, codes) in columns.attributes().zip(&source.codes) {
            let stored = take(attribute.stride());
            let stored = match codes {
                Some(codes) => recode(&stored, codes)?,
                None => stored,
            };
            fields.push(attribute.own_column(stored)?);
        }
        let numbers = |bytes: &[u8]| -> Vec<u64> {
            bytes.as_chunks().0.iter().map(|n| u64::from_le_bytes(*n)).collect()
        };
        let mut groups = if side_data.groups { numbers(&take(8)) } else { Vec::new() };
        let mut listed = if side_data.numbers { numbers(&take(8)) } else { Vec::new() };
        let mut runs = Vec::new();
        if side_data.runs {
            let mut found = 0_u64;
            for run in ChainRun::read_all(&bytes) {
                // Numbers have 63 bits.
                if run.rows == 0 || i64::try_from(run.first + u64::from(run.rows)).is_err() {
                    let found = format!("{} from number {} on", run.rows, run.first);
                    return Err(task_error("rows", "runs of numbered rows", found));
                }
                found += u64::from(run.rows);
            }
            if found != u64::from(span.rows) {
                return Err(task_error("rows", format!("runs of {rows} rows"), found));
            }
            (groups, listed) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
            for (group, run) in (0_u64..).zip(ChainRun::read_all(&bytes)) {
                let count = usize_from_u32(run.rows);
                groups.extend(std::iter::repeat_n(group, count));
                listed.extend((run.first..).take(count));
                runs.push(run.run);
            }
        }
        let batch = RoutedBatch {
            positions,
            fields,
            groups,
            numbers: Numbers::Listed(listed),
            rows: (0..span.rows).collect(),
            segments: Vec::new(),
        };
        Ok((batch, runs))
    }
}

/// Returns the bytes that a row takes while its cell waits for its shard: columns, 32 bytes of
/// bookkeeping, and its share of the links. `elements` are their count, vertices per element, and
/// attribute bytes per element.
pub(crate) fn row_bytes(
    columns: &Columns,
    vertices: u64,
    (elements, width, attribute_bytes): (u64, usize, usize),
) -> u64 {
    // Saturates above any limit.
    let columns = to_u64(columns.stride()).saturating_add(32);
    let links = elements.saturating_mul(to_u64(width * 8 + attribute_bytes));
    columns.saturating_add(links.div_ceil(vertices.max(1)))
}

/// Below this, memory does not bound the chunks of a store.
const MIN_MEMORY: u64 = 1 << 20;

/// The columns of all slices, and for each slice the merged codes of its text codes.
type Codes = Vec<Vec<Option<Vec<u32>>>>;

fn columns(kind: Kind, axes: u32, slices: &mut [Slice]) -> Result<(Option<Columns>, Codes)> {
    if let [Slice { data: SliceData::Held(_), columns, .. }] = slices {
        return Ok((columns.take(), vec![Vec::new()]));
    }
    let mut found: Option<(Columns, Columns)> = None; // without texts, and with all of them
    let mut codes = Vec::with_capacity(slices.len());
    for slice in slices {
        let Some(columns) = &mut slice.columns else {
            codes.push(Vec::new());
            continue;
        };
        let texts = columns.take_texts(axes)?;
        let (first, merged) = found.get_or_insert_with(|| (columns.clone(), columns.clone()));
        if first != columns {
            let expected = "the same in every part of the input";
            return Err(unfit_error(kind, "the columns", expected, "others"));
        }
        let learnt = merged.attributes_mut().zip(texts);
        codes.push(learnt.map(|(to, texts)| to.merge_texts(texts)).collect::<Result<_>>()?);
    }
    Ok((found.map(|(_, columns)| columns), codes))
}

/// Returns the description of elements in all slices.
fn elements(kind: Kind, slices: &mut [Slice]) -> Result<(usize, Vec<Attribute>)> {
    if let [Slice { data: SliceData::Held(_), width, element_attributes, .. }] = slices {
        return Ok((*width, std::mem::take(element_attributes)));
    }
    let mut with = slices.iter().filter(|slice| slice.elements > 0);
    let Some(first) = with.next() else {
        let described = slices.iter().find(|slice| slice.width > 0);
        return Ok((described.map_or(0, |slice| slice.width), Vec::new())); // 0 without elements
    };
    check_width(kind, first.width)?;
    for slice in with {
        let same = (slice.width, &slice.element_attributes);
        if same != (first.width, &first.element_attributes) {
            let expected = "the same in every part of the input";
            return Err(unfit_error(kind, "the elements", expected, "others"));
        }
    }
    let (width, mut attributes) = (first.width, first.element_attributes.clone());
    attributes.iter_mut().try_for_each(|attribute| attribute.take_texts().map(drop))?;
    Ok((width, attributes))
}

/// Converts the codes of a slice to merged codes.
fn recode(stored: &[u8], codes: &[u32]) -> Result<Bytes> {
    let mut bytes = Vec::with_capacity(stored.len());
    for stored_code in stored.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)) {
        let code = codes.get(usize_from_u32(stored_code)).ok_or_else(|| {
            let expected = format!("codes below {}", codes.len());
            task_error("texts of a slice", expected, stored_code)
        })?;
        bytes.extend_from_slice(&code.to_le_bytes());
    }
    Ok(bytes.into())
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;

    use zvf_format::grid::ChunkShape;
    use zvf_metadata::{Axis, Dtype};
    use zvf_model::{Batch, Column, Elements, ObjectId, Parts};

    use super::*;
    use crate::ingest::Ingest;
    use crate::stages::Target;

    /// Returns vertices at these positions, in chunks of 10, each joined to the previous one: in
    /// one chain, or by edges.
    pub(crate) fn merge(kind: Kind, places: &[f32], target: &Target) -> MergedSlices {
        let (options, chunk) = (WriteOptions::default(), ChunkShape::new(&[10.0]).unwrap());
        let schema = Schema::new(kind, Axis::spatial(1).unwrap(), chunk).unwrap();
        let bytes: Vec<u8> = places.iter().flat_map(|place| place.to_le_bytes()).collect();
        let batch = Batch::new(kind, Column::new(Dtype::FLOAT32, 1, bytes.into()).unwrap());
        let batch = if kind.is_chain() {
            let parts = Parts::new(vec![0, places.len()], vec![ObjectId(7)]).unwrap();
            batch.with_parts(parts).unwrap()
        } else {
            let edges = (1..places.len()).flat_map(|vertex| [vertex, vertex - 1]).collect();
            batch.with_elements(Elements::new(2, edges).unwrap()).unwrap()
        };
        let mut ingest = Ingest::new(schema.clone(), &options);
        ingest.push(&batch, &[]).unwrap();
        let slices = vec![ingest.take_slice(target).unwrap()];
        let stem = match target {
            Target::Memory => None,
            Target::Files(stem) => Some(stem.with_file_name("merged")),
        };
        MergedSlices::from_slices(&schema, &options, slices, stem.as_deref()).unwrap()
    }

    #[test]
    fn runs_that_are_not_those_of_the_rows_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let target = Target::Files(folder.path().join("slice"));
        let merged = merge(Kind::Polyline, &[1.0, 2.0, 3.0], &target);
        let path = folder.path().join("slice.rows");
        let mut stored = fs::read(&path).unwrap();
        assert_eq!(stored.len(), 3 * 4 + 20);
        // The object and its run: the number of the first row, and the number of rows.
        for (first, rows, refused) in [
            (5, 3, ""),
            (u64::MAX - 3, 3, ""),
            (5, 2, "expected runs of 3 rows, found 2"),
            (5, u32::MAX, "expected runs of 3 rows, found 4294967295"),
            (5, 0, "expected runs of numbered rows, found 0 from number 5 on"),
            (
                u64::MAX,
                3,
                "expected runs of numbered rows, found 3 from number 9223372036854775807 on",
            ),
        ] {
            stored.truncate(20);
            stored.extend([&first.to_le_bytes()[..], &rows.to_le_bytes()].concat());
            fs::write(&path, &stored).unwrap();
            let window = merged.window(&merged.order.chunks).unwrap();
            match merged.load(&window, 0) {
                Ok(loaded) => {
                    let starts_line = first > u64::MAX / 2;
                    let expected = [Run { object: 7, starts_line }];
                    assert_eq!((&*loaded.runs, refused), (&expected[..], ""));
                }
                Err(error) => assert_eq!(error.sentence(), format!("rows: {refused}")),
            }
        }
    }

    #[test]
    fn rows_of_a_slice_without_columns_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let target = Target::Files(folder.path().join("slice"));
        let mut merged = merge(Kind::Polyline, &[1.0], &target);
        if let [Stored::File(source)] = merged.sources.as_mut_slice() {
            source.codes.push(None);
        }
        let window = merged.window(&merged.order.chunks).unwrap();
        assert_eq!(
            merged.load(&window, 0).unwrap_err().sentence(),
            "columns of a slice with rows: expected 0 attributes, found 1"
        );
    }
}
