//! A finding: the rule, the location, the expected and the actual value.

use std::fmt;

use serde::{Deserialize, Serialize};
use zvf_error::{Error, Result};
use zvf_format::key::ChunkKey;
use zvf_format::{Class, FormatError};
use zvf_metadata::MetadataError;
use zvf_store::Budget;

use crate::rule::{Rule, Severity};
use crate::rules::{C, S};

/// A violation of a rule, and its place.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// use zvf_validate::{Observer, Checks, validate};
///
/// let report = validate(&store, &Checks::default(), &Observer::default()).await?;
/// for finding in &report.findings {
///     assert!(finding.to_string().contains(finding.rule.id));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Finding {
    /// The rule.
    pub rule: &'static Rule,
    /// The severity of this finding.
    pub severity: Severity,
    /// Whether it only affects strict readers.
    pub lint: bool,
    /// The node or object, relative to the root of the store.
    pub path: String,
    /// The chunk, if it is about one.
    pub cell: Option<String>,
    /// The row of a table of objects, groups or parametric objects, if it is about one.
    pub row: Option<u64>,
    /// The offset of the fault in bytes from the start of the decoded cell or row.
    pub offset: Option<u64>,
    /// The faulty item: a field, a key of a document, a count.
    pub subject: String,
    /// The expected value.
    pub expected: String,
    /// The actual value.
    pub found: String,
    /// The correct number, if it is a count that follows from the rest of the store.
    pub right: Option<u64>,
}

impl Rule {
    /// Returns a finding of this rule at `path`.
    pub(crate) fn at(&'static self, path: impl fmt::Display) -> Finding {
        Finding {
            rule: self,
            severity: self.severity,
            lint: false,
            path: path.to_string(),
            cell: None,
            row: None,
            offset: None,
            subject: String::new(),
            expected: String::new(),
            found: String::new(),
            right: None,
        }
    }
}

impl Finding {
    /// Adds the faulty item, the expected and the actual value.
    pub(crate) fn expects(
        mut self,
        subject: impl fmt::Display,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Self {
        self.subject = subject.to_string();
        self.expected = expected.to_string();
        self.found = found.to_string();
        self
    }

    pub(crate) fn in_cell(mut self, key: &ChunkKey) -> Self {
        self.cell = Some(key.to_string());
        self
    }

    pub(crate) fn in_row(self, row: u64) -> Self {
        Self { row: Some(row), ..self }
    }

    pub(crate) fn with_offset(self, offset: u64) -> Self {
        Self { offset: Some(offset), ..self }
    }

    /// Adds a count that should be `right` and is different.
    pub(crate) fn counts(self, subject: &str, right: u64, found: u64) -> Self {
        Self { right: Some(right), ..self.expects(subject, right, found) }
    }

    /// Lowers the severity to a warning.
    pub(crate) fn warning(self) -> Self {
        Self { severity: self.severity.min(Severity::Warning), ..self }
    }

    /// Makes it a lint, which only affects strict readers.
    pub(crate) fn lint(self) -> Self {
        Self { lint: true, ..self.warning() }
    }

    /// Returns the finding for an error of the format layer about bytes.
    pub(crate) fn from_format(
        rule: &'static Rule,
        path: impl fmt::Display,
        error: &FormatError,
    ) -> Self {
        let subject = format!("{}, {}", error.part, error.field);
        rule.at(path).expects(subject, error.expected, error.found).with_offset(error.offset)
    }

    /// Returns the finding for an error of the format layer about a document.
    pub(crate) fn from_metadata(
        rule: &'static Rule,
        path: impl fmt::Display,
        error: &MetadataError,
    ) -> Self {
        let FormatError { expected, found, offset, .. } = &*error.error;
        let found = if error.text.is_empty() { found.to_string() } else { error.text.to_string() };
        let finding = rule.at(path).expects(&error.path, expected, found);
        Self { offset: Some(*offset).filter(|offset| *offset > 0), ..finding }
    }

    /// Returns the finding for data that the store layer could not read, under the best matching
    /// rule, or `rule`.
    pub(crate) fn from_store(rule: &'static Rule, path: impl fmt::Display, error: &Error) -> Self {
        let rule = if error.class() == Class::Checksum {
            C[33]
        } else if error.class() == Class::Unsupported && rule.id == C[2].id {
            S[17]
        } else {
            rule
        };
        let path = error.key().map_or_else(|| path.to_string(), str::to_owned);
        if let Some(error) = error.cause_as::<MetadataError>() {
            return Self::from_metadata(rule, path, error);
        }
        let format = error.cause_as::<FormatError>();
        let subject = format.map(|format| format!("{}, {}", format.part, format.field));
        let subject = subject.unwrap_or_else(|| error.what().unwrap_or("object").to_owned());
        let expected = error.expected().unwrap_or_else(|| expected_text(error.class()));
        let found = error.found().unwrap_or_else(|| error.class().name());
        let offset = format.map(|format| format.offset);
        Self { offset, ..rule.at(path).expects(subject, expected, found) }
    }
}

/// Returns the expected text, if the error has none.
fn expected_text(class: Class) -> &'static str {
    let known = [
        (Class::NotFound, "an object"),
        (Class::Checksum, "the checksum of the bytes"),
        (Class::Unsupported, "something this build knows"),
    ];
    known.iter().find(|known| known.0 == class).map_or("a stream that decodes", |known| known.1)
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.severity, self.rule, self.path)?;
        if let Some(cell) = &self.cell {
            write!(f, " cell {cell}")?;
        }
        if let Some(row) = self.row {
            write!(f, " row {row}")?;
        }
        if let Some(offset) = self.offset {
            write!(f, " at byte {offset}")?;
        }
        if !self.subject.is_empty() {
            write!(f, ", {}", self.subject)?;
        }
        write!(f, ": expected {}, found {}", self.expected, self.found)
    }
}

/// Returns what was found, or none where the store has nothing that can be read or listed there.
pub(crate) fn readable<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Err(error) if is_content(&error) => Ok(None),
        found => found.map(Some),
    }
}

/// Returns whether a fault is about stored data, and so a finding; other faults are about the
/// backend, or what did not fit in the memory limit.
pub(crate) fn is_content(error: &Error) -> bool {
    let class = error.class();
    class.is_damage() && !Budget::is_refusal(error)
        || matches!(class, Class::NotFound | Class::Unsupported | Class::InvalidKey)
}

#[cfg(test)]
mod tests {
    use zvf_format::fragment::FragmentIndex;
    use zvf_store::Key;

    use super::*;

    #[test]
    fn findings_are_printed_as_sentences() {
        let key = "0.-1".parse::<ChunkKey>().unwrap();
        let error = FragmentIndex::parse(b"GFVX\x01\0\0\0\0\0\0\0\0\0\0\0").unwrap_err();
        let finding = Finding::from_format(C[21], "0/vertex_fragments", &error).in_cell(&key);
        assert_eq!(
            finding.to_string(),
            "error C21 0/vertex_fragments cell 0.-1 at byte 0, fragment index, magic: \
             expected 47 46 56 5a, found 47 46 56 58",
        );
        let warning = C[21].at("x").expects("", "one", "two").in_row(7).lint();
        assert_eq!(warning.to_string(), "warning C21 x row 7: expected one, found two");
    }

    #[test]
    fn faults_of_the_store_keep_their_location() {
        let absent = Error::missing(Key::root().join("0/a").unwrap(), "it must be");
        assert!(is_content(&absent));
        assert_eq!(
            Finding::from_store(C[2], "0", &absent).to_string(),
            "error C2 0/a, object: expected an object, found NotFound",
        );
    }
}
