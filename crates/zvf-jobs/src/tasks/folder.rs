//! The folder of a plan: local, or below a prefix of an object store.
//!
//! ```text
//! plan.json            what there is to do
//! runs/<id>/<name>     what one run of one task writes; no two runs share a folder
//! done/<task>.json     which run did the task, and what it wrote; made where there is none
//! ```
//!
//! Process ids are not unique across machines, so the names of runs do not derive from them.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use zvf_error::{Error, Result};
use zvf_publish::{Disk, KeyedFolder};
use zvf_store::{Backend, Objects, OpenOptions, Store};

/// The location of a plan and the output of its tasks.
///
/// ```
/// let folder = zvf_jobs::tasks::WorkFolder::open("work", &Default::default())?;
/// assert_eq!(folder.to_string(), "work");
/// # Ok::<(), zvf_error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct WorkFolder {
    name: String,
    medium: Medium,
    /// The options with which it was opened, which also apply to results.
    pub(super) options: OpenOptions,
}

#[derive(Clone, Debug)]
enum Medium {
    Folder(KeyedFolder),
    Objects(Objects),
}

impl WorkFolder {
    /// Opens the folder at `address`, a path or a URL. Nothing is read yet.
    ///
    /// # Errors
    ///
    /// When `address` is neither, or is read-only.
    pub fn open(address: &str, options: &OpenOptions) -> Result<Self> {
        let medium = match Store::backend(address, options)? {
            Some(Backend { store, prefix, .. }) => {
                Medium::Objects(Objects::new(store, &prefix, options))
            }
            None => {
                let path = address.strip_prefix("file://").unwrap_or(address);
                Medium::Folder(KeyedFolder::new(Disk::default(), PathBuf::from(path)))
            }
        };
        Ok(Self { name: address.to_owned(), medium, options: options.clone() })
    }

    /// Returns the path of a local folder.
    pub fn path(&self) -> Option<&Path> {
        match &self.medium {
            Medium::Folder(folder) => Some(folder.root()),
            Medium::Objects(_) => None,
        }
    }

    /// Reads a whole file; `None` if it does not exist.
    pub(crate) async fn get(&self, key: &str) -> Result<Option<Bytes>> {
        match &self.medium {
            Medium::Folder(folder) => folder.get(key).map_err(|e| Error::io("read", e)),
            Medium::Objects(objects) => objects.read(key).await,
        }
    }

    /// Returns whether a file exists.
    pub(crate) async fn exists(&self, key: &str) -> Result<bool> {
        match &self.medium {
            Medium::Folder(folder) => folder.exists(key).map_err(|e| Error::io("read", e)),
            Medium::Objects(objects) => objects.exists(key).await,
        }
    }

    /// Writes a file of a run: the name is unique.
    pub(crate) async fn put(&self, key: &str, bytes: &Bytes) -> Result<()> {
        match &self.medium {
            Medium::Folder(folder) => {
                folder.put(key, bytes.clone()).map_err(|e| Error::io("write", e))?;
                let synced = folder.sync_folders([key].into_iter());
                synced.map_err(|e| Error::io("write", e))
            }
            Medium::Objects(objects) => objects.put(key, bytes).await,
        }
    }

    /// Writes a file of a run from a local file.
    pub(crate) async fn upload(&self, from: &Path, key: &str) -> Result<()> {
        match &self.medium {
            Medium::Folder(_) => {
                let bytes = std::fs::read(from).map_err(|error| Error::io("read", error))?;
                self.put(key, &bytes.into()).await
            }
            Medium::Objects(objects) => objects.upload(from, key).await,
        }
    }

    /// Creates a file if none exists; returns false if one does.
    pub(crate) async fn create(&self, key: &str, bytes: &Bytes) -> Result<bool> {
        let folder = match &self.medium {
            Medium::Folder(folder) => folder,
            Medium::Objects(objects) => return objects.create(key, bytes).await,
        };
        let is_new = folder.create(key, bytes.clone()).map_err(|e| Error::io("publish", e))?;
        if is_new {
            folder.sync_folders([key].into_iter()).map_err(|e| Error::io("publish", e))?;
        }
        Ok(is_new)
    }

    /// Removes files, if they exist.
    pub(crate) async fn remove(&self, keys: &[String]) -> Result<()> {
        match &self.medium {
            Medium::Folder(folder) => {
                let removed = keys.iter().try_for_each(|key| folder.delete(key));
                removed.map_err(|error| Error::io("write", error))
            }
            Medium::Objects(_) if keys.is_empty() => Ok(()),
            Medium::Objects(objects) => objects.remove(keys).await,
        }
    }

    /// Removes all files below a name. If the name is empty, removes the plan and its records, but
    /// no foreign files.
    pub(crate) async fn remove_below(&self, prefix: &str) -> Result<()> {
        match &self.medium {
            Medium::Folder(folder) => {
                folder.delete_folder(prefix).map_err(|error| Error::io("write", error))
            }
            Medium::Objects(objects) => objects.remove_below(prefix).await,
        }
    }

    /// Removes the folder itself, if it is local and empty.
    pub(crate) fn remove_empty(&self) {
        if let Some(path) = self.path() {
            // It contains foreign files.
            drop(std::fs::remove_dir(path));
        }
    }
}

/// Exists once the final step has ended, even if it changed nothing.
pub(super) const FINISHED: &str = "done/finished";

/// Returns a name that is unique across runs and machines.
pub(crate) fn new_run() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("runs/{:016x}{:016x}", random(), random())
}

impl fmt::Display for WorkFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
