//! Builds a store that becomes visible only when it is complete.
//!
//! ```text
//! begin       scratch beside the name, or a prefix with nothing below it
//! cells       arrays over the chunk grid: payloads in any order, from any thread     cells, shards, chunk_sink
//! rows        standalone arrays of rows of any length, in order                      rows
//! dense       standalone arrays of items of one size, in order                       dense
//! group       documents; groups in between without a document get empty ones
//! carry_over  what the store that is replaced has already, without writing it again  carry_over, retain
//! preview     the part that is written, read as a store before it is one             carry_over
//! publish     everything synced, then the root document or the name, only where there is none yet
//! join        the same store built by several processes, in any number of goes       join
//! ```
//!
//! The same calls give the same bytes, for any order of the cells. An array is begun once, and its
//! `finish` writes its document. A build with an unfinished array or a failed write is not
//! published. Dropping an unpublished build removes everything that it wrote.
//!
//! Not here: the meaning of a payload, and the arrays that a store must have.

mod carry_over;
mod cells;
mod check;
mod chunk_sink;
mod claim;
mod declared;
mod dense;
mod join;
mod leftovers;
mod local;
mod memory_limiter;
mod names;
mod process;
mod rearrange;
mod retain;
mod rows;
mod shards;
mod site;
mod standalone;
mod upload;
mod verbatim;

use async_recursion::async_recursion as boxed;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use object_store::ObjectStore;
use object_store::path::Path;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::Class;
use zvf_metadata::{ArrayDoc, GroupDoc, Root};
#[cfg(feature = "local")]
use zvf_publish::StagingDir;
use zvf_publish::{CommitGate, Disk, TargetLock};

pub use self::cells::{CellPlan, CellSink};
pub use self::chunk_sink::ArrayReport;
use self::declared::Declared;
pub use self::dense::{DensePlan, DenseSink};
pub(crate) use self::memory_limiter::MemoryLimiter;
use self::names::{NodeNames, NodeState};
pub use self::rearrange::{Arrange, RearrangeCounts, Rearrangement};
pub use self::rows::{RowPlan, RowSink};
pub use self::shards::{MAX_SHARD_CELLS, count_shard_cells, fit_shard_shape};
use self::site::Site;
use self::upload::Uploads;
pub use self::verbatim::VerbatimArray;
use crate::budget::Budget;
use crate::codec::{CodecPipeline, Encoder};
use crate::docs::document;
use crate::error::backend_error;
use crate::key::Key;
use crate::notice::{Notice, Notices};
use crate::options::OpenOptions;
use crate::source::remote::Created;
use crate::source::{Address, Backend, Remote, check_folders, run_blocking, url};
use crate::sync::lock;

/// Options of a build.
///
/// ```
/// use zvf_store::BuildOptions;
///
/// let options = BuildOptions::default();
/// assert!(options.sync && !options.replace);
/// ```
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// Whether an existing store is replaced, atomically. Only in a local directory: object stores
    /// cannot do this.
    pub replace: bool,
    /// Whether it is a store, and not an array: one does not replace the other.
    pub is_store: bool,
    /// Whether the build is added to an existing store, which stays in place except for its root
    /// document. The root document is replaced last, which is the commit. Requires `replace` and a
    /// local directory; [`Build::copy_documents`] brings the documents that are not rewritten.
    pub adds: bool,
    /// Credentials, timeouts and the budget.
    pub store: OpenOptions,
    /// Whether publishing waits until everything would survive a power failure.
    pub sync: bool,
    /// The interface through which every change of a local directory is made.
    pub disk: Disk,
    /// Called right before anything becomes visible: from then on the command can no longer be
    /// cancelled.
    pub gate: CommitGate,
    /// The lock of the store, if the caller took it before reading the store to be replaced;
    /// otherwise [`Build::begin`] takes it. Ignored for another store, and for [`Build::join`].
    pub lock: Option<TargetLock>,
}

impl Default for BuildOptions {
    fn default() -> Self {
        Self {
            replace: false,
            is_store: true,
            adds: false,
            store: OpenOptions::default(),
            sync: true,
            disk: Disk::default(),
            gate: CommitGate::default(),
            lock: None,
        }
    }
}

/// A store that is being built: nothing is visible until [`publish`](Self::publish).
///
/// Cheap to clone; clones build the same store. Local builds need no runtime. On object stores,
/// calls that write bytes wait while the memory limit is reached. On a multi-threaded runtime, the
/// waiting thread hands its other tasks to another thread (so this does not work in a `LocalSet`).
/// On a single-threaded runtime they never wait, and the bytes in flight are not bounded.
///
/// Only one build at a time may write below a prefix of an object store. Another one is refused
/// with [`Class::Conflict`] until the first is finished or dead. A build is dead if its process, on
/// this machine, has ended, or if its claim was not renewed for ten minutes (a day for
/// [`join`](Self::join)). Leftovers of a dead build are removed.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let address = dir.path().join("one.zarrvectors").to_str().unwrap().to_owned();
/// use zvf_format::key::ChunkKey;
/// use zvf_metadata::{Axis, LevelDoc, Root, ZarrVectors};
/// use zvf_store::{Build, BuildOptions, CellPlan, Store};
///
/// let build = Build::begin(&address, BuildOptions::default()).await?;
/// let vertices = build.cells("0/vertices", CellPlan::new(vec![0, 0], vec![3, 0]))?;
/// vertices.put(&"2.0".parse::<ChunkKey>()?, b"rows".as_slice().into())?;
/// vertices.finish(|attributes| drop(attributes.insert("zv_array".into(), "vertices".into()))).await?;
/// build.group("0", &LevelDoc::new(0).to_group()).await?;
///
/// let block = ZarrVectors::new(vec![10.0, 10.0], [vec![0.0, 0.0], vec![35.0, 5.0]]);
/// build.publish(&Root::new(block, Axis::spatial(2).unwrap_or_default())).await?;
///
/// let vertices = Store::open(&address, Default::default()).await?.level(0).await?;
/// assert_eq!(vertices.required_cells("vertices").await?.presence().await?.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Build(Arc<BuildState>);

#[derive(Debug)]
struct BuildState {
    place: Site,
    room: MemoryLimiter,
    nodes: NodeNames,
    failure: Mutex<Option<Error>>,
    encoders: Mutex<Vec<Encoder>>,
    notices: Notices,
    declared: Declared,
}

impl Build {
    /// Begins a store at `address`: a path, or a URL of a backend that this build supports.
    ///
    /// # Errors
    ///
    /// [`Class::AlreadyExists`] when something exists that is not to be replaced (on an object
    /// store, anything below the prefix); [`Class::Unsupported`] for replacing on an object store;
    /// otherwise when the location cannot be written.
    #[boxed]
    pub async fn begin(address: &str, options: BuildOptions) -> Result<Self> {
        match Address::parse(address)? {
            Address::Directory(path) => {
                check_folders(&path)?;
                let begin_options = options.clone();
                let begin = move || local::begin(&path, &begin_options);
                let folder = run_blocking("write", begin).await??;
                let by_file = folder.lock().is_by_file();
                let build = Self::new(Site::Local(Arc::new(folder)), &options);
                if by_file {
                    build.0.notices.add(Notice::NoFileLocks);
                }
                Ok(build)
            }
            Address::Remote(scheme, url, path) => {
                let backend = url::build(scheme, &url, path, &options.store)?;
                Self::in_object_store(backend.store, backend.prefix.as_ref(), options).await
            }
            Address::Versions(address) => Err(crate::versions::refuse_writing(&address)),
        }
    }

    /// Begins a store below `prefix` of the caller's own backend.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin); [`Class::InvalidArgument`] outside a tokio runtime.
    #[boxed]
    pub async fn in_object_store(
        store: Arc<dyn ObjectStore>,
        prefix: &str,
        options: BuildOptions,
    ) -> Result<Self> {
        let uploads = Uploads::begin(Self::remote(store, prefix, &options)?).await?;
        Ok(Self::new(Site::Remote(Box::new(uploads)), &options))
    }

    /// Returns the place below `prefix`, where nothing can be replaced.
    fn remote(store: Arc<dyn ObjectStore>, prefix: &str, options: &BuildOptions) -> Result<Remote> {
        if options.replace {
            let rule = "a new prefix: an object store cannot replace a store in one step";
            return Err(Error::new(Class::Unsupported, "place", rule, "the old one"));
        }
        let prefix = Path::parse(prefix).map_err(|error| {
            let answer = crate::error::BackendAnswer::Refusal;
            backend_error(Class::InvalidKey, "name", answer, error.into())
        })?;
        let budget = Budget::new(&options.store);
        let backend = Backend::from_caller(store, prefix, &options.store);
        Ok(Remote::new(backend, budget, &options.store))
    }

    fn new(place: Site, options: &BuildOptions) -> Self {
        Self(Arc::new(BuildState {
            room: MemoryLimiter::new(options.store.in_flight_bytes(), place.may_wait()),
            place,
            nodes: NodeNames::default(),
            failure: Mutex::default(),
            encoders: Mutex::default(),
            notices: Notices::default(),
            declared: Declared::default(),
        }))
    }

    /// Returns the lock of the store in a local directory, for callers that read the store that
    /// they will replace. Take it before reading, and pass it in [`BuildOptions::lock`]. `None`
    /// below a URL.
    ///
    /// # Errors
    ///
    /// [`Class::Conflict`] while another process changes the store; otherwise when the location
    /// cannot be written.
    pub fn lock_target(address: &str, disk: &Disk) -> Result<Option<TargetLock>> {
        let Address::Directory(path) = Address::parse(address)? else { return Ok(None) };
        Ok(Some(TargetLock::acquire(disk, &path)?))
    }

    /// Begins the folder that becomes the local store at `address` when it is published: for a store
    /// that several builds at the folder's path make. `None` below a URL.
    ///
    /// # Errors
    ///
    /// As for [`begin`](Self::begin) of a build with these options.
    #[cfg(feature = "local")]
    pub fn stage(address: &str, options: &BuildOptions) -> Result<Option<StagingDir>> {
        let Address::Directory(path) = Address::parse(address)? else { return Ok(None) };
        Ok(Some(local::begin(&path, options)?))
    }

    /// Refuses `source` if it is the store to be replaced and has changed since it was opened.
    ///
    /// # Errors
    ///
    /// [`Class::Conflict`].
    pub fn check_source(&self, source: &crate::open::Store) -> Result<()> {
        if let (Site::Local(staging), Some(folder)) = (&self.0.place, source.local_folder())
            && folder.path == staging.lock().target()
        {
            let same =
                staging.identity().is_some_and(|now| now.is_node(folder.device, folder.inode));
            let root = std::fs::read(folder.path.join(crate::docs::DOCUMENT));
            if !same || root.is_ok_and(|root| root != source.root_json()) {
                let found = "one that was changed meanwhile".to_owned();
                return Err(zvf_publish::PublishError::Changed { found }.into());
            }
        }
        Ok(())
    }

    /// Begins an array over the chunk grid at `path`: cells in any order, from any thread.
    ///
    /// # Errors
    ///
    /// When `path` is invalid or taken, or the plan contradicts itself.
    pub fn cells(&self, path: &str, plan: CellPlan) -> Result<CellSink> {
        self.begin_array(path, |build, key| CellSink::begin(build, key, plan))
    }

    /// Begins a standalone array of variable-length rows at `path`.
    ///
    /// # Errors
    ///
    /// When `path` is invalid or taken, or a chunk has no rows.
    pub fn rows(&self, path: &str, plan: RowPlan) -> Result<RowSink> {
        self.begin_array(path, |build, key| RowSink::begin(build, key, plan))
    }

    /// Begins a standalone array of fixed-size items at `path`.
    ///
    /// # Errors
    ///
    /// When `path` is invalid or taken, or the plan has no items.
    pub fn dense(&self, path: &str, plan: DensePlan) -> Result<DenseSink> {
        self.begin_array(path, |build, key| DenseSink::begin(build, key, plan))
    }

    /// Writes the document of the group at `path` unchanged. [`publish`](Self::publish) writes the
    /// root document.
    ///
    /// # Errors
    ///
    /// When `path` is invalid or taken, or the document cannot be written.
    #[boxed]
    pub async fn group(&self, path: &str, doc: &GroupDoc) -> Result<()> {
        let key = self.0.nodes.claim(path, NodeState::Group)?;
        self.object_later(document(&key)?, vec![doc.print().into()]).await
    }

    /// Writes the document of the group at `path` byte for byte.
    ///
    /// # Errors
    ///
    /// As [`group`](Self::group), and when `text` is not the document of a group.
    #[boxed]
    pub async fn verbatim_group(&self, path: &str, text: Bytes) -> Result<()> {
        let key = self.0.nodes.claim(path, NodeState::Group)?;
        GroupDoc::parse(&text).at_key(&key)?;
        self.object_later(document(&key)?, vec![text]).await
    }

    /// Returns the names directly below `path` that were written or begun so far. A document that
    /// lists them serves readers that cannot list.
    ///
    /// # Errors
    ///
    /// When `path` is invalid.
    pub fn names_below(&self, path: &str) -> Result<BTreeSet<String>> {
        let key = Key::parse(path)?;
        Ok(self.0.nodes.directly_below(&key))
    }

    /// Declares a group at `path` without a document, as versions before 0.9 have them.
    ///
    /// # Errors
    ///
    /// When `path` is invalid or taken.
    pub fn implied_group(&self, path: &str) -> Result<()> {
        self.0.nodes.claim(path, NodeState::Group).map(drop)
    }

    /// Begins the array at `path` with the document `text`, byte for byte; its chunks are encoded
    /// accordingly. With an empty path, the array is the whole store, and
    /// [`publish_text`](Self::publish_text) writes the document.
    ///
    /// # Errors
    ///
    /// When `path` is invalid or taken, or `text` is not the document of an array, or names a codec
    /// that cannot be written.
    pub fn verbatim_array(&self, path: &str, text: Bytes) -> Result<VerbatimArray> {
        self.begin_array(path, |build, key| VerbatimArray::begin(build, key, text))
    }

    /// Begins the array at `path`; its name is free again if `begin` fails.
    fn begin_array<S>(&self, path: &str, begin: impl FnOnce(Self, Key) -> Result<S>) -> Result<S> {
        let key = self.0.nodes.claim(path, NodeState::Begun)?;
        begin(self.clone(), key.clone()).inspect_err(|_| self.0.nodes.release(&key))
    }

    /// Returns notices that are not errors.
    pub fn notices(&self) -> Vec<Notice> {
        self.0.notices.all()
    }

    /// Returns the number of bytes held now: cells of incomplete shards, and objects in flight.
    pub fn held_bytes(&self) -> u64 {
        self.0.room.held_bytes()
    }

    /// Returns the root document with a declaration of every attribute that was written or carried
    /// over so far: readers that cannot list find attributes only through these. Existing
    /// declarations stay.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> zvf_error::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let address = dir.path().join("one.zarrvectors").to_str().unwrap().to_owned();
    /// use zvf_metadata::{Axis, Dtype, Root, ZarrVectors};
    /// use zvf_metadata::arrays::{ArrayAttributes as _, Column};
    /// use zvf_store::{Build, BuildOptions, CellPlan};
    ///
    /// let build = Build::begin(&address, BuildOptions::default()).await?;
    /// let attributes = Column::new("attribute", "mass", Dtype::FLOAT32, 1, vec![0]).to_attributes();
    /// let mass = build.cells("0/vertex_attributes/mass", CellPlan { attributes, ..CellPlan::new(vec![0], vec![0]) })?;
    /// mass.finish(|_| {}).await?;
    /// let block = ZarrVectors::new(vec![10.0], [vec![0.0], vec![5.0]]);
    /// let root = build.declare_attributes(&Root::new(block, Axis::spatial(1).unwrap_or_default()));
    /// let specs = root.zarr_vectors.attribute_specs().unwrap()?;
    /// assert_eq!(specs.find("vertex", "mass").unwrap().dtype, "float32");
    /// # Ok(())
    /// # }
    /// ```
    pub fn declare_attributes(&self, root: &Root) -> Root {
        self.0.declared.add_to(root)
    }

    /// Waits until everything is stored, then makes the store visible with this root document.
    ///
    /// # Errors
    ///
    /// [`Class::AlreadyExists`] when a store of that name exists by now; [`Class::InvalidArgument`]
    /// when an array was not finished; [`Class::CommitUnknown`] when the store may be visible;
    /// otherwise the error of an earlier failure. Except for `CommitUnknown`, nothing is visible.
    #[boxed]
    pub async fn publish(self, root: &Root) -> Result<()> {
        self.publish_text(root.print()).await
    }

    /// Like [`publish`](Self::publish), with the given root document unchanged.
    ///
    /// # Errors
    ///
    /// As [`publish`](Self::publish).
    #[boxed]
    pub async fn publish_text(self, root: String) -> Result<()> {
        self.0.nodes.check_finished()?;
        self.write_implied_groups().await?;
        self.check()?;
        let (key, root) = (document(&Key::root())?, Bytes::from(root));
        let created = self.0.place.publish(key, root, self.0.nodes.all()).await?;
        if created == Created::Looked {
            self.0.notices.add(Notice::NoConditionalPut);
        }
        Ok(())
    }

    /// Removes everything that was written.
    ///
    /// # Errors
    ///
    /// When an object store refuses to remove an object.
    #[boxed]
    pub async fn abandon(self) -> Result<()> {
        self.0.place.abandon().await
    }

    /// Writes one object; an error is recorded, so that nothing is published without the object.
    pub(crate) fn object(&self, key: Key, parts: Vec<Bytes>) -> Result<()> {
        self.keep_fault(self.0.place.put(key, parts, &self.0.room))
    }

    /// Like [`object`](Self::object), for a task, which waits for memory without blocking its
    /// thread.
    async fn object_later(&self, key: Key, parts: Vec<Bytes>) -> Result<()> {
        self.keep_fault(self.0.place.put_later(key, parts, &self.0.room).await)
    }

    /// Records the error of a write.
    fn keep_fault(&self, put: Result<()>) -> Result<()> {
        put.inspect_err(|error| {
            lock(&self.0.failure).get_or_insert_with(|| error.clone());
        })
    }

    /// Writes the document of the array at `key`, which finishes the array.
    pub(crate) fn array(&self, key: &Key, doc: &ArrayDoc) -> Result<()> {
        self.object(document(key)?, vec![doc.print().into()])?;
        self.0.declared.remember(key, doc);
        self.0.nodes.set(key.clone(), NodeState::Finished);
        Ok(())
    }

    /// Writes the documents of groups that are only implied by the nodes below them.
    async fn write_implied_groups(&self) -> Result<()> {
        for key in self.0.nodes.implied_groups()? {
            let doc = GroupDoc::default();
            self.object_later(document(&key)?, vec![doc.print().into()]).await?;
            self.0.nodes.set(key, NodeState::Group);
        }
        Ok(())
    }

    /// Refuses a build in which a write failed, whichever caller received the error.
    fn check(&self) -> Result<()> {
        lock(&self.0.failure).clone().map_or(Ok(()), Err)
    }

    /// Encodes a chunk.
    fn encode(&self, codecs: &CodecPipeline, parts: Vec<Bytes>) -> Result<Vec<Bytes>> {
        let mut encoder = lock(&self.0.encoders).pop().unwrap_or_default();
        let encoded = codecs.encode(parts, &mut encoder);
        lock(&self.0.encoders).push(encoder);
        encoded
    }
}

const fn assert_shareable<T: Clone + Send + Sync + 'static>() {}
const _: () = {
    assert_shareable::<Build>();
    assert_shareable::<CellSink>();
};

#[cfg(test)]
mod tests;
