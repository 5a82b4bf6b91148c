//! The journal next to a target: `NAME.zvf/log` contains a record per committed edit.
//!
//! A store has one journal, whichever links lead to it: it is beside the folder itself. Replacing a
//! folder that has a journal would leave records without a store, so the journal is checked, and is
//! part of the identity of a target. The contents of records are not read here.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::PublishError;
use crate::name::resolve_target;

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
/// [`PublishError::StrayJournal`] when the path is a symbolic link, and records are beside the
/// link; otherwise when the folder has no name, or the path cannot be followed.
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
            return Err(PublishError::StrayJournal {
                has_other: count_records(&resolved)? > 0,
                stray,
                journal,
            });
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
    let mut journal = target.as_os_str().to_owned();
    journal.push(".zvf");
    match fs::read_dir(Path::new(&journal).join("log")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        entries => {
            let mut records = 0;
            for entry in entries? {
                let name = entry?.file_name();
                records += usize::from(!name.to_string_lossy().starts_with('.'));
            }
            Ok(records)
        }
    }
}

/// Maximum number of links in a chain.
const MAX_LINKS: usize = 40;

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

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
