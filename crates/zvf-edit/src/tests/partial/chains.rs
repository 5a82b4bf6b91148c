//! Polylines, streamlines and lines: a refresh rebuilds the changed objects.

use serde_json::{Value as Json, json};
use zvf_model::{Batch, Field, Kind, ObjectId, Parts};
use zvf_pyramid::{Method, Options, Strategy};
use zvf_store::CodecPipeline;
use zvf_write::Writer;

use super::points::{cells, edit_points, points};
use super::{Pair, Random, SIDE, assert_partial, column, schema, small_moves_of};

/// Creates random walks over 3 by 3 chunks, one object each. The last has the largest error.
fn walks(random: &mut Random, kind: Kind, count: usize, first: i64) -> Batch {
    let (mut at, mut offsets) = (Vec::new(), vec![0]);
    for walk in 0..count {
        let (mut x, mut y) = (random.next_within(10.0, 25), random.next_within(10.0, 25));
        let steps = if kind == Kind::Line { 2 } else { 8 + random.next_below(14) };
        for step in 0..steps {
            at.extend([x, y]);
            x += random.next_within(-2.0, 5);
            y += random.next_within(-2.0, 4)
                + if walk + 1 == count && step == 3 { 1.5 } else { 0.0 };
        }
        offsets.push(at.len() / 2);
    }
    let rows = at.len() / 2;
    let ids = (first..).take(count).map(ObjectId).collect();
    let zeta = (0..rows).map(|row| (row % 23) as f64 * 0.7).collect::<Vec<_>>();
    let class = (0..rows).map(|row| (row % 5) as f64).collect::<Vec<_>>();
    Batch::new(kind, column("float32", 2, at))
        .with_parts(Parts::new(offsets, ids).unwrap())
        .unwrap()
        .with_field(Field::new("zeta", column("float32", 1, zeta)))
        .unwrap()
        .with_field(Field::new("class", column("int16", 1, class)))
        .unwrap()
}

/// Returns random edits of chains.
fn edit_chains(random: &mut Random, kind: Kind, count: u64) -> Vec<Json> {
    let id = random.next_below(count);
    let (x, y) = (random.next_within(0.0, SIDE), random.next_within(0.0, SIDE));
    let vertex = json!({"object": id, "index": [0]});
    let corner = json!({"box": [[x, y], [x + 9.0, y + 9.0]]});
    let places = if kind == Kind::Line {
        json!([[x, y], [x + 1.0, y + 2.0]])
    } else {
        json!([[x, y], [x + 11.0, y + 2.0], [x + 12.0, y + 2.5]])
    };
    let values: Vec<u64> = (0..places.as_array().unwrap().len() as u64).collect();
    let mut all = vec![
        json!({"op": "vertex.move", "vertices": vertex, "by": [1.25, -0.5]}),
        json!({"op": "vertex.move", "vertices": vertex, "by": [-12.0, 3.0]}),
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
    (0..=random.next_below(2))
        .map(|_| all[random.next_below(all.len() as u64) as usize].clone())
        .collect()
}

pub(super) fn with_mass(writer: &mut Writer, count: usize) {
    let ids: Vec<ObjectId> = (0..count as i64).map(ObjectId).collect();
    let mass = column("float32", 1, (0..count).map(|id| ((id * 7) % 13) as f64));
    writer.object_fields(&ids, &[Field::new("mass", mass)]).unwrap();
    writer.group(Some("few"), zvf_model::Members::Ids(ids.into_iter().take(3).collect()));
}

#[test]
fn chains_are_refreshed_by_objects() {
    let build = |method, size: Option<f64>, sparsity| Options {
        method: Some(method),
        size,
        sparsity,
        levels: Some(2),
        ..Options::default()
    };
    let sums = vec![("zeta".to_owned(), zvf_pyramid::Aggregation::Sum)];
    let three_levels = Options { levels: Some(3), ..build(Method::Simplify, Some(0.5), 1.0) };
    for (kind, shards, options) in [
        (Kind::Polyline, false, three_levels),
        (Kind::Polyline, true, Options { rules: sums, ..build(Method::Simplify, Some(0.5), 1.0) }),
        (Kind::Streamline, false, build(Method::Decimate, None, 1.0)),
        (Kind::Polyline, false, build(Method::Simplify, Some(0.3), 1.5)),
        (
            Kind::Streamline,
            true,
            Options {
                strategy: Strategy::Largest("mass".into()),
                ..build(Method::Simplify, Some(0.3), 1.2)
            },
        ),
        (Kind::Line, false, build(Method::Keep, None, 1.5)),
    ] {
        let label = format!("{kind} {} {}", options.method.unwrap(), options.sparsity);
        let (mut random, count) = (Random(11), 14);
        let batch = walks(&mut random, kind, count, 0);
        let mut schema = schema(kind);
        if shards {
            schema = schema.with_codecs(CodecPipeline::zstd(1)).with_shard_shape(&[4, 4]).unwrap();
        }
        let fill = |writer: &mut Writer| {
            with_mass(writer, count);
            writer.push(&batch).unwrap();
        };
        let pair = Pair::new(schema, fill, &options);
        let rebuilt = assert_partial(&label, &pair, &small_moves_of(kind));
        assert_eq!(rebuilt["unit"], "objects", "{label}");
        assert!(rebuilt["built"].as_u64().unwrap() <= 1, "{label}: {rebuilt:?}");
        let mut lines = edit_chains(&mut random, kind, 5);
        lines.push(small_moves_of(kind)[0].clone()); // attributes of objects make nothing stale
        pair.edit(&format!("{label}, at random"), &lines);
        let mut last = edit_chains(&mut random, kind, 5);
        last.push(json!({"op": "object.remove", "objects": [5, 6]}));
        if kind != Kind::Line {
            last.push(json!({"op": "object.merge", "objects": [7, 9]}));
        }
        pair.edit(&label, &last);
    }
}

#[test]
fn reversing_a_line_makes_levels_stale() {
    let batch = walks(&mut Random(2), Kind::Line, 6, 0);
    let options = Options {
        method: Some(Method::Keep),
        sparsity: 1.5,
        levels: Some(1),
        ..Options::default()
    };
    let pair = Pair::of(schema(Kind::Line), &batch, &options);
    // With one vertex in each of two chunks, both chunks stay as they are.
    let move_apart =
        json!({"op": "vertex.move", "vertices": {"object": 2, "index": [1]}, "by": [17.0, 0.0]});
    pair.edit("apart", &[move_apart]);
    for id in [2, 3] {
        let rebuilt = pair.edit("turned", &[json!({"op": "object.reverse", "objects": [id]})]);
        assert_eq!(rebuilt.len(), 1, "{id}");
    }
}

#[test]
fn kinds_of_a_store_are_refreshed_independently() {
    let mut random = Random(5);
    let (dots, lines) = (points(&mut random, "float32"), walks(&mut random, Kind::Polyline, 12, 0));
    let two_kinds = schema(Kind::PointCloud).with_kind(Kind::Polyline).unwrap();
    let fill = |writer: &mut Writer| {
        let owners = vec![Some(ObjectId(100)); dots.len()];
        let dots = dots.clone().with_vertex_objects(owners).unwrap();
        writer.kind(Kind::PointCloud).unwrap().push(&dots).unwrap();
        writer.kind(Kind::Polyline).unwrap().push(&lines).unwrap();
    };
    let pair = Pair::new(two_kinds, fill, &cells(2, 0.7));
    assert_partial("a line", &pair, &small_moves_of(Kind::Polyline));
    for round in 0..2 {
        let mut lines = edit_chains(&mut random, Kind::Polyline, 11);
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
