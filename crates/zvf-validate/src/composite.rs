//! Composite stores: geometries of their own, listed in `geometry_index`.

use zvf_format::metadata::arrays::GeometryIndex;

use crate::array::ChunkArray;
use crate::cells::of_cell;
use crate::finding::Finding;
use crate::level::LevelState;
use crate::num::{int64s, to_u64};
use crate::rules::consistency::{C2, C40};
use crate::rules::geometry::G3;
use crate::rules::metadata::M20;
use crate::rules::structure::S18;
use crate::run::{Run, Stop};

/// C40, G3: every geometry of a level.
pub(crate) async fn check(run: &mut Run, level: &LevelState) -> Result<(), Stop> {
    let path = level.path("geometry_index");
    let index = match level.node.group("geometry_index").await {
        Ok(Some(group)) => GeometryIndex::parse(group.attributes),
        Ok(None) => return Ok(()),
        Err(error) => return run.blame(&S18, &path, &error),
    };
    let index = match index {
        Ok(index) => index,
        Err(error) => {
            run.add(Finding::of_metadata(&M20, &path, &error));
            return Ok(());
        }
    };
    for (name, entry) in &index.entries {
        let rows = vertices(run, level, &entry.array).await?;
        if let Some(rows) = rows.filter(|rows| i64::try_from(*rows) != Ok(entry.vertex_count)) {
            let finding = Finding::new(&C40, &path);
            run.add(finding.told(format!("{name}.vertex_count"), rows, entry.vertex_count));
        }
        if let (Some(array), Some(rows)) =
            (entry.links_array.as_ref().filter(|_| entry.has_links), rows)
        {
            links(run, level, array, rows, name == MESH).await?;
        }
    }
    Ok(())
}

/// The rows of a geometry: three floats each, without fragments.
async fn vertices(run: &mut Run, level: &LevelState, name: &str) -> Result<Option<u64>, Stop> {
    let Some(array) = ChunkArray::open(run, &level.node, name).await? else {
        let finding = Finding::new(&C40, level.path(name));
        run.add(finding.told("array", "the rows of a geometry", "nothing"));
        return Ok(None);
    };
    let mut rows = 0_u64;
    let keys: Vec<_> = array.keys.iter().collect();
    for keys in keys.chunks(BATCH) {
        run.step(&array.path, rows, rows)?;
        for (key, cell) in keys.iter().zip(array.cells.raw_many(keys).await) {
            match cell {
                Ok(bytes) => {
                    let len = bytes.map_or(0, |bytes| to_u64(bytes.len()));
                    rows = rows.saturating_add(len.checked_div(ROW).unwrap_or(0));
                    if !len.is_multiple_of(ROW) || len == 0 && array.recorded {
                        let finding = Finding::new(&C40, &array.path).in_cell(key);
                        run.add(finding.told(
                            "bytes of the rows",
                            format!("a multiple of {ROW}"),
                            len,
                        ));
                    }
                }
                Err(error) if crate::finding::is_content(&error) => {
                    run.add(of_cell(&array.path, key, &error));
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
    run: &mut Run,
    level: &LevelState,
    name: &str,
    rows: u64,
    faces: bool,
) -> Result<(), Stop> {
    let path = level.path(name);
    let array = match level.node.dense(name).await {
        Ok(Some(array)) => array,
        Ok(None) => {
            run.add(Finding::new(&C40, &path).told("array", "the links of a geometry", "nothing"));
            return Ok(());
        }
        Err(error) => return run.blame(&C2, &path, &error),
    };
    if let Some(width) = array.shape().get(1).filter(|width| faces && **width < CORNERS) {
        run.add(Finding::new(&G3, &path).told("link_width", "3 or more", width));
    }
    let mut start = 0_u64;
    while start < array.len() {
        let stop = start.saturating_add(PIECE).min(array.len());
        let bytes = match array.rows(start..stop).await {
            Ok(bytes) => bytes,
            Err(error) => return run.blame(&C2, &path, &error),
        };
        let bad = |row: i64| !u64::try_from(row).is_ok_and(|row| row < rows);
        if let Some(at) = int64s(&bytes).position(bad) {
            let columns = array.shape().get(1).copied().unwrap_or(1);
            let item = start.saturating_mul(columns).saturating_add(to_u64(at));
            let finding = Finding::new(&C40, &path).at(item.saturating_mul(8));
            run.add(finding.told("row", format!("below {rows}"), "another"));
            return Ok(());
        }
        start = stop;
    }
    Ok(())
}

/// Bytes of three floats of 32 bits.
const ROW: u64 = 12;
const BATCH: usize = 64;
/// Rows of links that are read at once.
const PIECE: u64 = 1 << 18;
/// The name of the geometry whose links are faces, and the fewest corners of one.
const MESH: &str = "mesh";
const CORNERS: u64 = 3;
