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
        let mut header = Vec::new();
        header.extend_from_slice(b"PK\x03\x04");
        member.push_common_fields(&mut header);
        let wide = member.extra_field_64(false);
        header.extend_from_slice(&(wide.len() as u16).to_le_bytes());
        header.extend_from_slice(name.as_bytes());
        header.extend_from_slice(&wide);
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
            directory.extend_from_slice(b"PK\x01\x02\x2d\x00");
            member.push_common_fields(&mut directory);
            let wide = member.extra_field_64(true);
            directory.extend_from_slice(&(wide.len() as u16).to_le_bytes());
            directory.extend_from_slice(&[0; 10]); // comment, disk, attributes
            directory.extend_from_slice(&u32_or_marker(member.start).to_le_bytes());
            directory.extend_from_slice(member.name.as_bytes());
            directory.extend_from_slice(&wide);
        }
        let size = directory.len() as u64;
        let is_wide = start >= MIN_64_BIT_NUMBER || size >= MIN_64_BIT_NUMBER || count >= 0xffff;
        if is_wide {
            let record = start + size;
            directory.extend_from_slice(b"PK\x06\x06");
            directory.extend_from_slice(&44_u64.to_le_bytes());
            directory.extend_from_slice(&[45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            for number in [count, count, size, start] {
                directory.extend_from_slice(&number.to_le_bytes());
            }
            directory.extend_from_slice(b"PK\x06\x07\0\0\0\0");
            directory.extend_from_slice(&record.to_le_bytes());
            directory.extend_from_slice(&1_u32.to_le_bytes());
        }
        let count_u16 = u16::try_from(count).unwrap_or(0xffff).to_le_bytes();
        directory.extend_from_slice(b"PK\x05\x06\0\0\0\0");
        directory.extend_from_slice(&count_u16);
        directory.extend_from_slice(&count_u16);
        directory.extend_from_slice(&u32_or_marker(size).to_le_bytes());
        directory.extend_from_slice(&u32_or_marker(start).to_le_bytes());
        directory.extend_from_slice(&[0, 0]);
        self.out.write_all(&directory)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

impl Member {
    /// Appends the fields that both headers have, up to the length of the name.
    fn push_common_fields(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&[0x2d, 0, 0, 8, 0, 0]); // version 4.5, UTF-8, stored
        to.extend_from_slice(&[0, 0, 0x21, 0]); // 1980-01-01: the format has no "none"
        to.extend_from_slice(&self.sum.to_le_bytes());
        to.extend_from_slice(&u32_or_marker(self.size).to_le_bytes());
        to.extend_from_slice(&u32_or_marker(self.size).to_le_bytes());
        to.extend_from_slice(&(self.name.len() as u16).to_le_bytes());
    }

    /// Returns the extra field of numbers that do not fit in 32 bits.
    fn extra_field_64(&self, with_start: bool) -> Vec<u8> {
        let mut numbers = Vec::new();
        if self.size >= MIN_64_BIT_NUMBER {
            numbers.extend_from_slice(&self.size.to_le_bytes());
            numbers.extend_from_slice(&self.size.to_le_bytes());
        }
        if with_start && self.start >= MIN_64_BIT_NUMBER {
            numbers.extend_from_slice(&self.start.to_le_bytes());
        }
        if numbers.is_empty() {
            return numbers;
        }
        let mut extra = vec![1, 0];
        extra.extend_from_slice(&(numbers.len() as u16).to_le_bytes());
        extra.extend(numbers);
        extra
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
