//! Two names of this machine exchanged in one step: how a folder replaces another while it is read.
//!
//! Renaming cannot do that: a folder is not renamed over one that has something in it, and between two renames
//! there is nothing of that name.

use std::io;
use std::path::Path;

/// Lets `one` and `other`, on one file system, exchange their names in one step.
///
/// `false`, and nothing is done, where the system or the file system cannot: on Linux and the systems of Apple
/// most can.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// # let dir = tempfile::tempdir()?;
/// # let [old, new] = ["old", "new"].map(|name| dir.path().join(name));
/// std::fs::create_dir(&old)?;
/// std::fs::write(&new, "a file")?;
/// if zvf_publish::exchange_names(&old, &new)? {
///     assert!(old.is_file() && new.is_dir());
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// When either is not there, or the names cannot be changed.
pub fn exchange_names(one: &Path, other: &Path) -> io::Result<bool> {
    exchange(one, other)
}

#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn exchange(one: &Path, other: &Path) -> io::Result<bool> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(true),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn exchange(_one: &Path, _other: &Path) -> io::Result<bool> {
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_missing_is_an_error_and_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let [there, none] = ["there", "none"].map(|name| dir.path().join(name));
        fs::write(&there, "1").unwrap();
        let done = exchange_names(&there, &none);
        assert!(matches!(done, Ok(false) | Err(_)), "{done:?}");
        assert_eq!(fs::read(&there).unwrap(), b"1");
    }
}
