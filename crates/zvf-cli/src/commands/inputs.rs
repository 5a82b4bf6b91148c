//! The input files of a store; `-` among them is standard input.
//!
//! Files are read twice, but a stream only once: it is copied to a temporary file, which is removed when the command
//! ends.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::outcome::refuse;

/// The files, with a copy of standard input in the place of `-`.
#[derive(Debug)]
pub(crate) struct Inputs {
    files: Vec<PathBuf>,
    _copy: Option<Copy>, // removed when the command ends
}

/// A file that is removed on drop.
#[derive(Debug)]
struct Copy(PathBuf);

impl Inputs {
    /// Reads standard input to its end, where it is named, and copies it below `folder`, or to the folder for temporary
    /// files.
    pub(crate) async fn new(files: &[PathBuf], folder: Option<&Path>) -> anyhow::Result<Self> {
        let named = files.iter().filter(|file| file.as_os_str() == "-").count();
        match named {
            0 => return Ok(Self { files: files.to_vec(), _copy: None }),
            1 => {}
            _ => return refuse("standard input can be read once"),
        }
        let folder = folder.map_or_else(std::env::temp_dir, Path::to_owned);
        let number = RandomState::new().hash_one(std::process::id());
        let path = folder.join(format!(".zvf-input-{number:016x}"));
        let copy = Copy(path.clone());
        // A thread of its own waits for bytes, so that the command can be stopped meanwhile.
        let copied = tokio::task::spawn_blocking(move || {
            let mut file = create(&path)?;
            io::copy(&mut io::stdin().lock(), &mut file).map(drop)
        });
        copied.await?.context("cannot copy standard input")?;
        let in_place = |file: &PathBuf| match file.as_os_str() == "-" {
            true => copy.0.clone(),
            false => file.clone(),
        };
        Ok(Self { files: files.iter().map(in_place).collect(), _copy: Some(copy) })
    }

    /// Returns the files to read.
    pub(crate) fn files(&self) -> &[PathBuf] {
        &self.files
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // A file that cannot be removed now is a temporary file like any other.
        drop(fs::remove_file(&self.0));
    }
}

/// Creates a new file that only its owner may read.
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn files_are_unchanged_and_standard_input_is_accepted_once() {
        let files = [PathBuf::from("a.csv"), PathBuf::from("./-")];
        let inputs = Inputs::new(&files, None).await.unwrap();
        assert_eq!((inputs.files(), inputs._copy.is_none()), (&files[..], true));
        let twice = [PathBuf::from("-"), PathBuf::from("-")];
        let error = Inputs::new(&twice, None).await.unwrap_err();
        assert_eq!(error.to_string(), "standard input can be read once");
    }

    #[test]
    fn a_copy_is_removed_on_drop() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("copy");
        let copy = Copy(path.clone());
        create(&path).unwrap();
        create(&path).unwrap_err();
        drop(copy);
        assert!(!path.exists());
    }
}
