//! The storage of a store or its journal: objects by key, in a folder or an object store.
//!
//! ```text
//! folder     files; changed under the lock of the journal, synced for durability
//! backend    objects; replaced only if they still have the version that was read
//! ```
//!
//! Not here: atomicity of several changes (`journal`).

use std::collections::HashMap;
use std::fs::File;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use zvf_format::Class;
use zvf_format::num::saturating_usize;
use zvf_publish::{KeyedFolder, PreparedFile};
use zvf_store::{Objects, SeenVersion};

use crate::changes::{Blob, Changes};
use crate::error::{At, Result};
pub(crate) use zvf_store::block_on;

/// Objects by key.
#[derive(Clone, Debug)]
pub(crate) enum Medium {
    Folder(KeyedFolder),
    Objects(Objects),
}

/// The bytes of an object, with their version where the medium has versions.
pub(crate) struct CurrentObject {
    pub(crate) bytes: Bytes,
    pub(crate) version: Option<SeenVersion>,
}

/// New bytes of a key, with the version of the object that they replace.
pub(crate) struct PutRequest<'a> {
    pub(crate) key: &'a str,
    pub(crate) bytes: Blob,
    pub(crate) version: Option<SeenVersion>,
}

/// Files that are written and are renamed into place once the record exists.
pub(crate) type PreparedFiles = HashMap<String, PreparedFile>;

impl Medium {
    pub(crate) const fn is_folder(&self) -> bool {
        matches!(self, Self::Folder(_))
    }

    /// Returns the folder; `None` for an object store.
    pub(crate) const fn folder(&self) -> Option<&KeyedFolder> {
        match self {
            Self::Folder(folder) => Some(folder),
            Self::Objects(_) => None,
        }
    }

    /// Asks the folder or the object store about a key, which errors of files name.
    fn ask<T>(
        &self,
        key: &str,
        folder: impl FnOnce(&KeyedFolder) -> std::io::Result<T>,
        objects: impl AsyncFnOnce(&Objects) -> zvf_error::Result<T>,
    ) -> Result<T> {
        match self {
            Self::Folder(asked) => folder(asked).at(key),
            Self::Objects(asked) => Ok(block_on(objects(asked))?),
        }
    }

    /// Reads an object. Returns `None` for a missing one.
    pub(crate) fn get(&self, key: &str) -> Result<Option<Bytes>> {
        self.ask(key, |folder| folder.get(key), async |objects| objects.read(key).await)
    }

    /// Opens an object, to read parts of it. A missing one has no bytes.
    pub(crate) fn open(&self, key: &str) -> Result<Blob> {
        let Self::Folder(folder) = self else {
            return Ok(Blob::Held(self.get(key)?.unwrap_or_default()));
        };
        let opened =
            File::open(folder.path(key)).and_then(|file| Ok((file.metadata()?.len(), file)));
        match opened {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Blob::Held(Bytes::new())),
            opened => {
                let (len, file) = opened.at(key)?;
                Ok(Blob::Written(Arc::new(Mutex::new(file)), 0, saturating_usize(len)))
            }
        }
    }

    /// Reads an object, twice where the backend first reports it as missing although it exists.
    pub(crate) fn get_twice(&self, key: &str) -> Result<Option<Bytes>> {
        match self.get(key)? {
            None if !self.is_folder() && self.exists(key)? => self.get(key),
            found => Ok(found),
        }
    }

    /// Reads several objects with their versions.
    pub(crate) fn get_all(&self, keys: &[&str]) -> Result<Vec<Option<CurrentObject>>> {
        match self {
            Self::Folder(folder) => keys
                .iter()
                .map(|key| {
                    let bytes = folder.get(key).at(key)?;
                    Ok(bytes.map(|bytes| CurrentObject { bytes, version: None }))
                })
                .collect(),
            Self::Objects(objects) => block_on(
                stream::iter(keys.iter().map(|key| async move {
                    let found = objects.read_versioned(key).await?;
                    Ok(found
                        .map(|(bytes, version)| CurrentObject { bytes, version: Some(version) }))
                }))
                .buffered(MAX_REQUESTS)
                .try_collect(),
            ),
        }
    }

    /// Returns whether an object exists.
    pub(crate) fn exists(&self, key: &str) -> Result<bool> {
        self.ask(key, |folder| folder.exists(key), async |objects| objects.exists(key).await)
    }

    /// Lists the names directly below a prefix, sorted.
    pub(crate) fn list(&self, key: &str) -> Result<Vec<String>> {
        self.ask(key, |folder| folder.list(key), async |objects| objects.children(key).await)
    }

    /// Lists all keys below a prefix, sorted.
    pub(crate) fn walk(&self, prefix: &str) -> Result<Vec<String>> {
        let list = async |objects: &Objects| {
            let slash = if prefix.is_empty() { "" } else { "/" };
            let listed = objects.list(prefix).await?.into_iter();
            let mut keys: Vec<String> =
                listed.map(|(name, _)| format!("{prefix}{slash}{name}")).collect();
            keys.sort();
            Ok(keys)
        };
        self.ask(prefix, |folder| folder.walk(prefix), list)
    }

    /// Returns the length and the modification time of an object.
    pub(crate) fn metadata(&self, key: &str) -> Result<Option<(u64, SystemTime)>> {
        let of_file = |folder: &KeyedFolder| match folder.path(key).metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            about => about.and_then(|about| Ok(Some((about.len(), about.modified()?)))),
        };
        self.ask(key, of_file, async |objects| objects.head(key).await)
    }

    /// Creates an object. Returns false if it exists.
    pub(crate) fn create(&self, key: &str, bytes: &Bytes) -> Result<bool> {
        let create = |folder: &KeyedFolder| folder.create(key, bytes.clone());
        self.ask(key, create, async |objects| objects.create(key, bytes).await)
    }

    /// Creates or replaces an object unconditionally.
    pub(crate) fn put_object(&self, key: &str, bytes: &Bytes) -> Result<()> {
        let put = |folder: &KeyedFolder| folder.put(key, bytes.clone());
        self.ask(key, put, async |objects| objects.put(key, bytes).await)
    }

    /// Creates or replaces an object that may be lost in a crash.
    pub(crate) fn put_unsynced(&self, key: &str, bytes: &Bytes) -> Result<()> {
        let mark = |folder: &KeyedFolder| folder.mark(key, bytes.clone());
        self.ask(key, mark, async |objects| objects.put(key, bytes).await)
    }

    /// Creates or replaces objects that are unchanged since they were read. Returns false when they
    /// must be read again: one was changed meanwhile, or a writer that is alone replaced one
    /// without a condition. Prepared files are only renamed. Nothing is sent again once there is
    /// the object `until`, as a record that changes the same keys may be.
    pub(crate) fn replace_all(
        &self,
        puts: Vec<PutRequest<'_>>,
        prepared: &mut PreparedFiles,
        is_alone: bool,
        until: Option<(&Self, &str)>,
    ) -> Result<bool> {
        match self {
            Self::Folder(folder) => {
                let mut rest: Vec<(&str, Bytes)> = Vec::new();
                for put in puts {
                    let file = prepared.remove(put.key);
                    if file.is_none() {
                        rest.push((put.key, put.bytes.read()?));
                    }
                    // Keep the order of the puts: flush the files that are not prepared first.
                    if file.is_some() || rest.len() == MAX_REQUESTS {
                        folder.put_all(&std::mem::take(&mut rest)).at("store")?;
                    }
                    match file.map(PreparedFile::put) {
                        // Another process removed the temporary file, or its empty folder, as
                        // garbage.
                        Some(Err(error)) if error.kind() == ErrorKind::NotFound => {
                            folder.put(put.key, put.bytes.read()?).at(put.key)?;
                        }
                        done => done.transpose().map(drop).at(put.key)?,
                    }
                }
                folder.put_all(&rest).at("store")?;
                Ok(true)
            }
            Self::Objects(objects) => {
                let objects = match until {
                    Some((Self::Objects(side), key)) => &objects.until(side, key)?,
                    Some((Self::Folder(_), _)) | None => objects,
                };
                let puts = puts.into_iter().map(|put| replace_object(objects, put, is_alone));
                let done: Vec<bool> =
                    block_on(stream::iter(puts).buffer_unordered(MAX_REQUESTS).try_collect())?;
                Ok(done.into_iter().all(|done| done))
            }
        }
    }

    /// Removes objects. Missing ones are no error.
    pub(crate) fn delete(&self, keys: &[&str]) -> Result<()> {
        match self {
            Self::Folder(folder) => keys.iter().try_for_each(|key| folder.delete(key).at(key)),
            Self::Objects(_) if keys.is_empty() => Ok(()),
            Self::Objects(objects) => {
                let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
                Ok(block_on(objects.remove(&keys))?)
            }
        }
    }

    /// Removes everything below a prefix.
    pub(crate) fn delete_below(&self, prefix: &str) -> Result<()> {
        let delete = |folder: &KeyedFolder| folder.delete_folder(prefix);
        self.ask(prefix, delete, async |objects| objects.remove_below(prefix).await)
    }

    /// Writes files to be renamed into place later. Object stores have none.
    pub(crate) fn prepare_files(&self, changes: &Changes) -> Result<PreparedFiles> {
        let Self::Folder(folder) = self else { return Ok(PreparedFiles::new()) };
        let files = changes.keys.iter().filter_map(|(key, blob)| Some((key, blob.as_ref()?)));
        let prepare = |(key, blob): (&String, &Blob)| {
            Ok((key.clone(), folder.prepare(key, blob.read()?).at(key)?))
        };
        files.map(prepare).collect()
    }

    /// Syncs the folders of these objects, so that their names survive a power loss.
    pub(crate) fn sync<'a>(&self, keys: impl Iterator<Item = &'a str>) -> Result<()> {
        match self {
            Self::Folder(folder) => folder.sync_folders(keys).at("store"),
            Self::Objects(_) => Ok(()), // a confirmed put is durable
        }
    }
}

/// Puts one object if it is unchanged since it was read. Returns false if it must be read again.
async fn replace_object(objects: &Objects, put: PutRequest<'_>, is_alone: bool) -> Result<bool> {
    let bytes = put.bytes.read()?;
    let done = match put.version {
        Some(version) => match objects.replace(put.key, &bytes, &version).await {
            // Only the owner of an epoch may put without a condition.
            Err(error) if error.class() == Class::Unsupported && is_alone => {
                objects.put(put.key, &bytes).await.map(|()| false)
            }
            done => done.map(|()| true),
        },
        None => objects.create(put.key, &bytes).await,
    };
    match done {
        Err(error) if CHANGED_CLASSES.contains(&error.class()) => Ok(false),
        done => Ok(done?),
    }
}

/// The error classes of a failed condition of a put.
const CHANGED_CLASSES: [Class; 3] = [Class::FileChanged, Class::Conflict, Class::AlreadyExists];

/// Maximum number of concurrent requests.
const MAX_REQUESTS: usize = 16;
