//! Builds coarser levels of a store with processes that run one after the other: one task per
//! level.
//!
//! A level is built from the next finer one, so only one task runs at a time; each may be killed,
//! be repeated, and run on another machine. The result of a task is kept with the plan
//! (`run_folder`). The final step runs the same build with the kept levels, and builds what a plan
//! could not foresee. Then it replaces the store, or commits the levels if the store is on an
//! object store or has a journal (`commit`).
//!
//! Not here: building and keeping levels (`zvf-pyramid`).

use std::path::Path;

use async_recursion::async_recursion as boxed;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use zvf_format::Class;
use zvf_pyramid::{KeptLevel, LevelReport, Options, PyramidEvent, PyramidPlan, Reuse};
use zvf_store::{BuildOptions, OpenOptions, Store};

use super::folder::FINISHED;
use super::identity::StoreIdentity;
use super::identity::planned_head;
use super::record::{Record, key};
use super::run_folder::RunFolder;
use super::{Job, Plan, TaskLine, TaskOutcome, Tasks};
use crate::Error;
use crate::error::bad_request_error;

/// The levels to build, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PyramidJob {
    /// The options, which all tasks use.
    pub options: Options,
    /// The approximate number of vertices of each level.
    vertices: Vec<u64>,
    /// The head after which levels are committed; `None` if the store is replaced.
    head: Option<u64>,
    /// Earlier plans also had the command line and its memory limit, which the options contain.
    #[serde(default, skip_serializing)]
    words: IgnoredAny,
    #[serde(default, skip_serializing)]
    memory: IgnoredAny,
}

impl PyramidJob {
    pub(super) fn lines(&self) -> Vec<TaskLine> {
        let line = |(level, vertices): (usize, &u64)| TaskLine {
            stage: format!("level {level}").into(),
            what: format!("about {vertices} vertices"),
        };
        (1..).zip(&self.vertices).map(line).collect()
    }
}

impl Plan {
    /// Divides the building of coarser levels of the store at `address`: one task per level.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let at = |name: &str| dir.path().join(name).to_str().map(str::to_owned).ok_or("a path");
    /// # let from = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-model/testdata/bridge.zarrvectors");
    /// # let status = std::process::Command::new("cp").args(["-r", from, &at("a.zarrvectors")?]).status()?;
    /// # assert!(status.success());
    /// use zvf_pyramid::Options;
    /// use zvf_store::BuildOptions;
    /// use zvf_jobs::tasks::{Plan, TaskOutcome, WorkFolder};
    ///
    /// let (address, open, how) = (at("a.zarrvectors")?, zvf_store::OpenOptions::default(), BuildOptions::default());
    /// let options = Options { levels: Some(1), size: Some(4.0), equal_levels: true, ..Options::default() };
    /// let plan = Plan::pyramid((&address, &open), options).await?;
    /// let tasks = plan.create(&WorkFolder::open(&at("work")?, &open)?).await?;
    /// assert_eq!(tasks.run_level(0, &open, &how).await?, TaskOutcome::Done);
    /// let made = tasks.finish_pyramid(&open, &how, |_event| {}).await?;
    /// assert_eq!(made.map(|levels| levels.len()), Some(1));
    /// assert_eq!(tasks.finish_pyramid(&open, &how, |_event| {}).await?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// When an option does not apply to this store, it is in a versioned repository, its levels are
    /// additive, or it cannot be read.
    #[boxed(?Send)]
    pub async fn pyramid(
        (address, open): (&str, &OpenOptions),
        options: Options,
    ) -> Result<Self, Error> {
        let store = Store::open(address, open.clone()).await?;
        let identity = StoreIdentity::read(&store, address, open).await?;
        let head = planned_head(address, open, &identity)?;
        zvf_pyramid::check_divisible(&store, &options).await?;
        let steps = PyramidPlan::plan(&store, &options).await?.steps();
        let levels = steps.chunk_by(|first, second| first.level == second.level);
        let sum = |level: &[zvf_pyramid::Step]| {
            let mut of_kinds = level.iter().map(|step| step.vertices);
            of_kinds.try_fold(0_u64, u64::checked_add).ok_or_else(|| {
                bad_request_error("vertices of a level", "at most 2^64 - 1 of all kinds", "more")
            })
        };
        let vertices = levels.map(sum).collect::<Result<_, _>>()?;
        let (words, memory) = (IgnoredAny, IgnoredAny);
        let job = PyramidJob { options, vertices, head, words, memory };
        Ok(Self::new(Some(address.to_owned()), Some(identity), Job::Pyramid(job)))
    }
}

impl Tasks {
    /// Builds the level of task `number`, which is level `number + 1`, if the store gets one.
    ///
    /// # Errors
    ///
    /// `Unavailable` when an earlier task is not done, `Conflict` when the store changed since the
    /// plan, and when the level cannot be built.
    #[boxed(?Send)]
    pub async fn run_level(
        &self,
        number: usize,
        open: &OpenOptions,
        how: &BuildOptions,
    ) -> Result<TaskOutcome, Error> {
        let mut run = RunFolder::new(self.folder.path(), None);
        if let Some(record) = self.find_whole_record(number).await? {
            // Files in a record were compared with it.
            if !record.files.is_empty() || self.kept_level(&record, &run).await.is_ok() {
                return Ok(TaskOutcome::AlreadyDone);
            }
            self.folder.remove(&[key(number)]).await?;
        }
        match self.make_level(number, open, how, &mut run).await {
            Ok(record) => record.publish(&self.folder).await,
            Err(error) => {
                // The first error is returned.
                drop(self.folder.remove_below(&run.run).await);
                Err(error)
            }
        }
    }

    /// Builds the level of task `number` in the folder of a run, and keeps it.
    async fn make_level(
        &self,
        number: usize,
        open: &OpenOptions,
        how: &BuildOptions,
        run: &mut RunFolder,
    ) -> Result<Record, Error> {
        let (job, address) = self.pyramid_job()?;
        let options = &job.options;
        let fetched = RunFolder::new(self.folder.path(), None);
        let finer = self.kept_levels(number, &format!("task {number}"), &fetched).await?;
        self.check_store_now(open).await?;
        let store = Store::open(address, options.limit_reading(open.clone())).await?;
        let to = (&store, run.path.as_path());
        let finer = (finer.as_slice(), Some(level_of(number)?));
        let (_, made) = zvf_pyramid::build_in_folder(to, options, how, finer, |_| {}).await?;
        self.check_store_now(open).await?;
        let output = (run.run.clone(), run.keep(&self.folder).await?);
        Ok(Record::new(&self.digest, number, output, Json::Bool(!made.is_empty())))
    }

    /// Adds the levels of all tasks to the store: replaces it, or commits them; `None` if that was
    /// already done.
    ///
    /// # Errors
    ///
    /// `Unavailable` when a task is not done, `Checksum` when a level differs from its record,
    /// `Conflict` when the store changed since the plan, and when it cannot be replaced.
    pub async fn finish_pyramid(
        &self,
        open: &OpenOptions,
        how: &BuildOptions,
        on_event: impl FnMut(PyramidEvent<'_>) + Send,
    ) -> Result<Option<Vec<LevelReport>>, Error> {
        let (job, address) = self.pyramid_job()?;
        let run = RunFolder::new(self.folder.path(), None);
        let levels = self.kept_levels(job.vertices.len(), "to finish", &run).await?;
        let (settings, kept) = ((&job.options, how), (levels.as_slice(), run.path.as_path()));
        let made = match job.head {
            Some(head) => self.commit_levels((address, open, head), settings, kept, on_event).await,
            None => self.replace_store((address, open), settings, kept, on_event).await,
        }?;
        if made.is_some() {
            self.folder.put(FINISHED, &self.digest.clone().into()).await?;
        }
        Ok(made)
    }

    /// Replaces the store by one with the levels; `None` if that was already done.
    async fn replace_store(
        &self,
        (address, open): (&str, &OpenOptions),
        (options, how): (&Options, &BuildOptions),
        (levels, folder): (&[KeptLevel], &Path),
        on_event: impl FnMut(PyramidEvent<'_>) + Send,
    ) -> Result<Option<Vec<LevelReport>>, Error> {
        if let Err(changed) = self.check_store_now(open).await {
            let is_finished = changed.class() == Class::Conflict
                && match is_in(levels, address).await? {
                    Some(same) => same,
                    None => self.folder.exists(FINISHED).await?,
                };
            return if is_finished { Ok(None) } else { Err(changed) };
        }
        let reuse = Reuse::Kept(folder, levels);
        Ok(Some(zvf_pyramid::build_reusing(address, options, how, reuse, on_event).await?))
    }

    /// Returns the levels of the first `count` tasks, which must all be done and intact. Levels on
    /// an object store are downloaded below the folder of `run`.
    async fn kept_levels(
        &self,
        count: usize,
        why: &str,
        run: &RunFolder,
    ) -> Result<Vec<KeptLevel>, Error> {
        let mut levels = Vec::new();
        for record in self.records(count, why).await? {
            let kept = self.kept_level(&record, run).await;
            if kept.as_ref().is_err_and(|error| error.class().is_damage()) {
                self.folder.remove(&[key(record.task)]).await?;
            }
            levels.extend(kept?);
        }
        Ok(levels)
    }

    /// Returns the level of a task, which must be intact; `None` if the store gets no such level.
    async fn kept_level(
        &self,
        record: &Record,
        run: &RunFolder,
    ) -> Result<Option<KeptLevel>, Error> {
        if record.report != Json::Bool(true) {
            return Ok(None);
        }
        let folder = run.fetch(&self.folder, record).await?;
        let level = KeptLevel { level: level_of(record.task)?, folder };
        if level.is_whole()? {
            return Ok(Some(level));
        }
        let text = format!(
            "{}: expected level {} as task {} wrote it, found something else or nothing; \
             run the task again",
            level.folder.display(),
            level.level,
            record.task
        );
        Err(Error::custom(Class::Checksum, text).with_op("read"))
    }

    fn pyramid_job(&self) -> Result<(&PyramidJob, &str), Error> {
        let Job::Pyramid(job) = &self.plan.job else {
            return Err(self.other_kind_error("one of zvf task plan pyramid"));
        };
        Ok((job, self.store()?))
    }
}

/// Returns whether the store has the levels exactly as they were built; `None` if it has no such
/// level.
async fn is_in(levels: &[KeptLevel], address: &str) -> Result<Option<bool>, Error> {
    let store = Store::open(address, OpenOptions::default()).await?;
    let level_numbers = store.level_numbers();
    let mut found = levels.iter().filter(|level| level_numbers.contains(&level.level)).peekable();
    if found.peek().is_none() {
        return Ok(None);
    }
    for level in found {
        if !level.is_in(address)? {
            return Ok(Some(false));
        }
    }
    Ok(Some(true))
}

fn level_of(number: usize) -> Result<u32, Error> {
    let level = u32::try_from(number).ok().and_then(|number| number.checked_add(1));
    level.ok_or_else(|| bad_request_error("the task", "one of a level", &number.to_string()))
}
