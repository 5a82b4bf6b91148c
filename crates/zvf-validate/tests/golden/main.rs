//! Stores of every version, sound and broken: what is found in each, and that nothing else is.

mod broken;
mod damaged;
mod options;
mod sound;

use archives::Unpacked;
use zvf_store::{OpenOptions, Store};
use zvf_validate::{Finding, Observer, Options, Report, unopened, validate};

/// What is found in the archived store `id`.
async fn report(id: &str, options: &Options) -> Report {
    report_of(&Unpacked::new(id), options).await
}

/// What is found in a store of these files.
async fn report_of(store: &Unpacked, options: &Options) -> Report {
    match Store::open(store.path().to_str().unwrap(), OpenOptions::default()).await {
        Ok(store) => validate(&store, options, &Observer::default()).await.unwrap(),
        Err(error) => unopened(error, options).unwrap(),
    }
}

/// A finding in few words: how bad, which rule, where.
fn short(finding: &Finding) -> String {
    let cell = finding.cell.as_ref().map(|cell| format!(" {cell}")).unwrap_or_default();
    let row = finding.row.map(|row| format!(" row {row}")).unwrap_or_default();
    format!("{} {} {}{cell}{row}", finding.severity, finding.rule.id, finding.path)
}
