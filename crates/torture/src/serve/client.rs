//! A client that sends given bytes, well-formed or not, and reads the answer.

use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, ensure};

/// A connection.
pub(crate) struct Client {
    pub(super) stream: BufReader<TcpStream>,
}

/// The bytes received on a connection until it was closed, and the parts of the first answer.
pub(crate) struct Answer {
    bytes: Vec<u8>,
    /// The status, if one arrived.
    pub(crate) status: Option<u16>,
    headers: Vec<(String, String)>,
    /// Where the body begins.
    body: usize,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, WAIT).context("cannot connect")?;
        stream.set_read_timeout(Some(WAIT))?;
        stream.set_write_timeout(Some(WAIT))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Sends, and reads until the server closes; a timeout is an error. A server that closes
    /// meanwhile has answered.
    pub(crate) fn exchange(mut self, request: &[u8]) -> anyhow::Result<Answer> {
        let mut bytes = Vec::new();
        let is_gone = |error: &io::Error| GONE.contains(&error.kind());
        self.send(request).or_else(|error| if is_gone(&error) { Ok(()) } else { Err(error) })?;
        match self.stream.read_to_end(&mut bytes) {
            Err(error) if !is_gone(&error) => Err(error).context("the connection stays open"),
            _ => Ok(Answer::parse(bytes)),
        }
    }

    /// Sends a request on a persistent connection, and reads an answer that states its length; returns its status and
    /// the length of its body.
    pub(crate) fn ask(&mut self, request: &[u8]) -> anyhow::Result<(u16, u64)> {
        self.send(request)?;
        let mut head = Vec::new();
        while !head.ends_with(END_OF_HEAD) {
            let count = self.stream.read_until(b'\n', &mut head)?;
            ensure!(count > 0, "closed in the middle of a head");
        }
        let answer = Answer::parse(head);
        let length = answer.header("content-length").context("no length")?.parse()?;
        let came = io::copy(&mut self.stream.by_ref().take(length), &mut io::sink())?;
        ensure!(came == length, "closed in the middle of a body");
        Ok((answer.status.context("no status")?, length))
    }
}

impl Answer {
    fn parse(bytes: Vec<u8>) -> Self {
        let end = find_bytes(&bytes, END_OF_HEAD);
        let head = String::from_utf8_lossy(&bytes[..end.unwrap_or(0)]).into_owned();
        let mut lines = head.split("\r\n");
        let version = lines.next().and_then(|line| line.strip_prefix("HTTP/1."));
        let status = version.and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let body = end.map_or(bytes.len(), |end| end + END_OF_HEAD.len());
        Self { bytes, status, headers, body }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(header, _)| header.eq_ignore_ascii_case(name))?;
        Some(&found.1)
    }

    /// Returns the bytes after the first head.
    pub(crate) fn body(&self) -> &[u8] {
        &self.bytes[self.body..]
    }

    /// Returns the body of one answer, also of one in pieces; `None` when it is cut off.
    pub(crate) fn decode_body(&self) -> Option<Vec<u8>> {
        let mut left = self.body();
        if let Some(length) = self.header("content-length") {
            return (length.parse() == Ok(left.len())).then(|| left.to_vec());
        }
        let mut body = Vec::new();
        loop {
            let end = find_bytes(left, b"\r\n")?;
            let size = usize::from_str_radix(str::from_utf8(&left[..end]).ok()?, 16).ok()?;
            if size == 0 {
                return Some(body);
            }
            body.extend_from_slice(left.get(end + 2..end + 2 + size)?);
            left = left.get(end + 4 + size..)?;
        }
    }

    /// Returns how often a text occurs in everything received.
    pub(crate) fn count(&self, text: &str) -> usize {
        self.bytes.windows(text.len()).filter(|window| *window == text.as_bytes()).count()
    }
}

fn find_bytes(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}

const END_OF_HEAD: &[u8] = b"\r\n\r\n";
/// The errors of a connection that the other side has closed or reset.
const GONE: [ErrorKind; 3] =
    [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe, ErrorKind::ConnectionAborted];
/// The timeout of operations that must complete at once.
const WAIT: Duration = Duration::from_secs(20);
