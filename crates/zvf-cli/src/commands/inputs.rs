//! The input files of a store; `-` among them is standard input.
//!
//! Files are read twice, but a stream only once: it is copied to a temporary file, which is removed when the command
//! ends.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use tempfile::NamedTempFile;

use crate::interrupt::Interrupt;
use crate::outcome::refuse;
use crate::stdin::Stdin;

/// The files, with a copy of standard input in the place of `-`.
pub(crate) struct Inputs {
    pub(crate) files: Vec<PathBuf>,
    _copy: Option<NamedTempFile>, // removed when the command ends
}

impl Inputs {
    /// Reads standard input to its end, where it is named, and copies it below `folder`, or to the folder for temporary
    /// files.
    pub(crate) async fn new(
        files: &[PathBuf],
        folder: Option<&Path>,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        match files.iter().filter(|file| file.as_os_str() == "-").count() {
            0 => return Ok(Self { files: files.to_vec(), _copy: None }),
            1 => {}
            _ => return refuse("standard input can be read once"),
        }
        let folder = folder.map_or_else(std::env::temp_dir, Path::to_owned);
        let copying = "cannot copy standard input";
        let copy = tempfile::Builder::new().prefix(".zvf-input-").tempfile_in(folder);
        let copy = copy.context(copying)?;
        let mut file = copy.reopen().context(copying)?;
        let mut bytes = Stdin::new(interrupt);
        let copied = tokio::task::spawn_blocking(move || io::copy(&mut bytes, &mut file));
        copied.await?.context(copying)?;
        let in_place = |file: &PathBuf| match file.as_os_str() == "-" {
            true => copy.path().to_owned(),
            false => file.clone(),
        };
        Ok(Self { files: files.iter().map(in_place).collect(), _copy: Some(copy) })
    }
}
