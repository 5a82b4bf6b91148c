//! One decoded chunk of a level, for debugging.

use async_recursion::async_recursion as boxed;
use serde::Serialize;
use serde_json::Value as Json;
use zvf_error::Result;
use zvf_format::fragment::Fragment;
use zvf_format::key::{ChunkKey, Delta};
use zvf_format::num::{saturating_usize, to_u64, usize_from_u32};
use zvf_model::{Column, Field, LevelReader, LinkRecords};
use zvf_store::Caching;

use super::{chunk_bounds, json};
use crate::Error;

/// A chunk of a level.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
/// use zvf_format::key::ChunkKey;
/// use zvf_jobs::inspect::CellView;
/// use zvf_model::{LevelId, LevelReader};
///
/// let store = zvf_store::Store::open(path, zvf_store::OpenOptions::default()).await?;
/// let level = LevelReader::open(&store, LevelId(0)).await?;
/// let cell = CellView::read(&level, &"0.0".parse::<ChunkKey>()?, 10).await?;
/// assert_eq!((cell.rows, cell.vertices.len(), cell.fragments.len()), (1, 1, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CellView {
    /// Its key.
    pub chunk: String,
    /// The box of the chunk: lowest and highest corner, in spatial axes.
    pub bounds: Option<[Vec<f64>; 2]>,
    /// Number of rows of vertices.
    pub rows: u64,
    /// The first rows.
    pub vertices: Vec<CellRow>,
    /// Its fragments.
    pub fragments: Vec<CellFragment>,
    /// Its links, within the chunk, to other chunks and to other levels.
    pub links: Vec<CellLinks>,
    /// Whether the fragments partition the rows in order.
    pub tiles: bool,
    /// Number of rows outside of all fragments.
    pub unreferenced: u64,
    /// Parts that could not be read, with the reasons.
    pub faults: Vec<String>,
}

/// One row of vertices.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CellRow {
    /// Its number.
    pub row: u64,
    /// Its position.
    pub position: Vec<Json>,
    /// Its attributes.
    pub attributes: serde_json::Map<String, Json>,
}

/// One fragment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CellFragment {
    /// Its number.
    pub fragment: u64,
    /// Its number of rows.
    pub rows: u64,
    /// The first row, and one past the last, if it is a range.
    pub range: Option<[u64; 2]>,
    /// Its first rows, if it is a list.
    pub listed: Option<Vec<u64>>,
}

/// Link records with the chunk as source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CellLinks {
    /// Difference of the levels of the ends.
    pub delta: i32,
    /// Their array, as a path below the root of the store.
    pub array: String,
    /// Number of records.
    pub records: u64,
    /// The first records: chunk and row of each end, in the given order.
    pub first: Vec<Vec<(String, u64)>>,
}

impl CellView {
    /// Reads the chunk `key` of `level`, and at most `max_rows` of its rows. A part that cannot be
    /// read becomes a fault and does not hide the rest.
    ///
    /// # Errors
    ///
    /// When the level has no such chunk, or its vertices cannot be read.
    #[boxed]
    pub async fn read(level: &LevelReader, key: &ChunkKey, max_rows: u64) -> Result<Self, Error> {
        let chunks = level.chunks().await?;
        if key.rank() != chunks.rank() || chunks.find(key).is_none() {
            let first = chunks
                .get(0)
                .map(|first| format!("the level has {} chunks, from {first}", chunks.len()));
            let absent =
                Error::missing(&level.node().path().join("vertices")?, "this chunk was requested");
            return Err(absent.or_hint(|| first));
        }
        let mut faults = Vec::new();
        let positions = only_answer(level.positions(&[*key], Caching::Once).await)?;
        let fragments = fragments(level, key, &positions).await;
        let (fragments, tiles, unreferenced) = or_fault(fragments, &mut faults);
        let links = links(level, key, &mut faults).await;
        let links = or_fault(links, &mut faults);
        let mut fields = Vec::new();
        for name in level.attribute_names().await?.names {
            let field = field(level, key, &name, positions.len()).await;
            fields.extend(or_fault(field, &mut faults));
        }
        let shown = positions.len().min(saturating_usize(max_rows));
        let vertices = (0..shown).map(|row| view(row, &positions, &fields, &mut faults)).collect();
        faults.dedup();
        Ok(Self {
            chunk: key.to_string(),
            bounds: chunk_bounds(level, key),
            rows: to_u64(positions.len()),
            vertices,
            fragments,
            links,
            tiles,
            unreferenced,
            faults,
        })
    }
}

async fn fragments(
    level: &LevelReader,
    key: &ChunkKey,
    positions: &Column,
) -> Result<(Vec<CellFragment>, bool, u64), Error> {
    let found = only_answer(level.fragments(&[*key]).await)?;
    let index = found.view();
    let rows = to_u64(positions.len());
    let mut named = vec![false; positions.len()];
    let mut listed = Vec::new();
    for (fragment, record) in (0_u64..).zip(index.iter()) {
        for row in record.rows_within(rows).into_iter().flatten() {
            let row = usize::try_from(row).ok().and_then(|row| named.get_mut(row));
            row.into_iter().for_each(|row| *row = true);
        }
        listed.push(match record {
            Fragment::Range { start, count } => CellFragment {
                fragment,
                rows: count,
                range: Some([start, start + count]),
                listed: None,
            },
            Fragment::Rows(_) => CellFragment {
                fragment,
                rows: record.len(),
                range: None,
                listed: Some(record.rows().take(LISTED).collect()),
            },
        });
    }
    index.check_rows(rows)?;
    let unreferenced = named.iter().filter(|named| !**named).count();
    Ok((listed, index.tiles(rows), to_u64(unreferenced)))
}

async fn links(
    level: &LevelReader,
    key: &ChunkKey,
    faults: &mut Vec<String>,
) -> Result<Vec<CellLinks>, Error> {
    let mut all = Vec::new();
    for folder in ["links", "cross_chunk_links"] {
        for name in level.node().children(folder).await?.names {
            let path = format!("{folder}/{name}");
            let Ok(delta) = name.parse::<Delta>() else {
                faults.push(format!("{path}: expected a number of levels as its name"));
                continue;
            };
            if all.iter().any(|(listed, _)| *listed == delta) {
                continue;
            }
            match level.links(delta).await? {
                Some(family) => all.push((delta, family)),
                None if level.node().objects(&path).await?.is_empty() => {}
                None => {
                    faults.push(format!("{path}/zarr.json: expected a document, found nothing"))
                }
            }
        }
    }
    let mut found = Vec::new();
    for (delta, family) in all {
        for segment in family.segments() {
            let cells = segment.cells().await?;
            let sources = (0..cells.len()).filter(|place| cells.source(*place) == Some(*key));
            let sources: Vec<usize> = sources.collect();
            for records in segment.read(&sources, Caching::Once).await {
                match records {
                    Ok(records) if records.is_empty() => {}
                    Ok(records) => found.push(CellLinks {
                        delta: delta.0,
                        array: segment.path(),
                        records: to_u64(records.len()),
                        first: (0..records.len().min(LISTED)).map(|i| ends(&records, i)).collect(),
                    }),
                    Err(error) => faults.push(error.to_string()),
                }
            }
        }
    }
    Ok(found)
}

fn ends(records: &LinkRecords, i: usize) -> Vec<(String, u64)> {
    records.endpoints(i).map(|(chunk, row)| (chunk.to_string(), row)).collect()
}

async fn field(
    level: &LevelReader,
    key: &ChunkKey,
    name: &str,
    rows: usize,
) -> Result<Option<Field>, Error> {
    let Some(reader) = level.listed_attribute(name, None).await? else { return Ok(None) };
    let column = only_answer(reader.values(&[*key], Caching::Once).await)?;
    if column.len() != rows {
        let error = Error::new(
            zvf_format::Class::CountMismatch,
            "rows of an attribute",
            to_u64(rows),
            column.len(),
        );
        return Err(error.at_key(format!("vertex_attributes/{name}")).at_chunk(key));
    }
    Ok(Some(reader.field(column)))
}

fn view(row: usize, positions: &Column, fields: &[Field], faults: &mut Vec<String>) -> CellRow {
    let mut attributes = serde_json::Map::new();
    for field in fields {
        let width = usize_from_u32(field.column.width());
        let mut values = Vec::with_capacity(width);
        for at in 0..width {
            match field.value(row, at) {
                Ok(value) => values.push(json::value_json(field.column.dtype(), value)),
                Err(error) => {
                    values.push(Json::Null);
                    faults.push(format!("{}: {error}", field.name));
                }
            }
        }
        let value = if width == 1 { values.pop().unwrap_or(Json::Null) } else { values.into() };
        attributes.insert(field.name.to_string(), value);
    }
    let axes = usize_from_u32(positions.width());
    let number = |axis| json::value_json(positions.dtype(), positions.value(row, axis));
    let position = (0..axes).map(number).collect();
    CellRow { row: to_u64(row), position, attributes }
}

/// Returns what was read, or nothing and a fault.
fn or_fault<T: Default>(read: Result<T>, faults: &mut Vec<String>) -> T {
    read.unwrap_or_else(|error| {
        faults.push(error.to_string());
        T::default()
    })
}

/// Returns the single answer of a batch.
fn only_answer<T>(answers: Vec<Result<T>>) -> Result<T, Error> {
    let answer = answers.into_iter().next();
    answer.unwrap_or_else(|| Err(Error::new(zvf_format::Class::CountMismatch, "answers", 1, 0)))
}

/// Maximum number of listed rows per fragment, and of records per array.
const LISTED: usize = 16;
