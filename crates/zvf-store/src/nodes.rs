//! From the path of a node to its content.
//!
//! ```text
//! asked for    node is an array        node is a group                           no document
//! cells        family C                families A, B: one array per chunk        A, B: an implicit group
//! rows         vlen-bytes array        object_index: its manifests;              absent
//!                                      A, B0: data and offsets
//! dense        numeric array           A, B0: data, and a shape                  absent
//! ```
//!
//! A node is opened once per handle, and later callers share presence, indexes and cache. A
//! structure that no family has is refused, never read as empty.
//!
//! Not here: which nodes a level must have.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use futures_util::future::join;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_metadata::{GroupDoc, LayoutFamily, Node, Object};

use crate::docs::{Doc, document_node, document_path};
use crate::key::Key;
use crate::layout::{Cells, DenseArray, Rows, chunk_folder};
use crate::notice::Notice;
use crate::shared::Handle;
use crate::source::{Child, Origin};
use crate::sync::lock;
use crate::versions::ObjectStream;

/// An open store, with its opened arrays by path.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) shared: Arc<Handle>,
    cells: Mutex<HashMap<Key, Cells>>,
    rows: Mutex<HashMap<Key, Rows>>,
    dense: Mutex<HashMap<Key, DenseArray>>,
}

impl Opened {
    pub(crate) fn new(shared: Arc<Handle>) -> Self {
        Self { shared, cells: Mutex::default(), rows: Mutex::default(), dense: Mutex::default() }
    }
}

/// The names below a node, and whether they are complete.
///
/// ```
/// # use zvf_store::Listing;
/// let listing = Listing { names: vec!["vertices".into()], complete: false };
/// assert!(!listing.complete, "the backend could not list: there may be more");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// In text order.
    pub names: Vec<String>,
    /// Whether there are no others. Without a listing, names come from the documents.
    pub complete: bool,
}

/// Everything directly below a key: [`Nodes::entries`](crate::Nodes::entries).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    /// Objects, in text order.
    pub files: Vec<String>,
    /// Names with objects below them, in text order.
    pub folders: Vec<String>,
}

/// The nodes of a store by path: see [`Store::nodes`](crate::Store::nodes). Those of a level are
/// [`LevelNode`](crate::LevelNode).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/three.zarrvectors");
/// use zvf_store::{OpenOptions, Store};
///
/// let store = Store::open(path, OpenOptions::default()).await?;
/// assert!(store.nodes().children("").await?.names.contains(&"0".to_owned()));
/// assert!(store.nodes().node("0/vertices").await?.is_some());
/// assert!(store.nodes().cells("0/no_such_array").await?.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Nodes {
    pub(crate) opened: Arc<Opened>,
    pub(crate) base: Key,
    pub(crate) rank: usize, // of the keys of chunks, in families A and B
}

impl Nodes {
    /// Returns the key of `path`; an empty path is the root, or the level itself.
    pub(crate) fn key(&self, path: &str) -> Result<Key> {
        if path.is_empty() { Ok(self.base.clone()) } else { self.base.join(path) }
    }

    fn listable(&self) -> Result<&Origin> {
        let source = &self.opened.shared.source;
        match source.can_list() {
            true => Ok(source),
            false => Err(Error::unsupported("enumeration without", "a listing")),
        }
    }

    /// Returns the document of the node at `path`, array or group; an empty path is the root.
    /// `None` if there is no node.
    ///
    /// # Errors
    ///
    /// When the document cannot be read.
    #[boxed]
    pub async fn node(&self, path: &str) -> Result<Option<Arc<Node>>> {
        self.opened.shared.node(&self.key(path)?).await
    }

    /// Returns the chunks of the array at `path`, such as `vertices`, `vertex_attributes/intensity`
    /// or `links/0/0.0.0` of a level; `None` if there is no such array.
    ///
    /// # Errors
    ///
    /// When the document is not that of an array of chunks, or describes an unknown layout. An
    /// unknown codec is reported when chunks are read.
    #[boxed]
    pub async fn cells(&self, path: &str) -> Result<Option<Cells>> {
        let key = self.key(path)?;
        open_once(&self.opened.cells, &key, self.open_cells(&key)).await
    }

    async fn open_cells(&self, key: &Key) -> Result<Option<Cells>> {
        let shared = &self.opened.shared;
        let node = match shared.outline(key).await? {
            Doc::Whole(cached) => cached.map(|cached| cached.node),
            Doc::Outline(outline) => {
                return Cells::from_outline(shared, key, &outline).map(Some);
            }
        };
        let (rank, attributes) = match (node.as_deref(), shared.family) {
            (Some(Node::Array(doc)), _) => return Cells::from_array(shared, key, doc).map(Some),
            (Some(Node::Group(_)), LayoutFamily::C) => {
                return Err(wrong_node_error(key, "an array", "a group"));
            }
            (Some(Node::Group(doc)), _) => {
                if let Some(layout) = doc.attributes.get("layout") {
                    return Err(unknown_layout_error(key, layout));
                }
                let rank = endpoints_rank(key, &doc.attributes).unwrap_or(self.rank);
                (rank, doc.attributes.clone())
            }
            (None, _) if is_implicit(shared, key).await? => (self.rank, Object::new()),
            (None, _) => return Ok(None),
        };
        Ok(Some(Cells::from_group(shared, key, attributes, rank)))
    }

    /// Returns the rows at `path`, such as `parametric/names`, or `object_index` (its manifests) or
    /// `groups` of a level; `None` if there is no such node.
    ///
    /// # Errors
    ///
    /// When the document is not that of an array of rows, or names an unknown layout.
    #[boxed]
    pub async fn rows(&self, path: &str) -> Result<Option<Rows>> {
        let key = self.key(path)?;
        open_once(&self.opened.rows, &key, self.open_rows(&key)).await
    }

    async fn open_rows(&self, key: &Key) -> Result<Option<Rows>> {
        let shared = &self.opened.shared;
        let rows = match shared.node(key).await?.as_deref() {
            None => return Ok(None),
            Some(Node::Array(doc)) => Rows::from_array(shared, key, doc, &doc.attributes)?,
            Some(Node::Group(group)) => match group.attributes.get("layout") {
                Some(layout) => {
                    let is_known = |text: &str| VLEN_MANIFESTS.contains(&text);
                    if !layout.as_str().is_some_and(is_known) {
                        return Err(unknown_layout_error(key, layout));
                    }
                    manifests(shared, key, group).await?
                }
                None if is_flat(shared.family, group) => Rows::from_group(shared, key, group)?,
                None => return Err(wrong_node_error(key, "an array of rows", "a group")),
            },
        };
        Ok(Some(rows))
    }

    /// Returns the items at `path`, such as `parametric/objects`, or `object_attributes/mass` or
    /// `object_index/object_ids` of a level; `None` if there is no such node.
    ///
    /// # Errors
    ///
    /// When the document is not that of an array of fixed-size items.
    #[boxed]
    pub async fn dense(&self, path: &str) -> Result<Option<DenseArray>> {
        let (key, shared) = (self.key(path)?, &self.opened.shared);
        let open = async {
            match shared.node(&key).await?.as_deref() {
                None => Ok(None),
                Some(Node::Array(doc)) => DenseArray::from_array(shared, &key, doc).map(Some),
                Some(Node::Group(doc)) => DenseArray::from_group(shared, &key, doc).map(Some),
            }
        };
        open_once(&self.opened.dense, &key, open).await
    }

    /// Returns the document of the group at `path`, such as `parametric` or `headers/swc`; `None`
    /// when there is no such node. In the older families, a group with children but without a
    /// document has an empty document.
    ///
    /// # Errors
    ///
    /// When the node is an array, or its document cannot be read.
    #[boxed]
    pub async fn group(&self, path: &str) -> Result<Option<GroupDoc>> {
        let (key, shared) = (self.key(path)?, &self.opened.shared);
        match shared.node(&key).await?.as_deref() {
            Some(Node::Group(doc)) => Ok(Some(doc.clone())),
            Some(Node::Array(_)) => Err(wrong_node_error(&key, "a group", "an array")),
            None if is_implicit(shared, &key).await? => Ok(Some(GroupDoc::default())),
            None => Ok(None),
        }
    }

    /// Returns the names below the node at `path`; no names if it does not exist.
    ///
    /// If the backend cannot list, these are the names that the root declares, and the answer is
    /// marked as possibly incomplete.
    ///
    /// # Errors
    ///
    /// When the backend fails.
    #[boxed]
    pub async fn children(&self, path: &str) -> Result<Listing> {
        let (key, shared) = (self.key(path)?, &self.opened.shared);
        if shared.source.can_list() {
            // Chunks are only below arrays: below a group, the same name has no special meaning.
            let (node, children) = join(shared.node(&key), shared.source.children(&key)).await;
            let node = node?;
            let is_chunks = |name: &str| match node.as_deref() {
                Some(Node::Array(doc)) => match chunk_folder(doc.chunk_key_encoding) {
                    Some(folder) => name == folder,
                    None => name.parse::<u64>().is_ok(),
                },
                Some(Node::Group(_)) | None => false,
            };
            let nodes =
                children?.into_iter().filter(|child| child.is_dir && !is_chunks(&child.name));
            return Ok(Listing { names: nodes.map(|child| child.name).collect(), complete: true });
        }
        shared.notices.add(Notice::CannotEnumerate { key: key.clone() });
        let mut names = Vec::new();
        for name in declared_attributes(shared, &key) {
            if shared.node(&key.child(&name)?).await?.is_some() {
                names.push(name);
            }
        }
        Ok(Listing { names, complete: false })
    }

    /// Returns every stored object below `path` with its size, by key; an empty path is the whole store.
    ///
    /// # Errors
    ///
    /// [`Class::Unsupported`](zvf_format::Class::Unsupported) when the backend cannot list,
    /// [`Class::LimitExceeded`](zvf_format::Class::LimitExceeded) past ten million objects; otherwise when it fails.
    #[boxed]
    pub async fn objects(&self, path: &str) -> Result<Vec<(Key, u64)>> {
        self.listable()?.list(&self.key(path)?).await
    }

    /// Streams every stored object with its key, documents first, for copying the store unchanged.
    /// Only a few are in memory at once.
    ///
    /// # Errors
    ///
    /// As [`objects`](Self::objects); in the stream, when an object cannot be read.
    pub async fn stream_objects(&self) -> Result<ObjectStream<'static>> {
        let shared = Arc::clone(&self.opened.shared);
        let listed = self.objects("").await?;
        let mut keys: Vec<Key> = listed.into_iter().map(|(key, _)| key).collect();
        let depth = |key: &Key| key.as_str().matches('/').count();
        keys.sort_by_key(|key| (document_path(key).is_none(), depth(key)));
        let batches: Vec<Vec<Key>> = keys.chunks(OBJECT_BATCH).map(<[Key]>::to_vec).collect();
        let read = stream::iter(batches).then(move |keys| {
            let shared = Arc::clone(&shared);
            async move {
                let objects = shared.stored_objects(&keys).await?;
                let named =
                    objects.into_iter().map(|(key, object)| (key.as_str().to_owned(), object));
                Ok::<_, Error>(stream::iter(named.map(Ok)))
            }
        });
        Ok(read.try_flatten().boxed())
    }

    /// Returns the documents of all nodes as stored, each with the key of its node, in key order.
    ///
    /// # Errors
    ///
    /// As [`objects`](Self::objects), and when a document cannot be read.
    #[boxed]
    pub async fn documents(&self) -> Result<Vec<(Key, Bytes)>> {
        let mut documents = Vec::new();
        for (object, _) in self.objects("").await? {
            if document_node(&object)?.is_some() {
                documents.push(object);
            }
        }
        let mut read = Vec::with_capacity(documents.len());
        for some in documents.chunks(DOCUMENT_BATCH) {
            for (object, text) in self.opened.shared.stored_objects(some).await? {
                read.extend(document_node(&object)?.map(|node| (node, text)));
            }
        }
        read.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Ok(read)
    }

    /// Returns the names of the objects directly below the node at `path`, including its document.
    ///
    /// For checking the store: only the document belongs here.
    ///
    /// # Errors
    ///
    /// [`Class::Unsupported`](zvf_format::Class::Unsupported) when the backend cannot list; otherwise when it fails.
    pub async fn files(&self, path: &str) -> Result<Vec<String>> {
        Ok(self.entries(path).await?.files)
    }

    /// Returns all names directly below `path`, objects and folders separately.
    ///
    /// # Errors
    ///
    /// As [`files`](Self::files).
    #[boxed]
    pub async fn entries(&self, path: &str) -> Result<Entries> {
        let children = self.listable()?.children(&self.key(path)?).await?;
        let (folders, files): (Vec<_>, Vec<_>) =
            children.into_iter().partition(|child| child.is_dir);
        let names = |list: Vec<Child>| list.into_iter().map(|child| child.name).collect();
        Ok(Entries { files: names(files), folders: names(folders) })
    }
}

async fn manifests(shared: &Arc<Handle>, key: &Key, group: &GroupDoc) -> Result<Rows> {
    let key = key.child("manifests")?;
    match shared.node(&key).await?.as_deref() {
        None => Err(Error::missing(&key, "the object index names this layout")),
        Some(Node::Array(doc)) => Rows::from_array(shared, &key, doc, &group.attributes),
        Some(Node::Group(_)) => Err(wrong_node_error(&key, "an array", "a group")),
    }
}

/// Returns the names of the attributes that the root declares for the group under `key`.
fn declared_attributes(shared: &Handle, key: &Key) -> BTreeSet<String> {
    let Some(Ok(specs)) = shared.root.zarr_vectors.attribute_specs() else {
        return BTreeSet::new();
    };
    let scope = match key.name() {
        Some("vertex_attributes") => "vertex",
        Some("object_attributes") => "object",
        Some("link_attributes") => "link",
        _ => return BTreeSet::new(),
    };
    let declared = specs.scopes.iter().filter(|(name, _)| name == scope);
    declared.flat_map(|(_, attributes)| attributes.iter().map(|(name, _)| name.clone())).collect()
}

/// Returns whether this is a group of families A and B without a document.
async fn is_implicit(shared: &Handle, key: &Key) -> Result<bool> {
    if shared.family == LayoutFamily::C || !shared.source.can_list() {
        return Ok(false);
    }
    Ok(shared.source.children(key).await?.iter().any(|child| child.is_dir))
}

/// Returns whether a group of family A stores its rows as data and offsets. Groups of parametric
/// objects have no tag.
fn is_flat(family: LayoutFamily, group: &GroupDoc) -> bool {
    match group.attributes.get("zv_array").and_then(serde_json::Value::as_str) {
        Some(tag) => matches!(tag, "object_index" | "groups"),
        None => family != LayoutFamily::C && group.attributes.contains_key("num_groups"),
    }
}

/// Returns the number of components of the keys of 0.8's cross-chunk cells: those of all endpoints.
fn endpoints_rank(key: &Key, attributes: &Object) -> Option<usize> {
    key.segments().find(|segment| segment.starts_with("cross_chunk_link"))?;
    let number = |key| usize::try_from(attributes.get(key)?.as_u64()?).ok();
    number("sid_ndim")?.checked_mul(number("link_width")?)
}

/// Returns the node that was first opened under `key`, or the result of `open` if there is none.
async fn open_once<T: Clone>(
    opened: &Mutex<HashMap<Key, T>>,
    key: &Key,
    open: impl Future<Output = Result<Option<T>>>,
) -> Result<Option<T>> {
    let found = lock(opened).get(key).cloned();
    if found.is_some() {
        return Ok(found);
    }
    let new = open.await?;
    Ok(new.map(|new| lock(opened).entry(key.clone()).or_insert(new).clone()))
}

fn unknown_layout_error(key: &Key, layout: &serde_json::Value) -> Error {
    let name = layout.as_str().unwrap_or("another value");
    Error::unsupported("layout", name).at_key(key)
}

fn wrong_node_error(key: &Key, rule: &'static str, found: &'static str) -> Error {
    Error::new(Class::BadTag, "node", rule, found).at_key(key)
}

/// Layouts of an object index whose manifests are rows.
const VLEN_MANIFESTS: [&str; 2] = ["vlen_manifests_v1", "vlen_manifests_v2"];

/// Number of documents that are read at once.
const DOCUMENT_BATCH: usize = 256;
/// Number of objects that are read at once when all are read.
const OBJECT_BATCH: usize = 64;
