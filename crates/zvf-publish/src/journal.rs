//! The journal next to a target: `NAME.zvf/log` holds a record for each committed edit.
//!
//! Replacing a folder that has a journal would leave records without a store, so the journal is checked, and is part of
//! the identity of a target. The contents of records are not read here.

use std::fs;
use std::io;
use std::path::Path;

/// Counts the records of the journal next to `target`; 0 where there is none. Backups of repairs, which lie there as
/// well, are not records.
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
