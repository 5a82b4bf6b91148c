//! `zvf pyramid` by tasks, one per level.

use std::io::Write;

use anyhow::Context as _;
use serde_json::json;
use zvf::Timeouts;
use zvf::pyramid::{Options, PyramidEvent};
use zvf::store::BuildOptions;
use zvf::tasks::{Plan, PyramidJob, TaskOutcome, Tasks};

use super::Pyramid;
use crate::commands::recorded::{self, Recorded};
use crate::commands::task::make_absolute;
use crate::outcome::Usage;
use crate::session::Session;
use crate::table;

impl Recorded<Pyramid> {
    /// Divides the work: a task for each level.
    pub(crate) async fn plan_levels(self, session: &Session) -> anyhow::Result<Plan> {
        let Self { args: pyramid, words } = self;
        pyramid.check_divisible()?;
        let store = make_absolute(&pyramid.store)?;
        let open = session.options(Timeouts::BATCH);
        let options = pyramid.options(session);
        let plan = Plan::pyramid((&store, &open), &options, words).await;
        plan.with_context(|| format!("cannot plan levels of {store}"))
    }
}

impl Pyramid {
    /// Refuses options that tasks do not support.
    fn check_divisible(&self) -> Result<(), Usage> {
        let refresh = self.refresh;
        let given = [
            ("a new store", self.new.is_some(), "copy the store first"),
            ("--dry-run", self.dry_run, "zvf pyramid itself prints what would be built"),
            ("--additive", self.additive, "make such levels with zvf pyramid itself"),
            ("--refresh", refresh, "build levels again with zvf pyramid itself"),
            ("--reference", self.is_reference(), "make such levels with zvf pyramid itself"),
        ];
        if let Some((what, _, hint)) = given.into_iter().find(|(_, given, _)| *given) {
            return Err(Usage::new(format!("{what} of levels made by tasks")).with_hint(hint));
        }
        Ok(())
    }

    /// Returns the settings of a plan, which are the same for all its tasks.
    fn read_plan(session: &Session, job: &PyramidJob) -> anyhow::Result<(Self, Options)> {
        let pyramid: Self = recorded::parse(&job.words, &["store"])?;
        let options = Options { memory: job.memory, ..pyramid.options(session) };
        Ok((pyramid, options))
    }
}

fn building(session: &Session) -> BuildOptions {
    let gate = session.interrupt().gate().clone();
    BuildOptions { gate, ..BuildOptions::default() }
}

/// Builds the level of task `number`.
pub(crate) async fn run_level(
    session: &Session,
    (tasks, job): (&Tasks, &PyramidJob),
    number: usize,
) -> anyhow::Result<TaskOutcome> {
    let (_, options) = Pyramid::read_plan(session, job)?;
    let (open, how) = (session.options(Timeouts::BATCH), building(session));
    let progress = session.progress("building levels");
    progress.set(format!("task {number}"));
    let done = tasks.run_level(number, &open, &options, &how).await;
    drop(progress);
    Ok(done?)
}

/// Replaces the store by one with the levels that tasks built, and prints them.
pub(crate) async fn finish_levels(
    session: &Session,
    (tasks, job): (&Tasks, &PyramidJob),
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let (pyramid, options) = Pyramid::read_plan(session, job)?;
    let (open, how) = (session.options(Timeouts::BATCH), building(session));
    let store = tasks.plan().store.clone().unwrap_or_default();
    let progress = session.progress("building levels");
    let mut notices = Vec::new();
    let on_event = |event: PyramidEvent<'_>| {
        if !matches!(event, PyramidEvent::Level(_)) {
            notices.push(event.to_string());
        }
    };
    let built = tasks.finish_pyramid(&open, &options, &how, on_event).await;
    drop(progress);
    match built? {
        Some(built) => pyramid.print(session, (&store, &built), notices, out),
        None if session.json() => {
            let made = json!({"store": store, "levels": null});
            Ok(table::json(&made, out)?)
        }
        None => Ok(writeln!(out, "{store} had been finished by an earlier run")?),
    }
}
