//! New files and folders that become visible when they are complete.
//!
//! The atomic rename is in `zvf_publish`.

use std::fs::File;
use std::path::Path;

use zvf_error::Result;
use zvf_publish::{
    AtomicFile, CommitGate, Disk, FileOptions, StagingDir, StagingOptions, TargetLock,
};

/// A file under construction.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("a.tet");
/// use std::io::Write as _;
/// use zvf_tensor::AtomicTensorFile;
///
/// let mut new = AtomicTensorFile::create(&path, false)?;
/// new.file().write_all(b"all of it")?;
/// assert!(!path.exists());
/// new.publish()?;
/// assert_eq!(std::fs::read(&path)?, b"all of it");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AtomicTensorFile(AtomicFile);

impl AtomicTensorFile {
    /// Begins the file at `path`; an existing one is replaced only if `replace`.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` when the path exists and `replace` is false; otherwise when the folder
    /// cannot be written.
    pub fn create(path: &Path, replace: bool) -> Result<Self> {
        Self::create_gated(path, replace, &CommitGate::default())
    }

    /// Begins the file as [`create`](Self::create); `gate` is passed right before it becomes
    /// visible.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    pub fn create_gated(path: &Path, replace: bool, gate: &CommitGate) -> Result<Self> {
        let options = FileOptions { replace, gate: gate.clone(), ..FileOptions::default() };
        Ok(Self(AtomicFile::create(&Disk::default(), path, options)?))
    }

    /// Returns the file to write to.
    pub const fn file(&mut self) -> &mut File {
        self.0.file()
    }

    /// Syncs the file and renames it to its path.
    ///
    /// # Errors
    ///
    /// When it cannot be synced, another object took the name, the replaced file changed meanwhile
    /// (`Conflict`), or the rename fails.
    pub fn publish(self) -> Result<()> {
        Ok(self.0.publish()?)
    }
}

/// Creates a folder beside `path` that is renamed to it when it is published; `marker` is the file
/// by which such a folder is known.
///
/// # Errors
///
/// `AlreadyExists` when the path exists and `replace` is false; `Conflict` when another process
/// replaces it; otherwise when the folder cannot be created.
pub(crate) fn new_folder(
    path: &Path,
    replace: bool,
    marker: &'static str,
    gate: &CommitGate,
) -> Result<StagingDir> {
    let gate = gate.clone();
    let options =
        StagingOptions { replace, replace_file: true, gate, ..StagingOptions::new(marker) };
    let lock = TargetLock::acquire(&Disk::default(), path)?;
    Ok(StagingDir::begin(lock, options)?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use zvf_format::Class;

    use super::*;

    #[test]
    fn a_folder_is_replaced_atomically() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let make = |replace, text: &str| {
            let new = new_folder(&path, replace, "index", &CommitGate::default())?;
            fs::write(new.path().join("index"), text).unwrap();
            Ok::<_, zvf_error::Error>(new.publish()?)
        };
        let read = || fs::read_to_string(path.join("index")).unwrap();
        make(false, "one").unwrap();
        assert_eq!(make(false, "two").unwrap_err().class(), Class::AlreadyExists);
        make(true, "three").unwrap();
        assert_eq!(read(), "three");
        let busy = new_folder(&path, true, "index", &CommitGate::default()).unwrap();
        assert_eq!(make(true, "four").unwrap_err().class(), Class::Conflict);
        drop(busy);

        // A file in its place is replaced, too; another folder is not.
        fs::remove_dir_all(&path).unwrap();
        fs::write(&path, "a file").unwrap();
        make(true, "five").unwrap();
        assert_eq!(read(), "five");
        fs::remove_file(path.join("index")).unwrap();
        fs::write(path.join("letters.txt"), "precious").unwrap();
        assert_eq!(make(true, "six").unwrap_err().class(), Class::InvalidArgument);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
