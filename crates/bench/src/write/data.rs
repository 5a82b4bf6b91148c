//! What is written: the same numbers each time, kept in plain files that both sides read.

use std::fs;
use std::path::Path;

use anyhow::Context;
use zvf_format::metadata::Dtype;
use zvf_model::{Batch, Column, Elements, Field, Kind, ObjectId, Parts};

/// A piece of work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// Its name, which the reference knows as well.
    pub(crate) id: &'static str,
    /// What it is.
    pub(crate) name: &'static str,
    /// At least how many times faster than the reference we want to be in memory; on disk it is 10.
    pub(crate) bar: f64,
    kind: Kind,
}

/// All of it.
pub(crate) const ALL: [Work; 4] = [
    Work { id: "points", name: "2 M points, two attributes", bar: 10.0, kind: Kind::PointCloud },
    Work { id: "objects", name: "1 M points in 10 000 objects", bar: 20.0, kind: Kind::PointCloud },
    Work {
        id: "streamlines",
        name: "20 000 streamlines of 100 vertices",
        bar: 15.0,
        kind: Kind::Streamline,
    },
    Work { id: "mesh", name: "500 000 triangles", bar: 10.0, kind: Kind::Mesh },
];

/// Writes the inputs, unless they are there.
pub(crate) fn make(folder: &Path) -> anyhow::Result<()> {
    if folder.join("done").exists() {
        return Ok(());
    }
    fs::create_dir_all(folder)?;
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let write = |name: &str, bytes: Vec<u8>| fs::write(folder.join(name), bytes);
    let cube = |random: &mut Random, n: usize| -> Vec<u8> {
        (0..n * 3).flat_map(|_| (random.unit() * SIDE).to_le_bytes()).collect()
    };
    write("points.f32", cube(&mut random, 2_000_000))?;
    write("points_a.f32", (0..2_000_000).flat_map(|_| random.unit().to_le_bytes()).collect())?;
    let label = |random: &mut Random| ((random.unit() * 50.0) as i32).to_le_bytes();
    write("points_n.i32", (0..2_000_000).flat_map(|_| label(&mut random)).collect())?;
    // Objects are clouds around a place, and come one after the other.
    let (mut positions, mut ids) = (Vec::new(), Vec::new());
    for object in 0..10_000_i64 {
        let centre = [(); 3].map(|()| random.unit() * SIDE);
        for _ in 0..100 {
            for x in centre {
                let x = x + (random.unit() - 0.5) * 4.0;
                positions.extend(x.clamp(0.0, SIDE).to_le_bytes());
            }
            ids.extend(object.to_le_bytes());
        }
    }
    write("objects.f32", positions)?;
    write("objects_id.i64", ids)?;
    let mut paths = Vec::new();
    for _ in 0..20_000 {
        let mut at = [(); 3].map(|()| random.unit() * SIDE);
        let mut heading = [(); 3].map(|()| random.unit() - 0.5);
        for _ in 0..100 {
            for (x, step) in at.iter_mut().zip(&mut heading) {
                *step += (random.unit() - 0.5) * 0.2;
                *x = (*x + *step).clamp(0.0, SIDE);
                paths.extend(x.to_le_bytes());
            }
        }
    }
    write("streamlines.f32", paths)?;
    let (corners, faces) = sheet(501);
    write("mesh.f32", corners)?;
    write("mesh_faces.i64", faces)?;
    Ok(fs::write(folder.join("done"), "")?)
}

/// A wavy square of `2 (side - 1)²` triangles.
fn sheet(side: usize) -> (Vec<u8>, Vec<u8>) {
    let (mut corners, mut faces) = (Vec::new(), Vec::new());
    for i in 0..side {
        for j in 0..side {
            let place = |at: usize| at as f32 * SIDE / (side - 1) as f32;
            let (x, y) = (place(i), place(j));
            let z = 50.0 + 25.0 * (x / 7.0).sin() * (y / 9.0).cos();
            corners.extend([x, y, z].iter().flat_map(|x| x.to_le_bytes()));
            if i + 1 < side && j + 1 < side {
                let at = (i * side + j) as i64;
                let (right, up) = (at + side as i64, at + 1);
                let both = [at, right, up, up, right, right + 1];
                faces.extend(both.iter().flat_map(|at| at.to_le_bytes()));
            }
        }
    }
    (corners, faces)
}

impl Work {
    pub(crate) const fn kind(&self) -> Kind {
        self.kind
    }

    /// The input, in memory, as one batch.
    pub(crate) fn batch(&self, folder: &Path) -> anyhow::Result<Batch> {
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        let column = |name: &str, dtype: &str, width: u32| -> anyhow::Result<Column> {
            Ok(Column::new(Dtype::parse(dtype)?, width, read(name)?.into())?)
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
            _ => {
                let faces = column("mesh_faces.i64", "int64", 3)?;
                let rows = faces.as_slice::<i64>().context("int64")?;
                let rows = rows.iter().map(|row| *row as usize).collect();
                batch.with_elements(Elements::new(3, rows)?)?
            }
        })
    }
}

/// A small generator with a fixed start, so that every run writes the same.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1_u64 << 24) as f32
    }
}

/// The side of the cube everything lies in.
const SIDE: f32 = 100.0;
