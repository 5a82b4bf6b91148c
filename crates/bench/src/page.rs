//! What was measured, as a page: a table for each part, and the machine it was measured on.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::contest::{Cost, Role, Row, Side, Turn};
use crate::parts::{self, Part};
use crate::plot;

/// Rows and series as they come.
#[derive(Debug, Default)]
pub(crate) struct Page {
    rows: Vec<Row>,
    series: Vec<Series>,
}

/// The same work on more and more data, by one contender.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) part: &'static str,
    pub(crate) work: String,
    pub(crate) who: String,
    /// How much there was, and the seconds it took.
    pub(crate) points: Vec<(f64, f64)>,
}

impl Series {
    /// By which power of the amount the time grows: the slope of the straight line through the
    /// logarithms.
    pub(crate) fn exponent(&self) -> f64 {
        let logs: Vec<(f64, f64)> = self.points.iter().map(|(n, t)| (n.ln(), t.ln())).collect();
        let count = logs.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| logs.iter().map(of).sum::<f64>() / count;
        let (x, y) = (mean(|point| point.0), mean(|point| point.1));
        let both: f64 = logs.iter().map(|(a, b)| (a - x) * (b - y)).sum();
        both / logs.iter().map(|(a, _)| (a - x).powi(2)).sum::<f64>()
    }
}

impl Page {
    /// Adds a row, and says so.
    pub(crate) fn row(&mut self, row: Row) {
        eprintln!("{}", line(&row));
        self.rows.push(row);
    }

    /// Adds a series, and says so.
    pub(crate) fn series(&mut self, series: Series) {
        eprintln!("{} ({}): n^{:.2}", series.work, series.who, series.exponent());
        self.series.push(series);
    }

    /// Writes it as a file, its plots in a folder of the same name beside it.
    pub(crate) fn write(&self, file: &Path, how: &str) -> anyhow::Result<()> {
        let plots = file.with_extension("");
        fs::create_dir_all(&plots)?;
        let mut text = format!("{TITLE}\n{how}\n{}\n", machine());
        for part in parts::ALL {
            let tables = self.tables_of(part);
            text.push_str(&tables);
            let rows: Vec<&Row> = self.rows.iter().filter(|row| row.part == part.name).collect();
            let series: Vec<&Series> =
                self.series.iter().filter(|one| one.part == part.name).collect();
            for (end, svg) in [("", plot::bars(&rows)), ("-growth", plot::lines(&series))] {
                if let Some(svg) = svg.filter(|_| !tables.is_empty()) {
                    let name = format!("{}{end}.svg", part.name);
                    fs::write(plots.join(&name), svg)?;
                    let folder = plots.file_name().unwrap_or_default().to_string_lossy();
                    let _ = writeln!(text, "![{}]({folder}/{name})\n", part.title);
                }
            }
        }
        Ok(fs::write(file, text)?)
    }

    /// The tables, as Markdown.
    pub(crate) fn tables(&self) -> String {
        parts::ALL.iter().map(|part| self.tables_of(part)).collect()
    }

    fn tables_of(&self, part: &Part) -> String {
        let mut text = String::new();
        let mut rows = self.rows.iter().filter(|row| row.part == part.name).peekable();
        let mut series = self.series.iter().filter(|one| one.part == part.name).peekable();
        if rows.peek().is_none() && series.peek().is_none() {
            return text;
        }
        let _ = writeln!(text, "## {}\n", part.title);
        if rows.peek().is_some() {
            text.push_str(HEAD);
            rows.for_each(|row| table(row, &mut text));
            text.push('\n');
        }
        if series.peek().is_some() {
            growth(series, &mut text);
        }
        text
    }
}

/// The commit and the machine, as far as they can be known.
fn machine() -> String {
    let git = |words: &[&str]| {
        let output = Command::new("git").args(words).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_default();
    let changed = git(&["status", "--porcelain"]).is_some_and(|lines| !lines.is_empty());
    let changed = if changed { " with changes" } else { "" };
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
        "* commit: {commit}{changed}\n* machine: {cores} cores of {processor}, {memory} of memory, \
         {system}\n"
    )
}

/// One line of a row, for who waits.
fn line(row: &Row) -> String {
    let ours = row.seconds(Role::Zvf).unwrap_or(f64::NAN);
    let ratio =
        row.seconds(Role::Reference).map(|theirs| format!(", {:.1} times faster", theirs / ours));
    let limit =
        row.seconds(Role::Limit).map(|limit| format!(", {:.2} times the limit", ours / limit));
    format!(
        "{}: {}{}{}",
        row.work,
        time(ours),
        ratio.unwrap_or_default(),
        limit.unwrap_or_default()
    )
}

fn table(row: &Row, text: &mut String) {
    let ours = row.seconds(Role::Zvf).unwrap_or(f64::NAN);
    for (at, side) in row.sides.iter().enumerate() {
        let (work, count) = match at {
            0 => (row.work.as_str(), row.count.map(|count| count.to_string()).unwrap_or_default()),
            _ => ("", String::new()),
        };
        let (name, figures) = (name(side), figures(side, ours, row.wanted));
        let _ = writeln!(text, "| {work} | {count} | {name} | {figures} |");
    }
}

fn name(side: &Side) -> String {
    match side.role {
        Role::Zvf | Role::Variant => format!("**{}**", side.name),
        Role::Limit => format!("*{}*", side.name),
        Role::Reference | Role::Peer => side.name.clone(),
    }
}

fn figures(side: &Side, ours: f64, wanted: Option<f64>) -> String {
    match &side.result {
        Err(why) => format!("not here: {} | | | | ", why.replace(['|', '\n'], " ")),
        Ok(Turn { seconds, cost: Cost { requests, bytes, memory }, .. }) => {
            let ratio = match side.role {
                Role::Zvf => String::new(),
                Role::Reference => match wanted {
                    Some(wanted) => format!("{:.2} of {wanted} wanted", seconds / ours),
                    None => format!("{:.2}", seconds / ours),
                },
                _ => format!("{:.2}", seconds / ours),
            };
            let number = |n: &Option<u64>| n.map(|n| n.to_string()).unwrap_or_default();
            let size = |n: &Option<u64>| n.map(size).unwrap_or_default();
            format!(
                "{} | {ratio} | {} | {} | {}",
                time(*seconds),
                number(requests),
                size(bytes),
                size(memory)
            )
        }
    }
}

fn growth<'a>(series: impl Iterator<Item = &'a Series>, text: &mut String) {
    text.push_str("| work | who | amount: time | grows as |\n| --- | --- | --- | ---: |\n");
    for one in series {
        let steps: Vec<String> =
            one.points.iter().map(|(n, seconds)| format!("{n}: {}", time(*seconds))).collect();
        let exponent = one.exponent();
        let _ = writeln!(
            text,
            "| {} | {} | {} | n^{exponent:.2} |",
            one.work,
            one.who,
            steps.join(", ")
        );
    }
    text.push('\n');
}

/// A time with three digits, in the unit that suits it.
pub(crate) fn time(seconds: f64) -> String {
    let units = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")];
    let (unit, name) = units.into_iter().find(|(unit, _)| seconds >= *unit).unwrap_or((1e-9, "ns"));
    let value = seconds / unit;
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {name}")
}

/// Bytes, in the unit that suits them.
fn size(bytes: u64) -> String {
    let units = [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} B"),
    }
}

const TITLE: &str = "# Benchmarks

Made by `cargo xtask bench`; not written by hand. Everybody does the same work in turns, in one run on one machine,
and must count the same; figures are medians. **zvf** is this project, what is *slanted* is a limit: what the machine
takes for the same bytes with nothing done to them. *times zvf* is how many times as long as zvf it takes.
";

const HEAD: &str = "| work | counted | who | median | times zvf | requests | bytes read | memory |
| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_in_their_units() {
        for (seconds, text) in [
            (2.5, "2.50 s"),
            (0.0123, "12.3 ms"),
            (0.5, "500 ms"),
            (4.2e-5, "42.0 µs"),
            (5e-9, "5.00 ns"),
        ] {
            assert_eq!(time(seconds), text);
        }
        assert_eq!([size(12), size(2048), size(3 << 20)], ["12 B", "2.0 KiB", "3.0 MiB"]);
    }

    #[test]
    fn the_exponent_is_that_of_a_power() {
        let points = [1.0, 10.0, 100.0].map(|n: f64| (n, 3.0 * n.powf(1.5))).to_vec();
        let (work, who) = ("a box".to_owned(), "zvf".to_owned());
        let series = Series { part: "ask", work, who, points };
        assert!((series.exponent() - 1.5).abs() < 1e-9);
    }

    #[test]
    fn a_row_is_a_line_for_each_contender() {
        let turn = |seconds| Ok(Turn::of(seconds).counting(5));
        let side = |name: &str, role, result| Side { name: name.into(), role, result };
        let sides = vec![
            side("zvf", Role::Zvf, turn(0.001)),
            side("theirs", Role::Reference, turn(0.05)),
            side("other", Role::Peer, Err("no wheel | here".into())),
            side("plain", Role::Limit, turn(0.0005)),
        ];
        let row =
            Row { part: "ask", work: "a box".into(), count: Some(5), wanted: Some(40.0), sides };
        assert_eq!(line(&row), "a box: 1.00 ms, 50.0 times faster, 2.00 times the limit");
        let page = Page { rows: vec![row], series: Vec::new() };
        let lines: Vec<String> = page.tables().lines().skip(4).take(4).map(str::to_owned).collect();
        assert_eq!(
            lines,
            [
                "| a box | 5 | **zvf** | 1.00 ms |  |  |  |  |",
                "|  |  | theirs | 50.0 ms | 50.00 of 40 wanted |  |  |  |",
                "|  |  | other | not here: no wheel   here | | | |  |",
                "|  |  | *plain* | 500 µs | 0.50 |  |  |  |",
            ]
        );
    }
}
