//! A plan: which objects are replaced or made, by what, and what is left as it is.

use async_recursion::async_recursion as boxed;
use std::collections::HashSet;

use bytes::Bytes;
use zvf_format::num::to_u64;
use zvf_metadata::Node;
use zvf_store::{Store, StoreError};
use zvf_validate::{Finding, Observer, Options, Report, Severity, validate};

use crate::actions::{Mended, repair_finding};
use crate::documents::{Documents, text};

/// What would be done, exactly.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), zvf_store::StoreError> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// let plan = zvf_repair::plan(&store, "three").await?;
/// assert!(plan.left.iter().all(|finding| !finding.expected.is_empty()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Plan {
    /// The objects that are replaced or made, in the order in which that is done.
    pub changes: Vec<Change>,
    /// What is wrong and not mended.
    pub left: Vec<Finding>,
    /// Findings that this plan says nothing about, because there are too many: a plan after it does.
    pub more: u64,
}

/// One object.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), zvf_store::StoreError> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// for change in zvf_repair::plan(&store, "three").await?.changes {
///     assert!(!change.words.is_empty() && !change.rules.is_empty());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Change {
    /// The object, relative to the root of the store.
    pub path: String,
    /// The document that is there now; none where nothing is.
    pub before: Option<Node>,
    /// What it is to hold.
    pub after: Bytes,
    /// What changes, one phrase each.
    pub words: Vec<String>,
    /// The rules it was broken by.
    pub rules: Vec<&'static str>,
}

impl Plan {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

/// What can be mended in `store`, which lies in a folder called `name`. Nothing is changed.
///
/// Counts of a level wait until its lists of chunks are right, so that a second plan after the first was
/// applied may have more.
///
/// # Errors
///
/// When the store cannot be fetched.
#[boxed(?Send)]
pub async fn plan(store: &Store, name: &str) -> Result<Plan, StoreError> {
    let options = Options { max_findings: MAX_FINDINGS, ..Options::default() };
    let report = validate(store, &options, &Observer::default()).await?;
    of_report(store, name, report).await
}

async fn of_report(store: &Store, name: &str, report: Report) -> Result<Plan, StoreError> {
    let (mut documents, mut made, mut left) = (Documents::default(), Vec::new(), Vec::new());
    let all = report.count(Severity::Error) + report.count(Severity::Warning);
    let more = all - to_u64(report.findings.len());
    // Lists first: whatever is counted follows from them.
    let mut findings = report.findings;
    findings.sort_by_key(|finding| !matches!(finding.rule.id, "C28" | "M18"));
    // What else is wrong with a level may be why a count is not right: then the count may be right.
    let doubtful: HashSet<String> =
        findings.iter().filter(|finding| is_doubt(finding)).map(level_of).collect();
    let mut relisted: HashSet<String> = HashSet::new();
    for finding in findings {
        let level = level_of(&finding);
        let waits =
            finding.right.is_some() && (doubtful.contains(&level) || relisted.contains(&level));
        let mended = if waits {
            Mended::Left
        } else {
            repair_finding(store, name, &finding, &mut documents).await?
        };
        match mended {
            Mended::Document => {
                if matches!(finding.rule.id, "C28" | "M18") {
                    relisted.insert(level);
                }
            }
            Mended::Objects(objects) => made.extend(objects),
            Mended::Left => left.push(finding),
        }
    }
    let documents = documents.into_changed().map(|(path, edited)| Change {
        path: if path.is_empty() { DOCUMENT.to_owned() } else { format!("{path}/{DOCUMENT}") },
        after: Bytes::from(text(&edited.after)),
        before: Some(edited.before),
        words: edited.words,
        rules: edited.rules,
    });
    let mut changes: Vec<Change> = made.into_iter().chain(documents).collect();
    // What others refer to comes first: the deeper a document lies, the earlier.
    changes.sort_by_key(|change| std::cmp::Reverse(change.path.matches('/').count()));
    Ok(Plan { changes, left, more })
}

/// The level that a finding is about.
fn level_of(finding: &Finding) -> String {
    finding.path.split('/').next().unwrap_or_default().to_owned()
}

/// Whether data may be missing or misread where this was found.
fn is_doubt(finding: &Finding) -> bool {
    let about_itself = finding.right.is_some()
        || finding.rule.id == "C5"
        || finding.subject == "object_ids_sorted";
    finding.severity == Severity::Error && !about_itself
}

const DOCUMENT: &str = "zarr.json";
/// Findings that are looked at: more than any plan is read by a person.
const MAX_FINDINGS: usize = 100_000;
