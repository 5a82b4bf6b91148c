//! Fragments that share rows, links to rows that are not there, and edges that the order of rows implies.

use zvf_format::Class;
use zvf_format::fragment::FragmentIndexBuilder;
use zvf_model::{Bounds, Kind, ObjectId};
use zvf_query::{Mode, Order, Query};

use crate::made::{Data, Files, Made, store};
use crate::modes::{elements, numbers};

/// The files with the payload of a cell replaced.
fn with_cell(files: &Files, path: &str, payload: &[u8]) -> Files {
    let mut files = files.clone();
    let cell = files.iter_mut().find(|(name, _)| name == path);
    let (_, bytes) = cell.unwrap_or_else(|| panic!("no {path}"));
    *bytes = [&1_u32.to_le_bytes()[..], &(payload.len() as u32).to_le_bytes(), payload].concat();
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

fn fragments(ranges: &[(u64, u64)]) -> Vec<u8> {
    let mut builder = FragmentIndexBuilder::new();
    ranges.iter().for_each(|(start, count)| builder.range(*start, *count).unwrap());
    builder.encode()
}

/// Six vertices in one chunk, and three in the next.
fn nine(kind: Kind) -> Data {
    let points = (0..9).map(|i| vec![i as f32, 0.0]).collect();
    Data::new(kind, 6.0, points)
}

#[test]
fn a_row_that_several_fragments_name_comes_once() {
    let bounds = Bounds::new(&[-1.0, -1.0], &[20.0, 1.0]).unwrap();
    for kind in [Kind::PointCloud, Kind::Graph, Kind::Mesh] {
        let mut data = nine(kind);
        if kind.has_links() {
            data.elements = vec![vec![0, 1], vec![2, 3], vec![5, 6]];
        }
        let shared = fragments(&[(2, 3), (0, 4), (3, 3)]);
        let made = Made::of(&with_cell(&store(&[data]), "0/vertex_fragments/c/0/0", &shared));
        let by_fragment = [2, 3, 4, 0, 1, 5, 6, 7, 8];
        for query in [
            Query::all(),
            Query::within(bounds),
            Query::within(bounds).mode(Mode::Cells),
            Query::all().with_places(),
            Query::all().filter("x >= 0".parse().unwrap()),
        ] {
            let batch = made.run(&query).unwrap().batch;
            assert_eq!(numbers(&batch), by_fragment, "{kind} {query:?}");
            if kind.has_links() {
                assert_eq!(elements(&batch).len(), 3, "{kind} {query:?}");
            }
            let counts = made.wait(made.reader.count(&query)).unwrap();
            assert_eq!(counts.vertices, 9, "{kind} {query:?}");
        }
    }
}

#[test]
fn a_shared_row_belongs_to_each_object_that_is_asked_for() {
    let data = nine(Kind::PointCloud).objects(vec![vec![0, 1, 2], vec![3, 4, 5], vec![6, 7, 8]]);
    let shared = fragments(&[(0, 4), (2, 4)]);
    let made = Made::of(&with_cell(&store(&[data]), "0/vertex_fragments/c/0/0", &shared));
    for (ids, storage, by_object) in [
        (vec![0], vec![0, 1, 2, 3], vec![0, 1, 2, 3]),
        (vec![1], vec![2, 3, 4, 5], vec![2, 3, 4, 5]),
        (vec![1, 0], vec![0, 1, 2, 3, 4, 5], vec![2, 3, 4, 5, 0, 1, 2, 3]),
    ] {
        let query = Query::objects(ids.iter().copied().map(ObjectId));
        let stored = made.run(&query.clone().order(Order::Storage)).unwrap().batch;
        assert_eq!(numbers(&stored), storage, "{ids:?}");
        assert_eq!(numbers(&made.run(&query).unwrap().batch), by_object, "{ids:?}");
    }
}

#[test]
fn links_to_rows_that_are_not_there_are_refused_in_every_way_of_asking() {
    let near = Bounds::new(&[-1.0, -1.0], &[3.0, 1.0]).unwrap();
    for kind in [Kind::Graph, Kind::Skeleton, Kind::Mesh] {
        let mut data = nine(kind).objects(vec![(0..6).collect(), (6..9).collect()]);
        data.elements = match kind {
            Kind::Skeleton => vec![vec![5, 2]],
            _ => vec![vec![0, 1]],
        };
        let whole = store(&[data]);
        for row in [6_i64, 77, 1 << 33, i64::MAX] {
            let links: Vec<u8> = [1, row].iter().flat_map(|n| n.to_le_bytes()).collect();
            let made = Made::of(&with_cell(&whole, "0/links/0/0.0/c/0/0", &links));
            for query in [
                Query::all(),
                Query::within(near),
                Query::within(near).mode(Mode::Clip),
                Query::within(near).mode(Mode::Cells),
                Query::within(near).mode(Mode::Inside),
                Query::objects([ObjectId(0)]),
                Query::all().with_owners(),
                Query::all().filter("v < 4".parse().unwrap()),
            ] {
                let error = made.run(&query).unwrap_err();
                assert_eq!(error.class(), Class::OutOfBounds, "{kind} {row} {query:?} {error}");
                assert!(made.wait(made.reader.count(&query)).is_err(), "{kind} {row} {query:?}");
            }
        }
    }
}

#[test]
fn the_convention_says_whether_rows_follow_each_other() {
    let mut data = nine(Kind::Graph).objects(vec![(0..6).collect(), (6..9).collect()]);
    data.elements = vec![vec![0, 3], vec![5, 6]];
    let files = store(&[data]);
    let words = ["explicit", "implicit_sequential", "implicit_sequential_with_branches"];
    for (word, edges) in words.into_iter().zip([2, 2, 9]) {
        let to = format!("\"links_convention\":\"{word}\"");
        let made =
            Made::of(&with_document(&files, "zarr.json", "\"links_convention\":\"explicit\"", &to));
        let bounds = Bounds::new(&[-1.0, -1.0], &[20.0, 1.0]).unwrap();
        for query in [Query::all(), Query::within(bounds)] {
            assert_eq!(elements(&made.run(&query).unwrap().batch).len(), edges, "{word} {query:?}");
        }
    }
}
