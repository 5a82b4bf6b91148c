//! Counts without batches, statistics, and conditions on axes.

use zvf_model::{Bounds, Kind, LevelId, ObjectId, Value};
use zvf_query::predicate::Scope;
use zvf_query::{Columns, Mode, Order, Query, Summary};

use crate::fixtures::{Data, Fixture};
use crate::modes::{Random, numbers, parts, random};

fn filtered(condition: &str) -> Query {
    Query::all().filter(condition.parse().unwrap())
}

#[test]
fn counts_are_those_of_the_answer() {
    let bounds = Bounds::new(&[-4.0; 2], &[15.0; 2]).unwrap();
    for seed in 0..6 {
        let mut numbers_of = Random::new(seed + 31);
        for kind in [Kind::PointCloud, Kind::Polyline, Kind::Graph, Kind::Skeleton, Kind::Mesh] {
            let data = random(kind, 2, &mut numbers_of);
            let fixture = data.fixture();
            let mut queries = vec![
                Query::all(),
                filtered("v >= 3"),
                filtered("x > 2 and label != \"a\""),
                Query::all().in_region(bounds),
                Query::all().in_region(bounds).mode(Mode::Cells).with_places(),
                Query::all().limit(4),
                Query::all().limit(100_000),
            ];
            if !data.objects.is_empty() {
                queries.push(Query::all().of_objects([ObjectId(0), ObjectId(77)]).with_owners());
                queries.push(filtered("object.size > 2"));
            }
            for query in queries {
                let context = format!("{kind} {query:?} {data:?}");
                let answer = fixture.run(&query.clone().columns(Columns::None)).unwrap();
                let counts = fixture.wait(fixture.reader.count(&query)).unwrap();
                let batch = &answer.batch;
                assert_eq!(counts.vertices, batch.len() as u64, "{context}");
                assert_eq!(counts.parts, batch.parts().len() as u64, "{context}");
                let elements = batch.elements().map(|all| all.len() as u64);
                assert_eq!(
                    counts.elements,
                    elements.or(kind.has_links().then_some(0)),
                    "{context}"
                );
                assert_eq!(counts.truncated, answer.truncated, "{context}");
                assert_eq!(counts.complete, answer.complete, "{context}");
                assert_eq!(counts.unknown_objects, answer.unknown_objects, "{context}");
            }
        }
    }
}

#[test]
fn counting_points_reads_no_positions() {
    let points = (0..64).map(|i| vec![i as f32, 0.0]).collect();
    let fixture = Data::new(Kind::PointCloud, 8.0, points).fixture();
    let counts = fixture.wait(fixture.reader.count(&Query::all())).unwrap();
    assert_eq!((counts.vertices, counts.complete), (64, true));
    let before = fixture.reader.store().io_stats().bytes_read;
    assert_eq!(fixture.run(&Query::all()).unwrap().batch.len(), 64);
    let read = fixture.reader.store().io_stats().bytes_read - before;
    assert!(read >= 64 * 8, "positions were not there yet: {read}");
}

fn counts_of(summary: &Summary) -> (u64, u64, Option<String>, Option<String>, Option<f64>) {
    let text = |value: &Option<Value>| value.as_ref().map(ToString::to_string);
    (summary.count, summary.nulls, text(&summary.min), text(&summary.max), summary.mean())
}

#[test]
fn statistics_are_those_of_the_stored_values() {
    let text_of = |text: &str| Some(text.to_owned());
    for kind in [Kind::PointCloud, Kind::Graph, Kind::Polyline] {
        let points = (0..12).map(|i| vec![i as f32, -2.0]).collect();
        let mut data = Data::new(kind, 4.0, points);
        data = data.objects(vec![(0..8).collect(), (8..12).collect()]);
        if kind == Kind::Graph {
            data.elements = (1..12).map(|i| vec![i - 1, i]).collect();
        }
        let fixture = data.fixture();
        let all = fixture.wait(fixture.reader.statistics(LevelId(0), None)).unwrap();
        assert_eq!((all.vertices, all.axes.len()), (12, 2), "{kind}");
        assert_eq!(counts_of(&all.axes[0]), (12, 0, text_of("0"), text_of("11"), Some(5.5)));
        assert_eq!(counts_of(&all.axes[1]), (12, 0, text_of("-2"), text_of("-2"), Some(-2.0)));
        let (links, other_attributes): (Vec<_>, Vec<_>) =
            all.attributes.iter().partition(|item| item.scope == Scope::Link);
        // Edge `i` of a graph has the value `i`.
        let link_counts = links.iter().map(|item| (item.name.as_str(), item.total().count));
        let expected = (kind == Kind::Graph).then_some(("w", 11));
        assert_eq!(link_counts.collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>());
        let names: Vec<(Scope, &str)> =
            other_attributes.iter().map(|item| (item.scope, item.name.as_str())).collect();
        let (vertex, object) = (Scope::Vertex, Scope::Object);
        assert_eq!(
            names,
            [(vertex, "at"), (vertex, "label"), (vertex, "v"), (object, "mass"), (object, "size")]
        );
        let counts_of_other = |at: usize| counts_of(&other_attributes[at].components[0]);
        assert_eq!(counts_of_other(1), (12, 0, text_of("a"), text_of("c"), None));
        assert_eq!(counts_of_other(2), (12, 0, text_of("0"), text_of("11"), Some(5.5)));
        assert_eq!(counts_of_other(3), (2, 0, text_of("0"), text_of("10"), Some(5.0)));
        assert_eq!(counts_of_other(4), (2, 0, text_of("4"), text_of("8"), Some(6.0)));
    }
    let empty = Data::new(Kind::PointCloud, 4.0, vec![vec![0.0, f32::NAN]]).fixture();
    let all = empty.wait(empty.reader.statistics(LevelId(0), None)).unwrap();
    assert_eq!(counts_of(&all.axes[1]), (0, 0, None, None, None), "NaN is no value");
    assert_eq!(all.axes[1].nans, 1);
    assert!(empty.wait(empty.reader.statistics(LevelId(3), None)).is_err());
    assert!(empty.wait(empty.reader.statistics(LevelId(0), Some(Kind::Mesh))).is_err());
}

/// Returns the number of cells that a query reads.
fn cells(fixture: &Fixture, query: &Query) -> u64 {
    fixture.wait(fixture.reader.plan(query)).unwrap().cells
}

#[test]
fn conditions_on_axes_reduce_the_cells_read() {
    let points = (0..32).map(|i| vec![i as f32, 0.0]).collect();
    let data = Data::new(Kind::PointCloud, 4.0, points);
    let fixture = data.fixture();
    #[rustfmt::skip]
    let table: [(&str, std::ops::Range<usize>, u64); 13] = [
        ("x >= 10 and x < 13", 10..13, 2),
        ("3 < x <= 6", 4..7, 2),
        ("x > 3.5 and x < 8", 4..8, 3), // bounds are closed: the chunk that holds 8 is read
        ("y > -3", 0..32, 8),
        ("y > 5", 0..0, 0),
        ("x = 5", 5..6, 1),
        ("x in (5, 6.5, 9)", 5..6, 2),
        ("x > 20 and x < 10", 0..0, 0),
        ("x > 5.5 and x < 5.2", 0..0, 1),
        ("x > 10 and v < 12", 11..12, 6),
        ("x < 2 or x > 40", 0..2, 8),     // no bound that holds for all rows
        ("not x >= 2", 0..2, 8),
        ("x < 9223372036854775807", 0..32, 8),
    ];
    for (condition, rows, looked_into) in table {
        let query = filtered(condition);
        let found = numbers(&fixture.run(&query).unwrap().batch);
        if condition.starts_with("x in") {
            assert_eq!(found, [5, 9]);
        } else {
            assert_eq!(found, rows.collect::<Vec<_>>(), "{condition}");
        }
        assert_eq!(cells(&fixture, &query), looked_into, "{condition}");
    }
    let bounds = Bounds::new(&[0.0, -100.0], &[14.0, 100.0]).unwrap();
    let query = Query::all().in_region(bounds).filter("x > 9".parse().unwrap());
    assert_eq!(numbers(&fixture.run(&query).unwrap().batch), [10, 11, 12, 13, 14]);
    assert_eq!(cells(&fixture, &query), 2);
    let error = fixture.run(&filtered("x[1] > 3")).unwrap_err();
    assert_eq!(error.to_string(), "InvalidArgument, x has 1 value per row: there is no value 1");
}

/// Narrowing by axes excludes no row of the answer, in any query.
#[test]
fn axes_are_columns_like_any_other() {
    for seed in 0..16 {
        let mut all = Random::new(seed + 900);
        for kind in [Kind::PointCloud, Kind::Polyline, Kind::Graph, Kind::Skeleton, Kind::Mesh] {
            let data = random(kind, 2, &mut all);
            let fixture = data.fixture();
            let at = all.random_integer(-10, 20);
            let (low, high) =
                (all.random_integer(-10, 10) as f64, all.random_integer(10, 25) as f64);
            let bounds = Bounds::new(&[low; 2], &[high; 2]).unwrap();
            let mut queries = vec![Query::all()];
            queries.extend(Mode::ALL.iter().map(|&mode| Query::all().in_region(bounds).mode(mode)));
            if !data.objects.is_empty() {
                queries.push(Query::all().with_owners());
                queries.push(Query::all().of_objects([ObjectId(0), ObjectId(1)]));
            }
            if !kind.has_links() {
                queries.push(Query::all().order(Order::Storage));
            }
            for query in queries {
                // `at` holds the first coordinate as an attribute, which narrows nothing.
                let query_by = |name: &str| {
                    let condition = format!("{name} >= {at} and {name} < {}", at + 9);
                    fixture.run(&query.clone().filter(condition.parse().unwrap())).unwrap().batch
                };
                let (axis, attribute) = (query_by("x"), query_by("at"));
                let context = format!("{at} {query:?} {data:?}");
                assert_eq!(axis.positions(), attribute.positions(), "{context}");
                assert_eq!(parts(&axis), parts(&attribute), "{context}");
                if kind.has_links() {
                    assert_eq!(axis.elements(), attribute.elements(), "{context}");
                }
            }
        }
    }
}
