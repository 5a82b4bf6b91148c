//! What a scan reads, as data: it can be sent to another process.

use serde::{Deserialize, Serialize};
use zvf::format::key::ChunkKey;
use zvf::{Columns, Kind, LevelId, ObjectId, Query, UnknownIds};

use datafusion::error::Result;

use crate::table::{TableName, TableOptions};
use crate::{bad_request, external};

/// A scan of one table: which columns, and the conditions that the store answers.
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
    /// The kind of geometry; the first one of the level without it.
    pub kind: Option<String>,
    /// Whether a column may be the geometry.
    #[serde(default)]
    pub geometry: bool,
    /// Whether columns may be attributes of fragments.
    #[serde(default)]
    pub fragment_attributes: bool,
    /// Whether columns may be groups and their attributes.
    #[serde(default)]
    pub group_attributes: bool,
    /// The columns, by name, in the order of the answer.
    pub columns: Vec<String>,
    /// The condition on rows, as `zvf query --where` takes it.
    pub predicate: Option<String>,
    /// The objects, where only some are asked for.
    pub objects: Option<Vec<i64>>,
    /// The groups by number, where only some are asked for.
    #[serde(default)]
    pub groups: Option<Vec<u64>>,
    /// The names of groups, where only some are asked for.
    #[serde(default)]
    pub group_names: Option<Vec<String>>,
    /// The most rows that are wanted of each task.
    pub limit: Option<u64>,
}

/// A part of a scan. The tasks of a scan together give each row once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Task {
    /// The chunks from the first key on, before the other: see [`Query::in_chunks`], and for links
    /// [`Query::with_links_of_chunks`].
    Chunks {
        /// The first key.
        first: Option<String>,
        /// The key before which they end.
        end: Option<String>,
        /// How many there are.
        cells: u64,
    },
    /// Rows of the object index.
    Rows {
        /// The first.
        start: u64,
        /// One past the last.
        end: u64,
    },
    /// All there is.
    All,
}

impl Scan {
    /// A scan of all rows of a table, without columns.
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
        }
    }

    pub(crate) fn kind(&self) -> Result<Option<Kind>> {
        let parse = |word: &String| {
            word.parse().map_err(|_unknown| {
                bad_request("the kind", "a kind of geometry, such as mesh", word)
            })
        };
        self.kind.as_ref().map(parse).transpose()
    }

    /// The table that is read.
    pub(crate) fn options(&self) -> Result<TableOptions> {
        let Self { table, level, geometry, fragment_attributes, group_attributes, .. } = *self;
        let kind = self.kind()?;
        Ok(TableOptions { table, level, kind, geometry, fragment_attributes, group_attributes })
    }

    /// The question for the vertices of the scan, without columns.
    pub(crate) fn vertex_query(&self) -> Result<Query> {
        let mut query = self.base_query()?.vertices_only().unknown_ids(UnknownIds::Skip);
        if let Some(text) = &self.predicate {
            query = query.filter(text.parse().map_err(external)?);
        }
        if let Some(ids) = &self.objects {
            query = query.of_objects(ids.iter().copied().map(ObjectId));
        }
        if let Some(numbers) = &self.groups {
            query = query.in_groups(numbers.iter().copied());
        }
        Ok(query)
    }

    /// Everything of the level, without columns.
    pub(crate) fn base_query(&self) -> Result<Query> {
        let query = Query::all().at_level(LevelId(self.level)).columns(Columns::None).uncached();
        Ok(self.kind()?.into_iter().fold(query, Query::of_kind))
    }
}

impl Task {
    /// The part of a question for links that the task is.
    pub(crate) fn narrow_links(&self, query: Query) -> Result<Query> {
        Ok(match self.keys()? {
            Some((first, end)) => query.with_links_of_chunks(first, end),
            None => query,
        })
    }

    /// The part of a question for vertices that the task is.
    pub(crate) fn narrow(&self, query: Query) -> Result<Query> {
        Ok(match self.keys()? {
            Some((first, end)) => query.in_chunks(first, end),
            None => query,
        })
    }

    /// The first key, and the one before which the chunks end, where it goes by chunks.
    pub(crate) fn keys(&self) -> Result<Option<(Option<ChunkKey>, Option<ChunkKey>)>> {
        let parse = |key: &Option<String>| -> Result<Option<ChunkKey>> {
            let parsed = key.as_deref().map(str::parse::<ChunkKey>);
            parsed.transpose().map_err(external)
        };
        match self {
            Self::Chunks { first, end, .. } => Ok(Some((parse(first)?, parse(end)?))),
            Self::Rows { .. } | Self::All => Ok(None),
        }
    }

    /// How many chunks it reads, where it goes by chunks.
    pub(crate) const fn cells(&self) -> u64 {
        match self {
            Self::Chunks { cells, .. } => *cells,
            Self::Rows { .. } | Self::All => 0,
        }
    }
}
