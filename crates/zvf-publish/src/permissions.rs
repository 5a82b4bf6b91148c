//! Permissions of published files: those of the replaced files, otherwise the defaults of the
//! process.
//!
//! Mode, group and extended attributes, including access lists, are kept; so is the owner if the
//! system allows it. Files without a counterpart get the permissions of the old root folder or the
//! marker file.

use std::fs;
use std::io;
use std::path::Path;

/// Copies to everything below `new` the permissions of its counterpart below `old`; `marker` stands for the counterpart
/// of other files.
pub(crate) fn copy_tree(old: &Path, new: &Path, marker: &str) -> io::Result<()> {
    let file_model = old.join(marker);
    copy_node(old, new)?;
    let mut folders = vec![std::path::PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(new.join(&folder))? {
            let entry = entry?;
            let relative = folder.join(entry.file_name());
            let counterpart = old.join(&relative);
            let is_dir = entry.file_type()?.is_dir();
            let from: &Path = match fs::symlink_metadata(&counterpart) {
                Ok(about) if about.is_dir() == is_dir => &counterpart,
                _ if is_dir => old,
                _ => &file_model,
            };
            copy_node(from, &entry.path())?;
            if is_dir {
                folders.push(relative);
            }
        }
    }
    Ok(())
}

/// Copies mode, owner, group and extended attributes from `old` to `new`, if `old` exists.
#[cfg(unix)]
pub(crate) fn copy_node(old: &Path, new: &Path) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
    let Some(about) = crate::disk::found(fs::metadata(old))? else { return Ok(()) };
    let new_metadata = fs::metadata(new)?;
    if (about.dev(), about.ino()) == (new_metadata.dev(), new_metadata.ino()) {
        return Ok(()); // a hard link to the same file
    }
    let mut mode = about.mode() & MODE_BITS;
    if new_metadata.gid() != about.gid() && chown(new, None, Some(about.gid())).is_err() {
        // The group permissions were for another group: they are not granted to this one.
        mode &= !(GROUP_BITS | SET_ID_BITS);
    }
    if new_metadata.uid() != about.uid() {
        // Only root can do this; otherwise this process's user is the owner.
        drop(chown(new, Some(about.uid()), None));
    }
    copy_attributes(old, new);
    // Last: changing the owner clears set-id bits.
    if fs::metadata(new)?.mode() & MODE_BITS != mode {
        fs::set_permissions(new, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

#[cfg(not(unix))]
pub(crate) fn copy_node(_old: &Path, _new: &Path) -> io::Result<()> {
    Ok(())
}

/// Copies extended attributes, including access lists. Those that cannot be set are left out.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn copy_attributes(old: &Path, new: &Path) {
    use rustix::fs::{XattrFlags, getxattr, listxattr, setxattr};
    let mut names = vec![0_u8; ATTRIBUTE_BYTES];
    let Ok(len) = listxattr(old, names.as_mut_slice()) else { return };
    names.truncate(len);
    for name in names.split(|byte| *byte == 0) {
        let Ok(name) = std::str::from_utf8(name) else { continue };
        if name.is_empty() {
            continue;
        }
        let mut value = vec![0_u8; ATTRIBUTE_BYTES];
        if let Ok(len) = getxattr(old, name, value.as_mut_slice()) {
            value.truncate(len);
            let _not_here = setxattr(new, name, &value, XattrFlags::empty());
        }
    }
}

#[cfg(all(unix, not(any(target_os = "linux", target_vendor = "apple"))))]
fn copy_attributes(_old: &Path, _new: &Path) {}

/// The limits of Linux for the list of names, and for one value.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
const ATTRIBUTE_BYTES: usize = 1 << 16;
#[cfg(unix)]
const MODE_BITS: u32 = 0o7777;
#[cfg(unix)]
const GROUP_BITS: u32 = 0o070;
#[cfg(unix)]
const SET_ID_BITS: u32 = 0o6000;

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_is_new_gets_what_its_counterpart_has() {
        let temp_dir = tempfile::tempdir().unwrap();
        let path = |name: &str| temp_dir.path().join(name);
        for (name, mode) in [("old/0", 0o2750), ("old", 0o2770), ("new/0", 0o755), ("new/1", 0o755)]
        {
            fs::create_dir_all(path(name)).unwrap();
            fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        for (name, mode) in [("old/zarr.json", 0o640), ("new/zarr.json", 0o644), ("new/1/c", 0o644)]
        {
            fs::write(path(name), "").unwrap();
            fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        copy_tree(&path("old"), &path("new"), "zarr.json").unwrap();
        for (name, mode) in [
            ("new", 0o2770),
            ("new/0", 0o2750),
            ("new/1", 0o2770),
            ("new/zarr.json", 0o640),
            ("new/1/c", 0o640),
        ] {
            let found = fs::metadata(path(name)).unwrap().permissions().mode() & 0o7777;
            assert_eq!(found, mode, "{name}: {found:o}");
        }
    }
}
