//! Stores of the test suites of other writers, read by every kind of query.

use archives::Unpacked;
use futures_util::StreamExt as _;
use zvf_format::Class;
use zvf_model::{Bounds, LevelId};
use zvf_query::{Columns, Mode, Order, Query, Reader};
use zvf_store::{OpenOptions, Store};

async fn open(name: &str) -> (Unpacked, Reader) {
    let unpacked = Unpacked::new(&format!("suites/{name}"));
    let path = unpacked.path().to_str().unwrap().to_owned();
    let store = Store::open(&path, OpenOptions::default()).await.unwrap();
    (unpacked, Reader::new(store))
}

/// Returns queries that select everything in different ways.
fn unfiltered_queries(axes: usize) -> Vec<Query> {
    let bounds = Bounds::new(&vec![-1e9; axes], &vec![1e9; axes]).unwrap();
    let mut all = vec![Query::all(), Query::all().with_owners()];
    all.extend(
        [Mode::Inside, Mode::Touch, Mode::Cells].map(|m| Query::all().in_region(bounds).mode(m)),
    );
    all
}

#[tokio::test]
async fn a_graph_has_the_edges_that_its_convention_implies() {
    let (_unpacked, reader) = open("graph_branches").await;
    for query in unfiltered_queries(reader.store().root().axes().len()) {
        let batch = reader.run(&query).await.unwrap().batch;
        assert_eq!(batch.elements().unwrap().len(), 6, "{query:?}");
        let mut edges = 0;
        let mut batches = reader.stream(query);
        while let Some(batch) = batches.next().await {
            edges += batch.unwrap().elements().unwrap().len();
        }
        assert_eq!(edges, 6);
    }
}

#[tokio::test]
async fn fragments_with_missing_rows_are_refused() {
    for name in ["dangling", "frag_without_vertices"] {
        let (_unpacked, reader) = open(name).await;
        for query in unfiltered_queries(reader.store().root().axes().len()) {
            let error = reader.run(&query).await.map(|answer| answer.batch.len()).unwrap_err();
            assert_eq!(error.class(), Class::OutOfBounds, "{name} {query:?} {error}");
            assert!(reader.count(&query).await.is_err(), "{name} {query:?}");
        }
    }
}

#[tokio::test]
async fn shared_rows_are_returned_once_in_every_read() {
    let (_unpacked, reader) = open("overlap").await;
    let level = reader.level(LevelId(0)).await.unwrap();
    let keys: Vec<_> = level.chunks().await.unwrap().iter().collect();
    let stored: u64 = level.row_counts(&keys).await.into_iter().map(Result::unwrap).sum();
    for query in unfiltered_queries(level.axes()) {
        let places = reader.run(&query.with_places()).await.unwrap().batch;
        let field = &places.field(zvf_query::LOCATION_FIELD).unwrap().column;
        let mut all: Vec<&[u8]> = field.rows().collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), places.len());
        assert!(places.len() as u64 <= stored);
    }
}

#[tokio::test]
async fn boxes_find_points_of_coarse_levels_outside_their_chunk() {
    // In the last two, bins are larger than chunks.
    for name in ["coarse_misplaced", "tools_pyramid_default", "tools_pyramid_bins"] {
        let (_unpacked, reader) = open(name).await;
        for number in reader.store().level_numbers().into_iter().filter(|number| *number > 0) {
            let all = reader.run(&Query::all().at_level(LevelId(number))).await.unwrap().batch;
            for row in 0..all.len() {
                let axes = all.positions().width() as usize;
                let at: Vec<f64> =
                    (0..axes).map(|axis| all.positions().float(row, axis).unwrap()).collect();
                let query = Query::all()
                    .in_region(Bounds::new(&at, &at).unwrap())
                    .at_level(LevelId(number));
                let found = reader.run(&query.mode(Mode::Inside)).await.unwrap().batch.len();
                assert!(found > 0, "{name}, level {number}, row {row} at {at:?}");
            }
        }
    }
}

#[cfg(feature = "draco")]
#[tokio::test]
async fn faces_left_out_of_draco_meshes_are_noted() {
    let (_unpacked, reader) = open("draco_faces").await;
    for query in unfiltered_queries(reader.store().root().axes().len()) {
        let answer = reader.run(&query).await.unwrap();
        let counts = reader.count(&query).await.unwrap();
        assert_eq!((answer.complete, counts.complete), (false, false), "{query:?}");
        let notices: Vec<String> = answer.notices.iter().map(ToString::to_string).collect();
        let text = "0/vertices holds Draco streams with an order of their own: edges and faces between \
                    chunks cannot be read and are left out";
        assert_eq!(notices, [text], "{query:?}");
    }
}

#[tokio::test]
async fn the_attribute_of_a_leading_axis_is_a_column() {
    let (_unpacked, reader) = open("leading_axis").await;
    let genes = |batch: &zvf_model::Batch| {
        let field = batch.field("gene").unwrap();
        let mut genes: Vec<String> =
            (0..batch.len()).map(|row| field.value(row, 0).unwrap().to_string()).collect();
        genes.sort();
        genes
    };
    let all = reader.run(&Query::all()).await.unwrap();
    let names: Vec<&str> = all.batch.fields().iter().map(|field| &*field.name).collect();
    assert_eq!((names, genes(&all.batch)), (vec!["v", "gene"], owned(["A", "A", "B", "B"])));
    let box_of_one = Bounds::new(&[0.0, 0.0], &[5.0, 5.0]).unwrap();
    let query = |condition: &str| Query::all().filter(condition.parse().unwrap());
    for (query, expected, cells) in [
        (query("gene = 'A'"), vec!["A", "A"], 2),
        (query("gene = 'A'").order(Order::Objects), vec!["A", "A"], 4),
        (query("gene in ('B', 'C') and v >= 0"), vec!["B", "B"], 2),
        (query("not gene = 'A'"), vec!["B", "B"], 4),
        (query("gene = 'B'").in_region(box_of_one), vec!["B"], 1),
        (query("gene = 'C'"), vec![], 0),
        (query("gene is not null").limit(3), vec!["A", "A", "B"], 4),
    ] {
        let answer = reader.run(&query).await.unwrap();
        assert_eq!(genes(&answer.batch), owned(expected.clone()), "{query:?}");
        assert!(answer.figures.cells <= cells, "{query:?}: {:?}", answer.figures);
        let counted = reader.count(&query).await.unwrap();
        assert_eq!(counted.vertices, expected.len() as u64, "{query:?}");
    }
    let named = Query::all().columns(Columns::Named(vec!["gene".to_owned()]));
    assert_eq!(genes(&reader.run(&named).await.unwrap().batch), owned(["A", "A", "B", "B"]));
    let level = reader.level(LevelId(0)).await.unwrap();
    let gene = level.attribute("gene").await.unwrap().unwrap();
    let key = level.chunks().await.unwrap().get(2).unwrap();
    let rows = async |range| gene.value_rows(&[(key, vec![range])]).await.remove(0);
    assert_eq!(gene.field(rows(0..1).await.unwrap().remove(0)).value(0, 0).unwrap(), "B".into());
    assert_eq!(rows(0..1 << 40).await.unwrap_err().class(), Class::OutOfBounds);
    // Without a value for each bin, as in "c27", the column does not exist.
    let (_unpacked, reader) = open("c27").await;
    let level = reader.level(LevelId(0)).await.unwrap();
    assert!(level.attribute("length").await.unwrap().is_none());
}

fn owned(texts: impl IntoIterator<Item = &'static str>) -> Vec<String> {
    texts.into_iter().map(str::to_owned).collect()
}

#[tokio::test]
async fn an_answer_of_a_level_that_lacks_edits_says_so() {
    let mut files = archives::files("pc3_pyramid_scaled");
    let (_, level) = files.iter_mut().find(|(path, _)| path == "1/zarr.json").unwrap();
    let mut doc: serde_json::Value = serde_json::from_slice(level).unwrap();
    doc["attributes"]["zvf"]["stale"] =
        serde_json::json!({"since": 1, "boxes": [], "objects": [3]});
    *level = doc.to_string().into_bytes();
    let unpacked = Unpacked::from_files(&files);
    let reader = Reader::new(unpacked.open().await);
    assert!(reader.run(&Query::all()).await.unwrap().notices.is_empty());
    let notices = reader.run(&Query::all().at_level(LevelId(1))).await.unwrap().notices;
    let text = "level 1 lacks edits of level 0 that came after it was built: rebuild it with zvf pyramid --refresh";
    assert_eq!(notices.iter().map(ToString::to_string).collect::<Vec<_>>(), [text]);
}

/// Edges and rows with a parent: a record between fragments does not remove an implied edge.
#[tokio::test]
async fn directed_records_take_no_implied_edge_away() {
    for (name, edges, rows) in [("skel_ingest", 487, 451), ("skel_small", 6, 6)] {
        let (_unpacked, reader) = open(name).await;
        let batch = reader.run(&Query::all().with_places()).await.unwrap().batch;
        let elements = batch.elements().unwrap();
        let mut children: Vec<usize> = elements.iter().map(|ends| ends[0]).collect();
        children.sort_unstable();
        children.dedup();
        assert_eq!((elements.len(), children.len()), (edges, rows), "{name}");
    }
}
