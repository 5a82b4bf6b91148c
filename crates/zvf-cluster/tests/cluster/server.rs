//! A store behind plain HTTP, whose chunks can be held back: so a test knows that a scan is under way.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use crate::processes::PATIENCE;

/// How many chunks may be read, and how many were asked for.
#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    allowed: usize,
    asked: usize,
}

impl Gate {
    /// A gate that lets `allowed` requests for chunks pass.
    pub(crate) fn new(allowed: usize) -> Arc<Self> {
        let state = Mutex::new(State { allowed, asked: 0 });
        Arc::new(Self { state, changed: Condvar::new() })
    }

    /// Waits until more were asked for than may pass.
    pub(crate) fn wait_until_held(&self) {
        let state = self.state.lock().unwrap();
        let is_free = |state: &mut State| state.asked <= state.allowed;
        let (_state, waited) = self.changed.wait_timeout_while(state, PATIENCE, is_free).unwrap();
        assert!(!waited.timed_out(), "nobody asks for chunks");
    }

    /// Lets everything pass from now on.
    pub(crate) fn open(&self) {
        self.state.lock().unwrap().allowed = usize::MAX;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.asked += 1;
        let own = state.asked;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |state| state.allowed < own).unwrap());
    }
}

/// Serves the files below `root` on a port of its own; it ends with the test.
pub(crate) fn serve(root: PathBuf, gate: Arc<Gate>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, root, gate) = (stream.unwrap(), root.clone(), Arc::clone(&gate));
            thread::spawn(move || while answer(&stream, &root, &gate).is_some() {});
        }
    });
    address
}

fn answer(mut stream: &TcpStream, root: &Path, gate: &Gate) -> Option<()> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let request = lines.next()?;
    let mut range = None;
    for line in lines.by_ref().take_while(|line| !line.is_empty()) {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
            range = Some(value.to_owned());
        }
    }
    let path = request.split(' ').nth(1)?.trim_start_matches('/').to_owned();
    if path.contains("/vertices/c/") {
        gate.pass();
    }
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
