//! The files of one folder, by key: read whole, replaced whole, created only if absent.
//!
//! ```text
//! put       temp in the same folder -> write -> sync -> mode of the file it replaces -> rename
//! create    the same, but link(2): it fails where the name is taken
//! ```
//!
//! Folders are synced once for a batch, by [`Folder::sync_folders`]. Not here: what the keys mean.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::error::{EditError, Result, io_class};

/// A folder whose files are read and replaced by key.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    root: PathBuf,
}

impl Folder {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn path(&self, key: &str) -> PathBuf {
        self.root.join(key)
    }

    fn fault(key: &str, error: &io::Error) -> EditError {
        EditError::new(io_class(error), format!("{key}: {error}"))
    }

    /// All of a file, or none.
    pub(crate) fn get(&self, key: &str) -> Result<Option<Bytes>> {
        match fs::read(self.path(key)) {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(Self::fault(key, &error)),
        }
    }

    /// Whether there is a file or a folder of that name.
    pub(crate) fn exists(&self, key: &str) -> bool {
        self.path(key).exists()
    }

    /// The names in a folder, but for temporary files; none when there is no such folder.
    pub(crate) fn list(&self, key: &str) -> Result<Vec<String>> {
        let entries = match fs::read_dir(self.path(key)) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            Err(error) => return Err(Self::fault(key, &error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(|error| Self::fault(key, &error))?.file_name();
            match name.into_string() {
                Ok(name) if !name.starts_with(TEMP) => names.push(name),
                Ok(_) | Err(_) => {} // of a writer under way, or foreign
            }
        }
        names.sort();
        Ok(names)
    }

    /// Every file below a folder, as keys.
    pub(crate) fn walk(&self, key: &str) -> Result<Vec<String>> {
        let mut found = Vec::new();
        let mut folders = vec![key.to_owned()];
        while let Some(folder) = folders.pop() {
            for name in self.list(&folder)? {
                let inner = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                match self.path(&inner).is_dir() {
                    true => folders.push(inner),
                    false => found.push(inner),
                }
            }
        }
        found.sort();
        Ok(found)
    }

    fn write_temp(&self, key: &str, bytes: &[u8], durable: bool) -> Result<PathBuf> {
        let path = self.path(key);
        let parent = path.parent().unwrap_or(&self.root);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let temp = parent.join(format!("{TEMP}{}-{number}", std::process::id()));
        let write = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true);
            let mut file = match options.open(&temp) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    fs::create_dir_all(parent)?;
                    options.open(&temp)?
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    // Left by a process of the same number that is no more.
                    fs::remove_file(&temp)?;
                    options.open(&temp)?
                }
                other => other?,
            };
            file.write_all(bytes)?;
            if let Ok(old) = fs::metadata(&path) {
                file.set_permissions(old.permissions())?;
            }
            if durable { file.sync_all() } else { Ok(()) }
        };
        write().map_err(|error| {
            // The first fault is the one to tell; a temporary file that stays is garbage.
            let _ = fs::remove_file(&temp);
            Self::fault(key, &error)
        })?;
        Ok(temp)
    }

    /// Replaces a file, or makes it.
    pub(crate) fn put(&self, key: &str, bytes: &[u8]) -> Result<()> {
        let temp = self.write_temp(key, bytes, true)?;
        fs::rename(&temp, self.path(key)).map_err(|error| Self::fault(key, &error))
    }

    /// Makes or replaces a file that nobody else reads and that need not last.
    pub(crate) fn write(&self, key: &str, bytes: &[u8]) -> Result<()> {
        let path = self.path(key);
        let write = || -> io::Result<()> {
            fs::create_dir_all(path.parent().unwrap_or(&self.root))?;
            fs::write(&path, bytes)
        };
        write().map_err(|error| Self::fault(key, &error))
    }

    /// Makes a file where there is none; false when there is one.
    pub(crate) fn create(&self, key: &str, bytes: &[u8]) -> Result<bool> {
        let temp = self.write_temp(key, bytes, true)?;
        let linked = fs::hard_link(&temp, self.path(key));
        let removed = fs::remove_file(&temp);
        match linked {
            Ok(()) => removed.map(|()| true).map_err(|error| Self::fault(key, &error)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(Self::fault(key, &error)),
        }
    }

    /// Removes a file; one that is not there is no fault. Folders that are empty then go as well, but not the root.
    pub(crate) fn delete(&self, key: &str) -> Result<()> {
        match fs::remove_file(self.path(key)) {
            Ok(()) => {}
            Err(error) if is_absent(&error) => return Ok(()),
            Err(error) => return Err(Self::fault(key, &error)),
        }
        let mut folder = key;
        while let Some((above, _)) = folder.rsplit_once('/') {
            if fs::remove_dir(self.path(above)).is_err() {
                break; // not empty
            }
            folder = above;
        }
        Ok(())
    }

    /// Removes a folder with all that is in it.
    pub(crate) fn delete_folder(&self, key: &str) -> Result<()> {
        match fs::remove_dir_all(self.path(key)) {
            Err(error) if !is_absent(&error) => Err(Self::fault(key, &error)),
            _ => Ok(()),
        }
    }

    /// Makes the names in the folders of `keys` last.
    pub(crate) fn sync_folders<'a>(&self, keys: impl Iterator<Item = &'a str>) -> Result<()> {
        let mut folders: BTreeSet<PathBuf> = BTreeSet::new();
        for key in keys {
            let mut folder = self.path(key);
            while folder.pop() && folder.starts_with(&self.root) && folders.insert(folder.clone()) {
            }
        }
        for folder in folders {
            match File::open(&folder).and_then(|folder| folder.sync_all()) {
                Err(error) if !is_absent(&error) => {
                    return Err(Self::fault(&folder.to_string_lossy(), &error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

const TEMP: &str = ".tmp-";

static COUNTER: AtomicU64 = AtomicU64::new(0);
