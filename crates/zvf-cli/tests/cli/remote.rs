//! A store behind plain HTTP, and one that never answers.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use crate::stores::{store, zvf};

/// Serves the files below `root`, by range where asked, on a port of its own; it ends with the test.
fn serve(root: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, root) = (stream.unwrap(), root.clone());
            thread::spawn(move || while answer(&stream, &root).is_some() {});
        }
    });
    address
}

fn answer(mut stream: &TcpStream, root: &Path) -> Option<()> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let request = lines.next()?;
    let mut range = None;
    for line in lines.by_ref().take_while(|line| !line.is_empty()) {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
            range = Some(value.to_owned());
        }
    }
    let path = request.split(' ').nth(1)?.trim_start_matches('/').to_owned();
    let Ok(bytes) = fs::read(root.join(path)) else {
        return stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").ok();
    };
    let total = bytes.len();
    let (start, end) = match range.as_deref().and_then(|range| range.split_once('-')) {
        None => (0, total),
        Some(("", last)) => (total.saturating_sub(last.parse().ok()?), total),
        Some((start, "")) => (start.parse().ok()?, total),
        Some((start, end)) => (start.parse().ok()?, total.min(end.parse::<usize>().ok()? + 1)),
    };
    let body = if request.starts_with("HEAD") { &[][..] } else { bytes.get(start..end)? };
    let status = if range.is_some() { "206 Partial Content" } else { "200 OK" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nContent-Range: bytes {start}-{}/{total}\r\n\
         ETag: \"{total}\"\r\nLast-Modified: Mon, 05 Jan 2026 10:00:00 GMT\r\n\r\n",
        end - start,
        end.saturating_sub(1)
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body).ok()
}

#[test]
fn a_store_behind_plain_http() {
    let store = store("pc3_basic");
    let url = serve(store.path.clone());
    let args = [url.as_str()];
    let here = zvf(&["query", store.arg(), "--bbox", "0,0,0:300,300,300"]).clean();
    let there = zvf(&[&["query", "-q", "--bbox", "0,0,0:300,300,300"], &args[..]].concat()).clean();
    assert_eq!(here, there);
    let ran = zvf(&[&["ls", "--json"], &args[..]].concat());
    let arrays: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &arrays["complete"]), (0, &false.into()));
    let ran = zvf(&[&["info"], &args[..]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err.starts_with("zvf: note: 0/vertex_attributes, ")
            && ran.err.contains(" cannot be listed here: only what metadata"),
        "{}",
        ran.err
    );
}

#[test]
#[cfg(unix)]
fn an_interrupt_ends_with_130() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/store", listener.local_addr().unwrap());
    let child = Command::new(env!("CARGO_BIN_EXE_zvf"))
        .args(["info", &url])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.unwrap();
    let silent = listener.accept().unwrap(); // it is waiting for an answer now
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(
        (child.wait().unwrap().code(), said.as_str()),
        (Some(130), "zvf: Cancelled, interrupted\n")
    );
    drop(silent);
}
