//! The minimal cost of a workload: opening and reading the files of the cells it must touch, each
//! with one call into fresh memory, and nothing else; or copying a whole store.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::ensure;

use crate::clock::measure_repeated;
use crate::discard::discard;

/// Returns the seconds for reading `files`. A missing file is an empty cell, so it is skipped.
pub(crate) fn measure_read(files: &[PathBuf]) -> anyhow::Result<f64> {
    measure_repeated(|| {
        for file in files {
            match std::fs::read(file) {
                Ok(bytes) => drop(std::hint::black_box(bytes)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    })
}

/// Returns the size of a file, or of all files below a folder; `None` if there is none.
pub(crate) fn disk_size(path: &Path) -> Option<u64> {
    let all = if path.is_dir() { list_files(path).ok()? } else { vec![path.to_owned()] };
    all.iter().map(|file| Some(file.metadata().ok()?.len())).sum()
}

/// Lists all files below a folder.
pub(crate) fn list_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let (mut files, mut open) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                open.push(entry.path());
            } else {
                files.push(entry.path());
            }
        }
    }
    Ok(files)
}

/// Returns the seconds that the system's own command takes to copy a folder; the copy is then
/// removed.
pub(crate) fn measure_copy(from: &Path, to: &Path) -> anyhow::Result<f64> {
    let start = Instant::now();
    let status = Command::new("cp").arg("-r").args([from, to]).status()?;
    let seconds = start.elapsed().as_secs_f64();
    ensure!(status.success(), "cp: {status}");
    discard(to)?;
    Ok(seconds)
}
