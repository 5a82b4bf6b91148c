//! `zvf inspect blobs show` and `zvf inspect blobs validate`.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use zvf::blob::{BlobKind, BlobReport, BlobSettings};
use zvf::format::vlen::VlenCell;

use crate::outcome::{CommandResult, Outcome, Usage};
use crate::session::Session;
use crate::table;

/// Show or check a single blob file: a fragment index, a manifest, a shard, a .tet file, …
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Blobs {
    /// Show what a blob holds.
    Show(Show),
    /// Check a blob against the format; the exit code is 1 if it has faults.
    #[command(name = "validate", alias = "check")]
    Check(Check),
}

/// `show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    #[command(flatten)]
    what: What,
    /// How many items to list; 0 lists all.
    #[arg(long = "limit", alias = "items", default_value_t = 20, value_name = "N")]
    items: u64,
}

/// `validate`.
#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    what: What,
    /// Also refuse blobs that are readable but not canonical.
    #[arg(long)]
    strict: bool,
}

/// Which blob is read, and the facts that its bytes do not hold.
#[derive(Debug, Args)]
struct What {
    /// The file.
    file: PathBuf,
    /// What it is: fragment_index, manifest, ragged, link_cell, vlen, shard_index, tet, tidx, caterva or
    /// blosc. Kinds with a magic number are recognised.
    #[arg(long, short, value_name = "KIND")]
    kind: Option<String>,
    /// The file is a stored chunk: take the blob out of its vlen frame first.
    #[arg(long)]
    framed: bool,
    /// Axes of chunk keys (manifest).
    #[arg(long, value_name = "N")]
    axes: Option<u64>,
    /// Rows of the chunk (fragment_index), or items (vlen).
    #[arg(long, value_name = "N")]
    rows: Option<u64>,
    /// The type of a number, int8 to uint64 (ragged, link_cell).
    #[arg(long, value_name = "TYPE")]
    item: Option<String>,
    /// Numbers of a row (ragged).
    #[arg(long, default_value_t = 1, value_name = "N")]
    columns: u32,
    /// Vertices of a record (link_cell).
    #[arg(long, default_value_t = 2, value_name = "N")]
    width: usize,
    /// Records end with a permutation code (link_cell).
    #[arg(long)]
    perm: bool,
    /// Records are in groups found by offsets (link_cell).
    #[arg(long)]
    inline: bool,
    /// Cells of the shard (shard_index).
    #[arg(long, value_name = "N")]
    cells: Option<u64>,
    /// The index has no checksum (shard_index).
    #[arg(long)]
    no_checksum: bool,
    /// The index comes first (shard_index).
    #[arg(long)]
    index_at_start: bool,
    /// The end of the payloads in the file that the index belongs to (tidx).
    #[arg(long, default_value_t = u64::MAX, hide_default_value = true, value_name = "BYTE")]
    payload_end: u64,
}

impl Blobs {
    pub(super) fn run(self, session: &Session) -> CommandResult {
        let (report, strict, show) = match self {
            Self::Show(Show { what, items }) => (what.report(table::limit(items))?, false, true),
            Self::Check(Check { what, strict }) => (what.report(0)?, strict, false),
        };
        session.print(&report, |out| print(&report, strict, show, out))?;
        Ok(if report.is_sound(strict) { Outcome::Clean } else { Outcome::Findings })
    }
}

impl What {
    fn report(self, most_items: usize) -> anyhow::Result<BlobReport> {
        let bytes =
            fs::read(&self.file).with_context(|| format!("cannot read {}", self.file.display()))?;
        let blob = match self.framed {
            true => VlenCell::parse(&bytes).map_err(zvf::Error::from)?.payload(),
            false => &bytes,
        };
        let kind = match &self.kind {
            Some(kind) => kind.replace('-', "_").parse()?,
            None => BlobKind::guess(blob).ok_or_else(|| {
                let kinds: Vec<&str> = BlobKind::ALL.iter().map(|kind| kind.name()).collect();
                let kinds = kinds.join(", ");
                Usage::new(format!(
                    "the kind cannot be told from the first bytes; give --kind, one of {kinds}, or \
                     --framed for a stored chunk"
                ))
            })?,
        };
        let settings = BlobSettings {
            axes: self.axes,
            rows: self.rows,
            item: self.item,
            columns: self.columns,
            width: self.width,
            perm: self.perm,
            inline: self.inline,
            cells: self.cells,
            checksum: !self.no_checksum,
            index_at_start: self.index_at_start,
            payload_end: self.payload_end,
            most_items,
        };
        Ok(settings.report(kind, blob)?)
    }
}

fn print(report: &BlobReport, strict: bool, show: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "{}, {}", report.kind, table::bytes(report.bytes))?;
    if show {
        for (name, value) in &report.facts {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            writeln!(out, "  {name:<16}{value}")?;
        }
        for item in &report.items {
            writeln!(out, "    {item}")?;
        }
        if !report.items.is_empty() {
            table::print_rest(out, "    ", report.more_items)?;
        }
    }
    for finding in &report.findings {
        let word = if finding.strict_only && !strict { "lint" } else { "fault" };
        writeln!(out, "{word}: {}", finding.text)?;
    }
    if report.findings.is_empty() {
        writeln!(out, "no faults")?;
    }
    Ok(())
}

const EXAMPLES: &str = "Examples:
  zvf inspect blobs show store.tet
  zvf inspect blobs show --framed brain.zarrvectors/0/vertex_fragments/c/0/0/0
  zvf inspect blobs validate --strict --framed brain.zarrvectors/0/vertex_fragments/c/0/0/0 --rows 3207
  zvf inspect blobs validate --kind shard_index --cells 512 sharded.zarrvectors/0/vertices/c/0/0/0
  zvf inspect blobs show --kind link_cell --framed --item int64 --width 2 neurons.zarrvectors/0/links/0/0.0.0/c/0/0/0";
