//! Errors in metadata documents: a [`FormatError`] and the path to the faulty value.
//!
//! The classes of document errors that are not obvious: a value of another JSON type, a missing key
//! and an unknown token are `BadTag`; an invalid length or extent is `BadShape`; text that is not
//! JSON is `Encoding`, and `Truncated` if it ends early; a literal too large for any number type
//! (`1e999`) is `Overflow`; a repeated key is `Duplicate`.
//!
//! Not here: the name of the document (the store adds it).

use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::string::{String, ToString as _};
use core::fmt;

use zvf_format::{Class, Expected, FormatError, Found, Hint, Part};

/// An error in a document, and its place.
///
/// ```
/// use zvf_metadata::Root;
///
/// let text = br#"{"zarr_format": 3, "node_type": "group", "attributes":
///     {"zarr_vectors": {"zv_version": "0.9.2", "chunk_shape": [10, "wide"]}}}"#;
/// let error = Root::parse(text).unwrap_err();
/// assert_eq!(error.path, "zarr_vectors.chunk_shape[1]");
/// assert_eq!(
///     error.to_string(),
///     "BadTag in metadata, zarr_vectors.chunk_shape[1]: expected a number, found \"wide\"",
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetadataError {
    /// The kind of fault, the expected and the found value. Its offset is 0 unless the text itself
    /// is not JSON.
    pub error: Box<FormatError>,
    /// The keys and indexes that lead to the value, as in `zarr_vectors.bounds[1][2]`.
    pub path: String,
    /// The value, shortened, if it tells more than `error.found`.
    pub text: String,
}

impl MetadataError {
    /// Returns the kind of fault.
    pub const fn class(&self) -> Class {
        self.error.class
    }

    /// Returns the advice.
    pub const fn hint(&self) -> Option<Hint> {
        self.error.hint()
    }

    /// Creates an error for the value at `at`.
    pub(super) fn new(
        class: Class,
        at: &At<'_>,
        expected: Expected,
        found: impl Into<Found>,
    ) -> Self {
        let error = FormatError::new(class, Part::Metadata, at.field(), 0, expected, found);
        Self { error: Box::new(error), path: at.to_string(), text: String::new() }
    }

    /// Creates an error for the value at `at`, which breaks a rule given in words.
    pub(super) fn rule(
        class: Class,
        at: &At<'_>,
        rule: &'static str,
        found: impl Into<Found>,
    ) -> Self {
        Self::new(class, at, Expected::Rule(rule), found)
    }

    /// Adds text from the document, shortened and quoted.
    pub(super) fn with_quote(self, words: &str) -> Self {
        Self { text: quoted(words), ..self }
    }

    /// Adds text that is shown unchanged.
    pub(super) fn with_text(self, words: String) -> Self {
        Self { text: words, ..self }
    }

    /// Replaces the default advice.
    pub(super) fn with_hint(self, hint: Hint) -> Self {
        Self { error: Box::new(self.error.with_hint(hint)), ..self }
    }

    /// Removes the leading key `attributes`, which every path in a group document has.
    pub(super) fn strip_attributes(mut self) -> Self {
        if let Some(rest) = self.path.strip_prefix("attributes.") {
            self.path = rest.to_owned();
        }
        self
    }
}

impl fmt::Display for MetadataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FormatError { class, part, expected, offset, found, .. } = &*self.error;
        write!(f, "{class} in {part}, {}", self.path)?;
        if *offset > 0 {
            write!(f, " at byte {offset}")?;
        }
        write!(f, ": expected {expected}, found ")?;
        if self.text.is_empty() { write!(f, "{found}") } else { f.write_str(&self.text) }
    }
}

// No source: `Display` already shows the inner error.
impl core::error::Error for MetadataError {}

/// The path to a value, kept on the stack of the parser; it allocates only when an error is
/// created.
#[derive(Clone, Copy)]
pub(super) enum At<'a> {
    /// The document itself.
    Document,
    /// The value of a key that the specification names.
    Key(&'a Self, &'static str),
    /// The value of a key that the document names.
    Name(&'a Self, &'a str),
    /// An element of a list.
    Item(&'a Self, usize),
}

/// The path to the block of this format in a root document.
pub(super) static BLOCK: At<'static> = At::Key(&At::Document, "zarr_vectors");

/// The path to the block of this format in a level document.
pub(super) static LEVEL_BLOCK: At<'static> = At::Key(&At::Document, "zarr_vectors_level");

/// The first list of levels.
pub(super) static FIRST_SCALE: At<'static> = At::Item(&At::Key(&At::Document, "multiscales"), 0);

impl<'a> At<'a> {
    /// Returns the path to the value of `key` in this object.
    pub(super) const fn key(&'a self, key: &'static str) -> Self {
        Self::Key(self, key)
    }

    /// Returns the path to the value of `name` in this object.
    pub(super) const fn name(&'a self, name: &'a str) -> Self {
        Self::Name(self, name)
    }

    /// Returns the path to element `i` of this list.
    pub(super) const fn item(&'a self, i: usize) -> Self {
        Self::Item(self, i)
    }

    /// Returns the innermost key that the specification names.
    pub(super) fn field(&self) -> &'static str {
        match self {
            Self::Document => "document",
            Self::Key(_, key) => key,
            Self::Name(up, _) | Self::Item(up, _) => up.field(),
        }
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Document => f.write_str("document"),
            Self::Key(Self::Document, key) => f.write_str(key),
            Self::Name(Self::Document, name) => f.write_str(&path_name(name)),
            Self::Key(up, key) => write!(f, "{up}.{key}"),
            Self::Name(up, name) => write!(f, "{up}.{}", path_name(name)),
            Self::Item(up, i) => write!(f, "{up}[{i}]"),
        }
    }
}

/// Writes a document key as a step of a path: unchanged if that is safe, otherwise quoted.
pub(super) fn path_name(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_+-:".contains(c);
    if !name.is_empty() && name.len() <= WORDS && name.chars().all(plain) {
        name.to_owned()
    } else {
        quoted(name)
    }
}

/// Writes document text in quotes, on one line, shortened.
pub(super) fn quoted(words: &str) -> String {
    let mut chars = words.chars();
    let mut text = String::from('"');
    for c in chars.by_ref().take(WORDS) {
        text.extend(c.escape_debug());
    }
    if chars.next().is_some() {
        text.push('\u{2026}');
    }
    text.push('"');
    text
}

/// The largest number of characters of document text in a message.
const WORDS: usize = 48;

#[cfg(test)]
mod tests {
    use std::format;

    use super::*;

    #[test]
    fn paths_and_texts_stay_on_one_short_line() {
        let root = At::Document;
        let (specs, vertex) = (root.key("attribute_specs"), "a\nb");
        let at = specs.name(vertex);
        assert_eq!(at.item(3).to_string(), "attribute_specs.\"a\\nb\"[3]");
        assert_eq!((at.field(), root.to_string()), ("attribute_specs", "document".to_owned()));
        assert_eq!(root.name("+1").to_string(), "+1");
        assert_eq!(path_name(""), "\"\"");
        assert_eq!(quoted(&"x".repeat(50)), format!("\"{}\u{2026}\"", "x".repeat(48)));
    }

    #[test]
    fn only_known_bytes_are_reported() {
        let at = At::Document;
        let mut error = MetadataError::new(Class::BadShape, &at, Expected::Exactly(3), 2_usize);
        assert_eq!(error.to_string(), "BadShape in metadata, document: expected 3, found 2");
        error.error.offset = 7;
        assert_eq!(
            error.to_string(),
            "BadShape in metadata, document at byte 7: expected 3, found 2"
        );
    }
}
