//! `zvf task plan`: one subcommand for each kind of work.

use std::io::Write;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde_json::json;
use zvf::Timeouts;
use zvf::tasks::{Plan as TaskPlan, Tasks};

use super::folder;
use crate::commands::convert;
use crate::commands::make_absolute;
use crate::commands::pyramid;
use crate::commands::recorded::Recorded;
use crate::commands::validate::CheckOptions;
use crate::outcome::CommandResult;
use crate::progress::Progress;
use crate::session::Session;

/// Scan the input, and write the list of tasks.
#[derive(Subcommand)]
pub(crate) enum Plan {
    Validate(Validate),
    Convert(Box<PlanConvert>),
    Pyramid(Box<PlanPyramid>),
    Vacuum(PlanVacuum),
}

/// Divide "zvf validate": the report of the last step covers the whole store.
///
/// Cells, links and manifests are divided. "zvf task finish" itself checks documents, ids, groups and attributes of
/// objects.
#[derive(Args)]
pub(crate) struct Validate {
    /// The store: a folder or a URL.
    store: String,
    #[command(flatten)]
    work: Work,
    #[command(flatten)]
    checks: CheckOptions,
    #[command(flatten)]
    shares: Shares,
}

/// Divide "zvf convert": OUT becomes a folder with a part for each task.
///
/// Points are divided by chunks and lines by objects: the concatenated parts are the whole. Graphs, skeletons and
/// meshes are one part, unless --by-objects is given. Of several files each is a part. The folder appears when the work
/// is finished.
#[derive(Args)]
#[command(after_help = CONVERT_EXAMPLES)]
pub(crate) struct PlanConvert {
    #[command(flatten)]
    work: Work,
    #[command(flatten)]
    shares: Shares,
    /// Divide graphs, skeletons and meshes by objects too; links between objects of two parts, and geometry without an
    /// object, are left out.
    #[arg(long)]
    by_objects: bool,
    #[command(flatten)]
    convert: Recorded<convert::Convert>,
}

/// Divide "zvf pyramid": a task for each level, which depends on those before it.
///
/// The store gets the levels in one step when the work is finished, with the same bytes that "zvf pyramid" writes: it is
/// replaced, or they are committed where it is on an object store or has a journal. Without --levels the number of
/// levels is estimated: the last step builds further ones. For additive levels use "zvf pyramid" itself.
#[derive(Args)]
#[command(after_help = PYRAMID_EXAMPLES)]
pub(crate) struct PlanPyramid {
    #[command(flatten)]
    work: Work,
    #[command(flatten)]
    pyramid: pyramid::Pyramid,
}

/// Divide "zvf vacuum": tasks rewrite chunks, and one commit applies them.
///
/// The store stays as it is until the work is finished, and then has the bytes that "zvf vacuum" writes. A store with a
/// commit after the plan is refused: plan again. For a repository of versions use "zvf vacuum" itself.
#[derive(Args)]
#[command(after_help = VACUUM_EXAMPLES)]
pub(crate) struct PlanVacuum {
    /// The store: a folder or a URL.
    store: String,
    #[command(flatten)]
    work: Work,
    #[command(flatten)]
    shares: Shares,
    /// Assume a single writer, for backends without conditional writes.
    #[arg(long)]
    single_writer: bool,
}

/// The folder of a new plan.
#[derive(Args)]
struct Work {
    /// The folder for the plan and for data that tasks exchange: a folder that every process sees, or a URL.
    #[arg(long = "work-dir", alias = "work", value_name = "FOLDER")]
    folder: String,
}

/// The number of tasks.
#[derive(Args)]
struct Shares {
    /// The approximate number of tasks of each stage.
    #[arg(long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    shares: u32,
}

impl Plan {
    pub(super) async fn run(self, session: &Session) -> CommandResult {
        let progress = session.progress("planning");
        let (work, plan) = match self {
            Self::Validate(plan) => {
                let made = plan.plan(session, &progress).await?;
                (plan.work, made)
            }
            Self::Convert(plan) => {
                let PlanConvert { work, shares, by_objects, convert } = *plan;
                let made = convert.plan_parts(session, (shares.count()?, by_objects)).await;
                (work, made.context("cannot plan a conversion")?)
            }
            Self::Pyramid(plan) => {
                let PlanPyramid { work, pyramid } = *plan;
                (work, pyramid.plan_levels(session).await.context("cannot plan levels")?)
            }
            Self::Vacuum(plan) => {
                let made = plan.plan(session, &progress).await?;
                (plan.work, made)
            }
        };
        let (folder, gate) = (folder(session, &work.folder)?, session.interrupt().gate());
        // A later signal does not remove the plan.
        gate.enter().map_err(|_stopped| session.interrupt().reason())?;
        let tasks = plan.create(&folder).await.inspect_err(|_failed| gate.leave())?;
        drop(progress);
        print_plan(session, &work.folder, &tasks).await
    }
}

impl Validate {
    async fn plan(&self, session: &Session, progress: &Progress) -> anyhow::Result<TaskPlan> {
        let store = make_absolute(&self.store)?;
        let options = self.checks.options(session)?;
        let open = session.options(Timeouts::BATCH);
        let opened = session.unchecked_store(&store).await;
        let opened = opened.with_context(|| format!("cannot open {store}"))?;
        progress.set(store.clone());
        let (place, shares) = ((&opened, store.as_str(), &open), self.shares.count()?);
        let plan = TaskPlan::validate(place, &options, self.checks.journal, shares).await;
        plan.with_context(|| format!("cannot plan {store}"))
    }
}

impl PlanVacuum {
    async fn plan(&self, session: &Session, progress: &Progress) -> anyhow::Result<TaskPlan> {
        let store = make_absolute(&self.store)?;
        progress.set(store.clone());
        let (open, shares) = (session.options(Timeouts::BATCH), self.shares.count()?);
        let plan = TaskPlan::vacuum((&store, &open), self.single_writer, shares).await;
        plan.with_context(|| format!("cannot plan a vacuum of {store}"))
    }
}

impl Shares {
    fn count(&self) -> anyhow::Result<usize> {
        Ok(usize::try_from(self.shares)?)
    }
}

/// Prints the tasks, stage by stage, and how many are done.
async fn print_plan(session: &Session, folder: &str, tasks: &Tasks) -> CommandResult {
    let (lines, done) = (tasks.plan().lines(), tasks.list_done().await?);
    let listed = lines.iter().zip(&done).enumerate().map(|(number, (line, done))| {
        json!({"task": number, "stage": line.stage, "what": line.what, "done": done})
    });
    let listed: Vec<_> = listed.collect();
    let plan = json!({"kind": tasks.plan().job.name(), "folder": folder, "tasks": listed});
    session.print(&plan, |out| {
        write_stages(&lines, &done, out, |line, count| {
            let suffix = if count == 1 { "" } else { " and so on" };
            (line.stage.to_string(), format!("{}{suffix};", line.what))
        })?;
        let hint = format!(
            "run each task: zvf task run {folder} --task N; then: zvf task finish {folder}"
        );
        Ok(session.print_notices([hint])?)
    })
}

/// Writes one line for the tasks of each stage. `describe` returns the name of a stage, and what its tasks do, up to
/// a mark before the number of `done` tasks, from the first task and the number of tasks.
pub(crate) fn write_stages<T>(
    tasks: &[T],
    done: &[bool],
    out: &mut dyn Write,
    describe: impl Fn(&T, usize) -> (String, String),
) -> std::io::Result<()> {
    let name_of = |task: &T| describe(task, 1).0;
    let mut first = 0;
    for same in tasks.chunk_by(|one, next| name_of(one) == name_of(next)) {
        let end = first + same.len();
        let numbers = match same.len() {
            1 => first.to_string(),
            _ => format!("{first} to {}", end - 1),
        };
        let (name, mut what) = describe(&same[0], same.len());
        match done[first..end].iter().filter(|done| **done).count() {
            0 => what.truncate(what.trim_end_matches([',', ';']).len()),
            finished => what.push_str(&format!(" {finished} done")),
        }
        writeln!(out, "{name:<12}tasks {numbers}: {what}")?;
        first = end;
    }
    Ok(())
}

const PYRAMID_EXAMPLES: &str = "Examples:
  zvf task plan pyramid brain.zarrvectors --levels 4 --work-dir plan
  zvf task run plan --all
  zvf task finish plan --remove";
const CONVERT_EXAMPLES: &str = "Examples:
  zvf task plan convert scan.zarrvectors parts --to parquet --work-dir plan --shares 64
  zvf task plan convert tracts.zarrvectors lines --to trx --work-dir lines-plan --bbox -50,-50,-50:50,50,50
  zvf task plan convert a.csv b.csv tables --to parquet --work-dir tables-plan";

const VACUUM_EXAMPLES: &str = "Examples:
  zvf task plan vacuum tracts.zarrvectors --work-dir plan --shares 64
  zvf task run plan --all
  zvf task finish plan --remove
  zvf task plan vacuum s3://bucket/tracts.zarrvectors --work-dir s3://bucket/plan";
