//! Measurements of a part, as JSON. `xtask/benchmarks.py` makes tables, plots and pages from them.
//!
//! ```text
//! FOLDER/parts/NAME.json    a part that is finished: its rows and notes, the commit, and how it was run
//! FOLDER/run.json           a run: its settings, and all of its parts
//! ```
//!
//! `--resume` continues a run that was interrupted or had a failed part. It takes a part from its
//! file if the settings are the same. Each part compares contenders in one run on one machine; the
//! commit may differ between parts.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::Serialize;
use serde_json::{Value, json};

use crate::contest::{Contender, measure_memory, run_contest};
use crate::row::{Role, Row};
use crate::settings::Bench;

/// A part.
pub(crate) struct BenchPart {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its title.
    pub(crate) title: &'static str,
    pub(crate) needs: Needs,
    pub(crate) run: fn(&mut Results<'_>) -> anyhow::Result<()>,
}

/// The other programs that a part needs.
#[derive(Clone, Copy)]
pub(crate) enum Needs {
    Nothing,
    /// The command, or stores that zarr-vectors makes: tests have neither.
    Others,
    /// The same; and every side is a process of its own, so that its memory is known.
    Processes,
}

impl Needs {
    pub(crate) fn are_met(self, bench: &Bench) -> bool {
        match self {
            Self::Nothing => true,
            Self::Others => !bench.alone,
            Self::Processes => !bench.alone && bench.own.is_none(),
        }
    }
}

/// The results of one part so far.
#[derive(Serialize)]
pub(crate) struct Results<'a> {
    #[serde(skip)]
    pub(crate) bench: &'a Bench,
    part: &'static str,
    title: &'static str,
    pub(crate) rows: Vec<Row>,
    /// Sentences below the table.
    notes: Vec<String>,
    /// The peak memory of a process that runs only one workload of zvf.
    #[serde(skip)]
    pub(crate) held: Option<u64>,
}

impl<'a> Results<'a> {
    pub(crate) fn new(bench: &'a Bench, part: &BenchPart) -> Self {
        let BenchPart { name: part, title, .. } = *part;
        Self { bench, part, title, rows: Vec::new(), notes: Vec::new(), held: None }
    }

    /// Runs the workload on all contenders in turns, if it is selected, and adds the row.
    pub(crate) fn contest(
        &mut self,
        row: impl Into<Row>,
        contenders: Vec<Contender<'_>>,
    ) -> anyhow::Result<()> {
        let row = row.into();
        if !self.bench.is_selected(&row.work) {
            return Ok(());
        }
        if self.bench.own.is_some() {
            self.held = Some(measure_memory(contenders).context(row.work)?);
            bail!("the other work is not done");
        }
        self.add_row(run_contest(self.bench, self.part, row, contenders)?);
        Ok(())
    }

    /// Adds a row, and prints it.
    pub(crate) fn add_row(&mut self, row: Row) {
        let seconds = row.seconds(Role::Zvf).unwrap_or(f64::NAN);
        eprintln!("{}: {:.3} ms", row.work, seconds * 1e3);
        self.rows.push(row);
    }

    /// Adds a sentence below the table, and prints it.
    pub(crate) fn add_note(&mut self, text: String) {
        eprintln!("{text}");
        self.notes.push(text);
    }

    /// Returns the results under a name, with the settings that they depend on; a part that is
    /// `whole` is also saved.
    pub(crate) fn finish(&self, name: &str, whole: bool) -> anyhow::Result<Value> {
        let mut finished = serde_json::to_value(self)?;
        finished["name"] = name.into();
        finished["commit"] = current_commit().into();
        finished["settings"] = self.bench.describe().into();
        if whole {
            let folder = self.bench.create_folder("parts")?;
            write(&folder.join(format!("{name}.json")), &finished)?;
        }
        Ok(finished)
    }
}

/// Loads the results saved under a name, if they were measured with the settings of `bench`.
pub(crate) fn load(bench: &Bench, name: &str) -> anyhow::Result<Option<Value>> {
    let file = bench.folder.join("parts").join(format!("{name}.json"));
    let text = match fs::read(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        text => text?,
    };
    let finished: Value =
        serde_json::from_slice(&text).with_context(|| file.display().to_string())?;
    Ok(Some(finished).filter(|finished| finished["settings"] == bench.describe()))
}

/// Saves a run; a complete run becomes a page.
pub(crate) fn write_run(
    bench: &Bench,
    parts: &[Value],
    is_complete: bool,
    took: Duration,
    about: &Value,
) -> anyhow::Result<()> {
    let run = json!({
        "complete": is_complete, "parts": parts, "seconds": took.as_secs_f64(), "about": about,
        "commit": current_commit(), "scale": bench.scale, "turns": bench.turns,
        "patience": bench.patience,
    });
    write(&bench.folder.join("run.json"), &run)
}

fn write(file: &Path, value: &Value) -> anyhow::Result<()> {
    let unfinished = file.with_extension("part");
    fs::write(&unfinished, value.to_string())?;
    Ok(fs::rename(unfinished, file)?)
}

/// Returns the commit, if known, and whether files differ from it.
fn current_commit() -> String {
    let git = |words: &[&str]| {
        let output = Command::new("git").args(words).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_default();
    let is_changed = git(&["status", "--porcelain"]).is_some_and(|lines| !lines.is_empty());
    if is_changed { format!("{commit} with changes") } else { commit }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::ALL;
    use crate::row::{Amount, Cost, Growth, Side, Turn};

    fn finish_sample(bench: &Bench) -> Value {
        let cost = Cost { processor: Some(Duration::from_millis(30)), ..Cost::default() };
        let turn = Turn { seconds: 0.1, count: Some(7), cost };
        let side =
            |name: &str, result| Side { stored: Some(3), ..Side::new(name, Role::Zvf, result) };
        let growth = Some(Growth { work: "a".to_owned(), amount: Amount::default() });
        let sides = vec![side("zvf", Ok(turn)), side("other", Err("no wheel".to_owned()))];
        let row =
            Row { work: "a box".to_owned(), count: Some(7), ahead: Some(40.0), growth, sides };
        let notes = vec!["a note".to_owned()];
        let results = Results { rows: vec![row], notes, ..Results::new(bench, &ALL[0]) };
        results.finish("ask", true).unwrap()
    }

    #[test]
    fn results_are_what_was_saved() {
        let folder = tempfile::tempdir().unwrap();
        let with_turns =
            |turns| Bench { folder: folder.path().to_owned(), ..Bench::with_turns(turns) };
        let bench = with_turns(3);
        assert!(load(&bench, "ask").unwrap().is_none());
        let saved = finish_sample(&bench);
        let loaded = load(&bench, "ask").unwrap().unwrap();
        assert_eq!(loaded, saved);
        let row = &loaded["rows"][0];
        assert_eq!((&row["work"], &row["ahead"]), (&json!("a box"), &json!(40.0)));
        assert_eq!(row["sides"][0]["result"]["Ok"]["count"], 7);
        assert_eq!(row["sides"][0]["result"]["Ok"]["cost"]["processor"], json!(0.03));
        assert_eq!(row["sides"][1]["result"]["Err"], "no wheel");

        assert!(load(&with_turns(4), "ask").unwrap().is_none(), "results of other settings");

        fs::write(folder.path().join("parts/ask.json"), "{").unwrap();
        let error = load(&bench, "ask").unwrap_err();
        assert!(error.to_string().ends_with("ask.json"), "{error}");
    }
}
