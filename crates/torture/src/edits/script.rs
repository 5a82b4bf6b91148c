//! `edit-script DIR`: a folder of scenarios, each an archive with a store, a script and its answers.
//!
//! The `zvf` command runs the steps of each; the exit code, the class and line of the fault, the
//! head, and the number of commits are compared; then for every state the objects with their
//! vertices, groups and values, as `zvf query` and `zvf inspect objects` print them, and the validation. The
//! program that belongs to the scenarios compares more: it also runs the reference.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::Report;
use crate::commands::Zvf;
use crate::trees::list_names;

/// Run a folder of editing scenarios with their answers.
#[derive(clap::Args)]
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

/// Compares the outcome of a step: what it states, and what the command reports.
fn compare_outcome(ended: &Output, step: &Value) -> anyhow::Result<()> {
    let text = String::from_utf8_lossy(&ended.stdout);
    let report = text.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut found = json!({"exit": ended.status.code()});
    if let Some(report) = report {
        for name in ["class", "line"] {
            found[name] = report["error"][name].clone();
        }
        for name in ["head", "changed"] {
            found[name] = report[name].clone();
        }
        if let Some(commits) = report["commits"].as_array() {
            found["commits"] = commits.len().into();
        }
    }
    for (name, found) in found.as_object().into_iter().flatten() {
        let expected = step.get(name).unwrap_or(found);
        ensure!(expected == found, "{name} is {found}, expected {expected}");
    }
    Ok(())
}

/// Compares the objects, groups and bounds of a store, and validates it.
fn check_state(zvf: &Zvf, state: &Value) -> anyhow::Result<()> {
    let json = |command: &str| -> anyhow::Result<Value> {
        let ended = zvf.ask(&format!("{command} {STORE} --json"))?;
        serde_json::from_slice(&ended.stdout).with_context(|| format!("{command} without JSON"))
    };
    let (info, groups) = (json("info")?, json("inspect groups")?);
    let kinds = state["kinds"].as_object().into_iter().flatten();
    let expected: u64 = kinds.filter_map(|(_, kind)| kind["vertices"].as_u64()).sum();
    // The first kind, and the others of the store.
    let level = &info["levels"][0];
    let kinds = std::iter::once(level).chain(level["default_zvf"].as_array().into_iter().flatten());
    let vertices: Option<u64> = kinds.map(|kind| kind["vertices"].as_u64()).sum();
    let count = |value: &Value| json!(value.as_array().map(Vec::len));
    for (what, expected, found) in [
        ("vertices", &json!(expected), &json!(vertices)),
        ("groups", &count(&state["groups"]), &count(&groups)),
        ("bounds", &state["bounds"], &info["bounds"]),
    ] {
        let is_unknown = if what == "bounds" { expected } else { found }.is_null();
        ensure!(is_unknown || found == expected, "{what}: {found}, expected {expected}");
    }
    let ended = zvf.ask(&format!("validate -q --depth 5 {STORE}"))?;
    ensure!(ended.status.success(), "validate: {}", String::from_utf8_lossy(&ended.stdout));
    Ok(())
}

const STORE: &str = "store.zarrvectors";
