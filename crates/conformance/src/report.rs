//! The facts of one store: those that agree, those that differ, and those that were not compared.
//!
//! A fact has a name, `store/level/what`, and is a JSON value on both sides: the expected one of the corpus, and the
//! found one of the library. Numbers agree when they have the same value.

use std::fmt::Display;

use serde_json::Value;

/// The results for one store.
#[derive(Debug, Default)]
pub(crate) struct Report {
    store: String,
    /// The number of facts that agree.
    pub(crate) passed: u64,
    /// One line for each fact that differs.
    pub(crate) failures: Vec<String>,
    /// Why facts were not compared.
    pub(crate) skips: Vec<String>,
}

impl Report {
    /// Creates a report about `store`.
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

    /// Compares one fact whose computation may fail.
    pub(crate) fn compare_result<T: Into<Value>, E: Display>(
        &mut self,
        what: &str,
        expected: &Value,
        found: Result<T, E>,
    ) {
        match found {
            Ok(found) => self.compare(what, expected, found),
            Err(error) => self.fail(what, format!("expected {}, found {error}", shorten(expected))),
        }
    }

    /// Counts one fact that holds or not.
    pub(crate) fn check(&mut self, what: &str, holds: bool, why_not: impl Display) {
        if holds {
            self.passed += 1;
        } else {
            self.fail(what, why_not);
        }
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

/// Returns a value in one short line.
fn shorten(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text,
    }
}

/// The largest number of bytes of a value that a line repeats completely.
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
}
