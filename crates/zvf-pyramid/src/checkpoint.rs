//! A checkpoint of the levels of a store, kept until the store is replaced, so that a build reuses
//! the levels that a killed build had finished.
//!
//! ```text
//! PARENT/.NAME.zvf-pyramid/
//!     lock        held by the process that builds; another one at the same time saves nothing
//!     recipe      of what levels are made and how; of any other recipe nothing is taken over
//!     N/...       the files of level N, under second names
//!     N.KIND.pairs    which vertices of that kind stand for which of the level below, where they are linked
//!     N.json      the record of level N: its report, and the length and XXH64 of each of its files
//! ```
//!
//! A process may be killed at any moment, so the folder must prove that it is complete. The record
//! of a level is written last and removed first, and the recipe precedes everything else. A level
//! is reused only when its files are exactly those of its record, byte for byte; otherwise it is
//! discarded and reported. CRC-32C cannot distinguish files: a cell that ends with its own CRC-32C
//! has the same checksum as every such cell of its length.
//!
//! The folder is removed with the build, whether that succeeds or fails: only a killed process
//! leaves it behind. The same recipe produces the same bytes, so the result equals that of a build
//! that was never killed.
//!
//! Not here: scratch of the store that replaces the old one (`zvf_store::Build`).

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use zvf_error::{Error, Result};
use zvf_metadata::LevelDoc as Document;
use zvf_model::{Kind, LevelId, LevelReader};
use zvf_publish::{Disk, FileLock, KeyedFolder, found, hash_file};
use zvf_store::{Build, Store};
use zvf_write::Pairs;

use crate::Options;
use crate::report::{BuiltLevel, LevelReport, OnEvent, PyramidEvent, PyramidNotice};
use crate::root::Root;

/// A level that [`build_in_folder`](crate::build_in_folder) kept, and the folder it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptLevel {
    /// Its number, from 1.
    pub level: u32,
    /// The folder.
    pub folder: PathBuf,
}

/// The folder of saved levels, while a build uses it.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    folder: PathBuf,
    kept_levels: Vec<KeptLevel>, // in folders of their own
    _lock: Option<FileLock>,     // held
}

impl Checkpoint {
    /// Opens the checkpoint of the store at `address`; `None` where another process uses it, or
    /// none is possible.
    pub(crate) async fn open(
        address: &str,
        store: &Store,
        options: &Options,
    ) -> Result<Option<Self>> {
        let Some(folder) = Build::sibling_work_dir(address, FOLDER_SUFFIX)? else {
            return Ok(None);
        };
        let chain = LevelReader::chain(store, LevelId(0)).await?;
        // If nothing can be written, the build reports it.
        let Ok(Some(lock)) = try_lock(&folder) else { return Ok(None) };
        let Ok(source) = fs::canonicalize(address.strip_prefix("file://").unwrap_or(address))
        else {
            return Ok(None);
        };
        let checkpoint = Self { folder, kept_levels: Vec::new(), _lock: Some(lock) };
        let levels = chain.iter().map(|level| source.join(level.level().0.to_string()));
        let recipe = describe_recipe(levels.collect(), store, options);
        let cleaned =
            recipe.and_then(|recipe| checkpoint.remove_outdated(&Disk::default(), &recipe));
        if cleaned.is_err() {
            checkpoint.remove(); // such as that of a packed store, which gets no levels anyway
            return Ok(None);
        }
        Ok(Some(checkpoint))
    }

    /// Uses a folder that no other process uses, and the levels `kept_levels` in other folders.
    pub(crate) fn with_levels(folder: &Path, kept_levels: Vec<KeptLevel>) -> Self {
        Self { folder: folder.to_owned(), kept_levels, _lock: None }
    }

    /// Returns where a level is.
    pub(crate) fn level(&self, level: u32) -> KeptLevel {
        let kept_level = self.kept_levels.iter().find(|kept_level| kept_level.level == level);
        let folder = kept_level.map_or(&self.folder, |kept_level| &kept_level.folder);
        KeptLevel { level, folder: folder.clone() }
    }

    /// Removes the checkpoint, the recipe first: after a kill in between, nothing can be reused.
    pub(crate) fn remove(self) {
        if remove(&self.folder.join(RECIPE)).is_ok() {
            // Files that cannot be removed now are useless to the next build, which removes them.
            drop(fs::remove_dir_all(&self.folder));
        }
    }

    /// Removes everything that another recipe saved, and stores this recipe.
    fn remove_outdated(&self, disk: &Disk, recipe: &str) -> std::io::Result<()> {
        let recipe_path = self.folder.join(RECIPE);
        if fs::read(&recipe_path).is_ok_and(|text| text == recipe.as_bytes()) {
            return Ok(());
        }
        disk.remove(&recipe_path)?;
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                disk.remove_all(&entry.path())?;
            } else if entry.file_name() != LOCK {
                disk.remove(&entry.path())?;
            }
        }
        // Ensures that after a power loss no level of another recipe reappears beside this recipe.
        disk.sync_dir(&self.folder)?;
        write(disk, &self.folder, RECIPE, recipe)
    }
}

impl KeptLevel {
    /// Returns whether the folder still holds the level exactly as it was built.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn is_whole(&self) -> Result<bool> {
        Ok(matches!(self.read_saved().map_err(Error::scratch)?, Saved::Sound(_)))
    }

    /// Returns whether the store at `address` holds this level: every file of it except documents,
    /// which later levels change.
    ///
    /// # Errors
    ///
    /// When one of them cannot be read.
    pub fn is_in(&self, address: &str) -> Result<bool> {
        let store = Path::new(address.strip_prefix("file://").unwrap_or(address));
        let (files, below) =
            (self.hash_files().map_err(Error::scratch)?, format!("{}/", self.level));
        let is_cell = |name: &str| name.starts_with(&below) && !name.ends_with(DOCUMENT);
        let mut is_there = !files.is_empty();
        for (name, sum) in files.iter().filter(|(name, _)| is_cell(name)) {
            let stored = found(hash_file(&store.join(name))).map_err(Error::scratch)?;
            is_there &= stored == Some(*sum);
        }
        Ok(is_there)
    }

    /// Returns the level if its files match its record; otherwise removes and reports it.
    pub(crate) async fn take(
        &self,
        build: &Build,
        (kinds, linked): (&[Kind], bool),
        on_event: &mut OnEvent<'_>,
    ) -> Result<Option<BuiltLevel>> {
        let (level, folder) = (self.level, self.path());
        let report = match self.read_saved().map_err(Error::scratch)? {
            Saved::Sound(report) => report,
            saved @ (Saved::Damaged | Saved::Nothing) => {
                self.remove().map_err(Error::scratch)?;
                if matches!(saved, Saved::Damaged) {
                    on_event(PyramidEvent::Notice(PyramidNotice::Discarded { level }));
                }
                return Ok(None);
            }
        };
        let (mut documents, mut parents) = (Vec::new(), Vec::new());
        for (at, kind) in kinds.iter().enumerate() {
            let kind_folder = if at == 0 { folder.clone() } else { folder.join(kind.token()) };
            let text = fs::read(kind_folder.join(DOCUMENT)).map_err(Error::scratch)?;
            documents.push(Document::parse(&text)?);
            if linked {
                parents.push((*kind, Pairs::open(&self.pairs_path(*kind))?));
            }
        }
        build.hard_link_from(&folder, &level.to_string()).await?;
        Ok(Some(BuiltLevel { report, documents, parents, rebuilt: Vec::new() }))
    }

    /// Saves the level, which is written.
    pub(crate) async fn put(&self, build: &Build, made: &BuiltLevel) -> Result<()> {
        for (kind, parents) in &made.parents {
            parents.save(&self.pairs_path(*kind))?;
        }
        build.hard_link_to(&self.level.to_string(), &self.path()).await?;
        let record = || {
            let (report, files) = (made.report.clone(), self.hash_files()?);
            let kinds = report.kinds.clone();
            let record = serde_json::to_string(&LevelRecord { report, kinds, files })?;
            write(&Disk::default(), &self.folder, &format!("{}.json", self.level), &record)
        };
        record().map_err(Error::scratch)
    }

    /// Reads the record of the level and compares its files with it.
    fn read_saved(&self) -> std::io::Result<Saved> {
        let text = found(fs::read(self.file_path("json")))?;
        let Some(text) = text else { return Ok(Saved::Nothing) };
        Ok(match serde_json::from_slice::<LevelRecord>(&text) {
            Ok(record) if self.hash_files()? == record.files => {
                Saved::Sound(LevelReport { kinds: record.kinds, ..record.report })
            }
            Ok(_) | Err(_) => Saved::Damaged,
        })
    }

    /// Returns the names of the files of the level in its folder, without its record.
    pub(crate) fn file_names(&self) -> std::io::Result<Vec<String>> {
        let folder = KeyedFolder::new(Disk::default(), self.folder.clone());
        let mut names = folder.walk(&self.level.to_string())?;
        let pairs = Kind::ALL.iter().map(|kind| format!("{}.{kind}.pairs", self.level));
        names.extend(pairs.filter(|name| folder.path(name).exists()));
        Ok(names)
    }

    /// Returns the length and XXH64 of each file of the level, by its name in the folder.
    fn hash_files(&self) -> std::io::Result<BTreeMap<String, (u64, u64)>> {
        let hash = |name: String| Ok((name.clone(), hash_file(&self.folder.join(name))?));
        self.file_names()?.into_iter().map(hash).collect()
    }

    /// Removes the files of the level, its record first.
    pub(crate) fn remove(&self) -> std::io::Result<()> {
        remove(&self.file_path("json"))?;
        remove(&self.path())?;
        Kind::ALL.iter().try_for_each(|kind| remove(&self.pairs_path(*kind)))
    }

    fn pairs_path(&self, kind: Kind) -> PathBuf {
        self.file_path(&format!("{kind}.pairs"))
    }

    fn file_path(&self, what: &str) -> PathBuf {
        self.folder.join(format!("{}.{what}", self.level))
    }

    /// Returns the folder of its arrays.
    fn path(&self) -> PathBuf {
        self.folder.join(self.level.to_string())
    }
}

/// Writes a file atomically.
///
/// Its name is not synced, nor are the files of a level before its record: if a power loss removes
/// them, the level is rebuilt, because it is reused only when every file matches the record.
fn write(disk: &Disk, folder: &Path, name: &str, text: &str) -> std::io::Result<()> {
    KeyedFolder::new(disk.clone(), folder.to_owned()).put(name, text.to_owned().into())
}

/// The state of a saved level.
enum Saved {
    Nothing,
    Damaged,
    Sound(LevelReport),
}

/// The record of a level.
#[derive(Serialize, Deserialize)]
struct LevelRecord {
    report: LevelReport, // without those of its kinds
    kinds: Vec<(Kind, LevelReport)>,
    files: BTreeMap<String, (u64, u64)>, // length and XXH64
}

/// Takes the lock of the folder; `None` where another process holds it, or there are no locks.
fn try_lock(folder: &Path) -> std::io::Result<Option<FileLock>> {
    fs::create_dir_all(folder)?;
    let lock = FileLock::try_acquire(&Disk::default(), &folder.join(LOCK))?;
    Ok(lock.filter(|lock| !lock.is_by_file()))
}

/// Serializes the options, and a hash of the root and of every file of the levels that level 0
/// shows, by name, size and modification time.
fn describe_recipe(
    mut folders: Vec<PathBuf>,
    store: &Store,
    options: &Options,
) -> std::io::Result<String> {
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let about = entry.metadata()?;
            if about.is_dir() {
                folders.push(entry.path());
            } else {
                files.push((entry.path(), about.len(), about.modified()?));
            }
        }
    }
    files.sort();
    let mut root = Root::from_store(store); // without the metadata of other levels
    root.without_links();
    let mut sum = DefaultHasher::new();
    (files, root.finish().print()).hash(&mut sum);
    let (version, files) = (env!("CARGO_PKG_VERSION"), sum.finish());
    Ok(format!("{version}\n{}\n{files:016x}\n", serde_json::to_string(options)?))
}

fn remove(path: &Path) -> std::io::Result<()> {
    found(if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }).map(drop)
}

const FOLDER_SUFFIX: &str = "pyramid";
const LOCK: &str = "lock";
const RECIPE: &str = "recipe";
pub(crate) const DOCUMENT: &str = "zarr.json";

#[cfg(test)]
mod tests {
    use zvf_publish::Call;

    use super::*;

    #[test]
    fn levels_of_another_recipe_do_not_come_back_after_a_loss_of_power() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().to_owned();
        let checkpoint = Checkpoint::with_levels(&folder, Vec::new());
        for name in [RECIPE, "1.json", LOCK] {
            fs::write(folder.join(name), "old").unwrap();
        }
        fs::create_dir(folder.join("1")).unwrap();
        let disk = Disk::with_recording();
        checkpoint.remove_outdated(&disk, "new").unwrap();
        let calls = disk.calls();
        let synced = calls.iter().position(|call| *call == Call::SyncDir(folder.clone())).unwrap();
        assert_eq!(calls[0], Call::Remove(folder.join(RECIPE)));
        let mut removed = calls[1..synced].to_vec();
        removed.sort_by_key(|call| format!("{call:?}"));
        let expected = [Call::Remove(folder.join("1.json")), Call::RemoveAll(folder.join("1"))];
        assert_eq!(removed, expected);
        let recipe = folder.join(RECIPE);
        let renamed = |call: &Call| matches!(call, Call::Rename(_, to) if *to == recipe);
        assert!(calls[synced..].iter().any(renamed), "{calls:?}");
        assert_eq!(fs::read(&recipe).unwrap(), b"new");
        assert_eq!(fs::read(folder.join(LOCK)).unwrap(), b"old");
        let idle_disk = Disk::with_recording();
        checkpoint.remove_outdated(&idle_disk, "new").unwrap();
        assert_eq!(idle_disk.calls(), []);
    }
}
