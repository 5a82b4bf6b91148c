//! The output of one run of a task, and the record that makes it count.
//!
//! ```text
//! done/<task>.json    {"plan", "task", "run", "files": [[name, bytes, XXH64], ...], "report"}
//! runs/<run>/<n>      records, one a line, about 4 MiB a file; of a vacuum, bytes that zvf-edit reads
//! ```
//!
//! The record is written last. Its existence proves nothing about its files: they are compared with
//! it when they are read.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_publish::hash_bytes;

use super::TaskOutcome;
use super::folder::{WorkFolder, new_run};

/// The output of a task.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    /// The digest of the plan.
    plan: String,
    pub(super) task: usize,
    pub(super) run: String,
    /// Name, length and XXH64 of each file.
    pub(super) files: Vec<(String, u64, String)>,
    /// The task's own report.
    pub(super) report: Json,
}

impl Record {
    /// Reads the record of task `number`; `None` if the task is not done.
    pub(super) async fn read(
        folder: &WorkFolder,
        plan: &str,
        number: usize,
    ) -> Result<Option<Self>> {
        let Some(text) = folder.get(&key(number)).await? else { return Ok(None) };
        let record: Self = serde_json::from_slice(&text)
            .map_err(|error| damage_error(folder, number, &error.to_string()))?;
        if (record.plan.as_str(), record.task) != (plan, number) {
            return Err(damage_error(folder, number, "one of another plan"));
        }
        Ok(Some(record))
    }

    /// Reads the record if all its files in the folder are intact; otherwise removes it, so that
    /// the task can run again.
    pub(super) async fn read_whole(
        folder: &WorkFolder,
        plan: &str,
        number: usize,
    ) -> Result<Option<Self>> {
        let read = async {
            let Some(record) = Self::read(folder, plan, number).await? else { return Ok(None) };
            for at in 0..record.files.len() {
                record.file(folder, at).await?;
            }
            Ok::<_, Error>(Some(record))
        };
        match read.await {
            Err(error) if error.class().is_damage() => {
                folder.remove(&[key(number)]).await?;
                Ok(None)
            }
            read => read,
        }
    }

    /// Reads file `at` and compares it with the record.
    pub(super) async fn file(&self, folder: &WorkFolder, at: usize) -> Result<Bytes> {
        let Some((name, bytes, sum)) = self.files.get(at) else { return Ok(Bytes::new()) };
        let Some(text) = folder.get(name).await? else {
            return Err(damage_error(folder, self.task, &format!("no file {name}")));
        };
        if to_u64(text.len()) == *bytes && digest(&text) == *sum {
            return Ok(text);
        }
        let found =
            format!("{name} of {} bytes, where {bytes} were written, or others", text.len());
        Err(damage_error(folder, self.task, &found))
    }

    /// Reads all files, one after the other.
    pub(super) async fn bytes(&self, folder: &WorkFolder) -> Result<Bytes> {
        if self.files.len() < 2 {
            return self.file(folder, 0).await;
        }
        let mut all = Vec::new();
        for at in 0..self.files.len() {
            all.extend_from_slice(&self.file(folder, at).await?);
        }
        Ok(all.into())
    }
}

/// The output of a run, before its record.
pub(super) struct Writer {
    folder: WorkFolder,
    run: String,
    lines: Vec<u8>,
    files: Vec<(String, u64, String)>,
}

impl Writer {
    pub(super) fn new(folder: &WorkFolder) -> Self {
        Self { folder: folder.clone(), run: new_run(), lines: Vec::new(), files: Vec::new() }
    }

    /// Adds a line, which must not contain line ends.
    pub(super) async fn push(&mut self, line: &[u8]) -> Result<()> {
        self.lines.extend_from_slice(line);
        self.lines.push(b'\n');
        if self.lines.len() >= FILE_BYTES { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<()> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let bytes = Bytes::from(std::mem::take(&mut self.lines));
        self.put(&bytes).await
    }

    async fn put(&mut self, bytes: &Bytes) -> Result<()> {
        let name = format!("{}/{:06}", self.run, self.files.len());
        self.folder.put(&name, bytes).await?;
        self.files.push((name, to_u64(bytes.len()), digest(bytes)));
        Ok(())
    }

    /// Writes bytes that are not lines, in separate files.
    pub(super) async fn write(&mut self, bytes: &Bytes) -> Result<()> {
        self.flush().await?;
        let mut rest = bytes.clone();
        while !rest.is_empty() {
            let piece = rest.split_to(rest.len().min(PIECE_BYTES));
            self.put(&piece).await?;
        }
        Ok(())
    }

    /// Creates the record of task `number` if all of its output was `made`; otherwise, or if another
    /// run had done it, removes this run's output.
    pub(super) async fn finish(
        mut self,
        (plan, number): (&str, usize),
        made: Result<bool>,
    ) -> Result<TaskOutcome> {
        let made = match made {
            Ok(true) => self.flush().await.map(|()| true),
            made => made,
        };
        let Self { folder, run, files, .. } = self;
        if !matches!(made, Ok(true)) {
            // The output does not count; the first error is returned.
            let removed = folder.remove_below(&run).await;
            return made.and(removed).map(|()| TaskOutcome::Stopped);
        }
        Record::new(plan, number, (run, files), Json::Null).publish(&folder).await
    }
}

impl Record {
    /// Creates the record of a run of task `number`, with the files that the run wrote.
    pub(super) fn new(
        plan: &str,
        number: usize,
        (run, files): (String, Vec<(String, u64, String)>),
        report: Json,
    ) -> Self {
        Self { plan: plan.to_owned(), task: number, run, files, report }
    }

    /// Publishes the record, unless another run did the task: then removes the output of this one.
    pub(super) async fn publish(&self, folder: &WorkFolder) -> Result<TaskOutcome> {
        let text = serde_json::to_vec(self)
            .map_err(|error| damage_error(folder, self.task, &error.to_string()))?;
        if folder.create(&key(self.task), &text.into()).await? {
            return Ok(TaskOutcome::Done);
        }
        folder.remove_below(&self.run).await?;
        Ok(TaskOutcome::AlreadyDone)
    }
}

/// Returns the key of the record of a task.
pub(super) fn key(number: usize) -> String {
    format!("done/{number}.json")
}

pub(super) fn digest(bytes: &[u8]) -> String {
    format!("{:016x}", hash_bytes(bytes))
}

fn damage_error(folder: &WorkFolder, number: usize, found: &str) -> Error {
    let text = format!(
        "{folder}/{}: expected what the task wrote, found {found}; run the task again",
        key(number)
    );
    Error::custom(Class::Checksum, text)
}

/// File size from which a new file is begun.
const FILE_BYTES: usize = 4 << 20;
/// File size for bytes that are not lines: the unit of retransmission after a network failure.
const PIECE_BYTES: usize = 64 << 20;
