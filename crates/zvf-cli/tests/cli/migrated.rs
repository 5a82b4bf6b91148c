//! `zvf rewrite --format-version 0.9.2`: a migrated store answers queries like the old one.

use crate::stores::{Folder, Ran, check_has, store, zvf};

/// Runs `zvf rewrite` with these words after the version.
fn migrate(words: &[&str]) -> Ran {
    zvf(&[&["rewrite", "--format-version", "0.9.2"], words].concat())
}

#[test]
fn a_migrated_store_gives_the_same_answers() {
    let old = store("v070_pc3_objects_pyramid");
    let folder = Folder::new();
    let new = folder.at("new.zarrvectors");
    let plan = migrate(&[old.arg(), &new, "--dry-run"]).clean();
    assert!(plan.starts_with("format: 0.7.0 -> 0.9.2\n0/"), "{plan}");
    check_has(&plan, "\n0/object_index: manifests by id -> manifests and object_ids\n");
    let plan = migrate(&["--json", old.arg(), "--dry-run"]).json();
    assert_eq!(plan["changes"][0]["after"], "0.9.2");
    assert_eq!(folder.0.path().read_dir().unwrap().count(), 0);

    let done = migrate(&[old.arg(), &new]).clean();
    assert!(done.starts_with(&format!("{new}: 3 levels, ")), "{done}");
    for args in [vec![], vec!["--groups", "0"], vec!["--level", "1"]] {
        let query = |address: &str| {
            let args = [&["query", address, "--format", "csv"], args.as_slice()].concat();
            zvf(&args).clean()
        };
        assert_eq!(query(old.arg()), query(&new), "{args:?}");
    }
    zvf(&["validate", &new]).clean();

    assert!(migrate(&[old.arg(), &new]).refused(4).contains("already exists"));
    let more = ["--json", "--overwrite", "--shard=2", "--codec=zstd:1", old.arg(), &new];
    assert_eq!(migrate(&more).json()["levels"], 3);
    assert!(zvf(&["inspect", "arrays", &new, "0/vertices"]).clean().contains("shards of"));
    assert!(migrate(&[&new, "x"]).refused(2).contains("before 0.9"));
    assert!(migrate(&[old.arg(), "x", "--codec=zstd:40"]).refused(2).contains("from -7 to 22"));
}

#[test]
fn scratch_of_a_killed_migration_is_removed_from_a_new_store() {
    let new = store("pc3_basic");
    let folder = new.path.parent().unwrap();
    let name = new.path.file_name().unwrap().to_str().unwrap();
    let scratch = folder.join(format!(".{name}.zvf-build-0123456789abcdef"));
    std::fs::create_dir_all(scratch.join("store")).unwrap();
    std::fs::write(scratch.join("lock"), "").unwrap();
    assert!(migrate(&[new.arg(), "--in-place"]).refused(2).contains("before 0.9"));
    assert!(!scratch.exists());
}
