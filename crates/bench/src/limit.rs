//! The minimal cost of a workload: opening and reading the files of the cells it must touch, each
//! with one call into fresh memory, and nothing else; or copying a whole store.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::ensure;

use crate::discard::discard;
use crate::row::{Amount, Turn};

/// Measures reading `files`. A missing file is an empty cell, so it is skipped.
pub(crate) fn measure_read(files: &[PathBuf]) -> anyhow::Result<Turn> {
    let read = Turn::measure_repeated(|| {
        for file in files {
            match fs::read(file) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                bytes => drop(std::hint::black_box(bytes?)),
            }
        }
        Ok(())
    });
    Ok(read?.0)
}

/// Returns the size of a file, or of all files below a folder; `None` if there is none.
pub(crate) fn disk_size(path: &Path) -> Option<u64> {
    let all = if path.is_dir() { list_files(path).ok()? } else { vec![path.to_owned()] };
    all.iter().map(|file| Some(file.metadata().ok()?.len())).sum()
}

/// Lists all files below a folder.
pub(crate) fn list_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut files, mut open) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let list = if entry.file_type()?.is_dir() { &mut open } else { &mut files };
            list.push(entry.path());
        }
    }
    Ok(files)
}

/// Measures a folder with this many elements.
pub(crate) fn measure_amount(elements: u64, folder: &Path) -> io::Result<Amount> {
    let files = list_files(folder)?.len() as u64;
    Ok(Amount { elements, files: Some(files), bytes: disk_size(folder) })
}

/// Measures the system's own command that copies a folder; the copy is then removed.
pub(crate) fn measure_copy(from: &Path, to: &Path) -> anyhow::Result<Turn> {
    let (turn, status) =
        Turn::measure(|| Ok(Command::new("cp").arg("-r").args([from, to]).status()?))?;
    ensure!(status.success(), "cp: {status}");
    discard(to)?;
    Ok(turn)
}
