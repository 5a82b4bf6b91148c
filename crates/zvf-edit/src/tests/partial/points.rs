//! Points: a refresh rebuilds the changed chunks.

use serde_json::{Value as Json, json};
use zvf_metadata::CrossLevelStorage;
use zvf_model::{Batch, Field, Kind, ObjectId};
use zvf_pyramid::{Method, Options};
use zvf_store::CodecPipeline;
use zvf_write::Schema;

use super::{Pair, Random, SIDE, assert_full, assert_partial, column, run, schema};

/// Creates points over 5 by 5 chunks, some of them equal. The one in the last chunk is far from the others.
pub(super) fn points(random: &mut Random, dtype: &str) -> Batch {
    let mut at = Vec::new();
    for _ in 0..300 {
        at.extend([random.next_within(0.0, SIDE), random.next_within(0.0, SIDE)]);
    }
    at.extend([45.0, 45.0, 47.4, 47.4, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3]);
    let rows = at.len() / 2;
    let t = (0..rows).map(|row| (row % 17) as f64 * 0.3).collect::<Vec<_>>();
    let class = (0..rows).map(|row| (row % 5) as f64).collect::<Vec<_>>();
    Batch::new(Kind::PointCloud, column(dtype, 2, at))
        .with_field(Field::new("zeta", column("float32", 1, t)))
        .unwrap()
        .with_field(Field::new("class", column("int16", 1, class)))
        .unwrap()
}

/// Returns moves of the points of small boxes that are far apart.
fn small_moves() -> Vec<Json> {
    let corners = [[3, 31], [31, 4]];
    let moves = corners.map(|[x, y]| {
        json!({"op": "vertex.move", "vertices": {"box": [[x, y], [x + 8, y + 8]]}, "by": [0.5, 0.5]})
    });
    moves.to_vec()
}

/// Returns random edits of the points of a random box.
pub(super) fn edit_points(random: &mut Random, object: Option<i64>) -> Vec<Json> {
    let (x, y) = (random.next_within(0.0, SIDE), random.next_within(0.0, SIDE));
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
    (0..=random.next_below(2)).map(|_| all[random.next_below(5) as usize].clone()).collect()
}

pub(super) fn cells(levels: u32, size: f64) -> Options {
    Options { levels: Some(levels), size: Some(size), ..Options::default() }
}

#[test]
fn clustered_points_are_refreshed_by_chunks() {
    let (zstd, cloud) = (|| CodecPipeline::zstd(1), || schema(Kind::PointCloud));
    let shards = |schema: Schema, shape| schema.with_shard_shape(shape).unwrap();
    for (label, schema, dtype, options) in [
        ("plain", cloud(), "float32", cells(3, 2.5)),
        ("bins", cloud().with_bins(&[5.0, 5.0]).unwrap(), "float32", cells(2, 3.0)),
        ("doubles", cloud().with_codecs(zstd()), "float64", cells(2, 0.7)),
        ("shards", shards(cloud(), &[4, 4]), "float32", cells(2, 2.5)),
        ("sharded zstd", shards(cloud().with_codecs(zstd()), &[3, 2]), "float32", cells(2, 1.5)),
    ] {
        let mut random = Random(7);
        let batch = points(&mut random, dtype);
        let pair = Pair::of(schema, &batch, &options);
        let rebuilt = assert_partial(label, &pair, &small_moves());
        assert_eq!(rebuilt["unit"], "chunks", "{label}");
        assert!(rebuilt["built"].as_u64().unwrap() <= 4, "{label}: {rebuilt:?}");
        pair.edit(label, &edit_points(&mut random, None));
        // The store grows beyond its highest and its lowest corner.
        let move_up = json!({
            "op": "vertex.add", "positions": [[67, 80]], "attributes": {"zeta": [1], "class": [2]},
        });
        let move_down = json!({"op": "vertex.move", "vertices": {"box": [[0, 0], [9, 9]]}, "by": [-40.0, -3.0]});
        pair.edit(label, &[move_up, move_down]);
        // Removing all points of chunks removes the chunks.
        pair.edit(
            label,
            &[json!({"op": "vertex.remove", "vertices": {"box": [[-50, -50], [25, 25]]}})],
        );
    }
}

#[test]
fn points_of_objects_are_refreshed_by_chunks() {
    for sparsity in [1.0, 1.5] {
        let mut random = Random(3);
        let batch = points(&mut random, "float32");
        let owner = |row: usize| (row % 11 != 10).then_some(ObjectId((row % 11) as i64));
        let owners: Vec<Option<ObjectId>> = (0..batch.len()).map(owner).collect();
        let batch = batch.with_vertex_objects(owners).unwrap();
        let options = Options { sparsity, ..cells(2, 2.5) };
        let pair = Pair::of(schema(Kind::PointCloud), &batch, &options);
        let label = format!("sparsity {sparsity}");
        assert_partial(&label, &pair, &small_moves());
        pair.edit(&label, &edit_points(&mut random, Some(2)));
        let object = json!({
            "op": "object.add", "positions": [[1, 1], [12, 3]], "attributes": {"zeta": [0.5, 0.75], "class": [1, 2]},
        });
        let removal = json!({"op": "object.remove", "objects": [4]});
        pair.edit(&label, &[removal, object]);
    }
}

#[test]
fn points_are_rebuilt_fully_where_parts_depend_on_each_other() {
    let corner =
        json!({"op": "vertex.move", "vertices": {"box": [[0, 0], [3, 3]]}, "by": [0.5, 0.5]});
    let links = Options { links: CrossLevelStorage::Explicit, depth: -1, ..cells(2, 2.5) };
    let subset = Options { method: Some(Method::Subset), levels: Some(2), ..Options::default() };
    for (options, reason) in [
        (links, "vertices are linked between levels"),
        (subset, "the method looks at more than chunks"),
        (cells(2, 25.0), "cells cover several chunks"),
    ] {
        let batch = points(&mut Random(9), "float32");
        let pair = Pair::of(schema(Kind::PointCloud), &batch, &options);
        assert_full(reason, &pair.edit(reason, std::slice::from_ref(&corner)), reason);
    }
    let batch = points(&mut Random(9), "float32");
    let pair = Pair::of(schema(Kind::PointCloud), &batch, &cells(2, 2.5));
    // Removing the vertex with the largest error rebuilds the level, but not all of the next one.
    let level = crate::tests::document(&pair.store, "1");
    let recipe = &level["attributes"]["zarr_vectors_level"]["zvf.coarsening"];
    let at = &recipe["farthest"]["vertex"];
    let rebuilt =
        pair.edit("farthest", &[json!({"op": "vertex.remove", "vertices": {"box": [at, at]}})]);
    assert_full("farthest", &rebuilt[..1], "the place of the largest error changed");
    assert!(rebuilt[1]["reason"] != "all of the level below was built again", "{rebuilt:?}");
    assert_partial("again", &pair, &small_moves());
    // A column that was dropped and added again has new values everywhere.
    let columns = [
        json!({"op": "column.drop", "scope": "vertex", "name": "zeta"}),
        json!({"op": "column.add", "scope": "vertex", "name": "zeta", "dtype": "float32", "fill": 7}),
    ];
    run(&pair.store, &columns).unwrap();
    assert_eq!(pair.edit("columns", std::slice::from_ref(&corner)), [] as [Json; 0]);
    assert_partial("after columns", &pair, &small_moves());
}
