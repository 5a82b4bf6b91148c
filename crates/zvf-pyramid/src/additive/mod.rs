//! Additive levels: each vertex is stored once, at the coarsest level that shows it.
//!
//! ```text
//! own(L)        what level L shows and level L + 1 does not; all of it, at the coarsest level
//! shown at L    own(L), and what is shown at L + 1: what a level that is read alone would hold
//! ```
//!
//! So level 0 is rewritten without the vertices that moved to other levels. That works where
//! coarser levels hold unchanged vertices of finer ones: whole objects (`keep`) or single points
//! (`subset`). The level of each object is chosen before anything is written ([`shares`]), and
//! before anything is published, a count checks that everything level 0 showed was written exactly
//! once.
//!
//! A store that already has such levels is rewritten in the same way: everything its level 0 shows
//! is distributed again, or is merged into one level ([`collect_level_0`]).
//!
//! Not here: queries of such levels (`zvf-query`).

mod increment;
pub(crate) mod settings;
mod shares;
mod source_levels;

use zvf_error::Result;
use zvf_format::num::usize_from_u32;
use zvf_metadata::{Capability, Root as RootDocument};
use zvf_model::{LevelId, LevelReader};
use zvf_query::Reader;
use zvf_store::{Build, BuildOptions, Store};

use self::increment::IncrementWriter;
use self::shares::Shares;
use crate::checkpoint::{Checkpoint, TakeOutcome};
use crate::error::unsupported_error;
use crate::level_build::KindBuild;
use crate::names::Names;
use crate::plan::{KindPlan, Step};
use crate::report::{EventReporter, LevelReport, PyramidEvent, PyramidNotice};
use crate::root::Root;
use crate::shape::Rules;
use crate::size::count_stored_bytes;
use crate::{Method, levels};

/// Distributes the store at `address` over levels; `None` when there is nothing for a second level.
pub(crate) async fn build(
    (address, store): (&str, &Store),
    plan: &KindPlan,
    (how, checkpoint): (&BuildOptions, Option<&Checkpoint>),
    events: &mut EventReporter<'_>,
) -> Result<Option<Vec<LevelReport>>> {
    let full = LevelReader::chain(store, LevelId(0)).await?;
    source_levels::check(&full, plan.kind).await?;
    let (shares, steps) = Shares::assign(&Reader::new(store.clone()), &full, plan).await?;
    if steps.len() < 2 {
        return Ok(None);
    }
    let build = levels::begin_anew(address, store, how).await?;
    // Files that got a second name no longer match the snapshot that was read.
    let store = Store::open(address, plan.options().opening()).await?;
    let made = spread_levels(&store, (&build, checkpoint), (plan, &steps, &shares), events).await;
    levels::publish(build, made).await.map(Some)
}

/// Merges everything level 0 of the store shows into a level 0 that is complete by itself; also
/// returns the root of the store with that level alone.
pub(crate) async fn collect_level_0(
    store: &Store,
    how: (&Build, Option<&Checkpoint>),
    plan: &KindPlan,
    events: &mut EventReporter<'_>,
) -> Result<(Vec<LevelReport>, RootDocument)> {
    let full = LevelReader::chain(store, LevelId(0)).await?;
    source_levels::check(&full, plan.kind).await?;
    let shares = Shares::load_all(&full, plan.kind).await?;
    spread_levels(store, how, (plan, &[plan.base_step()], &shares), events).await
}

async fn spread_levels(
    store: &Store,
    (build, checkpoint): (&Build, Option<&Checkpoint>),
    (plan, steps, shares): (&KindPlan, &[Step], &Shares),
    events: &mut EventReporter<'_>,
) -> Result<(Vec<LevelReport>, RootDocument)> {
    let reader = Reader::new(store.clone());
    let full = LevelReader::chain(store, LevelId(0)).await?;
    let Some(first) = full.first() else { return Err(source_levels::missing_levels_error()) };
    let names = Names::pick_unused(first).await?;
    let explicit = source_levels::is_explicit(first);
    let mut root = Root::from_store(store);
    root.without_links();
    if steps.len() > 1 {
        root.require(Capability::AdditiveLevels);
    }
    let (mut reports, mut counted) = (Vec::new(), (0_u64, 0_u64));
    for step in steps {
        let share = shares.level_share(step.level).expect("each step has its share");
        let rules = Rules { named: Vec::new(), weight: names.weight.clone() };
        let error = (plan.method == Method::Keep).then_some(0.0);
        let kind_build = KindBuild {
            source: store,
            build,
            plan,
            step,
            rules,
            names: &names,
            error,
            folder: None,
            explicit,
            previous: None,
        };
        let level_build = IncrementWriter {
            kind_build,
            reader: &reader,
            levels: &full,
            share,
            adds: usize_from_u32(step.level) + 1 < steps.len(),
        };
        let taken = match checkpoint {
            Some(checkpoint) => checkpoint.take(build, step.level, (&[plan.kind], false)).await?,
            None => TakeOutcome::Nothing,
        };
        if matches!(taken, TakeOutcome::Discarded) {
            events.report(PyramidEvent::Notice(PyramidNotice::Discarded { level: step.level }));
        }
        let (mut report, documents) = match taken {
            TakeOutcome::Level(made) => (made.report, made.documents),
            TakeOutcome::Nothing | TakeOutcome::Discarded => {
                let made = level_build.write().await?;
                if let Some(checkpoint) = checkpoint {
                    checkpoint.put(build, &made.0, &[]).await?;
                }
                (made.0, vec![made.1])
            }
        };
        if step.level > 0 {
            root.add_level(step.level, &step.bin);
        }
        documents.iter().for_each(|document| root.announce_level(document));
        let preview = build.preview(&root.clone().finish()).await?;
        report.bytes = count_stored_bytes(&preview, &step.level.to_string()).await?;
        events.report(PyramidEvent::Level(&report));
        counted.0 += report.vertices;
        counted.1 += report.elements;
        reports.push(report);
    }
    let links = source_levels::count_links_of_levels(&full, plan.kind).await?;
    for (what, expected, total, found) in [
        (
            "vertices",
            "each in one object: other vertices would be lost or doubled",
            plan.vertices(),
            counted.0,
        ),
        (
            "edges and faces",
            "each in one object: others would be lost",
            links.unwrap_or(counted.1),
            counted.1,
        ),
    ] {
        if total != found {
            return Err(unsupported_error(what, expected, format!("{found} of {total}")));
        }
    }
    Ok((reports, root.finish()))
}

/// Returns the steps of a plan after a step for level 0, which is rewritten.
fn with_level_0(plan: &KindPlan) -> Vec<Step> {
    let mut steps = vec![plan.base_step()];
    steps.extend(plan.steps());
    steps
}
