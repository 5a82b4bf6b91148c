//! A piece of work, who did it, and what it took.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use zvf_store::IoStats;

use crate::bar::Bar;

/// Who a contender is.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) enum Role {
    /// zvf, in the form that is compared with the others.
    Zvf,
    /// zvf, otherwise.
    Variant,
    /// The reference implementation of the format.
    Reference,
    /// Something else that people use.
    Peer,
    /// What the machine takes for the same bytes, done by nobody.
    Limit,
}

/// What one turn took.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Turn {
    pub(crate) seconds: f64,
    /// What was counted, where something was.
    pub(crate) count: Option<u64>,
    pub(crate) cost: Cost,
}

/// What it took besides time, where that is known.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Cost {
    /// Requests sent; of a process that only the system can be asked about, its calls that read.
    pub(crate) requests: Option<u64>,
    /// Bytes read.
    pub(crate) bytes: Option<u64>,
    /// The most memory held.
    pub(crate) memory: Option<u64>,
    /// Time of all processors together.
    pub(crate) processor: Option<Duration>,
}

impl Cost {
    /// Returns the requests and bytes of a handle between two readings of its statistics.
    pub(crate) const fn from_stats(before: &IoStats, after: &IoStats) -> Self {
        let requests = Some(after.requests.saturating_sub(before.requests));
        let bytes = Some(after.bytes_read.saturating_sub(before.bytes_read));
        Self { requests, bytes, memory: None, processor: None }
    }
}

impl Turn {
    /// A turn of which only the time is known.
    pub(crate) const fn from_seconds(seconds: f64) -> Self {
        let cost = Cost { requests: None, bytes: None, memory: None, processor: None };
        Self { seconds, count: None, cost }
    }

    /// The same with what was counted.
    pub(crate) const fn with_count(self, count: u64) -> Self {
        Self { count: Some(count), ..self }
    }
}

/// One piece of work and what became of it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Row {
    #[serde(skip)]
    pub(crate) part: &'static str,
    pub(crate) work: String,
    /// What all counted.
    pub(crate) count: Option<u64>,
    /// What is wanted of zvf.
    #[serde(skip)]
    pub(crate) bars: Vec<Bar>,
    pub(crate) sides: Vec<Side>,
    /// Where our time goes, or why that is not known, where a figure is missed.
    pub(crate) profile: Option<Result<String, String>>,
}

/// One contender of a row.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Side {
    pub(crate) name: String,
    pub(crate) role: Role,
    /// The median turn, or why there is none.
    pub(crate) result: Result<Turn, String>,
    /// The bytes of the file or folder that it asks.
    pub(crate) stored: Option<u64>,
}

impl Row {
    /// The median of the first one of a role.
    pub(crate) fn seconds(&self, role: Role) -> Option<f64> {
        let side = self.sides.iter().find(|side| side.role == role && side.result.is_ok())?;
        side.result.as_ref().ok().map(|turn| turn.seconds)
    }
}
