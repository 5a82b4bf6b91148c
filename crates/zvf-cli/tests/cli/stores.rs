//! Stores to look into, unpacked from their archives; and how the command is run.

use std::path::PathBuf;
use std::process::Output;

use assert_cmd::Command;

/// A store in a folder that is removed with it.
pub(crate) struct Unpacked {
    _folder: archives::Unpacked,
    pub(crate) path: PathBuf,
}

impl Unpacked {
    /// As a word of a command line.
    pub(crate) fn arg(&self) -> &str {
        self.path.to_str().unwrap()
    }
}

/// The store `id` of the golden ones; `broken/<id>` is one with a fault.
pub(crate) fn store(id: &str) -> Unpacked {
    let folder = archives::Unpacked::new(id);
    Unpacked { path: folder.path().to_owned(), _folder: folder }
}

/// What the command did with `args`.
pub(crate) fn zvf(args: &[&str]) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_zvf")).args(args).output().unwrap();
    Ran::from(output)
}

/// How it ended and what it said.
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
            // Whether there is progress depends on the clock.
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
    /// What it printed, when all went well and nothing was said.
    pub(crate) fn clean(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{}", self.out);
        self.out
    }

    /// What it printed, as JSON.
    pub(crate) fn json(self) -> serde_json::Value {
        serde_json::from_str(&self.clean()).unwrap()
    }

    /// The one line it said, when it ended with `code` and printed nothing.
    pub(crate) fn refused(self, code: i32) -> String {
        assert_eq!((self.code, self.out.as_str()), (code, ""), "{}", self.err);
        assert_eq!(self.err.lines().count(), 1, "{}", self.err);
        self.err.trim_end().to_owned()
    }
}
