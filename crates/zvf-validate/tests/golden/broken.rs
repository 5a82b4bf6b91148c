//! Stores with one fault each: it is found under its rule and at its location.

use std::collections::{BTreeMap, BTreeSet};

use super::{report, summarize};
use zvf_validate::{Checks, Finding, Severity};

#[tokio::test]
async fn every_fault_is_found_at_its_location() {
    let faults = archives::json("broken/FAULTS.json");
    let faults = faults["faults"].as_array().unwrap();
    let table = include_str!("broken.txt").lines().filter(|line| !line.starts_with('#'));
    let table: BTreeMap<_, _> = table.map(|line| line.split_once(':').unwrap()).collect();
    assert_eq!(faults.len(), table.len());
    let mut missed = Vec::new();
    for fault in faults {
        let id = fault["id"].as_str().unwrap();
        let (expected, allowed) = table[id].split_once(';').unwrap_or((table[id], ""));
        let expected = expected.trim();
        let report = report(&format!("broken/{id}"), &Checks::default()).await;
        let found: Vec<String> = report.findings.iter().map(summarize).collect();
        // A fault that must be refused is an error.
        let has_no_error = fault["want"] == "error" && report.count(Severity::Error) == 0;
        if has_no_error || !expected.is_empty() && !found.iter().any(|found| found == expected) {
            missed.push(format!("{id}: {found:#?}"));
        }
        let base = fault["base"].as_str().unwrap();
        let base = super::report(&format!("broken/_base_{base}"), &Checks::default()).await;
        let base: Vec<String> = base.findings.iter().map(verdict).collect();
        let extra: BTreeSet<String> = report
            .findings
            .iter()
            .filter(|finding| summarize(finding) != expected)
            .map(verdict)
            .filter(|verdict| !base.contains(verdict))
            .collect();
        let extra: Vec<String> = extra.into_iter().collect();
        if extra.join(", ") != allowed.trim() {
            missed.push(format!("{id}: {expected}; {}", extra.join(", ")));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

fn verdict(finding: &Finding) -> String {
    format!("{} {}", finding.severity, finding.rule.id)
}

/// Findings of the original stores are not caused by the fault.
#[tokio::test]
async fn the_originals_of_broken_stores_are_sound() {
    let faults = archives::json("broken/FAULTS.json");
    let faults = faults["faults"].as_array().unwrap().iter();
    for name in faults.map(|fault| fault["base"].as_str().unwrap()).collect::<BTreeSet<_>>() {
        let report = report(&format!("broken/_base_{name}"), &Checks::default()).await;
        assert_eq!(report.count(Severity::Error), 0, "{name}: {:#?}", report.findings);
    }
}
