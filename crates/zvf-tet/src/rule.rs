//! The rules of the format, by number, and the findings of a validator.
//!
//! `O` rules are checked when a file is opened, `V` rules when it is validated; a file that breaks
//! one is refused. `F` rules are flags: the file can be read, and validation reports the
//! irregularity. Rules 1 to 5 are those of the format's description; 6 to 8 cover what the
//! description states elsewhere.

use core::fmt;

use zvf_format::{Class, FormatError, Part};

zvf_format::vocabulary! {
    /// A rule, by its number.
    ///
    /// ```
    /// use zvf_tet::{TetRule, Superblock};
    ///
    /// let error = Superblock::parse(b"", 0).unwrap_err();
    /// assert_eq!(TetRule::from_error(&error), Some(TetRule::O1));
    /// assert_eq!(TetRule::O1.to_string(), "O1");
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[non_exhaustive]
    pub enum TetRule {
        /// 32 bytes, magic and version of the superblock.
        O1 => "O1",
        /// The index lies in the file.
        O2 => "O2",
        /// The directory lies in the file and has space for its records.
        O3 => "O3",
        /// Each record lies in the directory; its name is UTF-8, its rank 1 to 8.
        O4 => "O4",
        /// The records fill the directory.
        O5 => "O5",
        /// The index starts right after the directory.
        O6 => "O6",
        /// Magic and version of the index; its length matches its rows.
        O7 => "O7",
        /// Each row has a known codec, agreeing lengths and a span in the payload area.
        O8 => "O8",
        /// An announced footer exists and is well-formed, with its spills.
        O9 => "O9",
        /// Element types are known.
        V1 => "V1",
        /// No chunk extent is 0.
        V2 => "V2",
        /// Element and byte counts fit in 64 bits.
        V3 => "V3",
        /// Rows belong to datasets.
        V4 => "V4",
        /// There is exactly one row for each tile, and no other row.
        V5 => "V5",
        /// Decoded lengths are equal to those of the tiles.
        V6 => "V6",
        /// Undefined flags, reserved fields, padding and unused coordinates are 0.
        F1 => "F1",
        /// Payloads do not overlap each other or the index.
        F2 => "F2",
        /// Names are unique.
        F3 => "F3",
        /// Payloads lie back to back in row order.
        F4 => "F4",
        /// The footer has no references of another version; there is no index span without datasets.
        F5 => "F5",
        /// No extent is 0: a dataset without elements and rows is legal, but not every reader can query
        /// it.
        F6 => "F6",
        /// A memory budget is at most 100 %.
        F7 => "F7",
        /// Metadata is stored in one place.
        F8 => "F8",
    }
    /// Returns the id.
    fn id;
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TetSeverity {
    /// Information, not a fault.
    Note,
    /// A strict reader refuses it.
    Lint,
    /// Every validating reader refuses it.
    Error,
}

/// One finding of validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TetFinding {
    /// The broken rule.
    pub rule: TetRule,
    /// The severity.
    pub severity: TetSeverity,
    /// The error, with its position in bytes from the start of the file.
    pub error: FormatError,
}

impl TetRule {
    /// Returns the rule that an error of this crate belongs to, if there is one.
    pub fn from_error(error: &FormatError) -> Option<Self> {
        let FormatError { class, part, field, .. } = *error;
        Some(match (part, field) {
            (Part::TetSuperblock, "superblock" | "magic" | "layout_version") => Self::O1,
            (Part::TetSuperblock, "chunk_index_length") if class == Class::CountMismatch => {
                Self::F5
            }
            (Part::TetSuperblock, "chunk_index_offset") if class == Class::CountMismatch => {
                Self::O6
            }
            (Part::TetSuperblock, "chunk_index_length" | "chunk_index_offset") => Self::O2,
            (Part::TetSuperblock, "flags") => Self::F1,
            (Part::TetDirectory, "dataset_blob_len" | "dataset_count" | "records") => Self::O3,
            (Part::TetDirectory, "bytes after the end") => Self::O5,
            (Part::TetDirectory, "dtype") => Self::V1,
            (Part::TetDirectory, "chunk_shape") if class == Class::BadShape => Self::V2,
            (Part::TetDirectory, "shape") if class == Class::Overflow => Self::V3,
            (Part::TetDirectory, "name") if class == Class::Duplicate => Self::F3,
            (Part::TetDirectory, "extent") => Self::F6,
            (_, "reserved") | (Part::TetDirectory | Part::TetIndex, "padding")
                if class == Class::NonCanonical =>
            {
                Self::F1
            }
            (
                Part::TetDirectory,
                "record" | "ndim" | "name" | "padding" | "shape" | "chunk_shape",
            ) => Self::O4,
            (
                Part::TetIndex,
                "header" | "magic" | "index_version" | "rows" | "bytes after the end",
            ) => Self::O7,
            (Part::TetIndex, "codec" | "stored_byte_len") => Self::O8,
            (Part::TetIndex, "payload_offset") if class == Class::OutOfBounds => Self::O8,
            (Part::TetIndex, "payload_offset") => Self::F2,
            (Part::TetIndex, "payload order") => Self::F4,
            (Part::TetIndex, "names") => Self::F3,
            (Part::TetIndex, "dataset_id") => Self::V4,
            (Part::TetIndex, "entry_count" | "chunk_index") => Self::V5,
            (Part::TetIndex, "raw_byte_len") if class == Class::CountMismatch => Self::V6,
            (Part::TetIndex, "unused chunk_index") => Self::F1,
            (Part::TetIndex, "memory_budget_percent_bps") => Self::F7,
            (Part::TetFooter, "metadata_ref") if class == Class::NonCanonical => Self::F8,
            (Part::TetFooter, _) if class == Class::NonCanonical => Self::F5,
            (Part::TetFooter, _) => Self::O9,
            _ => return None,
        })
    }

    /// Returns the severity of breaking the rule. Undefined flags and equal names are more severe
    /// than other flags: they make the meaning of the file, or of a name, ambiguous.
    pub(super) fn severity(self, class: Class) -> TetSeverity {
        if self < Self::F1 || matches!(class, Class::UnsupportedFlags) || self == Self::F3 {
            return TetSeverity::Error;
        }
        if matches!(self, Self::F4 | Self::F6) { TetSeverity::Note } else { TetSeverity::Lint }
    }
}

impl TetFinding {
    /// Returns the finding for `error`, if it belongs to a rule.
    pub(super) fn from_error(error: FormatError) -> Option<Self> {
        let rule = TetRule::from_error(&error)?;
        Some(Self { rule, severity: rule.severity(error.class), error })
    }
}

impl fmt::Display for TetFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.error)
    }
}
