//! A second processor: the same command on one processor and on two.
//!
//! `taskset` restricts the processors of a process; without it, or on a machine with one processor,
//! the row states that and is not judged. Each command is measured from start to end, on a memory
//! file system if there is one, to exclude the disk. There are enough points to make the start of
//! the process negligible.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use crate::contest::Contender;
use crate::discard::discard;
use crate::parts::files::write_points;
use crate::process::{find_zvf, make_once, measure_command};
use crate::pyramid::copy_store;
use crate::results::Results;

pub(crate) fn run(results: &mut Results<'_>) -> anyhow::Result<()> {
    let bench = results.bench;
    let count = bench.scaled(1e7);
    let table = write_points(&bench.create_folder("files")?, count)?;
    // With zstd cells, beside the data of the run.
    let store = bench.create_folder("cores")?.join(format!("points-{count}.zarrvectors"));
    let store = make_once("create", &table, store, "--codec zstd")?;
    let place = bench.first_place()?;
    let lists = list_processors();
    // Without a second processor to compare with, it runs unchanged.
    let (name, both) = match &lists {
        Ok([_, both]) => ("zvf, two processors", Some(both.as_str())),
        Err(_) => ("zvf", None),
    };
    for (title, verb, words, output) in JOBS {
        let measure = |list: Option<&str>| {
            let copy = (verb == "pyramid").then(|| copy_store(&store, &place.path)).transpose()?;
            let made = output.map(|name| place.path.join(name));
            if let Some(made) = made.as_deref().filter(|made| made.exists()) {
                remove_path(made)?;
            }
            let mut command = Command::new(list.map_or(find_zvf()?, |_| "taskset".into()));
            if let Some(list) = list {
                command.args(["-c", list]).arg(find_zvf()?);
            }
            let input = if verb == "create" { &table } else { copy.as_ref().unwrap_or(&store) };
            command.arg(verb).arg(input).args(words.split_whitespace()).args(&made);
            let turn = measure_command(command.arg("-q"))?;
            made.iter().chain(&copy).try_for_each(|left| remove_path(left))?;
            Ok(turn)
        };
        let sides = vec![
            Contender::zvf(name, || measure(both)),
            Contender::variant("zvf, one processor", || match &lists {
                Ok([one, _]) => measure(Some(one)),
                Err(why) => bail!("{why:#}"),
            }),
        ];
        results.contest(format!("{title}, of {count} points"), sides)?;
    }
    Ok(())
}

/// The measured work: its title, the subcommand on the table or on the store, its options, and what
/// it makes, where that is not a copy of the store that it changes.
const JOBS: [(&str, &str, &str, Option<&str>); 4] = [
    // Few rows match, so that writing them is negligible.
    ("a scan of zstd cells", "query", "--where=weight>0.999 -o", Some("bench-cores.npy")),
    ("zvf create from CSV", "create", "", Some("bench-cores.zarrvectors")),
    ("three levels", "pyramid", "--in-place --levels 3 --cell-size 1", None),
    ("zvf validate of zstd cells", "validate", "", None),
];

fn remove_path(path: &Path) -> anyhow::Result<()> {
    if path.is_dir() { discard(path) } else { Ok(std::fs::remove_file(path)?) }
}

/// Returns the lists of one and of two processors that this process may use, or why `taskset`
/// cannot assign them.
fn list_processors() -> anyhow::Result<[String; 2]> {
    Command::new("taskset").arg("--version").stdout(Stdio::null()).status().context("taskset")?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let list = list.and_then(parse_list).context("the system does not list the processors")?;
    let [first, second, ..] = list[..] else { bail!("this process may use one processor only") };
    Ok([first.to_string(), format!("{first},{second}")])
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
