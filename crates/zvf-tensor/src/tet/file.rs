//! An open `.tet` file and its tensors.
//!
//! ```text
//! slice         the selected elements, in memory of their own
//! dense         the same without a copy: one span of the file
//! strided       any selection inside of one raw chunk, without a copy
//! byte_stream   every selected element once, in the order of the chunks: for sums, not for shapes
//! ```
//!
//! Zone maps and secondary indexes of a file are not used for reading: they may be wrong.

use async_recursion::async_recursion as boxed;
use std::sync::Arc;

use bytes::Bytes;
use object_store::ObjectStore;
use object_store::path::Path;
use zvf_error::{Error, Result, quote};
use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_store::{OpenOptions, RangedFile, TetDataset, TetFile};
use zvf_tet::{AxisSlice, MemoryBudget, TensorDtype, TileGeometry, TilePlan};

use crate::array::{Array, View};
use crate::error::in_dataset;
use crate::memory::Memory;
use crate::slice::Slice;
use crate::tet::metadata::Metadata;

/// An open `.tet` file; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/tet/multi_mixed.tet");
/// use zvf_tensor::TensorFile;
///
/// let file = TensorFile::open(path, &Default::default()).await?;
/// let names: Vec<_> = file.tensors().map(|tensor| tensor.name().to_owned()).collect();
/// assert!(names.contains(&"b".to_owned()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TensorFile {
    tet: TetFile,
    metadata: Arc<Metadata>,
}

/// One tensor of a file.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/tet/grid_f32_2d_ragged.tet");
/// # use zvf_tensor::TensorFile;
/// let file = TensorFile::open(path, &Default::default()).await?;
/// let grid = file.tensor("field")?;
/// assert_eq!((grid.shape(), grid.chunk_shape()), (&[7, 5][..], &[3, 2][..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'f> {
    file: &'f TensorFile,
    dataset: &'f TetDataset,
}

impl TensorFile {
    /// Opens the file at `address`: a path, or a URL of one of the backends of this build.
    ///
    /// # Errors
    ///
    /// When it does not exist, breaks a rule from O1 to O9 of the format, or cannot be read.
    #[boxed]
    pub async fn open(address: &str, options: &OpenOptions) -> Result<Self> {
        Self::from_file(RangedFile::open(address, options).await?).await
    }

    /// Opens the object at `path` of the caller's own backend.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    #[boxed]
    pub async fn from_object_store(
        store: Arc<dyn ObjectStore>,
        path: &Path,
        options: &OpenOptions,
    ) -> Result<Self> {
        Self::from_file(RangedFile::from_object_store(store, path, options).await?).await
    }

    /// Maps the file at `path` if no process can write to it; otherwise returns `None`. See
    /// [`MappedFile::map_if_immutable`](zvf_map::MappedFile::map_if_immutable).
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    #[cfg(all(unix, feature = "map"))]
    pub fn map_if_immutable(path: &std::path::Path) -> Result<Option<Self>> {
        match zvf_map::MappedFile::map_if_immutable(path)? {
            Some(file) => run_ready(Self::from_file(RangedFile::from_map(file)?)).map(Some),
            None => Ok(None),
        }
    }

    /// Opens a file in memory.
    ///
    /// # Errors
    ///
    /// When it breaks a rule from O1 to O9 of the format.
    pub fn from_bytes(bytes: Bytes) -> Result<Self> {
        run_ready(Self::from_file(RangedFile::from_bytes(bytes)))
    }

    /// Opens the container in `file`.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    #[boxed]
    pub async fn from_file(file: RangedFile) -> Result<Self> {
        let tet = TetFile::open(file).await?;
        let metadata = {
            let parsed = tet.view()?;
            Metadata::parse(parsed.footer().and_then(|footer| footer.metadata()))
        };
        Ok(Self { tet, metadata: Arc::new(metadata) })
    }

    /// Returns the underlying file.
    pub fn bytes(&self) -> &RangedFile {
        self.tet.bytes()
    }

    /// Returns superblock, directory, index and footer of the layer below.
    pub const fn container(&self) -> &TetFile {
        &self.tet
    }

    /// Returns the metadata of the file and its tensors.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Returns the memory budget that the file requests from readers.
    pub fn memory_budget(&self) -> MemoryBudget {
        self.tet.memory_budget()
    }

    /// Returns the tensors, by id.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = Tensor<'_>> {
        self.tet.datasets().iter().map(|dataset| Tensor { file: self, dataset })
    }

    /// Returns the first tensor of exactly this name.
    ///
    /// # Errors
    ///
    /// [`Class::NotFound`] when there is none.
    pub fn tensor(&self, name: &str) -> Result<Tensor<'_>> {
        let dataset = self.tet.find(name).ok_or_else(|| {
            Error::new(Class::NotFound, "dataset", "the name of a dataset of the file", quote(name))
        })?;
        Ok(Tensor { file: self, dataset })
    }
}

impl<'f> Tensor<'f> {
    /// Returns its position in the directory.
    pub const fn id(&self) -> u32 {
        self.dataset.id()
    }

    /// Returns its name as stored: escape it before printing it, and check it before deriving a
    /// path from it.
    pub fn name(&self) -> &'f str {
        self.dataset.name()
    }

    /// Returns its element type, or `None` if this build does not support it.
    pub fn element(&self) -> Option<TensorDtype> {
        self.dataset.element()
    }

    /// Returns its extents.
    pub fn shape(&self) -> &'f [u64] {
        self.dataset.shape()
    }

    /// Returns the extents of one chunk, which may exceed those of the tensor.
    pub fn chunk_shape(&self) -> &'f [u64] {
        self.dataset.chunk_shape()
    }

    /// Returns the dataset of the layer below.
    pub const fn dataset(&self) -> &'f TetDataset {
        self.dataset
    }

    /// Resolves `slice` along each axis.
    ///
    /// # Errors
    ///
    /// When it has another number of axes, or a label that the axis does not have.
    pub fn axes(&self, slice: &Slice) -> Result<Vec<AxisSlice>> {
        let about = self.file.metadata.tensor(self.name());
        let label = |axis: usize, text: &str| about?.label(axis, text);
        slice.axes(self.shape(), label).map_err(|error| in_dataset(error, self.name()))
    }

    pub(crate) fn geometry(&self) -> Result<TileGeometry> {
        self.dataset.geometry().map_err(|error| in_dataset(error, self.name()))
    }

    /// Reads the elements of `slice` into new memory.
    ///
    /// # Errors
    ///
    /// When the slice does not fit; [`Class::LimitExceeded`], before anything is decoded, when it
    /// or one of its chunks is more than `memory` allows; otherwise when a chunk has no row, cannot
    /// be read, or does not decode to the length in its row.
    #[boxed]
    pub async fn slice(&self, slice: &Slice, memory: &Memory) -> Result<Array> {
        let axes = self.axes(slice)?;
        let max_bytes = memory.limit(self.file.memory_budget());
        let geometry = self.geometry()?;
        let read = async {
            if geometry.is_empty() && slice.cuts().is_empty() {
                return Ok((Bytes::new(), geometry.shape().to_vec()));
            }
            let bytes = self.file.tet.read(self.dataset, &axes, max_bytes).await?;
            let lookup = self.file.tet.lookup(self.dataset)?;
            Ok((bytes, lookup.select(&axes)?.selection().shape().to_vec()))
        };
        let (bytes, shape) = read.await.map_err(|error: Error| in_dataset(error, self.name()))?;
        Ok(Array::new(geometry.element(), shape, bytes))
    }

    /// Returns the elements of `slice` as one span of the file, if they are contiguous and in order
    /// there, and the file is in memory or mapped.
    ///
    /// # Errors
    ///
    /// When the slice does not fit.
    pub fn dense_view(&self, slice: &Slice) -> Result<Option<View>> {
        self.with_plan(slice, |plan| {
            let bytes = self.file.tet.dense_view(plan)?;
            Some(self.view(plan.selection().shape().to_vec(), None, bytes, plan))
        })
    }

    /// Returns the elements of `slice` inside one raw chunk, with its strides, if the file is in
    /// memory or mapped.
    ///
    /// # Errors
    ///
    /// When the slice does not fit.
    pub fn strided_view(&self, slice: &Slice) -> Result<Option<View>> {
        self.with_plan(slice, |plan| {
            let (bytes, view) = self.file.tet.strided_view(plan)?;
            let strides = Some(view.strides().to_vec());
            Some(self.view(view.shape().to_vec(), strides, bytes, plan))
        })
    }

    /// Returns every element of `slice` once, in the order of the chunks, if they are contiguous
    /// and the file is in memory or mapped. For results that do not depend on the order.
    ///
    /// # Errors
    ///
    /// When the slice does not fit.
    pub fn byte_stream(&self, slice: &Slice) -> Result<Option<View>> {
        self.with_plan(slice, |plan| {
            let bytes = self.file.tet.byte_stream(plan)?;
            let size = plan.selection().geometry().element().size();
            let count = to_u64(bytes.len()).checked_div(size)?;
            Some(self.view(vec![count], None, bytes, plan))
        })
    }

    /// Returns the coordinates of the chunks that `slice` touches, last axis fastest.
    ///
    /// # Errors
    ///
    /// When the slice does not fit, or a chunk of it has no row.
    pub fn touched_chunks(&self, slice: &Slice) -> Result<Vec<Vec<u64>>> {
        let coords = |plan: &TilePlan<'_, '_>| {
            let coords = plan.tiles().map(|touched| Ok(touched?.tile().coords().to_vec()));
            Some(coords.collect::<Result<Vec<_>>>())
        };
        self.with_plan(slice, coords)?.unwrap_or_else(|| Ok(Vec::new()))
    }

    fn view(
        &self,
        shape: Vec<u64>,
        strides: Option<Vec<u64>>,
        bytes: Bytes,
        plan: &TilePlan<'_, '_>,
    ) -> View {
        let array = Array::new(plan.selection().geometry().element(), shape, bytes);
        View::new(self.file.bytes().clone(), array, strides)
    }

    /// Calls `look` with the plan of a slice; returns `None` if the slice is all of a tensor
    /// without elements.
    fn with_plan<T>(
        &self,
        slice: &Slice,
        look: impl FnOnce(&TilePlan<'_, '_>) -> Option<T>,
    ) -> Result<Option<T>> {
        let axes = self.axes(slice)?;
        let plan = || {
            let lookup = self.file.tet.lookup(self.dataset)?;
            if lookup.geometry().is_empty() && slice.cuts().is_empty() {
                return Ok(None);
            }
            Ok(look(&lookup.select(&axes)?))
        };
        plan().map_err(|error: Error| in_dataset(error, self.name()))
    }
}

/// Runs a future that never waits: the bytes are in memory.
fn run_ready<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(done) => done,
        std::task::Poll::Pending => {
            Err(Error::new(Class::Unavailable, "file", "bytes that are there", "others"))
        }
    }
}
