//! Tests of a server over real connections.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use zvf_serve::{Config, Limits, Server};

mod access;
mod api;
mod files;
mod limits;
mod precomputed;
mod routes;
mod viewer;

/// A served copy of a small store, with a secret file next to it.
struct Served {
    server: Server,
    scratch: tempfile::TempDir,
}

impl Served {
    fn start(adjust: impl FnOnce(&mut Config)) -> Self {
        let scratch = archives::scratch();
        let store = scratch.path().join("three.zarrvectors");
        archives::copy(&source(), &store).unwrap();
        std::fs::write(scratch.path().join("canary"), "canary").unwrap();
        let address = store.to_str().unwrap().to_owned();
        let mut config = Config::new([address], "127.0.0.1:0".parse().unwrap());
        adjust(&mut config);
        Self { server: Server::start(config).unwrap(), scratch }
    }

    /// Serves a store that lies elsewhere.
    fn serve(store: &Path) -> Self {
        Self::start(|config| {
            config.addresses = vec![store.to_str().unwrap().to_owned()];
        })
    }

    fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Sends a GET of `target` with `headers`, one per line.
    fn get(&self, target: &str, headers: &[&str]) -> Response {
        self.request("GET", target, headers, "")
    }

    fn request(&self, method: &str, target: &str, headers: &[&str], body: &str) -> Response {
        let mut request =
            format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        for header in headers {
            request.push_str(header);
            request.push_str("\r\n");
        }
        if !body.is_empty() {
            request.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        request.push_str("\r\n");
        request.push_str(body);
        self.send(request.as_bytes())
    }

    /// Sends bytes unchanged and reads until the server closes.
    fn send(&self, request: &[u8]) -> Response {
        let mut stream = self.connect();
        stream.write_all(request).unwrap();
        let mut bytes = Vec::new();
        // A reset after the answer is fine: the server does not read refused requests.
        let _ = stream.read_to_end(&mut bytes);
        Response::parse(&bytes)
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }
}

/// Returns a store of this workspace with points in three cells.
fn source() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../zvf-store/testdata/three.zarrvectors")
}

/// A received answer.
#[derive(Debug)]
struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    is_whole: bool,
}

impl Response {
    fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<(String, String)> = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let raw = &bytes[end + 4..];
        let is_chunked = headers.iter().any(|(name, _)| name == "transfer-encoding");
        let (body, is_whole) = if is_chunked { join_chunks(raw) } else { (raw.to_vec(), true) };
        Self { status, headers, body, is_whole }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

/// Joins the chunks of a body, and returns whether the last one arrived.
fn join_chunks(mut raw: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(end) = raw.windows(2).position(|window| window == b"\r\n") else {
            return (body, false);
        };
        let len = usize::from_str_radix(std::str::from_utf8(&raw[..end]).unwrap(), 16).unwrap();
        if len == 0 {
            return (body, true);
        }
        let Some(chunk) = raw.get(end + 2..end + 2 + len) else { return (body, false) };
        body.extend_from_slice(chunk);
        raw = &raw[end + 2 + len + 2..];
    }
}

/// Sets short timeouts.
fn set_short_timeouts(config: &mut Config) {
    config.limits = Limits {
        first_byte_timeout: Duration::from_millis(300),
        header_timeout: Duration::from_millis(300),
        body_timeout: Duration::from_millis(300),
        idle_timeout: Duration::from_millis(300),
        write_stall_timeout: Duration::from_millis(300),
        ..Limits::default()
    };
}
