//! Errors of the format layer, and the fault classes that all layers share.
//!
//! [`Class`] names the kind of fault. Its text and retry rule are an interface: the store, the
//! command and the server use the same names, so that a script can match on them. This crate
//! produces the classes of the format layer; the others are listed here so that names cannot clash.
//!
//! [`FormatError`] states the kind of fault ([`Class`]), its place ([`Part`], field, byte), the
//! value the format requires ([`Expected`]) and the stored value ([`Found`]). It owns no memory, so
//! creating one cannot fail.
//!
//! Not here: the path of the object (the store adds it), and exit codes (the command has them).

use core::fmt;

crate::vocabulary! {
    /// The kind of a fault, by its stable name.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[non_exhaustive]
    pub enum Class {
        /// The bytes end before the structure ends.
        Truncated => "Truncated",
        /// The first bytes are not those of this structure.
        BadMagic => "BadMagic",
        /// A version that this crate does not support.
        UnsupportedVersion => "UnsupportedVersion",
        /// A flag that this crate does not support.
        UnsupportedFlags => "UnsupportedFlags",
        /// Two counts that must agree do not.
        CountMismatch => "CountMismatch",
        /// Offsets descend or do not start at zero.
        NotMonotonic => "NotMonotonic",
        /// A value points outside the data that it refers to.
        OutOfBounds => "OutOfBounds",
        /// Arithmetic on stored values leaves the range of its type.
        Overflow => "Overflow",
        /// A negative value in a field that cannot be negative.
        Negative => "Negative",
        /// A length is not a multiple of the item size.
        Misaligned => "Misaligned",
        /// An unknown mode, type or codec tag.
        BadTag => "BadTag",
        /// An impossible shape, rank or extent.
        BadShape => "BadShape",
        /// An item that must be unique occurs twice.
        Duplicate => "Duplicate",
        /// Bytes after the end of the structure.
        Trailing => "Trailing",
        /// Readable, but not in the form that a writer must produce.
        NonCanonical => "NonCanonical",
        /// A value above a documented limit.
        LimitExceeded => "LimitExceeded",
        /// A checksum does not match its bytes.
        Checksum => "Checksum",
        /// Text that is not UTF-8, or a document that is not JSON.
        Encoding => "Encoding",
        /// A compressed stream does not decode.
        Codec => "Codec",
        /// A name that cannot be a key.
        InvalidKey => "InvalidKey",
        /// An invalid request.
        InvalidArgument => "InvalidArgument",
        /// A feature this build does not have.
        Unsupported => "Unsupported",
        /// No object has this name.
        NotFound => "NotFound",
        /// The name is already taken.
        AlreadyExists => "AlreadyExists",
        /// The backend refuses access.
        PermissionDenied => "PermissionDenied",
        /// The backend requires credentials.
        Unauthenticated => "Unauthenticated",
        /// The disk or the quota is full.
        NoSpace => "NoSpace",
        /// The object changed while it was being read.
        FileChanged => "FileChanged",
        /// The backend asks for a pause.
        Throttled => "Throttled",
        /// No answer within the time limit.
        Timeout => "Timeout",
        /// The backend cannot answer now.
        Unavailable => "Unavailable",
        /// The operating system failed.
        Io => "Io",
        /// Another writer changed the same keys.
        Conflict => "Conflict",
        /// A writer with a higher epoch took over.
        WriterFenced => "WriterFenced",
        /// It is unknown whether a commit took effect.
        CommitUnknown => "CommitUnknown",
        /// A handle that cannot be used after a failed sync.
        Poisoned => "Poisoned",
        /// The caller gave up.
        Cancelled => "Cancelled",
        /// A check in an edit script does not hold.
        ExpectationFailed => "ExpectationFailed",
    }
    /// Returns the stable name that errors print and scripts match.
    fn name;
}

impl Class {
    /// Returns whether the stored bytes are at fault, so that every read fails in the same way.
    #[must_use]
    pub const fn is_damage(self) -> bool {
        matches!(
            self,
            Self::Truncated
                | Self::BadMagic
                | Self::UnsupportedVersion
                | Self::UnsupportedFlags
                | Self::CountMismatch
                | Self::NotMonotonic
                | Self::OutOfBounds
                | Self::Overflow
                | Self::Negative
                | Self::Misaligned
                | Self::BadTag
                | Self::BadShape
                | Self::Duplicate
                | Self::Trailing
                | Self::NonCanonical
                | Self::LimitExceeded
                | Self::Checksum
                | Self::Encoding
                | Self::Codec
        )
    }

    /// Returns whether the same request may succeed later although nothing is changed.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        matches!(self, Self::Throttled | Self::Timeout | Self::Unavailable | Self::Io)
    }

    /// Returns the default advice for the class.
    #[must_use]
    pub const fn hint(self) -> Option<Hint> {
        if matches!(self, Self::Truncated) {
            Some(Hint::CutObject)
        } else if matches!(self, Self::UnsupportedVersion) {
            Some(Hint::NewerVersion)
        } else if matches!(self, Self::LimitExceeded) {
            Some(Hint::RaiseLimit)
        } else if matches!(self, Self::Codec | Self::Checksum) {
            Some(Hint::Damaged)
        } else {
            None
        }
    }
}

/// Advice that goes with a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hint {
    /// The byte order looks swapped; the field is big-endian.
    ByteOrder,
    /// The byte order looks swapped; the field is little-endian.
    LittleEndian,
    /// The object ends early.
    CutObject,
    /// An older layout, which `zvf rewrite --format-version 0.9.2` converts.
    OlderLayout,
    /// The layout is newer than this build supports.
    NewerVersion,
    /// The number of axes differs.
    WrongRank,
    /// A limit was exceeded.
    RaiseLimit,
    /// The stored bytes changed after they were written.
    Damaged,
}

impl Hint {
    /// Returns the advice as one phrase, without a full stop.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::ByteOrder => "the byte order looks swapped: write these fields big-endian",
            Self::LittleEndian => "the byte order looks swapped: write these fields little-endian",
            Self::CutObject => {
                "the object is truncated: copy it again, or run \"zvf repair --dry-run\""
            }
            Self::OlderLayout => {
                "an older layout: convert it with \"zvf rewrite --format-version 0.9.2\""
            }
            Self::NewerVersion => "written by a newer version: update zvf",
            Self::WrongRank => {
                "the number of axes differs: check which store or level this is from"
            }
            Self::RaiseLimit => "more than the limit allows: request less, or raise the limit",
            Self::Damaged => "the stored bytes are damaged: restore this object from a copy",
        }
    }
}

crate::vocabulary! {
    /// The structure that was being read.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Part {
        /// Fragment index, version 1.
        FragmentIndex => "fragment index",
        /// Object manifest.
        Manifest => "object manifest",
        /// Inline ragged blob.
        Ragged => "ragged blob",
        /// A cell framed by vlen-bytes.
        VlenCell => "vlen cell",
        /// Rows framed by vlen-bytes.
        VlenRows => "vlen rows",
        /// Index of a shard.
        ShardIndex => "shard index",
        /// Link rows of one cell.
        LinkCell => "link cell",
        /// A link record and its placement.
        LinkRecord => "link record",
        /// Name of an offsets array below a link family.
        OffsetsSegment => "offsets segment",
        /// Name of a level gap below a link family.
        DeltaSegment => "delta segment",
        /// Flat cross-chunk records of 0.6 and 0.7.
        FlatLinks => "flat cross-chunk links",
        /// Cross-chunk records of the layout between 0.7 and 0.8.
        PartitionedLinks => "partitioned cross-chunk links",
        /// Key of a chunk or cell.
        ChunkKey => "chunk key",
        /// Chunk, bin or grid arithmetic.
        Grid => "grid",
        /// Superblock of a `.tet` file.
        TetSuperblock => "tet superblock",
        /// Dataset directory of a `.tet` file.
        TetDirectory => "tet directory",
        /// Chunk index of a `.tet` file.
        TetIndex => "tet chunk index",
        /// Footer of a `.tet` file.
        TetFooter => "tet footer",
        /// A selection of a `.tet` dataset.
        TetSelection => "tet selection",
        /// Metalayer of a Caterva or B2ND array.
        Caterva => "array metalayer",
        /// Header of a Blosc2 frame.
        FrameHeader => "frame header",
        /// Trailer of a Blosc2 frame.
        FrameTrailer => "frame trailer",
        /// Offsets chunk of a Blosc2 frame.
        FrameOffsets => "frame offsets",
        /// Header or block table of a Blosc chunk.
        BloscChunk => "blosc chunk",
        /// Geometry of an array of chunks and blocks.
        Blocks => "block geometry",
        /// A store packed into one `.tet` file.
        Pack => "pack",
        /// Root, level or array document.
        Metadata => "metadata",
        /// The output of a Zarr codec.
        CodecStream => "codec stream",
    }
    /// Returns the name for messages.
    fn name;
}

/// The value that the format requires in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expected {
    /// This value or a larger one.
    AtLeast(i128),
    /// This value or a smaller one.
    AtMost(i128),
    /// One of the values from the first to the second, both included.
    Between(i128, i128),
    /// This many bytes; `found` counts those left.
    Bytes(u64),
    /// This value and no other.
    Exactly(i128),
    /// A multiple of this.
    MultipleOf(i128),
    /// A rule in words.
    Rule(&'static str),
}

impl Expected {
    /// Returns whether `found` meets the expectation; always `false` for [`Expected::Rule`], which
    /// cannot be evaluated.
    #[must_use]
    pub fn allows(self, found: i128) -> bool {
        match self {
            Self::AtLeast(low) => found >= low,
            Self::AtMost(high) => found <= high,
            Self::Between(low, high) => found >= low && found <= high,
            Self::Bytes(n) => found >= i128::from(n),
            Self::Exactly(value) => found == value,
            Self::MultipleOf(0) | Self::Rule(_) => false,
            Self::MultipleOf(divisor) => matches!(found.checked_rem(divisor), Some(0)),
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(n) => write!(f, "at least {n}"),
            Self::AtMost(n) => write!(f, "at most {n}"),
            Self::Between(low, high) => write!(f, "{low} to {high}"),
            Self::Bytes(n) => write!(f, "{n} bytes"),
            Self::Exactly(n) => write!(f, "{n}"),
            Self::MultipleOf(n) => write!(f, "a multiple of {n}"),
            Self::Rule(text) => f.write_str(text),
        }
    }
}

/// The value that a field holds instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Found {
    /// A whole number.
    Int(i128),
    /// The bits of a float, so that NaN equals itself.
    Float(u64),
    /// Four bytes in the place of a magic number.
    Magic([u8; 4]),
    /// A description in words.
    Text(&'static str),
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(n) => write!(f, "{n}"),
            Self::Float(bits) => write!(f, "{}", f64::from_bits(*bits)),
            Self::Magic([a, b, c, d]) => write!(f, "{a:02x} {b:02x} {c:02x} {d:02x}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

macro_rules! found_from_int {
    ($($int:ty)*) => {$(
        impl From<$int> for Found {
            fn from(n: $int) -> Self {
                Self::Int(n.into())
            }
        }
    )*};
}

found_from_int!(u8 u16 u32 u64 i8 i16 i32 i64 i128);

impl From<usize> for Found {
    fn from(n: usize) -> Self {
        Self::Int(crate::num::to_u64(n).into())
    }
}

impl From<f64> for Found {
    fn from(x: f64) -> Self {
        Self::Float(x.to_bits())
    }
}

impl From<[u8; 4]> for Found {
    fn from(magic: [u8; 4]) -> Self {
        Self::Magic(magic)
    }
}

impl From<&'static str> for Found {
    fn from(text: &'static str) -> Self {
        Self::Text(text)
    }
}

/// An error in a blob: the kind of fault, its location, and the required value.
///
/// ```
/// use zvf_format::{Class, Expected, FormatError, Part};
///
/// let (expected, found) = (Expected::Bytes(32), 16);
/// let error =
///     FormatError::new(Class::Truncated, Part::FragmentIndex, "ranges", 24, expected, found);
/// assert_eq!(
///     error.to_string(),
///     "Truncated in fragment index, ranges at byte 24: expected 32 bytes, found 16",
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FormatError {
    /// The kind of fault, by its stable name.
    pub class: Class,
    /// The structure being parsed.
    pub part: Part,
    /// The field, as the specification names it.
    pub field: &'static str,
    /// Bytes from the start of the blob to that field.
    pub offset: u64,
    /// The value that the format allows there.
    pub expected: Expected,
    /// The stored value.
    pub found: Found,
    hint: Option<Hint>,
}

impl FormatError {
    /// Creates an error.
    pub fn new(
        class: Class,
        part: Part,
        field: &'static str,
        offset: u64,
        expected: Expected,
        found: impl Into<Found>,
    ) -> Self {
        Self { class, part, field, offset, expected, found: found.into(), hint: None }
    }

    /// Replaces the default advice of the class.
    #[must_use]
    pub const fn with_hint(self, hint: Hint) -> Self {
        Self { hint: Some(hint), ..self }
    }

    /// Returns the advice: that of this error, or the default of its class.
    pub const fn hint(&self) -> Option<Hint> {
        match self.hint {
            Some(hint) => Some(hint),
            None => self.class.hint(),
        }
    }

    /// Moves the offset by `by`, the position of the blob in a larger structure.
    #[must_use]
    pub const fn with_base_offset(self, by: u64) -> Self {
        // Both are offsets of bytes that were read, so the sum does not saturate.
        Self { offset: self.offset.saturating_add(by), ..self }
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { class, part, field, offset, expected, found, .. } = self;
        write!(f, "{class} in {part}, {field} at byte {offset}: expected {expected}, found {found}")
    }
}

impl core::error::Error for FormatError {}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn transient_faults_are_no_damage() {
        for (class, name, damage, retryable) in [
            (Class::Truncated, "Truncated", true, false),
            (Class::Codec, "Codec", true, false),
            (Class::InvalidKey, "InvalidKey", false, false),
            (Class::NotFound, "NotFound", false, false),
            // A changed file stays changed for every open handle.
            (Class::FileChanged, "FileChanged", false, false),
            (Class::Throttled, "Throttled", false, true),
            (Class::Conflict, "Conflict", false, false),
        ] {
            assert_eq!(
                (class.name(), class.is_damage(), class.is_retryable()),
                (name, damage, retryable)
            );
        }
        assert!(Class::ALL.iter().all(|class| !(class.is_damage() && class.is_retryable())));
    }

    #[test]
    fn every_class_is_listed_once_under_its_own_name() {
        for (i, class) in Class::ALL.iter().enumerate() {
            assert_eq!(std::format!("{class:?}"), class.name());
            assert!(Class::ALL[..i].iter().all(|earlier| earlier < class), "{class}");
        }
    }

    #[test]
    fn messages_name_the_expected_value() {
        for (expected, text, allowed, refused) in [
            (Expected::AtLeast(2), "at least 2", 2, 1),
            (Expected::AtMost(2), "at most 2", 2, 3),
            (Expected::Between(1, 8), "1 to 8", 8, 9),
            (Expected::Bytes(8), "8 bytes", 8, 7),
            (Expected::Exactly(0), "0", 0, 1),
            (Expected::MultipleOf(8), "a multiple of 8", 16, 12),
        ] {
            assert_eq!(expected.to_string(), text);
            assert!(expected.allows(allowed) && !expected.allows(refused), "{text}");
        }
        assert!(!Expected::MultipleOf(0).allows(0));
        assert!(!Expected::Rule("never").allows(0));
    }

    #[test]
    fn a_specific_hint_replaces_the_hint_of_the_class() {
        let error =
            FormatError::new(Class::Truncated, Part::Manifest, "B", 0, Expected::Bytes(4), 0_u8);
        assert_eq!(error.hint(), Some(Hint::CutObject));
        assert_eq!(error.with_hint(Hint::ByteOrder).hint(), Some(Hint::ByteOrder));
        assert_eq!(error.with_base_offset(12).offset, 12);
    }
}
