//! Collected findings: all are counted, and a limited number is kept.
//!
//! Each cell is checked separately, on any thread, and the findings are joined in the order of the
//! cells, so the same store gives the same report. Errors and warnings are limited separately, so
//! that many warnings do not hide errors.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use zvf_format::Lints;
use zvf_format::key::ChunkKey;

use crate::finding::Finding;
use crate::report::Report;
use crate::rule::{Rule, Severity};
use crate::rules::{S, position};

/// Findings of a cell, an array or a store.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Findings {
    /// Lists that are read from a record are only absorbed, so their settings do not matter.
    #[serde(skip)]
    max_kept: usize,
    #[serde(skip)]
    strict: bool,
    kept: BTreeMap<Severity, Vec<Finding>>,
    counts: Vec<(&'static Rule, Severity, u64)>,
    skipped: Vec<Finding>,
}

impl Findings {
    /// Creates an empty list that keeps `max_kept` findings of each severity.
    pub(crate) fn new(max_kept: usize, strict: bool) -> Self {
        Self { max_kept, strict, ..Self::default() }
    }

    /// Returns a list with the same settings.
    pub(crate) fn new_empty(&self) -> Self {
        Self::new(self.max_kept, self.strict)
    }

    /// Adds a finding. A feature that the build does not support is reported once per array.
    pub(crate) fn add(&mut self, mut finding: Finding) {
        let is_kept = |kept: &Vec<Finding>| kept.contains(&finding);
        if finding.rule == S[17] && self.kept.get(&finding.severity).is_some_and(is_kept) {
            return;
        }
        if finding.lint && self.strict {
            finding.severity = Severity::Error;
        }
        self.count(finding.rule, finding.severity, 1);
        let kept = self.kept.entry(finding.severity).or_default();
        if kept.len() < self.max_kept {
            kept.push(finding);
        }
    }

    /// Adds lints of a cell.
    pub(crate) fn add_lints(
        &mut self,
        rule: &'static Rule,
        path: &str,
        key: &ChunkKey,
        lints: &Lints,
    ) {
        let lints = lints.iter().map(|lint| Finding::from_format(rule, path, lint));
        lints.for_each(|finding| self.add(finding.in_cell(key).lint()));
    }

    fn count(&mut self, rule: &'static Rule, severity: Severity, more: u64) {
        match self.counts.iter_mut().find(|(r, s, _)| (*r, *s) == (rule, severity)) {
            Some((_, _, n)) => *n += more,
            None => self.counts.push((rule, severity, more)),
        }
    }

    /// Reports that something was not checked, once for each rule and place.
    pub(crate) fn skip(&mut self, mut finding: Finding) {
        finding.severity = Severity::Note;
        if !self.skipped.contains(&finding) {
            self.skipped.push(finding);
        }
    }

    /// Appends the findings of another list.
    pub(crate) fn absorb(&mut self, mut other: Self) {
        // Findings that are reported once are added one by one.
        for kept in other.kept.values_mut() {
            kept.extract_if(.., |finding| finding.rule == S[17])
                .for_each(|unknown| self.add(unknown));
        }
        other.skipped.into_iter().for_each(|finding| self.skip(finding));
        for (rule, severity, n) in other.counts.into_iter().filter(|(rule, ..)| *rule != S[17]) {
            self.count(rule, severity, n);
        }
        for (severity, findings) in other.kept {
            let kept = self.kept.entry(severity).or_default();
            let room = self.max_kept.saturating_sub(kept.len()); // none is left once all are taken
            kept.extend(findings.into_iter().take(room));
        }
    }

    /// Returns the report of the rules that `is_requested` accepts: findings worst first, counts,
    /// and notes.
    pub(crate) fn into_report(self, is_requested: impl Fn(&Rule) -> bool) -> Report {
        let all = self.kept.into_values().rev().flatten();
        let all = all.filter(|finding| is_requested(finding.rule));
        let (notes, mut findings): (Vec<_>, Vec<_>) =
            all.partition(|finding| finding.severity == Severity::Note);
        findings.sort_by_key(|finding: &Finding| {
            (std::cmp::Reverse(finding.severity), position(finding.rule))
        });
        findings.truncate(self.max_kept);
        let mut counts = self.counts;
        counts.retain(|(rule, ..)| is_requested(rule));
        counts.sort_by_key(|(rule, severity, _)| (position(rule), *severity));
        let mut skipped = self.skipped;
        skipped.retain(|finding| is_requested(finding.rule));
        Report { findings, counts, notes, skipped, ..Report::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::C;

    #[test]
    fn errors_come_first_and_all_are_counted() {
        let mut all = Findings::new(3, false);
        let mut cell = all.new_empty();
        for i in 0..5 {
            cell.add(C[4].at(i));
        }
        all.absorb(cell);
        all.add(C[21].at("bad"));
        all.add(C[21].at("odd").lint());
        all.add(S[8].at("0"));
        let summary = all.into_report(|_| true);
        let found: Vec<_> = summary.findings.iter().map(|f| (f.rule.id, f.path.as_str())).collect();
        assert_eq!(found, [("C21", "bad"), ("C4", "0"), ("C4", "1")]);
        let counts: Vec<_> = summary.counts.iter().map(|(r, s, n)| (r.id, s.name(), *n)).collect();
        let expected =
            [("S8", "note", 1), ("C4", "warning", 5), ("C21", "warning", 1), ("C21", "error", 1)];
        assert_eq!(counts, expected);
        assert_eq!(summary.notes.len(), 1);
    }

    #[test]
    fn skipped_parts_are_reported_once_and_separately() {
        let mut all = Findings::new(1, true);
        for _ in 0..3 {
            all.skip(C[4].at("large").expects("rows", "at most 1", 2));
        }
        all.skip(C[21].at("other"));
        let summary = all.into_report(|rule| rule.id == "C4");
        assert_eq!((summary.findings.len(), summary.counts.len(), summary.notes.len()), (0, 0, 0));
        assert_eq!(summary.skipped.len(), 1);
        assert_eq!(summary.skipped[0].severity, Severity::Note);
    }

    #[test]
    fn strict_readers_reject_lints() {
        let mut all = Findings::new(9, true);
        all.add(C[21].at("odd").lint());
        all.add(C[4].at("nan"));
        let summary = all.into_report(|rule| rule.id == "C21");
        assert_eq!(summary.findings.len(), 1);
        assert_eq!(summary.findings[0].severity, Severity::Error);
    }
}
