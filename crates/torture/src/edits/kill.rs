//! `kill9 --what edit|gc|undo|refresh`: commands on a store with a journal, killed at any moment.
//!
//! ```text
//! edit      a script of many transactions, each adds an object; replies list the acknowledged ones
//! gc        removes the history; the store is unchanged
//! undo      the store is unchanged, or as before the last commit
//! refresh   the same for rebuilt levels
//! ```
//!
//! After each kill, the store is validated and can be edited.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::ValueEnum;
use serde_json::{Value, json};
use zvf_edit::{Place, log};

use super::{Files, NAME, apply_committed, commit_lines, read_tree, unpack_store};
use crate::Report;
use crate::commands::{run_command, start_command};

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum What {
    /// Builds with the library.
    Build,
    /// `zvf create`.
    Create,
    /// `zvf create --overwrite`.
    Overwrite,
    /// `zvf ingest`.
    Ingest,
    /// `zvf pyramid`.
    Pyramid,
    /// `zvf edit`.
    Edit,
    /// `zvf gc`.
    Gc,
    /// `zvf undo`.
    Undo,
    /// `zvf pyramid --refresh`.
    Refresh,
}

/// Kills `loops` commands.
pub(crate) fn run(
    what: What,
    zvf: &Path,
    dir: &Path,
    loops: u64,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut random = report.random();
    let arena = Arena::new(what, zvf, dir)?;
    let longest = arena.measure_micros()?;
    for round in 0..loops {
        if round % RENEWED == 0 {
            arena.recreate_store()?;
        }
        let pause = Duration::from_micros(random.next() % (longest + longest / 4).max(1));
        report.count(
            arena
                .kill_command(pause)
                .with_context(|| format!("{what:?}, round {round}, {pause:?}")),
        );
    }
    Ok(())
}

struct Arena<'a> {
    what: What,
    zvf: &'a Path,
    store: PathBuf,
    script: PathBuf,
}

impl<'a> Arena<'a> {
    fn new(what: What, zvf: &'a Path, dir: &Path) -> anyhow::Result<Self> {
        let (store, script) = (dir.join(NAME), dir.join("script.jsonl"));
        let mut text = Vec::new();
        for n in 0..TRANSACTIONS {
            writeln!(text, "{}", json!({"op": "begin"}))?;
            let positions = [[f64::from(n), 0.5], [f64::from(n), 1.5]];
            writeln!(text, "{}", json!({"op": "object.add", "positions": positions}))?;
            writeln!(text, "{}", json!({"op": "commit"}))?;
        }
        fs::write(&script, text)?;
        Ok(Self { what, zvf, store, script })
    }

    /// Creates the store again, with a history of a few commits.
    fn recreate_store(&self) -> anyhow::Result<()> {
        for path in [self.store.clone(), self.store.with_extension("zv.zvf")] {
            if path.exists() {
                fs::remove_dir_all(path)?;
            }
        }
        unpack_store("pl2_negative", &self.store)?;
        if self.what == What::Refresh {
            let address = self.address();
            let words = ["pyramid", "-q", "--in-place", &address, "--reference", "2,1"];
            run_command(self.zvf, &words)?;
        }
        self.add_commits()
    }

    fn add_commits(&self) -> anyhow::Result<()> {
        for n in 0..3 {
            let line = json!({"op": "object.add", "positions": [[n, -1], [n, -2]]});
            commit_lines(&self.place(), &[line])?;
        }
        Ok(())
    }

    fn place(&self) -> Place {
        Place::from(self.store.as_path())
    }

    fn address(&self) -> String {
        self.store.display().to_string()
    }

    fn words(&self) -> Vec<String> {
        let store = self.address();
        let words: Vec<&str> = match self.what {
            What::Edit => vec!["edit", "--replies", "--json", "--script"],
            What::Gc => vec!["gc", "--grace", "0s", "--keep", "1"],
            What::Undo => vec!["undo"],
            _ => vec!["pyramid", "--refresh"],
        };
        let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        if self.what == What::Edit {
            words.push(self.script.display().to_string());
        }
        words.push(store);
        words
    }

    /// Measures the microseconds of the command without a kill.
    fn measure_micros(&self) -> anyhow::Result<u64> {
        self.recreate_store()?;
        let begun = std::time::Instant::now();
        let words = self.words();
        run_command(self.zvf, &words)?;
        Ok(u64::try_from(begun.elapsed().as_micros())?)
    }

    /// Starts the command, kills it after a pause, and checks the store.
    fn kill_command(&self, pause: Duration) -> anyhow::Result<()> {
        if self.what != What::Edit {
            self.add_commits()?;
        }
        let before = read_tree(&self.store);
        let head = self.read_head()?;
        let mut child = start_command(self.zvf, &self.words())?;
        std::thread::sleep(pause);
        child.kill()?;
        let output = child.wait_with_output()?;
        let replies = String::from_utf8_lossy(&output.stdout);
        let heads = replies.lines().filter_map(|line| {
            let reply: Value = serde_json::from_str(line).ok()?;
            (reply["op"] == "commit").then(|| reply["head"].as_u64()).flatten()
        });
        let acknowledged = heads.max().unwrap_or(head);
        self.check_store(&before, head, acknowledged)
    }

    fn read_head(&self) -> anyhow::Result<u64> {
        let list = log(self.place(), Some(1))?;
        Ok(list.first().and_then(|entry| entry["head"].as_u64()).unwrap_or(0))
    }

    fn check_store(&self, before: &Files, head: u64, acknowledged: u64) -> anyhow::Result<()> {
        apply_committed(&self.place())?;
        let now = self.read_head()?;
        ensure!(now >= acknowledged, "commit {acknowledged} was acknowledged, the head is {now}");
        let after = read_tree(&self.store);
        let allowed = match self.what {
            What::Edit => now <= acknowledged + 1,
            What::Gc => now == head && after == *before,
            _ => now <= head + 1 && (now > head || after == *before),
        };
        ensure!(allowed, "the head was {head}, {acknowledged} was acknowledged, {now} is there");
        run_command(self.zvf, &["validate", "-q", "--depth", "5", &self.address()])
    }
}

/// Transactions of the script.
const TRANSACTIONS: u32 = 200;
/// After this many rounds the store is created again.
const RENEWED: u64 = 20;
