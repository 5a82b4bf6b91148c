//! The parts of checks that may be skipped on some machines, each with its condition. Everything
//! else runs or fails.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::house::say;

/// A part that may be skipped: its name, and where it is left out.
pub(crate) struct OptionalPart(&'static str, &'static str);

impl OptionalPart {
    /// Records whether it runs, and returns that.
    pub(crate) fn settle(&self, runs: bool) -> bool {
        let Self(name, condition) = *self;
        let outcome = if runs { "ran" } else { "LEFT OUT" };
        let mut reached = REACHED.lock().unwrap_or_else(PoisonError::into_inner);
        reached.insert(name, format!("{name:12} {outcome:12} left out where {condition}"));
        if !runs {
            say(&format!("left out: {name} ({condition})"));
        }
        runs
    }
}

/// Prints every part that was reached, its condition and its result.
pub(crate) fn summary() {
    say("\n== parts that may be left out");
    REACHED.lock().unwrap_or_else(PoisonError::into_inner).values().for_each(|line| say(line));
}

/// A line for each part that was reached.
static REACHED: Mutex<BTreeMap<&str, String>> = Mutex::new(BTreeMap::new());

pub(crate) const ADVISORIES: OptionalPart = OptionalPart(
    "advisories",
    "their database cannot be fetched: the machine reaches registries of packages only",
);
pub(crate) const BOOK: OptionalPart =
    OptionalPart("book", "mdbook is not installed: the links of its pages are checked either way");
pub(crate) const SMALL_DISKS: OptionalPart =
    OptionalPart("small disks", "the user may not mount file systems");
pub(crate) const SQL: OptionalPart = OptionalPart(
    "sql",
    "no SQL engine is built: `cargo xtask conformance --sql` does and runs the rest",
);
