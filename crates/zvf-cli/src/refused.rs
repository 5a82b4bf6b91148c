//! The error of an output file that exists.

use std::path::PathBuf;

/// An output file that exists.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) path: PathBuf,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (class, path) = (zvf::format::Class::AlreadyExists, self.path.display());
        write!(f, "{class}, {path} already exists; use --overwrite to replace it")
    }
}

impl std::error::Error for Refused {}
