//! `zvf ingest`: processes that run tasks of one plan, killed and restarted, some tasks by two
//! processes at once.
//!
//! The store is invisible before the last step, and complete afterwards: byte for byte the store of
//! undisturbed processes. Planning and finishing are killed as well.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};
use archives::peers::Process;

use super::{INPUT_SIZES, INPUTS, Input, kill_within};
use crate::Report;
use crate::commands::{Zvf, write_inputs};
use crate::trees::check_names;
use archives::random::Random;

/// The tasks of one stage, by their numbers.
type StageTasks = Vec<usize>;

/// Kills `loops` times.
pub(super) fn run(
    zvf: &Zvf,
    dir: &Path,
    loops: u64,
    writers: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut random = report.random();
    write_inputs(dir, INPUT_SIZES)?;
    let mut stores = Vec::new();
    for input in INPUTS {
        zvf.empty_place()?;
        let ingestion = Ingestion { zvf, input };
        let begun = Instant::now();
        ingestion.plan()?;
        zvf.run("ingest run -q a.zv --all")?;
        zvf.run(FINISH)?;
        stores.push((ingestion, archives::tree(&zvf.place), begun.elapsed()));
    }
    for (ingestion, tree, time) in stores.iter().cycle() {
        if report.n >= loops {
            break;
        }
        zvf.empty_place()?;
        ingestion.run_round(report, writers.max(1), *time, &mut random)?;
        let same = archives::tree(&zvf.place) == *tree;
        let wrong = || Err(anyhow!("{}: not the same as without a kill", ingestion.input.name));
        report.count(if same { check_names(&zvf.place, &["a.zv".to_owned()]) } else { wrong() });
    }
    Ok(fs::remove_dir_all(&zvf.place)?)
}

/// One store under construction.
struct Ingestion<'a> {
    zvf: &'a Zvf,
    input: Input,
}

impl Ingestion<'_> {
    fn plan_line(&self) -> String {
        let Input { file, options, .. } = self.input;
        format!("ingest plan -q ../{file} a.zv --json --shares 5 {options}")
    }

    /// Plans, and returns the tasks by stage.
    fn plan(&self) -> anyhow::Result<Vec<StageTasks>> {
        let planned = self.zvf.run(&self.plan_line())?;
        let plan: serde_json::Value = serde_json::from_slice(&planned.stdout)?;
        let mut stages = BTreeMap::<usize, StageTasks>::new();
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
        let (zvf, name) = (self.zvf, self.input.name);
        let store = zvf.place.join("a.zv");
        let check_invisible = || {
            ensure!(!store.exists(), "the store is visible before it is finished");
            Ok(())
        };
        // The store exists, and the folder of the plan does not.
        let is_finished = || store.exists() && !zvf.place.join(".a.zv.zvf-ingest").exists();
        if kill_within(zvf.start(&self.plan_line())?, time / 3, random)? {
            report.count(check_invisible());
        }
        for stage in self.plan()? {
            let mut left = stage.clone();
            let mut running: Vec<(Process, usize)> = Vec::new();
            while !left.is_empty() {
                while running.len() < writers {
                    let task = random.choose(&left);
                    let more = random.choose(&stage); // done, or under way in another process
                    let line = format!("ingest run -q a.zv --task {task} --task {more}");
                    running.push((Process(zvf.start(&line)?), task));
                }
                std::thread::sleep(Duration::from_micros(random.next() % 4000));
                let at = random.next_below(running.len());
                if random.next_below(4) == 0 && running[at].0.0.try_wait()?.is_none() {
                    drop(running.swap_remove(at));
                    report.count(check_invisible());
                }
                for (mut child, task) in std::mem::take(&mut running) {
                    match child.0.try_wait()? {
                        None => running.push((child, task)),
                        Some(status) if status.success() => left.retain(|pending| *pending != task),
                        Some(status) => report.count(Err(anyhow!("{name}, {task}: {status}"))),
                    }
                }
            }
        }
        for _ in 0..random.next_below(4) {
            if is_finished() {
                break;
            }
            if kill_within(zvf.start(FINISH)?, time / 3, random)? {
                report.count(Ok(())); // compared when it is finished
            }
        }
        if !is_finished() {
            zvf.run(FINISH)?;
        }
        Ok(())
    }
}

const FINISH: &str = "ingest finish -q a.zv";
const STAGES: [&str; 4] = ["route", "cells", "join", "links"];
