//! The output of one step that another reads: in memory, or in a file.
//!
//! If everything fits in memory, steps return bytes ([`Target::Memory`]) and create no file.
//! Otherwise, and if several processes run the steps, they write files ([`Target::Files`]). The
//! bytes are the same.
//!
//! Not here: files ([`super::file`]), and sorted records ([`super::sorted`]).

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use zvf_error::{Error, Result};

use super::file::{Output, WrittenFile, append_to_name, open};
use crate::stop::StopFlag;

/// Where a step writes its output.
pub(crate) enum Target {
    /// In memory, whatever the size.
    Memory,
    /// In files with this stem.
    Files(PathBuf),
}

/// The output of a step.
#[derive(Clone, Debug)]
pub(crate) enum StepOutput {
    Held(Bytes),
    File(PathBuf),
}

/// The output of a step that is written sequentially.
pub(crate) enum Sequence {
    Held(Vec<u8>),
    File(Output),
}

impl Target {
    /// Begins an output with this name.
    pub(crate) fn sequence(&self, suffix: &str, stop: &StopFlag) -> Result<Sequence> {
        Ok(match self {
            Self::Memory => Sequence::Held(Vec::new()),
            Self::Files(stem) => Sequence::File(Output::create(file(stem, suffix), stop)?),
        })
    }
}

impl StepOutput {
    /// Returns the output of a step with this name, in files with the stem `stem`.
    pub(crate) fn in_file(stem: &Path, suffix: &str) -> Self {
        Self::File(file(stem, suffix))
    }

    /// Removes what no later step reads.
    pub(super) fn remove(self) -> Result<()> {
        match self {
            Self::Held(_) => Ok(()),
            Self::File(path) => std::fs::remove_file(path).map_err(Error::scratch),
        }
    }

    /// Reads it from the start.
    pub(crate) fn reader(&self) -> Result<Box<dyn Read + '_>> {
        Ok(match self {
            Self::Held(bytes) => Box::new(bytes.as_ref()),
            Self::File(path) => Box::new(BufReader::with_capacity(BUFFER, open(path)?)),
        })
    }
}

impl Sequence {
    /// Adds bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Held(held) => {
                held.extend_from_slice(bytes);
                Ok(())
            }
            Self::File(out) => out.write(bytes),
        }
    }

    /// Returns the output, and the record of its file.
    pub(crate) fn finish(self) -> Result<(StepOutput, Option<WrittenFile>)> {
        match self {
            Self::Held(held) => Ok((StepOutput::Held(held.into()), None)),
            Self::File(out) => {
                let path = out.path().to_owned();
                Ok((StepOutput::File(path), Some(out.finish()?)))
            }
        }
    }
}

/// Returns the file of a step with this suffix.
pub(super) fn file(stem: &Path, suffix: &str) -> PathBuf {
    append_to_name(stem, &format!(".{suffix}"))
}

const BUFFER: usize = 1 << 16;
