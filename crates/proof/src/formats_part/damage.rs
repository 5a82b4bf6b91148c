//! Valid files with damage: bytes changed, removed, duplicated or truncated. Each is read or
//! refused; none panics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Instant;

use archives::random::Random;
use zvf_convert::Format;
use zvf_convert::read::Polygons;

use super::facts::Facts;
use super::{list_folders, list_paths, read_format};
use crate::report::{Report, Run};

/// Damages every valid file of `folder` and its subfolders `rounds` times, with random numbers from
/// `seed`.
pub(crate) fn run(folder: &Path, rounds: u32, seed: u64, run: &mut Run<'_>) -> anyhow::Result<()> {
    for folder in list_folders(folder)? {
        let format = folder.file_name().expect("a listed path has a name").to_string_lossy();
        for path in list_paths(&folder)?.into_iter().filter(|path| path.is_file()) {
            let name = path.file_name().expect("a listed path has a name").to_string_lossy();
            let bytes = std::fs::read(&path)?;
            let is_other =
                name.ends_with(".json") || name.ends_with(".md") || name.contains(".tar.");
            if !is_other && !bytes.is_empty() {
                let mut report = Report::new(format!("{format}/{name}, seed {seed}"));
                check_damaged(&mut report, (&path, &format), &bytes, rounds, seed)?;
                run.add(report)?;
            }
        }
    }
    Ok(())
}

fn check_damaged(
    report: &mut Report,
    (path, folder): (&Path, &str),
    bytes: &[u8],
    rounds: u32,
    seed: u64,
) -> anyhow::Result<()> {
    let scratch = tempfile::tempdir()?;
    let copy = scratch.path().join(path.file_name().expect("a listed path has a name"));
    let format = read_format(path, folder).or_else(|| Format::from_path(path));
    let mut random = Random::new(seed ^ bytes.len() as u64);
    for round in 0..rounds {
        let mut damaged = bytes.to_vec();
        random.damage(&mut damaged);
        std::fs::write(&copy, damaged)?;
        let begun = Instant::now();
        let read = || Facts::read(&copy, format, (None, Polygons::Triangles)).map(drop);
        let read = catch_unwind(AssertUnwindSafe(read));
        report.check(&format!("round {round}"), read.is_ok(), "panics");
        if begun.elapsed().as_secs() > MAX_SECONDS {
            report.deny(format!("round {round} takes {:?}", begun.elapsed()));
        }
    }
    Ok(())
}

/// The time limit for a small file, even on a busy machine.
const MAX_SECONDS: u64 = 20;
