//! Link families: policies, segments, records in their order, endpoints, attributes.

use std::collections::{HashMap, HashSet};

use anyhow::Context;
use serde_json::{Value, json};
use zvf_format::key::{ChunkKey, Delta};
use zvf_model::{LevelReader, LinkFamily, LinkRecords};
use zvf_store::Caching;

use super::cells::parse_key;
use crate::contents::{self, LevelContents};
use crate::facts::{self, Rows, list, members};
use crate::report::Facts;

/// Compares the links between chunks of families A and B, cell by cell.
pub(super) async fn check_links_between_chunks(
    mut facts: Facts<'_>,
    level: &LevelReader,
) -> anyhow::Result<()> {
    for (delta, expected) in members(facts.expected) {
        let mut facts = facts.named(delta, expected);
        let Some(family) = level.links(delta.parse::<Delta>()?).await? else {
            facts.fail("no such family");
            continue;
        };
        if !family.is_complete() {
            continue; // another part compares this family
        }
        let (records, _) = read_records(&family).await?;
        let records: Vec<_> = records.iter().filter(|record| !record.intra).collect();
        let chunks = |record: &&Record| {
            let mut chunks: Vec<ChunkKey> = record.ends.iter().map(|(chunk, _)| *chunk).collect();
            chunks.sort_by(ChunkKey::cmp_numeric);
            chunks
        };
        let cells: HashSet<Vec<ChunkKey>> = records.iter().map(chunks).collect();
        facts.fact("num_links", records.len());
        facts.fact("cells", cells.len());
        facts.fact("link_width", family.policy().link_width());
        facts.fact("sid_ndim", family.policy().sid_ndim());
    }
    Ok(())
}

/// A record: its endpoints in the given order, and whether it is stored within a chunk.
struct Record {
    ends: Vec<(ChunkKey, u64)>,
    intra: bool,
}

/// Compares every family of a level.
pub(super) async fn check_links(
    facts: &mut Facts<'_>,
    level: &LevelReader,
    contents: &LevelContents,
) {
    for (delta, expected) in members(&facts.expected["links"]) {
        let mut facts = facts.named(format!("links/{delta}"), expected);
        let compared = check_family(&mut facts, level, delta, contents).await;
        facts.finish(compared);
    }
    for (name, deltas) in members(&facts.expected["link_attributes"]) {
        for (delta, expected) in members(deltas) {
            let mut facts = facts.named(format!("link_attributes/{name}/{delta}"), expected);
            let compared = check_intra_values(&mut facts, level, name, delta).await;
            facts.finish(compared);
        }
    }
}

async fn open_family(level: &LevelReader, delta: &str) -> anyhow::Result<LinkFamily> {
    level.links(delta.parse::<Delta>()?).await?.context("no such family")
}

async fn check_family(
    facts: &mut Facts<'_>,
    level: &LevelReader,
    delta: &str,
    contents: &LevelContents,
) -> anyhow::Result<()> {
    let (family, expected) = (open_family(level, delta).await?, facts.expected);
    let policy = family.policy();
    let fact = if expected["policy"].is_object() { &expected["policy"] } else { expected };
    facts.named("policy", fact).known([
        ("link_width", json!(policy.link_width())),
        ("sid_ndim", json!(policy.sid_ndim())),
        ("directed", json!(policy.is_directed())),
        ("store", json!(if family.is_duplicated() { "duplicate" } else { "canonical" })),
    ]);
    if !family.is_complete() {
        facts.report.skip("links of a family: this backend cannot list its segments");
        return Ok(());
    }
    facts.known([
        ("num_links", json!(family.num_links())),
        ("num_physical_records", json!(family.num_physical_records())),
        ("offset_arrays", json!(family.segments().len())),
    ]);
    if expected["offsets"].is_array() {
        let names = family.segments().iter().filter_map(|segment| segment.offsets());
        facts.fact("offsets", names.map(ToString::to_string).collect::<Vec<String>>());
    }
    let (records, parts) = read_records(&family).await?;
    let among = |intra| records.iter().filter(|record| record.intra == intra).collect::<Vec<_>>();
    let all: Vec<&Record> = records.iter().collect();
    for (name, found) in [
        ("records", &all),
        ("intra", &among(true)),
        ("cross", &among(false)),
        ("brute_force", &all),
    ] {
        facts.of(name).rows(&rows_from_records(found));
        check_list(facts.of(name).of("list"), found);
    }
    let name = "endpoint_positions_f64_sha256_sorted";
    let fact = expected["records"].get(name).or_else(|| expected.get(name));
    if let Some(fact) = fact.filter(|fact| fact.is_string()) {
        let found = endpoint_positions(&all, contents).map(|rows| rows.sha256_sorted());
        facts.named("endpoint_positions", fact).compare_result(found);
    }
    let all = rows_from_records(&all);
    for (name, expected) in members(&expected["attributes"]) {
        let mut facts = facts.named(format!("attributes/{name}"), expected);
        let compared = check_values(&mut facts, &family, name, &parts, &all).await;
        facts.finish(compared);
    }
    Ok(())
}

/// The records of one segment: the ordered positions of its cells, and their contents.
type Part = (Vec<usize>, Vec<LinkRecords>);

/// Returns every record of a family in its order, and the records by segment.
async fn read_records(family: &LinkFamily) -> anyhow::Result<(Vec<Record>, Vec<Part>)> {
    let (mut all, mut parts) = (Vec::new(), Vec::new());
    for segment in family.segments() {
        let places = segment.cells().await?.cell_order();
        let cells = segment.read(&places, Caching::Once).await;
        let cells = cells.into_iter().collect::<Result<Vec<_>, _>>()?;
        let intra = segment.is_intra();
        let record = |cell: &LinkRecords, i| {
            let ends = cell.endpoints(i).map(|(chunk, row)| (*chunk, row)).collect();
            (cell.stored_row(i), Record { ends, intra })
        };
        let each = cells.iter().flat_map(|cell| (0..cell.len()).map(move |i| record(cell, i)));
        let mut segment_records: Vec<(u64, Record)> = each.collect();
        if segment.offsets().is_none() && cells.len() > 1 && is_one_blob(&cells) {
            segment_records.sort_by_key(|(row, _)| *row); // the flat form has an order of its own
        }
        all.extend(segment_records.into_iter().map(|(_, record)| record));
        parts.push((places, cells));
    }
    Ok((all, parts))
}

/// Returns whether the rows of several cells are counted as those of one array.
fn is_one_blob(cells: &[LinkRecords]) -> bool {
    let mut rows: Vec<u64> =
        cells.iter().flat_map(|cell| (0..cell.len()).map(|i| cell.stored_row(i))).collect();
    rows.sort_unstable();
    rows.iter().enumerate().all(|(at, row)| at as u64 == *row)
}

fn rows_from_records(records: &[&Record]) -> Rows {
    Rows::from_ints(records.iter().map(|record| {
        let ends = record.ends.iter();
        ends.flat_map(|(chunk, row)| [chunk.components(), &[*row as i64]].concat())
            .collect::<Vec<_>>()
    }))
}

fn check_list(mut facts: Facts<'_>, found: &[&Record]) {
    let Some(expected) = facts.expected.as_array() else { return };
    let end = |end: &Value| (parse_key(&end[0]), end[1].as_u64().unwrap_or(u64::MAX));
    let is_same = |(a, b): (&Value, &&Record)| list(a).map(end).eq(b.ends.iter().copied());
    let same = expected.len() == found.len() && expected.iter().zip(found).all(is_same);
    facts.check(same, "other records, or in another order");
}

fn endpoint_positions(records: &[&Record], contents: &LevelContents) -> anyhow::Result<Rows> {
    let cells: HashMap<ChunkKey, &contents::Cell> =
        contents.cells.iter().map(|cell| (cell.key, cell)).collect();
    let mut found = Vec::new();
    for record in records {
        let mut bytes = Vec::new();
        for (chunk, row) in &record.ends {
            let cell = cells.get(chunk).with_context(|| format!("no chunk {chunk}"))?;
            let row = *row as usize;
            anyhow::ensure!(row < cell.positions.len(), "no row {row} in chunk {chunk}");
            let point = contents::point_at(&cell.positions, row);
            bytes.extend(point.into_iter().flat_map(f64::to_le_bytes));
        }
        found.push(bytes);
    }
    Ok(Rows(found))
}

async fn check_values(
    facts: &mut Facts<'_>,
    family: &LinkFamily,
    name: &str,
    parts: &[Part],
    records: &Rows,
) -> anyhow::Result<()> {
    let attribute = family.attribute(name).await?.context("no such attribute")?;
    facts.fact("dtype", attribute.dtype().to_string());
    let mut found = Vec::new();
    for (segment, (places, cells)) in parts.iter().enumerate() {
        for column in attribute.values(segment, places, cells, Caching::Once).await {
            let column = column?.context("a segment without values")?;
            found.extend(column.rows().map(<[u8]>::to_vec));
        }
    }
    let found = Rows(found);
    let shape = match attribute.width() {
        1 => json!([found.len()]),
        width => json!([found.len(), width]),
    };
    facts.fact("shape", shape);
    facts.fact("sha256", found.sha256());
    let fact = &facts.expected["joined_with_record_sha256_sorted"];
    facts.named("joined", fact).compare(records.join_columns(&found).sha256_sorted());
    Ok(())
}

/// Compares the values of the records within chunks, in the order of the chunks.
async fn check_intra_values(
    facts: &mut Facts<'_>,
    level: &LevelReader,
    name: &str,
    delta: &str,
) -> anyhow::Result<()> {
    let family = open_family(level, delta).await?;
    let attribute = family.attribute(name).await?.context("no such attribute")?;
    let (_, parts) = read_records(&family).await?;
    let mut found: Vec<(ChunkKey, Vec<u8>)> = Vec::new();
    for (number, (places, cells)) in parts.iter().enumerate() {
        let listed = family.segments()[number].cells().await?;
        let columns = attribute.values(number, places, cells, Caching::Once).await;
        for (place, column) in places.iter().zip(columns) {
            let (chunks, column) = (listed.chunks(*place)?, column?);
            let values: Option<Vec<u8>> =
                column.map(|column| column.rows().flatten().copied().collect());
            let is_within = chunks.iter().all(|chunk| *chunk == chunks[0]);
            found.extend(values.filter(|_| is_within).map(|values| (chunks[0], values)));
        }
    }
    found.sort_by(|a, b| a.0.cmp_numeric(&b.0));
    facts.fact("cells", found.len());
    facts.fact("bytes", found.iter().map(|(_, bytes)| bytes.len()).sum::<usize>());
    let digest = facts::digest(found.iter().map(|(_, bytes)| bytes));
    let fact = &facts.expected["sha256_of_cells_in_chunk_order"];
    facts.named("sha256", fact).compare(digest);
    Ok(())
}
