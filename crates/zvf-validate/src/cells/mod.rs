//! The cells of a level: rows, fragments and their attributes, chunk by chunk.
//!
//! ```text
//! plan.rs      what documents say of rows and columns                     M20, C30
//! chunk.rs     one chunk by itself                                        C2 to C4, C6, C7, C21, C22, C32 to C35
//! here         what only all chunks show                                  C1, C5, C8, C22, C27, C31, C35
//! ```

mod chunk;
pub(crate) mod plan;
pub(crate) mod values;

use std::collections::BTreeMap;
use std::sync::Arc;

use zvf_error::Result;
use zvf_format::fragment::FragmentIndex;
use zvf_format::key::ChunkKey;
use zvf_format::num::{saturating_usize, to_u64};
use zvf_metadata::GeometryType;
use zvf_store::Cells;

pub(crate) use self::chunk::cell_finding;
use self::chunk::{ChunkReport, check_chunk};
use self::plan::Plan;
use self::values::Extent;
use crate::array::ChunkArray;
use crate::chunks::ChunkTable;
use crate::level::LevelState;
use crate::options::Checks;
use crate::parts::Stage;
use crate::pipeline::{Cell, read, scan_cells};
use crate::rule::Rule;
use crate::rules::{C, G};
use crate::validation::Validation;

/// Checks everything about the cells of one level.
pub(crate) async fn check(run: &mut Validation, level: &mut LevelState) -> Result<()> {
    level.has_vertex_counts = crate::objects::columns::open_vertex_counts(level).await.is_some();
    let Some(plan) = Plan::new(run, level)? else { return Ok(()) };
    let Some(vertices) = level.vertices.clone() else { return Ok(()) };
    let plan = Arc::new(plan);
    let keys: Vec<ChunkKey> = vertices.keys.iter().collect();
    if keys.is_empty() {
        run.add(C[1].at(&vertices.path).expects("chunks", "at least one", "none"));
    }
    let mut totals = ChunkTotals::new(&vertices, &plan);
    totals.read(run, level, &plan, &keys).await?;
    if run.work.is_reported() {
        check_rowless_chunks(run, level, &vertices).await?;
    }
    check_attribute_bins(run, level, &keys);
    totals.check_totals(run, level, &plan);
    level.reorders = totals.reorders;
    level.chunks = Arc::new(totals.chunks);
    Ok(())
}

/// Totals over all chunks.
struct ChunkTotals {
    chunks: ChunkTable,
    extent: Extent,
    /// Row widths that differ from the declared one, by column: how often, and where first.
    widths: BTreeMap<(bool, usize), Widths>,
    /// Chunks whose fragments do not tile: how many, and the first of them.
    untiled: (u64, Option<ChunkKey>),
    reorders: bool,
}

#[derive(Default)]
struct Widths {
    fitting: u64,
    /// The number of cells with rows of each width, and the first of them.
    found: BTreeMap<u64, (u64, Option<ChunkKey>)>,
}

impl ChunkTotals {
    fn new(vertices: &ChunkArray, plan: &Plan) -> Self {
        let mut chunks = ChunkTable::new(&vertices.keys);
        chunks.ends = plan.keeps_ends.then(Vec::new);
        chunks.owners = plan.fragment_columns.iter().any(|column| column.owner).then(Vec::new);
        chunks.segments = plan.fragment_columns.iter().any(|column| column.segment).then(Vec::new);
        Self {
            chunks,
            extent: Extent::default(),
            widths: BTreeMap::new(),
            untiled: (0, None),
            reorders: false,
        }
    }

    async fn read(
        &mut self,
        run: &mut Validation,
        level: &LevelState,
        plan: &Arc<Plan>,
        keys: &[ChunkKey],
    ) -> Result<()> {
        let fragments = level.fragments.as_ref();
        let arrays = level.vertices.iter().chain(fragments);
        let arrays = arrays
            .chain(Plan::planned_arrays(&plan.vertex_columns, &level.vertex_columns))
            .chain(Plan::planned_arrays(&plan.fragment_columns, &level.fragment_columns));
        let arrays: Vec<&Cells> = arrays.map(|array| &array.cells).collect();
        let listed = fragments.map(|array| Arc::clone(&array.keys));
        let shared = Arc::clone(plan);
        let check = move |key: &ChunkKey, cells: &[Cell]| {
            let is_listed = listed.as_ref().is_some_and(|listed| listed.find(key).is_some());
            check_chunk(&shared, key, is_listed, cells)
        };
        let take = |run: &mut Validation, key: &ChunkKey, report| match report {
            Some(report) => self.take(run, plan, key, report),
            None => self.chunks.push(None, None),
        };
        scan_cells((run, Stage::Cells, &plan.vertices), &arrays, keys, check, take).await
    }

    /// Adds the report of a chunk.
    fn take(&mut self, run: &mut Validation, plan: &Plan, key: &ChunkKey, report: ChunkReport) {
        let chunks = &mut self.chunks;
        let (fragments_before, rows_before) = (chunks.total_fragments(), chunks.total_rows());
        chunks.push(report.rows, report.fragments);
        let rows = chunks.total_rows() - rows_before;
        if let Some(claimed) = report.rows.filter(|claimed| *claimed != rows) {
            let finding = C[21].at(&plan.fragments).in_cell(key);
            run.add(finding.expects("rows", "fewer than 2^64 in all chunks", claimed));
        }
        let fits =
            run.fragments.saturating_add(chunks.total_fragments()) <= run.options.max_kept_items; // only compared
        // A table that fits in memory is small.
        let n = saturating_usize(chunks.total_fragments() - fragments_before);
        append_or_drop(&mut chunks.ends, report.ends, n, fits);
        append_or_drop(&mut chunks.owners, report.owners, n, fits);
        append_or_drop(&mut chunks.segments, report.segments, n, fits);
        self.extent = self.extent.union(&report.extent);
        self.reorders |= report.reorders;
        for (at, of_fragments) in report.fits {
            let widths = self.widths.entry((of_fragments, at)).or_default();
            widths.fitting += 1;
        }
        for (at, of_fragments, rows, values) in report.misfits {
            let widths = self.widths.entry((of_fragments, at)).or_default();
            let width = values.checked_div(rows).unwrap_or(0); // without rows any width
            let (count, first) = widths.found.entry(width).or_default();
            *count += 1;
            first.get_or_insert(*key);
        }
        if !report.tiles {
            self.untiled.0 += 1;
            self.untiled.1.get_or_insert(*key);
        }
        let checked = &mut run.checked;
        checked.cells += report.cells;
        checked.bytes += report.bytes;
        // With opaque positions this is only claimed; a number that overflows is not counted.
        checked.rows = checked.rows.checked_add(rows).unwrap_or(checked.rows);
        run.found.absorb(report.found);
    }

    fn check_totals(&mut self, run: &mut Validation, level: &LevelState, plan: &Plan) {
        self.check_tiling(run, plan);
        self.check_widths(run, plan);
        self.check_vertex_count(run, level);
        self.check_bounds(run, plan);
        self.report_skipped(run, level, plan);
    }

    /// Checks C5: reports the first chunk of a level that does not tile.
    fn check_tiling(&self, run: &mut Validation, plan: &Plan) {
        let (n, Some(first)) = &self.untiled else { return };
        if plan.tile {
            let found = format!("other fragments in {n} chunks");
            let expected = "ranges that cover all rows in order";
            let finding = C[5].at(&plan.fragments);
            run.add(finding.expects("fragments_tile", expected, found).in_cell(first));
        }
    }

    /// Reports the rules that need tables by fragment, if there are too many fragments.
    fn report_skipped(&mut self, run: &mut Validation, level: &LevelState, plan: &Plan) {
        let found = self.chunks.total_fragments();
        let max_kept = run.options.max_kept_items.saturating_sub(run.fragments);
        if found <= max_kept {
            run.fragments += found;
            self.chunks.is_kept = true;
            return;
        }
        let owner = plan.fragment_columns.iter().any(|column| column.owner);
        let segment = plan.fragment_columns.iter().any(|column| column.segment);
        let kinds = level.known_kinds();
        let has = |kind| kinds.contains(&kind);
        let line = has(GeometryType::Line);
        let along = line || has(GeometryType::Polyline) || has(GeometryType::Streamline);
        let rules = [
            (C[25], level.has_objects()),
            (C[29], owner),
            (C[45], level.has_vertex_counts),
            (C[46], segment),
            (G[6], has(GeometryType::Skeleton)),
            (G[7], along),
            (G[8], line),
            (G[10], level.node.meta().fragment_link_groups),
        ];
        for (rule, _) in rules.into_iter().filter(|(_, applies)| *applies) {
            run.report_too_many(rule, &plan.fragments, "fragments", max_kept, found);
        }
    }

    /// Checks C22: rows of another width than declared. If all cells agree on one width, the declaration is wrong.
    fn check_widths(&self, run: &mut Validation, plan: &Plan) {
        for ((of_fragments, at), widths) in &self.widths {
            let columns = if *of_fragments { &plan.fragment_columns } else { &plan.vertex_columns };
            let Some(column) = columns.get(*at) else { continue };
            let is_uniform = widths.found.len() == 1 && widths.fitting == 0;
            for (width, (count, first)) in &widths.found {
                let finding = C[22].at(&column.path);
                let expected = format!("rows of {}", column.width);
                let found = format!("rows of {width} in {count} cells");
                let finding = finding.expects("values", expected, found);
                if is_uniform && !column.named {
                    run.add(finding.warning());
                } else if let Some(key) = first {
                    run.add(finding.in_cell(key));
                }
            }
        }
    }

    /// Checks C8: the number of rows.
    fn check_vertex_count(&self, run: &mut Validation, level: &LevelState) {
        let meta = level.node.meta();
        if !self.chunks.is_whole() || meta.vertex_count < 0 || level.opaque {
            return;
        }
        let (stated, right) = (meta.vertex_count.unsigned_abs(), self.chunks.total_rows());
        if stated == right {
            return;
        }
        let finding = C[8].at(level.path("zarr.json"));
        let finding = finding.counts("zarr_vectors_level.vertex_count", right, stated);
        // An edited level has no flag and the old count, which readers do not need.
        let edited = !meta.fragments_tile || self.untiled.0 > 0;
        let old = run.store.version().numbers() < FIRST_OF_C;
        run.add(if stated == 0 || old || edited { finding.warning() } else { finding });
    }

    /// Checks C31: positions lie within the bounds.
    fn check_bounds(&self, run: &mut Validation, plan: &Plan) {
        let [low, high] = &plan.bounds;
        if plan.positions.is_none() || self.chunks.total_rows() == 0 {
            return;
        }
        if !self.extent.is_in(low, high) {
            let axes = low.len().min(self.extent.low.len());
            let found =
                format!("{:?} to {:?}", &self.extent.low[..axes], &self.extent.high[..axes]);
            run.add(C[31].at(&plan.vertices).expects(
                "extent",
                format!("within {low:?} to {high:?}"),
                found,
            ));
        }
    }
}

/// Appends `more`, filled up to `n` items; drops the table if it does not fit.
fn append_or_drop<T: Clone + Default>(
    table: &mut Option<Vec<T>>,
    more: Vec<T>,
    n: usize,
    fits: bool,
) {
    if !fits {
        *table = None;
    }
    if let Some(table) = table {
        let mut more = more;
        more.resize(n, T::default());
        table.extend(more);
    }
}

/// Checks C35, C22: cells of chunks without rows. An index without fragments is equivalent to no
/// index.
async fn check_rowless_chunks(
    run: &mut Validation,
    level: &LevelState,
    vertices: &ChunkArray,
) -> Result<()> {
    let extra = |array: &ChunkArray| -> Vec<ChunkKey> {
        array.keys.iter().filter(|key| vertices.keys.find(key).is_none()).collect()
    };
    let finding = |rule: &'static Rule, array: &ChunkArray, key: &ChunkKey| {
        let (expected, found) = ("one of a chunk that has rows", "one of a chunk that has none");
        rule.at(&array.path).expects("cell", expected, found).in_cell(key)
    };
    if let Some(array) = &level.fragments {
        for keys in extra(array).chunks(BATCH_CELLS) {
            let all = Checks::default();
            for (key, cells) in read(&all, &[&array.cells], keys).await?.0 {
                let is_empty = |cell: &Cell| match cell {
                    Ok(Some(blob)) => FragmentIndex::parse(blob).is_ok_and(|i| i.extent() == 0),
                    Ok(None) | Err(_) => false,
                };
                if !cells.is_some_and(|cells| cells.iter().all(is_empty)) {
                    run.add(finding(C[35], array, &key));
                }
            }
        }
    }
    for array in level.vertex_columns.iter().chain(&level.fragment_columns) {
        for key in extra(array) {
            run.add(finding(C[22], array, &key));
        }
    }
    Ok(())
}

/// Cells without rows that are read at once.
const BATCH_CELLS: usize = 256;

/// Checks C27: a value for each leading index.
fn check_attribute_bins(run: &mut Validation, level: &LevelState, keys: &[ChunkKey]) {
    let meta = level.node.meta();
    if meta.chunk_attribute_name.is_none() {
        return;
    }
    let values = to_u64(meta.chunk_attribute_values.as_ref().map_or(0, Vec::len));
    let bins = keys.iter().filter_map(|key| key.components().first().copied());
    let bad =
        bins.filter(|bin| u64::try_from(*bin).is_ok_and(|bin| bin >= values) || *bin < 0).max();
    if let Some(bin) = bad {
        let expected = format!("a value for bin {bin}");
        run.add(C[27].at(level.path("zarr.json")).expects(
            "chunk_attribute_values",
            expected,
            format!("{values} values"),
        ));
    }
}

const FIRST_OF_C: [u32; 3] = [0, 9, 0];

/// Returns the path of a column of fragments that can be compared with the manifests.
pub(crate) fn column_path(level: &LevelState, name: &str) -> Option<String> {
    let path = level.path(&format!("fragment_attributes/{name}"));
    level.fragment_columns.iter().any(|array| array.path == path).then_some(path)
}
