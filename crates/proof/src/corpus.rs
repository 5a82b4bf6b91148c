//! A folder of golden stores: an index, an archive for each store, and its expected facts.
//!
//! ```text
//! INDEX.json                the list of stores
//! <id>.tar.zst              the store, and the input of its writer
//! <id>.expected.json        facts
//! broken/FAULTS.json        damaged stores, and the expected outcome of each
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde_json::Value;
use zvf_migrate::{Migration, MigrationPlan};
use zvf_store::{Build, BuildOptions, OpenOptions, Store};

use crate::facts;

/// One golden store.
pub(crate) struct Golden {
    pub(crate) id: String,
    pub(crate) archive: PathBuf,
    /// Whether it was edited after it was written.
    pub(crate) edited: bool,
    /// Facts that zarr-vectors read wrongly, with the text of the index.
    pub(crate) disagreements: Vec<String>,
    pub(crate) expected: Value,
}

/// A damaged store.
pub(crate) struct DamagedStore {
    pub(crate) id: String,
    pub(crate) base: PathBuf,
    pub(crate) archive: PathBuf,
    pub(crate) what: String,
    pub(crate) want: String,
    pub(crate) detect_at: Option<String>,
}

/// Returns every golden store of `folder`, or those with `only` in their names.
pub(crate) fn list_goldens(folder: &Path, only: Option<&str>) -> anyhow::Result<Vec<Golden>> {
    let index = read_json(&folder.join("INDEX.json"))?;
    let stores = index["stores"].as_array().context("INDEX.json lists no stores")?;
    let golden = |entry: &Value| {
        let expected = read_json(&folder.join(to_text(&entry["expected"])))?;
        Ok(Golden {
            id: to_text(&entry["id"]),
            archive: folder.join(to_text(&entry["archive"])),
            edited: facts::texts(&entry["tags"]).any(|tag| tag == "edited"),
            disagreements: facts::texts(&entry["reference_disagreements"]).collect(),
            expected,
        })
    };
    stores.iter().filter(|entry| is_wanted(entry, only)).map(golden).collect()
}

/// Returns every damaged store of `folder`, or those with `only` in their names; empty if the
/// folder has none.
pub(crate) fn list_faults(folder: &Path, only: Option<&str>) -> anyhow::Result<Vec<DamagedStore>> {
    let list = folder.join("broken/FAULTS.json");
    if !list.exists() {
        return Ok(Vec::new());
    }
    let list = read_json(&list)?;
    let fault = |entry: &Value| DamagedStore {
        id: to_text(&entry["id"]),
        base: folder.join(format!("broken/_base_{}.tar.zst", to_text(&entry["base"]))),
        archive: folder.join(to_text(&entry["archive"])),
        what: to_text(&entry["fault"]),
        want: to_text(&entry["want"]),
        detect_at: entry["detect_at"].as_str().map(str::to_owned),
    };
    Ok(facts::list(&list["faults"]).filter(|entry| is_wanted(entry, only)).map(fault).collect())
}

/// Returns whether the store of an entry has `only` in its name.
fn is_wanted(entry: &Value, only: Option<&str>) -> bool {
    only.is_none_or(|only| to_text(&entry["id"]).contains(only))
}

/// Returns the files of an archived store.
pub(crate) fn read_archive(archive: &Path) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    archives::read(archive).with_context(|| format!("cannot unpack {}", archive.display()))
}

/// Opens a store in a local folder.
pub(crate) async fn open(path: &Path) -> zvf_error::Result<Store> {
    Store::open(&path.to_string_lossy(), OpenOptions::default()).await
}

/// Migrates a store into a new one in `folder`.
pub(crate) async fn migrate(old: &Store, folder: &Path) -> anyhow::Result<Store> {
    let path = folder.join("new.zarrvectors");
    let build = Build::begin(&path.to_string_lossy(), unsynced_options()).await?;
    let done = MigrationPlan::build(old).await?.apply(&Migration::default(), build, |_| ()).await?;
    ensure!(done.verified, "the migration did not look at what it wrote");
    Ok(open(&path).await?)
}

pub(crate) fn unsynced_options() -> BuildOptions {
    BuildOptions { sync: false, ..BuildOptions::default() }
}

pub(crate) fn read_json(path: &Path) -> anyhow::Result<Value> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&bytes).with_context(|| format!("{} is not JSON", path.display()))
}

fn to_text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
