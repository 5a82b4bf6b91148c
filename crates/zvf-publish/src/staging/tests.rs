//! Staging directories that are published, abandoned, or meet others.

use super::*;
use crate::SharedStagingDir;

struct TestFolder(tempfile::TempDir);

impl TestFolder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        fs::write(self.at(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap_or_default()
    }

    fn begin(&self, disk: &Disk, options: StagingOptions) -> StagingDir {
        let lock = TargetLock::acquire(disk, &self.at("a")).unwrap();
        StagingDir::begin(lock, options).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn replacing() -> StagingOptions {
    StagingOptions { replace: true, ..StagingOptions::new("m") }
}

fn disks() -> [Disk; 3] {
    [Disk::default(), Disk::default().without_exchange(), Disk::default().without_locks()]
}

#[cfg(unix)]
#[test]
fn a_relative_link_is_carried_over_as_the_file_to_which_it_leads() {
    use std::os::unix::fs::symlink;
    let place = TestFolder::new();
    place.write("aside", "cell");
    place.write("a/m", "1");
    symlink("../aside", place.at("a/x")).unwrap();
    symlink("nowhere", place.at("a/broken")).unwrap();
    let new = place.begin(&Disk::default(), replacing());
    new.carry_over(&|_| false).unwrap();
    assert_eq!(fs::read(new.path().join("x")).unwrap(), b"cell"); // before it is published
    new.put("m", &["2".into()]).unwrap();
    new.publish().unwrap();
    assert_eq!((place.read("a/x"), place.at("a/broken").is_symlink()), ("cell".to_owned(), true));
}

#[test]
fn a_folder_is_replaced_as_a_whole_or_not_at_all() {
    for disk in disks() {
        let place = TestFolder::new();
        let new = place.begin(&disk, StagingOptions::new("m"));
        new.put("m", &["1".into()]).unwrap();
        new.put("x/y", &["1".into()]).unwrap();
        new.publish().unwrap();
        drop(new);
        drop(place.begin(&disk, replacing()));
        let new = place.begin(&disk, replacing());
        new.put("m", &["2".into()]).unwrap();
        assert_eq!(place.read("a/x/y"), "1");
        new.publish().unwrap();
        drop(new);
        assert_eq!((place.read("a/m"), place.at("a/x").exists()), ("2".to_owned(), false));
        assert_eq!(place.names(), ["a"]);
    }
}

#[test]
fn whoever_changes_a_target_is_alone() {
    for disk in disks() {
        let place = TestFolder::new();
        let _first = place.begin(&disk, StagingOptions::new("m"));
        let second = TargetLock::acquire(&disk, &place.at("a")).unwrap_err();
        assert!(matches!(second, PublishError::Busy { .. }), "{second}");
        drop(TargetLock::acquire(&disk, &place.at("b")).unwrap());
    }
}

#[test]
fn what_was_changed_meanwhile_is_not_replaced() {
    type Change = fn(&TestFolder);
    #[rustfmt::skip]
    let table: [(&str, Change, &str); 4] = [
        ("changed in place", |place| place.write("a/m", "by another"), "found one that was changed meanwhile"),
        ("a folder in it",   |place| place.write("a/0/m", "by another"), "found one that was changed meanwhile"),
        ("swapped",          |place| {
            fs::rename(place.at("a"), place.at("mine")).unwrap();
            place.write("a/m", "1");
            place.write("a/letters.txt", "precious");
        }, "found another one"),
        ("removed",          |place| fs::remove_dir_all(place.at("a")).unwrap(), "found nothing"),
    ];
    for disk in disks() {
        for (what, change, expected) in table {
            let place = TestFolder::new();
            place.write("a/m", "1");
            let new = place.begin(&disk, replacing());
            new.put("m", &["2".into()]).unwrap();
            change(&place);
            let before = place.read("a/m");
            let error = new.publish().unwrap_err();
            assert!(matches!(error, PublishError::Changed { .. }), "{what}: {error}");
            assert!(error.to_string().ends_with(expected), "{what}: {error}");
            drop(new);
            assert_eq!(place.read("a/m"), before, "{what}");
            assert_eq!(place.at("a/letters.txt").exists(), what == "swapped");
        }
    }
}

/// Commits to the store at `path`, at a moment when its replacement is under way.
fn commit_to(path: &Path) -> io::Result<Vec<PathBuf>> {
    fs::create_dir_all(path.with_file_name("a.zvf/log"))?;
    fs::write(path.with_file_name("a.zvf/log/1"), "")?;
    Ok(Vec::new())
}

#[test]
fn a_journal_that_begins_during_publication_keeps_its_store() {
    let options = StagingOptions { find_foreign: commit_to, ..replacing() };
    for disk in disks() {
        for is_shared in [false, true] {
            let place = TestFolder::new();
            place.write("a/m", "1");
            let published = if is_shared {
                let (target, work) = (place.at("a"), place.at("work"));
                let check = |_target: &Path| Ok::<(), PublishError>(());
                let new =
                    SharedStagingDir::join(&target, &work, disk.clone(), options.clone(), check);
                new.unwrap().publish("2".into())
            } else {
                let new = place.begin(&disk, options.clone());
                new.put("m", &["2".into()]).unwrap();
                new.publish()
            };
            let error = published.unwrap_err();
            assert!(matches!(error, PublishError::Changed { .. }), "{is_shared}: {error}");
            assert_eq!(place.read("a/m"), "1");
        }
    }
}

#[test]
fn a_store_that_was_replaced_since_a_shared_build_was_joined_stays() {
    let place = TestFolder::new();
    place.write("a/m", "1");
    let (target, work) = (place.at("a"), place.at("work"));
    let check = |_target: &Path| Ok::<(), PublishError>(());
    let new = SharedStagingDir::join(&target, &work, Disk::default(), replacing(), check).unwrap();
    place.write("a/m", "by another");
    assert!(matches!(new.publish("2".into()), Err(PublishError::Changed { .. })));
    assert_eq!(place.read("a/m"), "by another");
}

#[test]
fn what_comes_out_is_what_was_to_be_replaced() {
    for disk in disks() {
        let place = TestFolder::new();
        place.write("a/m", "1");
        place.write("new/m", "2");
        let identity = TargetIdentity::read(&place.at("a"), "m").unwrap();
        fs::rename(place.at("a"), place.at("mine")).unwrap();
        place.write("a/letters.txt", "precious");
        let done = exchange(&disk, &place.at("new"), &place.at("a"), &place.at("old"), identity);
        assert!(matches!(done, Err(PublishError::Changed { .. })));
        assert_eq!(place.read("a/letters.txt"), "precious");
        assert_eq!(place.read("new/m"), "2");
    }
}

#[test]
fn files_of_nobody_are_carried_over() {
    let foreign = |path: &Path| -> io::Result<Vec<PathBuf>> {
        let names = ["notes.txt", "0/notes.txt"].into_iter().map(PathBuf::from);
        Ok(names.filter(|name| path.join(name).exists()).collect())
    };
    let options = StagingOptions { find_foreign: foreign, ..replacing() };
    let place = TestFolder::new();
    place.write("a/m", "1");
    place.write("a/notes.txt", "mine");
    let new = place.begin(&Disk::default(), options.clone());
    new.put("m", &["2".into()]).unwrap();
    new.publish().unwrap();
    drop(new);
    assert_eq!((place.read("a/m"), place.read("a/notes.txt")), ("2".to_owned(), "mine".to_owned()));
    // A file whose folder is removed has no place.
    place.write("a/0/notes.txt", "mine");
    place.write("a/0/m", "1");
    let new = place.begin(&Disk::default(), options);
    new.put("m", &["3".into()]).unwrap();
    let error = new.publish().unwrap_err();
    assert!(error.to_string().ends_with("found \"0/notes.txt\""), "{error}");
    assert_eq!(place.read("a/m"), "2");
}

#[cfg(unix)]
#[test]
fn modes_of_what_is_replaced_are_kept() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = TestFolder::new();
    place.write("a/m", "1");
    for (name, mode) in [("a", 0o2770), ("a/m", 0o660)] {
        fs::set_permissions(place.at(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let new = place.begin(&Disk::default(), replacing());
    new.put("m", &["2".into()]).unwrap();
    new.put("0/c/0", &["2".into()]).unwrap();
    new.publish().unwrap();
    for (name, mode) in [("a", 0o2770), ("a/m", 0o660), ("a/0/c", 0o2770), ("a/0/c/0", 0o660)] {
        let found = fs::metadata(place.at(name)).unwrap().permissions().mode() & 0o7777;
        assert_eq!(found, mode, "{name}: {found:o}");
    }
}

#[test]
fn nothing_is_visible_after_a_stop_and_nothing_is_cancelled_after_it_is() {
    let place = TestFolder::new();
    let options = StagingOptions::new("m");
    let gate = options.gate.clone();
    let new = place.begin(&Disk::default(), options);
    new.put("m", &["1".into()]).unwrap();
    assert!(gate.stop());
    assert!(matches!(new.publish(), Err(PublishError::Cancelled)));
    drop(new);
    assert!(place.names().is_empty());
    let options = StagingOptions::new("m");
    let gate = options.gate.clone();
    let new = place.begin(&Disk::default(), options);
    new.put("m", &["1".into()]).unwrap();
    new.publish().unwrap();
    assert!(!gate.stop() && gate.is_entered());
}

#[test]
fn a_fault_at_any_call_leaves_the_gate_closed_where_something_may_be_visible() {
    let mut unknown = 0;
    for (replaces, whole) in [false, true].into_iter().flat_map(|r| disks().map(|disk| (r, disk))) {
        let old = if replaces { "1" } else { "" };
        let publish = |nth: usize, is_late: bool| {
            let (place, options) = (TestFolder::new(), replacing());
            if replaces {
                place.write("a/m", old);
            }
            let disk = whole.clone().with_failure_at(nth, 5, is_late);
            let (gate, lock) = (options.gate.clone(), TargetLock::acquire(&disk, &place.at("a")));
            let published =
                lock.and_then(|lock| StagingDir::begin(lock, options)).and_then(|new| {
                    new.put("m", &["2".into()])?;
                    let published = new.publish();
                    if !matches!(published, Ok(()) | Err(PublishError::Unknown(_))) {
                        assert_eq!(place.read("a/m"), old, "call {nth}: the target is unchanged");
                    }
                    published
                });
            drop(TargetLock::acquire(&Disk::default(), &place.at("a")).unwrap());
            (published, gate.is_entered(), place.read("a/m"), disk.call_count())
        };
        for nth in 0..publish(usize::MAX, false).3 {
            for is_late in [false, true] {
                let (published, is_entered, found, _) = publish(nth, is_late);
                let what = format!("call {nth}, {is_late}: {published:?}, {found:?}");
                match published {
                    Ok(()) => assert!(is_entered && found == "2", "{what}"),
                    Err(PublishError::Unknown(_)) => {
                        unknown += 1;
                        assert!(is_entered && (found == "2" || found == old), "{what}");
                    }
                    Err(_) => assert!(!is_entered && found == old, "{what}"),
                }
            }
        }
    }
    assert!(unknown > 12, "{unknown}");
}

#[test]
fn directories_that_were_made_go_with_what_was_not_published() {
    let place = TestFolder::new();
    let target = place.at("x/y/a");
    let lock = TargetLock::acquire(&Disk::default(), &target).unwrap();
    let new = StagingDir::begin(lock, StagingOptions::new("m")).unwrap();
    new.put("m", &["1".into()]).unwrap();
    drop(new);
    assert!(place.names().is_empty());
}

#[test]
fn a_long_name_works_or_is_refused_at_once() {
    let place = TestFolder::new();
    for len in [1, 200, 227, 228, 240, 251] {
        let target = place.at(&"n".repeat(len));
        let lock = TargetLock::acquire(&Disk::default(), &target).unwrap();
        let new = StagingDir::begin(lock, StagingOptions::new("m")).unwrap();
        new.put("m", &["1".into()]).unwrap();
        new.publish().unwrap();
        drop(new);
        assert!(target.join("m").exists(), "{len}");
        fs::remove_dir_all(target).unwrap();
        assert!(place.names().is_empty());
    }
    let error = TargetLock::acquire(&Disk::default(), &place.at(&"n".repeat(252))).unwrap_err();
    assert_eq!(error.to_string(), "name: expected at most 251 bytes, found 252");
}
