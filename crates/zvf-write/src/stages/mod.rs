//! Builds a level, step by step.
//!
//! Input is routed, and becomes a *slice* when memory is full. When all slices exist, every chunk
//! is assembled from the slices with rows of it. A step reads the output of earlier steps, writes
//! cells or output for later steps, and returns a small record. Steps of one kind are independent,
//! so they may run in any order and on any machine.
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
//! Output is in memory or in files ([`StepOutput`], and likewise slices, locations and joined
//! links). Input that fits in memory is one slice, which stays there unchanged, and no step writes
//! a file. Otherwise all steps write files; memory is then used for a window of chunks and a few
//! sorted runs, each a fixed part of the limit, and for a few numbers per chunk. The cells are the
//! same in both cases, and repeating a step writes the same bytes.
//!
//! One process runs all steps ([`Stages`]), with files in a scratch folder; or several processes
//! share a folder and a journal (`tasks`).

mod cells;
mod file;
mod index;
mod join;
mod link_cells;
mod links;
mod lists;
mod merged_slices;
mod places;
mod slice;
mod sorted;
mod source;
mod spans;
mod step_output;

use std::collections::BTreeSet;
use std::path::Path;

use zvf_error::{Error, Result};
use zvf_format::key::Offsets;
use zvf_format::num::to_u64;
use zvf_metadata::{LevelDoc, Object, path_segment};
use zvf_model::Kind;
use zvf_store::{Build, CellSink};

pub(crate) use cells::{ArrayCounts, CellsOutput, CellsRecord};
pub(crate) use file::{Output, WrittenFile};
pub(crate) use index::{Ids, VERTEX_COUNT};
pub(crate) use join::{JoinRecord, JoinedLinks};
pub(crate) use links::LinksRecord;
pub(crate) use merged_slices::MergedSlices;
pub(crate) use slice::{FieldRecord, HeldRows, HeldSlice, SideData, Slice, SliceData};
pub(crate) use slice::{sum, write_elements, write_field, write_ids, write_rows};
#[cfg(test)]
pub(crate) use sorted::sort_key;
pub(crate) use sorted::{
    BLOCK_KEY, Destination, ExternalSorter, KWayMerge, MAX_BLOCK, Runs, number_u64, sort_key_u64,
};
pub(crate) use step_output::{StepOutput, Target};

use crate::cells::{Arrays, Frame};
use crate::error::{LostCells, task_error};
use crate::group_table::GroupTable;
use crate::level::LevelDescription;
use crate::level_columns::Grouping;
use crate::report::{Report, WriteNotice};
use crate::schema::Schema;

/// The records of all steps of a level, and their output.
#[derive(Default)]
pub(crate) struct Stages {
    pub(crate) cells: Vec<(CellsRecord, CellsOutput)>,
    pub(crate) joins: Vec<(JoinRecord, JoinedLinks)>,
    pub(crate) links: Vec<LinksRecord>,
    /// The arrays, if this process wrote all of them; otherwise the records describe each.
    pub(crate) open: Option<Vec<CellSink>>,
}

/// The data of a written level for the root document.
pub(crate) struct Outcome {
    pub(crate) schema: Schema,
    pub(crate) bounds: [Vec<f64>; 2],
    pub(crate) grouped: bool,
    /// Whether manifests are dense, and whether the columns that tools expect were written.
    pub(crate) dense: bool,
    pub(crate) keeps_columns: bool,
    pub(crate) explicit: bool,
    pub(crate) report: Report,
    /// The ids of all objects.
    pub(crate) ids: Ids,
    /// The locations of vertices, by running number, if requested.
    pub(crate) placed: Option<StepOutput>,
}

/// Returns the number of `join` steps: one per slice with links, or none.
pub(crate) fn joins(merged: &MergedSlices) -> usize {
    if merged.schema.kind.has_links() {
        merged.slices.len()
    } else {
        usize::from(merged.schema.kind.is_chain())
    }
}

/// Runs the `join` step of this number.
pub(crate) fn join(
    merged: &MergedSlices,
    number: usize,
    cells: &[&CellsOutput],
    target: &Target,
) -> Result<(JoinRecord, JoinedLinks)> {
    if !merged.schema.kind.has_links() {
        return join::chains(merged, cells, target);
    }
    let Some(slice) = merged.slices.get(number) else {
        return Err(task_error("join", merged.slices.len(), number));
    };
    let before = merged.slices.iter().take(number).map(|slice| slice.elements);
    join::elements(merged, slice, before.sum::<u64>(), cells, target)
}

/// Runs the `cells` step of a share, and returns the arrays that it wrote to.
pub(crate) fn cells(
    merged: &MergedSlices,
    build: &Build,
    (share, shares): (u32, u32),
    target: &Target,
) -> Result<(CellsRecord, CellsOutput, Vec<CellSink>)> {
    cells::run(merged, build, merged.share(share, shares), target)
}

/// Runs the `links` step of a share, and returns the arrays that it wrote to.
pub(crate) fn links(
    merged: &MergedSlices,
    build: &Build,
    (share, shares): (u32, u32),
    cells: &CellsOutput,
    joined: &[&JoinedLinks],
) -> Result<(LinksRecord, Vec<CellSink>)> {
    links::run(merged, build, merged.share(share, shares), cells, joined)
}

impl Stages {
    /// Runs all steps, in memory or in `folder`.
    pub(crate) fn run(merged: &MergedSlices, build: &Build, folder: Option<&Path>) -> Result<Self> {
        let target = |step: &str| match folder {
            None => Target::Memory,
            Some(folder) => Target::Files(folder.join(step)),
        };
        let (record, left, mut open) = cells(merged, build, (0, 1), &target("cells"))?;
        let mut all = Self::default();
        for number in 0..joins(merged) {
            all.joins.push(join(merged, number, &[&left], &target(&format!("join-{number}")))?);
        }
        if !all.joins.is_empty() {
            let joined: Vec<&JoinedLinks> = all.joins.iter().map(|(_, joined)| joined).collect();
            let (record, sinks) = links(merged, build, (0, 1), &left, &joined)?;
            all.links.push(record);
            open.extend(sinks);
        }
        all.cells.push((record, left));
        Ok(Self { open: Some(open), ..all })
    }

    /// Compares the output with the input, and writes the common data: presence lists, objects, the
    /// level. `folder` is for data that does not fit in memory.
    pub(crate) async fn finish(
        mut self,
        merged: &MergedSlices,
        build: &Build,
        groups: &GroupTable,
        folder: Option<&Path>,
        edit_level: impl FnOnce(&mut LevelDoc),
    ) -> Result<Outcome> {
        self.check(merged)?;
        index::check_roots(merged)?;
        let frame = merged.frame(build);
        let grouping = merged.columns.grouping;
        let grouped = merged.schema.kind.has_links()
            && !merged.options.compat
            && self.links.iter().all(|record| record.grouped);
        let step = link_cells::Step::new(merged, &frame, None)?;
        let total = |field: &dyn Fn(&LinksRecord) -> u64| self.links.iter().map(field).sum::<u64>();
        let inside = total(&|record| record.inside);
        let rows = total(&|record| record.rows) + inside;
        let links = inside + self.joins.iter().map(|(record, _)| record.between).sum::<u64>();
        let segments: BTreeSet<Vec<Vec<i64>>> =
            self.links.iter().flat_map(|record| &record.segments).cloned().collect();
        let open = match self.open.take() {
            Some(open) => open,
            None => self.reopen(merged, (&frame, &step), (inside > 0, &segments)).await?,
        };
        for sink in open {
            let states_groups = grouped && step.is_within_chunks(&frame, &sink);
            sink.finish(|attributes| state_groups(attributes, states_groups)).await?;
        }
        if step.elements || links > 0 {
            step.links.describe(&frame, links, rows).await?;
        }
        let target = folder.map_or(Target::Memory, |folder| Target::Files(folder.join("all")));
        let left: Vec<&CellsOutput> = self.cells.iter().map(|(_, left)| left).collect();
        let ids = Ids::gather(merged, &left, &target)?;
        let bins = grouping == Grouping::Bins;
        let points = merged.schema.kind == Kind::PointCloud;
        let indexed = !(bins && points && ids.count == 0 && groups.is_empty());
        if indexed {
            let (frame, ids, cells, target) = (&frame, &ids, &left, &target);
            index::IndexStep { merged, frame, ids, cells, target }.write().await?;
            groups.write_at(build, merged.geometry, merged.schema.kind).await?;
        }
        let description = LevelDescription {
            schema: &merged.schema,
            columns: &merged.columns,
            vertices: merged.vertex_count(),
            indexed,
            owners: !bins && !merged.options.compat, // and segments
            links: merged.schema.kind.has_links() || links > 0,
            grouped,
            explicit: merged.has_explicit_edges(),
        };
        description.write(build, merged.geometry, edit_level).await?;
        let sum = |field: &dyn Fn(&CellsRecord) -> u64| {
            self.cells.iter().map(|(record, _)| field(record)).sum::<u64>()
        };
        let files = merged.slices.iter().flat_map(|slice| &slice.files);
        let sparse = merged.schema.kind.is_chain() && ids.sparse;
        let mut notices = Vec::from_iter(sparse.then_some(WriteNotice::SparseIds));
        let columns = merged.columns.attributes();
        let object_fields = merged.slices.iter().flat_map(|slice| &slice.fields);
        let mut names = columns
            .map(|column| &*column.name)
            .chain(object_fields.map(|field| field.name.as_str()))
            .chain(merged.element_attributes.iter().map(|column| &*column.name))
            .chain(groups.field_names());
        notices.extend(
            names.any(|name| path_segment(name) != name).then_some(WriteNotice::EscapedNames),
        );
        let report = Report {
            vertices: merged.vertex_count(),
            left_out: merged.slices.iter().map(|slice| slice.left_out).sum::<u64>(),
            chunks: to_u64(merged.table.len()),
            fragments: sum(&|record| record.fragments),
            objects: if indexed { ids.count } else { 0 },
            links,
            link_rows: rows,
            link_segments: to_u64(segments.len()),
            cell_bytes: sum(&|record| record.bytes),
            spilled_bytes: files.map(|file| file.bytes).sum::<u64>(),
            notices,
            kinds: Vec::new(),
        };
        let (schema, bounds) = (merged.schema.clone(), merged.bounds.clone());
        let left = self.cells.pop().filter(|_| merged.records_locations);
        let placed = left.map(|(_, left)| left.places.into_records());
        let explicit = merged.has_explicit_edges();
        let (dense, keeps_columns) = (merged.options.dense, merged.options.keeps_columns());
        Ok(Outcome { schema, bounds, grouped, dense, keeps_columns, explicit, report, ids, placed })
    }

    /// Checks that every input vertex and element was written.
    fn check(&self, merged: &MergedSlices) -> Result<()> {
        let same = |what: &str, expected: u64, found: u64| {
            if expected == found { Ok(()) } else { Err(task_error(what, expected, found)) }
        };
        // `same` compares the sum.
        let given = merged.slices.iter().map(|slice| slice.given.saturating_sub(slice.left_out));
        let rows = self.cells.iter().map(|(record, _)| record.rows).sum::<u64>();
        same("vertices in cells", given.sum::<u64>(), rows)?;
        let chunks = self.cells.iter().map(|(record, _)| record.chunks);
        same("chunks", to_u64(merged.table.len()), chunks.sum::<u64>())?;
        let went = merged.slices.iter().map(|slice| slice.sum).fold(0, u64::wrapping_add);
        let came = self.cells.iter().map(|(record, _)| record.sum).fold(0, u64::wrapping_add);
        same("the sum of the hashes of all positions", went, came)?;
        if merged.schema.kind.has_links() {
            let elements = merged.slices.iter().map(|slice| slice.elements);
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

    /// Opens the arrays that other processes wrote to, with all written cells, which must exist.
    async fn reopen(
        &self,
        merged: &MergedSlices,
        (frame, step): (&Frame<'_>, &link_cells::Step<'_>),
        (inside, segments): (bool, &BTreeSet<Vec<Vec<i64>>>),
    ) -> Result<Vec<CellSink>> {
        let mut sinks = Arrays::new(frame, &merged.columns)?.into_sinks();
        if step.elements {
            sinks.push(step.index(frame)?);
            sinks.extend(step.links.segment(frame, &step.zero, inside)?.into_sinks());
        }
        for offsets in segments {
            let offsets: Vec<&[i64]> = offsets.iter().map(Vec::as_slice).collect();
            let offsets = Offsets::new(frame.table.rank(), &offsets)?;
            sinks.extend(step.links.segment(frame, &offsets, true)?.into_sinks());
        }
        for sink in &sinks {
            let of_cells = self.cells.iter().flat_map(|(record, _)| &record.parts);
            let parts = of_cells.chain(self.links.iter().flat_map(|record| &record.parts));
            let parts: Vec<&ArrayCounts> = parts.filter(|part| part.path == sink.path()).collect();
            let keys: Vec<Box<str>> = parts.iter().flat_map(|part| &part.keys).cloned().collect();
            let lost = sink.find_missing(&keys).await?;
            if !lost.is_empty() {
                let array = sink.path().to_owned();
                return Err(Error::from(LostCells { array, chunks: lost }));
            }
            parts.iter().try_for_each(|part| sink.record_external(&part.keys))?;
        }
        Ok(sinks)
    }
}

/// States in the attributes of the links within chunks that they are grouped by fragment: the
/// spelling of tools, beside the statement of the level.
fn state_groups(attributes: &mut Object, states_groups: bool) {
    if states_groups {
        attributes.insert("link_groups".to_owned(), "per_vertex_fragment".into());
    }
}
