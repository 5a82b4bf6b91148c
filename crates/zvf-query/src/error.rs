//! Errors of queries.
//!
//! A query that makes no sense is refused before anything is read ([`BadQuery`]). What the store
//! or the level has to say is passed on as it is.

use thiserror::Error;
use zvf_format::key::ChunkKey;
use zvf_format::{Class, Diagnose, Diagnosis, Expected, FormatError};
use zvf_model::{BadBatch, BadCode, BadColumn, Kind, ModelError, ObjectId};
use zvf_store::StoreError;

use crate::mode::Mode;
use crate::region::BadRegion;

/// A question that got no answer.
#[derive(Clone, Debug, Error)]
#[error(transparent)]
pub struct QueryError(Box<Fault>);

#[derive(Clone, Debug, Error)]
enum Fault {
    #[error("{}: {_0}", Class::InvalidArgument)]
    Bad(BadQuery),
    #[error("{}: {_0}", Class::CountMismatch)]
    Batch(BadBatch),
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl QueryError {
    /// Returns the error about more than a cap allows.
    pub(crate) fn limit(what: &'static str, cap: u64, found: u64) -> Self {
        let expected = Expected::AtMost(cap.into());
        ModelError::invalid_value(Class::LimitExceeded, what, expected, found).into()
    }

    /// Adds the chunk `key` to the error.
    #[must_use]
    pub(crate) fn with_chunk(self, key: &ChunkKey) -> Self {
        match *self.0 {
            Fault::Model(error) => error.with_chunk(key).into(),
            Fault::Bad(_) | Fault::Batch(_) => self,
        }
    }

    pub(crate) fn column(error: BadColumn) -> Self {
        ModelError::from(error).into()
    }

    /// Returns the kind of fault, by its stable name.
    #[must_use]
    pub fn class(&self) -> Class {
        self.diagnosis().class
    }

    /// Returns the kind of the error, for matching.
    ///
    /// ```
    /// use zvf_query::{BadQuery, QueryError, QueryErrorKind};
    ///
    /// let error = QueryError::from(BadQuery::NoObjects);
    /// assert!(matches!(error.kind(), QueryErrorKind::BadQuery(BadQuery::NoObjects)));
    /// ```
    #[must_use]
    pub fn kind(&self) -> QueryErrorKind<'_> {
        match &*self.0 {
            Fault::Bad(bad) => QueryErrorKind::BadQuery(bad),
            Fault::Batch(batch) => QueryErrorKind::Batch(batch),
            Fault::Model(model) => QueryErrorKind::Model(model),
        }
    }

    /// Returns why the question makes no sense, when that is the fault.
    #[must_use]
    pub fn bad_query(&self) -> Option<&BadQuery> {
        match &*self.0 {
            Fault::Bad(bad) => Some(bad),
            Fault::Batch(_) | Fault::Model(_) => None,
        }
    }

    /// Returns the fault of the level or the store, when it is one.
    #[must_use]
    pub fn model(&self) -> Option<&ModelError> {
        match &*self.0 {
            Fault::Model(error) => Some(error),
            Fault::Bad(_) | Fault::Batch(_) => None,
        }
    }
}

impl Diagnose for QueryError {
    fn diagnosis(&self) -> Diagnosis<'_> {
        match &*self.0 {
            Fault::Bad(bad) => {
                let unknown = if let BadQuery::NoSuchColumn { name, available, .. } = bad {
                    Some((&**name, &**available))
                } else {
                    None
                };
                Diagnosis { unknown, ..Diagnosis::new(Class::InvalidArgument, "query", bad) }
            }
            Fault::Batch(_) => Diagnosis::naming_class(Class::CountMismatch, "query", self),
            Fault::Model(error) => error.diagnosis(),
        }
    }
}

/// The kind of an error: [`QueryError::kind`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum QueryErrorKind<'a> {
    /// The question makes no sense of this store.
    BadQuery(&'a BadQuery),
    /// The level or the store has a fault, or cannot be read.
    Model(&'a ModelError),
    /// The store contradicts itself: columns do not go together.
    Batch(&'a BadBatch),
}

impl From<ModelError> for QueryError {
    fn from(error: ModelError) -> Self {
        Self(Box::new(Fault::Model(error)))
    }
}

impl From<BadQuery> for QueryError {
    fn from(error: BadQuery) -> Self {
        Self(Box::new(Fault::Bad(error)))
    }
}

impl From<StoreError> for QueryError {
    fn from(error: StoreError) -> Self {
        ModelError::from(error).into()
    }
}

impl From<FormatError> for QueryError {
    fn from(error: FormatError) -> Self {
        ModelError::from(error).into()
    }
}

impl From<BadCode> for QueryError {
    fn from(error: BadCode) -> Self {
        ModelError::from(error).into()
    }
}

impl From<BadBatch> for QueryError {
    /// Columns that were gathered for one answer and do not go together: the store contradicts itself.
    fn from(error: BadBatch) -> Self {
        Self(Box::new(Fault::Batch(error)))
    }
}

/// Why a question makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BadQuery {
    /// A region of another number of axes than the store has.
    #[error("the region has {found} axes, the store has {expected}")]
    Axes {
        /// Axes of the region.
        found: usize,
        /// Axes of the store.
        expected: usize,
    },
    /// A mode without a region.
    #[error("{0} says how geometry lies to a region: give a region")]
    ModeWithoutRegion(Mode),
    /// A kind that the store does not hold.
    #[error("the store holds no {0}")]
    NoSuchKind(Kind),
    /// No level at all, or none that the rule allows.
    #[error("the store lists no level")]
    NoLevel,
    /// Objects or groups asked of a level that has no object index.
    #[error("the level has no object index: it cannot be asked for objects or groups")]
    NoObjects,
    /// Groups asked of a level that has none, or not that one.
    #[error("there is no group {0}")]
    NoSuchGroup(u64),
    /// An object id that is not there, where the caller wants that to be an error.
    #[error("there is no object {0}")]
    NoSuchObject(ObjectId),
    /// A row that the level does not have.
    #[error("there is no row {row} in chunk {chunk}")]
    NoSuchRow {
        /// The chunk.
        chunk: Box<ChunkKey>,
        /// The row.
        row: u64,
    },
    /// An attribute that is not there.
    #[error("there is no {scope} attribute {name:?}: there is {available}")]
    NoSuchColumn {
        /// The scope of the column.
        scope: &'static str,
        /// Its name.
        name: String,
        /// The names there are.
        available: String,
    },
    /// An index past the values of a row.
    #[error("{name} has {width} values a row: there is no value {index}")]
    NoSuchValue {
        /// The column.
        name: String,
        /// Values a row.
        width: u32,
        /// The requested value.
        index: u32,
    },
    /// A comparison with a value of another type than the column has.
    #[error("{name} holds {holds}: it cannot be compared with {with}")]
    Incomparable {
        /// The column.
        name: String,
        /// What the column holds.
        holds: &'static str,
        /// What it was compared with.
        with: &'static str,
    },
    /// A column without values for some rows of the answer, whose type has no null value.
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
    /// Something the region cannot do.
    #[error(transparent)]
    Region(#[from] BadRegion),
    /// Something that this kind of geometry cannot do.
    #[error("{what} cannot be asked of a {kind}: {why}")]
    Kind {
        /// The request.
        what: &'static str,
        /// The kind of geometry.
        kind: Kind,
        /// Why not.
        why: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_line_and_name_the_class() {
        let error = QueryError::from(BadQuery::Axes { found: 2, expected: 3 });
        assert_eq!(
            (error.class(), error.to_string().as_str()),
            (Class::InvalidArgument, "InvalidArgument: the region has 2 axes, the store has 3")
        );
        let limit = QueryError::limit("rows of an answer", 10, 11);
        assert_eq!(
            (limit.class(), limit.to_string().as_str()),
            (
                Class::LimitExceeded,
                "LimitExceeded: rows of an answer: expected at most 10, found 11"
            )
        );
        assert!(error.bad_query().is_some() && limit.model().is_some());
    }
}
