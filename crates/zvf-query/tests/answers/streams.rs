//! Streamed batches equal the collected answer, in order, and are read only on demand.

use futures_util::StreamExt as _;
use zvf_model::{Batch, Bounds, Kind};
use zvf_query::{Columns, Mode, Order, Query};

use crate::fixtures::{Data, Files, Fixture, low_memory, store};
use crate::modes::{Random, elements, numbers, parts, random};

fn low_memory_fixture(files: &Files) -> Fixture {
    Fixture::with_options(files, low_memory())
}

fn collect_batches(fixture: &Fixture, query: &Query) -> Vec<Batch> {
    fixture.wait(async {
        let batches = fixture.reader.stream(query.clone());
        batches.map(|batch| batch.unwrap_or_else(|e| panic!("{e} {query:?}"))).collect().await
    })
}

fn sorted<T: Ord>(mut all: Vec<T>) -> Vec<T> {
    all.sort();
    all
}

/// Returns vertices 0 to 2047, 8 per chunk: enough for many work units.
fn long_line(kind: Kind) -> Data {
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

/// Returns the same vertices with edges or faces: neighbours in both directions, and some distant
/// ones.
fn linked_points(kind: Kind) -> Data {
    let mut data = long_line(Kind::PointCloud);
    data.kind = kind;
    data = data.one_object();
    data.elements = match kind {
        Kind::Mesh => (2..2048).map(|i| vec![i, i - 2, i - 1]).collect(),
        _ => (1..2048).map(|i| vec![i, if i % 5 == 0 { i / 2 } else { i - 1 }]).collect(),
    };
    data
}

#[test]
fn streams_equal_collected_answers() {
    let bounds = Bounds::new(&[100.5, -1.0], &[1800.0, 1.0]).unwrap();
    for kind in [Kind::PointCloud, Kind::Polyline, Kind::Graph, Kind::Skeleton] {
        let fixture = low_memory_fixture(&store(&[long_line(kind)]));
        let mut queries =
            vec![Query::all(), Query::all().filter("v > 50 and label != \"a\"".parse().unwrap())];
        queries.extend(Mode::ALL.iter().map(|&mode| Query::all().in_region(bounds).mode(mode)));
        if kind == Kind::Polyline {
            queries.push(Query::all().order(Order::Storage));
            queries.push(Query::all().limit(130));
        } else if !kind.has_links() {
            // Limits within the first group of cells that is read, and in one of the next groups.
            queries.extend([130, 1030, 1500].map(|limit| Query::all().limit(limit)));
        }
        for query in queries {
            let context = format!("{kind} {query:?}");
            let collected = fixture.run(&query).unwrap().batch;
            let batches = collect_batches(&fixture, &query);
            assert!(
                batches.len() > 1 && batches.iter().all(|batch| !batch.is_empty()),
                "{context}"
            );
            if kind.has_links() {
                // A vertex is repeated if its edges are in several batches; an edge never is.
                let edges: Vec<_> = batches.iter().flat_map(positions).collect();
                assert_eq!(sorted(edges), sorted(positions(&collected)), "{context}");
            } else {
                let rows: Vec<&[u8]> = batches.iter().flat_map(|b| b.positions().rows()).collect();
                assert_eq!(rows, collected.positions().rows().collect::<Vec<_>>(), "{context}");
                let runs: Vec<_> = batches.iter().flat_map(parts).collect();
                assert_eq!(runs, parts(&collected), "{context}");
            }
        }
    }
}

#[test]
fn collecting_in_parts_changes_nothing() {
    let bounds = Bounds::new(&[100.5, -1.0], &[1800.0, 1.0]).unwrap();
    for kind in [Kind::Graph, Kind::Skeleton, Kind::Mesh] {
        let files = store(&[linked_points(kind)]);
        let (parts, uncut) = (low_memory_fixture(&files), Fixture::from_files(&files));
        let mut queries = vec![
            Query::all(),
            Query::all().with_owners().with_places(),
            Query::all().limit(333),
            Query::all().filter("v > 50 and label != \"a\"".parse().unwrap()),
        ];
        queries.extend(Mode::ALL.iter().map(|&mode| Query::all().in_region(bounds).mode(mode)));
        for query in queries {
            let context = format!("{kind} {query:?}");
            let answers = [&parts, &uncut].map(|fixture| fixture.run(&query).unwrap());
            let counted =
                [&parts, &uncut].map(|fixture| fixture.wait(fixture.reader.count(&query)).unwrap());
            let [parts, uncut] = &answers;
            for counts in counted {
                let elements = elements(&uncut.batch).len() as u64;
                assert_eq!(counts.vertices, uncut.batch.len() as u64, "{context}");
                assert_eq!(counts.elements, Some(elements), "{context}");
                assert_eq!(counts.truncated, uncut.truncated, "{context}");
            }
            if query.region.is_some() && context.contains("Clip") {
                // The vertices of cuts are numbered work unit by work unit.
                assert_eq!(parts.batch.len(), uncut.batch.len(), "{context}");
                assert_eq!(elements(&parts.batch).len(), elements(&uncut.batch).len(), "{context}");
                continue;
            }
            assert_eq!(parts.batch.positions(), uncut.batch.positions(), "{context}");
            assert_eq!(parts.batch.fields(), uncut.batch.fields(), "{context}");
            assert_eq!(parts.batch.vertex_objects(), uncut.batch.vertex_objects(), "{context}");
            assert_eq!(parts.batch.elements(), uncut.batch.elements(), "{context}");
            assert_eq!(parts.truncated, uncut.truncated, "{context}");
        }
    }
}

/// Returns each edge as the bytes of its ends.
fn positions(batch: &Batch) -> Vec<Vec<u8>> {
    let ends =
        |edge: &[usize]| edge.iter().flat_map(|row| batch.positions().row(*row)).copied().collect();
    batch.elements().unwrap().iter().map(ends).collect()
}

#[test]
fn elements_of_any_shape_are_streamed_once() {
    for seed in 0..8 {
        let mut numbers_of = Random::new(seed + 5);
        for kind in [Kind::Graph, Kind::Skeleton, Kind::Mesh] {
            let data = random(kind, 2, &mut numbers_of);
            let fixture = low_memory_fixture(&store(std::slice::from_ref(&data)));
            for mode in [None, Some(Mode::Inside), Some(Mode::Touch), Some(Mode::Cells)] {
                let bounds = Bounds::new(&[-4.0; 2], &[15.0; 2]).unwrap();
                let query = match mode {
                    None => Query::all(),
                    Some(mode) => Query::all().in_region(bounds).mode(mode),
                };
                let expected_batch = fixture.run(&query).unwrap().batch;
                let batches = collect_batches(&fixture, &query);
                let found = sorted(batches.iter().flat_map(elements).collect());
                assert_eq!(found, sorted(elements(&expected_batch)), "{mode:?} {data:?}");
                let mut streamed = sorted(batches.iter().flat_map(numbers).collect::<Vec<_>>());
                streamed.dedup();
                assert_eq!(streamed, sorted(numbers(&expected_batch)), "{mode:?} {data:?}");
            }
        }
    }
}

#[test]
fn dropped_streams_stop_reading() {
    let fixture = low_memory_fixture(&store(&[long_line(Kind::PointCloud)]));
    let query = Query::all().columns(Columns::None).uncached();
    let reads = |fixture: &Fixture| fixture.reader.store().io_stats().requests;
    assert!(collect_batches(&fixture, &query).len() > 8);
    let before = reads(&fixture);
    assert!(collect_batches(&fixture, &query).len() > 8);
    let all = reads(&fixture) - before;
    let before = reads(&fixture);
    fixture.wait(async {
        let mut batches = fixture.reader.stream(query.clone());
        batches.next().await.unwrap().unwrap();
        drop(batches);
        tokio::task::yield_now().await;
    });
    let reads_of_stream = reads(&fixture) - before;
    assert!(reads_of_stream < all / 2, "{reads_of_stream} of {all}");
    // A limit stops reading as well.
    let before = reads(&fixture);
    let limited = collect_batches(&fixture, &query.clone().limit(5));
    assert_eq!(limited.iter().map(Batch::len).sum::<usize>(), 5);
    assert!(reads(&fixture) - before < all / 2);
}

#[test]
fn numbered_parts_have_each_vertex_once() {
    let bounds = Bounds::new(&[100.5, -1.0], &[1800.0, 1.0]).unwrap();
    for kind in [Kind::Graph, Kind::Mesh] {
        let files = store(&[linked_points(kind)]);
        let (fixture, unsplit) = (low_memory_fixture(&files), Fixture::from_files(&files));
        let mut queries = vec![
            Query::all().with_owners(),
            Query::all().filter("v > 50 and label != \"a\"".parse().unwrap()),
        ];
        queries.extend(Mode::ALL.iter().map(|&mode| Query::all().in_region(bounds).mode(mode)));
        for query in queries {
            let context = format!("{kind} {query:?}");
            let expected = unsplit.run(&query).unwrap().batch;
            let (mut rows, mut ends) = (Vec::new(), Vec::new());
            let parts = fixture.wait(async {
                let mut numbered =
                    fixture.reader.run_numbered(&query).await.unwrap().expect("a large answer");
                let mut parts = 0;
                while let Some(part) = numbered.next().await.unwrap() {
                    rows.extend(part.vertices.positions().rows().map(<[u8]>::to_vec));
                    ends.extend(part.elements.iter().map(<[usize]>::to_vec));
                    parts += 1;
                }
                parts
            });
            assert!(parts > 1, "{context}");
            let ends = ends.iter().map(|ends| ends.iter().map(|row| rows[*row].clone()).collect());
            let expected_ends = expected.elements().unwrap().iter().map(|ends| {
                ends.iter().map(|row| expected.positions().row(*row).to_vec()).collect::<Vec<_>>()
            });
            assert_eq!(
                sorted(ends.collect::<Vec<Vec<_>>>()),
                sorted(expected_ends.collect()),
                "{context}"
            );
            let expected = expected.positions().rows().map(<[u8]>::to_vec).collect();
            assert_eq!(sorted(rows), sorted(expected), "{context}");
        }
        let limited = unsplit.wait(unsplit.reader.run_numbered(&Query::all().limit(5))).unwrap();
        assert!(limited.is_none());
    }
}
