//! Where bytes come from.
//!
//! One private type over the backends; callers give a URL or an `Arc<dyn ObjectStore>`, never a trait
//! of ours. [`Source::read_many`] is the only way to read: many ranges of many objects, answered in
//! the order asked.
//!
//! Not here: what keys mean, codecs, caches.

mod backend;
#[cfg(feature = "net")]
mod cloud;
mod journaled;
#[cfg(feature = "local")]
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

pub use self::backend::Backend;
pub(crate) use self::journaled::Journaled;
#[cfg(feature = "local")]
use self::local::Local;
#[cfg(feature = "local")]
pub(crate) use self::local::{HeldFile, OpenedFolder, run_blocking};
use self::pack::Pack;
pub(crate) use self::remote::Remote;
pub(crate) use self::url::Place;
#[cfg(feature = "map")]
pub(crate) use self::url::is_pack_file;
use crate::budget::Budget;
use crate::cache::Caching;
use crate::key::Key;
use crate::options::OpenOptions;
use crate::versions::{self, Versions};

/// The backend of one handle; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    #[cfg(feature = "local")]
    Local(Local),
    Remote(Remote),
    Pack(Pack),
    /// One of the first two, with its journal.
    Journaled(Arc<Journaled>),
}

impl Backend {
    /// Returns the place `prefix` of a caller's own `store`.
    pub(crate) const fn from_caller(
        store: Arc<dyn ObjectStore>,
        prefix: Path,
        options: &OpenOptions,
    ) -> Self {
        Self { store, prefix, can_list: options.can_list }
    }
}

impl Source {
    /// Opens the source at `address`: a path or a URL, as [`url`] lists them.
    pub(crate) fn open(address: &str, budget: &Budget, options: &OpenOptions) -> Result<Self> {
        options.timeouts.check()?;
        match Place::parse(address)? {
            Place::Directory(path) => Self::folder(&path, budget),
            Place::Remote(scheme, url, path) => {
                let backend = url::build(scheme, &url, path, options)?;
                Ok(Self::Remote(Remote::new(backend, budget.clone(), options)))
            }
            // They are opened by `find`, which can wait.
            Place::Versions(address) => Err(not_a_file_error(&address)),
        }
    }

    /// Returns the same, where it may lie in a repository of versions: which one it is has to be asked for.
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

    /// Returns the store at the last commit of its journal: pending commits are part of it. Objects
    /// need a root that `is_marked` as that of a store with a journal, folders do not.
    pub(crate) async fn at_head(self, is_marked: bool, options: &OpenOptions) -> Result<Self> {
        match self {
            #[cfg(feature = "local")]
            Self::Local(local) => Journaled::open_folder(local).await,
            Self::Remote(remote) if is_marked => Journaled::open_objects(remote, options).await,
            other => Ok(other),
        }
    }

    /// Returns the store with its journal, where it may have one.
    pub(crate) fn journaled(&self) -> Option<&Journaled> {
        if let Self::Journaled(journaled) = self { Some(journaled) } else { None }
    }

    /// Returns whether reads go through the interface of object stores, which may wait for a network.
    pub(crate) fn is_remote(&self) -> bool {
        match self {
            #[cfg(feature = "local")]
            Self::Local(_) => false,
            Self::Remote(_) => true,
            Self::Pack(pack) => pack.is_remote(),
            Self::Journaled(journaled) => journaled.base().is_remote(),
        }
    }

    /// Returns the directory `path` of this machine.
    pub(crate) fn folder(path: &std::path::Path, budget: &Budget) -> Result<Self> {
        #[cfg(feature = "local")]
        return Ok(Self::Local(Local::open(path, budget.clone())?));
        #[cfg(not(feature = "local"))]
        {
            let _ = budget;
            let path = path.to_string_lossy();
            Err(Error::unsupported("folder of this machine", &path))
        }
    }

    /// Returns the directory `path`, of files whose bytes are released soon.
    pub(crate) fn with_buffer_pool(path: &std::path::Path, budget: &Budget) -> Result<Self> {
        #[cfg(feature = "local")]
        return Ok(Self::Local(Local::with_buffer_pool(path, budget.clone())?));
        #[cfg(not(feature = "local"))]
        Self::folder(path, budget)
    }

    /// Returns the directory `path`, large files of which are read through maps.
    #[cfg(all(unix, feature = "map"))]
    pub(crate) fn open_mapped(
        path: &std::path::Path,
        budget: &Budget,
        promise: crate::map::Promise,
    ) -> Result<Self> {
        Ok(Self::Local(Local::open_mapped(path, budget.clone(), promise)?))
    }

    /// Checks whether everything that was handed out so far is still what it was: only maps can change.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            #[cfg(feature = "local")]
            Self::Local(local) => local.check(),
            Self::Remote(_) => Ok(()),
            Self::Pack(pack) => pack.check(),
            Self::Journaled(journaled) => journaled.base().check(),
        }
    }

    /// Returns the source that has the address by now: another one only for a directory of this machine. A pack is
    /// opened again by its file.
    pub(crate) fn reopen(&self) -> Result<Self> {
        match self {
            #[cfg(feature = "local")]
            Self::Local(local) => local.reopen().map(Self::Local),
            Self::Remote(_) | Self::Pack(_) => Ok(self.clone()),
            Self::Journaled(journaled) => journaled.base().reopen(),
        }
    }

    /// Returns whether another store has the address by now, as far as that can be determined without reading.
    pub(crate) fn is_replaced(&self) -> bool {
        match self {
            #[cfg(feature = "local")]
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

    /// Reads the bytes of each of `gets`, in their order; `None` where there is no such object.
    pub(crate) async fn read_many(&self, gets: &[Get]) -> Vec<Result<Option<GetAnswer>>> {
        match self {
            #[cfg(feature = "local")]
            Self::Local(local) => local.read_many(gets).await,
            Self::Remote(remote) => remote.read_many(gets).await,
            Self::Pack(pack) => pack.read_many(gets),
            Self::Journaled(journaled) => journaled.read_many(gets).await,
        }
    }

    /// Reads the bytes of one get.
    pub(crate) async fn read_one(&self, get: Get) -> Result<Option<GetAnswer>> {
        self.read_many(&[get]).await.pop().expect("one get has one answer")
    }

    /// Returns the object `key`, or its first and last `ends` bytes where it has `long` of them and the rest can be read
    /// from the same version of it later.
    pub(crate) async fn begin(&self, key: &Key, long: u64, ends: u64) -> Result<PartialRead> {
        if let Self::Journaled(journaled) = self {
            return journaled.begin(key, long, ends).await;
        }
        #[cfg(feature = "local")]
        if let Self::Local(local) = self
            && let Some(begun) = local.begin(key, long, ends).await?
        {
            return Ok(begun);
        }
        #[cfg(not(feature = "local"))]
        let _ = (long, ends);
        Ok(PartialRead::Whole(self.read_one(Get::object(key.clone())).await?))
    }

    /// Ranges of one object with a gap of at most this many bytes are fetched as one.
    pub(crate) fn merge_gap(&self) -> u64 {
        match self {
            #[cfg(feature = "local")]
            Self::Local(local) => local.merge_gap(),
            Self::Remote(remote) => remote.merge_gap(),
            Self::Pack(_) => 0,
            Self::Journaled(journaled) => journaled.base().merge_gap(),
        }
    }

    /// Returns whether names can be listed.
    pub(crate) fn can_list(&self) -> bool {
        match self {
            #[cfg(feature = "local")]
            Self::Local(_) => true,
            Self::Remote(remote) => remote.can_list(),
            Self::Pack(_) => true,
            Self::Journaled(journaled) => journaled.base().can_list(),
        }
    }

    /// Returns what lies directly below `prefix`, by name; nothing when it is not there.
    pub(crate) async fn children(&self, prefix: &Key) -> Result<Vec<Child>> {
        match self {
            #[cfg(feature = "local")]
            Self::Local(local) => local.children(prefix).await,
            Self::Remote(remote) => remote.children(prefix).await,
            Self::Pack(pack) => Ok(pack.children(prefix)),
            Self::Journaled(journaled) => journaled.children(prefix).await,
        }
    }

    /// Returns every object below `prefix` with its size, by key.
    pub(crate) async fn list(&self, prefix: &Key) -> Result<Vec<(Key, u64)>> {
        match self {
            #[cfg(feature = "local")]
            Self::Local(local) => local.list(prefix).await,
            Self::Remote(remote) => remote.list(prefix).await,
            Self::Pack(pack) => pack.list(prefix),
            Self::Journaled(journaled) => journaled.list(prefix).await,
        }
    }

    /// Returns what was asked of the backend so far.
    pub(crate) fn stats(&self) -> IoStats {
        match self {
            #[cfg(feature = "local")]
            Self::Local(local) => local.stats(),
            Self::Remote(remote) => remote.stats(),
            Self::Pack(pack) => pack.stats(),
            Self::Journaled(journaled) => journaled.stats(),
        }
    }
}

/// Returns the backend that `address` names, for writing to it; none for a directory.
pub(crate) fn backend(address: &str, options: &OpenOptions) -> Result<Option<Backend>> {
    match Place::parse(address)? {
        Place::Directory(_) => Ok(None),
        Place::Remote(ObjectStoreScheme::Http, url, _) => {
            Err(Error::unsupported("writing over", url.scheme()))
        }
        Place::Remote(scheme, url, prefix) => url::build(scheme, &url, prefix, options).map(Some),
        Place::Versions(address) => Err(versions::refuse_writing(&address)),
    }
}

/// Returns the repository of versions that `address` names; none where it names something else.
pub(crate) fn versions(address: &str, options: &OpenOptions) -> Result<Option<Arc<dyn Versions>>> {
    match Place::parse(address)? {
        Place::Versions(address) => options.open_versions(&address).map(Some),
        Place::Directory(_) | Place::Remote(..) => Ok(None),
    }
}

/// Refuses to read or write single files next to stores.
pub(crate) fn not_a_file_error(address: &str) -> Error {
    let text = format!("{address}: expected a file or a folder, found a repository of versions");
    Error::custom(Class::NotFound, text)
}

/// Returns the backend that `address` names, for reading from it; none for a directory.
pub(crate) fn backend_for_reading(address: &str, options: &OpenOptions) -> Result<Option<Backend>> {
    match Place::parse(address)? {
        Place::Directory(_) => Ok(None),
        Place::Remote(scheme, url, prefix) => url::build(scheme, &url, prefix, options).map(Some),
        Place::Versions(address) => Err(not_a_file_error(&address)),
    }
}

/// Returns whether reading from `address` waits for a network, or lies behind the interface that may.
pub(crate) fn needs_runtime(address: &str) -> Result<bool> {
    Ok(!matches!(Place::parse(address)?, Place::Directory(_)))
}

/// One thing to read.
#[derive(Clone, Debug)]
pub(crate) struct Get {
    pub(crate) key: Key,
    pub(crate) range: ByteRange,
    /// When given, any other version of the object is answered with `FileChanged`.
    pub(crate) version: Option<Version>,
    /// Whether the bytes are released soon, so that a pooled buffer is used.
    pub(crate) pooled: bool,
}

impl Get {
    /// Asks for the whole object.
    pub(crate) fn object(key: Key) -> Self {
        Self { key, range: ByteRange::All, version: None, pooled: false }
    }

    /// Asks for exactly `len` bytes from `start`.
    pub(crate) fn range(key: Key, start: u64, len: u64) -> Self {
        Self { key, range: ByteRange::At { start, len }, version: None, pooled: false }
    }

    /// Asks for the last `len` bytes, or all when there are fewer.
    pub(crate) fn suffix(key: Key, len: u64) -> Self {
        Self { key, range: ByteRange::Last(len), version: None, pooled: false }
    }

    /// Asks for the first `len` bytes, or all when there are fewer.
    pub(crate) fn prefix(key: Key, len: u64) -> Self {
        Self { key, range: ByteRange::First(len), version: None, pooled: false }
    }

    /// Returns the same, of which nothing is kept where `caching` says so.
    pub(crate) fn with_caching(self, caching: Caching) -> Self {
        Self { pooled: caching == Caching::Once, ..self }
    }

    /// Returns the same, of `version` and no other.
    pub(crate) fn with_version(self, version: Version) -> Self {
        Self { version: Some(version), ..self }
    }
}

/// Which bytes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByteRange {
    /// All of them.
    All,
    /// Exactly `len` from `start`; an object that ends before is `Truncated`.
    At { start: u64, len: u64 },
    /// The first so many; all when there are fewer.
    First(u64),
    /// The last so many; all when there are fewer.
    Last(u64),
}

impl ByteRange {
    /// Returns the bytes meant in an object of `size` bytes. A range [at](Self::At) a place may end behind it: where 64
    /// bits do not count that end, at the largest number, which is behind every object as well.
    pub(crate) fn resolve(self, size: u64) -> Range<u64> {
        match self {
            Self::All => 0..size,
            Self::First(len) => 0..len.min(size),
            Self::Last(len) => size.saturating_sub(len)..size, // all where there are fewer
            Self::At { start, len } => start..start.saturating_add(len),
        }
    }

    /// Returns those of them that such an object has.
    pub(crate) fn clamp_to(self, size: u64) -> Range<u64> {
        let Range { start, end } = self.resolve(size);
        start.min(size)..end.min(size)
    }
}

/// What was read.
#[derive(Clone, Debug)]
pub(crate) struct GetAnswer {
    pub(crate) bytes: Bytes,
    /// Of the whole object.
    pub(crate) size: u64,
    /// To be sure that a later read is of the same object.
    pub(crate) version: Version,
}

/// An object of which no more is read than has to be.
#[derive(Debug)]
pub(crate) enum PartialRead {
    Whole(Option<GetAnswer>),
    /// Its first and last bytes.
    #[cfg_attr(not(feature = "local"), expect(dead_code, reason = "only files are held"))]
    Ends(Bytes, Bytes, HeldFile),
}

/// There are no files to be held.
#[cfg(not(feature = "local"))]
#[derive(Debug)]
pub(crate) enum HeldFile {}

#[cfg(not(feature = "local"))]
impl HeldFile {
    pub(crate) async fn read(&self) -> Result<Bytes> {
        match *self {}
    }

    pub(crate) fn version(&self) -> Version {
        match *self {}
    }
}

/// Which version of an object answered, as far as the backend reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    size: u64,
    #[cfg(feature = "local")]
    stamp: Option<local::Stamp>,
    /// What the backend calls it: an entity tag, or when it was last changed.
    tag: Option<Arc<str>>,
}

impl Version {
    /// Returns whether both may be of one file: only a file system knows where a file lies.
    pub(crate) fn may_be_one_file(&self, other: &Self) -> bool {
        #[cfg(feature = "local")]
        if let (Some(stamp), Some(other_stamp)) = (&self.stamp, &other.stamp) {
            return stamp.is_same_file(other_stamp);
        }
        let _ = other;
        true
    }

    /// Returns what is known when nothing but the size is known.
    pub(crate) const fn from_size(size: u64) -> Self {
        Self {
            size,
            #[cfg(feature = "local")]
            stamp: None,
            tag: None,
        }
    }
}

/// One name below a prefix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Child {
    pub(crate) name: String,
    pub(crate) is_dir: bool,
}

/// What was asked of a backend since the handle was opened; never decreases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IoStats {
    /// Requests sent, or files opened.
    pub requests: u64,
    /// Bytes received.
    pub bytes_read: u64,
    /// Requests that were sent again.
    pub retries: u64,
}

/// More keys than one call may list.
const MAX_LISTED_KEYS: usize = 10_000_001;
