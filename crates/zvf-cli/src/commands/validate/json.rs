//! Findings as lines of JSON, those about skipped checks included, and a last line with the totals.

use std::io::Write;

use serde_json::{Value, json};
use zvf::validate::{Finding, Report, Severity};

/// Writes a line for each finding and skipped check, and the totals.
pub(super) fn write(address: &str, report: &Report, out: &mut dyn Write) -> anyhow::Result<()> {
    for finding in &report.findings {
        writeln!(out, "{}", value(finding))?;
    }
    for finding in &report.skipped {
        let mut line = value(finding);
        line["unseen"] = true.into();
        writeln!(out, "{line}")?;
    }
    let counts: Vec<Value> = report
        .counts
        .iter()
        .filter(|(_, severity, _)| *severity > Severity::Note)
        .map(
            |(rule, severity, n)| json!({"rule": rule.id, "severity": severity.name(), "count": n}),
        )
        .collect();
    let sum = json!({"summary": {
        "store": address,
        "complete": report.complete,
        "errors": report.count(Severity::Error),
        "warnings": report.count(Severity::Warning),
        "counts": counts,
        "unseen": report.skipped.len(),
        "sample": report.sample.map(|s| json!({"share": s.share(), "seed": s.seed()})),
        "checked": report.checked,
    }});
    Ok(writeln!(out, "{sum}")?)
}

/// Returns one finding as JSON, without empty fields.
pub(crate) fn value(finding: &Finding) -> Value {
    let rule = finding.rule;
    let mut all = json!({
        "rule": rule.id,
        "level": rule.level.number(),
        "severity": finding.severity.name(),
        "path": finding.path,
        "cell": finding.cell,
        "row": finding.row,
        "offset": finding.offset,
        "subject": (!finding.subject.is_empty()).then_some(&finding.subject),
        "expected": finding.expected,
        "found": finding.found,
    });
    all.as_object_mut().into_iter().for_each(|all| all.retain(|_, value| !value.is_null()));
    all
}
