//! Rows of other chunks at which the steps and elements of a chunk end, and elements read one by one by their links.
//!
//! A neighbour that cannot be read costs what ends in it, never the chunk.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use futures_util::TryStreamExt as _;
use zvf_format::key::{ChunkKey, Delta};
use zvf_format::num::{index_u32, usize_from_u32};
use zvf_metadata::LinksConvention;
use zvf_model::{Kind, LevelReader};
use zvf_query::{Columns, Query, Reader};
use zvf_store::{Caching, KeyTable};

use crate::error::WasmError;
use crate::load::{stored_rows, to_f32};
use crate::request::{CellRequest, parse_condition};

/// A stored row: the place of its chunk in the table of the level, and its number there.
pub(crate) type StoredRow = (u32, u32);

/// A row of another chunk.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FarRow {
    pub(crate) position: Vec<f64>,
    /// The values of each attribute that was requested; none where it is no attribute of vertices.
    pub(crate) values: Vec<Vec<f32>>,
}

/// Reads rows of other chunks; those that the condition leaves out, or that cannot be read, are not in the answer.
pub(crate) async fn read_far(
    reader: &Reader,
    level: &LevelReader,
    request: &CellRequest,
    rows: impl Iterator<Item = StoredRow>,
) -> Result<HashMap<StoredRow, FarRow>, WasmError> {
    let mut wanted: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for (place, row) in rows {
        wanted.entry(place).or_default().insert(row);
    }
    let table = level.chunks().await?;
    let keys: Vec<ChunkKey> =
        wanted.keys().filter_map(|place| table.get(usize_from_u32(*place))).collect();
    let positions = level.positions(&keys, Caching::Keep).await;
    let mut columns = Vec::with_capacity(request.columns.len());
    for name in request.columns.iter() {
        let attribute =
            if name.starts_with("object.") { None } else { level.attribute(name).await? };
        columns.push(match attribute {
            Some(attribute) => attribute.values(&keys, Caching::Keep).await,
            None => Vec::new(),
        });
    }
    let mut found = HashMap::new();
    for (at, ((place, rows), positions)) in wanted.into_iter().zip(positions).enumerate() {
        let Ok(positions) = positions else { continue };
        let passing = passing_rows(reader, request, &table, place).await?;
        for row in rows {
            let i = usize_from_u32(row);
            let position = (0..level.axes()).map(|axis| positions.float(i, axis));
            let (Some(position), true) =
                (position.collect(), passing.as_ref().is_none_or(|passing| passing.contains(&row)))
            else {
                continue;
            };
            let values = columns.iter().map(|column| match column.get(at) {
                Some(Ok(column)) => (0..usize_from_u32(column.width()))
                    .map(|c| column.float(i, c).map_or(f32::NAN, to_f32))
                    .collect(),
                Some(Err(_)) | None => Vec::new(),
            });
            found.insert((place, row), FarRow { position, values: values.collect() });
        }
    }
    Ok(found)
}

/// Returns the rows of a chunk that pass the condition; none where there is no condition.
async fn passing_rows(
    reader: &Reader,
    request: &CellRequest,
    table: &KeyTable,
    place: u32,
) -> Result<Option<HashSet<u32>>, WasmError> {
    let Some(condition) = &request.condition else { return Ok(None) };
    let query = chunk_query(request, table, place).columns(Columns::None);
    let mut batches = reader.stream(query.filter(parse_condition(condition)?));
    let mut rows = HashSet::new();
    // Rows that cannot be read do not pass.
    while let Ok(Some(batch)) = batches.try_next().await {
        rows.extend(stored_rows(&batch).into_iter().flatten().map(|(_, row)| row));
    }
    Ok(Some(rows))
}

/// Returns the question for the vertices of one chunk.
pub(crate) fn chunk_query(request: &CellRequest, table: &KeyTable, place: u32) -> Query {
    let place = usize_from_u32(place);
    let chunk = Query::all().in_chunks(table.get(place), table.get(place + 1));
    chunk.of_kind(request.kind).at_level(request.level).increment_only().with_places()
}

/// Finds the elements that end in `chunks`, by their links alone; links that cannot be read are left out.
pub(crate) async fn find_elements(
    level: &LevelReader,
    kind: Kind,
    chunks: &[ChunkKey],
) -> Result<Vec<Vec<StoredRow>>, WasmError> {
    let table = level.chunks().await?;
    let stored = |chunk: &ChunkKey, row: u64| -> Option<StoredRow> {
        Some((index_u32(table.find(chunk)?), u32::try_from(row).ok()?))
    };
    let convention = level.links_convention().known_word();
    let follows_rows = match kind {
        Kind::Skeleton => convention != Some(LinksConvention::Explicit),
        _ => convention == Some(LinksConvention::ImplicitSequentialWithBranches),
    };
    if follows_rows && let Ok(edges) = level.skeleton_edges(chunks).await {
        let ends = edges.iter().map(|edge| {
            let [child, parent] = [edge.child, edge.parent];
            Some(vec![stored(&child.chunk, child.row)?, stored(&parent.chunk, parent.row)?])
        });
        return Ok(ends.flatten().collect());
    }
    let Some(family) = level.links(Delta::SAME).await? else { return Ok(Vec::new()) };
    let mut elements = Vec::new();
    for segment in family.with_candidates(&table).segments() {
        let Ok(cells) = segment.cells().await else { continue };
        let touches = |place: &usize| {
            let between = cells.chunks(*place).unwrap_or_default();
            between.iter().any(|chunk| chunks.contains(chunk))
        };
        let places: Vec<usize> = (0..cells.len()).filter(touches).collect();
        for records in segment.read(&places, Caching::Keep).await.into_iter().flatten() {
            for i in (0..records.len()).filter(|i| records.is_leading(*i)) {
                let ends = records.endpoints(i).map(|(chunk, row)| stored(chunk, row));
                elements.extend(ends.collect::<Option<Vec<_>>>());
            }
        }
    }
    Ok(elements)
}
