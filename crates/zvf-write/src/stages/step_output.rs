//! What one step leaves and another reads: in memory, or in a file.
//!
//! Where everything fits in memory, steps leave bytes ([`Target::Memory`]) and no file is made. Otherwise, and where
//! steps are done by several processes, they leave files ([`Target::Files`]). The bytes are the same.
//!
//! Not here: files ([`super::file`]), and records in order ([`super::sorted`]).

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use zvf_error::Result;

use super::file::{Output, WrittenFile, append_to_name, open};
use crate::stop::StopFlag;

/// Where a step leaves what others read.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// In memory, whatever it takes.
    Memory,
    /// In the files whose names begin so.
    Files(PathBuf),
}

/// What a step left.
#[derive(Clone, Debug)]
pub(crate) enum StepOutput {
    Held(Bytes),
    File(PathBuf),
}

/// Bytes that a step leaves, written one after the other.
#[derive(Debug)]
pub(crate) enum Sequence {
    Held(Vec<u8>),
    File(Output),
}

impl Target {
    /// Begins what is to have this name.
    pub(crate) fn sequence(&self, suffix: &str, stop: &StopFlag) -> Result<Sequence> {
        Ok(match self {
            Self::Memory => Sequence::Held(Vec::new()),
            Self::Files(stem) => Sequence::File(Output::create(file(stem, suffix), stop)?),
        })
    }
}

impl StepOutput {
    /// Returns what a step left under this name in files that begin with `stem`.
    pub(crate) fn in_file(stem: &Path, suffix: &str) -> Self {
        Self::File(file(stem, suffix))
    }

    /// Reads it from the beginning.
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

    /// Returns what was written, and the record of the file that it is in.
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
