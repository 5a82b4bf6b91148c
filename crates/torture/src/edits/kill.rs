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
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::ValueEnum;
use serde_json::{Value, json};
use zvf_edit::{Place, log};

use super::{NAME, apply_committed, commit_lines, read_store};
use crate::Report;
use crate::commands::Zvf;
use crate::trees::Tree;

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
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
    /// `zvf history gc`.
    Gc,
    /// `zvf history undo`.
    Undo,
    /// `zvf pyramid --refresh`.
    Refresh,
}

/// Kills `loops` commands.
pub(crate) fn run(what: What, zvf: Zvf, loops: u64, report: &mut Report) -> anyhow::Result<()> {
    let mut random = report.random();
    let store = zvf.place.join(NAME);
    let line = match what {
        What::Edit => "edit --replies --json --script script.jsonl a.zv",
        What::Gc => "history gc --grace 0s --keep 1 a.zv",
        What::Undo => "history undo a.zv",
        _ => "pyramid --refresh a.zv",
    };
    let arena = Arena { what, line, zvf, store };
    arena.recreate_store()?;
    let begun = std::time::Instant::now();
    arena.zvf.run(line)?;
    let longest = begun.elapsed().as_micros() as u64;
    for round in 0..loops {
        if round % RENEWED == 0 {
            arena.recreate_store()?;
        }
        let pause = Duration::from_micros(random.next() % (longest + longest / 4).max(1));
        let killed = arena.kill_command(pause);
        report.count(killed.with_context(|| format!("{what:?}, round {round}, {pause:?}")));
    }
    Ok(())
}

struct Arena {
    what: What,
    line: &'static str,
    zvf: Zvf,
    store: PathBuf,
}

impl Arena {
    /// Creates the store again, with a history of a few commits, and the script.
    fn recreate_store(&self) -> anyhow::Result<()> {
        self.zvf.empty_place()?;
        archives::write(&self.store, &archives::files("pl2_negative"));
        let script = (0..TRANSACTIONS).map(|n| {
            let add = json!({"op": "object.add", "positions": [[n, 0.5], [n, 1.5]]});
            format!("{{\"op\":\"begin\"}}\n{add}\n{{\"op\":\"commit\"}}\n")
        });
        fs::write(self.zvf.place.join("script.jsonl"), script.collect::<String>())?;
        if self.what == What::Refresh {
            self.zvf.run("pyramid -q --in-place a.zv --reference 2,1")?;
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

    /// Starts the command, kills it after a pause, and checks the store.
    fn kill_command(&self, pause: Duration) -> anyhow::Result<()> {
        if self.what != What::Edit {
            self.add_commits()?;
        }
        let before = read_store(&self.store);
        let head = self.read_head()?;
        let mut child = self.zvf.start(self.line)?;
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

    fn check_store(&self, before: &Tree, head: u64, acknowledged: u64) -> anyhow::Result<()> {
        apply_committed(&self.place())?;
        let now = self.read_head()?;
        ensure!(now >= acknowledged, "commit {acknowledged} was acknowledged, the head is {now}");
        let after = read_store(&self.store);
        let allowed = match self.what {
            What::Edit => now <= acknowledged + 1,
            What::Gc => now == head && after == *before,
            _ => now <= head + 1 && (now > head || after == *before),
        };
        ensure!(allowed, "the head was {head}, {acknowledged} was acknowledged, {now} is there");
        self.zvf.run("validate -q --depth 5 a.zv").map(drop)
    }
}

/// Transactions of the script.
const TRANSACTIONS: u64 = 200;
/// After this many rounds the store is created again.
const RENEWED: u64 = 20;
