//! Adds files to an existing folder, whose other files stay in place.
//!
//! ```text
//! PARENT/NAME/                       the folder
//! PARENT/.NAME.zvf-build-ID/
//!     store/...                      what is added, under its final names, and the new marker file
//!     added                          the marker, then a line for each name that is added: device, inode, path
//! ```
//!
//! A new folder is renamed as a whole, whatever it contains. The list is written and synced before
//! the first rename, and each name is synced before the next one is added; the marker is replaced
//! last, which is the commit. As long as the marker is in `store`, nothing was committed, and
//! [`undo`] moves the listed names back. Files that exist in both must be equal.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use crate::disk::{Disk, found};
use crate::error::PublishError;
use crate::identity::node;
use crate::name::{SCRATCH_ADDED, SCRATCH_STORE, join_path};

/// The names that are added to a folder, as in the list in the scratch folder.
pub(crate) struct Addition<'a> {
    store: &'a Path,
    target: &'a Path,
    marker: &'a str,
    /// Paths below the folder, those with fewer names first.
    paths: Vec<String>,
}

impl<'a> Addition<'a> {
    /// Compares `store` with the folder `target`, and writes the list of names that only `store` has.
    pub(crate) fn write_list(
        disk: &Disk,
        (scratch, store): (&Path, &'a Path),
        target: &'a Path,
        marker: &'a str,
    ) -> Result<Self, PublishError> {
        let mut paths = find_new_names(store, target, marker)?;
        paths.sort_by(|a, b| depth(a).cmp(&depth(b)).then_with(|| a.cmp(b)));
        let mut list = format!("{marker}\n");
        for path in &paths {
            let (device, inode) = node(&store.join(path)).map_err(PublishError::with_path(path))?;
            list.push_str(&format!("{device} {inode} {path}\n"));
        }
        disk.create(&scratch.join(SCRATCH_ADDED), &[list.into()])?;
        Ok(Self { store, target, marker, paths })
    }

    /// Renames everything into the folder, the marker last. After an earlier failure, use [`undo`].
    ///
    /// # Errors
    ///
    /// [`PublishError::Unknown`] when the marker was replaced; otherwise nothing was committed.
    pub(crate) fn commit(&self, disk: &Disk, sync: bool) -> Result<(), PublishError> {
        for path in &self.paths {
            let to = self.target.join(path);
            disk.rename_new(&self.store.join(path), &to).map_err(PublishError::with_path(path))?;
            if sync {
                // Before the next one, which may refer to it.
                disk.sync_dir(to.parent().unwrap_or(self.target))?;
            }
        }
        let marker = self.store.join(self.marker);
        disk.rename(&marker, &self.target.join(self.marker)).map_err(|error| {
            if marker.exists() { error.into() } else { PublishError::Unknown(error) }
        })
    }
}

/// Moves names that were added to `target` but not committed back into `scratch`. Names that others
/// have taken since stay.
pub(crate) fn undo(disk: &Disk, scratch: &Path, target: &Path) -> io::Result<()> {
    let Some(list) = found(fs::read_to_string(scratch.join(SCRATCH_ADDED)))? else {
        return Ok(());
    };
    let store = scratch.join(SCRATCH_STORE);
    let mut lines = list.lines();
    // A truncated list was not synced, so no name was moved.
    if !lines.next().is_some_and(|marker| store.join(marker).exists()) {
        return Ok(());
    }
    let mut folders = BTreeSet::new();
    for (place, path) in lines.rev().filter_map(parse_line) {
        let (from, to) = (target.join(path), store.join(path));
        if fs::symlink_metadata(&to).is_ok() || !node(&from).is_ok_and(|found| found == place) {
            continue;
        }
        disk.rename(&from, &to)?;
        folders.extend(from.parent().map(Path::to_owned));
    }
    for folder in &folders {
        disk.sync_dir(folder)?;
    }
    Ok(())
}

/// Parses a line of the list: the device and the inode, and the path.
fn parse_line(line: &str) -> Option<((u64, u64), &str)> {
    let mut parts = line.splitn(3, ' ');
    let (device, inode) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some(((device, inode), parts.next()?))
}

/// Lists the outermost names below `store` that `target` does not have.
///
/// # Errors
///
/// When both have a name, but not the same kind of file or not the same bytes.
fn find_new_names(store: &Path, target: &Path, marker: &str) -> Result<Vec<String>, PublishError> {
    let (mut folders, mut new_names) = (vec![String::new()], Vec::new());
    while let Some(folder) = folders.pop() {
        let at = PublishError::with_path(&folder);
        for entry in fs::read_dir(store.join(&folder)).map_err(&at)? {
            let entry = entry.map_err(&at)?;
            let path = join_path(&folder, &entry.file_name()).map_err(&at)?;
            if path.contains('\n') {
                return Err(at(io::ErrorKind::InvalidInput.into())); // a line of the list must hold it
            }
            if path == marker {
                continue;
            }
            let (ours, theirs) = (entry.path(), target.join(&path));
            let is_dir = entry.file_type().map_err(&at)?.is_dir();
            match found(fs::metadata(&theirs)).map_err(PublishError::with_path(&path))? {
                None => new_names.push(path),
                Some(found) if found.is_dir() && is_dir => folders.push(path),
                Some(found)
                    if !found.is_dir() && !is_dir && fs::read(&ours)? == fs::read(&theirs)? => {}
                Some(_) => return Err(PublishError::Changed { found: format!("another {path}") }),
            }
        }
    }
    Ok(new_names)
}

fn depth(path: &str) -> usize {
    path.split('/').count()
}

#[cfg(test)]
mod tests;
