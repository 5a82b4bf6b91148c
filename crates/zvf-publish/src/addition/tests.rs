//! Folders that are added to, with a fault at each call, and with an owner that died at each step.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::*;
use crate::{StagingDir, StagingOptions, TargetLock, remove_leftovers};

/// A folder `a` with a marker `m`, and what is added to it.
struct TestFolder(tempfile::TempDir);

impl TestFolder {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        for (name, text) in [("m", "old"), ("0/m", "same"), ("0/c/1", "cell"), ("0/links/0", "x")] {
            place.write(&format!("a/{name}"), text);
        }
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        fs::write(self.at(name), text).unwrap();
    }

    fn begin(&self, disk: &Disk) -> Result<StagingDir, PublishError> {
        let options = StagingOptions { replace: true, adds: true, ..StagingOptions::new("m") };
        let staging = StagingDir::begin(TargetLock::acquire(disk, &self.at("a"))?, options)?;
        for (path, text) in
            [("m", "new"), ("0/m", "same"), ("1/m", "1"), ("1/c/2", "2"), ("0/links/+1/m", "+1")]
        {
            staging.put(path, &[text.into()])?;
        }
        Ok(staging)
    }

    /// Returns the files below `a`, and what else is beside it.
    fn state(&self) -> (BTreeMap<String, String>, usize) {
        let (mut files, mut folders) = (BTreeMap::new(), vec![self.at("a")]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(self.at("a")).unwrap().display().to_string();
                    files.insert(name, fs::read_to_string(path).unwrap());
                }
            }
        }
        (files, fs::read_dir(self.0.path()).unwrap().count() - 1)
    }
}

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

fn old() -> BTreeMap<String, String> {
    texts(&[("m", "old"), ("0/m", "same"), ("0/c/1", "cell"), ("0/links/0", "x")])
}

fn new() -> BTreeMap<String, String> {
    let mut all = old();
    all.extend(texts(&[("m", "new"), ("1/m", "1"), ("1/c/2", "2"), ("0/links/+1/m", "+1")]));
    all
}

#[test]
fn what_is_new_appears_and_the_rest_stays_in_its_place() {
    for disk in
        [Disk::default(), Disk::default().without_exchange(), Disk::default().without_locks()]
    {
        let place = TestFolder::new();
        place.write("a/notes.txt", "of somebody");
        let before = ["a", "a/0", "a/0/c/1", "a/0/m"].map(|name| node(&place.at(name)).unwrap());
        let staging = place.begin(&disk).unwrap();
        staging.publish().unwrap();
        assert!(staging.is_published());
        drop(staging);
        let after = ["a", "a/0", "a/0/c/1", "a/0/m"].map(|name| node(&place.at(name)).unwrap());
        assert_eq!(before, after);
        let mut expected = new();
        expected.extend(texts(&[("notes.txt", "of somebody")]));
        assert_eq!(place.state(), (expected, 0));
    }
}

#[test]
fn names_that_both_have_must_be_the_same() {
    for (name, text) in [("a/0/m", "another"), ("a/1", "a file"), ("a/m", "changed")] {
        let place = TestFolder::new();
        let staging = place.begin(&Disk::default()).unwrap();
        place.write(name, text);
        let error = staging.publish().unwrap_err();
        assert!(matches!(error, PublishError::Changed { .. }), "{name}: {error}");
        drop(staging);
        assert_eq!(fs::read_to_string(place.at(name)).unwrap(), text);
        assert!(!place.at("a/0/links/+1").exists() && !place.at("a/1/m").exists());
        assert_eq!(place.state().1, 0);
    }
}

#[test]
fn a_fault_at_any_call_leaves_the_old_state_or_the_new_one() {
    let counting = Disk::default().with_failure_at(usize::MAX, 5, false);
    TestFolder::new().begin(&counting).unwrap().publish().unwrap();
    let calls = counting.call_count();
    assert!(calls > 10, "{calls}");
    let mut kinds = [0, 0];
    for nth in 0..calls {
        for is_late in [false, true] {
            let place = TestFolder::new();
            let disk = Disk::default().with_failure_at(nth, 5, is_late);
            let published = place.begin(&disk).and_then(|staging| staging.publish());
            // The next one that takes the lock finds all or nothing.
            drop(TargetLock::acquire(&Disk::default(), &place.at("a")).unwrap());
            let (files, rest) = place.state();
            let is_new = files == new();
            assert!(is_new || files == old(), "call {nth}, {is_late}: {files:?}");
            match published {
                Ok(()) => assert!(is_new, "call {nth}"),
                Err(PublishError::Unknown(_)) => assert!(is_new, "call {nth}"),
                Err(error) => assert!(!is_new, "call {nth}, {is_late}: {error}"),
            }
            assert_eq!(rest, 0, "call {nth}, {is_late}");
            kinds[usize::from(is_new)] += 1;
        }
    }
    assert!(kinds[0] > 10 && kinds[1] > 1, "{kinds:?}");
}

/// Leaves the scratch of a process that died after `moved` names were added.
fn die_after(place: &TestFolder, moved: usize, is_committed: bool) {
    let (scratch, target) = (place.at(".a.zvf-build-1"), place.at("a"));
    let store = scratch.join(SCRATCH_STORE);
    for (path, text) in [("m", "new"), ("1/m", "1"), ("1/c/2", "2"), ("0/links/+1/m", "+1")] {
        place.write(&format!(".a.zvf-build-1/store/{path}"), text);
    }
    place.write(".a.zvf-build-1/lock", "");
    let addition =
        Addition::write_list(&Disk::default(), (&scratch, &store), &target, "m").unwrap();
    assert_eq!(addition.paths, ["1", "0/links/+1"]);
    for path in addition.paths.iter().take(moved) {
        fs::rename(store.join(path), target.join(path)).unwrap();
    }
    if is_committed {
        fs::rename(store.join("m"), target.join("m")).unwrap();
    }
}

#[test]
fn what_a_dead_process_added_and_did_not_commit_goes() {
    for moved in 0..=2 {
        let place = TestFolder::new();
        die_after(&place, moved, false);
        remove_leftovers(&Disk::default(), &place.at("a")).unwrap();
        assert_eq!(place.state(), (old(), 0), "{moved}");
    }
    let place = TestFolder::new();
    die_after(&place, 2, true);
    remove_leftovers(&Disk::default(), &place.at("a")).unwrap();
    assert_eq!(place.state(), (new(), 0));
}

#[test]
fn names_that_others_took_since_stay() {
    let place = TestFolder::new();
    die_after(&place, 1, false);
    fs::rename(place.at("a/1"), place.at("b")).unwrap();
    place.write("a/1/m", "of somebody");
    remove_leftovers(&Disk::default(), &place.at("a")).unwrap();
    let mut expected = old();
    expected.extend(texts(&[("1/m", "of somebody")]));
    assert_eq!(place.state().0, expected);
}
