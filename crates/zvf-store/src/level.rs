//! One resolution level: its document, and the arrays by name.
//!
//! Not here: the content of the arrays, and which of them belong together.

use async_recursion::async_recursion as boxed;
use std::ops::Deref;
use std::sync::Arc;

use zvf_error::{Error, Locate as _, Result};
use zvf_format::Class;
use zvf_metadata::{LevelDoc, Node};

use crate::docs::document;
use crate::key::Key;
use crate::layout::Cells;
use crate::nodes::{Nodes, Opened};

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
    nodes: Nodes,
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
        let meta = LevelDoc::from_group(group).at_key(&document(&key)?)?;
        let rank = meta.key_rank(opened.shared.root.axes().len());
        let nodes = Nodes { opened: Arc::clone(opened), base: key, rank };
        Ok(Self { nodes, number, meta: Arc::new(meta) })
    }

    /// Returns its number; 0 is the full data.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns its path below the root of the store.
    pub fn path(&self) -> &Key {
        &self.nodes.base
    }

    /// Returns its document.
    pub fn meta(&self) -> &LevelDoc {
        &self.meta
    }

    /// Returns the number of components of its chunk keys: one per axis, and one more if keys have
    /// a leading axis, as in levels that are binned by an attribute or chunked by group.
    pub fn key_rank(&self) -> usize {
        self.nodes.rank
    }

    /// Returns whether the level states that it has no `name`, for a backend that cannot list. The
    /// statement ends with the first edit of the store.
    pub fn lacks(&self, name: &str) -> bool {
        !self.nodes.opened.shared.source.can_list()
            && self.stated_absent().any(|absent| absent == name)
    }

    /// Returns what the level states that it does not have; nothing after the first edit of the
    /// store.
    pub fn stated_absent(&self) -> impl Iterator<Item = &str> {
        let edited = self.nodes.opened.shared.root.extras.contains_key("zvf");
        let stated = self.meta.extras.get(ABSENT).filter(|_| !edited);
        let names = stated.and_then(serde_json::Value::as_array).into_iter().flatten();
        names
            .filter_map(serde_json::Value::as_str)
            .filter(|name| !self.meta.arrays_present.iter().any(|present| present == name))
    }

    /// Like [`cells`](Nodes::cells), for a required array.
    ///
    /// # Errors
    ///
    /// As for `cells`, and [`Class::NotFound`] when there is no such array.
    #[boxed]
    pub async fn required_cells(&self, name: &str) -> Result<Cells> {
        let cells = self.cells(name).await?;
        cells.map_or_else(|| Err(Error::missing(&self.key(name)?, "a level needs this array")), Ok)
    }

    /// Returns the group `name` of this level, which contains a further geometry in the structure
    /// of a level.
    ///
    /// # Errors
    ///
    /// [`Class::NotFound`] when it does not exist; otherwise when its document cannot be read.
    #[boxed]
    pub async fn geometry(&self, name: &str) -> Result<Self> {
        Self::open_at(&self.nodes.opened, self.key(name)?, self.number).await
    }
}

/// The key of a level for the optional arrays and groups that it does not have, such as `groups`.
pub const ABSENT: &str = "zvf.absent";

/// The nodes below the level, by name.
impl Deref for LevelNode {
    type Target = Nodes;

    fn deref(&self) -> &Nodes {
        &self.nodes
    }
}
