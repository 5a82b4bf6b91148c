//! Level 0 as the reference sees it: 32-bit positions, and the rows of each object.

use std::collections::HashMap;
use std::ops::Range;

use zvf_error::Result;
use zvf_format::fragment::{FragmentIndex, RankTable};
use zvf_format::key::ChunkKey;
use zvf_format::num::{index_u32, nearest_f32, saturating_u32};
use zvf_metadata::{Node, Object};
use zvf_model::{ChunkFragments, Column, LevelId as Number, LevelReader, ObjectIndex};
use zvf_store::{Caching, Store};

use super::coarsen::{AXES, ReferenceLevel};
use crate::error::unsupported_error;

/// Reads level 0.
pub(super) async fn level(store: &Store) -> Result<ReferenceLevel> {
    let reader = LevelReader::open(store, Number(0)).await?;
    let axes = reader.axes();
    if axes > AXES {
        return Err(unsupported_error("axes of the store", "8 or fewer", axes));
    }
    let keys: Vec<ChunkKey> = reader.chunks().await?.iter().collect();
    let mut level = ReferenceLevel {
        starts: vec![0],
        bin: store.root().zarr_vectors.base_bin_shape().to_vec(),
        chunk: reader.chunk_shape().sizes().to_vec(),
        ..ReferenceLevel::default()
    };
    let mut fragments = Vec::with_capacity(keys.len());
    for keys in keys.chunks(READ_BATCH_CHUNKS) {
        for column in reader.positions(keys, Caching::Once).await {
            push(&mut level.positions, &column?);
            level.starts.push(level.positions.len() / axes.max(1));
        }
        for found in reader.fragments(keys).await {
            fragments.push(found?);
        }
    }
    if u32::try_from(level.rows()).is_err() {
        let (what, expected) = ("vertices of level 0", "fewer than 2^32");
        return Err(unsupported_error(what, expected, level.rows()));
    }
    level.keys = keys;
    level.offsets = vec![0];
    match reader.objects().await? {
        Some(index) => read_indexed_objects(&mut level, &index, &fragments).await?,
        None => add_single_object(&mut level, &fragments)?,
    }
    Ok(level)
}

fn push(positions: &mut Vec<f32>, column: &Column) {
    match column.as_slice::<f32>() {
        Some(values) => positions.extend_from_slice(values),
        None => positions.extend(column.floats().into_iter().map(nearest_f32)),
    }
}

/// The fragments of a chunk, and the range of its rows in the level.
struct Chunk<'a> {
    view: FragmentIndex<'a>,
    ranks: RankTable,
    rows: Range<u32>,
}

/// Returns the fragments of each chunk.
fn chunks<'a>(
    level: &ReferenceLevel,
    fragments: &'a [ChunkFragments],
) -> impl Iterator<Item = Chunk<'a>> {
    fragments.iter().zip(level.starts.array_windows()).map(|(chunk, [start, end])| {
        let view = chunk.view();
        Chunk { view, ranks: RankTable::new(&view), rows: index_u32(*start)..index_u32(*end) }
    })
}

impl Chunk<'_> {
    /// Adds the rows of a fragment.
    fn push(&self, fragment: u64, to: &mut Vec<u32>) -> Result<()> {
        let count = u64::from(self.rows.end - self.rows.start);
        if let Some(fragment) = self.ranks.get(&self.view, fragment) {
            let rows = fragment.rows_within(count)?.filter(|row| *row < count);
            to.extend(rows.map(|row| self.rows.start + saturating_u32(row))); // below the count
        }
        Ok(())
    }
}

/// Reads the objects of the index.
async fn read_indexed_objects(
    level: &mut ReferenceLevel,
    index: &ObjectIndex,
    fragments: &[ChunkFragments],
) -> Result<()> {
    let chunks: HashMap<ChunkKey, Chunk> =
        level.keys.iter().copied().zip(chunks(level, fragments)).collect();
    let (mut references, mut offsets) = (Vec::with_capacity(level.rows()), vec![0]);
    index
        .scan(|manifest| {
            for (key, fragment) in manifest.references() {
                // Entries that name nothing are skipped, as in the reference.
                let Some(chunk) = chunks.get(&key) else { continue };
                chunk.push(fragment, &mut references)?;
            }
            offsets.push(references.len());
            Ok(())
        })
        .await?;
    let ids = index.ids(0..index.slots()).await?;
    level.ids = Some(ids.into_iter().map(|id| id.0).collect());
    (level.references, level.offsets) = (references, offsets);
    Ok(())
}

/// Makes one object of all fragments if there is no index.
fn add_single_object(level: &mut ReferenceLevel, fragments: &[ChunkFragments]) -> Result<()> {
    let mut references = Vec::with_capacity(level.rows());
    for chunk in chunks(level, fragments) {
        for fragment in 0..chunk.view.len() {
            chunk.push(fragment, &mut references)?;
        }
    }
    level.offsets = vec![0, references.len()];
    level.references = references;
    Ok(())
}

/// Reads the attributes of the array at `path`.
pub(super) async fn read_attributes(store: &Store, path: &str) -> Result<Object> {
    let mut attributes = match store.nodes().node(path).await?.as_deref() {
        Some(Node::Array(array)) => array.attributes.clone(),
        _ => Object::new(),
    };
    for of_grid in ["nonempty_chunks", "chunk_grid_origin"] {
        attributes.remove(of_grid);
    }
    Ok(attributes)
}

/// Chunks that are read at once.
const READ_BATCH_CHUNKS: usize = 256;
