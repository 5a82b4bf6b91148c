//! Files and folders as the tests compare, copy and remove them.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};

/// Files by their path.
pub(crate) type Tree = BTreeMap<String, Vec<u8>>;

/// Returns the files at `path`, or the single file with an empty path; `None` if nothing is there.
pub(crate) fn read_tree(path: &Path) -> Option<Tree> {
    if path.is_dir() {
        return Some(archives::tree(path));
    }
    match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        read => Some(Tree::from([(String::new(), read.expect("what is there can be read"))])),
    }
}

/// The result of a writer that meets no fault.
pub(crate) struct Expected {
    pub(crate) before: Option<Tree>,
    pub(crate) after: Tree,
    /// The names in the folder of the target afterwards.
    pub(crate) names: Vec<String>,
    /// Whether single files of the target change one by one.
    pub(crate) is_stepwise: bool,
}

impl Expected {
    /// Checks that the target is the old or the new one, or each file of it.
    pub(crate) fn check_whole(&self, target: &Path) -> anyhow::Result<()> {
        let found = read_tree(target);
        let is_old_or_new = |(path, bytes): (&String, &Vec<u8>)| {
            let before = self.before.as_ref().and_then(|before| before.get(path));
            // A killed process leaves what it had not renamed.
            [before, self.after.get(path)].contains(&Some(bytes)) || path.contains(".tmp-")
        };
        let is_mixed = |found: &Tree| {
            let is_complete = self.after.keys().all(|path| found.contains_key(path));
            self.is_stepwise && is_complete && found.iter().all(is_old_or_new)
        };
        let is_new = found.as_ref() == Some(&self.after);
        let is_whole = is_new || found == self.before || found.as_ref().is_some_and(is_mixed);
        ensure!(is_whole, "neither the old nor the new is there");
        Ok(())
    }

    /// Checks that the target is the new one, if `is_alone` with nothing new beside it.
    pub(crate) fn check_made(&self, target: &Path, is_alone: bool) -> anyhow::Result<()> {
        let found = read_tree(target).unwrap_or_default();
        let differs = find_difference(&found, &self.after);
        ensure!(differs.is_none(), "run again, it made something else: {differs:?}");
        match is_alone {
            true => check_names(target.parent().context("a folder of the target")?, &self.names),
            false => Ok(()),
        }
    }
}

/// Returns the first path at which two trees differ.
pub(crate) fn find_difference<'a>(a: &'a Tree, b: &'a Tree) -> Option<&'a String> {
    a.keys().chain(b.keys()).find(|path| a.get(*path) != b.get(*path))
}

pub(crate) fn write_tree(folder: &Path, tree: &Tree) {
    archives::write(folder, &Vec::from_iter(tree.clone()));
}

/// Returns the names in a folder, sorted.
pub(crate) fn list_names(folder: &Path) -> anyhow::Result<Vec<String>> {
    let entries = fs::read_dir(folder)?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<anyhow::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// Checks that a folder has these names only.
pub(crate) fn check_names(folder: &Path, expected: &[String]) -> anyhow::Result<()> {
    let left = list_names(folder)?;
    ensure!(left == expected, "left behind: {left:?}, expected {expected:?}");
    Ok(())
}

/// Copies a folder with everything in it; `to` does not exist.
pub(crate) fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    let copied = Command::new("cp").arg("-a").args([from, to]).output()?;
    ensure!(copied.status.success(), "cannot copy {}", from.display());
    Ok(())
}

/// Removes a folder, if it is there.
pub(crate) fn remove_folder(folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    Ok(())
}
