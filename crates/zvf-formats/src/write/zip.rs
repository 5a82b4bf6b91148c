//! Writer of a zip archive of stored members, from front to back.
//!
//! ```text
//! local header        50 4b 03 04, sizes and checksum, the name; then the bytes: for each member
//! central directory   50 4b 01 02: for each member
//! end                 50 4b 05 06; 50 4b 06 06 and 50 4b 06 07 before it where 32 bits are too few
//! ```

use std::io::{self, Write};

use flate2::CrcWriter;

use crate::write::spool::Spool;

/// A writer of an archive.
pub struct ZipWriter<W> {
    out: W,
    at: u64,
    members: Vec<Member>,
}

struct Member {
    name: String,
    sum: u32,
    size: u64,
    start: u64,
}

impl<W: Write> ZipWriter<W> {
    /// Creates an archive.
    pub const fn new(out: W) -> Self {
        Self { out, at: 0, members: Vec::new() }
    }

    /// Adds a member. The length of its name has 16 bits.
    pub fn write(&mut self, name: &str, content: &mut Spool) -> io::Result<()> {
        if u16::try_from(name.len()).is_err() {
            let text = format!("a name of {} bytes in a zip, which holds 65535", name.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let mut sum = CrcWriter::new(io::sink());
        let size = content.copy_to(&mut sum)?;
        let (text, sum, start) = (name.to_owned(), sum.crc().sum(), self.at);
        let member = Member { name: text, sum, size, start };
        let wide = member.extra_field_64(false);
        let fields = member.common_fields(&wide);
        let header = [b"PK\x03\x04", &fields[..], name.as_bytes(), &wide].concat();
        self.out.write_all(&header)?;
        content.copy_to(&mut self.out)?;
        self.at += header.len() as u64 + member.size;
        self.members.push(member);
        Ok(())
    }

    /// Writes the directory.
    pub fn finish(mut self) -> io::Result<W> {
        let (start, count) = (self.at, self.members.len() as u64);
        let mut directory = Vec::new();
        for member in &self.members {
            let wide = member.extra_field_64(true);
            directory.extend([b"PK\x01\x02\x2d\x00", &member.common_fields(&wide)[..]].concat());
            directory.extend([0; 10]); // comment, disk, attributes
            directory.extend(u32_or_marker(member.start).to_le_bytes());
            directory.extend([member.name.as_bytes(), &wide].concat());
        }
        let size = directory.len() as u64;
        let is_wide = start >= MIN_64_BIT_NUMBER || size >= MIN_64_BIT_NUMBER || count >= 0xffff;
        if is_wide {
            directory.extend_from_slice(b"PK\x06\x06\x2c\0\0\0\0\0\0\0");
            directory.extend([45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            directory.extend([count, count, size, start].map(u64::to_le_bytes).as_flattened());
            directory.extend_from_slice(b"PK\x06\x07\0\0\0\0");
            directory.extend((start + size).to_le_bytes());
            directory.extend(1_u32.to_le_bytes());
        }
        let count = u16::try_from(count).unwrap_or(0xffff).to_le_bytes();
        let [size, start] = [size, start].map(|n| u32_or_marker(n).to_le_bytes());
        directory
            .extend([b"PK\x05\x06\0\0\0\0", &count[..], &count, &size, &start, &[0; 2]].concat());
        self.out.write_all(&directory)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

impl Member {
    /// Returns the fields that both headers have, up to the length of the extra field `wide`.
    fn common_fields(&self, wide: &[u8]) -> Vec<u8> {
        let head = [0x2d, 0, 0, 8, 0, 0, 0, 0, 0x21, 0]; // version 4.5, UTF-8, stored, 1980-01-01
        let size = u32_or_marker(self.size);
        let numbers = [self.sum, size, size].map(u32::to_le_bytes);
        let lengths = [self.name.len() as u16, wide.len() as u16].map(u16::to_le_bytes);
        [&head, numbers.as_flattened(), lengths.as_flattened()].concat()
    }

    /// Returns the extra field of numbers that do not fit in 32 bits.
    fn extra_field_64(&self, with_start: bool) -> Vec<u8> {
        let numbers = [self.size; 2].into_iter().chain(with_start.then_some(self.start));
        let wide: Vec<u64> = numbers.filter(|number| *number >= MIN_64_BIT_NUMBER).collect();
        let head = [1, wide.len() as u16 * 8].map(u16::to_le_bytes);
        let bytes = head.into_iter().flatten().chain(wide.iter().flat_map(|n| n.to_le_bytes()));
        if wide.is_empty() { Vec::new() } else { bytes.collect() }
    }
}

/// Returns a number of 32 bits, or the marker of a number that is in the extra field.
fn u32_or_marker(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The smallest number that needs 64 bits: `u32::MAX` is the marker.
const MIN_64_BIT_NUMBER: u64 = u32::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_a_name_of_more_than_16_bits() {
        let mut zip = ZipWriter::new(Vec::new());
        let mut write = |length| zip.write(&"n".repeat(length), &mut Spool::new(0, None));
        write(65_535).unwrap();
        assert!(write(65_536).unwrap_err().to_string().contains("a name of 65536 bytes"));
    }
}
