//! Levels chosen by rule, and levels that add to the next coarser one.

use futures_util::StreamExt as _;
use zvf_model::{Bounds, Kind, LevelId, ObjectId};
use zvf_query::{Columns, LevelRule, Query, UnknownIds};

use crate::fixtures::{Data, Fixture, store};
use crate::modes::{elements, numbers, parts};

fn points(n: usize, chunk: f64) -> Data {
    Data::new(Kind::PointCloud, chunk, (0..n).map(|i| vec![i as f32, 0.0]).collect())
}

#[test]
fn level_rules_bound_the_answer() {
    let fixture = Fixture::from_files(&store(&[points(64, 8.0), points(16, 8.0), points(4, 8.0)]));
    let corner = Bounds::new(&[0.0, 0.0], &[7.0, 1.0]).unwrap();
    let level = |query: Query| fixture.run(&query).unwrap().level.0;
    for (rule, expected, expected_within) in [
        (LevelRule::Number(LevelId(2)), 2, 2),
        (LevelRule::MaxVertices(64), 0, 0),
        (LevelRule::MaxVertices(63), 1, 0), // a corner has an eighth of the vertices
        (LevelRule::MaxVertices(7), 2, 2),
        (LevelRule::MaxVertices(1), 2, 2), // the coarsest level if none is small enough
    ] {
        let within = Query::all().in_region(corner).level(rule);
        assert_eq!(
            (level(Query::all().level(rule)), level(within)),
            (expected, expected_within),
            "{rule:?}"
        );
    }
    // Positions of 8 bytes, two columns of 4 and one of 1.
    for (bytes, expected, minimal) in [(64 * 17, 0, 0), (64 * 17 - 1, 1, 0), (64 * 8 - 1, 1, 1)] {
        let query = Query::all().level(LevelRule::MaxBytes(bytes));
        assert_eq!(level(query.clone()), expected, "{bytes}");
        assert_eq!(level(query.columns(Columns::None)), minimal, "{bytes}");
    }
}

/// Returns a level of three chains that adds to a level of two other chains.
fn chain() -> Fixture {
    let row = |from: usize| (0..6).map(|i| vec![(from + i) as f32, from as f32]).collect();
    let mut fine =
        Data::new(Kind::Polyline, 4.0, row(0)).objects(vec![vec![0, 1], vec![2, 3], vec![4, 5]]);
    fine.ids = vec![10, 11, 12];
    fine.groups = vec![vec![11]];
    fine.adds = true;
    let mut coarse =
        Data::new(Kind::Polyline, 4.0, row(20)).objects(vec![vec![0, 1, 2], vec![3, 4, 5]]);
    coarse.ids = vec![20, 21];
    coarse.groups = vec![vec![20], vec![21]];
    Fixture::from_files(&store(&[fine, coarse]))
}

#[test]
fn additive_levels_are_joined() {
    let fixture = chain();
    let ids = |query: &Query| -> Vec<i64> {
        let answer = fixture.run(query).unwrap_or_else(|e| panic!("{e} {query:?}"));
        let streamed: Vec<i64> = fixture.wait(async {
            let batches = fixture.reader.stream(query.clone()).map(Result::unwrap);
            let ids = batches.map(|batch| parts(&batch)).collect::<Vec<_>>().await;
            ids.concat().into_iter().map(|(id, _)| id).collect()
        });
        let ids: Vec<i64> = parts(&answer.batch).into_iter().map(|(id, _)| id).collect();
        assert_eq!(ids, streamed, "{query:?}");
        ids
    };
    assert_eq!(ids(&Query::all()), [10, 11, 12, 20, 21]);
    assert_eq!(ids(&Query::all().increment_only()), [10, 11, 12]);
    assert_eq!(ids(&Query::all().at_level(LevelId(1))), [20, 21]);
    let objects = Query::all().of_objects([21, 11, 99].map(ObjectId));
    assert_eq!(ids(&objects), [11, 21]);
    assert_eq!(fixture.run(&objects).unwrap().unknown_objects, [ObjectId(99)]);
    let strict = objects.unknown_ids(UnknownIds::Error);
    let error = fixture.run(&strict).unwrap_err();
    assert_eq!(error.to_string(), "InvalidArgument, there is no object 99");
    let strict = Query::all().of_objects([21, 11].map(ObjectId)).unknown_ids(UnknownIds::Error);
    assert_eq!(ids(&strict), [11, 21]);
    assert_eq!(ids(&Query::all().in_groups([1])), [21]);
    assert_eq!(ids(&Query::all().in_groups([0])), [11, 20]);
    assert!(fixture.run(&Query::all().in_groups([2])).is_err());
    let bounds = Bounds::new(&[3.0, -1.0], &[21.0, 30.0]).unwrap();
    assert_eq!(ids(&Query::all().in_region(bounds)), [11, 12, 20]);
    assert_eq!(ids(&Query::all().filter("object.mass > 0".parse().unwrap())), [11, 12, 21]);
    assert_eq!(ids(&Query::all().limit(7)), [10, 11, 12]);
    let answer = fixture.run(&Query::all().limit(5)).unwrap();
    assert!(answer.truncated && answer.batch.len() == 4);
    let plan = fixture.wait(fixture.reader.plan(&Query::all())).unwrap();
    assert_eq!(plan.rows, 12);
}

#[test]
fn additive_levels_keep_their_edges() {
    let row = |from: usize| (0..4).map(|i| vec![(from + i) as f32, 0.0]).collect();
    let mut fine = Data::new(Kind::Graph, 4.0, row(0)).one_object();
    fine.elements = vec![vec![0, 1], vec![3, 2]];
    fine.adds = true;
    let mut coarse = Data::new(Kind::Graph, 4.0, row(10)).one_object();
    coarse.elements = vec![vec![1, 3]];
    let batch = Fixture::from_files(&store(&[fine, coarse])).run(&Query::all()).unwrap().batch;
    assert_eq!(numbers(&batch), [0, 1, 2, 3, 0, 1, 2, 3]);
    assert_eq!(elements(&batch), [[0, 1], [3, 2], [1, 3]]);
    assert_eq!(batch.elements().unwrap().rows(), [0, 1, 3, 2, 5, 7]);
}
