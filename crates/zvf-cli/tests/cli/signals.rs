//! Signals: a command that was stopped has committed nothing, and a command that has committed
//! reports it.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use archives::{Unpacked, tree};
use serde_json::Value;

const LINE: &str = "{\"op\":\"object.remove\",\"objects\":[0]}\n";

fn start(args: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zvf"));
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn signal(child: &Child, name: &str) {
    // The process may have ended.
    Command::new("kill")
        .args([name, &child.id().to_string()])
        .stderr(Stdio::null())
        .status()
        .unwrap();
}

/// Returns the exit code in shell form: a signal that arrives before its handler is installed kills
/// the process.
fn end(child: Child) -> (i32, Output) {
    let output = child.wait_with_output().unwrap();
    let code = output.status.code().or(output.status.signal().map(|signal| 128 + signal));
    (code.unwrap(), output)
}

fn count_commits(store: &Path) -> usize {
    let log = store.with_file_name("sl3_streamlines.zarrvectors.zvf/log");
    fs::read_dir(log).map_or(0, |records| {
        records
            .filter(|entry| !entry.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'))
            .count()
    })
}

fn wait_for(mut what: impl FnMut() -> bool) {
    let start = Instant::now();
    while !what() {
        assert!(start.elapsed() < Duration::from_secs(30), "it takes too long");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_script_that_waits_for_input_ends_on_the_first_signal() {
    for name in ["-INT", "-TERM"] {
        let store = Unpacked::new("sl3_streamlines");
        let before = tree(store.path());
        let mut edit = start(&["edit", store.path().to_str().unwrap(), "--replies"]);
        edit.stdin.as_mut().unwrap().write_all(LINE.as_bytes()).unwrap();
        // The line has been processed.
        let mut reply = [0];
        std::io::Read::read_exact(edit.stdout.as_mut().unwrap(), &mut reply).unwrap();
        signal(&edit, name);
        let stdin = edit.stdin.take();
        assert_eq!(end(edit).0, 130, "{name}");
        drop(stdin);
        assert!(tree(store.path()) == before && count_commits(store.path()) == 0, "{name}");
    }
}

#[test]
fn a_command_that_waits_for_standard_input_ends_on_the_first_signal() {
    let folder = archives::scratch();
    let store = folder.path().join("a.zarrvectors");
    for output in [&["-", "--to", "csv"][..], &[store.to_str().unwrap()]] {
        let mut convert = start(&[&["convert", "--format", "csv", "-"], output].concat());
        convert.stdin.as_mut().unwrap().write_all(b"x,y\n1,2\n").unwrap();
        std::thread::sleep(Duration::from_millis(500)); // the handlers are installed
        signal(&convert, "-INT");
        wait_for(|| convert.try_wait().unwrap().is_some());
        assert_eq!(end(convert).0, 130, "{output:?}");
        assert!(!store.exists());
    }
}

#[cfg(feature = "serve")]
#[test]
fn a_server_ends_with_success_on_a_signal_while_it_prints_its_address() {
    let folder = archives::scratch();
    let files = archives::files("pc3_basic");
    // The list of them fills the pipe, so that the server waits.
    for n in 0..120 {
        let name = format!("{n:03}{}.zarrvectors", "x".repeat(150));
        archives::write(&folder.path().join(name), &files);
    }
    let path = folder.path().to_str().unwrap();
    let mut server = start(&["serve", path, "--json", "--bind", "127.0.0.1:0"]);
    std::io::Read::read_exact(server.stdout.as_mut().unwrap(), &mut [0]).unwrap();
    signal(&server, "-TERM");
    std::thread::sleep(Duration::from_millis(300)); // the signal has arrived
    assert_eq!(end(server).0, 0);
}

/// Returns one transaction for each object.
fn transactions(objects: std::ops::Range<u32>) -> String {
    let lines = objects.map(|object| {
        format!(
            "{{\"op\":\"begin\"}}\n{{\"op\":\"vertex.move\",\"vertices\":{{\"all\":true}},\"by\":[{object},0,0]}}\n{{\"op\":\"commit\"}}\n"
        )
    });
    lines.collect()
}

#[test]
fn a_script_that_waits_after_a_commit_ends_there_and_reports_it() {
    for (rest, expected, error) in
        [("", 0, None), ("{\"op\":\"begin\"}\n", 2, Some("it was dropped"))]
    {
        let store = Unpacked::new("sl3_streamlines");
        let mut edit = start(&["edit", store.path().to_str().unwrap(), "--json"]);
        let script = transactions(1..2) + rest;
        edit.stdin.as_mut().unwrap().write_all(script.as_bytes()).unwrap();
        let done = store.path().with_file_name("sl3_streamlines.zarrvectors.zvf/done");
        wait_for(|| done.exists());
        std::thread::sleep(Duration::from_millis(200));
        signal(&edit, "-INT");
        let stdin = edit.stdin.take();
        let (code, output) = end(edit);
        drop(stdin);
        assert_eq!(code, expected, "{output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["commits"][0]["head"], 1, "{report}");
        let message = report["error"]["message"].as_str();
        assert!(message.is_some() == error.is_some(), "{report}");
        assert!(error.is_none_or(|text| message.unwrap().contains(text)), "{report}");
    }
}

#[test]
fn a_script_that_has_committed_is_completed_or_says_what_stands() {
    const COMMITS: u32 = 12;
    for signals in [1, 2] {
        let store = Unpacked::new("sl3_streamlines");
        let script = store.path().with_file_name("script.jsonl");
        fs::write(&script, transactions(1..COMMITS + 1)).unwrap();
        let (address, script) = (store.path().to_str().unwrap(), script.to_str().unwrap());
        let edit = start(&["edit", address, "--json", "--script", script]);
        wait_for(|| count_commits(store.path()) > 0);
        for _ in 0..signals {
            signal(&edit, "-INT");
            std::thread::sleep(Duration::from_millis(5));
        }
        let (code, output) = end(edit);
        let report: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        let commits = report["commits"].as_array().unwrap().len();
        assert_eq!(commits, count_commits(store.path()), "{report}");
        let is_whole = commits == COMMITS as usize;
        assert!(is_whole || signals == 2, "{report}");
        assert_eq!(code, if is_whole { 0 } else { 6 }, "{output:?}");
        assert_eq!(report["error"].is_null(), is_whole, "{report}");
    }
}

#[test]
fn the_exit_code_tells_whether_something_was_committed() {
    let template = Unpacked::new("sl3_streamlines");
    let before = tree(template.path());
    let args = |store: &str| ["edit", "rm", store, "--objects", "0"].map(str::to_owned);
    let run = |wait: Option<Duration>| {
        let store = Unpacked::new("sl3_streamlines");
        let args = args(store.path().to_str().unwrap());
        let start_time = Instant::now();
        let edit = start(&args.each_ref().map(String::as_str));
        if let Some(wait) = wait {
            std::thread::sleep(wait);
            signal(&edit, "-INT");
        }
        let (code, output) = end(edit);
        (store, code, output, start_time.elapsed())
    };
    let whole = (0..3).map(|_| run(None).3).max().unwrap();
    for round in 0..24_u32 {
        // Handlers are installed within the first moments.
        let (store, code, output, _) = run(Some(whole * (round + 6) / 30));
        let commits = count_commits(store.path());
        match code {
            0 => assert_eq!(commits, 1, "{output:?}"),
            130 => assert!(commits == 0 && tree(store.path()) == before, "{output:?}"),
            _ => panic!("{code}: {output:?}"),
        }
    }
}

#[test]
fn a_second_signal_ends_a_command_that_waits_and_tells_no_lie() {
    let store = Unpacked::new("sl3_streamlines");
    let address = store.path().to_str().unwrap();
    let side = store.path().with_file_name("sl3_streamlines.zarrvectors.zvf");
    fs::create_dir(&side).unwrap();
    for signals in [1, 2] {
        // A reader prevents the commit from being applied.
        let reader = File::create(side.join("lock")).unwrap();
        reader.lock_shared().unwrap();
        let before = count_commits(store.path());
        let edit = start(&["edit", "rm", address, "--objects", &signals.to_string()]);
        wait_for(|| count_commits(store.path()) > before);
        signal(&edit, "-INT");
        if signals == 1 {
            std::thread::sleep(Duration::from_millis(300));
            drop(reader);
            let (code, output) = end(edit);
            assert_eq!(code, 0, "{output:?}");
            assert!(output.stdout.starts_with(b"commit 1: "), "{output:?}");
            continue;
        }
        std::thread::sleep(Duration::from_millis(100));
        signal(&edit, "-INT");
        let start = Instant::now();
        let (code, output) = end(edit);
        assert!(start.elapsed() < Duration::from_secs(10));
        assert_eq!(code, 6, "{output:?}");
        drop(reader);
    }
    assert_eq!(count_commits(store.path()), 2);
}
