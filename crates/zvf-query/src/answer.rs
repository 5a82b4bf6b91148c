//! What comes back: geometry, whether it is all of it, and what it cost.

use std::fmt;
use std::time::Duration;

use zvf_format::key::ChunkKey;
use zvf_model::{Batch, Kind, Level, ObjectId};
use zvf_store::Notice;

use crate::query::Mode;

/// The answer to a question.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Answer {
    /// The geometry.
    pub batch: Batch,
    /// The level it is of.
    pub level: Level,
    /// Whether nothing was missing, nothing was cut off by the limit, and every link could be found.
    pub complete: bool,
    /// Whether the limit cut something off.
    pub truncated: bool,
    /// Cells that are listed and not there.
    pub missing: Vec<Missing>,
    /// Objects that were asked for and are not there.
    pub unknown_objects: Vec<ObjectId>,
    /// What the reader should know and that is no error.
    pub notices: Vec<Notice>,
    /// What it cost.
    pub figures: Figures,
}

/// A cell that is listed and not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The array, as a path below the root of the store.
    pub array: String,
    /// The chunk.
    pub chunk: ChunkKey,
}

/// What was read for an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// Chunks that were looked into.
    pub cells: u64,
    /// Rows that were looked at.
    pub rows: u64,
    /// Requests sent, or files opened, on this handle meanwhile.
    pub requests: u64,
    /// Bytes read on this handle meanwhile.
    pub bytes: u64,
    /// How long it took.
    pub elapsed: Duration,
}

/// What a question will read.
///
/// Made from documents, presence lists and indexes, before any vertex is read. Print it for a person.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Plan {
    /// The level that was chosen.
    pub level: Level,
    /// What the geometry is.
    pub kind: Kind,
    /// How it must lie to the region, where there is one.
    pub mode: Option<Mode>,
    /// Chunks that the level has.
    pub chunks: u64,
    /// Chunks that can matter.
    pub cells: u64,
    /// Rows of these chunks.
    pub rows_before: u64,
    /// Rows that will be looked at, after pruning by bins.
    pub rows: u64,
    /// Objects that are asked for or can matter, where that is known.
    pub objects: Option<u64>,
    /// Requests, at most: cells of each array that is read.
    pub requests: u64,
    /// Bytes of positions and columns, decoded, at most.
    pub bytes: u64,
}

impl Plan {
    /// Adds what another level costs that the first one builds on.
    pub(crate) fn add(&mut self, other: &Self) {
        for (own, other) in [
            (&mut self.chunks, other.chunks),
            (&mut self.cells, other.cells),
            (&mut self.rows_before, other.rows_before),
            (&mut self.rows, other.rows),
            (&mut self.requests, other.requests),
            (&mut self.bytes, other.bytes),
        ] {
            *own = own.saturating_add(other);
        }
    }
}

impl fmt::Display for Plan {
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

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cells, rows, requests, bytes, elapsed } = self;
        write!(f, "read      {cells} cells, {rows} rows, {requests} requests, {bytes} bytes")?;
        write!(f, " in {:.3} ms", elapsed.as_secs_f64() * 1e3)
    }
}
