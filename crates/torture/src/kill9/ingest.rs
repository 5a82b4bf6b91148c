//! `zvf ingest`: processes that run tasks of one plan, killed and restarted, some tasks by two
//! processes at once.
//!
//! The store is invisible before the last step, and complete afterwards: byte for byte the store of
//! undisturbed processes. Planning and finishing are killed as well.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};

use super::input::{self, Input};
use super::{check_nothing_left, create_folders, kill_within};
use crate::Report;
use crate::commands::start_command;
use archives::random::Random;

/// The tasks of one stage, by their numbers.
type Stage = Vec<usize>;

/// Kills `loops` times.
pub(super) fn run(
    zvf: &Path,
    dir: &Path,
    loops: u64,
    writers: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut random = report.random();
    let [inputs, place] = create_folders(dir)?;
    let mut stores = Vec::new();
    for input in input::write_inputs(&inputs)? {
        let ingestion = Ingestion { zvf, input, store: inputs.join("a.zv"), place: inputs.clone() };
        let begun = Instant::now();
        ingestion.plan()?;
        ingestion.run_to_end(&["run", "--all"])?;
        ingestion.run_to_end(&["finish"])?;
        let time = begun.elapsed();
        let tree = archives::tree(&ingestion.store);
        fs::remove_dir_all(&ingestion.store)?;
        stores.push((ingestion.input, tree, time));
    }
    let mut round = 0;
    while report.n < loops {
        let (input, tree, time) = stores.swap_remove(round % stores.len());
        let ingestion = Ingestion { zvf, input, store: place.join("a.zv"), place: place.clone() };
        let name = ingestion.input.name;
        ingestion.run_round(report, writers.max(1), time, &mut random)?;
        let same = archives::tree(&ingestion.store) == tree;
        let wrong = || Err(anyhow!("{name}: not the same as without a kill"));
        report.count(if same { check_nothing_left(&place, &ingestion.store) } else { wrong() });
        fs::remove_dir_all(&ingestion.store)?;
        stores.push((ingestion.input, tree, time));
        round += 1;
    }
    for folder in [inputs, place] {
        fs::remove_dir_all(folder)?;
    }
    Ok(())
}

/// One store under construction.
struct Ingestion<'a> {
    zvf: &'a Path,
    input: Input,
    store: PathBuf,
    place: PathBuf,
}

impl Ingestion<'_> {
    fn words<'a>(&'a self, words: &[&'a str]) -> Vec<&'a str> {
        let mut all = vec!["ingest", words[0], "-q"];
        if words[0] == "plan" {
            all.extend(self.input.file.to_str());
        }
        all.extend(self.store.to_str());
        all.extend(&words[1..]);
        all
    }

    fn start(&self, words: &[&str]) -> anyhow::Result<Child> {
        start_command(self.zvf, &self.words(words))
    }

    fn run_to_end(&self, words: &[&str]) -> anyhow::Result<()> {
        let ended = self.start(words)?.wait()?;
        ensure!(ended.success(), "{}, {words:?}: {ended}", self.input.name);
        Ok(())
    }

    fn plan_arguments(&self) -> Vec<&'static str> {
        let mut words = vec!["plan", "--json", "--shares", "5"];
        words.extend(self.input.options);
        words
    }

    /// Plans, and returns the tasks by stage.
    fn plan(&self) -> anyhow::Result<Vec<Stage>> {
        let planned = Command::new(self.zvf).args(self.words(&self.plan_arguments())).output()?;
        let stderr = String::from_utf8_lossy(&planned.stderr).into_owned();
        ensure!(planned.status.success(), "{}, plan: {stderr}", self.input.name);
        let plan: serde_json::Value = serde_json::from_slice(&planned.stdout)?;
        let mut stages = BTreeMap::<usize, Stage>::new();
        for (number, task) in plan["tasks"].as_array().context("no tasks")?.iter().enumerate() {
            let stage = STAGES.iter().position(|stage| task["stage"] == *stage);
            stages.entry(stage.context("a stage nobody knows")?).or_default().push(number);
        }
        Ok(stages.into_values().collect())
    }

    /// Builds the store with interruptions by kills.
    fn run_round(
        &self,
        report: &mut Report,
        writers: usize,
        time: Duration,
        random: &mut Random,
    ) -> anyhow::Result<()> {
        let check_invisible = |store: &Path| match store.exists() {
            true => Err(anyhow!("the store is visible before it is finished")),
            false => Ok(()),
        };
        if kill_within(self.start(&self.plan_arguments())?, time / 3, random)? {
            report.count(check_invisible(&self.store));
        }
        for stage in self.plan()? {
            let mut left = stage.clone();
            let mut running: Vec<(Child, usize)> = Vec::new();
            while !left.is_empty() {
                while running.len() < writers {
                    let task = random.choose(&left);
                    let more = random.choose(&stage); // done, or under way in another process
                    let (task_, more) = (task.to_string(), more.to_string());
                    let words = ["run", "--task", &task_, "--task", &more];
                    running.push((self.start(&words)?, task));
                }
                std::thread::sleep(Duration::from_micros(u64::try_from(random.next_below(4000))?));
                let at = random.next_below(running.len());
                if random.next_below(4) == 0 && running[at].0.try_wait()?.is_none() {
                    let (mut child, _) = running.swap_remove(at);
                    child.kill()?;
                    child.wait()?;
                    report.count(check_invisible(&self.store));
                }
                for (mut child, task) in std::mem::take(&mut running) {
                    match child.try_wait()? {
                        None => running.push((child, task)),
                        Some(status) if status.success() => left.retain(|pending| *pending != task),
                        Some(status) => {
                            report.count(Err(anyhow!("{}, {task}: {status}", self.input.name)));
                        }
                    }
                }
            }
            for (mut child, _) in running {
                child.kill()?;
                child.wait()?;
            }
        }
        for _ in 0..random.next_below(4) {
            if self.is_finished() {
                break;
            }
            if kill_within(self.start(&["finish"])?, time / 3, random)? {
                report.count(Ok(())); // compared when it is finished
            }
        }
        if !self.is_finished() {
            self.run_to_end(&["finish"])?;
        }
        Ok(())
    }

    /// Returns whether the store exists, and the folder of the plan does not.
    fn is_finished(&self) -> bool {
        self.store.exists() && !self.place.join(".a.zv.zvf-ingest").exists()
    }
}

const STAGES: [&str; 4] = ["route", "cells", "join", "links"];
