//! A client that sends given bytes, well-formed or not, and reads the answer.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, ensure};

/// A connection.
pub(crate) struct Client {
    pub(super) stream: TcpStream,
    came: Vec<u8>,
}

/// The bytes received on a connection until it was closed.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) bytes: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, WAIT).context("cannot connect")?;
        stream.set_read_timeout(Some(WAIT))?;
        stream.set_write_timeout(Some(WAIT))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, came: Vec::new() })
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends; a connection that the server closed meanwhile is no error, because it has answered then.
    pub(crate) fn send_all_or_reset(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.send(bytes) {
            Err(error) if is_gone(&error) => Ok(()),
            sent => sent,
        }
    }

    /// Reads until the server closes; a timeout is an error.
    pub(crate) fn read_to_end(mut self) -> anyhow::Result<Answer> {
        let mut bytes = std::mem::take(&mut self.came);
        match self.stream.read_to_end(&mut bytes) {
            Err(error) if !is_gone(&error) => Err(error).context("the connection stays open"),
            _ => Ok(Answer { bytes }),
        }
    }

    /// Sends a request on a persistent connection, and reads an answer that states its length; returns its status and
    /// the length of its body.
    pub(crate) fn ask(&mut self, request: &[u8]) -> anyhow::Result<(u16, usize)> {
        self.send(request)?;
        let mut piece = [0; 16 << 10];
        let head = loop {
            if let Some(end) = find_bytes(&self.came, b"\r\n\r\n") {
                break end + 4;
            }
            let count = self.stream.read(&mut piece)?;
            ensure!(count > 0, "closed in the middle of a head");
            self.came.extend_from_slice(&piece[..count]);
        };
        let answer = Answer { bytes: self.came[..head].to_vec() };
        let status = answer.status().context("no status")?;
        let length: usize =
            answer.header("content-length").context("no length")?.parse().context("a length")?;
        let mut left = (head + length).saturating_sub(self.came.len());
        self.came.drain(..(head + length).min(self.came.len()));
        while left > 0 {
            let max_bytes = left.min(piece.len());
            let count = self.stream.read(&mut piece[..max_bytes])?;
            ensure!(count > 0, "closed in the middle of a body");
            left -= count;
        }
        Ok((status, length))
    }
}

impl Answer {
    /// Returns the status of the first answer, if one arrived.
    pub(crate) fn status(&self) -> Option<u16> {
        let line = self.head()?.split("\r\n").next()?.to_owned();
        let mut words = line.split(' ');
        words.next().filter(|version| version.starts_with("HTTP/1."))?;
        words.next()?.parse().ok()
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let head = self.head()?;
        let mut fields = head.split("\r\n").skip(1).filter_map(|line| line.split_once(": "));
        let found = fields.find(|(field, _)| field.eq_ignore_ascii_case(name))?;
        Some(found.1.to_owned())
    }

    fn head(&self) -> Option<String> {
        let end = find_bytes(&self.bytes, b"\r\n\r\n")?;
        Some(String::from_utf8_lossy(&self.bytes[..end]).into_owned())
    }

    /// Returns the bytes after the first head.
    pub(crate) fn body(&self) -> &[u8] {
        find_bytes(&self.bytes, b"\r\n\r\n").map_or(&[][..], |end| &self.bytes[end + 4..])
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

    pub(crate) fn contains(&self, text: &str) -> bool {
        find_bytes(&self.bytes, text.as_bytes()).is_some()
    }

    /// Returns the number of consecutive answers.
    pub(crate) fn count_answers(&self) -> usize {
        self.bytes.windows(STATUS_LINE.len()).filter(|window| *window == STATUS_LINE).count()
    }
}

fn find_bytes(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}

/// Returns whether the other side has closed or reset the connection.
fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted
    )
}

/// The timeout of operations that must complete at once.
const WAIT: Duration = Duration::from_secs(20);
const STATUS_LINE: &[u8] = b"HTTP/1.1 ";
