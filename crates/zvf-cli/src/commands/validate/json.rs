//! Findings as lines of JSON, those about skipped checks included, and a last line with the totals.

use std::io::Write;

use serde_json::{Map, Value, json};
use zvf::validate::{Finding, Report, Severity};

/// Writes a line for each finding and skipped check, and the totals.
pub(super) fn write(address: &str, report: &Report, out: &mut dyn Write) -> anyhow::Result<()> {
    for finding in &report.findings {
        serde_json::to_writer(&mut *out, &value(finding))?;
        out.write_all(b"\n")?;
    }
    for finding in &report.skipped {
        let mut line = value(finding);
        if let Some(line) = line.as_object_mut() {
            line.insert("unseen".to_owned(), true.into());
        }
        serde_json::to_writer(&mut *out, &line)?;
        out.write_all(b"\n")?;
    }
    let counts: Vec<Value> = report
        .counts
        .iter()
        .filter(|(_, severity, _)| *severity > Severity::Note)
        .map(
            |(rule, severity, n)| json!({"rule": rule.id, "severity": severity.name(), "count": n}),
        )
        .collect();
    let checked = report.checked;
    let sum = json!({"summary": {
        "store": address,
        "complete": report.complete,
        "errors": report.count(Severity::Error),
        "warnings": report.count(Severity::Warning),
        "counts": counts,
        "unseen": report.skipped.len(),
        "sample": report.sample.map(|s| json!({"share": s.share(), "seed": s.seed()})),
        "checked": {
            "levels": checked.levels,
            "arrays": checked.arrays,
            "cells": checked.cells,
            "bytes": checked.bytes,
            "rows": checked.rows,
            "objects": checked.objects,
            "links": checked.links,
        },
    }});
    serde_json::to_writer(&mut *out, &sum)?;
    out.write_all(b"\n")?;
    Ok(())
}

/// Returns one finding as JSON, without empty fields.
pub(crate) fn value(finding: &Finding) -> Value {
    let mut all = Map::new();
    let mut put = |key: &str, value: Value| all.insert(key.to_owned(), value);
    put("rule", finding.rule.id.into());
    put("level", finding.rule.level.number().into());
    put("severity", finding.severity.name().into());
    put("path", finding.path.clone().into());
    if let Some(cell) = &finding.cell {
        put("cell", cell.clone().into());
    }
    if let Some(row) = finding.row {
        put("row", row.into());
    }
    if let Some(offset) = finding.offset {
        put("offset", offset.into());
    }
    if !finding.subject.is_empty() {
        put("subject", finding.subject.clone().into());
    }
    put("expected", finding.expected.clone().into());
    put("found", finding.found.clone().into());
    Value::Object(all)
}
