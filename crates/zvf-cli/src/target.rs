//! Where an answer goes: standard output, or a file that gets its name when it is whole.
//!
//! A file is written beside its place under a temporary name and renamed over it at the end: whoever
//! looks finds the old file or the new one, and a command that fails or is stopped leaves nothing.

use std::fs::{self, File};
use std::io::{self, BufWriter, Cursor, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tempfile::NamedTempFile;

use crate::interrupt::{Interrupt, Watched};
use crate::outcome::Usage;

/// A file in the making.
#[derive(Debug)]
pub(crate) struct NewFile {
    path: PathBuf,
    out: Watched<BufWriter<NamedTempFile>>,
}

impl NewFile {
    /// Begins the file at `path`.
    pub(crate) fn create(path: &Path, interrupt: &Interrupt) -> anyhow::Result<Self> {
        let place = || format!("cannot write {}", path.display());
        if path.is_dir() {
            let usage = Usage::new(format!("{} is a folder", path.display()));
            return Err(usage.with_hint("name a file").into());
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let file = tempfile::Builder::new().prefix(".zvf-").suffix(".tmp").tempfile_in(folder);
        // The name of the temporary file is nobody's business.
        let file = file.map_err(|error| io::Error::from(error.kind())).with_context(place)?;
        let out = Watched::new(BufWriter::with_capacity(BUFFER, file), interrupt.clone());
        Ok(Self { path: path.to_owned(), out })
    }

    /// Where its bytes go.
    pub(crate) fn writer(&mut self) -> &mut dyn Write {
        &mut self.out
    }

    /// Gives the file its name.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        let place = || format!("cannot write {}", self.path.display());
        self.out.flush().with_context(place)?;
        let file = self.out.into_inner().into_inner().map_err(|error| error.into_error());
        let file = file.with_context(place)?;
        allow_as_usual(file.as_file(), &self.path).with_context(place)?;
        file.persist(&self.path).map_err(|error| error.error).with_context(place)?;
        Ok(())
    }
}

/// Where bytes of one format go.
pub(crate) enum Out<'a> {
    /// A file.
    File(NewFile),
    /// A stream, as they come.
    Stream(&'a mut dyn Write),
    /// A stream, once all are there: for formats that go back to their header.
    Held(Cursor<Vec<u8>>, &'a mut dyn Write),
}

impl std::fmt::Debug for Out<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::File(_) => "File",
            Self::Stream(_) => "Stream",
            Self::Held(..) => "Held",
        })
    }
}

impl Out<'_> {
    /// Ends the file or the stream.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::File(file) => file.finish(),
            Self::Stream(out) => Ok(out.flush()?),
            Self::Held(bytes, out) => Ok(out.write_all(bytes.get_ref())?),
        }
    }
}

impl Write for Out<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.out.write(bytes),
            Self::Stream(out) => out.write(bytes),
            Self::Held(held, _) => held.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.out.flush(),
            Self::Stream(out) => out.flush(),
            Self::Held(..) => Ok(()),
        }
    }
}

impl Seek for Out<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Self::File(file) => file.out.seek(to),
            Self::Stream(_) => Err(io::ErrorKind::NotSeekable.into()),
            Self::Held(held, _) => held.seek(to),
        }
    }
}

/// Temporary files are for their owner alone: the mode of the file that is replaced, or of a new one.
#[cfg(unix)]
fn allow_as_usual(file: &File, path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = match fs::metadata(path) {
        Ok(old) => old.permissions().mode(),
        Err(_) => READ_BY_ALL,
    };
    file.set_permissions(fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn allow_as_usual(_file: &File, _path: &Path) -> io::Result<()> {
    Ok(())
}

/// Bytes written at once.
const BUFFER: usize = 1 << 18;

/// The mode of a new file, where the usual mask cannot be asked for without changing it.
#[cfg(unix)]
const READ_BY_ALL: u32 = 0o644;
