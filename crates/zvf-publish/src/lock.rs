//! A lock that the system releases when its process dies.
//!
//! ```text
//! PATH          an exclusive flock, until drop
//! PATH.owner    only where the file system has no locks: created exclusively, it names its owner
//! ```
//!
//! The next process replaces a stale owner file if it is certainly stale: created on the same
//! machine since its last boot, with no process that has its id and start time. It is exchanged
//! atomically with the new one, so that a process that has taken the owner file of a live process
//! by mistake can put it back. If the file system cannot exchange names, the stale file stays.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, found, untaken};
use crate::identity::{node, place};
use crate::name::unique_id;

/// A held lock.
#[derive(Debug)]
#[must_use = "a lock that is not held is released at once"]
pub struct FileLock {
    path: PathBuf,
    held: Held,
    removes: bool,
}

#[derive(Debug)]
enum Held {
    System(File), // closing it releases the lock
    Owner(PathBuf),
}

impl FileLock {
    /// Takes the lock at `path`, in a file that is created if absent; returns `None` while another process holds it.
    ///
    /// # Errors
    ///
    /// When the file cannot be created or opened.
    pub fn try_acquire(disk: &Disk, path: &Path) -> io::Result<Option<Self>> {
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            let file = options.open(path)?;
            let held = match disk.try_lock(&file, false) {
                // A process that found no locks may hold it with an owner file.
                Ok(()) if has_living_owner(path) => return Ok(None),
                Ok(()) => Held::System(file),
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) if is_unsupported(&error) => {
                    let Some(owner) = make_owner(disk, path)? else { return Ok(None) };
                    // A process with locks looks for this file after it has its lock, so that one
                    // of both sees the other.
                    if is_locked_here(&file) {
                        fs::remove_file(owner)?;
                        return Ok(None);
                    }
                    Held::Owner(owner)
                }
                Err(TryLockError::Error(error)) => return Err(error),
            };
            // It may have been removed and created again between the two calls.
            if let Held::System(file) = &held
                && !is_same(file, path)?
            {
                continue;
            }
            return Ok(Some(Self { path: path.to_owned(), held, removes: false }));
        }
    }

    /// Removes the lock file on drop.
    pub fn remove_on_drop(mut self) -> Self {
        self.removes = true;
        self
    }

    /// Returns whether an owner file is used because the file system has no locks.
    pub fn is_by_file(&self) -> bool {
        matches!(self.held, Held::Owner(_))
    }

    /// Returns whether the lock at `path` is held. Nothing is changed.
    pub fn is_held(disk: &Disk, path: &Path) -> bool {
        match File::open(path) {
            Ok(file) => match disk.try_lock(&file, true) {
                Ok(()) => has_living_owner(path),
                Err(TryLockError::WouldBlock) => true,
                Err(TryLockError::Error(error)) if is_unsupported(&error) => {
                    has_living_owner(path) || is_locked_here(&file)
                }
                Err(TryLockError::Error(_)) => true, // unknown
            },
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }
}

/// Returns whether a process may need `path`, under which it writes an owner file before the file
/// gets its name; `None` for other files.
pub fn is_new_owner_in_use(path: &Path) -> Option<bool> {
    let name = path.file_name()?.as_encoded_bytes();
    let is_dead = || fs::read_to_string(path).is_ok_and(|record| is_dead(&record));
    name.starts_with(FRESH_OWNER.as_bytes()).then(|| !is_dead())
}

impl Drop for FileLock {
    fn drop(&mut self) {
        if self.removes {
            // A file that cannot be removed is unlocked when it is closed.
            drop(fs::remove_file(&self.path));
        }
        match &self.held {
            Held::Owner(owner) => drop(fs::remove_file(owner)),
            Held::System(_closed_now) => {}
        }
    }
}

/// Returns whether the file system has no locks.
fn is_unsupported(error: &io::Error) -> bool {
    #[cfg(unix)]
    {
        use rustix::io::Errno;
        let unsupported = [Errno::NOSYS, Errno::NOLCK, Errno::NOTSUP, Errno::OPNOTSUPP];
        if Errno::from_io_error(error).is_some_and(|errno| unsupported.contains(&errno)) {
            return true;
        }
    }
    error.kind() == io::ErrorKind::Unsupported
}

/// Returns whether another process of this machine has a system lock on the file: it may have got
/// one although this process did not, for example if a file server ran out of locks. Only the inode
/// is compared, because the device has several numbers on some file systems.
fn is_locked_here(file: &File) -> bool {
    let locks = match read_locks() {
        Ok(locks) => locks,
        // A list that changes all the time may contain it. Without a list, no other process is
        // known to have locks.
        Err(error) => return error.kind() == io::ErrorKind::TimedOut,
    };
    file.metadata().and_then(|about| place(&about)).is_ok_and(|(_, inode)| {
        let number = format!(":{inode}");
        let is_on_it = |line: &str| line.split_whitespace().any(|word| word.ends_with(&number));
        locks.lines().any(|line| line.contains(" FLOCK ") && is_on_it(line))
    })
}

/// Returns the locks of this machine.
///
/// The system gives them in parts, and leaves one out where another one was released between two
/// parts: they are read until they are the same twice.
///
/// # Errors
///
/// When they cannot be read, or change all the time.
fn read_locks() -> io::Result<String> {
    let mut before = None;
    for _ in 0..LOCK_LIST_TRIES {
        let locks = fs::read_to_string("/proc/locks")?;
        if before.as_ref() == Some(&locks) {
            return Ok(locks);
        }
        before = Some(locks);
    }
    Err(io::ErrorKind::TimedOut.into())
}

fn has_living_owner(path: &Path) -> bool {
    fs::read_to_string(owner_path(path)).is_ok_and(|owner| !is_dead(&owner))
}

/// Creates the owner file of the lock at `path`; returns `None` if its owner may be alive.
fn make_owner(disk: &Disk, path: &Path) -> io::Result<Option<PathBuf>> {
    let owner = owner_path(path);
    for _ in 0..OWNER_TRIES {
        // It is first written under another name, so that it is never read while empty.
        let fresh = write_fresh(path)?;
        let made = match fs::hard_link(&fresh, &owner) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(_no_links) => write_new(&owner),
            Ok(()) => Ok(true),
        };
        drop(fs::remove_file(&fresh));
        if made? {
            return Ok(Some(owner));
        }
        let Some(record) = found(fs::read_to_string(&owner))? else { continue };
        if !is_dead(&record) {
            return Ok(None);
        }
        if let Some(is_ours) = found(replace_dead(disk, path, &owner))? {
            return Ok(is_ours.then_some(owner));
        }
    }
    Ok(None)
}

/// Replaces the owner file of an ended process. Returns `false` if a faster process did, or if
/// names cannot be exchanged.
fn replace_dead(disk: &Disk, path: &Path, owner: &Path) -> io::Result<bool> {
    let fresh = write_fresh(path)?;
    let replace = || -> io::Result<bool> {
        if !disk.exchange(&fresh, owner)? {
            return Ok(false);
        }
        // Whoever removed the record meanwhile found that its process has ended.
        let record = found(fs::read_to_string(&fresh))?;
        let was_dead = record.is_none_or(|record| is_dead(&record));
        if !was_dead {
            disk.exchange(&fresh, owner)?;
        }
        Ok(was_dead)
    };
    let replaced = replace();
    drop(fs::remove_file(&fresh));
    replaced
}

/// Writes the record of this process under a name of its own, next to the lock `path`.
fn write_fresh(path: &Path) -> io::Result<PathBuf> {
    let fresh = path.with_file_name(format!("{FRESH_OWNER}{}", unique_id()));
    fs::write(&fresh, owner_record())?;
    Ok(fresh)
}

/// Creates the owner file without hard links.
fn write_new(owner: &Path) -> io::Result<bool> {
    use std::io::Write as _;
    let Some(mut file) = untaken(File::create_new(owner))? else { return Ok(false) };
    file.write_all(owner_record().as_bytes()).map(|()| true)
}

pub(crate) fn owner_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".owner");
    name.into()
}

/// Returns machine, boot id, process namespace, process id, and start time of the process: one per
/// line.
fn owner_record() -> String {
    let [machine, boot, numbering] = machine();
    let process = std::process::id();
    let start = process_start(process).unwrap_or_default(); // unknown: nobody takes it for ended
    format!("{machine}\n{boot}\n{numbering}\n{process}\n{start}\n")
}

/// Returns whether the process in a record has certainly ended; false if any needed information is
/// unknown.
fn is_dead(record: &str) -> bool {
    let lines: Vec<&str> = record.lines().collect();
    let [machine_name, boot, numbering, process, start] = lines.as_slice() else { return false };
    let [own_machine, own_boot, own_numbering] = machine();
    // Several machines may have the same name, so another boot may belong to another machine.
    if own_boot.is_empty() || *machine_name != own_machine || *boot != own_boot {
        return false;
    }
    if own_numbering.is_empty() || *numbering != own_numbering || start.is_empty() {
        return false;
    }
    let Ok(process) = process.parse::<u32>() else { return false };
    process_start(process).is_ok_and(|found| found != *start)
}

/// Returns the name of this machine, its boot id, and the process namespace; empty if unknown.
fn machine() -> [String; 3] {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let numbering = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    [
        read("/proc/sys/kernel/hostname"),
        read("/proc/sys/kernel/random/boot_id"),
        numbering.to_string_lossy().into_owned(),
    ]
}

/// Returns the start time of a process by the kernel's clock; empty if there is no such process.
///
/// # Errors
///
/// When it cannot be read.
fn process_start(process: u32) -> io::Result<String> {
    let Some(stat) = found(fs::read(format!("/proc/{process}/stat")))? else {
        return Ok(String::new());
    };
    let stat = String::from_utf8_lossy(&stat);
    // The name of the program is in parentheses and may contain anything.
    let after = stat.rsplit_once(')').map(|(_, after)| after);
    let start = after.and_then(|after| after.split_whitespace().nth(FIELD_OF_START));
    Ok(start.ok_or(io::ErrorKind::InvalidData)?.to_owned())
}

pub(crate) fn is_same(file: &File, path: &Path) -> io::Result<bool> {
    let there = found(node(path))?;
    Ok(there == Some(place(&file.metadata()?)?))
}

/// `starttime` in `/proc/PID/stat`, counted from the program name.
const FIELD_OF_START: usize = 19;
/// The name of an owner file that is being written, before an id.
const FRESH_OWNER: &str = ".zvf-owner-";
/// Number of attempts to read the list of locks while it does not change.
const LOCK_LIST_TRIES: usize = 1000;
/// Number of attempts to create an owner file after a stale one was removed.
const OWNER_TRIES: usize = 8;

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn one_holds_it_with_and_without_locks_of_the_system() {
        for disk in [Disk::default(), Disk::default().without_locks()] {
            let temp_dir = tempfile::tempdir().unwrap();
            let path = temp_dir.path().join("lock");
            assert!(!FileLock::is_held(&disk, &path));
            let held = FileLock::try_acquire(&disk, &path).unwrap().unwrap().remove_on_drop();
            assert_eq!(held.is_by_file(), owner_path(&path).exists());
            assert!(FileLock::is_held(&disk, &path));
            assert!(FileLock::try_acquire(&disk, &path).unwrap().is_none());
            drop(held);
            assert_eq!(fs::read_dir(temp_dir.path()).unwrap().count(), 0);
            drop(FileLock::try_acquire(&disk, &path).unwrap().unwrap());
        }
    }

    #[test]
    fn an_owner_file_outlives_its_owner_only_until_the_next() {
        let temp_dir = tempfile::tempdir().unwrap();
        let path = temp_dir.path().join("lock");
        let disk = Disk::default().without_locks();
        let [machine, boot, numbering] = machine();
        #[rustfmt::skip]
        let table = [
            ("a process that is gone",     format!("{machine}\n{boot}\n{numbering}\n1\n1\n"), true),
            ("of another start",           format!("{machine}\nother\n{numbering}\n1\n1\n"), false),
            ("another machine",            format!("other\n{boot}\n{numbering}\n1\n1\n"), false),
            ("another container",          format!("{machine}\n{boot}\nother\n1\n1\n"), false),
            ("in an unknown container",    format!("{machine}\n{boot}\n\n1\n1\n"), false),
            ("with an unknown start",      format!("{machine}\n{boot}\n{numbering}\n1\n\n"), false),
            ("half a record",              machine.clone(), false),
            ("ourselves",                  owner_record(), false),
        ];
        for (what, record, dead) in table {
            fs::write(&path, "").unwrap();
            fs::write(owner_path(&path), record).unwrap();
            assert_eq!(FileLock::is_held(&disk, &path), !dead, "{what}");
            let lock = FileLock::try_acquire(&disk, &path).unwrap();
            assert_eq!(lock.is_some(), dead, "{what}");
        }
    }

    #[test]
    fn the_owner_file_of_a_faster_process_is_put_back() {
        let temp_dir = tempfile::tempdir().unwrap();
        let path = temp_dir.path().join("lock");
        let (disk, owner) = (Disk::default().without_locks(), owner_path(&path));
        // Read as that of a process that has ended, and replaced by a faster one since.
        fs::write(&owner, owner_record()).unwrap();
        assert!(!replace_dead(&disk, &path, &owner).unwrap());
        assert_eq!(fs::read_to_string(&owner).unwrap(), owner_record());
        assert_eq!(fs::read_dir(temp_dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn many_at_once_find_one_owner() {
        let temp_dir = tempfile::tempdir().unwrap();
        let disks = [Disk::default().without_locks(), Disk::default()];
        let [machine, boot, numbering] = machine();
        for round in 0..400 {
            let path = temp_dir.path().join(round.to_string());
            fs::write(owner_path(&path), format!("{machine}\n{boot}\n{numbering}\n1\n1\n"))
                .unwrap();
            // In every second round, half of them have locks: then each may make way for another.
            let disks = disks.iter().take(1 + round % 2).cycle().take(8);
            let held: Vec<FileLock> = std::thread::scope(|scope| {
                let path = &path;
                let take = |disk| FileLock::try_acquire(disk, path).unwrap();
                let threads: Vec<_> = disks.map(|disk| scope.spawn(move || take(disk))).collect();
                threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
            });
            assert!(held.len() == 1 || held.is_empty() && round % 2 == 1, "round {round}");
        }
    }

    #[test]
    fn a_lock_of_the_system_and_an_owner_file_exclude_each_other() {
        let temp_dir = tempfile::tempdir().unwrap();
        let path = temp_dir.path().join("lock");
        let disks = [Disk::default().without_locks(), Disk::default()];
        for [first, second] in [[&disks[0], &disks[1]], [&disks[1], &disks[0]]] {
            let held = FileLock::try_acquire(first, &path).unwrap().unwrap();
            assert!(FileLock::is_held(second, &path));
            assert!(FileLock::try_acquire(second, &path).unwrap().is_none());
            drop(held);
            drop(FileLock::try_acquire(second, &path).unwrap().unwrap());
        }
    }
}
