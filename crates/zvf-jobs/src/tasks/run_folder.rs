//! Where a run writes levels, and where they are kept.
//!
//! ```text
//! the plan is in a folder             runs/<id> of it: levels are written there, and linked from there
//! the plan is on an object store      a folder for temporary files of this machine: files are uploaded below runs/<id>, the
//!                                     record of the task names them, and a later step downloads what it needs
//! ```

use std::fs;
use std::path::PathBuf;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use zvf_store::Key;

use super::folder::{WorkFolder, new_run};
use super::parts::files_of;
use super::record::Record;
use crate::Error;

/// The local folder to which a run writes levels.
#[derive(Debug)]
pub(super) struct RunFolder {
    pub(super) path: PathBuf,
    /// The name of the run.
    pub(super) run: String,
    is_temporary: bool,
}

impl RunFolder {
    /// Creates the folder of a new run.
    pub(super) fn new(folder: &WorkFolder) -> Self {
        let run = new_run();
        match folder.path() {
            Some(work) => Self { path: work.join(&run), run, is_temporary: false },
            None => {
                let name = format!("zvf-levels-{}", run.trim_start_matches("runs/"));
                Self { path: std::env::temp_dir().join(name), run, is_temporary: true }
            }
        }
    }

    /// Uploads the files if the plan is on an object store. Returns the files for the record of the
    /// task: none for a local folder.
    pub(super) async fn keep(
        &self,
        folder: &WorkFolder,
    ) -> Result<Vec<(String, u64, String)>, Error> {
        if !self.is_temporary {
            return Ok(Vec::new());
        }
        let uploads = files_of(&self.path)?.into_iter().map(|(name, bytes, sum)| async move {
            let key = format!("{}{name}", self.run);
            folder.upload(&self.path.join(name.trim_start_matches('/')), &key).await?;
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

    /// Removes the output.
    pub(super) fn discard(self) {
        // The output does not count, so an error here does not matter.
        drop(fs::remove_dir_all(&self.path));
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        if self.is_temporary {
            // Leftovers are in the folder for temporary files.
            drop(fs::remove_dir_all(&self.path));
        }
    }
}

/// Number of concurrent transfers.
const MAX_TRANSFERS: usize = 8;
