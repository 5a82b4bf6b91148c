//! Stores of every version, sound and broken: the findings of each, and no others.

mod broken;
mod caps;
mod damaged;
mod frontier;
mod kinds;
mod options;
mod page;
mod parts;
mod sound;
mod suites;

use zvf_store::{OpenOptions, Store};
use zvf_validate::{Checks, Finding, Observer, Report, report_unopened, validate};

/// Returns the report of the archived store `id`.
async fn report(id: &str, options: &Checks) -> Report {
    report_of(&archives::files(id), options).await
}

/// Returns the report of a store of these files, in memory.
async fn report_of(files: &[(String, Vec<u8>)], options: &Checks) -> Report {
    let memory = archives::in_memory(files).await;
    match Store::from_object_store(memory, &"".into(), OpenOptions::default()).await {
        Ok(store) => {
            let report = validate(&store, options, &Observer::default()).await.unwrap();
            let merged = parts::merged(&store, options, 3).await;
            assert_eq!(merged, report, "the merged parts of a validation equal the full report");
            report
        }
        Err(error) => report_unopened(error, options).unwrap(),
    }
}

/// Returns a finding in short form: severity, rule and location.
fn summarize(finding: &Finding) -> String {
    let cell = finding.cell.as_ref().map(|cell| format!(" {cell}")).unwrap_or_default();
    let row = finding.row.map(|row| format!(" row {row}")).unwrap_or_default();
    format!("{} {} {}{cell}{row}", finding.severity, finding.rule.id, finding.path)
}
