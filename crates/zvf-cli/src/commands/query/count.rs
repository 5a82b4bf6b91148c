//! `zvf query --count`: how much the answer is, without the answer.

use std::io::Write;

use futures_util::StreamExt as _;
use serde_json::json;
use zvf::{Answer, Columns, Kind, Reader};

use super::advised;
use crate::progress::Progress;
use crate::table;

/// What an answer holds.
#[derive(Debug, Default)]
pub(super) struct Counts {
    vertices: usize,
    parts: usize,
    elements: Option<usize>,
}

/// Counts the answer to `query`. Points are counted batch by batch, in bounded memory.
pub(super) async fn count(
    reader: &Reader,
    query: zvf::Query,
    (kind, streams): (Kind, bool),
    progress: &Progress,
) -> anyhow::Result<(Counts, Option<Answer>)> {
    let query = query.columns(Columns::None);
    let mut counts = Counts::default();
    if kind == Kind::PointCloud && streams {
        let mut batches = reader.stream(query.uncached());
        while let Some(batch) = batches.next().await {
            counts.vertices += advised(reader, batch).await?.len();
            progress.set(format!("{} vertices", counts.vertices));
        }
        return Ok((counts, None));
    }
    let answer = advised(reader, reader.run(&query).await).await?;
    counts.vertices = answer.batch.len();
    counts.parts = answer.batch.parts().len();
    counts.elements = answer.batch.elements().map(zvf::Elements::len);
    Ok((counts, Some(answer)))
}

impl Counts {
    pub(super) fn print(&self, json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
        let Self { vertices, parts, elements } = *self;
        if json {
            let counts = json!({"vertices": vertices, "parts": parts, "elements": elements});
            return table::json(&counts, out);
        }
        let one = |n: usize, name: &str| -> anyhow::Result<String> {
            let name = match (n, name) {
                (1, "vertices") => "vertex",
                (1, name) => name.trim_end_matches('s'),
                (_, name) => name,
            };
            Ok(format!("{} {name}", table::count(n.try_into()?)))
        };
        let mut words = vec![one(vertices, "vertices")?];
        if parts > 0 {
            words.push(one(parts, "parts")?);
        }
        if let Some(elements) = elements {
            words.push(one(elements, "elements")?);
        }
        Ok(writeln!(out, "{}", words.join(", "))?)
    }
}
