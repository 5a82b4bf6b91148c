//! A store behind plain HTTP, and a server that never answers.

use std::fs;
use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use archives::http::{Exchange, serve_files};

use crate::stores::{check_has, done, json_lines, store, zvf};

/// Serves the files below `root`.
fn serve(root: PathBuf) -> String {
    serve_after(root, |_path| ())
}

/// Serves the files; answers the request for each path after `wait` has returned.
fn serve_after(root: PathBuf, wait: impl Fn(&str) + Clone + Send + Sync + 'static) -> String {
    let address = serve_files(root, move |exchange| {
        if let Exchange::Asked(path) = exchange {
            wait(path);
        }
    });
    format!("http://{}", address.unwrap())
}

#[test]
fn plain_http_requires_options_for_unlisted_attributes() {
    let store = store("pc3_basic");
    let url = serve(store.path.clone());
    let args = [url.as_str()];
    let local = zvf(&["query", store.arg(), "--bbox", "0,0,0:300,300,300"]).clean();
    let query = ["query", "-q", url.as_str(), "--bbox", "0,0,0:300,300,300"];
    for allowed in [&["--attributes", "none"][..], &["--allow-missing"]] {
        assert_eq!(zvf(&[&query[..], allowed].concat()).clean(), local);
    }
    // An incomplete answer does not show what is missing, so it is refused.
    for options in [&[][..], &["--stream"]] {
        let error = zvf(&[&query[..], options].concat()).refused(2);
        check_has(&error, "0/vertex_attributes cannot be listed, and no metadata");
        check_has(&error, "or leave them out with --allow-missing");
    }
    let ran = zvf(&[&["inspect", "arrays", "--json"], &args[..]].concat());
    let arrays = ran.value();
    assert_eq!((ran.code, &arrays["complete"]), (0, &false.into()));
    let ran = zvf(&[&["inspect", "arrays"], &args[..]].concat());
    assert!(ran.out.ends_with(", those that metadata names\n"), "{}", ran.out); // no sizes
    let ran = done(&[&["info"], &args[..]].concat());
    assert!(
        ran.err.starts_with("zvf: note: the root, 0/vertex_attributes, ")
            && ran.err.contains(" cannot be listed: only arrays that metadata"),
        "{}",
        ran.err
    );
}

#[test]
#[cfg(unix)]
fn an_interrupt_exits_with_code_130() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/store", listener.local_addr().unwrap());
    let child = Command::new(env!("CARGO_BIN_EXE_zvf"))
        .args(["info", &url])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.unwrap();
    let connection = accept(&listener, &mut child); // the command waits for an answer now
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(130), "zvf: interrupted\n"));
    drop(connection);
}

/// Accepts the connection of `child`; fails if it ends without one.
#[cfg(unix)]
fn accept(listener: &TcpListener, child: &mut std::process::Child) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    loop {
        match listener.accept() {
            Ok((stream, _)) => return stream,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                let ended = child.try_wait().unwrap();
                assert!(ended.is_none(), "the command ended before it connected: {ended:?}");
                thread::sleep(std::time::Duration::from_millis(10));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_journal_that_cannot_be_read_is_named() {
    let store = store("pc3_basic");
    let root = store.path.join("zarr.json");
    let mut document: serde_json::Value =
        serde_json::from_slice(&fs::read(&root).unwrap()).unwrap();
    document["attributes"]["zvf"] = serde_json::json!({"journal": 1});
    let url = serve(store.path.clone());
    let note = "zvf: note: the journal of this store cannot be read";
    assert!(!zvf(&["info", &url]).err.contains(note));
    fs::write(&root, document.to_string()).unwrap();
    let ran = done(&["info", &url]);
    assert_eq!(ran.err.lines().filter(|line| line.starts_with(note)).count(), 1, "{}", ran.err);
}

#[test]
fn rules_that_need_a_listing_are_skipped_and_reported() {
    let valid = store("pc3_objects");
    let url = serve(valid.path.clone());
    let ran = done(&["validate", "-q", &url]);
    check_has(&ran.out, "not checked, nothing lists it here: S16 of the store");
    assert!(ran.out.contains("C28 of 0/vertices"), "{}", ran.out);
    assert!(ran.out.ends_with(": no errors; some checks skipped\n"), "{}", ran.out);

    let ran = zvf(&["validate", "-q", "--json", &url]);
    let lines = json_lines(&ran.out);
    let (summary, skipped) = lines.split_last().unwrap();
    assert!(skipped.iter().all(|line| line["unseen"] == true && line["severity"] == "note"));
    assert_eq!(summary["summary"]["unseen"], skipped.len());
    assert!(!skipped.is_empty());

    let ran = zvf(&["validate", "-q", "--sarif", "-", &url]);
    let log = ran.value();
    let notifications =
        log["runs"][0]["invocations"][0]["toolExecutionNotifications"].as_array().unwrap();
    assert_eq!(notifications.len(), skipped.len());
    assert_eq!(log["runs"][0]["results"], serde_json::json!([]));

    // Existing data is checked as in any other store.
    let broken = store("broken/fi_range_past_end");
    let url = serve(broken.path.clone());
    let ran = zvf(&["validate", "-q", &url]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.starts_with("error C21: "), "{}", ran.out);
    // The store is read-only, but the plan is still printed.
    done(&["repair", "-q", "--plan", &url]);
    let ran = zvf(&["repair", "-q", "--apply", &url]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
}

#[test]
#[cfg(unix)]
fn an_interrupt_prints_what_was_found_so_far() {
    let store = store("broken/md_bounds_inverted");
    let (sender, receiver) = std::sync::mpsc::channel();
    let url = serve_after(store.path.clone(), move |path| {
        if path.contains("/c/") {
            // Cells are being read now; the remaining ones are slow.
            let _ = sender.send(());
            thread::sleep(std::time::Duration::from_millis(300));
        }
    });
    let child = Command::new(env!("CARGO_BIN_EXE_zvf"))
        .args(["validate", "-q", &url])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    receiver.recv().unwrap();
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    let ran = crate::stores::Ran::from(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.err.as_str()), (130, "zvf: interrupted\n"), "{}", ran.out);
    assert!(ran.out.starts_with("error M4: "), "{}", ran.out);
    assert!(ran.out.ends_with(", stopped before the end\n"), "{}", ran.out);
}
