//! Builds keys from parts; each part is checked by the rules for names.

use std::sync::Arc;

use zvf_error::{Error, Result, quote};
use zvf_format::Class;

use super::Key;

impl Key {
    /// Returns what follows `prefix` in this key; the whole key for the root.
    pub(crate) fn below(&self, prefix: &Self) -> Option<&str> {
        if prefix.is_root() {
            return Some(&self.0);
        }
        self.0.strip_prefix(&*prefix.0)?.strip_prefix('/')
    }

    /// Returns the key of a child, as a listing shows it: not of one that is being written.
    pub(crate) fn listed_child(&self, name: &str) -> Option<Self> {
        if name.starts_with(".tmp-") { None } else { self.child(name).ok() }
    }

    /// Returns the key of `segment` directly below this one.
    ///
    /// # Errors
    ///
    /// [`Class::InvalidKey`] when `segment` violates a rule of the module's table, or the key would
    /// have more than 32 segments.
    pub fn child(&self, segment: &str) -> Result<Self> {
        self.descend([segment])
    }

    /// Returns the key of the path `path` below the root, as [`join`](Self::join) does.
    pub(crate) fn parse(path: &str) -> Result<Self> {
        Self::root().join(path)
    }

    /// Returns the key of `path` below this one; every segment of `path` is checked.
    ///
    /// # Errors
    ///
    /// As [`child`](Self::child), for the first bad segment.
    pub fn join(&self, path: &str) -> Result<Self> {
        self.descend(path.split('/'))
    }

    /// Returns the key below this one with these `segments`, outermost first.
    ///
    /// # Errors
    ///
    /// As [`child`](Self::child), for the first bad segment.
    pub fn descend<'a>(&self, segments: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let mut path = String::with_capacity(self.0.len().saturating_add(SEGMENTS_CAPACITY_BYTES));
        path.push_str(&self.0);
        let mut depth = self.segments().count();
        for segment in segments {
            depth = depth.saturating_add(1);
            if let Some(rule) = broken_rule(segment, depth) {
                return Err(Error::new(
                    Class::InvalidKey,
                    "segment of a key",
                    rule,
                    quote(segment),
                )
                .at_key(self));
            }
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(segment);
        }
        Ok(Self(Arc::from(path)))
    }

    /// Returns the key below this one with `prefix`, which must be a valid name, and `numbers`: for
    /// one of many chunks.
    ///
    /// # Errors
    ///
    /// As [`child`](Self::child), when the key would have more than 32 segments.
    pub(crate) fn descend_numbers(&self, prefix: Option<&str>, numbers: &[u64]) -> Result<Self> {
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
            return self.join(below.trim_start_matches('/')); // says what is wrong
        }
        Ok(Self(Arc::from(path)))
    }
}

/// Appends the digits of a number.
fn push_decimal(path: &mut String, number: u64) {
    if number >= 10 {
        push_decimal(path, number / 10);
    }
    path.extend(char::from_digit(zvf_format::num::saturating_u32(number % 10), 10)); // one digit
}

/// Returns the rule that `segment`, at position `depth` of its key, violates.
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
