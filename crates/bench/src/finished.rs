//! Parts that are finished, as files: a run that was interrupted, or of which one part failed, goes on with `--resume`.
//!
//! ```text
//! FOLDER/parts/NAME.json    the rows, series, notes and tables of a part, the commit, and how it was run
//! ```
//!
//! The part with stores of a billion vertices has a file for each of them.
//!
//! A part is only taken from its file if it was run with the same settings. Figures that are wanted are those of the program
//! that reads the file. Each part compares in one run on one machine, whichever commit it is of; the page names the commit of
//! each part that is of another one.

use std::borrow::Cow;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::bar::Bar;
use crate::row::Row;
use crate::series::Series;
use crate::settings::Bench;
use crate::targets;

/// The results of one part.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct PartResults {
    pub(crate) rows: Vec<Row>,
    /// Their last rows are numbers within `rows`.
    pub(crate) series: Vec<Series>,
    pub(crate) notes: Vec<String>,
    pub(crate) tables: Vec<String>,
}

/// A part in a file.
#[derive(Debug, Deserialize, Serialize)]
struct FinishedPart<'a> {
    commit: String,
    settings: String,
    /// How many times as fast as the reference zvf is wanted to be, for each row of which the part says so itself.
    ahead: Vec<Option<f64>>,
    results: Cow<'a, PartResults>,
}

/// Saves results of a part under a name.
pub(crate) fn save_results(
    bench: &Bench,
    name: &str,
    commit: &str,
    results: &PartResults,
) -> anyhow::Result<()> {
    let ahead = results.rows.iter().map(find_part_bar).collect();
    let finished = FinishedPart {
        commit: commit.to_owned(),
        settings: format_settings(bench),
        ahead,
        results: Cow::Borrowed(results),
    };
    let file = part_path(&bench.create_folder("parts")?, name);
    let unfinished = file.with_extension("part");
    fs::write(&unfinished, serde_json::to_vec(&finished)?)?;
    Ok(fs::rename(unfinished, file)?)
}

/// Loads results of a part by their name, and the commit they are of, if they were measured with the settings of `bench`.
pub(crate) fn load_results(
    bench: &Bench,
    name: &str,
    part: &'static str,
) -> anyhow::Result<Option<(String, PartResults)>> {
    let file = part_path(&bench.folder.join("parts"), name);
    let text = match fs::read(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        text => text?,
    };
    let finished: FinishedPart =
        serde_json::from_slice(&text).with_context(|| file.display().to_string())?;
    if finished.settings != format_settings(bench) {
        return Ok(None);
    }
    let FinishedPart { commit, ahead, results, .. } = finished;
    let mut results = results.into_owned();
    for (row, ahead) in results.rows.iter_mut().zip(ahead) {
        row.part = part;
        row.bars =
            ahead.map(Bar::Ahead).into_iter().chain(targets::find_bars(part, &row.work)).collect();
    }
    for series in &mut results.series {
        series.part = part;
    }
    Ok(Some((commit, results)))
}

/// Returns the figure of a row that its part wants of it, which comes before those of the table.
fn find_part_bar(row: &Row) -> Option<f64> {
    let in_table = targets::find_bars(row.part, &row.work).len();
    match row.bars.first() {
        Some(Bar::Ahead(times)) if row.bars.len() > in_table => Some(*times),
        _ => None,
    }
}

fn part_path(folder: &Path, part: &str) -> PathBuf {
    folder.join(format!("{part}.json"))
}

/// Returns all settings that results depend on, as text.
fn format_settings(bench: &Bench) -> String {
    let Bench { scale, largest, turns, patience, listening, places, .. } = bench;
    let Bench { disk, is_thorough, threads, .. } = bench;
    format!(
        "{scale} {largest} {turns} {patience:?} {listening:?} {places:?} {disk} {is_thorough} {threads}"
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::row::{Cost, Role, Side, Turn};
    use crate::series::{Amount, Step};

    fn sample_results(bars: Vec<Bar>) -> PartResults {
        let cost = Cost { processor: Some(Duration::from_millis(30)), ..Cost::default() };
        let turn = Turn { seconds: 0.1, count: Some(7), cost };
        let side = |name: &str, result| Side {
            name: name.to_owned(),
            role: Role::Zvf,
            result,
            stored: Some(9),
        };
        let sides = vec![side("zvf", Ok(turn)), side("other", Err("no wheel".to_owned()))];
        let profile = Some(Err("no profiler".to_owned()));
        let row = Row { part: "ask", work: "a".to_owned(), count: Some(7), bars, sides, profile };
        let step = Step { amount: Amount::default(), seconds: 0.1, memory: None };
        let series = Series {
            part: "ask",
            work: "a".to_owned(),
            who: "zvf".to_owned(),
            is_ours: true,
            steps: vec![step],
            last_row: 0,
        };
        let notes = vec!["a note".to_owned()];
        PartResults { rows: vec![row], series: vec![series], notes, tables: vec!["|".to_owned()] }
    }

    #[test]
    fn results_are_what_was_saved() {
        let folder = tempfile::tempdir().unwrap();
        let bench = Bench { folder: folder.path().to_owned(), ..Bench::with_turns(3) };
        assert!(load_results(&bench, "ask", "ask").unwrap().is_none());
        save_results(&bench, "ask", "abc", &sample_results(vec![Bar::Ahead(40.0)])).unwrap();
        let (commit, loaded) = load_results(&bench, "ask", "ask").unwrap().unwrap();
        assert_eq!(commit, "abc");
        assert_eq!(format!("{loaded:?}"), format!("{:?}", sample_results(vec![Bar::Ahead(40.0)])));
        save_results(&bench, "ask", "abc", &sample_results(Vec::new())).unwrap();
        let (_, loaded) = load_results(&bench, "ask", "ask").unwrap().unwrap();
        assert_eq!(loaded.rows[0].bars, Vec::new());
    }

    #[test]
    fn results_of_other_settings_are_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let bench = Bench { folder: folder.path().to_owned(), ..Bench::with_turns(3) };
        save_results(&bench, "ask", "abc", &sample_results(Vec::new())).unwrap();
        let changed = Bench { folder: folder.path().to_owned(), ..Bench::with_turns(4) };
        assert!(load_results(&changed, "ask", "ask").unwrap().is_none());
    }

    #[test]
    fn a_damaged_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let bench = Bench { folder: folder.path().to_owned(), ..Bench::with_turns(3) };
        save_results(&bench, "ask", "abc", &sample_results(Vec::new())).unwrap();
        fs::write(part_path(&folder.path().join("parts"), "ask"), "{").unwrap();
        let error = load_results(&bench, "ask", "ask").unwrap_err();
        assert!(error.to_string().ends_with("ask.json"), "{error}");
    }
}
