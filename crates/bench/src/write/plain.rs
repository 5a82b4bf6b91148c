//! A plain program: creates the files of a store from memory, on all cores, syncs them once,
//! renames.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rayon::prelude::*;
use zvf_model::Batch;

use crate::discard::discard;

/// Writes the files of a store, one for each cell, as plain files; returns the seconds.
pub(crate) fn write_same_files(batch: &Batch, to: &Path) -> anyhow::Result<f64> {
    let model = to.join("bench-model.zarrvectors");
    super::write_store(batch, &model, false)?;
    let (mut folders, mut files) = (Vec::new(), Vec::new());
    read_tree(&model, &PathBuf::new(), &mut folders, &mut files)?;
    discard(&model)?;
    let (scratch, done) = (to.join("bench-plain.tmp"), to.join("bench-plain"));
    let start = Instant::now();
    for folder in &folders {
        fs::create_dir(scratch.join(folder))?;
    }
    files.par_iter().try_for_each(|(path, bytes)| fs::write(scratch.join(path), bytes))?;
    rustix::fs::syncfs(File::open(&scratch)?)?;
    fs::rename(&scratch, &done)?;
    File::open(to)?.sync_all()?;
    let seconds = start.elapsed().as_secs_f64();
    discard(&done)?;
    Ok(seconds)
}

fn read_tree(
    root: &Path,
    below: &Path,
    folders: &mut Vec<PathBuf>,
    files: &mut Vec<(PathBuf, Vec<u8>)>,
) -> anyhow::Result<()> {
    folders.push(below.to_owned());
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            read_tree(root, &path, folders, files)?;
        } else {
            files.push((path, fs::read(entry.path())?));
        }
    }
    Ok(())
}
