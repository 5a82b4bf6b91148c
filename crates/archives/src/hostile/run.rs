//! Runs the decoder on each blob of a case, at every alignment and in both modes, and compares the
//! results with the requirements of the case.

use std::panic::{self, AssertUnwindSafe};
use std::time::{Duration, Instant};

use zvf_format::Hint;

use super::corpus::{Case, Corpus, Expect, Sweep};
use super::decode::Kind;
use super::fault::Refused;

/// The counting allocator of the program, as three functions.
#[derive(Clone, Copy, Debug)]
pub struct Heap {
    /// Returns the current number of bytes.
    pub held: fn() -> usize,
    /// Returns the peak since the last reset.
    pub peak: fn() -> usize,
    /// Resets the peak to the current number of bytes.
    pub reset: fn(),
}

/// How cases are run.
#[derive(Clone, Copy, Debug)]
pub struct Runner {
    /// Measures memory. Nothing else may allocate meanwhile, so cases run sequentially.
    pub heap: Heap,
    /// Whether time limits are checked; only meaningful in a release build.
    pub timed: bool,
}

/// The result of a case.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All requirements are met.
    Passed,
    /// The kind is unknown.
    Skipped,
    /// The failures, one line each.
    Failed(Vec<String>),
}

/// One blob of a case, and its requirements.
struct Demand<'a> {
    blob: &'a [u8],
    strict: bool,
    expect: Expect,
    classes: Option<&'a [String]>, // `None` for any class
}

/// The result of a step; the outer error is a panic, with its message.
type Verdict = Result<Result<(), Refused>, String>;

impl Runner {
    /// Runs one case.
    ///
    /// # Errors
    ///
    /// When the blob cannot be read or the case lacks a parameter: faults of the corpus, not of the
    /// decoder.
    pub fn run(&self, corpus: &Corpus, case: &Case) -> anyhow::Result<Outcome> {
        let Some(kind) = Kind::for_case(case)? else {
            return Ok(Outcome::Skipped);
        };
        let blob = corpus.blob(case)?;
        let mut failures = Vec::new();
        match case.sweep {
            None => {
                for strict in [false, true] {
                    let demand = Demand::new(case, &blob, strict);
                    self.check(&kind, case, &demand, "", &mut failures);
                }
            }
            Some(Sweep::Truncate) => self.truncate(&kind, case, &blob, &mut failures),
            Some(Sweep::Bitflip) => self.bitflip(&kind, case, blob, &mut failures),
        }
        Ok(if failures.is_empty() { Outcome::Passed } else { Outcome::Failed(failures) })
    }

    fn truncate(&self, kind: &Kind, case: &Case, blob: &[u8], failures: &mut Vec<String>) {
        for &length in &case.lengths {
            let seen = !case.accept_lengths.contains(&length);
            let expect = if seen { Expect::Reject } else { Expect::Accept };
            let classes = (!case.classes_any).then_some(&case.classes[..]);
            for strict in [false, true] {
                let cut = &blob[..length];
                let demand = Demand { blob: cut, strict, expect, classes };
                self.check(kind, case, &demand, &format!(", cut to {length}"), failures);
            }
        }
    }

    fn bitflip(&self, kind: &Kind, case: &Case, mut blob: Vec<u8>, failures: &mut Vec<String>) {
        for bit in 0..case.bits {
            blob[bit / 8] ^= 1 << (bit % 8);
            for strict in [false, true] {
                let demand = Demand { blob: &blob, strict, expect: Expect::Either, classes: None };
                self.check(kind, case, &demand, &format!(", bit {bit} flipped"), failures);
            }
            blob[bit / 8] ^= 1 << (bit % 8);
        }
    }

    /// Tests one blob in one mode, at eight alignments.
    fn check(
        &self,
        kind: &Kind,
        case: &Case,
        demand: &Demand<'_>,
        made: &str,
        failures: &mut Vec<String>,
    ) {
        let mut room = vec![0; demand.blob.len() + 16];
        for alignment in 0..8 {
            let from = room.as_ptr().align_offset(8) + alignment;
            let place = &mut room[from..from + demand.blob.len()];
            place.copy_from_slice(demand.blob);
            if let Some(fault) = self.find_fault(kind, case, demand, place) {
                let mode = if demand.strict { "strict" } else { "default" };
                failures.push(format!("{}{made}, {mode}, at {alignment} mod 8: {fault}", case.id));
                return; // the others would repeat it
            }
        }
    }

    /// Returns the result or panic of a step, and its peak memory.
    fn measure(&self, step: impl FnOnce() -> Result<(), Refused>) -> (Verdict, usize) {
        (self.heap.reset)();
        let before = (self.heap.held)();
        let verdict = panic::catch_unwind(AssertUnwindSafe(step));
        let held = (self.heap.peak)().saturating_sub(before);
        let verdict = verdict.map_err(|payload| {
            let text = payload.downcast_ref::<String>().cloned();
            text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                .unwrap_or_default()
        });
        (verdict, held)
    }

    /// Decodes the blob and, when it is accepted, its payloads; returns the failure of the decoder,
    /// if any.
    fn find_fault(
        &self,
        kind: &Kind,
        case: &Case,
        demand: &Demand<'_>,
        blob: &[u8],
    ) -> Option<String> {
        let start = Instant::now();
        let (mut verdict, mut held) = self.measure(|| kind.decode(blob, demand.strict));
        if matches!(verdict, Ok(Ok(()))) {
            let (of_payloads, payloads) = self.measure(|| kind.decode_payloads(blob));
            (verdict, held) =
                (of_payloads, held.max(payloads.saturating_sub(kind.payloads_hold())));
        }
        let time = start.elapsed();
        let verdict = match verdict {
            Err(panic) => return Some(format!("panicked: {panic}")),
            Ok(verdict) => verdict,
        };
        if held > case.max_alloc {
            return Some(format!("held {held} bytes of {}", case.max_alloc));
        }
        let limit = Duration::from_millis(case.max_ms);
        if self.timed && time > limit {
            return Some(format!("took {time:?} of {limit:?}"));
        }
        match (demand.expect, verdict) {
            (Expect::Accept, Err(fault)) => Some(format!("must be accepted, but {fault}")),
            (Expect::Reject, Ok(())) => Some("must be refused, was accepted".to_owned()),
            (Expect::Reject, Err(fault)) => wrong_error(case, demand, &fault),
            (Expect::Accept, Ok(())) | (Expect::Either | Expect::Sweep, _) => None,
        }
    }
}

/// Returns the failure of an expected error, if any.
fn wrong_error(case: &Case, demand: &Demand<'_>, fault: &Refused) -> Option<String> {
    let name = fault.class().name();
    if demand.classes.is_some_and(|classes| !classes.iter().any(|class| class == name)) {
        return Some(format!("must be one of {:?}, but {fault}", demand.classes?));
    }
    let word = case.hint.as_ref()?;
    let hint = fault.hint().map_or("", Hint::text);
    (!hint.contains(word.as_str())).then(|| format!("no word of {word:?} in the hint {hint:?}"))
}

impl<'a> Demand<'a> {
    fn new(case: &'a Case, blob: &'a [u8], strict: bool) -> Self {
        let (expect, classes) =
            if strict { (case.strict, &case.strict_classes) } else { (case.expect, &case.classes) };
        Self { blob, strict, expect, classes: Some(classes) }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// A heap that never holds anything, or always a hundred bytes.
    const NOTHING: Heap = Heap { held: || 0, peak: || 0, reset: || () };
    const HUNDRED: Heap = Heap { held: || 0, peak: || 100, reset: || () };

    fn run(id: &str, heap: Heap, change: fn(&mut Case)) -> Outcome {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/hostile");
        let mut corpus = Corpus::open(&folder).unwrap();
        let at = corpus.cases.iter().position(|case| case.id == id).unwrap();
        let mut case = corpus.cases.swap_remove(at);
        change(&mut case);
        Runner { heap, timed: false }.run(&corpus, &case).unwrap()
    }

    #[test]
    fn says_where_a_decoder_falls_short() {
        let good = "fragment_index/good_empty_chunk";
        let bad = "fragment_index/version_2";
        let fault = "UnsupportedVersion in fragment index, version at byte 4: expected 1, found 2";
        for (id, heap, change, failure) in [
            (good, NOTHING, (|_| ()) as fn(&mut Case), None),
            (good, HUNDRED, |_| (), None),
            (good, HUNDRED, |case| case.max_alloc = 99, Some("held 100 bytes of 99".to_owned())),
            (
                good,
                NOTHING,
                |case| case.expect = Expect::Reject,
                Some("must be refused, was accepted".to_owned()),
            ),
            (bad, NOTHING, |_| (), None),
            (
                bad,
                NOTHING,
                |case| case.expect = Expect::Accept,
                Some(format!("must be accepted, but {fault}")),
            ),
            (
                bad,
                NOTHING,
                |case| case.classes = vec!["Negative".to_owned()],
                Some(format!("must be one of [\"Negative\"], but {fault}")),
            ),
            (bad, NOTHING, |case| case.hint = Some("newer version".to_owned()), None),
        ] {
            let expected = failure.map_or(Outcome::Passed, |failure| {
                Outcome::Failed(vec![format!("{id}, default, at 0 mod 8: {failure}")])
            });
            let mut found = run(id, heap, change);
            if let Outcome::Failed(lines) = &mut found {
                lines.truncate(1); // strict mode repeats it
            }
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_missing_hint_a_sweep_and_an_unknown_kind() {
        let bad = "fragment_index/version_2";
        let found = run(bad, NOTHING, |case| case.hint = Some("byte order".to_owned()));
        let Outcome::Failed(lines) = found else { panic!("{found:?}") };
        assert!(lines[0].contains("no word of \"byte order\" in the hint"), "{}", lines[0]);

        let sweep = "fragment_index/good_worked_example#truncate";
        assert_eq!(run(sweep, NOTHING, |_| ()), Outcome::Passed);
        let found = run(sweep, NOTHING, |case| case.accept_lengths = vec![17]);
        let Outcome::Failed(lines) = found else { panic!("{found:?}") };
        assert_eq!(lines.len(), 2);
        assert!(lines[0].contains("cut to 17, default, at 0 mod 8: must be accepted"));

        let flips = "fragment_index/good_worked_example#bitflip";
        let found = run(flips, HUNDRED, |case| case.max_alloc = 99);
        assert!(matches!(found, Outcome::Failed(lines) if lines.len() == 2 * 704));
        assert_eq!(run(bad, NOTHING, |case| case.kind = "new".to_owned()), Outcome::Skipped);
    }
}
