//! A `.tet` file: everything that planning needs is copied to memory, payloads stay in the file.
//!
//! ```text
//! open     the end, the prefix (superblock, directory, index), the JSON of a footer: copied, then checked
//! select   -> plan -> raw tiles of a map or memory: runs copied out, nothing else read
//!                     raw tiles elsewhere: the ranges that hold the runs, many at once
//!                     zstd tiles: fetched, decoded on several threads, runs copied out
//! ```
//!
//! Opening examines every row once; after that, a dataset is looked up through an index that is
//! built on first use. Packs are also read through this module ([`strip`]).
//!
//! Not here: writing, meaningful names, labels, validation (`zvf-tensor`).
#![cfg_attr(
    not(test),
    deny(clippy::arithmetic_side_effects, clippy::as_conversions, clippy::indexing_slicing)
)]

mod copy;
mod fetch;
pub(crate) mod strip;

use async_recursion::async_recursion as boxed;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use zvf_error::Result;
use zvf_format::FormatError;
use zvf_format::num::{index_u32, saturating_usize, to_u64};
use zvf_tet as tet;
use zvf_tet::{
    AxisSlice, Directory, Index, Lookup, MemoryBudget, Need, Places, Superblock, TensorDtype,
    TetOpening, TetView, TileGeometry, TilePlan,
};

use crate::file::RangedFile;

/// An open `.tet` file; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/tet/grid_f32_2d_ragged.tet");
/// use zvf_tet::AxisSlice;
/// use zvf_store::{OpenOptions, RangedFile, TetFile};
///
/// let file = TetFile::open(RangedFile::open(path, &OpenOptions::default()).await?).await?;
/// let grid = &file.datasets()[0];
/// let axes = [AxisSlice { start: 5, stop: 6, step: 1 }, AxisSlice { start: 2, stop: 3, step: 1 }];
/// assert_eq!(file.read(grid, &axes, 1 << 20).await?, 33.75_f32.to_le_bytes()[..]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TetFile(Arc<OpenedFile>);

#[derive(Debug)]
struct OpenedFile {
    file: RangedFile,
    prefix: Bytes, // checked when opened
    tail: Bytes,
    index_at: usize,
    budget: MemoryBudget,
    datasets: Vec<TetDataset>,
    names: HashMap<Box<str>, usize>, // the first of each name
}

/// One dataset of a file.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/tet/one_f32_1d.tet");
/// # use zvf_store::{OpenOptions, RangedFile, TetFile};
/// let file = TetFile::open(RangedFile::open(path, &OpenOptions::default()).await?).await?;
/// let a = file.find("a").expect("it is there");
/// assert_eq!((a.id(), a.shape(), a.chunk_shape()), (0, &[5][..], &[5][..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TetDataset {
    id: u32,
    name: Box<str>,
    dtype: u32,
    shape: Box<[u64]>,
    chunk_shape: Box<[u64]>,
    geometry: Result<TileGeometry, FormatError>,
    first_row: u64, // where its rows are, when they are where writers put them
    places: OnceLock<Places>,
}

impl TetFile {
    /// Reads everything that planning needs.
    ///
    /// # Errors
    ///
    /// When a rule from O1 to O9 of the format is violated, or the file cannot be read.
    #[boxed]
    pub async fn open(file: RangedFile) -> Result<Self> {
        let len = file.len();
        let mut need = Need { prefix: len.min(FIRST_PREFIX_BYTES), tail: 0 };
        loop {
            let tail_at = len.saturating_sub(need.tail); // all of a file that is shorter
            let mut parts = file.read_many(&[0..need.prefix, tail_at..len]).await.into_iter();
            let mut next = || parts.next().unwrap_or_else(|| Ok(Bytes::new()));
            // Copied before they are checked, because mapped bytes may change.
            let [prefix, tail] = [copy_if_mapped(next()?, &file), copy_if_mapped(next()?, &file)];
            file.check()?;
            match TetView::open(&prefix, &tail, len)? {
                TetOpening::More(more) => need = more,
                TetOpening::Ready(open) => {
                    let datasets = datasets(&open);
                    // Both are offsets in the prefix, which was read.
                    let index_at = saturating_usize(open.superblock().chunk_index_offset());
                    let budget = open.index().memory_budget();
                    let end = saturating_usize(open.superblock().prefix_len()).min(prefix.len());
                    let prefix = prefix.slice(..end);
                    return Ok(Self::new(file, prefix, tail, index_at, budget, datasets));
                }
            }
        }
    }

    /// Returns whether the file is on a backend that may wait for a network.
    pub(crate) fn is_remote(&self) -> bool {
        self.0.file.is_remote()
    }

    fn new(
        file: RangedFile,
        prefix: Bytes,
        tail: Bytes,
        index_at: usize,
        budget: MemoryBudget,
        datasets: Vec<TetDataset>,
    ) -> Self {
        let mut names = HashMap::with_capacity(datasets.len());
        for (at, dataset) in datasets.iter().enumerate() {
            names.entry(dataset.name.clone()).or_insert(at);
        }
        Self(Arc::new(OpenedFile { file, prefix, tail, index_at, budget, datasets, names }))
    }

    /// Returns the underlying bytes.
    pub fn bytes(&self) -> &RangedFile {
        &self.0.file
    }

    /// Returns the superblock, directory, index and footer, parsed and checked again.
    ///
    /// # Errors
    ///
    /// None that opening would not have returned.
    pub fn view(&self) -> Result<TetView<'_>> {
        match TetView::open(&self.0.prefix, &self.0.tail, self.0.file.len())? {
            TetOpening::Ready(file) => Ok(file),
            // Opening ended with these bytes.
            TetOpening::More(_) => Ok(TetView::parse(&self.0.prefix)?),
        }
    }

    /// Returns the directory, parsed again.
    pub(crate) fn directory(&self) -> Result<Directory<'_>> {
        let count = index_u32(self.0.datasets.len()); // the file counts them in 32 bits
        if count == 0 {
            return Ok(self.view()?.directory());
        }
        let bytes = self.0.prefix.get(saturating_usize(Superblock::LEN)..).unwrap_or_default();
        Ok(Directory::parse(bytes, count, self.0.file.len())?)
    }

    /// Returns the datasets, by id.
    pub fn datasets(&self) -> &[TetDataset] {
        &self.0.datasets
    }

    /// Returns the first dataset with exactly this name.
    pub fn find(&self, name: &str) -> Option<&TetDataset> {
        self.0.datasets.get(*self.0.names.get(name)?)
    }

    /// Returns the limits that the file requests of readers.
    pub fn memory_budget(&self) -> MemoryBudget {
        self.0.budget
    }

    /// Returns the rows of a dataset of this file.
    ///
    /// # Errors
    ///
    /// When its type or extents are impossible.
    pub fn lookup(&self, dataset: &TetDataset) -> Result<Lookup<'_>> {
        let index = Index::parse_again(self.0.prefix.get(self.0.index_at..).unwrap_or_default())?;
        if let Some(places) = dataset.places.get() {
            return Ok(Lookup::from_places(&index, places));
        }
        let geometry = dataset.geometry()?;
        let lookup = Lookup::new(&index, dataset.id, &geometry, dataset.first_row);
        // If another thread was faster, its result is the same.
        let _known = dataset.places.set(lookup.places().clone());
        Ok(lookup)
    }

    /// Reads the elements that `axes` select, row-major and little-endian, if they take at most
    /// `max_bytes`, and so does each chunk that must be decoded. An empty selection reads nothing.
    ///
    /// # Errors
    ///
    /// When the selection does not fit the dataset;
    /// [`LimitExceeded`](zvf_format::Class::LimitExceeded), before anything is read, when it is
    /// larger than `max_bytes`; otherwise when a chunk has no row, cannot be read, or does not
    /// decode to the length in its row.
    #[boxed]
    pub async fn read(
        &self,
        dataset: &TetDataset,
        axes: &[AxisSlice],
        max_bytes: u64,
    ) -> Result<Bytes> {
        let lookup = self.lookup(dataset)?;
        let plan = lookup.select(axes)?;
        let out = fetch::selection(self, &plan, max_bytes).await?;
        self.0.file.check()?;
        Ok(out)
    }

    /// Reads all elements of a dataset, like [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    #[boxed]
    pub async fn read_all(&self, dataset: &TetDataset, max_bytes: u64) -> Result<Bytes> {
        if dataset.geometry()?.is_empty() {
            return Ok(Bytes::new());
        }
        let axes: Vec<AxisSlice> =
            dataset.shape.iter().map(|&extent| AxisSlice::all(extent)).collect();
        self.read(dataset, &axes, max_bytes).await
    }

    /// Returns the decoded content of one chunk.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read); `coords` are those of a chunk of the grid.
    #[boxed]
    pub async fn read_chunk(
        &self,
        dataset: &TetDataset,
        coords: &[u64],
        max_bytes: u64,
    ) -> Result<Bytes> {
        let lookup = self.lookup(dataset)?;
        let row = *lookup.row(coords)?;
        // A chunk with a row has a tile.
        let tile = lookup.geometry().tile(coords).map_or(0, |tile| tile.byte_len());
        fetch::chunk(self, &row, tile, max_bytes).await
    }

    /// Returns bytes of the file without a copy, if it is in memory or mapped.
    fn resident_bytes(&self, span: tet::Span) -> Option<Bytes> {
        let whole = self.0.file.resident_bytes()?;
        let end = saturating_usize(span.offset.checked_add(span.len)?);
        let start = saturating_usize(span.offset);
        (start <= end && end <= whole.len()).then(|| whole.slice(start..end))
    }

    /// Returns the elements that `plan` selects as one span of the file, without a copy. After use,
    /// call [`RangedFile::check`] of [`bytes`](Self::bytes).
    ///
    /// `None` if they are not contiguous and in order, or not in memory or mapped.
    pub fn dense_view(&self, plan: &TilePlan<'_, '_>) -> Option<Bytes> {
        let span = plan.dense_span().or_else(|| plan.strided_view()?.as_dense())?;
        self.resident_bytes(span)
    }

    /// Returns the elements that `plan` selects in chunk order, without a copy: suitable if the
    /// order does not matter, but not for shaped results.
    pub fn byte_stream(&self, plan: &TilePlan<'_, '_>) -> Option<Bytes> {
        self.resident_bytes(plan.byte_stream()?)
    }

    /// Returns a selection inside a single raw chunk: its bytes from the first element on, without
    /// a copy, and the strides.
    pub fn strided_view(&self, plan: &TilePlan<'_, '_>) -> Option<(Bytes, tet::StridedView)> {
        let view = plan.strided_view()?;
        let strides = view.shape().iter().zip(view.strides());
        let size = plan.selection().geometry().element().size();
        // An empty selection takes one element, which exists; the shape shows that none is
        // selected.
        let reach = strides.fold(size, |reach, (n, stride)| {
            reach.saturating_add(n.saturating_sub(1).saturating_mul(*stride))
        });
        let bytes = self.resident_bytes(tet::Span { offset: view.offset(), len: reach })?;
        Some((bytes, view))
    }
}

impl TetDataset {
    /// Returns its position in the directory, by which index rows refer to it.
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Returns its name as stored: any text, which must not be displayed or used as a path
    /// unchecked.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the tag of its element type, known or not.
    pub const fn dtype(&self) -> u32 {
        self.dtype
    }

    /// Returns its element type, or `None` if the tag is unknown.
    pub fn element(&self) -> Option<TensorDtype> {
        TensorDtype::from_tag(self.dtype)
    }

    /// Returns its extents.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the extents of one chunk, which may exceed those of the dataset.
    pub fn chunk_shape(&self) -> &[u64] {
        &self.chunk_shape
    }

    /// Returns the grid and the tiles.
    ///
    /// # Errors
    ///
    /// When its type is unknown or its extents are impossible.
    pub fn geometry(&self) -> Result<TileGeometry> {
        Ok(self.geometry?)
    }
}

fn datasets(file: &TetView<'_>) -> Vec<TetDataset> {
    let mut first_row = 0_u64;
    let dataset = |dataset: tet::Dataset<'_>| {
        let geometry = dataset.geometry();
        let this = first_row;
        // For an invalid dataset none are counted: its rows are then searched.
        let rows = geometry.as_ref().map_or(0, TileGeometry::tile_count);
        first_row = first_row.saturating_add(rows); // behind every index, where extents claim that much
        TetDataset {
            id: dataset.id(),
            name: dataset.name().into(),
            dtype: dataset.dtype(),
            shape: dataset.shape().collect(),
            chunk_shape: dataset.chunk_shape().collect(),
            geometry,
            first_row: this,
            places: OnceLock::new(),
        }
    };
    file.directory().iter().map(dataset).collect()
}

/// Copies bytes of a mapped file, so that they cannot change.
fn copy_if_mapped(bytes: Bytes, file: &RangedFile) -> Bytes {
    let held = file.resident_bytes().is_some_and(|whole| to_u64(whole.len()) == file.len());
    if held { Bytes::copy_from_slice(&bytes) } else { bytes }
}

/// The number of bytes that opening reads from the start before it knows the length of the index.
const FIRST_PREFIX_BYTES: u64 = Superblock::LEN + (16 << 10);
