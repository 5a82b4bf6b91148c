//! Coarser levels of a store, made by processes one after the other: a task for each level.
//!
//! A level is made of the one below it, so there is one task at a time; each may be killed, be repeated, and run on another
//! machine. What a task makes is kept in the folder of its run. The last step goes through the same build with the levels
//! that were kept, makes what a plan could not foresee, and replaces the store.
//!
//! Not here: how levels are made and kept (`zvf-pyramid`).

use std::fs;
use std::path::{Path, PathBuf};

use async_recursion::async_recursion as boxed;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use zvf_format::Class;
use zvf_pyramid::{KeptLevel, LevelReport, Options, PyramidEvent, PyramidPlan};
use zvf_store::{BuildOptions, OpenOptions, Store};

use super::folder::new_run;
use super::identity::StoreIdentity;
use super::record::{Record, key};
use super::{Job, Plan, Ran, TaskLine, Tasks};
use crate::Error;

/// Which levels are made, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PyramidJob {
    /// What tells whoever runs tasks how levels are made, such as the options of `zvf pyramid`.
    pub words: Vec<String>,
    /// The bytes that a task may hold: [`Options::memory`].
    pub memory: u64,
    /// The settings, which are those of every task.
    options: Json,
    /// About how many vertices each level will have.
    vertices: Vec<u64>,
}

impl PyramidJob {
    pub(super) fn lines(&self) -> Vec<TaskLine> {
        let line = |(level, vertices): (usize, &u64)| TaskLine {
            stage: format!("level {level}").into(),
            what: format!("about {vertices} vertices"),
        };
        (1..).zip(&self.vertices).map(line).collect()
    }

    /// Refuses settings that are not those of the plan.
    fn check_options(&self, options: &Options) -> Result<(), Error> {
        let found = settings(options)?;
        if self.options == found {
            return Ok(());
        }
        let differing = found.as_object().into_iter().flatten();
        let differing =
            differing.filter(|(name, value)| self.options.get(name.as_str()) != Some(value));
        let differing: Vec<&str> = differing.map(|(name, _)| name.as_str()).collect();
        let found = format!("others of {}", differing.join(", "));
        let expected = "those that the plan was made with";
        Err(Error::bad_request("the settings of levels", expected, &found))
    }
}

/// The settings, without what changes nothing of the result.
fn settings(options: &Options) -> Result<Json, Error> {
    serde_json::to_value(options).map_err(|error| {
        Error::bad_request("the settings of levels", "values that JSON has", &error.to_string())
    })
}

impl Plan {
    /// Divides the making of coarser levels of the store at `address`: a task for each.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let at = |name: &str| dir.path().join(name).to_str().map(str::to_owned).ok_or("a path");
    /// # let from = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-model/testdata/bridge.zarrvectors");
    /// # let status = std::process::Command::new("cp").args(["-r", from, &at("a.zarrvectors")?]).status()?;
    /// # assert!(status.success());
    /// use zvf::pyramid::Options;
    /// use zvf::store::BuildOptions;
    /// use zvf::tasks::{Plan, Ran, WorkFolder};
    ///
    /// let (address, open, how) = (at("a.zarrvectors")?, zvf::OpenOptions::default(), BuildOptions::default());
    /// let options = Options { levels: Some(1), size: Some(4.0), equal_levels: true, ..Options::default() };
    /// let plan = Plan::pyramid((&address, &open), &options, Vec::new()).await?;
    /// let tasks = plan.create(&WorkFolder::open(&at("work")?, &open)?).await?;
    /// assert_eq!(tasks.run_level(0, &open, &options, &how).await?, Ran::Now);
    /// let made = tasks.finish_pyramid(&open, &options, &how, |_event| {}).await?;
    /// assert_eq!(made.map(|levels| levels.len()), Some(1));
    /// assert_eq!(tasks.finish_pyramid(&open, &options, &how, |_event| {}).await?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// When a setting means nothing for this store, it has a journal, its levels add to each other, or it cannot be read.
    #[boxed(?Send)]
    pub async fn pyramid(
        (address, open): (&str, &OpenOptions),
        options: &Options,
        words: Vec<String>,
    ) -> Result<Self, Error> {
        let store = Store::open(address, open.clone()).await?;
        let identity = StoreIdentity::read(&store, address, open).await?;
        if identity.has_journal() {
            let expected = "one without a journal, which tasks replace";
            return Err(Error::bad_request("the store", expected, "one with a journal"));
        }
        zvf_pyramid::check_divisible(&store, options).await?;
        let steps = PyramidPlan::plan(&store, options).await?.steps();
        let levels = steps.chunk_by(|first, second| first.level == second.level);
        let sum = |level: &[zvf_pyramid::Step]| level.iter().map(|step| step.vertices).sum();
        let job = PyramidJob {
            words,
            memory: options.memory,
            options: settings(options)?,
            vertices: levels.map(sum).collect(),
        };
        Ok(Self::new(Some(address.to_owned()), Some(identity), Job::Pyramid(job)))
    }
}

impl Tasks {
    /// Makes the level of task `number`, which is level `number + 1`, where the store gets one.
    ///
    /// # Errors
    ///
    /// `Unavailable` when a task before it is not done, `Conflict` when the store changed since the plan, and when the level
    /// cannot be made.
    #[boxed(?Send)]
    pub async fn run_level(
        &self,
        number: usize,
        open: &OpenOptions,
        options: &Options,
        how: &BuildOptions,
    ) -> Result<Ran, Error> {
        self.check_number(number)?;
        let (job, address) = self.pyramid_job()?;
        job.check_options(options)?;
        if let Some(record) = Record::read_whole(&self.folder, &self.digest, number).await? {
            if self.kept_level(&record)?.is_none_or(|level| level.is_whole().unwrap_or(false)) {
                return Ok(Ran::Before);
            }
            self.folder.remove(&[key(number)]).await?;
        }
        let finer = self.kept_levels(number, &format!("task {number}")).await?;
        self.check_store_at(address, open).await?;
        let run = new_run();
        let folder = self.work_folder()?.join(&run);
        let level = level_of(number)?;
        let made = zvf_pyramid::build_level((address, &folder), options, how, &finer, level).await;
        let checked = match made {
            Ok(made) => self.check_store_at(address, open).await.map(|()| made),
            Err(error) => Err(error.into()),
        };
        let made = match checked {
            Ok(made) => made,
            Err(error) => {
                // What was made counts for nothing; the first error is the one to report.
                drop(fs::remove_dir_all(&folder));
                return Err(error);
            }
        };
        let report = Json::Bool(made.is_some());
        let record = Record::of_run(&self.digest, number, run, report);
        let counts = record.publish(&self.folder).await?;
        Ok(if counts { Ran::Now } else { Ran::Before })
    }

    /// Replaces the store by one with the levels that tasks made; `None` where that had been done.
    ///
    /// # Errors
    ///
    /// `Unavailable` when a task is not done, `Checksum` when a level is not what was made, `Conflict` when the store changed
    /// since the plan, and when it cannot be replaced.
    pub async fn finish_pyramid(
        &self,
        open: &OpenOptions,
        options: &Options,
        how: &BuildOptions,
        on_event: impl FnMut(PyramidEvent<'_>),
    ) -> Result<Option<Vec<LevelReport>>, Error> {
        let (job, address) = self.pyramid_job()?;
        job.check_options(options)?;
        let levels = self.kept_levels(job.vertices.len(), "to finish").await?;
        if let Err(changed) = self.check_store_at(address, open).await {
            let is_finished = changed.class() == Class::Conflict
                && match is_in(&levels, address).await? {
                    Some(same) => same,
                    None => self.folder.exists(FINISHED).await?,
                };
            return if is_finished { Ok(None) } else { Err(changed) };
        }
        let folder = self.work_folder()?.join(new_run());
        let to = (address, folder.as_path());
        let made = zvf_pyramid::build_with_levels(to, options, how, &levels, on_event).await?;
        self.folder.put(FINISHED, &self.digest.clone().into()).await?;
        Ok(Some(made))
    }

    /// The levels that the first `count` tasks made, all of which must be done and whole.
    async fn kept_levels(&self, count: usize, why: &str) -> Result<Vec<KeptLevel>, Error> {
        let mut levels = Vec::new();
        for record in self.records(count, why).await? {
            let Some(level) = self.kept_level(&record)? else { continue };
            if !level.is_whole()? {
                self.folder.remove(&[key(record.task)]).await?;
                let class = Class::Checksum;
                let text = format!(
                    "{class}, {}: expected level {} as task {} made it, found something else or nothing; run the task again",
                    level.folder.display(),
                    level.level,
                    record.task
                );
                return Err(Error::in_words(class, "read", text));
            }
            levels.push(level);
        }
        Ok(levels)
    }

    /// The level that a task made; none when the store gets no such level.
    fn kept_level(&self, record: &Record) -> Result<Option<KeptLevel>, Error> {
        if record.report != Json::Bool(true) {
            return Ok(None);
        }
        let folder = self.work_folder()?.join(&record.run);
        Ok(Some(KeptLevel { level: level_of(record.task)?, folder }))
    }

    /// The folder of the plan, which levels are kept in.
    fn work_folder(&self) -> Result<PathBuf, Error> {
        check_is_folder(self.folder.path(), &self.folder.to_string())
    }

    fn pyramid_job(&self) -> Result<(&PyramidJob, &str), Error> {
        let Job::Pyramid(job) = &self.plan.job else {
            return Err(self.other_kind("one of zvf task plan pyramid"));
        };
        Ok((job, self.store()?))
    }
}

/// Refuses a folder of a plan that is none of this machine.
pub(super) fn check_is_folder(path: Option<&Path>, name: &str) -> Result<PathBuf, Error> {
    let expected = "a folder that every process sees: levels are kept in it";
    path.map(Path::to_owned)
        .ok_or_else(|| Error::bad_request("the folder of the plan", expected, name))
}

/// Whether the store has the levels that were made as they were made; none where it has no such level.
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

/// Is there when the store was replaced, by one that may have no level that was made.
const FINISHED: &str = "done/finished";

fn level_of(number: usize) -> Result<u32, Error> {
    let level = u32::try_from(number).ok().and_then(|number| number.checked_add(1));
    level.ok_or_else(|| Error::bad_request("the task", "one of a level", &number.to_string()))
}
