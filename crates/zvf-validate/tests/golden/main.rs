//! Stores of every version, sound and broken: what is found in each, and that nothing else is.

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
use zvf_validate::{Finding, Observer, Options, Report, unopened, validate};

/// What is found in the archived store `id`.
async fn report(id: &str, options: &Options) -> Report {
    report_of(&archives::files(id), options).await
}

/// What is found in a store of these files, in memory.
async fn report_of(files: &[(String, Vec<u8>)], options: &Options) -> Report {
    let memory = archives::in_memory(files).await;
    match Store::from_object_store(memory, &"".into(), OpenOptions::default()).await {
        Ok(store) => {
            let whole = validate(&store, options, &Observer::default()).await.unwrap();
            let merged = parts::merged(&store, options, 3).await;
            assert_eq!(merged, whole, "parts of a validation add up to the whole");
            whole
        }
        Err(error) => unopened(error, options).unwrap(),
    }
}

/// A finding in few words: how bad, which rule, where.
fn short(finding: &Finding) -> String {
    let cell = finding.cell.as_ref().map(|cell| format!(" {cell}")).unwrap_or_default();
    let row = finding.row.map(|row| format!(" row {row}")).unwrap_or_default();
    format!("{} {} {}{cell}{row}", finding.severity, finding.rule.id, finding.path)
}
