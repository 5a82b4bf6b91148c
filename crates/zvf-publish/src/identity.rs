//! The identity of a target, which distinguishes it from anything that gets its name later.
//!
//! Device and inode identify a folder or file. A fingerprint detects changes in place: it covers the bytes of the
//! marker file of a folder, size and times of the same file in each folder directly in it, and the number of records in
//! its journal.
//!
//! The journal next to a target: `NAME.zvf/log` contains a record per committed edit.
//!
//! A store has one journal, whichever links lead to it: it is beside the folder itself. Replacing a
//! folder that has a journal would leave records without a store, so the journal is checked, and is
//! part of the identity of a target. The contents of records are not read here.

use std::path::{Path, PathBuf};
use std::{fs, io};

use zvf_format::Class;

use crate::disk::found;
use crate::error::PublishError;
use crate::name::{fnv1a, resolve_target};

/// The identity of a folder or file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetIdentity {
    node: (u64, u64), // device and inode
    fingerprint: u64,
}

impl TargetIdentity {
    /// Returns the identity of `path`, a folder with the file `marker` or a file; `None` where nothing exists.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn read(path: &Path, marker: &str) -> io::Result<Option<Self>> {
        let Some(about) = found(fs::metadata(path))? else { return Ok(None) };
        let mut text = Vec::new();
        // A new journal means edits that the replacement does not have.
        let records = count_records(path)?;
        if records > 0 {
            text.extend(records.to_le_bytes());
        }
        if about.is_dir() {
            text.extend(found(fs::read(path.join(marker)))?.unwrap_or_default());
            let mut inner = Vec::new();
            for entry in fs::read_dir(path)? {
                let entry = entry?;
                // A folder that disappears meanwhile changes the fingerprint, as it should.
                let Ok(about) = fs::metadata(entry.path().join(marker)) else { continue };
                let (len, modified) = (about.len(), modified_nanos(&about));
                inner.push((entry.file_name(), place(&about)?, len, modified));
            }
            inner.sort();
            text.extend(format!("{inner:?}").into_bytes());
        } else {
            text.extend(format!("{} {}", about.len(), modified_nanos(&about)).into_bytes());
        }
        Ok(Some(Self { node: place(&about)?, fingerprint: fnv1a(&text) }))
    }

    /// Returns whether both are the same folder or file, changed or not.
    pub fn is_same_node(&self, other: &Self) -> bool {
        self.node == other.node
    }

    /// Returns whether this folder or file, changed or not, is the one at `path`.
    pub fn is_at(&self, path: &Path) -> bool {
        node(path).is_ok_and(|found| found == self.node)
    }

    /// Returns whether this folder or file has this device and inode.
    pub fn is_node(&self, device: u64, inode: u64) -> bool {
        self.node == (device, inode)
    }
}

fn modified_nanos(about: &fs::Metadata) -> u128 {
    let since = about.modified().map(|at| at.duration_since(std::time::SystemTime::UNIX_EPOCH));
    // A time before 1970, or none: size and inode remain.
    since.ok().and_then(Result::ok).map_or(0, |since| since.as_nanos())
}

/// Returns the device and the inode of a file or folder.
#[cfg(unix)]
pub(crate) fn place(about: &fs::Metadata) -> io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    Ok((about.dev(), about.ino()))
}

#[cfg(not(unix))]
pub(crate) fn place(_about: &fs::Metadata) -> io::Result<(u64, u64)> {
    Err(crate::disk::unidentified_error())
}

/// Returns the device and the inode of a file or folder.
pub(crate) fn node(path: &Path) -> io::Result<(u64, u64)> {
    place(&fs::metadata(path)?)
}

/// Returns the folder of the journal of the store at `store`: beside the folder to which links in
/// the path lead.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let root = dir.path().canonicalize()?;
/// let store = root.join("a.zarrvectors");
/// assert_eq!(zvf_publish::journal_folder(&store)?, root.join("a.zarrvectors.zvf"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`PublishError::Refused`] (`Conflict`) when the path is a symbolic link, and records are beside
/// the link; otherwise when the folder has no name, or the path cannot be followed.
pub fn journal_folder(store: &Path) -> Result<PathBuf, PublishError> {
    let resolved = resolve_target(store)?;
    let journal =
        add_suffix(&resolved).ok_or_else(|| PublishError::NoName(store.display().to_string()))?;
    // Earlier versions kept the journal beside the name that was given. One link may lead to
    // another.
    let mut path = store.components().as_path().to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(next) = fs::read_link(&path) else { break };
        if let Some(stray) = add_suffix(&path)
            && let Ok(real) = fs::canonicalize(&stray)
            && real != journal
            && count_records(&path)? > 0
        {
            let advice = match count_records(&resolved)? {
                0 => "rename it to",
                _ => {
                    "the store has another one, with its own history, so check both and move this \
                     one away to continue with"
                }
            };
            let fault = "an earlier version kept this journal next to a symbolic link to the store";
            let (stray, journal) = (stray.display(), journal.display());
            let text = format!("{stray}: {fault}; {advice} {journal}");
            return Err(PublishError::Refused(Class::Conflict, text));
        }
        path = path.parent().unwrap_or(Path::new("")).join(next);
    }
    Ok(journal)
}

fn add_suffix(store: &Path) -> Option<PathBuf> {
    let mut name = store.file_name()?.to_owned();
    name.push(".zvf");
    Some(store.with_file_name(name))
}

/// Counts the records of the journal next to `target`; 0 if there is none. Backups of repairs,
/// which are also there, are not records.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let target = dir.path().join("a.zarrvectors");
/// assert_eq!(zvf_publish::count_records(&target)?, 0);
/// std::fs::create_dir_all(dir.path().join("a.zarrvectors.zvf/log"))?;
/// std::fs::write(dir.path().join("a.zarrvectors.zvf/log/1"), "")?;
/// assert_eq!(zvf_publish::count_records(&target)?, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// When the folder cannot be listed.
pub fn count_records(target: &Path) -> io::Result<usize> {
    let Some(journal) = add_suffix(target) else { return Ok(0) };
    let mut records = 0;
    for entry in found(fs::read_dir(journal.join("log")))?.into_iter().flatten() {
        let name = entry?.file_name();
        records += usize::from(!name.to_string_lossy().starts_with('.'));
    }
    Ok(records)
}

/// Maximum number of links in a chain.
const MAX_LINKS: usize = 40;

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    use std::os::unix::fs::symlink;

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

    #[cfg(unix)]
    #[test]
    fn a_store_has_one_journal_whatever_the_path() {
        let temp_dir = tempfile::tempdir().unwrap();
        let root = temp_dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        symlink("a", root.join("link")).unwrap();
        symlink(root.join("link"), root.join("second")).unwrap();
        for path in ["a", "a/", "a/b/..", "link", "second", "link/b/.."] {
            assert_eq!(journal_folder(&root.join(path)).unwrap(), root.join("a.zvf"), "{path}");
        }
        assert_eq!(journal_folder(&root.join("new")).unwrap(), root.join("new.zvf"));
        assert!(journal_folder(Path::new("/")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn records_beside_a_link_are_refused_with_the_remedy() {
        let temp_dir = tempfile::tempdir().unwrap();
        let root = temp_dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a")).unwrap();
        symlink("a", root.join("link")).unwrap();
        symlink("link", root.join("second")).unwrap();
        fs::create_dir_all(root.join("link.zvf/log")).unwrap();
        assert!(journal_folder(&root.join("link")).is_ok(), "it has no records");
        fs::write(root.join("link.zvf/log/1"), "").unwrap();
        for path in ["link", "second"] {
            let error = journal_folder(&root.join(path)).unwrap_err().to_string();
            assert!(error.contains("link.zvf") && error.contains("rename it to"), "{error}");
        }
        fs::create_dir_all(root.join("a.zvf/log")).unwrap();
        fs::write(root.join("a.zvf/log/1"), "").unwrap();
        let error = journal_folder(&root.join("link")).unwrap_err().to_string();
        assert!(error.contains("move this one away"), "{error}");
        assert!(journal_folder(&root.join("a")).is_ok());
        fs::remove_dir_all(root.join("link.zvf")).unwrap();
        symlink("a.zvf", root.join("link.zvf")).unwrap();
        assert!(journal_folder(&root.join("link")).is_ok(), "it is the same folder");
    }
}
