//! Lists and removes everything that commands may leave beside or in a store.
//!
//! ```text
//! .NAME.zvf-build-ID, .NAME.zvf-new-ID, .NAME.zvf-lock    what was being made, and the lock     crate zvf_publish
//! .NAME.zvf-ingest                                        a plan and what its tasks left        goes on
//! .NAME.zvf-pyramid                                       levels that were made                 goes on
//! .zvf-owner-ID                                          an owner file without a name yet      crate zvf_publish
//! .tmp-*, .zvf-*.tmp                                      files of earlier versions, here and in the store
//! *.ID.partial                                            files of zarr-vectors, in the store
//! ```
//!
//! Items in use stay. Items that another command can resume from stay as well, unless everything is
//! removed.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use zvf_publish::{Disk, FileLock, hidden_sibling, is_new_owner_in_use, resolve_target};
use zvf_store::{Build, is_partial_file};
use zvf_write::TaskPlan;

use crate::Error;

/// One leftover.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leftover {
    /// Its path.
    pub path: PathBuf,
    /// Whether it may be removed.
    pub state: Status,
}

zvf_format::vocabulary! {
    /// Whether a leftover may be removed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Status {
        /// Nobody needs it.
        Unused => "unused",
        /// The command that created it can resume from it.
        Resumable => "resumable",
        /// A running command uses it, or may use it.
        InUse => "in use",
    }
    /// Returns the word for it in a message.
    fn name;
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.state {
            Status::Unused => write!(f, "{path} was left by a killed command and is not needed"),
            Status::Resumable => write!(
                f,
                "{path} is an unfinished build: run the same command again to continue, or remove \
                 the folder"
            ),
            Status::InUse => write!(f, "{path} is used by a running command"),
        }
    }
}

/// Lists leftovers beside and in the store at `address`. Nothing is changed; empty for a URL.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("zvf-clean-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// use zvf_jobs::clean::{Status, list, remove};
///
/// let scratch = dir.join(".a.zarrvectors.zvf-build-0123456789abcdef");
/// std::fs::create_dir(&scratch)?;
/// let store = dir.join("a.zarrvectors").to_str().unwrap().to_owned();
/// assert_eq!(list(&store)?[0].state, Status::Unused);
/// assert_eq!(remove(&store, false)?.len(), 1);
/// assert!(list(&store)?.is_empty() && !scratch.exists());
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// When `address` is invalid, or a folder cannot be listed.
pub fn list(address: &str) -> Result<Vec<Leftover>, Error> {
    let mut found = Vec::new();
    if let Some(target) = target_of(address)? {
        if let Some(parent) = target.parent() {
            list_owners(parent, &mut found).map_err(to_store_error)?;
            list_old(parent, false, &mut found).map_err(to_store_error)?;
        }
        let mut journal = target.clone().into_os_string();
        journal.push(".zvf");
        list_owners(Path::new(&journal), &mut found).map_err(to_store_error)?;
        if target.is_dir() {
            list_old(&target, true, &mut found).map_err(to_store_error)?;
        }
    }
    // Last: a command may take what it can continue while a large store is listed.
    found.extend(list_beside(address)?);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Lists leftovers of this version beside the store at `address`, without looking into the store.
///
/// # Errors
///
/// As [`list`].
pub fn list_beside(address: &str) -> Result<Vec<Leftover>, Error> {
    let mut found = Vec::new();
    for leftover in Build::list_leftovers(address)? {
        let state = if leftover.in_use { Status::InUse } else { Status::Unused };
        found.push(Leftover { path: leftover.path, state });
    }
    for (word, locks) in [(INGEST, &["lock", "in-use"][..]), (PYRAMID, &["lock"][..])] {
        let Some(folder) = Build::sibling_work_dir(address, word)?.filter(|folder| folder.is_dir())
        else {
            continue;
        };
        let held = |name: &&str| FileLock::is_held(&Disk::default(), &folder.join(name));
        let state = if locks.iter().any(held) {
            Status::InUse
        } else if word == INGEST
            && (matches!(TaskPlan::read(&folder), Ok(None))
                || Build::is_built_in(address, &folder)?)
        {
            Status::Unused
        } else {
            Status::Resumable
        };
        found.push(Leftover { path: folder, state });
    }
    Ok(found)
}

/// Removes unneeded items, and with `all` also those that a command could resume from; returns the
/// removed ones.
///
/// # Errors
///
/// When `address` is invalid, or something can be neither listed nor removed.
pub fn remove(address: &str, all: bool) -> Result<Vec<Leftover>, Error> {
    remove_found(address, list(address)?, all)
}

/// Removes unneeded items beside the store at `address`; returns the removed ones.
///
/// # Errors
///
/// As [`remove`].
pub fn remove_beside(address: &str) -> Result<Vec<Leftover>, Error> {
    remove_found(address, list_beside(address)?, false)
}

fn remove_found(address: &str, found: Vec<Leftover>, all: bool) -> Result<Vec<Leftover>, Error> {
    let Some(target) = target_of(address)? else { return Ok(Vec::new()) };
    Build::remove_leftovers(address)?;
    for leftover in &found {
        let goes = leftover.state == Status::Unused || (all && leftover.state == Status::Resumable);
        if goes && leftover.path.exists() {
            remove_one(&target, &leftover.path).map_err(to_store_error)?;
        }
    }
    let is_removed =
        |leftover: &Leftover| leftover.state != Status::InUse && !leftover.path.exists();
    Ok(found.into_iter().filter(is_removed).collect())
}

/// Returns the local folder that `address` names.
fn target_of(address: &str) -> Result<Option<PathBuf>, Error> {
    // A name beside it exists only if there is a parent folder.
    if Build::sibling_work_dir(address, PYRAMID)?.is_none() {
        return Ok(None);
    }
    let path = address.strip_prefix("file://").unwrap_or(address);
    Ok(Some(resolve_target(Path::new(path)).map_err(to_store_error)?))
}

/// Removes `path`. A folder that a command could resume from is renamed first, so that a
/// half-removed one is never mistaken for a complete one.
fn remove_one(target: &Path, path: &Path) -> io::Result<()> {
    if !path.is_dir() {
        return fs::remove_file(path);
    }
    let scratch = hidden_sibling(target, &format!("build-clean-{}", std::process::id()));
    let scratch = scratch.unwrap_or_else(|| path.to_owned());
    fs::rename(path, &scratch)?;
    fs::remove_dir_all(scratch)
}

/// Lists temporary files of earlier versions and of zarr-vectors, which had no locks: those that
/// were not modified for a day.
fn list_old(folder: &Path, inside: bool, found: &mut Vec<Leftover>) -> io::Result<()> {
    for entry in zvf_publish::found(fs::read_dir(folder))?.into_iter().flatten() {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type()?;
        if inside && kind.is_dir() {
            list_old(&entry.path(), true, found)?;
        } else if kind.is_file() && is_old_name(&name, inside) {
            found.push(Leftover { path: entry.path(), state: state_by_age(&entry)? });
        }
    }
    Ok(())
}

/// Lists owner files of locks that did not get their name, here and among the files of a journal.
/// Those whose owner is unknown go by their age.
fn list_owners(folder: &Path, found: &mut Vec<Leftover>) -> io::Result<()> {
    for entry in zvf_publish::found(fs::read_dir(folder))?.into_iter().flatten() {
        let entry = entry?;
        match is_new_owner_in_use(&entry.path()) {
            None => {}
            Some(false) => found.push(Leftover { path: entry.path(), state: Status::Unused }),
            Some(true) => {
                found.push(Leftover { path: entry.path(), state: state_by_age(&entry)? });
            }
        }
    }
    Ok(())
}

fn state_by_age(entry: &fs::DirEntry) -> io::Result<Status> {
    let age = SystemTime::now().duration_since(entry.metadata()?.modified()?);
    Ok(if age.is_ok_and(|age| age > GRACE) { Status::Unused } else { Status::InUse })
}

fn is_old_name(name: &str, inside: bool) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let temporary = name.strip_prefix(".tmp-");
    let numbered = temporary.and_then(|rest| rest.split_once('-'));
    let packed = numbered.is_some_and(|(process, number)| is_number(process) && is_number(number));
    let answered = name.strip_prefix(".zvf-").is_some_and(|rest| rest.ends_with(".tmp"));
    if inside { temporary.is_some() || is_partial_file(name) } else { packed || answered }
}

fn to_store_error(error: io::Error) -> Error {
    Error::io("write", error)
}

const INGEST: &str = "ingest";
const PYRAMID: &str = "pyramid";
/// Younger files are never assumed to belong to a dead process.
const GRACE: Duration = Duration::from_secs(24 * 60 * 60);

#[cfg(all(test, unix))]
mod tests {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    use std::ops::ControlFlow;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;
    use crate::create::Recipe;
    use crate::ingest::{Ingest, PlannedIngest, folder, remove_finished};

    #[test]
    fn each_name_has_its_state() {
        let folder = std::env::temp_dir().join(format!("zvf-clean-names-{}", std::process::id()));
        let folder = {
            fs::create_dir_all(&folder).unwrap();
            folder.canonicalize().unwrap()
        };
        let ago = SystemTime::now() - Duration::from_secs(2 * 24 * 60 * 60);
        #[rustfmt::skip]
        let table = [
            (".a.zvf-build-1/lock",    false, Some((".a.zvf-build-1", Status::Unused))),
            (".a.zvf-new-1",           false, Some((".a.zvf-new-1", Status::Unused))),
            (".a.zvf-lock",            false, Some((".a.zvf-lock", Status::Unused))),
            (".a.zvf-ingest/plan.json", false, Some((".a.zvf-ingest", Status::Resumable))),
            (".a.zvf-pyramid/recipe",  false, Some((".a.zvf-pyramid", Status::Resumable))),
            (".tmp-17-0",              true,  Some((".tmp-17-0", Status::Unused))),
            (".tmp-18-0",              false, Some((".tmp-18-0", Status::InUse))),
            (".tmp-mine",              true,  None),
            (".zvf-x7.tmp",            true,  Some((".zvf-x7.tmp", Status::Unused))),
            (".zvf-owner-1",           false, Some((".zvf-owner-1", Status::Unused))),
            (".zvf-owner-2",           false, Some((".zvf-owner-2", Status::InUse))),
            (".zvf-owner-3",           true,  Some((".zvf-owner-3", Status::Unused))),
            ("a.zvf/.zvf-owner-4",     false, Some(("a.zvf/.zvf-owner-4", Status::Unused))),
            ("a.zvf/.tmp-1-1",         true,  None),
            ("a/0/.tmp-repair-1",      true,  Some(("a/0/.tmp-repair-1", Status::Unused))),
            ("a/0/c/0.0123456789abcdef0123456789abcdef.partial", true,
                Some(("a/0/c/0.0123456789abcdef0123456789abcdef.partial", Status::Unused))),
            ("a/0/zarr.json",          true,  None),
            ("a.zvf/repair-1/x",       true,  None),
            (".b.zvf-build-1/lock",    true,  None),
        ];
        for (name, old, _) in table {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let file = fs::File::create(&path).unwrap();
            if let Some(process) = Some(name).filter(|name| name.contains("owner")) {
                // Process 1 has another start; this process writes the second one, nobody the
                // third.
                let process = match process.ends_with('2') {
                    true => std::process::id(),
                    false => 1,
                };
                let read = |path: &str| fs::read_to_string(path).unwrap().trim().to_owned();
                let machine = read("/proc/sys/kernel/hostname");
                let boot = read("/proc/sys/kernel/random/boot_id");
                let space = fs::read_link("/proc/self/ns/pid").unwrap();
                let stat = read("/proc/self/stat");
                let start = match process {
                    1 => "1",
                    _ => stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap(),
                };
                let record =
                    format!("{machine}\n{boot}\n{}\n{process}\n{start}\n", space.display());
                let whole = if name.ends_with('3') { 0 } else { record.len() };
                fs::write(&path, &record[..whole]).unwrap();
            }
            if old {
                file.set_modified(ago).unwrap();
            }
        }
        let address = folder.join("a").to_str().unwrap().to_owned();
        let mut expected: Vec<_> = table.iter().filter_map(|(.., state)| *state).collect();
        expected.sort_by_key(|(name, _)| folder.join(name));
        let found = list(&address).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|leftover| {
                let path = leftover.path.strip_prefix(&folder).unwrap();
                (path.to_str().unwrap(), leftover.state)
            })
            .collect();
        assert_eq!(found, expected);
        assert_eq!(remove(&address, false).unwrap().len(), 10);
        let left: Vec<Status> =
            list(&address).unwrap().iter().map(|leftover| leftover.state).collect();
        assert_eq!(left, [Status::Resumable, Status::Resumable, Status::InUse, Status::InUse]);
        assert_eq!(remove(&address, true).unwrap().len(), 2);
        assert!(folder.join("a/0/zarr.json").exists() && folder.join("a.zvf/repair-1/x").exists());
        fs::remove_dir_all(&folder).unwrap();
    }

    /// The identity of a store that publishing records: the inode of its folder, and a checksum of
    /// its root document.
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
        let goes_on = Leftover { path: work.clone(), state: Status::Resumable };
        assert_eq!(list_beside(&store).unwrap(), std::slice::from_ref(&goes_on));
        assert!(goes_on.to_string().ends_with("or remove the folder"));
        assert!(remove_beside(&store).unwrap().is_empty());

        let ingest = Ingest::open(&store, &work, recipe.write.clone()).unwrap();
        for task in ingest.tasks().all() {
            ingest.run(task, go).await.unwrap();
        }
        // The state after a kill right after publishing.
        let plan = fs::read(work.join("plan.json")).unwrap();
        ingest.finish().await.unwrap().unwrap();
        let published = identity(&store);
        fs::create_dir_all(work.join("done")).unwrap();
        fs::write(work.join("plan.json"), plan).unwrap();
        fs::write(work.join("store.id"), &published).unwrap();
        fs::create_dir(temp_folder.join(".a.zarrvectors.zvf-build-1")).unwrap();
        let left = list_beside(&store).unwrap();
        assert_eq!(left.iter().map(|left| left.state).collect::<Vec<_>>(), [Status::Unused; 2]);
        let held = fs::File::create(work.join("lock")).unwrap();
        held.lock().unwrap();
        let left = list_beside(&store).unwrap();
        let unused = left.iter().filter(|left| left.state == Status::Unused);
        assert_eq!(unused.count(), 1, "somebody is at work");
        drop(held);
        assert_eq!(remove_beside(&store).unwrap().len(), 2);
        // The state after a kill that follows the removal of the plan.
        assert!(!remove_finished(&store, &work).unwrap());
        fs::create_dir(&work).unwrap();
        assert!(!remove_finished(&store, &work).unwrap());
        fs::write(work.join("store.id"), &published).unwrap();
        assert!(remove_finished(&store, &work).unwrap());
        assert_eq!(fs::read_dir(&temp_folder).unwrap().count(), 2, "the file and the store");
        fs::remove_dir_all(&temp_folder).unwrap();
    }
}
