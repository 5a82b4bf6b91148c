//! Stores from the archives in `testdata/zvf`: in a directory, or in memory. Missing or broken
//! archives panic.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use object_store::memory::InMemory;
use object_store::{ObjectStoreExt as _, PutPayload};
use serde_json::Value;
use tempfile::TempDir;
use zvf_store::{OpenOptions, Store};

/// Files by their names.
pub type Files = Vec<(String, Vec<u8>)>;

/// Returns the folder of archives.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/zvf")
}

/// Returns a JSON document of that folder.
pub fn json(name: &str) -> Value {
    serde_json::from_slice(&fs::read(folder().join(name)).unwrap()).unwrap()
}

/// Returns the names of all stores that are not broken.
pub fn ids() -> Vec<String> {
    let mut ids: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(".tar.zst").map(str::to_owned)
        })
        .collect();
    ids.sort();
    ids
}

/// Copies a folder with all that is below it.
///
/// # Errors
///
/// When a file cannot be read or written.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (entry, to) = entry.map(|entry| (entry.path(), to.join(entry.file_name())))?;
        if entry.is_dir() {
            copy(&entry, &to)?;
        } else {
            fs::copy(entry, to)?;
        }
    }
    Ok(())
}

/// Returns the files of a store, by their path below its root. Each archive is read once per
/// process.
pub fn files(id: &str) -> Files {
    static READ: Mutex<BTreeMap<String, Files>> = Mutex::new(BTreeMap::new());
    let mut read_before = READ.lock().unwrap_or_else(PoisonError::into_inner);
    let files = read_before.entry(id.to_owned());
    files.or_insert_with(|| read(&folder().join(format!("{id}.tar.zst"))).unwrap()).clone()
}

/// Returns the files of the store `first`, with level 0 of the store `other` added as geometry of
/// `kind`: in a subgroup of the level, with the layout of a level. Its objects, if any, get ids
/// from `first_id` on.
pub fn files_with_extra_kind(first: &str, kind: &str, other: &str, first_id: i64) -> Files {
    let (mut all, mut other) = (files(first), files(other));
    edit_document(&mut all, "zarr.json", |root| {
        let kinds = &mut root["attributes"]["zarr_vectors"]["geometry_types"];
        kinds.as_array_mut().unwrap().push(kind.into());
    });
    let mut level = document(&other, "0/zarr.json");
    let own = document(&other, "zarr.json")["attributes"]["zarr_vectors"].take();
    let block = &mut level["attributes"]["zarr_vectors_level"];
    block["links_convention"] = own["links_convention"].clone();
    let index = serde_json::json!({
        "zarr_format": 3, "node_type": "group", "attributes": {kind: {
            "array": format!("{kind}/vertices"), "vertex_count": block["vertex_count"],
            "has_links": false, "group": kind,
        }},
    });
    let ids = "0/object_index/object_ids";
    let array = format!("{ids}/zarr.json");
    if other.iter().any(|(path, _)| *path == array) {
        let count = document(&other, &array)["shape"][0].as_i64().unwrap();
        let numbers = (first_id..first_id + count).flat_map(i64::to_le_bytes).collect();
        put_array(&mut other, ids, "int64", &[usize::try_from(count).unwrap()], numbers);
    }
    for (path, bytes) in other {
        if let Some(below) = path.strip_prefix("0/").filter(|below| *below != "zarr.json") {
            all.push((format!("0/{kind}/{below}"), bytes));
        }
    }
    all.push((format!("0/{kind}/zarr.json"), level.to_string().into_bytes()));
    all.push(("0/geometry_index/zarr.json".to_owned(), index.to_string().into_bytes()));
    all
}

fn document(files: &[(String, Vec<u8>)], path: &str) -> Value {
    let (_, bytes) = files.iter().find(|(name, _)| name == path).expect(path);
    serde_json::from_slice(bytes).unwrap()
}

/// Returns the files of the store `id`, with a row outside all fragments at the end of every second
/// chunk, which a vacuum removes. Chunks must be stored without a compressor and without shards.
pub fn files_with_waste(id: &str) -> Files {
    let mut files = files(id);
    let chunks = files.iter().filter_map(|(name, bytes)| {
        let chunk = name.strip_prefix("0/vertices/c/")?;
        Some((chunk.to_owned(), bytes.len() - CELL_HEAD))
    });
    let mut chunks: Vec<(String, usize)> = chunks.collect();
    chunks.sort();
    let array = document(&files, "0/vertices/zarr.json");
    assert_eq!(array["attributes"]["dtype"], "float32");
    let position = 4 * array["shape"].as_array().unwrap().len();
    for (chunk, bytes) in chunks.into_iter().step_by(2) {
        let (rows, end) = (bytes / position, format!("/c/{chunk}"));
        for (name, cell) in &mut files {
            let array = name.strip_suffix(&end).and_then(|name| name.strip_prefix("0/"));
            if array
                .is_some_and(|name| name == "vertices" || name.starts_with("vertex_attributes/"))
            {
                repeat_last_row(cell, rows);
            }
        }
    }
    files
}

/// Repeats the last row of a cell of `rows` rows in the codec `vlen-bytes`, and updates its length.
fn repeat_last_row(cell: &mut Vec<u8>, rows: usize) {
    let bytes = cell.len() - CELL_HEAD;
    assert_eq!(
        cell[..CELL_HEAD],
        [1_u32, u32::try_from(bytes).unwrap()].map(u32::to_le_bytes).concat()
    );
    let row = bytes / rows;
    cell.extend_from_within(cell.len() - row..);
    cell[4..CELL_HEAD].copy_from_slice(&u32::try_from(bytes + row).unwrap().to_le_bytes());
}

const CELL_HEAD: usize = 8;

/// Returns the input of the store, by name: arrays of NumPy and JSON.
pub fn inputs(id: &str) -> Files {
    let archive = folder().join(format!("{id}.tar.zst"));
    read_below(&archive, |folder| folder == "input").unwrap()
}

/// Returns the files of the store in any archive, by their path below the root of the store.
///
/// # Errors
///
/// When the archive cannot be read, or is invalid.
pub fn read(archive: &Path) -> io::Result<Files> {
    read_below(archive, |folder| folder.ends_with(".zarrvectors"))
}

/// Returns the root document of a store without the mark of its journal, and the other files.
pub fn without_journal_mark(
    mut files: BTreeMap<String, Vec<u8>>,
) -> (Value, BTreeMap<String, Vec<u8>>) {
    let root = files.remove("zarr.json").unwrap();
    let mut root: Value = serde_json::from_slice(&root).unwrap();
    let attributes = root["attributes"].as_object_mut().unwrap();
    if let Some(extension) = attributes.get_mut("zvf").and_then(Value::as_object_mut) {
        extension.remove("journal");
        extension.remove("next_id");
        if extension.is_empty() {
            attributes.remove("zvf");
        }
    }
    (root, files)
}

/// Returns the files below a local folder, by their relative path.
pub fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                found.insert(name, fs::read(path).unwrap());
            }
        }
    }
    found
}

/// Returns the files of an archive below a folder, by their relative path.
fn read_below(archive: &Path, is_selected: impl Fn(&str) -> bool) -> io::Result<Files> {
    let mut archive = tar::Archive::new(zstd::Decoder::new(File::open(archive)?)?);
    let mut files = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.to_string_lossy().into_owned();
        let Some((folder, path)) = path.split_once('/') else { continue };
        if is_selected(folder) && entry.header().entry_type().is_file() {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            files.push((path.to_owned(), bytes));
        }
    }
    Ok(files)
}

/// Unpacks a whole archive into `folder`.
pub fn unpack(archive: &Path, folder: &Path) {
    let archive = zstd::Decoder::new(File::open(archive).unwrap()).unwrap();
    tar::Archive::new(archive).unpack(folder).unwrap();
}

/// Returns a temporary directory; in memory if possible, since a store consists of many small
/// files, which are slow on disks. The environment may name another place.
pub fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    let dir = match env::var_os("TMPDIR") {
        None if memory.is_dir() => TempDir::new_in(memory).or_else(|_| TempDir::new()),
        _ => TempDir::new(),
    };
    dir.unwrap()
}

/// A store in a temporary directory, with its sibling files.
#[derive(Debug)]
pub struct Unpacked {
    path: PathBuf,
    _dir: TempDir,
}

impl Unpacked {
    /// Unpacks the archived store `id`.
    pub fn new(id: &str) -> Self {
        let name = id.rsplit('/').next().unwrap_or(id);
        Self::with_name(name, &files(id))
    }

    /// Writes a store with these files.
    pub fn from_files(files: &[(String, Vec<u8>)]) -> Self {
        Self::with_name("store", files)
    }

    fn with_name(name: &str, files: &[(String, Vec<u8>)]) -> Self {
        let dir = scratch();
        let path = dir.path().join(format!("{name}.zarrvectors"));
        write(&path, files);
        Self { path, _dir: dir }
    }

    /// Returns the path of the store.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the store as a local one.
    pub async fn open(&self) -> Store {
        open(&self.path).await
    }
}

/// Opens the store in the folder `path` as a local one.
pub async fn open(path: &Path) -> Store {
    Store::open(path.to_str().unwrap(), OpenOptions::default()).await.unwrap()
}

/// Unpacks the archived store `id` to a folder below `folder`, which stays for later tests:
/// unpacking takes longer than most tests.
///
/// The folder is named after the contents of the archive, and is renamed when it is complete.
pub fn unpack_cached(folder: &Path, id: &str) -> PathBuf {
    let archive = fs::read(self::folder().join(format!("{id}.tar.zst"))).unwrap();
    let name = id.replace('/', "-");
    let mut digest = DefaultHasher::new();
    digest.write(&archive);
    let path = folder.join(format!("{name}-{:016x}", digest.finish()));
    if !path.exists() {
        fs::create_dir_all(folder).unwrap();
        let new = TempDir::new_in(folder).unwrap();
        write(new.path(), &files(id));
        // Another test may have been faster; then this copy is removed.
        let _faster = fs::rename(new.path(), &path);
    }
    path
}

/// Changes the JSON document under `path`, which must be among the files.
pub fn edit_document(files: &mut [(String, Vec<u8>)], path: &str, change: impl FnOnce(&mut Value)) {
    let (_, bytes) = files.iter_mut().find(|(name, _)| name == path).expect(path);
    let mut document = serde_json::from_slice(bytes).unwrap();
    change(&mut document);
    *bytes = serde_json::to_vec(&document).unwrap();
}

/// Puts an array of numbers in a single chunk under `path`, in place of what is there.
pub fn put_array(files: &mut Files, path: &str, dtype: &str, shape: &[usize], bytes: Vec<u8>) {
    files.retain(|(name, _)| !name.starts_with(&format!("{path}/")));
    let document = serde_json::json!({"zarr_format": 3, "node_type": "array", "shape": shape, "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0, "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "attributes": {}, "storage_transformers": []});
    files.push((format!("{path}/zarr.json"), document.to_string().into_bytes()));
    files.push((format!("{path}/c/{}", vec!["0"; shape.len()].join("/")), bytes));
}

/// Writes files below a folder.
pub fn write(folder: &Path, files: &[(String, Vec<u8>)]) {
    let mut made = BTreeSet::new();
    for (path, bytes) in files {
        let path = folder.join(path);
        let parent = path.parent().unwrap();
        if made.insert(parent.to_owned()) {
            fs::create_dir_all(parent).unwrap();
        }
        fs::write(path, bytes).unwrap();
    }
}

/// Returns a store in memory.
pub async fn in_memory(files: &[(String, Vec<u8>)]) -> Arc<InMemory> {
    let memory = Arc::new(InMemory::new());
    for (path, bytes) in files {
        memory.put(&path.as_str().into(), PutPayload::from(bytes.clone())).await.unwrap();
    }
    memory
}

/// Leaves the last commit to a local store half applied, as after the kill of its writer: every
/// second changed file is as in `before`, including the root, and the mark `done/<seq>` is missing.
pub fn unapply_half(store: &Path, before: &BTreeMap<String, Vec<u8>>) {
    let after = tree(store);
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let changed = names.into_iter().rev().filter(|name| before.get(*name) != after.get(*name));
    for name in changed.step_by(2) {
        match before.get(name) {
            Some(bytes) => write(store, &[(name.clone(), bytes.clone())]),
            None => fs::remove_file(store.join(name)).unwrap(),
        }
    }
    let mut journal = store.as_os_str().to_owned();
    journal.push(".zvf/done");
    let done = tree(Path::new(&journal)).into_keys().next_back().unwrap();
    fs::remove_file(Path::new(&journal).join(done)).unwrap();
}

/// Compares the sorted lines with the file `name` of `testdata/surface`, or writes it if
/// `ZVF_REWRITE` is set. Lines that only a build with more features has end in ` (more)` there.
pub fn check_surface(name: &str, mut lines: Vec<String>, has_more: bool) {
    lines.sort();
    lines.dedup();
    let path = folder().join("../surface").join(name);
    let kept = fs::read_to_string(&path).unwrap();
    let (more, plain): (Vec<&str>, Vec<&str>) = kept.lines().partition(|l| l.ends_with(MORE));
    let more: Vec<&str> = more.iter().filter_map(|line| line.strip_suffix(MORE)).collect();
    if env::var_os("ZVF_REWRITE").is_some() {
        let is_more = |line: &str| has_more && !plain.contains(&line);
        let mut written: Vec<String> = lines.clone();
        written.iter_mut().filter(|line| is_more(line)).for_each(|line| line.push_str(MORE));
        if !has_more {
            written.extend(more.iter().map(|line| format!("{line}{MORE}")));
            written.sort();
        }
        return fs::write(&path, written.join("\n") + "\n").unwrap();
    }
    let expected: Vec<&str> =
        plain.into_iter().chain(more.into_iter().filter(|_| has_more)).collect();
    let gone: Vec<&&str> =
        expected.iter().filter(|kept| !lines.iter().any(|l| l == *kept)).collect();
    let new: Vec<&String> =
        lines.iter().filter(|line| !expected.contains(&line.as_str())).collect();
    assert!(
        gone.is_empty() && new.is_empty(),
        "testdata/surface/{name}: gone {gone:#?}, new {new:#?}; `ZVF_REWRITE=1` writes it"
    );
}

const MORE: &str = " (more)";
