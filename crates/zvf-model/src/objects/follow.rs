//! Objects followed to their fragments: every reference held against the chunk it names.
//!
//! A manifest may name chunks and fragments that do not exist; that shows only here, because only here
//! both sides are at hand. What is handed out is known to be there.

use zvf_format::key::ChunkKey;
use zvf_format::{Class, Expected};
use zvf_store::KeyTable;

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
        let table = self.chunks().await?;
        let mut named = Named::new(&table);
        for (manifest, id) in manifests.iter().zip(&ids) {
            if let Some(key) = named.add(manifest)? {
                // Not there: the fault is that of whoever asks for its fragments.
                if let Some(Err(error)) = self.fragments(&[key]).await.pop() {
                    return Err(error.of_object(*id));
                }
            }
        }
        let (keys, firsts) = named.keys();
        let mut chunks = Vec::with_capacity(keys.len());
        for (fragments, first) in self.fragments(&keys).await.into_iter().zip(firsts) {
            chunks.push(fragments.map_err(|error| match ids.get(first) {
                Some(id) => error.of_object(*id),
                None => error,
            })?);
        }
        let places = named.places();
        let mut left = MOST_RUNS;
        let mut blocks = named.blocks.iter();
        let objects = manifests.iter().zip(ids).map(|(manifest, id)| {
            let runs = runs(manifest, &mut blocks, &places, &chunks, &mut left);
            let runs = runs.map_err(|error| error.in_array(index.path()).of_object(id))?;
            Ok(ObjectRuns { row: manifest.row(), id, runs })
        });
        let objects = objects.collect::<Result<_, ModelError>>()?;
        Ok(Followed { chunks, objects })
    }
}

/// The chunks that manifests name, each looked up once a block.
struct Named<'a> {
    table: &'a KeyTable,
    first: Vec<Option<usize>>, // for each chunk of the table, the first manifest that names it
    blocks: Vec<u32>, // for each block, the place of its chunk in the table; or [`NOWHERE`]
    manifests: usize,
}

impl<'a> Named<'a> {
    fn new(table: &'a KeyTable) -> Self {
        Self { table, first: vec![None; table.len()], blocks: Vec::new(), manifests: 0 }
    }

    /// Adds the blocks of one more manifest. Gives a chunk that it names and that is not there.
    fn add(&mut self, manifest: &ObjectManifest) -> Result<Option<ChunkKey>, ModelError> {
        let mut absent = None;
        for block in manifest.view()?.blocks() {
            let mut own = [0; zvf_format::key::MAX_RANK];
            own.iter_mut().zip(block.chunk).for_each(|(to, from)| *to = from.get());
            let key = own.get(..block.chunk.len()).unwrap_or(&own);
            let place = Some(self.table.first_not_below(key))
                .filter(|place| !block.fragments.is_empty() && self.table.row(*place) == Some(key));
            if let Some(first) = place.and_then(|place| self.first.get_mut(place)) {
                first.get_or_insert(self.manifests);
            } else if !block.fragments.is_empty() && absent.is_none() {
                absent = chunk_key(key.iter().copied());
            }
            self.blocks.push(place.and_then(|place| u32::try_from(place).ok()).unwrap_or(NOWHERE));
        }
        self.manifests = self.manifests.saturating_add(1);
        Ok(absent)
    }

    /// The chunks that are named, in numeric order, and the first manifest that names each.
    fn keys(&self) -> (Vec<ChunkKey>, Vec<usize>) {
        let named = self.first.iter().enumerate();
        named.filter_map(|(place, first)| Some((self.table.get(place)?, (*first)?))).unzip()
    }

    /// For each chunk of the table, its number among those that are named.
    fn places(&self) -> Vec<usize> {
        let mut next = 0_usize;
        let number = |first: &Option<usize>| {
            let number = next;
            next = next.saturating_add(usize::from(first.is_some()));
            number
        };
        self.first.iter().map(number).collect()
    }
}

fn runs<'a>(
    manifest: &ObjectManifest,
    blocks: &mut (impl Iterator<Item = &'a u32> + Clone),
    places: &[usize],
    chunks: &[ChunkFragments],
    left: &mut u64,
) -> Result<Vec<Run>, ModelError> {
    let view = manifest.view()?;
    let place = |block: Option<&u32>| places.get(to_usize((*block?).into())).copied();
    let (mut last, mut checked) = (None, blocks.clone());
    let counts = view.check(|chunk| {
        last = Some(chunk);
        let there = place(checked.next()).and_then(|place| chunks.get(place));
        Some(there.map_or(u64::MAX, ChunkFragments::len)) // blocks without fragments name anything
    });
    counts.map_err(|error| {
        match last.and_then(|chunk| chunk_key(chunk.iter().map(|c| c.get()))) {
            Some(chunk) => ModelError::from(error).in_chunk(&chunk),
            None => error.into(),
        }
    })?;
    let len = view.len().unwrap_or(u64::MAX);
    *left = left.checked_sub(len).ok_or_else(|| {
        let (what, expected) = ("fragments of all objects", Expected::AtMost(MOST_RUNS.into()));
        ModelError::refused(Class::LimitExceeded, what, expected, len)
    })?;
    let mut runs = Vec::with_capacity(to_usize(len));
    for block in view.blocks() {
        let Some(chunk) = place(blocks.next()) else { continue };
        runs.extend(block.fragments.iter().map(|fragment| Run { chunk, fragment }));
    }
    Ok(runs)
}

/// No chunk of a table.
const NOWHERE: u32 = u32::MAX;
/// Fragments that one answer may have.
const MOST_RUNS: u64 = 100_000_000;
