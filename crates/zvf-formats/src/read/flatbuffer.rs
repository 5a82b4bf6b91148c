//! Reader of `FlatBuffers` tables. Every offset is checked against the length of the buffer.
//!
//! ```text
//! root       u32 to the first table
//! table      i32 back to its list of fields (vtable); then the fields
//! vtable     u16 bytes of the vtable, u16 bytes of the table, u16 offset of each field, 0 where it is absent
//! vector     u32 to it; u32 items, then the items
//! ```
//!
//! Reads do not need alignment.

use zvf_format::Class;

use crate::error::ByteFault;

/// A table in a buffer.
#[derive(Clone, Copy, Debug)]
pub struct FlatTable<'a> {
    buffer: &'a [u8],
    at: usize,
    vtable: usize,     // offset
    vtable_len: usize, // in bytes
}

/// The error for an offset that leads out of the buffer, with the location of the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrayOffset(pub usize);

impl From<StrayOffset> for ByteFault {
    fn from(StrayOffset(at): StrayOffset) -> Self {
        Self { at, ..Self::new(Class::OutOfBounds, "an offset in the buffer", "one beyond it") }
    }
}

type TableResult<T> = Result<T, StrayOffset>;

fn read_array<const N: usize>(buffer: &[u8], at: usize) -> TableResult<[u8; N]> {
    buffer.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or(StrayOffset(at))
}

fn u32_at(buffer: &[u8], at: usize) -> TableResult<usize> {
    let number = u32::from_le_bytes(read_array(buffer, at)?);
    usize::try_from(number).map_err(|_overflow| StrayOffset(at))
}

fn u16_at(buffer: &[u8], at: usize) -> TableResult<usize> {
    Ok(usize::from(u16::from_le_bytes(read_array(buffer, at)?)))
}

impl<'a> FlatTable<'a> {
    /// Returns the first table of a buffer.
    pub fn from_buffer(buffer: &'a [u8]) -> TableResult<Self> {
        Self::from_offset(buffer, u32_at(buffer, 0)?)
    }

    fn from_offset(buffer: &'a [u8], at: usize) -> TableResult<Self> {
        let back = i64::from(i32::from_le_bytes(read_array(buffer, at)?));
        let place = i64::try_from(at).map_err(|_overflow| StrayOffset(at))?.checked_sub(back);
        let vtable = place.and_then(|place| usize::try_from(place).ok()).ok_or(StrayOffset(at))?;
        let vtable_len = u16_at(buffer, vtable)?;
        if vtable_len < 4 || vtable.checked_add(vtable_len).is_none_or(|end| end > buffer.len()) {
            return Err(StrayOffset(vtable));
        }
        Ok(Self { buffer, at, vtable, vtable_len })
    }

    /// Returns the offset of a field, if it is present.
    fn field_offset(&self, number: usize) -> TableResult<Option<usize>> {
        let place = 4 + number * 2;
        if place + 2 > self.vtable_len {
            return Ok(None);
        }
        let offset = u16_at(self.buffer, self.vtable + place)?;
        Ok(Some(self.at + offset).filter(|_| offset > 0))
    }

    fn scalar_bytes<const N: usize>(&self, number: usize) -> TableResult<Option<[u8; N]>> {
        self.field_offset(number)?.map(|at| read_array(self.buffer, at)).transpose()
    }

    /// Returns a `uint8`; an absent one is 0, as in the schemas.
    pub fn u8(&self, number: usize) -> TableResult<u8> {
        Ok(self.scalar_bytes::<1>(number)?.map_or(0, |[byte]| byte))
    }

    /// Returns a `uint16`, or `default` if it is absent.
    pub fn u16(&self, number: usize, default: u16) -> TableResult<u16> {
        Ok(self.scalar_bytes(number)?.map_or(default, u16::from_le_bytes))
    }

    /// Returns an `int32`; an absent one is 0, as in the schemas.
    pub fn i32(&self, number: usize) -> TableResult<i32> {
        Ok(self.scalar_bytes(number)?.map_or(0, i32::from_le_bytes))
    }

    /// Returns a `uint64`; an absent one is 0, as in the schemas.
    pub fn u64(&self, number: usize) -> TableResult<u64> {
        Ok(self.scalar_bytes(number)?.map_or(0, u64::from_le_bytes))
    }

    /// Returns the table that a field refers to.
    pub fn table(&self, number: usize) -> TableResult<Option<Self>> {
        let Some(at) = self.field_offset(number)? else { return Ok(None) };
        let to = at.checked_add(u32_at(self.buffer, at)?).ok_or(StrayOffset(at))?;
        Self::from_offset(self.buffer, to).map(Some)
    }

    /// Returns the items of a vector, `size` bytes each: their offset and their bytes.
    pub fn items(&self, number: usize, size: usize) -> TableResult<Option<(usize, &'a [u8])>> {
        let Some(at) = self.field_offset(number)? else { return Ok(None) };
        let to = at.checked_add(u32_at(self.buffer, at)?).ok_or(StrayOffset(at))?;
        let bytes = u32_at(self.buffer, to)?.checked_mul(size).ok_or(StrayOffset(to))?;
        let start = to.checked_add(4).ok_or(StrayOffset(to))?;
        let end = start.checked_add(bytes).ok_or(StrayOffset(to))?;
        Ok(Some((start, self.buffer.get(start..end).ok_or(StrayOffset(to))?)))
    }

    /// Returns the bytes of a vector of bytes or of a string.
    pub fn bytes(&self, number: usize) -> TableResult<Option<&'a [u8]>> {
        Ok(self.items(number, 1)?.map(|(_, bytes)| bytes))
    }

    /// Returns a string. Bytes that are not UTF-8 are replaced.
    pub fn text(&self, number: usize) -> TableResult<Option<String>> {
        Ok(self.bytes(number)?.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
    }

    /// Returns a vector of `float64`.
    pub fn floats(&self, number: usize) -> TableResult<impl ExactSizeIterator<Item = f64> + 'a> {
        let bytes = self.items(number, 8)?.map_or(&[][..], |(_, bytes)| bytes);
        Ok(bytes.as_chunks::<8>().0.iter().map(|raw| f64::from_le_bytes(*raw)))
    }

    /// Returns a vector of `uint32`.
    pub fn numbers(&self, number: usize) -> TableResult<impl ExactSizeIterator<Item = u32> + 'a> {
        let bytes = self.items(number, 4)?.map_or(&[][..], |(_, bytes)| bytes);
        Ok(bytes.as_chunks::<4>().0.iter().map(|raw| u32::from_le_bytes(*raw)))
    }

    /// Returns the tables of a vector of tables.
    pub fn tables(
        &self,
        number: usize,
    ) -> TableResult<impl Iterator<Item = TableResult<Self>> + 'a> {
        let (start, bytes) = self.items(number, 4)?.unwrap_or((0, &[]));
        let buffer = self.buffer;
        Ok((0..bytes.len() / 4).map(move |item| {
            let at = start + item * 4;
            Self::from_offset(buffer, at.checked_add(u32_at(buffer, at)?).ok_or(StrayOffset(at))?)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_offsets_out_of_the_buffer() {
        // A root, a list of one field, a table with that field: a vector of one byte.
        let good: [u8; 25] =
            [10, 0, 0, 0, 6, 0, 8, 0, 4, 0, 6, 0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0, b'a', b'b', b'c'];
        let table = FlatTable::from_buffer(&good).unwrap();
        assert_eq!(table.text(0), Ok(Some("abc".to_owned())));
        assert_eq!((table.text(1), table.u8(7)), (Ok(None), Ok(0)));
        for (at, value) in [(0, 250), (4, 255), (10, 200), (14, 250), (18, 4)] {
            let mut bad = good;
            bad[at] = value;
            let read = FlatTable::from_buffer(&bad).and_then(|table| table.text(0));
            assert!(read.is_err(), "{at}: {read:?}");
        }
    }
}
