//! Leftovers of killed commands next to a store.
//!
//! ```text
//! .NAME.zvf-build-ID/lock    free: its build is dead, and all of it is scratch
//! ```
//!
//! Listing changes nothing, so it also works without write permission. The next build under the
//! same name removes the leftovers; commands that read or repair a store may report or remove them.
//!
//! Not here: folders of plans, which outlive every process and belong to the caller.

use std::io;
use std::path::{Path, PathBuf};

use zvf_error::Result;
use zvf_publish::{
    Disk, SharedStagingDir, StagedLeftover, hidden_sibling, list_leftovers, remove_leftovers,
    resolve_target,
};

use super::Build;
use crate::docs::DOCUMENT;
use crate::error::WithOp as _;
use crate::source::Address;

impl Build {
    /// Lists leftovers next to a store at `address`, including those that running processes use.
    /// Empty for a URL.
    ///
    /// # Errors
    ///
    /// When `address` is invalid, or the parent folder cannot be listed.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let address = dir.path().join("a.zv").to_str().unwrap().to_owned();
    /// use zvf_store::Build;
    ///
    /// assert_eq!(Build::list_leftovers(&address)?.len(), 0);
    /// std::fs::create_dir(dir.path().join(".a.zv.zvf-build-0123456789abcdef"))?;
    /// assert!(!Build::list_leftovers(&address)?[0].in_use);
    /// assert_eq!(Build::remove_leftovers(&address)?.len(), 1);
    /// assert_eq!(Build::list_leftovers(&address)?.len(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn list_leftovers(address: &str) -> Result<Vec<StagedLeftover>> {
        let Address::Directory(path) = Address::parse(address)? else { return Ok(Vec::new()) };
        list_leftovers(&Disk::default(), &path).with_op("list")
    }

    /// Returns the work folder of a command next to the store at `address`: `.NAME.zvf-WORD`.
    /// `None` for a URL.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let address = dir.path().join("a.zv").to_str().unwrap().to_owned();
    /// let beside = zvf_store::Build::sibling_work_dir(&address, "work")?.expect("a folder of this machine");
    /// assert!(beside.ends_with(".a.zv.zvf-work"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When `address` is invalid or cannot be examined.
    pub fn sibling_work_dir(address: &str, word: &str) -> Result<Option<PathBuf>> {
        Ok(look(address, |target| Ok(hidden_sibling(target, word)))?.flatten())
    }

    /// Returns whether the store at `address` is the one that was [joined](Self::join) in the
    /// folder `work`, which is then no longer needed. False for a URL, because that would need a
    /// request.
    ///
    /// # Errors
    ///
    /// When `address` is invalid or cannot be examined.
    pub fn is_built_in(address: &str, work: &Path) -> Result<bool> {
        let made = look(address, |target| SharedStagingDir::is_made_in(target, work, DOCUMENT));
        Ok(made? == Some(true))
    }

    /// Returns whether a store at `address` was finished in the folder `work` and has since
    /// disappeared, from there and from `address`: the task data in `work` is then useless. False
    /// for a URL.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let address = dir.path().join("a.zv").to_str().unwrap().to_owned();
    /// let work = dir.path().join("work");
    /// assert!(!zvf_store::Build::is_gone_from(&address, &work)?, "nothing was finished there");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When `address` is invalid or cannot be examined.
    pub fn is_gone_from(address: &str, work: &Path) -> Result<bool> {
        let gone = look(address, |target| SharedStagingDir::is_gone(target, work, DOCUMENT));
        Ok(gone? == Some(true))
    }

    /// Removes the leftovers and returns them; an old store that was left without a name gets its
    /// name back.
    ///
    /// # Errors
    ///
    /// When `address` is invalid, or the parent folder cannot be listed.
    pub fn remove_leftovers(address: &str) -> Result<Vec<PathBuf>> {
        let Address::Directory(path) = Address::parse(address)? else { return Ok(Vec::new()) };
        remove_leftovers(&Disk::default(), &path).with_op("write")
    }
}

/// Looks at the directory of a store; `None` for a URL.
fn look<T>(address: &str, look: impl FnOnce(&Path) -> io::Result<T>) -> Result<Option<T>> {
    let Address::Directory(path) = Address::parse(address)? else { return Ok(None) };
    let seen = resolve_target(&path).and_then(|target| look(&target));
    seen.map(Some).with_op("open")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::BuildOptions;

    #[tokio::test]
    async fn leftovers_are_distinguished_from_live_builds() {
        let dir = tempfile::tempdir().unwrap();
        let address = dir.path().join("a.zv").to_str().unwrap().to_owned();
        let live_build = Build::begin(&address, BuildOptions::default()).await.unwrap();
        let dead_build = dir.path().join(".a.zv.zvf-build-1");
        fs::create_dir_all(dead_build.join("store")).unwrap();
        fs::write(dead_build.join("lock"), "").unwrap();
        fs::create_dir(dir.path().join(".b.zv.zvf-build-1")).unwrap();
        let listed = Build::list_leftovers(&address).unwrap().into_iter();
        let dead: Vec<_> = listed.filter(|found| !found.in_use).map(|found| found.path).collect();
        assert_eq!(dead, std::slice::from_ref(&dead_build));
        assert!(dead_build.exists(), "listing changes nothing");
        assert!(Build::remove_leftovers(&address).unwrap().is_empty(), "one is in use");
        drop(live_build);
        assert_eq!(Build::remove_leftovers(&address).unwrap(), [dead_build]);
        assert!(Build::remove_leftovers(&address).unwrap().is_empty());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "another store's stays");
        assert!(Build::list_leftovers("no/such/folder/a.zv").unwrap().is_empty());
        assert!(Build::list_leftovers("memory:///a.zv").unwrap().is_empty());
        Build::list_leftovers("").unwrap_err();
    }

    #[test]
    fn an_old_store_gets_its_name_back() {
        let dir = tempfile::tempdir().unwrap();
        let old = dir.path().join(".a.zv.zvf-build-1/old");
        fs::create_dir_all(&old).unwrap();
        fs::write(old.join("zarr.json"), "old").unwrap();
        let address = dir.path().join("a.zv");
        Build::remove_leftovers(address.to_str().unwrap()).unwrap();
        assert_eq!(fs::read(address.join("zarr.json")).unwrap(), b"old");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
