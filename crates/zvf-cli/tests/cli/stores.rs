//! Stores unpacked from their archives, and functions that run the command.

use std::fs;
#[cfg(feature = "serve")]
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
#[cfg(feature = "serve")]
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Output, Stdio};
use std::time::Duration;

use assert_cmd::Command;

/// A store in a temporary folder.
pub(crate) struct Unpacked {
    _folder: archives::Unpacked,
    pub(crate) path: PathBuf,
}

impl Unpacked {
    /// Returns the path as an argument of a command line.
    pub(crate) fn arg(&self) -> &str {
        self.path.to_str().unwrap()
    }
}

/// A temporary folder for the files of a test.
pub(crate) struct Folder(pub(crate) tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn at(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        fs::write(self.0.path().join(name), text).unwrap();
        self.at(name)
    }
}

/// Unpacks the golden store `id`; `broken/<id>` is one with a fault.
pub(crate) fn store(id: &str) -> Unpacked {
    let folder = archives::Unpacked::new(id);
    Unpacked { path: folder.path().to_owned(), _folder: folder }
}

/// Runs the command with `args`.
pub(crate) fn zvf(args: &[&str]) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_zvf")).args(args).output().unwrap();
    Ran::from(output)
}

/// Returns the words of a line, as arguments.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// Runs a command that succeeds; it may print notes.
#[track_caller]
pub(crate) fn done(args: &[&str]) -> Ran {
    let ran = zvf(args);
    assert_eq!(ran.code, 0, "{args:?}: {}{}", ran.out, ran.err);
    ran
}

/// Starts a command whose output is read later, or not at all.
pub(crate) fn start(args: &[&str]) -> Child {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_zvf"));
    command.args(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// Kills a process after some milliseconds; returns whether it had ended before.
pub(crate) fn kill(mut process: Child, wait: u64) -> bool {
    std::thread::sleep(Duration::from_millis(wait));
    let ended = process.try_wait().unwrap().is_some();
    process.kill().unwrap();
    process.wait().unwrap();
    ended
}

/// Returns each line of `text` as JSON.
pub(crate) fn json_lines(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A running `zvf serve`, which ends with it.
#[cfg(feature = "serve")]
pub(crate) struct Served(Child, String);

#[cfg(feature = "serve")]
impl Served {
    pub(crate) fn start(store: &str) -> Self {
        let mut server = std::process::Command::new(env!("CARGO_BIN_EXE_zvf"));
        server.args(["serve", store, "--bind", "127.0.0.1:0"]);
        server.stdout(Stdio::piped()).stderr(Stdio::null());
        let (mut server, mut url) = (server.spawn().unwrap(), String::new());
        BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
        let host = url.trim().trim_start_matches("http://").trim_end_matches('/');
        Self(server, host.to_owned())
    }

    /// Returns the body of a response; empty for an error.
    pub(crate) fn get(&self, path: &str) -> String {
        let host = &self.1;
        let mut stream = TcpStream::connect(host).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        if head.contains(" 200 ") { body.to_owned() } else { String::new() }
    }
}

#[cfg(feature = "serve")]
impl Drop for Served {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Fails, and shows `text`, unless `part` is in it.
#[track_caller]
pub(crate) fn check_has(text: &str, part: &str) {
    assert!(text.contains(part), "{text}");
}

/// The exit code and the output of the command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| {
            let text = String::from_utf8_lossy(&bytes);
            let lines = text.split_inclusive('\n');
            // Whether progress is printed depends on the clock.
            lines.filter(|line| !line.starts_with(r#"{"type":"progress""#)).collect::<String>()
        };
        Self {
            code: output.status.code().unwrap(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }
}

impl Ran {
    /// Returns the standard output of a command that succeeds without notes.
    pub(crate) fn clean(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{}", self.out);
        self.out
    }

    /// Returns the standard output of a command that succeeds without notes, as JSON.
    pub(crate) fn json(self) -> serde_json::Value {
        serde_json::from_str(&self.clean()).unwrap()
    }

    /// Returns the standard output as JSON.
    pub(crate) fn value(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap()
    }

    /// Returns the one line on standard error, when the command ended with `code` and printed
    /// nothing else.
    #[track_caller]
    pub(crate) fn refused(self, code: i32) -> String {
        assert_eq!((self.code, self.out.as_str()), (code, ""), "{}", self.err);
        assert_eq!(self.err.lines().count(), 1, "{}", self.err);
        self.err.trim_end().to_owned()
    }

    /// Checks that the command ended as [`refused`](Self::refused) has it, and that the line has `part` in it.
    #[track_caller]
    pub(crate) fn refused_with(self, code: i32, part: &str) {
        check_has(&self.refused(code), part);
    }
}
