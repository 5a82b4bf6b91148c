//! Builds a store from files, with many processes, or with one that may be killed.
//!
//! ```text
//! plan      the files are read once: what they hold, how it is laid out, where they are cut  -> plan.json
//! run       one task of the plan, in any process, as often as one likes
//! finish    what came out is compared with what went in; the store gets its name
//! ```
//!
//! The plan records the paths, lengths and modification times of the files, and every setting that
//! affects the store; a task needs nothing else. Changed files are refused.
//!
//! To reach a slice in the middle of a file, everything before it must be read, unless the format
//! has offsets (npy). If many processes route one input of another format, several files are better
//! than one.
//!
//! Not here: the work of tasks and their isolation from each other ([`zvf_write::WriteTasks`]).

mod route;
mod source;

use async_recursion::async_recursion as boxed;
use std::path::{Path, PathBuf};

use zvf_convert::read::Polygons;
use zvf_format::num::{saturating_u32_from_usize, to_u64};
use zvf_publish::hidden_sibling;
use zvf_store::Build;
use zvf_write::{
    Phase as TaskStage, Report, Task, TaskPlan, WriteNotice, WriteOptions, WriteTasks,
};

use self::source::PlannedInput;
use crate::Error;
use crate::create::{CreateStage, OnStage, Recipe, StoreLayout, report_progress};
use crate::error::bad_request_error;

/// The plan of a build.
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
    /// The layout of the store.
    pub layout: StoreLayout,
    /// The tasks.
    pub plan: TaskPlan,
    /// Whether the plan is new; if not, finished tasks stay finished.
    pub fresh: bool,
}

impl PlannedIngest {
    /// Scans `files` and writes the plan of a store at `address` into `folder`; the chunks are
    /// divided into this many shares, or as many as necessary.
    ///
    /// # Errors
    ///
    /// When a file cannot be read, the store exists, or the folder has another plan.
    #[boxed]
    pub async fn create(
        files: &[PathBuf],
        address: &str,
        folder: &Path,
        recipe: &Recipe,
        shares: Option<u32>,
        progress: &mut OnStage<'_>,
    ) -> Result<Self, Error> {
        let layout = StoreLayout::scan_all(files, recipe, progress)?;
        let plan = plan(files, address, &layout, recipe, shares)?;
        let fresh = begin(address, folder, &plan, recipe).await?;
        Ok(Self { layout, plan, fresh })
    }
}

/// Refuses options that a plan does not support: these stores are written by one process.
pub(crate) fn check_plannable(layout: &StoreLayout, recipe: &Recipe) -> Result<(), Error> {
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

/// Creates the plan for scanned `files`.
pub(crate) fn plan(
    files: &[PathBuf],
    address: &str,
    layout: &StoreLayout,
    recipe: &Recipe,
    shares: Option<u32>,
) -> Result<TaskPlan, Error> {
    check_plannable(layout, recipe)?;
    let source = PlannedInput::from_scan(files, address, layout, recipe)?;
    let schema = source.schema()?;
    let shares = shares.unwrap_or_else(|| saturating_u32_from_usize(layout.slices.len()));
    Ok(TaskPlan::new(&schema, layout.slices.clone(), shares, source.to_value()?))
}

/// Writes the plan, unless a store exists.
pub(crate) async fn begin(
    address: &str,
    folder: &Path,
    plan: &TaskPlan,
    recipe: &Recipe,
) -> Result<bool, Error> {
    if TaskPlan::read(folder)?.is_none() && self::folder(address).is_none() {
        // Refuses a prefix that is not empty; nothing is written.
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

/// Returns the default location of the plan of a store at `address`: a hidden folder beside it.
/// `None` for a URL.
pub fn folder(address: &str) -> Option<PathBuf> {
    let address = address.strip_prefix("file://").unwrap_or(address);
    if address.contains("://") {
        return None;
    }
    hidden_sibling(&std::path::absolute(address).ok()?, "ingest")
}

/// Removes the rest of the folder if a process finished the store at `address` and was killed while
/// it removed the plan. Returns whether that was the case.
///
/// # Errors
///
/// When the folder cannot be examined or removed.
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

/// A store that is being built according to a plan.
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
    tasks: WriteTasks,
    recipe: Recipe,
    source: PlannedInput,
}

impl Ingest {
    /// Opens the store at `address`, as planned in `folder`. Only the memory, scratch space, store
    /// access and stop flag of `write` are used; everything else comes from the plan.
    ///
    /// # Errors
    ///
    /// When there is no plan, or it belongs to a store at another URL.
    pub fn open(address: &str, folder: &Path, write: WriteOptions) -> Result<Self, Error> {
        let Some(plan) = TaskPlan::read(folder)? else {
            let found = folder.display().to_string();
            let expected = "a plan: run `zvf ingest plan` first";
            return Err(bad_request_error("the folder of the plan", expected, &found));
        };
        let source = PlannedInput::from_value(&plan.input)?;
        source.check_store(address)?;
        let recipe = source.recipe(write)?;
        let mut tasks = WriteTasks::open(address, folder, source.schema()?, recipe.write.clone())?;
        for (format, header) in source.headers() {
            tasks = tasks.with_header(format, header.clone());
        }
        Ok(Self { address: address.to_owned(), tasks, recipe, source })
    }

    /// Omits syncs between tasks, for one process that runs all of them
    /// ([`run_all`](Self::run_all)).
    pub(crate) fn without_sync_between(self) -> Self {
        Self { tasks: self.tasks.without_sync_between(), ..self }
    }

    /// Returns the tasks.
    pub const fn tasks(&self) -> &WriteTasks {
        &self.tasks
    }

    /// Runs one task; returns `false` if it was already done and is intact.
    ///
    /// # Errors
    ///
    /// When a required task is not done, a file has changed, or the task fails.
    #[boxed]
    pub async fn run(&self, task: Task, progress: &mut OnStage<'_>) -> Result<bool, Error> {
        if task.stage != TaskStage::Route {
            report_progress(progress, CreateStage::Write, 0)?;
            return self.tasks.run(task).await;
        }
        Ok(self.route_missing(&[task], progress)?.contains(&true))
    }

    /// Runs several tasks that read input: their slices are read in one pass, and routed by several
    /// threads. Returns for each whether it was done now; `false` if it was already done and is
    /// intact.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run), for the first failure in input order; also when one of the tasks does
    /// not read input.
    #[boxed]
    pub async fn route(
        &self,
        tasks: &[Task],
        progress: &mut OnStage<'_>,
    ) -> Result<Vec<bool>, Error> {
        if let Some(task) = tasks.iter().find(|task| task.stage != TaskStage::Route) {
            return Err(bad_request_error("a task", "one that reads input", &task.to_string()));
        }
        self.route_missing(tasks, progress)
    }

    /// Runs all unfinished tasks in this process, and publishes the store.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run) and [`finish`](Self::finish); also when another run has published the
    /// store.
    #[boxed]
    pub async fn run_all(&self, progress: &mut OnStage<'_>) -> Result<Report, Error> {
        let tasks = self.tasks.all();
        let (routes, other_tasks): (Vec<Task>, Vec<Task>) =
            tasks.iter().partition(|task| task.stage == TaskStage::Route);
        let routed = self.route_missing(&routes, progress)?;
        let mut done = to_u64(routed.iter().filter(|now| !**now).count());
        for (written, task) in (0_u64..).zip(other_tasks) {
            report_progress(progress, CreateStage::Write, written)?;
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
            report.notices.push(WriteNotice::Resumed { done, total });
        }
        Ok(report)
    }

    /// Compares the output with the input and publishes the store. `None` if an earlier run
    /// published it.
    ///
    /// # Errors
    ///
    /// When a task is not done or the records are inconsistent.
    #[boxed]
    pub async fn finish(&self) -> Result<Option<Report>, Error> {
        let report = self.tasks.finish().await?;
        Build::remove_leftovers(&self.address)?;
        Ok(report)
    }
}

#[cfg(test)]
mod tests;
