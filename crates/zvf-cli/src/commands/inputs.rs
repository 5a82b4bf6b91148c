//! The input files of a store; `-` among them is standard input.
//!
//! Files are read twice, but a stream only once: it is copied to a temporary file, which is removed when the command
//! ends.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use tempfile::NamedTempFile;

use crate::outcome::refuse;

/// The files, with a copy of standard input in the place of `-`.
#[derive(Debug)]
pub(crate) struct Inputs {
    pub(crate) files: Vec<PathBuf>,
    _copy: Option<NamedTempFile>, // removed when the command ends
}

impl Inputs {
    /// Reads standard input to its end, where it is named, and copies it below `folder`, or to the folder for temporary
    /// files.
    pub(crate) async fn new(files: &[PathBuf], folder: Option<&Path>) -> anyhow::Result<Self> {
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
        // A thread of its own waits for bytes, so that the command can be stopped meanwhile.
        let copied =
            tokio::task::spawn_blocking(move || io::copy(&mut io::stdin().lock(), &mut file));
        copied.await?.context(copying)?;
        let in_place = |file: &PathBuf| match file.as_os_str() == "-" {
            true => copy.path().to_owned(),
            false => file.clone(),
        };
        Ok(Self { files: files.iter().map(in_place).collect(), _copy: Some(copy) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn files_are_unchanged_and_standard_input_is_accepted_once() {
        let files = [PathBuf::from("a.csv"), PathBuf::from("./-")];
        let inputs = Inputs::new(&files, None).await.unwrap();
        assert_eq!((inputs.files.as_slice(), inputs._copy.is_none()), (&files[..], true));
        let twice = [PathBuf::from("-"), PathBuf::from("-")];
        let error = Inputs::new(&twice, None).await.unwrap_err();
        assert_eq!(error.to_string(), "standard input can be read once");
    }
}
