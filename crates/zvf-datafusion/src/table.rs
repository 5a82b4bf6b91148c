//! The name of a table and the options that select its level, kind and columns.

use std::fmt;
use std::str::FromStr;

use datafusion::error::{DataFusionError, Result};
use serde::{Deserialize, Serialize};
use zvf::Kind;

use crate::bad_request;

/// The name of a table of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TableName {
    /// A row for each stored vertex.
    #[default]
    Vertices,
    /// A row for each object of the index.
    Objects,
    /// A row for each group.
    Groups,
    /// A row for each member of a group.
    Members,
    /// A row for each edge or face.
    Links,
    /// A row for each level of the store.
    Levels,
}

impl TableName {
    /// Every table.
    pub const ALL: &'static [Self] =
        &[Self::Vertices, Self::Objects, Self::Groups, Self::Members, Self::Links, Self::Levels];

    /// Returns the name of the table in SQL.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Vertices => "vertices",
            Self::Objects => "objects",
            Self::Groups => "groups",
            Self::Members => "members",
            Self::Links => "links",
            Self::Levels => "levels",
        }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for TableName {
    type Err = DataFusionError;

    fn from_str(word: &str) -> Result<Self> {
        let found = Self::ALL.iter().copied().find(|table| table.word().eq_ignore_ascii_case(word));
        let all = Self::ALL.iter().map(|table| table.word()).collect::<Vec<_>>().join(", ");
        found.ok_or_else(|| bad_request("the table of a store", &format!("one of {all}"), word))
    }
}

/// Options that select a table: by default the vertices of level 0, of its first kind of geometry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableOptions {
    /// The table.
    pub table: TableName,
    /// The level.
    pub level: u32,
    /// The kind of geometry, where a level holds several.
    pub kind: Option<Kind>,
    /// Whether there is a column `geometry`: the point of a vertex, or the line of an object.
    pub geometry: bool,
    /// Whether vertices have the attributes of the fragment that they are in, as `fragment.NAME`.
    pub fragment_attributes: bool,
    /// Whether vertices have the groups that their object is in, as the lists `groups` (numbers), `group.name` and
    /// `group.NAME` for each attribute of groups.
    pub group_attributes: bool,
}

impl TableOptions {
    /// The words that add columns.
    pub(crate) const COLUMNS: [&'static str; 3] =
        ["geometry", "fragment_attributes", "group_attributes"];

    /// Sets the option `name`; returns whether there is such an option.
    ///
    /// # Errors
    ///
    /// When it cannot have this value.
    ///
    /// ```
    /// let mut options = zvf_datafusion::TableOptions::default();
    /// assert!(options.set("geometry", "true")? && options.geometry);
    /// assert!(!options.set("colour", "true")? && options.set("level", "low").is_err());
    /// # Ok::<(), datafusion::error::DataFusionError>(())
    /// ```
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool> {
        let bad = |expected| bad_request(&format!("the option {name}"), expected, value);
        let flag = || value.parse().map_err(|_error| bad("true or false"));
        match name {
            "table" => self.table = value.parse()?,
            "level" => {
                self.level = value.parse().map_err(|_error| bad("the number of a level"))?;
            }
            "kind" => {
                let kind = value.parse();
                let bad = |_unknown| bad("a kind of geometry, such as mesh");
                self.kind = Some(kind.map_err(bad)?);
            }
            "geometry" => self.geometry = flag()?,
            "fragment_attributes" => self.fragment_attributes = flag()?,
            "group_attributes" => self.group_attributes = flag()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the error for an option that does not exist.
    pub(crate) fn unknown(what: &str, more: &str, name: &str) -> DataFusionError {
        let columns = Self::COLUMNS.join(", ");
        bad_request(what, &format!("{more}table, level, kind, {columns}"), name)
    }
}
