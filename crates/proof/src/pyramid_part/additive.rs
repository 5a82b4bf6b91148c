//! Additive levels: read by zarr-vectors, and compared with the original store.
//!
//! ```text
//! reference   opens each, reads every level, and finds only the vertices that the level adds
//! ours        level 0 shows the original contents; merged again, it is a single level
//! ```

use std::path::Path;

use serde_json::{Value, json};
use zvf_format::Class;
use zvf_model::{Kind, LevelId, LevelReader};
use zvf_pyramid::{Options, build};
use zvf_query::{Query, Reader};

use super::Case;
use crate::report::Report;
use crate::{contents, corpus};

/// Builds additive levels of a store into `folder`, with the expected results of zarr-vectors.
pub(super) async fn build_additive_levels(
    report: &mut Report,
    case: &Case,
    turn: usize,
    folder: &Path,
) -> anyhow::Result<()> {
    let path = folder.join(format!("{}.zarrvectors", case.id));
    archives::copy(&case.our_store(), &path)?;
    let address = path.to_string_lossy().into_owned();
    let before = read_contents(&address).await?;
    let (options, build_options) =
        (choose_options(&address, turn).await?, corpus::unsynced_options());
    match build(&address, &options, &build_options, |_| {}).await {
        Ok(levels) if levels.is_empty() => {
            report.skip("one object, or no points: there is nothing for a second level");
            std::fs::remove_dir_all(&path)?;
        }
        Ok(levels) => {
            let after = read_contents(&address).await?;
            report.check("level 0", after == before, "shows something else than before");
            let mut seen = Vec::new();
            for level in &levels {
                let added = read_increment(&address, level.level).await?;
                let same = level.vertices == added.len() as u64;
                report.check(&format!("level {}", level.level), same, "another number of vertices");
                seen.push(json!(added));
            }
            let counts: Vec<Value> = levels.iter().map(|level| json!(level.vertices)).collect();
            let about = json!({ "levels": counts, "points": seen });
            std::fs::write(folder.join(format!("{}.json", case.id)), about.to_string())?;
        }
        // For example points without objects, or edges between objects: nothing was written.
        Err(error) if error.class() == Class::Unsupported => {
            report.skip(error.sentence());
            let after = read_contents(&address).await?;
            report.check("refused", after == before, "the store is not what it was");
            std::fs::remove_dir_all(&path)?;
        }
        Err(error) => report.fail("levels", format!("{options:?}: {error}")),
    }
    Ok(())
}

/// Merges the levels of a store, and compares the result.
pub(super) async fn merge_levels(report: &mut Report, path: &Path) -> anyhow::Result<()> {
    let address = path.to_string_lossy();
    let before = read_contents(&address).await?;
    let none = Options { levels: Some(0), memory: 1 << 16, ..Options::default() };
    let levels = build(&address, &none, &corpus::unsynced_options(), |_| {}).await?;
    report.check("one level", levels.len() == 1, format!("{} levels", levels.len()));
    let after = read_contents(&address).await?;
    report.check("put together", after == before, "something else than was shown");
    let numbers = corpus::open(path).await?.level_numbers();
    report.check("levels", numbers == [0], format!("{numbers:?} instead of 0"));
    Ok(())
}

/// Returns options for objects if there are any, otherwise for points; the choice depends on the
/// turn.
async fn choose_options(address: &str, turn: usize) -> anyhow::Result<Options> {
    let store = corpus::open(address.as_ref()).await?;
    let level = LevelReader::open(&store, LevelId(0)).await?;
    let sparse = level.objects().await?.is_some() || level.kinds() != [Kind::PointCloud];
    Ok(Options {
        additive: true,
        levels: Some(1 + turn as u32 % 3),
        sparsity: if sparse { 2.0 } else { 1.0 },
        keep: (!sparse).then_some(0.3),
        memory: if turn.is_multiple_of(2) { 1 << 14 } else { 64 << 20 },
        chunk_scale: 1 + turn as u32 % 2,
        seed: turn as u64,
        ..Options::default()
    })
}

/// Returns the contents of level 0: vertices with their objects and attributes, and edges or faces
/// by the positions of their ends; in a fixed order.
async fn read_contents(address: &str) -> anyhow::Result<[Vec<Vec<u64>>; 2]> {
    let store = corpus::open(address.as_ref()).await?;
    let batch = Reader::new(store).run(&Query::all().with_owners()).await?.batch;
    let owner = |row: usize| {
        let owner = batch.vertex_objects().and_then(|owners| owners.get(row).copied().flatten());
        owner.map_or(u64::MAX, |id| id.0.unsigned_abs())
    };
    let mut names: Vec<_> = batch.fields().iter().collect();
    names.sort_by_key(|field| field.name.clone());
    let row = |row: usize| {
        let fields = names.iter().flat_map(|field| contents::point_at(&field.column, row));
        let at = contents::point_at(batch.positions(), row).into_iter().chain(fields);
        at.map(f64::to_bits).chain([owner(row)]).collect::<Vec<u64>>()
    };
    let mut rows: Vec<Vec<u64>> = (0..batch.len()).map(row).collect();
    let bits = |ends: Vec<Vec<f64>>| ends.into_iter().flatten().map(f64::to_bits).collect();
    let mut elements: Vec<Vec<u64>> =
        contents::element_points(&batch).into_iter().map(bits).collect();
    rows.sort_unstable();
    elements.sort_unstable();
    Ok([rows, elements])
}

/// Returns the vertices that the level stores itself.
async fn read_increment(address: &str, level: u32) -> anyhow::Result<Vec<Vec<f64>>> {
    let store = corpus::open(address.as_ref()).await?;
    let query = Query::all().at_level(LevelId(level)).increment_only();
    let batch = Reader::new(store).run(&query).await?.batch;
    Ok(contents::points(batch.positions()))
}
