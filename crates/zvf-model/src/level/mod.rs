//! Typed access to one level.
//!
//! ```text
//! chunks       which chunks have vertices                    LevelReader::chunks
//! fragments    which rows of a chunk belong together         LevelReader::fragments
//! positions    rows of vertices, whole or some               LevelReader::positions, position_rows
//! attributes   columns beside them, row for row              LevelReader::attribute
//! ```
//!
//! Everything is requested in batches of chunks, because batches are fast. The handle caches the
//! description of the level (documents, presence, fragment indexes); payloads are cached only if
//! the caller asks for it.
//!
//! Not here: objects, links and groups (in their own modules), and the selection of rows.

mod attribute;
mod counts;
pub(crate) mod draco;
mod fragments;
mod rows;

use async_recursion::async_recursion as boxed;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::Class;
use zvf_format::grid::{Bins, ChunkRange, ChunkShape};
use zvf_format::key::ChunkKey;
use zvf_format::key::Delta;
use zvf_metadata::arrays::{ArrayAttributes as _, GeometryIndex, Vertices};
use zvf_metadata::{CellEncoding, Dtype, LinksConvention, Token};
use zvf_store::{Caching, Cells, KeyTable, LevelNode, Listing, Partial, Store};

pub use attribute::AttributeReader;
pub use fragments::ChunkFragments;
pub(crate) use rows::{CellRows, missing_cell_error};

use attribute::Attributes;
use counts::Counts;

use crate::open::list_nodes;
use crate::owners::{CachedCrossings, CachedOwners};
use crate::{Kind, LevelId, LinkFamily, ObjectIndex, Value};

/// A handle to one level; cheap to clone, safe to share.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/bridge.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// use zvf_model::{LevelId, LevelReader};
/// use zvf_store::Caching;
///
/// let level = LevelReader::open(&store, LevelId(0)).await?;
/// let chunks: Vec<_> = level.chunks().await?.iter().collect();
/// let positions = level.positions(&chunks, Caching::Once).await;
/// let rows: Vec<usize> = positions.into_iter().map(|rows| rows.map_or(0, |rows| rows.len())).collect();
/// assert_eq!((level.axes(), rows), (2, vec![2, 1]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LevelReader {
    inner: Arc<OpenedLevel>,
}

#[derive(Debug)]
struct OpenedLevel {
    store: Store,
    level: LevelId,
    node: LevelNode,
    whole: LevelNode, // the level that it is part of, or itself
    kinds: Vec<Kind>,
    further: Further,
    chunk_shape: ChunkShape,
    bin_shape: Option<Vec<f64>>,
    bins: Option<Bins>,
    vertices: Cells,
    fragments: Cells,
    dtype: Dtype,
    encoding: Option<Token<CellEncoding>>,
    counts: Counts,
    attributes: Attributes,
    objects: OnceCell<Option<ObjectIndex>>,
    owners: tokio::sync::Mutex<CachedOwners>,
    crossings: OnceCell<CachedCrossings>, // used where all owners are too large
    links: Mutex<HashMap<i32, Arc<OnceCell<Option<LinkFamily>>>>>,
    index_bytes: u64,
}

impl LevelReader {
    /// Opens level `level` of `store`.
    ///
    /// # Errors
    ///
    /// When there is no such level, it lacks `vertices` or `vertex_fragments`, or its documents
    /// lack information that is needed to read it.
    #[boxed]
    pub async fn open(store: &Store, level: LevelId) -> Result<Self> {
        Self::open_within(store, level, store.budget().max_bytes() / 4).await
    }

    /// Like [`open`](Self::open), but each table that is built from an index (ids by value, objects
    /// by fragment) may take `index_bytes` instead of a quarter of the budget. A larger table is
    /// replaced by reading the index each time.
    ///
    /// # Errors
    ///
    /// As `open`.
    #[boxed]
    pub async fn open_within(store: &Store, level: LevelId, index_bytes: u64) -> Result<Self> {
        let node = store.level(level.0).await?;
        let kinds = store.root().zarr_vectors.geometry_types.iter().map(Token::as_str);
        let mut kinds: Vec<Kind> = kinds.filter_map(|token| token.parse().ok()).collect();
        let further = if kinds.len() > 1 { read_further(store, &node).await? } else { Vec::new() };
        kinds.retain(|kind| further.iter().all(|(other, _)| other != kind));
        Self::from_node(store, level, (node.clone(), node), (kinds, further), index_bytes).await
    }

    /// Returns the geometry of `kind`: this one, or a further one that the level stores in its own
    /// group. `None` if there is no such kind.
    ///
    /// Groups of objects belong to the whole level, whichever kind they are requested from.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/bridge.zarrvectors");
    /// # let store = zvf_store::Store::open(path, Default::default()).await?;
    /// use zvf_model::{Kind, LevelId, LevelReader};
    ///
    /// let level = LevelReader::open(&store, LevelId(0)).await?;
    /// let kind = level.kinds()[0];
    /// assert_eq!(level.open_kind(kind).await?.map(|level| level.kinds().to_vec()), Some(vec![kind]));
    /// assert!(level.open_kind(Kind::Mesh).await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    #[boxed]
    pub async fn open_kind(&self, kind: Kind) -> Result<Option<Self>> {
        if self.inner.kinds.contains(&kind) {
            return Ok(Some(self.clone()));
        }
        let Some((_, group)) = self.inner.further.iter().find(|(other, _)| *other == kind) else {
            return Ok(None);
        };
        let OpenedLevel { store, level, whole, index_bytes, .. } = &*self.inner;
        let Some(group) = group else {
            let error = Error::new(
                Class::Unsupported,
                "geometry",
                "a geometry with fragments: this one has vertices and links alone, as `geometries` reads",
                kind.token(),
            );
            return Err(error.at_array(format!("{}/{GEOMETRIES}", whole.path())));
        };
        let nodes = (whole.geometry(group).await?, whole.clone());
        let kinds = (vec![kind], Vec::new());
        Ok(Some(Self::from_node(store, *level, nodes, kinds, *index_bytes).await?))
    }

    async fn from_node(
        store: &Store,
        level: LevelId,
        (node, whole): (LevelNode, LevelNode),
        (kinds, further): (Vec<Kind>, Further),
        index_bytes: u64,
    ) -> Result<Self> {
        let root = store.root();
        let shape = node.meta().effective_chunk_shape(root);
        let chunk_shape = ChunkShape::new(shape)?;
        let bin_shape = node.meta().effective_bin_shape(root, &level.to_string());
        // Bins that do not nest in chunks are not used.
        let bins = bin_shape.as_ref().and_then(|shape| Bins::new(&chunk_shape, shape).ok());
        let vertices = node.required_cells("vertices").await?;
        let fragments = node.required_cells("vertex_fragments").await?;
        let attributes =
            Vertices::parse(vertices.attributes().clone()).at_array(vertices.path())?;
        let dtype = attributes.dtype().at_array(vertices.path())?;
        let encoding = attributes.encoding;
        let inner = OpenedLevel {
            store: store.clone(),
            level,
            node,
            whole,
            kinds,
            further,
            chunk_shape,
            bin_shape,
            bins,
            vertices,
            fragments,
            dtype,
            encoding,
            counts: Counts::default(),
            attributes: Attributes::default(),
            objects: OnceCell::new(),
            owners: tokio::sync::Mutex::default(),
            crossings: OnceCell::new(),
            links: Mutex::default(),
            index_bytes,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the store it belongs to.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// Returns its number.
    pub fn level(&self) -> LevelId {
        self.inner.level
    }

    /// Returns its document and arrays.
    pub fn node(&self) -> &LevelNode {
        &self.inner.node
    }

    /// Returns the kinds of geometry in these arrays, in writing order: usually one, otherwise the
    /// kinds that the store lists.
    pub fn kinds(&self) -> &[Kind] {
        &self.inner.kinds
    }

    /// Returns the further kinds of the level, each in its own arrays
    /// ([`open_kind`](Self::open_kind)).
    pub fn extra_kinds(&self) -> impl Iterator<Item = Kind> {
        self.inner.further.iter().map(|(kind, _)| *kind)
    }

    /// Returns the convention of links inside fragments.
    pub fn links_convention(&self) -> Token<LinksConvention> {
        let convention = self.inner.node.meta().links_convention.clone();
        convention.unwrap_or_else(|| self.inner.store.root().zarr_vectors.links_convention())
    }

    /// Returns the number of axes.
    pub fn axes(&self) -> usize {
        self.inner.chunk_shape.axes()
    }

    /// Returns the number of components of a chunk key: the axes, and one in front if an attribute
    /// bins the level.
    pub fn key_rank(&self) -> usize {
        self.inner.node.key_rank()
    }

    /// Returns the size of its chunks.
    pub fn chunk_shape(&self) -> &ChunkShape {
        &self.inner.chunk_shape
    }

    /// Returns the division of chunks into bins, if it is known and bins nest.
    pub fn bins(&self) -> Option<&Bins> {
        self.inner.bins.as_ref()
    }

    /// Returns the size of a bin, if it is known, whether or not bins nest in chunks.
    pub fn bin_shape(&self) -> Option<&[f64]> {
        self.inner.bin_shape.as_deref()
    }

    /// Returns the type of a coordinate, as stored.
    pub fn dtype(&self) -> Dtype {
        self.inner.dtype
    }

    /// Returns the chunks that have vertices, in numeric order.
    ///
    /// # Errors
    ///
    /// When presence is recorded wrongly, or not at all and the backend cannot list.
    #[boxed]
    pub async fn chunks(&self) -> Result<Arc<KeyTable>> {
        self.inner.vertices.presence().await
    }

    /// Returns the chunks that have vertices: all of them, or, without a list and if the backend
    /// cannot list, those of `range`, each tested by its fragment index.
    ///
    /// # Errors
    ///
    /// As [`chunks`](Self::chunks); also when more than 4096 chunks of `range` would have to be
    /// tested, or a tested chunk cannot be read.
    #[boxed]
    pub async fn chunks_in(&self, range: &ChunkRange) -> Result<Arc<KeyTable>> {
        let unknown = match self.chunks().await {
            Ok(chunks) => return Ok(chunks),
            Err(error) => error,
        };
        let few = range.count().is_some_and(|chunks| chunks <= MAX_TRIED);
        if unknown.class() != Class::Unsupported || !few || range.rank() != self.key_rank() {
            return Err(unknown);
        }
        let tried: Vec<ChunkKey> = range.iter().collect();
        let found = self.fragment_cells().read_many(&tried, Caching::Keep).await;
        let mut present = Vec::new();
        for (found, key) in found.into_iter().zip(tried) {
            if found.at_chunk(&key)?.is_some() {
                present.push(key);
            }
        }
        Ok(Arc::new(KeyTable::new(self.key_rank(), present)?))
    }

    /// Returns the names of the attributes of vertices, and whether the list is complete. An
    /// attribute that bins the level is included.
    ///
    /// # Errors
    ///
    /// When the backend fails.
    #[boxed]
    pub async fn attribute_names(&self) -> Result<Listing> {
        if !self.keeps_order().await? {
            return Ok(Listing { names: Vec::new(), complete: false }); // none can be matched to a row
        }
        let mut listing = list_nodes(self.node(), "vertex_attributes").await?;
        if let Some((name, _)) = self.bin_attribute()
            && !listing.names.iter().any(|stored| stored == name)
            && self.attribute(name).await?.is_some()
        {
            listing.names.push(name.to_owned());
        }
        Ok(listing)
    }

    /// Returns the cost of reading ranges of rows of vertices.
    pub fn part_cost(&self) -> Partial {
        self.inner.vertices.part_cost()
    }

    /// Returns the names of the attributes of fragments, and whether the list is complete.
    ///
    /// # Errors
    ///
    /// When the backend fails.
    #[boxed]
    pub async fn fragment_attribute_names(&self) -> Result<Listing> {
        self.inner.node.children("fragment_attributes").await
    }

    /// Returns the attribute that bins the level, if any: its name, and the value of each bin. The
    /// first component of a chunk key is the number of a bin.
    pub fn bin_attribute(&self) -> Option<(&str, Vec<Value>)> {
        let meta = self.inner.node.meta();
        let values = meta.chunk_attribute_values.as_deref().unwrap_or_default();
        Some((
            meta.chunk_attribute_name.as_deref()?,
            values.iter().map(crate::field::category).collect(),
        ))
    }

    /// Returns the offset from stored positions to world positions, if the store has one.
    pub fn coordinate_offset(&self) -> Option<&[f64]> {
        self.inner.store.root().zarr_vectors.coordinate_offset.as_deref()
    }

    /// Returns the enclosing level, or itself.
    pub(crate) fn enclosing_node(&self) -> &LevelNode {
        &self.inner.whole
    }

    /// Returns the object index, if it has been opened.
    pub(crate) fn opened_objects(&self) -> &OnceCell<Option<ObjectIndex>> {
        &self.inner.objects
    }

    /// Returns the cached owners of fragments.
    pub(crate) fn cached_owners(&self) -> &tokio::sync::Mutex<CachedOwners> {
        &self.inner.owners
    }

    /// Returns the cached crossings without owners.
    pub(crate) fn cached_crossings(&self) -> &OnceCell<CachedCrossings> {
        &self.inner.crossings
    }

    /// Returns the link family `delta`, if it has been opened.
    pub(crate) fn opened_links(&self, delta: Delta) -> Arc<OnceCell<Option<LinkFamily>>> {
        let mut links = self.inner.links.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(links.entry(delta.0).or_default())
    }

    /// Returns the maximum size of one table that is built from an index.
    pub(crate) fn index_cap(&self) -> u64 {
        self.inner.index_bytes
    }

    fn counts(&self) -> &Counts {
        &self.inner.counts
    }

    fn attributes(&self) -> &Attributes {
        &self.inner.attributes
    }

    /// Returns the array of vertices.
    pub(crate) fn vertices(&self) -> &Cells {
        &self.inner.vertices
    }

    /// Returns the array of fragment indexes.
    fn fragment_cells(&self) -> &Cells {
        &self.inner.fragments
    }

    /// Returns the encoding of vertices.
    pub(crate) fn encoding(&self) -> Option<&Token<CellEncoding>> {
        self.inner.encoding.as_ref()
    }

    /// Refuses vertices that are neither rows of numbers nor Draco streams.
    fn check_encoding(&self) -> Result<()> {
        match &self.inner.encoding {
            None | Some(Token::Known(CellEncoding::Raw | CellEncoding::Draco)) => Ok(()),
            Some(_) => {
                let error = Error::new(
                    Class::Unsupported,
                    "encoding of vertices",
                    "raw vertices or Draco: cells of another encoding cannot be read",
                    "another encoding",
                );
                Err(error.at_array(self.inner.vertices.path()))
            }
        }
    }
}

/// Further kinds of a level, and their groups.
type Further = Vec<(Kind, Option<String>)>;

/// Returns the kinds that a level stores in separate arrays, in the order of their list.
async fn read_further(store: &Store, node: &LevelNode) -> Result<Further> {
    // A kind that is separate at level 0 is separate at coarser levels too.
    let group = match node.group(GEOMETRIES).await? {
        None if node.number() > 0 => store.nodes().group(&format!("0/{GEOMETRIES}")).await?,
        group => group,
    };
    let Some(group) = group else { return Ok(Vec::new()) };
    let index = GeometryIndex::parse(group.attributes)
        .map_err(|error| Error::from(error).at_array(format!("{}/{GEOMETRIES}", node.path())))?;
    let entries = index.entries.into_iter();
    Ok(entries.filter_map(|(name, entry)| Some((name.parse().ok()?, entry.group))).collect())
}

const fn shareable<T: Clone + Send + Sync + 'static>() {}
const _: () = {
    shareable::<LevelReader>();
    shareable::<AttributeReader>();
    shareable::<ChunkFragments>();
};

/// The list of further geometries of the level.
pub(crate) const GEOMETRIES: &str = "geometry_index";

/// Maximum number of chunks that are tested without a list.
const MAX_TRIED: u64 = 4096;
