//! The header of a Blosc2 frame: the fixed part, then metalayers.
//!
//! ```text
//! offset  size  field
//! 0       87    fixed part
//! 87            metalayers, to header_len
//! ```
//!
//! The array metalayer is interpreted by [`Frame`](super::Frame).

use super::fixed::{FIXED, FixedHeader, FrameFields};
use super::metamap::{Entry, Form, Metamap};
use zvf_format::Lints;
use zvf_format::cursor::Cursor;
use zvf_format::{Class, Expected, FormatError, Part};

/// The whole header of a frame.
///
/// ```
/// use zvf_b2nd::FrameHeader;
///
/// # #[cfg(feature = "alloc")] {
/// # use zvf_b2nd::{FrameFields, BlockGeometry, Partition};
/// # let geometry = BlockGeometry::new(Partition::new(&[7], &[4], &[2])?, 4)?;
/// # let mut fields = FrameFields::array(&geometry, 64);
/// # fields.frame_len = 1000;
/// # let bytes = FrameHeader::encode(&fields, &[("mine", b"x")])?;
/// let header = FrameHeader::parse(&bytes)?;
/// assert_eq!(header.fields().chunk_size, 16);
/// assert_eq!(header.metalayer("mine").unwrap().content, b"x");
/// assert!(header.metalayer("b2nd").is_none());
/// # }
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FrameHeader<'a> {
    fixed: FixedHeader,
    metalayers: Metamap<'a>, // at most sixteen, of different names
}

impl<'a> FrameHeader<'a> {
    /// Checks the bytes of [`FixedHeader::header_range`].
    ///
    /// # Errors
    ///
    /// As [`FixedHeader::parse`]; when the number of bytes is not `header_len`; when a metalayer
    /// lies outside the header, there are more than sixteen, or two have the same name.
    pub fn parse(header: &'a [u8]) -> Result<Self, FormatError> {
        let fixed = FixedHeader::parse(header)?;
        let mut cur = Cursor::new(Part::FrameHeader, header);
        cur.bytes("metalayers", fixed.fields().header_len.into())?;
        cur.end()?;
        let metalayers = Metamap::parse(FORM, header, FIXED)?;
        for (i, entry) in metalayers.entries().enumerate() {
            if metalayers.entries().take(i).any(|before| before.name == entry.name) {
                let expected = Expected::Rule("a name of its own");
                let at = entry.at;
                return Err(cur.refuse(Class::Duplicate, "metalayer", at, expected, "another one"));
            }
        }
        Ok(Self { fixed, metalayers })
    }

    /// Parses as [`FrameHeader::parse`], and refuses what [`FrameHeader::lints`] lists.
    ///
    /// # Errors
    ///
    /// As `parse`, and for the first lint.
    pub fn parse_strict(header: &'a [u8]) -> Result<Self, FormatError> {
        let header = Self::parse(header)?;
        header.lints().into_strict()?;
        Ok(header)
    }

    /// Returns the fixed part.
    pub const fn fixed_header(&self) -> &FixedHeader {
        &self.fixed
    }

    /// Returns the fields of the fixed part.
    pub const fn fields(&self) -> &FrameFields {
        self.fixed.fields()
    }

    /// Returns all metalayers, in their order.
    pub fn metalayers(&self) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        self.metalayers.entries()
    }

    /// Returns the metalayer of that name.
    pub fn metalayer(&self, name: &str) -> Option<Entry<'a>> {
        self.metalayers.entry(name)
    }

    /// Lists readable properties that differ from the output of stock libraries.
    pub fn lints(&self) -> Lints {
        let mut lints = Lints::default();
        let reserved = self.fields().reserved;
        if reserved != 0 {
            let (class, expected) = (Class::NonCanonical, Expected::Exactly(0));
            let part = Part::FrameHeader;
            lints.push(FormatError::new(class, part, "reserved", 86, expected, reserved));
        }
        self.metalayers.lint(Part::FrameHeader, &mut lints);
        lints
    }

    /// Encodes the header of a frame with these fields and metalayers; `header_len` is computed.
    ///
    /// # Errors
    ///
    /// When the header would not be accepted by [`FrameHeader::parse`].
    #[cfg(feature = "alloc")]
    pub fn encode(
        fields: &FrameFields,
        metalayers: &[(&str, &[u8])],
    ) -> Result<alloc::vec::Vec<u8>, FormatError> {
        let mut out = fields.encode();
        super::metamap::encode(FORM, &mut out, metalayers)?;
        let header_len = u32::try_from(out.len()).unwrap_or(u32::MAX); // refused when parsed again
        let fixed = FrameFields { header_len, ..*fields }.encode();
        for (byte, right) in out.iter_mut().zip(fixed) {
            *byte = right;
        }
        FrameHeader::parse(&out)?;
        Ok(out)
    }
}

/// The section of metalayers: counted from its first byte.
const FORM: Form = Form { part: Part::FrameHeader, max_entries: 16, uncounted: 0 };

#[cfg(all(test, feature = "alloc"))]
mod tests;
