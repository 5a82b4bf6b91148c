//! Random access to the bytes of a file.
//!
//! A file is read in place. A stream is read into memory first, up to a limit.
//!
//! Not here: the meaning of the bytes.

use std::fmt::Display;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};

use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::{saturating_usize, to_u64};

use crate::error::{FilePlace, Spot, read_failed};
use crate::read::Bytes;

/// A file with random access.
pub struct RandomFile {
    backing: Backing,
    len: u64,
    format: &'static str,
}

/// Where the bytes of a source are.
enum Backing {
    File(File),
    Memory(bytes::Bytes),
}

impl RandomFile {
    /// Opens `bytes`, of which none may have been taken. Reads a stream into memory, at most `memory` bytes.
    pub fn open(mut bytes: Bytes, memory: u64) -> Result<Self> {
        let format = bytes.format();
        if let Some(path) = bytes.path() {
            let file = File::open(path).map_err(read_failed)?;
            let metadata = file.metadata().map_err(read_failed)?;
            if metadata.is_file() {
                return Ok(Self { backing: Backing::File(file), len: metadata.len(), format });
            }
        }
        let all = bytes.read_all(memory);
        let all = all.map_err(|error| match error.class() {
            Class::LimitExceeded => error.with_hint("write it to a file first"),
            _ => error,
        })?;
        Ok(Self { len: slice_len(&all), backing: Backing::Memory(all.into()), format })
    }

    /// Returns the number of bytes.
    #[expect(clippy::len_without_is_empty, reason = "nothing asks whether it is empty")]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Returns the name of the format, for messages.
    pub const fn format(&self) -> &'static str {
        self.format
    }

    /// Returns the file, or the bytes in memory.
    pub fn into_parts(self) -> Result<File, bytes::Bytes> {
        match self.backing {
            Backing::File(file) => Ok(file),
            Backing::Memory(all) => Err(all),
        }
    }

    /// Returns a reader of the bytes in order, from the start.
    pub fn begin(&self) -> Result<Bytes> {
        let stream: Box<dyn std::io::Read + Send> = match &self.backing {
            Backing::File(file) => {
                let mut file = file.try_clone().map_err(read_failed)?;
                file.seek(SeekFrom::Start(0)).map_err(read_failed)?;
                Box::new(file)
            }
            Backing::Memory(all) => Box::new(std::io::Cursor::new(all.clone())),
        };
        let mut bytes = Bytes::new(stream, None);
        bytes.set_format(self.format);
        Ok(bytes)
    }

    /// Reads `n` bytes from `at`. Fails with an error about `what` if there are too few, before it allocates memory.
    pub fn read(&mut self, at: u64, n: u64, what: &str) -> Result<Vec<u8>> {
        let left = self.len.saturating_sub(at); // none past the end
        let (Ok(size), true) = (usize::try_from(n), n <= left) else {
            return self.spot_at(at).refuse(Class::Truncated, format!("{n} bytes of {what}"), left);
        };
        match &mut self.backing {
            Backing::Memory(all) => {
                // The start may be past the end only if no bytes are requested.
                let rest = all.get(saturating_usize(at)..).unwrap_or_default();
                Ok(rest[..size].to_vec())
            }
            Backing::File(file) => {
                let mut bytes = vec![0; size];
                file.seek(SeekFrom::Start(at)).map_err(read_failed)?;
                file.read_exact(&mut bytes).map_err(read_failed)?;
                Ok(bytes)
            }
        }
    }

    /// Returns the spot at a byte.
    pub const fn spot_at(&self, byte: u64) -> Spot<FilePlace> {
        Spot::new(self.format, FilePlace::Byte(byte))
    }

    /// Returns a spot of this file.
    pub fn spot<P: Display>(&self, place: P) -> Spot<P> {
        Spot::new(self.format, place)
    }
}

/// A record of numbers, each read by its offset and type. Numbers past its end are 0.
#[derive(Clone, Copy, Debug)]
pub struct RecordNumbers<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

impl<'a> RecordNumbers<'a> {
    /// Returns the `u8` at an offset.
    pub fn u8(self, at: usize) -> u8 {
        u8::from_le_bytes(self.bytes_at(at))
    }

    /// Returns the `u16` at an offset.
    pub fn u16(self, at: usize) -> u16 {
        u16::from_le_bytes(self.bytes_at(at))
    }

    /// Returns the `u32` at an offset.
    pub fn u32(self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes_at(at))
    }

    /// Returns the `u64` at an offset.
    pub fn u64(self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes_at(at))
    }

    /// Returns the `i16` at an offset.
    pub fn i16(self, at: usize) -> i16 {
        i16::from_le_bytes(self.bytes_at(at))
    }

    /// Returns the `i32` at an offset.
    pub fn i32(self, at: usize) -> i32 {
        i32::from_le_bytes(self.bytes_at(at))
    }

    /// Returns the `f32` at an offset.
    #[inline]
    pub fn f32(self, at: usize) -> f32 {
        f32::from_le_bytes(self.bytes_at(at))
    }

    /// Returns the `f64` at an offset.
    pub fn f64(self, at: usize) -> f64 {
        f64::from_le_bytes(self.bytes_at(at))
    }

    /// Creates a record of little-endian numbers.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, big_endian: false }
    }

    /// Sets the byte order.
    pub const fn with_order(self, big_endian: bool) -> Self {
        Self { big_endian, ..self }
    }

    fn bytes_at<const N: usize>(self, at: usize) -> [u8; N] {
        let mut bytes =
            self.bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N]);
        if self.big_endian {
            bytes.reverse();
        }
        bytes
    }

    /// Returns text of at most `n` bytes, up to the first zero byte; empty if the record ends before `n` bytes.
    pub fn text(self, at: usize, n: usize) -> String {
        let raw = self.bytes.get(at..at + n).unwrap_or_default();
        let raw = raw.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(raw).into_owned()
    }
}

/// Returns the length of a slice.
pub fn slice_len(bytes: &[u8]) -> u64 {
    to_u64(bytes.len())
}

/// A buffered reader of a source in order, which can seek.
pub struct Sequence {
    source: RandomFile,
    buffer: Vec<u8>,
    used: usize,
    at: u64, // offset of the buffer
}

impl Sequence {
    /// Creates a reader from the start of the source.
    pub const fn new(source: RandomFile) -> Self {
        Self { source, buffer: Vec::new(), used: 0, at: 0 }
    }

    /// Returns the offset of the next byte.
    pub fn position(&self) -> u64 {
        self.at + to_u64(self.used)
    }

    /// Moves to another offset.
    pub fn seek_to(&mut self, at: u64) {
        let used = at.checked_sub(self.at).and_then(|used| usize::try_from(used).ok());
        match used.filter(|used| *used < self.buffer.len()) {
            Some(used) => self.used = used,
            None => {
                self.buffer.clear();
                (self.at, self.used) = (at, 0);
            }
        }
    }

    /// Returns the next bytes in the buffer, which is filled if it is empty. Empty at the end.
    pub fn peek(&mut self) -> Result<&[u8]> {
        if self.used >= self.buffer.len() {
            let at = self.position();
            let left = self.source.len().saturating_sub(at).min(BLOCK_BYTES); // none past the end
            self.buffer = self.source.read(at, left, "the file")?;
            (self.at, self.used) = (at, 0);
        }
        Ok(&self.buffer[self.used..])
    }

    /// Takes `n` bytes of the buffer, or all of them.
    pub fn take(&mut self, n: usize) {
        self.used += n.min(self.buffer.len() - self.used);
    }

    /// Returns the spot of the next byte.
    pub fn here(&self) -> Spot<FilePlace> {
        self.source.spot_at(self.position())
    }
}

/// Size of the buffer of a source.
const BLOCK_BYTES: u64 = 1 << 18;
