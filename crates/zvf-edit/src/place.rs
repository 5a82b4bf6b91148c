//! Where a store lies that is edited: a folder of this machine, a prefix of an object store, or a repository of versions.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::path::Path as Prefix;
use zvf_publish::{Disk, KeyedFolder};
use zvf_store::{Backend, Objects, OpenOptions, Store, Versions};

use crate::error::{EditError, Result};
use crate::medium::Medium;
use crate::versions::Pinned;

/// Where a store lies.
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
    kind: Kind,
    pub(crate) is_single_writer: bool,
    pub(crate) accepts_foreign: bool,
    pub(crate) trusts_conditions: bool,
}

#[derive(Clone, Debug)]
enum Kind {
    Folder(PathBuf, Disk),
    Backend(Arc<dyn ObjectStore>, Prefix, Box<OpenOptions>),
    Versions(Arc<dyn Versions>, Box<OpenOptions>),
}

impl Place {
    const fn new(name: String, kind: Kind) -> Self {
        let (is_single_writer, accepts_foreign, trusts_conditions) = (false, false, false);
        Self { name, kind, is_single_writer, accepts_foreign, trusts_conditions }
    }

    /// The place that `address` names, a path or a URL. Nothing is looked at yet. Stores behind a URL are edited
    /// inside of a tokio runtime with several threads.
    ///
    /// # Errors
    ///
    /// When `address` is neither, or its backend is not known.
    pub fn open(address: &str, options: &OpenOptions) -> Result<Self> {
        if let Some(versions) = Store::versions(address, options)? {
            let kind = Kind::Versions(versions, Box::new(options.clone()));
            let name = address.to_owned();
            return Ok(Self::new(name, kind));
        }
        match Store::backend(address, options)? {
            Some(Backend { store, prefix, .. }) => Ok(Self {
                name: address.to_owned(),
                ..Self::in_object_store(store, prefix, options)
            }),
            None => Ok(Self::from(Path::new(address.strip_prefix("file://").unwrap_or(address)))),
        }
    }

    /// The store below `prefix` of the caller's own backend.
    #[must_use]
    pub fn in_object_store(
        store: Arc<dyn ObjectStore>,
        prefix: Prefix,
        options: &OpenOptions,
    ) -> Self {
        let name = prefix.to_string();
        let kind = Kind::Backend(store, prefix, Box::new(options.clone()));
        Self::new(name, kind)
    }

    /// The same folder, changed through `disk`.
    #[must_use]
    pub fn on_disk(self, disk: Disk) -> Self {
        match self.kind {
            Kind::Folder(path, _) => Self { kind: Kind::Folder(path, disk), ..self },
            Kind::Backend(..) | Kind::Versions(..) => self,
        }
    }

    /// The same place, where no other process may write meanwhile: required of backends without conditional puts.
    #[must_use]
    pub fn with_single_writer(self) -> Self {
        Self { is_single_writer: true, ..self }
    }

    /// The same place, where commits go on from what something else wrote that does not know the journal.
    #[must_use]
    pub fn with_foreign_accepted(self) -> Self {
        Self { accepts_foreign: true, ..self }
    }

    /// The same place without the question whether the backend heeds conditions: what a test shows to lose commits.
    #[doc(hidden)]
    #[must_use]
    pub fn trusting_conditions(self) -> Self {
        Self { trusts_conditions: true, ..self }
    }

    /// The folder, where it is one.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        match &self.kind {
            Kind::Folder(path, _) => Some(path),
            Kind::Backend(..) | Kind::Versions(..) => None,
        }
    }

    /// Whether it is a repository of versions, which has a history of its own.
    #[must_use]
    pub const fn is_of_versions(&self) -> bool {
        matches!(self.kind, Kind::Versions(..))
    }

    /// The repository of versions, where it lies in one, and how it is opened.
    pub(crate) fn versions(&self) -> Option<(&Arc<dyn Versions>, &OpenOptions)> {
        match &self.kind {
            Kind::Versions(versions, options) => Some((versions, options)),
            Kind::Folder(..) | Kind::Backend(..) => None,
        }
    }

    /// The store and its journal beside it.
    pub(crate) fn media(&self) -> Result<(Medium, Medium)> {
        match &self.kind {
            Kind::Folder(path, disk) => {
                let beside = journal_folder(path);
                let folder = |path: PathBuf| Medium::Folder(KeyedFolder::new(disk.clone(), path));
                Ok((folder(path.clone()), folder(beside)))
            }
            Kind::Backend(store, prefix, options) => {
                let parts: Vec<_> = prefix.parts().collect();
                let Some((last, above)) = parts.split_last() else {
                    return Err(EditError::unsupported(
                        "a store that is a whole bucket has no place beside it for its journal; put it below a prefix",
                    ));
                };
                let name = format!("{}.zvf", last.as_ref());
                let beside: Prefix = above.iter().cloned().collect::<Prefix>().join(name);
                let objects = |prefix: &Prefix| {
                    Medium::Objects(Objects::new(Arc::clone(store), prefix, options))
                };
                Ok((objects(prefix), objects(&beside)))
            }
            Kind::Versions(versions, options) => Pinned::latest(versions)?.media(options),
        }
    }
}

/// The folder of the journal of the store in a folder.
pub(crate) fn journal_folder(store: &Path) -> PathBuf {
    let mut name = store.file_name().unwrap_or_default().to_owned();
    name.push(".zvf");
    store.parent().map_or_else(|| PathBuf::from(&name), |parent| parent.join(&name))
}

impl From<&Path> for Place {
    fn from(path: &Path) -> Self {
        let path = path.components().as_path().to_owned();
        let name = path.to_string_lossy().into_owned();
        Self::new(name, Kind::Folder(path, Disk::default()))
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
