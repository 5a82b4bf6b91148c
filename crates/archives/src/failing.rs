//! Tests of known faults that are not fixed yet. The list `testdata/expected-failures.txt` names
//! them all.

use std::fs;
use std::panic::{self, UnwindSafe};
use std::path::Path;

/// Runs a test that must fail for now, and fails if it passes: then remove the name from the list
/// and the call from the test. `owner` is the part of the project that has to fix the fault.
///
/// # Panics
///
/// When `test` passes, or when the list has no line `owner: name`.
pub fn expected_failure(owner: &str, name: &str, test: impl FnOnce() + UnwindSafe) {
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/expected-failures.txt");
    let line = format!("{owner}: {name}");
    let is_listed = fs::read_to_string(&list).unwrap().lines().any(|listed| listed == line);
    assert!(is_listed, "\"{line}\" is not in {}", list.display());
    assert!(
        panic::catch_unwind(test).is_err(),
        "\"{line}\" passes: take it off {}, and call the test itself",
        list.display()
    );
}

#[cfg(test)]
mod tests {
    use std::panic;

    use super::expected_failure;

    #[test]
    fn only_a_listed_failure_is_expected() {
        expected_failure("archives", "an example for the test of the list", || panic!("it fails"));
        let passes = || expected_failure("archives", "an example for the test of the list", || {});
        panic::catch_unwind(passes).unwrap_err();
        let unlisted = || expected_failure("archives", "no such line", || panic!("it fails"));
        panic::catch_unwind(unlisted).unwrap_err();
    }
}
