//! Spool: bytes that are written first and read later, spilled to a temporary file past a limit.

use std::io::{self, BufReader, BufWriter, Read, Seek as _, Write};
use std::path::Path;

use tempfile::SpooledTempFile;

/// Bytes in memory, spilled past a limit to a temporary file without a name.
#[derive(Debug)]
pub struct Spool(BufWriter<SpooledTempFile>);

impl Spool {
    /// Creates an empty spool that keeps `max_held` bytes in memory and spills to a file in `folder`.
    pub fn new(max_held: usize, folder: Option<&Path>) -> Self {
        Self(BufWriter::new(match folder {
            Some(folder) => tempfile::spooled_tempfile_in(max_held, folder),
            None => tempfile::spooled_tempfile(max_held),
        }))
    }

    /// Copies all bytes to `out`, and returns their number.
    pub fn copy_to(&mut self, out: &mut dyn Write) -> io::Result<u64> {
        io::copy(&mut self.reader()?, out)
    }

    /// Returns a reader of all bytes.
    pub fn reader(&mut self) -> io::Result<impl Read> {
        self.0.rewind()?;
        Ok(BufReader::with_capacity(BLOCK_BYTES, self.0.get_mut()))
    }
}

impl Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Bytes of a file that are read at once.
const BLOCK_BYTES: usize = 1 << 18;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_all_bytes_and_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        for max_held in [0, 5, 100] {
            let mut spool = Spool::new(max_held, Some(folder.path()));
            spool.write_all(b"one ").and_then(|()| spool.write_all(b"two three")).unwrap();
            let (mut copied, mut read) = (Vec::new(), Vec::new());
            assert_eq!(spool.copy_to(&mut copied).unwrap(), 13);
            spool.reader().unwrap().read_to_end(&mut read).unwrap();
            assert_eq!([copied, read], [b"one two three"; 2]);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
