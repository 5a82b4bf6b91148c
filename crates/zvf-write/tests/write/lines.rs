//! Objects of several lines: no segment joins one line to the next.

use std::collections::BTreeMap;

use proptest::prelude::*;
use zvf_format::grid::ChunkShape;
use zvf_metadata::{Axis, Dtype};
use zvf_model::{Batch, Column, Kind, ObjectId, Parts};
use zvf_query::{Mode, Query};
use zvf_write::{Schema, WriteOptions};

use crate::given::{begin_with, open, run};

/// A line of an object: the first coordinate of each vertex.
type Line = (i64, Vec<u8>);

/// Returns the batches of about `size` vertices, with the lines that are cut.
fn batches(lines: &[Line], size: usize) -> Vec<Batch> {
    let rows: Vec<(i64, u8, bool)> = lines
        .iter()
        .flat_map(|(id, xs)| xs.iter().enumerate().map(|(at, x)| (*id, *x, at == 0)))
        .collect();
    let make = |rows: &[(i64, u8, bool)]| {
        let bytes = rows.iter().flat_map(|(_, x, _)| f32::from(*x).to_le_bytes());
        let column = Column::new(Dtype::FLOAT32, 1, bytes.collect::<Vec<_>>().into()).unwrap();
        let (mut offsets, mut ids, mut starts) = (Vec::new(), Vec::new(), Vec::new());
        for (at, (id, _, is_first)) in rows.iter().enumerate() {
            if *is_first || at == 0 {
                offsets.push(at);
                ids.push(ObjectId(*id));
                starts.push(*is_first);
            }
        }
        offsets.push(rows.len());
        let parts = Parts::new(offsets, ids).unwrap().with_starts(starts).unwrap();
        Batch::new(Kind::Polyline, column).with_parts(parts).unwrap()
    };
    rows.chunks(size).map(make).collect()
}

async fn write(batches: &[Batch], memory: u64) -> zvf_query::Reader {
    let chunk = ChunkShape::new(&[8.0]).unwrap();
    let schema = Schema::new(Kind::Polyline, vec![Axis::space("x")], chunk).unwrap();
    let options = WriteOptions { memory, ..WriteOptions::default() };
    let (store, mut writer) = begin_with(schema, options).await;
    batches.iter().for_each(|batch| writer.push(batch).unwrap());
    writer.finish().await.unwrap();
    zvf_query::Reader::new(open(store).await)
}

/// Returns the lines of each object, in order.
fn by_object(lines: impl IntoIterator<Item = Line>) -> BTreeMap<i64, Vec<Vec<u8>>> {
    let mut all: BTreeMap<i64, Vec<Vec<u8>>> = BTreeMap::new();
    lines.into_iter().for_each(|(id, line)| all.entry(id).or_default().push(line));
    all
}

async fn read(reader: &zvf_query::Reader, query: &Query) -> Vec<Line> {
    let batch = reader.run(query).await.unwrap().batch;
    let x = |row| batch.positions().float(row, 0).unwrap() as u8;
    let lines = batch.parts().iter().map(|part| (part.object.0, part.rows.map(x).collect()));
    lines.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn lines_of_one_object_are_read_as_they_were_written(
        lines in prop::collection::vec((0_i64..3, prop::collection::vec(0_u8..40, 1..6)), 1..9),
        size in 1_usize..9,
        memory in prop::sample::select(vec![0_u64, 1 << 20]),
    ) {
        run(async {
            let reader = write(&batches(&lines, size), memory).await;
            let found = read(&reader, &Query::all()).await;
            assert_eq!(by_object(found), by_object(lines));
        });
    }
}

#[test]
fn runs_are_joined_where_nothing_starts() {
    run(async {
        let lines = [(1, vec![0, 1]), (1, vec![30, 31]), (2, vec![2]), (1, vec![9])];
        let whole = batches(&lines, 99).remove(0);
        // Nothing is stated: each part is a line.
        let parts = whole.parts();
        let plain = Parts::new(parts.offsets().to_vec(), parts.objects().to_vec()).unwrap();
        let plain = whole.clone().with_parts(plain).unwrap();
        let expected = by_object(lines.clone());
        let reader = write(&[plain], 1 << 20).await;
        assert_eq!(by_object(read(&reader, &Query::all()).await), expected);
        let region = zvf_model::Bounds::new(&[20.0], &[25.0]).unwrap();
        for mode in [Mode::Touch, Mode::Clip] {
            let query = Query::all().in_region(region).mode(mode);
            assert_eq!(read(&reader, &query).await, [], "{mode:?}");
        }
        // The rows of a table are of one line for each object.
        let owners = [1, 1, 1, 1, 2, 1].map(|id| Some(ObjectId(id))).to_vec();
        let rows = Batch::new(Kind::Polyline, whole.positions().clone());
        let reader = write(&[rows.with_vertex_objects(owners).unwrap()], 1 << 20).await;
        let expected = by_object([(1, vec![0, 1, 30, 31, 9]), (2, vec![2])]);
        assert_eq!(by_object(read(&reader, &Query::all()).await), expected);
    });
}
