//! Data that several parts use, the same on every run: points, walks and surfaces in a cube, stores
//! of them that zvf writes, and questions about these.

use std::borrow::Borrow;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use archives::random::Random;
use futures_executor::block_on;
use serde_json::{Value, json};
use zvf_format::grid::ChunkShape;
use zvf_metadata::{Axis, Dtype};
use zvf_model::{Batch, Bounds, Column, Elements, Field, Kind, ObjectId, Parts};
use zvf_query::{Columns, Query, Reader};
use zvf_store::{OpenOptions, Store};
use zvf_write::{Schema, WriteOptions, Writer};

/// Points in the cube from 0 to 100, with an attribute `intensity`; `chunks` is the number of
/// chunks per axis.
#[derive(Clone, Copy)]
pub(crate) struct Points {
    pub(crate) count: u64,
    pub(crate) chunks: u32,
    /// Chunks per shard on each axis; `None` for one file per chunk.
    pub(crate) shard: Option<u64>,
}

impl Points {
    /// Returns the path of the store, which is made below `folder` unless it exists.
    pub(crate) fn make_store(self, folder: &Path) -> anyhow::Result<PathBuf> {
        let Self { count, chunks, shard } = self;
        let name = format!("points-{count}-{chunks}-{}.zarrvectors", shard.unwrap_or(0));
        let store = folder.join(name);
        if !store.exists() {
            std::fs::create_dir_all(folder)?;
            self.write_store(&store)?;
        }
        Ok(store)
    }

    /// Rewrites the store; the batches are generated meanwhile, in bounded memory.
    pub(crate) fn write_store(self, store: &Path) -> anyhow::Result<()> {
        let schema = schema(Kind::PointCloud, self.chunks, self.shard)?;
        write_batches(schema, self.make_batches(), store)
    }

    /// Returns the points in batches.
    pub(crate) fn make_batches(self) -> impl Iterator<Item = anyhow::Result<Batch>> {
        let (mut random, mut left) = (Random::new(POINTS), self.count);
        std::iter::from_fn(move || {
            let now = left.min(BATCH);
            left -= now;
            (now > 0).then(|| {
                let (mut positions, mut values) = (Vec::new(), Vec::new());
                for _ in 0..now {
                    positions.extend(random_place(&mut random));
                    values.push(random.next_unit() as f32);
                }
                let values = Field::new("intensity", floats(1, values)?);
                Ok(Batch::new(Kind::PointCloud, floats(3, positions)?).with_field(values)?)
            })
        })
    }
}

/// Makes points, with an attribute of each width.
pub(crate) fn make_points(count: usize) -> anyhow::Result<Batch> {
    let mut random = Random::new(POINTS);
    let places: Vec<f32> = (0..count).flat_map(|_| random_place(&mut random)).collect();
    let numbers: Vec<f32> = (0..count).map(|_| random.next_unit() as f32).collect();
    let mut label = |_| ((random.next_unit() as f32 * 50.0) as i32).to_le_bytes();
    let labels: Vec<u8> = (0..count).flat_map(&mut label).collect();
    let labels = Column::new("int32".parse::<Dtype>()?, 1, labels.into())?;
    let batch = Batch::new(Kind::PointCloud, floats(3, places)?);
    let batch = batch.with_field(Field::new("a", floats(1, numbers)?))?;
    Ok(batch.with_field(Field::new("n", labels))?)
}

/// Makes clouds of a hundred points, each an object, stored one after the other.
pub(crate) fn make_clouds(objects: usize) -> anyhow::Result<Batch> {
    let (mut random, mut places) = (Random::new(WALKS), Vec::new());
    for _ in 0..objects {
        let centre = random_place(&mut random);
        for _ in 0..LENGTH {
            let mut near = |x: f32| x + (random.next_unit() as f32 - 0.5) * 4.0;
            places.extend(centre.map(|x| near(x).clamp(0.0, SIDE as f32)));
        }
    }
    with_owners(Batch::new(Kind::PointCloud, floats(3, places)?), LENGTH)
}

/// Makes walks of `length` vertices through the cube, one object each.
pub(crate) fn make_walks(count: u64, length: usize) -> anyhow::Result<Batch> {
    let (mut random, mut places) = (Random::new(WALKS), Vec::new());
    for _ in 0..count {
        let mut at = random_place(&mut random);
        let mut heading = [(); 3].map(|()| random.next_unit() as f32 - 0.5);
        for _ in 0..length {
            for (x, step) in at.iter_mut().zip(&mut heading) {
                *step += (random.next_unit() as f32 - 0.5) * 0.2;
                *x = (*x + *step).clamp(0.0, SIDE as f32);
                places.push(*x);
            }
        }
    }
    let offsets = (0..=count as usize).map(|walk| walk * length).collect();
    let ids = (0..count as i64).map(ObjectId).collect();
    Ok(Batch::new(Kind::Streamline, floats(3, places)?).with_parts(Parts::new(offsets, ids)?)?)
}

/// Makes walks of a hundred vertices. Each vertex is linked to the vertices that are `steps` before
/// it; points have no links.
pub(crate) fn make_linked_walks(kind: Kind, count: u64, steps: &[usize]) -> anyhow::Result<Batch> {
    let walks = make_walks(count, LENGTH)?;
    let batch = Batch::new(kind, walks.positions().clone());
    let edges = steps.iter().flat_map(|step| {
        let nodes = (0..walks.len()).filter(move |node| node % LENGTH >= *step);
        nodes.flat_map(move |node| [node, node - step])
    });
    let edges: Vec<usize> = edges.collect();
    Ok(if edges.is_empty() { batch } else { batch.with_elements(Elements::new(2, edges)?)? })
}

/// Sets objects of `size` vertices each.
fn with_owners(batch: Batch, size: usize) -> anyhow::Result<Batch> {
    let owners = (0..batch.len()).map(|vertex| Some(ObjectId((vertex / size) as i64)));
    Ok(batch.with_vertex_objects(owners.collect())?)
}

/// Makes rings around the points of a walk, far enough from the sides.
pub(crate) fn make_rings(count: u64) -> anyhow::Result<Batch> {
    let centres = make_walks(count, 1)?;
    let (mut places, mut faces) = (Vec::new(), Vec::new());
    for (ring, centre) in rows_of(centres.positions())?.iter().enumerate() {
        let first = ring * CORNERS;
        for at in 0..CORNERS {
            let angle = |step: usize| step as f32 / AROUND as f32 * std::f32::consts::TAU;
            let (u, v) = (angle(at / AROUND), angle(at % AROUND));
            let from_axis = 1.5 + 0.5 * v.cos();
            let offsets = [from_axis * u.cos(), from_axis * u.sin(), 0.5 * v.sin()];
            let inside = centre.map(|c| c.clamp(3.0, SIDE as f32 - 3.0));
            places.extend(inside.iter().zip(offsets).map(|(c, offset)| c + offset));
            let corner = |du: usize, dv: usize| {
                first + (at / AROUND + du) % AROUND * AROUND + (at % AROUND + dv) % AROUND
            };
            faces.extend([corner(0, 0), corner(1, 0), corner(1, 1)]);
            faces.extend([corner(0, 0), corner(1, 1), corner(0, 1)]);
        }
    }
    let batch = with_owners(Batch::new(Kind::Mesh, floats(3, places)?), CORNERS)?;
    Ok(batch.with_elements(Elements::new(3, faces)?)?)
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

fn random_place(random: &mut Random) -> [f32; 3] {
    [(); 3].map(|()| random.next_unit() as f32 * SIDE as f32)
}

/// Returns a column of 32-bit floats.
fn floats(width: u32, values: Vec<f32>) -> anyhow::Result<Column> {
    let bytes: Vec<u8> = values.into_iter().flat_map(f32::to_le_bytes).collect();
    Ok(Column::new(Dtype::FLOAT32, width, bytes.into())?)
}

/// Returns the rows of positions in 32 bits.
pub(crate) fn rows_of(positions: &Column) -> anyhow::Result<&[[f32; 3]]> {
    Ok(positions.as_slice::<f32>().context("float32")?.as_chunks::<3>().0)
}

/// Returns row numbers in the form of files.
pub(crate) fn int64_bytes(rows: &[usize]) -> Vec<u8> {
    rows.iter().flat_map(|row| (*row as i64).to_le_bytes()).collect()
}

/// Returns the path of a store, which is made of a batch unless it exists.
pub(crate) fn make_batch_store(
    store: PathBuf,
    (chunks, shard): (u32, Option<u64>),
    make: impl FnOnce() -> anyhow::Result<Batch>,
) -> anyhow::Result<PathBuf> {
    if !store.exists() {
        write_batch(&make()?, chunks, shard, &store)?;
    }
    Ok(store)
}

/// Writes a batch as a store; `shard` is the number of chunks per shard on each axis, or one file
/// per chunk.
pub(crate) fn write_batch(
    batch: &Batch,
    chunks: u32,
    shard: Option<u64>,
    store: &Path,
) -> anyhow::Result<()> {
    let schema = schema(batch.kind(), chunks, shard)?;
    write_batches(schema, std::iter::once(Ok(batch)), store)
}

/// Writes a store of these batches.
pub(crate) fn write_batches(
    schema: Schema,
    batches: impl Iterator<Item = anyhow::Result<impl Borrow<Batch>>>,
    store: &Path,
) -> anyhow::Result<()> {
    let store = to_address(store)?;
    block_on(async {
        let mut writer = Writer::create(store, schema, WriteOptions::default()).await?;
        for batch in batches {
            writer.push(batch?.borrow())?;
        }
        writer.finish().await?;
        Ok(())
    })
}

/// Returns the schema: `chunks` chunks per axis of the cube, and `shard` of them per shard, or one
/// file per chunk.
fn schema(kind: Kind, chunks: u32, shard: Option<u64>) -> anyhow::Result<Schema> {
    let schema = unbounded_schema(kind, chunks)?;
    let schema = schema.with_bounds(Bounds::new(&[0.0; 3], &[SIDE; 3])?)?;
    Ok(match shard {
        Some(cells) => schema.with_shard_shape(&[cells; 3])?,
        None => schema,
    })
}

/// Returns a schema of `chunks` chunks per axis of the cube, whose bounds are those of the data.
pub(crate) fn unbounded_schema(kind: Kind, chunks: u32) -> anyhow::Result<Schema> {
    let axes = Axis::spatial(3).context("three axes")?;
    Ok(Schema::new(kind, axes, ChunkShape::new(&[SIDE / f64::from(chunks); 3])?)?)
}

/// The lower and the upper corner of a box.
pub(crate) type Cuboid = [[f64; 3]; 2];

/// Returns boxes with a share of the cube's volume, the same on every run.
pub(crate) fn make_boxes(count: usize, share: f64) -> Vec<Cuboid> {
    random_boxes(&mut Random::new(0x1234_5678_9abc_def1), count, share)
}

/// Returns random boxes with a share of the cube's volume.
pub(crate) fn random_boxes(random: &mut Random, count: usize, share: f64) -> Vec<Cuboid> {
    let side = SIDE * share.cbrt();
    let mut low = || [(); 3].map(|()| random.next_unit() * (SIDE - side));
    (0..count).map(|_| low()).map(|low| [low, low.map(|x| x + side)]).collect()
}

/// The same question for zvf and for others: queries one after the other, and one request.
pub(crate) struct Question {
    pub(crate) queries: Vec<Query>,
    request: Value,
}

impl Question {
    /// Asks for the vertices of boxes.
    pub(crate) fn boxes(boxes: &[Cuboid]) -> anyhow::Result<Self> {
        Self::boxes_of(&query_all(), boxes)
    }

    /// Asks for what `all` selects in boxes.
    pub(crate) fn boxes_of(all: &Query, boxes: &[Cuboid]) -> anyhow::Result<Self> {
        let query = |[low, high]: &Cuboid| Ok(all.clone().in_region(Bounds::new(low, high)?));
        let queries = boxes.iter().map(query).collect::<anyhow::Result<_>>()?;
        Ok(Self { queries, request: json!({"work": "boxes", "boxes": boxes}) })
    }

    /// Asks for the vertices of objects.
    pub(crate) fn objects(ids: &[u64]) -> Self {
        let query = query_all().of_objects(ids.iter().map(|id| ObjectId(*id as i64)));
        Self { queries: vec![query], request: json!({"work": "objects", "ids": ids}) }
    }

    /// Asks for all vertices, and these attributes.
    pub(crate) fn scan(attributes: &[&str]) -> Self {
        let names = attributes.iter().map(|name| (*name).into()).collect();
        let columns = if attributes.is_empty() { Columns::None } else { Columns::Named(names) };
        let request = json!({"work": "scan", "attributes": attributes});
        Self { queries: vec![query_all().columns(columns)], request }
    }

    /// Asks for what a condition selects.
    pub(crate) fn condition(condition: &str, request: Value) -> anyhow::Result<Self> {
        Ok(Self { queries: vec![query_all().filter(condition.parse()?)], request })
    }

    /// Changes each query.
    pub(crate) fn map(mut self, change: impl Fn(Query) -> Query) -> Self {
        self.queries = self.queries.into_iter().map(change).collect();
        self
    }

    /// Returns the request, with these members.
    pub(crate) fn request(&self, more: &Value) -> Value {
        let mut request = self.request.clone();
        for (name, value) in more.as_object().into_iter().flatten() {
            request[name] = value.clone();
        }
        request
    }
}

/// Returns the uncached query for all vertices, without columns.
pub(crate) fn query_all() -> Query {
    Query::all().columns(Columns::None).uncached()
}

/// Opens the store at a path or URL; needs no runtime.
pub(crate) fn open_store(path: &Path) -> anyhow::Result<Reader> {
    Ok(Reader::new(block_on(Store::open(to_address(path)?, OpenOptions::default()))?))
}

/// Converts a path to an address.
pub(crate) fn to_address(path: &Path) -> anyhow::Result<&str> {
    path.to_str().context("a folder whose name is not UTF-8")
}

/// The side of the cube.
pub(crate) const SIDE: f64 = 100.0;
/// The number of vertices of a walk.
pub(crate) const LENGTH: usize = 100;
/// The number of corners around a ring, and around its tube.
const AROUND: usize = 16;
/// The number of corners of a ring.
pub(crate) const CORNERS: usize = AROUND * AROUND;
/// The number of points per batch.
const BATCH: u64 = 250_000;
/// The seeds of points, and of walks.
const POINTS: u64 = 0x9e37_79b9_7f4a_7c15;
const WALKS: u64 = 0x2545_f491_4f6c_dd1d;
