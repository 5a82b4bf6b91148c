//! Counts passed facts, and prints failures.

use std::collections::BTreeMap;
use std::io::Write;

use crate::report::Report;

/// The verdicts so far.
#[derive(Debug)]
pub(crate) struct Tally<W> {
    out: W,
    passed: u64,
    failed: u64,
    skipped: u64,
    reasons: BTreeMap<String, u64>,
}

impl<W: Write> Tally<W> {
    pub(crate) const fn new(out: W) -> Self {
        Self { out, passed: 0, failed: 0, skipped: 0, reasons: BTreeMap::new() }
    }

    pub(crate) const fn pass(&mut self) {
        self.passed += 1;
    }

    pub(crate) const fn skip(&mut self) {
        self.skipped += 1;
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

    /// Counts one failure, and prints its lines.
    pub(crate) fn fail(&mut self, lines: &[String]) -> anyhow::Result<()> {
        self.failed += 1;
        for line in lines {
            writeln!(self.out, "{line}")?;
        }
        Ok(())
    }

    /// Counts the facts of one store, and prints those that differ.
    pub(crate) fn add(&mut self, report: Report) -> anyhow::Result<()> {
        self.passed += report.passed;
        for line in report.failures {
            self.fail(&[line])?;
        }
        report.skips.into_iter().for_each(|why| self.skip_because(why));
        Ok(())
    }

    /// Prints why something was skipped, then the totals; returns whether nothing failed.
    pub(crate) fn close(mut self) -> anyhow::Result<bool> {
        let Self { passed, failed, skipped, .. } = self;
        for (why, times) in &self.reasons {
            writeln!(self.out, "skipped {times}: {why}")?;
        }
        writeln!(self.out, "{passed} passed, {failed} failed, {skipped} skipped")?;
        Ok(failed == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closes_with_the_counts() {
        let mut out = Vec::new();
        let mut tally = Tally::new(&mut out);
        tally.pass();
        tally.skip();
        tally.skip_because("not here");
        tally.fail(&["a: wrong".to_owned()]).unwrap();
        assert!(!tally.close().unwrap());
        let text = "a: wrong\nskipped 1: not here\n1 passed, 1 failed, 2 skipped\n";
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }
}
