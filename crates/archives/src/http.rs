//! Files over plain HTTP on loopback, by range where requested, for tests and benches. There is no listing.

use std::fs;
use std::io::{self, BufRead, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;

/// Events of the server: a handler may wait, and so delay an answer.
#[derive(Clone, Copy, Debug)]
pub enum Exchange<'a> {
    /// This path was requested, and is not answered yet.
    Asked(&'a str),
    /// A body of so many bytes is about to be sent.
    Sent(usize),
}

/// Serves the files below `root` on a port of its own until the process ends.
///
/// # Errors
///
/// When it cannot listen.
pub fn serve_files(
    root: PathBuf,
    look: impl Fn(Exchange<'_>) + Clone + Send + 'static,
) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (root, look) = (root.clone(), look.clone());
            thread::spawn(move || {
                // An answer of two small writes would wait for an acknowledgement.
                let _ = stream.set_nodelay(true);
                let mut lines = BufReader::new(&stream);
                while answer(&mut lines, &stream, &root, &look).is_some() {}
            });
        }
    });
    Ok(address)
}

/// Answers one request; returns `None` at the end of the connection.
fn answer(
    lines: &mut impl BufRead,
    mut stream: &TcpStream,
    root: &Path,
    look: &impl Fn(Exchange<'_>),
) -> Option<()> {
    let mut lines = lines.lines().map_while(Result::ok);
    let request = lines.next()?;
    let mut range = None;
    for line in lines.by_ref().take_while(|line| !line.is_empty()) {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
            range = Some(value.to_owned());
        }
    }
    let path = request.split(' ').nth(1)?.trim_start_matches('/');
    look(Exchange::Asked(path));
    let Ok(bytes) = fs::read(root.join(path)) else {
        return stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").ok();
    };
    let total = bytes.len();
    let (start, end) = match range.as_deref().and_then(|range| range.split_once('-')) {
        None => (0, total),
        // A range longer than the file means all of it.
        Some(("", last)) => (total.saturating_sub(last.parse().ok()?), total),
        Some((start, "")) => (start.parse().ok()?, total),
        Some((start, end)) => (start.parse().ok()?, total.min(end.parse::<usize>().ok()? + 1)),
    };
    let body = bytes.get(start..end)?;
    let status = if range.is_some() { "206 Partial Content" } else { "200 OK" };
    let mut out = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nContent-Range: bytes {start}-{}/{total}\r\n\
         ETag: \"{total}\"\r\nLast-Modified: Mon, 05 Jan 2026 10:00:00 GMT\r\n\r\n",
        body.len(),
        end.saturating_sub(1)
    )
    .into_bytes();
    if !request.starts_with("HEAD") {
        look(Exchange::Sent(body.len()));
        out.extend(body);
    }
    stream.write_all(&out).ok()
}
