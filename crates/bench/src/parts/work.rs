//! The workloads that both sides run.

use serde_json::{Value, json};

use crate::parts::sample_data::Random;

/// One workload.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) name: &'static str,
    pub(crate) store: &'static str,
    pub(crate) ask: Ask,
    /// The required speed-up over zarr-vectors.
    pub(crate) bar: f64,
}

/// The query of a workload.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    /// The vertices in each box, or whole objects if `whole`.
    Boxes { boxes: Vec<[[f64; 3]; 2]>, whole: bool },
    /// The vertices of objects.
    Objects(Vec<i64>),
    /// All vertices with these attributes.
    Scan(Vec<&'static str>),
}

/// The side of a chunk in all stores.
pub(crate) const CELL: f64 = 12.5;

impl Work {
    /// Returns whether its queries read the same cells.
    pub(crate) fn overlaps(&self) -> bool {
        matches!(&self.ask, Ask::Boxes { boxes, .. } if boxes.len() > 1)
    }

    /// Returns the arrays whose cells it must read, below the level.
    pub(crate) fn list_arrays(&self) -> Vec<String> {
        let mut arrays = vec!["vertices".to_owned()];
        if let Ask::Scan(names) = &self.ask {
            arrays.extend(names.iter().map(|name| format!("vertex_attributes/{name}")));
        }
        arrays
    }

    /// Returns the request for the script of zarr-vectors.
    pub(crate) fn request(&self) -> Value {
        match &self.ask {
            Ask::Boxes { boxes, .. } => {
                json!({"work": "boxes", "store": self.store, "boxes": boxes})
            }
            Ask::Objects(ids) => json!({"work": "objects", "store": self.store, "ids": ids}),
            Ask::Scan(names) => json!({"work": "scan", "store": self.store, "attributes": names}),
        }
    }
}

/// Returns all workloads, for stores of one scale.
pub(crate) fn list_work(scale: f64) -> Vec<Work> {
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
    let mut boxes =
        |n: usize, share: f64| (0..n).map(|_| random_cube(&mut random, share)).collect::<Vec<_>>();
    let thousandth = boxes(1, 0.001);
    let hundredths = boxes(200, 0.01);
    let [lines, graph] = [(); 2].map(|()| boxes(1, 0.001));
    // Around a point of the sheet: z = 50 + 25 sin(x / 7) cos(y / 9), as in the data script.
    let mesh = vec![cube_around([
        30.0,
        40.0,
        50.0 + 25.0 * (30.0_f64 / 7.0).sin() * (40.0_f64 / 9.0).cos(),
    ])];
    let objects = ((10_000.0 * scale) as u64).max(10);
    let ids = (0..2_000).map(|_| (random.next() % objects) as i64).collect::<Vec<_>>();
    let vertices = |boxes| Ask::Boxes { boxes, whole: false };
    let whole = |boxes| Ask::Boxes { boxes, whole: true };
    let work = |name, store, ask, bar| Work { name, store, ask, bar };
    vec![
        work("one box of 1/1000, points", "points", vertices(thousandth), 50.0),
        work("200 boxes of 1 %, points", "attributes", vertices(hundredths), 15.0),
        work("one box of 1/1000, streamlines", "streamlines", whole(lines), 150.0),
        work("one box of 1/1000, mesh", "mesh", vertices(mesh), 100.0),
        work("one box of 1/1000, graph", "graph", vertices(graph), 100.0),
        work("one object", "objects", Ask::Objects(ids[..1].to_vec()), 80.0),
        work("2000 objects", "objects", Ask::Objects(ids), 25.0),
        work("full scan, two attributes", "attributes", Ask::Scan(vec!["intensity", "label"]), 4.0),
    ]
}

/// Returns a cube with 1/1000 of the volume around a point.
fn cube_around(point: [f64; 3]) -> [[f64; 3]; 2] {
    [point.map(|x| x - 5.0), point.map(|x| x + 5.0)]
}

/// Returns a cube with this share of the data.
fn random_cube(random: &mut Random, share: f64) -> [[f64; 3]; 2] {
    let side = 100.0 * share.cbrt();
    let mut unit = || (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
    let low = [(); 3].map(|()| unit() * (100.0 - side));
    [low, low.map(|x| x + side)]
}
