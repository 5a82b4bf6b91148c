//! A vacuum divided between several processes.

use std::path::Path;

use archives::{Unpacked, tree};

use super::{beside, check_changed, names, run_with_kills};
use crate::stores::{done, kill, start, zvf};

/// Returns a store with waste in many chunks.
fn unpack() -> (Unpacked, String, String) {
    beside(Unpacked::from_files(&archives::files_with_waste("sl3_streamlines")))
}

fn plan(address: &str, work: &str, shares: &str) -> usize {
    super::plan("vacuum", work, &[address, "--shares", shares])
}

/// Returns the report of a commit without its names.
fn report(args: &[&str]) -> serde_json::Value {
    let mut report = done(args).value();
    report["store"].take();
    report["commits"][0]["txid"].take();
    report
}

#[test]
fn killed_tasks_leave_the_store_of_zvf_vacuum() {
    let ((expected, single, _), (store, address, work)) = (unpack(), unpack());
    let before = tree(store.path());
    let single_report = report(&["vacuum", &single, "--json"]);
    assert_eq!(plan(&address, &work, "3"), 3);
    assert_eq!(zvf(&["task", "finish", &work]).code, 5, "a task is missing");
    assert_eq!(done(&["task", "run", &work, "--task", "0"]).out, "task 0, chunks: done\n");
    run_with_kills(&work, 3, || assert_eq!(tree(store.path()), before));
    assert_eq!(report(&["task", "finish", &work, "--json"]), single_report);
    assert_eq!(tree(store.path()), tree(expected.path()));
    done(&["validate", "-q", &address]);
    let repeated = done(&["task", "finish", &work, "--json"]).value();
    assert_eq!(repeated, serde_json::json!({"store": address, "commits": null}));
    let repeated = done(&["task", "finish", &work, "--remove"]).out;
    assert_eq!(repeated, format!("{address} was finished by an earlier run\n"));
    let files = names(store.path().parent().unwrap().to_str().unwrap());
    assert_eq!(files, ["store.zarrvectors", "store.zarrvectors.zvf"]);
    // If no work is left, the command reports that and changes nothing.
    assert!(plan(&address, &work, "3") > 1);
    done(&["task", "run", &work, "--all"]);
    kill(start(&["task", "finish", &work]), 0);
    done(&["task", "finish", &work]);
    assert_eq!(tree(store.path()), tree(expected.path()));
}

#[test]
fn failures_have_the_exit_code_of_their_cause() {
    let (store, address, work) = unpack();
    plan(&address, &work, "2");
    done(&["task", "run", &work, "--task", "0"]);
    done(&["edit", "rm", &address, "--objects", "3"]);
    let edited = tree(store.path());
    check_changed(&["task", "run", &work, "--all"]);
    let other_plan = ["task", "plan", "vacuum", &address, "--work-dir", &work];
    assert_eq!(zvf(&other_plan).code, 4, "the folder holds another plan");
    done(&["task", "remove", &work]);

    plan(&address, &work, "2");
    done(&["task", "run", &work, "--all"]);
    assert_eq!(tree(store.path()), edited);
    done(&["edit", "rm", &address, "--objects", "2"]);
    let edited = tree(store.path());
    let late = zvf(&["task", "finish", &work, "--remove"]);
    assert_eq!(late.code, 6, "the last step belongs to an earlier version");
    assert_eq!(tree(store.path()), edited, "nothing is lost");
    assert!(Path::new(&work).exists());
    assert_eq!(zvf(&["task", "finish", &work, "--sarif", "-"]).code, 2);

    let missing = format!("{address}.not");
    zvf(&["task", "plan", "vacuum", &missing, "--work-dir", &work]).refused_with(4, &missing);
    assert_eq!(zvf(&["task", "run", &missing, "--all"]).code, 4);
    for word in ["--dry-run", "--accept-foreign"] {
        let refused = zvf(&["task", "plan", "vacuum", &address, "--work-dir", &missing, word]);
        assert_eq!(refused.code, 2, "{word}");
    }
    assert!(!Path::new(&missing).exists());
}

#[test]
fn a_store_without_chunks_has_no_tasks() {
    let (store, address, work) = beside(Unpacked::new("pc3_zero_points"));
    let before = tree(store.path());
    assert_eq!(plan(&address, &work, "2"), 0);
    assert_eq!(done(&["task", "run", &work, "--all"]).out, "");
    assert_eq!(done(&["task", "finish", &work]).out, "nothing changed; the head is 0\n");
    assert_eq!(tree(store.path()), before);
}

#[test]
fn foreign_changes_are_accepted_with_the_option() {
    for args in [&["vacuum"][..], &["history", "undo"], &["edit", "rm", "--objects", "1"]] {
        let (store, address, _) = unpack();
        done(&["edit", "rm", &address, "--objects", "2"]);
        let commit = done(&["history", "show", &address, "1", "--json"]).value();
        let keys = commit["keys"].as_array().unwrap().iter();
        let mut documents =
            keys.filter_map(|key| key["key"].as_str()).filter(|key| key.ends_with("zarr.json"));
        let document = store.path().join(documents.next().unwrap());
        let text = std::fs::read_to_string(&document).unwrap();
        std::fs::write(&document, text + "\n").unwrap();
        let before = tree(store.path());
        let args = [args, &[&address]].concat();
        zvf(&args).refused_with(6, "--accept-foreign");
        assert_eq!(tree(store.path()), before, "{args:?}");
        done(&[&args[..], &["--accept-foreign"]].concat());
        assert_ne!(tree(store.path()), before, "{args:?}");
    }
}
