//! Edits that are interrupted, raced and refused, and the invariants after them.
//!
//! ```text
//! faults       each request of an edit on an object store fails once, in each way
//! cancel       everything ends after a number of requests, as when the process dies
//! powerloss    every state that a loss of power may leave of an edit in a folder
//! kill         `zvf edit`, `gc`, `undo` and `pyramid --refresh`, killed at any moment
//! diskfull     a disk of every size
//! race         writers that commit at the same time, and the control without conditions
//! doubles      backends that keep less than they promise, and every order of three writers
//! model        random operations against an in-memory model
//! script       a folder of scenarios with their answers
//! ```
//!
//! The oracle is the tree of files: after an interruption, the next writer must find the store before the edit or after
//! it, byte for byte; after it when the edit was acknowledged, before it when it was refused.

pub(crate) mod diskfull;
pub(crate) mod doubles;
pub(crate) mod faults;
pub(crate) mod kill;
pub(crate) mod model;
pub(crate) mod powerloss;
pub(crate) mod race;
pub(crate) mod script;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, ensure};
use archives::faults::{Fault, FaultStore, Request};
use object_store::ObjectStore;
use serde_json::{Value, json};
use zvf_edit::{CommitOptions, EditError, Editor, Place};
use zvf_format::Class;
use zvf_store::{Key, OpenOptions, Store};

use crate::block_on;
use crate::trees::{Tree, find_difference};

/// One store, one edit and its result.
pub(crate) struct Subject {
    pub(crate) id: &'static str,
    /// The store before the edit, after it, and after one more.
    pub(crate) before: Tree,
    pub(crate) after: Tree,
    lines: Vec<Value>,
    more: Vec<Value>,
}

/// Archived stores of several kinds.
pub(crate) const STORES: [&str; 5] =
    ["pl2_negative", "gr3_links", "sk3_trees", "pc3_objects", "pc2_bins"];

impl Subject {
    /// Returns the subject of an archived store.
    pub(crate) fn new(id: &'static str) -> anyhow::Result<Self> {
        let scratch = archives::scratch();
        let store = scratch.path().join(NAME);
        archives::write(&store, &archives::files(id));
        let before = read_store(&store);
        let axes = count_axes(&before)?;
        // Far away, so that the grid grows in both directions; and a column, so that documents are added and removed.
        let all = json!({"all": true});
        let lines = vec![
            json!({"op": "vertex.move", "vertices": all, "by": vec![-137.5; axes]}),
            json!({"op": "column.add", "name": "torture", "dtype": "int32", "fill": 7}),
        ];
        let more = vec![json!({"op": "vertex.set", "vertices": all, "values": {"torture": 8}})];
        let place = Place::from(store.as_path());
        commit_lines(&place, &lines).context(id)?;
        let after = read_store(&store);
        ensure!(before != after, "{id}: the edit changes nothing");
        Ok(Self { id, before, after, lines, more })
    }

    /// Edits the store at a place.
    pub(crate) fn edit(&self, place: &Place) -> Result<Value, EditError> {
        commit_lines(place, &self.lines)
    }

    /// Checks the state after an edit ended with an outcome; `settled` is the state that the next writer finds.
    fn check_state(&self, ended: &Result<Value, EditError>, settled: &Tree) -> anyhow::Result<()> {
        let is_new = *settled == self.after;
        ensure!(
            is_new || *settled == self.before,
            "{}: neither the old store nor the new one: {}",
            self.id,
            self.describe_difference(settled)
        );
        match ended {
            Ok(_) if !is_new => Err(anyhow!("{}: acknowledged, and not there", self.id)),
            Err(error) if error.class == Class::CommitUnknown || !is_new => Ok(()),
            Err(error) => Err(anyhow!("{}: refused with {error}, and there", self.id)),
            Ok(_) => Ok(()),
        }
    }

    /// Edits the store in a backend with these faults, and checks its state as the next writer finds
    /// it, and that it can be edited; returns the requests of the edit. Of a dead process only a
    /// success is known.
    fn edit_with_faults(
        &self,
        planned: &[(usize, Fault)],
        is_dead: bool,
    ) -> (Vec<Request>, anyhow::Result<()>) {
        let backend = create_backend(&self.before);
        planned.iter().for_each(|(nth, fault)| backend.plan(*nth, fault.clone()));
        let place = place_in_backend(&backend);
        let ended = self.edit(&place);
        let requests = backend.requests();
        let unknown = |error| match is_dead {
            true => EditError::new(Class::CommitUnknown, "dead"),
            false => error,
        };
        let check = || {
            let ended = ended.map_err(unknown);
            let is_right = ended.is_ok() || !planned.is_empty();
            ensure!(is_right, "{}: without a fault: {ended:?}", self.id);
            backend.forget();
            apply_committed(&place)?;
            let tree = list_files(&backend);
            self.check_state(&ended, &tree)?;
            self.check_editable(&place, &tree)
        };
        (requests, check())
    }

    /// Checks that a recovered store can be edited.
    fn check_editable(&self, place: &Place, settled: &Tree) -> anyhow::Result<()> {
        if *settled == self.before {
            self.edit(place).with_context(|| format!("{}: afterwards", self.id))?;
        }
        commit_lines(place, &self.more).with_context(|| format!("{}: one more edit", self.id))?;
        Ok(())
    }

    fn describe_difference(&self, found: &Tree) -> String {
        let [old, new] = [&self.before, &self.after].map(|tree| find_difference(found, tree));
        format!("{old:?} differs from the old one, {new:?} from the new one")
    }
}

fn count_axes(files: &Tree) -> anyhow::Result<usize> {
    let root: Value = serde_json::from_slice(&files["zarr.json"])?;
    let sizes = root["attributes"]["zarr_vectors"]["chunk_shape"].as_array().map(Vec::len);
    sizes.context("zarr.json: no chunk_shape")
}

/// Runs these lines as one transaction.
fn commit_lines(place: &Place, lines: &[Value]) -> Result<Value, EditError> {
    let mut editor = Editor::open(place, Path::new("."), CommitOptions::default())?;
    for (number, line) in (1..).zip(lines) {
        editor.line(number, &line.to_string())?;
    }
    editor.finish()?;
    Ok(editor.report(None))
}

/// Opens a store for writing, which applies committed transactions.
pub(crate) fn apply_committed(place: &Place) -> anyhow::Result<()> {
    commit_lines(place, &[]).map(drop).context("it cannot be opened")
}

/// Creates an object store with these files.
fn create_backend(files: &Tree) -> Arc<FaultStore> {
    let backend = Arc::new(FaultStore::new());
    block_on(async {
        for (name, bytes) in files {
            backend.insert(&format!("{PREFIX}/{name}"), bytes).await;
        }
    });
    backend
}

/// Returns the place of the store in it.
fn place_in_backend(backend: &Arc<FaultStore>) -> Place {
    let backend = Arc::clone(backend) as Arc<dyn ObjectStore>;
    Place::in_object_store(backend, PREFIX.into(), &OpenOptions::default())
}

/// Returns the files of the store in it.
pub(crate) fn list_files(backend: &FaultStore) -> Tree {
    let objects = block_on(backend.objects()).into_iter();
    let below = objects.filter_map(|(name, bytes)| {
        let name = name.strip_prefix(PREFIX)?.strip_prefix('/')?;
        Some((name.to_owned(), bytes.to_vec()))
    });
    below.collect()
}

/// Opens the store in it for reading.
async fn open_in_backend(backend: &Arc<FaultStore>) -> zvf_error::Result<Store> {
    let objects = Arc::clone(backend) as Arc<dyn ObjectStore>;
    Store::from_object_store(objects, &PREFIX.into(), OpenOptions::default()).await
}

/// Returns the files that readers of the store find, with the contents they read.
pub(crate) fn read_files<'a>(
    backend: &Arc<FaultStore>,
    names: impl Iterator<Item = &'a String>,
) -> zvf_error::Result<Tree> {
    block_on(async {
        let store = open_in_backend(backend).await?;
        let mut files = Tree::new();
        for name in names {
            let bytes = store.read_object(&Key::root().join(name)?).await?;
            files.extend(bytes.map(|bytes| (name.clone(), bytes.to_vec())));
        }
        Ok(files)
    })
}

/// Returns the files of the store in a folder, without those of dead writers, which readers ignore.
fn read_store(store: &Path) -> Tree {
    let mut files = archives::tree(store);
    files.retain(|key, _| !key.split('/').any(|name| name.starts_with(".tmp-")));
    files
}

/// The name of the store in a folder.
pub(crate) const NAME: &str = "a.zv";
/// The prefix of the store in an object store.
pub(crate) const PREFIX: &str = "data/a.zv";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mixed_store_is_detected() {
        let subject = Subject::new("pl2_negative").unwrap();
        let success = Ok(Value::Null);
        let refused = Err(EditError::new(Class::Io, "no"));
        let unknown = Err(EditError::new(Class::CommitUnknown, "perhaps"));
        assert!(subject.check_state(&success, &subject.after).is_ok());
        assert!(subject.check_state(&success, &subject.before).is_err());
        assert!(subject.check_state(&refused, &subject.before).is_ok());
        assert!(subject.check_state(&refused, &subject.after).is_err());
        assert!(subject.check_state(&unknown, &subject.after).is_ok());
        let mut mixed = subject.after.clone();
        let key = mixed.keys().find(|key| subject.before.get(*key) != subject.after.get(*key));
        let key = key.unwrap().clone();
        mixed.insert(key, b"x".to_vec());
        assert!(subject.check_state(&unknown, &mixed).is_err());
    }
}
