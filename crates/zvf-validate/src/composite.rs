//! Composite stores: extra geometries of a level, listed in `geometry_index`.
//!
//! A geometry is vertices and links alone, or a group with all that a level has. Such a group is looked at
//! as a level is; here is only what it has to do with the others.

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

/// The extra kinds of a level, and the groups of those that are like levels.
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
            Ok(node) => level.beside.push(LevelState::new(node, vec![Token::from_text(&name)])),
            Err(error) => run.add_store_error(&C40, &level.path(&group), &error)?,
        }
    }
    Ok(())
}

/// C40: an object is of one kind.
fn check_one_kind_each(run: &mut Validation, level: &LevelState) {
    let mut ids: Vec<i64> = level.all().filter_map(sorted_ids).flatten().collect();
    ids.sort_unstable();
    let twice = ids.windows(2).filter(|two| two.first() == two.last());
    if let Some(id) = twice.clone().next().and_then(|two| two.first()) {
        let found = format!("{id}, and {} more that are of two", twice.count() - 1);
        let finding = Finding::new(&C40, level.path("geometry_index"));
        run.add(finding.with_details("ids of objects", "of one kind each", found));
    }
}

/// C40, G3: every geometry of a level.
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
    check_one_kind_each(run, level);
    for (name, entry) in &index.entries {
        if let Some(group) = &entry.group {
            check_own_group(run, level, &path, (name, group), entry.vertex_count);
            continue;
        }
        let rows = vertices(run, level, &entry.array).await?;
        if let Some(rows) = rows.filter(|rows| i64::try_from(*rows) != Ok(entry.vertex_count)) {
            let finding = Finding::new(&C40, &path);
            run.add(finding.with_details(format!("{name}.vertex_count"), rows, entry.vertex_count));
        }
        if let (Some(array), Some(rows)) =
            (entry.links_array.as_ref().filter(|_| entry.has_links), rows)
        {
            links(run, level, array, rows, name == MESH).await?;
        }
    }
    Ok(())
}

/// C40: what is listed of a geometry in a group of its own.
fn check_own_group(
    run: &mut Validation,
    level: &LevelState,
    index: &str,
    (name, group): (&str, &str),
    count: i64,
) {
    let path = level.path(group);
    let Some(own) = level.beside.iter().find(|own| own.name == path) else { return };
    let rows = own.chunks.total_rows();
    if own.chunks.is_whole() && i64::try_from(rows) != Ok(count) {
        let finding = Finding::new(&C40, index);
        run.add(finding.with_details(format!("{name}.vertex_count"), rows, count));
    }
}

/// The rows of a geometry: three floats each, without fragments.
async fn vertices(
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
        for (key, cell) in keys.iter().zip(array.cells.raw_many(keys).await) {
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

/// The links of a geometry: rows of it, whichever chunk they lie in.
async fn links(
    run: &mut Validation,
    level: &LevelState,
    name: &str,
    rows: u64,
    faces: bool,
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
    if let Some(width) = array.shape().get(1).filter(|width| faces && **width < MIN_FACE_CORNERS) {
        run.add(Finding::new(&G3, &path).with_details("link_width", "3 or more", width));
    }
    let mut start = 0_u64;
    while start < array.len() {
        let stop = start.saturating_add(BATCH_ROWS).min(array.len()); // at most the rows
        let bytes = match array.rows(start..stop).await {
            Ok(bytes) => bytes,
            Err(error) => return run.add_store_error(&C2, &path, &error),
        };
        let bad = |row: i64| !u64::try_from(row).is_ok_and(|row| row < rows);
        if let Some(at) = i64s_from_le(&bytes).position(bad) {
            let columns = array.shape().get(1).copied().unwrap_or(1);
            // The array was read up to here: its length has 64 bits.
            let item = start.saturating_mul(columns).saturating_add(to_u64(at));
            let finding = Finding::new(&C40, &path).with_offset(item.saturating_mul(8));
            run.add(finding.with_details("row", format!("below {rows}"), "another"));
            return Ok(());
        }
        start = stop;
    }
    Ok(())
}

/// Bytes of three floats of 32 bits.
const POSITION_BYTES: u64 = 12;
const BATCH_CHUNKS: usize = 64;
/// Rows of links that are read at once.
const BATCH_ROWS: u64 = 1 << 18;
/// The name of the geometry whose links are faces, and the fewest corners of one.
const MESH: &str = "mesh";
const MIN_FACE_CORNERS: u64 = 3;
