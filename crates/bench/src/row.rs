//! A row of results: a workload, its contenders, and their costs.

use std::time::{Duration, Instant};

use serde::Serialize;
use zvf_store::IoStats;

/// Shorter work is repeated until this many seconds have passed, on all sides alike, so that clock
/// resolution and cold caches do not decide.
pub(crate) const ENOUGH: f64 = 0.02;

/// The role of a contender.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) enum Role {
    /// zvf, in the form that is compared with the others.
    Zvf,
    /// zvf in another form.
    Variant,
    /// zarr-vectors, the Python implementation of the format.
    Reference,
    /// Other software for the same work.
    Peer,
    /// The cost of the same bytes on this machine, without any library.
    Limit,
}

/// The result of one turn.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Turn {
    pub(crate) seconds: f64,
    /// The count, if there is one.
    pub(crate) count: Option<u64>,
    pub(crate) cost: Cost,
}

/// The known costs other than time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Cost {
    /// Number of requests; for a process known only through the system, its read calls.
    pub(crate) requests: Option<u64>,
    /// Bytes read.
    pub(crate) bytes: Option<u64>,
    /// Peak memory.
    pub(crate) memory: Option<u64>,
    /// Processor time of all processors together.
    #[serde(serialize_with = "as_seconds")]
    pub(crate) processor: Option<Duration>,
}

fn as_seconds<S: serde::Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_secs_f64()).serialize(to)
}

impl Cost {
    pub(crate) fn of_reads(requests: u64, bytes: u64) -> Self {
        Self { requests: Some(requests), bytes: Some(bytes), ..Self::default() }
    }

    /// Returns the requests and bytes of a handle between two readings of its statistics.
    pub(crate) fn from_stats(before: &IoStats, after: &IoStats) -> Self {
        let requests = after.requests.saturating_sub(before.requests);
        Self::of_reads(requests, after.bytes_read.saturating_sub(before.bytes_read))
    }
}

impl Turn {
    /// Makes a turn with only a time.
    pub(crate) fn from_seconds(seconds: f64) -> Self {
        Self { seconds, ..Self::default() }
    }

    /// Runs work once; returns its time, and its result.
    pub(crate) fn measure<T>(
        work: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<(Self, T)> {
        let begun = Instant::now();
        let done = work()?;
        Ok((Self::from_seconds(begun.elapsed().as_secs_f64()), done))
    }

    /// Runs work as often as fills [`ENOUGH`]; returns its mean time, and the last result.
    pub(crate) fn measure_repeated<T>(
        mut work: impl FnMut() -> anyhow::Result<T>,
    ) -> anyhow::Result<(Self, T)> {
        let (begun, mut times) = (Instant::now(), 0_u32);
        loop {
            let done = work()?;
            times += 1;
            let all = begun.elapsed().as_secs_f64();
            if all >= ENOUGH {
                return Ok((Self::from_seconds(all / f64::from(times)), done));
            }
        }
    }

    /// Sets the count.
    pub(crate) fn with_count(self, count: u64) -> Self {
        Self { count: Some(count), ..self }
    }

    /// Sets the other costs.
    pub(crate) fn with_cost(self, cost: Cost) -> Self {
        Self { cost, ..self }
    }
}

/// One workload, what is required or known of it, and its results.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Row {
    pub(crate) work: String,
    /// The common count.
    pub(crate) count: Option<u64>,
    /// The required speed-up over the others, if the part states one.
    pub(crate) ahead: Option<f64>,
    /// The series of growing inputs that this row belongs to.
    pub(crate) growth: Option<Growth>,
    pub(crate) sides: Vec<Side>,
}

/// A step of a workload on growing data.
#[derive(Debug, Serialize)]
pub(crate) struct Growth {
    pub(crate) work: String,
    pub(crate) amount: Amount,
}

/// The amount of data.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Amount {
    pub(crate) elements: u64,
    /// The number of files, if counted.
    pub(crate) files: Option<u64>,
    pub(crate) bytes: Option<u64>,
}

/// One contender of a row.
#[derive(Debug, Serialize)]
pub(crate) struct Side {
    pub(crate) name: String,
    pub(crate) role: Role,
    /// The median turn, or why there is none.
    pub(crate) result: Result<Turn, String>,
    /// The size of the queried file or folder.
    pub(crate) stored: Option<u64>,
}

impl Side {
    /// Creates a side of work that is done once.
    pub(crate) fn new(name: &str, role: Role, result: Result<Turn, String>) -> Self {
        Self { name: name.to_owned(), role, result, stored: None }
    }
}

impl<N: Into<String>> From<N> for Row {
    fn from(work: N) -> Self {
        Self { work: work.into(), ..Self::default() }
    }
}

impl Row {
    /// Sets the required speed-up over zarr-vectors, or otherwise over the fastest peer.
    pub(crate) fn ahead(work: impl Into<String>, ahead: f64) -> Self {
        Self { ahead: Some(ahead), ..work.into().into() }
    }

    /// Makes it a step of the series `series` on this amount of data.
    pub(crate) fn growing(work: impl Into<String>, series: &str, amount: Amount) -> Self {
        let growth = Some(Growth { work: series.to_owned(), amount });
        Self { growth, ..work.into().into() }
    }

    /// Returns the median time of the first side with this role.
    pub(crate) fn seconds(&self, role: Role) -> Option<f64> {
        let side = self.sides.iter().find(|side| side.role == role && side.result.is_ok())?;
        side.result.as_ref().ok().map(|turn| turn.seconds)
    }
}
