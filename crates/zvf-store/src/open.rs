//! Opens a store, determines its version and its layout family, and checks that the two agree.
//!
//! ```text
//! zarr.json                 version, axes, chunk shape, bounds: refused here when they cannot be used
//! 0/zarr.json               read along, for the level that is asked for first
//! 0/vertices/zarr.json      a group in families A and B, an array in C; its presence list is not read yet
//! ```
//!
//! Opening reads three documents in one batch; the number does not depend on the size of the store.
//! A version that contradicts the structure is refused, with both in the error. A newer version
//! than this build knows opens with a notice, unless it requires an unknown capability.
//!
//! Not here: the content of the levels.

use async_recursion::async_recursion as boxed;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use bytes::Bytes;
use object_store::ObjectStore;
use object_store::path::Path;
use zvf_error::{Error, Locate as _, Result, quote};
use zvf_format::{Class, Expected};
use zvf_metadata::{LayoutFamily, Node, Root, Version};

use crate::budget::Budget;
use crate::cache::Cache;
use crate::docs::{Doc, Docs};
use crate::error::missing_commit_error;
use crate::file::RangedFile;
use crate::key::Key;
use crate::layout::{Cells, DenseArray, Rows, SharedTables};
use crate::level::LevelNode;
use crate::nodes::{Nodes, Opened};
use crate::notice::{Notice, Notices};
use crate::options::OpenOptions;
use crate::record::check_journal_mark;
use crate::shared::Handle;
use crate::source::pack::Pack;
use crate::source::{self, Address, Backend, Get, IoStats, Journaled, Origin};
use crate::versions::Versions;

/// An open store, for reading.
///
/// Cheap to clone and safe to share between threads; clones share all cached data. Cached data is
/// kept for the life of the handle: see [`revalidate`](Self::revalidate).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/three.zarrvectors");
/// use zvf_store::{OpenOptions, Store};
///
/// let store = Store::open(path, OpenOptions::default()).await?;
/// assert_eq!((store.version().to_string(), store.level_numbers()), ("0.9.2".to_owned(), vec![0]));
/// assert_eq!(store.io_stats().requests, 3);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Store {
    opened: Arc<Opened>,
    options: OpenOptions,
}

impl Store {
    /// Opens the store at `address`: a path, or a URL of a backend that this build supports.
    ///
    /// # Errors
    ///
    /// When there is no store, its root document is invalid, its version is older than 0.6 or
    /// contradicts the structure, it requires an unknown capability, or the backend fails.
    #[boxed]
    pub async fn open(address: &str, options: OpenOptions) -> Result<Self> {
        if Address::parse(address)?.is_pack() {
            let file = RangedFile::open(address, &options).await?;
            return Self::open_pack(file, options).await;
        }
        let budget = Budget::new(&options);
        let mut left = MAX_OPEN_ATTEMPTS;
        loop {
            let source = Origin::find(address, &budget, &options).await?;
            left -= 1;
            match Self::begin(source, budget.clone(), options.clone()).await {
                // It was replaced in between: the current one is opened.
                Err(error) if error.class() == Class::FileChanged && left > 0 => {}
                opened => return opened,
            }
        }
    }

    /// Opens the store that is packed in `file`.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and when the file is not a `.tet` file, or does not contain a
    /// packed store.
    #[boxed]
    pub async fn open_pack(file: RangedFile, options: OpenOptions) -> Result<Self> {
        let budget = Budget::new(&options);
        let pack = Pack::open(file, budget.max_bytes()).await?;
        Self::begin(Origin::Pack(pack), budget, options).await
    }

    /// Returns whether the store is one file: a pack is read like a store, but has no separate
    /// objects.
    pub fn is_packed(&self) -> bool {
        matches!(self.shared_state().source, Origin::Pack(_))
    }

    /// Returns the local file that `address` names, if its name is that of a packed store.
    pub fn pack_at(address: &str) -> Option<std::path::PathBuf> {
        match Address::parse(address) {
            Ok(place @ Address::Directory(_)) if place.is_pack() => match place {
                Address::Directory(path) => Some(path),
                Address::Remote(..) | Address::Versions(_) => None,
            },
            Ok(_) | Err(_) => None,
        }
    }

    /// Checks whether mapped files are unchanged since the handle first read them. Only mapped
    /// files can change after their bytes were returned.
    ///
    /// # Errors
    ///
    /// `FileChanged`, with the file: results that were computed from its bytes must be discarded.
    pub fn check_maps(&self) -> Result<()> {
        self.shared_state().source.check()
    }

    /// Returns whether reads go through the object-store interface and may wait for a network,
    /// which requires a tokio runtime. Reads of local files do not.
    pub fn is_remote(&self) -> bool {
        self.shared_state().source.is_remote()
    }

    /// Returns whether a store at `address` is read over a network or from memory, which requires a
    /// tokio runtime; a local directory does not.
    ///
    /// # Errors
    ///
    /// When `address` is neither a path nor a known URL.
    pub fn needs_runtime(address: &str) -> Result<bool> {
        Ok(!matches!(Address::parse(address)?, Address::Directory(_)))
    }

    /// Returns the local directory in which the store was opened.
    pub(crate) fn local_folder(&self) -> Option<&source::OpenedFolder> {
        let source = &self.shared_state().source;
        let base = source.journaled().map_or(source, Journaled::base);
        if let Origin::Local(local) = base { local.folder() } else { None }
    }

    /// Returns the backend that `address` names, and the location of the store on it, for callers
    /// that replace single objects; `None` for a local directory. Nothing is sent yet, and requests
    /// are not retried.
    ///
    /// ```
    /// use zvf_store::{OpenOptions, Store};
    ///
    /// let options = OpenOptions::default();
    /// let backend = Store::backend("memory:///data/a.zarrvectors", &options)?.expect("a URL");
    /// assert_eq!(backend.prefix.as_ref(), "data/a.zarrvectors");
    /// assert!(Store::backend("data/a.zarrvectors", &options)?.is_none());
    /// # Ok::<(), zvf_error::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When `address` is neither a path nor a known URL, a storage option is unknown to the
    /// backend, or the backend is read-only: plain HTTP.
    pub fn backend(address: &str, options: &OpenOptions) -> Result<Option<Backend>> {
        source::backend(address, options)
    }

    /// Returns the backend that `address` names, for reading objects other than those of Zarr: like
    /// [`backend`](Self::backend), but also for plain HTTP. `None` for a directory.
    ///
    /// # Errors
    ///
    /// When `address` is neither a path nor a known URL, or a storage option is unknown to the
    /// backend.
    pub fn backend_for_reading(address: &str, options: &OpenOptions) -> Result<Option<Backend>> {
        source::backend_for_reading(address, options)
    }

    /// Returns the versioned repository that `address` names, for reading earlier versions and for
    /// commits; `None` for any other address. Nothing is read yet.
    ///
    /// # Errors
    ///
    /// When `address` is neither a path nor a known URL, or no hook of `options` supports the
    /// repository.
    pub fn versions(address: &str, options: &OpenOptions) -> Result<Option<Arc<dyn Versions>>> {
        source::versions(address, options)
    }

    /// Opens the store below `prefix` of the caller's own backend; `prefix` is a packed store if it
    /// ends in `.tet`.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    #[boxed]
    pub async fn from_object_store(
        store: Arc<dyn ObjectStore>,
        prefix: &Path,
        options: OpenOptions,
    ) -> Result<Self> {
        if source::url::is_pack(prefix) {
            let file = RangedFile::from_object_store(store, prefix, &options).await?;
            return Self::open_pack(file, options).await;
        }
        let budget = Budget::new(&options);
        let source = Origin::from_object_store(store, prefix, &budget, &options);
        Self::begin(source, budget, options).await
    }

    #[boxed]
    pub(crate) async fn begin(
        source: Origin,
        budget: Budget,
        options: OpenOptions,
    ) -> Result<Self> {
        let source = source.at_head(false, &options).await?;
        let docs = Docs::default();
        let top = Key::root();
        let first = top.child(FIRST_LEVEL)?;
        let vertices = first.child(VERTICES)?;
        // Readers of the level need it too: requested now, it needs no extra round trip. An error
        // is reported when it is used.
        let fragments = first.child(FRAGMENTS)?;
        let ahead = async {
            if source.is_remote() {
                drop(docs.node(&source, &fragments).await);
            }
        };
        let (root, level, node, ()) = futures_util::join!(
            docs.node(&source, &top),
            docs.node(&source, &first),
            docs.outline(&source, &vertices),
            ahead,
        );
        let (root, family) = check_root(root?)?;
        let notices = Notices::default();
        let mark = root.extras.get("zvf").and_then(|section| section.get("journal"));
        let mark = mark.filter(|mark| !mark.is_null() && !matches!(source, Origin::Pack(_)));
        if let Some(mark) = mark {
            check_journal_mark(mark)?;
        }
        if matches!(source, Origin::Remote(_)) && mark.is_some() {
            let at_head = source.clone().at_head(true, &options).await?;
            if at_head.journaled().is_some() {
                return Self::begin(at_head, budget, options).await;
            }
            notices.add(Notice::JournalNotRead);
        }
        // An error of the level is reported when the level is requested; a transient error fails
        // the opening.
        for error in [level.err(), node.as_ref().err().cloned()].into_iter().flatten() {
            if !is_content_fault(&error) {
                return Err(error);
            }
        }
        if let Some(commit) = options.commit {
            let head = source.journaled().map(Journaled::head);
            if head != Some(commit) {
                return Err(missing_commit_error(commit, head));
            }
        }
        let version = root.zarr_vectors.zv_version;
        if version.is_newer_than_known() {
            let [found, supported] =
                [version, Version::NEWEST].map(|version| version.to_string().into());
            notices.add(Notice::NewerVersion { found, supported });
        }
        let shared = Arc::new(Handle {
            cache: Cache::new(options.cache_bytes),
            source,
            docs,
            notices,
            budget,
            root,
            family,
            ids: AtomicU32::new(0),
            tables: SharedTables::default(),
        });
        let store = Self { opened: Arc::new(Opened::new(shared)), options };
        store.check_structure(&vertices, node.ok()).await?;
        Ok(store)
    }

    /// Compares the family of the version with the structure of the vertices.
    async fn check_structure(&self, vertices: &Key, node: Option<Doc>) -> Result<()> {
        let mut checked = (vertices.clone(), node);
        let first = self.level_numbers().first().map(u32::to_string);
        if let Some(first) = first.filter(|first| first != FIRST_LEVEL) {
            let key = Key::root().child(&first)?.child(VERTICES)?;
            // An invalid document is reported when the level is requested; one that cannot be
            // fetched now says nothing about the structure.
            let node = match self.shared_state().outline(&key).await {
                Err(error) if !is_content_fault(&error) => return Err(error),
                node => node.ok(),
            };
            checked = (key, node);
        }
        let (key, node) = checked;
        let is = match node {
            None | Some(Doc::Whole(None)) => return Ok(()),
            Some(Doc::Whole(Some(cached))) => matches!(*cached.node, Node::Array(_)),
            Some(Doc::Outline(_)) => true,
        };
        let should = self.family() == LayoutFamily::C;
        if is == should {
            return Ok(());
        }
        let expected = Expected::Rule(match should {
            true => "one array, as versions from 0.9.0 have it",
            false => "a group of arrays, as versions before 0.9.0 have it",
        });
        let found = if is { "one array" } else { "a group of arrays" };
        let found = format!("{found} in a store of version {}", self.version());
        Err(Error::new(Class::BadTag, "layout", expected, quote(&found)).at_key(&key))
    }

    /// Returns the root document.
    pub fn root(&self) -> &Root {
        &self.shared_state().root
    }

    /// Returns the root document as stored.
    pub fn root_json(&self) -> Bytes {
        self.shared_state().docs.text(&Key::root()).unwrap_or_default() // opening read it
    }

    /// Returns the format version that the store states.
    pub fn version(&self) -> Version {
        self.shared_state().root.zarr_vectors.zv_version
    }

    /// Returns the layout family of that version.
    pub fn family(&self) -> LayoutFamily {
        self.shared_state().family
    }

    /// Returns the levels that the root document lists, ascending.
    pub fn level_numbers(&self) -> Vec<u32> {
        let datasets = self.shared_state().root.multiscale().map(|block| block.datasets.as_slice());
        let mut numbers: Vec<u32> = datasets
            .unwrap_or_default()
            .iter()
            .filter_map(|dataset| level_number(&dataset.path))
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Returns the stored levels, ascending, whether or not the root document lists them.
    ///
    /// # Errors
    ///
    /// [`Class::Unsupported`] when the backend cannot list; otherwise when it fails.
    #[boxed]
    pub async fn list_levels(&self) -> Result<Vec<u32>> {
        let root = Key::root();
        if !self.shared_state().source.can_list() {
            self.shared_state().notices.add(Notice::CannotEnumerate { key: root });
            return Err(Error::unsupported("enumeration without", "a listing"));
        }
        let listing = self.nodes().children("").await?;
        let mut numbers: Vec<u32> =
            listing.names.iter().filter_map(|name| level_number(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Returns one level.
    ///
    /// # Errors
    ///
    /// [`Class::NotFound`] when it does not exist; otherwise when its document cannot be read.
    #[boxed]
    pub async fn level(&self, number: u32) -> Result<LevelNode> {
        LevelNode::open(&self.opened, number).await
    }

    /// Returns whether the backend can list names. Plain HTTP cannot: there,
    /// [`Nodes::entries`](crate::Nodes::entries) and similar calls fail.
    pub fn can_list(&self) -> bool {
        self.shared_state().source.can_list()
    }

    /// Returns the notices so far.
    pub fn notices(&self) -> Vec<Notice> {
        self.shared_state().notices.all()
    }

    /// Adds a notice for readers of this handle, once.
    pub fn add_notice(&self, notice: Notice) {
        self.shared_state().notices.add(notice);
    }

    /// Returns the nodes of the store by path, for checking, copying and converting it.
    pub fn nodes(&self) -> Nodes {
        Nodes { opened: Arc::clone(&self.opened), base: Key::root(), rank: 0 }
    }

    pub(crate) fn shared_state(&self) -> &Handle {
        &self.opened.shared
    }

    /// Returns counts of the requests so far, by this handle and its clones.
    pub fn io_stats(&self) -> IoStats {
        self.shared_state().source.stats()
    }

    /// Returns the number of bytes of decoded chunks and rows in the cache.
    pub fn cached_bytes(&self) -> u64 {
        self.shared_state().cache.bytes()
    }

    /// Evicts all decoded chunks and rows; documents and indexes stay.
    pub fn clear_cache(&self) {
        self.shared_state().cache.clear();
    }

    /// Returns the limits of this handle.
    pub fn budget(&self) -> &Budget {
        &self.shared_state().budget
    }

    /// Returns the number of the commit that is read, if the store has a journal.
    pub fn journal_head(&self) -> Option<u64> {
        self.shared_state().source.journaled().map(Journaled::head).filter(|head| *head > 0)
    }

    /// Returns whether an object belongs to a commit that was not applied when the store was
    /// opened; reading the backend directly may then return another one.
    pub fn is_pending(&self, key: &Key) -> bool {
        self.shared_state().source.journaled().is_some_and(|journaled| journaled.is_pending(key))
    }

    /// Returns an object as stored, at the commit that is read; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// When the backend fails.
    #[boxed]
    pub async fn read_object(&self, key: &Key) -> Result<Option<Bytes>> {
        let read = self.shared_state().source.read_one(Get::object(key.clone())).await?;
        Ok(read.map(|got| got.bytes))
    }

    /// Returns a handle at the last commit, if there are newer commits. This takes one request to
    /// the journal; [`revalidate`](Self::revalidate) also notices changes without a journal.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read, or the store can no longer be opened.
    #[boxed]
    pub async fn follow_commits(&self) -> Result<Option<Self>> {
        match self.shared_state().source.journaled() {
            Some(journaled) if journaled.is_behind().await? => self.revalidate().await,
            Some(_) | None => Ok(None),
        }
    }

    /// Checks the address of this store again, and returns a new handle if the store has changed:
    /// another directory or pack, later commits, or a different version of a document that was
    /// read.
    ///
    /// This handle keeps its state: it never mixes two states of the store. If the store has a
    /// journal, the handle reads the commit that was the last one when it was opened, as long as
    /// the journal keeps its bytes. The new handle shares the budget and starts with an empty
    /// cache.
    ///
    /// # Errors
    ///
    /// When a document cannot be read, or the store can no longer be opened.
    #[boxed]
    pub async fn revalidate(&self) -> Result<Option<Self>> {
        let mut left = MAX_OPEN_ATTEMPTS;
        loop {
            left -= 1;
            match self.revalidate_once().await {
                // It was replaced once more in between.
                Err(error) if error.class() == Class::FileChanged && left > 0 => {}
                done => return done,
            }
        }
    }

    async fn revalidate_once(&self) -> Result<Option<Self>> {
        let (shared, options) = (self.shared_state(), self.options.clone());
        let source = if let Origin::Pack(pack) = &shared.source {
            match pack.reopen(&options).await? {
                None => return Ok(None),
                Some(pack) => Origin::Pack(pack),
            }
        } else {
            let replaced = shared.source.is_replaced();
            let is_behind = match shared.source.journaled() {
                Some(journaled) if !replaced => journaled.is_behind().await?,
                _ => replaced,
            };
            let source = shared.source.reopen()?;
            if !is_behind && shared.docs.is_unchanged(&shared.source).await? {
                return Ok(None);
            }
            source
        };
        Self::begin(source, shared.budget.clone(), options).await.map(Some)
    }

    /// Returns whether another store is now at the address of this one, as far as that can be
    /// determined without waiting: for a local directory. Data that was read stays valid; other
    /// data may be gone.
    pub fn is_replaced(&self) -> bool {
        self.shared_state().source.is_replaced()
    }
}

/// Returns the root document and the family of its version, or the reason why the store cannot be
/// used.
fn check_root(node: Option<Arc<Node>>) -> Result<(Root, LayoutFamily)> {
    let document = crate::docs::document(&Key::root())?;
    match node.as_deref() {
        Some(Node::Group(group)) => {
            let root = Root::from_group(group.clone()).and_then(|root| {
                root.open_checks()?;
                let family = root.zarr_vectors.zv_version.require_family()?;
                Ok((root, family))
            });
            root.at_key(&document)
        }
        Some(Node::Array(_)) => {
            Err(Error::new(Class::BadTag, "node", "the group of a store", "an array")
                .at_key(&document))
        }
        None => Err(Error::missing(&document, "every store starts with it")),
    }
}

/// Returns whether an error means that a document is invalid, rather than that it could not be
/// fetched.
fn is_content_fault(error: &Error) -> bool {
    error.op() == "parse"
}

/// Returns the number of a level from the name of its group.
fn level_number(name: &str) -> Option<u32> {
    let number: u32 = name.parse().ok()?;
    (number.to_string() == name).then_some(number)
}

/// Number of attempts to open a store that is being replaced.
const MAX_OPEN_ATTEMPTS: u32 = 5;
const FIRST_LEVEL: &str = "0";
const VERTICES: &str = "vertices";
const FRAGMENTS: &str = "vertex_fragments";

const fn assert_shareable<T: Clone + Send + Sync + 'static>() {}
const _: () = {
    assert_shareable::<Store>();
    assert_shareable::<LevelNode>();
    assert_shareable::<Cells>();
    assert_shareable::<Rows>();
    assert_shareable::<DenseArray>();
};
