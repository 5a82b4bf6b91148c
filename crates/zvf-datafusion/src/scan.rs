//! `Scan` and `Task`: serializable descriptions of what a scan reads.

use serde::{Deserialize, Serialize};
use zvf::format::key::ChunkKey;
use zvf::model::Groups;
use zvf::{Columns, LevelId, ObjectId, Query, UnknownIds};

use datafusion::error::Result;

use crate::external_error;
use crate::limits::group_numbers;
use crate::table::TableOptions;

/// A scan of one table: its columns and the conditions that the store evaluates.
///
/// ```
/// use zvf_datafusion::Scan;
///
/// let scan = Scan::default();
/// let text = serde_json::to_string(&scan)?;
/// assert_eq!(serde_json::from_str::<Scan>(&text)?, scan);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Scan {
    /// The table.
    pub options: TableOptions,
    /// The columns, by name, in the order of the answer.
    pub columns: Vec<String>,
    /// The condition on rows, as `zvf query --where` takes it.
    pub predicate: Option<String>,
    /// The selected objects; `None` selects all.
    pub objects: Option<Vec<i64>>,
    /// The numbers of the selected groups; `None` selects all.
    #[serde(default)]
    pub groups: Option<Vec<u64>>,
    /// The names of the selected groups; `None` selects all.
    #[serde(default)]
    pub group_names: Option<Vec<String>>,
    /// Maximum rows of each task.
    pub limit: Option<u64>,
    /// Number of chunks that planning pruned, for `EXPLAIN ANALYZE`.
    #[serde(default)]
    pub pruned: u64,
    /// What the commit and the documents that are read hash to: all processes read the same ones.
    #[serde(default)]
    pub state: Option<u64>,
    /// The number of the plan: its tasks in one process share the open store.
    #[serde(default)]
    pub plan: Option<u64>,
}

/// A part of a scan. Each row belongs to exactly one task of a scan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Task {
    /// The chunks from one key up to another: see [`Query::in_chunks`], and for links
    /// [`Query::with_links_of_chunks`].
    Chunks {
        /// The first key.
        first: Option<String>,
        /// The key behind the last one.
        end: Option<String>,
        /// The number of chunks.
        cells: u64,
    },
    /// Rows of the object index.
    Rows {
        /// The first.
        start: u64,
        /// One past the last.
        end: u64,
    },
    /// All rows.
    All,
}

impl Scan {
    /// Returns the query for the vertices of the scan, without columns.
    pub(crate) fn vertex_query(&self) -> Result<Query> {
        let mut query = self.base_query().vertices_only().unknown_ids(UnknownIds::Skip);
        if let Some(text) = &self.predicate {
            query = query.filter(text.parse().map_err(external_error)?);
        }
        if let Some(ids) = &self.objects {
            query = query.of_objects(ids.iter().copied().map(ObjectId));
        }
        if let Some(numbers) = &self.groups {
            query = query.in_groups(numbers.iter().copied());
        }
        Ok(query)
    }

    /// Returns the numbers of the selected groups.
    pub(crate) fn select_groups(&self, groups: &Groups) -> Result<Vec<u64>> {
        let is_selected = |group: &u64| {
            let has_name =
                |names: &Vec<String>| groups.name(*group).is_some_and(|name| names.contains(&name));
            self.groups.as_ref().is_none_or(|numbers| numbers.contains(group))
                && self.group_names.as_ref().is_none_or(has_name)
        };
        Ok(group_numbers(groups)?.filter(is_selected).collect())
    }

    /// Returns the query for all of the level, without columns.
    pub(crate) fn base_query(&self) -> Query {
        let TableOptions { level, kind, .. } = self.options;
        let query = Query::all().at_level(LevelId(level)).columns(Columns::None).uncached();
        kind.into_iter().fold(query, Query::of_kind)
    }
}

impl Task {
    /// Restricts a query to the chunks of this task, with [`Query::in_chunks`] or
    /// [`Query::with_links_of_chunks`].
    pub(crate) fn narrow(
        &self,
        query: Query,
        restrict: fn(Query, Option<ChunkKey>, Option<ChunkKey>) -> Query,
    ) -> Result<Query> {
        Ok(match self.keys()? {
            Some((first, end)) => restrict(query, first, end),
            None => query,
        })
    }

    /// Returns the first key and the key behind the last one; `None` for a task that does not go by chunks.
    pub(crate) fn keys(&self) -> Result<Option<(Option<ChunkKey>, Option<ChunkKey>)>> {
        let parse = |key: &Option<String>| -> Result<Option<ChunkKey>> {
            let parsed = key.as_deref().map(str::parse::<ChunkKey>);
            parsed.transpose().map_err(external_error)
        };
        match self {
            Self::Chunks { first, end, .. } => Ok(Some((parse(first)?, parse(end)?))),
            Self::Rows { .. } | Self::All => Ok(None),
        }
    }

    /// Returns the number of chunks; 0 for a task that does not go by chunks.
    pub(crate) const fn cells(&self) -> u64 {
        match self {
            Self::Chunks { cells, .. } => *cells,
            Self::Rows { .. } | Self::All => 0,
        }
    }
}
