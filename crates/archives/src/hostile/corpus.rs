//! A corpus on disk: `cases.jsonl` and the blobs.
//!
//! Unknown fields are ignored, and cases of unknown kinds are skipped and counted, so that a newer
//! corpus still runs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::Value;

/// A folder of cases.
#[derive(Debug)]
pub struct Corpus {
    folder: PathBuf,
    /// The cases, in the order of the file.
    pub cases: Vec<Case>,
}

/// One line of `cases.jsonl`.
#[derive(Debug, Deserialize)]
pub struct Case {
    /// Its name, unique in the corpus.
    pub id: String,
    /// The blob, below the folder.
    pub file: String,
    /// The decoder.
    pub kind: String,
    /// Parameters of the decoder.
    #[serde(default)]
    pub params: Value,
    /// The last step.
    pub stage: LastStep,
    /// The verdict in default mode.
    pub expect: Expect,
    /// Classes that an error in default mode may have.
    #[serde(default)]
    pub classes: Vec<String>,
    /// The verdict in strict mode.
    pub strict: Expect,
    /// Classes that an error in strict mode may have.
    #[serde(default)]
    pub strict_classes: Vec<String>,
    /// The peak memory of the decoder in bytes.
    pub max_alloc: usize,
    /// The time limit in milliseconds.
    pub max_ms: u64,
    /// Whether many blobs are derived from this one.
    pub sweep: Option<Sweep>,
    /// Truncation: the lengths to cut to.
    #[serde(default)]
    pub lengths: Vec<usize>,
    /// Truncation: the lengths at which the cut is undetectable.
    #[serde(default)]
    pub accept_lengths: Vec<usize>,
    /// Truncation: whether an error of any class is right.
    #[serde(default)]
    pub classes_any: bool,
    /// Bit flips: the number of bits.
    #[serde(default)]
    pub bits: usize,
    /// A word of the hint that the error must give.
    pub hint: Option<String>,
}

/// The last step of a case.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum LastStep {
    /// Decode, then visit every item once.
    Decode,
    /// Decode, with facts of the surrounding store.
    Resolve,
    /// Convert a name inside the blob to a path.
    Export,
}

/// The expected verdict.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Expect {
    /// An error.
    Reject,
    /// No error.
    Accept,
    /// No panic, within the budget.
    Either,
    /// The verdict of the sweep.
    Sweep,
}

/// How blobs are derived from one.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Sweep {
    /// Cut to each of `lengths`.
    Truncate,
    /// Each bit flipped in turn.
    Bitflip,
}

impl Corpus {
    /// Reads the cases in `folder`.
    ///
    /// # Errors
    ///
    /// When `cases.jsonl` is missing, or one of its lines is not a case.
    pub fn open(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join("cases.jsonl");
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut cases = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let case = serde_json::from_str(line);
            cases.push(case.with_context(|| format!("{}:{number}", path.display()))?);
        }
        Ok(Self { folder: folder.to_path_buf(), cases })
    }

    /// Reads the blob of a case.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or its path leads out of the folder.
    pub fn blob(&self, case: &Case) -> anyhow::Result<Vec<u8>> {
        if case.file.split('/').any(|part| part == "..") {
            bail!("{} leads out of the corpus", case.file);
        }
        fs::read(self.folder.join(&case.file)).with_context(|| format!("cannot read {}", case.file))
    }
}

impl Case {
    /// Returns a number parameter.
    pub(super) fn number(&self, name: &str) -> anyhow::Result<u64> {
        self.params[name].as_u64().with_context(|| format!("{} has no {name}", self.id))
    }

    /// Returns a parameter that is a list of numbers, if present.
    pub(super) fn numbers(&self, name: &str) -> Option<Vec<u64>> {
        self.params[name].as_array()?.iter().map(Value::as_u64).collect()
    }
}
