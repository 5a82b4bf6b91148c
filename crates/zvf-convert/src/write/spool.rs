//! Bytes that wait for their place: in memory first, in a file without a name when they are many.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek as _, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that were written and will be read once.
#[derive(Debug)]
pub(crate) struct Spool {
    held: Vec<u8>,
    max_held: usize,
    folder: Option<PathBuf>,
    file: Option<Unnamed>,
    len: u64,
}

/// A file that goes with its handle.
#[derive(Debug)]
struct Unnamed {
    file: File,
    path: PathBuf,
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        // What cannot be removed is a temporary file like any other.
        drop(fs::remove_file(&self.path));
    }
}

impl Spool {
    /// Nothing, of which so many bytes stay in memory and the rest goes to a file below `folder`.
    pub(crate) fn new(max_held: usize, folder: Option<&Path>) -> Self {
        let folder = folder.map(Path::to_owned);
        Self { held: Vec::new(), max_held, folder, file: None, len: 0 }
    }

    /// How many bytes were written.
    pub(crate) const fn len(&self) -> u64 {
        self.len
    }

    /// Copies all of it.
    pub(crate) fn copy_to(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if let Some(unnamed) = &mut self.file {
            unnamed.file.rewind()?;
            io::copy(&mut unnamed.file, out)?;
        }
        out.write_all(&self.held)
    }

    /// Goes back to the start, to read all of it once.
    pub(crate) fn reader(&mut self) -> io::Result<Box<dyn Read + '_>> {
        match &mut self.file {
            Some(unnamed) => {
                unnamed.file.rewind()?;
                let file = io::BufReader::with_capacity(1 << 18, &mut unnamed.file);
                Ok(Box::new(file.chain(self.held.as_slice())))
            }
            None => Ok(Box::new(self.held.as_slice())),
        }
    }

    /// Shows all of it, block by block.
    pub(crate) fn for_each_block(&mut self, mut show: impl FnMut(&[u8])) -> io::Result<()> {
        if let Some(unnamed) = &mut self.file {
            unnamed.file.rewind()?;
            let mut block = vec![0; 1 << 18];
            loop {
                match unnamed.file.read(&mut block)? {
                    0 => break,
                    read => show(&block[..read]),
                }
            }
        }
        show(&self.held);
        Ok(())
    }
}

impl Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(bytes);
        self.len += bytes.len() as u64;
        if self.held.len() > self.max_held {
            if self.file.is_none() {
                self.file = Some(create(self.folder.as_deref())?);
            }
            if let Some(unnamed) = &mut self.file {
                unnamed.file.write_all(&self.held)?;
                self.held.clear();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A new file that no other user may read.
fn create(folder: Option<&Path>) -> io::Result<Unnamed> {
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
    Ok(Unnamed { file, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_back_what_it_took_and_removes_its_file() {
        let folder = tempfile::tempdir().unwrap();
        for max_held in [0, 5, 100] {
            let mut spool = Spool::new(max_held, Some(folder.path()));
            spool.write_all(b"one ").unwrap();
            spool.write_all(b"two three").unwrap();
            let (mut copied, mut shown) = (Vec::new(), Vec::new());
            spool.copy_to(&mut copied).unwrap();
            spool.for_each_block(|block| shown.extend_from_slice(block)).unwrap();
            assert_eq!((copied, spool.len()), (b"one two three".to_vec(), 13));
            assert_eq!(shown, b"one two three");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
