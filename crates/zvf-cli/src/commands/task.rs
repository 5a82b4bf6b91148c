//! `zvf task`: plan, run, finish, for work that any scheduler may start, kill and repeat.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde_json::json;
use zvf::tasks::{Job, Plan as TaskPlan, Ran, TaskLine, Tasks, ValidateJob, WorkFolder};
use zvf::{Error, Timeouts};

#[cfg(feature = "write")]
use crate::commands::convert;
#[cfg(feature = "pyramid")]
use crate::commands::pyramid;
#[cfg(feature = "write")]
use crate::commands::recorded::Recorded;
use crate::commands::validate::{Asked, Shown, observe};
use crate::interrupt::Interrupted;
use crate::outcome::{Outcome, Usage};
use crate::session::Session;
use crate::table;

/// Divide work between processes: plan it, run every task, finish.
///
/// The plan divides the work into tasks that know nothing of each other. Each may be run by any process that sees
/// the store and the folder of the plan, as often as wanted: a task that was killed is run again, and of two that run
/// at once one counts. A store that changed since the plan is refused. For stores from files there is "zvf ingest".
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Task {
    #[command(subcommand)]
    Plan(Plan),
    Run(Run),
    Finish(Finish),
    Remove(Remove),
}

/// Find out what there is to do, and write the list of tasks.
#[derive(Debug, Subcommand)]
pub(crate) enum Plan {
    Validate(Validate),
    #[cfg(feature = "write")]
    Convert(Box<PlanConvert>),
    #[cfg(feature = "pyramid")]
    Pyramid(Box<PlanPyramid>),
}

/// Divide "zvf validate": the report of the last step is that of the whole.
///
/// Cells, links and manifests are divided. Documents, ids, groups and attributes of objects are looked into by
/// "zvf task finish" itself.
#[derive(Args, Debug)]
pub(crate) struct Validate {
    /// The store: a folder or a URL.
    store: String,
    #[command(flatten)]
    work: Work,
    #[command(flatten)]
    asked: Asked,
    #[command(flatten)]
    shares: Shares,
}

/// Divide "zvf convert": OUT becomes a folder with a part for each task.
///
/// Points are divided by chunks and lines by objects: parts one after the other are the whole. Graphs, skeletons and
/// meshes are one part, unless --by-objects is given. Of several files each is a part. The folder appears when the work is
/// finished.
#[cfg(feature = "write")]
#[derive(Args, Debug)]
#[command(after_help = CONVERT_EXAMPLES)]
pub(crate) struct PlanConvert {
    #[command(flatten)]
    work: Work,
    #[command(flatten)]
    shares: Shares,
    /// Divide graphs, skeletons and meshes by objects too: what joins objects of two parts, and what belongs to
    /// none, is left out.
    #[arg(long)]
    by_objects: bool,
    #[command(flatten)]
    convert: Recorded<convert::Convert>,
}

/// Divide "zvf pyramid": a task for each level, which needs those before it.
///
/// The store is replaced in one step when the work is finished, and is what "zvf pyramid" makes, byte for byte. Without
/// --levels the number of levels is a guess: what there is more is made in the last step. Of stores with a journal, and of
/// levels that add to each other, "zvf pyramid" itself makes levels.
#[cfg(feature = "pyramid")]
#[derive(Args, Debug)]
#[command(after_help = PYRAMID_EXAMPLES)]
pub(crate) struct PlanPyramid {
    #[command(flatten)]
    work: Work,
    #[command(flatten)]
    pyramid: Recorded<pyramid::Pyramid>,
}

/// The folder of the plan, of a new one.
#[derive(Args, Debug)]
struct Work {
    /// The folder for the plan and what tasks leave for each other: a folder that every process sees, or a URL.
    #[arg(long = "work-dir", alias = "work", value_name = "FOLDER")]
    folder: String,
}

/// Into how many tasks work is divided.
#[derive(Args, Debug)]
struct Shares {
    /// Into about how many tasks each stage is divided.
    #[arg(long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    shares: u32,
}

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
    /// Their numbers, where there are `count`.
    pub(crate) fn numbers(self, count: usize) -> Vec<usize> {
        if self.all { (0..count).collect() } else { self.task }
    }
}

/// Run tasks of a plan.
///
/// A task that is done and whole is left alone. Tasks of a stage need all those of the stages before: without them
/// it ends with exit code 5, and may be tried again later.
#[derive(Args, Debug)]
pub(crate) struct Run {
    /// The folder of the plan.
    folder: String,
    #[command(flatten)]
    chosen: Chosen,
}

/// Check that all tasks are done and whole, and put together what they made.
///
/// Tasks that are missing are named. May be repeated: the folder stays, unless --remove is given.
#[derive(Args, Debug)]
pub(crate) struct Finish {
    /// The folder of the plan.
    folder: String,
    /// Of a validation: write SARIF 2.1.0 to this file, or to standard output for "-".
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    /// Remove the plan and all that tasks left, once the work is done.
    #[arg(long)]
    remove: bool,
}

/// Remove a plan and all that its tasks left.
#[derive(Args, Debug)]
pub(crate) struct Remove {
    /// The folder of the plan.
    folder: String,
}

impl Task {
    pub(crate) async fn run(
        self,
        session: &Session,
        out: &mut dyn Write,
    ) -> anyhow::Result<Outcome> {
        match self {
            Self::Plan(Plan::Validate(plan)) => plan.run(session, out).await,
            #[cfg(feature = "write")]
            Self::Plan(Plan::Convert(plan)) => plan.run(session, out).await,
            #[cfg(feature = "pyramid")]
            Self::Plan(Plan::Pyramid(plan)) => plan.run(session, out).await,
            Self::Run(run) => run.run(session, out).await,
            Self::Finish(finish) => finish.run(session, out).await,
            Self::Remove(remove) => {
                tasks(session, &remove.folder).await?.remove().await?;
                Ok(Outcome::Clean)
            }
        }
    }
}

impl Validate {
    async fn run(self, session: &Session, out: &mut dyn Write) -> anyhow::Result<Outcome> {
        let store = absolute(&self.store)?;
        let options = self.asked.options(session)?;
        let open = session.options(Timeouts::Batch);
        let opened = session.unchecked_store(&store).await.map_err(Error::from);
        let opened = opened.with_context(|| format!("cannot open {store}"))?;
        let progress = session.progress("planning");
        progress.set(store.clone());
        let (place, shares) = ((&opened, store.as_str(), &open), self.shares.count()?);
        let plan = TaskPlan::validate(place, &options, self.asked.journal(), shares).await;
        let plan = plan.with_context(|| format!("cannot plan {store}"))?;
        let folder = folder(session, &self.work.folder)?;
        let tasks = plan.create(&folder).await?;
        drop(progress);
        print_plan(session, &self.work.folder, &tasks, out).await
    }
}

#[cfg(feature = "write")]
impl PlanConvert {
    async fn run(self, session: &Session, out: &mut dyn Write) -> anyhow::Result<Outcome> {
        let progress = session.progress("planning");
        let shares = (self.shares.count()?, self.by_objects);
        let plan = self.convert.plan_parts(session, shares).await;
        let plan = plan.context("cannot plan a conversion")?;
        let tasks = plan.create(&folder(session, &self.work.folder)?).await?;
        drop(progress);
        print_plan(session, &self.work.folder, &tasks, out).await
    }
}

#[cfg(feature = "pyramid")]
impl PlanPyramid {
    async fn run(self, session: &Session, out: &mut dyn Write) -> anyhow::Result<Outcome> {
        let progress = session.progress("planning");
        let plan = self.pyramid.plan_levels(session).await.context("cannot plan levels")?;
        let tasks = plan.create(&folder(session, &self.work.folder)?).await?;
        drop(progress);
        print_plan(session, &self.work.folder, &tasks, out).await
    }
}

impl Shares {
    fn count(&self) -> anyhow::Result<usize> {
        Ok(usize::try_from(self.shares)?)
    }
}

/// The list of tasks, stage by stage, and what is done of it.
async fn print_plan(
    session: &Session,
    folder: &str,
    tasks: &Tasks,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    let (lines, done) = (tasks.plan().lines(), tasks.done().await?);
    if session.json() {
        let listed = lines.iter().zip(&done).enumerate().map(|(number, (line, done))| {
            json!({"task": number, "stage": line.stage, "what": line.what, "done": done})
        });
        let listed: Vec<_> = listed.collect();
        let plan = json!({"kind": tasks.plan().job.name(), "folder": folder, "tasks": listed});
        table::json(&plan, out)?;
        return Ok(Outcome::Clean);
    }
    let mut at = 0;
    for same in lines.chunk_by(|one, other| one.stage == other.stage) {
        let end = at + same.len();
        let finished = done.iter().take(end).skip(at).filter(|done| **done).count();
        write_stage(same, at, finished, out)?;
        at = end;
    }
    let hint =
        format!("run each with: zvf task run {folder} --task I; then: zvf task finish {folder}");
    session.print_notices(out, [hint])?;
    Ok(Outcome::Clean)
}

/// One line for the tasks of a stage.
fn write_stage(
    lines: &[TaskLine],
    first: usize,
    finished: usize,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let stage = lines.first().map_or("", |line| &*line.stage);
    let last = first + lines.len().saturating_sub(1); // a stage has a task
    let numbers = if first == last { first.to_string() } else { format!("{first} to {last}") };
    let what = lines.first().map_or("", |line| line.what.as_str());
    let each = if first == last { "" } else { " and so on" };
    let so_far = if finished > 0 { format!("; {finished} done") } else { String::new() };
    writeln!(out, "{stage:<12}tasks {numbers}: {what}{each}{so_far}")
}

impl Run {
    async fn run(self, session: &Session, out: &mut dyn Write) -> anyhow::Result<Outcome> {
        let tasks = tasks(session, &self.folder).await?;
        let lines = tasks.plan().lines();
        let numbers = self.chosen.numbers(lines.len());
        let ran = match &tasks.plan().job {
            Job::Validate(_) => run_validate(session, &tasks, numbers).await?,
            #[cfg(feature = "write")]
            Job::Convert(job) => run_convert(session, (&tasks, job), numbers).await?,
            #[cfg(feature = "pyramid")]
            Job::Pyramid(job) => run_levels(session, (&tasks, job), numbers).await?,
            #[cfg(not(feature = "write"))]
            Job::Convert(_) => return Err(unknown_job()),
            _ => return Err(unknown_job()),
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

/// Runs tasks of a validation; which of them had not been done.
async fn run_validate(
    session: &Session,
    tasks: &Tasks,
    numbers: Vec<usize>,
) -> anyhow::Result<Vec<(usize, bool)>> {
    let store = tasks.plan().store.clone().unwrap_or_default();
    let open = session.options(Timeouts::Batch);
    let opened = session.unchecked_store(&store).await.map_err(Error::from);
    let opened = opened.with_context(|| format!("cannot open {store}"))?;
    let mut ran = Vec::new();
    for number in numbers {
        let (observer, progress) = observe(session);
        let done = tasks.run_validate(number, (&opened, &open), &observer).await;
        session.interrupt().ask_nobody();
        drop((observer, progress));
        let done = done.with_context(|| format!("cannot run task {number}"))?;
        if done == Ran::Stopped {
            return Err(Interrupted.into());
        }
        ran.push((number, done == Ran::Now));
    }
    Ok(ran)
}

/// Writes parts of a conversion; which of them had not been written.
#[cfg(feature = "write")]
async fn run_convert(
    session: &Session,
    job: (&Tasks, &zvf::tasks::ConvertJob),
    numbers: Vec<usize>,
) -> anyhow::Result<Vec<(usize, bool)>> {
    let mut ran = Vec::new();
    for number in numbers {
        let fresh = convert::run_part(session, job, number).await;
        session.interrupt().ask_nobody();
        // A part is no result yet: a request to stop is noticed before the next part begins.
        session.interrupt().gate().leave();
        ran.push((number, fresh.with_context(|| format!("cannot run task {number}"))?));
    }
    Ok(ran)
}

/// Makes levels; which of them had not been made.
#[cfg(feature = "pyramid")]
async fn run_levels(
    session: &Session,
    job: (&Tasks, &zvf::tasks::PyramidJob),
    numbers: Vec<usize>,
) -> anyhow::Result<Vec<(usize, bool)>> {
    let mut ran = Vec::new();
    for number in numbers {
        let done = pyramid::run_level(session, job, number).await;
        ran.push((number, done.with_context(|| format!("cannot run task {number}"))? == Ran::Now));
    }
    Ok(ran)
}

impl Finish {
    async fn run(self, session: &Session, out: &mut dyn Write) -> anyhow::Result<Outcome> {
        let tasks = tasks(session, &self.folder).await?;
        let (outcome, complete) = match &tasks.plan().job {
            Job::Validate(job) => self.validate(session, (&tasks, job), out).await?,
            #[cfg(feature = "write")]
            Job::Convert(job) => (self.convert(session, (&tasks, job), out).await?, true),
            #[cfg(feature = "pyramid")]
            Job::Pyramid(job) => {
                self.check_no_sarif()?;
                let finished = pyramid::finish_levels(session, (&tasks, job), out).await;
                let place = || format!("cannot finish {}", self.folder);
                (finished.with_context(place).map(|()| Outcome::Clean)?, true)
            }
            #[cfg(not(feature = "write"))]
            Job::Convert(_) => return Err(unknown_job()),
            _ => return Err(unknown_job()),
        };
        if self.remove && complete {
            out.flush()?;
            tasks.remove().await?;
        }
        Ok(outcome)
    }

    /// Prints the report of a validation, and says whether it is complete.
    async fn validate(
        &self,
        session: &Session,
        (tasks, job): (&Tasks, &ValidateJob),
        out: &mut dyn Write,
    ) -> anyhow::Result<(Outcome, bool)> {
        let store = tasks.plan().store.clone().unwrap_or_default();
        let open = session.options(Timeouts::Batch);
        let opened = session.unchecked_store(&store).await.map_err(Error::from);
        let opened = opened.with_context(|| format!("cannot open {store}"))?;
        let (observer, progress) = observe(session);
        let report = tasks.finish_validate((&opened, &open), &observer).await;
        session.interrupt().ask_nobody();
        drop((observer, progress));
        session.print_store_notices(out, &opened)?;
        let report = report.with_context(|| format!("cannot finish {}", self.folder))?;
        let complete = report.complete;
        let shown = Shown { store: &store, journal: job.journal, sarif: self.sarif.as_deref() };
        Ok((shown.print(session, Ok(report), out)?, complete))
    }

    /// Refuses what is said of a validation.
    #[cfg(feature = "write")]
    fn check_no_sarif(&self) -> Result<(), Usage> {
        match &self.sarif {
            Some(_) => Err(Usage::new("--sarif is about a validation, and the plan is none")),
            None => Ok(()),
        }
    }

    /// Gives all parts of a conversion their place.
    #[cfg(feature = "write")]
    async fn convert(
        &self,
        session: &Session,
        (tasks, job): (&Tasks, &zvf::tasks::ConvertJob),
        out: &mut dyn Write,
    ) -> anyhow::Result<Outcome> {
        self.check_no_sarif()?;
        let progress = session.progress("finishing");
        let parts = tasks.finish_convert().await;
        drop(progress);
        let parts = parts.with_context(|| format!("cannot finish {}", self.folder))?;
        let output = &job.target().output;
        if session.json() {
            table::json(&json!({"output": output, "parts": parts}), out)?;
        } else {
            let count = table::counted(u64::try_from(parts.len())?, "part");
            writeln!(out, "{count} in {output}")?;
        }
        Ok(Outcome::Clean)
    }
}

fn unknown_job() -> anyhow::Error {
    Usage::new("a plan of work that this build does not know").into()
}

fn folder(session: &Session, address: &str) -> anyhow::Result<WorkFolder> {
    let opened = WorkFolder::open(address, &session.options(Timeouts::Batch));
    opened.map_err(Error::from).with_context(|| format!("cannot use {address}"))
}

async fn tasks(session: &Session, address: &str) -> anyhow::Result<Tasks> {
    Ok(Tasks::open(&folder(session, address)?).await?)
}

/// The same address for processes that work in another folder.
pub(crate) fn absolute(address: &str) -> anyhow::Result<String> {
    let path = address.strip_prefix("file://").unwrap_or(address);
    if path.contains("://") {
        return Ok(path.to_owned());
    }
    let absolute = std::path::absolute(path)?;
    let text = absolute.to_str().map(str::to_owned);
    text.ok_or_else(|| Usage::new(format!("a path that is no text: {}", absolute.display())).into())
}

const EXAMPLES: &str = "Examples:
  zvf task plan validate brain.zarrvectors --work-dir plan --shares 64
  zvf task run plan --task $SLURM_ARRAY_TASK_ID
  zvf task run plan --all
  zvf task finish plan --sarif findings.sarif
  zvf task plan validate s3://bucket/brain.zarrvectors --work-dir s3://bucket/plan
  zvf task plan convert points.zarrvectors parts --to parquet --work-dir plan
  zvf task plan pyramid brain.zarrvectors --levels 4 --work-dir plan";
#[cfg(feature = "pyramid")]
const PYRAMID_EXAMPLES: &str = "Examples:
  zvf task plan pyramid brain.zarrvectors --levels 4 --work-dir plan
  zvf task run plan --all
  zvf task finish plan --remove";
#[cfg(feature = "write")]
const CONVERT_EXAMPLES: &str = "Examples:
  zvf task plan convert points.zarrvectors parts --to parquet --work-dir plan --shares 64
  zvf task plan convert tracts.zarrvectors parts --to trx --work-dir plan --bbox -50,-50,-50:50,50,50
  zvf task plan convert a.csv b.csv tables --to parquet --work-dir plan";
