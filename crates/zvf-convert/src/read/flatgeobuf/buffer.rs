//! Tables of `FlatBuffers`, every offset compared with the bytes that are there.
//!
//! ```text
//! root       u32 to the first table
//! table      i32 back to its list of fields; then the fields
//! fields     u16 bytes of the list, u16 bytes of the table, u16 place of each field, 0 where it is not there
//! vector     u32 to it; u32 items, then the items
//! ```
//!
//! Nothing is aligned, so nothing relies on it.

/// The bytes of a buffer, and where a table lies in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table<'a> {
    buffer: &'a [u8],
    at: usize,
    fields: usize, // of its list
    len: usize,    // of its list, in bytes
}

/// An offset that leads out of the buffer; where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stray(pub(crate) usize);

type Found<T> = Result<T, Stray>;

fn array<const N: usize>(buffer: &[u8], at: usize) -> Found<[u8; N]> {
    buffer.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or(Stray(at))
}

fn u32_at(buffer: &[u8], at: usize) -> Found<usize> {
    usize::try_from(u32::from_le_bytes(array(buffer, at)?)).map_err(|_overflow| Stray(at))
}

fn u16_at(buffer: &[u8], at: usize) -> Found<usize> {
    Ok(usize::from(u16::from_le_bytes(array(buffer, at)?)))
}

impl<'a> Table<'a> {
    /// The first table of a buffer.
    pub(crate) fn root(buffer: &'a [u8]) -> Found<Self> {
        Self::at(buffer, u32_at(buffer, 0)?)
    }

    fn at(buffer: &'a [u8], at: usize) -> Found<Self> {
        let back = i64::from(i32::from_le_bytes(array(buffer, at)?));
        let place = i64::try_from(at).map_err(|_overflow| Stray(at))?.checked_sub(back);
        let fields = place.and_then(|place| usize::try_from(place).ok()).ok_or(Stray(at))?;
        let len = u16_at(buffer, fields)?;
        if len < 4 || fields.checked_add(len).is_none_or(|end| end > buffer.len()) {
            return Err(Stray(fields));
        }
        Ok(Self { buffer, at, fields, len })
    }

    /// Where a field lies, if it is there.
    fn field(&self, number: usize) -> Found<Option<usize>> {
        let place = 4 + number * 2;
        if place + 2 > self.len {
            return Ok(None);
        }
        let offset = u16_at(self.buffer, self.fields + place)?;
        Ok(Some(self.at + offset).filter(|_| offset > 0))
    }

    fn number<const N: usize>(&self, number: usize) -> Found<Option<[u8; N]>> {
        self.field(number)?.map(|at| array(self.buffer, at)).transpose()
    }

    pub(crate) fn u8(&self, number: usize) -> Found<u8> {
        Ok(self.number::<1>(number)?.map_or(0, |[byte]| byte))
    }

    pub(crate) fn u16(&self, number: usize, default: u16) -> Found<u16> {
        Ok(self.number(number)?.map_or(default, u16::from_le_bytes))
    }

    pub(crate) fn i32(&self, number: usize) -> Found<i32> {
        Ok(self.number(number)?.map_or(0, i32::from_le_bytes))
    }

    pub(crate) fn u64(&self, number: usize) -> Found<u64> {
        Ok(self.number(number)?.map_or(0, u64::from_le_bytes))
    }

    /// The table that a field leads to.
    pub(crate) fn table(&self, number: usize) -> Found<Option<Self>> {
        let Some(at) = self.field(number)? else { return Ok(None) };
        let to = at.checked_add(u32_at(self.buffer, at)?).ok_or(Stray(at))?;
        Self::at(self.buffer, to).map(Some)
    }

    /// The bytes of the items of a vector, `size` bytes each, and where they lie.
    pub(crate) fn items(&self, number: usize, size: usize) -> Found<Option<(usize, &'a [u8])>> {
        let Some(at) = self.field(number)? else { return Ok(None) };
        let to = at.checked_add(u32_at(self.buffer, at)?).ok_or(Stray(at))?;
        let bytes = u32_at(self.buffer, to)?.checked_mul(size).ok_or(Stray(to))?;
        let start = to.checked_add(4).ok_or(Stray(to))?;
        let end = start.checked_add(bytes).ok_or(Stray(to))?;
        Ok(Some((start, self.buffer.get(start..end).ok_or(Stray(to))?)))
    }

    /// The bytes of a vector of bytes or of a text.
    pub(crate) fn bytes(&self, number: usize) -> Found<Option<&'a [u8]>> {
        Ok(self.items(number, 1)?.map(|(_, bytes)| bytes))
    }

    /// A text; what is not UTF-8 is replaced.
    pub(crate) fn text(&self, number: usize) -> Found<Option<String>> {
        Ok(self.bytes(number)?.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
    }

    /// Numbers of `float64`.
    pub(crate) fn floats(&self, number: usize) -> Found<impl ExactSizeIterator<Item = f64> + 'a> {
        let bytes = self.items(number, 8)?.map_or(&[][..], |(_, bytes)| bytes);
        Ok(bytes.as_chunks::<8>().0.iter().map(|raw| f64::from_le_bytes(*raw)))
    }

    /// Numbers of `uint32`.
    pub(crate) fn numbers(&self, number: usize) -> Found<impl ExactSizeIterator<Item = u32> + 'a> {
        let bytes = self.items(number, 4)?.map_or(&[][..], |(_, bytes)| bytes);
        Ok(bytes.as_chunks::<4>().0.iter().map(|raw| u32::from_le_bytes(*raw)))
    }

    /// The tables that a vector leads to.
    pub(crate) fn tables(&self, number: usize) -> Found<impl Iterator<Item = Found<Self>> + 'a> {
        let (start, bytes) = self.items(number, 4)?.unwrap_or((0, &[]));
        let buffer = self.buffer;
        Ok((0..bytes.len() / 4).map(move |item| {
            let at = start + item * 4;
            Self::at(buffer, at.checked_add(u32_at(buffer, at)?).ok_or(Stray(at))?)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_out_of_the_buffer_are_stray() {
        // A root, a list of one field, a table with that field: a vector of one byte.
        let good: [u8; 25] =
            [10, 0, 0, 0, 6, 0, 8, 0, 4, 0, 6, 0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0, b'a', b'b', b'c'];
        let table = Table::root(&good).unwrap();
        assert_eq!(table.text(0), Ok(Some("abc".to_owned())));
        assert_eq!((table.text(1), table.u8(7)), (Ok(None), Ok(0)));
        for (at, value) in [(0, 250), (4, 255), (10, 200), (14, 250), (18, 4)] {
            let mut bad = good;
            bad[at] = value;
            let read = Table::root(&bad).and_then(|table| table.text(0));
            assert!(read.is_err(), "{at}: {read:?}");
        }
    }
}
