//! A file of the corpus, or the folder that is archived in it.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tempfile::TempDir;

/// An input, valid until drop.
pub(crate) struct Input {
    path: PathBuf,
    _unpacked: Option<TempDir>,
}

impl Input {
    pub(crate) fn open(dir: &Path, name: &str) -> anyhow::Result<Self> {
        let path = dir.join(name);
        let Some(stem) = name.strip_suffix(".tar.zst") else {
            return Ok(Self { path, _unpacked: None });
        };
        let place = || format!("cannot unpack {}", path.display());
        let packed = std::fs::File::open(&path).with_context(place)?;
        let unpacked = tempfile::tempdir()?;
        let stream = zstd::Decoder::new(packed).with_context(place)?;
        tar::Archive::new(stream).unpack(unpacked.path()).with_context(place)?;
        let named = Path::new(stem).file_name().unwrap_or_default();
        let mut folder = unpacked.path().join(named);
        if !folder.exists() {
            let first = std::fs::read_dir(unpacked.path())?.next().transpose()?;
            folder = first.map(|entry| entry.path()).with_context(place)?;
        }
        Ok(Self { path: folder, _unpacked: Some(unpacked) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}
