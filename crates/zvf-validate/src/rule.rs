//! Rules: a stable id, a severity, and a remedy.
//!
//! Not here: the rules themselves (`rules`), and the code that applies them.

use std::fmt;

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
    /// 1: which nodes there are, and of which kind.
    Structure,
    /// 2: what the documents of root and levels say.
    Metadata,
    /// 3: every cell, every manifest, every link.
    Consistency,
    /// 4: what the kinds of geometry ask for.
    Geometry,
    /// 5: how the levels fit together.
    Pyramid,
}

impl Depth {
    /// All of them, from the shallowest.
    pub const ALL: &'static [Self] =
        &[Self::Structure, Self::Metadata, Self::Consistency, Self::Geometry, Self::Pyramid];

    /// Returns its number, 1 to 5.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Structure => 1,
            Self::Metadata => 2,
            Self::Consistency => 3,
            Self::Geometry => 4,
            Self::Pyramid => 5,
        }
    }

    /// Returns the level of this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|level| level.number() == number)
    }

    /// Returns the name of the depth.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Structure => "structure",
            Self::Metadata => "metadata",
            Self::Consistency => "consistency",
            Self::Geometry => "geometry",
            Self::Pyramid => "pyramid",
        }
    }

    /// Returns whether data is read, not only documents.
    #[must_use]
    pub const fn reads_cells(self) -> bool {
        !matches!(self, Self::Structure | Self::Metadata)
    }
}

impl fmt::Display for Depth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The severity of a finding.
///
/// ```
/// use zvf_validate::Severity;
///
/// assert!(Severity::Error > Severity::Warning && Severity::Warning > Severity::Note);
/// assert_eq!(Severity::Error.to_string(), "error");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; nothing is wrong.
    Note,
    /// Readable, but not as it should be.
    Warning,
    /// Wrong: readers fail, or answer wrongly.
    Error,
}

impl Severity {
    /// Returns its name, as reports print it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
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
    /// The severity of a violation, unless the place makes it milder.
    pub severity: Severity,
    /// The format versions that it applies to.
    pub versions: &'static str,
    /// The fault that it reports.
    pub wrong: &'static str,
    /// The remedy.
    pub remedy: &'static str,
}

impl Rule {
    pub(crate) const fn error(
        id: &'static str,
        versions: &'static str,
        wrong: &'static str,
        remedy: &'static str,
    ) -> Self {
        Self { id, level: parse_depth(id), severity: Severity::Error, versions, wrong, remedy }
    }

    pub(crate) const fn warning(
        id: &'static str,
        versions: &'static str,
        wrong: &'static str,
        remedy: &'static str,
    ) -> Self {
        Self { id, level: parse_depth(id), severity: Severity::Warning, versions, wrong, remedy }
    }

    pub(crate) const fn note(
        id: &'static str,
        versions: &'static str,
        wrong: &'static str,
        remedy: &'static str,
    ) -> Self {
        Self { id, level: parse_depth(id), severity: Severity::Note, versions, wrong, remedy }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.id)
    }
}

/// Returns the level that the letter of an id stands for.
const fn parse_depth(id: &str) -> Depth {
    match id.as_bytes().first() {
        Some(b'S') => Depth::Structure,
        Some(b'M') => Depth::Metadata,
        Some(b'C') => Depth::Consistency,
        Some(b'G') => Depth::Geometry,
        _ => Depth::Pyramid,
    }
}
