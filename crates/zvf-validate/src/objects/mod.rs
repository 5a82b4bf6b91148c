//! Objects: the index and its ids, every manifest, attributes, groups.
//!
//! ```text
//! index.rs        documents, ids, counts                         C24, M20, M21, S17, P7 needs the ids
//! dense.rs        manifests that are numbers                     C24
//! manifest.rs     one manifest                                   C9, C45, G6, G8
//! here            totals over all manifests                      C24, C25, C29, C46, G7
//! columns.rs      attributes of objects and groups               C2, C23
//! groups.rs       members of groups                              C26, C38
//! ```

pub(crate) mod columns;
mod dense;
pub(crate) mod groups;
mod index;
mod manifest;

use std::fmt::Display;
use std::ops::Range;
use std::sync::Arc;

use futures_util::FutureExt as _;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use zvf_error::Result;
use zvf_format::num::{checked_usize, saturating_u32, saturating_usize, to_u64, usize_from_u32};
use zvf_metadata::{DtypeKind, GeometryType};

use self::index::Index;
use self::manifest::{Entry, ManifestChecks, RowsReport, check_rows};
use crate::finding::{Finding, is_content};
use crate::findings::Findings;
use crate::level::LevelState;
use crate::parts::Stage;
use crate::pipeline::scan;
use crate::rules::{C, G, P};
use crate::validation::Validation;

/// Checks the objects of one level.
pub(crate) async fn check(run: &mut Validation, level: &mut LevelState) -> Result<()> {
    if let Some(index) = index::open(run, level).await? {
        index::ids(run, level, &index).await?;
        if level.objects.present_rows.is_some() {
            reserve_rows(run, level, &index);
        }
        ManifestTotals::new(run, level, &index).check(run, level, &index).await?;
    }
    if !run.work.is_reported() {
        return Ok(());
    }
    columns::check(run, level, "object_attributes", level.objects.rows).await?;
    groups::check(run, level).await
}

/// Reserves memory for the rows with geometry, or reports that there are too many.
fn reserve_rows(run: &mut Validation, level: &mut LevelState, index: &Index) {
    let max_kept = run.options.max_kept_items.saturating_sub(run.ids);
    if index.rows <= max_kept {
        run.ids += index.rows;
    } else {
        level.objects.present_rows = None;
        run.report_too_many(P[11], &level.path("object_index"), "objects", max_kept, index.rows);
    }
}

/// The report of a batch of rows.
#[derive(Serialize, Deserialize)]
enum BatchReport {
    Rows(Vec<RowsReport>),
    /// The rows could not be read.
    Unread(Findings),
}

/// Totals over all manifests.
struct ManifestTotals {
    present: u64,
    empty: u64,
    /// The rows with geometry, if levels are compared by them.
    present_rows: Vec<u64>,
    /// For each fragment, the row that names it plus 1; 0 for none.
    owners: Option<Vec<u32>>,
    bridges: Option<Vec<u64>>,
    /// The first fragment with two owners, and how many there are.
    shared: Option<(usize, u64, u64)>,
}

impl ManifestTotals {
    fn new(run: &mut Validation, level: &mut LevelState, index: &Index) -> Self {
        let fragments = level.chunks.total_fragments();
        let rules = [C[25], C[29], C[46]];
        let is_enabled = run.options.takes_all() && run.options.wants_any(&rules);
        let mut owners = is_enabled && level.chunks.is_kept;
        let max_rows = u64::from(SEVERAL) - 1; // the numbers between "none" and "several"
        if owners && index.rows > max_rows {
            owners = false;
            for rule in rules {
                run.report_too_many(rule, &index.manifests.path(), "objects", max_rows, index.rows);
            }
        }
        let bridges = std::mem::take(&mut level.linked.bridges);
        Self {
            present: 0,
            empty: 0,
            present_rows: Vec::new(),
            owners: owners.then(|| vec![0; saturating_usize(fragments)]), // these are kept
            bridges: (!bridges.is_empty() && run.options.takes_all()).then_some(bridges),
            shared: None,
        }
    }

    async fn check(
        mut self,
        run: &mut Validation,
        level: &mut LevelState,
        index: &Index,
    ) -> Result<()> {
        let total = index.rows;
        let Some(count) = checked_usize(total) else {
            let path = index.manifests.path();
            run.report_too_many(C[9], &path, "objects", to_u64(usize::MAX), total);
            level.objects.present_rows = None;
            return Ok(());
        };
        let vertex_counts = read_vertex_counts(run, level, index.rows).await;
        // A line inside one bin has one row.
        let shared = level.node.meta().shared_fragments;
        let checks = Arc::new(ManifestChecks {
            fresh: run.found.new_empty(),
            path: index.manifests.path(),
            sid_ndim: index.sid_ndim,
            chunks: Arc::clone(&level.chunks),
            parents: match level.chunks.is_whole() {
                true => std::mem::take(&mut level.linked.parents),
                false => Vec::new(),
            },
            lines: level.is_only(&[GeometryType::Line]) && level.chunks.ends.is_some() && !shared,
            bridges: self.bridges.is_some(),
            claims: self.owners.is_some(),
            names: run.options.takes_all() && level.objects.present_rows.is_some(),
            vertex_counts: (level.path(columns::VERTEX_COUNT), vertex_counts),
        });
        let options = run.options.clone();
        let read_batch = |range: Range<usize>| {
            let rows = to_u64(range.start)..to_u64(range.end);
            let options = &options;
            async move {
                // A chunk of index rows that cannot be read is reported once, without its rows.
                let entries = match index.manifests.range(rows.clone()).await {
                    Err(error) if is_content(&error) => return Ok((Err(error), 0)),
                    entries => entries?,
                };
                let bytes = entries.iter().map(dense::weight).sum::<u64>();
                let selected = rows.zip(entries).filter(|(row, _)| options.takes_row(*row));
                Ok((Ok(selected.collect::<Vec<(u64, Entry)>>()), bytes + ROW_OVERHEAD_BYTES))
            }
            .boxed()
        };
        let shared = Arc::clone(&checks);
        let check_batch = move |rows: Result<Vec<(u64, Entry)>>| match rows {
            Ok(rows) => BatchReport::Rows(
                rows.par_chunks(BATCH_ROWS).map(|rows| check_rows(&shared, rows)).collect(),
            ),
            Err(error) => {
                let mut found = shared.fresh.new_empty();
                found.add(Finding::from_store(C[2], &shared.path, &error));
                BatchReport::Unread(found)
            }
        };
        let mut unread = false;
        let work = run.work.clone();
        let take_batch = |range: Range<usize>, batch: BatchReport| {
            match batch {
                BatchReport::Rows(reports) => {
                    reports.into_iter().for_each(|report| self.take(run, report));
                }
                BatchReport::Unread(found) if unread => drop(found),
                BatchReport::Unread(found) => {
                    unread = true;
                    run.found.absorb(found);
                }
            }
            run.step(&checks.path, to_u64(range.end), total)
        };
        let place = (&work, Stage::Objects, checks.path.as_str());
        scan(place, count, read_batch, check_batch, take_batch).await?;
        run.checked.objects += total;
        if unread {
            level.objects.present_rows = None;
        } else if let Some(present_rows) = &mut level.objects.present_rows {
            *present_rows = std::mem::take(&mut self.present_rows);
        }
        if !unread && run.options.takes_all() && level.chunks.segments.is_some() {
            let segments = read_segments(level, index.rows).await;
            self.check_segments(run, level, segments.as_deref());
        }
        self.check_totals(run, level, index, unread);
        Ok(())
    }

    /// Adds the report of a run of rows.
    fn take(&mut self, run: &mut Validation, report: RowsReport) {
        self.present += report.present;
        self.empty += report.empty;
        run.checked.bytes += report.bytes;
        self.present_rows.extend(report.named);
        if let Some(owners) = &mut self.owners {
            for (fragment, row) in report.claims {
                let Some(owner) = owners.get_mut(fragment) else { continue };
                let row = saturating_u32(row.saturating_add(1)); // fits: see `new`
                if *owner == 0 || *owner == row {
                    *owner = row;
                } else {
                    let (_, _, n) = self.shared.get_or_insert((fragment, row.into(), 0));
                    *n += 1;
                    *owner = SEVERAL;
                }
            }
        }
        if let Some(bridges) = &mut self.bridges {
            for (chunk, sum) in report.bridges {
                if let Some(total) = bridges.get_mut(chunk) {
                    *total = total.wrapping_sub(sum);
                }
            }
        }
        run.found.absorb(report.found);
    }

    fn check_totals(self, run: &mut Validation, level: &LevelState, index: &Index, unread: bool) {
        if unread || !run.options.takes_all() {
            return;
        }
        if let Some(stated) =
            index.doc.num_present.filter(|stated| *stated != self.present && index.has_ids)
        {
            run.add(match self.empty {
                0 => {
                    C[24].at(level.path("object_index")).counts("num_present", self.present, stated)
                }
                // Their chunk may be lost: then the stated number is all that is known of them.
                _ => C[24].at(index.manifests.path()).expects("manifests", stated, self.present),
            });
        }
        self.check_shared(run, level, index);
        self.check_owners(run, level);
        self.check_bridges(run, level);
    }

    /// Checks C25: fragments of two objects. Reports the second row.
    fn check_shared(&self, run: &mut Validation, level: &LevelState, index: &Index) {
        let Some((fragment, row, n)) = self.shared.filter(|_| !level.node.meta().shared_fragments)
        else {
            return;
        };
        let finding = C[25].at(index.manifests.path());
        let finding = finding.in_row(row - 1);
        let place = level.chunks.locate(fragment);
        let place =
            place.map_or_else(String::new, |(key, n)| format!(", first fragment {n} of {key}"));
        run.add(finding.expects(
            "fragments",
            "one object each",
            format!("{n} of two or more{place}"),
        ));
    }

    /// Checks C29: the owner column.
    fn check_owners(&self, run: &mut Validation, level: &LevelState) {
        let (Some(owners), Some(stated)) = (&self.owners, &level.chunks.owners) else { return };
        let Some(path) = crate::cells::column_path(level, "object_id") else { return };
        if owners.len() != stated.len() {
            return; // the column has other lengths, which is another finding
        }
        let id = |owner: u32| -> i64 {
            match owner {
                0 => NO_OWNER,
                SEVERAL => SHARED_OWNER,
                row => {
                    let ids = level.objects.ids.as_ref();
                    let by_column = ids.and_then(|ids| ids.get(usize_from_u32(row - 1)).copied());
                    by_column.unwrap_or(i64::from(row) - 1)
                }
            }
        };
        if level.objects.has_ids && level.objects.ids.is_none() {
            return;
        }
        let compared = owners.iter().zip(stated).map(|(owner, stated)| (id(*owner), *stated));
        let bad = compared.enumerate().filter(|(_, (right, stated))| right != stated);
        report_column(run, level, (C[29].at(path), "owner"), bad);
    }

    /// Checks C46: the segment of a fragment with one object. `segments` are those of a column of
    /// objects; without it, the row is the segment, and other writers take the id.
    fn check_segments(&self, run: &mut Validation, level: &LevelState, segments: Option<&[u64]>) {
        let (Some(owners), Some(stated)) = (&self.owners, &level.chunks.segments) else { return };
        let Some(path) = crate::cells::column_path(level, SEGMENT) else { return };
        let right = |owner: u32| match segments {
            Some(segments) => segments.get(usize_from_u32(owner - 1)).copied(),
            None => Some(u64::from(owner) - 1),
        };
        let id = |owner: u32| {
            let ids = level.objects.ids.as_ref().filter(|_| segments.is_none());
            ids.and_then(|ids| ids.get(usize_from_u32(owner - 1))).map(|id| id.cast_unsigned())
        };
        let owned = owners.iter().zip(stated).enumerate();
        let owned = owned.filter(|(_, (owner, _))| ![0, SEVERAL].contains(*owner));
        let bad = owned.filter_map(|(fragment, (owner, stated))| {
            let right = right(*owner).filter(|right| right != stated)?;
            (id(*owner) != Some(*stated)).then_some((fragment, (right, *stated)))
        });
        report_column(run, level, (C[46].at(path), SEGMENT), bad);
    }

    /// Checks G7: the stored links are those that join the fragments of lines.
    fn check_bridges(&self, run: &mut Validation, level: &LevelState) {
        let Some(bridges) = &self.bridges else { return };
        let mut bad = bridges.iter().enumerate().filter(|(_, sum)| **sum != 0);
        let Some((chunk, _)) = bad.next() else { return };
        let more = bad.count();
        if let Some(key) = level.chunks.key(chunk) {
            let expected = "those from the last row of a fragment to the first of the next";
            let found = format!("others, here and under {more} more chunks");
            run.add(G[7].at(level.path("links/0")).expects("links", expected, found).in_cell(&key));
        }
    }
}

/// Reports the first fragment of a column with another value than the right one, which comes first.
fn report_column<T: Display>(
    run: &mut Validation,
    level: &LevelState,
    (finding, name): (Finding, &str),
    mut bad: impl Iterator<Item = (usize, (T, T))>,
) {
    let Some((fragment, (right, stated))) = bad.next() else { return };
    let more = bad.count();
    if let Some((key, n)) = level.chunks.locate(fragment) {
        let found = format!("{stated}, and {more} more that differ");
        let finding = finding.in_cell(&key).with_offset(n * 8);
        run.add(finding.expects(format!("{name} of fragment {n}"), right, found));
    }
}

/// Reads the numbers of vertices of `rows` objects; none where they are not compared.
async fn read_vertex_counts(run: &mut Validation, level: &LevelState, rows: u64) -> Vec<u32> {
    let is_wanted = level.chunks.ends.is_some() && run.options.wants(C[45]);
    let Some(array) = columns::open_vertex_counts(level).await.filter(|_| is_wanted) else {
        return Vec::new();
    };
    if rows > run.options.max_kept_items {
        let max = run.options.max_kept_items;
        run.report_too_many(C[45], &level.path(columns::VERTEX_COUNT), "objects", max, rows);
        return Vec::new();
    }
    // What cannot be read is another finding.
    let bytes = array.rows(0..rows.min(array.len())).await.unwrap_or_default();
    bytes.as_chunks().0.iter().map(|count| u32::from_le_bytes(*count)).collect()
}

/// Reads the segments of objects, where there is a column of integers for them.
async fn read_segments(level: &LevelState, rows: u64) -> Option<Vec<u64>> {
    let array = level.node.dense(&format!("object_attributes/{SEGMENT}")).await.ok().flatten()?;
    let dtype = array.dtype();
    if !matches!(dtype.kind, DtypeKind::Int | DtypeKind::UInt) || array.shape().len() != 1 {
        return None;
    }
    let bytes = array.rows(0..rows.min(array.len())).await.ok()?;
    let widen = |value: &[u8]| {
        let is_negative = dtype.kind == DtypeKind::Int && value.last().is_some_and(|b| *b > 0x7f);
        let mut wide = if is_negative { [0xff; 8] } else { [0; 8] };
        wide.iter_mut().zip(value).for_each(|(to, from)| *to = *from);
        u64::from_le_bytes(wide)
    };
    Some(bytes.chunks_exact(saturating_usize(dtype.size).max(1)).map(widen).collect())
}

/// The column of fragments that follows from the manifests.
const SEGMENT: &str = "segment_id";
/// The owner of a fragment that several rows name.
const SEVERAL: u32 = u32::MAX;
/// The owner column of fragments that no object, or several objects, name.
const NO_OWNER: i64 = -1;
const SHARED_OWNER: i64 = -2;
/// Rows that one thread checks at a time.
const BATCH_ROWS: usize = 512;
/// Bytes of a row in memory besides its blob.
const ROW_OVERHEAD_BYTES: u64 = 64;
