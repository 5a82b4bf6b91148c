//! XXH64 of bytes and files, by which records and journals identify files.
//!
//! A CRC would be unsuitable: files that end with their own CRC all have the same one, and cells of Zarr do.

use std::fs::File;
use std::hash::Hasher as _;
use std::io::{self, Read as _};
use std::path::Path;

use twox_hash::XxHash64;

/// Returns the XXH64 of bytes.
///
/// ```
/// assert_eq!(zvf_publish::hash_bytes(b""), 0xef46_db37_51d8_e999);
/// ```
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    XxHash64::oneshot(0, bytes)
}

/// Returns the length of a file and the XXH64 of its bytes.
///
/// ```
/// let dir = tempfile::tempdir()?;
/// std::fs::write(dir.path().join("a"), "one")?;
/// let (bytes, hash) = zvf_publish::hash_file(&dir.path().join("a"))?;
/// assert_eq!((bytes, hash), (3, zvf_publish::hash_bytes(b"one")));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// When it cannot be read.
pub fn hash_file(path: &Path) -> io::Result<(u64, u64)> {
    let (mut file, mut hash) = (File::open(path)?, XxHash64::with_seed(0));
    let (mut buffer, mut bytes) = (vec![0; BUFFER_BYTES], 0);
    loop {
        let read = file.read(&mut buffer)?;
        let Some(part @ [_, ..]) = buffer.get(..read) else { return Ok((bytes, hash.finish())) };
        hash.write(part);
        bytes += u64::try_from(part.len()).map_err(io::Error::other)?;
    }
}

/// The bytes read at a time.
const BUFFER_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_several_buffers_has_the_hash_of_its_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..=250).cycle().take(2 * BUFFER_BYTES + 77).collect();
        std::fs::write(dir.path().join("a"), &bytes).unwrap();
        let expected = (2 * (1 << 20) + 77, hash_bytes(&bytes));
        assert_eq!(hash_file(&dir.path().join("a")).unwrap(), expected);
        let missing = hash_file(&dir.path().join("b")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
