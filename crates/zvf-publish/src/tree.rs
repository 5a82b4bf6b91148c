//! Hard links for all files of a folder, and foreign files in it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::disk::Disk;
use crate::error::PublishError;
use crate::name::join_path;

/// Links all files below `from` to names below `to`, except those in or below a path for which `leave` returns true.
/// Returns the paths of those called `marker`. Names that are not Unicode are refused.
pub(crate) fn link_tree(
    disk: &Disk,
    from: &Path,
    to: &Path,
    marker: &str,
    leave: &dyn Fn(&str) -> bool,
) -> Result<Vec<String>, PublishError> {
    let (mut folders, mut markers) = (vec![String::new()], Vec::new());
    while let Some(folder) = folders.pop() {
        let at = PublishError::with_path(&folder);
        if !folder.is_empty() {
            disk.make_dir(&to.join(&folder)).map_err(&at)?;
        }
        for entry in fs::read_dir(from.join(&folder)).map_err(&at)? {
            let entry = entry.map_err(&at)?;
            let name = entry.file_name();
            let path = join_path(&folder, &name).map_err(&at)?;
            if leave(&path) {
                continue;
            }
            // Only a symbolic link must be followed.
            let kind = entry.file_type().map_err(&at)?;
            if kind.is_dir() || (kind.is_symlink() && entry.path().is_dir()) {
                folders.push(path);
                continue;
            }
            let linked = disk.link_target(&entry.path(), &to.join(&path));
            linked.map_err(PublishError::with_path(&path))?;
            if name == marker {
                markers.push(path);
            }
        }
    }
    Ok(markers)
}

/// Links `foreign`, files in `old` that do not belong to it, to names in `new`, unless these are taken.
///
/// Foreign files in a folder that had a `marker` and that `new` does not have are refused, because
/// nobody would look for them there.
pub(crate) fn carry_over(
    disk: &Disk,
    (old, new): (&Path, &Path),
    marker: &str,
    foreign: &[PathBuf],
) -> Result<(), PublishError> {
    for path in foreign {
        let to = new.join(path);
        if fs::symlink_metadata(&to).is_ok() {
            continue;
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let is_new = !new.join(folder).is_dir();
        if is_new && old.join(folder).join(marker).exists() {
            let rule = "nothing in it but what belongs to it: move the rest elsewhere";
            return Err(PublishError::not_replaceable(rule, &path.display().to_string()));
        }
        let text = path.to_string_lossy();
        let made = if is_new { disk.make_dirs(&new.join(folder)).map(drop) } else { Ok(()) };
        made.and_then(|()| disk.link(&old.join(path), &to))
            .map_err(PublishError::with_path(&text))?;
    }
    Ok(())
}
