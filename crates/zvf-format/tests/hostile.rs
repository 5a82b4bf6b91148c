//! The hostile corpus: every verdict, class and budget, at all eight alignments.
//!
//! A single test, because it counts the bytes of the heap of the process.

use std::path::Path;

use archives::hostile::{Corpus, Heap, Outcome, Runner};
use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

#[test]
fn every_case_has_its_expected_verdict() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/hostile");
    let corpus = Corpus::open(&folder).unwrap();
    let heap = Heap {
        held: || HEAP.current_usage(),
        peak: || HEAP.peak_usage(),
        reset: || HEAP.reset_peak_usage(),
    };
    let runner = Runner { heap, timed: false };
    let mut failures = Vec::new();
    for case in &corpus.cases {
        match runner.run(&corpus, case).unwrap() {
            Outcome::Passed => {}
            Outcome::Skipped => failures.push(format!("{}: of no known kind", case.id)),
            Outcome::Failed(lines) => failures.extend(lines),
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    assert_eq!(corpus.cases.len(), 158);
}
