//! A store in an icechunk repository, used by commands.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::stores::{store, zvf};

/// Returns the output of a command that succeeds.
fn run_ok(args: &[&str]) -> String {
    let ran = zvf(args);
    assert_eq!(ran.code, 0, "{args:?}: {}", ran.err);
    ran.out
}

fn json(args: &[&str]) -> serde_json::Value {
    serde_json::from_str(&run_ok(&[args, &["--json"]].concat())).unwrap()
}

fn rows(address: &str, folder: &Path) -> String {
    let file = folder.join("rows.csv");
    run_ok(&["query", address, "-o", file.to_str().unwrap(), "--overwrite", "--quiet"]);
    std::fs::read_to_string(file).unwrap()
}

#[test]
fn a_repository_is_edited_and_read_at_every_version() {
    let store = store("gr3_pyramid");
    let folder = archives::scratch();
    let plain = store.arg();
    let address = format!("icechunk+file://{}/brain", folder.path().display());
    let snapshot_prefix = format!("{address}?snapshot=");
    run_ok(&["convert", plain, &address]);
    assert_eq!(rows(&address, folder.path()), rows(plain, folder.path()));
    assert!(run_ok(&["validate", &address]).contains("no errors"));
    let refused = zvf(&["convert", plain, &address]);
    assert!(refused.code != 0 && refused.err.contains("already exists"), "{refused:?}");

    let script = folder.path().join("script.jsonl");
    let line = r#"{"op": "vertex.move", "vertices": {"all": true}, "by": [1, 0, 0]}"#;
    std::fs::write(&script, line).unwrap();
    let script = script.to_str().unwrap();
    for target in [plain, address.as_str()] {
        run_ok(&["edit", target, "--script", script, "--message", "moved"]);
    }
    assert_eq!(rows(&address, folder.path()), rows(plain, folder.path()));
    let log = json(&["history", "log", &address]);
    assert_eq!((&log[0]["head"], &log[0]["message"]), (&2.into(), &"moved".into()));
    let first = format!("{snapshot_prefix}{}", log[1]["txid"].as_str().unwrap());
    assert_ne!(rows(&first, folder.path()), rows(&address, folder.path()));
    let refused = zvf(&["edit", &first, "--script", script]);
    assert!(refused.code != 0 && refused.err.contains("never changes"), "{refused:?}");
    assert_eq!(zvf(&["history", "diff", &first, &address, "--exit-code"]).code, 1);

    run_ok(&["pyramid", &address, "--refresh"]);
    assert_eq!(json(&["history", "log", &address])[0]["head"], 3);
    run_ok(&["history", "undo", &address, "--to", "1"]);
    assert_eq!(zvf(&["history", "diff", &first, &address, "--exit-code"]).code, 0);
    let refused = zvf(&["history", "gc", &address]);
    assert!(refused.code != 0 && refused.err.contains("garbage_collect"), "{refused:?}");
    run_ok(&["rewrite", &address, "--in-place", "--codec", "zstd:3"]);
    assert!(run_ok(&["validate", &address]).contains("no errors"));
    assert_eq!(json(&["history", "log", &address])[0]["message"], "zvf rewrite");
    assert_eq!(
        json(&["history", "log", &format!("{address}?branch=main"), "--limit", "1"])
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        archives::tree(folder.path()).keys().filter(|key| !key.starts_with("brain/")).count(),
        2
    );
}

/// Returns the body of the response of a local server; empty for an error.
fn get(server: &str, path: &str) -> String {
    let host = server.trim().trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    if head.starts_with("HTTP/1.1 200") { body.to_owned() } else { String::new() }
}

#[test]
fn a_server_keeps_the_version_it_opened() {
    let store = store("gr3_pyramid");
    let folder = archives::scratch();
    let address = format!("icechunk+file://{}/brain", folder.path().display());
    run_ok(&["convert", store.arg(), &address]);
    let mut server = Command::new(env!("CARGO_BIN_EXE_zvf"))
        .args(["serve", &address, "--bind", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
    let fetch = || {
        let document = get(&url, "/data/brain/0/vertices/zarr.json");
        (get(&url, "/api/brain/info"), document, get(&url, "/api/brain/keys?deep=1"))
    };
    let before = fetch();
    run_ok(&["rewrite", &address, "--in-place", "--codec", "zstd:3"]);
    let after = fetch();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(before.0.contains("\"graph\""), "{}", before.0);
    assert!(before.1.contains("node_type") && before.2.contains("keys"), "{before:?}");
    assert_eq!(before, after);
}
