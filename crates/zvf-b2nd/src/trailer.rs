//! The trailer of a Blosc2 frame: vlmetalayers, which may change after the frame was written.
//!
//! ```text
//! 94  01                    version
//! 93  cd .. de .. dc ..     named contents, offsets from the start of the trailer
//! ce  <u32 trailer length>
//! d8  <fingerprint type>  16 bytes, all zero as none is in use
//! ```
//!
//! Big-endian. The last two lines are 23 bytes; a reader of array data needs no other part of the
//! trailer. Each content is a Blosc2 chunk, which the caller decodes.

use super::fixed::{TAIL, TRAILER_MIN};
use super::metamap::{Entry, Form, Metamap};
use super::msgpack;
use zerocopy::big_endian::U32;
use zvf_format::Lints;
use zvf_format::cursor::Cursor;
use zvf_format::num;
use zvf_format::{Class, Expected, FormatError, Part};

/// The trailer of a frame.
///
/// ```
/// use zvf_b2nd::FrameTrailer;
///
/// # #[cfg(feature = "alloc")] {
/// let empty = FrameTrailer::encode(&[])?;
/// assert_eq!(empty.len(), 35);
/// assert_eq!(FrameTrailer::parse(&empty)?.entries().count(), 0);
/// # }
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FrameTrailer<'a> {
    entries: Metamap<'a>,
    fingerprint: &'a [u8], // its type, then 16 bytes
    tail_at: u64,
}

impl<'a> FrameTrailer<'a> {
    /// Checks a whole trailer.
    ///
    /// # Errors
    ///
    /// When it does not match the layout above, from the first byte to the last, or a content lies
    /// outside of it.
    pub fn parse(trailer: &'a [u8]) -> Result<Self, FormatError> {
        let len = num::to_u64(trailer.len());
        Cursor::new(Part::FrameTrailer, trailer).bytes("tail", TRAILER_MIN)?;
        let tail_at = len.saturating_sub(TAIL); // there are TRAILER_MIN bytes or more
        let front = Cursor::new(Part::FrameTrailer, trailer).bytes("entries", tail_at)?;

        let mut cur = Cursor::new(Part::FrameTrailer, trailer);
        msgpack::marker(&mut cur, "trailer", 0x94)?;
        let version = msgpack::byte(&mut cur, "version")?;
        if version.value != VERSION {
            let (class, expected) = (Class::UnsupportedVersion, Expected::Exactly(VERSION.into()));
            return Err(cur.refuse(class, "version", version.at, expected, version.value));
        }
        let entries = Metamap::parse(FORM, front, cur.position())?;
        cur.bytes("entries", tail_at.saturating_sub(cur.position()))?; // two bytes are before them
        let stated = msgpack::number(&mut cur, "trailer length", 0xce, U32::get)?;
        if u64::from(stated.value) != len {
            let (class, expected) = (Class::CountMismatch, Expected::Exactly(len.into()));
            return Err(cur.refuse(class, "trailer length", stated.at, expected, stated.value));
        }
        msgpack::marker(&mut cur, "fingerprint", FINGERPRINT)?;
        Ok(Self { entries, fingerprint: cur.rest(), tail_at })
    }

    /// Parses as [`FrameTrailer::parse`], and refuses what [`FrameTrailer::lints`] lists.
    ///
    /// # Errors
    ///
    /// As `parse`, and for the first lint.
    pub fn parse_strict(trailer: &'a [u8]) -> Result<Self, FormatError> {
        let trailer = Self::parse(trailer)?;
        trailer.lints().into_strict()?;
        Ok(trailer)
    }

    /// Returns the length of the trailer, from the last 23 bytes of a frame.
    ///
    /// # Errors
    ///
    /// When there are not 23 bytes, a marker is missing, or the length is below 25.
    pub fn len_from_tail(tail: &[u8]) -> Result<u64, FormatError> {
        let mut cur = Cursor::new(Part::FrameTrailer, tail);
        let len = msgpack::number(&mut cur, "trailer length", 0xce, U32::get)?;
        msgpack::marker(&mut cur, "fingerprint", FINGERPRINT)?;
        cur.bytes("fingerprint", FINGERPRINT_LEN)?;
        cur.end()?;
        if u64::from(len.value) < TRAILER_MIN {
            let (class, expected) = (Class::OutOfBounds, Expected::AtLeast(TRAILER_MIN.into()));
            return Err(cur.refuse(class, "trailer length", len.at, expected, len.value));
        }
        Ok(len.value.into())
    }

    /// Returns the vlmetalayers, in their order. Names are not checked against each other.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        self.entries.entries()
    }

    /// Returns the first vlmetalayer of that name.
    pub fn entry(&self, name: &str) -> Option<Entry<'a>> {
        self.entries.entry(name)
    }

    /// Lists readable properties that differ from the output of stock libraries.
    pub fn lints(&self) -> Lints {
        let mut lints = Lints::default();
        self.entries.lint(Part::FrameTrailer, &mut lints);
        if let Some(byte) = self.fingerprint.iter().find(|byte| **byte != 0) {
            // Inside of the trailer.
            let at = self.tail_at.saturating_add(TAIL).saturating_sub(FINGERPRINT_LEN);
            let (class, expected) = (Class::NonCanonical, Expected::Exactly(0));
            let part = Part::FrameTrailer;
            lints.push(FormatError::new(class, part, "fingerprint", at, expected, *byte));
        }
        lints
    }

    /// Encodes a trailer with these vlmetalayers; each content should be a Blosc2 chunk.
    ///
    /// # Errors
    ///
    /// When there are more than 8192 entries, a name has more than 31 bytes, the names with six
    /// bytes each exceed 65529 bytes, or the trailer exceeds 2^31 - 1.
    #[cfg(feature = "alloc")]
    pub fn encode(entries: &[(&str, &[u8])]) -> Result<alloc::vec::Vec<u8>, FormatError> {
        let mut out = alloc::vec![0x94, VERSION];
        super::metamap::encode(FORM, &mut out, entries)?;
        let len = num::to_u64(out.len()).saturating_add(TAIL); // the length of something in memory
        let Ok(len) = u32::try_from(len) else {
            let expected = Expected::AtMost(u32::MAX.into());
            let (class, part) = (Class::LimitExceeded, Part::FrameTrailer);
            return Err(FormatError::new(class, part, "trailer length", 0, expected, len));
        };
        msgpack::write(&mut out, 0xce, &U32::new(len));
        out.push(FINGERPRINT);
        out.extend([0; 17]);
        Ok(out)
    }
}

/// The section of vlmetalayers: counted from after its first byte.
const FORM: Form = Form { part: Part::FrameTrailer, max_entries: 8192, uncounted: 1 };
const VERSION: u8 = 1;
const FINGERPRINT: u8 = 0xd8;
/// The type of the fingerprint, and its bytes.
const FINGERPRINT_LEN: u64 = 17;

#[cfg(all(test, feature = "alloc"))]
mod tests;
