//! Text output: aligned columns and readable numbers.

use std::io::{self, IsTerminal as _, Write};

use zvf::format::num::saturating_usize;
use zvf::round_digits;
pub(crate) use zvf::{format_count, group_digits as count};

/// Prints rows of cells under their titles, every line after `indent`; each column is as wide as its widest cell.
/// Columns whose title starts with `>` are of numbers.
pub(crate) fn print<'a>(
    out: &mut dyn Write,
    indent: &str,
    titles: impl IntoIterator<Item = &'a str>,
    rows: impl IntoIterator<Item = Vec<String>>,
) -> io::Result<()> {
    let titles: Vec<&str> = titles.into_iter().collect();
    let first = titles.iter().map(|title| title.trim_start_matches('>').to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(first).chain(rows).collect();
    let width = |at: usize| {
        rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..titles.len()).map(|at| width(at).unwrap_or(0)).collect();
    for row in &rows {
        let mut line = indent.to_owned();
        for ((cell, width), title) in row.iter().zip(&widths).zip(&titles) {
            line.push_str(&match title.starts_with('>') {
                true => format!("{cell:>width$}  "),
                false => format!("{cell:<width$}  "),
            });
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Writes how many further items exist, where they do and `--limit` leaves them out.
pub(crate) fn print_rest(out: &mut dyn Write, indent: &str, more: u64) -> io::Result<()> {
    match more {
        0 => Ok(()),
        more => writeln!(out, "{indent}and {} more: see --limit", count(more)),
    }
}

/// Formats counts of things, with commas between them.
pub(crate) fn counts<'a>(counts: impl IntoIterator<Item = (u64, &'a str)>) -> String {
    let counts = counts.into_iter().map(|(n, thing)| format_count(n, thing));
    counts.collect::<Vec<_>>().join(", ")
}

/// Formats a count, or a dash where it is unknown.
pub(crate) fn format_optional(n: Option<u64>) -> String {
    n.map_or_else(|| "-".to_owned(), count)
}

/// Formats bytes in the unit that leaves at most four digits.
pub(crate) fn bytes(n: u64) -> String {
    let mut unit = 0_usize;
    let (mut units, mut rest) = (n, 0);
    while units >= 10_000 && unit + 1 < BYTE_UNITS.len() {
        rest = units % 1024;
        units /= 1024;
        unit += 1;
    }
    let name = BYTE_UNITS.get(unit).copied().unwrap_or("B");
    let tenths = rest * 10 / 1024; // the rest is below 1024
    if unit > 0 && units < 100 {
        format!("{units}.{tenths} {name}")
    } else {
        format!("{} {name}", count(units))
    }
}

/// Formats numbers in brackets.
pub(crate) fn vector<T: std::fmt::Display>(numbers: impl IntoIterator<Item = T>) -> String {
    let numbers: Vec<String> = numbers.into_iter().map(|n| n.to_string()).collect();
    format!("[{}]", numbers.join(", "))
}

/// Formats a value.
pub(crate) fn format_value(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Array(values) => vector(values),
        serde_json::Value::Null => "-".to_owned(),
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Bool(_)
        | serde_json::Value::Number(_)
        | serde_json::Value::Object(_) => value.to_string(),
    }
}

/// Prints JSON on standard output: indented on a terminal, otherwise on one line.
pub(crate) fn json(value: &impl serde::Serialize, out: &mut dyn Write) -> anyhow::Result<()> {
    match io::stdout().is_terminal() {
        true => serde_json::to_writer_pretty(&mut *out, value),
        false => serde_json::to_writer(&mut *out, value),
    }
    .map_err(io::Error::from)?;
    Ok(writeln!(out)?)
}

/// Returns the JSON of a result after that of the place it is about.
pub(crate) fn place_json(
    key: &str,
    place: &str,
    result: &impl serde::Serialize,
) -> anyhow::Result<serde_json::Map<String, serde_json::Value>> {
    let mut all = serde_json::Map::new();
    all.insert(key.to_owned(), place.into());
    if let serde_json::Value::Object(fields) = serde_json::to_value(result)? {
        all.extend(fields);
    }
    Ok(all)
}

/// Returns the number of items that a limit allows, where 0 stands for all.
pub(crate) fn limit(n: u64) -> usize {
    // A limit above `usize` allows all items.
    if n == 0 { usize::MAX } else { saturating_usize(n) }
}

/// Formats a number with at most nine digits, and an exponent instead of many zeros.
pub(crate) fn number(x: f64) -> String {
    format!("{:?}", round_digits(x, 9)).trim_end_matches(".0").to_owned()
}

/// Formats floats in brackets.
pub(crate) fn floats<'a>(numbers: impl IntoIterator<Item = &'a f64>) -> String {
    vector(numbers.into_iter().map(|x| number(*x)))
}

const BYTE_UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_numbers() {
        for (n, text) in [
            (0, "0 B"),
            (9999, "9,999 B"),
            (10_000, "9.7 KiB"),
            (1 << 20, "1,024 KiB"),
            (20 << 20, "20.0 MiB"),
        ] {
            assert_eq!(bytes(n), text);
        }
        assert_eq!(vector([1, -2]), "[1, -2]");
        assert_eq!(floats(&[1.5, -2.0]), "[1.5, -2]");
        for (x, text) in [
            (1e308, "1e308"),
            (-1e300, "-1e300"),
            (5e-324, "5e-324"),
            (0.1, "0.1"),
            (9.570789337158203, "9.57078934"),
            (1e15, "1000000000000000"),
            (f64::INFINITY, "inf"),
            (-0.0, "-0"),
        ] {
            assert_eq!(number(x), text);
        }
        assert_eq!((limit(0), limit(7)), (usize::MAX, 7));
    }

    #[test]
    fn aligns_columns() {
        let mut text = Vec::new();
        let rows = [["a", "10"], ["long", "7"]].map(|row| row.map(str::to_owned).to_vec());
        print(&mut text, "  ", ["name", ">n"], rows).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), "  name   n\n  a     10\n  long   7\n");
    }
}
