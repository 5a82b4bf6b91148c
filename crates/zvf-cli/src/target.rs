//! The output of an answer: standard output, or a file that is written atomically.
//!
//! A file is written next to its place under a temporary name and renamed at the end (`zvf::publish`): readers find the
//! old file or the new one, and a command that fails or is stopped leaves nothing. An existing device or pipe is
//! written into once the answer is complete: a rename would turn `/dev/null` into an ordinary file. A symbolic link
//! stays, and leads to the new file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Cursor, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use zvf::publish::{AtomicFile, Disk, FileOptions, PublishError, remove_leftovers};

use zvf::Error;
use zvf::format::Class;

use crate::interrupt::{Interrupt, Watched};
use crate::outcome::{Failure, refuse};

/// A file under construction.
pub(crate) struct NewFile {
    path: PathBuf,
    out: Watched<BufWriter<File>>,
    new: Option<AtomicFile>, // none for a target that is written into at the end
}

impl NewFile {
    /// Begins the file at `path`.
    fn create(path: &Path, interrupt: &Interrupt) -> anyhow::Result<Self> {
        let place = || format!("cannot write {}", path.display());
        if path.is_dir() {
            return refuse(format!("{} is a folder; name a file", path.display()));
        }
        let (file, new) = if fs::metadata(path).map_or(true, |about| about.is_file()) {
            // The existing target was not checked: the last writer wins.
            let options = FileOptions {
                replace: true,
                replace_changed: true,
                gate: interrupt.gate().clone(),
                ..FileOptions::default()
            };
            let new = AtomicFile::create(&Disk::default(), path, options).map_err(to_file_error);
            let mut new = new.with_context(place)?;
            (new.file().try_clone().with_context(place)?, Some(new))
        } else {
            // The error omits the name of the temporary file.
            let file = tempfile::tempfile().map_err(|error| io::Error::from(error.kind()));
            (file.with_context(place)?, None)
        };
        let out = Watched::new(BufWriter::with_capacity(BUFFER, file), interrupt.clone());
        Ok(Self { path: path.to_owned(), out, new })
    }

    /// Gives the file its name.
    fn finish(mut self) -> anyhow::Result<()> {
        let place = || format!("cannot write {}", self.path.display());
        self.out.flush().with_context(place)?;
        let file = self.out.into_inner().into_inner().map_err(|error| error.into_error());
        let mut file = file.with_context(place)?;
        match self.new {
            Some(new) => new.publish().map_err(to_file_error).with_context(place),
            None => copy(&mut file, &self.path).with_context(place),
        }
    }
}

/// Returns the error of a file: the message of the system, or else that of the error with its class.
fn to_file_error(error: PublishError) -> anyhow::Error {
    if let PublishError::Io(source) = error {
        return source.into();
    }
    Error::from(error).into()
}

/// Refuses to replace a file that holds data, unless `overwrite`. Devices, pipes and empty files have nothing to lose.
///
/// # Errors
///
/// With the class `AlreadyExists`, when `path` is a file with bytes in it.
pub(crate) fn check_overwrite(path: &Path, overwrite: bool) -> anyhow::Result<()> {
    let full = |found: fs::Metadata| found.is_file() && found.len() > 0;
    if overwrite || !fs::metadata(path).is_ok_and(full) {
        return Ok(());
    }
    // A process that was killed after it published the file left its lock.
    drop(remove_leftovers(&Disk::default(), path));
    let message = format!("{} already exists; use --overwrite to replace it", path.display());
    Err(Failure { class: Class::AlreadyExists, message }.into())
}

/// Refuses, before any work, a name without the only extension, which `rule` states, and a file that
/// would be overwritten.
pub(crate) fn check_extension(
    path: &Path,
    extension: &str,
    rule: &str,
    overwrite: bool,
) -> anyhow::Result<()> {
    let has_extension = path.extension().is_some_and(|end| end.eq_ignore_ascii_case(extension));
    if !has_extension && !is_device(path) {
        return refuse(format!("{} does not end in .{extension}; {rule}", path.display()));
    }
    check_overwrite(path, overwrite)
}

/// Returns whether this is an existing device or pipe.
pub(crate) fn is_device(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// The output of the bytes of one format.
pub(crate) enum Out<'a> {
    /// A file.
    File(NewFile),
    /// A stream, written at once.
    Stream(&'a mut dyn Write),
    /// A stream, written at the end: for formats that go back to their header.
    Held(Cursor<Vec<u8>>, &'a mut dyn Write),
}

impl Out<'_> {
    /// Begins the file at `path`.
    pub(crate) fn file(path: &Path, interrupt: &Interrupt) -> anyhow::Result<Self> {
        NewFile::create(path, interrupt).map(Self::File)
    }

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

/// Copies a file into a device or pipe.
fn copy(file: &mut File, path: &Path) -> io::Result<()> {
    file.rewind()?;
    io::copy(file, &mut OpenOptions::new().write(true).open(path)?)?;
    Ok(())
}

/// The size of the write buffer in bytes.
const BUFFER: usize = 1 << 18;

#[cfg(all(test, unix))]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
        let mut file = Out::file(path, &Interrupt::default())?;
        file.write_all(bytes)?;
        file.finish()
    }

    #[test]
    fn the_mode_of_a_replaced_file_is_kept() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        write(&file, b"new").unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        let (new, reference) = (dir.path().join("new"), dir.path().join("usual"));
        write(&new, b"new").unwrap();
        fs::write(&reference, "").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&new), mode(&reference), "the mask of the process applies");
    }

    #[test]
    fn special_files_are_written_into_and_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (pipe_out, pipe_in) = io::pipe().unwrap();
        let path = PathBuf::from(format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&pipe_in)));
        write(&path, b"through").unwrap();
        drop(pipe_in);
        let mut text = Vec::new();
        { pipe_out }.read_to_end(&mut text).unwrap();
        assert_eq!(text, b"through");
        // A socket cannot be opened: it is refused, and still exists afterwards.
        let socket = dir.path().join("socket");
        let _listening = UnixListener::bind(&socket).unwrap();
        let error = write(&socket, b"never").unwrap_err();
        assert_eq!(error.to_string(), format!("cannot write {}", socket.display()));
        assert!(!fs::symlink_metadata(&socket).unwrap().is_file());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
