//! What was made of the levels of a store, put aside until the store is replaced: what a killed build had
//! made, the next one does not make again.
//!
//! ```text
//! PARENT/.NAME.zvf-pyramid/
//!     lock        held by the process that builds; another one at the same time puts nothing aside
//!     recipe      of what levels are made and how; of any other recipe nothing is taken over
//!     N/...       the files of level N, under second names
//!     N.KIND.pairs    which vertices of that kind stand for which of the level below, where they are linked
//!     N.json      what was told of it: written last, so that without it there is no level
//! ```
//!
//! The folder goes with the build, whether that is done or fails: only a process that is killed leaves it.
//! The same recipe makes the same bytes, so what comes out is as if nobody had been killed.
//!
//! Not here: scratch of the store that replaces the old one (`zvf_store::Build`).

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Value as Json, json};
use zvf_metadata::Level as Document;
use zvf_model::{Kind, Level, LevelReader};
use zvf_store::{Build, Store};
use zvf_write::{Pairs, WriteError};

use crate::making::MadeLevel;
use crate::report::LevelReport;
use crate::root::Root;
use crate::{Options, PyramidError};

/// The folder, while a build uses it.
#[derive(Debug)]
pub(crate) struct Aside {
    folder: PathBuf,
    _lock: File, // held
}

impl Aside {
    /// That of the store at `address`, with what can be taken over; `None` where another process uses it, or
    /// there can be none.
    pub(crate) async fn open(
        address: &str,
        store: &Store,
        options: &Options,
    ) -> Result<Option<Self>, PyramidError> {
        let Some(folder) = Build::beside(address, WORD)? else { return Ok(None) };
        let chain = LevelReader::chain(store, Level(0)).await?;
        // Whoever cannot write here is told so by the build.
        let Ok(Some(lock)) = locked(&folder) else { return Ok(None) };
        let Ok(source) = fs::canonicalize(address.strip_prefix("file://").unwrap_or(address))
        else {
            return Ok(None);
        };
        let aside = Self { folder, _lock: lock };
        let levels = chain.iter().map(|level| source.join(level.level().0.to_string()));
        let recipe = recipe(levels.collect(), store, options);
        if recipe.and_then(|recipe| aside.settle(&recipe)).is_err() {
            aside.remove(); // such as that of a packed store, which gets no levels anyway
            return Ok(None);
        }
        Ok(Some(aside))
    }

    /// Removes all of it.
    pub(crate) fn remove(self) {
        // What cannot be removed now is of no use to the next build, which removes it.
        drop(fs::remove_dir_all(&self.folder));
    }

    /// Takes over level `level`, where it was made.
    pub(crate) async fn take(
        &self,
        build: &Build,
        level: u32,
        (kinds, linked): (&[Kind], bool),
    ) -> Result<Option<MadeLevel>, PyramidError> {
        let folder = self.folder.join(level.to_string());
        let Some(report) = self.report(level).map_err(WriteError::Scratch)? else {
            self.forget(level).map_err(WriteError::Scratch)?;
            return Ok(None);
        };
        let (mut documents, mut parents) = (Vec::new(), Vec::new());
        for (at, kind) in kinds.iter().enumerate() {
            let own = if at == 0 { folder.clone() } else { folder.join(kind.token()) };
            let text = fs::read(own.join(DOCUMENT)).map_err(WriteError::Scratch)?;
            documents.push(Document::parse(&text)?);
            if linked {
                parents.push((*kind, Pairs::open(&self.pairs(level, *kind))?));
            }
        }
        build.adopt(&folder, &level.to_string()).await?;
        Ok(Some(MadeLevel { report, documents, parents }))
    }

    /// Puts a level aside that is written.
    pub(crate) async fn put(
        &self,
        build: &Build,
        report: &LevelReport,
        parents: &[(Kind, Pairs)],
    ) -> Result<(), PyramidError> {
        let level = report.level;
        for (kind, parents) in parents {
            parents.save(&self.pairs(level, *kind))?;
        }
        build.lend(&level.to_string(), &self.folder.join(level.to_string())).await?;
        let written = self.write(&self.file(level, "json"), &told(report).to_string());
        Ok(written.map_err(WriteError::Scratch)?)
    }

    /// What was told of a level.
    fn report(&self, level: u32) -> std::io::Result<Option<LevelReport>> {
        let text = match fs::read(self.file(level, "json")) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let told: Json = serde_json::from_slice(&text).unwrap_or_default();
        Ok(heard(level, &told))
    }

    /// Removes what is there of another recipe, and of levels that were put aside half.
    fn settle(&self, recipe: &str) -> std::io::Result<()> {
        let known = self.folder.join("recipe");
        if fs::read(&known).is_ok_and(|known| known == recipe.as_bytes()) {
            return Ok(());
        }
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if entry.file_name() != LOCK {
                remove(&entry.path())?;
            }
        }
        self.write(&known, recipe)
    }

    fn forget(&self, level: u32) -> std::io::Result<()> {
        remove(&self.folder.join(level.to_string()))?;
        Kind::ALL.iter().try_for_each(|kind| remove(&self.pairs(level, *kind)))
    }

    fn pairs(&self, level: u32, kind: Kind) -> PathBuf {
        self.file(level, &format!("{kind}.pairs"))
    }

    fn file(&self, level: u32, what: &str) -> PathBuf {
        self.folder.join(format!("{level}.{what}"))
    }

    /// Writes a file whole, or not at all.
    fn write(&self, path: &Path, text: &str) -> std::io::Result<()> {
        let fresh = self.folder.join(".tmp");
        let mut file = File::create(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(fresh, path)
    }
}

/// What is told of a level. Told in bits, an error is the same afterwards.
fn told(report: &LevelReport) -> Json {
    let LevelReport { vertices, objects, elements, bytes, error, kinds, .. } = report;
    let kinds: Vec<Json> =
        kinds.iter().map(|(kind, own)| json!({"kind": kind.token(), "own": told(own)})).collect();
    json!({
        "vertices": vertices,
        "objects": objects,
        "elements": elements,
        "bytes": bytes,
        "error": error.map(f64::to_bits),
        "kinds": kinds,
    })
}

/// The same, heard again.
fn heard(level: u32, told: &Json) -> Option<LevelReport> {
    let number = |name: &str| told.get(name).and_then(Json::as_u64);
    let kind = |one: &Json| {
        let kind = one.get("kind")?.as_str()?.parse::<Kind>().ok()?;
        Some((kind, heard(level, one.get("own")?)?))
    };
    Some(LevelReport {
        level,
        vertices: number("vertices")?,
        objects: number("objects")?,
        elements: number("elements")?,
        bytes: number("bytes")?,
        error: number("error").map(f64::from_bits),
        kinds: told.get("kinds")?.as_array()?.iter().map(kind).collect::<Option<_>>()?,
    })
}

/// The folder's lock, made where there is none; `None` where another process holds it.
fn locked(folder: &Path) -> std::io::Result<Option<File>> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let path = folder.join(LOCK);
    let lock = File::create(&path)?;
    if lock.try_lock().is_err() {
        return Ok(None);
    }
    // It may have been removed between the two calls.
    Ok(path.exists().then_some(lock))
}

/// How levels are made, and what of: the root, and every file of the levels that level 0 shows, by its name,
/// size and age.
fn recipe(mut folders: Vec<PathBuf>, store: &Store, options: &Options) -> std::io::Result<String> {
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let about = entry.metadata()?;
            if about.is_dir() {
                folders.push(entry.path());
            } else {
                let age = about.modified()?.duration_since(SystemTime::UNIX_EPOCH);
                files.push((entry.path(), about.len(), age.unwrap_or_default()));
            }
        }
    }
    files.sort();
    let mut root = Root::of(store); // without what is said of other levels
    root.without_links();
    let mut sum = DefaultHasher::new();
    (files, root.finish().print()).hash(&mut sum);
    let (version, files) = (env!("CARGO_PKG_VERSION"), sum.finish());
    Ok(format!("{version}\n{options:?}\n{files:016x}\n"))
}

fn remove(path: &Path) -> std::io::Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

const WORD: &str = "pyramid";
const LOCK: &str = "lock";
const DOCUMENT: &str = "zarr.json";
