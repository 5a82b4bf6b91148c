//! `zvf task finish`.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use serde_json::json;
use zvf::Timeouts;
use zvf::tasks::{Job, Tasks, ValidateJob};

use super::run::open_checked;
use super::{tasks, unknown_job_error};
use crate::commands::edit;
use crate::commands::pyramid;
use crate::commands::validate::{Shown, observe};
use crate::outcome::{CommandResult, Outcome, refuse};
use crate::session::Session;
use crate::table;

/// Check that all tasks are complete, and assemble their results.
///
/// Missing tasks are listed. May be repeated: the folder stays, unless --remove is given.
#[derive(Args)]
pub(crate) struct Finish {
    /// The folder of the plan.
    folder: String,
    /// For a validation: write SARIF 2.1.0 to this file, or to standard output for "-".
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    /// Remove the plan and everything that tasks left, once the work is done.
    #[arg(long)]
    remove: bool,
}

impl Finish {
    pub(super) async fn run(self, session: &Session) -> CommandResult {
        let tasks = tasks(session, &self.folder).await?;
        if self.sarif.is_some() && !matches!(tasks.plan().job, Job::Validate(_)) {
            return refuse("--sarif is for the plan of a validation, which this is not");
        }
        let (outcome, complete) = match &tasks.plan().job {
            Job::Validate(job) => self.validate(session, (&tasks, job)).await?,
            Job::Convert(job) => (self.convert(session, (&tasks, job)).await?, true),
            Job::Pyramid(job) => {
                let finished = pyramid::finish_levels(session, (&tasks, job)).await;
                let place = || format!("cannot finish {}", self.folder);
                (finished.with_context(place)?, true)
            }
            Job::Vacuum(_) => (self.vacuum(session, &tasks).await?, true),
            _ => return Err(unknown_job_error()),
        };
        if self.remove && complete {
            session.out().flush()?;
            tasks.remove().await?;
        }
        Ok(outcome)
    }

    /// Prints the report of a validation, and returns whether problems were found.
    async fn validate(
        &self,
        session: &Session,
        (tasks, job): (&Tasks, &ValidateJob),
    ) -> anyhow::Result<(Outcome, bool)> {
        let (store, open) = (tasks.store()?, session.options(Timeouts::BATCH));
        let opened = open_checked(session, tasks).await?;
        let (observer, progress) = observe(session);
        let report = tasks.finish_validate((&opened, &open), &observer).await;
        drop((observer, progress));
        session.print_store_notices(&opened)?;
        let report = report.with_context(|| format!("cannot finish {}", self.folder))?;
        let complete = report.complete;
        let shown = Shown { store, journal: job.journal, sarif: self.sarif.as_deref() };
        Ok((shown.print(session, Ok(report))?, complete))
    }

    /// Publishes all parts of a conversion.
    async fn convert(
        &self,
        session: &Session,
        (tasks, job): (&Tasks, &zvf::tasks::ConvertJob),
    ) -> CommandResult {
        let parts = session.during("finishing", tasks.finish_convert()).await;
        let parts = parts.with_context(|| format!("cannot finish {}", self.folder))?;
        let output = &job.target.output;
        let count = table::format_count(parts.len(), "part");
        session.print(&json!({"output": output, "parts": parts}), |out| {
            Ok(writeln!(out, "{count} in {output}")?)
        })
    }

    /// Commits the chunks that tasks rewrote, and prints the commit.
    async fn vacuum(&self, session: &Session, tasks: &Tasks) -> CommandResult {
        let (open, gate) = (session.options(Timeouts::BATCH), session.interrupt().gate());
        let report = session.during("finishing", tasks.finish_vacuum(&open, gate)).await;
        let report = report.with_context(|| format!("cannot finish {}", self.folder))?;
        let store = tasks.store()?;
        match report {
            Some(report) => edit::finish(Ok(report), store, session),
            None => pyramid::print_earlier(session, store, "commits"),
        }
    }
}
