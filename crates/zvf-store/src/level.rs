//! One resolution level: its document, and the arrays by name.
//!
//! Not here: the content of the arrays, and which of them belong together.

use async_recursion::async_recursion as boxed;
use std::sync::Arc;

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_metadata::{GroupDoc, LevelDoc, Node};

use crate::key::Key;
use crate::layout::{Cells, DenseArray, Rows};
use crate::node::{self, Listing, Opened};

/// A level of an open store; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/three.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// let level = store.level(0).await?;
/// assert_eq!((level.number(), level.meta().vertex_count, level.key_rank()), (0, 3, 2));
/// assert!(level.cells("links/0/0.0").await?.is_none());
/// assert_eq!(level.children("").await?.names, ["vertex_fragments", "vertices"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LevelNode {
    opened: Arc<Opened>,
    key: Key,
    number: u32,
    meta: Arc<LevelDoc>,
}

impl LevelNode {
    pub(crate) async fn open(opened: &Arc<Opened>, number: u32) -> Result<Self> {
        Self::open_at(opened, Key::root().child(&number.to_string())?, number).await
    }

    /// Returns the group at `key` as level `number`.
    async fn open_at(opened: &Arc<Opened>, key: Key, number: u32) -> Result<Self> {
        let group = match opened.shared.node(&key).await?.as_deref() {
            Some(Node::Group(group)) => group.clone(),
            None => {
                let line = format!("NotFound, level {number} does not exist");
                return Err(Error::from_line(Class::NotFound, line).at_key(&key));
            }
            Some(Node::Array(_)) => {
                return Err(Error::new(Class::BadTag, "node", "a group", "an array").at_key(&key));
            }
        };
        let meta = LevelDoc::from_group(group).map_err(|error| {
            Error::from(error).at_key(key.child("zarr.json").unwrap_or(key.clone()))
        })?;
        Ok(Self { opened: Arc::clone(opened), key, number, meta: Arc::new(meta) })
    }

    /// Returns its number; 0 is the full data.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns its path below the root of the store.
    #[must_use]
    pub fn path(&self) -> &Key {
        &self.key
    }

    /// Returns its document.
    #[must_use]
    pub fn meta(&self) -> &LevelDoc {
        &self.meta
    }

    /// Returns the number of components of its chunk keys: one per axis, and one more if keys have
    /// a leading axis, as in levels that are binned by an attribute or chunked by group.
    #[must_use]
    pub fn key_rank(&self) -> usize {
        self.meta.key_rank(self.opened.shared.root.axes().len())
    }

    /// Returns the chunks of the array at `name`, such as `vertices`, `vertex_attributes/intensity`
    /// or `links/0/0.0.0`; `None` if there is no such array.
    ///
    /// # Errors
    ///
    /// When the document is not that of an array of chunks, or describes an unknown layout. An
    /// unknown codec is reported when chunks are read.
    #[boxed]
    pub async fn cells(&self, name: &str) -> Result<Option<Cells>> {
        node::cells(&self.opened, &self.child_key(name)?, self.key_rank()).await
    }

    /// Like [`cells`](Self::cells), for a required array.
    ///
    /// # Errors
    ///
    /// As for `cells`, and [`Class::NotFound`] when there is no such array.
    #[boxed]
    pub async fn required_cells(&self, name: &str) -> Result<Cells> {
        let cells = self.cells(name).await?;
        cells.map_or_else(
            || Err(Error::missing(&self.child_key(name)?, "a level needs this array")),
            Ok,
        )
    }

    /// Returns the rows at `name`, such as `object_index` (its manifests) or `groups`; `None` if
    /// there is no such node.
    ///
    /// # Errors
    ///
    /// When the document is not that of an array of rows, or names an unknown layout.
    #[boxed]
    pub async fn rows(&self, name: &str) -> Result<Option<Rows>> {
        node::rows(&self.opened, &self.child_key(name)?).await
    }

    /// Returns the items at `name`, such as `object_attributes/mass` or `object_index/object_ids`;
    /// `None` if there is no such node.
    ///
    /// # Errors
    ///
    /// When the document is not that of an array of fixed-size items.
    #[boxed]
    pub async fn dense(&self, name: &str) -> Result<Option<DenseArray>> {
        node::dense(&self.opened, &self.child_key(name)?).await
    }

    /// Returns the document of the group at `name`; `None` when there is no such node. In the older
    /// families, a group with children but without a document has an empty document.
    ///
    /// # Errors
    ///
    /// When the node is an array, or its document cannot be read.
    #[boxed]
    pub async fn group(&self, name: &str) -> Result<Option<GroupDoc>> {
        node::group(&self.opened.shared, &self.child_key(name)?).await
    }

    /// Returns the names below the node at `name`, or below the level if it is empty; no names if
    /// it does not exist.
    ///
    /// If the backend cannot list, these are the names that the root declares, and the answer is
    /// marked as possibly incomplete.
    ///
    /// # Errors
    ///
    /// When the backend fails.
    #[boxed]
    pub async fn children(&self, name: &str) -> Result<Listing> {
        node::children(&self.opened.shared, &self.child_key(name)?).await
    }

    /// Returns the group `name` of this level, which contains a further geometry in the structure
    /// of a level.
    ///
    /// # Errors
    ///
    /// [`Class::NotFound`] when it does not exist; otherwise when its document cannot be read.
    #[boxed]
    pub async fn geometry(&self, name: &str) -> Result<Self> {
        Self::open_at(&self.opened, self.child_key(name)?, self.number).await
    }

    /// Returns the key of `name` below this level; an empty name is the level itself.
    fn child_key(&self, name: &str) -> Result<Key> {
        if name.is_empty() { Ok(self.key.clone()) } else { self.key.join(name) }
    }
}
