//! Example geometry of every kind in a cube of 100, the same in every run.
//!
//! Fibre bundles, branching neurons, vessels, a folded surface, contours, directions on a ball, and labelled points.

use zvf::metadata::{Dtype, DtypeKind};
use zvf::{Batch, Column, Elements, Error, Field, Kind, ObjectId, Parts};

/// Returns a batch of the kind.
pub(super) fn make_batch(kind: Kind) -> Result<Batch, Error> {
    let mut random = Random(0x5eed);
    let mut shape = Shape::default();
    match kind {
        Kind::Line => shape.spines(&mut random, 900),
        Kind::Polyline => shape.contours(26, 120),
        Kind::Streamline => shape.bundles(&mut random, 5, 70, 48),
        Kind::Graph => shape.vessels(&mut random, 5),
        Kind::Skeleton => shape.neurons(&mut random, 6),
        Kind::Mesh => shape.cortex(72),
        Kind::PointCloud | _ => shape.clusters(&mut random, 7, 2600),
    }
    shape.batch(kind, &mut random)
}

/// Geometry under construction.
#[derive(Default)]
struct Shape {
    points: Vec<[f32; 3]>,
    ends: Vec<usize>, // of each object
    corners: usize,   // of an element
    rows: Vec<usize>,
    labels: Vec<u8>, // of points, or none
}

impl Shape {
    fn end_object(&mut self) {
        self.ends.push(self.points.len());
    }

    /// Adds short lines that stand on a ball: directions at positions.
    fn spines(&mut self, random: &mut Random, count: u16) {
        for i in 0..count {
            // The Fibonacci spiral spreads points evenly.
            let z = 1.0 - 2.0 * (f32::from(i) + 0.5) / f32::from(count);
            let (sin, cos) = (f32::from(i) * 2.399_963_2).sin_cos();
            let flat = (1.0 - z * z).sqrt();
            let out = [flat * cos, flat * sin, z];
            let length = 4.0 + 9.0 * random.unit() * (0.5 + 0.5 * (5.0 * z + 2.0 * cos).sin());
            self.points.push(out.map(|x| 50.0 + 33.0 * x));
            self.points.push(out.map(|x| 50.0 + (33.0 + length) * x));
            self.end_object();
        }
    }

    /// Adds contour lines of hills.
    fn contours(&mut self, count: u8, steps: u16) {
        for i in 0..count {
            let height = f32::from(i) / f32::from(count);
            for step in 0..=steps {
                let angle = f32::from(step) / f32::from(steps) * TAU;
                let wave =
                    (3.0 * angle + 4.0 * height).sin() + 0.6 * (5.0 * angle - 3.0 * height).cos();
                let radius = (1.0 - height).powf(0.6) * (38.0 + 5.0 * wave);
                self.points.push([
                    50.0 + radius * angle.cos(),
                    50.0 + radius * angle.sin(),
                    12.0 + 76.0 * height,
                ]);
            }
            self.end_object();
        }
    }

    /// Adds bundles of fibres: arches from one side to the other that fan out at their ends.
    fn bundles(&mut self, random: &mut Random, bundles: u8, fibres: u8, steps: u8) {
        for bundle in 0..bundles {
            let turn = f32::from(bundle) / f32::from(bundles) * TAU * 0.5;
            let (sin, cos) = turn.sin_cos();
            let rise = 26.0 + 9.0 * f32::from(bundle % 3);
            for _ in 0..fibres {
                let [spread, lift, sway] = [(); 3].map(|()| random.unit() + random.unit() - 1.0);
                for step in 0..steps {
                    let t = f32::from(step) / f32::from(steps - 1) * 2.0 - 1.0;
                    let fan = 0.18 + 0.82 * t * t;
                    let along = 42.0 * t;
                    let across =
                        9.0 * spread * fan + 5.0 * (2.2 * t + sway).sin() * f32::from(bundle % 2);
                    let up = rise * (1.0 - t * t)
                        + 7.0 * lift * fan
                        + 1.5 * (3.0 * t + 4.0 * sway).sin();
                    self.points.push(clamp_point([
                        50.0 + along * cos - across * sin,
                        50.0 + along * sin + across * cos,
                        16.0 + up,
                    ]));
                }
                self.end_object();
            }
        }
    }

    /// Adds trees of vessels with loops between neighbours.
    fn vessels(&mut self, random: &mut Random, count: u8) {
        self.corners = 2;
        for i in 0..count {
            let (sin, cos) = (f32::from(i) / f32::from(count) * TAU).sin_cos();
            let root = [50.0 + 20.0 * cos, 50.0 + 20.0 * sin, 4.0];
            let start = self.points.len();
            self.points.push(root);
            self.grow(random, start, [0.25 * cos, 0.25 * sin, 1.0], 42, 3);
            for row in (start..self.points.len()).step_by(29) {
                let far = start + random.random_below(self.points.len() - start);
                if far != row && self.distance(row, far) < 14.0 {
                    self.rows.extend([far, row]);
                }
            }
            self.end_object();
        }
    }

    /// Adds neurons: branching trees, each with its cell body as the root.
    fn neurons(&mut self, random: &mut Random, count: u8) {
        self.corners = 2;
        for i in 0..count {
            let (sin, cos) = (f32::from(i) / f32::from(count) * TAU).sin_cos();
            let start = self.points.len();
            self.points.push([50.0 + 24.0 * cos, 50.0 + 24.0 * sin, 42.0 + 16.0 * random.unit()]);
            for branch in 0_u8..6 {
                let (s, c) = (f32::from(branch) * 1.05 + f32::from(i)).sin_cos();
                let lift = if branch == 0 { 1.6 } else { random.unit() - 0.6 };
                self.grow(random, start, [c, s, lift], 26, 3);
            }
            self.end_object();
        }
    }

    /// Adds a branch that starts at point `from` and divides `order` times.
    fn grow(&mut self, random: &mut Random, from: usize, toward: [f32; 3], steps: u8, order: u8) {
        let (mut parent, mut toward) = (from, toward);
        for _ in 0..steps {
            toward = toward.map(|x| x + 0.5 * (random.unit() - 0.5));
            let length = toward.iter().map(|x| x * x).sum::<f32>().sqrt().max(0.1);
            toward = toward.map(|x| x / length);
            let at = self.points[parent];
            let step = [0, 1, 2].map(|axis: usize| at[axis] + 0.85 * toward[axis]);
            let row = self.points.len();
            self.points.push(clamp_point(step));
            self.rows.extend([row, parent]);
            parent = row;
        }
        if order > 0 {
            for _ in 0..2 {
                let turned = toward.map(|x| x + 1.5 * (random.unit() - 0.5));
                self.grow(random, parent, turned, steps * 3 / 4, order - 1);
            }
        }
    }

    fn distance(&self, a: usize, b: usize) -> f32 {
        let ends = self.points[a].iter().zip(&self.points[b]);
        ends.map(|(a, b)| (a - b) * (a - b)).sum::<f32>().sqrt()
    }

    /// Adds a folded surface of two halves, like a cortex: balls with a varying radius.
    fn cortex(&mut self, rings: u16) {
        self.corners = 3;
        let around = rings * 2;
        for side in [-1.0_f32, 1.0] {
            let first = self.points.len();
            for ring in 0..=rings {
                // Not quite from pole to pole, so that no two vertices coincide.
                let polar = 0.004 + 0.992 * f32::from(ring) / f32::from(rings);
                let (flat, z) = (polar * TAU * 0.5).sin_cos();
                for step in 0..around {
                    let (sin, cos) = (f32::from(step) / f32::from(around) * TAU).sin_cos();
                    let out = [flat * cos, flat * sin, z];
                    self.points.push(fold_point(out, side));
                }
            }
            let around = usize::from(around);
            for ring in 0..usize::from(rings) {
                for step in 0..around {
                    let next = (step + 1) % around;
                    let at = |ring: usize, step: usize| first + ring * around + step;
                    let (a, b) = (at(ring, step), at(ring, next));
                    let (c, d) = (at(ring + 1, step), at(ring + 1, next));
                    self.rows.extend([a, c, b, b, c, d]);
                }
            }
            self.end_object();
        }
    }

    /// Adds clouds of points around a helix, each with a label.
    fn clusters(&mut self, random: &mut Random, clusters: u8, points: u16) {
        for cluster in 0..clusters {
            let at = f32::from(cluster) / f32::from(clusters);
            for _ in 0..points {
                let along = at + random.unit() * 0.72 / f32::from(clusters);
                let (sin, cos) = (along * TAU * 1.5).sin_cos();
                let near = [(); 3].map(|()| random.unit() + random.unit() + random.unit() - 1.5);
                let width = 5.0 + 5.0 * (at * TAU).sin().abs();
                self.points.push(clamp_point([
                    50.0 + 28.0 * cos + width * near[0],
                    50.0 + 28.0 * sin + width * near[1],
                    12.0 + 76.0 * along + width * near[2],
                ]));
                self.labels.push(cluster);
            }
        }
    }

    fn batch(self, kind: Kind, random: &mut Random) -> Result<Batch, Error> {
        let bytes: Vec<u8> = self.points.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
        let batch = Batch::new(kind, column(Dtype::FLOAT32, 3, bytes)?);
        // Values grow with height, plus noise: the gradient is visible in every kind.
        let values = self.points.iter().map(|at| at[2] / 100.0 * 0.9 + 0.1 * random.unit());
        let values = values.flat_map(f32::to_le_bytes).collect();
        let intensity = Field::new("intensity", column(Dtype::FLOAT32, 1, values)?);
        let mut batch = batch.with_field(intensity)?;
        if !self.labels.is_empty() {
            let label = Field::new("label", column(LABEL, 1, self.labels)?);
            batch = batch.with_field(label)?;
        }
        if !self.ends.is_empty() {
            let ids = (0..).take(self.ends.len()).map(ObjectId).collect();
            let offsets = std::iter::once(0).chain(self.ends).collect();
            let parts = Parts::new(offsets, ids)?;
            batch = batch.with_parts(parts)?;
        }
        if self.corners > 0 {
            let elements = Elements::new(self.corners, self.rows)?;
            batch = batch.with_elements(elements)?;
        }
        Ok(batch)
    }
}

fn column(dtype: Dtype, width: u32, bytes: Vec<u8>) -> Result<Column, Error> {
    Ok(Column::new(dtype, width, bytes.into())?)
}

/// A deterministic pseudo-random generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u16 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let [.., low, high] = self.0.to_le_bytes();
        u16::from_le_bytes([low, high])
    }

    /// Returns a number from 0 to 1.
    fn unit(&mut self) -> f32 {
        f32::from(self.next()) / f32::from(u16::MAX)
    }

    /// Returns a number below `n`, which is not 0.
    fn random_below(&mut self, n: usize) -> usize {
        usize::from(self.next()) % n
    }
}

/// Returns a point of a folded ball, shifted to one side of the middle.
fn fold_point(out: [f32; 3], side: f32) -> [f32; 3] {
    let [x, y, z] = out;
    let folds = (9.0 * y + 3.0 * (5.0 * x).sin() + 2.0 * (4.0 * z).cos()).sin()
        + 0.6 * (11.0 * z + 4.0 * (3.0 * y + 2.0 * x).sin()).sin();
    // The halves are flat where they face each other.
    let inner = (x * side + 0.25).clamp(0.0, 1.0);
    let radius = 1.0 + 0.055 * folds * (0.35 + 0.65 * inner);
    let width = if x * side < 0.0 { 7.0 } else { 23.0 };
    clamp_point([
        50.0 + side * 9.5 + width * x * radius,
        50.0 + 36.0 * y * radius,
        52.0 + 27.0 * z * radius,
    ])
}

/// Clamps a point to the cube.
fn clamp_point(at: [f32; 3]) -> [f32; 3] {
    at.map(|x| x.clamp(0.0, 100.0))
}

const TAU: f32 = std::f32::consts::TAU;
/// The type of labels.
const LABEL: Dtype = Dtype { kind: DtypeKind::UInt, size: 1, big_endian: false };
