//! The target of a writer: a stream, a file or a folder.

use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use zvf_error::Result;

use crate::error::cannot_hold;

/// A writer that can seek. Every type that implements both traits implements this one.
pub trait SeekWrite: Write + Seek {}

impl<T: Write + Seek> SeekWrite for T {}

/// The target of a writer: a stream, a file or a folder.
///
/// ```
/// use zvf_formats::Target;
///
/// let mut bytes = Vec::new();
/// assert!(Target::stream(&mut bytes).into_folder("TRX").is_err());
/// ```
pub struct Target<'a>(TargetKind<'a>);

enum TargetKind<'a> {
    Stream(Box<dyn Write + 'a>),
    File(Box<dyn SeekWrite + 'a>),
    Folder(PathBuf),
}

impl<'a> Target<'a> {
    /// Wraps a stream, which is written from front to back.
    pub fn stream(stream: impl Write + 'a) -> Self {
        Self(TargetKind::Stream(Box::new(stream)))
    }

    /// Wraps a file that can seek. Writing begins at its current position.
    pub fn file(file: impl Write + Seek + 'a) -> Self {
        Self(TargetKind::File(Box::new(file)))
    }

    /// Wraps the path of an empty folder, which exists.
    pub fn folder(path: impl Into<PathBuf>) -> Self {
        Self(TargetKind::Folder(path.into()))
    }

    /// Returns whether it is a folder.
    pub const fn is_folder(&self) -> bool {
        matches!(self.0, TargetKind::Folder(_))
    }

    /// Returns the path, if it is a folder.
    pub fn folder_path(&self) -> Option<&Path> {
        if let TargetKind::Folder(path) = &self.0 { Some(path) } else { None }
    }

    /// Returns whether a writer can seek in it.
    pub const fn can_seek(&self) -> bool {
        matches!(self.0, TargetKind::File(_))
    }

    /// Returns the path of the folder.
    ///
    /// # Errors
    ///
    /// When it is not a folder.
    pub fn into_folder(self, format: &'static str) -> Result<PathBuf> {
        if let TargetKind::Folder(path) = self.0 {
            return Ok(path);
        }
        Err(cannot_hold(format, "a single file", "name a folder"))
    }

    /// Returns the target unchanged, unless it is a folder.
    ///
    /// # Errors
    ///
    /// When it is a folder.
    pub fn into_file(self, format: &'static str) -> Result<Self> {
        match self.is_folder() {
            true => Err(cannot_hold(format, "a folder", "name a file")),
            false => Ok(self),
        }
    }
}

impl Write for Target<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            TargetKind::Stream(stream) => stream.write(bytes),
            TargetKind::File(file) => file.write(bytes),
            TargetKind::Folder(_) => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            TargetKind::Stream(stream) => stream.flush(),
            TargetKind::File(file) => file.flush(),
            TargetKind::Folder(_) => Ok(()),
        }
    }
}

impl Seek for Target<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match &mut self.0 {
            TargetKind::File(file) => file.seek(to),
            TargetKind::Stream(_) | TargetKind::Folder(_) => Err(io::ErrorKind::NotSeekable.into()),
        }
    }
}

impl std::fmt::Debug for Target<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").finish_non_exhaustive()
    }
}
