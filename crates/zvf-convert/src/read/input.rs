//! Where the bytes of a file come from, and how far they were read.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use zvf_format::Class;
use zvf_format::num::to_u64;

use crate::ConvertError;
use crate::error::{BadInput, Place};
use crate::format::{Format, Start};

/// A file or a stream to read.
///
/// Some forms of some formats need a file, because they are not read from front to back: npz, and
/// arrays in Fortran order.
///
/// ```
/// use zvf_convert::read::{self, Input, ReadOptions};
///
/// let nothing = Input::reader(&b"no format we know"[..]);
/// let error = read::open(nothing, None, &ReadOptions::default()).unwrap_err();
/// assert!(error.to_string().contains("cannot tell the format of the stream"));
/// ```
pub struct Input {
    source: Source,
    counter: Option<Arc<AtomicU64>>,
}

enum Source {
    Path(PathBuf),
    Stream(Box<dyn Read + Send>),
}

impl Input {
    /// The file at `path`.
    #[must_use]
    pub fn path(path: impl Into<PathBuf>) -> Self {
        Self { source: Source::Path(path.into()), counter: None }
    }

    /// A stream, from where it stands.
    #[must_use]
    pub fn reader(reader: impl Read + Send + 'static) -> Self {
        Self { source: Source::Stream(Box::new(reader)), counter: None }
    }

    /// The same, with what is read from front to back added to `counter`, in bytes: for showing how far it is.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use zvf_convert::read::{self, Format, Input, ReadOptions};
    ///
    /// let counter = Arc::new(AtomicU64::new(0));
    /// let input = Input::reader(&b"x\n1\n2\n"[..]).counting(Arc::clone(&counter));
    /// assert_eq!(read::open(input, Some(Format::Csv), &ReadOptions::default())?.count(), 1);
    /// assert_eq!(counter.load(Ordering::Relaxed), 6);
    /// # Ok::<(), zvf_convert::ConvertError>(())
    /// ```
    #[must_use]
    pub fn counting(self, counter: Arc<AtomicU64>) -> Self {
        Self { counter: Some(counter), ..self }
    }

    pub(crate) fn begin(self) -> Result<Bytes, ConvertError> {
        let bytes = match self.source {
            Source::Path(path) => Bytes::open(&path)?,
            Source::Stream(stream) => Bytes::new(stream, None),
        };
        Ok(Bytes { counter: self.counter, ..bytes })
    }
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.source {
            Source::Path(path) => f.debug_tuple("Input").field(path).finish(),
            Source::Stream(_) => f.debug_tuple("Input").finish_non_exhaustive(),
        }
    }
}

/// Bytes in order.
pub(crate) struct Bytes {
    stream: BufReader<Box<dyn Read + Send>>,
    path: Option<PathBuf>,
    format: Format,
    at: u64, // bytes taken
    len: Option<u64>,
    is_folder: bool,
    counter: Option<Arc<AtomicU64>>, // of bytes taken, for others to see
}

impl Bytes {
    pub(crate) fn new(stream: Box<dyn Read + Send>, path: Option<PathBuf>) -> Self {
        let stream = BufReader::with_capacity(BUFFER, stream);
        let (at, len, counter) = (0, None, None);
        Self { stream, path, format: Format::Csv, at, len, is_folder: false, counter }
    }

    /// Goes on by so many bytes.
    fn advance(&mut self, n: u64) {
        self.at += n;
        if let Some(counter) = &self.counter {
            counter.fetch_add(n, Ordering::Relaxed);
        }
    }

    /// What is seen of it before it is read.
    pub(crate) fn start(&mut self) -> Result<Start<'_>, ConvertError> {
        self.peek()?;
        Ok(Start {
            bytes: self.stream.buffer(),
            path: self.path.as_deref(),
            len: self.len,
            is_folder: self.is_folder,
        })
    }

    /// Whether it is a folder, whose bytes are none.
    pub(crate) const fn is_folder(&self) -> bool {
        self.is_folder
    }

    /// How long the file is; not known of a stream.
    pub(crate) const fn len(&self) -> Option<u64> {
        self.len
    }

    /// All bytes that are left, at most so many: for formats that are not read from front to back.
    pub(crate) fn read_all(&mut self, max_bytes: u64) -> Result<Vec<u8>, ConvertError> {
        let mut all = Vec::new();
        let limit = max_bytes.saturating_add(1);
        (&mut self.stream).take(limit).read_to_end(&mut all).map_err(ConvertError::Read)?;
        let found = to_u64(all.len());
        let start = self.at;
        self.advance(found);
        if found > max_bytes {
            let expected = format!("at most {max_bytes} bytes, which have to be in memory at once");
            let bad = self.bad(Class::LimitExceeded, Place::Byte(start), expected, "more");
            return Err(bad.with_hint("raise --memory-limit").into());
        }
        Ok(all)
    }

    /// The file at `path`, from its start.
    pub(crate) fn open(path: &Path) -> Result<Self, ConvertError> {
        let file = File::open(path).map_err(ConvertError::Read)?;
        let about = file.metadata().map_err(ConvertError::Read)?;
        if about.is_dir() {
            let none = Self::new(Box::new(io::empty()), Some(path.to_owned()));
            return Ok(Self { is_folder: true, ..none });
        }
        let len = about.is_file().then_some(about.len());
        Ok(Self { len, ..Self::new(Box::new(file), Some(path.to_owned())) })
    }

    /// Bytes of the npy file at `path`, from so many bytes after its start.
    pub(crate) fn from(path: &Path, at: u64) -> Result<Self, ConvertError> {
        let mut file = File::open(path).map_err(ConvertError::Read)?;
        let about = file.metadata().map_err(ConvertError::Read)?;
        let len = about.is_file().then_some(about.len());
        file.seek(SeekFrom::Start(at)).map_err(ConvertError::Read)?;
        let bytes = Self::new(Box::new(file), Some(path.to_owned()));
        Ok(Self { at, len, format: Format::Npy, ..bytes })
    }

    /// Passes over the next `n` bytes, of a file without reading them.
    pub(crate) fn seek_past(&mut self, n: u64) -> Result<(), ConvertError> {
        let (Some(path), Some(_)) = (&self.path, self.len) else { return self.pass(n) };
        self.stream = Self::from(path, self.at.saturating_add(n))?.stream; // too far: past the end of any file
        self.advance(n);
        Ok(())
    }

    /// Passes over the next `n` bytes.
    pub(crate) fn pass(&mut self, mut n: u64) -> Result<(), ConvertError> {
        while n > 0 {
            let shown = self.peek()?.len();
            if shown == 0 {
                break; // whoever reads on finds the end
            }
            let taken = usize::try_from(n).unwrap_or(usize::MAX).min(shown);
            self.take(taken);
            n -= to_u64(taken);
        }
        Ok(())
    }

    /// The same as a stream, which may not be opened again.
    pub(crate) fn without_path(self) -> Self {
        Self { path: None, ..self }
    }

    /// Says what it is, for messages.
    pub(crate) const fn is(&mut self, format: Format) {
        self.format = format;
    }

    pub(crate) const fn format(&self) -> Format {
        self.format
    }

    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Bytes taken so far.
    pub(crate) const fn at(&self) -> u64 {
        self.at
    }

    /// The next bytes, some of them; none at the end.
    pub(crate) fn peek(&mut self) -> Result<&[u8], ConvertError> {
        loop {
            match self.stream.fill_buf() {
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ConvertError::Read(error)),
            }
        }
        Ok(self.stream.buffer())
    }

    /// What was shown last and is not taken.
    pub(crate) fn at_hand(&self) -> &[u8] {
        self.stream.buffer()
    }

    /// Takes `n` of the bytes that were shown.
    pub(crate) fn take(&mut self, n: usize) {
        self.stream.consume(n);
        self.advance(to_u64(n));
    }

    /// As many bytes as there are, at most those of `into`; how many.
    pub(crate) fn read_up_to(&mut self, into: &mut [u8]) -> Result<usize, ConvertError> {
        let mut read = 0_usize;
        while let Some(rest) = into.get_mut(read..).filter(|rest| !rest.is_empty()) {
            match self.stream.read(rest) {
                Ok(0) => break,
                Ok(n) => read += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ConvertError::Read(error)),
            }
        }
        self.advance(to_u64(read));
        Ok(read)
    }

    /// Exactly the bytes of `into`, which are part of `what`.
    pub(crate) fn read(&mut self, into: &mut [u8], what: &str) -> Result<(), ConvertError> {
        let start = self.at;
        let read = self.read_up_to(into)?;
        if read == into.len() {
            return Ok(());
        }
        let (wanted, found) = (format!("{} bytes of {what}", into.len()), read.to_string());
        Err(self.bad(Class::Truncated, Place::Byte(start), wanted, found).into())
    }

    /// The next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], ConvertError> {
        let mut bytes = [0; N];
        self.read(&mut bytes, what)?;
        Ok(bytes)
    }

    /// A fault in these bytes.
    pub(crate) fn bad(
        &self,
        class: Class,
        place: Place,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> BadInput {
        BadInput::new(class, self.format.name(), place, expected, found)
    }
}

/// Bytes read from a file at once.
const BUFFER: usize = 1 << 19;
