//! Vertices as Draco streams: queries give the same answers as without them, with attributes and
//! faces.

use archives::inline;
use zvf_format::grid::ChunkShape;
use zvf_metadata::{Axis, Dtype};
use zvf_model::{Batch, Bounds, Column, Elements, Field, Kind, ObjectId};
use zvf_query::{Query, Reader};
use zvf_write::{DracoPositions, Schema};

use crate::given::{begin, open, run};

/// A wavy sheet of 30 x 30 vertices in chunks of 10, of two objects.
fn sheet() -> Batch {
    let place = |n: usize| [(n % 30) as f32 * 0.97, (n / 30) as f32 * 0.97, (n % 7) as f32 * 0.3];
    let positions: Vec<u8> = (0..900).flat_map(place).flat_map(f32::to_le_bytes).collect();
    let faces = (0..29 * 29).flat_map(|n| {
        let at = n / 29 * 30 + n % 29;
        [at, at + 1, at + 31, at, at + 31, at + 30]
    });
    let weights: Vec<u8> = (0..900_i32).flat_map(i32::to_le_bytes).collect();
    let weights = Column::new("int32".parse::<Dtype>().unwrap(), 1, weights.into()).unwrap();
    let owner = |n: usize| Some(ObjectId(if n < 450 { 3 } else { 8 }));
    Batch::new(Kind::Mesh, Column::new(Dtype::FLOAT32, 3, positions.into()).unwrap())
        .with_field(Field::new("w", weights))
        .unwrap()
        .with_vertex_objects((0..900).map(owner).collect())
        .unwrap()
        .with_elements(Elements::new(3, faces.collect()).unwrap())
        .unwrap()
}

fn written(draco: Option<DracoPositions>) -> Reader {
    let axes = ["x", "y", "z"].map(Axis::space).to_vec();
    let chunk = ChunkShape::new(&[10.0; 3]).unwrap();
    let schema = Schema::new(Kind::Mesh, axes, chunk).unwrap();
    let schema = match draco {
        Some(draco) => schema.with_draco(draco),
        None => schema,
    };
    run(async {
        let (memory, mut writer) = begin(schema).await;
        writer.push(&sheet()).unwrap();
        writer.finish().await.unwrap();
        Reader::new(open(memory).await)
    })
}

#[test]
fn lossless_streams_answer_like_rows() {
    let (rows, draco) = (written(None), written(Some(DracoPositions::default())));
    let cube = Bounds::new(&[5.0, 5.0, 0.0], &[17.0, 22.0, 1.0]).unwrap();
    for query in
        [Query::all(), Query::all().in_region(cube), Query::all().of_objects([ObjectId(8)])]
    {
        let (expected, found) =
            (inline(rows.run(&query)).unwrap(), inline(draco.run(&query)).unwrap());
        assert!(!expected.batch.is_empty() && found.complete);
        assert_eq!(found.batch, expected.batch);
    }
}

#[test]
fn a_grid_moves_points_by_half_a_step_and_keeps_them_in_their_chunks() {
    let bits = Some(12);
    let (rows, draco) = (written(None), written(Some(DracoPositions { bits })));
    let (expected, found) =
        (inline(rows.run(&Query::all())).unwrap(), inline(draco.run(&Query::all())).unwrap());
    assert_eq!(found.batch.elements(), expected.batch.elements());
    assert_eq!(found.batch.field("w"), expected.batch.field("w"));
    let step = 30.0 / 4095.0;
    for row in 0..900 {
        for axis in 0..3 {
            let x = |batch: &Batch| batch.positions().float(row, axis).unwrap();
            let (a, b) = (x(&expected.batch), x(&found.batch));
            assert!((a - b).abs() <= step, "{a} {b}");
            assert_eq!((a / 10.0).floor(), (b / 10.0).floor(), "{a} {b}");
        }
    }
}

#[test]
fn unsupported_vertices_of_streams_are_refused() {
    for (rank, dtype, text) in [
        (2_u8, Dtype::FLOAT32, "expected 3, in chunks by place alone, found 2"),
        (3, Dtype::FLOAT64, "expected float32, found float64; round them with --dtype float32"),
    ] {
        let chunk = ChunkShape::new(&[10.0; 3][..rank.into()]).unwrap();
        let schema =
            Schema::new(Kind::PointCloud, Axis::spatial(rank.into()).unwrap(), chunk).unwrap();
        let schema = schema.with_draco(DracoPositions::default());
        let error = run(async {
            let (_, mut writer) = begin(schema).await;
            let row = vec![0; if dtype == Dtype::FLOAT64 { 24 } else { 8 }];
            let positions = Column::new(dtype, u32::from(rank), row.into()).unwrap();
            writer.push(&Batch::new(Kind::PointCloud, positions))?;
            writer.finish().await
        });
        let error = error.unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}
