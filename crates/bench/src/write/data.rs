//! The written data: the same numbers on every run, in memory, and in plain files for zarr-vectors.

use std::fs;
use std::path::Path;

use archives::random::Random;
use zvf_metadata::Dtype;
use zvf_model::{Batch, Column, Elements, Field, Kind, ObjectId};

use crate::parts::sample_data::{SIDE, floats, make_walks};

/// A workload.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    /// Its name, as in the script of zarr-vectors.
    pub(crate) id: &'static str,
    /// Its description.
    pub(crate) name: String,
    /// The required speed-up over zarr-vectors in memory; on disk it is 10.
    pub(crate) bar: f64,
    /// Makes the data, of this size.
    make: fn(usize) -> anyhow::Result<Batch>,
    size: usize,
}

/// Returns all workloads, for a scale.
pub(crate) fn list_work(scale: f64) -> Vec<Work> {
    let scaled = |amount: f64| ((amount * scale) as usize).max(10);
    let [points, objects, lines] = [2e6, 1e4, 2e4].map(scaled);
    let (side, nodes) = ((500.0 * scale.sqrt()) as usize + 1, scaled(1e3) * 100);
    let work = |id, name, bar, make, size| Work { id, name, bar, make, size };
    let clouds = format!("{} points in {objects} objects", objects * 100);
    let triangles = format!("{} triangles", 2 * (side - 1).pow(2));
    vec![
        work("points", format!("{points} points, two attributes"), 10.0, make_points, points),
        work("objects", clouds, 20.0, make_clouds, objects),
        work(
            "streamlines",
            format!("{lines} streamlines of 100 vertices"),
            15.0,
            |lines| make_walks(lines as u64, 100),
            lines,
        ),
        work("mesh", triangles, 10.0, make_sheet, side),
        work("graph", format!("a graph of {nodes} nodes"), 10.0, make_graph, nodes),
    ]
}

impl Work {
    /// Makes the data, and writes its numbers below `folder` unless they are there.
    pub(crate) fn make_input(&self, folder: &Path) -> anyhow::Result<Batch> {
        let batch = (self.make)(self.size)?;
        let done = folder.join(format!("{}.done", self.id));
        if !done.exists() {
            let write =
                |end: &str, bytes: &[u8]| fs::write(folder.join(self.id.to_owned() + end), bytes);
            write(".f32", batch.positions().bytes())?;
            for field in batch.fields() {
                write(&format!("_{}", field.name), field.column.bytes())?;
            }
            if let Some(owners) = batch.vertex_objects() {
                let ids = owners.iter().map(|id| id.map_or(-1, |id| id.0));
                write("_id.i64", &ids.flat_map(i64::to_le_bytes).collect::<Vec<u8>>())?;
            }
            if let Some(elements) = batch.elements() {
                write("_rows.i64", &int64_bytes(elements.rows()))?;
            }
            fs::write(done, "")?;
        }
        Ok(batch)
    }
}

/// Makes points in the cube, with an attribute of each width.
fn make_points(count: usize) -> anyhow::Result<Batch> {
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
    let mut unit = || random.next_unit() as f32;
    let places: Vec<f32> = (0..count * 3).map(|_| unit() * SIDE as f32).collect();
    let numbers: Vec<f32> = (0..count).map(|_| unit()).collect();
    let labels = (0..count).flat_map(|_| ((unit() * 50.0) as i32).to_le_bytes());
    let labels = Column::new("int32".parse::<Dtype>()?, 1, labels.collect::<Vec<u8>>().into())?;
    let batch = Batch::new(Kind::PointCloud, floats(3, places)?);
    let batch = batch.with_field(Field::new("a", floats(1, numbers)?))?;
    Ok(batch.with_field(Field::new("n", labels))?)
}

/// Makes clouds of a hundred points, each an object, stored one after the other.
fn make_clouds(objects: usize) -> anyhow::Result<Batch> {
    let mut random = Random::new(0x2545_f491_4f6c_dd1d);
    let mut unit = || random.next_unit() as f32;
    let (mut places, side) = (Vec::new(), SIDE as f32);
    for _ in 0..objects {
        let centre = [(); 3].map(|()| unit() * side);
        for _ in 0..100 {
            places.extend(centre.map(|x| (x + (unit() - 0.5) * 4.0).clamp(0.0, side)));
        }
    }
    let owners = (0..objects * 100).map(|at| Some(ObjectId((at / 100) as i64)));
    let batch = Batch::new(Kind::PointCloud, floats(3, places)?);
    Ok(batch.with_vertex_objects(owners.collect())?)
}

/// Makes a wavy square of `2 (side - 1)²` triangles.
pub(crate) fn make_sheet(side: usize) -> anyhow::Result<Batch> {
    let (mut corners, mut faces) = (Vec::new(), Vec::new());
    for at in 0..side * side {
        let (i, j) = (at / side, at % side);
        let [x, y] = [i, j].map(|at| at as f32 * SIDE as f32 / (side - 1) as f32);
        corners.extend([x, y, 50.0 + 25.0 * (x / 7.0).sin() * (y / 9.0).cos()]);
        if i + 1 < side && j + 1 < side {
            let (right, up) = (at + side, at + 1);
            faces.extend([at, right, up, up, right, right + 1]);
        }
    }
    Ok(Batch::new(Kind::Mesh, floats(3, corners)?).with_elements(Elements::new(3, faces)?)?)
}

/// Makes nodes of walks of a hundred; each is linked to the next one and to the third after it.
fn make_graph(nodes: usize) -> anyhow::Result<Batch> {
    let walks = make_walks(nodes as u64 / 100, 100)?;
    let pairs = |step: usize| {
        let firsts = (0..walks.len()).filter(move |at| at % 100 + step < 100);
        firsts.flat_map(move |at| [at, at + step])
    };
    let edges = Elements::new(2, pairs(1).chain(pairs(3)).collect())?;
    Ok(Batch::new(Kind::Graph, walks.positions().clone()).with_elements(edges)?)
}

/// Returns row numbers in the form of files.
pub(crate) fn int64_bytes(rows: &[usize]) -> Vec<u8> {
    rows.iter().flat_map(|row| (*row as i64).to_le_bytes()).collect()
}
