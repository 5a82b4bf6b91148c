//! The folder in which a run writes levels or a part, and the one that keeps them.
//!
//! ```text
//! in a folder                         runs/<id> of it: levels and parts are written there, and stay
//! on an object store                  a folder for temporary files of this machine: files are uploaded below runs/<id>, the
//!                                     record of the task names them, and a later step downloads what it needs
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use zvf_publish::hash_file;
use zvf_store::Key;

use super::folder::{WorkFolder, new_run};
use super::record::Record;
use crate::Error;
use crate::error::bad_request_error;

/// The local folder to which a run writes. It is removed when this is dropped, unless it is kept.
#[derive(Debug)]
pub(super) struct RunFolder {
    pub(super) path: PathBuf,
    /// The name of the run.
    pub(super) run: String,
    pub(super) is_kept: bool,
}

impl RunFolder {
    /// Returns the folder of a new run, which is not created yet: below `stays`, or without that
    /// one below `scratch` or the folder for temporary files.
    pub(super) fn new(stays: Option<&Path>, scratch: Option<&Path>) -> Self {
        let run = new_run();
        let path = stays.map_or_else(
            || {
                let hidden = format!(".zvf-run-{}", run.trim_start_matches("runs/"));
                scratch.map_or_else(std::env::temp_dir, Path::to_owned).join(hidden)
            },
            |folder| folder.join(&run),
        );
        Self { path, run, is_kept: false }
    }

    /// Keeps the files with the plan: uploads them if it is on an object store. Returns the files
    /// for the record of the task: none for a local folder.
    pub(super) async fn keep(
        &mut self,
        folder: &WorkFolder,
    ) -> Result<Vec<(String, u64, String)>, Error> {
        if folder.path().is_some() {
            self.is_kept = true;
            return Ok(Vec::new());
        }
        let (path, run) = (&self.path, &self.run);
        let uploads = files_of(path)?.into_iter().map(|(name, bytes, sum)| async move {
            let key = format!("{run}{name}");
            folder.upload(&path.join(name.trim_start_matches('/')), &key).await?;
            Ok::<_, Error>((key, bytes, sum))
        });
        stream::iter(uploads).buffered(MAX_TRANSFERS).try_collect().await
    }

    /// Returns the folder with the files that a task kept: that of its run, or a new one below this
    /// one with downloaded files.
    pub(super) async fn fetch(
        &self,
        folder: &WorkFolder,
        record: &Record,
    ) -> Result<PathBuf, Error> {
        if let Some(work) = folder.path() {
            return Ok(work.join(&record.run));
        }
        let to = self.path.join(format!("task-{}", record.task));
        let downloads = record.files.iter().enumerate().map(|(at, (key, _, _))| {
            let name = key.strip_prefix(&record.run).unwrap_or(key).trim_start_matches('/');
            let to = &to;
            async move {
                let path = to.join(Key::root().join(name)?.as_str()); // nothing outside of the folder
                let bytes = record.file(folder, at).await?;
                let write = || {
                    fs::create_dir_all(path.parent().unwrap_or(&path))?;
                    fs::write(&path, &bytes)
                };
                write().map_err(|error| Error::io("write", error))
            }
        });
        stream::iter(downloads).buffered(MAX_TRANSFERS).try_collect::<()>().await?;
        Ok(to)
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        if !self.is_kept {
            // Files that cannot be removed are removed with all runs at the end.
            drop(fs::remove_dir_all(&self.path));
        }
    }
}

/// Lists all files of a part, sorted, with their lengths and checksums.
pub(super) fn files_of(path: &Path) -> Result<Vec<(String, u64, String)>, Error> {
    let mut files = Vec::new();
    let mut open = vec![(path.to_owned(), String::new())];
    while let Some((path, name)) = open.pop() {
        let failed = |error: std::io::Error| path_error("read", &path, &error);
        if !path.is_dir() {
            let (bytes, hash) = hash_file(&path).map_err(failed)?;
            files.push((name, bytes, format!("{hash:016x}")));
            continue;
        }
        for entry in fs::read_dir(&path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Some(inner) = entry.file_name().to_str().map(|inner| format!("{name}/{inner}"))
            else {
                let found = entry.path().display().to_string();
                return Err(bad_request_error("a file of a part", "a name that is text", &found));
            };
            open.push((entry.path(), inner));
        }
    }
    files.sort();
    Ok(files)
}

pub(super) fn path_error(op: &'static str, path: &Path, error: &std::io::Error) -> Error {
    let text = format!("{}: {}", path.display(), zvf_error::error_text(error));
    Error::custom(zvf_error::io_class(error.kind()), text).with_op(op)
}

/// Number of concurrent transfers.
const MAX_TRANSFERS: usize = 8;
