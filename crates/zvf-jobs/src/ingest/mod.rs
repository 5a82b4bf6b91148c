//! A store from files, built by many processes, or by one that may be killed.
//!
//! ```text
//! plan      the files are read once: what they hold, how it is laid out, where they are cut  -> plan.json
//! run       one task of the plan, in any process, as often as one likes
//! finish    what came out is compared with what went in; the store gets its name
//! ```
//!
//! The plan says where the files are, how long they were and when they were changed, and every setting that
//! the store depends on; a task needs nothing else. Files that changed are refused.
//!
//! A slice in the middle of a file is reached by reading what is before it, unless the format tells where it is (npy).
//! Where many processes route one input of another format, it is better several files than one.
//!
//! Not here: what tasks do and how they keep out of each other's way ([`zvf_write::Tasks`]).

mod route;
mod source;

use async_recursion::async_recursion as boxed;
use std::path::{Path, PathBuf};

use zvf_convert::read::Polygons;
use zvf_format::num::{saturating_u32_from_usize, to_u64};
use zvf_publish::hidden_sibling;
use zvf_store::Build;
use zvf_write::{Notice, Report, Stage as TaskStage, Task, TaskPlan, Tasks, WriteOptions};

use self::source::Source;
use crate::Error;
use crate::create::{Layout, Progress, Recipe, Stage, report_progress};
use crate::error::bad_request_error;

/// How a store will be built.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = std::env::temp_dir().join(format!("zvf-ingest-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// use std::ops::ControlFlow;
/// use zvf_jobs::create::Recipe;
/// use zvf_jobs::ingest::{Ingest, PlannedIngest};
///
/// let (file, store) = (dir.join("a.csv"), dir.join("a.zarrvectors"));
/// std::fs::write(&file, "x,y\n1,2\n30,40\n")?;
/// let (address, go) = (store.to_str().unwrap(), &mut |_, _| ControlFlow::Continue(()));
/// let folder = zvf_jobs::ingest::folder(address).ok_or("not of this machine")?;
/// let recipe = Recipe { per_chunk: 1, ..Recipe::default() };
/// let planned = PlannedIngest::create(&[file], address, &folder, &recipe, Some(2), go).await?;
/// assert_eq!((planned.plan.tasks().len(), planned.fresh), (3, true));
///
/// let ingest = Ingest::open(address, &folder, recipe.write)?;
/// for task in ingest.tasks().all() {
///     ingest.run(task, go).await?;
/// }
/// let report = ingest.finish().await?.ok_or("finished before")?;
/// assert_eq!(report.vertices, 2);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PlannedIngest {
    /// What would be written.
    pub layout: Layout,
    /// What there is to do.
    pub plan: TaskPlan,
    /// Whether the plan is a new one; if not, what was done of it stays done.
    pub fresh: bool,
}

impl PlannedIngest {
    /// Looks through `files` and writes the plan of a store at `address` into `folder`; the chunks are
    /// divided into so many shares, or as many as it takes.
    ///
    /// # Errors
    ///
    /// When a file cannot be read, there is a store already, or the folder holds another plan.
    #[boxed]
    pub async fn create(
        files: &[PathBuf],
        address: &str,
        folder: &Path,
        recipe: &Recipe,
        shares: Option<u32>,
        progress: &mut Progress<'_>,
    ) -> Result<Self, Error> {
        let layout = Layout::scan_all(files, recipe, progress)?;
        let plan = plan(files, address, &layout, recipe, shares)?;
        let fresh = begin(address, folder, &plan, recipe).await?;
        Ok(Self { layout, plan, fresh })
    }
}

/// Refuses what a plan does not hold: one process writes it.
pub(crate) fn check_plannable(layout: &Layout, recipe: &Recipe) -> Result<(), Error> {
    let read = &recipe.read;
    let found = [
        ("groups", layout.header.groups),
        ("rings of polygons", read.polygons == Polygons::Rings),
        ("a part of a file", read.bounds.is_some() || read.resolution.is_some()),
    ];
    match found.into_iter().find(|(_, is_found)| *is_found) {
        Some((what, _)) => {
            let expected = "what a plan can hold: use `zvf create`";
            Err(bad_request_error("the input", expected, what))
        }
        None => Ok(()),
    }
}

/// Makes the plan for what was seen of `files`.
pub(crate) fn plan(
    files: &[PathBuf],
    address: &str,
    layout: &Layout,
    recipe: &Recipe,
    shares: Option<u32>,
) -> Result<TaskPlan, Error> {
    check_plannable(layout, recipe)?;
    let source = Source::from_scan(files, address, layout, recipe)?;
    let schema = source.schema()?;
    let shares = shares.unwrap_or_else(|| saturating_u32_from_usize(layout.slices.len()));
    Ok(TaskPlan::new(&schema, layout.slices.clone(), shares, source.to_value()?))
}

/// Writes the plan, where no store is in the way.
pub(crate) async fn begin(
    address: &str,
    folder: &Path,
    plan: &TaskPlan,
    recipe: &Recipe,
) -> Result<bool, Error> {
    if TaskPlan::read(folder)?.is_none() && self::folder(address).is_none() {
        // Refuses a prefix that something is below; nothing is written.
        Build::begin(address, recipe.write.build.clone()).await?.abandon().await?;
    }
    if TaskPlan::read(folder)?.is_some_and(|existing| existing != *plan)
        && Build::is_built_in(address, folder)?
        || Build::is_gone_from(address, folder)?
    {
        TaskPlan::remove(folder)?; // of a store that is there, or that was and is no more
    }
    let fresh = plan.create(folder)?;
    let joined = Build::join(address, folder, recipe.write.build.clone()).await;
    if joined.is_err() && fresh {
        TaskPlan::remove(folder)?;
    }
    drop(joined?);
    Ok(fresh)
}

/// Returns where the plan of a store at `address` is, when nobody says otherwise: a hidden folder beside it.
/// `None` for a URL.
#[must_use]
pub fn folder(address: &str) -> Option<PathBuf> {
    let address = address.strip_prefix("file://").unwrap_or(address);
    if address.contains("://") {
        return None;
    }
    hidden_sibling(&std::path::absolute(address).ok()?, "ingest")
}

/// Removes what is left of the folder where a process finished the store at `address` and was killed while it removed the
/// plan. Returns whether that was so.
///
/// # Errors
///
/// When the folder cannot be looked at or removed.
pub fn remove_finished(address: &str, folder: &Path) -> Result<bool, Error> {
    let planned = !folder.is_dir() || TaskPlan::read(folder)?.is_some();
    let published = match self::folder(address) {
        Some(_) => Build::is_built_in(address, folder)?,
        None => folder.join("root.json").exists(),
    };
    let finished = !planned && published;
    if finished {
        TaskPlan::remove(folder)?;
    }
    Ok(finished)
}

/// A store being built after a plan.
///
/// See [`PlannedIngest`] for all three steps.
///
/// ```
/// let error = zvf_jobs::ingest::Ingest::open("none.zv", "nowhere".as_ref(), Default::default()).unwrap_err();
/// assert!(error.to_string().contains("expected a plan"));
/// ```
#[derive(Debug)]
pub struct Ingest {
    address: String,
    tasks: Tasks,
    recipe: Recipe,
    source: Source,
}

impl Ingest {
    /// Opens the store at `address`, as planned in `folder`. Of `write` memory, scratch space, how to get at
    /// the store and what stops the work count; all else is in the plan.
    ///
    /// # Errors
    ///
    /// When there is no plan, or one for a store at another URL.
    pub fn open(address: &str, folder: &Path, write: WriteOptions) -> Result<Self, Error> {
        let Some(plan) = TaskPlan::read(folder)? else {
            let found = folder.display().to_string();
            let expected = "a plan: run `zvf ingest plan` first";
            return Err(bad_request_error("the folder of the plan", expected, &found));
        };
        let source = Source::from_value(&plan.input)?;
        source.check_store(address)?;
        let recipe = source.recipe(write)?;
        let mut tasks = Tasks::open(address, folder, source.schema()?, recipe.write.clone())?;
        for (format, header) in source.headers() {
            tasks = tasks.with_header(format, header.clone());
        }
        Ok(Self { address: address.to_owned(), tasks, recipe, source })
    }

    /// Leaves out syncs between tasks, for one process that does all ([`run_all`](Self::run_all)).
    pub(crate) fn without_sync_between(self) -> Self {
        Self { tasks: self.tasks.without_sync_between(), ..self }
    }

    /// Returns the tasks.
    #[must_use]
    pub const fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Does one task: `false` when it was done and is whole.
    ///
    /// # Errors
    ///
    /// When a task that it needs is not done, a file is not what it was, or it fails.
    #[boxed]
    pub async fn run(&self, task: Task, progress: &mut Progress<'_>) -> Result<bool, Error> {
        if task.stage != TaskStage::Route {
            report_progress(progress, Stage::Write, 0)?;
            return self.tasks.run(task).await;
        }
        Ok(self.route_missing(&[task], progress)?.contains(&true))
    }

    /// Does several tasks that read input: their slices are read in one go, and routed by several threads. For each,
    /// whether it was done now; `false` when it was done and is whole.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run), of the first of the input that fails; also when one of the tasks reads no input.
    #[boxed]
    pub async fn route(
        &self,
        tasks: &[Task],
        progress: &mut Progress<'_>,
    ) -> Result<Vec<bool>, Error> {
        if let Some(task) = tasks.iter().find(|task| task.stage != TaskStage::Route) {
            return Err(bad_request_error("a task", "one that reads input", &task.to_string()));
        }
        self.route_missing(tasks, progress)
    }

    /// Does all that is not done, in this process, and gives the store its name.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run) and [`finish`](Self::finish); also when another run has given the store its name.
    #[boxed]
    pub async fn run_all(&self, progress: &mut Progress<'_>) -> Result<Report, Error> {
        let tasks = self.tasks.all();
        let (routes, other_tasks): (Vec<Task>, Vec<Task>) =
            tasks.iter().partition(|task| task.stage == TaskStage::Route);
        let routed = self.route_missing(&routes, progress)?;
        let mut done = to_u64(routed.iter().filter(|now| !**now).count());
        for (written, task) in (0_u64..).zip(other_tasks) {
            report_progress(progress, Stage::Write, written)?;
            if !self.tasks.run(task).await? {
                done += 1;
            }
        }
        let Some(mut report) = self.finish().await? else {
            let found = "one that another run gave its name";
            return Err(bad_request_error("the store", "one that is not finished", found));
        };
        if done > 0 {
            let total = to_u64(tasks.len());
            report.notices.push(Notice::Resumed { done, total });
        }
        Ok(report)
    }

    /// Compares what came out with what went in and gives the store its name. `None` when an earlier run
    /// had done so.
    ///
    /// # Errors
    ///
    /// When a task is not done or the records do not add up.
    #[boxed]
    pub async fn finish(&self) -> Result<Option<Report>, Error> {
        let report = self.tasks.finish().await?;
        Build::remove_leftovers(&self.address)?;
        Ok(report)
    }
}

#[cfg(test)]
mod tests;
