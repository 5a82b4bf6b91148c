//! Errors of invalid queries.
//!
//! An invalid query is refused before anything is read. [`BadQuery`] is the cause of the error that is returned. Errors of the
//! store and of the level are returned unchanged.

use zvf_error::Error;
use zvf_format::Class;
use zvf_format::key::ChunkKey;
use zvf_model::{Kind, ObjectId};

use crate::closest_name::find_closest_name;
use crate::mode::Mode;
use crate::region::BadRegion;

/// Why a query is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadQuery {
    /// The region and the store have different numbers of axes.
    #[error("the region has {found} axes, the store has {expected}")]
    Axes {
        /// Axes of the region.
        found: usize,
        /// Axes of the store.
        expected: usize,
    },
    /// A mode without a region.
    #[error("{0} selects by a region: give a region")]
    ModeWithoutRegion(Mode),
    /// A kind that the store does not contain.
    #[error("the store holds no {0}")]
    NoSuchKind(Kind),
    /// No level at all, or none that the rule allows.
    #[error("the store lists no level")]
    NoLevel,
    /// A query for objects or groups of a level without an object index.
    #[error("the level has no object index: objects and groups cannot be selected")]
    NoObjects,
    /// A query for groups of a level without groups, or without this one.
    #[error("there is no group {0}")]
    NoSuchGroup(u64),
    /// An object id that does not exist, if the caller treats that as an error.
    #[error("there is no object {0}")]
    NoSuchObject(ObjectId),
    /// A row that does not exist.
    #[error("there is no row {row} in chunk {chunk}")]
    NoSuchRow {
        /// The chunk.
        chunk: Box<ChunkKey>,
        /// The row.
        row: u64,
    },
    /// An attribute that does not exist.
    #[error("there is no {scope} attribute {name:?}: there is {available}")]
    NoSuchColumn {
        /// The scope of the column.
        scope: &'static str,
        /// Its name.
        name: String,
        /// The existing names.
        available: String,
    },
    /// An index past the components of a row.
    #[error(
        "{name} has {} per row: there is no value {index}",
        zvf_error::format_count(*.width, "value")
    )]
    NoSuchValue {
        /// The column.
        name: String,
        /// Components per row.
        width: u32,
        /// The requested component.
        index: u32,
    },
    /// A comparison with a value of another type than the column.
    #[error("{name} holds {holds}: it cannot be compared with {with}")]
    Incomparable {
        /// The column.
        name: String,
        /// The type of the column.
        holds: &'static str,
        /// The type of the value.
        with: &'static str,
    },
    /// A column without values for some rows of the answer, if its type has no null value.
    #[error(
        "some {items} have no value of {name}, and its type has nothing that says so: ask only for those \
         that have one, as in \"{name} is not null\""
    )]
    NoNull {
        /// The items without a value.
        items: &'static str,
        /// The column.
        name: String,
    },
    /// A column of a scope that the query does not return.
    #[error("{name} belongs to a {scope}, and {why}")]
    Scope {
        /// The column.
        name: String,
        /// The scope of the column.
        scope: &'static str,
        /// Why it cannot be used.
        why: &'static str,
    },
    /// An operation that the region does not support.
    #[error(transparent)]
    Region(#[from] BadRegion),
    /// An operation that this kind of geometry does not support.
    #[error("{what} is not possible for a {kind}: {why}")]
    Kind {
        /// The request.
        what: &'static str,
        /// The kind of geometry.
        kind: Kind,
        /// Why not.
        why: &'static str,
    },
}

impl From<BadQuery> for Error {
    /// Adds the name that was probably meant, for an unknown one.
    fn from(error: BadQuery) -> Self {
        let near = if let BadQuery::NoSuchColumn { name, available, .. } = &error {
            find_closest_name(name, available.split(", "))
                .map(|near| format!("did you mean {near:?}?"))
        } else {
            None
        };
        Self::from_cause(Class::InvalidArgument, error).with_op("query").or_hint(|| near)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_line_and_name_the_class() {
        let error = Error::from(BadQuery::Axes { found: 2, expected: 3 });
        assert_eq!(
            (error.class(), error.op(), error.to_string().as_str()),
            (
                Class::InvalidArgument,
                "query",
                "InvalidArgument, the region has 2 axes, the store has 3"
            )
        );
        assert!(error.cause_as::<BadQuery>().is_some());
        let unknown = BadQuery::NoSuchColumn {
            scope: "vertex",
            name: "intensty".into(),
            available: "color, intensity".into(),
        };
        assert_eq!(
            Error::from(unknown).to_string(),
            "InvalidArgument, there is no vertex attribute \"intensty\": there is color, \
             intensity; did you mean \"intensity\"?"
        );
    }
}
