//! A piece of work, who did it, and what it took.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use zvf_store::IoStats;

use crate::limit;
use crate::profile::Samples;

/// Who a contender is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
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

impl Role {
    pub(crate) const fn is_ours(self) -> bool {
        matches!(self, Self::Zvf | Self::Variant)
    }
}

/// What one turn took.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Turn {
    pub(crate) seconds: f64,
    /// What was counted, where something was.
    pub(crate) count: Option<u64>,
    pub(crate) cost: Cost,
}

/// What it took besides time, where that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Cost {
    /// Requests sent; of a process that only the system can be asked about, its calls that read.
    pub(crate) requests: Option<u64>,
    /// Bytes read.
    pub(crate) bytes: Option<u64>,
    /// The most memory held.
    pub(crate) memory: Option<u64>,
    /// Time of all processors together.
    #[serde(serialize_with = "as_seconds")]
    pub(crate) processor: Option<Duration>,
}

fn as_seconds<S: serde::Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_secs_f64()).serialize(to)
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
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) work: String,
    /// What all counted.
    pub(crate) count: Option<u64>,
    /// How many times as fast as the others zvf is wanted to be, where the part says so.
    pub(crate) ahead: Option<f64>,
    /// The series of growing inputs that this row belongs to.
    pub(crate) growth: Option<Growth>,
    pub(crate) sides: Vec<Side>,
}

/// A step of work on more and more data.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Growth {
    pub(crate) work: String,
    pub(crate) amount: Amount,
}

/// How much data there was.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Amount {
    pub(crate) elements: u64,
    /// Files that hold it, where they were counted.
    pub(crate) files: Option<u64>,
    pub(crate) bytes: Option<u64>,
}

impl Amount {
    /// So many elements in a folder.
    pub(crate) fn measure(elements: u64, folder: &Path) -> anyhow::Result<Self> {
        let files = limit::list_files(folder)?;
        let bytes = files.iter().filter_map(|file| file.metadata().ok()).map(|file| file.len());
        Ok(Self { elements, files: Some(files.len() as u64), bytes: Some(bytes.sum()) })
    }
}

/// One contender of a row.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Side {
    pub(crate) name: String,
    pub(crate) role: Role,
    /// The median turn, or why there is none.
    pub(crate) result: Result<Turn, String>,
    /// The bytes of the file or folder that it asks.
    pub(crate) stored: Option<u64>,
    /// Where the time goes, or why that is not known; of ours, where it was sampled.
    pub(crate) profile: Option<Result<Samples, String>>,
}

impl Side {
    /// One side of work that is done once.
    pub(crate) fn new(name: &str, role: Role, result: Result<Turn, String>) -> Self {
        Self { name: name.to_owned(), role, result, stored: None, profile: None }
    }
}

impl Row {
    /// The median of the first one of a role.
    pub(crate) fn seconds(&self, role: Role) -> Option<f64> {
        let side = self.sides.iter().find(|side| side.role == role && side.result.is_ok())?;
        side.result.as_ref().ok().map(|turn| turn.seconds)
    }
}
