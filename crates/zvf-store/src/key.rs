//! Names of things in a store, relative to its root.
//!
//! A [`Key`] is a path of checked segments, so that nothing found in data or in a request can address
//! anything outside the root, on any backend. It is only ever built from parts.
//!
//! ```text
//! segment    1 to 255 bytes of UTF-8; not "." or ".."; no "/", "\", NUL or control character
//! key        0 to 32 segments, joined by "/"; no segments is the root
//! ```
//!
//! Not here: what the segments mean (`zvf_format::key` prints chunk keys), and how a backend spells a
//! key (the sources do).
#![cfg_attr(
    not(test),
    deny(clippy::arithmetic_side_effects, clippy::as_conversions, clippy::indexing_slicing)
)]

use std::fmt;
use std::sync::Arc;

use zvf_format::Class;

use crate::error::{Op, StoreError};

/// A checked path relative to the root of a store; cheap to clone.
///
/// ```
/// use zvf_store::Key;
///
/// let level = Key::root().child("0")?;
/// assert_eq!(level.below("vertices/c/3/1/0")?.to_string(), "0/vertices/c/3/1/0");
/// assert!(level.child("..").is_err());
/// # Ok::<(), zvf_store::StoreError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// The root of the store.
    #[must_use]
    pub fn root() -> Self {
        Self(Arc::from(""))
    }

    /// The thing called `segment` directly below this one.
    ///
    /// # Errors
    ///
    /// [`Class::InvalidKey`] when `segment` breaks a rule of the module's table, or the key gets more
    /// than 32 segments.
    pub fn child(&self, segment: &str) -> Result<Self, StoreError> {
        self.descend([segment])
    }

    /// The thing at `path` below this one; every segment of `path` is checked.
    ///
    /// # Errors
    ///
    /// As [`child`](Self::child), for the first bad segment.
    pub fn below(&self, path: &str) -> Result<Self, StoreError> {
        self.descend(path.split('/'))
    }

    /// The thing below this one by the names in `segments`, outermost first.
    ///
    /// # Errors
    ///
    /// As [`child`](Self::child), for the first bad segment.
    pub fn descend<'a>(
        &self,
        segments: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, StoreError> {
        let mut path = String::with_capacity(self.0.len().saturating_add(SEGMENTS_CAPACITY_BYTES));
        path.push_str(&self.0);
        let mut depth = self.segments().count();
        for segment in segments {
            depth = depth.saturating_add(1);
            if let Some(rule) = broken_rule(segment, depth) {
                return Err(StoreError::refused(
                    Class::InvalidKey,
                    Op::Name,
                    "segment of a key",
                    zvf_format::Expected::Rule(rule),
                    segment,
                )
                .with_key(self));
            }
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(segment);
        }
        Ok(Self(Arc::from(path)))
    }

    /// The thing below this one by `prefix`, which is a good name, and `numbers`: one of many chunks.
    ///
    /// # Errors
    ///
    /// As [`child`](Self::child), when the key gets more than 32 segments.
    pub(crate) fn below_numbers(
        &self,
        prefix: Option<&str>,
        numbers: &[u64],
    ) -> Result<Self, StoreError> {
        let room = numbers.len().saturating_add(1).saturating_mul(NUMBER_CAPACITY_BYTES);
        let mut path = String::with_capacity(self.0.len().saturating_add(room));
        path.push_str(&self.0);
        if let Some(prefix) = prefix {
            path.push_str(if path.is_empty() { "" } else { "/" });
            path.push_str(prefix);
        }
        for number in numbers {
            path.push_str(if path.is_empty() { "" } else { "/" });
            push_decimal(&mut path, *number);
        }
        let above = self.segments().count().saturating_add(prefix.iter().count());
        if above.saturating_add(numbers.len()) > MAX_SEGMENTS {
            let below = path.get(self.0.len()..).unwrap_or_default();
            return self.below(below.trim_start_matches('/')); // says what is wrong
        }
        Ok(Self(Arc::from(path)))
    }

    /// Whether both are one and the same piece of memory: seen at once, unlike that they are equal.
    pub(crate) fn is_clone_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The segments, outermost first.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|segment| !segment.is_empty())
    }

    /// The last segment; `None` for the root.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.segments().last()
    }

    /// Whether this is the root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The path, without a leading or trailing slash.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:?})", &self.0)
    }
}

/// Adds the digits of a number.
fn push_decimal(path: &mut String, number: u64) {
    if number >= 10 {
        push_decimal(path, number / 10);
    }
    path.extend(char::from_digit(zvf_format::num::saturating_u32(number % 10), 10));
}

/// Which rule `segment`, the `depth`th of its key, breaks.
fn broken_rule(segment: &str, depth: usize) -> Option<&'static str> {
    if segment.is_empty() {
        Some("a name that is not empty")
    } else if segment == "." || segment == ".." {
        Some("a name that is not \".\" or \"..\"")
    } else if segment.len() > MAX_SEGMENT_BYTES {
        Some("at most 255 bytes")
    } else if segment.contains(['/', '\\']) {
        Some("a name without a slash")
    } else if segment.chars().any(char::is_control) {
        Some("a name without control characters")
    } else if depth > MAX_SEGMENTS {
        Some("at most 32 segments")
    } else {
        None
    }
}

const MAX_SEGMENT_BYTES: usize = 255;
const MAX_SEGMENTS: usize = 32;
/// The bytes reserved for the segments below a key.
const SEGMENTS_CAPACITY_BYTES: usize = 48;
/// The bytes reserved for a number of a chunk and the slash before it.
const NUMBER_CAPACITY_BYTES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_names_join() {
        let key = Key::root().child("0").unwrap().below("vertices/c/-3/1/0").unwrap();
        assert_eq!(key.as_str(), "0/vertices/c/-3/1/0");
        assert_eq!(key.name(), Some("0"));
        assert_eq!(key.segments().collect::<Vec<_>>(), ["0", "vertices", "c", "-3", "1", "0"]);
        assert_eq!(Key::root().descend(["c", "0"]).unwrap().to_string(), "c/0");
        assert!(Key::root().is_root() && Key::root().name().is_none() && !key.is_root());
        assert_eq!(format!("{key:?}"), "Key(\"0/vertices/c/-3/1/0\")");
        for name in ["...", " ", "é", "a:b", &"x".repeat(255)] {
            assert_eq!(Key::root().child(name).unwrap().as_str(), name);
        }
        let deep = vec!["a"; 32].join("/");
        assert_eq!(Key::root().below(&deep).unwrap().as_str(), deep);
    }

    #[test]
    fn numbers_are_names_like_others() {
        let (root, deep) = (Key::root(), Key::root().below(&vec!["a"; 29].join("/")).unwrap());
        for key in [&root, &deep, &root.child("vertices").unwrap()] {
            for numbers in [&[][..], &[0], &[7, 10, u64::MAX], &[1, 2, 3, 4]] {
                for prefix in [None, Some("c")] {
                    let words = numbers.iter().map(u64::to_string);
                    let words: Vec<String> =
                        prefix.map(str::to_owned).into_iter().chain(words).collect();
                    let expected = key.descend(words.iter().map(String::as_str));
                    let found = key.below_numbers(prefix, numbers);
                    assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{key} {words:?}");
                }
            }
        }
    }

    #[test]
    fn bad_names_say_which_rule_they_break() {
        let long = "x".repeat(256);
        let shown = format!("\"{}...\"", "x".repeat(61));
        for (name, message) in [
            (
                "",
                "InvalidKey in lvl, segment of a key: expected a name that is not empty, found \"\"",
            ),
            (
                ".",
                "InvalidKey in lvl, segment of a key: expected a name that is not \".\" or \"..\", found \".\"",
            ),
            (
                "..",
                "InvalidKey in lvl, segment of a key: expected a name that is not \".\" or \"..\", found \"..\"",
            ),
            (
                "a/b",
                "InvalidKey in lvl, segment of a key: expected a name without a slash, found \"a/b\"",
            ),
            (
                "a\\b",
                "InvalidKey in lvl, segment of a key: expected a name without a slash, found \"a\\\\b\"",
            ),
            (
                "a\0",
                "InvalidKey in lvl, segment of a key: expected a name without control characters, found \"a\\0\"",
            ),
            (
                "\u{85}",
                "InvalidKey in lvl, segment of a key: expected a name without control characters, found \"\\u{85}\"",
            ),
            (
                &long,
                &format!(
                    "InvalidKey in lvl, segment of a key: expected at most 255 bytes, found {shown}"
                ),
            ),
        ] {
            let error = Key::root().child("lvl").unwrap().child(name).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
        let deep = vec!["a"; 33].join("/");
        assert_eq!(
            Key::root().below(&deep).unwrap_err().to_string(),
            "InvalidKey, segment of a key: expected at most 32 segments, found \"a\"",
        );
    }
}
