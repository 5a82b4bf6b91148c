//! Reading a stream from front to back.

use zvf_format::Class;
use zvf_format::num::checked_usize;

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
        self.bytes.get(self.at..).unwrap_or_default() // `take` stays inside
    }

    pub(crate) fn read_error(
        &self,
        class: Class,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> DracoError {
        DracoError::new(class, self.at, expected, found)
    }

    pub(crate) fn take(&mut self, size: usize, what: &str) -> Result<&'a [u8], DracoError> {
        let end = self.at.checked_add(size);
        let taken = end.and_then(|end| Some((self.bytes.get(self.at..end)?, end)));
        let Some((taken, end)) = taken else {
            let expected = format!("{size} bytes of {what}");
            return Err(self.read_error(Class::Truncated, expected, self.rest().len().to_string()));
        };
        self.at = end;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self, what: &str) -> Result<u8, DracoError> {
        self.array(what).map(u8::from_le_bytes)
    }

    pub(crate) fn signed_byte(&mut self, what: &str) -> Result<i8, DracoError> {
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
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        let expected = format!("a number as {what}");
        Err(DracoError::new(Class::Overflow, start, expected, "more than 64 bits"))
    }

    /// Reads a count of something in memory.
    pub(crate) fn count(&mut self, what: &str) -> Result<usize, DracoError> {
        let start = self.at;
        let count = self.varint(what)?;
        checked_usize(count).ok_or_else(|| {
            let expected = format!("{what} in memory");
            DracoError::new(Class::LimitExceeded, start, expected, count.to_string())
        })
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

/// Returns a number of `bits` ones; from 32 on all ones.
pub(crate) const fn low_bit_mask(bits: u32) -> u32 {
    match 1_u32.checked_shl(bits) {
        Some(next) => next.wrapping_sub(1), // a power of two is not 0
        None => u32::MAX,
    }
}

/// Decodes a signed number whose sign is in the lowest bit (zigzag).
pub(crate) const fn zigzag(symbol: u32) -> i32 {
    (symbol >> 1).cast_signed() ^ (symbol & 1).cast_signed().wrapping_neg()
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
            self.at = self.at.checked_add(1)?;
        }
        Some(value)
    }

    /// Returns the number of bytes read, including a partly read one.
    pub(crate) const fn bytes_read(&self) -> usize {
        self.at.div_ceil(8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_more_than_64_bits_are_refused() {
        let largest = [&[0xff_u8; 9][..], &[1]].concat();
        assert_eq!(Cursor::new(&largest).varint("n"), Ok(u64::MAX));
        let larger = [&[0x80_u8; 9][..], &[2]].concat();
        assert_eq!(Cursor::new(&larger).varint("n").unwrap_err().class, Class::Overflow);
    }
}
