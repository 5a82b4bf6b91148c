//! Link families: policies, segments, records in their order, endpoints, attributes.

use std::collections::{HashMap, HashSet};

use anyhow::Context;
use serde_json::{Value, json};
use zvf_format::key::{ChunkKey, Delta};
use zvf_model::{LevelReader, LinkFamily, LinkRecords};
use zvf_store::Caching;

use super::cells::{check_rows, parse_key};
use crate::contents::{self, LevelContents};
use crate::facts::{self, Rows, list, members};
use crate::report::Report;

/// Compares the links between chunks of families A and B, cell by cell.
pub(super) async fn check_links_between_chunks(
    report: &mut Report,
    at: &str,
    deltas: &Value,
    level: &LevelReader,
) -> anyhow::Result<()> {
    for (delta, expected) in members(deltas) {
        let at = format!("{at}/cross_chunk_cells/{delta}");
        let Some(family) = level.links(delta.parse::<Delta>()?).await? else {
            report.fail(&at, "no such family");
            continue;
        };
        if !family.is_complete() {
            continue; // another part compares this family
        }
        let (records, _) = read_records(&family).await?;
        let records: Vec<_> = records.iter().filter(|record| !record.intra).collect();
        let cells: HashSet<Vec<ChunkKey>> = records
            .iter()
            .map(|record| {
                let mut chunks: Vec<ChunkKey> =
                    record.ends.iter().map(|(chunk, _)| *chunk).collect();
                chunks.sort_by(ChunkKey::cmp_numeric);
                chunks
            })
            .collect();
        report.fact(&at, expected, "num_links", records.len());
        report.fact(&at, expected, "cells", cells.len());
        let policy = family.policy();
        report.fact(&at, expected, "link_width", policy.link_width());
        report.fact(&at, expected, "sid_ndim", policy.sid_ndim());
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
    report: &mut Report,
    at: &str,
    expected: &Value,
    level: &LevelReader,
    contents: &LevelContents,
) -> anyhow::Result<()> {
    for (delta, expected_family) in members(&expected["links"]) {
        let at = format!("{at}/links/{delta}");
        let family = level.links(delta.parse::<Delta>()?).await?;
        let Some(family) = family else {
            report.fail(&at, "no such family");
            continue;
        };
        if let Err(error) = check_family(report, &at, expected_family, &family, contents).await {
            report.fail(&at, format!("{error:#}"));
        }
    }
    for (name, deltas) in members(&expected["link_attributes"]) {
        for (delta, expected) in members(deltas) {
            let at = format!("{at}/link_attributes/{name}/{delta}");
            if let Err(error) = check_intra_values(report, &at, expected, level, name, delta).await
            {
                report.fail(&at, format!("{error:#}"));
            }
        }
    }
    Ok(())
}

async fn check_family(
    report: &mut Report,
    at: &str,
    expected: &Value,
    family: &LinkFamily,
    contents: &LevelContents,
) -> anyhow::Result<()> {
    let policy = family.policy();
    let fact = if expected["policy"].is_object() { &expected["policy"] } else { expected };
    report.known(
        format!("{at}/policy"),
        fact,
        [
            ("link_width", json!(policy.link_width())),
            ("sid_ndim", json!(policy.sid_ndim())),
            ("directed", json!(policy.is_directed())),
            ("store", json!(if family.is_duplicated() { "duplicate" } else { "canonical" })),
        ],
    );
    if !family.is_complete() {
        report.skip("links of a family: this backend cannot list its segments");
        return Ok(());
    }
    report.known(
        at,
        expected,
        [
            ("num_links", json!(family.num_links())),
            ("num_physical_records", json!(family.num_physical_records())),
            ("offset_arrays", json!(family.segments().len())),
        ],
    );
    if expected["offsets"].is_array() {
        let names = family.segments().iter().filter_map(|segment| segment.offsets());
        let names: Vec<String> = names.map(ToString::to_string).collect();
        report.fact(at, expected, "offsets", names);
    }
    let (records, parts) = read_records(family).await?;
    let among = |intra| records.iter().filter(|record| record.intra == intra).collect::<Vec<_>>();
    let all: Vec<&Record> = records.iter().collect();
    for (name, found) in [
        ("records", &all),
        ("intra", &among(true)),
        ("cross", &among(false)),
        ("brute_force", &all),
    ] {
        check_rows(report, &format!("{at}/{name}"), &expected[name], &rows_from_records(found));
        check_list(report, &format!("{at}/{name}/list"), &expected[name]["list"], found);
    }
    let name = "endpoint_positions_f64_sha256_sorted";
    let fact = expected["records"].get(name).or_else(|| expected.get(name));
    if let Some(fact) = fact.filter(|fact| fact.is_string()) {
        let found = endpoint_positions(&all, contents).map(|rows| rows.sha256_sorted());
        report.compare_result(&format!("{at}/endpoint_positions"), fact, found);
    }
    for (name, expected) in members(&expected["attributes"]) {
        let at = format!("{at}/attributes/{name}");
        if let Err(error) =
            check_values(report, &at, expected, family, name, &parts, &rows_from_records(&all))
                .await
        {
            report.fail(&at, format!("{error:#}"));
        }
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
        let mut segment_records = Vec::new();
        for cell in &cells {
            for i in 0..cell.len() {
                let ends: Vec<(ChunkKey, u64)> =
                    cell.endpoints(i).map(|(chunk, row)| (*chunk, row)).collect();
                segment_records
                    .push((cell.stored_row(i), Record { ends, intra: segment.is_intra() }));
            }
        }
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

fn check_list(report: &mut Report, what: &str, expected: &Value, found: &[&Record]) {
    let Some(expected) = expected.as_array() else { return };
    let fact: Vec<Vec<(ChunkKey, u64)>> = expected
        .iter()
        .map(|record| {
            let ends = list(record);
            ends.map(|end| (parse_key(&end[0]), end[1].as_u64().unwrap_or(u64::MAX))).collect()
        })
        .collect();
    let same = fact.len() == found.len() && fact.iter().zip(found).all(|(a, b)| *a == b.ends);
    report.check(what, same, "other records, or in another order");
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
            contents::point_at(&cell.positions, row)
                .iter()
                .for_each(|x| bytes.extend(x.to_le_bytes()));
        }
        found.push(bytes);
    }
    Ok(Rows(found))
}

async fn check_values(
    report: &mut Report,
    at: &str,
    expected: &Value,
    family: &LinkFamily,
    name: &str,
    parts: &[Part],
    records: &Rows,
) -> anyhow::Result<()> {
    let attribute = family.attribute(name).await?.context("no such attribute")?;
    report.fact(at, expected, "dtype", attribute.dtype().to_string());
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
    report.fact(at, expected, "shape", shape);
    report.fact(at, expected, "sha256", found.sha256());
    let joined = records.join_columns(&found).sha256_sorted();
    report.compare(&format!("{at}/joined"), &expected["joined_with_record_sha256_sorted"], joined);
    Ok(())
}

/// Returns the values of the records within chunks, in the order of the chunks.
async fn check_intra_values(
    report: &mut Report,
    at: &str,
    expected: &Value,
    level: &LevelReader,
    name: &str,
    delta: &str,
) -> anyhow::Result<()> {
    let family = level.links(delta.parse::<Delta>()?).await?.context("no such family")?;
    let attribute = family.attribute(name).await?.context("no such attribute")?;
    let mut found: Vec<(ChunkKey, Vec<u8>)> = Vec::new();
    for (number, segment) in family.segments().iter().enumerate() {
        let listed = segment.cells().await?;
        for place in 0..listed.len() {
            let chunks = listed.chunks(place)?;
            if chunks.iter().any(|chunk| *chunk != chunks[0]) {
                continue;
            }
            let records = segment.read(&[place], Caching::Once).await.remove(0)?;
            let column =
                attribute.values(number, &[place], &[records], Caching::Once).await.remove(0)?;
            found.extend(
                column.map(|column| (chunks[0], column.rows().flatten().copied().collect())),
            );
        }
    }
    found.sort_by(|a, b| a.0.cmp_numeric(&b.0));
    report.fact(at, expected, "cells", found.len());
    let bytes: usize = found.iter().map(|(_, bytes)| bytes.len()).sum();
    report.fact(at, expected, "bytes", bytes);
    let digest = facts::digest(found.iter().map(|(_, bytes)| bytes));
    report.compare(&format!("{at}/sha256"), &expected["sha256_of_cells_in_chunk_order"], digest);
    Ok(())
}
