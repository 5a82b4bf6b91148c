//! Files read and written again in their own format, to be compared by a stock library.

use std::path::Path;

use anyhow::Context as _;
use zvf_convert::Format;
use zvf_convert::read::{self, Input, ReadOptions};
use zvf_convert::write::{self, Target, WriteOptions};

use crate::Outcome;

/// Reads every file of the folder `from` and writes it under the same name to the empty folder `to`.
///
/// # Errors
///
/// When the folder cannot be listed.
pub fn write_folder_again(from: &Path, to: &Path) -> anyhow::Result<Outcome> {
    let place = || format!("cannot read {}", from.display());
    let mut outcome = Outcome::default();
    let names = std::fs::read_dir(from).with_context(place)?.map(|entry| Ok(entry?.path()));
    let mut names = names.collect::<std::io::Result<Vec<_>>>().with_context(place)?;
    names.sort();
    for path in names {
        let name = path.file_name().unwrap_or_default();
        match write_again(&path, &to.join(name)) {
            Ok(()) => outcome.passed += 1,
            Err(error) => outcome.failures.push(format!("{}: {error:#}", path.display())),
        }
    }
    Ok(outcome)
}

fn write_again(from: &Path, to: &Path) -> anyhow::Result<()> {
    let format = Format::from_path(from).context("no format is recognised")?;
    let reader = read::open(Input::path(from), None, &ReadOptions::default())?;
    let options = WriteOptions::default();
    if format.capabilities().is_folder && from.is_dir() {
        std::fs::create_dir(to)?;
        write::copy(reader, write::open(format, Target::folder(to), &options)?)?;
    } else {
        let target = Target::file(std::fs::File::create_new(to)?);
        write::copy(reader, write::open(format, target, &options)?)?;
    }
    Ok(())
}
