//! Files that one step writes and another reads.
//!
//! A file is written under a unique name and renamed when it is complete: if the same step runs
//! twice, concurrently or after a crash, both put the same bytes in the same place. The record of a
//! file has its name, length and CRC-32C, which are compared before it is read.
//!
//! Nothing is synced here. A file that is lost in a power failure is recreated by its step; before
//! a step is recorded as done, the journal of tasks syncs the files of the step and their names
//! (`tasks::journal`).

use std::fs::{self, File};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use zvf_error::{Error, Result};
use zvf_format::num::to_u64;

use crate::error::task_error;
use crate::stop::StopFlag;

/// The record of a written file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WrittenFile {
    /// Its name, without the folder.
    pub(crate) name: String,
    /// Its length.
    pub(crate) bytes: u64,
    /// The CRC-32C of its bytes.
    pub(crate) crc32c: u32,
}

/// A file being written.
pub(crate) struct Output {
    path: PathBuf,
    fresh: PathBuf,
    file: BufWriter<File>,
    bytes: u64,
    crc32c: u32,
    stop: StopFlag,
}

impl Output {
    /// Creates the file at `path`; writing to it fails once `stop` is set.
    pub(crate) fn create(path: PathBuf, stop: &StopFlag) -> Result<Self> {
        let fresh = temporary_path(&path);
        let file = File::create_new(&fresh).map_err(Error::scratch)?;
        let file = BufWriter::with_capacity(BUFFER, file);
        Ok(Self { path, fresh, file, bytes: 0, crc32c: 0, stop: stop.clone() })
    }

    /// Returns its final path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of bytes written.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.stop.check()?;
        self.file.write_all(bytes).map_err(Error::scratch)?;
        self.bytes += to_u64(bytes.len());
        self.crc32c = crc32c::crc32c_append(self.crc32c, bytes);
        Ok(())
    }

    /// Renames the file to its final name. Neither is synced: that is up to the recorder of the
    /// step.
    pub(crate) fn finish(mut self) -> Result<WrittenFile> {
        self.file.flush().map_err(Error::scratch)?;
        fs::rename(&self.fresh, &self.path).map_err(Error::scratch)?;
        // The file has just been given this name.
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(WrittenFile { name, bytes: self.bytes, crc32c: self.crc32c })
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let _renamed_by_now = fs::remove_file(&self.fresh);
    }
}

impl WrittenFile {
    /// Compares the file in `folder` with the record.
    pub(crate) fn check(&self, folder: &Path) -> Result<()> {
        let mut file = File::open(folder.join(&self.name)).map_err(Error::scratch)?;
        let (mut bytes, mut crc32c) = (0_u64, 0);
        let mut buffer = vec![0; BUFFER];
        loop {
            let read = file.read(&mut buffer).map_err(Error::scratch)?;
            let Some(part @ [_, ..]) = buffer.get(..read) else { break };
            bytes += to_u64(read);
            crc32c = crc32c::crc32c_append(crc32c, part);
        }
        if (bytes, crc32c) == (self.bytes, self.crc32c) {
            return Ok(());
        }
        let found = format!("{bytes} bytes with checksum {crc32c:08x}");
        let expected = format!("{} bytes with checksum {:08x}", self.bytes, self.crc32c);
        Err(task_error(&self.name, expected, found))
    }
}

/// Returns a unique temporary name for a file that will become `path`. It is random, because
/// process ids are not unique across machines or containers.
pub(super) fn temporary_path(path: &Path) -> PathBuf {
    static PROCESS: OnceLock<u64> = OnceLock::new();
    let process = *PROCESS.get_or_init(|| RandomState::new().hash_one(std::process::id()));
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    append_to_name(path, &format!(".tmp-{process:016x}-{number}"))
}

/// Returns the path of a file beside `path`, whose name is longer by `suffix`.
pub(super) fn append_to_name(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned(); // none: then the suffix alone
    name.push(suffix);
    path.with_file_name(name)
}

/// Opens a file of another step; the error names it.
pub(super) fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| {
        let message = format!("{}: {error}", path.display());
        Error::scratch(io::Error::new(error.kind(), message))
    })
}

const BUFFER: usize = 1 << 17;
static COUNTER: AtomicU64 = AtomicU64::new(0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_when_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.rows");
        let mut output = Output::create(path.clone(), &StopFlag::default()).unwrap();
        output.write(b"123456789").unwrap();
        assert!(!path.exists());
        let written = output.finish().unwrap();
        assert_eq!((written.bytes, written.crc32c), (9, 0xe306_9283));
        written.check(folder.path()).unwrap();
        fs::write(&path, b"123456780").unwrap();
        assert_eq!(
            written.check(folder.path()).unwrap_err().sentence(),
            "a.rows: expected 9 bytes with checksum e3069283, found 9 bytes with checksum 7c9ae3c1"
                .replace("7c9ae3c1", &format!("{:08x}", crc32c::crc32c(b"123456780")))
        );
        assert_ne!(temporary_path(&path), temporary_path(&path));
        drop(Output::create(path, &StopFlag::default()).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
