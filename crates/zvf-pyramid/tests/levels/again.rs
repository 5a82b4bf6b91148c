//! Levels made again in part, of stores in which nothing changed: they come out as they were.

use std::collections::BTreeMap;
use std::path::Path;

use zvf_format::grid::ChunkShape;
use zvf_metadata::Axis;
use zvf_model::{Batch, Elements, Kind, ObjectId};
use zvf_pyramid::{Method, Options, PyramidEvent, Rebuilt, Stale, Unit, refresh};
use zvf_write::{Schema, WriteOptions, Writer};

use crate::blocks::{combs, room};
use crate::made::{build, floats, level, quick, sheet, values, walks, with_objects};

/// A store with chunks of 8, in shards or not, and its levels.
async fn store(path: &Path, batch: &Batch, shard: Option<&[u64]>, options: &Options) -> String {
    let address = path.join("store.zarrvectors").to_str().unwrap().to_owned();
    let axes = batch.positions().width() as usize;
    let chunk = ChunkShape::new(&vec![8.0; axes]).unwrap();
    let mut schema = Schema::new(batch.kind(), Axis::spatial(axes).unwrap(), chunk).unwrap();
    if let Some(shard) = shard {
        schema = schema.sharded(shard).unwrap();
    }
    let mut write = WriteOptions::default();
    write.build.sync = false;
    let mut writer = Writer::create(&address, schema, write).await.unwrap();
    if batch.kind().is_chain() {
        with_objects(5)(&mut writer);
    }
    writer.push(batch).unwrap();
    writer.finish().await.unwrap();
    build(&address, options).await;
    address
}

async fn refreshed(address: &str, options: &Options, stale: &Stale) -> Vec<Rebuilt> {
    let mut found = Vec::new();
    let note = |event: PyramidEvent<'_>| {
        if let PyramidEvent::Rebuilt(rebuilt) = event {
            found.push(rebuilt.clone());
        }
    };
    refresh(address, options, stale, &quick(), note).await.unwrap();
    found
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

/// So many sheets above each other, one object each; as meshes, or as graphs of their longest sides.
fn sheets(kind: Kind, count: i64) -> Batch {
    let one = sheet(12);
    let (at, faces) = (values(one.positions()), one.elements().unwrap().rows());
    let (mut all, mut rows, mut owners) = (Vec::new(), Vec::new(), Vec::new());
    for id in 0..count {
        let first = owners.len();
        all.extend(at.chunks(3).flat_map(|at| [at[0], at[1], at[2] + id as f64 * 2.5]));
        owners.resize(first + one.len(), Some(ObjectId(id)));
        let ends = |face: &[usize]| face[..if kind == Kind::Mesh { 3 } else { 2 }].to_vec();
        rows.extend(faces.chunks(3).flat_map(ends).map(|row| first + row));
    }
    let width = if kind == Kind::Mesh { 3 } else { 2 };
    Batch::new(kind, floats(all, 3))
        .with_vertex_objects(owners)
        .unwrap()
        .with_elements(Elements::new(width, rows).unwrap())
        .unwrap()
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn cells_of_chunks_that_did_not_change_are_not_written_again() {
    let dir = archives::scratch();
    let options = Options { levels: Some(2), size: Some(2.5), ..Options::default() };
    let address = store(dir.path(), &grid(), None, &options).await;
    let (before, files) = (inodes(&address), archives::tree(Path::new(&address)));
    let stale = Stale { boxes: vec![[vec![16.0, 8.0], vec![24.0, 16.0]]], objects: Vec::new() };
    let found = refreshed(&address, &options, &stale).await;
    let rebuilt = |level, all| Rebuilt {
        level,
        kind: Kind::PointCloud,
        unit: Unit::Chunks,
        built: 1,
        all,
        reason: None,
    };
    assert_eq!(found, [rebuilt(1, 9), rebuilt(2, 4)]);
    assert!(archives::tree(Path::new(&address)) == files);
    let after = inodes(&address);
    let written: Vec<&str> = after
        .iter()
        .filter(|(name, inode)| name.contains("/c/") && before.get(*name) != Some(*inode))
        .map(|(name, _)| name.as_str())
        .collect();
    let arrays = ["vertex_attributes/count", "vertex_fragments", "vertices"];
    let cells = [("1", "1/0"), ("2", "0/0")].into_iter();
    let wanted: Vec<String> = cells
        .flat_map(|(level, cell)| arrays.map(|array| format!("{level}/{array}/c/{cell}")))
        .collect();
    assert_eq!(written, wanted);
}

#[tokio::test(flavor = "multi_thread")]
async fn levels_of_which_nothing_changed_come_out_as_they_were() {
    let sized = |size| Options { levels: Some(2), size: Some(size), ..Options::default() };
    let collapse = Options { levels: Some(2), keep: Some(0.5), ..Options::default() };
    for (what, batch, shard, options) in [
        ("shards", grid(), Some(&[2, 3][..]), sized(2.5)),
        ("walks", walks(9, 60), None, sized(0.4)),
        ("walks in shards", walks(9, 60), Some(&[2, 2, 4][..]), sized(0.4)),
        ("combs", combs(9), None, Options { prune: Some(3.0), ..sized(0.01) }),
        ("webs", sheets(Kind::Graph, 5), Some(&[2, 1, 2][..]), sized(2.0)),
        ("sheets", sheets(Kind::Mesh, 5), None, collapse.clone()),
        ("sheets in shards", sheets(Kind::Mesh, 5), Some(&[1, 2, 2][..]), collapse),
    ] {
        let dir = archives::scratch();
        let address = store(dir.path(), &batch, shard, &options).await;
        let files = archives::tree(Path::new(&address));
        // Of combs nothing is left to go at level 2.
        let levels = if batch.kind() == Kind::Skeleton { 1 } else { 2 };
        let axes = batch.positions().width() as usize;
        let boxes = vec![[vec![8.0; axes], vec![16.0; axes]]];
        for stale in [Stale { boxes, objects: vec![3] }, Stale::default()] {
            let found = refreshed(&address, &options, &stale).await;
            assert_eq!(found.len(), levels, "{what}");
            let odd = found.iter().find(|one| one.reason.is_some() || one.built > 1);
            assert_eq!(odd, None, "{what}");
            let empty = stale == Stale::default();
            assert_eq!(found.iter().all(|one| one.built == 0), empty, "{what}: {found:?}");
            assert!(archives::tree(Path::new(&address)) == files, "{what} {empty}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn levels_that_were_made_in_another_way_are_made_anew() {
    let dir = archives::scratch();
    let sized = |size| Options { levels: Some(2), size: Some(size), ..Options::default() };
    let address = store(dir.path(), &grid(), None, &sized(2.5)).await;
    let found = refreshed(&address, &sized(4.0), &Stale::default()).await;
    let reasons: Vec<_> = found.iter().map(|one| (one.built == one.all, one.reason)).collect();
    let below = "all of the level below was built again";
    assert_eq!(reasons, [(true, Some("the level was made in another way")), (true, Some(below))]);
    let files = archives::tree(Path::new(&address));
    build(&address, &sized(4.0)).await;
    assert!(archives::tree(Path::new(&address)) == files);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_the_same_however_many_are_made_together() {
    let sized = |size| Options { levels: Some(1), size: Some(size), ..Options::default() };
    let collapse =
        Options { method: Some(Method::Collapse), levels: Some(1), ..Options::default() };
    for (what, batch, options) in [
        ("combs", combs(9), sized(0.2)),
        ("webs", sheets(Kind::Graph, 6), sized(2.0)),
        ("sheets", sheets(Kind::Mesh, 6), collapse),
    ] {
        let mut known = None;
        // Half of the memory is for what is being made: room for all of them, or for two.
        for vertices in [1_000_000, batch.len() as u64] {
            let dir = archives::scratch();
            let memory = room(batch.kind(), vertices * 2 / 3);
            let address =
                store(dir.path(), &batch, None, &Options { memory, ..options.clone() }).await;
            let coarse = level(&address, 1).await;
            let rows = coarse.elements().unwrap().rows().to_vec();
            let found =
                (values(coarse.positions()), rows, coarse.vertex_objects().unwrap().to_vec());
            assert!(found == *known.get_or_insert_with(|| found.clone()), "{what} {vertices}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_do_not_fit_in_memory_are_made_in_blocks() {
    let dir = archives::scratch();
    let options = Options { levels: Some(2), size: Some(2.0), ..Options::default() };
    let address = store(dir.path(), &sheets(Kind::Graph, 3), None, &options).await;
    let little = Options { memory: room(Kind::Graph, 150), ..options };
    let found = refreshed(&address, &little, &Stale { boxes: Vec::new(), objects: vec![1] }).await;
    let reasons: Vec<_> = found.iter().map(|one| (one.built == one.all, one.reason)).collect();
    let below = "all of the level below was built again";
    let why = "an object has more vertices than fit in memory";
    assert_eq!(reasons, [(true, Some(why)), (true, Some(below))]);
    let files = archives::tree(Path::new(&address));
    build(&address, &little).await;
    assert!(archives::tree(Path::new(&address)) == files);
}
