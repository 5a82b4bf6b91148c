//! Level 5: the relations between levels.

use std::collections::HashSet;

use zvf_metadata::{Capability, CrossLevelStorage, Token};

use crate::finding::Finding;
use crate::level::{CrossLevelLinks, LevelState};
use crate::rules::P;
use crate::validation::Validation;

/// Checks P1 to P13 for the first kind.
pub(crate) fn check(run: &mut Validation, levels: &[&LevelState]) {
    if let [level] = levels {
        run.add(P[1].at(&level.name).expects("levels", "one or more", "one"));
    }
    check_gaps(run, levels);
    check_additive(run, levels);
    for level in levels.iter().filter(|level| is_stale(level)) {
        run.add(P[13].at(level.path("zarr.json")).expects(
            "zvf.stale",
            "a level as new as level 0",
            "edits since",
        ));
    }
    check_kind(run, levels);
}

/// Checks P3 to P11 for one kind; levels without this kind are left out.
pub(crate) fn check_kind(run: &mut Validation, levels: &[&LevelState]) {
    for pair in levels.windows(2) {
        if let [fine, coarse] = pair {
            if !is_stale(fine) && !is_stale(coarse) {
                rows(run, fine, coarse);
            }
            check_bins(run, fine, coarse);
            check_nesting(run, fine, coarse);
        }
    }
    check_additions(run, levels);
    for level in levels.iter().copied().filter(|level| level.node.number() > 0) {
        check_sparsity(run, level);
        check_inherited_ids(run, levels, level);
    }
    let explicit = CrossLevelStorage::Explicit;
    let storage = run.store.root().zarr_vectors.cross_level_storage();
    for level in levels {
        for links in level.linked.cross_level.iter().filter(|links| links.delta > 0) {
            let target = level.find_at(links.delta, levels.iter().copied());
            if is_stale(level) || target.is_some_and(is_stale) {
                continue;
            }
            check_orphans(run, levels, level, links);
            if let Some(coarse) = target.filter(|_| storage == Token::Known(explicit)) {
                check_mirrored_links(run, coarse, level, links);
            }
        }
    }
}

/// Returns whether level 0 was edited since the level was built.
fn is_stale(level: &LevelState) -> bool {
    level.node.meta().stale().is_some()
}

/// Checks P2: level numbers have no gaps.
fn check_gaps(run: &mut Validation, levels: &[&LevelState]) {
    for (expected, level) in (0_u32..).zip(levels) {
        if level.node.number() != expected {
            let found = format!("level {}", level.node.number());
            run.add(P[2].at(&level.name).expects("levels", format!("level {expected}"), found));
            return;
        }
    }
}

/// Checks P3: a level has at most as many rows as the finer one, unless they are additive.
fn rows(run: &mut Validation, fine: &LevelState, coarse: &LevelState) {
    let (many, few) = (fine.chunks.total_rows(), coarse.chunks.total_rows());
    let is_whole = fine.chunks.is_whole() && coarse.chunks.is_whole();
    let additive = fine.node.meta().is_additive() || coarse.node.meta().is_additive();
    if is_whole && !additive && few > many {
        let expected = format!("at most {many}, those of level {}", fine.name);
        run.add(P[3].at(&coarse.name).expects("rows", expected, few));
    }
}

/// Checks P4: the bins that the documents give.
fn check_bins(run: &mut Validation, fine: &LevelState, coarse: &LevelState) {
    let root = run.store.root();
    let volume = |level: &LevelState| -> Option<f64> {
        let bins = level.node.meta().effective_bin_shape(root, &level.node.number().to_string())?;
        Some(bins.iter().product())
    };
    let ratio = |level: &LevelState| -> Option<f64> {
        Some(level.node.meta().bin_ratio.as_ref()?.iter().product())
    };
    let smaller =
        |pair: Option<(f64, f64)>| pair.filter(|(fine, coarse)| *coarse < *fine * MIN_VOLUME_RATIO);
    let volumes = smaller(volume(fine).zip(volume(coarse)));
    let ratios = smaller(ratio(fine).zip(ratio(coarse)));
    if let Some((fine, coarse_is)) = ratios.or(volumes) {
        run.add(P[4].at(coarse.path("zarr.json")).expects(
            "volume of a bin",
            format!("at least {fine}"),
            coarse_is,
        ));
    }
}

/// Checks P9, P10: chunks of a level nest in those of the root, which readers need, and in those of
/// the finer level.
fn check_nesting(run: &mut Validation, fine: &LevelState, coarse: &LevelState) {
    let root = run.store.root().clone();
    let path = coarse.path("zarr.json");
    let coarse_by = match coarse.node.meta().chunk_scale(&root) {
        Ok(by) => by,
        Err(error) => return run.add(Finding::from_metadata(P[9], path, &error)),
    };
    let Ok(fine_by) = fine.node.meta().chunk_scale(&root) else { return };
    let bad = fine_by.iter().zip(&coarse_by).any(|(fine, coarse)| !coarse.is_multiple_of(*fine));
    if bad {
        let expected = format!("multiples of {fine_by:?}, those of level {}", fine.name);
        run.add(P[10].at(path).expects("chunk_shape", expected, format!("{coarse_by:?}")));
    }
}

/// Checks P11: an additive level has no object of the coarser levels that it adds to.
fn check_additions(run: &mut Validation, levels: &[&LevelState]) {
    for (at, level) in levels.iter().enumerate().filter(|(_, l)| l.node.meta().is_additive()) {
        let mut later = HashSet::new();
        for other in levels.iter().skip(at + 1) {
            // Unknown ids prove nothing.
            later.extend(object_ids(other).unwrap_or_default());
            if !other.node.meta().is_additive() {
                break;
            }
        }
        let Some(present_rows) = &level.objects.present_rows else { continue };
        let shared = |row: &&u64| level.objects.id(**row).is_some_and(|id| later.contains(&id));
        let mut shared = present_rows.iter().filter(shared);
        if let Some(row) = shared.next() {
            let found = format!("that of {} more too", shared.count());
            let finding = P[11].at(level.path("object_index")).in_row(*row);
            run.add(finding.expects("object", "one that no level behind it has", found));
        }
    }
}

/// Checks P12: in an additive pyramid, a level that is not additive is complete.
fn check_additive(run: &mut Validation, levels: &[&LevelState]) {
    if !run.store.root().zarr_vectors.has(Capability::AdditiveLevels) {
        return;
    }
    if !levels.iter().any(|level| level.node.meta().is_additive()) {
        run.add(P[12].at("zarr.json").expects("refinement", "add at a level", "none"));
    }
    for (at, level) in levels.iter().enumerate().filter(|(_, l)| !l.node.meta().is_additive()) {
        let Some(ids) = object_ids(level) else { continue };
        let coarser = levels.iter().copied().skip(at + 1).filter_map(object_ids);
        let lacking = coarser.flatten().collect::<HashSet<i64>>().difference(&ids).count();
        if lacking > 0 {
            let found = format!("{lacking} that only coarser levels have");
            run.add(P[12].at(level.path("zarr.json")).expects(
                "objects",
                "those of all coarser levels",
                found,
            ));
        }
    }
}

/// Returns the ids of the objects with geometry, if they were kept.
fn object_ids(level: &LevelState) -> Option<HashSet<i64>> {
    let present_rows = level.objects.present_rows.as_ref()?;
    Some(present_rows.iter().filter_map(|row| level.objects.id(*row)).collect())
}

/// Checks P5: `object_sparsity`.
fn check_sparsity(run: &mut Validation, level: &LevelState) {
    let found = level.node.meta().object_sparsity;
    if !(found > 0.0 && found <= 1.0) {
        run.add(P[5].at(level.path("zarr.json")).expects(
            "object_sparsity",
            "above 0 and at most 1",
            found,
        ));
    }
}

/// Checks P7: rows and ids equal those of the parent level.
fn check_inherited_ids(run: &mut Validation, levels: &[&LevelState], level: &LevelState) {
    let meta = level.node.meta();
    if !meta.preserves_object_ids {
        return;
    }
    let path = level.path("object_index");
    let stated = meta.inherited_num_objects.and_then(|n| u64::try_from(n).ok());
    if let (Some(stated), Some(rows)) = (stated, level.objects.rows)
        && stated != rows
    {
        run.add(P[7].at(&path).expects("inherited_num_objects", rows, stated));
    }
    let parent = levels.iter().find(|other| meta.parent_level == Some(other.node.number().into()));
    let Some(parent) = parent else { return };
    if let (Some(rows), Some(parents)) = (level.objects.rows, parent.objects.rows)
        && rows != parents
    {
        run.add(P[7].at(&path).expects(
            "rows",
            format!("{parents}, as level {}", parent.name),
            rows,
        ));
        return;
    }
    if let (Some(ids), Some(parents)) = (&level.objects.ids, &parent.objects.ids)
        && let Some((row, (id, parent))) =
            (0_u64..).zip(ids.iter().zip(parents.iter())).find(|(_, (id, parent))| id != parent)
    {
        let finding = P[7].at(level.path("object_index/object_ids")).in_row(row);
        run.add(finding.expects("id", format!("{parent}, as at the parent"), id));
    }
}

/// Checks P6: every row has a parent, if links of this distance are stored. Objects that were
/// dropped have none.
fn check_orphans(
    run: &mut Validation,
    levels: &[&LevelState],
    level: &LevelState,
    links: &CrossLevelLinks,
) {
    let between = level.number_at(1)..=level.number_at(links.delta);
    let is_sparse = |other: &&&LevelState| other.node.meta().object_sparsity < 1.0;
    let mut sparse = levels.iter().filter(is_sparse);
    if sparse.any(|other| between.contains(&other.node.number().into())) {
        return;
    }
    let depth = run.store.root().zarr_vectors.cross_level_depth();
    let is_stored = depth < 0 || depth >= i64::from(links.delta);
    if let Some(orphans) = links.orphans.filter(|orphans| *orphans > 0 && is_stored) {
        let expected = format!("a parent at level +{} for each row", links.delta);
        run.add(P[6].at(level.path(&format!("links/+{}", links.delta))).expects(
            "links",
            expected,
            format!("none for {orphans} rows"),
        ));
    }
}

/// Checks P8: links down mirror the links up.
fn check_mirrored_links(
    run: &mut Validation,
    coarse: &LevelState,
    level: &LevelState,
    up: &CrossLevelLinks,
) {
    let back = up.delta.checked_neg();
    let Some(down) = coarse.linked.cross_level.iter().find(|down| Some(down.delta) == back) else {
        return;
    };
    if down.complete && up.complete && (down.links, down.sum) != (up.links, up.sum) {
        let expected = format!("the {} links of {}/links/+{}", up.links, level.name, up.delta);
        run.add(P[8].at(coarse.path(&format!("links/{}", down.delta))).expects(
            "links",
            expected,
            format!("{} others", down.links),
        ));
    }
}

/// The volumes are products of numbers that were computed in different ways.
const MIN_VOLUME_RATIO: f64 = 1.0 - 1e-9;
