//! The identity of a target, which distinguishes it from anything that gets its name later.
//!
//! Device and inode identify a folder or file. A fingerprint detects changes in place: it covers the bytes of the
//! marker file of a folder, size and times of the same file in each folder directly in it, and the number of records in
//! its journal.

use std::fs;
use std::io;
use std::path::Path;

use crate::journal::count_records;
use crate::name::fnv1a;

/// The identity of a folder or file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetIdentity {
    device: u64,
    inode: u64,
    fingerprint: u64,
}

impl TargetIdentity {
    /// Returns the identity of `path`, a folder with the file `marker` or a file; `None` where nothing exists.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn read(path: &Path, marker: &str) -> io::Result<Option<Self>> {
        let about = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            about => about?,
        };
        let (device, inode) = place(&about)?;
        let mut text = Vec::new();
        // A new journal means edits that the replacement does not have.
        let records = count_records(path)?;
        if records > 0 {
            text.extend(records.to_le_bytes());
        }
        if about.is_dir() {
            text.extend(read_or_empty(&path.join(marker))?);
            let mut inner = Vec::new();
            for entry in fs::read_dir(path)? {
                let entry = entry?;
                // A folder that disappears meanwhile changes the fingerprint, as it should.
                let Ok(about) = fs::metadata(entry.path().join(marker)) else { continue };
                inner.push((
                    entry.file_name(),
                    place(&about)?,
                    about.len(),
                    modified_nanos(&about),
                ));
            }
            inner.sort();
            text.extend(format!("{inner:?}").into_bytes());
        } else {
            text.extend(format!("{} {}", about.len(), modified_nanos(&about)).into_bytes());
        }
        Ok(Some(Self { device, inode, fingerprint: fnv1a(&text) }))
    }

    /// Returns whether both are the same folder or file, changed or not.
    #[must_use]
    pub const fn is_same_node(&self, other: &Self) -> bool {
        self.device == other.device && self.inode == other.inode
    }

    /// Returns whether this folder or file, changed or not, is the one at `path`.
    #[must_use]
    pub fn is_at(&self, path: &Path) -> bool {
        node(path).is_ok_and(|(device, inode)| self.is_node(device, inode))
    }

    /// Returns whether this folder or file has this device and inode.
    #[must_use]
    pub const fn is_node(&self, device: u64, inode: u64) -> bool {
        self.device == device && self.inode == inode
    }
}

fn read_or_empty(path: &Path) -> io::Result<Vec<u8>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        bytes => bytes,
    }
}

fn modified_nanos(about: &fs::Metadata) -> u128 {
    let since = about.modified().map(|at| at.duration_since(std::time::SystemTime::UNIX_EPOCH));
    match since {
        Ok(Ok(since)) => since.as_nanos(),
        _ => 0, // a time before 1970, or none: size and inode remain
    }
}

/// Returns the device and the inode of a file or folder.
#[cfg(unix)]
fn place(about: &fs::Metadata) -> io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    Ok((about.dev(), about.ino()))
}

#[cfg(not(unix))]
fn place(_about: &fs::Metadata) -> io::Result<(u64, u64)> {
    Err(unidentified_error())
}

/// Returns the error for writing on a system where files cannot be distinguished from later ones
/// with the same name.
#[cfg(not(unix))]
pub(crate) fn unidentified_error() -> io::Error {
    let text = "zvf cannot identify, lock and sync files on this system, and so does not write";
    io::Error::new(io::ErrorKind::Unsupported, text)
}

/// Returns the device and the inode of a file or folder.
pub(crate) fn node(path: &Path) -> io::Result<(u64, u64)> {
    place(&fs::metadata(path)?)
}

/// Returns whether two paths are on one file system.
#[cfg(unix)]
pub(crate) fn is_same_device(first: &Path, second: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    Ok(fs::metadata(first)?.dev() == fs::metadata(second)?.dev())
}

#[cfg(not(unix))]
pub(crate) fn is_same_device(_one: &Path, _other: &Path) -> io::Result<bool> {
    Err(unidentified_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_told_from_its_successors() {
        let temp_dir = tempfile::tempdir().unwrap();
        let path = temp_dir.path().join("a");
        let read = || TargetIdentity::read(&path, "zarr.json").unwrap();
        assert_eq!(read(), None);
        fs::create_dir_all(path.join("0")).unwrap();
        fs::write(path.join("zarr.json"), "{}").unwrap();
        let first = read().unwrap();
        assert_eq!(read(), Some(first));
        fs::write(path.join("zarr.json"), "{ }").unwrap();
        let changed = read().unwrap();
        assert!(changed != first && changed.is_same_node(&first));
        fs::write(path.join("0/zarr.json"), "{}").unwrap();
        assert!(read().unwrap() != changed);
        let aside = temp_dir.path().join("b");
        fs::rename(&path, &aside).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(!read().unwrap().is_same_node(&first));
    }
}
