//! Validates a store with many processes.
//!
//! A task examines a range of cells, links or manifests and records the results
//! ([`zvf_validate::record_part`]); it reads the results of earlier stages from their records. The
//! final step runs the same validation with the records instead of examining the store.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use zvf_error::Result;
use zvf_format::Class;
use zvf_store::{OpenOptions, Store};
use zvf_validate::{
    Checks, Depth, Observer, RecordSink, RecordStream, Report, Rule, Sample, Scan, Stage, StagePart,
};

use super::identity::StoreIdentity;
use super::record::{Record, Writer};
use super::{Job, Plan, TaskLine, TaskOutcome, Tasks, WorkFolder};
use crate::Error;
use crate::error::stopped_error;

/// The options, and the division of the work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValidateJob {
    depth: u8,
    rules: Vec<String>,
    strict: bool,
    max_findings: usize,
    sample: Option<(f64, u64)>,
    max_kept_items: u64,
    /// Whether the journal is also checked when the work is finished.
    pub journal: bool,
    scans: Vec<Scan>,
    parts: Vec<StagePart>,
}

impl ValidateJob {
    /// Returns the validation options.
    ///
    /// # Errors
    ///
    /// When the plan has a value that this build does not know.
    pub fn options(&self) -> Result<Checks, Error> {
        let rules =
            self.rules.iter().map(|id| Rule::find(id).ok_or_else(|| unknown_error("rule", id)));
        let depth = self.depth.to_string();
        let sample = |(share, seed): (f64, u64)| {
            Sample::new(share, seed).ok_or_else(|| unknown_error("sample", &share.to_string()))
        };
        Ok(Checks {
            level: Depth::from_number(self.depth).ok_or_else(|| unknown_error("depth", &depth))?,
            rules: rules.collect::<Result<_, Error>>()?,
            strict: self.strict,
            max_findings: self.max_findings,
            sample: self.sample.map(sample).transpose()?,
            max_kept_items: self.max_kept_items,
        })
    }

    pub(super) fn lines(&self) -> Vec<TaskLine> {
        let line = |part: &StagePart| {
            let count: usize = part.ranges.iter().map(|(_, range)| range.len()).sum();
            let first = part.ranges.first().and_then(|(scan, range)| {
                Some(format!("{} from {}", self.scans.get(*scan)?.path, range.start))
            });
            let first = first.unwrap_or_default();
            let word = if part.stage == Stage::Objects { "manifests" } else { "cells" };
            TaskLine { stage: part.stage.name().into(), what: format!("{count} {word}, {first}") }
        };
        self.parts.iter().map(line).collect()
    }
}

impl Plan {
    /// Divides a validation of `store`, which was opened at `address`, into about `shares` tasks
    /// per stage: for cells, links and manifests.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
    /// # let work = std::env::temp_dir().join(format!("zvf-tasks-{}", std::process::id()));
    /// use zvf_jobs::tasks::{Plan, TaskOutcome, WorkFolder};
    /// use zvf_validate::{Observer, Checks};
    ///
    /// let (open, observer) = (zvf_store::OpenOptions::default(), Observer::default());
    /// let store = zvf_store::Store::open(path, open.clone()).await?;
    /// let folder = WorkFolder::open(work.to_str().ok_or("a path")?, &open)?;
    /// let plan = Plan::validate((&store, path, &open), &Checks::default(), false, 4).await?;
    /// let tasks = plan.create(&folder).await?;
    /// for number in 0..tasks.plan().lines().len() {
    ///     assert_eq!(tasks.run_validate(number, (&store, &open), &observer).await?, TaskOutcome::Done);
    /// }
    /// let report = tasks.finish_validate((&store, &open), &observer).await?;
    /// assert!(report.is_clean());
    /// tasks.remove().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    #[boxed(?Send)]
    pub async fn validate(
        (store, address, open): (&Store, &str, &OpenOptions),
        options: &Checks,
        journal: bool,
        shares: usize,
    ) -> Result<Self, Error> {
        let identity = StoreIdentity::read(store, address, open).await?;
        let scans = zvf_validate::survey(store, options).await?;
        let job = ValidateJob {
            depth: options.level.number(),
            rules: options.rules.iter().map(|rule| rule.id.to_owned()).collect(),
            strict: options.strict,
            max_findings: options.max_findings,
            sample: options.sample.map(|sample| (sample.share(), sample.seed())),
            max_kept_items: options.max_kept_items,
            journal,
            parts: StagePart::divide(&scans, shares),
            scans,
        };
        Ok(Self::new(Some(address.to_owned()), Some(identity), Job::Validate(job)))
    }
}

impl Tasks {
    /// Runs task `number` of a validation.
    ///
    /// # Errors
    ///
    /// `Unavailable` when a task of an earlier stage is not done, `Conflict` when the store changed since the plan, and
    /// when something cannot be read or written.
    #[boxed(?Send)]
    pub async fn run_validate(
        &self,
        number: usize,
        (store, open): (&Store, &OpenOptions),
        observer: &Observer,
    ) -> Result<TaskOutcome, Error> {
        if self.find_whole_record(number).await?.is_some() {
            return Ok(TaskOutcome::AlreadyDone);
        }
        let job = self.validate_job()?;
        let Some(part) = job.parts.get(number) else { return Ok(TaskOutcome::AlreadyDone) };
        let earlier = job.parts.iter().take_while(|earlier| earlier.stage < part.stage).count();
        let earlier = self.records(earlier, &format!("task {number}")).await?;
        self.check_store(store, open).await?;
        let writer = Arc::new(Mutex::new(Writer::new(&self.folder)));
        let (options, scans) = (job.options()?, (job.scans.as_slice(), part));
        let (before, sink) = (lines_of(&self.folder, earlier), sink_to(&writer));
        let done = zvf_validate::record_part(store, &options, observer, scans, before, sink).await;
        // The sink was dropped.
        let writer = Arc::into_inner(writer).map(Mutex::into_inner).ok_or_else(stopped_error)?;
        let made = match done {
            Ok(true) => self.check_store(store, open).await.map(|()| true),
            done => done,
        };
        writer.finish((&self.digest, number), made).await
    }

    /// Merges the results of all tasks of a validation into the report of the whole.
    ///
    /// # Errors
    ///
    /// `Unavailable` when a task is not done, `Checksum` when its output is damaged, `Conflict`
    /// when the store changed since the plan, and when something cannot be read.
    #[boxed(?Send)]
    pub async fn finish_validate(
        &self,
        (store, open): (&Store, &OpenOptions),
        observer: &Observer,
    ) -> Result<Report, Error> {
        let job = self.validate_job()?;
        let records = self.records(job.parts.len(), "to finish").await?;
        self.check_store(store, open).await?;
        let lines = lines_of(&self.folder, records);
        let merged =
            zvf_validate::merge(store, &job.options()?, observer, &job.scans, lines).await?;
        self.check_store(store, open).await?;
        Ok(merged)
    }

    fn validate_job(&self) -> Result<&ValidateJob, Error> {
        let Job::Validate(job) = &self.plan.job else {
            return Err(self.other_kind_error("one of zvf task plan validate"));
        };
        Ok(job)
    }
}

/// Returns the lines of all files of all records, with one file in memory at a time.
fn lines_of(folder: &WorkFolder, records: Vec<Record>) -> RecordStream {
    let files = records.into_iter().flat_map(|record| {
        let record = Arc::new(record);
        (0..record.files.len()).map(move |at| (Arc::clone(&record), at))
    });
    let folder = folder.clone();
    let read = move |(record, at): (Arc<Record>, usize)| {
        let folder = folder.clone();
        async move { record.file(&folder, at).await }
    };
    let lines = |file: Result<bytes::Bytes>| match file {
        Ok(text) => {
            let ended = text.split_inclusive(|byte| *byte == b'\n');
            let lines = ended.map(|line| Ok(line.strip_suffix(b"\n").unwrap_or(line).to_vec()));
            stream::iter(lines.collect::<Vec<_>>()).boxed()
        }
        Err(error) => stream::iter([Err(error)]).boxed(),
    };
    stream::iter(files).then(read).flat_map(lines).boxed()
}

fn sink_to(writer: &Arc<Mutex<Writer>>) -> RecordSink {
    let writer = Arc::clone(writer);
    Box::new(move |line| {
        let writer = Arc::clone(&writer);
        async move { writer.lock().await.push(&line).await }.boxed()
    })
}

fn unknown_error(what: &str, found: &str) -> Error {
    let text = format!("the plan: expected a {what} that this build knows, found {found}");
    Error::custom(Class::InvalidArgument, text).with_op("open")
}
