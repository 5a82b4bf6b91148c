//! `zvf pyramid` by tasks, one per level.

use anyhow::Context as _;
use zvf::Timeouts;
use zvf::pyramid::PyramidEvent;
use zvf::store::BuildOptions;
use zvf::tasks::{Plan, PyramidJob, Tasks};

use super::Pyramid;
use crate::commands::task::{make_absolute, print_earlier};
use crate::outcome::{CommandResult, Usage, refuse};
use crate::session::Session;

impl Pyramid {
    /// Divides the work: a task for each level.
    pub(crate) async fn plan_levels(&self, session: &Session) -> anyhow::Result<Plan> {
        self.check_divisible()?;
        let store = make_absolute(&self.store)?;
        let open = session.options(Timeouts::BATCH);
        let plan = Plan::pyramid((&store, &open), self.options(session)).await;
        plan.with_context(|| format!("cannot plan levels of {store}"))
    }

    /// Refuses options that tasks do not support.
    fn check_divisible(&self) -> Result<(), Usage> {
        let refresh = self.refresh;
        let given = [
            ("a new store", self.new.is_some(), "copy the store first"),
            ("--dry-run", self.dry_run, "zvf pyramid prints what would be built"),
            ("--additive", self.additive, "build such levels with zvf pyramid"),
            ("--refresh", refresh, "rebuild levels with zvf pyramid"),
            ("--reference", self.is_reference(), "build such levels with zvf pyramid"),
        ];
        if let Some((what, _, hint)) = given.into_iter().find(|(_, given, _)| *given) {
            return refuse(format!("{what} is not possible for levels that tasks build; {hint}"));
        }
        Ok(())
    }
}

pub(crate) fn building(session: &Session) -> BuildOptions {
    let gate = session.interrupt().gate().clone();
    BuildOptions { gate, ..BuildOptions::default() }
}

/// Replaces the store by one with the levels that tasks built, and prints them.
pub(crate) async fn finish_levels(
    session: &Session,
    (tasks, job): (&Tasks, &PyramidJob),
) -> CommandResult {
    let (open, how) = (session.options(Timeouts::BATCH), building(session));
    let store = tasks.store()?;
    let progress = session.progress("building levels");
    let mut notices = Vec::new();
    let on_event = |event: PyramidEvent<'_>| {
        if !matches!(event, PyramidEvent::Level(_)) {
            notices.push(event.to_string());
        }
    };
    let built = tasks.finish_pyramid(&open, &how, on_event).await;
    drop(progress);
    match built? {
        Some(built) => super::print(session, (store, &built), (&job.options, notices)),
        None => print_earlier(session, store, "levels"),
    }
}
