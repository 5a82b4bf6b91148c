//! Composite stores: extra geometries of a level, listed in `geometry_index`.
//!
//! A geometry is an array of vertices and one of links, or a group with the nodes of a level. Such
//! a group is checked like a level; this module only checks its relation to the others.

use zvf_error::Result;
use zvf_format::num::{i64s_from_le, to_u64};
use zvf_metadata::Token;
use zvf_metadata::arrays::GeometryIndex;

use crate::array::ChunkArray;
use crate::cells::cell_finding;
use crate::finding::{is_content, readable};
use crate::level::LevelState;
use crate::objects::groups::sorted_ids;
use crate::rules::{C, G, S};
use crate::validation::{Validation, batches};

/// Opens the extra kinds of a level that are groups, and removes all extra kinds from its own.
pub(crate) async fn check_extra_kinds(run: &mut Validation, level: &mut LevelState) -> Result<()> {
    // What cannot be read is found again below.
    let group = readable(level.node.group("geometry_index").await)?;
    let Some(group) = group.flatten() else { return Ok(()) };
    let Ok(index) = GeometryIndex::parse(group.attributes) else { return Ok(()) };
    for (name, entry) in index.entries {
        level.kinds.retain(|kind| kind.as_str() != name);
        let Some(group) = entry.group else { continue };
        let node = level.node.geometry(&group).await;
        if let Some(node) = run.take(C[40], &level.path(&group), node)? {
            level.extra_kinds.push(LevelState::new(node, vec![Token::from_text(&name)]));
        }
    }
    Ok(())
}

/// Checks C40: every object has one kind.
fn check_one_kind_per_object(run: &mut Validation, level: &LevelState) {
    let mut ids: Vec<i64> = level.with_extra_kinds().filter_map(sorted_ids).flatten().collect();
    ids.sort_unstable();
    let duplicates = ids.windows(2).filter(|pair| pair.first() == pair.last());
    if let Some(id) = duplicates.clone().next().and_then(|pair| pair.first()) {
        let found = format!("{id}, and {} more that are of two", duplicates.count() - 1);
        run.add(C[40].at(level.path("geometry_index")).expects(
            "ids of objects",
            "of one kind each",
            found,
        ));
    }
}

/// Checks C40 and G3 for every extra geometry of a level.
pub(crate) async fn check(run: &mut Validation, level: &LevelState) -> Result<()> {
    let path = level.path("geometry_index");
    let group = level.node.group("geometry_index").await;
    let Some(group) = run.take(S[18], &path, group)?.flatten() else { return Ok(()) };
    let index = GeometryIndex::parse(group.attributes);
    let Some(index) = run.parsed(&path, index) else { return Ok(()) };
    check_one_kind_per_object(run, level);
    for (name, entry) in &index.entries {
        if let Some(group) = &entry.group {
            check_own_group(run, level, &path, (name, group), entry.vertex_count);
            continue;
        }
        let rows = check_vertices(run, level, &entry.array).await?;
        if let Some(rows) = rows.filter(|rows| i64::try_from(*rows) != Ok(entry.vertex_count)) {
            run.add(C[40].at(&path).expects(
                format!("{name}.vertex_count"),
                rows,
                entry.vertex_count,
            ));
        }
        if let (Some(array), Some(rows)) =
            (entry.links_array.as_ref().filter(|_| entry.has_links), rows)
        {
            check_links(run, level, array, rows, name == MESH).await?;
        }
    }
    Ok(())
}

/// Checks C40 for a geometry in its own group: the listed number of vertices.
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
        run.add(C[40].at(index).expects(format!("{name}.vertex_count"), rows, count));
    }
}

/// Checks the vertices of a geometry without fragments, three floats each; returns how many there are.
async fn check_vertices(
    run: &mut Validation,
    level: &LevelState,
    name: &str,
) -> Result<Option<u64>> {
    let Some(array) = ChunkArray::open(run, &level.node, name).await? else {
        run.add(C[40].at(level.path(name)).expects("array", "the rows of a geometry", "nothing"));
        return Ok(None);
    };
    let mut rows = 0_u64;
    let keys: Vec<_> = array.keys.iter().collect();
    for keys in keys.chunks(BATCH_CHUNKS) {
        run.step(&array.path, rows, rows)?;
        for (key, cell) in keys.iter().zip(array.cells.read_raw_many(keys).await) {
            let bytes = match cell {
                Err(error) if is_content(&error) => {
                    run.add(cell_finding(&array.path, key, &error));
                    return Ok(None);
                }
                cell => cell?,
            };
            let len = bytes.map_or(0, |bytes| to_u64(bytes.len()));
            rows += len / POSITION_BYTES;
            if !len.is_multiple_of(POSITION_BYTES) || len == 0 && array.recorded {
                let expected = format!("a multiple of {POSITION_BYTES}");
                let finding = C[40].at(&array.path).in_cell(key);
                run.add(finding.expects("bytes of the rows", expected, len));
            }
        }
    }
    Ok(Some(rows))
}

/// Checks that the links of a geometry refer to existing rows of it, in any chunk.
async fn check_links(
    run: &mut Validation,
    level: &LevelState,
    name: &str,
    rows: u64,
    are_faces: bool,
) -> Result<()> {
    let path = level.path(name);
    let array = run.dense(&path).await?;
    if array.as_ref().is_some_and(Option::is_none) {
        run.add(C[40].at(&path).expects("array", "the links of a geometry", "nothing"));
    }
    let Some(array) = array.flatten() else { return Ok(()) };
    let is_too_narrow = |width: &&u64| are_faces && **width < MIN_FACE_CORNERS;
    if let Some(width) = array.shape().get(1).filter(is_too_narrow) {
        run.add(G[3].at(&path).expects("link_width", "3 or more", width));
    }
    for batch in batches(array.len(), BATCH_ROWS) {
        let bytes = run.take(C[2], &path, array.rows(batch.clone()).await)?;
        let Some(bytes) = bytes else { return Ok(()) };
        let is_outside = |row: i64| !u64::try_from(row).is_ok_and(|row| row < rows);
        if let Some(at) = i64s_from_le(&bytes).position(is_outside) {
            let columns = array.shape().get(1).copied().unwrap_or(1);
            // No overflow: the array was read up to here, and its length has 64 bits.
            let item = batch.start.saturating_mul(columns).saturating_add(to_u64(at));
            let finding = C[40].at(&path).with_offset(item.saturating_mul(8));
            run.add(finding.expects("row", format!("below {rows}"), "another"));
            return Ok(());
        }
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
