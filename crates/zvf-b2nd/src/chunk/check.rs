//! The checks of a chunk header, in their order.
//!
//! Version and flags come first, then each length by itself, then the body that the flags announce
//! against those lengths. Codec and filters come last, and only for a body of blocks. Lengths have
//! 31 bits, their sums up to 64.

use super::ChunkHeader;
use super::fields::{
    BLOSC1, BloscCodec, Body, ChunkFields, EXTENDED, Filter, INSTRUMENTED, LAZY, RAW, SPECIAL,
    Special, VARYING, VARYING_VERSION,
};
use zvf_format::{Class, Expected, FormatError, Found, Part};

impl ChunkHeader {
    pub(super) fn check_special(&self, special: Special) -> Result<(), FormatError> {
        let (typesize, nbytes) = (self.fields.typesize, self.nbytes());
        match special {
            Special::Nan if typesize != 4 && typesize != 8 => {
                let expected = Expected::Rule("4 or 8, as NaN is a float");
                Err(refuse(Class::BadTag, "typesize", 3, expected, typesize))
            }
            Special::Value(0) => {
                Err(refuse(Class::OutOfBounds, "cbytes", 12, Expected::AtLeast(33), self.cbytes()))
            }
            Special::Value(bytes) if nbytes.checked_rem(bytes) != Some(0) => {
                let expected = Expected::MultipleOf(bytes.into());
                Err(refuse(Class::Misaligned, "nbytes", 4, expected, nbytes))
            }
            Special::Zeros | Special::Nan | Special::Value(_) | Special::Unwritten => Ok(()),
        }
    }

    pub(super) fn check_raw(&self) -> Result<(), FormatError> {
        let cbytes = u64::from(self.nbytes()).saturating_add(self.header_len().into());
        if u64::from(self.cbytes()) == cbytes {
            return Ok(());
        }
        let expected = Expected::Exactly(cbytes.into());
        Err(refuse(Class::CountMismatch, "cbytes", 12, expected, self.cbytes()))
    }

    pub(super) fn check_blocks(&self) -> Result<(), FormatError> {
        let dictionary = if self.has_dictionary() { 4 } else { 0 };
        let least = self.table().end.saturating_add(dictionary);
        if u64::from(self.cbytes()) < least {
            let expected = Expected::AtLeast(least.into());
            return Err(refuse(Class::OutOfBounds, "cbytes", 12, expected, self.cbytes()));
        }
        if let BloscCodec::Reserved(code) = self.codec() {
            let expected = Expected::Rule("a codec in use");
            return Err(refuse(Class::BadTag, "codec", 2, expected, code));
        }
        for (at, slot) in (16_u64..).zip(self.filters()) {
            if let Filter::Unknown(id) = slot.filter {
                let expected = Expected::Rule("a filter in use");
                return Err(refuse(Class::BadTag, "filter", at, expected, id));
            }
        }
        let typesize = u32::from(self.fields.typesize);
        if self.splits() && self.blocksize().checked_rem(typesize) != Some(0) {
            let expected = Expected::MultipleOf(typesize.into());
            return Err(refuse(Class::Misaligned, "blocksize", 8, expected, self.blocksize()));
        }
        Ok(())
    }
}

pub(super) fn flags(fields: &ChunkFields) -> Result<(), FormatError> {
    let ChunkFields { version, flags, extended, .. } = *fields;
    if !(BLOSC1..=VARYING_VERSION).contains(&version) {
        let expected = Expected::Between(BLOSC1.into(), VARYING_VERSION.into());
        return Err(refuse(Class::UnsupportedVersion, "version", 0, expected, version));
    }
    let both = flags & EXTENDED == EXTENDED;
    if both != extended.is_some() || (both && version == BLOSC1) {
        let expected =
            Expected::Rule("shuffle and bitshuffle together just before 32-byte headers");
        return Err(refuse(Class::UnsupportedFlags, "flags", 2, expected, flags));
    }
    let Some(extended) = extended else { return Ok(()) };
    let known = if version == VARYING_VERSION { VARYING } else { 0 };
    if extended.flags2 & !known != 0 {
        let expected = Expected::AtMost(known.into());
        return Err(refuse(Class::UnsupportedFlags, "flags 2", 30, expected, extended.flags2));
    }
    if extended.blosc2_flags & (LAZY | INSTRUMENTED) != 0 {
        let expected = Expected::Rule("neither lazy nor instrumented");
        let found = extended.blosc2_flags;
        return Err(refuse(Class::UnsupportedFlags, "blosc2 flags", 31, expected, found));
    }
    Ok(())
}

pub(super) fn lengths(fields: &ChunkFields) -> Result<(), FormatError> {
    let header = if fields.extended.is_some() { 32 } else { 16 };
    if fields.typesize == 0 {
        return Err(refuse(Class::BadShape, "typesize", 3, Expected::AtLeast(1), 0_u8));
    }
    if fields.nbytes < 0 {
        return Err(refuse(Class::Negative, "nbytes", 4, Expected::AtLeast(0), fields.nbytes));
    }
    if fields.blocksize < 1 {
        let class = if fields.blocksize < 0 { Class::Negative } else { Class::BadShape };
        return Err(refuse(class, "blocksize", 8, Expected::AtLeast(1), fields.blocksize));
    }
    if fields.cbytes < header {
        let class = if fields.cbytes < 0 { Class::Negative } else { Class::OutOfBounds };
        let expected = Expected::AtLeast(header.into());
        return Err(refuse(class, "cbytes", 12, expected, fields.cbytes));
    }
    Ok(())
}

pub(super) fn body(fields: &ChunkFields) -> Result<Body, FormatError> {
    let (blosc2_flags, flags2) =
        fields.extended.map_or((0, 0), |extended| (extended.blosc2_flags, extended.flags2));
    let value = fields.cbytes.unsigned_abs().saturating_sub(32); // special values are after headers of 32 bytes
    let body = match (blosc2_flags & SPECIAL) >> 4 {
        0 if fields.flags & RAW != 0 => Body::Raw,
        0 => Body::Blocks,
        1 => Body::Special(Special::Zeros),
        2 => Body::Special(Special::Nan),
        3 => Body::Special(Special::Value(value)),
        4 => Body::Special(Special::Unwritten),
        code => {
            let expected = Expected::Between(0, 4);
            return Err(refuse(Class::BadTag, "special value", 31, expected, code));
        }
    };
    if flags2 & VARYING != 0 && body != Body::Blocks {
        let expected = Expected::Rule("blocks, where they have lengths of their own");
        return Err(refuse(Class::UnsupportedFlags, "flags 2", 30, expected, flags2));
    }
    Ok(body)
}

fn refuse(
    class: Class,
    field: &'static str,
    at: u64,
    expected: Expected,
    found: impl Into<Found>,
) -> FormatError {
    FormatError::new(class, Part::BloscChunk, field, at, expected, found)
}
