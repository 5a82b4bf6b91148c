//! What was measured, as a page: a table for each part, what held zvf back, and the machine it was
//! measured on.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::bar::Bar;
use crate::finished::PartResults;
use crate::plot;
use crate::row::{Cost, Role, Row, Side, Turn};
use crate::series::{Amount, Series, Step};
use crate::settings::Bench;
use crate::targets::{self, Verdict};
use crate::units::{format_size, format_time};

/// A part.
pub(crate) struct Part {
    /// The word for it.
    pub(crate) name: &'static str,
    /// What it asks.
    pub(crate) title: &'static str,
    pub(crate) run: fn(&Bench, &mut Page) -> anyhow::Result<()>,
}

/// Rows and series as they come.
#[derive(Debug, Default)]
pub(crate) struct Page {
    rows: Vec<Row>,
    series: Vec<Series>,
    notes: Vec<(&'static str, String)>,
    /// Tables of another shape than those of times.
    others: Vec<(&'static str, String)>,
    /// Parts, by the names of their results, of another commit than that of the page.
    other_commits: Vec<(String, String)>,
    /// How many wanted to run when it began, where that is known.
    load: Option<f64>,
}

impl Page {
    /// Adds a row, and says so.
    pub(crate) fn add_row(&mut self, row: Row) {
        eprintln!("{}", format_line(&row));
        self.rows.push(row);
    }

    /// Adds a sentence below the table of a part, and says it.
    pub(crate) fn add_note(&mut self, part: &'static str, text: &str) {
        eprintln!("{text}");
        self.notes.push((part, text.to_owned()));
    }

    /// Adds a table of another shape to a part, and says it.
    pub(crate) fn add_table(&mut self, part: &'static str, markdown: String) {
        eprint!("{markdown}");
        self.others.push((part, markdown));
    }

    /// Adds a step to the series of everyone but limits in a row, which is added to the page next.
    pub(crate) fn add_growth(&mut self, row: &Row, work: &str, amount: Amount) {
        for side in row.sides.iter().filter(|side| side.role != Role::Limit) {
            let Ok(turn) = &side.result else { continue };
            let step = Step { amount, seconds: turn.seconds, memory: turn.cost.memory };
            self.add_series(Series {
                part: row.part,
                work: work.to_owned(),
                who: side.name.clone(),
                is_ours: matches!(side.role, Role::Zvf | Role::Variant),
                steps: vec![step],
                last_row: self.rows.len(),
            });
        }
    }

    /// Adds the steps of a series after those of the same work by the same contender, if there are any.
    fn add_series(&mut self, added: Series) {
        let is_same = |entry: &&mut Series| {
            (entry.part, &entry.work, &entry.who) == (added.part, &added.work, &added.who)
        };
        match self.series.iter_mut().find(is_same) {
            Some(series) => {
                series.steps.extend(added.steps);
                series.last_row = added.last_row;
            }
            None => self.series.push(added),
        }
    }

    /// What all counted in a work of a part.
    #[cfg(test)]
    pub(crate) fn count(&self, part: &str, work: &str) -> Option<u64> {
        self.rows.iter().find(|row| (row.part, &*row.work) == (part, work))?.count
    }

    /// A page that knows how busy the machine is now.
    pub(crate) fn new() -> Self {
        let load = fs::read_to_string("/proc/loadavg").ok();
        let load = load.and_then(|text| text.split(' ').next()?.parse().ok());
        Self { load, ..Self::default() }
    }

    /// Returns the results of a part, whose rows were added one after the other.
    pub(crate) fn results_of(&self, part: &str) -> PartResults {
        let first = self.rows.iter().position(|row| row.part == part).unwrap_or(0); // no row, no series
        let texts = |all: &[(&'static str, String)]| {
            all.iter().filter(|(name, _)| *name == part).map(|(_, text)| text.clone()).collect()
        };
        let series = self.series.iter().filter(|entry| entry.part == part).cloned();
        PartResults {
            rows: self.rows.iter().filter(|row| row.part == part).cloned().collect(),
            series: series
                .map(|entry| Series { last_row: entry.last_row - first, ..entry })
                .collect(),
            notes: texts(&self.notes),
            tables: texts(&self.others),
        }
    }

    /// Adds results of a part, of that name and commit. Steps of a work that has some already come after these.
    pub(crate) fn add_results(
        &mut self,
        part: &'static str,
        name: &str,
        commit: &str,
        results: PartResults,
    ) {
        let PartResults { rows, series, notes, tables } = results;
        let first = self.rows.len();
        self.rows.extend(rows);
        for entry in series {
            self.add_series(Series { last_row: entry.last_row + first, ..entry });
        }
        self.notes.extend(notes.into_iter().map(|text| (part, text)));
        self.others.extend(tables.into_iter().map(|text| (part, text)));
        if commit != current_commit() {
            self.other_commits.push((name.to_owned(), commit.to_owned()));
        }
    }

    /// Says how what a part measured grows.
    pub(crate) fn print_growth(&self, part: &Part) {
        for entry in self.growing_series(part) {
            eprintln!("{} ({}): n^{:.2}", entry.work, entry.who, entry.exponent());
        }
    }

    fn growing_series(&self, part: &Part) -> impl Iterator<Item = &Series> {
        self.series.iter().filter(|entry| entry.part == part.name && entry.steps.len() > 1)
    }

    /// Writes it as a file, its plots in a folder of the same name beside it.
    pub(crate) fn write(
        &self,
        file: &Path,
        parts: &[Part],
        bench: &Bench,
        took: Duration,
    ) -> anyhow::Result<()> {
        let plots = file.with_extension("");
        fs::create_dir_all(&plots)?;
        let busy = self.load.map(|load| {
            format!(
                "* load of the machine when it began: {load:.1}{}\n",
                if load > 0.5 { ", so other work ran beside it" } else { "" }
            )
        });
        let mut text = format!(
            "{TITLE}\n* data: scale {}; at most {} turns each, none begun after {} s; {:.0} minutes in all\n{}{}{}\n",
            bench.scale,
            bench.turns,
            bench.patience.as_secs(),
            took.as_secs_f64() / 60.0,
            busy.unwrap_or_default(),
            self.earlier_parts_line(),
            describe_machine()
        );
        for part in parts {
            let tables = self.format_part_tables(part);
            text.push_str(&tables);
            let rows: Vec<&Row> = self.rows.iter().filter(|row| row.part == part.name).collect();
            let series: Vec<&Series> = self.growing_series(part).collect();
            for (end, svg) in [("", plot::plot_bars(&rows)), ("-growth", plot::plot_lines(&series))]
            {
                if let Some(svg) = svg.filter(|_| !tables.is_empty()) {
                    let name = format!("{}{end}.svg", part.name);
                    fs::write(plots.join(&name), svg)?;
                    let folder = plots.file_name().unwrap_or_default().to_string_lossy();
                    let _ = writeln!(text, "![{}]({folder}/{name})\n", part.title);
                }
            }
        }
        text.push_str(&self.format_missed(None));
        Ok(fs::write(file, text.trim_end().to_owned() + "\n")?)
    }

    /// Returns a line about the parts of other commits, if there are any.
    fn earlier_parts_line(&self) -> String {
        let parts = self.other_commits.iter().map(|(part, commit)| format!("{part} of {commit}"));
        let parts: Vec<String> = parts.collect();
        match parts.is_empty() {
            true => String::new(),
            false => format!("* measured in an earlier run: {}\n", parts.join(", ")),
        }
    }

    /// Writes the tables of one part, which is none of a full run, below what is said about them.
    pub(crate) fn write_part(
        &self,
        file: &Path,
        part: &Part,
        about: &str,
        took: Duration,
    ) -> anyhow::Result<()> {
        let minutes = took.as_secs_f64() / 60.0;
        let tables = self.format_part_tables(part);
        let earlier = self.earlier_parts_line();
        let mut text = format!(
            "{about}\n* {minutes:.0} minutes in all\n{earlier}{}\n{tables}",
            describe_machine()
        );
        text.push_str(&self.format_missed(Some(part.name)));
        Ok(fs::write(file, text.trim_end().to_owned() + "\n")?)
    }

    /// The rows and the growth that are not where they are wanted, and where the time goes; then what is not judged. Of one part
    /// by itself, rows for which no figure is written down are left out.
    fn format_missed(&self, part: Option<&str>) -> String {
        let (mut text, mut not_judged) = (String::from(BEHIND), String::new());
        let is_shown = |name: &str, judged: bool| part.is_none_or(|part| part == name && judged);
        for row in self.rows.iter().filter(|row| is_shown(row.part, !row.bars.is_empty())) {
            let bars: Vec<String> = row.bars.iter().map(ToString::to_string).collect();
            let (part, line, bars) = (row.part, format_line(row), bars.join("; "));
            let _ = match targets::judge_row(row) {
                Verdict::Met => Ok(()),
                Verdict::Missed { .. } => {
                    writeln!(text, "| {part} | {line} | {bars} | {} |", format_profile(row))
                }
                Verdict::NotJudged(why) => {
                    writeln!(not_judged, "| {part} | {line} | {bars} | {} |", escape_cell(&why))
                }
            };
        }
        let ours = self.series.iter().filter(|entry| entry.is_ours && is_shown(entry.part, true));
        for entry in ours {
            let (part, work, who) = (entry.part, &entry.work, &entry.who);
            let limit = targets::find_growth_limit(part, work, who);
            if entry.steps.len() < 2 {
                let _ = writeln!(
                    not_judged,
                    "| {part} | growth of {work} ({who}) | at most n^{limit} | one amount only |"
                );
            } else if entry.exponent() > limit {
                let profile = self.rows.get(entry.last_row).map(format_profile).unwrap_or_default();
                let profile = if profile.is_empty() { NOT_SAMPLED } else { &profile };
                let _ = writeln!(
                    text,
                    "| {part} | {work} ({who}): n^{:.2} | at most n^{limit} | {profile} |",
                    entry.exponent()
                );
            }
        }
        if !not_judged.is_empty() {
            text.push_str(NOT_JUDGED);
            text.push_str(&not_judged);
        }
        text
    }

    /// The tables of all parts, as Markdown.
    pub(crate) fn format_tables(&self, parts: &[Part]) -> String {
        parts.iter().map(|part| self.format_part_tables(part)).collect()
    }

    /// The tables of a part.
    pub(crate) fn format_part_tables(&self, part: &Part) -> String {
        let mut text = String::new();
        let mut rows = self.rows.iter().filter(|row| row.part == part.name).peekable();
        let mut series = self.growing_series(part).peekable();
        let mut others = self.others.iter().filter(|(name, _)| *name == part.name).peekable();
        if rows.peek().is_none() && series.peek().is_none() && others.peek().is_none() {
            return text;
        }
        let _ = writeln!(text, "## {}\n", part.title);
        if rows.peek().is_some() {
            text.push_str(HEAD);
            rows.for_each(|row| push_rows(row, &mut text));
            text.push('\n');
        }
        for (_, table) in others {
            text.push_str(table);
            text.push('\n');
        }
        for (_, note) in self.notes.iter().filter(|(name, _)| *name == part.name) {
            let _ = writeln!(text, "* {note}");
        }
        if self.notes.iter().any(|(name, _)| *name == part.name) {
            text.push('\n');
        }
        if series.peek().is_some() {
            push_growth(series, &mut text);
        }
        text
    }
}

/// Returns the commit, as far as it can be known, and whether files differ from it.
pub(crate) fn current_commit() -> String {
    let git = |words: &[&str]| {
        let output = Command::new("git").args(words).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_default();
    let is_changed = git(&["status", "--porcelain"]).is_some_and(|lines| !lines.is_empty());
    if is_changed { format!("{commit} with changes") } else { commit }
}

/// The commit and the machine, as far as they can be known.
fn describe_machine() -> String {
    let commit = current_commit();
    let line = |file: &str, key: &str| {
        let text = fs::read_to_string(file).ok()?;
        let line = text.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let processor = line("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned());
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let memory = line("/proc/meminfo", "MemTotal").unwrap_or_else(|| "unknown".to_owned());
    let system = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    format!(
        "* commit: {commit}\n* machine: {cores} cores of {processor}, {memory} of memory, \
         {system}\n"
    )
}

/// Where the time of a row goes, or why that is not known.
fn format_profile(row: &Row) -> String {
    match &row.profile {
        Some(Ok(profile) | Err(profile)) => escape_cell(profile),
        None => String::new(),
    }
}

/// Words in a cell of a table.
fn escape_cell(text: &str) -> String {
    text.replace(['|', '\n'], " ")
}

/// One line of a row, for who waits.
fn format_line(row: &Row) -> String {
    let ours = row.seconds(Role::Zvf).unwrap_or(f64::NAN);
    let ratio =
        row.seconds(Role::Reference).map(|theirs| format!(", {:.1} times faster", theirs / ours));
    let limit =
        row.seconds(Role::Limit).map(|limit| format!(", {:.2} times the limit", ours / limit));
    format!(
        "{}: {}{}{}",
        row.work,
        format_time(ours),
        ratio.unwrap_or_default(),
        limit.unwrap_or_default()
    )
}

fn push_rows(row: &Row, text: &mut String) {
    let ours = row.seconds(Role::Zvf).unwrap_or(f64::NAN);
    for (at, side) in row.sides.iter().enumerate() {
        let (work, count) = match at {
            0 => (row.work.as_str(), row.count.map(|count| count.to_string()).unwrap_or_default()),
            _ => ("", String::new()),
        };
        let (name, figures) = (format_name(side), format_figures(side, ours, row));
        let _ = writeln!(text, "| {work} | {count} | {name} | {figures} |");
    }
}

fn format_name(side: &Side) -> String {
    match side.role {
        Role::Zvf | Role::Variant => format!("**{}**", side.name),
        Role::Limit => format!("*{}*", side.name),
        Role::Reference | Role::Peer => side.name.clone(),
    }
}

fn format_figures(side: &Side, ours: f64, row: &Row) -> String {
    match &side.result {
        Err(why) => format!("not here: {} | | | | | | ", escape_cell(why)),
        Ok(Turn { seconds, cost: Cost { requests, bytes, memory, processor }, .. }) => {
            let ratio = match side.role {
                Role::Zvf => String::new(),
                Role::Reference | Role::Peer => match row.bars.first() {
                    Some(Bar::Ahead(times)) => {
                        let times = (times * 100.0).round() / 100.0;
                        format!("{:.2} of {times} wanted", seconds / ours)
                    }
                    _ => format!("{:.2}", seconds / ours),
                },
                _ => format!("{:.2}", seconds / ours),
            };
            let number = |n: &Option<u64>| n.map(|n| n.to_string()).unwrap_or_default();
            let size = |n: &Option<u64>| n.map(format_size).unwrap_or_default();
            format!(
                "{} | {ratio} | {} | {} | {} | {} | {}",
                format_time(*seconds),
                processor.map(|busy| format_time(busy.as_secs_f64())).unwrap_or_default(),
                number(requests),
                size(bytes),
                size(memory),
                size(&side.stored)
            )
        }
    }
}

fn push_growth<'a>(series: impl Iterator<Item = &'a Series>, text: &mut String) {
    text.push_str(GROWTH);
    for entry in series {
        for (at, Step { amount, seconds, memory }) in entry.steps.iter().enumerate() {
            let (work, who) =
                if at == 0 { (entry.work.as_str(), entry.who.as_str()) } else { ("", "") };
            let last = at + 1 == entry.steps.len();
            let grows = if last { format!("n^{:.2}", entry.exponent()) } else { String::new() };
            let _ = writeln!(
                text,
                "| {work} | {who} | {} | {} | {} | {} | {} | {} | {grows} |",
                amount.elements,
                format_time(*seconds),
                format_time(*seconds / amount.elements as f64),
                memory.map(format_size).unwrap_or_default(),
                amount.files.map(|files| files.to_string()).unwrap_or_default(),
                amount.bytes.map(format_size).unwrap_or_default(),
            );
        }
    }
    text.push('\n');
}

const TITLE: &str = "# Benchmarks

Made by `cargo xtask bench` (`--quick`: smaller data and fewer turns); not written by hand. It needs python3 and a
network once, and nothing else running. Everybody does the same work in turns, in one run on one machine, and must
count the same; figures are medians of what is warm in the memory of the system. **zvf** is this project, what is
*slanted* is a limit: what the machine takes for the same bytes with nothing done to them. *times zvf* is how many
times as long as zvf it takes. What is written stays until the run ends: for minutes after many files were removed, file
systems without a journal are slower to make new ones.

*requests* and *bytes read*: of zvf what it asks the disk or server for; of others what the system counts of their
process, calls that read and bytes they gave, or what a server counts. What is mapped is not counted. *memory* is the
most that is held: of zvf by a process of its own that does the work once, program and input included; of others what
their process holds when it is ready, and what the work adds to that. *processors* is the time that all processors
worked for it, the mean of all turns, counted by the system in ticks of 10 ms. *on disk* is what the data takes there.
";

const HEAD: &str = "| work | counted | who | median | times zvf | processors | requests | bytes read | memory | on disk |
| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
";

const GROWTH: &str =
    "| work | who | elements | time | for each | memory | files | bytes | grows as |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
";

const BEHIND: &str = "## Where zvf is not far ahead

Work that misses what is wanted of it (`crates/bench/src/targets.rs`); where nothing is written down: in which zvf is
neither ten times as fast as the reference (where it is not there: as the fastest of the others) nor within twice the
limit. Growth with the data: what looks at all of it grows at most as n^1.1, what looks at as much however much there is
as n^0.3, where nothing else is written down. Where the time goes was sampled in this run, of the one of ours that misses
(of growth: with the most data).

| part | work | wanted | where the time goes |
| --- | --- | --- | --- |
";

const NOT_SAMPLED: &str = "not sampled: quick runs sample only rows that miss a figure";

const NOT_JUDGED: &str = "
### Not judged

Work of which it cannot be said whether it is where it is wanted: nothing is written down and nobody does the same, or whoever
it is compared with is not here.

| part | work | wanted | why |
| --- | --- | --- | --- |
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::ALL;

    #[test]
    fn the_exponent_is_that_of_a_power() {
        let mut page = Page::default();
        for elements in [1, 10, 100_u64] {
            let amount = Amount { elements, files: Some(7), bytes: Some(2048) };
            let cost = Cost { memory: Some(3 << 20), ..Cost::default() };
            let turn = Turn { cost, ..Turn::from_seconds(3e-3 * (elements as f64).powf(1.5)) };
            let side = Side { name: "zvf".into(), role: Role::Zvf, result: Ok(turn), stored: None };
            let limit = Side { role: Role::Limit, ..side.clone() };
            let (work, sides) = (format!("a box of {elements}"), vec![side, limit]);
            let row =
                Row { part: "ask", work, count: None, bars: Vec::new(), sides, profile: None };
            page.add_growth(&row, "a box", amount);
        }
        assert_eq!(page.series.len(), 1);
        assert!(page.series[0].is_ours);
        assert!((page.series[0].exponent() - 1.5).abs() < 1e-9);
        let lines: Vec<String> =
            page.format_tables(ALL).lines().skip(4).map(str::to_owned).collect();
        assert_eq!(
            lines,
            [
                "| a box | zvf | 1 | 3.00 ms | 3.00 ms | 3.0 MiB | 7 | 2.0 KiB |  |",
                "|  |  | 10 | 94.9 ms | 9.49 ms | 3.0 MiB | 7 | 2.0 KiB |  |",
                "|  |  | 100 | 3.00 s | 30.0 ms | 3.0 MiB | 7 | 2.0 KiB | n^1.50 |",
                "",
            ]
        );
    }

    #[test]
    fn results_of_one_amount_after_the_other_are_one_series() {
        let mut page = Page::default();
        for elements in [1, 10, 100_u64] {
            let mut alone = Page::default();
            let turn = Turn::from_seconds(1e-3 * elements as f64);
            let side = Side { name: "zvf".into(), role: Role::Zvf, result: Ok(turn), stored: None };
            let (work, sides, count) = ("a box".to_owned(), vec![side], Some(elements));
            let row = Row { part: "ask", work, count, bars: Vec::new(), sides, profile: None };
            alone.add_growth(&row, "a box", Amount { elements, ..Amount::default() });
            alone.add_row(row);
            let (results, name) = (alone.results_of("ask"), format!("ask-{elements}"));
            page.add_results("ask", &name, "an earlier commit", results);
        }
        assert_eq!((page.series.len(), page.series[0].steps.len()), (1, 3));
        assert_eq!((page.series[0].last_row, page.rows[2].count), (2, Some(100)));
        assert!(page.earlier_parts_line().contains("ask-10 of an earlier commit, ask-100 of"));
    }

    #[test]
    fn a_missed_figure_has_its_profile() {
        let side = |name: &str, role, seconds| Side {
            name: name.into(),
            role,
            result: Ok(Turn::from_seconds(seconds)),
            stored: None,
        };
        let sides = vec![side("zvf", Role::Zvf, 1.0), side("plain", Role::Limit, 0.1)];
        let profile = Some(Ok("the system 50 %".to_owned()));
        let (work, bars) = ("2000 objects".into(), vec![Bar::Seconds(0.5), Bar::Ahead(25.0)]);
        let row = Row { part: "ask", work, count: None, bars, sides, profile };
        let page = Page { rows: vec![row], ..Page::default() };
        let text = page.format_missed(None);
        assert_eq!(
            text.lines().last().unwrap(),
            "| ask | 2000 objects: 1.00 s, 10.00 times the limit | at most 500 ms; 25 times as fast | the system 50 % |"
        );
    }

    #[test]
    fn growth_that_is_missed_and_what_is_not_judged_are_listed() {
        let mut page = Page::default();
        for elements in [1_u64, 10] {
            let turn = Turn::from_seconds(1e-3 * (elements as f64).powf(1.5));
            let side =
                |name: &str, role, result| Side { name: name.into(), role, result, stored: None };
            let sides = vec![
                side("zvf", Role::Zvf, Ok(turn)),
                side("TRX", Role::Peer, Err("no | wheel".into())),
            ];
            let (work, bars) =
                (format!("all points, of {elements}"), vec![Bar::Times("", 3.0, "TRX")]);
            let profile = Some(Ok(format!("of {elements}")));
            let row = Row { part: "grow", work, count: None, bars, sides, profile };
            page.add_growth(&row, "all points", Amount { elements, ..Amount::default() });
            page.add_row(row);
        }
        let text = page.format_missed(None);
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("| grow")).collect();
        assert_eq!(
            lines,
            [
                "| grow | all points (zvf): n^1.50 | at most n^1.05 | of 10 |",
                "| grow | all points, of 1: 1.00 ms | at most 3 times TRX | TRX is not here: no   wheel |",
                "| grow | all points, of 10: 31.6 ms | at most 3 times TRX | TRX is not here: no   wheel |",
            ]
        );
        assert!(text.contains("### Not judged"));
    }

    #[test]
    fn a_row_is_a_line_for_each_contender() {
        let turn = |seconds| Ok(Turn::from_seconds(seconds).with_count(5));
        let side =
            |name: &str, role, result| Side { name: name.into(), role, result, stored: None };
        let sides = vec![
            Side { stored: Some(3 << 20), ..side("zvf", Role::Zvf, turn(0.001)) },
            side("theirs", Role::Reference, turn(0.05)),
            side("other", Role::Peer, Err("no wheel | here".into())),
            side("plain", Role::Limit, turn(0.0005)),
        ];
        let bars = vec![Bar::Ahead(40.0)];
        let (work, profile) = ("a box".into(), None);
        let row = Row { part: "ask", work, count: Some(5), bars, sides, profile };
        assert_eq!(format_line(&row), "a box: 1.00 ms, 50.0 times faster, 2.00 times the limit");
        let page = Page { rows: vec![row], ..Page::default() };
        let lines: Vec<String> =
            page.format_tables(ALL).lines().skip(4).take(4).map(str::to_owned).collect();
        assert_eq!(
            lines,
            [
                "| a box | 5 | **zvf** | 1.00 ms |  |  |  |  |  | 3.0 MiB |",
                "|  |  | theirs | 50.0 ms | 50.00 of 40 wanted |  |  |  |  |  |",
                "|  |  | other | not here: no wheel   here | | | | | |  |",
                "|  |  | *plain* | 500 µs | 0.50 |  |  |  |  |  |",
            ]
        );
    }
}
