//! A store by its paths: documents, arrays and objects, regardless of their meaning.
//!
//! To read levels, use [`Store::level`]. This is for checking, copying and converting a store, and
//! for nodes next to the levels.
//!
//! Not here: the meaning of a node.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use zvf_error::{Error, Result};
use zvf_metadata::{GroupDoc, Node};

use crate::key::Key;
use crate::layout::{Cells, DenseArray, Rows};
use crate::node::{self, Entries, Listing};
use crate::open::Store;
use crate::source::Child;
use crate::versions::ObjectStream;

/// The nodes of a store by path: see [`Store::nodes`].
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
#[derive(Clone, Copy, Debug)]
pub struct Nodes<'a> {
    store: &'a Store,
}

impl Store {
    /// Returns the nodes of the store by path, for checking, copying and converting it.
    #[must_use]
    pub const fn nodes(&self) -> Nodes<'_> {
        Nodes { store: self }
    }
}

impl<'a> Nodes<'a> {
    /// Returns the document of the group at `path`, such as `parametric` or `headers/swc`; `None`
    /// if there is none.
    ///
    /// # Errors
    ///
    /// When the node is an array, or its document cannot be read.
    #[boxed]
    pub async fn group(&self, path: &str) -> Result<Option<GroupDoc>> {
        node::group(self.store.shared_state(), &Key::root().join(path)?).await
    }

    /// Returns the rows at `path`, such as `parametric/names`; `None` if there are none.
    ///
    /// # Errors
    ///
    /// As [`LevelNode::rows`](crate::LevelNode::rows).
    #[boxed]
    pub async fn rows(&self, path: &str) -> Result<Option<Rows>> {
        node::rows(self.store.opened_state(), &Key::root().join(path)?).await
    }

    /// Returns the items at `path`, such as `parametric/objects`; `None` if there are none.
    ///
    /// # Errors
    ///
    /// As [`LevelNode::dense`](crate::LevelNode::dense).
    #[boxed]
    pub async fn dense(&self, path: &str) -> Result<Option<DenseArray>> {
        node::dense(self.store.opened_state(), &Key::root().join(path)?).await
    }

    /// Returns the document of the node at `path`, array or group; an empty path is the root.
    /// `None` if there is no node.
    ///
    /// # Errors
    ///
    /// When the document cannot be read.
    #[boxed]
    pub async fn node(&self, path: &str) -> Result<Option<Arc<Node>>> {
        self.store.shared_state().node(&parse_path(path)?).await
    }

    /// Returns every stored object below `path` with its size, by key; an empty path is the whole store.
    ///
    /// # Errors
    ///
    /// [`Class::Unsupported`](zvf_format::Class::Unsupported) when the backend cannot list,
    /// [`Class::LimitExceeded`](zvf_format::Class::LimitExceeded) past ten million objects; otherwise when it fails.
    #[boxed]
    pub async fn objects(&self, path: &str) -> Result<Vec<(Key, u64)>> {
        let key = parse_path(path)?;
        if !self.store.shared_state().source.can_list() {
            return Err(Error::unsupported("enumeration without", "a listing"));
        }
        self.store.shared_state().source.list(&key).await
    }

    /// Streams every stored object with its key, documents first, for copying the store unchanged.
    /// Only a few are in memory at once.
    ///
    /// # Errors
    ///
    /// As [`objects`](Self::objects); in the stream, when an object cannot be read.
    pub async fn stream_objects(&self) -> Result<ObjectStream<'a>> {
        let (store, listed) = (self.store, self.objects("").await?);
        let mut keys: Vec<Key> = listed.into_iter().map(|(key, _)| key).collect();
        let depth = |key: &Key| key.as_str().matches('/').count();
        keys.sort_by_key(|key| (key.as_str().rsplit('/').next() != Some(DOCUMENT), depth(key)));
        let batches: Vec<Vec<Key>> = keys.chunks(OBJECT_BATCH).map(<[Key]>::to_vec).collect();
        let read = stream::iter(batches).then(move |keys| async move {
            let objects = store.stored_objects(&keys).await?;
            let named = keys.into_iter().map(|key| key.as_str().to_owned()).zip(objects);
            Ok::<_, Error>(stream::iter(named.map(Ok)))
        });
        Ok(read.try_flatten().boxed())
    }

    /// Returns the chunks of the array at `path`, wherever it is; `None` if there is no such array.
    ///
    /// # Errors
    ///
    /// As [`LevelNode::cells`](crate::LevelNode::cells).
    #[boxed]
    pub async fn cells(&self, path: &str) -> Result<Option<Cells>> {
        self.store.cells_at(&parse_path(path)?).await
    }

    /// Returns the documents of all nodes as stored, each with the key of its node, in key order.
    ///
    /// # Errors
    ///
    /// As [`objects`](Self::objects), and when a document cannot be read.
    #[boxed]
    pub async fn documents(&self) -> Result<Vec<(Key, Bytes)>> {
        let objects = self.objects("").await?;
        let mut documents = Vec::new();
        for (object, _) in objects {
            let node = match object.as_str().rsplit_once('/') {
                None if object.as_str() == DOCUMENT => Key::root(),
                Some((node, DOCUMENT)) => Key::root().join(node)?,
                _ => continue,
            };
            documents.push((node, object));
        }
        let mut read = Vec::with_capacity(documents.len());
        for some in documents.chunks(DOCUMENT_BATCH) {
            let objects: Vec<Key> = some.iter().map(|(_, object)| object.clone()).collect();
            let texts = self.store.stored_objects(&objects).await?;
            read.extend(some.iter().map(|(node, _)| node.clone()).zip(texts));
        }
        read.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Ok(read)
    }

    /// Returns the names below the node at `path`; an empty path is the root.
    ///
    /// # Errors
    ///
    /// As [`LevelNode::children`](crate::LevelNode::children).
    #[boxed]
    pub async fn children(&self, path: &str) -> Result<Listing> {
        node::children(self.store.shared_state(), &parse_path(path)?).await
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
        let key = parse_path(path)?;
        if !self.store.shared_state().source.can_list() {
            return Err(Error::unsupported("enumeration without", "a listing"));
        }
        let children = self.store.shared_state().source.children(&key).await?;
        let (folders, files): (Vec<_>, Vec<_>) =
            children.into_iter().partition(|child| child.is_dir);
        let names = |list: Vec<Child>| list.into_iter().map(|child| child.name).collect();
        Ok(Entries { files: names(files), folders: names(folders) })
    }
}

/// Returns the key of a path that may be empty.
fn parse_path(path: &str) -> Result<Key> {
    let root = Key::root();
    if path.is_empty() { Ok(root) } else { root.join(path) }
}

const DOCUMENT: &str = "zarr.json";
/// Number of documents that are read at once.
const DOCUMENT_BATCH: usize = 256;
/// Number of objects that are read at once when all are read.
const OBJECT_BATCH: usize = 64;
