//! Answers batch by batch: the same as collected, in order, and no further than anybody looks.

use futures_util::StreamExt as _;
use zvf_model::{Batch, Bounds, Kind};
use zvf_query::{Columns, Mode, Order, Query};
use zvf_store::OpenOptions;

use crate::made::{Data, Files, Made, store};
use crate::modes::{Random, elements, numbers, parts, random};

/// A handle on whose budget a wave is a chunk or an object or two.
fn tight(files: &Files) -> Made {
    let options =
        OpenOptions { budget_bytes: 24 << 10, cache_bytes: 8 << 10, ..OpenOptions::default() };
    Made::with_options(files, options)
}

fn streamed(made: &Made, query: &Query) -> Vec<Batch> {
    made.wait(async {
        let batches = made.reader.stream(query.clone());
        batches.map(|batch| batch.unwrap_or_else(|e| panic!("{e} {query:?}"))).collect().await
    })
}

fn sorted<T: Ord>(mut all: Vec<T>) -> Vec<T> {
    all.sort();
    all
}

/// Vertices 0 to 2047, 8 to a chunk: enough for many waves.
fn long(kind: Kind) -> Data {
    let n = 2048;
    let mut data = Data::new(kind, 8.0, (0..n).map(|i| vec![i as f32, 0.0]).collect());
    match kind {
        Kind::PointCloud => {}
        Kind::Graph | Kind::Skeleton => {
            data = data.one_object();
            data.elements = (1..n).map(|i| vec![i, i - 1]).collect();
        }
        _ => data = data.objects((0..n / 64).map(|i| (64 * i..64 * (i + 1)).collect()).collect()),
    }
    data
}

/// The same vertices with edges or faces: neighbours in both directions, and some that lie far apart.
fn joined(kind: Kind) -> Data {
    let mut data = long(Kind::PointCloud);
    data.kind = kind;
    data = data.one_object();
    data.elements = match kind {
        Kind::Mesh => (2..2048).map(|i| vec![i, i - 2, i - 1]).collect(),
        _ => (1..2048).map(|i| vec![i, if i % 5 == 0 { i / 2 } else { i - 1 }]).collect(),
    };
    data
}

#[test]
fn streams_are_what_is_collected() {
    let bounds = Bounds::new(&[100.5, -1.0], &[1800.0, 1.0]).unwrap();
    for kind in [Kind::PointCloud, Kind::Polyline, Kind::Graph, Kind::Skeleton] {
        let made = tight(&store(&[long(kind)]));
        let mut queries =
            vec![Query::all(), Query::all().filter("v > 50 and label != \"a\"".parse().unwrap())];
        queries.extend(Mode::ALL.iter().map(|&mode| Query::within(bounds).mode(mode)));
        if kind == Kind::Polyline {
            queries.push(Query::all().order(Order::Storage));
            queries.push(Query::all().limit(130));
        } else if !kind.has_links() {
            queries.push(Query::all().limit(130));
        }
        for query in queries {
            let said = format!("{kind} {query:?}");
            let whole = made.run(&query).unwrap().batch;
            let batches = streamed(&made, &query);
            assert!(batches.len() > 1 && batches.iter().all(|batch| !batch.is_empty()), "{said}");
            if kind.has_links() {
                // A vertex comes again where its edges are in several batches; an edge never does.
                let edges: Vec<_> = batches.iter().flat_map(positions).collect();
                assert_eq!(sorted(edges), sorted(positions(&whole)), "{said}");
            } else {
                let rows: Vec<&[u8]> = batches.iter().flat_map(|b| b.positions().rows()).collect();
                assert_eq!(rows, whole.positions().rows().collect::<Vec<_>>(), "{said}");
                let runs: Vec<_> = batches.iter().flat_map(parts).collect();
                assert_eq!(runs, parts(&whole), "{said}");
            }
        }
    }
}

#[test]
fn collecting_in_parts_changes_nothing() {
    let bounds = Bounds::new(&[100.5, -1.0], &[1800.0, 1.0]).unwrap();
    for kind in [Kind::Graph, Kind::Skeleton, Kind::Mesh] {
        let files = store(&[joined(kind)]);
        let (parts, whole) = (tight(&files), Made::from_files(&files));
        let mut queries = vec![
            Query::all(),
            Query::all().with_owners().with_places(),
            Query::all().limit(333),
            Query::all().filter("v > 50 and label != \"a\"".parse().unwrap()),
        ];
        queries.extend(Mode::ALL.iter().map(|&mode| Query::within(bounds).mode(mode)));
        for query in queries {
            let said = format!("{kind} {query:?}");
            let answers = [&parts, &whole].map(|made| made.run(&query).unwrap());
            let counted =
                [&parts, &whole].map(|made| made.wait(made.reader.count(&query)).unwrap());
            let [parts, whole] = &answers;
            for counts in counted {
                let elements = elements(&whole.batch).len() as u64;
                assert_eq!(counts.vertices, whole.batch.len() as u64, "{said}");
                assert_eq!(counts.elements, Some(elements), "{said}");
                assert_eq!(counts.truncated, whole.truncated, "{said}");
            }
            if query.region().is_some() && said.contains("Clip") {
                // The vertices of cuts are numbered wave by wave.
                assert_eq!(parts.batch.len(), whole.batch.len(), "{said}");
                assert_eq!(elements(&parts.batch).len(), elements(&whole.batch).len(), "{said}");
                continue;
            }
            assert_eq!(parts.batch.positions(), whole.batch.positions(), "{said}");
            assert_eq!(parts.batch.fields(), whole.batch.fields(), "{said}");
            assert_eq!(parts.batch.vertex_objects(), whole.batch.vertex_objects(), "{said}");
            assert_eq!(parts.batch.elements(), whole.batch.elements(), "{said}");
            assert_eq!(parts.truncated, whole.truncated, "{said}");
        }
    }
}

/// Each edge as the bytes of its ends.
fn positions(batch: &Batch) -> Vec<Vec<u8>> {
    let ends =
        |edge: &[usize]| edge.iter().flat_map(|row| batch.positions().row(*row)).copied().collect();
    batch.elements().unwrap().iter().map(ends).collect()
}

#[test]
fn elements_of_any_shape_come_once() {
    for seed in 0..8 {
        let mut numbers_of = Random::new(seed + 5);
        for kind in [Kind::Graph, Kind::Skeleton, Kind::Mesh] {
            let data = random(kind, 2, &mut numbers_of);
            let made = tight(&store(std::slice::from_ref(&data)));
            for mode in [None, Some(Mode::Inside), Some(Mode::Touch), Some(Mode::Cells)] {
                let bounds = Bounds::new(&[-4.0; 2], &[15.0; 2]).unwrap();
                let query = match mode {
                    None => Query::all(),
                    Some(mode) => Query::within(bounds).mode(mode),
                };
                let whole = made.run(&query).unwrap().batch;
                let batches = streamed(&made, &query);
                let found = sorted(batches.iter().flat_map(elements).collect());
                assert_eq!(found, sorted(elements(&whole)), "{mode:?} {data:?}");
                let mut seen = sorted(batches.iter().flat_map(numbers).collect::<Vec<_>>());
                seen.dedup();
                assert_eq!(seen, sorted(numbers(&whole)), "{mode:?} {data:?}");
            }
        }
    }
}

#[test]
fn dropped_streams_stop_reading() {
    let made = tight(&store(&[long(Kind::PointCloud)]));
    let query = Query::all().columns(Columns::None).uncached();
    let reads = |made: &Made| made.reader.store().io_stats().requests;
    assert!(streamed(&made, &query).len() > 8);
    let before = reads(&made);
    assert!(streamed(&made, &query).len() > 8);
    let all = reads(&made) - before;
    let before = reads(&made);
    made.wait(async {
        let mut batches = made.reader.stream(query.clone());
        batches.next().await.unwrap().unwrap();
        drop(batches);
        tokio::task::yield_now().await;
    });
    let some = reads(&made) - before;
    assert!(some < all / 2, "{some} of {all}");
    // A limit is such a reader.
    let before = reads(&made);
    let few = streamed(&made, &query.clone().limit(5));
    assert_eq!(few.iter().map(Batch::len).sum::<usize>(), 5);
    assert!(reads(&made) - before < all / 2);
}

#[test]
fn numbered_parts_have_each_vertex_once() {
    let bounds = Bounds::new(&[100.5, -1.0], &[1800.0, 1.0]).unwrap();
    for kind in [Kind::Graph, Kind::Mesh] {
        let files = store(&[joined(kind)]);
        let (made, whole) = (tight(&files), Made::from_files(&files));
        let mut queries = vec![
            Query::all().with_owners(),
            Query::all().filter("v > 50 and label != \"a\"".parse().unwrap()),
        ];
        queries.extend(Mode::ALL.iter().map(|&mode| Query::within(bounds).mode(mode)));
        for query in queries {
            let said = format!("{kind} {query:?}");
            let expected = whole.run(&query).unwrap().batch;
            let (mut rows, mut ends) = (Vec::new(), Vec::new());
            let parts = made.wait(async {
                let mut numbered =
                    made.reader.numbered(&query).await.unwrap().expect("a large answer");
                let mut parts = 0;
                while let Some(part) = numbered.next().await.unwrap() {
                    rows.extend(part.vertices.positions().rows().map(<[u8]>::to_vec));
                    ends.extend(part.elements.iter().map(<[usize]>::to_vec));
                    parts += 1;
                }
                parts
            });
            assert!(parts > 1, "{said}");
            let ends = ends.iter().map(|ends| ends.iter().map(|row| rows[*row].clone()).collect());
            let named = expected.elements().unwrap().iter().map(|ends| {
                ends.iter().map(|row| expected.positions().row(*row).to_vec()).collect::<Vec<_>>()
            });
            assert_eq!(sorted(ends.collect::<Vec<Vec<_>>>()), sorted(named.collect()), "{said}");
            let expected = expected.positions().rows().map(<[u8]>::to_vec).collect();
            assert_eq!(sorted(rows), sorted(expected), "{said}");
        }
        let limited = whole.wait(whole.reader.numbered(&Query::all().limit(5))).unwrap();
        assert!(limited.is_none());
    }
}
