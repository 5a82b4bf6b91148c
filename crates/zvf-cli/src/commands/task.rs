//! `zvf task`: plan, run, finish, for work that a scheduler may start, kill and repeat.

mod finish;
mod plan;
mod run;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use zvf::Timeouts;
use zvf::tasks::{Tasks, WorkFolder};

use self::finish::Finish;
use self::plan::Plan;
pub(crate) use self::plan::write_stages;
use self::run::Run;
pub(crate) use self::run::{Chosen, print_ran};
use crate::outcome::{CommandResult, Outcome, Usage};
use crate::session::Session;

/// Divide work between processes: plan it, run every task, finish.
///
/// The plan divides the work into independent tasks. Any process that sees the store and the folder of the plan may run
/// each, any number of times: a task that was killed is run again, and of two concurrent runs one counts. A store that
/// changed since the plan is refused. To create a store from files use "zvf ingest".
#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Task {
    #[command(subcommand)]
    Plan(Plan),
    Run(Run),
    Finish(Finish),
    Remove(Remove),
}

/// Remove a plan and all files of its tasks.
#[derive(Args)]
pub(crate) struct Remove {
    /// The folder of the plan.
    folder: String,
}

impl Task {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        match self {
            Self::Plan(plan) => plan.run(session).await,
            Self::Run(run) => run.run(session).await,
            Self::Finish(finish) => finish.run(session).await,
            Self::Remove(remove) => {
                tasks(session, &remove.folder).await?.remove().await?;
                Ok(Outcome::Clean)
            }
        }
    }
}

fn unknown_job_error() -> anyhow::Error {
    Usage::new("this build does not know the work of the plan").into()
}

fn folder(session: &Session, address: &str) -> anyhow::Result<WorkFolder> {
    let opened = WorkFolder::open(address, &session.options(Timeouts::BATCH));
    opened.with_context(|| format!("cannot use {address}"))
}

async fn tasks(session: &Session, address: &str) -> anyhow::Result<Tasks> {
    Ok(Tasks::open(&folder(session, address)?).await?)
}

const EXAMPLES: &str = "Examples:
  zvf task plan validate brain.zarrvectors --work-dir plan --shares 64
  zvf task run plan --task $SLURM_ARRAY_TASK_ID
  zvf task run plan --all
  zvf task finish plan --sarif findings.sarif
  zvf task plan validate s3://bucket/brain.zarrvectors --work-dir s3://bucket/plan
  zvf task plan convert scan.zarrvectors parts --to parquet --work-dir converting
  zvf task plan pyramid brain.zarrvectors --levels 4 --work-dir levels
  zvf task plan vacuum tracts.zarrvectors --work-dir vacuuming";
