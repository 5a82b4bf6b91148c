//! Vacuums an edited store with many processes: each rewrites some of the chunks, and one commit
//! takes over the results.
//!
//! A task reads chunks and keeps the rewritten ones in the folder of the plan; the store does not
//! change. The commit of the final step names the plan, so that a repeated final step recognises
//! it, even after a kill.
//!
//! Not here: which chunks have waste, and how they are rewritten (`zvf-edit`).

use async_recursion::async_recursion as boxed;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use zvf_edit::{Place, VacuumShare};
use zvf_publish::CommitGate;
use zvf_store::{OpenOptions, Store};

use super::commit::{place, run_on_thread};
use super::folder::FINISHED;
use super::identity::StoreIdentity;
use super::record::Writer;
use super::{Job, Plan, TaskLine, TaskOutcome, Tasks};
use crate::Error;

/// The chunks to rewrite, and the commit of the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VacuumJob {
    head: u64,
    /// No other process writes meanwhile: [`SlicePlace::with_single_writer`].
    single_writer: bool,
    shares: Vec<VacuumShare>,
}

impl VacuumJob {
    pub(super) fn lines(&self) -> Vec<TaskLine> {
        let line = |share: &VacuumShare| {
            let [first, _last] = &share.span;
            let first: Vec<String> = first.iter().map(ToString::to_string).collect();
            let what =
                format!("{} chunks of {} from {}", share.chunks, share.kind, first.join("."));
            TaskLine { stage: "chunks".into(), what }
        };
        self.shares.iter().map(line).collect()
    }
}

impl Plan {
    /// Divides a vacuum of the store at `address` into about `shares` tasks. The tasks find out
    /// whether chunks have waste. `is_single_writer` states that no other process writes meanwhile,
    /// which backends without conditional puts require.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let at = |name: &str| dir.path().join(name).to_str().map(str::to_owned).ok_or("a path");
    /// # archives::write(&dir.path().join("a.zarrvectors"), &archives::files("pc3_objects"));
    /// use zvf_publish::CommitGate;
    /// use zvf_jobs::tasks::{Plan, TaskOutcome, WorkFolder};
    ///
    /// let (address, open) = (at("a.zarrvectors")?, zvf_store::OpenOptions::default());
    /// let plan = Plan::vacuum((&address, &open), false, 2).await?;
    /// let tasks = plan.create(&WorkFolder::open(&at("work")?, &open)?).await?;
    /// for number in 0..tasks.plan().lines().len() {
    ///     assert_eq!(tasks.run_vacuum(number, &open).await?, TaskOutcome::Done);
    /// }
    /// let report = tasks.finish_vacuum(&open, &CommitGate::default()).await?;
    /// assert_eq!(report.map(|report| report["changed"].clone()), Some(false.into()), "there was no waste");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// When there is no store, it is in a versioned repository, or it cannot be read.
    #[boxed]
    pub async fn vacuum(
        (address, open): (&str, &OpenOptions),
        is_single_writer: bool,
        shares: usize,
    ) -> Result<Self, Error> {
        let place = place(address, open)?;
        let store = Store::open(address, open.clone()).await?;
        // If there is a commit between these two, the first task refuses.
        let identity = StoreIdentity::read(&store, address, open).await?;
        let (head, shares) =
            run_on_thread("open", move || zvf_edit::plan_vacuum(place, shares)).await?;
        let job = VacuumJob { head, single_writer: is_single_writer, shares };
        Ok(Self::new(Some(address.to_owned()), Some(identity), Job::Vacuum(job)))
    }
}

impl Tasks {
    /// Rewrites the chunks of task `number` that have waste, and keeps them in the folder of the
    /// plan.
    ///
    /// # Errors
    ///
    /// `Conflict` when the store changed since the plan; otherwise when a chunk cannot be read or
    /// kept.
    #[boxed]
    pub async fn run_vacuum(
        &self,
        number: usize,
        open: &OpenOptions,
    ) -> Result<TaskOutcome, Error> {
        if self.find_whole_record(number).await?.is_some() {
            return Ok(TaskOutcome::AlreadyDone);
        }
        let (job, address) = self.vacuum_job()?;
        let Some(share) = job.shares.get(number).cloned() else {
            return Ok(TaskOutcome::AlreadyDone);
        };
        self.check_store_now(open).await?;
        let (place, head) = (place(address, open)?, job.head);
        let bytes =
            run_on_thread("read", move || zvf_edit::run_vacuum(place, head, &share)).await?;
        self.check_store_now(open).await?;
        let mut writer = Writer::new(&self.folder);
        let made = writer.write(&bytes).await.map(|()| true);
        writer.finish((&self.digest, number), made).await
    }

    /// Commits the results of all tasks through `gate`; returns the report of the commit, like
    /// [`zvf_edit::vacuum`]. `None` if that was already done.
    ///
    /// # Errors
    ///
    /// `Unavailable` when a task is not done, `Checksum` when its output is damaged, `Conflict`
    /// when the store changed since the plan, and when the commit fails.
    #[boxed]
    pub async fn finish_vacuum(
        &self,
        open: &OpenOptions,
        gate: &CommitGate,
    ) -> Result<Option<Json>, Error> {
        let (job, address) = self.vacuum_job()?;
        let records = self.records(job.shares.len(), "to finish").await?;
        let mut place = place(address, open)?;
        if job.single_writer {
            place = place.with_single_writer();
        }
        let (head, digest) = (job.head, self.digest.clone());
        let is_committed = move |place: &Place| zvf_edit::is_vacuumed(place, (head, &digest));
        if let Err(changed) = self.check_store_now(open).await {
            return self.allow_earlier_commit(place, is_committed, changed).await;
        }
        let mut parts = Vec::with_capacity(records.len());
        for (share, record) in job.shares.iter().zip(&records) {
            parts.push((share.clone(), record.bytes(&self.folder).await?));
        }
        let digest = self.digest.clone();
        let commit = move |place| zvf_edit::finish_vacuum(place, (head, &digest), parts);
        let report = self.commit(gate, place, commit, is_committed).await?;
        if report.is_some() {
            self.folder.put(FINISHED, &self.digest.clone().into()).await?;
        }
        Ok(report)
    }

    fn vacuum_job(&self) -> Result<(&VacuumJob, &str), Error> {
        let Job::Vacuum(job) = &self.plan.job else {
            return Err(self.other_kind_error("one of zvf task plan vacuum"));
        };
        Ok((job, self.store()?))
    }
}
