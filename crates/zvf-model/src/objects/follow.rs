//! Objects followed to their fragments: every reference held against the chunk it names.
//!
//! A manifest may name chunks and fragments that do not exist; that shows only here, because only here
//! both sides are at hand. What is handed out is known to be there.

use std::collections::HashMap;

use zvf_format::key::ChunkKey;
use zvf_format::{Class, Expected};

use super::manifest::chunk_key;
use super::{ObjectIndex, ObjectManifest};
use crate::num::to_usize;
use crate::{ChunkFragments, LevelReader, ModelError, ObjectId};

/// Objects and the fragments they consist of.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/bridge.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// # let level = zvf_model::LevelReader::open(&store, zvf_model::Level(0)).await?;
/// let objects = level.objects().await?.expect("the level has an index");
/// let followed = level.follow(&objects, &[0]).await?;
/// let run = followed.objects[0].runs[1];
/// let fragments = &followed.chunks[run.chunk];
/// assert_eq!((fragments.chunk().to_string(), run.fragment), ("1.0".to_owned(), 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Followed {
    /// The chunks that some object touches, each once, in numeric order.
    pub chunks: Vec<ChunkFragments>,
    /// The objects, in the order they were asked for.
    pub objects: Vec<ObjectRuns>,
}

/// One object: runs of vertices, in order.
///
/// ```
/// use zvf_model::{ObjectId, ObjectRuns};
///
/// let object = ObjectRuns { row: 0, id: ObjectId(7), runs: Vec::new() };
/// assert!(object.runs.is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRuns {
    /// Its row in the object index.
    pub row: u64,
    /// Its id.
    pub id: ObjectId,
    /// Its fragments.
    pub runs: Vec<Run>,
}

/// One fragment of an object.
///
/// ```
/// let run = zvf_model::Run { chunk: 0, fragment: 5 };
/// assert_eq!(run.fragment, 5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The place of its chunk in [`Followed::chunks`].
    pub chunk: usize,
    /// Its number in that chunk.
    pub fragment: u64,
}

impl LevelReader {
    /// The fragments of the objects at `rows` of `index`.
    ///
    /// # Errors
    ///
    /// [`Class::NotFound`] when an object names a chunk that is not there, [`Class::OutOfBounds`] when it
    /// names a fragment that the chunk does not have, both naming object and chunk;
    /// [`Class::LimitExceeded`] when all objects have more than 10^8 fragments together; otherwise when
    /// manifests or fragment indexes cannot be read.
    pub async fn follow(&self, index: &ObjectIndex, rows: &[u64]) -> Result<Followed, ModelError> {
        let manifests = index.manifests(rows).await?;
        let ids = index.ids_of(rows).await?;
        let named = named_chunks(&manifests)?;
        let mut keys: Vec<ChunkKey> = named.keys().copied().collect();
        keys.sort_unstable_by(ChunkKey::cmp_numeric);
        let mut chunks = Vec::with_capacity(keys.len());
        for (fragments, key) in self.fragments(&keys).await.into_iter().zip(&keys) {
            let first = named.get(key).and_then(|object| ids.get(*object));
            chunks.push(fragments.map_err(|error| match first {
                Some(id) => error.of_object(*id),
                None => error,
            })?);
        }
        let places: HashMap<ChunkKey, usize> = keys.into_iter().zip(0..).collect();
        let mut left = MOST_RUNS;
        let objects = manifests.iter().zip(ids).map(|(manifest, id)| {
            let runs = runs(manifest, &places, &chunks, &mut left);
            let runs = runs.map_err(|error| error.in_array(index.path()).of_object(id))?;
            Ok(ObjectRuns { row: manifest.row(), id, runs })
        });
        let objects = objects.collect::<Result<_, ModelError>>()?;
        Ok(Followed { chunks, objects })
    }
}

/// The chunks that manifests name, each with the place of the first manifest that does.
fn named_chunks(manifests: &[ObjectManifest]) -> Result<HashMap<ChunkKey, usize>, ModelError> {
    let mut named = HashMap::new();
    for (object, manifest) in manifests.iter().enumerate() {
        for block in manifest.view()?.blocks().filter(|block| !block.fragments.is_empty()) {
            if let Some(key) = chunk_key(block.chunk.iter().map(|c| c.get())) {
                named.entry(key).or_insert(object);
            }
        }
    }
    Ok(named)
}

fn runs(
    manifest: &ObjectManifest,
    places: &HashMap<ChunkKey, usize>,
    chunks: &[ChunkFragments],
    left: &mut u64,
) -> Result<Vec<Run>, ModelError> {
    let view = manifest.view()?;
    let place = |key: &ChunkKey| places.get(key).copied();
    let mut last = None;
    let counts = view.check(|chunk| {
        last = chunk_key(chunk.iter().map(|c| c.get()));
        let there = last.as_ref().and_then(place).and_then(|place| chunks.get(place));
        Some(there.map_or(0, ChunkFragments::len)) // blocks without fragments name anything
    });
    counts.map_err(|error| match &last {
        Some(chunk) => ModelError::from(error).in_chunk(chunk),
        None => error.into(),
    })?;
    let len = view.len().unwrap_or(u64::MAX);
    *left = left.checked_sub(len).ok_or_else(|| {
        let (what, expected) = ("fragments of all objects", Expected::AtMost(MOST_RUNS.into()));
        ModelError::refused(Class::LimitExceeded, what, expected, len)
    })?;
    let mut runs = Vec::with_capacity(to_usize(len));
    for block in view.blocks() {
        let key = chunk_key(block.chunk.iter().map(|c| c.get()));
        let Some(chunk) = key.as_ref().and_then(place) else { continue };
        runs.extend(block.fragments.iter().map(|fragment| Run { chunk, fragment }));
    }
    Ok(runs)
}

/// Fragments that one answer may have.
const MOST_RUNS: u64 = 100_000_000;
