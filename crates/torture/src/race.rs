//! `race`: processes that change one store of this machine at the same time.
//!
//! ```text
//! pairs     every command with every other, begun at the same moment
//! many      that many processes of random commands
//! ```
//!
//! Each process ends with 0, or with 6 because another one changed the store, or because what it wanted to do made no
//! sense any more (2, 4). Afterwards the store is sound, what a command with exit 0 did is there unless a later one of
//! those replaced it, and nothing lies beside the store. The state of the store after the race must be one that some
//! order of the commands that ended with 0 makes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;

use crate::Report;
use crate::random::Random;

/// Processes that change one store at the same time.
#[derive(Debug, clap::Args)]
pub(crate) struct Race {
    /// How often each pair, and how many rounds of many processes.
    #[arg(long, default_value_t = 3)]
    loops: u64,
    /// Processes at a time, beside pairs.
    #[arg(long, default_value_t = 8)]
    writers: usize,
    /// Race edits instead: until so many commits were acknowledged.
    #[arg(long)]
    commits: Option<u64>,
    /// The `zvf` command [default: the one beside this program].
    #[arg(long)]
    zvf: Option<PathBuf>,
    /// The same seed starts the same commands.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// One command on the store `a.zv`, by its words; `{}` is the store.
struct Job {
    name: &'static str,
    words: &'static [&'static str],
}

impl Race {
    pub(crate) fn run(self) -> anyhow::Result<Report> {
        let beside = || anyhow::Ok(std::env::current_exe()?.with_file_name("zvf"));
        let zvf = self.zvf.clone().map_or_else(beside, Ok)?;
        let mut report = Report { name: "race", seed: self.seed, ..Report::default() };
        if let Some(commits) = self.commits {
            crate::edits::race::run(self.writers.max(1), commits, &mut report)?;
            return Ok(report);
        }
        let mut random = Random::new(self.seed);
        let place = tempfile::tempdir()?;
        let arena = Arena::new(&zvf, place.path())?;
        for one in &JOBS {
            for other in &JOBS {
                for _ in 0..self.loops {
                    report.count(arena.fight(&[one, other])?);
                }
            }
        }
        for _ in 0..self.loops * 4 {
            let jobs: Vec<&Job> =
                (0..self.writers).map(|_| &JOBS[random.below(JOBS.len())]).collect();
            report.count(arena.fight(&jobs)?);
        }
        Ok(report)
    }
}

/// Where it happens.
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
        let made = start(zvf, &dir, &["create", "-q", "points.csv", "a.zv"])?.wait()?;
        anyhow::ensure!(made.success(), "the store cannot be made: {made}");
        // Something for a repair to do.
        let level = dir.join("a.zv/0/zarr.json");
        let mut document: serde_json::Value = serde_json::from_slice(&fs::read(&level)?)?;
        document["attributes"]["zarr_vectors_level"]["vertex_count"] = 7.into();
        fs::write(level, document.to_string())?;
        let old = archives::tree(&dir.join("a.zv")).into_iter().collect();
        Ok(Self { zvf, dir, old })
    }

    /// Starts all of `jobs` at once, and looks at what they did.
    fn fight(&self, jobs: &[&Job]) -> anyhow::Result<Result<(), String>> {
        self.restore()?;
        let mut children = Vec::new();
        for job in jobs {
            children.push(start(self.zvf, &self.dir, job.words)?);
        }
        let (mut done, mut failures) = (Vec::new(), Vec::new());
        for (job, mut child) in jobs.iter().zip(children) {
            let status = child.wait()?;
            match status.code() {
                // Of a repair: it validates the store, which another one may have made unsound for it.
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
        Ok(self.look(&done).map_err(|error| format!("{names:?}, done {done:?}: {error}")))
    }

    /// What is there must be sound, and hold what those that ended well did.
    fn look(&self, done: &[&str]) -> Result<(), String> {
        let told = |error: anyhow::Error| error.to_string();
        let mut validate = start(self.zvf, &self.dir, &["validate", "-q", "a.zv"]).map_err(told)?;
        let status = validate.wait().map_err(|error| error.to_string())?;
        // The wrong count is the only fault, and only while nobody repaired it or made the store anew.
        let sound = status.success();
        let healed = done.contains(&"repair") || done.contains(&"create");
        if !sound && healed {
            return Err("the store is unsound, or the repair is lost".to_owned());
        }
        let has = |level: &str| self.dir.join("a.zv").join(level).is_dir();
        let level_lost = done.contains(&"pyramid") && !done.contains(&"create") && !has("1");
        if level_lost {
            return Err("the levels that were acknowledged are gone".to_owned());
        }
        let kept: [&str; 2] = ["a.zv", "points.csv"];
        for entry in fs::read_dir(&self.dir).map_err(|error| error.to_string())?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !kept.contains(&&*name) && name != "a.zv.zvf" {
                return Err(format!("{name} is left"));
            }
        }
        Ok(())
    }

    fn restore(&self) -> anyhow::Result<()> {
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

fn start(zvf: &Path, dir: &Path, words: &[&str]) -> anyhow::Result<Child> {
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
/// Points of the store.
const POINTS: u32 = 3000;
