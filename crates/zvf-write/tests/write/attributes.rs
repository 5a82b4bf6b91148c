//! Attributes of every scope and type, objects without vertices, groups, shards, settings of the root.

use serde_json::json;
use zvf_format::key::Delta;
use zvf_metadata::arrays::{ArrayAttributes as _, LinksFamily};
use zvf_metadata::{AttributeSpec, Dtype};
use zvf_model::{
    Batch, Categories, ChunkFragments, Column, Elements, Field, Kind, LevelId, LevelReader,
    Members, ObjectId, Parts, Value,
};
use zvf_store::{Caching, CodecPipeline};
use zvf_write::ShapeTable;

use crate::given::{begin, floats, open, read, schema, texts};

fn column(dtype: &str, width: u32, bytes: Vec<u8>) -> Column {
    Column::new(dtype.parse::<Dtype>().unwrap(), width, bytes.into()).unwrap()
}

#[tokio::test]
async fn vertices_have_attributes_of_every_type() {
    let types = [
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64",
    ];
    let mut batch = Batch::new(Kind::PointCloud, floats(&[1.0, 25.0, 2.0], 1));
    for dtype in types {
        for width in [1, 3] {
            let size = dtype.parse::<Dtype>().unwrap().size as usize * width as usize;
            let bytes = (0..3 * size).map(|n| if dtype == "bool" { n % 2 } else { n } as u8);
            let field =
                Field::new(format!("{dtype}_{width}"), column(dtype, width, bytes.collect()));
            batch = batch.with_field(field).unwrap();
        }
    }
    let label = Field::new("label", texts(["no", "a", "no"], 2));
    let part = Categories::new(vec![Value::from("x"), Value::from("y")], Some(-1));
    let part = Field::new("part", column("int8", 1, vec![1, 255, 0])).with_categories(part);
    let batch = batch.with_field(label).unwrap().with_field(part).unwrap();
    let spec = AttributeSpec {
        unit: Some("m".to_owned()),
        description: Some("how far".to_owned()),
        ..AttributeSpec::new("float32")
    };
    let schema = schema(Kind::PointCloud)
        .declare("vertex", "float32_1", spec)
        .with_crs(json!({"epsg": 4326}))
        .with_user_metadata("lab", json!({"id": 7}))
        .with_name("three points");
    let (memory, mut writer) = begin(schema).await;
    writer.push(&batch).unwrap();
    writer.header("las", json!({"version": [1, 4]}).as_object().unwrap().clone());
    let mut shapes = ShapeTable::new();
    shapes.add(ShapeTable::PLANE, "floor", &[0.0, 0.0, 1.0, 2.0]).unwrap();
    let cone = shapes.add_type("cone", &["angle"]);
    shapes.add(cone, "hat", &[0.5]).unwrap();
    writer.declare_parametric(shapes);
    writer.finish().await.unwrap();

    let found = read(memory.clone()).await;
    for field in batch.fields() {
        let stored_field = found.field(&field.name).unwrap();
        for (row, vertex) in [0, 2, 1].into_iter().enumerate() {
            for c in 0..field.column.width() as usize {
                let (a, b) = (stored_field.value(row, c).unwrap(), field.value(vertex, c).unwrap());
                assert_eq!(a.to_string(), b.to_string(), "{} of vertex {vertex}", field.name);
            }
        }
    }
    assert_eq!(found.field("float32_1").unwrap().unit.as_deref(), Some("m"));
    let store = open(memory).await;
    let root = store.root();
    assert_eq!(root.zarr_vectors.crs, Some(json!({"epsg": 4326})));
    assert_eq!(root.user_metadata.as_ref().unwrap()["lab"], json!({"id": 7}));
    assert_eq!(root.ome().unwrap().unwrap().name.as_deref(), Some("three points"));
    let specs = root.zarr_vectors.attribute_specs().unwrap().unwrap();
    assert_eq!(specs.find("vertex", "float32_1").unwrap().unit.as_deref(), Some("m"));
    let header = zvf_model::header(&store, "las").await.unwrap().unwrap();
    assert_eq!(header["version"], json!([1, 4]));
    let shapes =
        zvf_model::Parametric::open(&store).await.unwrap().unwrap().shapes().await.unwrap();
    assert_eq!(shapes.len(), 2);
}

#[tokio::test]
async fn objects_without_vertices_have_attributes_and_groups() {
    let (memory, mut writer) = begin(schema(Kind::Polyline)).await;
    let parts = Parts::new(vec![0, 3, 3], vec![ObjectId(7), ObjectId(-2)]).unwrap();
    let batch = Batch::new(Kind::Polyline, floats(&[1.0, 9.0, 12.0], 1)).with_parts(parts).unwrap();
    let quality = Field::new("quality", column("int8", 2, vec![1, 2, 3, 4]));
    writer.push_with_parts(&batch, &[quality]).unwrap();
    let fields = [
        Field::new("mass", column("int16", 1, vec![5, 0, 6, 0])),
        Field::new("name", texts(["seven", "nine"], 5)),
        Field::new("alive", column("bool", 1, vec![1, 0])),
    ];
    writer.object_fields(&[ObjectId(7), ObjectId(9)], &fields).unwrap();
    assert_eq!(writer.group(Some("some"), Members::Ids(vec![ObjectId(9), ObjectId(7)])), 0);
    assert_eq!(writer.group(None, Members::Range { start: 0, stop: 8 }), 1);
    writer.group_field(Field::new("rank", column("uint8", 1, vec![3, 4])));
    let report = writer.finish().await.unwrap();
    assert_eq!((report.objects, report.fragments, report.links), (3, 2, 1));
    assert_eq!(report.notices, [zvf_write::WriteNotice::SparseIds]);

    let store = open(memory).await;
    let level = LevelReader::open(&store, LevelId(0)).await.unwrap();
    let objects = level.objects().await.unwrap().unwrap();
    assert_eq!(objects.ids(0..3).await.unwrap(), [-2, 7, 9].map(ObjectId));
    let empty: Vec<bool> =
        objects.manifests(&[0, 1, 2]).await.unwrap().iter().map(|m| m.is_empty()).collect();
    assert_eq!(empty, [true, false, true]);
    for (name, expected) in [
        ("mass", ["null", "5", "6"]),
        ("name", ["null", "seven", "nine"]),
        ("alive", ["false", "true", "false"]),
    ] {
        let values =
            level.object_attribute(name).await.unwrap().unwrap().range(0..3).await.unwrap();
        assert_eq!([0, 1, 2].map(|row| values.value(row, 0).to_string()), expected, "{name}");
    }
    let groups = level.groups().await.unwrap().unwrap();
    assert_eq!((groups.name(0), groups.name(1)), (Some("some".into()), Some("group_1".into())));
    let members = groups.members(&[0, 1]).await.unwrap();
    assert_eq!(members[0], Members::Ids(vec![ObjectId(9), ObjectId(7)]));
    assert_eq!(members[1], Members::Range { start: 0, stop: 8 });
    let rank = level.group_attribute("rank").await.unwrap().unwrap().range(0..2).await.unwrap();
    assert_eq!((rank.value(0, 0), rank.value(1, 0)), (Value::UInt(3), Value::UInt(4)));
    let keys: Vec<_> = level.chunks().await.unwrap().iter().collect();
    for (name, expected) in [("quality", "1"), ("object_id", "7")] {
        let column = level.fragment_attribute(name).await.unwrap().unwrap();
        for values in column.values(&keys, Caching::Once).await {
            let column = values.unwrap();
            assert_eq!((column.len(), column.value(0, 0).to_string().as_str()), (1, expected));
        }
    }
}

#[tokio::test]
async fn the_value_for_absent_is_a_value_if_every_object_has_one() {
    let (memory, mut writer) = begin(schema(Kind::Polyline)).await;
    let parts = Parts::new(vec![0, 3], vec![ObjectId(0)]).unwrap();
    let batch = Batch::new(Kind::Polyline, floats(&[1.0, 9.0, 12.0], 1)).with_parts(parts).unwrap();
    writer.push(&batch).unwrap();
    let white = Field::new("colour", column("uint8", 3, vec![255; 3]));
    writer.object_fields(&[ObjectId(0)], &[white]).unwrap();
    writer.finish().await.unwrap();
    let store = open(memory).await;
    let level = LevelReader::open(&store, LevelId(0)).await.unwrap();
    let values = level.object_attribute("colour").await.unwrap().unwrap();
    assert!(values.range(0..1).await.unwrap().absent_rows().is_empty());
}

#[tokio::test]
async fn a_chunk_for_each_value_of_an_attribute() {
    let values = vec![Value::from("b"), Value::from("a")];
    let schema = schema(Kind::Polyline).with_bin_attribute("label", values.clone()).unwrap();
    let (memory, mut writer) = begin(schema).await;
    let parts = Parts::new(vec![0, 4], vec![ObjectId(0)]).unwrap();
    let batch = Batch::new(Kind::Polyline, floats(&[1.0, 2.0, 3.0, 14.0], 1)).with_parts(parts);
    let label = Field::new("label", texts(["a", "b", "b", "b"], 1));
    writer.push(&batch.unwrap().with_field(label).unwrap()).unwrap();
    writer.finish().await.unwrap();
    let store = open(memory.clone()).await;
    let level = LevelReader::open(&store, LevelId(0)).await.unwrap();
    assert_eq!(level.bin_attribute(), Some(("label", values)));
    let keys: Vec<String> = level.chunks().await.unwrap().iter().map(|k| k.to_string()).collect();
    assert_eq!(keys, ["0.0", "0.1", "1.0"]);
    let stored_batch = read(memory).await;
    let xs: Vec<f64> = (0..4).map(|row| stored_batch.positions().float(row, 0).unwrap()).collect();
    assert_eq!(xs, [1.0, 2.0, 3.0, 14.0]);
}

#[tokio::test]
async fn links_of_a_fragment_are_contiguous_and_cells_are_in_shards() {
    let codecs = CodecPipeline::zstd(3).with_crc32c();
    let schema = schema(Kind::Graph).with_shard_shape(&[2]).unwrap().with_codecs(codecs);
    let (memory, mut writer) = begin(schema).await;
    let parts = Parts::new(vec![0, 4, 7], vec![ObjectId(1), ObjectId(0)]).unwrap();
    let positions = floats(&[1.0, 2.0, 3.0, 41.0, 4.0, 5.0, 42.0], 1);
    let edges = Elements::new(2, vec![4, 5, 1, 0, 2, 3, 1, 2, 6, 5]).unwrap();
    let edges = edges.with_field(Field::new("w", floats(&[1., 2., 3., 4., 5.], 1))).unwrap();
    let batch = Batch::new(Kind::Graph, positions).with_parts(parts).unwrap();
    writer.push(&batch.with_elements(edges).unwrap()).unwrap();
    let report = writer.finish().await.unwrap();
    assert_eq!((report.links, report.link_rows, report.link_segments), (5, 5, 1));

    let store = open(memory).await;
    let level = LevelReader::open(&store, LevelId(0)).await.unwrap();
    assert!(level.node().meta().fragment_link_groups);
    let family = level.links(Delta::SAME).await.unwrap().unwrap();
    assert_eq!((family.num_links(), family.num_physical_records()), (Some(5), Some(5)));
    // What readers need that cannot list.
    let doc = level.node().group("links/0").await.unwrap().unwrap();
    let doc = LinksFamily::parse(doc.attributes).unwrap();
    let names = level.node().children("links/0").await.unwrap().names;
    assert_eq!(doc.segments().unwrap(), names);
    let absent = &level.node().meta().extras[zvf_store::ABSENT];
    assert_eq!(absent, &json!(["groups", "vertex_attributes"]));
    let keys: Vec<_> = level.chunks().await.unwrap().iter().collect();
    let mut counts = Vec::new();
    let cells = level.node().cells("link_fragments").await.unwrap().unwrap();
    for (blob, key) in cells.read_many(&keys, Caching::Once).await.into_iter().zip(&keys) {
        let groups = ChunkFragments::new(blob.unwrap().unwrap(), cells.path(), *key).unwrap();
        let view = groups.view();
        counts.push((0..view.len()).map(|f| view.row_count(f).unwrap()).collect::<Vec<_>>());
    }
    assert_eq!(counts, [vec![1, 2], vec![0, 0]]); // objects 0 and 1, in each chunk
}

#[tokio::test]
async fn text_of_edges_is_read_as_text() {
    let (memory, mut writer) = begin(schema(Kind::Graph)).await;
    let parts = Parts::new(vec![0, 3], vec![ObjectId(0)]).unwrap();
    let positions = floats(&[1.0, 2.0, 41.0], 1);
    let kinds = Field::new("kind", texts(["axon", "dendrite"], 8));
    let edges = Elements::new(2, vec![0, 1, 1, 2]).unwrap().with_field(kinds).unwrap();
    let batch = Batch::new(Kind::Graph, positions).with_parts(parts).unwrap();
    writer.push(&batch.with_elements(edges).unwrap()).unwrap();
    writer.finish().await.unwrap();

    let reader = zvf_query::Reader::new(open(memory).await);
    let kinds = async |query: zvf_query::Query| {
        let batch = reader.run(&query).await.unwrap().batch;
        let edges = batch.elements().unwrap();
        let field = &edges.fields()[0];
        let mut kinds: Vec<String> =
            (0..edges.len()).map(|row| field.value(row, 0).unwrap().to_string()).collect();
        kinds.sort();
        kinds
    };
    let filtered = |text: &str| zvf_query::Query::all().filter(text.parse().unwrap());
    assert_eq!(kinds(zvf_query::Query::all()).await, ["axon", "dendrite"]);
    assert_eq!(kinds(filtered("link.kind = 'axon'")).await, ["axon"]);
    let error = reader.run(&filtered("link.kind > 3")).await.unwrap_err();
    assert!(error.sentence().ends_with("link.kind holds text: it cannot be compared with numbers"));
}

/// A path cannot hold every name: such names are escaped in every scope, and the arrays say them.
#[tokio::test]
async fn names_that_a_path_cannot_hold_are_escaped() {
    let (memory, mut writer) = begin(schema(Kind::Graph)).await;
    let ids =
        |values: &[i64]| column("int64", 1, values.iter().flat_map(|n| n.to_le_bytes()).collect());
    let batch = Batch::new(Kind::Graph, floats(&[1.0, 2.0], 1))
        .with_field(Field::new("dose/mg", floats(&[3.0, 4.0], 1)))
        .and_then(|batch| batch.with_field(Field::new("..", floats(&[5.0, 6.0], 1))))
        .and_then(|batch| batch.with_vertex_objects(vec![Some(ObjectId(0)); 2]))
        .unwrap();
    let edges = Elements::new(2, vec![0, 1]).unwrap();
    let edges = edges.with_field(Field::new("w/t", floats(&[7.0], 1))).unwrap();
    writer.push(&batch.with_elements(edges).unwrap()).unwrap();
    writer.object_fields(&[ObjectId(0)], &[Field::new("a\\b", ids(&[8]))]).unwrap();
    writer.group(Some("left/right"), Members::Ids(vec![ObjectId(0)]));
    writer.group_field(Field::new("g/h", ids(&[9])));
    let report = writer.finish().await.unwrap();
    assert!(report.notices.contains(&zvf_write::WriteNotice::EscapedNames), "{report}");
    let level = LevelReader::open(&open(memory).await, LevelId(0)).await.unwrap();
    assert_eq!(level.attribute_names().await.unwrap().names, ["%2E%2E", "dose%2Fmg"]);
    assert_eq!(level.object_attribute_names().await.unwrap().names, ["a%5Cb", "vertex_count"]);
    assert_eq!(level.group_attribute_names().await.unwrap().names, ["g%2Fh"]);
    assert_eq!(level.link_attribute_names().await.unwrap().names, ["w%2Ft"]);
    assert_eq!(level.groups().await.unwrap().unwrap().name(0).as_deref(), Some("left/right"));
}
