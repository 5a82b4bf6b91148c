//! Links: families and their arrays, then every cell, then totals over all cells.
//!
//! ```text
//! open.rs       documents and names                           C10 to C13, C17, C37
//! segment.rs    one array that can be checked
//! cell.rs       one cell of it                                C15 to C20, C36, C41, G6, G9, G10
//! blob.rs       links across chunks before 0.8                C16 to C18, C20, G6
//! total.rs      what all cells of a family add up to          C14, C19, G6
//! here          which cells, and what they are asked          C41, G10
//! ```

mod blob;
mod cell;
mod open;
mod segment;
mod total;

use std::sync::Arc;

use zvf_error::Result;
use zvf_format::key::{ChunkKey, Delta};
use zvf_format::link::{LinkPolicy, LinkStorage};
use zvf_metadata::{GeometryType, LayoutFamily as Layout};
use zvf_store::Cells;

use self::cell::{LinkReport, check_cell};
use self::open::OpenFamily;
use self::segment::{Form, LinkChecks, Segment, Uses};
use self::total::Total;
use crate::level::LevelState;
use crate::parts::Stage;
use crate::pipeline::{Cell, scan_cells};
use crate::rules::{C, G};
use crate::validation::Validation;

/// Checks the links of level `at`.
pub(crate) async fn check(
    run: &mut Validation,
    levels: &mut [LevelState],
    at: usize,
) -> Result<()> {
    let Some(level) = levels.get(at) else { return Ok(()) };
    let families = open::open_families(run, levels, level).await?;
    let (mut width, mut totals) = (None, Vec::new());
    for opened in families {
        if opened.delta == Delta::SAME {
            width.get_or_insert(opened.family.link_width());
        }
        check_order(run, level, &opened);
        let mut total = Total::new(run, level, &opened);
        for segment in &opened.segments {
            check_segment(run, levels, level, segment, &mut total).await?;
        }
        if run.store.family() != Layout::C && !run.work.is_before(Stage::Objects) {
            blob::check(run, levels, level, &opened, &mut total).await?;
        }
        total.check_totals(run, &opened);
        totals.push(total);
    }
    if let Some(level) = levels.get_mut(at) {
        level.link_width = width;
        totals.into_iter().for_each(|total| total.store_in(level));
    }
    Ok(())
}

/// Checks C30: links between chunks name rows in the order before Draco encoding, which not all
/// streams keep.
fn check_order(run: &mut Validation, level: &LevelState, opened: &OpenFamily) {
    let between = |segment: &Arc<Segment>| match &segment.form {
        Form::Offsets(offsets) => !offsets.are_zero() && !segment.array.keys.is_empty(),
        Form::Same | Form::Joined => false, // older formats have no Draco streams
    };
    if level.reorders && opened.segments.iter().any(between) {
        let expected = "Draco streams that keep the order of vertices";
        run.add(
            C[30].at(&opened.path).expects("links between chunks", expected, "others").warning(),
        );
    }
}

/// Checks every cell of a segment.
async fn check_segment(
    run: &mut Validation,
    levels: &[LevelState],
    level: &LevelState,
    segment: &Arc<Segment>,
    total: &mut Total,
) -> Result<()> {
    let checks = link_checks(run, levels, level, segment);
    total.begin(run, level, segment.path(), checks.uses);
    let keys: Vec<ChunkKey> = segment.array.keys.iter().collect();
    check_missing_fragments(run, level, segment, keys.len());
    let attributes = segment.attributes.iter().map(|(array, _)| &array.cells);
    let arrays: Vec<&Cells> = std::iter::once(&segment.array.cells)
        .chain(segment.fragments.as_ref().map(|array| &array.cells))
        .chain(attributes)
        .collect();
    let check = move |key: &ChunkKey, cells: &[Cell]| check_cell(&checks, key, cells);
    // Before 0.9, counts cover only links across chunks.
    let counted = !matches!(segment.form, Form::Same);
    let take = |run: &mut Validation, _: &ChunkKey, report: Option<LinkReport>| {
        report.into_iter().for_each(|report| total.take(run, report, counted));
    };
    scan_cells((run, Stage::Links, segment.path()), &arrays, &keys, check, take).await
}

/// Checks C41: links within chunks that lack an index of fragments.
fn check_missing_fragments(
    run: &mut Validation,
    level: &LevelState,
    segment: &Segment,
    cells: usize,
) {
    let within = segment.family.delta() == Delta::SAME
        && match &segment.form {
            Form::Offsets(offsets) => offsets.are_zero() && segment.family.link_width() > 1,
            Form::Same => true,
            Form::Joined => false,
        };
    if within && cells > 0 && level.link_fragments.is_none() {
        run.add(C[41].at(level.path("link_fragments")).expects(
            "node",
            "the fragments over the links of each chunk",
            "nothing",
        ));
        if level.node.meta().fragment_link_groups {
            run.add(G[10].at(level.path("link_fragments")).expects(
                "groups of links",
                "one for each fragment",
                "nothing",
            ));
        }
    }
}

/// Collects the checks of a segment.
fn link_checks(
    run: &Validation,
    levels: &[LevelState],
    level: &LevelState,
    segment: &Arc<Segment>,
) -> LinkChecks {
    let target = level.find_at(segment.family.delta().0, levels);
    // The older families put both ends under the key of the cell.
    let target_chunks = target.map(|target| Arc::clone(&target.chunks)).unwrap_or_default();
    // The other spelling of the statement, which tools read.
    let states_groups =
        segment.array.cells.attributes().get("link_groups") == Some(&"per_vertex_fragment".into());
    LinkChecks {
        fresh: run.found.new_empty(),
        segment: Arc::clone(segment),
        grouped: level.node.meta().fragment_link_groups || states_groups,
        source_chunks: Arc::clone(&level.chunks),
        target_chunks,
        has_target: target.is_some_and(|target| target.vertices.is_some()),
        uses: find_segment_uses(level, segment),
    }
}

/// Returns the checks that use the records of a segment.
fn find_segment_uses(level: &LevelState, segment: &Segment) -> Uses {
    let uses = find_uses(level, &segment.family);
    // Only 0.9 specifies bridges of lines and faces.
    let stated = matches!(segment.form, Form::Offsets(_));
    Uses { bridges: uses.bridges && stated, faces: uses.faces && stated, ..uses }
}

/// Returns the checks that use the records of `family`.
fn find_uses(level: &LevelState, family: &LinkPolicy) -> Uses {
    let width = family.link_width();
    if family.delta() != Delta::SAME {
        return Uses { between: (width == 2).then_some(family.delta().0 > 0), ..Uses::default() };
    }
    let kinds = level.known_kinds();
    let along = [GeometryType::Line, GeometryType::Polyline, GeometryType::Streamline];
    let skeleton = level.is_only(&[GeometryType::Skeleton]) && width == 2;
    let once = family.store() == LinkStorage::Canonical && !family.is_directed();
    let ends = level.chunks.ends.is_some();
    // Directed families, those of streamed skeletons, store the two ends in either order; a row that several objects share
    // has a parent in each of them.
    let tree = !family.is_directed() && !level.node.meta().shared_fragments;
    Uses {
        child: skeleton && ends && tree,
        bridges: level.is_only(&along) && width == 2 && once && ends,
        faces: kinds.contains(&GeometryType::Mesh) && width >= 3,
        between: None,
    }
}
