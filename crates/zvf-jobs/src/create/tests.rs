//! Stores created from files have the geometry of the files.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use zvf_format::Class;
use zvf_metadata::Dtype;
use zvf_model::flow::Piece;
use zvf_model::{Column, Kind};
use zvf_query::{Query, Reader};
use zvf_store::{OpenOptions, Store};
use zvf_write::Report;

use super::*;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("zvf-create-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

async fn create_from(file: &Path, recipe: &Recipe) -> Result<(Report, String), Error> {
    let on_progress = &mut |_, _| ControlFlow::Continue(());
    let layout = StoreLayout::scan(file, recipe, on_progress)?;
    let address = file.with_extension("zarrvectors").to_str().unwrap().to_owned();
    Ok((create(file, &address, &layout, recipe, on_progress).await?, address))
}

#[tokio::test]
async fn each_kind_is_read_back() {
    let folder = Folder::new("kinds");
    let points: String = (0..500).map(|n| format!("{},{},{}\n", n % 20, n / 20, n)).collect();
    let files = [
        folder.file("points.csv", format!("x,y,n\n{points}").as_bytes()),
        folder.file("mesh.obj", b"v 0 0 0\nv 9 0 0\nv 9 9 0\nv 0 9 0\nf 1 2 3\nf 1 3 4\n"),
        folder.file("tree.swc", b"1 1 0 0 0 2 -1\n2 3 5 0 0 1 1\n3 3 9 0 0 1 2\n9 1 1 1 1 1 -1\n"),
        folder.file("graph.ply", b"ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\n\
            element edge 2\nproperty int vertex1\nproperty int vertex2\nend_header\n0 0\n5 5\n9 0\n0 1\n1 2\n"),
    ];
    let recipe = Recipe { per_chunk: 100, ..Recipe::default() };
    for (file, kind, vertices, elements) in [
        (&files[0], Kind::PointCloud, 500, 0),
        (&files[1], Kind::Mesh, 4, 2),
        (&files[2], Kind::Skeleton, 4, 2),
        (&files[3], Kind::Graph, 3, 2),
    ] {
        let (report, address) = create_from(file, &recipe).await.unwrap();
        assert_eq!(report.vertices, vertices, "{kind}");
        let reader = Reader::new(Store::open(&address, OpenOptions::default()).await.unwrap());
        let answer = reader.run(&Query::all()).await.unwrap();
        assert_eq!(answer.batch.kind(), kind);
        assert_eq!(answer.batch.len() as u64, vertices);
        assert_eq!(answer.batch.elements().map_or(0, zvf_model::Elements::len), elements, "{kind}");
    }
}

#[tokio::test]
async fn chains_keep_their_vertices_in_order() {
    let folder = Folder::new("chains");
    let rows: String = (0..60).map(|n| format!("{n},0,{}\n", n / 20)).collect();
    let file = folder.file("lines.csv", format!("x,y,object\n{rows}").as_bytes());
    let read = ReadOptions { kind: Some(Kind::Polyline), batch_rows: 7, ..ReadOptions::default() };
    let recipe = Recipe { read, per_chunk: 10, ..Recipe::default() };
    let (report, address) = create_from(&file, &recipe).await.unwrap();
    assert_eq!(report.objects, 3);
    let reader = Reader::new(Store::open(&address, OpenOptions::default()).await.unwrap());
    let query = Query::all().of_objects([zvf_model::ObjectId(1)]);
    let answer = reader.run(&query).await.unwrap();
    let xs: Vec<f64> =
        (0..answer.batch.len()).filter_map(|row| answer.batch.positions().float(row, 0)).collect();
    assert_eq!(xs, (20..40).map(f64::from).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_failed_creation_leaves_nothing() {
    let folder = Folder::new("refused");
    let valid_file = folder.file("good.csv", b"x\n1\n2\n");
    let invalid_file = folder.file("bad.csv", b"x\n1\nnan\n");
    let recipe = Recipe::default();
    let error = create_from(&invalid_file, &recipe).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "InvalidArgument, vertex 1: expected finite coordinates, found NaN"
    );
    let flat = Recipe { chunk: Some(vec![1.0, 1.0]), ..recipe.clone() };
    let error = create_from(&valid_file, &flat).await.unwrap_err();
    assert!(error.to_string().contains("expected one length, or one for each axis"), "{error}");
    let layout =
        StoreLayout::scan(&valid_file, &recipe, &mut |_, _| ControlFlow::Continue(())).unwrap();
    let address = folder.0.join("good.zarrvectors").to_str().unwrap().to_owned();
    let stop = &mut |stage, _| {
        if stage == CreateStage::Read { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let error = create(&valid_file, &address, &layout, &recipe, stop).await.unwrap_err();
    assert_eq!(error.class(), Class::Cancelled);
    std::fs::write(&valid_file, "x\n1\n2\n3\n").unwrap();
    let on_progress = &mut |_, _| ControlFlow::Continue(());
    let error = create(&valid_file, &address, &layout, &recipe, on_progress).await.unwrap_err();
    assert_eq!(error.class(), Class::FileChanged);
    let left: Vec<_> = std::fs::read_dir(&folder.0).unwrap().collect();
    assert_eq!(left.len(), 2, "{left:?}");
    create_from(&valid_file, &recipe).await.unwrap();
    assert_eq!(create_from(&valid_file, &recipe).await.unwrap_err().class(), Class::AlreadyExists);
}

#[test]
fn chunks_of_wide_rows_fit_in_memory() {
    let folder = Folder::new("wide");
    let text: String = (0..2000).map(|n| format!("{n}{}\n", ",7".repeat(2000))).collect();
    let names: String = (0..2000).map(|n| format!(",a{n}")).collect();
    let file = folder.file("wide.csv", format!("x{names}\n{text}").as_bytes());
    let mut recipe = Recipe::default();
    recipe.write.memory = 0;
    let layout = StoreLayout::scan(&file, &recipe, &mut |_, _| ControlFlow::Continue(()));
    assert_eq!(layout.unwrap().chunk, [100.0]);
}

#[test]
fn elements_of_a_file_never_name_vertices_of_another() {
    let apply = |numbers: &[i64]| {
        let bytes = numbers.iter().flat_map(|n| n.to_le_bytes());
        // They are not aligned, as in the middle of a file.
        let bytes = Bytes::from_iter(std::iter::once(0).chain(bytes)).slice(1..);
        let rows = Column::new(Dtype::INT64, 1, bytes).unwrap();
        Shift::default().apply(Piece::Elements { rows, fields: Vec::new() }, 5)
    };
    let Piece::Elements { rows, .. } = apply(&[0, 7]).unwrap() else { panic!("no elements") };
    assert_eq!(rows.as_slice::<i64>(), Some([5, 12].as_slice()));
    for invalid in [-1, i64::MAX - 3] {
        let error = apply(&[0, invalid]).unwrap_err();
        assert!(error.to_string().contains(&invalid.to_string()), "{error}");
    }
}
