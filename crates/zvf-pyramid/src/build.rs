//! Builds levels one from another, and publishes them together.
//!
//! Each level is read back after it is written, so the next level is built from exactly the data
//! that a reader sees. Links between levels are written after all levels, and the root last.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use async_recursion::async_recursion as boxed;
use zvf_error::{Error, Result};
use zvf_format::key::Delta;
use zvf_format::num::{index_u32, to_u64};
use zvf_model::{Kind, LevelId, LevelReader};
use zvf_query::Reader;
use zvf_store::{Build, BuildOptions, Store};
use zvf_write::SpillFolder;

use crate::checkpoint::{Checkpoint, KeptLevel};
use crate::error::setting_error;
use crate::level_build::{self, KindBuild};
use crate::names::Names;
use crate::plan::{self, PyramidPlan};
use crate::report::{LevelReport, OnEvent, PyramidEvent, PyramidNotice};
use crate::root::Root;
use crate::size::Size;
use crate::stale::{Changed, Stale};
use crate::target::BuildTarget;
use crate::{Options, additive, levels, links};

/// The parts of earlier builds that a build reuses.
#[derive(Clone, Copy, Debug)]
pub enum Reuse<'a> {
    /// The levels that a killed process had finished, when the same build is requested again.
    Checkpoint,
    /// Levels that [`build_in_folder`](crate::build_in_folder) kept. Scratch files go to the
    /// folder, which no other process uses, and are removed with it.
    Kept(&'a Path, &'a [KeptLevel]),
    /// After edits of level 0, the unchanged parts of the existing levels. The result has the same
    /// bytes; the root document may differ where the old levels were built differently. For each
    /// level, an event tells how much of it was rebuilt ([`PyramidEvent::Rebuilt`]).
    Unchanged(&'a Stale),
}

/// Builds coarser levels of the store at `address`, replacing those it has; `on_event` receives
/// each level when it is finished.
///
/// A store that has levels is replaced as a whole after everything is written. Otherwise the levels
/// are added to it, and replacing the root document, which happens last, is the commit: level 0
/// stays where it is. A build that fails or is stopped before that leaves the store unchanged.
/// Levels that a killed process had finished are reused when the same build is requested again.
///
/// If level 0 is the finest of an additive pyramid, everything it shows is merged first and
/// reported as level 0: all levels are read again and counted. With zero levels
/// ([`Options::levels`]) the build ends there.
///
/// # Errors
///
/// Fails when a setting is invalid for this store, when the store is not in a local folder, is
/// older than 0.9 or has chunks keyed by an attribute, or when it cannot be read or written.
pub async fn build(
    address: &str,
    options: &Options,
    how: &BuildOptions,
    on_event: impl FnMut(PyramidEvent<'_>) + Send,
) -> Result<Vec<LevelReport>> {
    build_reusing(address, options, how, Reuse::Checkpoint, on_event).await
}

/// Like [`build`], taking over what `reuse` gives instead of saved progress.
///
/// # Errors
///
/// As [`build`].
pub async fn build_reusing(
    address: &str,
    options: &Options,
    how: &BuildOptions,
    reuse: Reuse<'_>,
    mut on_event: impl FnMut(PyramidEvent<'_>) + Send,
) -> Result<Vec<LevelReport>> {
    build_in_place(address, options, how, &reuse, &mut on_event).await
}

#[boxed]
async fn build_in_place(
    address: &str,
    options: &Options,
    how: &BuildOptions,
    reuse: &Reuse<'_>,
    on_event: &mut OnEvent<'_>,
) -> Result<Vec<LevelReport>> {
    // This removes leftovers of an earlier build. No other process changes the store after it.
    let how = BuildOptions { lock: Build::lock_target(address, &how.disk)?, ..how.clone() };
    let store = Store::open(address, options.opening()).await?;
    let (checkpoint, stale) = match *reuse {
        Reuse::Checkpoint => (Checkpoint::open(address, &store, options).await?, None),
        Reuse::Kept(folder, kept) => {
            fs::create_dir_all(folder).map_err(Error::scratch)?;
            (Some(Checkpoint::with_levels(folder, kept.to_vec())), None)
        }
        Reuse::Unchanged(stale) => (None, Some(stale)),
    };
    let from = (address, &store);
    let made = replace(from, options, stale, (&how, checkpoint.as_ref()), on_event).await;
    if let Some(checkpoint) = checkpoint {
        checkpoint.remove();
    }
    made
}

async fn replace(
    (address, store): (&str, &Store),
    options: &Options,
    stale: Option<&Stale>,
    (how, checkpoint): (&BuildOptions, Option<&Checkpoint>),
    on_event: &mut OnEvent<'_>,
) -> Result<Vec<LevelReport>> {
    levels::check_version(store)?;
    let mut plan = PyramidPlan::plan(store, options).await?;
    if options.additive {
        let made = additive::build((address, store), &plan, (how, checkpoint), on_event).await?;
        if let Some(made) = made {
            return Ok(made);
        }
        plan.options.levels = Some(0); // there is nothing for a second level
    }
    if store.level(0).await?.meta().is_additive() {
        let build = levels::begin(address, store, how, levels::Kept::BesideLevels).await?;
        let target = BuildTarget { build: &build, checkpoint, only: None };
        let made = rebuild(address, target, &plan, on_event).await;
        return levels::publish(build, made, true).await;
    }
    let (build, store) = if stale.is_none() && has_only_level_0(store, how).await? {
        (levels::begin(address, store, how, levels::Kept::InPlace).await?, store.clone())
    } else {
        let build = levels::begin(address, store, how, levels::Kept::Level0).await?;
        // Files that got a second name no longer match the snapshot that was read.
        (build, Store::open(address, options.opening()).await?)
    };
    let target = BuildTarget { build: &build, checkpoint, only: None };
    let made = build_levels(&store, &target, &plan, stale, on_event).await;
    levels::publish(build, made, true).await
}

/// Returns whether the store has only level 0 and no links from it to other levels, so that levels
/// can be added in place.
async fn has_only_level_0(store: &Store, options: &BuildOptions) -> Result<bool> {
    // Without a lock the store is not in a local folder. If level 0 lies elsewhere, the result is a
    // store in one place.
    let in_place = options.lock.as_ref().is_some_and(|lock| {
        let level_0 = fs::symlink_metadata(lock.target().join("0"));
        level_0.is_ok_and(|found| found.is_dir())
    });
    if !in_place || store.list_levels().await? != [0] {
        return Ok(false);
    }
    for (_, level) in plan::kinds(&LevelReader::open(store, LevelId(0)).await?).await? {
        let families = level.node().children("links").await?.names;
        let mut deltas = families.iter().filter_map(|name| name.parse::<Delta>().ok());
        if deltas.any(|delta| delta != Delta::SAME) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Merges the additive levels into level 0, and builds the other levels from it.
async fn rebuild(
    address: &str,
    target: BuildTarget<'_>,
    plan: &PyramidPlan,
    on_event: &mut OnEvent<'_>,
) -> Result<(Vec<LevelReport>, zvf_metadata::Root)> {
    let store = Store::open(address, plan.options.opening()).await?;
    let only = &plan.kinds[0]; // a store has a kind
    let (mut reports, root) = additive::collect_level_0(&store, target, only, on_event).await?;
    let store = target.build.preview(&root).await?;
    // Sizes are measured on the merged level.
    let plan = PyramidPlan::plan(&store, &plan.options).await?;
    let (coarser, root) = build_levels(&store, &target, &plan, None, on_event).await?;
    reports.extend(coarser);
    Ok((reports, root))
}

/// Builds the levels of `store`; the root has them, and none of the store's own.
#[boxed]
pub(crate) async fn build_levels(
    store: &Store,
    target: &BuildTarget<'_>,
    plan: &PyramidPlan,
    stale: Option<&Stale>,
    on_event: &mut OnEvent<'_>,
) -> Result<(Vec<LevelReport>, zvf_metadata::Root)> {
    let (options, &BuildTarget { build, only, .. }) = (&plan.options, target);
    let (kinds, mut kind_names, mut changed) = (&plan.kinds, Vec::new(), Vec::new());
    let memory = options.memory / 8 / to_u64(kinds.len().max(1));
    let folder = options.links_levels().then(|| SpillFolder::new(None, memory));
    let mut root = Root::from_store(store);
    root.without_links();
    let mut attribute_names = BTreeSet::new();
    for (_, level) in plan::kinds(&LevelReader::open(store, LevelId(0)).await?).await? {
        kind_names.push(Names::pick_unused(&level).await?);
        let change = stale.map(|stale| Changed::from_stale(stale, level.chunk_shape().sizes()));
        changed.extend(change);
        if !options.rules.is_empty() {
            attribute_names.extend(level.attribute_names().await?.names);
            attribute_names.extend(level.link_attribute_names().await?.names);
        }
    }
    let before = stale.map(|_| Reader::new(store.clone()));
    if let Some((name, _)) = options.rules.iter().find(|(name, _)| !attribute_names.contains(name))
    {
        let names: Vec<String> = attribute_names.into_iter().collect();
        let found = format!("{name:?}, where there is {}", names.join(", "));
        return Err(setting_error("a rule", "an attribute of level 0", found));
    }
    let (mut source, mut below, mut reports) = (store.clone(), plan.sizes(), Vec::new());
    let (mut errors, mut parents) = (vec![Some(0.0); kinds.len()], Vec::new());
    loop {
        let level = index_u32(reports.len()) + 1;
        let Some(steps) = plan.level(level, &below) else { break };
        let states = steps.iter().zip(&kind_names).zip(&errors);
        let kind_builds = kinds.iter().zip(states).enumerate();
        let kind_builds = kind_builds.map(|(at, (plan, ((step, names), error)))| KindBuild {
            source: &source,
            build,
            plan,
            step,
            names,
            error: *error,
            folder: folder.as_ref(),
            previous: before.as_ref().zip(changed.get(at)),
        });
        let kind_builds: Vec<KindBuild<'_>> = kind_builds.collect();
        let named: Vec<Kind> = kinds.iter().map(|kind_plan| kind_plan.kind).collect();
        let built = level_build::build_all_kinds(&kind_builds);
        let made = target.take_or_build(level, (&named, folder.is_some()), on_event, built).await?;
        if only == Some(level) {
            return Ok((vec![made.report], root.finish()));
        }
        let all = Size::sum(&below);
        if made.report.vertices == all.vertices && !options.equal_levels {
            // Such a level would take space and give the same answers as the level below.
            let vertices = all.vertices;
            on_event(PyramidEvent::Notice(PyramidNotice::NothingShrinks { level, vertices }));
            build.remove(&level.to_string()).await?;
            break;
        }
        root.add_level(level, &steps[0].bin);
        let report;
        (source, report) = target.show(&mut root, &made, on_event).await?;
        if stale.is_some() {
            made.rebuilt.iter().for_each(|(rebuilt, _)| on_event(PyramidEvent::Rebuilt(rebuilt)));
            changed = made.rebuilt.into_iter().map(|(_, changed)| changed).collect();
        }
        let stuck = u128::from(report.vertices) * 20 > u128::from(all.vertices) * 19;
        below = report.kind_reports().map(LevelReport::size).collect();
        errors = report.kind_reports().map(|kind_report| kind_report.error).collect();
        reports.push(report);
        if folder.is_some() {
            parents.push(made.parents);
        }
        if options.levels.is_none() && stuck {
            break; // more of the same would not help
        }
    }
    if only.is_some() {
        return Ok((Vec::new(), root.finish())); // there is no such level
    }
    if let Some(folder) = &folder {
        links::write((store, &source), build, parents, options, folder).await?;
        let depth = links::depth(options, reports.len());
        root.announce_links(depth, options.links, !reports.is_empty());
    }
    Ok((reports, root.finish()))
}
