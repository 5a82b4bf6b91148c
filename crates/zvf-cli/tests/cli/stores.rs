//! Stores unpacked from their archives, and functions that run the command.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

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

    /// Returns the standard output as JSON.
    pub(crate) fn json(self) -> serde_json::Value {
        serde_json::from_str(&self.clean()).unwrap()
    }

    /// Returns the one line on standard error, when the command ended with `code` and printed
    /// nothing else.
    pub(crate) fn refused(self, code: i32) -> String {
        assert_eq!((self.code, self.out.as_str()), (code, ""), "{}", self.err);
        assert_eq!(self.err.lines().count(), 1, "{}", self.err);
        self.err.trim_end().to_owned()
    }
}
