//! Answers: geometry, completeness and statistics; counts and plans.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use zvf_error::format_count;
use zvf_format::key::ChunkKey;
use zvf_format::num::usize_from_u32;
use zvf_metadata::Dtype;
use zvf_model::{Batch, Field, Kind, LevelId, ObjectId, Value};
use zvf_store::Notice;

use crate::mode::Mode;
use crate::predicate::Scope;

/// The answer to a query.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Answer {
    /// The geometry.
    pub batch: Batch,
    /// The level of the geometry.
    pub level: LevelId,
    /// Whether nothing is missing, the limit did not truncate the answer, and every link could be found.
    pub complete: bool,
    /// Whether the limit truncated the answer.
    pub truncated: bool,
    /// Listed cells that do not exist, by level, array and chunk.
    pub missing: Vec<Missing>,
    /// Objects of the query that do not exist.
    pub unknown_objects: Vec<ObjectId>,
    /// Notices, which are not errors.
    pub notices: Vec<Notice>,
    /// Statistics of the query.
    pub figures: QueryStats,
}

/// Counts of an answer: [`Reader::count`](crate::Reader::count).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// The level.
    pub level: LevelId,
    /// The kind of geometry.
    pub kind: Kind,
    /// Vertices.
    pub vertices: u64,
    /// Objects, or runs of objects; 0 if the answer is not divided into objects.
    pub parts: u64,
    /// Edges or faces; `None` for a kind that has none.
    pub elements: Option<u64>,
    /// As [`Answer::complete`].
    pub complete: bool,
    /// As [`Answer::truncated`].
    pub truncated: bool,
    /// As [`Answer::missing`].
    pub missing: Vec<Missing>,
    /// Objects of the query that do not exist.
    pub unknown_objects: Vec<ObjectId>,
}

/// Statistics of the values of a level: [`Reader::statistics`](crate::Reader::statistics).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Statistics {
    /// The level.
    pub level: LevelId,
    /// Vertices: the rows in fragments.
    pub vertices: u64,
    /// The coordinates, axis by axis.
    pub axes: Vec<Summary>,
    /// The attributes of vertices, then those of links, then those of objects.
    pub attributes: Vec<AttributeStatistics>,
}

/// Statistics of the values of one attribute.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AttributeStatistics {
    /// The scope of the attribute.
    pub scope: Scope,
    /// Its name.
    pub name: String,
    /// The type of a stored value; of the codes, if it has categories.
    pub dtype: Dtype,
    /// One summary for each component of a row.
    pub components: Vec<Summary>,
}

impl AttributeStatistics {
    pub(crate) fn new(scope: Scope, name: &str, dtype: Dtype, width: u32) -> Self {
        let components = vec![Summary::default(); usize_from_u32(width)];
        Self { scope, name: name.to_owned(), dtype, components }
    }

    /// Returns one summary of all values, whatever their component.
    pub fn total(&self) -> Summary {
        let mut total = Summary::default();
        self.components.iter().for_each(|component| total.merge(component));
        total
    }

    pub(crate) fn from_field(field: &Field) -> Self {
        Self::new(Scope::Vertex, &field.name, field.column.dtype(), field.column.width())
    }
}

/// A summary of values. Absent values and NaN do not count for anything else.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// Number of values that are present and not NaN.
    pub count: u64,
    /// Number of absent values.
    pub nulls: u64,
    /// Number of NaN values.
    pub nans: u64,
    /// The smallest value; `None` without values.
    pub min: Option<Value>,
    /// The greatest value.
    pub max: Option<Value>,
    pub(crate) mean: f64, // of the values so far: their sum would overflow
    pub(crate) is_text: bool,
}

impl Summary {
    /// Returns the mean; `None` for text, and without values. True counts as 1.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0 && !self.is_text).then_some(self.mean)
    }
}

/// A listed cell that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Missing {
    /// The array, as a path below the root of the store.
    pub array: String,
    /// The chunk.
    pub chunk: ChunkKey,
}

/// Statistics of the reads for an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueryStats {
    /// Number of chunks that were read.
    pub cells: u64,
    /// Number of rows that were tested.
    pub rows: u64,
    /// Requests sent, or files opened, on this handle during the query.
    pub requests: u64,
    /// Bytes read on this handle during the query.
    pub bytes: u64,
    /// The duration of the query.
    pub elapsed: Duration,
}

/// The plan of a query: an estimate of what it reads.
///
/// It is computed from documents, presence lists and indexes, before any vertex is read. Its text
/// form is for people.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct QueryPlan {
    /// The level that was chosen.
    pub level: LevelId,
    /// The kind of geometry.
    pub kind: Kind,
    /// The mode, if the query has a region.
    pub mode: Option<Mode>,
    /// Number of chunks of the level.
    pub chunks: u64,
    /// Number of chunks that can contribute.
    pub cells: u64,
    /// Rows of these chunks.
    pub rows_before: u64,
    /// Rows after pruning by bins.
    pub rows: u64,
    /// Objects that the query selects or that can contribute, if known.
    pub objects: Option<u64>,
    /// Upper bound of the requests: cells of each array that is read.
    pub requests: u64,
    /// Upper bound of the decoded bytes of positions and columns.
    pub bytes: u64,
}

impl QueryPlan {
    /// Adds the cost of another level that the first one builds on.
    pub(crate) fn add(&mut self, other: &Self) {
        for (total, added) in [
            (&mut self.chunks, other.chunks),
            (&mut self.cells, other.cells),
            (&mut self.rows_before, other.rows_before),
            (&mut self.rows, other.rows),
            (&mut self.requests, other.requests),
            (&mut self.bytes, other.bytes),
        ] {
            *total = total.saturating_add(added); // figures are upper bounds
        }
    }
}

impl fmt::Display for QueryPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "level {} ({})", self.level, self.kind)?;
        if let Some(mode) = self.mode {
            write!(f, ", mode {mode}")?;
        }
        write!(f, "\ncells     {} of {}", self.cells, self.chunks)?;
        write!(f, "\nrows      {} of {}", self.rows, self.rows_before)?;
        if let Some(objects) = self.objects {
            write!(f, "\nobjects   {objects}")?;
        }
        write!(f, "\nrequests  at most {}", self.requests)?;
        write!(f, "\nbytes     at most {}", self.bytes)
    }
}

impl fmt::Display for QueryStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cells, rows, requests, bytes, elapsed } = self;
        let counts = [(cells, "cell"), (rows, "row"), (requests, "request"), (bytes, "byte")];
        let counts = counts.map(|(n, thing)| format_count(*n, thing)).join(", ");
        write!(f, "read      {counts} in {:.3} ms", elapsed.as_secs_f64() * 1e3)
    }
}
