//! Groups of objects: names, members, and values.
//!
//! ```text
//! groups                     row g: ids of the members, i64, in the order they were given
//!   group_ranges             {"g": [start, stop)}: every id between, and an empty row
//!   group_names              names by row; without one, row g is called group_<g>
//! group_attributes/<name>    row g: values of group g
//! ```
//!
//! A range may contain any number of ids, so it is returned as a range and never expanded.

use async_recursion::async_recursion as boxed;
use std::sync::Arc;

use zvf_error::{Error, Locate as _, Result};
use zvf_format::num::{i64s_from_le, to_u64};
use zvf_format::{Class, Expected};
use zvf_metadata::arrays::{ArrayAttributes as _, GroupsAttrs as Doc};
use zvf_store::{Listing, Rows, Store};

use crate::open::{list_nodes, refuse_stored};
use crate::{LevelReader, ObjectId, RowAttribute};

/// The groups of a level, or of the parametric objects of a store; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/bridge.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// # let level = zvf_model::LevelReader::open(&store, zvf_model::LevelId(0)).await?;
/// use zvf_model::{Members, ObjectId};
///
/// let groups = level.groups().await?.expect("the level has groups");
/// assert_eq!((groups.find("left"), groups.name(1).as_deref()), (Some(0), Some("group_1")));
/// let members = groups.members(&[0, 1]).await?;
/// assert_eq!(members, [Members::Ids(vec![ObjectId(7)]), Members::Range { start: 0, stop: 10 }]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Groups {
    doc: Arc<Doc>,
    rows: Rows,
}

/// The members of one group.
///
/// ```
/// use zvf_model::{Members, ObjectId};
///
/// let range = Members::Range { start: 2, stop: i64::MAX };
/// assert!(range.contains(ObjectId(1 << 40)) && !range.contains(ObjectId(1)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Members {
    /// These ids, in input order.
    Ids(Vec<ObjectId>),
    /// Every id from `start` up to `stop`; empty if they do not ascend.
    Range {
        /// The first id.
        start: i64,
        /// One past the last.
        stop: i64,
    },
}

impl Members {
    /// Returns whether `object` is one of them.
    pub fn contains(&self, object: ObjectId) -> bool {
        match self {
            Self::Ids(ids) => ids.contains(&object),
            Self::Range { start, stop } => (*start..*stop).contains(&object.0),
        }
    }

    /// Returns the number of members, with repetitions; a `u64`, because a range of a few bytes can
    /// contain more than memory holds.
    pub fn len(&self) -> u64 {
        match self {
            Self::Ids(ids) => to_u64(ids.len()),
            Self::Range { start, stop } if start < stop => start.abs_diff(*stop),
            Self::Range { .. } => 0,
        }
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl LevelReader {
    /// Returns the groups of the level; `None` when it has none.
    ///
    /// # Errors
    ///
    /// When their document lacks information that is needed to read them.
    #[boxed]
    pub async fn groups(&self) -> Result<Option<Groups>> {
        let node = self.enclosing_node();
        if node.lacks("groups") {
            return Ok(None);
        }
        match node.rows("groups").await? {
            Some(rows) => Groups::new(rows).map(Some),
            None => refuse_stored(node, "groups").await.map(|()| None),
        }
    }

    /// Returns the attribute of groups called `name`, by group; `None` if there is none.
    ///
    /// # Errors
    ///
    /// When its document lacks information that is needed to read it.
    #[boxed]
    pub async fn group_attribute(&self, name: &str) -> Result<Option<RowAttribute>> {
        let array = self.enclosing_node().dense(&format!("group_attributes/{name}")).await?;
        array.map(|array| RowAttribute::new(name, array)).transpose()
    }

    /// Returns all attributes of groups.
    ///
    /// # Errors
    ///
    /// When the document of one is missing, or lacks information that is needed to read it.
    #[boxed]
    pub async fn group_attributes(&self) -> Result<Vec<RowAttribute>> {
        RowAttribute::open_all(self.enclosing_node(), "group_attributes").await
    }

    /// Returns the names of the attributes of groups, and whether the list is complete.
    ///
    /// # Errors
    ///
    /// When the backend fails.
    #[boxed]
    pub async fn group_attribute_names(&self) -> Result<Listing> {
        list_nodes(self.enclosing_node(), "group_attributes").await
    }
}

impl Groups {
    pub(crate) fn new(rows: Rows) -> Result<Self> {
        let doc = Doc::parse(rows.attributes().clone()).at_array(rows.path())?;
        Ok(Self { doc: Arc::new(doc), rows })
    }

    /// Returns the groups of parametric objects.
    pub(crate) async fn open_parametric(store: &Store) -> Result<Option<Self>> {
        store.nodes().rows("parametric/groups").await?.map(Self::new).transpose()
    }

    /// Returns the number of groups; a `u64`, because they are not in memory.
    pub fn len(&self) -> u64 {
        self.doc.num_groups
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the name of group `group`: its own, or one derived from its number; `None` past the
    /// last.
    pub fn name(&self, group: u64) -> Option<String> {
        let group = usize::try_from(group).ok().filter(|_| group < self.len())?;
        Some(self.doc.name(group))
    }

    /// Returns the first group called `name`; `group_<g>` is group g, unless that group has its own
    /// name.
    pub fn find(&self, name: &str) -> Option<u64> {
        let named = self.doc.names.as_deref().unwrap_or_default();
        let listed = named.iter().position(|other| other == name).map(to_u64);
        let made = || {
            let group: u64 = name.strip_prefix("group_")?.parse().ok()?;
            (self.name(group)? == name).then_some(group)
        };
        listed.filter(|group| *group < self.len()).or_else(made)
    }

    /// Returns the members of `groups`, in that order.
    ///
    /// # Errors
    ///
    /// [`Class::OutOfBounds`] when there is no such group, [`Class::Misaligned`] when its row is
    /// not a whole number of ids; otherwise when the rows cannot be read.
    #[boxed]
    pub async fn members(&self, groups: &[u64]) -> Result<Vec<Members>> {
        let place = |error: Error| error.at_array(self.rows.path());
        if let Some(past) = groups.iter().find(|group| **group >= self.len()) {
            return Err(place(Error::new(
                Class::OutOfBounds,
                "group",
                Expected::AtMost(i128::from(self.len()) - 1),
                *past,
            )));
        }
        let rows = self.rows.rows(groups).await?;
        let members = rows.iter().zip(groups).map(|(row, group)| {
            let ranges = self.doc.ranges.as_deref().unwrap_or_default();
            if let Some(range) = ranges.iter().find(|range| range.group == *group) {
                return Ok(Members::Range { start: range.start, stop: range.stop });
            }
            if row.len().checked_rem(8) != Some(0) {
                return Err(place(Error::new(
                    Class::Misaligned,
                    "bytes of a group",
                    Expected::MultipleOf(8),
                    row.len(),
                )));
            }
            Ok(Members::Ids(i64s_from_le(row).map(ObjectId).collect()))
        });
        members.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_counted_and_found() {
        let ids = Members::Ids(vec![ObjectId(3), ObjectId(-1), ObjectId(3)]);
        assert_eq!(
            (ids.len(), ids.contains(ObjectId(-1)), ids.contains(ObjectId(0))),
            (3, true, false)
        );
        for (start, stop, len) in [(0, 4, 4), (4, 4, 0), (4, 0, 0), (i64::MIN, i64::MAX, u64::MAX)]
        {
            let range = Members::Range { start, stop };
            assert_eq!((range.len(), range.is_empty()), (len, len == 0));
            assert!(!range.contains(ObjectId(stop)));
        }
    }
}
