//! Link families: policies, segments, records in their order, endpoints, attributes.

use std::collections::{HashMap, HashSet};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use zvf_format::key::{ChunkKey, Delta};
use zvf_model::{Column, LevelReader, LinkAttribute, LinkFamily, LinkRecords};
use zvf_store::Caching;

use super::leave_rest;
use crate::contents::{self, LevelContents};
use crate::facts::{self, Rows, describe_each, given, members, or_error, skipped};

/// Returns the links between chunks of families A and B.
pub(super) async fn describe_links_between_chunks(
    level: &LevelReader,
    delta: &str,
) -> anyhow::Result<Value> {
    let family = open_family(level, delta).await?;
    if !family.is_complete() {
        return Ok(given()); // another part compares this family
    }
    let (records, _) = read_records(&family).await?;
    let records: Vec<_> = records.iter().filter(|record| !record.intra).collect();
    let chunks = |record: &&Record| {
        let mut chunks: Vec<ChunkKey> = record.ends.iter().map(|(chunk, _)| *chunk).collect();
        chunks.sort_by(ChunkKey::cmp_numeric);
        chunks
    };
    Ok(json!({
        "num_links": records.len(),
        "cells": records.iter().map(chunks).collect::<HashSet<_>>().len(),
        "link_width": family.policy().link_width(),
        "sid_ndim": family.policy().sid_ndim(),
    }))
}

/// A record: its endpoints in the given order, and whether it is stored within a chunk.
struct Record {
    ends: Vec<(ChunkKey, u64)>,
    intra: bool,
}

/// Returns the expected families of a level, and the values of their records within chunks.
pub(super) async fn describe_links(contents: &LevelContents, expected: &Value) -> Value {
    let links = describe_each(&expected["links"], async |delta, expected| {
        describe_family(contents, delta, expected).await
    });
    let values = describe_each(&expected["link_attributes"], async |name, deltas| {
        let of_delta = async |delta: &str, _: &Value| {
            describe_intra_values(&contents.reader, name, delta).await
        };
        Ok(describe_each(deltas, of_delta).await)
    });
    json!({"links": links.await, "link_attributes": values.await})
}

async fn open_family(level: &LevelReader, delta: &str) -> anyhow::Result<LinkFamily> {
    level.links(delta.parse::<Delta>()?).await?.context("no such family")
}

/// Returns the facts of a family, with the expected attributes.
pub(crate) async fn describe_family(
    contents: &LevelContents,
    delta: &str,
    expected: &Value,
) -> anyhow::Result<Value> {
    let family = open_family(&contents.reader, delta).await?;
    let policy = family.policy();
    let mut found = json!({
        "link_width": policy.link_width(),
        "sid_ndim": policy.sid_ndim(),
        "directed": policy.is_directed(),
        "store": if family.is_duplicated() { "duplicate" } else { "canonical" },
    });
    found["policy"] = found.clone();
    if !family.is_complete() {
        found["records"] = skipped("links of a family: this backend cannot list its segments");
        leave_rest(&mut found, expected);
        return Ok(found);
    }
    let segments = family.segments();
    let offsets = segments.iter().filter_map(|segment| segment.offsets());
    found["offsets"] = offsets.map(|offsets| json!(offsets.to_string())).collect();
    found["num_links"] = json!(family.num_links());
    found["num_physical_records"] = json!(family.num_physical_records());
    found["offset_arrays"] = json!(segments.len());
    let (records, parts) = read_records(&family).await?;
    let all: Vec<&Record> = records.iter().collect();
    found["records"] = describe_records(&all);
    found["brute_force"] = found["records"].clone();
    for (name, is_intra) in [("intra", true), ("cross", false)] {
        let among = all.iter().copied().filter(|record| record.intra == is_intra);
        found[name] = describe_records(&among.collect::<Vec<_>>());
    }
    let positions = endpoint_positions(&all, contents).map(|rows| rows.sha256_sorted());
    found["records"][ENDPOINTS] = or_error(positions);
    found[ENDPOINTS] = found["records"][ENDPOINTS].clone();
    found["attributes"] = json!({});
    for (name, _) in members(&expected["attributes"]) {
        let values = describe_values(&family, name, &parts, &rows_from_records(&all)).await;
        found["attributes"][name] = or_error(values);
    }
    Ok(found)
}

/// The records of one segment: the ordered positions of its cells, and their contents.
type SegmentRecords = (Vec<usize>, Vec<LinkRecords>);

/// Returns every record of a family in its order, and the records by segment.
async fn read_records(family: &LinkFamily) -> anyhow::Result<(Vec<Record>, Vec<SegmentRecords>)> {
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

fn describe_records(records: &[&Record]) -> Value {
    let end = |(chunk, row): &(ChunkKey, u64)| json!([chunk.components(), row]);
    let record = |record: &&Record| record.ends.iter().map(end).collect::<Value>();
    let mut found = rows_from_records(records).to_json();
    found["list"] = records.iter().map(record).collect();
    found
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
            ensure!(row < cell.positions.len(), "no row {row} in chunk {chunk}");
            let point = contents::point_at(&cell.positions, row);
            bytes.extend(point.into_iter().flat_map(f64::to_le_bytes));
        }
        found.push(bytes);
    }
    Ok(Rows(found))
}

/// Returns an attribute, and its values by cell, with the chunks that the records of each join.
async fn read_values(
    family: &LinkFamily,
    name: &str,
    parts: &[SegmentRecords],
) -> anyhow::Result<(LinkAttribute, Vec<(Vec<ChunkKey>, Option<Column>)>)> {
    let attribute = family.attribute(name).await?.context("no such attribute")?;
    let mut found = Vec::new();
    for (number, (places, cells)) in parts.iter().enumerate() {
        let listed = family.segments()[number].cells().await?;
        let columns = attribute.values(number, places, cells, Caching::Once).await;
        for (place, column) in places.iter().zip(columns) {
            found.push((listed.chunks(*place)?.to_vec(), column?));
        }
    }
    Ok((attribute, found))
}

async fn describe_values(
    family: &LinkFamily,
    name: &str,
    parts: &[SegmentRecords],
    records: &Rows,
) -> anyhow::Result<Value> {
    let (attribute, values) = read_values(family, name, parts).await?;
    let mut rows = Vec::new();
    for (_, column) in values {
        rows.extend(Rows::from_column(&column.context("a segment without values")?).0);
    }
    let rows = Rows(rows);
    Ok(json!({
        "dtype": attribute.dtype().to_string(),
        "shape": match attribute.width() {
            1 => json!([rows.len()]),
            width => json!([rows.len(), width]),
        },
        "sha256": rows.sha256(),
        "joined_with_record_sha256_sorted": records.join_columns(&rows).sha256_sorted(),
    }))
}

/// Returns the values of the records within chunks, in the order of the chunks.
async fn describe_intra_values(
    level: &LevelReader,
    name: &str,
    delta: &str,
) -> anyhow::Result<Value> {
    let family = open_family(level, delta).await?;
    let (_, parts) = read_records(&family).await?;
    let (_, values) = read_values(&family, name, &parts).await?;
    let is_within = |chunks: &[ChunkKey]| chunks.iter().all(|chunk| *chunk == chunks[0]);
    let within = values.into_iter().filter(|(chunks, _)| is_within(chunks));
    let mut found: Vec<(ChunkKey, Vec<u8>)> =
        within.filter_map(|(chunks, column)| Some((chunks[0], column?.bytes().to_vec()))).collect();
    found.sort_by(|a, b| a.0.cmp_numeric(&b.0));
    Ok(json!({
        "cells": found.len(),
        "bytes": found.iter().map(|(_, bytes)| bytes.len()).sum::<usize>(),
        "sha256_of_cells_in_chunk_order": facts::digest(found.iter().map(|(_, bytes)| bytes)),
    }))
}

const ENDPOINTS: &str = "endpoint_positions_f64_sha256_sorted";
