//! `zvf task run`.

use std::io::Write;

use anyhow::Context as _;
use clap::Args;
use serde_json::json;
use zvf::Timeouts;
use zvf::tasks::{Job, TaskOutcome, Tasks};

use super::{tasks, unknown_job_error};
use crate::commands::convert;
use crate::commands::pyramid;
use crate::commands::validate::observe;
use crate::interrupt::Interrupted;
use crate::outcome::Outcome;
use crate::session::Session;
use crate::table;

/// Which tasks are run.
#[derive(Args, Debug)]
pub(crate) struct Chosen {
    /// The number of a task, as the plan lists them; may be repeated.
    #[arg(long, value_name = "I", required_unless_present = "all")]
    task: Vec<usize>,
    /// Run every task that is not done, in order.
    #[arg(long, conflicts_with = "task")]
    all: bool,
}

impl Chosen {
    /// Returns the numbers of the tasks, of `count` in all.
    pub(crate) fn numbers(self, count: usize) -> Vec<usize> {
        if self.all { (0..count).collect() } else { self.task }
    }
}

/// Run tasks of a plan.
///
/// A task that is complete is skipped. Tasks of a stage depend on all those of the stages before: without them the
/// command ends with exit code 5, and may be repeated later.
#[derive(Args, Debug)]
pub(crate) struct Run {
    /// The folder of the plan.
    folder: String,
    #[command(flatten)]
    chosen: Chosen,
}

impl Run {
    pub(super) async fn run(
        self,
        session: &Session,
        out: &mut dyn Write,
    ) -> anyhow::Result<Outcome> {
        let tasks = tasks(session, &self.folder).await?;
        let lines = tasks.plan().lines();
        let numbers = self.chosen.numbers(lines.len());
        let ran = match &tasks.plan().job {
            Job::Validate(_) => run_validate(session, &tasks, numbers).await?,
            Job::Convert(job) => run_convert(session, (&tasks, job), numbers).await?,
            Job::Pyramid(job) => run_levels(session, (&tasks, job), numbers).await?,
            Job::Vacuum(_) => run_vacuum(session, &tasks, numbers).await?,
            _ => return Err(unknown_job_error()),
        };
        if session.json() {
            let ran = ran.iter().map(|(number, fresh)| json!({"task": number, "ran": fresh}));
            table::json(&json!({"tasks": ran.collect::<Vec<_>>()}), out)?;
            return Ok(Outcome::Clean);
        }
        for (number, fresh) in ran {
            let how = if fresh { "done" } else { "had been done" };
            let line = lines.get(number).map_or("", |line| &*line.stage);
            writeln!(out, "task {number}, {line}: {how}")?;
        }
        Ok(Outcome::Clean)
    }
}

/// Runs tasks of a validation; returns which of them had not been done.
async fn run_validate(
    session: &Session,
    tasks: &Tasks,
    numbers: Vec<usize>,
) -> anyhow::Result<Vec<(usize, bool)>> {
    let store = tasks.store()?;
    let open = session.options(Timeouts::BATCH);
    let opened = session.unchecked_store(store).await;
    let opened = opened.with_context(|| format!("cannot open {store}"))?;
    let mut ran = Vec::new();
    for number in numbers {
        let (observer, progress) = observe(session);
        let done = tasks.run_validate(number, (&opened, &open), &observer).await;
        session.interrupt().ask_nobody();
        drop((observer, progress));
        let done = done.with_context(|| format!("cannot run task {number}"))?;
        if done == TaskOutcome::Stopped {
            return Err(Interrupted.into());
        }
        ran.push((number, done == TaskOutcome::Done));
    }
    Ok(ran)
}

/// Writes parts of a conversion; returns which of them had not been written.
async fn run_convert(
    session: &Session,
    job: (&Tasks, &zvf::tasks::ConvertJob),
    numbers: Vec<usize>,
) -> anyhow::Result<Vec<(usize, bool)>> {
    let mut ran = Vec::new();
    for number in numbers {
        let fresh = convert::run_part(session, job, number).await;
        session.interrupt().ask_nobody();
        // A part is not a final result: a request to stop is honoured before the next part begins.
        session.interrupt().gate().leave();
        ran.push((number, fresh.with_context(|| format!("cannot run task {number}"))?));
    }
    Ok(ran)
}

/// Builds levels; returns which of them had not been built.
async fn run_levels(
    session: &Session,
    job: (&Tasks, &zvf::tasks::PyramidJob),
    numbers: Vec<usize>,
) -> anyhow::Result<Vec<(usize, bool)>> {
    let mut ran = Vec::new();
    for number in numbers {
        let done = pyramid::run_level(session, job, number).await;
        ran.push((
            number,
            done.with_context(|| format!("cannot run task {number}"))? == TaskOutcome::Done,
        ));
    }
    Ok(ran)
}

/// Rewrites chunks; returns which tasks had not been done.
async fn run_vacuum(
    session: &Session,
    tasks: &Tasks,
    numbers: Vec<usize>,
) -> anyhow::Result<Vec<(usize, bool)>> {
    let open = session.options(Timeouts::BATCH);
    let mut ran = Vec::new();
    for number in numbers {
        let progress = session.progress("writing chunks again");
        progress.set(format!("task {number}"));
        let done = tasks.run_vacuum(number, &open).await;
        drop(progress);
        ran.push((
            number,
            done.with_context(|| format!("cannot run task {number}"))? == TaskOutcome::Done,
        ));
    }
    Ok(ran)
}
