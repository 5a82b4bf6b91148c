//! `race`: processes that change one local store at the same time.
//!
//! ```text
//! pairs     every command with every other, started at the same moment
//! many      many processes of random commands
//! ```
//!
//! Each process ends with 0, or with 6 because another one changed the store, or because its input is no longer valid
//! (2, 4). Afterwards the store is sound, the effect of a command with exit code 0 is present unless a later one
//! replaced it, and nothing lies next to the store. The final state must be the result of some order of the commands
//! that ended with 0.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;

use crate::Report;
use crate::random::Random;

/// Race processes that change one store.
#[derive(Debug, clap::Args)]
pub(crate) struct Race {
    /// The number of races per pair, and of rounds of many processes.
    #[arg(long, default_value_t = 3)]
    loops: u64,
    /// Concurrent processes, except in pairs.
    #[arg(long, default_value_t = 8)]
    writers: usize,
    /// Race edits instead, until this many commits are acknowledged.
    #[arg(long)]
    commits: Option<u64>,
    /// The `zvf` command [default: the one next to this program].
    #[arg(long)]
    zvf: Option<PathBuf>,
    /// The seed of the chosen commands.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A command on the store `a.zv` by its arguments; `{}` is the store.
struct Job {
    name: &'static str,
    words: &'static [&'static str],
}

impl Race {
    pub(crate) fn run(self) -> anyhow::Result<Report> {
        let default_zvf = || anyhow::Ok(std::env::current_exe()?.with_file_name("zvf"));
        let zvf = self.zvf.clone().map_or_else(default_zvf, Ok)?;
        let mut report = Report { name: "race", seed: self.seed, ..Report::default() };
        if let Some(commits) = self.commits {
            crate::edits::race::run(self.writers.max(1), commits, &mut report)?;
            return Ok(report);
        }
        let mut random = Random::new(self.seed);
        let place = tempfile::tempdir()?;
        let arena = Arena::new(&zvf, place.path())?;
        for first in &JOBS {
            for second in &JOBS {
                for _ in 0..self.loops {
                    report.count(arena.race_jobs(&[first, second])?);
                }
            }
        }
        for _ in 0..self.loops * 4 {
            let jobs: Vec<&Job> =
                (0..self.writers).map(|_| &JOBS[random.next_below(JOBS.len())]).collect();
            report.count(arena.race_jobs(&jobs)?);
        }
        Ok(report)
    }
}

/// The place of the race.
struct Arena<'a> {
    zvf: &'a Path,
    dir: PathBuf,
    old: Vec<(String, Vec<u8>)>,
}

impl<'a> Arena<'a> {
    fn new(zvf: &'a Path, dir: &Path) -> anyhow::Result<Self> {
        let dir = dir.join("arena");
        fs::create_dir(&dir)?;
        let mut points = String::from("x,y,z,mass\n");
        for i in 0..POINTS {
            points.push_str(&format!("{}.5,{}.25,{}.75,{i}\n", i % 37, i % 29, i % 23));
        }
        fs::write(dir.join("points.csv"), points)?;
        let made = start_command(zvf, &dir, &["create", "-q", "points.csv", "a.zv"])?.wait()?;
        anyhow::ensure!(made.success(), "the store cannot be made: {made}");
        // A fault for a repair to fix.
        let level = dir.join("a.zv/0/zarr.json");
        let mut document: serde_json::Value = serde_json::from_slice(&fs::read(&level)?)?;
        document["attributes"]["zarr_vectors_level"]["vertex_count"] = 7.into();
        fs::write(level, document.to_string())?;
        let old = archives::tree(&dir.join("a.zv")).into_iter().collect();
        Ok(Self { zvf, dir, old })
    }

    /// Starts all of `jobs` at once, and checks the result.
    fn race_jobs(&self, jobs: &[&Job]) -> anyhow::Result<Result<(), String>> {
        self.restore_store()?;
        let mut children = Vec::new();
        for job in jobs {
            children.push(start_command(self.zvf, &self.dir, job.words)?);
        }
        let (mut done, mut failures) = (Vec::new(), Vec::new());
        for (job, mut child) in jobs.iter().zip(children) {
            let status = child.wait()?;
            match status.code() {
                // A repair also validates the store, which another command may have changed.
                Some(0) => done.push(job.name),
                Some(1) if job.name == "repair" => done.push(job.name),
                Some(2 | 4 | 5 | 6) => {}
                _ => failures.push(format!("{} ended with {status}", job.name)),
            }
        }
        let names: Vec<&str> = jobs.iter().map(|job| job.name).collect();
        if let Some(failure) = failures.first() {
            return Ok(Err(format!("{names:?}: {failure}")));
        }
        if done.is_empty() {
            return Ok(Err(format!("{names:?}: nobody won")));
        }
        Ok(self.check_store(&done).map_err(|error| format!("{names:?}, done {done:?}: {error}")))
    }

    /// Checks that the store is sound, and holds the result of the successful commands.
    fn check_store(&self, done: &[&str]) -> Result<(), String> {
        let to_text = |error: anyhow::Error| error.to_string();
        let mut validate =
            start_command(self.zvf, &self.dir, &["validate", "-q", "a.zv"]).map_err(to_text)?;
        let status = validate.wait().map_err(|error| error.to_string())?;
        // The wrong count is the only fault, until the store is repaired or created again.
        let sound = status.success();
        let healed = done.contains(&"repair") || done.contains(&"create");
        if !sound && healed {
            return Err("the store is unsound, or the repair is lost".to_owned());
        }
        let has = |level: &str| self.dir.join("a.zv").join(level).is_dir();
        let level_lost = done.contains(&"pyramid") && !done.contains(&"create") && !has("1");
        if level_lost {
            return Err("acknowledged levels are gone".to_owned());
        }
        let kept: [&str; 2] = ["a.zv", "points.csv"];
        for entry in fs::read_dir(&self.dir).map_err(|error| error.to_string())?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !kept.contains(&&*name) && name != "a.zv.zvf" {
                return Err(format!("{name} remains"));
            }
        }
        Ok(())
    }

    fn restore_store(&self) -> anyhow::Result<()> {
        for name in ["a.zv", "a.zv.zvf"] {
            if self.dir.join(name).exists() {
                fs::remove_dir_all(self.dir.join(name))?;
            }
        }
        for (name, bytes) in &self.old {
            let path = self.dir.join("a.zv").join(name);
            fs::create_dir_all(path.parent().unwrap_or(&self.dir))?;
            fs::write(path, bytes)?;
        }
        Ok(())
    }
}

fn start_command(zvf: &Path, dir: &Path, words: &[&str]) -> anyhow::Result<Child> {
    let mut command = Command::new(zvf);
    command.current_dir(dir).args(words).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().with_context(|| format!("cannot start {}", zvf.display()))
}

/// The commands that change a store.
const JOBS: [Job; 6] = [
    Job { name: "create", words: &["create", "-q", "--overwrite", "points.csv", "a.zv"] },
    Job { name: "pyramid", words: &["pyramid", "-q", "--levels", "1", "a.zv"] },
    Job {
        name: "recompress",
        words: &["recompress", "-q", "--in-place", "--codec", "zstd:1", "a.zv"],
    },
    Job { name: "shard", words: &["shard", "-q", "--in-place", "--cells", "4", "a.zv"] },
    Job { name: "unshard", words: &["unshard", "-q", "--in-place", "a.zv"] },
    Job { name: "repair", words: &["repair", "-q", "--apply", "a.zv"] },
];
/// The number of points of the store.
const POINTS: u32 = 3000;
