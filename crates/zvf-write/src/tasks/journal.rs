//! The records of finished tasks.
//!
//! A record is the last thing that a task writes: everything in it is on disk by then, unless a
//! single process runs all tasks and compares files with their records anyway. It has its own
//! checksum, so that an incomplete record is detected.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use zvf_error::{Error, Result};

use super::folder::{sync_names, write_new};
use super::path_exists;
use super::plan::Task;
use crate::stages::{CellsRecord, JoinRecord, LinksRecord, Part, Slice, WrittenFile};

/// The journal in a folder.
#[derive(Debug)]
pub(super) struct Journal {
    folder: PathBuf,
    sync: bool,
}

/// The record of a finished task.
#[derive(Debug, Serialize, Deserialize)]
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
    pub(super) fn parts(&self) -> &[Part] {
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
        let journal = Self { folder: folder.to_owned(), sync };
        for folder in [journal.files(), journal.records()] {
            fs::create_dir_all(folder).map_err(Error::scratch)?;
        }
        if sync {
            sync_names(folder)?;
        }
        Ok(journal)
    }

    /// Returns the same journal without syncing records or the files in them.
    pub(super) fn without_sync(self) -> Self {
        Self { sync: false, ..self }
    }

    /// Returns the folder for the files of tasks.
    pub(super) fn files(&self) -> PathBuf {
        self.folder.join("tasks")
    }

    fn records(&self) -> PathBuf {
        self.folder.join("done")
    }

    /// Returns the prefix of the names of a task's files.
    pub(super) fn stem(&self, task: Task) -> PathBuf {
        self.files().join(format!("{}-{}", task.stage.name(), task.number))
    }

    fn path(&self, task: Task) -> PathBuf {
        self.records().join(format!("{}-{}.json", task.stage.name(), task.number))
    }

    /// Returns whether a task is done.
    pub(super) fn has(&self, task: Task) -> bool {
        self.path(task).exists()
    }

    /// Reads the record of a task, if it is intact.
    pub(super) fn read(&self, task: Task) -> Result<Option<Record>> {
        let path = self.path(task);
        if !path_exists(&path)? {
            return Ok(None);
        }
        let text = fs::read_to_string(&path).map_err(Error::scratch)?;
        let whole = text
            .split_once('\n')
            .filter(|(sum, record)| *sum == format!("{:08x}", crc32c::crc32c(record.as_bytes())));
        Ok(whole.and_then(|(_, record)| serde_json::from_str(record).ok()))
    }

    /// Removes the record of a task.
    pub(super) fn forget(&self, task: Task) -> Result<()> {
        fs::remove_file(self.path(task)).map_err(Error::scratch)
    }

    /// Records a task as done, after syncing its files.
    pub(super) fn write(&self, task: Task, record: &Record) -> Result<()> {
        if self.sync {
            for file in record.files() {
                let file = File::open(self.files().join(&file.name));
                file.and_then(|file| file.sync_all()).map_err(Error::scratch)?;
            }
            sync_names(&self.files())?;
        }
        let text = serde_json::to_string(record);
        let text = text.map_err(|error| Error::scratch(error.into()))?;
        let text = format!("{:08x}\n{text}", crc32c::crc32c(text.as_bytes()));
        write_new(&self.path(task), text.as_bytes(), self.sync)
    }
}
