//! Invalid input is refused by name, and nothing is written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use zvf_error::Error;
use zvf_format::Class;
use zvf_metadata::Dtype;
use zvf_model::{Batch, Bounds, Column, Elements, Field, Kind, ObjectId, Parts};
use zvf_write::{Outside, Schema, WriteOptions, Writer};

use crate::given::{begin, begin_with, floats, objects, schema};

async fn refusal(schema: Schema, outside: Outside, batches: &[Batch]) -> String {
    let options = WriteOptions { outside, ..WriteOptions::default() };
    let (memory, mut writer) = begin_with(schema, options).await;
    let write = async {
        batches.iter().try_for_each(|batch| writer.push(batch))?;
        writer.finish().await
    };
    let error: Error = write.await.unwrap_err();
    assert!(objects(&memory).await.iter().all(|(path, _)| path != "store.zv/zarr.json"));
    error.to_string()
}

#[tokio::test]
async fn mismatched_batches_are_refused() {
    use Kind::{Graph, Line, Mesh, PointCloud, Polyline, Skeleton};
    let points = |kind: Kind, values: &[f32]| Batch::new(kind, floats(values, 1));
    let parts = |batch: Batch, offsets: &[usize]| {
        let ids = (0..).map(ObjectId).take(offsets.len() - 1).collect();
        batch.with_parts(Parts::new(offsets.to_vec(), ids).unwrap()).unwrap()
    };
    let edges = |batch: Batch, width: usize, rows: &[usize]| {
        batch.with_elements(Elements::new(width, rows.to_vec()).unwrap()).unwrap()
    };
    let corners = |kind, width| vec![edges(points(kind, &[1.0]), width, &vec![0; width])];
    let with_field = |batch: Batch, name: &str| {
        let column = floats(&vec![0.0; batch.len()], 1);
        batch.with_field(Field::new(name, column)).unwrap()
    };
    let single_point = || points(PointCloud, &[1.0]);
    let bounded = || schema(PointCloud).with_bounds(Bounds::new(&[0.0], &[5.0]).unwrap()).unwrap();
    let cases: [(Kind, Vec<Batch>, &str); 11] = [
        (PointCloud, vec![points(Graph, &[1.0])], "its kind: expected point_cloud, found graph"),
        (
            PointCloud,
            vec![Batch::new(PointCloud, floats(&[1.0; 2], 2))],
            "a position: expected 1 coordinates, found 2",
        ),
        (
            PointCloud,
            vec![single_point(), with_field(single_point(), "a")],
            "a vertex attribute: expected one of the first batch (), found \"a\"",
        ),
        (
            PointCloud,
            vec![with_field(single_point(), "a"), single_point()],
            "a vertex attribute: expected \"a\", once, as in the first batch, found none or several",
        ),
        (
            PointCloud,
            vec![single_point(), parts(single_point(), &[0, 1])],
            "the vertices: expected without objects, as in the first batch, found some",
        ),
        (
            Polyline,
            vec![points(Polyline, &[1.0])],
            "the vertices: expected divided into parts, one for each chain, found no parts",
        ),
        (
            Polyline,
            vec![edges(parts(points(Polyline, &[1.0]), &[0, 1]), 2, &[0, 0])],
            "an element: expected none: this kind has no elements, found 2",
        ),
        (
            Line,
            vec![parts(points(Line, &[1.0, 2.0, 3.0]), &[0, 3])],
            "object 0: expected two vertices, found 3",
        ),
        (
            Line,
            vec![parts(points(Line, &[1.0, 12.0]), &[0, 2]); 2],
            "object 0: expected two vertices, found 4",
        ),
        (Graph, corners(Graph, 3), "an element: expected 2 vertices, found 3"),
        (Mesh, corners(Mesh, 2), "an element: expected 3 to 8 vertices, found 2"),
    ];
    for (kind, batches, message) in cases {
        let message = format!("InvalidArgument, a batch of {}: {message}", kind.token());
        assert_eq!(refusal(schema(kind), Outside::Raise, &batches).await, message);
    }
    let tree = "InvalidArgument, object 0 of a skeleton must be one tree, found 2 vertices without a parent";
    for (schema, batches, message) in [
        (
            schema(PointCloud),
            vec![points(PointCloud, &[f32::NAN])],
            "OutOfBounds in grid, position at byte 0: expected a number, found NaN",
        ),
        (
            schema(PointCloud),
            vec![points(PointCloud, &[f32::INFINITY])],
            "Overflow in grid, position at byte 0: expected a quotient by the chunk or bin shape of \
             64 bits, found inf",
        ),
        (
            bounded(),
            vec![single_point(), points(PointCloud, &[5.0, -1.0, f32::NAN])],
            "OutOfBounds, 2 of 3 vertices lie outside the bounds, the first is vertex 2 at [-1.0]; \
             leave them out, or let the bounds grow",
        ),
        (
            schema(Skeleton),
            vec![edges(points(Skeleton, &[1.0; 3]), 2, &[0, 1, 1, 0])],
            "InvalidArgument, vertex 0 of a skeleton is in a cycle of parents, or leads to one",
        ),
        (schema(Skeleton), vec![parts(points(Skeleton, &[1.0, 2.0]), &[0, 2])], tree),
        (schema(Skeleton), vec![parts(points(Skeleton, &[1.0]), &[0, 1]); 2], tree),
    ] {
        assert_eq!(refusal(schema, Outside::Raise, &batches).await, message);
    }
}

#[tokio::test]
async fn an_element_of_a_missing_vertex_is_refused() {
    let (_, mut writer) = begin(schema(Kind::Graph)).await;
    writer.push(&Batch::new(Kind::Graph, floats(&[1.0, 2.0], 1))).unwrap();
    let rows = [0_i64, 1, 1, 2].map(i64::to_le_bytes).concat();
    let rows = Column::new(Dtype::INT64, 2, rows.into()).unwrap();
    writer.push_elements(&rows, &[]).unwrap();
    let error = writer.finish().await.unwrap_err();
    assert_eq!(error.to_string(), "OutOfBounds, element 1 names vertex 2 of 2");
}

#[tokio::test]
async fn points_outside_are_dropped_or_extend_the_bounds() {
    for (outside, vertices, left_out, high) in
        [(Outside::Ignore, 2, 2, 5.0), (Outside::Expand, 4, 0, 90.0)]
    {
        let bounds = Bounds::new(&[0.0], &[5.0]).unwrap();
        let schema = schema(Kind::PointCloud).with_bounds(bounds).unwrap();
        let options = WriteOptions { outside, ..WriteOptions::default() };
        let (memory, mut writer) = begin_with(schema, options).await;
        let batch = Batch::new(Kind::PointCloud, floats(&[5.0, 90.0, -3.0, 1.0], 1));
        let batch = batch.with_field(Field::new("a", floats(&[1.0, 2.0, 3.0, 4.0], 1))).unwrap();
        writer.push(&batch).unwrap();
        let report = writer.finish().await.unwrap();
        assert_eq!((report.vertices, report.left_out), (vertices, left_out));
        assert_eq!(report.to_string().contains(" 2 vertices left out"), left_out == 2);
        let store = crate::given::open(memory.clone()).await;
        assert_eq!(store.root().zarr_vectors.bounds[1], [high]);
        let batch = crate::given::read(memory).await;
        let location_of =
            |row: usize| (batch.positions().float(row, 0), batch.fields()[0].column.float(row, 0));
        let rows: Vec<_> = (0..batch.len()).map(location_of).collect();
        assert!(rows.contains(&(Some(5.0), Some(1.0))) && rows.contains(&(Some(1.0), Some(4.0))));
    }
}

#[tokio::test]
async fn a_chain_never_has_a_hole() {
    let bounds = Bounds::new(&[0.0], &[5.0]).unwrap();
    let schema = schema(Kind::Line).with_bounds(bounds).unwrap();
    let batch = Batch::new(Kind::Line, floats(&[1.0, 7.0], 1));
    let message = refusal(schema, Outside::Ignore, &[batch]).await;
    assert!(message.starts_with("OutOfBounds, 1 of 2 vertices lie outside the bounds"));
}

#[tokio::test]
async fn an_empty_store_is_written() {
    for &kind in Kind::ALL {
        let (memory, writer) = begin(schema(kind)).await;
        let report = writer.finish().await.unwrap();
        assert_eq!((report.vertices, report.chunks), (0, 0), "{kind}");
        assert!(crate::given::read(memory).await.is_empty(), "{kind}");
    }
}

/// Creates a writer that spills everything below this folder.
async fn spilling(scratch: &std::path::Path, stop: &Arc<AtomicBool>) -> Writer {
    let options = WriteOptions {
        memory: 1,
        scratch: Some(scratch.to_owned()),
        stop: Some(Arc::clone(stop)),
        ..WriteOptions::default()
    };
    begin_with(schema(Kind::PointCloud), options).await.1
}

fn many_points() -> Batch {
    let values: Vec<f32> = (0..200_000).map(|n| (n % 1000) as f32).collect();
    Batch::new(Kind::PointCloud, floats(&values, 1))
}

#[tokio::test]
async fn a_chunk_that_does_not_fit_is_refused() {
    let (folder, stop) = (tempfile::tempdir().unwrap(), Arc::new(AtomicBool::new(false)));
    let mut writer = spilling(folder.path(), &stop).await;
    writer.push(&Batch::new(Kind::PointCloud, floats(&[1.0; 300_000], 1))).unwrap();
    let error = writer.finish().await.unwrap_err();
    assert_eq!(error.class(), Class::LimitExceeded, "{error}");
}

#[tokio::test]
async fn a_push_that_spills_ends_when_it_is_stopped() {
    let (folder, stop) = (tempfile::tempdir().unwrap(), Arc::new(AtomicBool::new(false)));
    let mut writer = spilling(folder.path(), &stop).await;
    let (flag, place) = (Arc::clone(&stop), folder.path().to_owned());
    let watcher = std::thread::spawn(move || {
        // As soon as anything is spilled.
        while std::fs::read_dir(&place).unwrap().next().is_none() {
            std::thread::yield_now();
        }
        flag.store(true, Ordering::Relaxed);
    });
    let batch = many_points();
    let error = loop {
        if let Err(error) = writer.push(&batch) {
            break error;
        }
    };
    watcher.join().unwrap();
    assert_eq!(error.class(), Class::Cancelled, "{error}");
    assert_eq!(writer.push(&batch).unwrap_err().class(), Class::Cancelled);
    writer.finish().await.unwrap_err();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left aside");
}

#[tokio::test]
async fn a_store_with_a_failed_spill_is_not_published() {
    let (folder, stop) = (tempfile::tempdir().unwrap(), Arc::new(AtomicBool::new(false)));
    let mut writer = spilling(folder.path(), &stop).await;
    writer.push(&many_points()).unwrap();
    let scratch = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_dir_all(&scratch).unwrap();
    let error = writer.push(&many_points()).unwrap_err();
    assert!(error.to_string().contains("cannot use the scratch folder"), "{error}");
    std::fs::create_dir(&scratch).unwrap();
    let error = writer.finish().await.unwrap_err();
    assert!(error.to_string().contains("a push that failed: write the store anew"), "{error}");
}
