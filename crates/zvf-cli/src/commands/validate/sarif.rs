//! Findings as SARIF 2.1.0: one run, all rules, a result for each finding.
//!
//! A skipped check is a notification of the run, not a result; so is an early end.
//!
//! A location is an object or node, relative to a base that is the store. The byte is one of the decoded cell; where
//! the file is compressed it does not have that byte, so it is a property and not a region.

use std::fmt::Write as _;
use std::io::Write;

use serde_json::{Value, json};
use zvf::validate::{Finding, RULES, Report, Rule};

/// Writes the whole log.
pub(super) fn write(address: &str, report: &Report, out: &mut dyn Write) -> anyhow::Result<()> {
    let results: Vec<Value> = report.findings.iter().map(result).collect();
    let rules: Vec<Value> = RULES.iter().map(descriptor).collect();
    let base = format!("{}/", escape_uri(address.trim_end_matches('/')));
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "zvf",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "originalUriBaseIds": {BASE: {"uri": base}},
            "invocations": [{
                "executionSuccessful": report.complete,
                "toolExecutionNotifications": notifications(report),
            }],
            "results": results,
        }],
    });
    Ok(writeln!(out, "{log:#}")?)
}

fn descriptor(rule: &Rule) -> Value {
    json!({
        "id": rule.id,
        "shortDescription": {"text": rule.wrong},
        "help": {"text": rule.remedy},
        "defaultConfiguration": {"level": rule.severity.name()},
        "properties": {"level": rule.level.name(), "versions": rule.versions},
    })
}

/// Returns the reasons why the results may be incomplete.
fn notifications(report: &Report) -> Vec<Value> {
    let mut all: Vec<Value> = report.skipped.iter().map(to_notification).collect();
    let mut say = |text: String| all.push(json!({"level": "warning", "message": {"text": text}}));
    if let Some(sample) = report.sample {
        say(format!("only a sample of the cells was checked: {}", sample.share()));
    }
    if !report.complete {
        say("stopped before the end".to_owned());
    }
    all
}

fn to_notification(finding: &Finding) -> Value {
    let text = format!(
        "not checked, {}: expected {}, found {}",
        finding.subject, finding.expected, finding.found
    );
    json!({
        "level": "warning",
        "message": {"text": text},
        "associatedRule": {"id": finding.rule.id, "index": index(finding)},
        "locations": [location(finding)],
    })
}

fn result(finding: &Finding) -> Value {
    let text =
        format!("{}: expected {}, found {}", finding.subject, finding.expected, finding.found);
    json!({
        "ruleId": finding.rule.id,
        "ruleIndex": index(finding),
        "level": finding.severity.name(),
        "message": {"text": text.trim_start_matches(": ")},
        "locations": [location(finding)],
        "properties": super::json_value(finding),
    })
}

/// Returns the index of the rule among all rules.
fn index(finding: &Finding) -> Option<usize> {
    RULES.iter().position(|rule| rule.id == finding.rule.id)
}

fn location(finding: &Finding) -> Value {
    let uri = escape_uri(&finding.path);
    let mut location =
        json!({"physicalLocation": {"artifactLocation": {"uri": uri, "uriBaseId": BASE}}});
    let row = finding.row.map(|row| ("row", row.to_string()));
    let place = finding.cell.as_ref().map(|cell| ("cell", cell.to_string())).or(row);
    if let Some((kind, name)) = place {
        let full = format!("{}#{name}", finding.path);
        location["logicalLocations"] =
            json!([{"kind": kind, "name": name, "fullyQualifiedName": full}]);
    }
    location
}

/// Escapes a path for a URI reference.
fn escape_uri(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => text.push(char::from(byte)),
            b'-' | b'.' | b'_' | b'~' | b'/' | b'+' | b':' => text.push(char::from(byte)),
            _ => drop(write!(text, "%{byte:02X}")), // writing to a string does not fail
        }
    }
    text
}

/// The base that all paths are relative to.
const BASE: &str = "STORE";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_escaped_as_uri_references() {
        assert_eq!(escape_uri("0/links/0/+1.0_0.-1"), "0/links/0/+1.0_0.-1");
        assert_eq!(escape_uri("a b%c"), "a%20b%25c");
    }
}
