//! An open directory, and the files below it.
//!
//! On unix, names are resolved relative to the open directory, so a handle keeps reading the store
//! that it opened even if that is moved or replaced as a whole; on other systems the path is kept.
//! Symbolic links are followed, because they are used to put levels on other disks. A walk does not
//! enter a directory that it is already in. A link that leads nowhere is an error: the answer would
//! not be complete. Names that cannot be keys are ignored, and so are temporary files of a writer.

use zvf_error::{Locate as _, Result};

use super::super::Child;
use super::file::{Entry, Listing};
#[cfg(not(unix))]
pub(super) use super::portable::Dir;
#[cfg(unix)]
pub(super) use super::unix::Dir;
use crate::error::WithOp as _;
use crate::key::Key;

/// Returns the entries directly below `prefix`, by name; empty if it does not exist.
pub(super) fn children(dir: &Dir, prefix: &Key) -> Result<Vec<Child>> {
    let listing = dir.listing(prefix, false).with_op("list")?;
    let entries = listing.into_iter().flat_map(|listing| listing.entries);
    let mut children: Vec<Child> = entries
        .filter(|entry| prefix.listed_child(&entry.name).is_some())
        .map(|Entry { name, is_dir, .. }| Child { name, is_dir })
        .collect();
    children.sort_unstable();
    Ok(children)
}

/// Calls `found` with every file below `prefix` until it returns false.
pub(super) fn walk(
    dir: &Dir,
    prefix: &Key,
    found: &mut impl FnMut(Key, u64) -> bool,
) -> Result<()> {
    // Each directory to enter, with the identities of its ancestors.
    let mut open = vec![(prefix.clone(), Vec::new())];
    while let Some((key, above)) = open.pop() {
        let listing = dir.listing(&key, true).with_op("list").at_key(&key)?;
        let Some(Listing { place, entries }) = listing else { continue };
        if above.contains(&place) {
            continue;
        }
        let inside: Vec<_> = above.into_iter().chain([place]).collect();
        for Entry { name, is_dir, size } in entries {
            let Some(key) = key.listed_child(&name) else { continue };
            if is_dir {
                open.push((key, inside.clone()));
            } else if !found(key, size) {
                return Ok(());
            }
        }
    }
    Ok(())
}
