//! Exchanges two local names atomically: how a folder replaces another while it is read.
//!
//! A rename cannot do that: a folder cannot be renamed over a non-empty one, and between two renames the name does not
//! exist.

use std::io;
use std::path::Path;

/// Exchanges the names of `one` and `other`, on one file system, atomically.
///
/// Returns `false`, without a change, if the system or the file system cannot: most on Linux and
/// Apple's systems can.
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
/// When either does not exist, or the names cannot be changed.
pub fn exchange_names(one: &Path, other: &Path) -> io::Result<bool> {
    exchange(one, other)
}

#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn exchange(first: &Path, second: &Path) -> io::Result<bool> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    match renameat_with(CWD, first, CWD, second, RenameFlags::EXCHANGE) {
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
        let [present, absent] = ["there", "none"].map(|name| dir.path().join(name));
        fs::write(&present, "1").unwrap();
        let done = exchange_names(&present, &absent);
        assert!(matches!(done, Ok(false) | Err(_)), "{done:?}");
        assert_eq!(fs::read(&present).unwrap(), b"1");
    }
}
