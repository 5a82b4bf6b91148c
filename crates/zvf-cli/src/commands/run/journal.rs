//! The steps that were done: a line of JSON for each, in a file next to the recipe.
//!
//! ```text
//! {"key", "name", "outputs": {path: identity}, "origin": {path: token}}
//! ```
//!
//! The key of a step is a hash of its command line and of its inputs: the identity of existing files (size and
//! modification time of a file, or of every file of a folder), and the key of the step that made them where one did. A
//! step is done when its key is in the journal and its outputs are unchanged since the last step that wrote them. An
//! unfinished line of a killed run is skipped.
//!
//! A step that changes a store in place changes its own input: its line keeps as `origin` the identity of the store
//! before the first such step, so that the same chain of steps is found again.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::time::UNIX_EPOCH;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::outcome::refuse;

/// A step that was done.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) name: String,
    pub(super) outputs: BTreeMap<String, String>,
    pub(super) origin: BTreeMap<String, String>,
}

/// The lines of the journal, and the file to add to.
#[derive(Debug)]
pub(super) struct Journal {
    file: Option<File>,
    entries: Vec<Entry>,
}

impl Journal {
    /// Opens the journal at `path` for a run and locks it.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let place = || format!("cannot open {}", path.display());
        let mut options = OpenOptions::new();
        let mut file =
            options.read(true).append(true).create(true).open(path).with_context(place)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                return refuse(
                    "another run of this recipe is in progress; wait for it, or give --journal",
                );
            }
            Err(fs::TryLockError::Error(error)) => return Err(error).with_context(place),
        }
        let entries = read(&mut file).with_context(place)?;
        Ok(Self { file: Some(file), entries })
    }

    /// Reads the journal at `path`, if it exists, without locking it.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let place = || format!("cannot read {}", path.display());
        let entries = match File::open(path) {
            Ok(mut file) => read(&mut file).with_context(place)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error).with_context(place),
        };
        Ok(Self { file: None, entries })
    }

    /// Returns the last entry with this key.
    pub(super) fn find(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().rev().find(|entry| entry.key == key)
    }

    /// Returns the entry whose output at `path` has this identity.
    pub(super) fn find_output(&self, path: &str, identity: &str) -> Option<&Entry> {
        let left =
            |entry: &&Entry| entry.outputs.get(path).is_some_and(|recorded| recorded == identity);
        self.entries.iter().rev().find(left)
    }

    /// Adds a step that is done, and flushes the file.
    pub(super) fn push(&mut self, entry: Entry) -> io::Result<()> {
        if let Some(file) = &mut self.file {
            let line = serde_json::to_string(&entry)?;
            // Begins on a new line, whatever a killed run left.
            file.write_all(format!("\n{line}\n").as_bytes())?;
            file.sync_data()?;
        }
        self.entries.push(entry);
        Ok(())
    }
}

fn read(file: &mut File) -> io::Result<Vec<Entry>> {
    let mut bytes = Vec::new();
    file.take(MAX_JOURNAL_BYTES).read_to_end(&mut bytes)?;
    let lines = bytes.split(|byte| *byte == b'\n');
    Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
}

/// Returns the identity of a file or folder: size and modification time, of all files in it; `None` where nothing
/// exists. Outputs behind URLs are not looked at.
pub(super) fn identify(address: &str) -> io::Result<Option<String>> {
    if address.contains("://") {
        return Ok(Some(String::new()));
    }
    let path = Path::new(address);
    let about = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        about => about?,
    };
    if !about.is_dir() {
        return Ok(Some(stamp(&about)));
    }
    let mut hash = Sha256::new();
    let mut open = vec![path.to_owned()];
    while let Some(folder) = open.pop() {
        let mut names = Vec::new();
        for entry in fs::read_dir(&folder)? {
            names.push(entry?.path());
        }
        names.sort();
        for name in names {
            let about = fs::symlink_metadata(&name)?;
            let below = name.strip_prefix(path).unwrap_or(&name);
            hash.update(below.as_os_str().as_encoded_bytes());
            hash.update([0]);
            if about.is_dir() {
                open.push(name);
            } else {
                hash.update(stamp(&about).as_bytes());
                hash.update([0]);
            }
        }
    }
    Ok(Some(format!("folder {}", to_hex(&hash.finalize()))))
}

fn stamp(about: &fs::Metadata) -> String {
    // A clock before 1970 is accepted: the times are only compared.
    let changed = about.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let changed = changed.map_or_else(|| "unknown".to_owned(), |time| time.as_nanos().to_string());
    format!("{} bytes, changed {changed}", about.len())
}

/// Returns the hash of texts, each with its length before it.
pub(super) fn hash_all<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(text.len().to_string().as_bytes());
        hash.update(b":");
        hash.update(text.as_bytes());
    }
    to_hex(&hash.finalize())
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const MAX_JOURNAL_BYTES: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_a_journal_skips_torn_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let entry = |key: &str| Entry {
            key: key.to_owned(),
            name: "a step".to_owned(),
            outputs: [("out".to_owned(), format!("{key} bytes"))].into(),
            origin: BTreeMap::new(),
        };
        let mut journal = Journal::open(&path).unwrap();
        assert!(Journal::open(&path).unwrap_err().to_string().contains("in progress"));
        journal.push(entry("1")).unwrap();
        drop(journal);
        let torn = b"{\"key\": \"2\", \"outp";
        OpenOptions::new().append(true).open(&path).unwrap().write_all(torn).unwrap();
        let mut journal = Journal::open(&path).unwrap();
        journal.push(entry("3")).unwrap();
        drop(journal);
        let journal = Journal::read(&path).unwrap();
        assert_eq!(journal.entries.len(), 2);
        assert!(journal.find("2").is_none() && journal.find("3").is_some());
        assert_eq!(journal.find_output("out", "1 bytes").unwrap().key, "1");
    }

    #[test]
    fn a_changed_file_changes_the_identity_of_its_folder() {
        let dir = tempfile::tempdir().unwrap();
        let identity = || identify(dir.path().to_str().unwrap()).unwrap();
        fs::create_dir(dir.path().join("deep")).unwrap();
        let empty = identity();
        fs::write(dir.path().join("deep/a"), "1").unwrap();
        let with_file = identity();
        assert_ne!(empty, with_file);
        assert_eq!(with_file, identity());
        fs::write(dir.path().join("deep/a"), "12").unwrap();
        assert_ne!(with_file, identity());
        fs::remove_dir_all(dir.path()).unwrap();
        assert_eq!(identity(), None);
    }

    #[test]
    fn hashes_depend_on_the_boundaries_of_texts() {
        assert_ne!(hash_all(["ab", "c"]), hash_all(["a", "bc"]));
    }
}
