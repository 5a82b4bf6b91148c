//! One store that is built by many independent processes.
//!
//! One process scans the input and writes a [`TaskPlan`]: how the input is divided into slices, and
//! into how many shares the chunks are divided. From then on there is a fixed list of [`Task`]s,
//! and any process may run any of them, on any machine that sees the folder, under any scheduler:
//!
//! ```text
//! FOLDER/plan.json           what is to be done; created once, never changed
//! FOLDER/tasks/TASK.*        what tasks leave for each other
//! FOLDER/done/TASK.json      the journal: a task is done when its record is here
//! FOLDER/store/...           the cells of a store in a directory, under their final names
//! FOLDER/in-use              locked while somebody is at work
//!
//! route 0 .. S    a slice of the input, routed             needs nothing
//! cells 0 .. O    the cells of a share of the chunks       needs every route
//! join  0 .. J    the ends of a slice's elements           needs every cells
//! links 0 .. O    the links of a share of the chunks       needs every join
//! finish          indexes, presence, metadata, the name    needs all
//! ```
//!
//! **Owners.** Share `i` of `n` is a half-open range of the chunks in the order of writing, of
//! whole shards: two tasks never write the same object, so neither locks nor conditional puts of
//! cells are needed. The boundaries of the ranges follow from the row counts of all chunks, which
//! all tasks know once routing is done, so all tasks compute the same ranges.
//!
//! **Repetition.** A task writes its files under temporary names, renames them, syncs them, and
//! then writes its record: lengths, checksums, counts, the keys of its cells. If it is killed
//! before that, it leaves no record and is repeated, with the same bytes under the same names. A
//! repeated task that was already done compares the files with the record and does nothing.
//!
//! **Completeness.** The last step adds up all records: vertices, the hashes of their positions,
//! elements, links. The output must equal the input; the error names a task without a record. Every
//! object with cells must exist; if one is missing, its task is no longer done. Only then is the
//! store published. The last step refuses to run beside a task, and vice versa.
//!
//! **Object stores.** The cells of a store below a URL are written there directly, under their
//! final names, without conditions; the root document is created with create-if-absent.
//! Intermediate data stays in the folder, which every process must be able to access: it is sorted
//! and merged there.
//!
//! Not here: the work of a task (`stages`); the input and reading a slice of it (the caller).

mod folder;
mod journal;
mod plan;

use async_recursion::async_recursion as boxed;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use object_store::ObjectStore;
use zvf_error::{Error, Result};
use zvf_format::num::usize_from_u32;
use zvf_metadata::Object;
use zvf_store::Build;

use self::journal::{Journal, Record};
pub use self::plan::{Phase, SlicePlan, Task, TaskPlan};
use crate::error::{LostCells, setting_error, task_error, too_early_error};
use crate::group_table::GroupTable;
use crate::ingest::Ingest;
use crate::kinds::KindWriter;
use crate::stages::{
    self, ArrayCounts, CellsOutput, CellsRecord, JoinedLinks, LinksRecord, MergedSlices, SliceData,
    Stages, StepOutput, Target,
};
use crate::{Report, Schema, WriteOptions, writer};

/// The tasks of one plan.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let address = dir.path().join("points.zarrvectors").to_str().unwrap().to_owned();
/// use zvf_format::grid::ChunkShape;
/// use zvf_metadata::{Axis, Dtype};
/// use zvf_model::{Batch, Column, Kind};
/// use zvf_write::{Schema, SlicePlan, Phase, TaskPlan, WriteTasks, WriteOptions};
///
/// let schema = Schema::new(Kind::PointCloud, Axis::spatial(1).unwrap(), ChunkShape::new(&[10.0])?)?;
/// let slice = |vertices| SlicePlan { vertices, ..SlicePlan::default() };
/// let plan = TaskPlan::new(&schema, vec![slice(2), slice(1)], 1, "the input".into());
/// let folder = dir.path().join("work");
/// TaskPlan::create(&plan, &folder)?;
///
/// // From here on, any process.
/// let tasks = WriteTasks::open(&address, &folder, schema, WriteOptions::default())?;
/// for (slice, values) in [(1, &[25.0_f64][..]), (0, &[1.0, 2.0])] {
///     let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
///     let mut router = tasks.router(slice)?;
///     router.writer().push(&Batch::new(Kind::PointCloud, Column::new("float64".parse::<Dtype>()?, 1, bytes.into())?))?;
///     tasks.route(router)?;
/// }
/// for task in tasks.all().into_iter().filter(|task| task.stage != Phase::Route) {
///     tasks.run(task).await?;
/// }
/// let report = tasks.finish().await?.ok_or("an earlier run had done it")?;
/// assert_eq!(report.to_string(), "3 vertices in 2 chunks, 0 objects, 0 links");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct WriteTasks {
    place: StorePlace,
    folder: PathBuf,
    plan: TaskPlan,
    journal: Journal,
    schema: Schema,
    options: WriteOptions,
    merged: OnceLock<MergedSlices>,
    headers: Vec<(String, Object)>,
}

/// The location of the store.
#[derive(Debug)]
enum StorePlace {
    Address(String),
    Backend(Arc<dyn ObjectStore>, String),
}

impl WriteTasks {
    /// Opens the plan in `folder`, for a store at `address`.
    ///
    /// # Errors
    ///
    /// When there is no plan.
    pub fn open(
        address: &str,
        folder: &Path,
        schema: Schema,
        options: WriteOptions,
    ) -> Result<Self> {
        Self::from_place(StorePlace::Address(address.to_owned()), folder, schema, options)
    }

    /// Opens the plan in `folder`, for a store below `prefix` of the caller's own backend.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn in_object_store(
        store: Arc<dyn ObjectStore>,
        prefix: &str,
        folder: &Path,
        schema: Schema,
        options: WriteOptions,
    ) -> Result<Self> {
        Self::from_place(StorePlace::Backend(store, prefix.to_owned()), folder, schema, options)
    }

    fn from_place(
        place: StorePlace,
        folder: &Path,
        schema: Schema,
        options: WriteOptions,
    ) -> Result<Self> {
        let Some(plan) = TaskPlan::read(folder)? else {
            return Err(task_error(folder.display(), "a plan, written by `plan`", "none"));
        };
        let kinds = schema.kinds().count();
        if kinds > 1 {
            return Err(setting_error("kinds of a store built by tasks", "one", kinds));
        }
        let journal = Journal::open(folder, options.build.sync)?;
        let (folder, merged) = (folder.to_owned(), OnceLock::new());
        let headers = Vec::new();
        Ok(Self { place, folder, plan, journal, schema, options, merged, headers })
    }

    /// Returns the same tasks for one process that runs all of them one after the other:
    /// intermediate data is not synced. Check for every finished task whether it [is
    /// whole](Self::is_whole), as [`run`](Self::run) does, so that a power failure only costs time.
    /// The store itself is still synced.
    #[must_use]
    pub fn without_sync_between(mut self) -> Self {
        self.journal = self.journal.without_sync();
        self
    }

    /// Adds the header of another format, like [`Writer::header`](crate::Writer::header).
    #[must_use]
    pub fn with_header(mut self, format: &str, header: Object) -> Self {
        self.headers.push((format.to_owned(), header));
        self
    }

    /// Returns the plan.
    pub const fn plan(&self) -> &TaskPlan {
        &self.plan
    }

    /// Returns every task, in a possible order.
    pub fn all(&self) -> Vec<Task> {
        self.plan.tasks()
    }

    /// Returns whether the record of a task exists.
    pub fn is_done(&self, task: Task) -> bool {
        self.journal.has(task)
    }

    /// Returns whether the files of a task match its record; if so, repeating it changes nothing.
    ///
    /// # Errors
    ///
    /// When its record cannot be read.
    pub fn is_whole(&self, task: Task) -> Result<bool> {
        let Some(record) = self.journal.read(task)? else { return Ok(false) };
        let folder = self.journal.files();
        Ok(record.files().iter().all(|file| file.check(&folder).is_ok()))
    }

    /// Starts routing a slice, which must be pushed completely and in order.
    ///
    /// # Errors
    ///
    /// When the slice does not exist.
    pub fn router(&self, slice: u32) -> Result<Router> {
        let task = Task { stage: Phase::Route, number: slice };
        let place = usize_from_u32(slice);
        let Some(planned) = self.plan.slices.get(place) else {
            let expected = format!("one of {} slices", self.plan.slices.len());
            return Err(task_error(task, expected, "no such"));
        };
        let before = self.plan.slices.iter().take(place);
        let sum = |field: fn(&SlicePlan) -> u64| before.clone().map(field).sum::<u64>();
        let options = WriteOptions { memory: u64::MAX, ..self.options.clone() };
        let mut ingest = Ingest::new(self.schema.clone(), &options);
        ingest.begin_at(sum(|s| s.vertices), sum(|s| s.trees), sum(|s| s.lines));
        let held = folder::lock_work(&self.folder, false)?;
        Ok(Router { ingest, task, planned: planned.clone(), _held: held })
    }

    /// Saves a slice that was pushed completely.
    ///
    /// # Errors
    ///
    /// When it differs from the plan, or cannot be written.
    pub fn route(&self, router: Router) -> Result<()> {
        let Router { mut ingest, task, planned, _held } = router;
        let slice = ingest.take_slice(&Target::Files(self.journal.stem(task)))?;
        for (what, expected, found) in [
            ("vertices", planned.vertices, slice.given),
            ("elements", planned.elements, slice.elements),
        ] {
            if expected != found {
                let expected = format!("{expected} {what}, as were planned");
                return Err(task_error(task, expected, found));
            }
        }
        self.journal.write(task, &Record::Route(Box::new(slice)))
    }

    /// Runs a task, unless it reads input. Returns `false` without any work if it is already done
    /// and whole.
    ///
    /// # Errors
    ///
    /// Of class `Unavailable` when a task that it needs is not done; also when it reads input, or
    /// fails.
    #[boxed]
    pub async fn run(&self, task: Task) -> Result<bool> {
        if task.stage == Phase::Route {
            return Err(task_error(task, "a task that reads no input", "one that does"));
        }
        if self.is_whole(task)? {
            return Ok(false);
        }
        let _held = folder::lock_work(&self.folder, false)?;
        self.check_earlier_stages(task.stage)?;
        let merged = self.merge_slices()?;
        let build = self.build().await?;
        let target = Target::Files(self.journal.stem(task));
        let share = (task.number, self.plan.shares);
        let record = match task.stage {
            Phase::Route => return Ok(false),
            Phase::Cells => {
                let (record, _, arrays) = stages::cells(merged, &build, share, &target)?;
                Record::Cells(CellsRecord { parts: ArrayCounts::finish_all(arrays)?, ..record })
            }
            Phase::Join => {
                let number = usize_from_u32(task.number);
                let cells: Vec<CellsOutput> =
                    self.tasks_of_stage(Phase::Cells).map(|task| self.cells_output(task)).collect();
                let cells: Vec<&CellsOutput> = cells.iter().collect();
                Record::Join(stages::join(merged, number, &cells, &target)?.0)
            }
            Phase::Links => {
                let cells = self.cells_output(Task { stage: Phase::Cells, number: task.number });
                let joined: Vec<JoinedLinks> =
                    self.tasks_of_stage(Phase::Join).map(|task| self.join_record(task)).collect();
                let joined: Vec<&JoinedLinks> = joined.iter().collect();
                let (record, arrays) = stages::links(merged, &build, share, &cells, &joined)?;
                Record::Links(LinksRecord { parts: ArrayCounts::finish_all(arrays)?, ..record })
            }
        };
        build.flush().await?;
        self.journal.write(task, &record)?;
        Ok(true)
    }

    /// Compares the output with the input, writes the totals, makes the store visible and removes
    /// the folder. `None` if an earlier run had done that and only the folder was left.
    ///
    /// # Errors
    ///
    /// Of class `Unavailable` when a task is not done; also when the records do not add up, or the
    /// store cannot be written. Then there is no store, and finished tasks stay done.
    #[boxed]
    pub async fn finish(&self) -> Result<Option<Report>> {
        let _alone = folder::lock_work(&self.folder, true)?;
        let build = self.build().await?;
        if build.is_published().await? {
            self.remove()?;
            return Ok(None);
        }
        for &stage in Phase::ALL {
            self.check_stage_done(stage, "finish")?;
        }
        let merged = self.merge_slices()?;
        let mut all = Stages::default();
        for task in self.all() {
            match self.journal.read(task)? {
                Some(Record::Cells(record)) => all.cells.push((record, self.cells_output(task))),
                Some(Record::Join(record)) => all.joins.push((record, self.join_record(task))),
                Some(Record::Links(record)) => all.links.push(record),
                Some(Record::Route(_)) | None => {}
            }
        }
        let (folder, groups) = (self.journal.files(), GroupTable::default());
        let finished = all.finish(merged, &build, &groups, Some(&folder), |_| {}).await;
        let outcome = match finished {
            Err(error) => match error.cause_as() {
                Some(LostCells { array, chunks }) => {
                    return Err(self.forget_lost_tasks(array, chunks)?);
                }
                None => return Err(error),
            },
            Ok(outcome) => outcome,
        };
        let address = match &self.place {
            StorePlace::Address(address) | StorePlace::Backend(_, address) => address,
        };
        let name = writer::store_name(&self.schema, address);
        let root = (name.as_str(), self.options.compat);
        let report = writer::publish(build, outcome, &self.headers, root).await?;
        self.remove()?;
        Ok(Some(report))
    }

    /// Removes the plan and the files of its tasks. A published store is not changed.
    ///
    /// # Errors
    ///
    /// When the folder cannot be removed.
    pub fn remove(&self) -> Result<()> {
        TaskPlan::remove(&self.folder)
    }

    /// Merges all slices, once.
    fn merge_slices(&self) -> Result<&MergedSlices> {
        if let Some(merged) = self.merged.get() {
            return Ok(merged);
        }
        let mut slices = Vec::with_capacity(self.plan.slices.len());
        for task in self.tasks_of_stage(Phase::Route) {
            let Some(Record::Route(mut slice)) = self.journal.read(task)? else {
                return Err(too_early_error(task, "to be done before", "no record of it"));
            };
            slice.data = SliceData::Files(self.journal.stem(task));
            slices.push(*slice);
        }
        let stem = Some(self.journal.files().join(MERGED));
        let merged =
            MergedSlices::from_slices(&self.schema, &self.options, slices, stem.as_deref())?;
        Ok(self.merged.get_or_init(|| merged))
    }

    async fn build(&self) -> Result<Build> {
        let options = self.options.build.clone();
        Ok(match &self.place {
            StorePlace::Address(address) => Build::join(address, &self.folder, options).await?,
            StorePlace::Backend(store, prefix) => {
                Build::join_object_store(Arc::clone(store), prefix, &self.folder, &options).await?
            }
        })
    }

    /// Removes the records of the tasks that wrote these missing cells, so that the tasks run
    /// again; returns the error.
    fn forget_lost_tasks(&self, array: &str, chunks: &[Box<str>]) -> Result<Error> {
        let mut forgotten = Vec::new();
        for task in self.all() {
            let Some(record) = self.journal.read(task)? else { continue };
            let parts = record.parts().iter().filter(|part| part.path == array);
            if parts.flat_map(|part| &part.keys).any(|key| chunks.contains(key)) {
                self.journal.forget(task)?;
                forgotten.push(task.to_string());
            }
        }
        let chunks: Vec<String> = chunks.iter().map(ToString::to_string).collect();
        let expected = "all objects that it wrote; run it again";
        let found = format!("none for {array}, chunk {}", shorten_list(&chunks));
        Ok(task_error(shorten_list(&forgotten), expected, found))
    }

    fn tasks_of_stage(&self, stage: Phase) -> impl Iterator<Item = Task> {
        self.plan.tasks().into_iter().filter(move |task| task.stage == stage)
    }

    /// Returns the output of a `cells` task.
    fn cells_output(&self, task: Task) -> CellsOutput {
        CellsOutput::in_files(&self.journal.stem(task))
    }

    /// Returns the output of a `join` task.
    fn join_record(&self, task: Task) -> JoinedLinks {
        JoinedLinks::Sorted(StepOutput::in_file(&self.journal.stem(task), "links"))
    }

    /// Refuses a task whose earlier stages are not done.
    fn check_earlier_stages(&self, stage: Phase) -> Result<()> {
        let before = Phase::ALL.iter().copied().take_while(|earlier| *earlier != stage);
        before.into_iter().try_for_each(|earlier| self.check_stage_done(earlier, stage.name()))
    }

    fn check_stage_done(&self, stage: Phase, waiting_task: &str) -> Result<()> {
        let missing: Vec<String> = self
            .tasks_of_stage(stage)
            .filter(|task| !self.journal.has(*task))
            .map(|task| task.to_string())
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let expected = format!("every {} task to be done before", stage.name());
        let found = format!("{} not done: {}", missing.len(), shorten_list(&missing));
        Err(too_early_error(waiting_task, expected, found))
    }
}

/// The prefix of the names of files about all slices.
const MERGED: &str = "merged";

/// A slice that is being routed.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use zvf_format::grid::ChunkShape;
/// use zvf_metadata::Axis;
/// use zvf_model::Kind;
/// use zvf_write::{Schema, SlicePlan, TaskPlan, WriteTasks, WriteOptions};
///
/// let schema = Schema::new(Kind::Graph, Axis::spatial(1).unwrap(), ChunkShape::new(&[1.0])?)?;
/// let plan = TaskPlan::new(&schema, vec![SlicePlan { vertices: 7, ..SlicePlan::default() }; 2], 1, "".into());
/// TaskPlan::create(&plan, dir.path())?;
/// let tasks = WriteTasks::open("graph.zv", dir.path(), schema, WriteOptions::default())?;
/// assert_eq!(tasks.router(1)?.writer().vertices(), 7, "the first slice has seven");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Router {
    ingest: Ingest,
    task: Task,
    planned: SlicePlan,
    _held: Option<File>,
}

impl Router {
    /// Returns the writer of the slice. Vertices are numbered over all slices, and elements may be
    /// between vertices of any of them.
    pub const fn writer(&mut self) -> KindWriter<'_> {
        KindWriter::new(&mut self.ingest)
    }
}

/// Returns the first few items of a list.
fn shorten_list(names: &[String]) -> String {
    let more = names.len().saturating_sub(SHOWN);
    let shown: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
    if more > 0 { format!("{} and {more} more", shown.join(", ")) } else { shown.join(", ") }
}

const SHOWN: usize = 8;

#[cfg(test)]
mod tests;
