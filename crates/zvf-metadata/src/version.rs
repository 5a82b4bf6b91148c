//! Format versions and the layout families they select.
//!
//! ```text
//! version             family   in short
//! 0.6.0 up to 0.8.0   A        every spatial chunk is an array of its own
//! 0.8.0 up to 0.8.1   B0       cross-chunk links per tuple of cells
//! 0.8.1 up to 0.9.0   B1       what is not spatial is one array each
//! from 0.9.0          C        every spatial array is one array over the chunk grid
//! ```
//!
//! Not here: whether the structure on disk agrees with the version, which needs the store.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use serde_json::Value;

use super::error::{At, BLOCK, MetadataError};
use super::members::Member;
use zvf_format::{Class, Hint};

zvf_format::vocabulary! {
    /// A layout family.
    ///
    /// ```
    /// use zvf_metadata::LayoutFamily;
    ///
    /// assert_eq!(LayoutFamily::B1.name(), "B1");
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum LayoutFamily {
        /// 0.6 and 0.7.
        A => "A",
        /// 0.8.0.
        B0 => "B0",
        /// 0.8.1.
        B1 => "B1",
        /// 0.9 and later.
        C => "C",
    }
    /// Returns the name that the specification uses.
    fn name;
}

/// A format version of up to three numbers, with the spelling of the store.
///
/// ```
/// use zvf_metadata::{LayoutFamily, Version};
///
/// let version = "0.7".parse::<Version>().unwrap();
/// assert_eq!((version.numbers(), version.family()), ([0, 7, 0], Some(LayoutFamily::A)));
/// assert_eq!(version.to_string(), "0.7");
/// assert!(Version::new(0, 9, 5).is_newer_than_known());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    numbers: [u32; 3],
    parts: usize, // how many are spelled: 1 to 3
}

impl Version {
    /// The version that is written.
    pub const KNOWN: Self = Self::new(0, 9, 2);
    /// The newest version that is supported.
    pub const NEWEST: Self = Self::new(0, 9, 4);

    /// Creates a version of three numbers.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { numbers: [major, minor, patch], parts: 3 }
    }

    /// Returns the three numbers; omitted ones are 0.
    #[must_use]
    pub const fn numbers(self) -> [u32; 3] {
        self.numbers
    }

    /// Returns the layout family, or `None` below 0.6.
    #[must_use]
    pub fn family(self) -> Option<LayoutFamily> {
        if self.numbers >= [0, 9, 0] {
            Some(LayoutFamily::C)
        } else if self.numbers >= [0, 8, 1] {
            Some(LayoutFamily::B1)
        } else if self.numbers >= [0, 8, 0] {
            Some(LayoutFamily::B0)
        } else if self.numbers >= [0, 6, 0] {
            Some(LayoutFamily::A)
        } else {
            None
        }
    }

    /// Returns whether it is newer than every supported version, which deserves a warning but not a
    /// refusal.
    #[must_use]
    pub fn is_newer_than_known(self) -> bool {
        self.numbers > Self::NEWEST.numbers
    }

    /// Returns the layout family, or an error if there is none.
    ///
    /// # Errors
    ///
    /// [`Class::UnsupportedVersion`] below 0.6.
    pub fn require_family(self) -> Result<LayoutFamily, MetadataError> {
        self.family().ok_or_else(|| {
            let at = BLOCK.key("zv_version");
            let error = MetadataError::rule(Class::UnsupportedVersion, &at, "0.6 or later", "less");
            error.with_text(alloc::format!("{self}")).with_hint(Hint::OlderLayout)
        })
    }

    fn parse_at(at: &At<'_>, text: &str) -> Result<Self, MetadataError> {
        let refuse = || {
            MetadataError::rule(Class::BadTag, at, "X.Y or X.Y.Z", "other text").with_quote(text)
        };
        let mut version = Self { numbers: [0; 3], parts: 0 };
        let mut slots = version.numbers.iter_mut();
        for part in text.split('.') {
            let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            let number = part.parse().ok().filter(|_| digits).ok_or_else(refuse)?;
            *slots.next().ok_or_else(refuse)? = number;
            version.parts = version.parts.saturating_add(1); // at most 3
        }
        Ok(version)
    }
}

impl Default for Version {
    fn default() -> Self {
        Self::KNOWN
    }
}

impl Member for Version {
    fn read(at: &At<'_>, value: Value) -> Result<Self, MetadataError> {
        Self::parse_at(at, &String::read(at, value)?)
    }

    fn to_value(&self) -> Value {
        alloc::format!("{self}").into()
    }
}

/// Parses `X`, `X.Y` or `X.Y.Z`.
///
/// # Errors
///
/// When `text` is anything but one to three decimal 32-bit numbers separated by dots.
impl FromStr for Version {
    type Err = MetadataError;

    fn from_str(text: &str) -> Result<Self, MetadataError> {
        Self::parse_at(&At::Document.key("zv_version"), text)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        match self.parts {
            1 => write!(f, "{major}"),
            2 => write!(f, "{major}.{minor}"),
            _ => write!(f, "{major}.{minor}.{patch}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString as _;

    use super::*;

    #[test]
    fn versions_select_families() {
        for (text, family, newer) in [
            ("0.6", Some(LayoutFamily::A), false),
            ("0.6.0", Some(LayoutFamily::A), false),
            ("0.7.9", Some(LayoutFamily::A), false),
            ("0.8", Some(LayoutFamily::B0), false),
            ("0.8.1", Some(LayoutFamily::B1), false),
            ("0.9.0", Some(LayoutFamily::C), false),
            ("0.9.2", Some(LayoutFamily::C), false),
            ("0.9.4", Some(LayoutFamily::C), false),
            ("0.9.5", Some(LayoutFamily::C), true),
            ("1", Some(LayoutFamily::C), true),
            ("1.7.0", Some(LayoutFamily::C), true),
            ("0.5.9", None, false),
            ("0", None, false),
        ] {
            let version = text.parse::<Version>().unwrap();
            assert_eq!(
                (version.family(), version.is_newer_than_known()),
                (family, newer),
                "{text}"
            );
            assert_eq!(version.to_string(), text);
            assert_eq!(version.require_family().ok(), family, "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", ".", "0.", "0..9", "0.9.2.1", "0.9.2a", "+0.9", " 0.9", "0.4294967296"] {
            assert_eq!(
                text.parse::<Version>().unwrap_err().to_string(),
                std::format!(
                    "BadTag in metadata, zv_version: expected X.Y or X.Y.Z, found \"{text}\""
                )
            );
        }
        let old = "0.5".parse::<Version>().unwrap().require_family().unwrap_err();
        assert_eq!(
            old.to_string(),
            "UnsupportedVersion in metadata, zarr_vectors.zv_version: expected 0.6 or later, found 0.5"
        );
        assert_eq!(old.hint(), Some(Hint::OlderLayout));
    }
}
