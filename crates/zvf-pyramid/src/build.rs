//! Builds levels one from another, and publishes them together.
//!
//! Each level is read back after it is written, so the next level is built from exactly the data
//! that a reader sees. Links between levels are written after all levels, and the root last.

use std::collections::BTreeSet;

use async_recursion::async_recursion as boxed;
use zvf_error::Result;
use zvf_format::key::Delta;
use zvf_format::num::{index_u32, to_u64};
use zvf_metadata::LinksConvention;
use zvf_model::{Kind, LevelId, LevelReader};
use zvf_query::Reader;
use zvf_store::{Build, BuildOptions, Store};
use zvf_write::SpillFolder;

use crate::checkpoint::{Checkpoint, TakeOutcome};
use crate::cross_level_options::CrossLevelOptions;
use crate::error::{inconsistent_error, setting_error};
use crate::level_build::partial_rebuild::PreviousStore;
use crate::level_build::{self, KindBuild};
use crate::names::Names;
use crate::plan::{self, PyramidPlan};
use crate::report::{EventReporter, LevelReport, PyramidEvent, PyramidNotice};
use crate::root::Root;
use crate::rule::Aggregation;
use crate::shape::Rules;
use crate::size::{Size, count_stored_bytes};
use crate::stale::{Changed, Stale};
use crate::{Options, additive, levels, links};

/// Builds coarser levels of the store at `address`, replacing those it has; calls `on_level` for
/// each one when it is finished.
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
    mut on_level: impl FnMut(&LevelReport) + Send,
) -> Result<Vec<LevelReport>> {
    let levels_only = |event: PyramidEvent<'_>| {
        if let PyramidEvent::Level(report) = event {
            on_level(report);
        }
    };
    build_with_notices(address, options, how, levels_only).await
}

/// Like [`build`]; `on_event` also receives events that are not levels, such as saved progress that
/// had to be discarded.
///
/// # Errors
///
/// As [`build`].
pub async fn build_with_notices(
    address: &str,
    options: &Options,
    how: &BuildOptions,
    mut on_event: impl FnMut(PyramidEvent<'_>) + Send,
) -> Result<Vec<LevelReport>> {
    build_with_checkpoint(address, options, how, &mut EventReporter::new(&mut on_event)).await
}

/// Like [`build_with_notices`], with the progress that is saved beside the store.
#[boxed]
async fn build_with_checkpoint(
    address: &str,
    options: &Options,
    how: &BuildOptions,
    events: &mut EventReporter<'_>,
) -> Result<Vec<LevelReport>> {
    let (how, store) = lock_and_open(address, options, how).await?;
    let checkpoint = Checkpoint::open(address, &store, options).await?;
    let made = replace((address, &store), options, None, (&how, checkpoint.as_ref()), events).await;
    if let Some(checkpoint) = checkpoint {
        checkpoint.remove();
    }
    made
}

/// Like [`build_with_notices`], with the levels that were saved in `checkpoint` before; they are
/// kept.
#[boxed]
pub(crate) async fn build_from_checkpoint(
    address: &str,
    options: &Options,
    how: &BuildOptions,
    checkpoint: &Checkpoint,
    events: &mut EventReporter<'_>,
) -> Result<Vec<LevelReport>> {
    let (how, store) = lock_and_open(address, options, how).await?;
    replace((address, &store), options, None, (&how, Some(checkpoint)), events).await
}

/// Builds level `level` and saves it in `checkpoint`, which holds the levels below it; `None` when
/// there is no such level.
#[boxed]
pub(crate) async fn build_one_level(
    store: &Store,
    (build, checkpoint): (&Build, &Checkpoint),
    plan: &PyramidPlan,
    level: u32,
) -> Result<Option<LevelReport>> {
    let target = BuildTarget { build, checkpoint: Some(checkpoint), only: Some(level) };
    let (mut made, _root) =
        build_levels(store, target, plan, None, &mut EventReporter::new(&mut |_event| {})).await?;
    Ok(made.pop().filter(|made| made.level == level))
}

/// Builds all levels of `store` in `build`, which replaces no store in place; reuses levels that
/// are saved in `checkpoint`.
#[boxed]
pub(crate) async fn build_all_levels(
    store: &Store,
    (build, checkpoint): (&Build, Option<&Checkpoint>),
    plan: &PyramidPlan,
    events: &mut EventReporter<'_>,
) -> Result<(Vec<LevelReport>, zvf_metadata::Root)> {
    build_levels(store, BuildTarget::new(build, checkpoint), plan, None, events).await
}

/// Like [`build_with_notices`], after edits of level 0: unchanged parts are copied from the
/// existing levels. The result has the same bytes; the root document may differ where the old
/// levels were built differently.
///
/// For each level, `on_event` receives how much of it was rebuilt ([`PyramidEvent::Rebuilt`]).
///
/// # Errors
///
/// As [`build`].
pub async fn refresh(
    address: &str,
    options: &Options,
    stale: &Stale,
    how: &BuildOptions,
    mut on_event: impl FnMut(PyramidEvent<'_>) + Send,
) -> Result<Vec<LevelReport>> {
    refresh_stale(address, options, stale, how, &mut EventReporter::new(&mut on_event)).await
}

#[boxed]
async fn refresh_stale(
    address: &str,
    options: &Options,
    stale: &Stale,
    how: &BuildOptions,
    events: &mut EventReporter<'_>,
) -> Result<Vec<LevelReport>> {
    let (how, store) = lock_and_open(address, options, how).await?;
    replace((address, &store), options, Some(stale), (&how, None), events).await
}

/// Locks the store, removes leftovers of an earlier build, and opens it. No other process changes
/// it after that.
async fn lock_and_open(
    address: &str,
    options: &Options,
    how: &BuildOptions,
) -> Result<(BuildOptions, Store)> {
    let how = BuildOptions { lock: Build::lock_target(address, &how.disk)?, ..how.clone() };
    Ok((how, Store::open(address, options.opening()).await?))
}

async fn replace(
    (address, store): (&str, &Store),
    options: &Options,
    stale: Option<&Stale>,
    (how, checkpoint): (&BuildOptions, Option<&Checkpoint>),
    events: &mut EventReporter<'_>,
) -> Result<Vec<LevelReport>> {
    levels::check_version(store)?;
    let mut plan = PyramidPlan::plan(store, options).await?;
    if let Some(only) = plan.kinds().first().filter(|_| options.additive) {
        let made = additive::build((address, store), only, (how, checkpoint), events).await?;
        if let Some(made) = made {
            return Ok(made);
        }
        plan = plan.without_steps();
    }
    if store.level(0).await?.meta().is_additive() {
        let build = levels::begin_anew(address, store, how).await?;
        let made = rebuild(address, (&build, checkpoint), &plan, events).await;
        return levels::publish(build, made).await;
    }
    let (build, store) = if stale.is_none() && has_only_level_0(store, how).await? {
        (levels::begin_adding(address, store, how).await?, store.clone())
    } else {
        let build = levels::begin(address, store, how).await?;
        // Files that got a second name no longer match the snapshot that was read.
        (build, Store::open(address, options.opening()).await?)
    };
    let target = BuildTarget::new(&build, checkpoint);
    let made = build_levels(&store, target, &plan, stale, events).await;
    levels::publish(build, made).await
}

/// Returns whether the store has only level 0 and no links from it to other levels, so that levels
/// can be added in place.
async fn has_only_level_0(store: &Store, options: &BuildOptions) -> Result<bool> {
    // Without a lock the store is not in a local folder. If level 0 lies elsewhere, the result is a
    // store in one place.
    let in_place = options.lock.as_ref().is_some_and(|lock| {
        let level_0 = std::fs::symlink_metadata(lock.target().join("0"));
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

/// The build that receives the levels, and which levels to make.
#[derive(Clone, Copy)]
struct BuildTarget<'a> {
    build: &'a Build,
    /// Where levels are saved and reused from.
    checkpoint: Option<&'a Checkpoint>,
    /// The only level to build; without it, all levels and their links are built.
    only: Option<u32>,
}

impl<'a> BuildTarget<'a> {
    const fn new(build: &'a Build, checkpoint: Option<&'a Checkpoint>) -> Self {
        Self { build, checkpoint, only: None }
    }
}

/// Refuses a rule for an attribute that level 0 does not have.
async fn check_rules(store: &Store, rules: &[(String, Aggregation)]) -> Result<()> {
    if rules.is_empty() {
        return Ok(());
    }
    let mut names = BTreeSet::new();
    for (_, level) in plan::kinds(&LevelReader::open(store, LevelId(0)).await?).await? {
        names.extend(level.attribute_names().await?.names);
        names.extend(level.link_attribute_names().await?.names);
    }
    match rules.iter().find(|(name, _)| !names.contains(name)) {
        None => Ok(()),
        Some((name, _)) => {
            let attribute_names: Vec<String> = names.into_iter().collect();
            let found = format!("{name:?}, where there is {}", attribute_names.join(", "));
            Err(setting_error("a rule", "an attribute of level 0", found))
        }
    }
}

/// Merges the additive levels into level 0, and builds the other levels from it.
async fn rebuild(
    address: &str,
    (build, checkpoint): (&Build, Option<&Checkpoint>),
    plan: &PyramidPlan,
    events: &mut EventReporter<'_>,
) -> Result<(Vec<LevelReport>, zvf_metadata::Root)> {
    let store = Store::open(address, plan.options().opening()).await?;
    let Some(only) = plan.kinds().first() else {
        return Ok((Vec::new(), Root::from_store(&store).finish()));
    };
    let (mut reports, root) =
        additive::collect_level_0(&store, (build, checkpoint), only, events).await?;
    let store = build.preview(&root).await?;
    // Sizes are measured on the merged level.
    let plan = PyramidPlan::plan(&store, plan.options()).await?;
    let target = BuildTarget::new(build, checkpoint);
    let (coarser, root) = build_levels(&store, target, &plan, None, events).await?;
    reports.extend(coarser);
    Ok((reports, root))
}

async fn build_levels(
    store: &Store,
    BuildTarget { build, checkpoint, only }: BuildTarget<'_>,
    plan: &PyramidPlan,
    stale: Option<&Stale>,
    events: &mut EventReporter<'_>,
) -> Result<(Vec<LevelReport>, zvf_metadata::Root)> {
    let options = plan.options();
    let cross_level = CrossLevelOptions { storage: options.links, depth: options.depth };
    let (kinds, mut kind_names, mut changed) = (plan.kinds(), Vec::new(), Vec::new());
    let memory = options.memory / 8 / to_u64(kinds.len().max(1));
    let folder = cross_level.is_enabled().then(|| SpillFolder::new(None, memory));
    let mut root = Root::from_store(store);
    root.without_links();
    for (_, level) in plan::kinds(&LevelReader::open(store, LevelId(0)).await?).await? {
        let explicit = level.links_convention().known_word() == Some(LinksConvention::Explicit);
        kind_names.push((Names::pick_unused(&level).await?, explicit));
        let change = stale.map(|stale| Changed::from_stale(stale, level.chunk_shape().sizes()));
        changed.extend(change);
    }
    let before = stale.map(|_| Reader::new(store.clone()));
    check_rules(store, &options.rules).await?;
    let (mut source, mut below, mut reports) = (store.clone(), plan.sizes(), Vec::new());
    let (mut errors, mut parents) = (vec![Some(0.0); kinds.len()], Vec::new());
    loop {
        let level = index_u32(reports.len()) + 1;
        let Some(steps) = plan.level(level, &below) else { break };
        let kind_steps = (0..).zip(&steps).zip(kinds.iter().zip(kind_names.iter().zip(&errors)));
        let kind_builds =
            kind_steps.map(|((at, step), (plan, ((names, explicit), error)))| KindBuild {
                source: &source,
                build,
                plan,
                step,
                rules: Rules { named: options.rules.clone(), weight: names.weight.clone() },
                names,
                error: *error,
                folder: folder.as_ref(),
                explicit: *explicit,
                previous: before
                    .as_ref()
                    .zip(changed.get(at))
                    .map(|(reader, changed)| PreviousStore { reader, changed }),
            });
        let kind_builds: Vec<KindBuild<'_>> = kind_builds.collect();
        let named: Vec<Kind> = kinds.iter().map(|kind_plan| kind_plan.kind).collect();
        let taken = match checkpoint {
            Some(checkpoint) => checkpoint.take(build, level, (&named, folder.is_some())).await?,
            None => TakeOutcome::Nothing,
        };
        if matches!(taken, TakeOutcome::Discarded) {
            events.report(PyramidEvent::Notice(PyramidNotice::Discarded { level }));
        }
        let made = match taken {
            TakeOutcome::Level(made) => made,
            TakeOutcome::Nothing | TakeOutcome::Discarded => {
                let made = level_build::build_all_kinds(&kind_builds).await?;
                if let Some(checkpoint) = checkpoint {
                    checkpoint.put(build, &made.report, &made.parents).await?;
                }
                made
            }
        };
        if only == Some(level) {
            return Ok((vec![made.report], root.finish()));
        }
        let all = below.iter().copied().fold(Size::default(), Size::combine);
        if made.report.vertices == all.vertices && !options.equal_levels {
            // Such a level would take space and give the same answers as the level below.
            let vertices = all.vertices;
            events.report(PyramidEvent::Notice(PyramidNotice::NothingShrinks { level, vertices }));
            build.remove(&level.to_string()).await?;
            break;
        }
        if let Some(first) = steps.first() {
            root.add_level(level, &first.bin);
        }
        made.documents.iter().for_each(|document| root.announce_level(document));
        source = build.preview(&root.clone().finish()).await?;
        let report = measure_stored(&source, made.report).await?;
        events.report(PyramidEvent::Level(&report));
        if stale.is_some() {
            made.rebuilt
                .iter()
                .for_each(|(rebuilt, _)| events.report(PyramidEvent::Rebuilt(rebuilt)));
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
        links::write((store, &source), build, parents, cross_level, folder).await?;
        root.announce_links(
            links::depth(cross_level, reports.len()),
            cross_level.storage,
            !reports.is_empty(),
        );
    }
    Ok((reports, root.finish()))
}

/// Adds the stored bytes of the level and of each of its kinds to the report.
async fn measure_stored(store: &Store, mut report: LevelReport) -> Result<LevelReport> {
    report.bytes = count_stored_bytes(store, &report.level.to_string()).await?;
    let mut first = report.bytes; // the groups of others lie among its arrays
    for (kind, kind_report) in report.kinds.iter_mut().skip(1) {
        kind_report.bytes = count_stored_bytes(store, &format!("{}/{kind}", report.level)).await?;
        let Some(rest) = first.checked_sub(kind_report.bytes) else {
            let expected = format!("at most {first}");
            let found = kind_report.bytes;
            return Err(inconsistent_error("bytes of a kind", expected, found));
        };
        first = rest;
    }
    if let Some((_, kind_report)) = report.kinds.first_mut() {
        kind_report.bytes = first;
    }
    Ok(report)
}
