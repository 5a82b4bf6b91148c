//! A plan: the objects that are replaced or created, their new contents, and the findings that
//! remain.

use async_recursion::async_recursion as boxed;
use std::collections::HashSet;

use zvf_error::Result;
use zvf_format::num::to_u64;
use zvf_store::Store;
use zvf_validate::{Checks, Finding, Observer, Severity, validate};

use crate::actions::{Fix, Repair};
use crate::change::Change;
use crate::documents::Documents;

/// The exact changes of a repair.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// let plan = zvf_repair::plan(&store, "three", false).await?;
/// assert!(plan.left.iter().all(|finding| !finding.expected.is_empty()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Plan {
    /// The objects that are replaced or created, in this order.
    pub changes: Vec<Change>,
    /// Findings without a repair.
    pub left: Vec<Finding>,
    /// The number of findings above the limit of this plan; the next plan covers them.
    pub more: u64,
}

impl Plan {
    /// Returns whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

/// Plans the repair of `store`, in a folder called `name`. Nothing is changed. `end_deferral` says
/// that no writer fills a level any more: lists of chunks are written where presence was deferred.
///
/// Counts of a level depend on its lists of chunks, so a second plan, after the first was applied,
/// may have more changes.
///
/// # Errors
///
/// When the store cannot be read.
#[boxed(?Send)]
pub async fn plan(store: &Store, name: &str, end_deferral: bool) -> Result<Plan> {
    let options = Checks { max_findings: MAX_FINDINGS, ..Checks::default() };
    let report = validate(store, &options, &Observer::default()).await?;
    let (mut documents, mut made, mut left) = (Documents::default(), Vec::new(), Vec::new());
    let all = report.count(Severity::Error) + report.count(Severity::Warning);
    let more = all - to_u64(report.findings.len());
    // Lists first, because counts depend on them.
    let mut findings = report.findings;
    findings.sort_by_key(|finding| !matches!(finding.rule.id, "C28" | "M18"));
    // A wrong count may follow from another fault of the level, and may then be right.
    let doubtful: HashSet<String> =
        findings.iter().filter(|finding| is_doubt(finding)).map(level_of).collect();
    let mut relisted: HashSet<String> = HashSet::new();
    for finding in findings {
        let level = level_of(&finding);
        let waits =
            finding.right.is_some() && (doubtful.contains(&level) || relisted.contains(&level));
        let fix = Fix { store, finding: &finding, documents: &mut documents };
        let repair = if waits { Repair::Left } else { fix.apply(name, end_deferral).await? };
        match repair {
            Repair::Document if matches!(finding.rule.id, "C28" | "M18") => {
                relisted.insert(level);
            }
            Repair::Document => {}
            Repair::Objects(objects) => made.extend(objects),
            Repair::Left => left.push(finding),
        }
    }
    let mut changes: Vec<Change> = made.into_iter().chain(documents.into_changes()).collect();
    // Referenced documents come first: the deeper a document lies, the earlier.
    changes.sort_by_key(|change| std::cmp::Reverse(change.path.matches('/').count()));
    Ok(Plan { changes, left, more })
}

/// Returns the level of a finding.
fn level_of(finding: &Finding) -> String {
    finding.path.split_once('/').map_or(finding.path.as_str(), |(level, _)| level).to_owned()
}

/// Returns whether the finding means that data may be missing or misread.
fn is_doubt(finding: &Finding) -> bool {
    let about_itself = finding.right.is_some()
        || finding.rule.id == "C5"
        || finding.subject == "object_ids_sorted";
    finding.severity == Severity::Error && !about_itself
}

/// The largest number of findings of a plan.
const MAX_FINDINGS: usize = 100_000;
