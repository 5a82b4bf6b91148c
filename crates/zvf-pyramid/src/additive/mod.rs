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
mod shares;
pub(crate) mod source_levels;

use zvf_error::Result;
use zvf_format::num::usize_from_u32;
use zvf_metadata::{Capability, Root as RootDocument};
use zvf_model::{LevelId, LevelReader};
use zvf_query::Reader;
use zvf_store::{BuildOptions, Store};

use self::increment::IncrementWriter;
use self::shares::Shares;
use crate::checkpoint::Checkpoint;
use crate::error::unsupported_error;
use crate::level_build::KindBuild;
use crate::names::Names;
use crate::plan::{KindPlan, PyramidPlan, Step};
use crate::report::{LevelReport, OnEvent};
use crate::root::Root;
use crate::target::BuildTarget;
use crate::{Method, levels};

/// Distributes the store at `address` over levels; `None` when there is nothing for a second level.
pub(crate) async fn build(
    (address, store): (&str, &Store),
    plan: &PyramidPlan,
    (how, checkpoint): (&BuildOptions, Option<&Checkpoint>),
    on_event: &mut OnEvent<'_>,
) -> Result<Option<Vec<LevelReport>>> {
    let (full, only) = (LevelReader::chain(store, LevelId(0)).await?, &plan.kinds[0]);
    source_levels::check(&full, only.kind).await?;
    let (shares, steps) = Shares::assign(&Reader::new(store.clone()), &full, plan).await?;
    if steps.len() < 2 {
        return Ok(None);
    }
    let build = levels::begin(address, store, how, levels::Kept::BesideLevels).await?;
    // Files that got a second name no longer match the snapshot that was read.
    let store = Store::open(address, plan.options.opening()).await?;
    let target = BuildTarget { build: &build, checkpoint, only: None };
    let made = spread_levels(&store, target, (only, &steps, &shares), on_event).await;
    levels::publish(build, made, true).await.map(Some)
}

/// Merges everything level 0 of the store shows into a level 0 that is complete by itself; also
/// returns the root of the store with that level alone.
pub(crate) async fn collect_level_0(
    store: &Store,
    target: BuildTarget<'_>,
    plan: &KindPlan,
    on_event: &mut OnEvent<'_>,
) -> Result<(Vec<LevelReport>, RootDocument)> {
    let full = LevelReader::chain(store, LevelId(0)).await?;
    source_levels::check(&full, plan.kind).await?;
    let shares = Shares::load_all(&full, plan.kind).await?;
    spread_levels(store, target, (plan, &[plan.base_step()], &shares), on_event).await
}

async fn spread_levels(
    store: &Store,
    target: BuildTarget<'_>,
    (plan, steps, shares): (&KindPlan, &[Step], &Shares),
    on_event: &mut OnEvent<'_>,
) -> Result<(Vec<LevelReport>, RootDocument)> {
    let reader = Reader::new(store.clone());
    let full = LevelReader::chain(store, LevelId(0)).await?;
    let names = Names::pick_unused(&full[0]).await?;
    let mut root = Root::from_store(store);
    root.without_links();
    if steps.len() > 1 {
        root.require(Capability::AdditiveLevels);
    }
    let (mut reports, mut counted) = (Vec::new(), (0_u64, 0_u64));
    for step in steps {
        let error = (plan.method == Method::Keep).then_some(0.0);
        let kind_build = KindBuild {
            source: store,
            build: target.build,
            plan,
            step,
            names: &names,
            error,
            folder: None,
            previous: None,
        };
        let level_build = IncrementWriter {
            kind_build,
            reader: &reader,
            levels: &full,
            shares,
            adds: usize_from_u32(step.level) + 1 < steps.len(),
        };
        let (kinds, built) = ((&[plan.kind][..], false), level_build.write());
        let made = target.take_or_build(step.level, kinds, on_event, built).await?;
        if step.level > 0 {
            root.add_level(step.level, &step.bin);
        }
        let (_, report) = target.show(&mut root, &made, on_event).await?;
        counted.0 += report.vertices;
        counted.1 += report.elements;
        reports.push(report);
    }
    let links = source_levels::count_links_of_levels(&full, plan.kind).await?;
    let check = |what, expected, total: u64, found: u64| match total == found {
        true => Ok(()),
        false => Err(unsupported_error(what, expected, format!("{found} of {total}"))),
    };
    let expected = "each in one object: other vertices would be lost or doubled";
    check("vertices", expected, plan.all.vertices, counted.0)?;
    let expected = "each in one object: others would be lost";
    check("edges and faces", expected, links.unwrap_or(counted.1), counted.1)?;
    Ok((reports, root.finish()))
}
