//! Points in every chunk of a cube, a little above its lower corner.

use anyhow::Context as _;
use zvf_format::grid::ChunkShape;
use zvf_metadata::{Axis, Dtype};
use zvf_model::{Batch, Column, Kind, ObjectId};
use zvf_write::{Schema, Writer};

/// Returns the schema: chunks are cubes of side 1, [`SHARD`]³ of them a shard.
pub(super) fn schema() -> anyhow::Result<Schema> {
    let axes = Axis::spatial(3).context("three axes")?;
    let schema = Schema::new(Kind::PointCloud, axes, ChunkShape::new(&[1.0; 3])?)?;
    Ok(schema.with_shard_shape(&[SHARD; 3])?)
}

/// Writes [`POINTS`] points into each of `side`³ chunks; with objects, those of a chunk are one,
/// whose id is the number of the chunk.
pub(super) async fn write_points(
    mut writer: Writer,
    side: u64,
    with_objects: bool,
) -> anyhow::Result<()> {
    for x in 0..side {
        let (mut values, mut owners) = (Vec::new(), Vec::new());
        for chunk in 0..side * side {
            let low = [x, chunk / side, chunk % side];
            for point in 0..POINTS {
                let offset = 0.2 * (1.0 + point as f32);
                values.extend(low.iter().flat_map(|low| (*low as f32 + offset).to_le_bytes()));
                owners.push(Some(ObjectId((x * side * side + chunk) as i64)));
            }
        }
        let positions = Column::new(Dtype::FLOAT32, 3, values.into())?;
        let batch = Batch::new(Kind::PointCloud, positions);
        writer.push(&if with_objects { batch.with_vertex_objects(owners)? } else { batch })?;
    }
    writer.finish().await?;
    Ok(())
}

/// Chunks per shard on each axis.
pub(super) const SHARD: u64 = 8;
/// Points per chunk.
pub(super) const POINTS: u64 = 4;
