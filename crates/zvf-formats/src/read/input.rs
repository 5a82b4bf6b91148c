//! Input of a reader: a file or a stream, read in order.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::{saturating_usize, to_u64};

use crate::error::{FilePlace, Spot, read_failed};

/// A file or a stream to read.
///
/// Formats that are not read from front to back need a file: npz, and arrays in Fortran order.
pub struct Input {
    source: Origin,
    counter: Option<Arc<AtomicU64>>,
}

enum Origin {
    Path(PathBuf),
    Stream(Box<dyn Read + Send>),
}

impl Input {
    /// Creates an input from the file at `path`.
    pub fn path(path: impl Into<PathBuf>) -> Self {
        Self { source: Origin::Path(path.into()), counter: None }
    }

    /// Creates an input from a stream, from its current position.
    pub fn reader(reader: impl Read + Send + 'static) -> Self {
        Self { source: Origin::Stream(Box::new(reader)), counter: None }
    }

    /// Adds the number of bytes read in order to `counter`, to show progress.
    #[must_use]
    pub fn with_counter(self, counter: Arc<AtomicU64>) -> Self {
        Self { counter: Some(counter), ..self }
    }

    /// Opens the file, or wraps the stream.
    pub fn begin(self) -> Result<Bytes> {
        let bytes = match self.source {
            Origin::Path(path) => Bytes::open(&path)?,
            Origin::Stream(stream) => Bytes::new(stream, None),
        };
        Ok(Bytes { counter: self.counter, ..bytes })
    }
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.source {
            Origin::Path(path) => f.debug_tuple("Input").field(path).finish(),
            Origin::Stream(_) => f.debug_tuple("Input").finish_non_exhaustive(),
        }
    }
}

/// The start of an input, for detection.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// The first bytes: up to 128 KiB of a file, fewer of a stream; none of a folder.
    pub bytes: &'a [u8],
    /// The path of a file or folder; `None` for a stream.
    pub path: Option<&'a Path>,
    /// The length of a file.
    pub len: Option<u64>,
    /// Whether it is a folder.
    pub is_folder: bool,
}

impl Start<'_> {
    /// Returns whether it is a folder with a file of this name.
    pub fn has_member(&self, name: &str) -> bool {
        self.is_folder && self.path.is_some_and(|folder| folder.join(name).is_file())
    }
}

/// A buffered reader of the bytes of a file, in order.
pub struct Bytes {
    stream: BufReader<Box<dyn Read + Send>>,
    path: Option<PathBuf>,
    format: &'static str,
    at: u64, // bytes taken
    len: Option<u64>,
    is_folder: bool,
    counter: Option<Arc<AtomicU64>>, // of bytes taken, shared with the caller
}

impl Bytes {
    /// Wraps a stream, or the bytes of the file at `path`.
    pub fn new(stream: Box<dyn Read + Send>, path: Option<PathBuf>) -> Self {
        let stream = BufReader::with_capacity(BUFFER_BYTES, stream);
        let (at, len, counter) = (0, None, None);
        Self { stream, path, format: "a file", at, len, is_folder: false, counter }
    }

    /// Counts `n` bytes as taken.
    fn advance(&mut self, n: u64) {
        self.at += n;
        if let Some(counter) = &self.counter {
            counter.fetch_add(n, Ordering::Relaxed);
        }
    }

    /// Returns the start of the input for format detection, without consuming it.
    pub fn start(&mut self) -> Result<Start<'_>> {
        self.peek()?;
        Ok(Start {
            bytes: self.stream.buffer(),
            path: self.path.as_deref(),
            len: self.len,
            is_folder: self.is_folder,
        })
    }

    /// Checks whether the input is a folder, which has no bytes.
    pub const fn is_folder(&self) -> bool {
        self.is_folder
    }

    /// Returns the length of the file. `None` for a stream.
    #[expect(clippy::len_without_is_empty, reason = "nothing asks whether it is empty")]
    pub const fn len(&self) -> Option<u64> {
        self.len
    }

    /// Reads all bytes left, at most `max_bytes`: for formats that are not read from front to back.
    pub fn read_all(&mut self, max_bytes: u64) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        let limit = max_bytes.saturating_add(1); // one byte more shows that there are too many
        (&mut self.stream).take(limit).read_to_end(&mut all).map_err(read_failed)?;
        let found = to_u64(all.len());
        let start = self.at;
        self.advance(found);
        if found > max_bytes {
            let expected = format!("at most {max_bytes} bytes, which have to be in memory at once");
            let spot = self.spot(FilePlace::Byte(start)).hint("raise --memory-limit");
            return spot.refuse(Class::LimitExceeded, expected, "more");
        }
        Ok(all)
    }

    /// Opens the file at `path`.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_at(path, 0, "a file")
    }

    /// Opens the file at `path` at offset `at`.
    pub fn open_at(path: &Path, at: u64, format: &'static str) -> Result<Self> {
        let mut file = File::open(path).map_err(read_failed)?;
        let metadata = file.metadata().map_err(read_failed)?;
        if metadata.is_dir() {
            let none = Self::new(Box::new(io::empty()), Some(path.to_owned()));
            return Ok(Self { is_folder: true, ..none });
        }
        if at > 0 {
            file.seek(SeekFrom::Start(at)).map_err(read_failed)?;
        }
        let len = metadata.is_file().then_some(metadata.len());
        let bytes = Self::new(Box::new(file), Some(path.to_owned()));
        Ok(Self { at, len, format, ..bytes })
    }

    /// Skips the next `n` bytes. Seeks in a file, reads a stream.
    pub fn seek_past(&mut self, n: u64) -> Result<()> {
        let (Some(path), Some(_)) = (&self.path, self.len) else { return self.read_past(n) };
        self.stream = Self::open_at(path, self.at.saturating_add(n), self.format)?.stream; // if saturated, past the end of every file
        self.advance(n);
        Ok(())
    }

    /// Reads and drops the next `n` bytes.
    pub fn read_past(&mut self, mut n: u64) -> Result<()> {
        while n > 0 {
            let shown = self.peek()?.len();
            if shown == 0 {
                break; // the next read reports the end
            }
            let taken = saturating_usize(n).min(shown);
            self.take(taken);
            n -= to_u64(taken);
        }
        Ok(())
    }

    /// Removes the path, so that the file is not opened again.
    pub fn without_path(self) -> Self {
        Self { path: None, ..self }
    }

    /// Sets the format that errors name.
    pub const fn set_format(&mut self, format: &'static str) {
        self.format = format;
    }

    /// Returns the name of the format, for messages.
    pub const fn format(&self) -> &'static str {
        self.format
    }

    /// Returns the path of a file or folder.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns the number of bytes taken.
    pub const fn position(&self) -> u64 {
        self.at
    }

    /// Returns the next bytes in the buffer, which is filled if it is empty. Empty at the end.
    pub fn peek(&mut self) -> Result<&[u8]> {
        loop {
            match self.stream.fill_buf() {
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(read_failed(error)),
            }
        }
        Ok(self.stream.buffer())
    }

    /// Returns the bytes in the buffer without filling it.
    pub fn buffer(&self) -> &[u8] {
        self.stream.buffer()
    }

    /// Takes `n` bytes of the buffer.
    pub fn take(&mut self, n: usize) {
        self.stream.consume(n);
        self.advance(to_u64(n));
    }

    /// Reads bytes until `into` is full or the end. Returns their number.
    pub fn read_up_to(&mut self, into: &mut [u8]) -> Result<usize> {
        let mut read = 0_usize;
        while let Some(rest) = into.get_mut(read..).filter(|rest| !rest.is_empty()) {
            match self.stream.read(rest) {
                Ok(0) => break,
                Ok(n) => read += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(read_failed(error)),
            }
        }
        self.advance(to_u64(read));
        Ok(read)
    }

    /// Fills `into`. Fails with an error about `what` if there are too few bytes.
    pub fn read(&mut self, into: &mut [u8], what: &str) -> Result<()> {
        let start = self.at;
        let read = self.read_up_to(into)?;
        if read == into.len() {
            return Ok(());
        }
        let (expected, found) = (format!("{} bytes of {what}", into.len()), read.to_string());
        self.spot(FilePlace::Byte(start)).refuse(Class::Truncated, expected, found)
    }

    /// Reads the next `N` bytes.
    pub fn read_array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read(&mut bytes, what)?;
        Ok(bytes)
    }

    /// Returns a spot of this input.
    pub fn spot<P: Display>(&self, place: P) -> Spot<P> {
        Spot::new(self.format, place)
    }
}

/// Size of the buffer of a file.
const BUFFER_BYTES: usize = 1 << 19;
