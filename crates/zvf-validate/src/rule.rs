//! Rules: a stable id, a severity, and a remedy.
//!
//! Not here: the rules themselves (`rules`), and the code that applies them.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

zvf_format::vocabulary! {
    /// The depth of a validation; each level includes those before it.
    ///
    /// ```
    /// use zvf_validate::Depth;
    ///
    /// assert_eq!(Depth::from_number(3), Some(Depth::Consistency));
    /// assert!(Depth::Structure < Depth::Pyramid && Depth::Pyramid.reads_cells());
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[non_exhaustive]
    pub enum Depth {
        /// 1: which nodes exist, and their kinds.
        Structure => "structure",
        /// 2: the documents of the root and of levels.
        Metadata => "metadata",
        /// 3: every cell, every manifest, every link.
        Consistency => "consistency",
        /// 4: the requirements of the kinds of geometry.
        Geometry => "geometry",
        /// 5: the relations between levels.
        Pyramid => "pyramid",
    }
    /// Returns the name of the depth.
    fn name;
}

impl Depth {
    /// Returns its number, 1 to 5.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8 + 1
    }

    /// Returns the level of this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|level| level.number() == number)
    }

    /// Returns the level for the letter of an id.
    pub(crate) const fn of_id(id: &str) -> Self {
        match id.as_bytes()[0] {
            b'S' => Self::Structure,
            b'M' => Self::Metadata,
            b'C' => Self::Consistency,
            b'G' => Self::Geometry,
            _ => Self::Pyramid,
        }
    }

    /// Returns whether data is read, not only documents.
    #[must_use]
    pub const fn reads_cells(self) -> bool {
        !matches!(self, Self::Structure | Self::Metadata)
    }
}

zvf_format::vocabulary! {
    /// The severity of a finding.
    ///
    /// ```
    /// use zvf_validate::Severity;
    ///
    /// assert!(Severity::Error > Severity::Warning && Severity::Warning > Severity::Note);
    /// assert_eq!(Severity::Error.to_string(), "error");
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Severity {
        /// For information; nothing is wrong.
        Note => "note",
        /// Readable, but not as it should be.
        Warning => "warning",
        /// Wrong: readers fail, or give wrong answers.
        Error => "error",
    }
    /// Returns its name, as reports print it.
    fn name;
}

impl Severity {
    /// Returns the severity of this name in the table.
    pub(crate) const fn of_name(name: &str) -> Self {
        match name.as_bytes()[0] {
            b'n' => Self::Note,
            b'w' => Self::Warning,
            _ => Self::Error,
        }
    }
}

/// One rule.
///
/// ```
/// use zvf_validate::{Depth, Rule, Severity};
///
/// let rule = Rule::find("C21").unwrap();
/// assert_eq!((rule.level, rule.severity), (Depth::Consistency, Severity::Error));
/// assert!(rule.wrong.starts_with("The fragment index"));
/// assert!(Rule::find("C0").is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// Its name, which never changes: a letter for the level, and a number.
    pub id: &'static str,
    /// The level it belongs to.
    pub level: Depth,
    /// The severity of a violation, unless a finding lowers it.
    pub severity: Severity,
    /// The format versions that it applies to.
    pub versions: &'static str,
    /// The fault that it reports.
    pub wrong: &'static str,
    /// The remedy.
    pub remedy: &'static str,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.id)
    }
}

/// In records, a rule is its id.
impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id)
    }
}

impl<'de> Deserialize<'de> for &'static Rule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let id = String::deserialize(deserializer)?;
        let unknown = || D::Error::custom(format!("a rule of this build is expected, not {id:?}"));
        Rule::find(&id).ok_or_else(unknown)
    }
}
