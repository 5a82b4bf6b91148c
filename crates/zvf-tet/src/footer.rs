//! Footer: the metadata of a file, found from its end.
//!
//! ```text
//! from the end   bytes  field
//! -4             4      magic, THST
//! -8             4      history_version, 1 or 2
//! -16            8      history_json_len
//! -16 - len      len    history_json, one JSON object
//! before that           spills, back to back: zone maps, secondary index, metadata
//! ```
//!
//! The spills are those that the JSON refers to: `metadata_ref` in both versions, `zone_maps_ref`
//! and `secondary_index_ref` in version 2 only. The first spill starts where the payloads end, so
//! the JSON determines the end of the payload area and must be parsed before any row is trusted.
//!
//! Not here: the meaning of history and metadata. Zone maps and secondary index are located but
//! never trusted: they can contradict the data.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use alloc::vec::Vec;

use super::json::{self, Members};
use zvf_format::num;
use zvf_format::{Class, Expected, FormatError, Lints, Part};

/// A span of a file.
///
/// ```
/// use zvf_tet::{AxisSlice, TensorCodec, TensorDtype, TileGeometry, Index, Lookup, MemoryBudget, Row, Span};
///
/// let rows = [0, 1].map(|c| Row::new(0, &[c, 0], 320 + 64 * c, 64, 64, TensorCodec::Raw).unwrap());
/// let bytes = Index::encode(MemoryBudget::DEFAULT, &rows);
/// let index = Index::parse(&bytes, 448)?;
/// let lookup = Lookup::new(&index, 0, &TileGeometry::new(TensorDtype::F32, &[8, 4], &[4, 4]).unwrap(), 0);
///
/// let whole = lookup.select_all()?;
/// assert_eq!(whole.dense_span(), Some(Span { offset: 320, len: 128 }));
/// let part = lookup.select(&[AxisSlice { start: 1, stop: 3, step: 1 }, AxisSlice::all(4)])?;
/// assert_eq!(part.byte_stream(), None);
/// assert_eq!(part.strided_view().unwrap().as_dense(), Some(Span { offset: 336, len: 32 }));
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
}

/// The footer of a file, borrowed from its last bytes.
///
/// ```
/// use zvf_tet::Footer;
///
/// let tail = b"{\"history\":[]}\x0e\0\0\0\0\0\0\0\x01\0\0\0THST";
/// let footer = Footer::parse(tail, 1000, 32)?;
/// assert_eq!((footer.version(), footer.payload_end()), (1, 970));
/// assert_eq!(footer.member("history"), Some(&b"[]"[..]));
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Footer<'a> {
    version: u32,   // 1 or 2
    json: &'a [u8], // one well-formed object
    json_at: u64,
    spills: [Option<Span>; 3], // as in `REFS`; back to back, the JSON after the last
    payload_end: u64,
    metadata: Option<&'a [u8]>, // the metadata spill, one well-formed object
}

/// The state of parsing a footer.
#[derive(Clone, Copy)]
pub(super) enum Progress<'a> {
    /// This many bytes before the end of the file are needed.
    More(u64),
    /// The complete footer.
    Done(Footer<'a>),
}

impl<'a> Footer<'a> {
    /// Length of the fixed end of every footer.
    pub const TAIL: u64 = 16;

    /// Parses the footer of a file of `file_len` bytes from the last of them. No part of the footer
    /// lies before `floor`, the end of the index.
    ///
    /// # Errors
    ///
    /// When magic or version differ; when JSON or spills do not fit between `floor` and the end,
    /// are not well-formed, or leave gaps; or when `tail` does not reach back to the metadata.
    pub fn parse(tail: &'a [u8], file_len: u64, floor: u64) -> Result<Self, FormatError> {
        match Self::progress(tail, file_len, floor)? {
            Progress::Done(footer) => Ok(footer),
            Progress::More(n) => {
                let at = file_len.saturating_sub(num::to_u64(tail.len()));
                let (class, expected) = (Class::Truncated, Expected::Bytes(n));
                Err(FormatError::new(class, Part::TetFooter, "footer", at, expected, tail.len()))
            }
        }
    }

    /// Parses a footer like [`Footer::parse`], and requests the bytes that `tail` lacks.
    pub(super) fn progress(
        tail: &'a [u8],
        file_len: u64,
        floor: u64,
    ) -> Result<Progress<'a>, FormatError> {
        let room = file_len.saturating_sub(floor);
        if room < Self::TAIL {
            return Err(refuse(Class::Truncated, "tail", floor, Expected::Bytes(Self::TAIL), room));
        }
        let Some(Raw { history_json_len, history_version, magic }) =
            last_bytes(tail, Self::TAIL).and_then(|bytes| Raw::read_from_bytes(bytes).ok())
        else {
            return Ok(Progress::More(Self::TAIL));
        };
        let at = |back| file_len.saturating_sub(back);
        if magic != MAGIC {
            return Err(refuse(Class::BadMagic, "magic", at(4), Expected::Rule("THST"), magic));
        }
        let version = history_version.get();
        if !(1..=2).contains(&version) {
            let (class, expected) = (Class::UnsupportedVersion, Expected::Between(1, 2));
            return Err(refuse(class, "history_version", at(8), expected, version));
        }
        let (len, max) = (history_json_len.get(), room.saturating_sub(Self::TAIL));
        if len > max {
            let expected = Expected::AtMost(max.into());
            return Err(refuse(Class::OutOfBounds, "history_json_len", at(16), expected, len));
        }
        let need = len.saturating_add(Self::TAIL); // at most the file
        let Some(json) =
            last_bytes(tail, need).and_then(|bytes| bytes.get(..num::checked_usize(len)?))
        else {
            return Ok(Progress::More(need));
        };
        let json_at = at(need);
        let found = |error: FormatError| error.with_base_offset(json_at);
        json::check_object(Part::TetFooter, "history_json", json).map_err(found)?;
        let spills = references(json, version, floor, json_at)?;
        // Three lengths below 2^64, so the sum does not saturate.
        let all = spills.iter().flatten().fold(0_i128, |sum, s| sum.saturating_add(s.len.into()));
        let payload_end = i128::from(json_at).saturating_sub(all);
        let payload_end =
            u64::try_from(payload_end).ok().filter(|end| *end >= floor).ok_or_else(|| {
                let (class, expected) = (Class::OutOfBounds, Expected::AtLeast(floor.into()));
                refuse(class, "spills", json_at, expected, payload_end)
            })?;
        let footer = Self { version, json, json_at, spills, payload_end, metadata: None };
        footer.check_spills()?;
        footer.with_metadata(tail, file_len)
    }

    /// Adds the metadata spill, if there is one.
    fn with_metadata(self, tail: &'a [u8], file_len: u64) -> Result<Progress<'a>, FormatError> {
        let [_, _, Some(spill)] = self.spills else {
            return Ok(Progress::Done(self));
        };
        let need = file_len.saturating_sub(spill.offset);
        let spilled =
            last_bytes(tail, need).and_then(|bytes| bytes.get(..num::checked_usize(spill.len)?));
        let Some(metadata) = spilled else {
            return Ok(Progress::More(need));
        };
        json::check_object(Part::TetFooter, "metadata", metadata)
            .map_err(|error| error.with_base_offset(spill.offset))?;
        Ok(Progress::Done(Self { metadata: Some(metadata), ..self }))
    }

    /// Checks that spills fill the space between payloads and JSON without overlap, in any order.
    fn check_spills(&self) -> Result<(), FormatError> {
        let mut at = self.payload_end;
        for _ in self.spills.iter().flatten() {
            // Among several spills at one offset, all but one are empty.
            let adjacent = self.spills.iter().flatten().filter(|spill| spill.offset == at);
            // Without a spill here, `at` stays before the JSON, which is refused below.
            at = at.saturating_add(adjacent.map(|spill| spill.len).max().unwrap_or(0));
        }
        let outside = |spill: &&Span| !(self.payload_end..=self.json_at).contains(&spill.offset);
        match self.spills.iter().flatten().find(outside) {
            None if at == self.json_at => Ok(()),
            stray => {
                let found = stray.map_or(at, |spill| spill.offset);
                let expected = Expected::Rule("spills back to back up to the JSON");
                Err(refuse(Class::CountMismatch, "spills", self.json_at, expected, found))
            }
        }
    }

    /// Returns the version of the footer, 1 or 2.
    pub const fn version(&self) -> u32 {
        self.version
    }

    /// Returns the JSON object.
    pub const fn json(&self) -> &'a [u8] {
        self.json
    }

    /// Returns the offset of the footer, where payloads end.
    pub const fn payload_end(&self) -> u64 {
        self.payload_end
    }

    /// Returns the text of the first member of the JSON object with this name, unchanged.
    pub fn member(&self, name: &str) -> Option<&'a [u8]> {
        Members::new(self.json).find_values(name).next()
    }

    /// Returns the metadata object, from the JSON or its spill.
    pub fn metadata(&self) -> Option<&'a [u8]> {
        self.metadata.or_else(|| self.member("metadata").filter(|value| *value != b"null"))
    }

    /// Returns the offset of the JSON in the file.
    pub const fn json_offset(&self) -> u64 {
        self.json_at
    }

    /// Returns the positions of the zone maps, the secondary index and the metadata, if they are
    /// outside the JSON. Zone maps and index may contradict the data.
    pub const fn spills(&self) -> [Option<Span>; 3] {
        self.spills
    }

    /// Lists references that this version does not have, and metadata in two places.
    pub fn lints(&self) -> Lints {
        super::lints(self.faults())
    }

    pub(super) fn faults(&self) -> impl Iterator<Item = FormatError> + use<'a> {
        let at = self.json_at;
        let fault = move |field, rule| {
            let (class, found) = (Class::NonCanonical, "a reference");
            refuse(class, field, at, Expected::Rule(rule), found)
        };
        let has = |name| self.member(name).is_some_and(|value| value != b"null");
        let early = |name| self.version == 1 && has(name);
        let zones = early("zone_maps_ref").then(|| fault("zone_maps_ref", "none in version 1"));
        let index =
            early("secondary_index_ref").then(|| fault("secondary_index_ref", "none in version 1"));
        let twice = (self.metadata.is_some() && has("metadata"))
            .then(|| fault("metadata_ref", "none beside metadata"));
        [zones, index, twice].into_iter().flatten()
    }
}

/// Encodes a version 1 footer without spills, which every reader that supports footers accepts.
///
/// ```
/// use zvf_tet::{Footer, encode_footer};
///
/// let bytes = encode_footer(br#"{"history":[]}"#)?;
/// assert_eq!(Footer::parse(&bytes, 30, 0)?.payload_end(), 0);
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
///
/// # Errors
///
/// When the JSON is not one well-formed object, refers to a spill, or has more than 65 536 bytes,
/// which other readers refuse.
pub fn encode_footer(history_json: &[u8]) -> Result<Vec<u8>, FormatError> {
    let len = num::to_u64(history_json.len());
    if len > MAX_JSON {
        let expected = Expected::AtMost(MAX_JSON.into());
        return Err(refuse(Class::LimitExceeded, "history_json_len", 0, expected, len));
    }
    json::check_object(Part::TetFooter, "history_json", history_json)?;
    for name in REFS {
        if Members::new(history_json).find_values(name).next().is_some() {
            let expected = Expected::Rule("no reference to a spill");
            return Err(refuse(Class::InvalidArgument, name, 0, expected, "one"));
        }
    }
    let raw = Raw { history_json_len: U64::new(len), history_version: U32::new(1), magic: MAGIC };
    Ok([history_json, raw.as_bytes()].concat())
}

/// Returns the spills that count in a footer of this version.
fn references(
    json: &[u8],
    version: u32,
    floor: u64,
    json_at: u64,
) -> Result<[Option<Span>; 3], FormatError> {
    let mut spills = [None; 3];
    for (spill, name) in spills.iter_mut().zip(REFS) {
        if version == 1 && name != METADATA_REF {
            continue;
        }
        let mut named = Members::new(json).find_values(name);
        let first = named.next();
        if named.next().is_some() {
            let expected = Expected::Rule("one member of this name");
            return Err(refuse(Class::Duplicate, name, json_at, expected, "more"));
        }
        let Some(value) = first.filter(|value| *value != b"null") else {
            continue;
        };
        let number = |key| Members::new(value).find_values(key).next().and_then(json::as_u64);
        let (Some(offset), Some(len)) = (number("offset"), number("len")) else {
            let expected = Expected::Rule("whole numbers offset and len");
            return Err(refuse(Class::Encoding, name, json_at, expected, "something else"));
        };
        let max = json_at.saturating_sub(floor);
        if len > max || offset < floor || offset > json_at {
            let expected = Expected::Rule("a span between index and JSON");
            return Err(refuse(Class::OutOfBounds, name, json_at, expected, "another one"));
        }
        *spill = Some(Span { offset, len });
    }
    Ok(spills)
}

fn last_bytes(bytes: &[u8], n: u64) -> Option<&[u8]> {
    bytes.get(bytes.len().checked_sub(num::checked_usize(n)?)?..)
}

fn refuse(
    class: Class,
    field: &'static str,
    at: u64,
    expected: Expected,
    found: impl Into<zvf_format::Found>,
) -> FormatError {
    FormatError::new(class, Part::TetFooter, field, at, expected, found)
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    history_json_len: U64,
    history_version: U32,
    magic: [u8; 4],
}

const MAGIC: [u8; 4] = *b"THST";
const METADATA_REF: &str = "metadata_ref";
/// In the order in which writers place the spills.
const REFS: [&str; 3] = ["zone_maps_ref", "secondary_index_ref", METADATA_REF];
const MAX_JSON: u64 = 65_536;

#[cfg(test)]
mod tests;
