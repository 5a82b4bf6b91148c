//! `zvf create`, killed and started again until it is done.
//!
//! After each kill the store does not exist, or is byte for byte the one that an undisturbed command makes; over an old
//! store it is one of both. A run that is not killed makes it, or reports that it exists, and leaves nothing next to
//! it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::input::{self, Input};
use super::{check_nothing_left, kill_within, start_command};
use crate::Report;
use archives::random::Random;

/// The files of a store.
type Tree = BTreeMap<String, Vec<u8>>;

/// The store of an undisturbed command, and the time it takes.
struct Baseline {
    input: Input,
    tree: Tree,
    time: Duration,
}

/// Kills `loops` times.
pub(super) fn run(
    zvf: &Path,
    dir: &Path,
    loops: u64,
    overwrite: bool,
    random: &mut Random,
) -> anyhow::Result<Report> {
    let name = if overwrite { "kill9-overwrite" } else { "kill9-create" };
    let mut report = Report { name, ..Report::default() };
    let (inputs, place) = (dir.join("inputs"), dir.join("place"));
    fs::create_dir_all(&inputs)?;
    fs::create_dir_all(&place)?;
    let mut baselines = Vec::new();
    for input in input::write_inputs(&inputs)? {
        // With the same name, which is stored in the document.
        let store = inputs.join("a.zv");
        let begun = Instant::now();
        let made = start_command(zvf, &list_arguments(&input, &store, false))?.wait()?;
        anyhow::ensure!(made.success(), "{} cannot be made: {made}", input.name);
        let (tree, time) = (archives::tree(&store), begun.elapsed());
        fs::remove_dir_all(store)?;
        baselines.push(Baseline { input, tree, time });
    }
    let mut try_one = Try { zvf, store: place.join("a.zv"), place, overwrite, old: None };
    let mut round = 0;
    while report.n < loops {
        let new = &baselines[round % baselines.len()];
        let kills = 1 + random.next_below(4);
        for _ in 0..kills {
            if try_one.kill(new, random)? {
                report.count(try_one.check(new));
            }
        }
        report.count(try_one.finish(new)?);
        round += 1;
    }
    for folder in [inputs, try_one.place] {
        fs::remove_dir_all(folder)?;
    }
    Ok(report)
}

/// Returns the arguments of the command.
fn list_arguments<'a>(input: &'a Input, store: &'a Path, overwrite: bool) -> Vec<&'a str> {
    let mut words = vec!["create", "-q"];
    words.extend([&input.file, store].iter().filter_map(|path| path.to_str()));
    words.extend(input.options);
    words.extend(overwrite.then_some("--overwrite"));
    words
}

/// One store under construction, in a folder of its own.
struct Try<'a> {
    zvf: &'a Path,
    store: PathBuf,
    place: PathBuf,
    overwrite: bool,
    old: Option<Tree>, // the previous store
}

impl Try<'_> {
    /// Kills one attempt; returns whether it was still running.
    fn kill(&self, new: &Baseline, random: &mut Random) -> anyhow::Result<bool> {
        let child =
            start_command(self.zvf, &list_arguments(&new.input, &self.store, self.overwrite))?;
        kill_within(child, new.time + new.time / 10, random)
    }

    /// Checks that the store is the old one or the new one.
    fn check(&self, new: &Baseline) -> Result<(), String> {
        let name = new.input.name;
        if !self.store.exists() {
            let gone = self.old.is_some();
            return if gone { Err(format!("{name}: the old store is gone")) } else { Ok(()) };
        }
        let tree = archives::tree(&self.store);
        let right = tree == new.tree || self.old.as_ref() == Some(&tree);
        if right { Ok(()) } else { Err(format!("{name}: neither the old store nor the new one")) }
    }

    /// Runs the command once more, to its end.
    fn finish(&mut self, new: &Baseline) -> anyhow::Result<Result<(), String>> {
        let exists = !self.overwrite && self.store.exists();
        let ended =
            start_command(self.zvf, &list_arguments(&new.input, &self.store, self.overwrite))?
                .wait()?;
        let expected = if exists { TAKEN } else { 0 };
        if ended.code() != Some(expected) {
            return Ok(Err(format!("{}: ended with {ended}", new.input.name)));
        }
        if archives::tree(&self.store) != new.tree {
            return Ok(Err(format!("{}: not the same as without a kill", new.input.name)));
        }
        let left = check_nothing_left(&self.place, &self.store);
        if self.overwrite {
            self.old = Some(new.tree.clone());
        } else {
            fs::remove_dir_all(&self.store)?;
        }
        Ok(left)
    }
}

/// The exit code of the command where a store exists.
const TAKEN: i32 = 4;
