//! Findings as text: by rule, worst first.

use std::io::Write;

use zvf::format::num::to_u64;
use zvf::validate::{Finding, Report, Severity};

use crate::table::{self, count, format_count};

/// Writes the report as text.
pub(super) fn write(address: &str, report: &Report, out: &mut dyn Write) -> anyhow::Result<()> {
    for group in report.findings.chunk_by(|a, b| (a.rule, a.severity) == (b.rule, b.severity)) {
        let (rule, severity) = (group[0].rule, group[0].severity);
        writeln!(out, "{severity} {}: {}", rule.id, rule.wrong)?;
        for finding in group {
            writeln!(out, "  {}", place(finding))?;
        }
        let all = report.counts.iter().find(|(r, s, _)| (*r, *s) == (rule, severity));
        let more = all.map_or(0, |(_, _, all)| all.saturating_sub(to_u64(group.len())));
        if more > 0 {
            writeln!(out, "  and {} more", count(more))?;
        }
        writeln!(out, "  {}\n", rule.remedy)?;
    }
    write_hidden_rules(report, out)?;
    let checked = report.checked;
    let places = [(checked.levels, "level"), (checked.arrays, "array"), (checked.cells, "cell")];
    let items = [(checked.rows, "row"), (checked.objects, "object"), (checked.links, "link")];
    let (places, bytes) = (table::counts(places), table::bytes(checked.bytes));
    writeln!(out, "checked {places}, {bytes}: {}", table::counts(items))?;
    write_skipped(report, out)?;
    writeln!(out, "{address}: {}", sum(report))?;
    Ok(())
}

/// Writes the skipped checks, grouped by reason.
fn write_skipped(report: &Report, out: &mut dyn Write) -> anyhow::Result<()> {
    let reason = |finding: &Finding| match finding.subject.as_str() {
        "names" => "nothing lists it here".to_owned(),
        what => format!("{} {what}, of which {} are kept", finding.found, finding.expected),
    };
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    for finding in &report.skipped {
        let path = if finding.path.is_empty() { "the store" } else { &finding.path };
        let (reason, place) = (reason(finding), format!("{} of {path}", finding.rule.id));
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, places)) => places.push(place),
            None => reasons.push((reason, vec![place])),
        }
    }
    for (reason, places) in reasons {
        writeln!(out, "not checked, {reason}: {}", places.join(", "))?;
    }
    if let Some(sample) = report.sample {
        let share = sample.share();
        writeln!(out, "checked a share of {share} of the cells: totals were not compared")?;
    }
    Ok(())
}

/// Writes the rules none of whose findings were kept.
fn write_hidden_rules(report: &Report, out: &mut dyn Write) -> anyhow::Result<()> {
    for (rule, severity, n) in report.counts.iter().rev() {
        let is_shown = report.findings.iter().any(|f| (f.rule, f.severity) == (*rule, *severity));
        if !is_shown && *severity > Severity::Note {
            writeln!(out, "{severity} {}: {} not shown", rule.id, count(*n))?;
        }
    }
    Ok(())
}

/// Returns the location and the fault of a finding.
fn place(finding: &Finding) -> String {
    let text = finding.to_string();
    let head = format!("{} {} ", finding.severity, finding.rule.id);
    text.strip_prefix(&head).unwrap_or(&text).to_owned()
}

/// Returns one line with the totals.
pub(crate) fn sum(report: &Report) -> String {
    let (errors, warnings) = (report.count(Severity::Error), report.count(Severity::Warning));
    let mut text = match (errors, warnings) {
        (0, 0) => "no errors".to_owned(),
        _ => format!("{}, {}", format_count(errors, "error"), format_count(warnings, "warning")),
    };
    if report.sample.is_some() {
        text.push_str(", in a sample");
    }
    if !report.skipped.is_empty() {
        text.push_str("; some checks skipped");
    }
    if !report.complete {
        text.push_str(", stopped before the end");
    }
    text
}
