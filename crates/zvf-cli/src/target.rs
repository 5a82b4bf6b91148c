//! Where an answer goes: standard output, or a file that gets its name when it is whole.
//!
//! A file is written beside its place under a temporary name and renamed over it at the end: whoever
//! looks finds the old file or the new one, and a command that fails or is stopped leaves nothing.
//! What is there and is no file (a device, a pipe) is written into once the answer is whole: renamed
//! over, `/dev/null` would be an ordinary file from then on. A link stays, and leads to the new file.

use std::fs::{self, File, OpenOptions};
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
    replaces: bool,
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
        let path = fs::canonicalize(path).unwrap_or_else(|_nothing_there| path.to_owned());
        let replaces = fs::metadata(&path).map_or(true, |there| there.is_file());
        let temporary = std::env::temp_dir();
        let folder = match path.parent() {
            _ if !replaces => &temporary,
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let file = tempfile::Builder::new().prefix(".zvf-").suffix(".tmp").tempfile_in(folder);
        // The name of the temporary file is nobody's business.
        let file = file.map_err(|error| io::Error::from(error.kind())).with_context(place)?;
        let out = Watched::new(BufWriter::with_capacity(BUFFER, file), interrupt.clone());
        Ok(Self { path, replaces, out })
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
        let mut file = file.with_context(place)?;
        if !self.replaces {
            return copy(file.as_file_mut(), &self.path).with_context(place);
        }
        allow_as_usual(file.as_file(), &self.path).with_context(place)?;
        file.as_file().sync_all().with_context(place)?;
        file.persist(&self.path).map_err(|error| error.error).with_context(place)?;
        Ok(())
    }
}

/// Refuses to replace a file that holds something, unless that is asked for. Devices, pipes and empty files
/// have nothing to lose.
///
/// # Errors
///
/// With the class `AlreadyExists`, when `path` is a file with bytes in it.
pub(crate) fn check_overwrite(path: &Path, overwrite: bool) -> anyhow::Result<()> {
    let full = |found: fs::Metadata| found.is_file() && found.len() > 0;
    if overwrite || !fs::metadata(path).is_ok_and(full) {
        return Ok(());
    }
    Err(Refused { path: path.to_owned() }.into())
}

/// An output file that exists.
#[derive(Debug)]
pub(crate) struct Refused {
    path: PathBuf,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (class, path) = (zvf::format::Class::AlreadyExists, self.path.display());
        write!(
            f,
            "{class} in {path}: expected a name that is free, found a file; give another name, or --overwrite"
        )
    }
}

impl std::error::Error for Refused {}

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

/// All of a file into what is no file.
fn copy(file: &mut File, path: &Path) -> io::Result<()> {
    file.rewind()?;
    io::copy(file, &mut OpenOptions::new().write(true).open(path)?)?;
    Ok(())
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

#[cfg(all(test, unix))]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
        let mut file = NewFile::create(path, &Interrupt::default())?;
        file.writer().write_all(bytes)?;
        file.finish()
    }

    #[test]
    fn a_link_stays_and_leads_to_the_new_file() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "old").unwrap();
        symlink(&file, &link).unwrap();
        write(&link, b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_is_no_file_is_written_into_and_stays_what_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let (pipe_out, pipe_in) = io::pipe().unwrap();
        let path = PathBuf::from(format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&pipe_in)));
        write(&path, b"through").unwrap();
        drop(pipe_in);
        let mut told = Vec::new();
        { pipe_out }.read_to_end(&mut told).unwrap();
        assert_eq!(told, b"through");
        // A socket cannot be opened: refused, and there afterwards.
        let socket = dir.path().join("socket");
        let _listening = UnixListener::bind(&socket).unwrap();
        let error = write(&socket, b"never").unwrap_err();
        assert_eq!(error.to_string(), format!("cannot write {}", socket.display()));
        assert!(!fs::symlink_metadata(&socket).unwrap().is_file());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
