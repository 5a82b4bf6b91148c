//! A second processor: the same command on one processor and on two.
//!
//! `taskset` restricts the processors of a process; without it, or on a machine with one processor,
//! the row states that and is not judged. Each command is measured from start to end, on a memory
//! file system if there is one, to exclude the disk. There are enough points to make the start of
//! the process negligible.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::contest::Contender;
use crate::discard::discard;
use crate::parts::files::write_points;
use crate::pyramid::{copy_store, find_zvf, make_once, measure_command};
use crate::results::Results;
use crate::row::{Role, Turn};

pub(crate) fn run(results: &mut Results<'_>) -> anyhow::Result<()> {
    let bench = results.bench;
    let count = bench.scaled(1e7);
    let table = write_points(&bench.create_folder("files")?, count)?;
    // With zstd cells, beside the data of the run.
    let store = bench.create_folder("cores")?.join(format!("points-{count}.zarrvectors"));
    let store = make_once("create", &table, store, "--codec zstd")?;
    let place = bench.first_place()?;
    let processors = list_processors();
    for job in JOBS {
        let measure = |list: Option<String>| {
            measure_job(&job, list.as_deref(), (&table, &store), &place.path)
        };
        let name = "zvf, one processor";
        let sides = match processors.as_deref() {
            Ok([first, second, ..]) => vec![
                Contender::zvf("zvf, two processors", move || {
                    measure(Some(format!("{first},{second}")))
                }),
                Contender::variant(name, move || measure(Some(first.to_string()))),
            ],
            // Without a second processor to compare with, it runs unchanged.
            found => {
                let single = "this process may use one processor only";
                let why = found.err().map_or(single, String::as_str);
                let absent = Contender::new_absent(name, Role::Variant, why);
                vec![Contender::zvf("zvf", move || measure(None)), absent]
            }
        };
        results.contest(format!("{}, of {count} points", job.title), sides)?;
    }
    Ok(())
}

/// The measured work.
struct Job {
    title: &'static str,
    /// The subcommand, on the table or on the store, and its options.
    verb: &'static str,
    words: &'static str,
    /// What it makes, or the copy of the store that it changes.
    output: Option<&'static str>,
}

const JOBS: [Job; 4] = [
    // Few rows match, so that writing them is negligible.
    Job {
        title: "a scan of zstd cells",
        verb: "query",
        words: "--where=weight>0.999 -o",
        output: Some("bench-cores.npy"),
    },
    Job {
        title: "zvf create from CSV",
        verb: "create",
        words: "",
        output: Some("bench-cores.zarrvectors"),
    },
    Job {
        title: "three levels",
        verb: "pyramid",
        words: "--in-place --levels 3 --cell-size 1",
        output: None,
    },
    Job { title: "zvf validate of zstd cells", verb: "validate", words: "", output: None },
];

/// Runs it on a list of processors, or on all.
fn measure_job(
    job: &Job,
    list: Option<&str>,
    (table, store): (&Path, &Path),
    place: &Path,
) -> anyhow::Result<Turn> {
    let copy = (job.verb == "pyramid").then(|| copy_store(store, place)).transpose()?;
    let made = job.output.map(|name| place.join(name));
    if let Some(made) = made.as_deref().filter(|made| made.exists()) {
        remove_path(made)?;
    }
    let mut command = Command::new(list.map_or(find_zvf()?, |_| "taskset".into()));
    if let Some(list) = list {
        command.args(["-c", list]).arg(find_zvf()?);
    }
    let input = if job.verb == "create" { table } else { copy.as_deref().unwrap_or(store) };
    command.arg(job.verb).arg(input).args(job.words.split_whitespace()).args(&made);
    let turn = measure_command(command.arg("-q").stdout(Stdio::null()))?;
    made.iter().chain(&copy).try_for_each(|left| remove_path(left))?;
    Ok(turn)
}

fn remove_path(path: &Path) -> anyhow::Result<()> {
    if path.is_dir() { discard(path) } else { Ok(std::fs::remove_file(path)?) }
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
