//! Follows objects to their fragments: every reference is checked against its chunk.
//!
//! A manifest may refer to chunks and fragments that do not exist. Only this module has both sides
//! and can detect that. Everything that it returns exists.

use async_recursion::async_recursion as boxed;
use rayon::prelude::*;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::Class;
use zvf_format::key::ChunkKey;
use zvf_format::num::{to_u64, usize_from_u32};
use zvf_store::KeyFinder;

use super::manifest::chunk_key;
use super::{ObjectIndex, ObjectManifest};
use crate::level::missing_cell_error;
use crate::{ChunkFragments, LevelReader, ObjectId};

/// Objects and their fragments.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/bridge.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// # let level = zvf_model::LevelReader::open(&store, zvf_model::LevelId(0)).await?;
/// let objects = level.objects().await?.expect("the level has an index");
/// let followed = level.follow(&objects, &[0]).await?;
/// let run = followed.objects[0].runs[1];
/// let fragments = &followed.chunks[run.chunk];
/// assert_eq!((fragments.chunk().to_string(), run.fragment), ("1.0".to_owned(), 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct FollowedObjects {
    /// The chunks of all objects, each once, in numeric order.
    pub chunks: Vec<ChunkFragments>,
    /// The objects, in the requested order.
    pub objects: Vec<ObjectRuns>,
}

/// One object: runs of vertices, in order.
///
/// ```
/// use zvf_model::{ObjectId, ObjectRuns};
///
/// let object = ObjectRuns { row: 0, id: ObjectId(7), runs: Vec::new(), gaps: Vec::new() };
/// assert!(object.runs.is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRuns {
    /// Its row in the object index.
    pub row: u64,
    /// Its id.
    pub id: ObjectId,
    /// Its fragments.
    pub runs: Vec<FragmentVisit>,
    /// The numbers of the runs that do not continue the previous one, ascending. They follow a
    /// block without fragments, or a block whose chunk is missing.
    pub gaps: Vec<usize>,
}

/// One fragment of an object.
///
/// ```
/// let run = zvf_model::FragmentVisit { chunk: 0, fragment: 5 };
/// assert_eq!(run.fragment, 5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentVisit {
    /// The index of its chunk in [`FollowedObjects::chunks`].
    pub chunk: usize,
    /// Its number in that chunk.
    pub fragment: u64,
}

impl LevelReader {
    /// Returns the fragments of the objects at `rows` of `index`.
    ///
    /// # Errors
    ///
    /// [`Class::NotFound`] when an object refers to a missing chunk, [`Class::OutOfBounds`] when it
    /// refers to a missing fragment, both with object and chunk; [`Class::LimitExceeded`] when all
    /// objects have more than 10^8 fragments together, or more than fit in the budget; otherwise
    /// when manifests or fragment indexes cannot be read.
    #[boxed]
    pub async fn follow(&self, index: &ObjectIndex, rows: &[u64]) -> Result<FollowedObjects> {
        self.follow_existing(index, rows, &|_| false).await
    }

    /// Like [`follow`](Self::follow), without the fragments of chunks whose error is `allowed`: the
    /// objects then have gaps.
    ///
    /// # Errors
    ///
    /// As `follow`.
    #[boxed]
    pub async fn follow_existing(
        &self,
        index: &ObjectIndex,
        rows: &[u64],
        allowed: &(dyn Fn(&Error) -> bool + Send + Sync),
    ) -> Result<FollowedObjects> {
        let manifests = index.manifests(rows).await?;
        let ids = index.ids_of(rows).await?;
        let table = self.chunks().await?;
        let finder = table.finder(rows.len());
        let named = map_parts(&manifests, |part| NamedChunks::new(&finder, part));
        for (object, key) in find_missing_chunks(&named) {
            // Missing: the error is the one for reading its fragments or rows.
            let error = match self.fragments(&[key]).await.pop() {
                Some(Err(error)) => error,
                Some(Ok(fragments)) if fragments.check_rows(0).is_err() => {
                    missing_cell_error().at_array(self.vertices().path()).at_chunk(&key)
                }
                Some(Ok(_)) | None => continue,
            };
            if !allowed(&error) {
                return Err(error.at_object(ids[object].0));
            }
        }
        let mut places = Places::new(&named, table.len());
        let keys: Vec<ChunkKey> =
            places.list.iter().filter_map(|(place, _)| table.get(usize_from_u32(*place))).collect();
        let mut chunks = Vec::with_capacity(keys.len());
        let mut numbers = Vec::with_capacity(keys.len());
        for (found, (_, first)) in self.fragments(&keys).await.into_iter().zip(&places.list) {
            match found {
                Ok(found) => {
                    numbers.push(Some(chunks.len()));
                    chunks.push(found);
                }
                Err(error) if allowed(&error) => numbers.push(None),
                Err(error) => return Err(error.at_object(ids[*first].0)),
            }
        }
        places.numbers = numbers;
        let room = self.store().budget().max_bytes() / to_u64(size_of::<FragmentVisit>());
        let max_runs = room.min(MAX_RUNS);
        let objects = Objects { path: index.path(), manifests: &manifests, ids: &ids, max_runs };
        let objects = objects.runs(&named, &places, &chunks)?;
        Ok(FollowedObjects { chunks, objects })
    }
}

/// Objects whose manifests were read.
struct Objects<'a> {
    path: &'a str,
    manifests: &'a [ObjectManifest],
    ids: &'a [ObjectId],
    /// Maximum number of fragments of all objects together.
    max_runs: u64,
}

impl Objects<'_> {
    /// Returns the runs of each.
    fn runs(
        &self,
        named: &[NamedChunks],
        places: &Places,
        chunks: &[ChunkFragments],
    ) -> Result<Vec<ObjectRuns>> {
        let of_part = |part: usize, left: &mut u64| {
            let first = part * OBJECTS_OF_A_PART;
            let mut blocks = named[part].blocks.iter();
            let objects = self.manifests.iter().zip(self.ids).skip(first).take(OBJECTS_OF_A_PART);
            let objects = objects.map(|(manifest, id)| {
                let (runs, gaps) =
                    runs(manifest, &mut blocks, places, chunks, (left, self.max_runs))
                        .at_array(self.path)
                        .at_object(id.0)?;
                Ok(ObjectRuns { row: manifest.row(), id: *id, runs, gaps })
            });
            objects.collect::<Result<Vec<_>>>()
        };
        // These numbers are untrusted and are compared with the limit.
        let claimed = named.iter().fold(0, |sum: u64, part| sum.saturating_add(part.fragments));
        let parts: Vec<_> = if named.len() < 2 || claimed > self.max_runs {
            // One after the other, so that the error names the object that exceeds the limit.
            let mut left = self.max_runs;
            (0..named.len()).map(|part| of_part(part, &mut left)).collect()
        } else {
            let parts = (0..named.len()).into_par_iter();
            parts.map(|part| of_part(part, &mut { self.max_runs })).collect()
        };
        let mut objects = Vec::with_capacity(self.manifests.len());
        for part in parts {
            objects.extend(part?);
        }
        Ok(objects)
    }
}

/// Maps each part of `all` with `of_part`, in parallel if there are several parts.
fn map_parts<T: Sync, U: Send>(all: &[T], of_part: impl Fn(&[T]) -> U + Send + Sync) -> Vec<U> {
    match all.len() {
        0..=OBJECTS_OF_A_PART => all.chunks(OBJECTS_OF_A_PART).map(of_part).collect(),
        _ => all.par_chunks(OBJECTS_OF_A_PART).map(of_part).collect(),
    }
}

/// Returns the first missing chunk of each object.
fn find_missing_chunks(named: &[NamedChunks]) -> impl Iterator<Item = (usize, ChunkKey)> {
    let firsts = (0..).step_by(OBJECTS_OF_A_PART);
    let parts = named.iter().zip(firsts);
    parts.flat_map(|(part, first)| part.absent.iter().map(move |(at, key)| (first + at, *key)))
}

/// The chunks in some manifests, each looked up once per block.
#[derive(Default)]
struct NamedChunks {
    firsts: Vec<(u32, usize)>, // places of chunks in the table, and manifests that name them
    blocks: Vec<u32>, // for each block, the place of its chunk in the table; or [`NOWHERE`]
    absent: Vec<(usize, ChunkKey)>, // manifests, and the first chunk that each names and that is not there
    manifests: usize,
    fragments: u64, // as many as they claim to name
}

/// The referenced chunks, by their positions in the table.
struct Places {
    list: Vec<(u32, usize)>, // ascending by place, each once; and the first manifest that names it
    by_place: Option<Vec<u32>>, // for each chunk of the table its number in the list, where most are named
    numbers: Vec<Option<usize>>, // for each of the list its number among those that are there
}

impl NamedChunks {
    fn new(finder: &KeyFinder<&zvf_store::KeyTable>, manifests: &[ObjectManifest]) -> Self {
        let mut named = Self::default();
        manifests.iter().for_each(|manifest| named.add(finder, manifest));
        named
    }

    /// Adds the blocks of one more manifest.
    fn add(&mut self, finder: &KeyFinder<&zvf_store::KeyTable>, manifest: &ObjectManifest) {
        let mut absent = None;
        for block in manifest.view().blocks() {
            let mut components = [0; zvf_format::key::MAX_RANK];
            components.iter_mut().zip(block.chunk).for_each(|(to, from)| *to = from.get());
            let key = components.get(..block.chunk.len()).unwrap_or(&components);
            let is_empty = block.fragments.is_empty();
            let place = if is_empty { None } else { finder.find(key) };
            let place = place.and_then(|place| u32::try_from(place).ok());
            if let Some(place) = place {
                if self.firsts.last().is_none_or(|(last, _)| *last != place) {
                    self.firsts.push((place, self.manifests));
                }
            } else if !is_empty && absent.is_none() {
                absent = Some(chunk_key(key.iter().copied()));
            }
            self.fragments = self.fragments.saturating_add(block.fragments.len()); // claims
            self.blocks.push(place.unwrap_or(NOWHERE));
        }
        self.absent.extend(absent.map(|key| (self.manifests, key)));
        self.manifests += 1;
    }
}

impl Places {
    /// Gathers the referenced chunks. Time and memory depend on the smaller of two counts:
    /// references, or chunks of the level.
    fn new(named: &[NamedChunks], chunks: usize) -> Self {
        let numbers = Vec::new();
        let firsts =
            named.iter().zip((0..).step_by(OBJECTS_OF_A_PART)).flat_map(|(part, first)| {
                part.firsts.iter().map(move |(place, manifest)| (*place, first + manifest))
            });
        if named.iter().map(|part| part.firsts.len()).sum::<usize>() < chunks / 8 {
            let mut list: Vec<(u32, usize)> = firsts.collect();
            list.sort_unstable();
            list.dedup_by_key(|(place, _)| *place);
            return Self { list, by_place: None, numbers };
        }
        let mut first = vec![usize::MAX; chunks];
        for (place, manifest) in firsts {
            if let Some(first) = first.get_mut(usize_from_u32(place)) {
                *first = (*first).min(manifest);
            }
        }
        let mut list = Vec::new();
        let mut by_place = vec![NOWHERE; first.len()];
        for ((place, first), number) in (0_u32..).zip(first).zip(&mut by_place) {
            if first != usize::MAX {
                *number = u32::try_from(list.len()).unwrap_or(NOWHERE);
                list.push((place, first));
            }
        }
        Self { list, by_place: Some(by_place), numbers }
    }

    /// Returns the number, among the existing chunks, of the one at `place` of the table.
    fn number(&self, place: u32) -> Option<usize> {
        let at = match &self.by_place {
            Some(all) => usize_from_u32(*all.get(usize_from_u32(place))?),
            None => self.list.binary_search_by_key(&place, |(place, _)| *place).ok()?,
        };
        self.numbers.get(at).copied().flatten()
    }
}

/// Returns the runs of one object, and its gaps.
fn runs<'a>(
    manifest: &ObjectManifest,
    blocks: &mut (impl Iterator<Item = &'a u32> + Clone),
    places: &Places,
    chunks: &[ChunkFragments],
    (left, max_runs): (&mut u64, u64),
) -> Result<(Vec<FragmentVisit>, Vec<usize>)> {
    let view = manifest.view();
    let place = |block: Option<&u32>| places.number(*block?);
    let all = blocks.clone();
    let (mut runs, mut gaps) = (Vec::with_capacity(view.blocks().size_hint().0), Vec::new());
    for block in view.blocks() {
        let chunk = place(blocks.next());
        let chunk_fragments = chunk.and_then(|chunk| chunks.get(chunk));
        if chunk_fragments.is_some_and(|all| block.fragments.first_missing(all.len()).is_some()) {
            return Err(outside_error(manifest, all, places, chunks));
        }
        let len = block.fragments.len();
        let room = left.checked_sub(len);
        *left = room.ok_or_else(|| Error::limit("fragments of all objects", max_runs, len))?;
        match chunk {
            Some(chunk) => {
                runs.extend(
                    block.fragments.iter().map(|fragment| FragmentVisit { chunk, fragment }),
                );
            }
            None => gaps.push(runs.len()),
        }
    }
    Ok((runs, gaps))
}

/// Returns the error for a manifest that refers to a missing fragment.
fn outside_error<'a>(
    manifest: &ObjectManifest,
    mut blocks: impl Iterator<Item = &'a u32>,
    places: &Places,
    chunks: &[ChunkFragments],
) -> Error {
    let mut last = None;
    let checked = manifest.view().check(|chunk| {
        last = Some(chunk_key(chunk.iter().map(|c| c.get())));
        let fragments = blocks.next().and_then(|block| chunks.get(places.number(*block)?));
        Some(fragments.map_or(u64::MAX, ChunkFragments::len)) // blocks without fragments name anything
    });
    let error = checked.err().map_or_else(
        || {
            let expected = "fragments that the chunk has";
            Error::new(Class::OutOfBounds, "fragment", expected, "one past the end")
        },
        Error::from,
    );
    match last {
        Some(chunk) => error.at_chunk(&chunk),
        None => error,
    }
}

/// Number of objects that one thread follows at a time.
const OBJECTS_OF_A_PART: usize = 1024;
/// Marks a chunk that is not in the table.
const NOWHERE: u32 = u32::MAX;
/// Maximum number of fragments of one answer, whatever the budget.
const MAX_RUNS: u64 = 100_000_000;
