//! The written data: the same numbers on every run, kept in plain files that both sides read.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use zvf_metadata::Dtype;
use zvf_model::{Batch, Column, Elements, Field, Kind, ObjectId, Parts};

use crate::parts::sample_data::{Random, make_walks};

/// A workload.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    /// Its name, as in the script of zarr-vectors.
    pub(crate) id: &'static str,
    /// Its description.
    pub(crate) name: String,
    /// The required speed-up over zarr-vectors in memory; on disk it is 10.
    pub(crate) bar: f64,
    kind: Kind,
}

/// Returns all workloads, for a scale.
pub(crate) fn list_work(scale: f64) -> Vec<Work> {
    let Sizes { points, objects, streamlines, side, nodes } = Sizes::from_scale(scale);
    let triangles = 2 * (side - 1).pow(2);
    let work = |id, name, bar, kind| Work { id, name, bar, kind };
    let clouds = format!("{} points in {objects} objects", objects * 100);
    let lines = format!("{streamlines} streamlines of 100 vertices");
    vec![
        work("points", format!("{points} points, two attributes"), 10.0, Kind::PointCloud),
        work("objects", clouds, 20.0, Kind::PointCloud),
        work("streamlines", lines, 15.0, Kind::Streamline),
        work("mesh", format!("{triangles} triangles"), 10.0, Kind::Mesh),
        work("graph", format!("a graph of {nodes} nodes"), 10.0, Kind::Graph),
    ]
}

/// The number of items of each kind.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    points: usize,
    objects: usize,
    streamlines: usize,
    /// The number of corners on a side of the mesh.
    side: usize,
    nodes: usize,
}

impl Sizes {
    fn from_scale(scale: f64) -> Self {
        let scaled_count = |amount: f64| ((amount * scale) as usize).max(10);
        Self {
            points: scaled_count(2e6),
            objects: scaled_count(1e4),
            streamlines: scaled_count(2e4),
            side: (500.0 * scale.sqrt()) as usize + 1,
            nodes: scaled_count(1e3) * 100,
        }
    }
}

/// Returns the folder of the inputs of a scale, which are written unless they exist.
pub(crate) fn write_inputs(folder: &Path, scale: f64) -> anyhow::Result<PathBuf> {
    let folder = folder.join(format!("inputs-{scale}"));
    if folder.join("done").exists() {
        return Ok(folder);
    }
    fs::create_dir_all(&folder)?;
    let sizes = Sizes::from_scale(scale);
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
    let write = |name: &str, bytes: Vec<u8>| fs::write(folder.join(name), bytes);
    let cube = |random: &mut Random, n: usize| -> Vec<u8> {
        (0..n * 3).flat_map(|_| (random.next_unit() * SIDE).to_le_bytes()).collect()
    };
    write("points.f32", cube(&mut random, sizes.points))?;
    write(
        "points_a.f32",
        (0..sizes.points).flat_map(|_| random.next_unit().to_le_bytes()).collect(),
    )?;
    let label = |random: &mut Random| ((random.next_unit() * 50.0) as i32).to_le_bytes();
    write("points_n.i32", (0..sizes.points).flat_map(|_| label(&mut random)).collect())?;
    // Objects are clouds around a point, stored one after the other.
    let (mut positions, mut ids) = (Vec::new(), Vec::new());
    for object in 0..sizes.objects as i64 {
        let centre = [(); 3].map(|()| random.next_unit() * SIDE);
        for _ in 0..100 {
            for x in centre {
                let x = x + (random.next_unit() - 0.5) * 4.0;
                positions.extend(x.clamp(0.0, SIDE).to_le_bytes());
            }
            ids.extend(object.to_le_bytes());
        }
    }
    write("objects.f32", positions)?;
    write("objects_id.i64", ids)?;
    let paths = make_walks(sizes.streamlines as u64, 100)?;
    write("streamlines.f32", paths.positions().bytes().to_vec())?;
    let sheet = make_sheet(sizes.side)?;
    write("mesh.f32", sheet.positions().bytes().to_vec())?;
    let faces = sheet.elements().context("faces")?.rows();
    write("mesh_faces.i64", int64_bytes(faces.iter().copied()))?;
    // Nodes of walks of a hundred; each is linked to the next one and to the third after it.
    let nodes = make_walks(sizes.nodes as u64 / 100, 100)?;
    write("graph.f32", nodes.positions().bytes().to_vec())?;
    let pairs = |step: usize| {
        let firsts = (0..nodes.len()).filter(move |at| at % 100 + step < 100);
        firsts.flat_map(move |at| [at, at + step])
    };
    write("graph_edges.i64", int64_bytes(pairs(1).chain(pairs(3))))?;
    fs::write(folder.join("done"), "")?;
    Ok(folder)
}

/// Makes a wavy square of `2 (side - 1)²` triangles.
pub(crate) fn make_sheet(side: usize) -> anyhow::Result<Batch> {
    let (mut corners, mut faces) = (Vec::new(), Vec::new());
    for at in 0..side * side {
        let (i, j) = (at / side, at % side);
        let [x, y] = [i, j].map(|at| at as f32 * SIDE / (side - 1) as f32);
        let z = 50.0 + 25.0 * (x / 7.0).sin() * (y / 9.0).cos();
        corners.extend([x, y, z].iter().flat_map(|x| x.to_le_bytes()));
        if i + 1 < side && j + 1 < side {
            let (right, up) = (at + side, at + 1);
            faces.extend([at, right, up, up, right, right + 1]);
        }
    }
    let positions = Column::new(Dtype::FLOAT32, 3, corners.into())?;
    Ok(Batch::new(Kind::Mesh, positions).with_elements(Elements::new(3, faces)?)?)
}

/// Returns row numbers in the form of files.
pub(crate) fn int64_bytes(rows: impl Iterator<Item = usize>) -> Vec<u8> {
    rows.flat_map(|row| (row as i64).to_le_bytes()).collect()
}

impl Work {
    /// Reads the input into one batch in memory.
    pub(crate) fn read_batch(&self, folder: &Path) -> anyhow::Result<Batch> {
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        let column = |name: &str, dtype: &str, width: u32| -> anyhow::Result<Column> {
            Ok(Column::new(dtype.parse::<Dtype>()?, width, read(name)?.into())?)
        };
        let batch = Batch::new(self.kind, column(&format!("{}.f32", self.id), "float32", 3)?);
        Ok(match self.id {
            "points" => batch
                .with_field(Field::new("a", column("points_a.f32", "float32", 1)?))?
                .with_field(Field::new("n", column("points_n.i32", "int32", 1)?))?,
            "objects" => {
                let ids = column("objects_id.i64", "int64", 1)?;
                let ids = ids.as_slice::<i64>().context("int64")?;
                batch.with_vertex_objects(ids.iter().map(|id| Some(ObjectId(*id))).collect())?
            }
            "streamlines" => {
                let offsets = (0..=batch.len()).step_by(100).collect();
                let ids = (0..(batch.len() / 100) as i64).map(ObjectId).collect();
                batch.with_parts(Parts::new(offsets, ids)?)?
            }
            id => {
                let (name, width) =
                    if id == "mesh" { ("mesh_faces.i64", 3) } else { ("graph_edges.i64", 2) };
                let rows = column(name, "int64", width)?;
                let rows = rows.as_slice::<i64>().context("int64")?;
                let rows = rows.iter().map(|row| *row as usize).collect();
                batch.with_elements(Elements::new(width as usize, rows)?)?
            }
        })
    }
}

/// The side of the cube that contains all data.
const SIDE: f32 = 100.0;
