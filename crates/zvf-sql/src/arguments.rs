//! The command line.

use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum};
use zvf::OpenOptions;

/// Ask Zarr Vectors stores in SQL, together with Parquet, CSV, JSON and Arrow files.
///
/// A store is a table by its path in quotes (its vertices), by zvf('PATH', 'TABLE', LEVEL, 'KIND'), or by --table. Tables
/// of a store are vertices, objects, groups, members, links and levels.
#[derive(Debug, Parser)]
#[command(name = "zvf-sql", version, max_term_width = 100, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The statement; several are separated by semicolons. Without it, a prompt on a terminal, else standard input.
    pub(crate) statement: Option<String>,
    /// A store or file under a name; may be repeated. Tables of a store are NAME (its vertices) and NAME.objects,
    /// NAME.groups and so on.
    #[arg(
        long = "table",
        value_name = "NAME=PATH",
        value_parser = |text: &str| parse_pair(text, "NAME=PATH"),
    )]
    pub(crate) tables: Vec<(String, String)>,
    /// The format [default: by the extension of the file; a table on standard output, or jsonl with --json].
    #[arg(long, value_enum, help_heading = "Output")]
    pub(crate) format: Option<Format>,
    /// Write to this file, atomically; - is standard output.
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,
    /// Replace an output file that exists.
    #[arg(long, help_heading = "Output")]
    pub(crate) overwrite: bool,
    /// Rows of an answer that is shown as a table; 0 shows all.
    #[arg(long, value_name = "N", default_value_t = 1000, help_heading = "Output")]
    pub(crate) limit: usize,
    /// Run the statement and print its plan, with what was read and left out.
    #[arg(long)]
    pub(crate) explain: bool,
    /// Let a cluster answer, by its scheduler (zvf-cluster); stores must be reachable from there by the same path or URL.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) cluster: Option<String>,
    /// Print JSON instead of text; errors are lines of JSON on standard error.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print errors only: no notes on standard error.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Backend option, by its object_store name; may be repeated. Goes before the environment.
    #[arg(
        long = "storage-option",
        value_name = "KEY=VALUE",
        value_parser = |text: &str| parse_pair(text, "KEY=VALUE"),
    )]
    storage: Vec<(String, String)>,
    /// Memory limit in bytes, such as 512MiB or 2GB: of sorting, joining and grouping together, and of reading stores.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) memory_limit: Option<u64>,
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns for people.
    Table,
    /// Comma-separated values with a header.
    Csv,
    /// One array of objects.
    Json,
    /// An object on each line.
    Jsonl,
    /// An Arrow file, or a stream on standard output.
    Arrow,
    /// A Parquet file.
    Parquet,
}

impl Format {
    fn from_extension(path: &Path) -> Option<Self> {
        Some(match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "csv" => Self::Csv,
            "json" => Self::Json,
            "jsonl" | "ndjson" => Self::Jsonl,
            "arrow" | "feather" | "ipc" => Self::Arrow,
            "parquet" => Self::Parquet,
            "txt" => Self::Table,
            _ => return None,
        })
    }
}

impl Arguments {
    /// Returns the output file; `None` for standard output.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.output.as_deref().filter(|path| *path != Path::new("-"))
    }

    /// Returns the format of the answer; `None` if the extension of the file is unknown.
    pub(crate) fn chosen_format(&self) -> Option<Format> {
        let standard = if self.json { Format::Jsonl } else { Format::Table };
        self.format.or_else(|| self.file().map_or(Some(standard), Format::from_extension))
    }

    /// Returns the options for opening stores.
    pub(crate) fn open_options(&self) -> OpenOptions {
        let defaults = OpenOptions::default();
        let budget_bytes = self.memory_limit.map_or(defaults.budget_bytes, |limit| limit / 2);
        OpenOptions {
            budget_bytes,
            cache_bytes: defaults.cache_bytes.min(budget_bytes / 4),
            storage_options: self.storage.clone(),
            #[cfg(feature = "icechunk")]
            versions: Some(zvf_icechunk::hook()),
            ..defaults
        }
    }
}

/// Parses `A=B` with neither part empty.
fn parse_pair(text: &str, expected: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("expected {expected}"))?;
    if name.is_empty() || value.is_empty() {
        return Err(format!("expected {expected}"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// Parses a size in bytes with an optional unit; at least 16 MiB.
fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "B" => 1,
        "KB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        other => return Err(format!("expected KiB, MiB, GiB, KB, MB or GB, found {other:?}")),
    };
    let number: u64 = digits.parse().map_err(|_error| "expected a number".to_owned())?;
    match number.checked_mul(unit) {
        None => Err("expected less than 2^64 bytes".to_owned()),
        Some(..MIN_BYTES) => Err("expected at least 16MiB".to_owned()),
        Some(bytes) => Ok(bytes),
    }
}

/// The smallest memory limit.
const MIN_BYTES: u64 = 16 << 20;

const EXAMPLES: &str = "Exit codes: 0 success, 2 invalid request, 3 corrupt data, 4 not found or already there, 5 \
transient I/O, 130 interrupted";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_sizes_with_units() {
        assert_eq!(parse_size("512MiB"), Ok(512 << 20));
        assert_eq!(parse_size("2GB"), Ok(2_000_000_000));
        for (invalid, message) in [
            ("", "expected a number"),
            ("1", "expected at least 16MiB"),
            ("4XB", "expected KiB, MiB, GiB, KB, MB or GB, found \"XB\""),
            ("MiB", "expected a number"),
            ("99999999999GiB", "expected less than 2^64 bytes"),
        ] {
            assert_eq!(parse_size(invalid).unwrap_err(), message, "{invalid}");
        }
    }

    #[test]
    fn chooses_the_format_by_extension() {
        let parse = |args: &[&str]| {
            Arguments::try_parse_from([&["zvf-sql"][..], args].concat()).unwrap().chosen_format()
        };
        assert_eq!(parse(&["SELECT 1"]), Some(Format::Table));
        assert_eq!(parse(&["SELECT 1", "--json"]), Some(Format::Jsonl));
        assert_eq!(parse(&["SELECT 1", "-o", "a.parquet"]), Some(Format::Parquet));
        assert_eq!(parse(&["SELECT 1", "-o", "a.bin"]), None);
        assert_eq!(parse(&["SELECT 1", "-o", "-", "--format", "csv"]), Some(Format::Csv));
    }
}
