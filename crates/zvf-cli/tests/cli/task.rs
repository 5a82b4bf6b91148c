//! Work that is divided between processes, which are killed and repeated.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use archives::Unpacked;

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_zvf")).args(args).output().unwrap()
}

fn start(args: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zvf"));
    command.args(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

fn done(args: &[&str]) -> String {
    let output = run(args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// A store of lines at several levels, and a folder beside it.
fn place() -> (Unpacked, String, String) {
    let store = Unpacked::new("sl3_pyramid");
    let work = store.path().with_file_name("work").to_str().unwrap().to_owned();
    let address = store.path().to_str().unwrap().to_owned();
    (store, address, work)
}

fn count(work: &str, store: &str) -> usize {
    let plan =
        done(&["task", "plan", "validate", store, "--work-dir", work, "--shares=3", "--json"]);
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    plan["tasks"].as_array().unwrap().len()
}

#[test]
fn the_report_is_that_of_the_whole_in_every_form() {
    let (_store, address, work) = place();
    fs::write(Path::new(&address).join("0/vertices/notes.txt"), "x").unwrap();
    let level = Path::new(&address).join("0/zarr.json");
    let text = fs::read_to_string(&level).unwrap();
    let broken = text.replacen("\"vertex_count\":", "\"vertex_count\": 1, \"was\":", 1);
    assert_ne!(text, broken);
    fs::write(&level, broken).unwrap();
    let count = count(&work, &address);
    assert!(count > 4, "{count}");
    for task in 0..count {
        let said = done(&["task", "run", &work, "--task", &task.to_string()]);
        assert!(said.ends_with(": done\n"), "{said}");
    }
    for form in [&[][..], &["--json"], &["--sarif", "-"]] {
        let whole = run(&[&["validate", &address], form].concat());
        let parts = run(&[&["task", "finish", &work], form].concat());
        assert_eq!(whole.status.code(), Some(1));
        assert_eq!(parts.status.code(), Some(1));
        let (whole, parts) = (String::from_utf8(whole.stdout), String::from_utf8(parts.stdout));
        assert_eq!(parts.unwrap(), whole.unwrap(), "{form:?}");
    }
    run(&["task", "finish", &work, "--remove"]);
    assert!(!Path::new(&work).exists());
    assert_eq!(run(&["task", "finish", &work]).status.code(), Some(4));
}

#[test]
fn tasks_that_are_killed_or_run_twice_come_out_right() {
    let (_store, address, work) = place();
    let count = count(&work, &address);
    let all: Vec<String> = (0..count).map(|task| task.to_string()).collect();
    for task in &all {
        let mut killed = start(&["task", "run", &work, "--task", task]);
        killed.kill().unwrap();
        killed.wait().unwrap();
        let both = [0, 1].map(|_| start(&["task", "run", &work, "--task", task]));
        let both = both.map(|child| child.wait_with_output().unwrap());
        assert!(both.iter().all(|output| output.status.success()));
    }
    assert_eq!(done(&["task", "finish", &work]), done(&["validate", &address]));
    let again = done(&["task", "run", &work, "--all"]);
    assert_eq!(again.matches("had been done").count(), count, "{again}");
    done(&["task", "remove", &work]);
    assert!(!Path::new(&work).exists());
}

#[test]
fn what_cannot_go_on_says_so_by_its_exit_code() {
    let (_store, address, work) = place();
    let count = count(&work, &address);
    let last = (count - 1).to_string();
    let early = run(&["task", "run", &work, "--task", &last]);
    assert_eq!(early.status.code(), Some(5), "a retry may succeed");
    assert_eq!(run(&["task", "finish", &work]).status.code(), Some(5));
    let none = run(&["task", "run", &work, "--task", &count.to_string()]);
    assert_eq!(none.status.code(), Some(2));
    let other = ["task", "plan", "validate", &address, "--work-dir", &work, "--depth", "3"];
    assert_eq!(run(&other).status.code(), Some(4), "the folder holds another plan");
    fs::write(Path::new(&address).join("notes.txt"), "x").unwrap();
    for args in [&["task", "run", &work, "--task", "0"][..], &["task", "run", &work, "--all"]] {
        let changed = run(args);
        assert_eq!(changed.status.code(), Some(6), "{args:?}");
        let said = String::from_utf8(changed.stderr).unwrap();
        assert!(said.contains("it changed since"), "{said}");
    }
}
