//! Findings as text: by rule, worst first.

use std::io::Write;

use zvf::format::num::to_u64;
use zvf::validate::{Finding, Report, Severity};

use crate::table::{bytes, count, format_count};

/// Writes the report as text.
pub(super) fn write(address: &str, report: &Report, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut rest = report.findings.as_slice();
    while let Some(first) = rest.first() {
        let same =
            |finding: &Finding| (finding.rule, finding.severity) == (first.rule, first.severity);
        let n = rest.iter().take_while(|finding| same(finding)).count();
        let (group, after) = rest.split_at(n);
        rest = after;
        let (rule, severity) = (first.rule, first.severity);
        writeln!(out, "{severity} {}: {}", rule.id, rule.wrong)?;
        for finding in group {
            writeln!(out, "  {}", place(finding))?;
        }
        let all = report.counts.iter().find(|(r, s, _)| (*r, *s) == (rule, severity));
        let more = all.map_or(0, |(_, _, all)| all.saturating_sub(to_u64(n)));
        if more > 0 {
            writeln!(out, "  and {} more", count(more))?;
        }
        writeln!(out, "  {}\n", rule.remedy)?;
    }
    write_hidden_rules(report, out)?;
    let checked = report.checked;
    writeln!(
        out,
        "checked {}, {}, {}, {}: {}, {}, {}",
        format_count(checked.levels, "level"),
        format_count(checked.arrays, "array"),
        format_count(checked.cells, "cell"),
        bytes(checked.bytes),
        format_count(checked.rows, "row"),
        format_count(checked.objects, "object"),
        format_count(checked.links, "link"),
    )?;
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
    let mut rest: Vec<(String, &Finding)> = report.skipped.iter().map(|f| (reason(f), f)).collect();
    while let Some((first, _)) = rest.first() {
        let first = first.clone();
        let (same, remaining): (Vec<_>, Vec<_>) = rest.into_iter().partition(|(r, _)| *r == first);
        let places = same.iter().map(|(_, f)| match f.path.as_str() {
            "" => format!("{} of the store", f.rule.id),
            path => format!("{} of {path}", f.rule.id),
        });
        let places: Vec<String> = places.collect();
        writeln!(out, "not checked, {first}: {}", places.join(", "))?;
        rest = remaining;
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
