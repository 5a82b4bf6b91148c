//! Columns by name: of vertices, fragments, objects, and edges or faces.

use zvf_model::{Batch, Bounds, Kind, ObjectId};
use zvf_query::{BadQuery, Columns, Mode, Order, Query};

use crate::fixtures::{Data, Fixture};

fn select(names: &[&str]) -> Columns {
    Columns::Named(names.iter().map(|name| (*name).to_owned()).collect())
}

fn query_batch(fixture: &Fixture, query: &Query) -> Batch {
    fixture.run(query).unwrap_or_else(|error| panic!("{error}: {query:?}")).batch
}

/// Returns the values of a column of the vertices.
fn values(batch: &Batch, name: &str) -> Vec<f64> {
    let field = batch.field(name).unwrap_or_else(|| panic!("{name}"));
    (0..batch.len()).map(|row| field.column.float(row, 0).unwrap()).collect()
}

/// Writers choose the columns of a file from the first batch.
#[test]
fn an_empty_answer_has_the_columns_of_a_full_one() {
    let points: Vec<_> = (0..6).map(|i| vec![i as f32 * 2.0, 0.0]).collect();
    let shape = |batch: &Batch| {
        let names: Vec<String> =
            batch.fields().iter().map(|field| field.name.to_string()).collect();
        let has_parts = !batch.parts().offsets().is_empty();
        (names, has_parts, batch.vertex_objects().is_some(), batch.elements().is_some())
    };
    for kind in [Kind::PointCloud, Kind::Polyline, Kind::Graph, Kind::Mesh] {
        let mut data =
            Data::new(kind, 4.0, points.clone()).objects(vec![vec![0, 1, 2], vec![3, 4, 5]]);
        data.elements = vec![if kind == Kind::Mesh { vec![0, 1, 2] } else { vec![0, 1] }];
        let fixture = data.fixture();
        for query in [
            Query::all(),
            Query::all().with_owners(),
            Query::all().of_objects([ObjectId(1)]),
            Query::all().columns(select(&["v", "object.mass"])),
        ] {
            let full = query_batch(&fixture, &query);
            for bounds in [[50.0, 60.0], [0.5, 0.6]] {
                let [low, high] = bounds.map(|x| [x, 40.0]);
                let boxed = query.clone().in_region(Bounds::new(&low, &high).unwrap());
                let empty = query_batch(&fixture, &boxed);
                assert!(empty.is_empty() && !full.is_empty());
                assert_eq!(shape(&empty), shape(&full), "{kind} {query:?}");
            }
        }
    }
}

#[test]
fn columns_of_fragments_and_objects_repeat_per_vertex() {
    let points = (0..6).map(|i| vec![i as f32 * 2.0, 0.0]).collect();
    let data = Data::new(Kind::Polyline, 4.0, points).objects(vec![vec![0, 1, 2], vec![3, 4, 5]]);
    let fixture = data.fixture();
    let query = Query::all().columns(select(&["object.mass", "v", "fragment.code", "vertex.at"]));
    for order in [Order::Objects, Order::Storage, Order::Original] {
        let batch = query_batch(&fixture, &query.clone().order(order));
        let names: Vec<&str> = batch.fields().iter().map(|field| &*field.name).collect();
        assert_eq!(names, ["v", "at", "fragment.code", "object.mass"]);
        assert_eq!(values(&batch, "v"), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(values(&batch, "object.mass"), [0.0, 0.0, 0.0, 10.0, 10.0, 10.0]);
        assert_eq!(values(&batch, "fragment.code"), [0.0, 0.0, 2.0, 3.0, 4.0, 4.0]);
    }
    let bounds = Bounds::new(&[1.0, 0.0], &[7.0, 0.0]).unwrap();
    let batch = query_batch(&fixture, &query.in_region(bounds).mode(Mode::Clip).with_owners());
    assert_eq!(values(&batch, "at"), [1.0, 2.0, 4.0, 6.0, 7.0]);
    assert_eq!(values(&batch, "fragment.code"), [0.0, 0.0, 2.0, 3.0, 4.0]);
    assert_eq!(values(&batch, "object.mass"), [0.0, 0.0, 0.0, 10.0, 10.0]);
    let owners: Vec<i64> = batch.vertex_objects().unwrap().iter().map(|id| id.unwrap().0).collect();
    assert_eq!(owners, [0, 0, 0, 1, 1]);
}

#[test]
fn columns_of_edges_have_several_names() {
    let points = (0..4).map(|i| vec![i as f32 * 2.0, 0.0]).collect();
    let mut data = Data::new(Kind::Graph, 4.0, points).objects(vec![vec![0, 1], vec![2, 3]]);
    data.elements = vec![vec![0, 1], vec![1, 2], vec![2, 3]];
    let fixture = data.fixture();
    for name in ["w", "link.w"] {
        let batch = query_batch(&fixture, &Query::all().columns(select(&[name, "object.mass"])));
        let edges = batch.elements().unwrap();
        let w: Vec<f64> = (0..3).map(|i| edges.fields()[0].column.float(i, 0).unwrap()).collect();
        let first = |i: usize| edges.iter().nth(i).unwrap()[0] as f64;
        assert!((0..3).all(|i| first(i) == w[i]), "{w:?}");
        assert_eq!(values(&batch, "object.mass"), [0.0, 0.0, 10.0, 10.0]);
        assert_eq!(batch.fields().len(), 1);
    }
    assert!(
        query_batch(&fixture, &Query::all().columns(select(&["v"])))
            .elements()
            .unwrap()
            .fields()
            .is_empty()
    );
    // The vertices of cuts take the value of the nearer stored vertex.
    let bounds = Bounds::new(&[1.5, 0.0], &[5.0, 0.0]).unwrap();
    let columns = select(&["at", "w", "object.mass", "fragment.code"]);
    let query = Query::all().in_region(bounds).mode(Mode::Clip).columns(columns).with_owners();
    let batch = query_batch(&fixture, &query);
    let mut rows: Vec<[i64; 3]> = (0..batch.len())
        .map(|row| {
            let [at, mass, code] = ["at", "object.mass", "fragment.code"]
                .map(|name| batch.field(name).unwrap().column.float(row, 0).unwrap());
            assert_eq!(batch.vertex_objects().unwrap()[row], Some(ObjectId(mass as i64 / 10)));
            [(at * 2.0) as i64, mass as i64, code as i64]
        })
        .collect();
    rows.sort_unstable();
    // At 5 two stored vertices have the same share; either may give the value.
    assert_eq!(rows, [[3, 0, 0], [4, 0, 0], [8, 10, 2], [10, 10, 2]]);
    assert_eq!(batch.elements().unwrap().len(), 3);
}

#[test]
fn missing_values_are_nan() {
    // The second edge is implied by the order of rows, so it has no record and no value.
    let points = vec![vec![0.0, 0.0], vec![5.0, 0.0], vec![6.0, 0.0]];
    let mut data = Data::new(Kind::Skeleton, 4.0, points).one_object();
    data.elements = vec![vec![1, 0], vec![2, 1]];
    let fixture = data.fixture();
    for columns in [Columns::All, select(&["w"])] {
        let batch = query_batch(&fixture, &Query::all().columns(columns));
        let w = &batch.elements().unwrap().fields()[0].column;
        assert!(w.float(0, 0) == Some(0.0) && w.float(1, 0).unwrap().is_nan());
    }
    // Points without an object.
    let points = vec![vec![0.0, 0.0], vec![1.0, 0.0]];
    let fixture = Data::new(Kind::PointCloud, 4.0, points).objects(vec![vec![1]]).fixture();
    let batch = query_batch(&fixture, &Query::all().columns(select(&["object.mass"])));
    assert_eq!(values(&batch, "object.mass"), [0.0]);
}

#[test]
fn unknown_names_list_the_columns() {
    let points = (0..4).map(|i| vec![i as f32, 0.0]).collect();
    let fixture = Data::new(Kind::Polyline, 4.0, points).one_object().fixture();
    for (name, message) in [
        ("nix", "there is no vertex attribute \"nix\": there is at, label, v"),
        ("vertex.nix", "there is no vertex attribute \"nix\": there is at, label, v"),
        ("fragment.nix", "there is no fragment attribute \"nix\": there is code"),
        ("object.nix", "there is no object attribute \"nix\": there is mass, size"),
        (
            "link.w",
            "an attribute of links is not possible for a polyline: it has no edges or faces",
        ),
    ] {
        let error = fixture.run(&Query::all().columns(select(&[name]))).unwrap_err();
        assert_eq!(
            error.cause_as().map(|bad: &BadQuery| bad.to_string()).as_deref(),
            Some(message)
        );
    }
}
