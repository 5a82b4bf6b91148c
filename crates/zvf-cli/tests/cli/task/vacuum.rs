//! A vacuum divided between several processes.

use std::path::Path;

use archives::{Unpacked, tree};

use super::{names, run, run_ok, run_with_kills, start};

/// Returns a store with waste in many chunks, its address, and a sibling folder.
fn unpack() -> (Unpacked, String, String) {
    let store = Unpacked::from_files(&archives::files_with_waste("sl3_streamlines"));
    let work = store.path().with_file_name("work").to_str().unwrap().to_owned();
    let address = store.path().to_str().unwrap().to_owned();
    (store, address, work)
}

fn plan(address: &str, work: &str, shares: &str) -> usize {
    let plan = ["task", "plan", "vacuum", address, "--work-dir", work, "--shares", shares];
    let plan = run_ok(&[&plan[..], &["--json"]].concat());
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    assert_eq!(plan["kind"], "vacuum");
    plan["tasks"].as_array().unwrap().len()
}

/// Returns the report of a commit without its names.
fn report(text: &str) -> serde_json::Value {
    let mut report: serde_json::Value = serde_json::from_str(text).unwrap();
    report["store"].take();
    report["commits"][0]["txid"].take();
    report
}

#[test]
fn the_store_becomes_that_of_zvf_vacuum() {
    let ((expected, single, _), (store, address, work)) = (unpack(), unpack());
    let before = tree(store.path());
    let single_report = run_ok(&["vacuum", &single, "--json"]);
    assert_eq!(plan(&address, &work, "2"), 2);
    let (first, second) =
        (["task", "run", &work, "--task", "0"], ["task", "run", &work, "--task", "1"]);
    let early = run(&["task", "finish", &work]);
    assert_eq!(early.status.code(), Some(5), "a task is missing");
    let runs = [start(&first), start(&second)].map(|child| child.wait_with_output().unwrap());
    let outputs = runs.map(|output| String::from_utf8(output.stdout).unwrap());
    assert_eq!(outputs, ["task 0, chunks: done\n", "task 1, chunks: done\n"]);
    assert_eq!(tree(store.path()), before, "tasks do not change the store");
    let finished = run_ok(&["task", "finish", &work, "--json"]);
    assert_eq!(report(&finished), report(&single_report));
    assert_eq!(tree(store.path()), tree(expected.path()));
    assert_eq!(run(&["validate", "-q", &address]).status.code(), Some(0));
    let repeated = run_ok(&["task", "finish", &work, "--json"]);
    let repeated: serde_json::Value = serde_json::from_str(&repeated).unwrap();
    assert_eq!(repeated, serde_json::json!({"store": address, "commits": null}));
    let repeated = run_ok(&["task", "finish", &work, "--remove"]);
    assert_eq!(repeated, format!("{address} was finished by an earlier run\n"));
    assert!(!Path::new(&work).exists());
}

#[test]
fn tasks_and_the_last_step_may_be_killed() {
    let ((expected, single, _), (store, address, work)) = (unpack(), unpack());
    run_ok(&["vacuum", &single]);
    let before = tree(store.path());
    let count = plan(&address, &work, "3");
    assert!(count > 1, "{count}");
    run_with_kills(&work, count, || assert_eq!(tree(store.path()), before));
    let mut killed = start(&["task", "finish", &work]);
    killed.kill().unwrap();
    killed.wait().unwrap();
    run_ok(&["task", "finish", &work, "--remove"]);
    assert_eq!(tree(store.path()), tree(expected.path()));
    let files = names(store.path().parent().unwrap().to_str().unwrap());
    assert_eq!(files, ["store.zarrvectors", "store.zarrvectors.zvf"]);
    // If no work is left, the command reports that and changes nothing.
    assert!(plan(&address, &work, "3") > 1);
    run_ok(&["task", "run", &work, "--all"]);
    assert_eq!(run_ok(&["task", "finish", &work]), "nothing changed; the head is 1\n");
    assert_eq!(tree(store.path()), tree(expected.path()));
}

#[test]
fn failures_have_the_exit_code_of_their_cause() {
    let (store, address, work) = unpack();
    plan(&address, &work, "2");
    run_ok(&["task", "run", &work, "--task", "0"]);
    run_ok(&["edit", "rm", &address, "--objects", "3"]);
    let edited = tree(store.path());
    let late = run(&["task", "run", &work, "--all"]);
    assert_eq!(late.status.code(), Some(6), "the task belongs to an earlier version");
    assert!(String::from_utf8(late.stderr).unwrap().contains(" changed after "));
    let other_plan = ["task", "plan", "vacuum", &address, "--work-dir", &work];
    assert_eq!(run(&other_plan).status.code(), Some(4), "the folder holds another plan");
    run_ok(&["task", "remove", &work]);

    plan(&address, &work, "2");
    run_ok(&["task", "run", &work, "--all"]);
    assert_eq!(tree(store.path()), edited);
    run_ok(&["edit", "rm", &address, "--objects", "2"]);
    let edited = tree(store.path());
    let late = run(&["task", "finish", &work, "--remove"]);
    assert_eq!(late.status.code(), Some(6), "the last step belongs to an earlier version");
    assert_eq!(tree(store.path()), edited, "nothing is lost");
    assert!(Path::new(&work).exists());
    let sarif = run(&["task", "finish", &work, "--sarif", "-"]);
    assert_eq!(sarif.status.code(), Some(2));

    let missing = format!("{address}.not");
    let refused = ["task", "plan", "vacuum", &missing, "--work-dir", &work];
    let refused = run(&refused);
    assert_eq!(refused.status.code(), Some(4));
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert!(stderr.contains(&missing), "{stderr}");
    assert_eq!(run(&["task", "run", &missing, "--all"]).status.code(), Some(4));
    for word in ["--dry-run", "--accept-foreign"] {
        let refused = run(&["task", "plan", "vacuum", &address, "--work-dir", &missing, word]);
        assert_eq!(refused.status.code(), Some(2), "{word}");
    }
    assert!(!Path::new(&missing).exists());
}

#[test]
fn a_store_without_chunks_has_no_tasks() {
    let store = Unpacked::new("pc3_zero_points");
    let work = store.path().with_file_name("work").to_str().unwrap().to_owned();
    let before = tree(store.path());
    assert_eq!(plan(store.path().to_str().unwrap(), &work, "2"), 0);
    assert_eq!(run_ok(&["task", "run", &work, "--all"]), "");
    assert_eq!(run_ok(&["task", "finish", &work]), "nothing changed; the head is 0\n");
    assert_eq!(tree(store.path()), before);
}

#[test]
fn foreign_changes_are_accepted_with_the_option() {
    for args in [&["vacuum"][..], &["history", "undo"], &["edit", "rm", "--objects", "1"]] {
        let (store, address, _) = unpack();
        run_ok(&["edit", "rm", &address, "--objects", "2"]);
        let commit = run_ok(&["history", "show", &address, "1", "--json"]);
        let commit: serde_json::Value = serde_json::from_str(&commit).unwrap();
        let keys = commit["keys"].as_array().unwrap().iter();
        let mut documents =
            keys.filter_map(|key| key["key"].as_str()).filter(|key| key.ends_with("zarr.json"));
        let document = store.path().join(documents.next().unwrap());
        let text = std::fs::read_to_string(&document).unwrap();
        std::fs::write(&document, text + "\n").unwrap();
        let before = tree(store.path());
        let args = [args, &[&address]].concat();
        let refused = run(&args);
        let stderr = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(6), "{args:?}: {stderr}");
        assert!(stderr.contains("--accept-foreign"), "{args:?}: {stderr}");
        assert_eq!(tree(store.path()), before, "{args:?}");
        run_ok(&[&args[..], &["--accept-foreign"]].concat());
        assert_ne!(tree(store.path()), before, "{args:?}");
    }
}
