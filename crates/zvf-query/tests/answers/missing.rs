//! Cells that are listed but absent: an error, unless the query allows missing cells.

use zvf_format::Class;
use zvf_model::{Bounds, Kind};
use zvf_query::{Columns, Mode, Order, Query};

use crate::fixtures::{Data, Files, Fixture, store};
use crate::modes::{elements, numbers, parts};

/// Returns vertices 0 to 11 in chunks of four, along the first axis.
fn row(kind: Kind) -> Data {
    Data::new(kind, 4.0, (0..12).map(|i| vec![i as f32, 0.0]).collect())
}

fn remove_cell(files: &Files, cell: &str) -> Files {
    let mut files = files.clone();
    let before = files.len();
    files.retain(|(path, _)| path != cell);
    assert_eq!(files.len(), before - 1, "{cell}");
    files
}

const ARRAYS: [&str; 3] = ["vertices", "vertex_fragments", "vertex_attributes/v"];

/// Checks the answer to `query` without the middle chunk of `array`.
fn check(data: &Data, array: &str, query: &Query, check_batch: impl Fn(&zvf_model::Batch)) {
    let cell = format!("0/{array}/c/1/0");
    let fixture = Fixture::from_files(&remove_cell(&store(std::slice::from_ref(data)), &cell));
    let error = fixture.run(query).unwrap_err();
    assert_eq!(error.class(), Class::NotFound, "{array} {query:?}");
    assert!(error.to_string().contains(&format!("0/{array}")), "{error}");
    let allowed = query.clone().allow_missing();
    let answer = fixture.run(&allowed).unwrap_or_else(|e| panic!("{array} {query:?}: {e}"));
    assert!(!answer.complete, "{array} {query:?}");
    let missing: Vec<(&str, String)> =
        answer.missing.iter().map(|cell| (cell.array.as_str(), cell.chunk.to_string())).collect();
    assert_eq!(missing, [(format!("0/{array}").as_str(), "1.0".to_owned())], "{query:?}");
    check_batch(&answer.batch);
}

const REMAINING: [usize; 8] = [0, 1, 2, 3, 8, 9, 10, 11];

#[test]
fn missing_cells_of_points() {
    let bounds = Bounds::new(&[-1.0, -1.0], &[20.0, 1.0]).unwrap();
    for data in [row(Kind::PointCloud), row(Kind::PointCloud).one_object()] {
        let mut queries = vec![Query::all(), Query::all().in_region(bounds)];
        queries.push(Query::all().filter("v >= 0".parse().unwrap()));
        if !data.objects.is_empty() {
            queries.push(Query::all().order(Order::Objects));
            queries.push(Query::all().with_owners());
            let files = store(std::slice::from_ref(&data));
            let files = remove_cell(&files, "0/object_index/manifests/c/0");
            let error = Fixture::from_files(&files).run(&queries[4]).unwrap_err();
            assert_eq!(error.class(), Class::NotFound);
        }
        for array in ARRAYS {
            for query in &queries {
                check(&data, array, query, |batch| {
                    assert_eq!(numbers(batch), REMAINING, "{query:?}");
                });
            }
        }
    }
}

#[test]
fn missing_cells_are_ordered_by_array_and_chunk() {
    let mut files = store(&[row(Kind::PointCloud)]);
    for cell in ["0/vertices/c/2/0", "0/vertices/c/0/0", "0/vertex_attributes/v/c/1/0"] {
        files = remove_cell(&files, cell);
    }
    let fixture = Fixture::from_files(&files);
    let answer = fixture.run(&Query::all().allow_missing()).unwrap();
    let missing: Vec<String> =
        answer.missing.iter().map(|cell| format!("{} {}", cell.array, cell.chunk)).collect();
    assert_eq!(missing, ["0/vertex_attributes/v 1.0", "0/vertices 0.0", "0/vertices 2.0"]);
}

#[test]
fn missing_cells_of_chains() {
    let data = row(Kind::Polyline).one_object();
    let bounds = Bounds::new(&[1.0, -1.0], &[10.0, 1.0]).unwrap();
    let pair = |first: &[usize], second: &[usize]| vec![(0, first.to_vec()), (0, second.to_vec())];
    let expected_halves = pair(&REMAINING[..4], &REMAINING[4..]);
    let cropped = pair(&[1, 2, 3], &[8, 9, 10]);
    let runs = vec![(0, vec![0, 1, 2, 3]), (0, vec![8]), (0, vec![10, 11])];
    let boxed = |mode| Query::all().in_region(bounds).mode(mode);
    for array in ARRAYS {
        // The remaining runs are never joined across missing cells.
        for (query, expected) in [
            (Query::all().with_owners(), &expected_halves),
            (Query::all().of_objects([zvf_model::ObjectId(0)]), &expected_halves),
            (boxed(Mode::Touch), &expected_halves),
            (boxed(Mode::Crop), &cropped),
            (boxed(Mode::Clip), &cropped),
            (Query::all().filter("v != 9".parse().unwrap()), &runs),
        ] {
            check(&data, array, &query, |batch| assert_eq!(parts(batch), *expected, "{query:?}"));
        }
        let rows = Query::all().order(Order::Storage);
        check(&data, array, &rows, |batch| assert_eq!(numbers(batch), REMAINING));
    }
}

#[test]
fn missing_cells_of_edges() {
    let mut data = row(Kind::Graph).one_object();
    data.elements = (1..12).map(|i| vec![i - 1, i]).collect();
    let bounds = Bounds::new(&[1.0, -1.0], &[10.0, 1.0]).unwrap();
    let remaining = |batch: &zvf_model::Batch| {
        let mut edges: Vec<usize> = elements(batch).iter().map(|edge| edge[0]).collect();
        edges.sort_unstable();
        (numbers(batch), edges)
    };
    for array in ARRAYS {
        let all_edges = &[0, 1, 2, 8, 9, 10][..];
        let boxed = Query::all().in_region(bounds);
        for (query, rows, edges) in [
            (Query::all(), &REMAINING[..], all_edges),
            (Query::all().of_objects([zvf_model::ObjectId(0)]), &REMAINING, all_edges),
            (Query::all().with_owners(), &REMAINING, all_edges),
            (boxed.clone(), &REMAINING, all_edges),
            (boxed.mode(Mode::Clip), &[1, 2, 3, 8, 9, 10], &[1, 2, 8, 9]),
            (
                Query::all().filter("v != 9".parse().unwrap()),
                &[0, 1, 2, 3, 8, 10, 11],
                &[0, 1, 2, 10],
            ),
        ] {
            check(&data, array, &query, |batch| {
                let expected = (rows.to_vec(), edges.to_vec());
                assert_eq!(remaining(batch), expected, "{array} {query:?}");
            });
        }
    }
    // The edges and their values.
    let files = store(&[data]);
    for (cell, edges) in [("0/links/0/0.0/c/1/0", 8), ("0/link_attributes/w/0/0.0/c/1/0", 11)] {
        let fixture = Fixture::from_files(&remove_cell(&files, cell));
        assert_eq!(fixture.run(&Query::all()).unwrap_err().class(), Class::NotFound, "{cell}");
        let answer = fixture.run(&Query::all().allow_missing()).unwrap();
        let found = answer.batch.elements().unwrap();
        assert_eq!((answer.complete, answer.missing.len(), found.len()), (false, 1, edges));
        let w = &found.fields()[0].column;
        let unknown = (0..found.len()).filter(|i| w.float(*i, 0).unwrap().is_nan()).count();
        assert_eq!(unknown, 11 - 8 - (11 - edges), "{cell}");
        assert!(fixture.run(&Query::all().columns(Columns::None)).is_err() == (edges == 8));
    }
}
