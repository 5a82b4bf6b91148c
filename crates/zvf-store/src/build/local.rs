//! A store in a local directory as `zvf_publish` sees it: a folder that is identified by its root
//! document.
//!
//! Not here: how folders appear under their names atomically (`zvf_publish`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::Class;
use zvf_metadata::Node;
use zvf_publish::{SharedStagingDir, StagingDir, StagingOptions, TargetLock, count_records, found};

use super::BuildOptions;
use crate::docs::DOCUMENT;
use crate::error::WithOp as _;
use crate::key::Key;

/// Returns the publishing options of a build.
fn staging_options(options: &BuildOptions) -> StagingOptions {
    StagingOptions {
        is_store: options.is_store,
        replace: options.replace,
        adds: options.adds,
        sync: options.sync,
        gate: options.gate.clone(),
        find_foreign,
        ..StagingOptions::new(DOCUMENT)
    }
}

/// Creates a staging directory beside the store at `target`, after removing leftovers of dead
/// builds.
pub(super) fn begin(target: &Path, options: &BuildOptions) -> Result<StagingDir> {
    let lock = match &options.lock {
        Some(lock) if lock.is_of(target) => lock.clone(),
        _ => TargetLock::acquire(&options.disk, target)?,
    };
    let staging = staging_options(options);
    check_target(lock.target(), &staging)?;
    Ok(StagingDir::begin(lock, staging)?)
}

/// Joins the build of the store at `target` in the folder `work`.
pub(super) fn join(target: &Path, work: &Path, options: &BuildOptions) -> Result<SharedStagingDir> {
    let staging = staging_options(options);
    let check = staging.clone();
    SharedStagingDir::join(target, work, options.disk.clone(), staging, |target| {
        check_target(target, &check)
    })
}

/// Refuses a name that is taken, a store with a journal, and the journal of a deleted store.
fn check_target(target: &Path, options: &StagingOptions) -> Result<()> {
    options.check_target(target)?;
    if count_records(target).with_op("write")? == 0 {
        return Ok(());
    }
    let (class, what, expected) = match target.join(DOCUMENT).is_file() {
        true => (
            Class::InvalidArgument,
            "store to replace",
            "one without a journal: write to another name, or move NAME.zvf away to give up its history",
        ),
        false => (
            Class::AlreadyExists,
            "store",
            "a name without the journal of a store that is gone: take another name, or move NAME.zvf away",
        ),
    };
    let error = Error::new(class, what, expected, "NAME.zvf beside it");
    Err(error)
}

/// Copies the documents of the store that `staging` is added to, except the root document and those
/// in or below a node for which `leave` is true. Returns their keys and texts.
pub(super) fn copy_documents(
    staging: &StagingDir,
    leave: &dyn Fn(&Key) -> bool,
) -> Result<Vec<(Key, Bytes)>> {
    let mut documents = Vec::new();
    walk_nodes(staging.lock().target(), &mut |node, folder| {
        if node.is_root() {
            return Ok(true);
        }
        if leave(node) {
            return Ok(false);
        }
        let key = node.child(DOCUMENT)?;
        let text = found(fs::read(folder.join(DOCUMENT)));
        let Some(text) = text.with_op("read").at_key(&key)? else {
            return Ok(true);
        };
        let text = Bytes::from(text);
        staging.put(key.as_str(), std::slice::from_ref(&text))?;
        let is_array = matches!(Node::parse(&text), Ok(Node::Array(_)));
        documents.push((key, text));
        Ok(!is_array)
    })?;
    Ok(documents)
}

/// Walks the folders of the nodes of a store. `visit` gets the key and the folder of each, and
/// returns whether nodes may lie below it: below an array, there are only cells.
pub(super) fn walk_nodes(
    store: &Path,
    visit: &mut dyn FnMut(&Key, &Path) -> Result<bool>,
) -> Result<()> {
    let mut nodes = vec![Key::root()];
    while let Some(node) = nodes.pop() {
        let folder = store.join(node.as_str());
        if !visit(&node, &folder)? {
            continue;
        }
        for entry in fs::read_dir(&folder).with_op("list")? {
            let entry = entry.with_op("list")?;
            // A name that is not a key is not a node: it is a foreign file.
            if entry.path().is_dir()
                && let Ok(key) = node.child(&entry.file_name().to_string_lossy())
            {
                nodes.push(key);
            }
        }
    }
    Ok(())
}

/// Returns the keys of these paths.
pub(super) fn keys(paths: Vec<String>) -> Result<Vec<Key>> {
    paths.iter().map(|path| Key::parse(path)).collect()
}

/// Returns the files in the folder of a store that belong to no node. Everything below an array
/// counts as a chunk.
fn find_foreign(store: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut folders, mut foreign) = (vec![PathBuf::new()], Vec::new());
    while let Some(folder) = folders.pop() {
        let document = found(fs::read(store.join(&folder).join(DOCUMENT)))?;
        if document.as_deref().is_some_and(|text| matches!(Node::parse(text), Ok(Node::Array(_)))) {
            continue;
        }
        // Groups of old versions have no documents: a folder is a group if there is a document
        // below it.
        let is_group = document.is_some() || has_document_below(&store.join(&folder))?;
        for entry in fs::read_dir(store.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if store.join(&path).is_dir() {
                folders.push(path);
            } else if !(is_group && is_own_name(&entry.file_name().to_string_lossy())) {
                foreign.push(path);
            }
        }
    }
    foreign.sort();
    Ok(foreign)
}

/// Returns whether files of a group can have this name: documents of any version, and leftovers of
/// an interrupted write.
fn is_own_name(name: &str) -> bool {
    name == DOCUMENT
        || matches!(name, ".zattrs" | ".zgroup" | ".zmetadata")
        || name.starts_with(".tmp-")
}

fn has_document_below(folder: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && (path.join(DOCUMENT).is_file() || has_document_below(&path)?) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_files_are_distinguished_from_those_of_the_store() {
        let dir = tempfile::tempdir().unwrap();
        let group = r#"{"zarr_format":3,"node_type":"group","attributes":{}}"#;
        let array = include_str!("../../testdata/three.zarrvectors/0/vertices/zarr.json");
        #[rustfmt::skip]
        let files = [
            ("zarr.json", group), ("notes.txt", ""), (".zattrs", ""), ("0/zarr.json", group), ("0/.tmp-repair-1", ""),
            ("0/letter", ""), ("0/vertices/zarr.json", array), ("0/vertices/c/0/0/0", ""), ("1/old/zarr.json", array),
            ("1/old/0.0", ""), ("backup/a/b.txt", ""),
        ];
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let foreign = find_foreign(dir.path()).unwrap();
        assert_eq!(foreign, ["0/letter", "backup/a/b.txt", "notes.txt"].map(PathBuf::from));
    }
}
