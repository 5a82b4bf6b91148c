//! `zvf task run`.

use std::fmt::Display;

use anyhow::Context as _;
use clap::Args;
use serde_json::{Value, json};
use zvf::tasks::{Job, TaskOutcome, Tasks};
use zvf::{Store, Timeouts};

use super::{tasks, unknown_job_error};
use crate::commands::convert;
use crate::commands::pyramid;
use crate::commands::validate::observe;
use crate::interrupt::Interrupted;
use crate::outcome::CommandResult;
use crate::session::Session;

/// Which tasks are run.
#[derive(Args)]
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
#[derive(Args)]
pub(crate) struct Run {
    /// The folder of the plan.
    folder: String,
    #[command(flatten)]
    chosen: Chosen,
}

impl Run {
    pub(super) async fn run(self, session: &Session) -> CommandResult {
        let tasks = tasks(session, &self.folder).await?;
        let lines = tasks.plan().lines();
        let checked = if matches!(tasks.plan().job, Job::Validate(_)) {
            Some(open_checked(session, &tasks).await?)
        } else {
            None
        };
        let mut ran = Vec::new();
        for number in self.chosen.numbers(lines.len()) {
            let done = run_task(session, &tasks, checked.as_ref(), number).await;
            let done = done.with_context(|| format!("cannot run task {number}"))?;
            if done == TaskOutcome::Stopped {
                return Err(Interrupted.into());
            }
            let stage = lines.get(number).map_or("", |line| &*line.stage);
            let fresh = done == TaskOutcome::Done;
            ran.push((stage, json!({"task": number, "ran": fresh})));
        }
        print_ran(session, &ran)
    }
}

/// Prints which tasks were run: the words of each, and its JSON.
pub(crate) fn print_ran(session: &Session, ran: &[(impl Display, Value)]) -> CommandResult {
    let tasks: Vec<&Value> = ran.iter().map(|(_, task)| task).collect();
    session.print(&json!({ "tasks": tasks }), |out| {
        for (words, task) in ran {
            let how = if task["ran"] == true { "done" } else { "already done" };
            writeln!(out, "task {}, {words}: {how}", task["task"])?;
        }
        Ok(())
    })
}

/// Opens the store that a plan validates.
pub(super) async fn open_checked(session: &Session, tasks: &Tasks) -> anyhow::Result<Store> {
    let store = tasks.store()?;
    let opened = session.unchecked_store(store).await;
    opened.with_context(|| format!("cannot open {store}"))
}

/// Runs one task; `checked` is the store of a validation.
async fn run_task(
    session: &Session,
    tasks: &Tasks,
    checked: Option<&Store>,
    number: usize,
) -> anyhow::Result<TaskOutcome> {
    let open = session.options(Timeouts::BATCH);
    Ok(match (&tasks.plan().job, checked) {
        (Job::Validate(_), Some(store)) => {
            let (observer, _progress) = observe(session);
            tasks.run_validate(number, (store, &open), &observer).await?
        }
        (Job::Convert(job), _) => {
            let done = convert::run_part(session, (tasks, job), number).await;
            // A part is not a final result: a request to stop is honoured before the next part begins.
            session.interrupt().gate().leave();
            done?
        }
        (Job::Pyramid(_), _) => {
            let progress = session.progress("building levels");
            progress.set(format!("task {number}"));
            tasks.run_level(number, &open, &pyramid::building(session)).await?
        }
        (Job::Vacuum(_), _) => {
            let progress = session.progress("rewriting chunks");
            progress.set(format!("task {number}"));
            tasks.run_vacuum(number, &open).await?
        }
        _ => return Err(unknown_job_error()),
    })
}
