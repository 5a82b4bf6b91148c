//! Counts what passed, and prints what failed.

use std::io::Write;

/// Verdicts so far.
#[derive(Debug)]
pub(crate) struct Tally<W> {
    out: W,
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl<W: Write> Tally<W> {
    pub(crate) const fn new(out: W) -> Self {
        Self { out, passed: 0, failed: 0, skipped: 0 }
    }

    pub(crate) const fn pass(&mut self) {
        self.passed += 1;
    }

    pub(crate) const fn skip(&mut self) {
        self.skipped += 1;
    }

    /// Counts one failure, and prints each of its lines.
    pub(crate) fn fail(&mut self, lines: &[String]) -> anyhow::Result<()> {
        self.failed += 1;
        for line in lines {
            writeln!(self.out, "{line}")?;
        }
        Ok(())
    }

    /// Prints the closing line, and says whether nothing failed.
    pub(crate) fn close(mut self) -> anyhow::Result<bool> {
        let Self { passed, failed, skipped, .. } = self;
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
        tally.fail(&["a: wrong".to_owned()]).unwrap();
        assert!(!tally.close().unwrap());
        assert_eq!(String::from_utf8(out).unwrap(), "a: wrong\n1 passed, 1 failed, 1 skipped\n");
    }
}
