//! The sources of bytes.
//!
//! One private type over the backends; callers give a URL or an `Arc<dyn ObjectStore>`, never a
//! trait of ours. [`Origin::read_many`] is the only way to read: many ranges of many objects,
//! answered in the requested order.
//!
//! Not here: the meaning of keys, codecs, caches.

mod backend;
#[cfg(feature = "_net")]
mod cloud;
mod journaled;
mod local;
pub(crate) mod pack;
mod plan;
pub(crate) mod remote;
pub(crate) mod url;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreScheme};
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::to_u64;

pub use self::backend::Backend;
pub(crate) use self::journaled::Journaled;
use self::local::Local;
pub(crate) use self::local::{HeldFile, OpenedFolder, run_blocking};
use self::pack::Pack;
pub(crate) use self::remote::Remote;
pub(crate) use self::url::Address;
#[cfg(feature = "map")]
pub(crate) use self::url::is_pack_file;
use crate::budget::Budget;
use crate::key::Key;
use crate::options::OpenOptions;
use crate::versions::{self, Versions};

/// The backend of one handle; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    Local(Local),
    Remote(Remote),
    Pack(Pack),
    /// A local directory or a remote store, with its journal.
    Journaled(Arc<Journaled>),
}

impl Backend {
    /// Returns the location `prefix` of the caller's own `store`.
    pub(crate) const fn from_caller(
        store: Arc<dyn ObjectStore>,
        prefix: Path,
        options: &OpenOptions,
    ) -> Self {
        Self { store, prefix, can_list: options.can_list }
    }
}

impl Origin {
    /// Opens the source at `address`: a path or a URL, as [`url`] lists them.
    pub(crate) fn open(address: &str, budget: &Budget, options: &OpenOptions) -> Result<Self> {
        options.timeouts.check()?;
        match Address::parse(address)? {
            Address::Directory(path) => Self::folder(&path, budget),
            Address::Remote(scheme, url, path) => {
                let backend = url::build(scheme, &url, path, options)?;
                Ok(Self::Remote(Remote::new(backend, budget.clone(), options)))
            }
            // `find` opens these, because it can wait.
            Address::Versions(address) => Err(not_a_file_error(&address)),
        }
    }

    /// Like [`open`](Self::open), also for a versioned repository, whose latest version must be
    /// requested.
    pub(crate) async fn find(
        address: &str,
        budget: &Budget,
        options: &OpenOptions,
    ) -> Result<Self> {
        let Some(versions) = versions(address, options)? else {
            return Self::open(address, budget, options);
        };
        options.timeouts.check()?;
        let backend = versions.open(&versions.latest_version().await?).await?;
        Ok(Self::Remote(Remote::new(backend, budget.clone(), options)))
    }

    /// Returns the store at the last commit of its journal, including pending commits. On object
    /// stores, only a root document that is marked (`is_marked`) has a journal; folders are always
    /// checked.
    pub(crate) async fn at_head(self, is_marked: bool, options: &OpenOptions) -> Result<Self> {
        match self {
            Self::Local(local) => Journaled::open_folder(local, options.commit).await,
            Self::Remote(remote) if is_marked => Journaled::open_objects(remote, options).await,
            other @ (Self::Remote(_) | Self::Pack(_) | Self::Journaled(_)) => Ok(other),
        }
    }

    /// Returns the store with its journal, if it may have one.
    pub(crate) fn journaled(&self) -> Option<&Journaled> {
        if let Self::Journaled(journaled) = self { Some(journaled) } else { None }
    }

    /// Returns whether reads go through the object-store interface, which may wait for a network.
    pub(crate) fn is_remote(&self) -> bool {
        match self {
            Self::Local(_) => false,
            Self::Remote(_) => true,
            Self::Pack(pack) => pack.is_remote(),
            Self::Journaled(journaled) => journaled.base().is_remote(),
        }
    }

    /// Returns the local directory `path`.
    pub(crate) fn folder(path: &std::path::Path, budget: &Budget) -> Result<Self> {
        check_folders(path)?;
        Ok(Self::Local(Local::open(path, budget.clone())?))
    }

    /// Returns the directory `path`, with large files read through maps.
    #[cfg(all(unix, feature = "map"))]
    pub(crate) fn open_mapped(
        path: &std::path::Path,
        budget: &Budget,
        promise: zvf_map::Promise,
    ) -> Result<Self> {
        Ok(Self::Local(Local::open_mapped(path, budget.clone(), promise)?))
    }

    /// Checks whether all returned bytes are still unchanged: only maps can change.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Self::Local(local) => local.check(),
            Self::Remote(_) => Ok(()),
            Self::Pack(pack) => pack.check(),
            Self::Journaled(journaled) => journaled.base().check(),
        }
    }

    /// Returns the source that now has the address: a different one only for a local directory. A
    /// pack is reopened through its file.
    pub(crate) fn reopen(&self) -> Result<Self> {
        match self {
            Self::Local(local) => local.reopen().map(Self::Local),
            Self::Remote(_) | Self::Pack(_) => Ok(self.clone()),
            Self::Journaled(journaled) => journaled.base().reopen(),
        }
    }

    /// Returns whether another store now has the address, as far as that can be determined without
    /// reading.
    pub(crate) fn is_replaced(&self) -> bool {
        match self {
            Self::Local(local) => local.is_replaced(),
            Self::Remote(_) | Self::Pack(_) => false,
            Self::Journaled(journaled) => journaled.base().is_replaced(),
        }
    }

    /// Returns the caller's own backend; the store lies below `prefix`.
    pub(crate) fn from_object_store(
        store: Arc<dyn ObjectStore>,
        prefix: &Path,
        budget: &Budget,
        options: &OpenOptions,
    ) -> Self {
        let backend = Backend::from_caller(store, prefix.clone(), options);
        Self::Remote(Remote::new(backend, budget.clone(), options))
    }

    /// Reads the bytes of each of `gets`, in order; `None` for objects that do not exist.
    pub(crate) async fn read_many(&self, gets: &[Get]) -> Vec<Result<Option<GetAnswer>>> {
        match self {
            Self::Local(local) => local.read_many(gets).await,
            Self::Remote(remote) => remote.read_many(gets).await,
            Self::Pack(pack) => pack.read_many(gets),
            Self::Journaled(journaled) => journaled.read_many(gets).await,
        }
    }

    /// Reads the bytes of one request.
    pub(crate) async fn read_one(&self, get: Get) -> Result<Option<GetAnswer>> {
        self.read_many(&[get]).await.pop().expect("one get has one answer")
    }

    /// Returns the object `key`, or only its first and last `ends` bytes if it has at least `long`
    /// bytes and the rest can later be read from the same version.
    pub(crate) async fn begin(&self, key: &Key, long: u64, ends: u64) -> Result<PartialRead> {
        if let Self::Journaled(journaled) = self {
            return journaled.begin(key, long, ends).await;
        }
        if let Self::Local(local) = self
            && let Some(begun) = local.begin(key, long, ends).await?
        {
            return Ok(begun);
        }
        Ok(PartialRead::Whole(self.read_one(Get::object(key.clone())).await?))
    }

    /// Ranges of one object with a gap of at most this many bytes are fetched as one.
    pub(crate) fn merge_gap(&self) -> u64 {
        match self {
            Self::Local(_) => local::MERGE_GAP_BYTES,
            Self::Remote(_) => remote::MERGE_GAP_BYTES,
            Self::Pack(_) => 0,
            Self::Journaled(journaled) => journaled.base().merge_gap(),
        }
    }

    /// Returns whether names can be listed.
    pub(crate) fn can_list(&self) -> bool {
        match self {
            Self::Local(_) => true,
            Self::Remote(remote) => remote.can_list(),
            Self::Pack(_) => true,
            Self::Journaled(journaled) => journaled.base().can_list(),
        }
    }

    /// Returns the entries directly below `prefix`, by name; empty if it does not exist.
    pub(crate) async fn children(&self, prefix: &Key) -> Result<Vec<Child>> {
        match self {
            Self::Local(local) => local.children(prefix).await,
            Self::Remote(remote) => remote.children(prefix).await,
            Self::Pack(pack) => Ok(pack.children(prefix)),
            Self::Journaled(journaled) => journaled.children(prefix).await,
        }
    }

    /// Returns every object below `prefix` with its size, by key.
    pub(crate) async fn list(&self, prefix: &Key) -> Result<Vec<(Key, u64)>> {
        match self {
            Self::Local(local) => local.list(prefix).await,
            Self::Remote(remote) => remote.list(prefix).await,
            Self::Pack(pack) => pack.list(prefix),
            Self::Journaled(journaled) => journaled.list(prefix).await,
        }
    }

    /// Returns counts of the requests so far.
    pub(crate) fn stats(&self) -> IoStats {
        match self {
            Self::Local(local) => local.stats(),
            Self::Remote(remote) => remote.stats(),
            Self::Pack(pack) => pack.stats(),
            Self::Journaled(journaled) => journaled.stats(),
        }
    }
}

/// Refuses the folder `path` in a build without folders (the feature `local`).
pub(crate) fn check_folders(path: &std::path::Path) -> Result<()> {
    match cfg!(feature = "local") {
        true => Ok(()),
        false => Err(Error::unsupported("folder of this machine", &path.to_string_lossy())),
    }
}

/// Returns the backend that `address` names, for writing; `None` for a directory.
pub(crate) fn backend(address: &str, options: &OpenOptions) -> Result<Option<Backend>> {
    match Address::parse(address)? {
        Address::Remote(ObjectStoreScheme::Http, url, _) => {
            Err(Error::unsupported("writing over", url.scheme()))
        }
        Address::Versions(address) => Err(versions::refuse_writing(&address)),
        Address::Directory(_) | Address::Remote(..) => backend_for_reading(address, options),
    }
}

/// Returns the versioned repository that `address` names; `None` for any other address.
pub(crate) fn versions(address: &str, options: &OpenOptions) -> Result<Option<Arc<dyn Versions>>> {
    match Address::parse(address)? {
        Address::Versions(address) => options.open_versions(&address).map(Some),
        Address::Directory(_) | Address::Remote(..) => Ok(None),
    }
}

/// Refuses to read or write single files next to stores.
pub(crate) fn not_a_file_error(address: &str) -> Error {
    let text = format!("{address}: expected a file or a folder, found a repository of versions");
    Error::custom(Class::NotFound, text)
}

/// Returns the backend that `address` names, for reading; `None` for a directory.
pub(crate) fn backend_for_reading(address: &str, options: &OpenOptions) -> Result<Option<Backend>> {
    match Address::parse(address)? {
        Address::Directory(_) => Ok(None),
        Address::Remote(scheme, url, prefix) => url::build(scheme, &url, prefix, options).map(Some),
        Address::Versions(address) => Err(not_a_file_error(&address)),
    }
}

/// One read request.
#[derive(Clone, Debug)]
pub(crate) struct Get {
    pub(crate) key: Key,
    pub(crate) range: ByteRange,
    /// If set, any other version of the object gives `FileChanged`.
    pub(crate) version: Option<Version>,
    /// Whether the bytes are released soon, so that a pooled buffer is used.
    pub(crate) pooled: bool,
}

impl Get {
    /// Requests the whole object.
    pub(crate) fn object(key: Key) -> Self {
        Self { key, range: ByteRange::All, version: None, pooled: false }
    }

    /// Requests exactly `len` bytes from `start`.
    pub(crate) fn range(key: Key, start: u64, len: u64) -> Self {
        Self { key, range: ByteRange::At { start, len }, version: None, pooled: false }
    }

    /// Requests the last `len` bytes, or all if there are fewer.
    pub(crate) fn suffix(key: Key, len: u64) -> Self {
        Self { key, range: ByteRange::Last(len), version: None, pooled: false }
    }

    /// Requests the first `len` bytes, or all if there are fewer.
    pub(crate) fn prefix(key: Key, len: u64) -> Self {
        Self { key, range: ByteRange::First(len), version: None, pooled: false }
    }

    /// Returns the same request for exactly `version`.
    pub(crate) fn with_version(self, version: Version) -> Self {
        Self { version: Some(version), ..self }
    }
}

/// A range of bytes of an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ByteRange {
    /// All of them.
    All,
    /// Exactly `len` from `start`; a shorter object is `Truncated`.
    At { start: u64, len: u64 },
    /// The first bytes, at most this many.
    First(u64),
    /// The last bytes, at most this many.
    Last(u64),
}

impl ByteRange {
    /// Returns the requested bytes in an object of `size` bytes. A range [at](Self::At) a position
    /// may end after the object; an end that overflows 64 bits becomes the largest number, which is
    /// also after any object.
    fn resolve(self, size: u64) -> Range<u64> {
        match self {
            Self::All => 0..size,
            Self::First(len) => 0..len.min(size),
            Self::Last(len) => size.saturating_sub(len)..size, // all where there are fewer
            Self::At { start, len } => start..start.saturating_add(len),
        }
    }

    /// Returns the part of the range that exists in such an object.
    pub(crate) fn clamp_to(self, size: u64) -> Range<u64> {
        let Range { start, end } = self.resolve(size);
        start.min(size)..end.min(size)
    }
}

/// The result of a read.
#[derive(Clone, Debug)]
pub(crate) struct GetAnswer {
    pub(crate) bytes: Bytes,
    /// The size of the whole object.
    pub(crate) size: u64,
    /// The version, for later reads of the same object.
    pub(crate) version: Version,
}

/// An object of which only the necessary part was read.
pub(crate) enum PartialRead {
    Whole(Option<GetAnswer>),
    /// Its first and last bytes.
    Ends(Bytes, Bytes, HeldFile),
}

/// The version of an object, as far as the backend reports it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Version {
    size: u64,
    stamp: Option<local::Stamp>,
    /// The backend's identifier: an entity tag, or the modification time.
    tag: Option<Arc<str>>,
}

impl Version {
    /// Returns whether both may belong to one file: only a file system knows the identity of a
    /// file.
    pub(crate) fn may_be_one_file(&self, other: &Self) -> bool {
        if let (Some(stamp), Some(other_stamp)) = (&self.stamp, &other.stamp) {
            return stamp.is_same_file(other_stamp);
        }
        true
    }

    /// Returns the version if only the size is known.
    const fn from_size(size: u64) -> Self {
        Self { size, stamp: None, tag: None }
    }
}

/// One name below a prefix.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Child {
    pub(crate) name: String,
    pub(crate) is_dir: bool,
}

/// Counts of requests to a backend since the handle was opened; they never decrease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IoStats {
    /// Requests sent, or files opened.
    pub requests: u64,
    /// Bytes received.
    pub bytes_read: u64,
    /// Repeated requests.
    pub retries: u64,
}

/// One more than the largest number of keys in one listing.
const MAX_LISTED_KEYS: usize = 10_000_001;

/// Refuses a listing that was cut off.
fn check_listed(keys: usize) -> Result<()> {
    if keys < MAX_LISTED_KEYS {
        return Ok(());
    }
    Err(Error::limit("keys", to_u64(MAX_LISTED_KEYS) - 1, to_u64(MAX_LISTED_KEYS)))
}
