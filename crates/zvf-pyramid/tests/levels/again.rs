//! Partial rebuilds of levels: without changes in the store they give the same files.

use std::collections::BTreeMap;
use std::path::Path;

use tempfile::TempDir;
use zvf_model::{Batch, Elements, Kind, ObjectId};
use zvf_pyramid::{Method, Options, PyramidEvent, RebuiltLevel, Reuse, Stale, Unit, build_reusing};
use zvf_write::Writer;

use crate::blocks::{combs, memory_for};
use crate::fixtures::{
    build, floats, level, schema, sheet, unsynced, values, walks, with_objects, write,
};

/// Writes a store with chunks of side 8, sharded or not, and builds its levels.
async fn store(batch: &Batch, shard: Option<&[u64]>, options: &Options) -> (TempDir, String) {
    let mut schema = schema(batch.kind(), batch.positions().width() as usize, 8.0);
    if let Some(shard) = shard {
        schema = schema.with_shard_shape(shard).unwrap();
    }
    let fill = |writer: &mut Writer| {
        if batch.kind().is_chain() {
            with_objects(5)(writer);
        }
        writer.push(batch).unwrap();
    };
    let (dir, address) = write(schema, fill).await;
    build(&address, options).await;
    (dir, address)
}

async fn refresh_levels(address: &str, options: &Options, stale: &Stale) -> Vec<RebuiltLevel> {
    let mut reports = Vec::new();
    let note = |event: PyramidEvent<'_>| {
        if let PyramidEvent::Rebuilt(rebuilt) = event {
            reports.push(rebuilt.clone());
        }
    };
    build_reusing(address, options, &unsynced(), Reuse::Unchanged(stale), note).await.unwrap();
    reports
}

#[cfg(unix)]
fn inodes(address: &str) -> BTreeMap<String, u64> {
    use std::os::unix::fs::MetadataExt as _;
    let root = Path::new(address);
    let names = archives::tree(root).into_keys();
    names.map(|name| (name.clone(), root.join(&name).metadata().unwrap().ino())).collect()
}

fn grid() -> Batch {
    let at = (0..2304).flat_map(|i| [f64::from(i % 48) + 0.25, f64::from(i / 48) * 1.01]);
    Batch::new(Kind::PointCloud, floats(at, 2))
}

/// Returns `count` sheets above each other, one object each, as meshes or as graphs of their longest sides.
fn sheets(kind: Kind, count: i64) -> Batch {
    let single = sheet(12);
    let (at, faces) = (values(single.positions()), single.elements().unwrap().rows());
    let (mut positions, mut rows, mut owners) = (Vec::new(), Vec::new(), Vec::new());
    for id in 0..count {
        let first = owners.len();
        positions.extend(at.chunks(3).flat_map(|at| [at[0], at[1], at[2] + id as f64 * 2.5]));
        owners.resize(first + single.len(), Some(ObjectId(id)));
        let ends = |face: &[usize]| face[..if kind == Kind::Mesh { 3 } else { 2 }].to_vec();
        rows.extend(faces.chunks(3).flat_map(ends).map(|row| first + row));
    }
    let width = if kind == Kind::Mesh { 3 } else { 2 };
    Batch::new(kind, floats(positions, 3))
        .with_vertex_objects(owners)
        .unwrap()
        .with_elements(Elements::new(width, rows).unwrap())
        .unwrap()
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn refresh_does_not_rewrite_cells_of_unchanged_chunks() {
    let options = Options { levels: Some(2), size: Some(2.5), ..Options::default() };
    let (_dir, address) = store(&grid(), None, &options).await;
    let (before, files) = (inodes(&address), archives::tree(Path::new(&address)));
    let stale = Stale { boxes: vec![[vec![16.0, 8.0], vec![24.0, 16.0]]], objects: Vec::new() };
    let actual = refresh_levels(&address, &options, &stale).await;
    let rebuilt = |level, all| RebuiltLevel {
        level,
        kind: Kind::PointCloud,
        unit: Unit::Chunks,
        built: 1,
        all,
        reason: None,
    };
    assert_eq!(actual, [rebuilt(1, 9), rebuilt(2, 4)]);
    assert!(archives::tree(Path::new(&address)) == files);
    let after = inodes(&address);
    let written: Vec<&str> = after
        .iter()
        .filter(|(name, inode)| name.contains("/c/") && before.get(*name) != Some(*inode))
        .map(|(name, _)| name.as_str())
        .collect();
    let arrays = ["vertex_attributes/count", "vertex_fragments", "vertices"];
    let cells = [("1", "1/0"), ("2", "0/0")].into_iter();
    let expected: Vec<String> = cells
        .flat_map(|(level, cell)| arrays.map(|array| format!("{level}/{array}/c/{cell}")))
        .collect();
    assert_eq!(written, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn refresh_of_unchanged_levels_gives_the_same_files() {
    let sized = |size| Options { levels: Some(2), size: Some(size), ..Options::default() };
    let collapse = Options { levels: Some(2), keep: Some(0.5), ..Options::default() };
    for (name, batch, shard, options) in [
        ("shards", grid(), Some(&[2, 3][..]), sized(2.5)),
        ("walks", walks(9, 60), None, sized(0.4)),
        ("walks in shards", walks(9, 60), Some(&[2, 2, 4][..]), sized(0.4)),
        ("combs", combs(9), None, Options { prune: Some(3.0), ..sized(0.01) }),
        ("webs", sheets(Kind::Graph, 5), Some(&[2, 1, 2][..]), sized(2.0)),
        ("sheets", sheets(Kind::Mesh, 5), None, collapse.clone()),
        ("sheets in shards", sheets(Kind::Mesh, 5), Some(&[1, 2, 2][..]), collapse),
    ] {
        let (_dir, address) = store(&batch, shard, &options).await;
        let files = archives::tree(Path::new(&address));
        // Level 2 of the combs would not be smaller than level 1.
        let levels = if batch.kind() == Kind::Skeleton { 1 } else { 2 };
        let axes = batch.positions().width() as usize;
        let boxes = vec![[vec![8.0; axes], vec![16.0; axes]]];
        for stale in [Stale { boxes, objects: vec![3] }, Stale::default()] {
            let rebuilt = refresh_levels(&address, &options, &stale).await;
            assert_eq!(rebuilt.len(), levels, "{name}");
            let odd = rebuilt.iter().find(|level| level.reason.is_some() || level.built > 1);
            assert_eq!(odd, None, "{name}");
            let is_unchanged = stale == Stale::default();
            let is_empty = rebuilt.iter().all(|level| level.built == 0);
            assert_eq!(is_empty, is_unchanged, "{name}: {rebuilt:?}");
            assert!(archives::tree(Path::new(&address)) == files, "{name} {is_unchanged}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refresh_with_other_options_rebuilds_whole_levels() {
    let sized = |size| Options { levels: Some(2), size: Some(size), ..Options::default() };
    let (_dir, address) = store(&grid(), None, &sized(2.5)).await;
    let rebuilt = refresh_levels(&address, &sized(4.0), &Stale::default()).await;
    let reasons: Vec<_> =
        rebuilt.iter().map(|level| (level.built == level.all, level.reason)).collect();
    let below_reason = "all of the level below was built again";
    let level_reason = "the level was built in another way";
    assert_eq!(reasons, [(true, Some(level_reason)), (true, Some(below_reason))]);
    let files = archives::tree(Path::new(&address));
    build(&address, &sized(4.0)).await;
    assert!(archives::tree(Path::new(&address)) == files);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_do_not_depend_on_how_many_fit_in_memory() {
    let sized = |size| Options { levels: Some(1), size: Some(size), ..Options::default() };
    let collapse =
        Options { method: Some(Method::Collapse), levels: Some(1), ..Options::default() };
    for (name, batch, options) in [
        ("combs", combs(9), sized(0.2)),
        ("webs", sheets(Kind::Graph, 6), sized(2.0)),
        ("sheets", sheets(Kind::Mesh, 6), collapse),
    ] {
        let mut expected = None;
        // Half of the memory is for the objects being built: it holds all of them, or two.
        for vertices in [1_000_000, batch.len() as u64] {
            let memory = memory_for(batch.kind(), vertices * 2 / 3);
            let (_dir, address) = store(&batch, None, &Options { memory, ..options.clone() }).await;
            let coarse = level(&address, 1).await;
            let rows = coarse.elements().unwrap().rows().to_vec();
            let actual =
                (values(coarse.positions()), rows, coarse.vertex_objects().unwrap().to_vec());
            assert!(actual == *expected.get_or_insert_with(|| actual.clone()), "{name} {vertices}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refresh_builds_objects_larger_than_memory_in_blocks() {
    let options = Options { levels: Some(2), size: Some(2.0), ..Options::default() };
    let (_dir, address) = store(&sheets(Kind::Graph, 3), None, &options).await;
    let low_memory = Options { memory: memory_for(Kind::Graph, 150), ..options };
    let stale = Stale { boxes: Vec::new(), objects: vec![1] };
    let rebuilt = refresh_levels(&address, &low_memory, &stale).await;
    let reasons: Vec<_> =
        rebuilt.iter().map(|level| (level.built == level.all, level.reason)).collect();
    let below_reason = "all of the level below was built again";
    let object_reason = "an object has more vertices than fit in memory";
    assert_eq!(reasons, [(true, Some(object_reason)), (true, Some(below_reason))]);
    let files = archives::tree(Path::new(&address));
    build(&address, &low_memory).await;
    assert!(archives::tree(Path::new(&address)) == files);
}
