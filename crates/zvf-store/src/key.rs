//! Names of nodes and objects in a store, relative to its root.
//!
//! A [`Key`] is a path of checked segments, so that names from data or from a request cannot
//! address anything outside the root, on any backend. It is always built from parts.
//!
//! ```text
//! segment    1 to 255 bytes of UTF-8; not "." or ".."; no "/", "\", NUL or control character
//! key        0 to 32 segments, joined by "/"; no segments is the root
//! ```
//!
//! Not here: the meaning of segments (`zvf_format::key` prints chunk keys), and the spelling of
//! keys in a backend (the sources).
#![cfg_attr(
    not(test),
    deny(clippy::arithmetic_side_effects, clippy::as_conversions, clippy::indexing_slicing)
)]

mod parts;

use std::fmt;
use std::sync::Arc;

/// A checked path relative to the root of a store; cheap to clone.
///
/// ```
/// use zvf_store::Key;
///
/// let level = Key::root().child("0")?;
/// assert_eq!(level.join("vertices/c/3/1/0")?.to_string(), "0/vertices/c/3/1/0");
/// assert!(level.child("..").is_err());
/// # Ok::<(), zvf_error::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// Returns the root of the store.
    pub fn root() -> Self {
        Self(Arc::from(""))
    }

    /// Returns whether both share the same memory, which is faster to check than equality.
    pub(crate) fn is_clone_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the segments, outermost first.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|segment| !segment.is_empty())
    }

    /// Returns the last segment; `None` for the root.
    pub fn name(&self) -> Option<&str> {
        self.segments().last()
    }

    /// Returns whether this is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the path, without a leading or trailing slash.
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

/// Returns whether a file has the name of a partial one of zarr-vectors, which gives each file its
/// name once it is complete.
///
/// ```
/// assert!(zvf_store::is_partial_file("c.0.0123456789abcdef0123456789abcdef.partial"));
/// ```
pub fn is_partial_file(name: &str) -> bool {
    let random = name.strip_suffix(".partial").and_then(|rest| rest.rsplit_once('.'));
    let is_hex = |text: &str| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    random.is_some_and(|(_object, random)| is_hex(random))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_names_are_joined() {
        let key = Key::root().child("0").unwrap().join("vertices/c/-3/1/0").unwrap();
        assert_eq!(key.as_str(), "0/vertices/c/-3/1/0");
        assert_eq!(key.name(), Some("0"));
        assert_eq!(key.segments().collect::<Vec<_>>(), ["0", "vertices", "c", "-3", "1", "0"]);
        assert_eq!(Key::root().descend(["c", "0"]).unwrap().to_string(), "c/0");
        assert!(Key::root().is_root() && Key::root().name().is_none() && !key.is_root());
        assert_eq!(format!("{key:?}"), "Key(\"0/vertices/c/-3/1/0\")");
        for name in ["...", " ", "é", "a:b", &"x".repeat(255)] {
            assert_eq!(Key::root().child(name).unwrap().as_str(), name);
        }
        let deep_path = vec!["a"; 32].join("/");
        assert_eq!(Key::root().join(&deep_path).unwrap().as_str(), deep_path);
    }

    #[test]
    fn numbers_equal_their_names() {
        let (root, deep_key) = (Key::root(), Key::root().join(&vec!["a"; 29].join("/")).unwrap());
        for key in [&root, &deep_key, &root.child("vertices").unwrap()] {
            for numbers in [&[][..], &[0], &[7, 10, u64::MAX], &[1, 2, 3, 4]] {
                for prefix in [None, Some("c")] {
                    let texts = numbers.iter().map(u64::to_string);
                    let names: Vec<String> =
                        prefix.map(str::to_owned).into_iter().chain(texts).collect();
                    let expected = key.descend(names.iter().map(String::as_str));
                    let found = key.descend_numbers(prefix, numbers);
                    assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{key} {names:?}");
                }
            }
        }
    }

    #[test]
    fn invalid_names_report_the_broken_rule() {
        let long_name = "x".repeat(256);
        let start = format!("\"{}...\"", "x".repeat(61));
        for (name, message) in [
            ("", "a name that is not empty, found \"\""),
            (".", "a name that is not \".\" or \"..\", found \".\""),
            ("..", "a name that is not \".\" or \"..\", found \"..\""),
            ("a/b", "a name without a slash, found \"a/b\""),
            ("a\\b", "a name without a slash, found \"a\\\\b\""),
            ("a\0", "a name without control characters, found \"a\\0\""),
            ("\u{85}", "a name without control characters, found \"\\u{85}\""),
            (&long_name, &format!("at most 255 bytes, found {start}")),
        ] {
            let error = Key::root().child("lvl").unwrap().child(name).unwrap_err();
            let prefix = "InvalidKey in lvl, segment of a key: expected ";
            assert_eq!(error.to_string(), format!("{prefix}{message}"));
        }
        let deep_path = vec!["a"; 33].join("/");
        assert_eq!(
            Key::root().join(&deep_path).unwrap_err().to_string(),
            "InvalidKey, segment of a key: expected at most 32 segments, found \"a\"",
        );
    }
}
