//! Levels of which only a part is built again: they have the bytes of levels built anew.

use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};
use zvf_format::grid::ChunkShape;
use zvf_metadata::{Axis, CrossLevelStorage, Dtype, DtypeKind};
use zvf_model::{Batch, Column, Field, Kind, ObjectId, Parts};
use zvf_pyramid::{Method, Options, Strategy, build};
use zvf_store::{BuildOptions, CodecPipeline};
use zvf_write::{Schema, WriteOptions, Writer};

use super::run;
use crate::medium::wait;
use crate::place::sibling;
use crate::refresh;
use crate::transaction::{CommitOptions, Refresh};

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    /// A multiple of 1/16 from `low` to `low + span`.
    fn within(&mut self, low: f64, span: u64) -> f64 {
        low + self.below(span * 16) as f64 / 16.0
    }
}

fn column(dtype: &str, width: u32, values: impl IntoIterator<Item = f64>) -> Column {
    let dtype = Dtype::parse(dtype).unwrap();
    let bytes: Vec<u8> = values
        .into_iter()
        .flat_map(|x| match (dtype.kind == DtypeKind::Float, dtype.size) {
            (true, 4) => (x as f32).to_le_bytes().to_vec(),
            (true, _) => x.to_le_bytes().to_vec(),
            (false, 2) => (x as i16).to_le_bytes().to_vec(),
            (false, _) => (x as i64).to_le_bytes().to_vec(),
        })
        .collect();
    Column::new(dtype, width, bytes.into()).unwrap()
}

/// A store in a folder that goes, and its twin.
struct Pair {
    _folder: tempfile::TempDir,
    store: PathBuf,
    twin: PathBuf,
}

impl Pair {
    fn new(schema: Schema, fill: impl FnOnce(&mut Writer), options: &Options) -> Self {
        let folder = archives::scratch();
        let place = |name: &str| folder.path().join(name).join("store.zarrvectors");
        let (store, twin) = (place("a"), place("b"));
        std::fs::create_dir(store.parent().unwrap()).unwrap();
        let mut write = WriteOptions::default();
        write.build.sync = false;
        let address = store.to_str().unwrap();
        let mut writer = wait(Writer::create(address, schema, write)).unwrap();
        fill(&mut writer);
        wait(writer.finish()).unwrap();
        let how = BuildOptions { replace: true, sync: false, ..BuildOptions::default() };
        assert!(!wait(build(address, options, &how, |_level| {})).unwrap().is_empty());
        Self { _folder: folder, store, twin }
    }

    /// Edits the store, refreshes it, and compares it with a twin all of whose levels are built; says what was built
    /// again.
    fn edit(&self, what: &str, lines: &[Json]) -> Vec<Json> {
        run(&self.store, lines).unwrap_or_else(|error| panic!("{what}: {error}"));
        let twin = self.twin.parent().unwrap();
        let _none_yet = std::fs::remove_dir_all(twin);
        copy(self.store.parent().unwrap(), twin);
        assert!(sibling(&self.twin).is_dir(), "its journal came along");
        let done = |store: &Path, how| refresh(store, how, &CommitOptions::default()).unwrap();
        let own = done(&self.store, Refresh::Stale);
        done(&self.twin, Refresh::All);
        let (found, wanted) = (archives::tree(&self.store), archives::tree(&self.twin));
        for key in found.keys().chain(wanted.keys()) {
            let text = |bytes: Option<&Vec<u8>>| {
                bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            };
            if found.get(key) != wanted.get(key) {
                panic!(
                    "{what}: {key}: found {:?}, expected {:?}; {lines:?} {own}",
                    text(found.get(key)),
                    text(wanted.get(key))
                );
            }
        }
        own["commits"][0]["levels_rebuilt"].as_array().cloned().unwrap_or_default()
    }
}

fn copy(from: &Path, to: &Path) {
    for (name, bytes) in archives::tree(from) {
        let path = to.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

/// Whether only a part of a level was built again. What held its largest error may be built again, and then all of it is.
fn is_partial(one: &Json) -> bool {
    let (built, all) = (one["built"].as_u64().unwrap(), one["all"].as_u64().unwrap());
    let reason = "the place of the largest error changed";
    assert!(one["reason"].is_null() || one["reason"] == reason, "{one}");
    one["reason"].is_null() && built < all
}

/// Edits single places, which leave most of a level: the first is mostly built in part, others at times. Gives what was
/// built of the first level by the first edit that left most of it.
fn assert_partial(what: &str, pair: &Pair, levels: usize, edits: &[Json]) -> Json {
    let each = edits.iter().map(|edit| pair.edit(what, std::slice::from_ref(edit)));
    let each: Vec<Vec<Json>> = each.collect();
    for level in 0..levels {
        let own: Vec<&Json> = each.iter().map(|rebuilt| &rebuilt[level]).collect();
        let partial = own.iter().filter(|one| is_partial(one)).count();
        assert!(partial >= if level == 0 { 3 } else { 1 }, "{what}: {own:?}");
    }
    each.iter().map(|rebuilt| &rebuilt[0]).find(|one| is_partial(one)).cloned().unwrap()
}

/// Moves the points of small boxes far apart from each other.
fn small_moves() -> Vec<Json> {
    let corners = [[0, 0], [33, 71], [102, 14], [77, 143], [21, 100]];
    let moved = corners.map(|[x, y]| {
        json!({"op": "vertex.move", "vertices": {"box": [[x, y], [x + 8, y + 8]]}, "by": [0.5, 0.5]})
    });
    moved.to_vec()
}

/// Moves the first vertices of some objects a little.
fn small_moves_of(kind: Kind) -> Vec<Json> {
    let moved = |id: i64| {
        let first = json!({"kind": kind.token(), "object": id, "index": [0]});
        json!({"op": "vertex.move", "vertices": first, "by": [0.25, 0.0]})
    };
    (2..7).map(moved).collect()
}

fn assert_whole(what: &str, rebuilt: &[Json], reason: &str) {
    for one in rebuilt {
        assert_eq!(one["built"], one["all"], "{what}: {rebuilt:?}");
    }
    assert_eq!(rebuilt[0]["reason"], reason, "{what}: {rebuilt:?}");
}

const CHUNK: f64 = 10.0;

fn schema(kind: Kind) -> Schema {
    let chunk = ChunkShape::new(&[CHUNK, CHUNK]).unwrap();
    Schema::new(kind, Axis::spatial(2).unwrap(), chunk).unwrap()
}

/// Points over 16 by 16 chunks, some of them the same; the one in the last chunk is far from others.
fn points(random: &mut Random, dtype: &str) -> Batch {
    let mut at = Vec::new();
    for _ in 0..2500 {
        at.extend([random.within(0.0, 150), random.within(0.0, 150)]);
    }
    at.extend([155.0, 155.0, 157.4, 157.4, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3]);
    let rows = at.len() / 2;
    let t = (0..rows).map(|row| (row % 17) as f64 * 0.3).collect::<Vec<_>>();
    let class = (0..rows).map(|row| (row % 5) as f64).collect::<Vec<_>>();
    Batch::new(Kind::PointCloud, column(dtype, 2, at))
        .with_field(Field::new("zeta", column("float32", 1, t)))
        .unwrap()
        .with_field(Field::new("class", column("int16", 1, class)))
        .unwrap()
}

/// A corner of three chunks somewhere, and what is done to its points.
fn edit_points(random: &mut Random, object: Option<i64>) -> Vec<Json> {
    let (x, y) = (random.within(0.0, 140), random.within(0.0, 140));
    let corner = json!({"box": [[x, y], [x + 8.0, y + 8.0]]});
    let mut add = json!({
        "op": "vertex.add", "positions": [[x, y], [x + 3.0, y + 0.5]],
        "attributes": {"zeta": [0.25, 9.0], "class": [3, 4]},
    });
    if let Some(object) = object {
        add["object"] = json!(object);
    }
    let all = [
        json!({"op": "vertex.move", "vertices": corner, "by": [1.25, -0.5]}),
        json!({"op": "vertex.move", "vertices": corner, "by": [0.0, 7.75]}),
        json!({"op": "vertex.set", "vertices": corner, "values": {"zeta": 3.5, "class": 1}}),
        json!({"op": "vertex.remove", "vertices": corner}),
        add,
    ];
    (0..=random.below(2)).map(|_| all[random.below(5) as usize].clone()).collect()
}

fn cells(levels: u32, size: f64) -> Options {
    Options { levels: Some(levels), size: Some(size), ..Options::default() }
}

#[test]
fn points_by_cells_are_built_again_by_chunks() {
    let zstd = || CodecPipeline::zstd(1);
    for (what, schema, dtype, size) in [
        ("plain", schema(Kind::PointCloud), "float32", 2.5),
        ("bins", schema(Kind::PointCloud).with_bins(&[5.0, 5.0]).unwrap(), "float32", 3.0),
        ("doubles", schema(Kind::PointCloud).with_codecs(zstd()), "float64", 0.7),
        ("shards", schema(Kind::PointCloud).sharded(&[4, 4]).unwrap(), "float32", 2.5),
        (
            "zstd in shards",
            schema(Kind::PointCloud).with_codecs(zstd()).sharded(&[3, 2]).unwrap(),
            "float32",
            1.5,
        ),
    ] {
        let mut random = Random(7);
        let batch = points(&mut random, dtype);
        let pair = Pair::new(schema, |writer| writer.push(&batch).unwrap(), &cells(3, size));
        let rebuilt = assert_partial(what, &pair, 3, &small_moves());
        assert_eq!(rebuilt["unit"], "chunks", "{what}");
        assert!(rebuilt["built"].as_u64().unwrap() <= 4, "{what}: {rebuilt:?}");
        let mut partial = 0;
        for round in 0..5 {
            let lines = edit_points(&mut random, None);
            let rebuilt = pair.edit(&format!("{what} {round}"), &lines);
            partial += usize::from(rebuilt.first().is_some_and(|one| one["reason"].is_null()));
        }
        assert!(partial >= 4, "{what}: {partial}");
        // The store grows above its highest corner, and below its lowest.
        let above = json!({
            "op": "vertex.add", "positions": [[170, 230]], "attributes": {"zeta": [1], "class": [2]},
        });
        pair.edit(what, &[above]);
        pair.edit(what, &[json!({"op": "vertex.move", "vertices": {"box": [[0, 0], [9, 9]]}, "by": [-40.0, -3.0]})]);
        // What goes leaves nothing of its chunks.
        pair.edit(
            what,
            &[json!({"op": "vertex.remove", "vertices": {"box": [[-50, -50], [45, 45]]}})],
        );
    }
}

#[test]
fn points_of_objects_are_built_again_by_chunks() {
    for sparsity in [1.0, 1.5] {
        let mut random = Random(3);
        let batch = points(&mut random, "float32");
        let owner = |row: usize| (row % 11 != 10).then_some(ObjectId((row % 11) as i64));
        let owners: Vec<Option<ObjectId>> = (0..batch.len()).map(owner).collect();
        let batch = batch.with_vertex_objects(owners).unwrap();
        let options = Options { sparsity, ..cells(2, 2.5) };
        let pair =
            Pair::new(schema(Kind::PointCloud), |writer| writer.push(&batch).unwrap(), &options);
        let what = format!("sparsity {sparsity}");
        assert_partial(&what, &pair, 2, &small_moves());
        for round in 0..6 {
            let lines = edit_points(&mut random, Some(2));
            pair.edit(&format!("{what} {round}"), &lines);
        }
        let object = json!({
            "op": "object.add", "positions": [[1, 1], [12, 3]], "attributes": {"zeta": [0.5, 0.75], "class": [1, 2]},
        });
        pair.edit(&what, &[json!({"op": "object.remove", "objects": [4]})]);
        pair.edit(&what, &[object]);
    }
}

/// Walks over 16 by 16 chunks, one object each; the last has the largest error.
fn walks(random: &mut Random, kind: Kind, count: usize, first: i64) -> Batch {
    let (mut at, mut offsets) = (Vec::new(), vec![0]);
    for walk in 0..count {
        let (mut x, mut y) = (random.within(20.0, 100), random.within(20.0, 100));
        let steps = if kind == Kind::Line { 2 } else { 8 + random.below(30) };
        for step in 0..steps {
            at.extend([x, y]);
            x += random.within(-2.0, 5);
            y += random.within(-2.0, 4) + if walk + 1 == count && step == 3 { 1.5 } else { 0.0 };
        }
        offsets.push(at.len() / 2);
    }
    let rows = at.len() / 2;
    let ids = (first..).take(count).map(ObjectId).collect();
    let along = (0..rows).map(|row| (row % 23) as f64 * 0.7).collect::<Vec<_>>();
    let class = (0..rows).map(|row| (row % 5) as f64).collect::<Vec<_>>();
    Batch::new(kind, column("float32", 2, at))
        .with_parts(Parts::new(offsets, ids).unwrap())
        .unwrap()
        .with_field(Field::new("zeta", column("float32", 1, along)))
        .unwrap()
        .with_field(Field::new("class", column("int16", 1, class)))
        .unwrap()
}

/// What is done to some chains.
fn edit_chains(random: &mut Random, kind: Kind, count: u64) -> Vec<Json> {
    let id = random.below(count);
    let (x, y) = (random.within(0.0, 100), random.within(0.0, 100));
    let one = json!({"object": id, "index": [0]});
    let corner = json!({"box": [[x, y], [x + 9.0, y + 9.0]]});
    let places = if kind == Kind::Line {
        json!([[x, y], [x + 1.0, y + 2.0]])
    } else {
        json!([[x, y], [x + 11.0, y + 2.0], [x + 12.0, y + 2.5]])
    };
    let values: Vec<u64> = (0..places.as_array().unwrap().len() as u64).collect();
    let mut all = vec![
        json!({"op": "vertex.move", "vertices": one, "by": [1.25, -0.5]}),
        json!({"op": "vertex.move", "vertices": one, "by": [-12.0, 3.0]}),
        json!({"op": "vertex.set", "vertices": corner, "values": {"zeta": 3.5, "class": 1}}),
        json!({"op": "object.add", "kind": kind.token(), "positions": places, "attributes": {"zeta": values, "class": values}}),
        json!({"op": "object.copy", "object": id, "by": [1.0, 1.0]}),
        json!({"op": "object.set", "objects": [id], "values": {"mass": 4.5}}),
    ];
    if kind != Kind::Line {
        all.push(json!({"op": "object.reverse", "objects": [id]}));
        all.push(json!({"op": "vertex.remove", "vertices": {"object": id, "index": [2]}}));
        all.push(json!({
            "op": "vertex.add", "object": id, "at": 1, "positions": [[x, y]],
            "attributes": {"zeta": [0.25], "class": [7]},
        }));
    }
    (0..=random.below(2)).map(|_| all[random.below(all.len() as u64) as usize].clone()).collect()
}

fn with_mass(writer: &mut Writer, count: usize) {
    let ids: Vec<ObjectId> = (0..count as i64).map(ObjectId).collect();
    let mass = column("float32", 1, (0..count).map(|id| ((id * 7) % 13) as f64));
    writer.object_fields(&ids, &[Field::new("mass", mass)]).unwrap();
    writer.group(Some("few"), zvf_model::Members::Ids(ids.into_iter().take(3).collect()));
}

#[test]
fn chains_are_built_again_by_objects() {
    let of = |method, size: Option<f64>, sparsity| Options {
        method: Some(method),
        size,
        sparsity,
        levels: Some(3),
        ..Options::default()
    };
    let sums = vec![("zeta".to_owned(), zvf_pyramid::Aggregation::Sum)];
    for (kind, shards, options) in [
        (Kind::Polyline, false, of(Method::Simplify, Some(0.5), 1.0)),
        (Kind::Polyline, true, Options { rules: sums, ..of(Method::Simplify, Some(0.5), 1.0) }),
        (Kind::Streamline, false, of(Method::Decimate, None, 1.0)),
        (Kind::Polyline, false, of(Method::Simplify, Some(0.3), 1.5)),
        (
            Kind::Streamline,
            true,
            Options {
                strategy: Strategy::Largest("mass".into()),
                ..of(Method::Simplify, Some(0.3), 1.2)
            },
        ),
        (Kind::Line, false, of(Method::Keep, None, 1.5)),
    ] {
        let what = format!("{kind} {} {}", options.method.unwrap(), options.sparsity);
        let (mut random, count) = (Random(11), 60);
        let batch = walks(&mut random, kind, count, 0);
        let mut schema = schema(kind);
        if shards {
            schema = schema.with_codecs(CodecPipeline::zstd(1)).sharded(&[4, 4]).unwrap();
        }
        let fill = |writer: &mut Writer| {
            with_mass(writer, count);
            writer.push(&batch).unwrap();
        };
        let pair = Pair::new(schema, fill, &options);
        let rebuilt = assert_partial(&what, &pair, 3, &small_moves_of(kind));
        assert_eq!(rebuilt["unit"], "objects", "{what}");
        assert!(rebuilt["built"].as_u64().unwrap() <= 1, "{what}: {rebuilt:?}");
        for round in 0..5 {
            let mut lines = edit_chains(&mut random, kind, count as u64);
            lines.push(small_moves_of(kind)[round % 5].clone()); // attributes of objects make nothing stale
            pair.edit(&format!("{what} {round}"), &lines);
        }
        pair.edit(&what, &[json!({"op": "object.remove", "objects": [5, 6]})]);
        if kind != Kind::Line {
            pair.edit(&what, &[json!({"op": "object.merge", "objects": [7, 9]})]);
        }
    }
}

#[test]
fn kinds_of_a_store_are_built_again_each_by_itself() {
    let mut random = Random(5);
    let (dots, lines) = (points(&mut random, "float32"), walks(&mut random, Kind::Polyline, 30, 0));
    let both = schema(Kind::PointCloud).and(Kind::Polyline).unwrap();
    let fill = |writer: &mut Writer| {
        let owners = vec![Some(ObjectId(100)); dots.len()];
        let dots = dots.clone().with_vertex_objects(owners).unwrap();
        writer.kind(Kind::PointCloud).unwrap().push(&dots).unwrap();
        writer.kind(Kind::Polyline).unwrap().push(&lines).unwrap();
    };
    let pair = Pair::new(both, fill, &cells(2, 0.7));
    assert_partial("a line", &pair, 4, &small_moves_of(Kind::Polyline));
    for round in 0..6 {
        let mut lines = edit_chains(&mut random, Kind::Polyline, 29);
        lines.retain(|line| line["op"] != "object.set");
        if round % 2 == 0 {
            lines.extend(edit_points(&mut random, Some(100)));
        }
        lines.retain(|line| line["vertices"]["box"].is_null() || line["op"] != "vertex.remove");
        for line in lines.iter_mut().filter(|line| !line["vertices"]["box"].is_null()) {
            line["vertices"]["kind"] = json!("point_cloud");
        }
        if !lines.is_empty() {
            pair.edit(&format!("both {round}"), &lines);
        }
    }
}

#[test]
fn what_cannot_be_built_in_part_is_built_as_a_whole() {
    let corner =
        json!({"op": "vertex.move", "vertices": {"box": [[0, 0], [3, 3]]}, "by": [0.5, 0.5]});
    let links = Options { links: CrossLevelStorage::Explicit, depth: -1, ..cells(2, 2.5) };
    let subset = Options { method: Some(Method::Subset), levels: Some(2), ..Options::default() };
    for (options, reason) in [
        (links, "vertices are linked between levels"),
        (subset, "the method looks at more than chunks or objects"),
        (cells(2, 25.0), "cells cover several chunks"),
    ] {
        let batch = points(&mut Random(9), "float32");
        let pair =
            Pair::new(schema(Kind::PointCloud), |writer| writer.push(&batch).unwrap(), &options);
        assert_whole(reason, &pair.edit(reason, std::slice::from_ref(&corner)), reason);
    }
    let batch = points(&mut Random(9), "float32");
    let pair =
        Pair::new(schema(Kind::PointCloud), |writer| writer.push(&batch).unwrap(), &cells(2, 2.5));
    // The vertex that is farthest from what stands for it goes; what differs is known all the same.
    let level: Json =
        serde_json::from_slice(&std::fs::read(pair.store.join("1/zarr.json")).unwrap()).unwrap();
    let recipe = &level["attributes"]["zarr_vectors_level"]["zvf.coarsening"];
    let at = &recipe["farthest"]["vertex"];
    let rebuilt =
        pair.edit("farthest", &[json!({"op": "vertex.remove", "vertices": {"box": [at, at]}})]);
    assert_whole("farthest", &rebuilt[..1], "the place of the largest error changed");
    assert!(rebuilt[1]["reason"] != "all of the level below was built again", "{rebuilt:?}");
    assert_partial("again", &pair, 2, &small_moves());
    // A column that went and came again has other values everywhere.
    let columns = [
        json!({"op": "column.drop", "scope": "vertex", "name": "zeta"}),
        json!({"op": "column.add", "scope": "vertex", "name": "zeta", "dtype": "float32", "fill": 7}),
    ];
    run(&pair.store, &columns).unwrap();
    assert_eq!(pair.edit("columns", std::slice::from_ref(&corner)), [] as [Json; 0]);
    assert_partial("after columns", &pair, 2, &small_moves());
}
