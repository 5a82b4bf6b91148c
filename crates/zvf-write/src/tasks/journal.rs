//! The records of finished tasks.
//!
//! A record is the last thing that a task writes: everything in it is on disk by then, unless a
//! single process runs all tasks and compares files with their records anyway. It has its own
//! checksum, so that an incomplete record is detected.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use zvf_error::{Error, Result};
use zvf_publish::KeyedFolder;

use super::folder;
use super::plan::Task;
use crate::stages::{ArrayCounts, CellsRecord, JoinRecord, LinksRecord, Slice, WrittenFile};

/// The journal in a folder.
#[derive(Debug)]
pub(super) struct Journal {
    folder: KeyedFolder,
    sync: bool,
}

/// The record of a finished task.
#[derive(Serialize, Deserialize)]
pub(super) enum Record {
    Route(Box<Slice>),
    Cells(CellsRecord),
    Join(JoinRecord),
    Links(LinksRecord),
}

impl Record {
    /// Returns the files that it wrote for others.
    pub(super) fn files(&self) -> &[WrittenFile] {
        match self {
            Self::Route(slice) => &slice.files,
            Self::Cells(record) => &record.files,
            Self::Join(record) => &record.files,
            Self::Links(_) => &[],
        }
    }

    /// Returns the cells that it wrote.
    pub(super) fn parts(&self) -> &[ArrayCounts] {
        match self {
            Self::Cells(record) => &record.parts,
            Self::Links(record) => &record.parts,
            Self::Route(_) | Self::Join(_) => &[],
        }
    }
}

impl Journal {
    /// Opens the journal in `folder`.
    pub(super) fn open(folder: &Path, sync: bool) -> Result<Self> {
        let journal = Self { folder: folder::files(folder), sync };
        for folder in [TASKS, DONE] {
            fs::create_dir_all(journal.folder.path(folder)).map_err(Error::scratch)?;
        }
        if sync {
            journal.folder.disk().sync_dir(folder).map_err(Error::scratch)?;
        }
        Ok(journal)
    }

    /// Returns the same journal without syncing records or the files in them.
    pub(super) fn without_sync(self) -> Self {
        Self { sync: false, ..self }
    }

    /// Returns the folder for the files of tasks.
    pub(super) fn files(&self) -> PathBuf {
        self.folder.path(TASKS)
    }

    /// Returns the prefix of the names of a task's files.
    pub(super) fn stem(&self, task: Task) -> PathBuf {
        self.files().join(format!("{}-{}", task.stage.name(), task.number))
    }

    /// Returns whether a task is done.
    pub(super) fn has(&self, task: Task) -> bool {
        self.folder.path(&key(task)).exists()
    }

    /// Reads the record of a task, if it is intact.
    pub(super) fn read(&self, task: Task) -> Result<Option<Record>> {
        let text = self.folder.get(&key(task)).map_err(Error::scratch)?;
        Ok(text.and_then(|text| {
            let (sum, record) = std::str::from_utf8(&text).ok()?.split_once('\n')?;
            let is_whole = sum == format!("{:08x}", crc32c::crc32c(record.as_bytes()));
            if is_whole { serde_json::from_str(record).ok() } else { None }
        }))
    }

    /// Removes the record of a task.
    pub(super) fn forget(&self, task: Task) -> Result<()> {
        self.folder.disk().remove(&self.folder.path(&key(task))).map_err(Error::scratch)
    }

    /// Records a task as done, after syncing its files.
    pub(super) fn write(&self, task: Task, record: &Record) -> Result<()> {
        let text = serde_json::to_string(record);
        let text = text.map_err(|error| Error::scratch(error.into()))?;
        let text = format!("{:08x}\n{text}", crc32c::crc32c(text.as_bytes()));
        self.write_text(&key(task), text, record.files()).map_err(Error::scratch)
    }

    fn write_text(&self, key: &str, text: String, files: &[WrittenFile]) -> std::io::Result<()> {
        if !self.sync {
            return self.folder.mark(key, text.into());
        }
        let (disk, folder) = (self.folder.disk(), self.files());
        let files: Vec<PathBuf> = files.iter().map(|file| folder.join(&file.name)).collect();
        let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
        disk.sync_each(&files, &[&folder])?;
        self.folder.put(key, text.into())?;
        disk.sync_dir(&self.folder.path(DONE))
    }
}

/// Returns the key of the record of a task.
fn key(task: Task) -> String {
    format!("{DONE}/{}-{}.json", task.stage.name(), task.number)
}

/// The folder of what tasks leave for each other.
const TASKS: &str = "tasks";
/// The folder of records.
const DONE: &str = "done";
