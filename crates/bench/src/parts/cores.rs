//! A second processor: the same command on one processor and on two.
//!
//! `taskset` restricts the processors of a process; without it, or on a machine with one processor,
//! the row states that and is not judged. Each command is measured from start to end, on a memory
//! file system if there is one, to exclude the disk. There are enough points to make the start of
//! the process negligible.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

use crate::contest::Contender;
use crate::discard::discard;
use crate::parts::files::write_points;
use crate::pyramid::{copy_store, find_zvf, make_once, measure_command};
use crate::results::Results;
use crate::row::{Role, Turn};
use crate::settings::Bench;

pub(crate) fn run(bench: &Bench, results: &mut Results) -> anyhow::Result<()> {
    if bench.alone || bench.own.is_some() {
        return Ok(()); // the command is not there in tests; it is a process of its own
    }
    let count = bench.scaled(1e7);
    let table = write_points(&bench.create_folder("files")?, count)?;
    let store = create_compressed(&bench.create_folder("cores")?, &table)?;
    let place = bench.list_places()?.into_iter().next().context("nowhere to write")?;
    let two = list_processors().and_then(|processors| match processors.as_slice() {
        [first, second, ..] => Ok([format!("{first}"), format!("{first},{second}")]),
        _ => Err("this process may use one processor only".to_owned()),
    });
    for job in [Job::Scan, Job::Ingest, Job::Levels, Job::Validate] {
        let work = format!("{}, of {count} points", job.title());
        let (single, both, ours) = match &two {
            Ok([single, both]) => (Ok(single.as_str()), both.as_str(), "zvf, two processors"),
            // Without a second processor to compare with, it runs unchanged.
            Err(why) => (Err(why), "", "zvf"),
        };
        let (table, store, place) = (&table, &store, &place.path);
        let measure = move |list: &str| job.run(list, table, store, place);
        let name = format!("zvf, {ONE_PROCESSOR}");
        let alone = match single {
            Ok(list) => Contender::variant(name, move || measure(list)),
            Err(why) => Contender::new_absent(name, Role::Variant, why),
        };
        let sides = vec![Contender::zvf(ours, move || measure(both)), alone];
        results.contest(bench, work, sides)?;
    }
    Ok(())
}

/// The measured work.
#[derive(Clone, Copy)]
enum Job {
    Scan,
    Ingest,
    Levels,
    Validate,
}

impl Job {
    const fn title(self) -> &'static str {
        match self {
            Self::Scan => "a scan of zstd cells",
            Self::Ingest => "zvf create from CSV",
            Self::Levels => "three levels",
            Self::Validate => "zvf validate of zstd cells",
        }
    }

    /// Runs it on a list of processors; an empty list means all.
    fn run(self, list: &str, table: &Path, store: &Path, place: &Path) -> anyhow::Result<Turn> {
        let copy = match self {
            Self::Levels => Some(copy_store(store, place)?),
            _ => None,
        };
        let made = match self {
            Self::Scan => Some(place.join("bench-cores.npy")),
            Self::Ingest => Some(place.join("bench-cores.zarrvectors")),
            Self::Levels | Self::Validate => None,
        };
        if let Some(made) = made.as_deref().filter(|made| made.exists()) {
            remove_path(made)?;
        }
        let mut command = command_on_processors(list)?;
        match self {
            // Few rows match, so that writing them is negligible.
            Self::Scan => command.arg("query").arg(store).args(["--where", "weight > 0.999", "-o"]),
            Self::Ingest => command.arg("create").arg(table),
            Self::Levels => {
                command.args(["pyramid", "--in-place", "--levels", "3", "--cell-size", "1"])
            }
            Self::Validate => command.arg("validate").arg(store),
        };
        command.args(&made).args(&copy).arg("-q").stdout(Stdio::null());
        let turn = measure_command(&mut command)?;
        for left in made.iter().chain(&copy) {
            remove_path(left)?;
        }
        Ok(turn)
    }
}

/// Returns the command, restricted to these processors.
fn command_on_processors(list: &str) -> anyhow::Result<Command> {
    if list.is_empty() {
        return Ok(Command::new(find_zvf()?));
    }
    let mut command = Command::new("taskset");
    command.args(["-c", list]).arg(find_zvf()?);
    Ok(command)
}

fn remove_path(path: &Path) -> anyhow::Result<()> {
    if path.is_dir() { discard(path) } else { Ok(std::fs::remove_file(path)?) }
}

/// Creates the store of the table with zstd cells, beside the data of the run, unless it exists.
fn create_compressed(folder: &Path, table: &Path) -> anyhow::Result<PathBuf> {
    let name = table.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    make_once("create", table, folder.join(format!("{name}.zarrvectors")), "--codec zstd")
}

/// Returns the processors that this process may use, or why `taskset` cannot assign them.
fn list_processors() -> Result<Vec<u32>, String> {
    let found = Command::new("taskset").arg("--version").stdout(Stdio::null()).status();
    found.map_err(|error| format!("taskset: {error}"))?;
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.and_then(parse_list).ok_or_else(|| "the system does not list the processors".to_owned())
}

/// Parses numbers and ranges of them, such as `0,2-4`.
fn parse_list(text: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        all.extend(first.parse::<u32>().ok()?..=last.parse().ok()?);
    }
    Some(all)
}

/// The end of the name of a contender on one processor.
const ONE_PROCESSOR: &str = "one processor";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(parse_list("\t0,2-4\n"), Some(vec![0, 2, 3, 4]));
        assert_eq!(parse_list("0-1"), Some(vec![0, 1]));
        assert_eq!(parse_list(""), None);
    }
}
