//! `zvf inspect lineage`.

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;
use serde_json::json;
use zvf::format::Class;
use zvf::format::key::ChunkKey;
use zvf::format::num::{checked_usize, to_u64, usize_from_u32};
use zvf::model::{Kind, LevelLink, VertexRow};
use zvf::store::Caching;
use zvf::{Column, Error, LevelId, LevelReader, ObjectId, Reader};

use crate::outcome::{CommandResult, refuse};
use crate::session::Session;
use crate::table;

/// Show which vertices of one level correspond to which of another.
///
/// Towards a coarser level these are the parents of a vertex, towards a finer one its children. A store has such links
/// when its levels were built with them: see "zvf pyramid --cross-level-storage".
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf inspect lineage roads.zarrvectors --to 1 --vertex 0.1.0/7
  zvf inspect lineage roads.zarrvectors --from 2 --to 0 --vertex 0.0.0/4
  zvf inspect lineage --json tracts.zarrvectors --to 2 --object 7 --limit 1000")]
pub(crate) struct Lineage {
    /// The store: a folder or a URL.
    store: String,
    /// The level of the given vertices.
    #[arg(long, default_value_t = 0, value_name = "LEVEL")]
    from: u32,
    /// The level of the vertices that correspond to them.
    #[arg(long, value_name = "LEVEL")]
    to: u32,
    /// Vertices: chunk and row.
    #[arg(long = "vertex", value_name = "CHUNK/ROW", value_parser = vertex, allow_hyphen_values = true)]
    vertices: Vec<VertexRow>,
    /// All vertices of an object.
    #[arg(long = "object", value_name = "ID", allow_hyphen_values = true)]
    objects: Vec<i64>,
    /// The kind of the vertices, where the store holds several [default: that of the objects, else the first].
    #[arg(long)]
    kind: Option<Kind>,
    /// How many links to show; 0 shows all.
    #[arg(long, default_value_t = 20, value_name = "N")]
    limit: u64,
}

impl Lineage {
    pub(super) async fn run(self, session: &Session) -> CommandResult {
        if self.vertices.is_empty() && self.objects.is_empty() {
            return refuse(
                "no vertex or object is given; give some, as in --vertex 0.3/17 or --object 7",
            );
        }
        let reader = session.reader(&self.store).await?;
        let (from, to) = (LevelId(self.from), LevelId(self.to));
        let kind = self.kind(&reader, from).await?;
        let mut rows = self.vertices.clone();
        for id in &self.objects {
            rows.extend(reader.object_rows(from, ObjectId(*id)).await?);
        }
        let from_level = level(&reader, kind, from).await?;
        for at in &self.vertices {
            check_row(&from_level, at).await?;
        }
        let links = reader.find_related_of_kind(kind, from, to, &rows).await?;
        let Some(links) = links else {
            return refuse(format!(
                "the store has no links from level {from} to level {to}; \
                 see \"zvf pyramid --cross-level-storage\""
            ));
        };
        let shown = links.get(..table::limit(self.limit)).unwrap_or(&links);
        let to_level = level(&reader, kind, to).await?;
        let mut linked_ends = Vec::with_capacity(shown.len());
        for LevelLink { row, linked_row } in shown {
            let (from, to) = (end(&from_level, row).await?, end(&to_level, linked_row).await?);
            linked_ends.push(LinkedEnds { from, to });
        }
        let all = json!({
            "from": self.from, "to": self.to, "links": linked_ends, "all": links.len(),
        });
        session.print(&all, |out| {
            let (from, to) = (format!("level {from}"), format!("level {to}"));
            let titles = [from.as_str(), ">row", "position", to.as_str(), ">row", "position"];
            let rows = linked_ends.iter().map(|ends| [ends.from.cells(), ends.to.cells()].concat());
            table::print(out, "", titles, rows)?;
            Ok(table::print_rest(out, "", to_u64(links.len() - shown.len()))?)
        })
    }

    /// Returns the kind; the objects determine it where it is not given.
    async fn kind(&self, reader: &Reader, level: LevelId) -> anyhow::Result<Option<Kind>> {
        let mut kind = self.kind;
        for id in &self.objects {
            let object_kind = reader.find_kind(level, ObjectId(*id)).await?;
            if let (Some(object_kind), Some(kind)) = (object_kind, kind)
                && object_kind != kind
            {
                return refuse(format!(
                    "object {id} is a {object_kind}, not a {kind}; give objects of one kind"
                ));
            }
            kind = kind.or(object_kind);
        }
        Ok(kind)
    }
}

async fn level(
    reader: &Reader,
    kind: Option<Kind>,
    number: LevelId,
) -> anyhow::Result<LevelReader> {
    Ok(match kind {
        Some(kind) => reader.level_of_kind(number, kind).await?,
        None => reader.level(number).await?,
    })
}

/// Reads the positions of the chunk of a row.
async fn positions(level: &LevelReader, at: &VertexRow) -> anyhow::Result<Column> {
    let column = level.positions(&[at.chunk], Caching::Keep).await.pop();
    Ok(column.context("a chunk without an answer")??)
}

/// Refuses a row that its chunk does not have.
async fn check_row(level: &LevelReader, at: &VertexRow) -> anyhow::Result<()> {
    let rows = to_u64(positions(level, at).await?.len());
    if at.row < rows {
        return Ok(());
    }
    let rows = table::format_count(rows, "row");
    refuse(format!("chunk {} has no row {}; it has {rows}, from 0", at.chunk, at.row))
}

/// Both ends of a link.
#[derive(Serialize)]
struct LinkedEnds {
    from: End,
    to: End,
}

#[derive(Serialize)]
struct End {
    chunk: String,
    row: u64,
    position: Vec<f64>,
}

async fn end(level: &LevelReader, at: &VertexRow) -> anyhow::Result<End> {
    let column = positions(level, at).await?;
    let axes = 0..usize_from_u32(column.width());
    let position = checked_usize(at.row)
        .and_then(|row| axes.map(|axis| column.float(row, axis)).collect::<Option<Vec<f64>>>());
    let position = position.ok_or_else(|| {
        Error::new(Class::OutOfBounds, "row that a link names", "a row of the chunk", at.row)
            .at_chunk(&at.chunk)
    });
    Ok(End { chunk: at.chunk.to_string(), row: at.row, position: position? })
}

impl End {
    fn cells(&self) -> [String; 3] {
        [self.chunk.clone(), self.row.to_string(), table::vector(&self.position)]
    }
}

fn vertex(text: &str) -> Result<VertexRow, String> {
    let expected = || "expected CHUNK/ROW, such as 0.3/17".to_owned();
    let (chunk, row) = text.split_once('/').ok_or_else(expected)?;
    let chunk = chunk.parse::<ChunkKey>().map_err(|_no_chunk| expected())?;
    let row = row.parse().map_err(|_no_row| expected())?;
    Ok(VertexRow { chunk, row })
}
