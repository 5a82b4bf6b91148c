//! HTTP on loopback, for tests and benches: a file server with range requests, and the common parts
//! of such servers.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

/// Events of the server. A handler may wait, to delay the response.
#[derive(Clone, Copy, Debug)]
pub enum Exchange<'a> {
    /// A path was requested; the response follows when the handler returns.
    Asked(&'a str),
    /// A body of this length is about to be sent.
    Sent(usize),
}

/// Serves the files below `root` on a free port until the process ends. There is no listing.
///
/// # Errors
///
/// When the port cannot be opened.
pub fn serve_files(
    root: PathBuf,
    look: impl Fn(Exchange<'_>) + Send + Sync + 'static,
) -> io::Result<SocketAddr> {
    serve(move |request| {
        let path = request.path.trim_start_matches('/');
        look(Exchange::Asked(path));
        let Ok(bytes) = fs::read(root.join(path)) else { return Reply::new("404 Not Found") };
        let Some(reply) = Reply::with_part(&bytes, request, &format!("\"{}\"", bytes.len())) else {
            return Reply::new("416 Range Not Satisfiable");
        };
        if request.method != "HEAD" {
            look(Exchange::Sent(reply.body.len()));
        }
        reply
    })
}

/// Sends one request without a body on a connection of its own; returns the answer, head and body.
///
/// # Errors
///
/// When the server cannot be reached, or breaks off.
pub fn request(server: SocketAddr, method: &str, path: &str) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server)?;
    let rest = "HTTP/1.1\r\nHost: here\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    stream.write_all(format!("{method} /{path} {rest}").as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

/// Answers requests on a free port until the process ends, with one thread per connection.
pub(crate) fn serve(
    answer: impl Fn(&Request) -> Reply + Send + Sync + 'static,
) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let (address, answer) = (listener.local_addr()?, Arc::new(answer));
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = Arc::clone(&answer);
            thread::spawn(move || {
                // Otherwise a response of two small writes would wait for an acknowledgement.
                let _ = stream.set_nodelay(true);
                let mut lines = BufReader::new(&stream);
                while let Some(request) = Request::read(&mut lines) {
                    let reply = answer(&request);
                    let is_last = request.header("connection") == Some("close");
                    if reply.send(&stream, request.method == "HEAD").is_err() || is_last {
                        break;
                    }
                }
            });
        }
    });
    Ok(address)
}

/// A request.
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// Reads the next request; returns `None` at the end of the connection.
    fn read(wire: &mut BufReader<&TcpStream>) -> Option<Self> {
        let mut lines = wire.by_ref().lines().map_while(Result::ok);
        let first = lines.next()?;
        let headers = lines.take_while(|line| !line.is_empty()).filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        });
        let headers: BTreeMap<String, String> = headers.collect();
        let length = headers.get("content-length").map_or(Some(0), |text| text.parse().ok())?;
        let mut body = vec![0; length];
        wire.read_exact(&mut body).ok()?;
        let mut words = first.split(' ');
        let (method, target) = (words.next()?.to_owned(), words.next()?);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let query = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(&value.replace('+', " ")))
        });
        Some(Self { method, path: decode(path), query: query.collect(), headers, body })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub(crate) fn range(&self) -> Option<&str> {
        self.header("range")?.strip_prefix("bytes=")
    }
}

/// The response to a request.
pub(crate) struct Reply {
    head: String,
    body: Vec<u8>,
}

impl Reply {
    pub(crate) fn new(status: &str) -> Self {
        Self { head: format!("HTTP/1.1 {status}\r\n"), body: Vec::new() }
    }

    /// Returns the reply with `bytes`, or with the range of them that the request names; `None` if
    /// that range is invalid. There is no range in an empty object.
    pub(crate) fn with_part(bytes: &[u8], request: &Request, tag: &str) -> Option<Self> {
        let (range, total) = (request.range(), bytes.len());
        let named = range.filter(|_| total > 0);
        let (start, end) = named.map_or(Some((0, total)), |range| bounds(range, total))?;
        let sent = format!("bytes {start}-{}/{total}", end.saturating_sub(1));
        let reply = Self::new(if range.is_some() { "206 Partial Content" } else { "200 OK" })
            .with_header("Content-Range", &sent)
            .with_header("ETag", tag)
            .with_header("Last-Modified", CHANGED);
        Some(reply.with_body(bytes[start..end].to_vec()))
    }

    pub(crate) fn error(status: &str, code: &str) -> Self {
        Self::new(status).with_body(format!("<Error><Code>{code}</Code></Error>").into_bytes())
    }

    pub(crate) fn with_header(self, name: &str, value: &str) -> Self {
        Self { head: format!("{}{name}: {value}\r\n", self.head), ..self }
    }

    pub(crate) fn with_body(self, body: Vec<u8>) -> Self {
        Self { body, ..self }
    }

    fn send(self, mut stream: &TcpStream, is_head: bool) -> io::Result<()> {
        let head = format!("{}Content-Length: {}\r\n\r\n", self.head, self.body.len());
        let body = if is_head { &[] } else { self.body.as_slice() };
        stream.write_all(&[head.as_bytes(), body].concat())
    }
}

/// Returns start and end of the range `text` of `total` bytes; `None` if it is invalid.
fn bounds(text: &str, total: usize) -> Option<(usize, usize)> {
    let (start, end) = match text.split_once('-')? {
        ("", last) => (total.saturating_sub(last.parse().ok()?), total),
        (start, "") => (start.parse().ok()?, total),
        (start, last) => (start.parse().ok()?, last.parse::<usize>().ok()?.saturating_add(1)),
    };
    let end = end.min(total);
    (start < end).then_some((start, end))
}

/// Percent-decodes text of a URL.
pub(crate) fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let code = more.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &more[2..];
            }
            None => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

const CHANGED: &str = "Mon, 05 Jan 2026 10:00:00 GMT";
