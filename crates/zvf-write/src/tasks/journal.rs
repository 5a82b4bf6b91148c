//! The records of tasks that are done.
//!
//! A record is the last thing a task writes: what it says is on the disk by then, unless whoever does all tasks compares
//! files with their records anyway. It has its own checksum, so that half a record is none.

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

/// What a task says when it is done.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Record {
    Route(Box<Slice>),
    Cells(CellsRecord),
    Join(JoinRecord),
    Links(LinksRecord),
}

impl Record {
    /// Returns the files that it left for others.
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

    /// Returns the same, where neither records nor what they tell of are synced.
    pub(super) fn without_sync(self) -> Self {
        Self { sync: false, ..self }
    }

    /// Returns where tasks leave files.
    pub(super) fn files(&self) -> PathBuf {
        self.folder.join("tasks")
    }

    fn records(&self) -> PathBuf {
        self.folder.join("done")
    }

    /// Returns what the names of a task's files begin with.
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

    /// Reads the record of a task, when it is whole.
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

    /// Takes back that a task is done.
    pub(super) fn forget(&self, task: Task) -> Result<()> {
        fs::remove_file(self.path(task)).map_err(Error::scratch)
    }

    /// Says that a task is done; what it wrote is synced before.
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
