//! Composite stores: extra geometries of a level, listed in `geometry_index`.
//!
//! A geometry is an array of vertices and one of links, or a group with the nodes of a level. Such a group is checked like a
//! level; this module checks only how it fits the others.

use zvf_format::num::{i64s_from_le, to_u64};
use zvf_metadata::Token;
use zvf_metadata::arrays::GeometryIndex;

use crate::array::ChunkArray;
use crate::cells::cell_finding;
use crate::finding::Finding;
use crate::level::LevelState;
use crate::objects::groups::sorted_ids;
use crate::rules::consistency::{C2, C40};
use crate::rules::geometry::G3;
use crate::rules::metadata::M20;
use crate::rules::structure::S18;
use crate::stop::Stop;
use crate::validation::Validation;

/// Opens the extra kinds of a level that are groups, and removes all extra kinds from its own.
pub(crate) async fn check_extra_kinds(
    run: &mut Validation,
    level: &mut LevelState,
) -> Result<(), Stop> {
    let group = match level.node.group("geometry_index").await {
        Ok(Some(group)) => group,
        Ok(None) => return Ok(()),
        Err(error) if crate::finding::is_content(&error) => return Ok(()), // found again below
        Err(error) => return Err(error.into()),
    };
    let Ok(index) = GeometryIndex::parse(group.attributes) else { return Ok(()) };
    for (name, entry) in index.entries {
        level.kinds.retain(|kind| kind.as_str() != name);
        let Some(group) = entry.group else { continue };
        match level.node.geometry(&group).await {
            Ok(node) => {
                level.extra_kinds.push(LevelState::new(node, vec![Token::from_text(&name)]));
            }
            Err(error) => run.add_store_error(&C40, &level.path(&group), &error)?,
        }
    }
    Ok(())
}

/// Checks C40: an object is of one kind.
fn check_one_kind_per_object(run: &mut Validation, level: &LevelState) {
    let mut ids: Vec<i64> = level.with_extra_kinds().filter_map(sorted_ids).flatten().collect();
    ids.sort_unstable();
    let duplicates = ids.windows(2).filter(|pair| pair.first() == pair.last());
    if let Some(id) = duplicates.clone().next().and_then(|pair| pair.first()) {
        let found = format!("{id}, and {} more that are of two", duplicates.count() - 1);
        let finding = Finding::new(&C40, level.path("geometry_index"));
        run.add(finding.with_details("ids of objects", "of one kind each", found));
    }
}

/// Checks C40 and G3 for every extra geometry of a level.
pub(crate) async fn check(run: &mut Validation, level: &LevelState) -> Result<(), Stop> {
    let path = level.path("geometry_index");
    let index = match level.node.group("geometry_index").await {
        Ok(Some(group)) => GeometryIndex::parse(group.attributes),
        Ok(None) => return Ok(()),
        Err(error) => return run.add_store_error(&S18, &path, &error),
    };
    let index = match index {
        Ok(index) => index,
        Err(error) => {
            run.add(Finding::from_metadata(&M20, &path, &error));
            return Ok(());
        }
    };
    check_one_kind_per_object(run, level);
    for (name, entry) in &index.entries {
        if let Some(group) = &entry.group {
            check_own_group(run, level, &path, (name, group), entry.vertex_count);
            continue;
        }
        let rows = check_vertices(run, level, &entry.array).await?;
        if let Some(rows) = rows.filter(|rows| i64::try_from(*rows) != Ok(entry.vertex_count)) {
            let finding = Finding::new(&C40, &path);
            run.add(finding.with_details(format!("{name}.vertex_count"), rows, entry.vertex_count));
        }
        if let (Some(array), Some(rows)) =
            (entry.links_array.as_ref().filter(|_| entry.has_links), rows)
        {
            check_links(run, level, array, rows, name == MESH).await?;
        }
    }
    Ok(())
}

/// Checks C40 for a geometry in a group of its own: the listed number of vertices.
fn check_own_group(
    run: &mut Validation,
    level: &LevelState,
    index: &str,
    (name, group): (&str, &str),
    count: i64,
) {
    let path = level.path(group);
    let Some(extra) = level.extra_kinds.iter().find(|extra| extra.name == path) else { return };
    let rows = extra.chunks.total_rows();
    if extra.chunks.is_whole() && i64::try_from(rows) != Ok(count) {
        let finding = Finding::new(&C40, index);
        run.add(finding.with_details(format!("{name}.vertex_count"), rows, count));
    }
}

/// Checks the vertices of a geometry without fragments, three floats each; returns how many there are.
async fn check_vertices(
    run: &mut Validation,
    level: &LevelState,
    name: &str,
) -> Result<Option<u64>, Stop> {
    let Some(array) = ChunkArray::open(run, &level.node, name).await? else {
        let finding = Finding::new(&C40, level.path(name));
        run.add(finding.with_details("array", "the rows of a geometry", "nothing"));
        return Ok(None);
    };
    let mut rows = 0_u64;
    let keys: Vec<_> = array.keys.iter().collect();
    for keys in keys.chunks(BATCH_CHUNKS) {
        run.step(&array.path, rows, rows)?;
        for (key, cell) in keys.iter().zip(array.cells.read_raw_many(keys).await) {
            match cell {
                Ok(bytes) => {
                    let len = bytes.map_or(0, |bytes| to_u64(bytes.len()));
                    rows += len / POSITION_BYTES;
                    if !len.is_multiple_of(POSITION_BYTES) || len == 0 && array.recorded {
                        let finding = Finding::new(&C40, &array.path).in_cell(key);
                        run.add(finding.with_details(
                            "bytes of the rows",
                            format!("a multiple of {POSITION_BYTES}"),
                            len,
                        ));
                    }
                }
                Err(error) if crate::finding::is_content(&error) => {
                    run.add(cell_finding(&array.path, key, &error));
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(Some(rows))
}

/// Checks that the links of a geometry name rows of it, in any chunk.
async fn check_links(
    run: &mut Validation,
    level: &LevelState,
    name: &str,
    rows: u64,
    are_faces: bool,
) -> Result<(), Stop> {
    let path = level.path(name);
    let array = match level.node.dense(name).await {
        Ok(Some(array)) => array,
        Ok(None) => {
            run.add(Finding::new(&C40, &path).with_details(
                "array",
                "the links of a geometry",
                "nothing",
            ));
            return Ok(());
        }
        Err(error) => return run.add_store_error(&C2, &path, &error),
    };
    let is_too_narrow = |width: &&u64| are_faces && **width < MIN_FACE_CORNERS;
    if let Some(width) = array.shape().get(1).filter(is_too_narrow) {
        run.add(Finding::new(&G3, &path).with_details("link_width", "3 or more", width));
    }
    let mut start = 0_u64;
    while start < array.len() {
        let stop = start.saturating_add(BATCH_ROWS).min(array.len()); // at most the rows
        let bytes = match array.rows(start..stop).await {
            Ok(bytes) => bytes,
            Err(error) => return run.add_store_error(&C2, &path, &error),
        };
        let is_outside = |row: i64| !u64::try_from(row).is_ok_and(|row| row < rows);
        if let Some(at) = i64s_from_le(&bytes).position(is_outside) {
            let columns = array.shape().get(1).copied().unwrap_or(1);
            // No overflow: the array was read up to here, and its length has 64 bits.
            let item = start.saturating_mul(columns).saturating_add(to_u64(at));
            let finding = Finding::new(&C40, &path).with_offset(item.saturating_mul(8));
            run.add(finding.with_details("row", format!("below {rows}"), "another"));
            return Ok(());
        }
        start = stop;
    }
    Ok(())
}

/// Bytes of a position: three floats of 32 bits.
const POSITION_BYTES: u64 = 12;
const BATCH_CHUNKS: usize = 64;
/// Number of rows of links per read.
const BATCH_ROWS: u64 = 1 << 18;
/// The name of the geometry whose links are faces, and the fewest corners of one.
const MESH: &str = "mesh";
const MIN_FACE_CORNERS: u64 = 3;
