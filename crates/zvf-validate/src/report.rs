//! The report of a validation.

use serde::Serialize;

use crate::finding::Finding;
use crate::options::Sample;
use crate::rule::{Rule, Severity};

/// Everything that was found, worst first.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// use zvf_validate::{Observer, Checks, Severity, validate};
///
/// let report = validate(&store, &Checks::default(), &Observer::default()).await?;
/// assert!(report.complete && report.is_clean());
/// assert_eq!(report.count(Severity::Error), 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// The findings that were kept, errors first, then by rule and place.
    pub findings: Vec<Finding>,
    /// The number of violations of each rule, including those not kept.
    pub counts: Vec<(&'static Rule, Severity, u64)>,
    /// Notes, which are not faults.
    pub notes: Vec<Finding>,
    /// Skipped checks, each with its rule, its place and the reason: a table that would be too
    /// large, or a backend that cannot list. The report makes no statement about these places.
    pub skipped: Vec<Finding>,
    /// The share that was checked, if not everything; totals were not compared then.
    pub sample: Option<Sample>,
    /// The counts of what was checked.
    pub checked: CheckCounts,
    /// Whether the validation is complete; otherwise it was cancelled.
    pub complete: bool,
}

impl Report {
    /// Returns the number of findings of this severity, including those not kept.
    pub fn count(&self, severity: Severity) -> u64 {
        let counts = self.counts.iter().filter(|(_, found, _)| *found == severity);
        counts.map(|(_, _, n)| n).sum()
    }

    /// Returns whether there are no errors.
    pub fn is_clean(&self) -> bool {
        self.count(Severity::Error) == 0
    }
}

/// The counts of what was checked.
///
/// ```
/// assert_eq!(zvf_validate::CheckCounts::default().cells, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CheckCounts {
    /// Levels.
    pub levels: u64,
    /// Arrays of chunks.
    pub arrays: u64,
    /// Decoded cells.
    pub cells: u64,
    /// Bytes of these cells.
    pub bytes: u64,
    /// Rows of vertices.
    pub rows: u64,
    /// Objects.
    pub objects: u64,
    /// Rows of links.
    pub links: u64,
}
