//! The cursor over a blob: the only code that adds offsets or reinterprets bytes.
//!
//! A cursor walks one blob from the front. Offsets are kept in `u64`. Before bytes are taken, their
//! number is compared with the bytes left, so no length inside the blob is used before it is
//! checked, and no arithmetic can wrap on any target. Every on-disk type is unaligned.
//!
//! Public for the crates that parse other bytes in the same way (`zvf-tet`, `zvf-b2nd`).

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::error::{Class, Expected, FormatError, Found, Part};
use crate::num;

/// A position in a blob that is being parsed.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    part: Part,
    rest: &'a [u8],
    at: u64, // bytes consumed
}

/// Items taken from a blob, and the offset of the first one.
#[derive(Clone, Copy, Debug)]
pub struct Items<'a, T> {
    /// The items, borrowed from the blob.
    pub items: &'a [T],
    /// Offset in bytes from the start of the blob to the first item.
    pub at: u64,
}

impl<'a> Cursor<'a> {
    /// Starts at the front of `blob`.
    pub const fn new(part: Part, blob: &'a [u8]) -> Self {
        Self { part, rest: blob, at: 0 }
    }

    /// Returns how many bytes were consumed so far.
    pub const fn position(&self) -> u64 {
        self.at
    }

    /// Returns the bytes not consumed yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns how many bytes are left.
    pub const fn remaining(&self) -> u64 {
        num::to_u64(self.rest.len())
    }

    /// Takes the next `n` items of a type without alignment or invalid bit patterns.
    ///
    /// # Errors
    ///
    /// When fewer bytes are left, or their number needs more than 64 bits.
    pub fn array<T>(&mut self, field: &'static str, n: u64) -> Result<Items<'a, T>, FormatError>
    where
        T: FromBytes + Immutable + KnownLayout + Unaligned,
    {
        let size = num::to_u64(size_of::<T>());
        let Some(bytes) = n.checked_mul(size) else {
            return Err(self.refuse(
                Class::Overflow,
                field,
                self.at,
                Expected::Bytes(self.remaining()),
                i128::from(n).saturating_mul(i128::from(size)), // no type has 2^63 bytes
            ));
        };
        let at = self.at;
        let taken = self.bytes(field, bytes)?;
        match <[T]>::ref_from_bytes(taken) {
            Ok(items) => Ok(Items { items, at }),
            // The length is a multiple of the size, the type needs no alignment and allows any
            // bits.
            Err(_) => Err(self.refuse_short(field, at, bytes)),
        }
    }

    /// Takes the next item.
    ///
    /// # Errors
    ///
    /// When fewer bytes are left than the item takes.
    pub fn item<T>(&mut self, field: &'static str) -> Result<&'a T, FormatError>
    where
        T: FromBytes + Immutable + KnownLayout + Unaligned,
    {
        let at = self.at;
        let bytes = num::to_u64(size_of::<T>());
        let taken = self.bytes(field, bytes)?;
        T::ref_from_bytes(taken).map_err(|_source| self.refuse_short(field, at, bytes))
    }

    /// Takes the next `n` bytes.
    ///
    /// # Errors
    ///
    /// When fewer bytes are left.
    pub fn bytes(&mut self, field: &'static str, n: u64) -> Result<&'a [u8], FormatError> {
        let cut = num::checked_usize(n).and_then(|n| self.rest.split_at_checked(n));
        let Some((taken, rest)) = cut else {
            return Err(self.refuse_short(field, self.at, n));
        };
        self.rest = rest;
        self.at = self.at.saturating_add(n); // n is at most the length of a slice in memory
        Ok(taken)
    }

    /// Refuses bytes after the end.
    ///
    /// # Errors
    ///
    /// When bytes are left.
    pub fn end(&self) -> Result<(), FormatError> {
        match self.trailing_error() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Returns the error for bytes after the end, for structures in which these are only a lint.
    pub fn trailing_error(&self) -> Option<FormatError> {
        if self.rest.is_empty() {
            return None;
        }
        let expected = Expected::Exactly(0);
        Some(self.refuse(
            Class::Trailing,
            "bytes after the end",
            self.at,
            expected,
            self.remaining(),
        ))
    }

    /// Creates an error in this part.
    pub fn refuse(
        &self,
        class: Class,
        field: &'static str,
        at: u64,
        expected: Expected,
        found: impl Into<Found>,
    ) -> FormatError {
        FormatError::new(class, self.part, field, at, expected, found)
    }

    fn refuse_short(&self, field: &'static str, at: u64, n: u64) -> FormatError {
        self.refuse(Class::Truncated, field, at, Expected::Bytes(n), self.remaining())
    }
}

impl<'a, T> Items<'a, T> {
    /// Returns an iterator over the items, each with its offset.
    pub fn with_offsets(&self) -> impl Iterator<Item = (u64, &'a T)> + use<'a, T> {
        let (at, size) = (self.at, num::to_u64(size_of::<T>()));
        (0_u64..).zip(self.items).map(move |(i, item)| {
            (at.saturating_add(i.saturating_mul(size)), item) // inside a slice: cannot saturate
        })
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::little_endian::{I64, U32};

    use super::*;

    #[test]
    fn takes_available_bytes_and_reports_missing_ones() {
        let blob = [1, 0, 0, 0, 2, 0, 0, 0, 9];
        let mut cur = Cursor::new(Part::Manifest, &blob);
        let numbers = cur.array::<U32>("two", 2).unwrap();
        assert_eq!(
            numbers.with_offsets().map(|(at, n)| (at, n.get())).collect::<std::vec::Vec<_>>(),
            [(0, 1), (4, 2)]
        );
        assert_eq!((cur.position(), cur.remaining(), cur.rest()), (8, 1, &[9][..]));
        let end = cur.end().unwrap_err();
        assert_eq!((end.class, end.offset, end.found), (Class::Trailing, 8, Found::Int(1)));
        let error = cur.item::<I64>("one").unwrap_err();
        assert_eq!((error.class, error.offset), (Class::Truncated, 8));
        assert_eq!((error.expected, error.found), (Expected::Bytes(8), Found::Int(1)));
    }

    #[test]
    fn a_wrapping_count_is_an_overflow() {
        let mut cur = Cursor::new(Part::Manifest, &[0; 8]);
        for (n, class) in
            [(u64::MAX, Class::Overflow), (1 << 61, Class::Overflow), (2, Class::Truncated)]
        {
            assert_eq!(cur.array::<I64>("n", n).unwrap_err().class, class);
        }
        assert_eq!(cur.array::<I64>("n", 1).unwrap().items.len(), 1);
    }
}
