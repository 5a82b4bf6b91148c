//! The worked examples of the specification, with their exact answers.
//!
//! zarr-vectors tests chains by chunk and not by their segments, and it sometimes joins vertices
//! that were not neighbours. In these cases the exact answer differs.

use zvf_model::{Bounds, Kind, ObjectId};
use zvf_query::region::Region;
use zvf_query::{Answer, Columns, Mode, Query};

use crate::fixtures::{Data, Fixture};
use crate::modes::{elements, numbers, parts};

/// An object, and some of its vertices.
type Run = (i64, Vec<usize>);

fn points(places: &[[f32; 2]]) -> Vec<Vec<f32>> {
    places.iter().map(|place| place.to_vec()).collect()
}

fn box_query(low: [f64; 2], high: [f64; 2]) -> Query {
    Query::all().in_region(Bounds::new(&low, &high).unwrap())
}

fn ball(centre: [f64; 2], radius: f64) -> Query {
    Query::all().in_region(Region::ball(&centre, radius).unwrap())
}

fn answer_of(fixture: &Fixture, query: &Query) -> Answer {
    fixture.run(query).unwrap()
}

#[test]
fn finds_points_in_bins() {
    let mut data = Data::new(
        Kind::PointCloud,
        4.0,
        points(&[
            [7.0, 7.0],
            [1.0, 1.0],
            [3.0, 1.0],
            [1.0, 3.0],
            [5.0, 1.0],
            [4.0, 4.0],
            [8.0, 8.0],
            [2.0, 2.0],
            [0.0, 0.0],
            [4.0, 0.0],
            [3.9, 3.9],
        ]),
    );
    data.bins = 2;
    let fixture = data.fixture();
    #[rustfmt::skip]
    let table: [(Query, &[usize]); 8] = [
        (Query::all(), &[1, 8, 3, 2, 7, 10, 4, 9, 5, 0, 6]),
        (box_query([2.0, 2.0], [4.0, 4.0]), &[7, 10, 5]),
        (box_query([4.0, 4.0], [8.0, 8.0]), &[5, 0, 6]),
        (box_query([0.0, 0.0], [0.0, 0.0]), &[8]),
        (box_query([2.0, 0.0], [3.9, 3.9]), &[2, 7]), // the point at 3.9 is stored as 3.9000001
        (ball([4.0, 4.0], 1.5), &[10, 5]),
        (Query::all().limit(3), &[1, 8, 3]),
        (box_query([0.0, 0.0], [4.0, 4.0]).limit(2), &[1, 8]),
    ];
    for (query, expected) in table {
        let answer = answer_of(&fixture, &query);
        assert_eq!(numbers(&answer.batch), expected, "{query:?}");
        assert_eq!(answer.truncated, matches!(expected.len(), 2 | 3) && expected[1] == 8);
    }
    assert_eq!(answer_of(&fixture, &box_query([0.0, 0.0], [4.0, 4.0])).batch.len(), 8);
    assert!(Bounds::new(&[5.0, 5.0], &[2.0, 2.0]).is_err());
}

/// A leaves its chunk and comes back; C skips a chunk; D is a single vertex.
fn polylines() -> Fixture {
    let a = [1.0, 4.0, 8.0, 12.0, 16.0, 22.0, 15.0, 9.0, 2.0].map(|x| [x, 5.0]);
    let other_points = [[33.0, 33.0], [35.0, 35.0], [5.0, 1.0], [5.0, 25.0], [7.0, 7.0]];
    let places: Vec<[f32; 2]> = a.into_iter().chain(other_points).collect();
    let mut data = Data::new(Kind::Polyline, 10.0, points(&places));
    data = data.objects(vec![(0..9).collect(), vec![9, 10], vec![11, 12], vec![13]]);
    data.groups = vec![vec![0, 2], vec![1], vec![]];
    data.fixture()
}

const A: [usize; 9] = [0, 1, 2, 3, 4, 5, 6, 7, 8];

#[test]
fn polylines_in_a_region() {
    let fixture = polylines();
    #[rustfmt::skip]
    let table: [(Query, Vec<Run>); 9] = [
        (box_query([17.0, 4.0], [18.0, 6.0]), vec![(0, A.to_vec())]), // no vertex inside; A passes
        (box_query([0.0, 8.0], [0.5, 9.0]), vec![]),                  // an empty corner of a chunk
        (box_query([0.0, 8.0], [0.5, 9.0]).mode(Mode::Cells), vec![(0, A.to_vec()), (2, vec![11, 12]), (3, vec![13])]),
        (box_query([2.0, 12.0], [8.0, 18.0]), vec![(2, vec![11, 12])]), // C has no vertex in that chunk
        (ball([16.0, 5.0], 1.5), vec![(0, A.to_vec())]),
        (ball([16.0, 5.0], 1.5).mode(Mode::Crop), vec![(0, vec![4]), (0, vec![6])]), // not adjacent
        (box_query([0.0, 0.0], [9.0, 9.0]).mode(Mode::Crop), vec![(0, vec![0, 1, 2]), (0, vec![7, 8]), (2, vec![11]), (3, vec![13])]),
        (Query::all().limit(3), vec![]),
        (Query::all().limit(10), vec![(0, A.to_vec())]),
    ];
    for (query, expected) in table {
        assert_eq!(parts(&answer_of(&fixture, &query).batch), expected, "{query:?}");
    }
    let answer = answer_of(&fixture, &Query::all().limit(10));
    assert!(answer.truncated && !answer.complete);
}

#[test]
fn polylines_by_id() {
    let fixture = polylines();
    let object = |ids: &[i64]| Query::all().of_objects(ids.iter().copied().map(ObjectId));
    let run_query = |query: &Query| {
        let answer = answer_of(&fixture, query);
        let ids: Vec<i64> = parts(&answer.batch).iter().map(|(id, _)| *id).collect();
        (ids, answer.unknown_objects.len())
    };
    assert_eq!(run_query(&object(&[2, 0, 0, 99])), (vec![2, 0, 0], 1));
    assert_eq!(run_query(&Query::all().in_groups([0])), (vec![0, 2], 0));
    assert_eq!(run_query(&Query::all().in_groups([2])), (vec![], 0));
    assert_eq!(run_query(&object(&[2, 1]).in_groups([0])), (vec![2], 0));
    let past = fixture.run(&Query::all().in_groups([9])).unwrap_err();
    assert_eq!(past.to_string(), "InvalidArgument, there is no group 9");
    // An attribute of the objects that touch the box, with all their vertices.
    let query = box_query([0.0, 0.0], [5.0, 5.0]).columns(Columns::Named(vec!["v".into()]));
    let answer = answer_of(&fixture, &query);
    assert_eq!(numbers(&answer.batch), [&A[..], &[11, 12]].concat());
}

#[test]
fn finds_lines() {
    let places = [
        [1.0, 1.0],
        [2.0, 2.0],
        [8.0, 8.0],
        [12.0, 12.0],
        [0.0, 20.0],
        [39.0, 20.0],
        [25.0, 1.0],
        [1.0, 25.0],
    ];
    let data = Data::new(Kind::Line, 10.0, points(&places));
    let fixture = data.objects((0..4).map(|i| vec![2 * i, 2 * i + 1]).collect()).fixture();
    let found = |query: &Query| -> Vec<i64> {
        answer_of(&fixture, query).batch.parts().objects().iter().map(|id| id.0).collect()
    };
    assert_eq!(found(&box_query([0.0, 0.0], [2.0, 2.0])), [0]);
    assert_eq!(found(&box_query([9.0, 9.0], [11.0, 11.0])), [1]); // passes through
    assert_eq!(found(&box_query([10.0, 15.0], [20.0, 25.0])), [2, 3]); // 2 crosses, 3 cuts a corner
    assert_eq!(found(&box_query([11.0, 11.0], [13.0, 13.0])), [1, 3]); // 3 touches at (13, 13)
    assert_eq!(found(&Query::all().of_objects([3, 1].map(ObjectId))), [3, 1]);
}

#[test]
fn finds_faces_of_a_mesh() {
    let places = [[1.0, 1.0], [9.0, 1.0], [1.0, 9.0], [12.0, 12.0], [12.0, 1.0], [30.0, 30.0]];
    let mut data = Data::new(Kind::Mesh, 10.0, points(&places)).one_object();
    data.elements = vec![vec![0, 1, 2], vec![1, 3, 2], vec![1, 4, 3]];
    let fixture = data.fixture();
    let mesh_batch = answer_of(&fixture, &Query::all()).batch;
    assert_eq!(numbers(&mesh_batch), [0, 1, 2, 4, 3, 5]);
    let mut faces = elements(&mesh_batch);
    faces.sort();
    assert_eq!(faces, data.elements); // as written: the order of corners is kept
    let inside = |high: f64| {
        let query = box_query([0.0, 0.0], [high, high]).mode(Mode::Inside);
        let batch = answer_of(&fixture, &query).batch;
        let w = batch.elements().unwrap().fields()[0].column.clone();
        (batch.len(), elements(&batch).len(), w.len(), batch.fields().len())
    };
    assert_eq!(inside(10.0), (3, 1, 1, 3));
    assert_eq!(inside(12.0), (5, 3, 3, 3));
    // All faces that touch the box, uncut, including those that are partly inside.
    let batch = answer_of(&fixture, &box_query([0.0, 0.0], [10.0, 10.0])).batch;
    assert_eq!((batch.len(), elements(&batch).len()), (5, 3));
    let query = Query::all().of_objects([ObjectId(0)]);
    assert_eq!(answer_of(&fixture, &query).batch.len(), 6);
}

#[test]
fn finds_edges_of_a_graph_and_a_skeleton() {
    let places = [[1.0, 1.0], [5.0, 5.0], [15.0, 5.0], [25.0, 5.0], [15.0, 15.0]];
    let mut data = Data::new(Kind::Graph, 10.0, points(&places)).one_object();
    data.elements = [[0, 1], [2, 1], [2, 3], [4, 2], [3, 4], [0, 1]].map(Vec::from).into();
    let fixture = data.fixture();
    let sorted = |query: &Query| {
        let batch = answer_of(&fixture, query).batch;
        let mut edges = elements(&batch);
        edges.sort();
        (batch.len(), edges)
    };
    let all = [[0, 1], [0, 1], [2, 1], [2, 3], [3, 4], [4, 2]].map(Vec::from).to_vec();
    assert_eq!(sorted(&Query::all()), (5, all));
    let near_query = box_query([0.0, 0.0], [15.0, 5.0]);
    let inside = vec![vec![0, 1], vec![0, 1], vec![2, 1]];
    assert_eq!(sorted(&near_query.clone().mode(Mode::Inside)), (3, inside));
    // This includes elements with one end inside.
    assert_eq!(sorted(&near_query).1.len(), 5);

    let places = [[1.0, 5.0], [5.0, 5.0], [8.0, 5.0], [8.0, 9.0], [8.0, 12.0], [12.0, 5.0]];
    let mut data = Data::new(Kind::Skeleton, 10.0, points(&places)).one_object();
    data.elements = [[1, 0], [2, 1], [3, 2], [4, 3], [5, 2]].map(Vec::from).into();
    let batch = answer_of(&data.fixture(), &Query::all()).batch;
    assert_eq!(elements(&batch), data.elements);
}
