//! The parts of checks that may be skipped on some machines, each with its condition. Everything
//! else runs or fails.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::house::say;

/// A part that may be skipped.
#[derive(Debug)]
pub(crate) struct OptionalPart {
    name: &'static str,
    condition: &'static str,
    outcome: AtomicU8,
}

impl OptionalPart {
    const fn new(name: &'static str, condition: &'static str) -> Self {
        Self { name, condition, outcome: AtomicU8::new(NOT_REACHED) }
    }

    /// Records whether it runs, and returns that.
    pub(crate) fn settle(&self, runs: bool) -> bool {
        self.outcome.store(if runs { RAN } else { LEFT_OUT }, Ordering::Relaxed);
        if !runs {
            say(&format!("left out: {} ({})", self.name, self.condition));
        }
        runs
    }
}

/// Prints every part that was reached, its condition and its result.
pub(crate) fn summary() {
    say("\n== parts that may be left out");
    for part in PARTS {
        let outcome = match part.outcome.load(Ordering::Relaxed) {
            RAN => "ran",
            LEFT_OUT => "LEFT OUT",
            _ => continue,
        };
        say(&format!("{:12} {outcome:12} left out where {}", part.name, part.condition));
    }
}

pub(crate) static ADVISORIES: OptionalPart = OptionalPart::new(
    "advisories",
    "their database cannot be fetched: the machine reaches registries of packages only",
);
pub(crate) static BOOK: OptionalPart = OptionalPart::new(
    "book",
    "mdbook is not installed: the links of its pages are checked either way",
);
pub(crate) static SMALL_DISKS: OptionalPart =
    OptionalPart::new("small disks", "the user may not mount file systems");
pub(crate) static SQL: OptionalPart = OptionalPart::new(
    "sql",
    "no SQL engine is built: `cargo xtask conformance --sql` does and runs the rest",
);
static PARTS: [&OptionalPart; 4] = [&ADVISORIES, &BOOK, &SMALL_DISKS, &SQL];

const NOT_REACHED: u8 = 0;
const RAN: u8 = 1;
const LEFT_OUT: u8 = 2;
