//! The place of a store and the storage of it and its journal: objects by key, in a folder, below a prefix of an object store,
//! or in a repository of versions.
//!
//! ```text
//! folder     files; changed under the lock of the journal, synced for durability
//! backend    objects; replaced only if they still have the version that was read
//! ```
//!
//! Not here: atomicity of several changes (`journal`).

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use object_store::ObjectStore;
use object_store::path::Path as Prefix;
use zvf_format::Class;
use zvf_format::num::saturating_usize;
use zvf_publish::{CommitGate, Disk, KeyedFolder, PreparedFile, PublishError};
use zvf_store::{Backend, Objects, OpenOptions, SeenVersion, Store, Versions};

use crate::changes::{Blob, Changes};
use crate::error::{EditError, Result, unsupported};
use crate::versions::Pinned;
pub(crate) use zvf_store::block_on;

/// Objects by key.
#[derive(Clone, Debug)]
pub(crate) enum Medium {
    Folder(KeyedFolder),
    Objects(Objects),
}

/// The bytes of an object, with their version where the medium has versions.
#[derive(Clone, Debug)]
pub(crate) struct CurrentObject {
    pub(crate) bytes: Bytes,
    pub(crate) version: Option<SeenVersion>,
}

/// New bytes of a key, with the version of the object that they replace.
#[derive(Debug)]
pub(crate) struct PutRequest<'a> {
    pub(crate) key: &'a str,
    pub(crate) bytes: Blob,
    pub(crate) version: Option<SeenVersion>,
}

/// Files that are written and are renamed into place once the record exists.
pub(crate) type PreparedFiles = HashMap<String, PreparedFile>;

fn with_key(key: &str) -> impl Fn(std::io::Error) -> EditError + '_ {
    move |error| EditError::from(error).with_place(key)
}

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

    /// Reads an object. Returns `None` for a missing one.
    pub(crate) fn get(&self, key: &str) -> Result<Option<Bytes>> {
        match self {
            Self::Folder(folder) => folder.get(key).map_err(with_key(key)),
            Self::Objects(objects) => Ok(block_on(objects.read(key))?),
        }
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
                let (len, file) = opened.map_err(with_key(key))?;
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
                    let bytes = folder.get(key).map_err(with_key(key))?;
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
        match self {
            Self::Folder(folder) => folder.exists(key).map_err(with_key(key)),
            Self::Objects(objects) => Ok(block_on(objects.exists(key))?),
        }
    }

    /// Lists the names directly below a prefix, sorted.
    pub(crate) fn list(&self, key: &str) -> Result<Vec<String>> {
        match self {
            Self::Folder(folder) => folder.list(key).map_err(with_key(key)),
            Self::Objects(objects) => Ok(block_on(objects.children(key))?),
        }
    }

    /// Lists all keys below a prefix, sorted.
    pub(crate) fn walk(&self, prefix: &str) -> Result<Vec<String>> {
        match self {
            Self::Folder(folder) => folder.walk(prefix).map_err(with_key(prefix)),
            Self::Objects(objects) => {
                let listed = block_on(objects.list(prefix))?;
                let slash = if prefix.is_empty() { "" } else { "/" };
                let mut keys: Vec<String> =
                    listed.into_iter().map(|(name, _)| format!("{prefix}{slash}{name}")).collect();
                keys.sort();
                Ok(keys)
            }
        }
    }

    /// Returns the length and the modification time of an object.
    pub(crate) fn metadata(&self, key: &str) -> Result<Option<(u64, SystemTime)>> {
        match self {
            Self::Folder(folder) => match folder.path(key).metadata() {
                Ok(about) => Ok(Some((about.len(), about.modified().map_err(with_key(key))?))),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                Err(error) => Err(with_key(key)(error)),
            },
            Self::Objects(objects) => Ok(block_on(objects.head(key))?),
        }
    }

    /// Creates an object. Returns false if it exists.
    pub(crate) fn create(&self, key: &str, bytes: &Bytes) -> Result<bool> {
        match self {
            Self::Folder(folder) => folder.create(key, bytes.clone()).map_err(with_key(key)),
            Self::Objects(objects) => Ok(block_on(objects.create(key, bytes))?),
        }
    }

    /// Creates or replaces an object unconditionally.
    pub(crate) fn put_object(&self, key: &str, bytes: &Bytes) -> Result<()> {
        match self {
            Self::Folder(folder) => folder.put(key, bytes.clone()).map_err(with_key(key)),
            Self::Objects(objects) => Ok(block_on(objects.put(key, bytes))?),
        }
    }

    /// Creates or replaces an object that may be lost in a crash.
    pub(crate) fn put_unsynced(&self, key: &str, bytes: &Bytes) -> Result<()> {
        match self {
            Self::Folder(folder) => folder.mark(key, bytes.clone()).map_err(with_key(key)),
            Self::Objects(_) => self.put_object(key, bytes),
        }
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
                        folder.put_all(&std::mem::take(&mut rest)).map_err(with_key("store"))?;
                    }
                    match file.map(PreparedFile::put) {
                        // Another process removed the temporary file, or its empty folder, as
                        // garbage.
                        Some(Err(error)) if error.kind() == ErrorKind::NotFound => {
                            folder.put(put.key, put.bytes.read()?).map_err(with_key(put.key))?;
                        }
                        done => done.transpose().map(drop).map_err(with_key(put.key))?,
                    }
                }
                folder.put_all(&rest).map_err(with_key("store"))?;
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
            Self::Folder(folder) => {
                keys.iter().try_for_each(|key| folder.delete(key).map_err(with_key(key)))
            }
            Self::Objects(_) if keys.is_empty() => Ok(()),
            Self::Objects(objects) => {
                let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
                Ok(block_on(objects.remove(&keys))?)
            }
        }
    }

    /// Removes everything below a prefix.
    pub(crate) fn delete_below(&self, prefix: &str) -> Result<()> {
        match self {
            Self::Folder(folder) => folder.delete_folder(prefix).map_err(with_key(prefix)),
            Self::Objects(_) => {
                let keys = self.walk(prefix)?;
                self.delete(&keys.iter().map(String::as_str).collect::<Vec<_>>())
            }
        }
    }

    /// Writes files to be renamed into place later. Object stores have none.
    pub(crate) fn prepare_files(&self, changes: &Changes) -> Result<PreparedFiles> {
        let Self::Folder(folder) = self else { return Ok(PreparedFiles::new()) };
        let files = changes.keys.iter().filter_map(|(key, blob)| Some((key, blob.as_ref()?)));
        let prepare = |(key, blob): (&String, &Blob)| {
            Ok((key.clone(), folder.prepare(key, blob.read()?).map_err(with_key(key))?))
        };
        files.map(prepare).collect()
    }

    /// Syncs the folders of these objects, so that their names survive a power loss.
    pub(crate) fn sync<'a>(&self, keys: impl Iterator<Item = &'a str>) -> Result<()> {
        match self {
            Self::Folder(folder) => folder.sync_folders(keys).map_err(with_key("store")),
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

/// The place of a store.
///
/// ```
/// use zvf_edit::Place;
///
/// let place = Place::open("data/brain.zarrvectors", &Default::default())?;
/// assert_eq!(place.to_string(), "data/brain.zarrvectors");
/// # Ok::<(), zvf_edit::EditError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Place {
    name: String,
    location: Location,
    pub(crate) options: Box<OpenOptions>,
    pub(crate) is_single_writer: bool,
    pub(crate) accepts_foreign: bool,
    pub(crate) trusts_conditions: bool,
    pub(crate) gate: CommitGate,
}

#[derive(Clone, Debug)]
enum Location {
    Folder(PathBuf, Disk),
    Backend(Arc<dyn ObjectStore>, Prefix),
    Versions(Arc<dyn Versions>),
}

impl Place {
    fn new(name: String, location: Location, options: &OpenOptions) -> Self {
        Self {
            name,
            location,
            options: Box::new(options.clone()),
            is_single_writer: false,
            accepts_foreign: false,
            trusts_conditions: false,
            gate: CommitGate::default(),
        }
    }

    /// Returns the place of `address`, a path or a URL, without any request. Stores behind a URL must be edited inside of a
    /// multi-threaded tokio runtime.
    ///
    /// # Errors
    ///
    /// When `address` is neither, or has an unknown backend.
    pub fn open(address: &str, options: &OpenOptions) -> Result<Self> {
        let name = address.to_owned();
        if let Some(versions) = Store::versions(address, options)? {
            return Ok(Self::new(name, Location::Versions(versions), options));
        }
        Ok(match Store::backend(address, options)? {
            Some(Backend { store, prefix, .. }) => {
                Self::new(name, Location::Backend(store, prefix), options)
            }
            None => {
                let path = Path::new(address.strip_prefix("file://").unwrap_or(address));
                Self { options: Box::new(options.clone()), ..Self::from(path) }
            }
        })
    }

    /// Returns the place of a store below `prefix` of the caller's own backend.
    #[must_use]
    pub fn in_object_store(
        store: Arc<dyn ObjectStore>,
        prefix: Prefix,
        options: &OpenOptions,
    ) -> Self {
        Self::new(prefix.to_string(), Location::Backend(store, prefix), options)
    }

    /// Returns the place with `disk` for changes of a folder.
    #[must_use]
    pub fn with_disk(self, disk: Disk) -> Self {
        match self.location {
            Location::Folder(path, _) => Self { location: Location::Folder(path, disk), ..self },
            Location::Backend(..) | Location::Versions(..) => self,
        }
    }

    /// Returns the place with a single writer, which backends without conditional puts require.
    #[must_use]
    pub fn with_single_writer(self) -> Self {
        Self { is_single_writer: true, ..self }
    }

    /// Returns the place with `gate`, which every commit passes right before it takes effect.
    #[must_use]
    pub fn with_gate(self, gate: CommitGate) -> Self {
        Self { gate, ..self }
    }

    /// Returns the place with changes accepted from programs that do not know the journal.
    #[must_use]
    pub fn with_foreign_accepted(self) -> Self {
        Self { accepts_foreign: true, ..self }
    }

    /// Returns the place without the probe for conditional puts. A test shows that this may lose commits.
    #[doc(hidden)]
    #[must_use]
    pub fn without_probe(self) -> Self {
        Self { trusts_conditions: true, ..self }
    }

    /// Returns the path of a folder; `None` for other places.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        match &self.location {
            Location::Folder(path, _) => Some(path),
            Location::Backend(..) | Location::Versions(..) => None,
        }
    }

    /// Returns whether the place is a repository of versions, which has its own history.
    #[must_use]
    pub const fn is_of_versions(&self) -> bool {
        matches!(self.location, Location::Versions(..))
    }

    /// Returns the repository of versions; `None` for other places.
    pub(crate) fn versions(&self) -> Option<&Arc<dyn Versions>> {
        match &self.location {
            Location::Versions(versions) => Some(versions),
            Location::Folder(..) | Location::Backend(..) => None,
        }
    }

    /// Opens the media of the store and of its journal.
    pub(crate) fn open_media(&self) -> Result<(Medium, Medium)> {
        match &self.location {
            Location::Folder(path, disk) => {
                let beside = journal_folder(path)?;
                let folder = |path: PathBuf| Medium::Folder(KeyedFolder::new(disk.clone(), path));
                Ok((folder(path.clone()), folder(beside)))
            }
            Location::Backend(store, prefix) => {
                let parts: Vec<_> = prefix.parts().collect();
                let Some((last, above)) = parts.split_last() else {
                    return unsupported(
                        "a store that is a whole bucket has no place beside it for its journal; put it below a prefix",
                    );
                };
                let name = format!("{}.zvf", last.as_ref());
                let beside: Prefix = above.iter().cloned().collect::<Prefix>().join(name);
                let objects = |prefix: &Prefix| {
                    Medium::Objects(Objects::new(Arc::clone(store), prefix, &self.options))
                };
                Ok((objects(prefix), objects(&beside)))
            }
            Location::Versions(versions) => {
                Pinned::open_latest(versions)?.open_media(&self.options)
            }
        }
    }
}

/// Returns the folder of the journal of a store in a folder, whatever links lead to it.
pub(crate) fn journal_folder(store: &Path) -> Result<PathBuf> {
    let place = store.display();
    zvf_publish::journal_folder(store).map_err(|error| {
        if matches!(error, PublishError::NoName(_)) {
            return EditError::unsupported(format!("{place}: {error}"));
        }
        EditError::from(zvf_error::Error::from(error)).with_place(&place.to_string())
    })
}

impl From<&Path> for Place {
    fn from(path: &Path) -> Self {
        let path = path.components().as_path().to_owned();
        let name = path.to_string_lossy().into_owned();
        Self::new(name, Location::Folder(path, Disk::default()), &OpenOptions::default())
    }
}

impl From<&PathBuf> for Place {
    fn from(path: &PathBuf) -> Self {
        Self::from(path.as_path())
    }
}

impl From<&Self> for Place {
    fn from(place: &Self) -> Self {
        place.clone()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
