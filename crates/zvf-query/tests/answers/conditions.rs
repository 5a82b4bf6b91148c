//! Conditions on values of every kind, on every code path.

use zvf_model::{Bounds, Kind, ObjectId};
use zvf_query::{BadQuery, Mode, Order, Query};

use crate::fixtures::{Data, Fixture};
use crate::modes::{Random, elements, numbers, parts, random};

/// An object, and some of its vertices.
type Run<'a> = (i64, &'a [usize]);

fn filtered(condition: &str) -> Query {
    Query::all().filter(condition.parse().unwrap())
}

fn select(fixture: &Fixture, query: &Query) -> zvf_model::Batch {
    fixture.run(query).unwrap_or_else(|error| panic!("{error}: {query:?}")).batch
}

/// Returns four chains of vertices 0 to 11 along the first axis, in chunks of 4; groups g0 and g1.
fn chains() -> Data {
    let points = (0..12).map(|i| vec![i as f32, 0.0]).collect();
    let mut data = Data::new(Kind::Polyline, 4.0, points);
    data = data.objects(vec![(0..5).collect(), vec![5, 6], (7..11).collect(), vec![11]]);
    data.groups = vec![vec![0, 3], vec![2]];
    data
}

#[test]
fn conditions_on_points() {
    let points = (0..12).map(|i| vec![i as f32, 0.0]).collect();
    let unowned_points = Data::new(Kind::PointCloud, 4.0, points);
    let with_objects = unowned_points.clone().objects(vec![(0..6).collect(), (6..12).collect()]);
    #[rustfmt::skip]
    let table: [(&str, &[usize]); 9] = [
        ("v < 2", &[0, 1]),
        ("2 <= v < 4", &[2, 3]),
        ("v in (3, 7.0, 99)", &[3, 7]),
        ("not v < 10", &[10, 11]),
        ("v = 1 or label = \"c\" and v > 6", &[1, 8, 11]),
        ("label != \"a\" and v < 3", &[1, 2]),
        ("label in (\"a\", \"z\") and v <= 6", &[0, 3, 6]),
        ("label is null", &[]),
        ("fragment.code >= 4 and v != 5", &[4, 6, 7, 8, 9, 10, 11]),
    ];
    let boxed = Bounds::new(&[1.0, 0.0], &[8.0, 0.0]).unwrap();
    let fixture = unowned_points.fixture();
    for (condition, expected) in table {
        assert_eq!(numbers(&select(&fixture, &filtered(condition))), expected, "{condition}");
        let query = Query::all().in_region(boxed).filter(condition.parse().unwrap());
        let inside: Vec<usize> = expected.iter().copied().filter(|v| (1..9).contains(v)).collect();
        assert_eq!(numbers(&select(&fixture, &query)), inside, "{condition}");
    }
    let fixture = with_objects.fixture();
    for (condition, expected) in table.into_iter().take(8) {
        for order in [Order::Storage, Order::Objects] {
            let query = filtered(condition).order(order);
            assert_eq!(numbers(&select(&fixture, &query)), expected, "{condition}");
        }
    }
    assert_eq!(numbers(&select(&fixture, &filtered("object.mass > 0 and v > 9"))), [10, 11]);
    let query = filtered("object.mass > 0 and v > 9").order(Order::Storage);
    assert_eq!(numbers(&select(&fixture, &query)), [10, 11]);
}

#[test]
fn conditions_on_chains() {
    let fixture = chains().fixture();
    #[rustfmt::skip]
    let table: [(&str, &[Run<'_>]); 9] = [
        ("object.size >= 4", &[(0, &[0, 1, 2, 3, 4]), (2, &[7, 8, 9, 10])]),
        ("object.mass in (10, 30)", &[(1, &[5, 6]), (3, &[11])]),
        ("object.size < 4 and v > 5", &[(1, &[6]), (3, &[11])]),
        ("v != 2 and v != 8", &[(0, &[0, 1]), (0, &[3, 4]), (1, &[5, 6]), (2, &[7]), (2, &[9, 10]), (3, &[11])]),
        ("fragment.code = 4", &[(0, &[4])]),
        ("group.name = \"g0\"", &[(0, &[0, 1, 2, 3, 4]), (3, &[11])]),
        ("not group.name = \"g0\"", &[(2, &[7, 8, 9, 10])]), // in a group of another name
        ("object.size = 1 or object.size = 2", &[(1, &[5, 6]), (3, &[11])]),
        ("label = \"b\" and v < 6", &[(0, &[1]), (0, &[4])]),
    ];
    let owned = |all: &[Run<'_>]| -> Vec<(i64, Vec<usize>)> {
        all.iter().map(|(id, run)| (*id, run.to_vec())).collect()
    };
    for (condition, expected) in table {
        assert_eq!(parts(&select(&fixture, &filtered(condition))), owned(expected), "{condition}");
        let query = filtered(condition).order(Order::Storage);
        let mut rows: Vec<usize> =
            expected.iter().flat_map(|(_, run)| run.iter().copied()).collect();
        rows.sort_unstable();
        assert_eq!(numbers(&select(&fixture, &query)), rows, "{condition}");
    }
    // The region applies to the rows that the conditions select.
    let bounds = Bounds::new(&[2.5, 0.0], &[3.5, 0.0]).unwrap();
    let query_in_region =
        |mode| Query::all().in_region(bounds).mode(mode).filter("v != 3".parse().unwrap());
    assert_eq!(parts(&select(&fixture, &query_in_region(Mode::Touch))), []);
    assert_eq!(select(&fixture, &query_in_region(Mode::Clip)).len(), 0);
    let query = Query::all().in_region(bounds).mode(Mode::Clip).filter("v < 4".parse().unwrap());
    assert_eq!(select(&fixture, &query).len(), 2);
    let bounds = Bounds::new(&[0.0, 0.0], &[3.0, 0.0]).unwrap();
    let query = Query::all().in_region(bounds).mode(Mode::Inside).filter("v < 3".parse().unwrap());
    assert_eq!(parts(&select(&fixture, &query)), owned(&[(0, &[0, 1, 2])]));
    let query = Query::all()
        .of_objects([2, 0].map(ObjectId))
        .filter("v > 3 and object.size > 4".parse().unwrap());
    assert_eq!(parts(&select(&fixture, &query)), owned(&[(0, &[4])]));
}

#[test]
fn conditions_on_edges_and_faces() {
    let points = (0..12).map(|i| vec![i as f32, 0.0]).collect();
    let mut data = Data::new(Kind::Graph, 4.0, points);
    data = data.objects(vec![(0..6).collect(), (6..12).collect()]);
    data.elements = (1..12).map(|i| vec![i - 1, i]).collect();
    let fixture = data.fixture();
    let edges = |query: &Query| {
        let mut all: Vec<usize> =
            elements(&select(&fixture, query)).iter().map(|edge| edge[0]).collect();
        all.sort_unstable();
        all
    };
    let bounds = Bounds::new(&[2.0, 0.0], &[9.0, 0.0]).unwrap();
    #[rustfmt::skip]
    let table: [(&str, &[usize], &[usize]); 6] = [
        ("link.w >= 8", &[8, 9, 10], &[8, 9]),
        ("link.w in (3, 4) or link.w > 9.5", &[3, 4, 10], &[3, 4]),
        ("link.w < 3 and v > 0", &[1, 2], &[1, 2]),
        ("v < 3", &[0, 1], &[1]), // an edge is removed with any of its vertices
        ("object.mass = 10", &[6, 7, 8, 9, 10], &[6, 7, 8, 9]),
        ("fragment.code = 0", &[0, 1, 2], &[1, 2]),
    ];
    for (condition, all, touching) in table {
        assert_eq!(edges(&filtered(condition)), all, "{condition}");
        let query = Query::all().in_region(bounds).filter(condition.parse().unwrap());
        assert_eq!(edges(&query), touching, "{condition}");
    }
    // A condition on edges keeps the vertices.
    assert_eq!(select(&fixture, &filtered("link.w > 100")).len(), 12);
    assert_eq!(numbers(&select(&fixture, &filtered("object.mass = 10"))), [6, 7, 8, 9, 10, 11]);
}

#[test]
fn impossible_conditions_are_refused_with_a_reason() {
    let fixture = chains().fixture();
    for (condition, message) in [
        ("nix = 1", "there is no vertex attribute \"nix\": there is at, label, v"),
        ("object.nix = 1", "there is no object attribute \"nix\": there is mass, size"),
        ("fragment.nix = 1", "there is no fragment attribute \"nix\": there is code"),
        ("group.nix = 1", "there is no group attribute \"nix\": there is none"),
        ("v[1] = 1", "v has 1 value per row: there is no value 1"),
        ("object.mass[2] = 1", "mass has 1 value per row: there is no value 2"),
        (
            "v > 1 or object.mass > 1",
            "object.mass belongs to a object, and stands in one condition with values of something \
             else: join them with \"and\"",
        ),
        ("link.w > 1", "there is no link attribute \"w\": there is none"),
        (
            "mass > 1",
            "there is no vertex attribute \"mass\": there is at, label, v; objects have it: write object.mass",
        ),
        ("label > 0", "label holds text: it cannot be compared with numbers"),
        ("not v in (1, 'a')", "v holds numbers: it cannot be compared with text"),
        ("x = true", "x holds numbers: it cannot be compared with true and false"),
        (
            "object.size = '4' or object.mass = 1",
            "object.size holds numbers: it cannot be compared with text",
        ),
    ] {
        let error = fixture.run(&filtered(condition)).unwrap_err();
        assert_eq!(
            error.cause_as().map(|bad: &BadQuery| bad.to_string()).as_deref(),
            Some(message)
        );
    }
}

#[test]
fn conditions_that_hold_nowhere_are_noted() {
    for (condition, text) in [
        (
            "label = 'd'",
            "label = \"d\" is never true: no such category: the categories are a, b, c",
        ),
        (
            "label in ('a', 'z')",
            "label = \"z\" is never true: no such category: the categories are a, b, c",
        ),
        ("v is null", "v is null is never true: missing numbers are NaN"),
        (
            "group.name = 'g7'",
            "group.name = \"g7\" is never true: no group passes; the first ones are g0, g1",
        ),
        ("label = 'a' and v > 99 and group.name = 'g0' and object.mass is null", ""),
    ] {
        let notices = chains().fixture().run(&filtered(condition)).unwrap().notices;
        let notices: Vec<String> = notices.iter().map(ToString::to_string).collect();
        assert_eq!(notices.len(), usize::from(!text.is_empty()), "{notices:?}");
        assert!(notices.iter().all(|notice| notice.starts_with(text)), "{notices:?}");
    }
}

/// Rows that a condition excludes count as not stored, in every mode.
#[test]
fn conditions_equal_a_store_without_the_rows() {
    for seed in 0..12 {
        let mut all = Random::new(seed + 77);
        let kinds = [Kind::PointCloud, Kind::Polyline, Kind::Graph, Kind::Mesh];
        for kind in kinds {
            let data = random(kind, 2, &mut all);
            let (low, high) =
                (all.random_integer(-10, 10) as f64, all.random_integer(10, 25) as f64);
            let bounds = Bounds::new(&[low; 2], &[high; 2]).unwrap();
            let fixture = data.fixture();
            for &mode in Mode::ALL {
                let query = Query::all().in_region(bounds).mode(mode);
                let selected =
                    select(&fixture, &query.clone().filter("label != \"b\"".parse().unwrap()));
                let remains = |v: &usize| v % 3 != 1;
                if kind == Kind::PointCloud {
                    let expected: Vec<usize> =
                        numbers(&select(&fixture, &query)).into_iter().filter(remains).collect();
                    assert_eq!(numbers(&selected), expected, "{mode} {data:?}");
                } else if kind == Kind::Polyline && matches!(mode, Mode::Crop) {
                    let unfiltered_parts = parts(&select(&fixture, &query));
                    let runs = unfiltered_parts.iter().flat_map(|(id, run)| {
                        run.chunk_by(|a, b| remains(a) == remains(b))
                            .filter(|run| remains(&run[0]))
                            .map(|run| (*id, run.to_vec()))
                    });
                    assert_eq!(parts(&selected), runs.collect::<Vec<_>>(), "{mode} {data:?}");
                } else if mode != Mode::Clip && kind != Kind::Polyline {
                    let all_elements = elements(&select(&fixture, &query));
                    let expected: Vec<_> =
                        all_elements.into_iter().filter(|ends| ends.iter().all(remains)).collect();
                    assert_eq!(elements(&selected), expected, "{mode} {data:?}");
                }
            }
        }
    }
}
