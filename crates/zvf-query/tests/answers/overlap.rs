//! Fragments that share rows, links to missing rows, and edges that the order of rows implies.

use zvf_format::Class;
use zvf_model::{Bounds, Kind, ObjectId};
use zvf_query::{Mode, Order, Query};

use crate::fixtures::{Data, Files, Fixture, fragments, replace, store};
use crate::modes::{elements, numbers};

/// Returns the files with the payload of one cell replaced.
fn with_cell(files: &Files, path: &str, payload: &[u8]) -> Files {
    let mut files = files.clone();
    replace(&mut files, path, &[payload.to_vec()]);
    files
}

fn with_document(files: &Files, path: &str, from: &str, to: &str) -> Files {
    let mut files = files.clone();
    let (_, bytes) = files.iter_mut().find(|(name, _)| name == path).unwrap();
    let text = String::from_utf8(bytes.clone()).unwrap();
    assert!(text.contains(from), "{text}");
    *bytes = text.replace(from, to).into_bytes();
    files
}

/// Returns six vertices in one chunk, and three in the next.
fn nine_points(kind: Kind) -> Data {
    let points = (0..9).map(|i| vec![i as f32, 0.0]).collect();
    Data::new(kind, 6.0, points)
}

#[test]
fn a_row_of_several_fragments_is_returned_once() {
    let bounds = Bounds::new(&[-1.0, -1.0], &[20.0, 1.0]).unwrap();
    for kind in [Kind::Graph, Kind::Mesh] {
        let mut data = nine_points(kind);
        if kind.has_links() {
            data.elements = vec![vec![0, 1], vec![2, 3], vec![5, 6]];
        }
        let shared = fragments(&[(2, 3), (0, 4), (3, 3)]);
        let fixture =
            Fixture::from_files(&with_cell(&store(&[data]), "0/vertex_fragments/c/0/0", &shared));
        let by_fragment = [2, 3, 4, 0, 1, 5, 6, 7, 8];
        for query in [
            Query::all(),
            Query::all().in_region(bounds),
            Query::all().in_region(bounds).mode(Mode::Cells),
            Query::all().with_places(),
            Query::all().filter("x >= 0".parse().unwrap()),
        ] {
            let batch = fixture.run(&query).unwrap().batch;
            assert_eq!(numbers(&batch), by_fragment, "{kind} {query:?}");
            if kind.has_links() {
                assert_eq!(elements(&batch).len(), 3, "{kind} {query:?}");
            }
            let counts = fixture.wait(fixture.reader.count(&query)).unwrap();
            assert_eq!(counts.vertices, 9, "{kind} {query:?}");
        }
    }
}

#[test]
fn a_shared_row_belongs_to_each_requested_object() {
    let data =
        nine_points(Kind::PointCloud).objects(vec![vec![0, 1, 2], vec![3, 4, 5], vec![6, 7, 8]]);
    let shared = fragments(&[(0, 4), (2, 4)]);
    let fixture =
        Fixture::from_files(&with_cell(&store(&[data]), "0/vertex_fragments/c/0/0", &shared));
    for (ids, storage, by_object) in [
        (vec![0], vec![0, 1, 2, 3], vec![0, 1, 2, 3]),
        (vec![1], vec![2, 3, 4, 5], vec![2, 3, 4, 5]),
        (vec![1, 0], vec![0, 1, 2, 3, 2, 3, 4, 5], vec![2, 3, 4, 5, 0, 1, 2, 3]),
    ] {
        let query = Query::all().of_objects(ids.iter().copied().map(ObjectId));
        let stored = fixture.run(&query.clone().order(Order::Storage)).unwrap().batch;
        assert_eq!(numbers(&stored), storage, "{ids:?}");
        assert_eq!(numbers(&fixture.run(&query).unwrap().batch), by_object, "{ids:?}");
    }
}

#[test]
fn every_query_rejects_links_to_missing_rows() {
    let bounds = Bounds::new(&[-1.0, -1.0], &[3.0, 1.0]).unwrap();
    for kind in [Kind::Graph, Kind::Skeleton, Kind::Mesh] {
        let mut data = nine_points(kind).objects(vec![(0..6).collect(), (6..9).collect()]);
        data.elements = match kind {
            Kind::Skeleton => vec![vec![5, 2]],
            _ => vec![vec![0, 1]],
        };
        let sound = store(&[data]);
        for row in [6_i64, 77, 1 << 33, i64::MAX] {
            let links: Vec<u8> = [1, row].iter().flat_map(|n| n.to_le_bytes()).collect();
            let fixture = Fixture::from_files(&with_cell(&sound, "0/links/0/0.0/c/0/0", &links));
            for query in [
                Query::all(),
                Query::all().in_region(bounds),
                Query::all().in_region(bounds).mode(Mode::Clip),
                Query::all().in_region(bounds).mode(Mode::Cells),
                Query::all().in_region(bounds).mode(Mode::Inside),
                Query::all().of_objects([ObjectId(0)]),
                Query::all().with_owners(),
                Query::all().filter("v < 4".parse().unwrap()),
            ] {
                let error = fixture.run(&query).unwrap_err();
                assert_eq!(error.class(), Class::OutOfBounds, "{kind} {row} {query:?} {error}");
                assert!(
                    fixture.wait(fixture.reader.count(&query)).is_err(),
                    "{kind} {row} {query:?}"
                );
            }
        }
    }
}

#[test]
fn the_convention_decides_whether_rows_are_joined() {
    let mut data = nine_points(Kind::Graph).objects(vec![(0..6).collect(), (6..9).collect()]);
    data.elements = vec![vec![0, 3], vec![5, 6]];
    let files = store(&[data]);
    let conventions = ["explicit", "implicit_sequential", "implicit_sequential_with_branches"];
    for (convention, edges) in conventions.into_iter().zip([2, 2, 8]) {
        let to = format!("\"links_convention\":\"{convention}\"");
        let fixture = Fixture::from_files(&with_document(
            &files,
            "zarr.json",
            "\"links_convention\":\"explicit\"",
            &to,
        ));
        let bounds = Bounds::new(&[-1.0, -1.0], &[20.0, 1.0]).unwrap();
        for query in [Query::all(), Query::all().in_region(bounds)] {
            assert_eq!(
                elements(&fixture.run(&query).unwrap().batch).len(),
                edges,
                "{convention} {query:?}"
            );
        }
    }
}

#[test]
fn queries_reject_fragments_without_vertices() {
    for kind in [Kind::PointCloud, Kind::Graph] {
        let mut files = store(&[nine_points(kind)]);
        files.retain(|(path, _)| path != "0/vertices/c/1/0");
        let removed =
            with_document(&files, "0/vertices/zarr.json", "[\"0.0\",\"1.0\"]", "[\"0.0\"]");
        let fixture = Fixture::from_files(&removed);
        let far_bounds = Bounds::new(&[7.0, -1.0], &[20.0, 1.0]).unwrap();
        for query in [
            Query::all(),
            Query::all().in_region(far_bounds),
            Query::all().filter("x > 1".parse().unwrap()),
        ] {
            let error = fixture.run(&query).unwrap_err();
            assert_eq!(error.class(), Class::OutOfBounds, "{kind} {query:?}");
            assert!(error.to_string().contains("1.0"), "{error}");
            let answer = fixture.run(&query.allow_missing()).unwrap();
            assert!(!answer.complete && answer.missing.len() == 1, "{kind}");
        }
        let near_bounds = Bounds::new(&[-1.0, -1.0], &[3.0, 1.0]).unwrap();
        assert_eq!(
            numbers(&fixture.run(&Query::all().in_region(near_bounds)).unwrap().batch),
            [0, 1, 2, 3]
        );
        // An index without fragments causes no error.
        let empty = with_cell(&removed, "0/vertex_fragments/c/1/0", &fragments(&[]));
        assert_eq!(Fixture::from_files(&empty).run(&Query::all()).unwrap().batch.len(), 6);
    }
}

#[test]
fn objects_are_not_answered_without_chunks_that_have_no_vertices() {
    let mut files = store(&[nine_points(Kind::Polyline).one_object()]);
    files.retain(|(path, _)| path != "0/vertices/c/1/0");
    let files = with_document(&files, "0/vertices/zarr.json", "[\"0.0\",\"1.0\"]", "[\"0.0\"]");
    let fixture = Fixture::from_files(&files);
    // The box does not reach the chunk, but the object does.
    let query = Query::all().in_region(Bounds::new(&[-1.0, -1.0], &[3.0, 1.0]).unwrap());
    let error = fixture.run(&query).unwrap_err();
    assert_eq!(error.class(), Class::NotFound, "{error}");
    let text = error.to_string();
    assert!(text.starts_with("NotFound in 0/vertices, cell: "), "{text}");
    assert!(text.ends_with(" (chunk 1.0, object 0)"), "{text}");
    let answer = fixture.run(&query.allow_missing()).unwrap();
    assert_eq!((answer.complete, answer.missing.len()), (false, 1));
    assert_eq!(numbers(&answer.batch), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn elements_of_rows_that_no_fragment_names_are_left_out() {
    let mut data = nine_points(Kind::Graph);
    data.elements = vec![vec![0, 5], vec![2, 3]];
    let files = with_cell(&store(&[data]), "0/vertex_fragments/c/0/0", &fragments(&[(0, 5)]));
    let fixture = Fixture::from_files(&files);
    let bounds = Bounds::new(&[1.5, -1.0], &[4.5, 1.0]).unwrap();
    for mode in [Mode::Touch, Mode::Clip] {
        let batch = fixture.run(&Query::all().in_region(bounds).mode(mode)).unwrap().batch;
        assert_eq!(elements(&batch), [[2, 3]], "{mode}");
    }
}

#[test]
fn edges_with_a_child_and_a_parent_are_pairs() {
    for (kind, class) in [(Kind::Skeleton, Some(Class::BadShape)), (Kind::Graph, None)] {
        let mut data = nine_points(kind);
        data.elements = vec![vec![0, 1, 2], vec![3, 4, 5]];
        let found = data.fixture().run(&Query::all());
        assert_eq!(found.err().map(|error| error.class()), class, "{kind}");
    }
}

#[test]
fn empty_answers_have_all_columns() {
    let empty_bounds = Bounds::new(&[500.0, 500.0], &[501.0, 501.0]).unwrap();
    for kind in [Kind::PointCloud, Kind::Polyline, Kind::Graph, Kind::Skeleton, Kind::Mesh] {
        let mut data = nine_points(kind).objects(vec![(0..6).collect(), (6..9).collect()]);
        data.elements = match kind {
            Kind::Mesh => vec![vec![0, 1, 2]],
            Kind::Skeleton => vec![vec![5, 2], vec![6, 5]],
            Kind::Graph => vec![vec![0, 1], vec![5, 6]],
            _ => Vec::new(),
        };
        let fixture = data.fixture();
        let answer = |query: Query| fixture.run(&query.with_owners().with_places()).unwrap().batch;
        let full_batch = answer(Query::all());
        for query in [
            Query::all().in_region(empty_bounds),
            Query::all().in_region(empty_bounds).mode(Mode::Cells),
            Query::all().filter("v > 1000".parse().unwrap()),
            Query::all().filter("x > 1000".parse().unwrap()),
            Query::all().of_objects([ObjectId(55)]),
        ] {
            let empty_batch = answer(query.clone());
            let columns = |batch: &zvf_model::Batch| -> Vec<_> {
                let fields = batch
                    .fields()
                    .iter()
                    .chain(batch.elements().into_iter().flat_map(|all| all.fields()));
                fields
                    .map(|field| (field.name.clone(), field.column.dtype(), field.column.width()))
                    .collect()
            };
            assert!(empty_batch.is_empty(), "{kind} {query:?}");
            assert_eq!(columns(&empty_batch), columns(&full_batch), "{kind} {query:?}");
            assert_eq!(empty_batch.positions().dtype(), full_batch.positions().dtype());
            assert_eq!(
                empty_batch.elements().map(zvf_model::Elements::width),
                full_batch.elements().map(zvf_model::Elements::width),
                "{kind} {query:?}"
            );
            assert!(empty_batch.vertex_objects().is_some(), "{kind} {query:?}");
        }
    }
}

#[test]
fn missing_rows_have_no_relatives() {
    let fixture = nine_points(Kind::PointCloud).fixture();
    let row = |chunk: i64, row| zvf_model::VertexRow {
        chunk: zvf_format::key::ChunkKey::new(&[chunk, 0]).unwrap(),
        row,
    };
    let level = zvf_model::LevelId;
    for (rows, message) in [
        (vec![row(0, 5), row(1, 2)], None),
        (vec![row(0, 6)], Some("InvalidArgument, there is no row 6 in chunk 0.0")),
        (vec![row(0, 0), row(7, 0)], Some("InvalidArgument, there is no row 0 in chunk 7.0")),
        (
            vec![row(1, u64::MAX)],
            Some("InvalidArgument, there is no row 18446744073709551615 in chunk 1.0"),
        ),
    ] {
        let found =
            fixture.wait(fixture.reader.find_related_of_kind(None, level(0), level(1), &rows));
        assert_eq!(found.err().map(|error| error.to_string()).as_deref(), message);
    }
}

#[test]
fn edges_of_skeletons_have_two_ends() {
    let points = [0.0, 1.0, 2.0, 3.0].map(|x| vec![x, 0.0]).to_vec();
    let mut data = Data::new(Kind::Skeleton, 10.0, points).one_object();
    data.elements = vec![vec![2, 1, 0]];
    let fixture = data.fixture();
    let error = fixture.run(&Query::all()).unwrap_err();
    assert_eq!(error.class(), Class::BadShape);
    assert!(error.to_string().contains("link_width of edges: expected 2, found 3"), "{error}");
    assert_eq!(fixture.run(&Query::all().vertices_only()).unwrap().batch.len(), 4);
}
