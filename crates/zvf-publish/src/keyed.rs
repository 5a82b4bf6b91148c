//! The files of one folder by key: read and replaced as a whole, or created only if absent.
//!
//! ```text
//! put       temp in the same folder, or above a missing one -> write -> permissions of the file it replaces -> sync
//!           -> missing folders -> rename
//! create    the same, but the rename fails where the name is taken
//! ```
//!
//! Names of temporary files begin with `.tmp-`: no list shows them. Folders are synced once for a batch, by
//! [`KeyedFolder::sync_folders`].
//!
//! The caller decides on the meaning of keys, and on which changes belong together.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use bytes::Bytes;

use crate::disk::{Disk, found_below, untaken};
use crate::permissions;

/// A folder whose files are read and replaced by key, with `/` between names.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use zvf_publish::{Disk, KeyedFolder};
///
/// let folder = KeyedFolder::new(Disk::default(), dir.path().join("a"));
/// assert!(folder.create("log/1", b"one".as_slice().into())?);
/// assert!(!folder.create("log/1", b"two".as_slice().into())?);
/// folder.sync_folders(["log/1"].into_iter())?;
/// assert_eq!(folder.get("log/1")?.as_deref(), Some(b"one".as_slice()));
/// assert_eq!(folder.list("log")?, ["1"]);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct KeyedFolder {
    disk: Disk,
    root: PathBuf,
}

impl KeyedFolder {
    /// Creates a view of the folder `root`, which need not exist.
    pub const fn new(disk: Disk, root: PathBuf) -> Self {
        Self { disk, root }
    }

    /// Returns its path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the disk that it changes.
    pub const fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Returns the path of a file.
    pub fn path(&self, key: &str) -> PathBuf {
        self.root.join(key)
    }

    /// Reads all of a file; `None` if there is no file.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn get(&self, key: &str) -> io::Result<Option<Bytes>> {
        Ok(found_below(fs::read(self.path(key)))?.map(Bytes::from))
    }

    /// Returns whether a file or a folder of that name exists.
    ///
    /// # Errors
    ///
    /// When the system refuses to say.
    pub fn exists(&self, key: &str) -> io::Result<bool> {
        Ok(found_below(fs::metadata(self.path(key)))?.is_some())
    }

    /// Lists the names in a folder, without temporary files; none when there is no such folder.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn list(&self, key: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in found_below(fs::read_dir(self.path(key)))?.into_iter().flatten() {
            match entry?.file_name().into_string() {
                Ok(name) if !name.starts_with(TEMP) => names.push(name),
                Ok(_) | Err(_) => {} // of a writer under way, or foreign
            }
        }
        names.sort();
        Ok(names)
    }

    /// Lists every file below a folder, as keys.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn walk(&self, key: &str) -> io::Result<Vec<String>> {
        let mut found = Vec::new();
        let mut folders = vec![key.to_owned()];
        while let Some(folder) = folders.pop() {
            for name in self.list(&folder)? {
                let inner = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                let list = if self.path(&inner).is_dir() { &mut folders } else { &mut found };
                list.push(inner);
            }
        }
        found.sort();
        Ok(found)
    }

    /// Lists the temporary files below the folder, with their lengths and modification times: those of running writers,
    /// and those of writers that died.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn list_temporary(&self) -> io::Result<Vec<(PathBuf, u64, SystemTime)>> {
        let mut found = Vec::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in found_below(fs::read_dir(&folder))?.into_iter().flatten() {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    folders.push(entry.path());
                } else if entry.file_name().to_str().is_some_and(is_temporary)
                    && let Some(about) = found_below(entry.metadata())?
                {
                    found.push((entry.path(), about.len(), about.modified()?));
                }
            }
        }
        Ok(found)
    }

    /// Replaces or creates a file. Its bytes are synced before it is renamed.
    ///
    /// # Errors
    ///
    /// When the system refuses; the old file then still exists.
    pub fn put(&self, key: &str, bytes: Bytes) -> io::Result<()> {
        let prepared = self.prepare(key, bytes)?;
        self.disk.sync_file(&prepared.temp)?;
        prepared.put()
    }

    /// Writes a file for a key without renaming it. Dropped before that, it leaves nothing.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn prepare(&self, key: &str, bytes: Bytes) -> io::Result<PreparedFile> {
        self.prepare_parts(key, &[bytes])
    }

    fn prepare_parts(&self, key: &str, parts: &[Bytes]) -> io::Result<PreparedFile> {
        let path = self.path(key);
        // Folders are created when the file is renamed, so that an abandoned file leaves none.
        let mut parent = path.parent().unwrap_or(&self.root);
        while parent != self.root && !parent.exists() {
            parent = parent.parent().unwrap_or(&self.root);
        }
        let temp = loop {
            let temp = parent.join(temporary_name());
            let made = untaken(self.disk.create(&temp, parts));
            // A taken name belongs to another writer, on this or another machine.
            if made.inspect_err(|_first| drop(fs::remove_file(&temp)))?.is_some() {
                break temp;
            }
        };
        let prepared = PreparedFile { folder: self.clone(), key: key.to_owned(), temp };
        permissions::copy_node(&path, &prepared.temp)?;
        Ok(prepared)
    }

    /// Replaces or creates files: all are written, then all synced, then all renamed.
    ///
    /// # Errors
    ///
    /// When the system refuses. Before the first rename, all old files exist.
    pub fn put_all(&self, files: &[(&str, Bytes)]) -> io::Result<()> {
        let prepared = files.iter().map(|(key, bytes)| self.prepare(key, bytes.clone()));
        let prepared = prepared.collect::<io::Result<Vec<PreparedFile>>>()?;
        let temps: Vec<&Path> = prepared.iter().map(|file| file.temp.as_path()).collect();
        self.disk.sync_each(&temps, &[])?;
        prepared.into_iter().try_for_each(PreparedFile::put)
    }

    /// Creates a file if absent; returns false when it exists. Its bytes are synced before it is renamed.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn create(&self, key: &str, bytes: Bytes) -> io::Result<bool> {
        let prepared = self.prepare(key, bytes)?;
        self.disk.sync_file(&prepared.temp)?;
        prepared.create()
    }

    /// Creates a file without syncing: losing it does no harm.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn mark(&self, key: &str, bytes: Bytes) -> io::Result<()> {
        self.mark_parts(key, &[bytes])
    }

    pub(crate) fn mark_parts(&self, key: &str, parts: &[Bytes]) -> io::Result<()> {
        self.prepare_parts(key, parts)?.put()
    }

    /// Removes a file, if it exists. Empty folders above it are removed too, except the root, even
    /// if the file was removed before.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn delete(&self, key: &str) -> io::Result<()> {
        let mut folder = key;
        if found_below(self.disk.remove(&self.path(key)))?.is_some() {
            while let Some((above, _)) = folder.rsplit_once('/')
                && fs::remove_dir(self.path(above)).is_ok()
            {
                folder = above; // it was empty
            }
        }
        Ok(())
    }

    /// Lists the folders below the root that hold no file, with their modification times: inner ones
    /// before outer ones. Killed writers left them; `remove_dir` removes those that are still empty.
    ///
    /// # Errors
    ///
    /// When the system refuses to list one.
    pub fn list_empty_folders(&self) -> io::Result<Vec<(PathBuf, SystemTime)>> {
        // Each with its parent folder; one that contains a file has no time.
        let mut folders = vec![(self.root.clone(), 0, None)];
        for at in 0.. {
            let Some((folder, ..)) = folders.get(at).cloned() else { break };
            for entry in found_below(fs::read_dir(&folder))?.into_iter().flatten() {
                let entry = entry?;
                match found_below(entry.metadata())? {
                    Some(about) if about.is_dir() => {
                        folders.push((entry.path(), at, Some(about.modified()?)));
                    }
                    Some(_file) => folders[at].2 = None,
                    None => {}
                }
            }
        }
        let mut empty = Vec::new();
        while let Some((folder, above, modified)) = folders.pop() {
            match (modified, folders.get_mut(above)) {
                (Some(modified), _) => empty.push((folder, modified)),
                (None, Some(above)) => above.2 = None,
                (None, None) => {} // the root
            }
        }
        Ok(empty)
    }

    /// Removes a folder with its contents.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn delete_folder(&self, key: &str) -> io::Result<()> {
        found_below(self.disk.remove_all(&self.path(key))).map(drop)
    }

    /// Waits until the names in the folders of `keys`, and those of the folders themselves and of
    /// the root, would survive a power failure. Existing folders may come from a process that died
    /// before its sync.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn sync_folders<'a>(&self, keys: impl Iterator<Item = &'a str>) -> io::Result<()> {
        self.sync(&[], &[], keys)
    }

    /// Syncs folders as [`sync_folders`](Self::sync_folders) does, and the bytes of prepared and other files.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn sync<'a>(
        &self,
        prepared: &[&PreparedFile],
        files: &[&Path],
        keys: impl Iterator<Item = &'a str>,
    ) -> io::Result<()> {
        let mut folders: BTreeSet<PathBuf> = BTreeSet::new();
        for key in keys {
            let mut folder = self.path(key);
            while folder.pop() && folder.starts_with(&self.root) && folders.insert(folder.clone()) {
            }
        }
        let above = self.root.parent().filter(|above| !above.as_os_str().is_empty());
        folders.insert(above.unwrap_or(Path::new(".")).to_owned());
        let temps = prepared.iter().map(|file| file.temp.as_path());
        let files: Vec<&Path> = temps.chain(files.iter().copied()).collect();
        self.disk.sync_each(&files, &folders.iter().map(PathBuf::as_path).collect::<Vec<_>>())
    }
}

/// A file that is written and not yet renamed.
#[derive(Debug)]
pub struct PreparedFile {
    folder: KeyedFolder,
    key: String,
    temp: PathBuf,
}

impl PreparedFile {
    /// Returns its key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Renames it, over an existing file too. It must have been synced.
    ///
    /// # Errors
    ///
    /// When the system refuses; `NotFound` when it was removed meanwhile.
    pub fn put(self) -> io::Result<()> {
        self.folder.disk.rename(&self.temp, &self.make_folder()?)
    }

    /// Renames it if the name is free; returns false otherwise. It must have been synced.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn create(self) -> io::Result<bool> {
        Ok(untaken(self.folder.disk.rename_new(&self.temp, &self.make_folder()?))?.is_some())
    }

    /// Creates the missing folders above its path, and returns the path.
    fn make_folder(&self) -> io::Result<PathBuf> {
        let path = self.folder.path(&self.key);
        if let Some(parent) = path.parent().filter(|parent| !parent.exists()) {
            self.folder.disk.make_dirs(parent)?;
        }
        Ok(path)
    }
}

impl Drop for PreparedFile {
    fn drop(&mut self) {
        // Nothing is there once it was renamed. A remaining file is garbage that no list returns.
        let _ = self.folder.disk.remove(&self.temp);
    }
}

/// Returns whether a name is that of a temporary file of [`KeyedFolder`]: a process and a number.
fn is_temporary(name: &str) -> bool {
    let numbers = name.strip_prefix(TEMP).and_then(|rest| rest.split_once('-'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.is_some_and(|(process, number)| is_number(process) && is_number(number))
}

const TEMP: &str = ".tmp-";

/// Returns a unique name for a temporary file. Process ids are not unique across machines or
/// containers, so a counter with a random start follows.
fn temporary_name() -> String {
    static FIRST: OnceLock<u64> = OnceLock::new();
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let process = std::process::id();
    let first = *FIRST.get_or_init(|| RandomState::new().hash_one(process));
    let number = first.wrapping_add(COUNTER.fetch_add(1, Ordering::Relaxed));
    format!("{TEMP}{process}-{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(temp_dir: &tempfile::TempDir) -> KeyedFolder {
        KeyedFolder::new(Disk::default(), temp_dir.path().join("a"))
    }

    #[test]
    fn replaces_and_removes_files_and_empty_folders() {
        let temp_dir = tempfile::tempdir().unwrap();
        let folder = folder(&temp_dir);
        assert_eq!(folder.get("x/y").unwrap(), None);
        folder.put("x/y", "one".into()).unwrap();
        folder.put_all(&[("x/y", "two".into()), ("x/z/w", "three".into())]).unwrap();
        assert_eq!(folder.walk("").unwrap(), ["x/y", "x/z/w"]);
        assert_eq!(folder.get("x/y").unwrap().unwrap(), "two");
        folder.delete("x/z/w").unwrap();
        folder.delete("x/z/w").unwrap();
        assert!(!folder.exists("x/z").unwrap() && folder.exists("x").unwrap());
        folder.delete_folder("x").unwrap();
        folder.delete_folder("x").unwrap();
        assert_eq!(folder.walk("").unwrap(), Vec::<String>::new());
    }

    #[cfg(unix)]
    #[test]
    fn keeps_the_mode_of_what_it_replaces() {
        use std::os::unix::fs::PermissionsExt as _;
        let temp_dir = tempfile::tempdir().unwrap();
        let folder = folder(&temp_dir);
        folder.put("x", "one".into()).unwrap();
        fs::set_permissions(folder.path("x"), fs::Permissions::from_mode(0o640)).unwrap();
        folder.put("x", "two".into()).unwrap();
        let mode = fs::metadata(folder.path("x")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }

    #[test]
    fn what_is_prepared_has_no_name_until_it_is_put() {
        let temp_dir = tempfile::tempdir().unwrap();
        let folder = folder(&temp_dir);
        fs::create_dir_all(folder.path("x")).unwrap();
        let [first, second] = ["x/1", "x/2"].map(|key| folder.prepare(key, key.into()).unwrap());
        fs::write(folder.path("x/.tmp-foreign"), "").unwrap();
        assert_eq!(folder.walk("").unwrap(), Vec::<String>::new());
        assert_eq!(folder.list_temporary().unwrap().len(), 2);
        folder.sync(&[&first, &second], &[], ["x/1"].into_iter()).unwrap();
        first.put().unwrap();
        assert!(!folder.prepare("x/1", "".into()).unwrap().create().unwrap());
        drop(second);
        assert_eq!(folder.walk("").unwrap(), ["x/1"]);
        assert_eq!(folder.list_temporary().unwrap(), Vec::new());
        let third = folder.prepare("y/z/w", "".into()).unwrap();
        assert!(!folder.exists("y").unwrap(), "it leaves none, whatever happens to its process");
        third.put().unwrap();
        fs::create_dir_all(folder.path("a/b")).unwrap();
        fs::create_dir_all(folder.path("y/v/u")).unwrap();
        let empty = folder.list_empty_folders().unwrap();
        let mut names: Vec<_> = empty.iter().map(|(path, _)| path.clone()).collect();
        names.iter().for_each(|path| fs::remove_dir(path).unwrap());
        names.sort();
        assert_eq!(names, ["a", "a/b", "y/v", "y/v/u"].map(|key| folder.path(key)));
        assert!(!folder.exists("a").unwrap() && folder.exists("y/z/w").unwrap());
        assert_eq!(folder.list_empty_folders().unwrap(), Vec::new());
    }

    #[test]
    fn takes_no_file_of_a_process_with_the_same_number_on_another_machine() {
        let temp_dir = tempfile::tempdir().unwrap();
        let folder = folder(&temp_dir);
        fs::create_dir(folder.root()).unwrap();
        let process = std::process::id();
        let foreign = (0..500).map(|number| folder.path(&format!("{TEMP}{process}-{number}")));
        let foreign: Vec<PathBuf> = foreign.collect();
        foreign.iter().for_each(|path| fs::write(path, "of another").unwrap());
        folder.put("x", "own".into()).unwrap();
        assert!(foreign.iter().all(|path| fs::read(path).unwrap() == b"of another"));
        assert!(is_temporary(&temporary_name()));
        assert_ne!(temporary_name(), temporary_name());
    }

    #[test]
    fn leaves_no_temporary_file_where_it_fails() {
        let temp_dir = tempfile::tempdir().unwrap();
        let folder = folder(&temp_dir);
        folder.put("x/y", "one".into()).unwrap();
        assert!(folder.put("x", "a folder is there".into()).is_err());
        assert!(!folder.create("x/y", "two".into()).unwrap());
        let names: Vec<_> = fs::read_dir(folder.root()).unwrap().flatten().collect();
        assert_eq!(names.len(), 1);
        assert_eq!(fs::read_dir(folder.path("x")).unwrap().count(), 1);
    }
}
