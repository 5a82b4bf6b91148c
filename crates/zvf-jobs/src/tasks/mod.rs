//! Work that is divided into tasks, which any scheduler can start, and which may be killed and
//! repeated.
//!
//! ```text
//! plan      what there is to do is found out, and cut   -> plan.json
//! run       one task, in any process that sees the store and the folder, as often as one likes
//! finish    all records are there and whole; they are put together, and the result appears
//! ```
//!
//! | kind | tasks | result |
//! | --- | --- | --- |
//! | [`validate`](Plan::validate) | ranges of cells, then of links, then of manifests | the report of the whole |
//! | `convert` | ranges of the chunks or objects of a store, or files | a folder with a part of each task |
//! | `pyramid` | levels, each built from the previous one | the store with them |
//! | `vacuum` | ranges of the chunks of a store | the store without unused data, in one commit |
//!
//! The plan records the store, its identity, and every setting that affects the result. A store
//! that changed since is refused with `Conflict`, before a task begins and again when it ends. Each
//! run of a task writes below a unique name; its record is created with create-if-absent, so if two
//! runs overlap, one counts and the other is discarded.
//!
//! Not here: building a store from files in tasks ([`crate::ingest`]), which has several kinds of
//! tasks that write one store.

mod commit;
mod convert;
mod folder;
mod identity;
mod parts;
mod pyramid;
mod record;
mod run_folder;
mod vacuum;
mod validate;

use std::borrow::Cow;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use zvf_format::Class;
use zvf_store::{OpenOptions, Store};

pub use self::convert::{ConvertJob, ConvertPart, ConvertTarget};
pub use self::folder::WorkFolder;
pub use self::parts::PartRun;
pub use self::pyramid::PyramidJob;
pub use self::vacuum::VacuumJob;
pub use self::validate::ValidateJob;

use self::identity::StoreIdentity;
use self::record::Record;
use crate::Error;
use crate::error::bad_request_error;

/// The purpose of a plan, with everything that its tasks need.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Job {
    /// Checks a store against the rules of the format.
    Validate(ValidateJob),
    /// Converts a store or files to a folder of parts.
    Convert(ConvertJob),
    /// Builds coarser levels of a store.
    Pyramid(PyramidJob),
    /// Rewrites chunks of an edited store without unused data.
    Vacuum(VacuumJob),
}

impl Job {
    /// Returns the word for it on the command line.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Validate(_) => "validate",
            Self::Convert(_) => "convert",
            Self::Pyramid(_) => "pyramid",
            Self::Vacuum(_) => "vacuum",
        }
    }
}

/// The plan: the file `plan.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Plan {
    format: String,
    version: u32,
    /// The build that created it: other builds cannot continue the work.
    zvf: String,
    /// The address of the store, as given for the plan; `None` for files.
    pub store: Option<String>,
    identity: Option<StoreIdentity>,
    /// The job.
    pub job: Job,
}

/// One task, as plans list it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskLine {
    /// Its stage; tasks of a stage need all tasks of earlier stages.
    pub stage: Cow<'static, str>,
    /// Its subject.
    pub what: String,
}

/// A plan and its folder.
#[derive(Clone, Debug)]
pub struct Tasks {
    folder: WorkFolder,
    plan: Plan,
    digest: String,
}

/// The outcome of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskOutcome {
    /// It was done now.
    Done,
    /// It was already done, or another process did it meanwhile.
    AlreadyDone,
    /// It was stopped; nothing was recorded.
    Stopped,
}

impl Plan {
    fn new(store: Option<String>, identity: Option<StoreIdentity>, job: Job) -> Self {
        let zvf = env!("CARGO_PKG_VERSION").to_owned();
        Self { format: FORMAT.to_owned(), version: VERSION, zvf, store, identity, job }
    }

    /// Writes the plan, unless the same one exists: its finished tasks stay finished.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` when the folder contains another plan, `Conflict` when it contains a plan of
    /// an earlier state of the store.
    #[boxed]
    pub async fn create(self, folder: &WorkFolder) -> Result<Tasks, Error> {
        let text = serde_json::to_vec_pretty(&self).map_err(|error| bad_plan(folder, &error))?;
        let fresh = folder.create(PLAN, &Bytes::from(text)).await?;
        let tasks = Tasks::open(folder).await?;
        if fresh || tasks.plan == self {
            return Ok(tasks);
        }
        let (class, why) = match (tasks.plan.store == self.store, tasks.plan.job == self.job) {
            (true, true) => (Class::Conflict, "of the store as it was before it changed"),
            _ => (Class::AlreadyExists, "for something else"),
        };
        let text = format!(
            "the folder of the plan: expected an empty one, found a plan {why}; give another folder, or remove {folder}"
        );
        Err(Error::custom(class, text).with_op("write"))
    }

    /// Returns the tasks, in an order in which they can run one after the other.
    pub fn lines(&self) -> Vec<TaskLine> {
        match &self.job {
            Job::Validate(job) => job.lines(),
            Job::Convert(job) => job.lines(),
            Job::Pyramid(job) => job.lines(),
            Job::Vacuum(job) => job.lines(),
        }
    }
}

impl Tasks {
    /// Reads the plan in a folder.
    ///
    /// # Errors
    ///
    /// When there is none, or it belongs to another build.
    #[boxed]
    pub async fn open(folder: &WorkFolder) -> Result<Self, Error> {
        let Some(text) = folder.get(PLAN).await? else {
            let (class, name) = (Class::NotFound, folder.to_string());
            let text = format!(
                "the folder of the plan: expected {PLAN}, found none in {name}; run \"zvf task plan\" first"
            );
            return Err(Error::custom(class, text).with_op("open"));
        };
        let head: PlanHead = serde_json::from_slice(&text).map_err(|e| bad_plan(folder, &e))?;
        let current = (FORMAT, VERSION, env!("CARGO_PKG_VERSION"));
        if (head.format.as_str(), head.version, head.zvf.as_str()) != current {
            let text = format!(
                "{folder}/{PLAN}: expected a plan of zvf {}, version {VERSION}, found one of {} \
                 {}, version {}; use the version that wrote it, or plan again",
                current.2, head.format, head.zvf, head.version
            );
            return Err(Error::custom(Class::InvalidArgument, text).with_op("open"));
        }
        let plan = serde_json::from_slice(&text).map_err(|error| bad_plan(folder, &error))?;
        let digest = record::digest(&text);
        Ok(Self { folder: folder.clone(), plan, digest })
    }

    /// Returns the plan.
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the address of the store.
    ///
    /// # Errors
    ///
    /// When the plan has no store, as for a conversion of files.
    pub fn store(&self) -> Result<&str, Error> {
        self.plan.store.as_deref().ok_or_else(|| {
            bad_request_error("the plan", "one of work on a store", "one that names no store")
        })
    }

    /// Returns which tasks are done, according to their records.
    ///
    /// # Errors
    ///
    /// When the folder cannot be read.
    #[boxed]
    pub async fn list_done(&self) -> Result<Vec<bool>, Error> {
        let mut done = Vec::new();
        for number in 0..self.plan.lines().len() {
            done.push(self.folder.exists(&record::key(number)).await?);
        }
        Ok(done)
    }

    /// Refuses a store that changed since the plan.
    async fn check_store(&self, store: &Store, options: &OpenOptions) -> Result<(), Error> {
        let address = self.store()?;
        let now = StoreIdentity::read(store, address, options).await?;
        if self.plan.identity.as_ref() == Some(&now) {
            return Ok(());
        }
        let text = format!(
            "{address}: the store changed after {}/{PLAN} was written; plan again in another folder",
            self.folder
        );
        Err(Error::custom(Class::Conflict, text).with_op("read"))
    }

    /// Refuses a store that changed since the plan; it is opened anew. A plan of files has none.
    ///
    /// # Errors
    ///
    /// `Conflict` when it changed; otherwise when it cannot be read.
    #[boxed]
    pub async fn check_store_now(&self, open: &OpenOptions) -> Result<(), Error> {
        let Some(address) = &self.plan.store else { return Ok(()) };
        let store = Store::open(address, open.clone()).await?;
        self.check_store(&store, open).await
    }

    /// Returns the error for a plan of another job.
    fn other_kind_error(&self, expected: &'static str) -> Error {
        bad_request_error("the plan", expected, self.plan.job.name())
    }

    /// Reads the record of task `number`, if the task is done and its files are intact. Refuses a
    /// number without a task.
    async fn find_whole_record(&self, number: usize) -> Result<Option<Record>, Error> {
        let count = self.plan.lines().len();
        if number >= count {
            let text = format!("task {number}: expected one of the {count} tasks of the plan");
            return Err(Error::custom(Class::InvalidArgument, text).with_op("run"));
        }
        Record::read_whole(&self.folder, &self.digest, number).await
    }

    /// Reads the records of the first `count` tasks, which must all exist.
    async fn records(&self, count: usize, why: &str) -> Result<Vec<Record>, Error> {
        let (mut records, mut missing) = (Vec::new(), Vec::new());
        for number in 0..count {
            match Record::read(&self.folder, &self.digest, number).await? {
                Some(record) => records.push(record),
                None => missing.push(number.to_string()),
            }
        }
        if missing.is_empty() {
            return Ok(records);
        }
        let shown = missing.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
        let more = if missing.len() > SHOWN { ", ..." } else { "" };
        let text = format!(
            "{why}: expected tasks 0 to {} to be done, found {} not done: {shown}{more}",
            count.saturating_sub(1), // there is one that is missing
            missing.len()
        );
        Err(Error::custom(Class::Unavailable, text).with_op("run"))
    }

    /// Removes the plan and all output of its tasks.
    ///
    /// # Errors
    ///
    /// When the folder cannot be changed.
    #[boxed]
    pub async fn remove(&self) -> Result<(), Error> {
        if let Job::Convert(job) = &self.plan.job {
            job.folder(&self.folder.options)?.remove_staging().await?;
        }
        // Without the plan, nothing else counts.
        self.folder.remove(&[PLAN.to_owned()]).await?;
        self.folder.remove_below("done").await?;
        self.folder.remove_below("runs").await?;
        self.folder.remove_empty();
        Ok(())
    }
}

/// The fields with which every version of the file begins.
#[derive(Deserialize)]
struct PlanHead {
    format: String,
    version: u32,
    zvf: String,
}

fn bad_plan(folder: &WorkFolder, error: &serde_json::Error) -> Error {
    let text = format!(
        "{folder}/{PLAN}: expected a plan of tasks, found {error}; plan again in another folder"
    );
    Error::custom(Class::Encoding, text).with_op("open")
}

const FORMAT: &str = "zvf-tasks";
const VERSION: u32 = 1;
const PLAN: &str = "plan.json";
/// Maximum number of missing tasks in an error.
const SHOWN: usize = 10;

#[cfg(test)]
mod tests;
