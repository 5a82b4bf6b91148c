//! What one run of a task wrote, and the record that makes it count.
//!
//! ```text
//! done/<task>.json    {"plan", "task", "run", "files": [[name, bytes, XXH64], ...], "report"}
//! runs/<run>/<n>      records, one a line, about 4 MiB a file; of a vacuum, bytes that zvf-edit reads
//! ```
//!
//! The record is written last. That it exists proves nothing about the files that it names: they are compared with it when they
//! are read.

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_publish::hash_bytes;

use super::folder::{WorkFolder, new_run};

/// What a task wrote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The digest of the plan.
    plan: String,
    pub(super) task: usize,
    pub(super) run: String,
    /// Name, length and XXH64 of each file.
    pub(super) files: Vec<(String, u64, String)>,
    /// What the task says of itself.
    pub(super) report: Json,
}

impl Record {
    /// Reads that of task `number`; none when the task is not done.
    #[boxed]
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

    /// Reads the same where all it names in the folder is whole; one that is not goes, so that the task can be run again.
    pub(super) async fn read_whole(
        folder: &WorkFolder,
        plan: &str,
        number: usize,
    ) -> Result<Option<Self>> {
        let record = match Self::read(folder, plan, number).await {
            Ok(record) => record,
            Err(error) if error.class().is_damage() => {
                folder.remove(&[key(number)]).await?;
                None
            }
            Err(error) => return Err(error),
        };
        let Some(record) = record else { return Ok(None) };
        for at in 0..record.files.len() {
            match record.file(folder, at).await {
                Ok(_) => {}
                Err(error) if error.class().is_damage() => {
                    folder.remove(&[key(number)]).await?;
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Some(record))
    }

    /// Reads file `at` and compares it with what is said of it.
    #[boxed]
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

/// What a run writes, before its record.
#[derive(Debug)]
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

    /// Adds a line, which must hold no other.
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

    /// Writes bytes that are no lines, in files of their own.
    pub(super) async fn write(&mut self, bytes: &Bytes) -> Result<()> {
        self.flush().await?;
        let mut rest = bytes.clone();
        while !rest.is_empty() {
            let piece = rest.split_to(rest.len().min(PIECE_BYTES));
            self.put(&piece).await?;
        }
        Ok(())
    }

    /// Makes the record of task `number`; false where another run had done it, and then nothing stays of this one.
    pub(super) async fn finish(mut self, plan: &str, number: usize, report: Json) -> Result<bool> {
        self.flush().await?;
        let Self { folder, run, files, .. } = self;
        let record = Record { plan: plan.to_owned(), task: number, run, files, report };
        record.publish(&folder).await
    }

    /// Removes what was written.
    pub(super) async fn abandon(self) -> Result<()> {
        self.folder.remove_below(&self.run).await
    }
}

impl Record {
    /// Makes the record of a run of task `number` that has records of its own of what it wrote.
    pub(super) fn from_run(plan: &str, number: usize, run: String, report: Json) -> Self {
        Self { plan: plan.to_owned(), task: number, run, files: Vec::new(), report }
    }

    /// Adds files of the run that it names.
    pub(super) fn with_files(self, files: Vec<(String, u64, String)>) -> Self {
        Self { files, ..self }
    }

    /// Makes it count, unless another run did the task.
    pub(super) async fn publish(&self, folder: &WorkFolder) -> Result<bool> {
        let text = serde_json::to_vec(self)
            .map_err(|error| damage_error(folder, self.task, &error.to_string()))?;
        let made = folder.create(&self.run, &key(self.task), &text.into()).await?;
        if !made {
            folder.remove_below(&self.run).await?;
        }
        Ok(made)
    }
}

/// Returns where the record of a task is.
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

/// Bytes of a file from which the next one is begun.
const FILE_BYTES: usize = 4 << 20;
/// Bytes of a file of what is no lines: what is sent again when a network fails.
const PIECE_BYTES: usize = 64 << 20;
