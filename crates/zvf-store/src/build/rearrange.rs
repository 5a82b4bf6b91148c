//! Rewrites a store with a different arrangement of its bytes: with or without shards, with other
//! codecs.
//!
//! ```text
//! arrays over the chunk grid    cell by cell: as stored where the codecs stay, else decoded and encoded
//! everything else               object by object, as it is
//! documents                     as they are, but for grid, codecs and presence list of those arrays, and
//!                               for copies of documents inside documents (consolidated_metadata)
//! ```
//!
//! Keys, attributes, levels, and unknown nodes stay. A shard is read, put and closed before the
//! next one, so memory holds one shard. Unlisted objects in a rearranged array are not copied.
//!
//! Not here: stores of versions before 0.9, whose arrays differ.

use async_recursion::async_recursion as boxed;
use std::collections::BTreeSet;

use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};
use zvf_error::{Error, Locate as _, Result, quote};
use zvf_format::Class;
use zvf_format::key::ChunkKey;
use zvf_format::num::to_u64;
use zvf_metadata::{
    ArrayDoc, CodecSpec, DataTypeKind, GroupDoc, LayoutFamily, LevelDoc, Node, Root,
};

use super::Build;
use super::cells::{CellPlan, CellSink};
use super::names::NodeState;
use super::shards::count_kept_cells;
use crate::cache::Caching;
use crate::codec::CodecPipeline;
use crate::docs::{document, document_node};
use crate::key::Key;
use crate::layout::{Cells, chunk_grid};
use crate::open::Store;

/// The treatment of shards.
///
/// ```
/// use zvf_store::Arrange;
///
/// assert_eq!(Arrange::default(), Arrange::Keep);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Arrange {
    /// Each array keeps its arrangement.
    #[default]
    Keep,
    /// One object per cell.
    Cells,
    /// The number of cells per shard on each axis; one number applies to all axes. A binned level
    /// has an additional first axis for the attribute, which gets 1 unless it is stated.
    Shards(Vec<u64>),
}

/// The changes to make.
///
/// ```
/// use zvf_store::{Arrange, CodecPipeline, Rearrangement};
///
/// let plan = Rearrangement { shards: Arrange::Shards(vec![8]), codecs: Some(CodecPipeline::zstd(3)) };
/// assert_ne!(plan, Rearrangement::default());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rearrangement {
    /// Shards of the arrays over the chunk grid.
    pub shards: Arrange,
    /// Their codecs; `None` keeps those of each array.
    pub codecs: Option<CodecPipeline>,
}

/// Progress of a rearrangement.
///
/// ```
/// assert_eq!(zvf_store::RearrangeCounts::default().cells, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct RearrangeCounts {
    /// Number of rearranged arrays.
    pub arrays: u64,
    /// Number of their cells.
    pub cells: u64,
    /// Number of objects that now contain their cells.
    pub objects: u64,
    /// Bytes of those objects.
    pub stored_bytes: u64,
    /// Number of other objects, copied unchanged.
    pub copied: u64,
}

impl Rearrangement {
    /// Checks whether a store can be rearranged; call this before you begin a build.
    ///
    /// # Errors
    ///
    /// [`Class::Unsupported`] for a store before 0.9, and for a pack, which has neither shards nor
    /// codecs.
    pub fn check(store: &Store) -> Result<()> {
        let refused =
            |what, rule, found: &str| Err(Error::new(Class::Unsupported, what, rule, quote(found)));
        if store.is_packed() {
            let rule = "one of many files, with shards and codecs to change: zvf unpack makes it";
            return refused("store", rule, "a store packed into one file");
        }
        if store.family() != LayoutFamily::C {
            let rule = "0.9 or later: zvf rewrite --format-version 0.9.2 makes such a store";
            return refused("version", rule, &store.version().to_string());
        }
        Ok(())
    }

    /// Writes `store` with this arrangement into `build`, and publishes it. `on_progress` is called
    /// from time to time.
    ///
    /// Cells are encoded on the current rayon pool while this call waits; see [`Build`] for where
    /// to run it.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check); [`Class::Unsupported`] for a store that cannot be listed;
    /// [`Class::InvalidArgument`] when the shape of shards does not fit an array; otherwise when something
    /// cannot be read or written. Nothing is published then.
    pub async fn apply(
        &self,
        store: &Store,
        build: Build,
        mut on_progress: impl FnMut(&RearrangeCounts),
    ) -> Result<RearrangeCounts> {
        Self::check(store)?;
        build.check_source(store)?;
        let objects = store.nodes().objects("").await?;
        let mut moved = RearrangeCounts::default();
        let mut arranged = BTreeSet::new();
        for (object, _) in &objects {
            let Some(key) = document_node(object)? else { continue };
            match store.nodes().node(key.as_str()).await?.as_deref() {
                Some(Node::Array(doc)) if is_over_grid(&key, doc) => {
                    self.array(store, &build, &key, doc, (&mut moved, &mut on_progress)).await?;
                    arranged.insert(key.as_str().to_owned());
                }
                Some(Node::Array(_)) => build.0.nodes.set(key, NodeState::Finished),
                Some(Node::Group(group)) if !key.is_root() => {
                    if group
                        .attributes
                        .get(LevelDoc::PRESENCE)
                        .is_some_and(|state| state == "deferred")
                    {
                        let rule = "a complete one: end its deferral by zvf repair --in-place --end-deferral";
                        let found = "one whose presence is deferred: writers still fill it";
                        return Err(
                            Error::new(Class::Unsupported, "level", rule, found).at_key(&key)
                        );
                    }
                    build.0.nodes.set(key, NodeState::Group);
                }
                _ => {}
            }
        }
        let root = document(&Key::root())?;
        let rest = objects.into_iter().map(|(key, _)| key);
        let rest: Vec<Key> = rest.filter(|key| *key != root && !lies_in(key, &arranged)).collect();
        for keys in rest.chunks(READ_BATCH_CELLS) {
            for (key, bytes) in store.shared_state().stored_objects(keys).await? {
                let bytes = match strip_copies(&bytes) {
                    Some(text) => text.into(),
                    None => bytes,
                };
                build.object(key, vec![bytes])?;
                moved.copied += 1;
            }
            on_progress(&moved);
        }
        let root = store.root_json();
        let mut text =
            strip_copies(&root).unwrap_or_else(|| String::from_utf8_lossy(&root).into_owned());
        let mut new = Root::parse(text.as_bytes())?;
        match &self.shards {
            Arrange::Keep => {}
            Arrange::Cells => new.zarr_vectors.shard_shape = None,
            Arrange::Shards(shape) => new.zarr_vectors.declare_shard(shape),
        }
        if new.zarr_vectors.shard_shape != store.root().zarr_vectors.shard_shape {
            text = new.print();
        }
        build.publish_text(text).await?;
        Ok(moved)
    }

    /// Rearranges one array.
    async fn array(
        &self,
        store: &Store,
        build: &Build,
        key: &Key,
        doc: &ArrayDoc,
        (moved, on_progress): (&mut RearrangeCounts, &mut impl FnMut(&RearrangeCounts)),
    ) -> Result<()> {
        let Some(cells) = store.nodes().cells(key.as_str()).await? else { return Ok(()) };
        let recorded = doc.nonempty_chunks.is_some();
        let inner = self.codecs.is_none().then(|| inner_codecs(doc).to_vec());
        let plan = self.plan(key, doc).at_key(key)?;
        let sink = build.cells(key.as_str(), plan)?.with_encoded_cells(inner, doc.extras.clone());
        for keys in self.runs(&sink, doc, &cells).await? {
            for keys in keys.chunks(READ_BATCH_CELLS) {
                if self.codecs.is_none() {
                    for (key, stored) in keys.iter().zip(cells.read_stored(keys).await?) {
                        match stored {
                            Some(stored) => sink.put_stored(key, stored)?,
                            None if recorded => {
                                let because = "the array lists this chunk";
                                return Err(Error::missing(cells.path(), because));
                            }
                            None => {}
                        }
                    }
                } else {
                    let payloads = cells.read_many(keys, Caching::Once).await;
                    let pairs: Vec<_> = keys.iter().zip(payloads).collect();
                    pairs.into_par_iter().try_for_each(|(key, payload)| {
                        payload?.map_or(Ok(()), |payload| sink.put(key, payload))
                    })?;
                }
                moved.cells += to_u64(keys.len());
                on_progress(moved);
            }
            sink.close_shard(&keys[0])?; // no run is empty
        }
        let report = sink.finish(|_| ()).await?;
        moved.arrays += 1;
        moved.stored_bytes += report.stored_bytes;
        moved.objects += report.objects;
        Ok(())
    }

    /// Returns the plan of the array of `doc`.
    fn plan(&self, key: &Key, doc: &ArrayDoc) -> Result<CellPlan> {
        let (rank, low) = (doc.rank(), chunk_grid(key, doc)?.origin().to_vec());
        let mut attributes = doc.attributes.clone();
        attributes.shift_remove("chunk_grid_origin");
        // Empty arrays are left out earlier. The last cell of a grid has a key.
        let last = |(low, cells): (&i64, &u64)| low.strict_add_unsigned(cells.saturating_sub(1));
        let high = low.iter().zip(&doc.shape).map(last).collect();
        let shard = match &self.shards {
            Arrange::Keep => match doc.sharding() {
                None => None,
                Some(_) => {
                    count_kept_cells(&doc.chunk_shape)?;
                    Some(doc.chunk_shape.clone())
                }
            },
            Arrange::Cells => None,
            Arrange::Shards(shape) => Some(fit_rank(shape, rank)?),
        };
        let codecs = self.codecs.clone().unwrap_or_default(); // none: cells stay encoded as they are
        Ok(CellPlan { rank, low, high, attributes, codecs, shard })
    }

    /// Returns the keys of the array in runs that each fill a shard; without shards, runs follow
    /// the shards of the source.
    async fn runs(
        &self,
        sink: &CellSink,
        doc: &ArrayDoc,
        cells: &Cells,
    ) -> Result<Vec<Vec<ChunkKey>>> {
        let plan = sink.plan();
        let shape = plan.shard.as_ref().unwrap_or(&doc.chunk_shape);
        // No key is below the lowest one: a sink would refuse it.
        let shard = |key: &ChunkKey| -> Vec<u64> {
            let axes = key.components().iter().zip(&plan.low).zip(shape);
            axes.map(|((at, low), cells)| at.abs_diff(*low) / cells).collect()
        };
        let present = cells.presence().await?;
        let mut keys: Vec<(Vec<u64>, ChunkKey)> =
            present.iter().map(|key| (shard(&key), key)).collect();
        keys.sort_by(|(a, _), (b, _)| a.cmp(b)); // stable: numeric order inside
        let runs = keys.chunk_by(|(a, _), (b, _)| a == b);
        Ok(runs.map(|run| run.iter().map(|(_, key)| *key).collect()).collect())
    }
}

impl Build {
    /// Copies the node at `path` of `store` and everything below it unchanged, object by object,
    /// and returns the number of objects.
    ///
    /// # Errors
    ///
    /// [`Class::Unsupported`] for a store that cannot be listed; otherwise when something cannot be read or
    /// written.
    #[boxed]
    pub async fn copy(&self, store: &Store, path: &str) -> Result<u64> {
        let keys: Vec<Key> =
            store.nodes().objects(path).await?.into_iter().map(|(key, _)| key).collect();
        for key in &keys {
            let Some(node) = document_node(key)? else { continue };
            let is_array =
                matches!(store.nodes().node(node.as_str()).await?.as_deref(), Some(Node::Array(_)));
            self.0.nodes.set(node, NodeState::complete(is_array));
        }
        for keys in keys.chunks(READ_BATCH_CELLS) {
            for (key, bytes) in store.shared_state().stored_objects(keys).await? {
                self.object(key, vec![bytes])?;
            }
        }
        Ok(to_u64(keys.len()))
    }
}

/// Returns whether the cells of this array are rearranged: it is an array over the chunk grid, with
/// each cell encoded separately.
fn is_over_grid(key: &Key, doc: &ArrayDoc) -> bool {
    let path: Vec<&str> = key.segments().skip(1).collect();
    let named = match path.as_slice() {
        [name] => {
            matches!(*name, "vertices" | "vertex_fragments" | "link_fragments")
                || name.starts_with("vertices_")
        }
        [family, _] => matches!(*family, "vertex_attributes" | "fragment_attributes"),
        ["links", _, _] | ["link_attributes", _, _, _] => true,
        _ => false,
    };
    let alone = doc.inner_chunk_shape().iter().all(|&cells| cells == 1);
    let some = doc.shape.iter().all(|&cells| cells > 0);
    let vlen = *doc.data_type.kind() == DataTypeKind::VariableLengthBytes;
    (named || doc.nonempty_chunks.is_some()) && vlen && alone && some
}

/// Returns the codecs of one cell.
fn inner_codecs(doc: &ArrayDoc) -> &[CodecSpec] {
    doc.sharding().map_or(&doc.codecs, |sharding| &sharding.codecs)
}

/// Expands the shape of shards to `rank` axes.
fn fit_rank(shape: &[u64], rank: usize) -> Result<Vec<u64>> {
    match shape {
        [length] => Ok(vec![*length; rank]),
        _ if shape.len() == rank => Ok(shape.to_vec()),
        _ if shape.len().checked_add(1) == Some(rank) => Ok([&[1], shape].concat()),
        _ => Err(Error::new(Class::InvalidArgument, "axes of a shard", to_u64(rank), shape.len())),
    }
}

/// Returns the text of a group document without embedded copies of other documents (consolidated
/// metadata); `None` if there are none, or this is not such a document.
fn strip_copies(bytes: &[u8]) -> Option<String> {
    if !bytes.starts_with(b"{") {
        return None;
    }
    let mut group = GroupDoc::parse(bytes).ok()?;
    group.extras.shift_remove("consolidated_metadata")?;
    Some(group.print())
}

/// Returns whether `key` is in one of `arrays`.
fn lies_in(key: &Key, arrays: &BTreeSet<String>) -> bool {
    let mut slashes = key.as_str().match_indices('/');
    slashes.any(|(at, _)| arrays.contains(&key.as_str()[..at]))
}

/// Number of cells or objects that are read at once.
const READ_BATCH_CELLS: usize = 256;
