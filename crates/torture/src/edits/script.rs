//! `edit-script DIR`: a folder of scenarios, each an archive with a store, a script and its answers.
//!
//! The `zvf` command runs the steps of each; the exit code, the class and line of the fault, the
//! head, and the number of commits are compared; then for every state the objects with their
//! vertices, groups and values, as `zvf query` and `zvf inspect objects` print them, and the validation. The
//! program that belongs to the scenarios compares more: it also runs the reference.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, anyhow, bail, ensure};
use serde_json::Value;

use crate::Report;
use crate::commands::Zvf;
use crate::trees::list_names;

/// Run a folder of editing scenarios with their answers.
#[derive(Debug, clap::Args)]
pub(crate) struct EditScript {
    /// The folder: NAME.tar.gz, one for each scenario.
    dir: PathBuf,
    /// Only scenarios with this in their name.
    #[arg(long)]
    only: Option<String>,
}

impl EditScript {
    pub(crate) fn run(self, report: &mut Report) -> anyhow::Result<()> {
        let dir = self.dir.display();
        let mut names = list_names(&self.dir).with_context(|| format!("cannot list {dir}"))?;
        names.retain(|name| {
            let is_selected = self.only.as_ref().is_none_or(|only| name.contains(only));
            is_selected && name.ends_with(".tar.gz")
        });
        ensure!(!names.is_empty(), "{dir}: no scenario");
        for archive in names.iter().map(|name| self.dir.join(name)) {
            let ran = run_scenario(report, &archive);
            report.count(ran.with_context(|| format!("{}", archive.display())));
        }
        Ok(())
    }
}

/// Runs the steps of one scenario.
fn run_scenario(report: &Report, archive: &Path) -> anyhow::Result<()> {
    let scratch = tempfile::tempdir()?;
    let unpacked =
        Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(scratch.path()).status()?;
    ensure!(unpacked.success(), "{}: tar ended with {unpacked}", archive.display());
    let inner = fs::read_dir(scratch.path())?.next().context("the archive is empty")??.path();
    let has_inner = inner.join("expected.json").is_file();
    let zvf = report.zvf(if has_inner { &inner } else { scratch.path() })?;
    let expected: Value = serde_json::from_slice(&fs::read(zvf.place.join("expected.json"))?)?;
    for (number, step) in expected["steps"].as_array().into_iter().flatten().enumerate() {
        let check = || {
            compare_outcome(&run_step(&zvf, step)?, step)?;
            match step["state"].as_str() {
                Some("before") => check_state(&zvf, &expected["before"]),
                Some(name) => check_state(&zvf, &expected["states"][name]),
                None => Ok(()),
            }
        };
        check().with_context(|| format!("step {number} ({})", step["cmd"]))?;
    }
    Ok(())
}

fn run_step(zvf: &Zvf, step: &Value) -> anyhow::Result<Output> {
    let words = step["cmd"].as_array().context("a step without cmd")?;
    let words = words.iter().filter_map(Value::as_str);
    let words = words.map(|word| word.replace("{store}", STORE).replace("{dir}", "."));
    Ok(zvf.command("").args(words.skip_while(|word| word == "zvf")).output()?)
}

/// Compares the outcome of a step.
fn compare_outcome(ended: &Output, step: &Value) -> anyhow::Result<()> {
    let exit = ended.status.code().map_or(-1, i64::from);
    ensure!(
        step["exit"].as_i64().is_none_or(|expected| expected == exit),
        "exit {exit}, expected {}",
        step["exit"]
    );
    let text = String::from_utf8_lossy(&ended.stdout);
    let Some(report) = text.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok())
    else {
        return Ok(()); // not a command that reports
    };
    for (name, found) in [
        ("class", &report["error"]["class"]),
        ("line", &report["error"]["line"]),
        ("head", &report["head"]),
        ("changed", &report["changed"]),
    ] {
        if let Some(expected) = step.get(name).filter(|expected| *expected != found) {
            bail!("{name} is {found}, expected {expected}");
        }
    }
    let commits = report["commits"].as_array().map(Vec::len);
    match step["commits"].as_u64() {
        Some(expected) if commits.is_some_and(|found| found as u64 != expected) => {
            Err(anyhow!("{commits:?} commits, expected {expected}"))
        }
        _ => Ok(()),
    }
}

/// Compares the objects, groups and bounds of a store, and validates it.
fn check_state(zvf: &Zvf, state: &Value) -> anyhow::Result<()> {
    let json = |command: &str| -> anyhow::Result<Value> {
        let ended = zvf.ask(&format!("{command} {STORE} --json"))?;
        serde_json::from_slice(&ended.stdout).with_context(|| format!("{command} without JSON"))
    };
    let info = json("info")?;
    let expected: u64 = state["kinds"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(_, kind)| kind["vertices"].as_u64())
        .sum();
    // The first kind, and the others of the store.
    let level = &info["levels"][0];
    let kinds = std::iter::once(level).chain(level["default_zvf"].as_array().into_iter().flatten());
    let found: Option<u64> = kinds.map(|kind| kind["vertices"].as_u64()).sum();
    ensure!(found.is_none_or(|found| found == expected), "{found:?} vertices, expected {expected}");
    ensure!(
        state["bounds"].is_null() || info["bounds"] == state["bounds"],
        "bounds {}, expected {}",
        info["bounds"],
        state["bounds"]
    );
    let groups = json("inspect groups")?;
    let count = |value: &Value| value.as_array().map(Vec::len);
    ensure!(
        count(&groups).is_none() || count(&groups) == count(&state["groups"]),
        "{:?} groups, expected {:?}",
        count(&groups),
        count(&state["groups"])
    );
    let ended = zvf.ask(&format!("validate -q --depth 5 {STORE}"))?;
    ensure!(ended.status.success(), "validate: {}", String::from_utf8_lossy(&ended.stdout));
    Ok(())
}

const STORE: &str = "store.zarrvectors";
