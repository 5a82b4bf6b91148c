//! Rows of other chunks at which the steps and elements of a chunk end, and elements read one by one by their links.
//!
//! A neighbour or link cell that cannot be read removes the elements that end there, never the chunk; each fault is returned.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;

use futures_util::TryStreamExt as _;
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::key::{ChunkKey, Delta};
use zvf_format::num::{index_u32, saturating_u32, usize_from_u32};
use zvf_metadata::LinksConvention;
use zvf_model::{Batch, Column, Kind, LevelReader, LinkFamily, ObjectId};
use zvf_query::{LOCATION_FIELD, Reader};
use zvf_store::{Caching, KeyTable};

use crate::cell::to_f32;
use crate::request::{CellRequest, cell_query};

/// A stored row: the place of its chunk in the table of the level, and its number there.
pub(crate) type StoredRow = (u32, u32);

/// A row of another chunk.
#[derive(Default)]
pub(crate) struct FarRow {
    pub(crate) position: Vec<f64>,
    /// The values of each attribute that was requested; none where the level lacks it.
    pub(crate) values: Vec<Vec<f32>>,
    /// Its object, where that may differ from the one of what it is joined to.
    pub(crate) object: Option<ObjectId>,
}

/// Reads rows of other chunks; those that the condition leaves out, or that cannot be read, are not in the answer. Adds
/// to `faults` why rows cannot be read.
pub(crate) async fn read_far(
    reader: &Reader,
    level: &LevelReader,
    request: &CellRequest,
    columns: &[String],
    rows: impl Iterator<Item = StoredRow>,
    faults: &mut Vec<Error>,
) -> Result<HashMap<StoredRow, FarRow>> {
    let mut wanted: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for (place, row) in rows {
        wanted.entry(place).or_default().insert(row);
    }
    let table = level.chunks().await?;
    let key_of = |place: &u32| {
        table.get(usize_from_u32(*place)).expect("a stored row is in a chunk of the table")
    };
    let keys: Vec<ChunkKey> = wanted.keys().map(key_of).collect();
    for (rows, count) in wanted.values_mut().zip(level.row_counts(&keys).await) {
        let count = note(count, faults).unwrap_or(0);
        rows.retain(|row| u64::from(*row) < count);
    }
    let mut found = HashMap::new();
    // A condition looks at whole rows, and links of graphs and meshes may join objects.
    let joins_objects = request.kind.has_links() && request.kind != Kind::Skeleton;
    if request.condition.is_some() || joins_objects {
        for (place, rows) in wanted {
            let key = key_of(&place);
            let cell = key.spatial(level.axes()).expect("a key of the level has all its axes");
            let query = cell_query(request, columns.to_vec(), level, cell)?;
            let mut batches = reader.stream(query.vertices_only());
            while let Some(batch) = note(batches.try_next().await, faults).flatten() {
                let owners = batch.vertex_objects();
                let stored = stored_rows(&batch).into_iter().enumerate();
                for (i, at) in stored.filter(|(_, at)| at.0 == place && rows.contains(&at.1)) {
                    let values = request.columns.iter().map(|name| {
                        let column = batch.field(name).map(|field| &field.column);
                        let numbers = column.map(|column| numbers(column, i)).unwrap_or_default();
                        numbers.into_iter().map(to_f32).collect()
                    });
                    let (position, values) = (numbers(batch.positions(), i), values.collect());
                    let object = owners.and_then(|owners| owners.get(i).copied().flatten());
                    found.insert(at, FarRow { position, values, object });
                }
            }
        }
        return Ok(found);
    }
    wanted.retain(|_, rows| !rows.is_empty());
    let one = |row: &u32| u64::from(*row)..u64::from(*row) + 1;
    let asks = wanted.iter().map(|(place, rows)| (key_of(place), rows.iter().map(one).collect()));
    let asks: Vec<(ChunkKey, Vec<Range<u64>>)> = asks.collect();
    for (chunk, (place, rows)) in read_rows(level, request, &asks).await?.into_iter().zip(&wanted) {
        let rows = rows.iter().map(|row| (*place, *row));
        found.extend(rows.zip(note(chunk, faults).into_iter().flatten()));
    }
    Ok(found)
}

/// Returns the numbers of a row.
fn numbers(column: &Column, row: usize) -> Vec<f64> {
    let width = usize_from_u32(column.width());
    (0..width).map(|c| column.float(row, c).unwrap_or(f64::NAN)).collect()
}

/// Reads rows, without the rest of their chunks.
async fn read_rows(
    level: &LevelReader,
    request: &CellRequest,
    asks: &[(ChunkKey, Vec<Range<u64>>)],
) -> Result<Vec<Result<Vec<FarRow>>>> {
    let row = |column: &Column| FarRow { position: numbers(column, 0), ..FarRow::default() };
    let positions = level.position_rows(asks).await.into_iter();
    let mut chunks: Vec<Result<Vec<FarRow>>> =
        positions.map(|columns| Ok(columns?.iter().map(row).collect())).collect();
    for name in &request.columns {
        let attribute = match name.starts_with("object.") {
            true => None,
            false => level.attribute(name).await?,
        };
        let Some(attribute) = attribute else {
            chunks.iter_mut().flatten().flatten().for_each(|row| row.values.push(Vec::new()));
            continue;
        };
        for (chunk, columns) in chunks.iter_mut().zip(attribute.value_rows(asks).await) {
            match columns {
                Err(error) => *chunk = Err(error),
                Ok(columns) => {
                    for (row, column) in chunk.iter_mut().flatten().zip(&columns) {
                        row.values.push(numbers(column, 0).into_iter().map(to_f32).collect());
                    }
                }
            }
        }
    }
    Ok(chunks)
}

/// Finds the elements that end in `chunks`, by their links alone. Links that cannot be read, or that name no row of the
/// level, are left out and noted in `faults`.
pub(crate) async fn find_elements(
    level: &LevelReader,
    kind: Kind,
    chunks: &[ChunkKey],
    faults: &mut Vec<Error>,
) -> Result<Vec<Vec<StoredRow>>> {
    let table = level.chunks().await?;
    let stored = |chunk: &ChunkKey, row: u64| -> Option<StoredRow> {
        Some((index_u32(table.find(chunk)?), u32::try_from(row).ok()?))
    };
    let convention = level.links_convention().known_word();
    let follows_rows = match kind {
        Kind::Skeleton => convention != Some(LinksConvention::Explicit),
        Kind::Graph => convention == Some(LinksConvention::ImplicitSequentialWithBranches),
        _ => false,
    };
    let family = level.links(Delta::SAME).await?.map(|family| family.with_candidates(&table));
    let is_directed = family.as_ref().is_some_and(|family| family.policy().is_directed());
    let (mut elements, known) = (Vec::new(), faults.len());
    for segment in family.as_ref().map_or(&[][..], LinkFamily::segments) {
        let Some(cells) = note(segment.cells().await, faults) else { continue };
        let mut places: Vec<usize> = match segment.offsets() {
            // The source of a cell is one of the chunks, or lies an offset before one.
            Some(offsets) => {
                let none = vec![0; level.key_rank()];
                let steps: Vec<&[i64]> = offsets.iter().chain([none.as_slice()]).collect();
                let sources = chunks.iter().flat_map(|chunk| {
                    steps.iter().filter_map(|step| {
                        let at = chunk.components().iter().zip(*step).map(|(at, step)| at - step);
                        cells.find(&ChunkKey::new(&at.collect::<Vec<i64>>()).ok()?)
                    })
                });
                sources.collect()
            }
            None => {
                let touches = |place: &usize| {
                    let between = cells.chunks(*place).unwrap_or_default();
                    between.iter().any(|chunk| chunks.contains(chunk))
                };
                (0..cells.len()).filter(touches).collect()
            }
        };
        places.sort_unstable();
        places.dedup();
        let first = elements.len();
        for records in segment.read(&places, Caching::Keep).await {
            let Some(records) = note(records, faults) else { continue };
            let leading = (0..records.len()).filter(|i| records.is_leading(*i));
            let ends = leading.map(|i| {
                records.endpoints(i).map(|(chunk, row)| stored(chunk, row)).collect::<Option<_>>()
            });
            elements.extend(note_strays(ends, faults));
        }
        if follows_rows && is_directed {
            let across = segment.offsets().is_some_and(|offsets| !offsets.are_zero());
            orient_edges(level, &table, across, &mut elements[first..]).await?;
        }
    }
    if !follows_rows {
        return Ok(elements);
    }
    // The records of an undirected family replace steps: without them, those would be wrong.
    if !is_directed && faults.len() > known {
        return Err(faults.swap_remove(known));
    }
    elements.retain(|ends| ends.len() == 2);
    let named = elements.iter().filter(|_| !is_directed).map(|ends| ends[0]);
    let children: HashSet<StoredRow> = named.collect();
    for fragments in level.fragments(chunks).await {
        let fragments = fragments?;
        for fragment in &fragments.view() {
            let steps = fragment.rows().zip(fragment.rows().skip(1)).map(|(parent, child)| {
                let chunk = fragments.chunk();
                Some(vec![stored(chunk, child)?, stored(chunk, parent)?])
            });
            let steps = note_strays(steps, faults).into_iter();
            elements.extend(steps.filter(|ends| !children.contains(&ends[0])));
        }
    }
    Ok(elements)
}

/// Turns the edges of a directed family so that the child comes first. Their writers store the ends in either order: the
/// child is the first row of a fragment; if both or neither are, it comes second across chunks, and first within one.
async fn orient_edges(
    level: &LevelReader,
    table: &KeyTable,
    across: bool,
    edges: &mut [Vec<StoredRow>],
) -> Result<()> {
    let places: BTreeSet<u32> = edges.iter().flatten().map(|end| end.0).collect();
    let keys: Vec<ChunkKey> =
        places.iter().filter_map(|place| table.get(usize_from_u32(*place))).collect();
    let mut first_rows = HashSet::new();
    for (place, fragments) in places.iter().zip(level.fragments(&keys).await) {
        let fragments = fragments?;
        let firsts = fragments.view().iter().filter_map(|fragment| fragment.rows().next());
        first_rows.extend(firsts.map(|row| (*place, saturating_u32(row)))); // of 32 bits
    }
    for edge in edges {
        if let [a, b] = edge.as_mut_slice() {
            let is_parent_first = match (first_rows.contains(a), first_rows.contains(b)) {
                (false, true) => true,
                (true, false) => false,
                (true, true) | (false, false) => across,
            };
            if is_parent_first {
                std::mem::swap(a, b);
            }
        }
    }
    Ok(())
}

/// Returns the value, or adds the error to `faults`.
pub(crate) fn note<T>(read: Result<T>, faults: &mut Vec<Error>) -> Option<T> {
    read.map_err(|error| faults.push(error)).ok()
}

/// Returns what was found, and adds to `faults` how much was not: it names chunks that the level does not have.
pub(crate) fn note_strays<T>(
    found: impl Iterator<Item = Option<T>>,
    faults: &mut Vec<Error>,
) -> Vec<T> {
    let all: Vec<Option<T>> = found.collect();
    let strays = all.iter().filter(|one| one.is_none()).count();
    if strays > 0 {
        let found = format!("{strays} that name others");
        faults.push(Error::new(Class::OutOfBounds, "links", "rows of chunks of the level", found));
    }
    all.into_iter().flatten().collect()
}

/// Returns where the vertices of a batch are stored.
pub(crate) fn stored_rows(batch: &Batch) -> Vec<StoredRow> {
    let places = batch.field(LOCATION_FIELD).expect("each question here asks for places");
    let halves = |place: &[u8; 8]| {
        let place = u64::from_le_bytes(*place);
        (saturating_u32(place >> 32), saturating_u32(place & u64::from(u32::MAX))) // of 32 bits
    };
    places.column.bytes().as_chunks().0.iter().map(halves).collect()
}
