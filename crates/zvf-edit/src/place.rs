//! The place of a store: a local folder, a prefix of an object store, or a repository of versions.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::path::Path as Prefix;
use zvf_publish::{CommitGate, Disk, KeyedFolder, PublishError};
use zvf_store::{Backend, Objects, OpenOptions, Store, Versions};

use crate::error::{EditError, Result, unsupported};
use crate::medium::Medium;
use crate::memory::MemoryLimit;
use crate::versions::Pinned;

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
    pub(crate) memory: MemoryLimit,
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
            memory: MemoryLimit::new(DEFAULT_MEMORY),
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

    /// Returns the place with a limit on the bytes of vertices, objects and links that edits keep
    /// in memory. An edit that needs more is refused.
    #[must_use]
    pub fn with_memory_limit(self, bytes: u64) -> Self {
        Self { memory: MemoryLimit::new(bytes), ..self }
    }

    /// Returns the place with the memory limit of another place, for what both keep together.
    pub(crate) fn sharing_memory(self, other: &Self) -> Self {
        Self { memory: other.memory.clone(), ..self }
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
    pub fn folder(&self) -> Option<&Path> {
        match &self.location {
            Location::Folder(path, _) => Some(path),
            Location::Backend(..) | Location::Versions(..) => None,
        }
    }

    /// Returns whether the place is a repository of versions, which has its own history.
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
        EditError::from(error).with_place(&place.to_string())
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

/// The memory limit of an edit, where none is given.
const DEFAULT_MEMORY: u64 = 2 << 30;
