//! Reading a stream from front to back.

use zvf_format::Class;

use crate::DracoError;

/// The reading position in a stream.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    pub(crate) fn bad(
        &self,
        class: Class,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> DracoError {
        DracoError::new(class, self.at, expected, found)
    }

    pub(crate) fn take(&mut self, size: usize, what: &str) -> Result<&'a [u8], DracoError> {
        let rest = self.rest();
        let Some(taken) = rest.get(..size) else {
            let expected = format!("{size} bytes of {what}");
            return Err(self.bad(Class::Truncated, expected, rest.len().to_string()));
        };
        self.at += size;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self, what: &str) -> Result<u8, DracoError> {
        Ok(self.take(1, what)?.first().copied().unwrap_or(0))
    }

    pub(crate) fn signed(&mut self, what: &str) -> Result<i8, DracoError> {
        Ok(self.byte(what)?.cast_signed())
    }

    pub(crate) fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], DracoError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, what)?);
        Ok(array)
    }

    pub(crate) fn float(&mut self, what: &str) -> Result<f32, DracoError> {
        self.array(what).map(f32::from_le_bytes)
    }

    pub(crate) fn word(&mut self, what: &str) -> Result<u32, DracoError> {
        self.array(what).map(u32::from_le_bytes)
    }

    /// Reads a number in groups of seven bits, the lowest first.
    pub(crate) fn varint(&mut self, what: &str) -> Result<u64, DracoError> {
        let start = self.at;
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte(what)?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        let expected = format!("a number as {what}");
        Err(DracoError::new(Class::Overflow, start, expected, "more than 64 bits"))
    }

    pub(crate) fn count(&mut self, what: &str) -> Result<usize, DracoError> {
        Ok(usize::try_from(self.varint(what)?).unwrap_or(usize::MAX))
    }
}

/// Appends a number in groups of seven bits.
pub(crate) fn push_varint(mut value: u64, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    to.push(value.to_le_bytes()[0]);
}

/// Bits, the lowest of a byte first.
#[derive(Debug)]
pub(crate) struct Bits<'a> {
    bytes: &'a [u8],
    at: usize, // in bits
}

impl<'a> Bits<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Reads the next `count` bits, at most 32.
    pub(crate) fn take(&mut self, count: u32) -> Option<u32> {
        let mut value = 0_u32;
        for bit in 0..count {
            let byte = self.bytes.get(self.at / 8)?;
            value |= u32::from((byte >> (self.at % 8)) & 1) << bit;
            self.at += 1;
        }
        Some(value)
    }

    /// Returns the number of bytes read, including a partly read one.
    pub(crate) const fn used(&self) -> usize {
        self.at.div_ceil(8)
    }
}
