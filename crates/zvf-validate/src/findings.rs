//! Findings as they gather: counted without end, kept up to a number.
//!
//! Each cell is looked into by itself, on any thread, and its findings are joined in the order of the cells:
//! the same store gives the same report. Errors and warnings are kept apart, so that a flood of warnings
//! hides no error.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};

use crate::finding::{self, Finding, FindingRecord};
use crate::rule::{Rule, Severity};
use crate::rules;
use crate::rules::structure::S17;

/// Findings of a cell, an array or a store.
#[derive(Debug, Deserialize)]
#[serde(try_from = "FindingsRecord")]
pub(crate) struct Findings {
    max_kept: usize,
    strict: bool,
    kept: BTreeMap<Severity, Vec<Finding>>,
    counts: BTreeMap<(usize, Severity), u64>,
    skipped: Vec<Finding>,
}

impl Findings {
    /// Creates an empty list that keeps `max_kept` findings of each severity.
    pub(crate) fn new(max_kept: usize, strict: bool) -> Self {
        Self {
            max_kept,
            strict,
            kept: BTreeMap::new(),
            counts: BTreeMap::new(),
            skipped: Vec::new(),
        }
    }

    /// Returns a list with the same settings.
    pub(crate) fn new_empty(&self) -> Self {
        Self::new(self.max_kept, self.strict)
    }

    /// Adds one. What a build does not know of an array is reported once.
    pub(crate) fn add(&mut self, mut finding: Finding) {
        if self.is_reported(&finding) {
            return;
        }
        if finding.lint && self.strict {
            finding.severity = Severity::Error;
        }
        let place = (rules::position(finding.rule), finding.severity);
        let count = self.counts.entry(place).or_default();
        *count += 1;
        let kept = self.kept.entry(finding.severity).or_default();
        if kept.len() < self.max_kept {
            kept.push(finding);
        }
    }

    /// Reports that something was not checked, once for each rule and place.
    pub(crate) fn skip(&mut self, mut finding: Finding) {
        finding.severity = Severity::Note;
        if !self.skipped.contains(&finding) {
            self.skipped.push(finding);
        }
    }

    fn is_reported(&self, finding: &Finding) -> bool {
        let same = |kept: &Vec<Finding>| kept.contains(finding);
        finding.rule.id == S17.id && self.kept.get(&finding.severity).is_some_and(same)
    }

    /// Adds those of another list behind these.
    pub(crate) fn absorb(&mut self, mut other: Self) {
        for finding in other.without_unknown() {
            self.add(finding);
        }
        for finding in other.skipped {
            self.skip(finding);
        }
        for (place, n) in other.counts {
            let count = self.counts.entry(place).or_default();
            *count += n;
        }
        for (severity, findings) in other.kept {
            let kept = self.kept.entry(severity).or_default();
            let room = self.max_kept.saturating_sub(kept.len()); // none is left once all are taken
            kept.extend(findings.into_iter().take(room));
        }
    }

    /// Takes out what is reported once.
    fn without_unknown(&mut self) -> Vec<Finding> {
        let place = rules::position(&S17);
        self.counts.retain(|(rule, _), _| *rule != place);
        let mut unknown = Vec::new();
        for kept in self.kept.values_mut() {
            unknown.extend(kept.extract_if(.., |finding| finding.rule.id == S17.id));
        }
        unknown
    }

    /// Returns those of the rules that `is_requested` lets through, worst first; the counts; and the notes.
    pub(crate) fn into_summary(self, is_requested: impl Fn(&Rule) -> bool) -> FindingSummary {
        let max_kept = self.max_kept;
        let (mut findings, mut notes) = (Vec::new(), Vec::new());
        for (severity, kept) in self.kept.into_iter().rev() {
            let kept = kept.into_iter().filter(|finding| is_requested(finding.rule));
            if severity == Severity::Note { notes.extend(kept) } else { findings.extend(kept) }
        }
        findings.sort_by_key(|finding: &Finding| {
            (std::cmp::Reverse(finding.severity), rules::position(finding.rule))
        });
        findings.truncate(max_kept);
        let counts = self.counts.into_iter().filter_map(|((place, severity), n)| {
            let rule = rules::RULES.get(place).copied().filter(|rule| is_requested(rule))?;
            Some((rule, severity, n))
        });
        let skipped =
            self.skipped.into_iter().filter(|finding| is_requested(finding.rule)).collect();
        FindingSummary { findings, counts: counts.collect(), notes, skipped }
    }
}

impl Serialize for Findings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let counts = self.counts.iter().filter_map(|((place, severity), n)| {
            let rule = rules::RULES.get(*place)?;
            Some((rule.id.to_owned(), severity.name().to_owned(), *n))
        });
        let record = FindingsRecord {
            kept: self.kept.values().flatten().map(FindingRecord::from).collect(),
            counts: counts.collect(),
            skipped: self.skipped.iter().map(FindingRecord::from).collect(),
        };
        record.serialize(serializer)
    }
}

/// Findings as records have them. They are only ever added to others, whose settings count.
#[derive(Debug, Serialize, Deserialize)]
struct FindingsRecord {
    kept: Vec<FindingRecord>,
    counts: Vec<(String, String, u64)>,
    skipped: Vec<FindingRecord>,
}

impl TryFrom<FindingsRecord> for Findings {
    type Error = String;

    fn try_from(record: FindingsRecord) -> Result<Self, String> {
        let mut findings = Self::new(usize::MAX, false);
        for finding in record.kept {
            let finding = Finding::try_from(finding)?;
            findings.kept.entry(finding.severity).or_default().push(finding);
        }
        for (id, severity, n) in record.counts {
            let place = rules::position(finding::rule(&id)?);
            findings.counts.insert((place, finding::severity(&severity)?), n);
        }
        let skipped = record.skipped.into_iter().map(Finding::try_from);
        findings.skipped = skipped.collect::<Result<_, String>>()?;
        Ok(findings)
    }
}

/// The findings of a report, with counts and notes.
pub(crate) struct FindingSummary {
    pub(crate) findings: Vec<Finding>,
    pub(crate) counts: Vec<(&'static Rule, Severity, u64)>,
    pub(crate) notes: Vec<Finding>,
    pub(crate) skipped: Vec<Finding>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::consistency::{C4, C21};
    use crate::rules::structure::S8;

    #[test]
    fn errors_come_first_and_all_are_counted() {
        let mut all = Findings::new(3, false);
        let mut cell = all.new_empty();
        for i in 0..5 {
            cell.add(Finding::new(&C4, i));
        }
        all.absorb(cell);
        all.add(Finding::new(&C21, "bad"));
        all.add(Finding::new(&C21, "odd").lint());
        all.add(Finding::new(&S8, "0"));
        let summary = all.into_summary(|_| true);
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
            all.skip(Finding::new(&C4, "large").with_details("rows", "at most 1", 2));
        }
        all.skip(Finding::new(&C21, "other"));
        let summary = all.into_summary(|rule| rule.id == "C4");
        assert_eq!((summary.findings.len(), summary.counts.len(), summary.notes.len()), (0, 0, 0));
        assert_eq!(summary.skipped.len(), 1);
        assert_eq!(summary.skipped[0].severity, Severity::Note);
    }

    #[test]
    fn strict_readers_reject_lints() {
        let mut all = Findings::new(9, true);
        all.add(Finding::new(&C21, "odd").lint());
        all.add(Finding::new(&C4, "nan"));
        let summary = all.into_summary(|rule| rule.id == "C21");
        assert_eq!(summary.findings.len(), 1);
        assert_eq!(summary.findings[0].severity, Severity::Error);
    }
}
