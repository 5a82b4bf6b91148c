//! The part that tests hostile blobs.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use hostile::{Corpus, Heap, Outcome, Runner};

use crate::HEAP;
use crate::tally::Tally;

/// Runs every case of one corpus.
pub(crate) fn run(folder: &Path, tally: &mut Tally<impl Write>) -> anyhow::Result<()> {
    let corpus = Corpus::open(folder)?;
    let heap = Heap {
        held: || HEAP.current_usage(),
        peak: || HEAP.peak_usage(),
        reset: || HEAP.reset_peak_usage(),
    };
    let runner = Runner { heap, timed: !cfg!(debug_assertions) };
    for case in &corpus.cases {
        match runner.run(&corpus, case).with_context(|| case.id.clone())? {
            Outcome::Passed => tally.pass(),
            Outcome::Skipped => tally.skip(),
            Outcome::Failed(lines) => tally.fail(&lines)?,
        }
    }
    Ok(())
}
