//! Reader of ZIP archives in one file, with stored or deflated members.
//!
//! ```text
//! end of central directory   50 4b 05 06, 22 bytes and a comment; the 64-bit one, 50 4b 06 06, before it
//! central directory          50 4b 01 02, 46 bytes a member, its name, extra fields, a comment
//! local header               50 4b 03 04, 30 bytes, name and extra fields; then the bytes of the member
//! ```
//!
//! Offsets and sizes come from the central directory; those that do not fit in 32 bits are in the extra field 1. A member
//! ends after its size in the directory, and its checksum is checked there.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use flate2::Crc;
use flate2::read::DeflateDecoder;
use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::{saturating_usize, to_u64};

use crate::error::{Spot, read_failed};
use crate::read::Bytes;
use crate::read::source::RecordNumbers;

/// A member of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its path in the archive.
    pub name: String,
    deflated: bool,
    checksum: u32,
    stored: u64, // bytes in the file
    /// The bytes of the member.
    pub size: u64,
    header: u64, // offset of its local header
}

/// An archive.
#[derive(Debug)]
pub struct Archive {
    path: PathBuf,
    format: &'static str,
    /// The members, in the order of the directory.
    pub members: Vec<Member>,
}

impl Archive {
    /// Reads the directory of the archive at `path`.
    pub fn open(path: &Path, format: &'static str) -> Result<Self> {
        let mut file = File::open(path).map_err(read_failed)?;
        let length = file.metadata().map_err(read_failed)?.len();
        let tail_bytes = length.min(MAX_TAIL_BYTES);
        let tail = read_part(&mut file, length - tail_bytes, tail_bytes)?;
        let end = tail.windows(END.len()).rposition(|window| window == END);
        let record = end.and_then(|end| tail.get(end..));
        let Some(record) = record.filter(|record| record.len() >= 22) else {
            return spot("an archive").refuse(Class::BadMagic, "end of central directory", "none");
        };
        let record = RecordNumbers::new(record);
        let (mut count, mut size, mut start) =
            (u64::from(record.u16(10)), u64::from(record.u32(12)), u64::from(record.u32(16)));
        if count == 0xffff || size == u64::from(u32::MAX) || start == u64::from(u32::MAX) {
            let locator = end.and_then(|end| tail.get(end.checked_sub(20)?..end));
            let locator = locator.filter(|locator| locator.starts_with(LOCATOR_64));
            let expected = "a 64-bit end of central directory";
            let locator = spot("an archive").need(locator, Class::BadMagic, expected, "none")?;
            let wide = read_part(&mut file, RecordNumbers::new(locator).u64(8), 56)?;
            let found = "other bytes";
            let here = spot("an archive");
            here.ensure(wide.starts_with(END_64), Class::BadMagic, expected, found)?;
            let wide = RecordNumbers::new(&wide);
            (count, size, start) = (wide.u64(32), wide.u64(40), wide.u64(48));
        }
        if size > MAX_DIRECTORY_BYTES || start.checked_add(size).is_none_or(|end| end > length) {
            let expected = "a directory within the file, of at most 4 MiB";
            let found = format!("{size} bytes at {start}");
            return spot("an archive").refuse(Class::OutOfBounds, expected, found);
        }
        let directory = read_part(&mut file, start, size)?;
        Ok(Self { path: path.to_owned(), format, members: parse_members(&directory, count)? })
    }

    /// Opens the bytes of `member`.
    pub fn read(&self, member: &Member) -> Result<Bytes> {
        let mut file = File::open(&self.path).map_err(read_failed)?;
        let local = read_part(&mut file, member.header, 30)?;
        if !local.starts_with(LOCAL) {
            return spot(&member.name).refuse(Class::BadMagic, "a local header", "other bytes");
        }
        let local = RecordNumbers::new(&local);
        let skipped = u64::from(local.u16(26)) + u64::from(local.u16(28));
        let start = member.header.saturating_add(30).saturating_add(skipped); // a saturated offset is past the end
        file.seek(SeekFrom::Start(start)).map_err(read_failed)?;
        let stored = file.take(member.stored);
        let inner: Box<dyn Read + Send> = match member.deflated {
            true => Box::new(DeflateDecoder::new(stored)),
            false => Box::new(stored),
        };
        let Member { name, size, checksum, .. } = member.clone();
        let (bytes_left, sum, expected) = (size, Crc::new(), checksum);
        let checked = ChecksumReader { inner, bytes_left, sum, expected, name };
        let mut bytes = Bytes::new(Box::new(checked), None);
        bytes.set_format(self.format);
        Ok(bytes)
    }
}

/// A reader of a member that ends after its size and checks the checksum there.
struct ChecksumReader {
    inner: Box<dyn Read + Send>,
    bytes_left: u64,
    sum: Crc,
    expected: u32,
    name: String,
}

impl Read for ChecksumReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let max_bytes = saturating_usize(self.bytes_left).min(into.len());
        let read = self.inner.read(&mut into[..max_bytes])?;
        self.sum.update(&into[..read]);
        self.bytes_left -= to_u64(read);
        if self.bytes_left == 0 && self.sum.sum() != self.expected {
            let text = format!("the checksum of {} is another", self.name);
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(read)
    }
}

/// Reads `size` bytes from `start`. The caller bounds `size`.
fn read_part(file: &mut File, start: u64, size: u64) -> Result<Vec<u8>> {
    file.seek(SeekFrom::Start(start)).map_err(read_failed)?;
    let mut bytes = Vec::new();
    file.by_ref().take(size).read_to_end(&mut bytes).map_err(read_failed)?;
    if u64::try_from(bytes.len()).is_ok_and(|read| read == size) {
        return Ok(bytes);
    }
    spot("an archive").refuse(Class::Truncated, format!("{size} bytes at {start}"), bytes.len())
}

fn parse_members(directory: &[u8], count: u64) -> Result<Vec<Member>> {
    let mut members = Vec::new();
    let mut rest = directory;
    while let Some((entry, after)) = rest.split_at_checked(46) {
        if !entry.starts_with(ENTRY) {
            break;
        }
        let entry = RecordNumbers::new(entry);
        let (name, after) = split_field(after, entry.u16(28))?;
        let (extra, after) = split_field(after, entry.u16(30))?;
        let (_, after) = split_field(after, entry.u16(32))?;
        rest = after;
        members.push(parse_member(entry, name, extra)?);
    }
    let found = to_u64(members.len());
    let expected = format_args!("{count} members");
    spot("an archive").ensure(found == count, Class::CountMismatch, expected, found)?;
    Ok(members)
}

fn parse_member(entry: RecordNumbers<'_>, name: &[u8], extra: &[u8]) -> Result<Member> {
    let name = String::from_utf8_lossy(name).into_owned();
    let expected = "a member in the clear";
    spot(&name).ensure(entry.u16(8) & 1 == 0, Class::Unsupported, expected, "an encrypted one")?;
    let deflated = match entry.u16(10) {
        0 => false,
        8 => true,
        method => {
            return spot(&name).refuse(Class::Unsupported, "method 0 or 8", method);
        }
    };
    let mut wide = zip64_values(extra);
    let mut number = |at: usize| match entry.u32(at) {
        u32::MAX => wide.next().unwrap_or(u32::MAX.into()), // without a 64-bit number, the 32-bit one counts
        narrow => narrow.into(),
    };
    // The extra field has the 64-bit numbers in this order.
    let (size, stored, header) = (number(24), number(20), number(42));
    Ok(Member { name, deflated, checksum: entry.u32(16), stored, size, header })
}

/// Returns the 64-bit numbers of the extra field 1, in order.
fn zip64_values(mut extra: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let mut numbers: &[u8] = &[];
    while let Some((head, rest)) = extra.split_at_checked(4) {
        let head = RecordNumbers::new(head);
        let Some((body, after)) = rest.split_at_checked(head.u16(2).into()) else { break };
        if head.u16(0) == 1 {
            numbers = body;
            break;
        }
        extra = after;
    }
    numbers.as_chunks::<8>().0.iter().map(|number| u64::from_le_bytes(*number))
}

/// Splits a field of `length` bytes off.
fn split_field(bytes: &[u8], length: u16) -> Result<(&[u8], &[u8])> {
    let fields = bytes.split_at_checked(length.into());
    fields.ok_or_else(|| {
        spot("an archive").error(Class::Truncated, format!("{length} bytes of a name"), bytes.len())
    })
}

const fn spot<P: Display>(place: P) -> Spot<P> {
    Spot::new("zip", place)
}

const END: &[u8] = b"PK\x05\x06";
const LOCATOR_64: &[u8] = b"PK\x06\x07";
const END_64: &[u8] = b"PK\x06\x06";
const ENTRY: &[u8] = b"PK\x01\x02";
const LOCAL: &[u8] = b"PK\x03\x04";
/// The end record with the longest comment, and the 64-bit locator before it.
const MAX_TAIL_BYTES: u64 = 22 + 65_535 + 20;
const MAX_DIRECTORY_BYTES: u64 = 4 << 20;
