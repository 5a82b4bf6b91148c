//! What commands that were killed left beside a store.
//!
//! ```text
//! .NAME.zvf-build-ID     scratch of a build in one process       its owner is dead: removed
//! .NAME.zvf-ingest       a plan and what its tasks left          of a store that is there: removed
//!                                                                otherwise it goes on: said, and left alone
//! ```
//!
//! The store itself is whole, whatever lies beside it. What a living process holds is not listed.

use std::fmt;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use zvf_store::Build;
use zvf_write::TaskPlan;

use crate::Error;

/// A folder that a killed command left.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("zvf-left-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// let scratch = dir.join(".a.zarrvectors.zvf-build-0123456789abcdef");
/// std::fs::create_dir(&scratch)?;
/// let store = dir.join("a.zarrvectors").to_str().unwrap().to_owned();
/// let left = zvf_jobs::leftovers::list(&store)?;
/// assert_eq!((left.len(), &left[0].folder, left[0].goes_on), (1, &scratch, false));
/// assert_eq!(zvf_jobs::leftovers::clear(&store)?, [scratch]);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuildLeftover {
    /// Where it is.
    pub folder: PathBuf,
    /// Whether it is a build that can go on; otherwise nothing in it is needed.
    pub goes_on: bool,
}

impl fmt::Display for BuildLeftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder = self.folder.display();
        if self.goes_on {
            return write!(
                f,
                "{folder} is a build that was not finished: run the command that began it again, or \
                 remove the folder"
            );
        }
        write!(f, "{folder} was left by a command that was killed, and nothing in it is needed")
    }
}

/// Lists what lies beside the store at `address`. Nothing is changed; nothing lies beside one at a URL.
///
/// # Errors
///
/// When the folder above the store cannot be listed.
pub fn list(address: &str) -> Result<Vec<BuildLeftover>, Error> {
    let scratch = Build::list_abandoned(address)?.into_iter();
    let mut left: Vec<BuildLeftover> =
        scratch.map(|folder| BuildLeftover { folder, goes_on: false }).collect();
    if let Some(folder) = crate::ingest::folder(address)
        && folder.is_dir()
        && !is_alive(&folder)
    {
        let planned = !matches!(TaskPlan::read(&folder), Ok(None));
        let goes_on = planned && !Build::is_built_in(address, &folder)?;
        left.push(BuildLeftover { folder, goes_on });
    }
    Ok(left)
}

/// Removes what is not needed, and tells what that was.
///
/// # Errors
///
/// When the folder above the store cannot be listed, or something in it not be removed.
pub fn clear(address: &str) -> Result<Vec<PathBuf>, Error> {
    let mut removed = Build::remove_leftovers(address)?;
    for left in list(address)?.into_iter().filter(|left| !left.goes_on) {
        TaskPlan::remove(&left.folder)?;
        removed.push(left.folder);
    }
    Ok(removed)
}

/// Returns whether a process is at work in the folder of a plan.
fn is_alive(folder: &Path) -> bool {
    ["lock", "in-use"].iter().any(|name| {
        let lock = File::open(folder.join(name));
        lock.is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
    })
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    use std::ops::ControlFlow;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;
    use crate::create::Recipe;
    use crate::ingest::{Ingest, PlannedIngest, folder, remove_finished};

    /// What publishing writes down of a store: the number of its folder, and a sum of its root document.
    fn identity(store: &str) -> String {
        let mut sum = DefaultHasher::new();
        fs::read(Path::new(store).join("zarr.json")).unwrap().hash(&mut sum);
        format!("{} {:016x}", fs::metadata(store).unwrap().ino(), sum.finish())
    }

    #[tokio::test]
    async fn plans_are_kept_until_their_store_is_there() {
        let temp_folder =
            std::env::temp_dir().join(format!("zvf-left-plans-{}", std::process::id()));
        fs::create_dir_all(&temp_folder).unwrap();
        fs::write(temp_folder.join("a.csv"), "x,y\n1,2\n3,4\n").unwrap();
        let store = temp_folder.join("a.zarrvectors").to_str().unwrap().to_owned();
        let work = folder(&store).unwrap();
        let go = &mut |_, _| ControlFlow::Continue(());
        let mut recipe = Recipe::default();
        recipe.write.build.sync = false;
        let files = [temp_folder.join("a.csv")];
        PlannedIngest::create(&files, &store, &work, &recipe, None, go).await.unwrap();
        let goes_on = BuildLeftover { folder: work.clone(), goes_on: true };
        assert_eq!(list(&store).unwrap(), std::slice::from_ref(&goes_on));
        assert!(goes_on.to_string().ends_with("or remove the folder"));
        assert!(clear(&store).unwrap().is_empty());

        let ingest = Ingest::open(&store, &work, recipe.write.clone()).unwrap();
        for task in ingest.tasks().all() {
            ingest.run(task, go).await.unwrap();
        }
        // What a kill right after publishing leaves.
        let plan = fs::read(work.join("plan.json")).unwrap();
        ingest.finish().await.unwrap().unwrap();
        let published = identity(&store);
        fs::create_dir_all(work.join("done")).unwrap();
        fs::write(work.join("plan.json"), plan).unwrap();
        fs::write(work.join("store.id"), &published).unwrap();
        fs::create_dir(temp_folder.join(".a.zarrvectors.zvf-build-1")).unwrap();
        let left = list(&store).unwrap();
        assert_eq!(left.iter().map(|left| left.goes_on).collect::<Vec<_>>(), [false, false]);
        let held = File::create(work.join("lock")).unwrap();
        held.lock().unwrap();
        assert_eq!(list(&store).unwrap().len(), 1, "somebody is at work");
        drop(held);
        assert_eq!(clear(&store).unwrap().len(), 2);
        // What a kill after the plan was removed leaves.
        assert!(!remove_finished(&store, &work).unwrap());
        fs::create_dir(&work).unwrap();
        assert!(!remove_finished(&store, &work).unwrap());
        fs::write(work.join("store.id"), &published).unwrap();
        assert!(remove_finished(&store, &work).unwrap());
        assert_eq!(fs::read_dir(&temp_folder).unwrap().count(), 2, "the file and the store");
        fs::remove_dir_all(&temp_folder).unwrap();
    }
}
