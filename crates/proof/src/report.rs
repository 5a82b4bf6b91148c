//! Results of cases. A [`Report`] lists the facts of one case that agree, that differ and that were
//! not compared. A [`Run`] counts them and prints the differences.
//!
//! A fact has a name, `store/level/what`, and is a JSON value on both sides: the expected one of
//! the corpus, and the found one of the library. Numbers agree when they have the same value.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Write;
use std::path::Path;

use anyhow::Context as _;
use archives::Unpacked;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::contents::Payloads;
use crate::corpus::{self, Golden};
use crate::facts;

/// The results of one case.
#[derive(Default)]
pub(crate) struct Report {
    store: String,
    /// The number of facts that agree.
    pub(crate) passed: u64,
    /// One line for each fact that differs.
    pub(crate) failures: Vec<String>,
    /// Why facts were not compared.
    skips: Vec<String>,
}

impl Report {
    /// Creates a report about a case.
    pub(crate) fn new(store: impl Into<String>) -> Self {
        Self { store: store.into(), ..Self::default() }
    }

    /// Compares one fact.
    pub(crate) fn compare(&mut self, what: &str, expected: &Value, found: impl Into<Value>) {
        let found = found.into();
        if is_same_value(expected, &found) {
            self.passed += 1;
        } else {
            self.fail(what, format!("expected {}, found {}", shorten(expected), shorten(&found)));
        }
    }

    /// Compares facts of the corpus with the found ones, one by one. A fact that was not found
    /// fails, unless nothing can compare facts of this name.
    pub(crate) fn compare_tree(&mut self, at: &str, expected: &Value, found: &Value) {
        if let Some(why) = found[facts::SKIPPED].as_str() {
            self.skip(why);
        } else if let Some(why) = found[facts::ERROR].as_str() {
            self.check(at, expected["error"].is_string(), why);
        } else if let Some(found) = found.get(facts::EXACT) {
            self.compare(at, expected, found.clone());
        } else if found.get(facts::GIVEN).is_none() {
            self.compare_members(at, expected, found);
        }
    }

    fn compare_members(&mut self, at: &str, expected: &Value, found: &Value) {
        let below = |name: &str| format!("{at}{}{name}", if at.is_empty() { "" } else { "/" });
        match (expected, found) {
            (Value::Object(all), Value::Object(_)) => {
                for (name, expected) in all {
                    let is_unstated = expected.is_null() && UNSTATED.contains(&name.as_str());
                    match found.get(name) {
                        _ if is_unstated || UNCOMPARED.contains(&name.as_str()) => {}
                        Some(found) => self.compare_tree(&below(name), expected, found),
                        None => self.fail(&below(name), "nothing compares this"),
                    }
                }
            }
            (Value::Array(all), Value::Array(found))
                if all.len() == found.len() && all.iter().all(Value::is_object) =>
            {
                for (nth, (expected, found)) in all.iter().zip(found).enumerate() {
                    self.compare_tree(&below(&nth.to_string()), expected, found);
                }
            }
            _ => self.compare(at, expected, found.clone()),
        }
    }

    /// Counts one fact that either holds or not.
    pub(crate) fn check(&mut self, what: &str, holds: bool, why_not: impl Display) {
        if holds {
            self.passed += 1;
        } else {
            self.fail(what, why_not);
        }
    }

    /// Counts one fact that either holds or not; `why_not` is only called if it does not.
    pub(crate) fn claim<D: Display>(&mut self, holds: bool, why_not: impl FnOnce() -> D) {
        if holds {
            self.passed += 1;
        } else {
            self.deny(why_not());
        }
    }

    /// Compares the payloads of an array one by one.
    pub(crate) fn compare_payloads(&mut self, what: &str, expected: &Payloads, found: &Payloads) {
        if expected.len() != found.len() {
            let why = format!("{} payloads instead of {}", found.len(), expected.len());
            return self.fail(what, why);
        }
        for ((key, expected), (key_found, found)) in expected.iter().zip(found) {
            let at = expected.iter().zip(found).position(|(a, b)| a != b);
            let why = format!(
                "{key_found} of {} bytes instead of {}, other at {at:?}",
                found.len(),
                expected.len()
            );
            self.check(&format!("{what} {key}"), key == key_found && expected == found, why);
        }
    }

    /// Counts one fact that differs.
    pub(crate) fn deny(&mut self, why: impl Display) {
        self.failures.push(format!("{}: {why}", self.store));
    }

    /// Returns a value, or reports why there is none.
    pub(crate) fn ok_or_report<T, E: Display>(
        &mut self,
        what: &str,
        found: Result<T, E>,
    ) -> Option<T> {
        found.map_err(|error| self.fail(what, error)).ok()
    }

    /// Counts one fact that differs.
    pub(crate) fn fail(&mut self, what: &str, why: impl Display) {
        self.failures.push(format!("{}/{what}: {why}", self.store));
    }

    /// Adds the counts of `part`.
    pub(crate) fn add(&mut self, part: Self) {
        self.passed += part.passed;
        self.failures.extend(part.failures);
        self.skips.extend(part.skips);
    }

    /// Counts one fact that was not compared.
    pub(crate) fn skip(&mut self, why: impl Into<String>) {
        self.skips.push(why.into());
    }
}

/// The cases so far, and their common settings.
pub(crate) struct Run<'a> {
    out: &'a mut dyn Write,
    pub(crate) runtime: Runtime,
    /// Only cases with this in their names.
    pub(crate) only: Option<String>,
    passed: u64,
    failed: u64,
    skipped: u64,
    reasons: BTreeMap<String, u64>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(out: &'a mut dyn Write, only: Option<String>) -> anyhow::Result<Self> {
        let reasons = BTreeMap::new();
        Ok(Self { out, runtime: Runtime::new()?, only, passed: 0, failed: 0, skipped: 0, reasons })
    }

    /// Returns whether a case of that name is selected.
    pub(crate) fn is_wanted(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    }

    /// Runs one case. An error counts as a failure.
    pub(crate) fn case(
        &mut self,
        name: impl Into<String>,
        check: impl AsyncFnOnce(&mut Report) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut report = Report::new(name);
        if let Err(error) = self.runtime.block_on(check(&mut report)) {
            report.fail("check", format!("{error:#}"));
        }
        self.add(report)
    }

    /// Runs a case for every golden store of `folder`, each in its own folder.
    pub(crate) fn goldens(
        &mut self,
        folder: &Path,
        prefix: &str,
        check: impl AsyncFn(&mut Report, Golden, &Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        for golden in corpus::list_goldens(folder, self.only.as_deref())? {
            let unpacked = Unpacked::from_files(&corpus::read_archive(&golden.archive)?);
            let name = format!("{prefix}{}", golden.id);
            self.case(name, async |report| check(report, golden, unpacked.path()).await)?;
        }
        Ok(())
    }

    /// Adds the verdicts of a program about stores, one line each: the number of right facts, and
    /// the faults. Returns the numbers of stores and facts.
    pub(crate) fn verdicts(
        &mut self,
        prefix: &str,
        output: &str,
        more: impl AsyncFn(&mut Report, &str) -> anyhow::Result<()>,
    ) -> anyhow::Result<(usize, u64)> {
        let (mut stores, mut facts) = (0, 0);
        for line in output.lines() {
            let line: Value = serde_json::from_str(line).context("a line that is no JSON")?;
            let store = line["store"].as_str().context("a store without a name")?;
            self.case(format!("{prefix}/{store}"), async |report| {
                report.passed = line["passed"].as_u64().unwrap_or_default();
                for fault in facts::texts(&line["faults"]) {
                    report.fail("reference", fault);
                }
                facts += report.passed;
                more(report, store).await
            })?;
            stores += 1;
        }
        Ok((stores, facts))
    }

    /// Counts a skipped test, with the reason.
    pub(crate) fn skip_because(&mut self, why: impl Into<String>) {
        self.skipped += 1;
        *self.reasons.entry(why.into()).or_default() += 1;
    }

    /// Prints a line without counting.
    pub(crate) fn print_line(&mut self, line: &str) -> anyhow::Result<()> {
        Ok(writeln!(self.out, "{line}")?)
    }

    /// Counts the facts of one case, and prints those that differ.
    pub(crate) fn add(&mut self, report: Report) -> anyhow::Result<()> {
        self.passed += report.passed;
        for line in report.failures {
            self.failed += 1;
            writeln!(self.out, "{line}")?;
        }
        report.skips.into_iter().for_each(|why| self.skip_because(why));
        Ok(())
    }

    /// Returns the number of passed facts.
    #[cfg(test)]
    pub(crate) const fn passed(&self) -> u64 {
        self.passed
    }

    /// Prints why something was skipped, then the totals; returns whether nothing failed.
    pub(crate) fn close(self) -> anyhow::Result<bool> {
        let Self { out, passed, failed, skipped, .. } = self;
        for (why, times) in &self.reasons {
            writeln!(out, "skipped {times}: {why}")?;
        }
        writeln!(out, "{passed} passed, {failed} failed, {skipped} skipped")?;
        Ok(failed == 0)
    }
}

/// Returns whether two facts have the same value.
fn is_same_value(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same_value(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(k, a)| b.get(k).is_some_and(|b| is_same_value(a, b)))
        }
        _ => a == b,
    }
}

/// Formats a value in one short line.
fn shorten(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text,
    }
}

/// Facts that nothing can compare: notes, and what only the reference has.
const UNCOMPARED: [&str; 12] = [
    "agree",
    "cell_list",
    "index_sha256",
    "layout",
    "manifest_row",
    "message",
    "note",
    "object_ids_sha256",
    "order",
    "perm_idx_used",
    "reader",
    "reference_agrees",
];
/// Facts that the corpus does not state where they are null.
const UNSTATED: [&str; 3] = ["chunks", "fill_value", "fragment_lengths"];
/// The length in bytes up to which a value is printed completely.
const LONGEST: usize = 120;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_agree_by_worth_and_lines_are_short() {
        let mut report = Report::new("s");
        report.compare("a", &json!([1, 2.0]), json!([1.0, 2]));
        report.compare("b", &json!("inf"), json!(1));
        report.compare("c", &json!("x".repeat(500)), json!(null));
        assert_eq!(report.passed, 1);
        assert_eq!(report.failures[0], "s/b: expected \"inf\", found 1");
        assert!(report.failures[1].len() < 200);
    }

    #[test]
    fn closes_with_the_counts() {
        let mut out = Vec::new();
        let mut run = Run::new(&mut out, None).unwrap();
        run.case("a", async |report| {
            report.check("b", true, "");
            report.skip("not here");
            anyhow::bail!("wrong")
        })
        .unwrap();
        assert!(!run.close().unwrap());
        let text = "a/check: wrong\nskipped 1: not here\n1 passed, 1 failed, 1 skipped\n";
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }
}
