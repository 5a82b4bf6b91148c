//! `Scan` and `Task`: serializable descriptions of what a scan reads.

use serde::{Deserialize, Serialize};
use zvf::format::key::ChunkKey;
use zvf::{Columns, Kind, LevelId, ObjectId, Query, UnknownIds};

use datafusion::error::Result;

use crate::table::{TableName, TableOptions};
use crate::{bad_request, external_error};

/// A scan of one table: its columns and the conditions that the store evaluates.
///
/// ```
/// use zvf_datafusion::{Scan, TableName};
///
/// let scan = Scan::new(TableName::Vertices, 0);
/// let text = serde_json::to_string(&scan)?;
/// assert_eq!(serde_json::from_str::<Scan>(&text)?, scan);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Scan {
    /// The table.
    pub table: TableName,
    /// The level.
    pub level: u32,
    /// The kind of geometry; by default the first one of the level.
    pub kind: Option<String>,
    /// Whether the table has a column of geometry.
    #[serde(default)]
    pub geometry: bool,
    /// Whether the table has attributes of fragments.
    #[serde(default)]
    pub fragment_attributes: bool,
    /// Whether the table has groups and their attributes.
    #[serde(default)]
    pub group_attributes: bool,
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
    /// The commit that is read, of a store with a journal: all processes read the same one.
    #[serde(default)]
    pub head: Option<u64>,
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
    /// Creates a scan of all rows of a table, without columns.
    #[must_use]
    pub const fn new(table: TableName, level: u32) -> Self {
        Self {
            table,
            level,
            kind: None,
            geometry: false,
            fragment_attributes: false,
            group_attributes: false,
            columns: Vec::new(),
            predicate: None,
            objects: None,
            groups: None,
            group_names: None,
            limit: None,
            head: None,
        }
    }

    /// Parses the kind of geometry.
    pub(crate) fn kind(&self) -> Result<Option<Kind>> {
        let parse = |word: &String| {
            word.parse().map_err(|_unknown| {
                bad_request("the kind", "a kind of geometry, such as mesh", word)
            })
        };
        self.kind.as_ref().map(parse).transpose()
    }

    /// Returns the options of the table.
    pub(crate) fn options(&self) -> Result<TableOptions> {
        let Self { table, level, geometry, fragment_attributes, group_attributes, .. } = *self;
        let kind = self.kind()?;
        Ok(TableOptions { table, level, kind, geometry, fragment_attributes, group_attributes })
    }

    /// Returns the query for the vertices of the scan, without columns.
    pub(crate) fn vertex_query(&self) -> Result<Query> {
        let mut query = self.base_query()?.vertices_only().unknown_ids(UnknownIds::Skip);
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

    /// Returns the query for all of the level, without columns.
    pub(crate) fn base_query(&self) -> Result<Query> {
        let query = Query::all().at_level(LevelId(self.level)).columns(Columns::None).uncached();
        Ok(self.kind()?.into_iter().fold(query, Query::of_kind))
    }
}

impl Task {
    /// Restricts a query for links to this task.
    pub(crate) fn narrow_links(&self, query: Query) -> Result<Query> {
        Ok(match self.keys()? {
            Some((first, end)) => query.with_links_of_chunks(first, end),
            None => query,
        })
    }

    /// Restricts a query for vertices to this task.
    pub(crate) fn narrow(&self, query: Query) -> Result<Query> {
        Ok(match self.keys()? {
            Some((first, end)) => query.in_chunks(first, end),
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
