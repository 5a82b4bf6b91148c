//! The plain cost of the same work: opening and reading the files of the cells it must touch, each with
//! one call into fresh memory, and nothing else.

use std::path::PathBuf;

use crate::clock::repeated;

/// The seconds that reading `files` takes. One that is not there was never written: it holds nothing.
pub(crate) fn read(files: &[PathBuf]) -> anyhow::Result<f64> {
    repeated(|| {
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
