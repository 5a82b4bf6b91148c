//! Geometry to show: something of every kind in a cube of 100, the same every time.

use zvf::metadata::Dtype;
use zvf::{Batch, Column, Elements, Error, Field, Kind, ObjectId, Parts};

/// A batch of that kind.
pub(super) fn make_batch(kind: Kind) -> Result<Batch, Error> {
    let mut random = Random(0x5eed);
    let mut shape = Shape::default();
    let chains = [(Kind::Line, 300, 2), (Kind::Polyline, 40, 25), (Kind::Streamline, 80, 40)];
    if let Some((_, count, length)) = chains.into_iter().find(|(of, ..)| *of == kind) {
        shape.chains(&mut random, count, length);
    } else if kind == Kind::Graph {
        shape.graph(&mut random, 6, 100);
    } else if kind == Kind::Skeleton {
        shape.trees(&mut random, 4, 150);
    } else if kind == Kind::Mesh {
        shape.surface(33);
    } else {
        shape.points.extend((0..5000).map(|_| random.point()));
    }
    shape.batch(kind, &mut random)
}

/// Geometry in the making.
#[derive(Default)]
struct Shape {
    points: Vec<[f32; 3]>,
    ends: Vec<usize>, // of each object
    corners: usize,   // of an element
    rows: Vec<usize>,
}

impl Shape {
    /// Walks of `length` steps.
    fn chains(&mut self, random: &mut Random, count: usize, length: usize) {
        for _ in 0..count {
            self.walk(random, length);
        }
    }

    fn walk(&mut self, random: &mut Random, length: usize) {
        let mut at = random.point();
        for _ in 0..length {
            self.points.push(at);
            at = random.random_near(at);
        }
        self.ends.push(self.points.len());
    }

    /// Walks with a few more edges.
    fn graph(&mut self, random: &mut Random, count: usize, length: usize) {
        self.corners = 2;
        for _ in 0..count {
            let start = self.points.len();
            self.walk(random, length);
            for row in start.saturating_add(1)..self.points.len() {
                self.rows.extend([row.saturating_sub(1), row]);
                if random.random_below(4) == 0 {
                    let far = start.saturating_add(random.random_below(row.saturating_sub(start)));
                    self.rows.extend([far, row]);
                }
            }
        }
    }

    /// Trees that branch now and then; the first node of each is its root.
    fn trees(&mut self, random: &mut Random, count: usize, length: usize) {
        self.corners = 2;
        for _ in 0..count {
            let start = self.points.len();
            self.points.push(random.point());
            for row in start.saturating_add(1)..start.saturating_add(length) {
                let grown = row.saturating_sub(start);
                let back = if random.random_below(8) == 0 { random.random_below(grown) } else { 0 };
                let parent = row.saturating_sub(1).saturating_sub(back);
                let from = self.points.get(parent).copied().unwrap_or_default();
                self.points.push(random.random_near(from));
                self.rows.extend([row, parent]);
            }
            self.ends.push(self.points.len());
        }
    }

    /// Waves over a square, two triangles to a cell.
    fn surface(&mut self, side: u8) {
        self.corners = 3;
        let last = f32::from(side.saturating_sub(1));
        for y in 0..side {
            for x in 0..side {
                let [x, y] = [x, y].map(|n| f32::from(n) / last * 100.0);
                self.points.push([x, y, 50.0 + 20.0 * (x / 12.0).sin() * (y / 17.0).cos()]);
            }
        }
        let side = usize::from(side);
        let cells = side.saturating_sub(1);
        for y in 0..cells {
            for x in 0..cells {
                let a = y.saturating_mul(side).saturating_add(x);
                let [b, c] = [a.saturating_add(1), a.saturating_add(side)];
                self.rows.extend([a, b, c, b, c.saturating_add(1), c]);
            }
        }
        self.ends.push(self.points.len());
    }

    fn batch(self, kind: Kind, random: &mut Random) -> Result<Batch, Error> {
        let bytes: Vec<u8> = self.points.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
        let batch = Batch::new(kind, column(Dtype::FLOAT32, 3, bytes)?);
        let values = self.points.iter().map(|_| random.unit());
        let values = values.flat_map(f32::to_le_bytes).collect();
        let intensity = Field::new("intensity", column(Dtype::FLOAT32, 1, values)?);
        let mut batch = batch.with_field(intensity).map_err(no_batch)?;
        if !self.ends.is_empty() {
            let ids = (0..).take(self.ends.len()).map(ObjectId).collect();
            let offsets = std::iter::once(0).chain(self.ends).collect();
            let parts = Parts::new(offsets, ids).map_err(no_batch)?;
            batch = batch.with_parts(parts).map_err(no_batch)?;
        }
        if self.corners > 0 {
            let elements = Elements::new(self.corners, self.rows).map_err(no_batch)?;
            batch = batch.with_elements(elements).map_err(no_batch)?;
        }
        Ok(batch)
    }
}

fn column(dtype: Dtype, width: u32, bytes: Vec<u8>) -> Result<Column, Error> {
    let column = Column::new(dtype, width, bytes.into());
    column.map_err(|error| zvf::write::WriteError::from(error).into())
}

fn no_batch(error: zvf::model::BadBatch) -> Error {
    zvf::write::WriteError::from(error).into()
}

/// Numbers that look random and are always the same.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u16 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u16::try_from(self.0 >> 48).unwrap_or(0)
    }

    /// From 0 to 1.
    fn unit(&mut self) -> f32 {
        f32::from(self.next()) / f32::from(u16::MAX)
    }

    /// Below `n`, or 0.
    fn random_below(&mut self, n: usize) -> usize {
        usize::from(self.next()).checked_rem(n).unwrap_or(0)
    }

    fn point(&mut self) -> [f32; 3] {
        [(); 3].map(|()| self.unit() * 100.0)
    }

    /// A step from `at`, within the cube.
    fn random_near(&mut self, at: [f32; 3]) -> [f32; 3] {
        at.map(|x| (x + self.unit() * 8.0 - 4.0).clamp(0.0, 100.0))
    }
}
