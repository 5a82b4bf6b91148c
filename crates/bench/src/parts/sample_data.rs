//! Data that several parts use: points in a cube, written by zvf, the same on every run, and
//! queries of them.

use std::borrow::Borrow;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use archives::random::Random;
use futures_executor::block_on;
use zvf_format::grid::ChunkShape;
use zvf_metadata::{Axis, Dtype};
use zvf_model::{Batch, Bounds, Column, Field, Kind, ObjectId, Parts};
use zvf_query::{Columns, Query, Reader};
use zvf_store::{OpenOptions, Store};
use zvf_write::{Schema, WriteOptions, Writer};

/// Points in the cube from 0 to 100, with an attribute `intensity`; `chunks` is the number of
/// chunks per axis.
#[derive(Clone, Copy, Debug)]
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
        let (mut random, mut left) = (Random::new(0x9e37_79b9_7f4a_7c15), self.count);
        std::iter::from_fn(move || {
            let now = left.min(BATCH);
            left -= now;
            (now > 0).then(|| make_batch(&mut random, now))
        })
    }
}

fn make_batch(random: &mut Random, count: u64) -> anyhow::Result<Batch> {
    let (mut positions, mut values) = (Vec::new(), Vec::new());
    for _ in 0..count {
        positions.extend([(); 3].map(|()| random.next_unit() as f32 * SIDE as f32));
        values.push(random.next_unit() as f32);
    }
    let values = Field::new("intensity", floats(1, values)?);
    Ok(Batch::new(Kind::PointCloud, floats(3, positions)?).with_field(values)?)
}

/// Returns a column of 32-bit floats.
pub(crate) fn floats(width: u32, values: impl IntoIterator<Item = f32>) -> anyhow::Result<Column> {
    let bytes: Vec<u8> = values.into_iter().flat_map(f32::to_le_bytes).collect();
    Ok(Column::new(Dtype::FLOAT32, width, bytes.into())?)
}

/// Makes walks of `length` vertices through the cube, one object each.
pub(crate) fn make_walks(count: u64, length: usize) -> anyhow::Result<Batch> {
    let mut random = Random::new(0x2545_f491_4f6c_dd1d);
    let mut places = Vec::new();
    for _ in 0..count {
        let mut at = [(); 3].map(|()| random.next_unit() as f32 * SIDE as f32);
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

/// Returns the uncached query for all vertices, without columns.
pub(crate) fn query_all() -> Query {
    Query::all().columns(Columns::None).uncached()
}

/// Returns the uncached queries for the vertices of boxes.
pub(crate) fn query_boxes(boxes: &[Cuboid]) -> anyhow::Result<Vec<Query>> {
    let query = |[low, high]: &Cuboid| Ok(query_all().in_region(Bounds::new(low, high)?));
    boxes.iter().map(query).collect()
}

/// Returns the uncached query for the vertices of objects.
pub(crate) fn query_objects(ids: &[u64]) -> Query {
    query_all().of_objects(ids.iter().map(|id| ObjectId(*id as i64)))
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
/// The number of points per batch.
const BATCH: u64 = 250_000;
