//! Graphs, skeletons and meshes: a refresh rebuilds the changed objects, unless links join objects.

use serde_json::{Value as Json, json};
use zvf_model::{Batch, Elements, Field, Kind, ObjectId};
use zvf_pyramid::{Aggregation, Method, Options};
use zvf_store::CodecPipeline;
use zvf_write::{Schema, Writer};

use super::chains::with_mass;
use super::{
    Pair, Random, SIDE, assert_full, assert_partial, axes_of, column, schema, small_moves_of,
};

/// A builder of objects with vertices and elements.
struct ObjectBuilder {
    kind: Kind,
    at: Vec<f64>,
    owners: Vec<Option<ObjectId>>,
    rows: Vec<usize>,
}

impl ObjectBuilder {
    fn new(kind: Kind) -> Self {
        Self { kind, at: Vec::new(), owners: Vec::new(), rows: Vec::new() }
    }

    fn push(&mut self, id: i64, x: f64, y: f64, z: f64) -> usize {
        self.at.extend([x, y, z].into_iter().take(axes_of(self.kind)));
        self.owners.push(Some(ObjectId(id)));
        self.owners.len() - 1
    }

    /// Builds a batch with attributes of vertices, and of links if `weighs`.
    fn batch(self, dtype: &str, weighs: bool) -> Batch {
        let Self { kind, at, owners, rows } = self;
        let count = owners.len();
        let width = if kind == Kind::Mesh { 3 } else { 2 };
        let links = rows.len() / width;
        let mut elements = Elements::new(width, rows).unwrap();
        if weighs {
            let values =
                |end: usize| (0..links).map(|link| (link % end) as f64).collect::<Vec<_>>();
            for field in [
                Field::new("weight", column("float32", 1, values(13))),
                Field::new("sort", column("int16", 1, values(3))),
            ] {
                elements = elements.with_field(field).unwrap();
            }
        }
        let zeta = (0..count).map(|row| (row % 23) as f64 * 0.7).collect::<Vec<_>>();
        let class = (0..count).map(|row| (row % 5) as f64).collect::<Vec<_>>();
        Batch::new(kind, column(dtype, axes_of(kind) as u32, at))
            .with_field(Field::new("zeta", column("float32", 1, zeta)))
            .unwrap()
            .with_field(Field::new("class", column("int16", 1, class)))
            .unwrap()
            .with_vertex_objects(owners)
            .unwrap()
            .with_elements(elements)
            .unwrap()
    }
}

/// Draws objects of a kind over 3 by 3 chunks, most of them in several.
fn draw_objects(random: &mut Random, kind: Kind, count: i64) -> ObjectBuilder {
    let mut builder = ObjectBuilder::new(kind);
    for id in 0..count {
        match kind {
            Kind::Skeleton => draw_tree(random, &mut builder, id),
            Kind::Graph => draw_web(random, &mut builder, id),
            _ => draw_patch(random, &mut builder, id),
        }
    }
    builder
}

/// Draws a tree that crosses chunks repeatedly, with two equal tips.
fn draw_tree(random: &mut Random, builder: &mut ObjectBuilder, id: i64) {
    let mut places = vec![(random.next_within(10.0, 25), random.next_within(10.0, 25))];
    let first = builder.push(id, places[0].0, places[0].1, 0.0);
    for node in 1..10 + random.next_below(12) as usize {
        let parent = node - 1 - random.next_below(node.min(5) as u64) as usize;
        let (x, y) = places[parent];
        places.push((x + random.next_within(-5.0, 10), y + random.next_within(-5.0, 10)));
        let row = builder.push(id, places[node].0, places[node].1, 0.0);
        builder.rows.extend([row, first + parent]);
    }
    for _ in 0..2 {
        let row = builder.push(id, 33.0, 24.0, 0.0);
        builder.rows.extend([row, first + 1]);
    }
}

/// Draws a graph of two components, with a loop, a double edge and an isolated node.
fn draw_web(random: &mut Random, builder: &mut ObjectBuilder, id: i64) {
    let (x, y) = (random.next_within(10.0, 25), random.next_within(10.0, 25));
    let count = 10 + random.next_below(12) as usize;
    let place =
        |random: &mut Random| (x + random.next_within(-8.0, 16), y + random.next_within(-8.0, 16));
    let (a, b) = place(random);
    let first = builder.push(id, a, b, 0.0);
    for node in 1..count {
        let (a, b) = place(random);
        let row = builder.push(id, a, b, 0.0);
        if node != count / 2 && node + 1 < count {
            let target = first + node - 1 - random.next_below(node.min(4) as u64) as usize;
            builder.rows.extend(if random.next_below(2) == 0 {
                [row, target]
            } else {
                [target, row]
            });
        }
    }
    builder.rows.extend([first, first, first + 1, first + 2, first + 2, first + 1]);
}

/// Draws a bent sheet of triangles.
fn draw_patch(random: &mut Random, builder: &mut ObjectBuilder, id: i64) {
    let (x, y) = (random.next_within(2.0, 28), random.next_within(2.0, 28));
    let side = 5 + random.next_below(2) as usize;
    let first = builder.owners.len();
    for i in 0..side * side {
        let (a, b) = ((i / side) as f64 * 1.9, (i % side) as f64 * 2.3);
        builder.push(id, x + a, y + b, 4.0 + (a * 0.7).sin() * (b * 0.4 + id as f64).cos());
    }
    for i in 0..side - 1 {
        for j in 0..side - 1 {
            let at = first + i * side + j;
            builder.rows.extend([at, at + side, at + side + 1, at, at + side + 1, at + 1]);
        }
    }
}

/// Returns random edits of objects.
fn edit_objects(random: &mut Random, kind: Kind, count: u64, weighs: bool) -> Vec<Json> {
    let id = random.next_below(count);
    let (x, y) = (random.next_within(0.0, SIDE), random.next_within(0.0, SIDE));
    let place = |x: f64, y: f64| -> Vec<f64> { [x, y, 3.0][..axes_of(kind)].to_vec() };
    let offset = |x: f64, y: f64| -> Vec<f64> { [x, y, 0.0][..axes_of(kind)].to_vec() };
    let vertex = json!({"object": id, "index": [2]});
    let end = |index: u64| json!({"object": id, "index": [index]});
    let mut low = place(x, y);
    let mut high = place(x + 9.0, y + 9.0);
    if kind == Kind::Mesh {
        (low[2], high[2]) = (0.0, 10.0);
    }
    let positions =
        [place(x, y), place(x + 7.0, y + 2.0), place(x + 8.0, y + 8.5), place(x, y + 3.0)];
    let mut add = json!({
        "op": "object.add", "kind": kind.token(), "positions": positions,
        "attributes": {"zeta": [0, 1, 2, 3], "class": [0, 1, 2, 3]},
    });
    let mut all = vec![
        json!({"op": "vertex.move", "vertices": vertex, "by": offset(1.25, -0.5)}),
        json!({"op": "vertex.move", "vertices": vertex, "by": offset(-12.0, 3.0)}),
        json!({"op": "vertex.set", "vertices": {"kind": kind.token(), "box": [low, high]}, "values": {"zeta": 3.5, "class": 1}}),
        json!({"op": "object.copy", "object": id, "by": offset(1.0, 1.0)}),
        json!({"op": "object.set", "objects": [id], "values": {"mass": 4.5}}),
    ];
    if kind == Kind::Skeleton {
        add["parents"] = json!([null, 0, 0, 1]);
        all.push(json!({"op": "object.reroot", "object": id, "index": 3}));
        all.push(json!({
            "op": "vertex.add", "object": id, "positions": [place(x, y)], "parents": [{"index": 1}],
            "attributes": {"zeta": [0.25], "class": [7]},
        }));
    } else {
        let mesh = kind == Kind::Mesh;
        add["links"] = if mesh { json!([[0, 1, 2], [0, 2, 3]]) } else { json!([[1, 0], [2, 3]]) };
        let ends = if mesh { vec![end(0), end(3), end(1)] } else { vec![end(0), end(3)] };
        let mut joined = json!({"op": "link.add", "kind": kind.token(), "links": [ends]});
        if weighs {
            add["link_attributes"] = json!({"weight": [5, 6], "sort": [1, 0]});
            joined["attributes"] = json!({"weight": [2.5], "sort": [2]});
            all.push(json!({"op": "link.set", "kind": kind.token(), "all": true, "values": {"weight": 1.5}}));
        }
        all.push(joined);
        all.push(json!({"op": "link.remove", "touching": end(1)}));
        all.push(json!({"op": "vertex.remove", "vertices": {"object": id, "index": [1]}}));
    }
    all.push(add);
    (0..=random.next_below(2))
        .map(|_| all[random.next_below(all.len() as u64) as usize].clone())
        .collect()
}

/// Returns a merge and a removal of objects that no other edit names.
fn regroup(kind: Kind, count: i64) -> Vec<Json> {
    let [a, b, c] = [count - 1, count - 2, count - 3];
    let merge = if kind == Kind::Skeleton {
        json!({
            "op": "object.merge", "objects": [a, b],
            "child": {"object": b, "index": [2]}, "parent": {"object": a, "index": [1]},
        })
    } else {
        json!({"op": "object.merge", "objects": [a, b]})
    };
    vec![merge, json!({"op": "object.remove", "objects": [c]})]
}

fn options_of(method: Method, size: Option<f64>) -> Options {
    Options { method: Some(method), size, levels: Some(2), ..Options::default() }
}

fn sharded_schema(kind: Kind) -> Schema {
    let shape = vec![4; axes_of(kind)];
    schema(kind).with_codecs(CodecPipeline::zstd(1)).with_shard_shape(&shape).unwrap()
}

#[test]
fn skeletons_are_refreshed_by_objects() {
    let three_levels = Options { levels: Some(3), ..options_of(Method::Simplify, Some(1.5)) };
    let pruned = Options { prune: Some(6.0), ..options_of(Method::Simplify, Some(1.0)) };
    let sums = vec![("zeta".to_owned(), Aggregation::Sum)];
    let sparse = Options { rules: sums, sparsity: 1.3, ..options_of(Method::Cluster, Some(4.0)) };
    let explicit = schema(Kind::Skeleton).with_explicit_edges();
    for (label, schema, dtype, weighs, options) in [
        ("simplified", schema(Kind::Skeleton), "float32", false, three_levels),
        ("pruned in shards", sharded_schema(Kind::Skeleton), "float64", false, pruned),
        ("clustered", schema(Kind::Skeleton), "float32", false, sparse),
        ("explicit", explicit, "float32", true, options_of(Method::Cluster, Some(3.0))),
    ] {
        check(label, Kind::Skeleton, (schema, dtype, weighs), &options);
    }
}

#[test]
fn graphs_are_refreshed_by_objects() {
    let (kind, three_levels) =
        (Kind::Graph, Options { levels: Some(3), ..options_of(Method::Cluster, Some(3.0)) });
    let sums = vec![("weight".to_owned(), Aggregation::Sum)];
    let sparse = Options { rules: sums, sparsity: 1.3, ..options_of(Method::Cluster, Some(4.0)) };
    let directed = schema(kind).with_directed_links();
    for (label, schema, dtype, weighs, options) in [
        ("clustered", schema(kind), "float32", false, three_levels),
        ("weighed in shards", sharded_schema(kind), "float64", true, sparse),
        ("directed", directed, "float32", true, options_of(Method::Cluster, Some(2.0))),
    ] {
        check(label, kind, (schema, dtype, weighs), &options);
    }
}

#[test]
fn meshes_are_refreshed_by_objects() {
    let kind = Kind::Mesh;
    let halved = Options { keep: Some(0.5), ..options_of(Method::Collapse, None) };
    let sparse = Options { sparsity: 1.3, ..options_of(Method::Cluster, Some(3.0)) };
    for (label, schema, dtype, weighs, options) in [
        ("collapsed", schema(kind), "float32", false, halved.clone()),
        ("collapsed in shards", sharded_schema(kind), "float64", true, halved),
        ("clustered", schema(kind), "float32", true, sparse),
    ] {
        check(label, kind, (schema, dtype, weighs), &options);
    }
}

/// Runs random edits of a store of one kind, each followed by a refresh.
fn check(name: &str, kind: Kind, (schema, dtype, weighs): (Schema, &str, bool), options: &Options) {
    let name = format!("{kind} {name}");
    let (mut random, count) = (Random(17), 10);
    let batch = draw_objects(&mut random, kind, count).batch(dtype, weighs);
    let fill = |writer: &mut Writer| {
        with_mass(writer, count as usize);
        writer.push(&batch).unwrap();
    };
    let pair = Pair::new(schema, fill, options);
    let rebuilt = assert_partial(&name, &pair, &small_moves_of(kind));
    assert_eq!(rebuilt["unit"], "objects", "{name}");
    assert!(rebuilt["built"].as_u64().unwrap() <= 1, "{name}: {rebuilt:?}");
    let object_count = count as u64 - 3;
    let mut lines = edit_objects(&mut random, kind, object_count, weighs);
    lines.push(small_moves_of(kind)[0].clone()); // attributes of objects make nothing stale
    pair.edit(&format!("{name}, at random"), &lines);
    let mut lines = edit_objects(&mut random, kind, object_count, weighs);
    lines.extend(regroup(kind, count));
    pair.edit(&format!("{name}, regrouped"), &lines);
}

#[test]
fn edits_of_links_make_levels_stale() {
    let batch = draw_objects(&mut Random(5), Kind::Graph, 8).batch("float32", true);
    let pair = Pair::of(schema(Kind::Graph), &batch, &options_of(Method::Cluster, Some(2.0)));
    let ends = |a: u64, b: u64| json!([{"object": 3, "index": [a]}, {"object": 3, "index": [b]}]);
    for line in [
        json!({"op": "link.add", "links": [ends(4, 7)], "attributes": {"weight": [9.5], "sort": [1]}}),
        json!({"op": "link.set", "links": [ends(4, 7)], "values": {"weight": 2.5}}),
        json!({"op": "link.remove", "links": [ends(4, 7)]}),
    ] {
        let rebuilt = pair.edit("links", &[line]);
        assert!(rebuilt.iter().all(|level| level["reason"].is_null()), "{rebuilt:?}");
        let is_one_of_eight = |level: &Json| level["built"] == 1 && level["all"] == 8;
        assert!(rebuilt.iter().all(is_one_of_eight), "{rebuilt:?}");
    }
}

#[test]
fn linked_objects_are_rebuilt_fully() {
    let first =
        json!({"op": "vertex.move", "vertices": {"object": 1, "index": [0]}, "by": [0.25, 0.0]});
    let pair = |is_joined: bool| {
        let mut builder = draw_objects(&mut Random(5), Kind::Graph, 8);
        if is_joined {
            builder.rows.extend([0, builder.owners.len() - 1]);
        }
        let batch = builder.batch("float32", false);
        Pair::of(schema(Kind::Graph), &batch, &options_of(Method::Cluster, Some(2.0)))
    };
    let reason = "edges or faces join objects";
    assert_full(reason, &pair(true).edit(reason, std::slice::from_ref(&first)), reason);
    // A new edge joins two objects, until it is removed.
    let pair = pair(false);
    let check_full = |label: &str, line: &Json, reason: &str| {
        assert_full(label, &pair.edit(label, std::slice::from_ref(line)), reason);
    };
    let between = json!([[{"object": 2, "index": [3]}, {"object": 6, "index": [1]}]]);
    check_full("joined", &json!({"op": "link.add", "links": between}), reason);
    check_full("elsewhere", &first, reason);
    let removal = json!({"op": "link.remove", "links": between});
    check_full("apart", &removal, "the level was not built object by object");
    assert_partial("again", &pair, &small_moves_of(Kind::Graph));
}

#[test]
fn trees_and_graphs_of_a_store_are_refreshed_independently() {
    let mut random = Random(23);
    let trees = draw_objects(&mut random, Kind::Skeleton, 9);
    let trees = ObjectBuilder { kind: Kind::Skeleton, ..trees };
    let webs = draw_objects(&mut random, Kind::Graph, 9);
    let webs = ObjectBuilder {
        owners: webs.owners.iter().map(|id| Some(ObjectId(id.unwrap().0 + 50))).collect(),
        ..webs
    };
    let (trees, webs) = (trees.batch("float32", false), webs.batch("float32", true));
    let two_kinds = schema(Kind::Skeleton).with_kind(Kind::Graph).unwrap();
    let fill = |writer: &mut Writer| {
        writer.kind(Kind::Skeleton).unwrap().push(&trees).unwrap();
        writer.kind(Kind::Graph).unwrap().push(&webs).unwrap();
    };
    let sized = Options { levels: Some(2), size: Some(2.0), ..Options::default() };
    let pair = Pair::new(two_kinds, fill, &sized);
    assert_partial("a tree", &pair, &small_moves_of(Kind::Skeleton));
    for round in 0..2 {
        let mut lines = edit_objects(&mut random, Kind::Skeleton, 9, false);
        lines.retain(|line| line["op"] != "object.set");
        let end = |at: u64| json!({"kind": "graph", "object": 50 + round, "index": [at]});
        lines.push(json!({"op": "link.remove", "touching": end(round + 2)}));
        pair.edit(&format!("both {round}"), &lines);
    }
}
