//! `zvf inspect cells`.

use std::io::Write;

use clap::Args;
use zvf::Kind;
use zvf::format::key::ChunkKey;
use zvf::format::num::to_u64;
use zvf::inspect::{CellFragment, CellRow, CellView};

use crate::outcome::{CommandResult, Outcome, Usage};
use crate::session::Session;
use crate::table;

/// Decode one chunk of a level: its fragments, rows and attributes.
///
/// For debugging a writer. The command reports what it cannot read and then ends with exit code 1.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf inspect cells brain.zarrvectors 0.1.1
  zvf inspect cells brain.zarrvectors 0.0.0 --level 1 --limit 100
  zvf inspect cells --json brain.zarrvectors 0.1.1 | jq .fragments")]
pub(crate) struct Cells {
    /// The store: a folder or a URL.
    store: String,
    /// The key of the chunk: its numbers, with dots between them.
    #[arg(allow_hyphen_values = true)]
    chunk: String,
    /// The level.
    #[arg(long, default_value_t = 0)]
    level: u32,
    /// The kind of the cell, where the store holds several [default: the first].
    #[arg(long)]
    kind: Option<Kind>,
    /// How many rows to show; 0 shows all.
    #[arg(long = "limit", alias = "rows", default_value_t = 20, value_name = "N")]
    rows: u64,
}

impl Cells {
    pub(super) async fn run(self, session: &Session) -> CommandResult {
        let key = self.chunk.parse::<ChunkKey>().map_err(zvf::Error::from)?;
        let store = session.store(&self.store).await?;
        let levels = session.kinds(&store, self.level, self.kind).await?;
        let level = levels.first().ok_or_else(|| Usage::new("the level is empty"))?;
        let view =
            CellView::read(level, &key, if self.rows == 0 { u64::MAX } else { self.rows }).await?;
        session.print(&view, |out| print(&view, out))?;
        session.print_store_notices(&store)?;
        Ok(if view.faults.is_empty() { Outcome::Clean } else { Outcome::Findings })
    }
}

fn print(view: &CellView, out: &mut dyn Write) -> anyhow::Result<()> {
    let (rows, fragments) = (view.rows, to_u64(view.fragments.len()));
    let rows = table::format_count(rows, "row");
    let fragments = table::format_count(fragments, "fragment");
    writeln!(out, "chunk {}: {rows}, {fragments}", view.chunk)?;
    if let Some([low, high]) = &view.bounds {
        writeln!(out, "  box         {} to {}", table::floats(low), table::floats(high))?;
    }
    let tiles = if view.tiles {
        "they partition the rows in order"
    } else {
        "they do not partition the rows in order"
    };
    let others = table::format_count(view.unreferenced, "row");
    writeln!(out, "  fragments   {tiles}; {others} in none")?;
    for fragment in view.fragments.iter().take(SHOWN) {
        writeln!(out, "    {}", words(fragment))?;
    }
    let more = view.fragments.len().saturating_sub(SHOWN);
    if more > 0 {
        writeln!(out, "    and {more} more")?;
    }
    for links in &view.links {
        let records = table::format_count(links.records, "record");
        writeln!(out, "  links in {}: {records}", links.array)?;
        for record in links.first.iter().take(SHOWN_LINKS) {
            writeln!(out, "    {}", format_ends(record, &view.chunk))?;
        }
        if links.records > to_u64(SHOWN_LINKS) {
            writeln!(out, "    …")?;
        }
    }
    if let Some(first) = view.vertices.first() {
        writeln!(out)?;
        let names = first.attributes.keys().map(String::as_str);
        let names = ["row", "position"].into_iter().chain(names);
        table::print(out, "  ", names, view.vertices.iter().map(cells))?;
    }
    let more = view.rows - to_u64(view.vertices.len());
    if more > 0 {
        writeln!(out, "  and {}: see --limit", table::format_count(more, "more row"))?;
    }
    for fault in &view.faults {
        writeln!(out, "fault: {fault}")?;
    }
    Ok(())
}

fn words(fragment: &CellFragment) -> String {
    match (fragment.range, &fragment.listed) {
        (Some([start, end]), _) => format!("{}: rows {start}..{end}", fragment.fragment),
        (None, listed) => {
            let listed = listed.as_deref().unwrap_or_default();
            let more = to_u64(listed.len()) < fragment.rows;
            let more = if more { ", …" } else { "" };
            let rows: Vec<String> = listed.iter().map(u64::to_string).collect();
            let count = table::format_count(fragment.rows, "row");
            format!("{}: {count}: {}{more}", fragment.fragment, rows.join(", "))
        }
    }
}

/// Formats the ends of a record; rows of the chunk itself are written without its name.
fn format_ends(ends: &[(String, u64)], own_chunk: &str) -> String {
    let end = |(chunk, row): &(String, u64)| match chunk == own_chunk {
        true => row.to_string(),
        false => format!("{row} of {chunk}"),
    };
    ends.iter().map(end).collect::<Vec<_>>().join(" - ")
}

fn cells(row: &CellRow) -> Vec<String> {
    let first = [row.row.to_string(), table::vector(&row.position)];
    first.into_iter().chain(row.attributes.values().map(table::format_value)).collect()
}

/// The number of link records of each array that the text output lists.
const SHOWN_LINKS: usize = 4;
/// The number of fragments that the text output lists.
const SHOWN: usize = 40;
