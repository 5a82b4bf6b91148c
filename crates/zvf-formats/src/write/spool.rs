//! Spool: bytes that are written first and read once later, spilled to a temporary file past a limit.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek as _, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes in memory, spilled to a temporary file past a limit.
#[derive(Debug)]
pub struct Spool {
    buffer: Vec<u8>, // after those of the file
    max_held: usize,
    folder: Option<PathBuf>,
    file: Option<TempFile>,
    len: u64,
}

/// A file that is removed when it is dropped.
#[derive(Debug)]
struct TempFile {
    file: File,
    path: PathBuf,
}

impl Drop for TempFile {
    fn drop(&mut self) {
        // A failure leaves a temporary file behind, which is harmless.
        drop(fs::remove_file(&self.path));
    }
}

impl Spool {
    /// Creates an empty spool that keeps `max_held` bytes in memory and spills to a file below `folder`.
    pub fn new(max_held: usize, folder: Option<&Path>) -> Self {
        let folder = folder.map(Path::to_owned);
        Self { buffer: Vec::new(), max_held, folder, file: None, len: 0 }
    }

    /// Returns the number of bytes.
    #[expect(clippy::len_without_is_empty, reason = "nothing asks whether it is empty")]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Copies all bytes to `out`.
    pub fn copy_to(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if let Some(temp) = &mut self.file {
            temp.file.rewind()?;
            io::copy(&mut io::BufReader::with_capacity(BLOCK_BYTES, &mut temp.file), out)?;
        }
        out.write_all(&self.buffer)
    }

    /// Returns a reader of all bytes.
    pub fn reader(&mut self) -> io::Result<Box<dyn Read + '_>> {
        match &mut self.file {
            Some(temp) => {
                temp.file.rewind()?;
                let file = io::BufReader::with_capacity(BLOCK_BYTES, &mut temp.file);
                Ok(Box::new(file.chain(self.buffer.as_slice())))
            }
            None => Ok(Box::new(self.buffer.as_slice())),
        }
    }
}

impl Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        self.len += bytes.len() as u64;
        if self.buffer.len() > self.max_held {
            if self.file.is_none() {
                self.file = Some(create_temp_file(self.folder.as_deref())?);
            }
            if let Some(temp) = &mut self.file {
                temp.file.write_all(&self.buffer)?;
                self.buffer.clear();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Creates a file that no other user may read.
fn create_temp_file(folder: Option<&Path>) -> io::Result<TempFile> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let folder = folder.map_or_else(std::env::temp_dir, Path::to_owned);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!(".zvf-spool-{}-{number}", std::process::id()));
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    let file = options.open(&path)?;
    Ok(TempFile { file, path })
}

/// Bytes of a file that are read at once.
const BLOCK_BYTES: usize = 1 << 18;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_all_bytes_and_removes_its_file() {
        let folder = tempfile::tempdir().unwrap();
        for max_held in [0, 5, 100] {
            let mut spool = Spool::new(max_held, Some(folder.path()));
            spool.write_all(b"one ").unwrap();
            spool.write_all(b"two three").unwrap();
            let (mut copied, mut read) = (Vec::new(), Vec::new());
            spool.copy_to(&mut copied).unwrap();
            spool.reader().unwrap().read_to_end(&mut read).unwrap();
            assert_eq!((copied, spool.len()), (b"one two three".to_vec(), 13));
            assert_eq!(read, b"one two three");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
