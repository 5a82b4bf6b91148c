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
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use zvf_edit::{Place, log};

use super::{Files, NAME, apply_committed, commit_lines, read_tree, unpack_store};
use crate::Report;
use archives::random::Random;

/// The commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Edit,
    Gc,
    Undo,
    Refresh,
}

/// Kills `loops` commands.
pub(crate) fn run(
    what: What,
    zvf: &Path,
    dir: &Path,
    loops: u64,
    random: &mut Random,
) -> anyhow::Result<Report> {
    let mut report = Report { name: "kill9", ..Report::default() };
    let arena = Arena::new(what, zvf, dir)?;
    let longest = arena.measure_micros()?;
    for round in 0..loops {
        if round % RENEWED == 0 {
            arena.recreate_store()?;
        }
        let pause = Duration::from_micros(random.next() % (longest + longest / 4).max(1));
        let done = arena.kill_command(pause)?;
        report.count(done.map_err(|error| format!("{what:?}, round {round}, {pause:?}: {error}")));
    }
    Ok(report)
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
            self.run_command(&words)?;
        }
        self.add_commits()
    }

    fn add_commits(&self) -> anyhow::Result<()> {
        for n in 0..3 {
            let line = json!({"op": "object.add", "positions": [[n, -1], [n, -2]]});
            commit_lines(&self.place(), &[line]).map_err(|error| anyhow::anyhow!("{error}"))?;
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
            What::Refresh => vec!["pyramid", "--refresh"],
        };
        let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        if self.what == What::Edit {
            words.push(self.script.display().to_string());
        }
        words.push(store);
        words
    }

    fn run_command(&self, words: &[&str]) -> anyhow::Result<()> {
        let ended = Command::new(self.zvf).args(words).output()?;
        ensure!(ended.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ended.stderr));
        Ok(())
    }

    /// Measures the microseconds of the command without a kill.
    fn measure_micros(&self) -> anyhow::Result<u64> {
        self.recreate_store()?;
        let begun = std::time::Instant::now();
        let words = self.words();
        self.run_command(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
        Ok(u64::try_from(begun.elapsed().as_micros())?)
    }

    /// Starts the command, kills it after a pause, and checks the store.
    fn kill_command(&self, pause: Duration) -> anyhow::Result<Result<(), String>> {
        if self.what != What::Edit {
            self.add_commits()?;
        }
        let before = read_tree(&self.store);
        let head = self.read_head()?;
        let mut command = Command::new(self.zvf);
        let started =
            command.args(self.words()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = started.with_context(|| format!("cannot start {}", self.zvf.display()))?;
        std::thread::sleep(pause);
        child.kill()?;
        let output = child.wait_with_output()?;
        let replies = String::from_utf8_lossy(&output.stdout);
        let heads = replies.lines().filter_map(|line| {
            let reply: Value = serde_json::from_str(line).ok()?;
            (reply["op"] == "commit").then(|| reply["head"].as_u64()).flatten()
        });
        let acknowledged = heads.max().unwrap_or(head);
        Ok(self.check_store(&before, head, acknowledged))
    }

    fn read_head(&self) -> anyhow::Result<u64> {
        let list = log(self.place(), Some(1)).map_err(|error| anyhow::anyhow!("{error}"))?;
        Ok(list.first().and_then(|entry| entry["head"].as_u64()).unwrap_or(0))
    }

    fn check_store(&self, before: &Files, head: u64, acknowledged: u64) -> Result<(), String> {
        apply_committed(&self.place())?;
        let now = self.read_head().map_err(|error| error.to_string())?;
        if now < acknowledged {
            return Err(format!("commit {acknowledged} was acknowledged, the head is {now}"));
        }
        let after = read_tree(&self.store);
        let allowed = match self.what {
            What::Edit => now <= acknowledged + 1,
            What::Gc => now == head && after == *before,
            What::Undo | What::Refresh => now <= head + 1 && (now > head || after == *before),
        };
        if !allowed {
            return Err(format!(
                "the head was {head}, {acknowledged} was acknowledged, {now} is there"
            ));
        }
        let validated = self.run_command(&["validate", "-q", "--depth", "5", &self.address()]);
        validated.map_err(|error| error.to_string())
    }
}

/// Transactions of the script.
const TRANSACTIONS: u32 = 200;
/// After this many rounds the store is created again.
const RENEWED: u64 = 20;
