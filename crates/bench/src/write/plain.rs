//! A plain program: creates the files of a store from memory, on all cores, syncs them once,
//! renames.

use std::fs::{self, File};
use std::path::Path;

use anyhow::Context as _;
use rayon::prelude::*;
use zvf_model::Batch;

use crate::discard::discard;
use crate::limit::list_files;
use crate::row::Turn;

/// Writes the files of a store, one for each cell, as plain files.
pub(crate) fn write_same_files(batch: &Batch, to: &Path) -> anyhow::Result<Turn> {
    let model = to.join("bench-model.zarrvectors");
    super::write_store(batch, &model, false)?;
    let (mut folders, mut files) = (Vec::new(), Vec::new());
    for path in list_files(&model)? {
        let below = path.strip_prefix(&model)?.to_owned();
        folders.push(below.parent().context("a file is in a folder")?.to_owned());
        files.push((below, fs::read(path)?));
    }
    folders.sort();
    folders.dedup();
    discard(&model)?;
    let (scratch, done) = (to.join("bench-plain.tmp"), to.join("bench-plain"));
    let (turn, ()) = Turn::measure(|| {
        for folder in &folders {
            fs::create_dir_all(scratch.join(folder))?;
        }
        files.par_iter().try_for_each(|(path, bytes)| fs::write(scratch.join(path), bytes))?;
        rustix::fs::syncfs(File::open(&scratch)?)?;
        fs::rename(&scratch, &done)?;
        Ok(File::open(to)?.sync_all()?)
    })?;
    discard(&done)?;
    Ok(turn)
}
