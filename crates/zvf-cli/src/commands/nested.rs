//! Refuses a new store inside of the old one, or around it, before any work.

use std::fs;
use std::path::PathBuf;

use crate::outcome::{Usage, refuse};

/// Refuses to write to `new`, when it lies inside of `old` or contains it. Equal addresses are left to the command.
/// Both are folders or URLs; remote addresses are compared as text.
///
/// # Errors
///
/// [`Usage`], with both addresses.
pub(crate) fn check(old: &str, new: &str) -> Result<(), Usage> {
    let (from, to) = (place(old), place(new));
    if from == to {
        return Ok(());
    }
    if to.starts_with(&from) {
        return refuse(format!("{new} is inside of {old}; write to a place outside of the store"));
    }
    if from.starts_with(&to) {
        return refuse(format!(
            "{old} is inside of {new}; write to a place that does not hold the store"
        ));
    }
    Ok(())
}

/// Returns the canonical path of `address`, as far as it exists.
fn place(address: &str) -> PathBuf {
    let path = address.strip_prefix("file://").unwrap_or(address);
    if path.contains("://") {
        return PathBuf::from(path.trim_end_matches('/'));
    }
    let path = std::path::absolute(path).unwrap_or_else(|_no_current_folder| PathBuf::from(path));
    for existing in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (fs::canonicalize(existing), path.strip_prefix(existing)) {
            return real.join(rest);
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_stores_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        fs::create_dir(path("a")).unwrap();
        for (old, new, allowed) in [
            (path("a"), path("b"), true),
            (path("a"), path("a"), true),
            (path("a"), path("ab"), true),
            (path("a"), path("a/b/c"), false),
            (path("a/b"), path("a"), false),
            ("s3://x/a".to_owned(), "s3://x/a/b".to_owned(), false),
            ("s3://x/a/".to_owned(), "s3://x/ab".to_owned(), true),
        ] {
            assert_eq!(check(&old, &new).is_ok(), allowed, "{old} {new}");
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(path("a"), path("link")).unwrap();
            assert!(check(&path("a"), &path("link/b")).is_err());
        }
    }
}
