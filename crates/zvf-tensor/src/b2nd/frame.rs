//! An open frame: its geometry, the places of its chunks, and user metadata.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use object_store::ObjectStore;
use object_store::path::Path;
use zvf_b2nd::{
    BlockGeometry, ChunkHeader, ChunkPlace, Container, FixedHeader, Frame, FrameTrailer,
};
use zvf_blosc::{Chunk, Decoder, Layout, StoredParts};
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::saturating_usize;
use zvf_store::{OpenOptions, RangedFile};

/// An open Caterva or B2ND array; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/caterva/frames/cat_seed_2d_i4.caterva");
/// use zvf_tensor::BlockArray;
///
/// let array = BlockArray::open(path, &Default::default()).await?;
/// assert_eq!((array.shape(), array.chunk_shape(), array.block_shape()), (&[7, 5][..], &[4, 3][..], &[2, 2][..]));
/// assert_eq!(array.dtype(), None, "Caterva knows the size of an item and not its type");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct BlockArray(Arc<OpenedFrame>);

#[derive(Debug)]
struct OpenedFrame {
    file: RangedFile,
    start: u64, // of the frame in the file
    container: Container,
    header: Bytes, // checked when opened, as the tail was
    tail: Bytes,
    offsets: Option<Offsets>, // `None` without chunks
    geometry: BlockGeometry,
    dtype: Option<Box<str>>,
    folder: Option<(FrameAddress, OpenOptions)>, // of a sparse frame
    decoders: Mutex<Vec<Decoder>>, // idle ones: at most as many as were ever used at once
}

/// The offsets chunk, decoded on demand.
#[derive(Debug)]
struct Offsets {
    layout: Layout,
    stored: Bytes,
}

/// Where a frame is: a file, or the folder of the chunk files of a sparse frame.
#[derive(Debug)]
enum FrameAddress {
    Address(String),
    Objects(Arc<dyn ObjectStore>, Path),
}

impl FrameAddress {
    /// Opens the file `name` of the folder, or without a name the file itself.
    async fn file(&self, name: Option<&str>, options: &OpenOptions) -> Result<RangedFile> {
        match (self, name) {
            (Self::Address(address), None) => RangedFile::open(address, options).await,
            (Self::Address(address), Some(name)) => {
                let address = format!("{}/{name}", address.trim_end_matches('/'));
                RangedFile::open(&address, options).await
            }
            (Self::Objects(store, path), name) => {
                let path = name.map_or(path.clone(), |name| Path::from(format!("{path}/{name}")));
                RangedFile::from_object_store(Arc::clone(store), &path, options).await
            }
        }
    }
}

impl BlockArray {
    /// Opens the array at `address`: a path or URL of a frame, or of the directory of a sparse one.
    ///
    /// # Errors
    ///
    /// When it does not exist, is not a frame of an array, or cannot be read.
    #[boxed]
    pub async fn open(address: &str, options: &OpenOptions) -> Result<Self> {
        Self::open_at(FrameAddress::Address(address.to_owned()), options).await
    }

    /// Opens the frame, or the sparse frame, at `path` of the caller's own backend.
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
        Self::open_at(FrameAddress::Objects(store, path.clone()), options).await
    }

    /// Opens the frame in `file`.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    #[boxed]
    pub async fn from_file(file: RangedFile) -> Result<Self> {
        let container = Container::File(file.len());
        Self::begin(file, 0, container, None).await
    }

    /// Opens the frame that begins at byte `start` of a larger file.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    #[boxed]
    pub async fn open_embedded(file: RangedFile, start: u64) -> Result<Self> {
        let container = Container::Embedded(file.len().saturating_sub(start)); // nothing follows the frame
        Self::begin(file, start, container, None).await
    }

    async fn open_at(place: FrameAddress, options: &OpenOptions) -> Result<Self> {
        match place.file(None, options).await {
            Ok(file) => Self::from_file(file).await,
            Err(error) if error.class() == Class::NotFound => {
                let file = place.file(Some(INDEX), options).await.map_err(|_no_folder| error)?;
                let container = Container::Directory(file.len());
                Self::begin(file, 0, container, Some((place, options.clone()))).await
            }
            Err(error) => Err(error),
        }
    }

    async fn begin(
        file: RangedFile,
        start: u64,
        container: Container,
        folder: Option<(FrameAddress, OpenOptions)>,
    ) -> Result<Self> {
        let read = async |range: std::ops::Range<u64>| {
            // Saturates to a position beyond the end.
            let shifted = start.saturating_add(range.start)..start.saturating_add(range.end);
            // Copied before the check, because bytes of a map may change.
            file.read(shifted).await.map(|bytes| Bytes::copy_from_slice(&bytes))
        };
        let room = file.len().saturating_sub(start); // none: too short for a header
        let front = read(0..room.min(FRONT)).await?;
        let fixed = FixedHeader::parse(&front)?;
        fixed.check_container(container)?;
        let header = read(fixed.header_range()).await?;
        let tail = read(fixed.tail_range()).await?;
        let (geometry, dtype, offsets) = {
            let frame = Frame::open(container, &header, &tail)?;
            let offsets = match frame.offsets_head() {
                None => None,
                Some(head) => {
                    let end = frame.trailer_range().start;
                    let head = ChunkHeader::parse(&read(head.start..head.end.min(end)).await?)?;
                    let stored = read(frame.offsets_range(&head)?).await?;
                    let chunk = Chunk::parse(&stored)?;
                    let layout = chunk.layout().clone();
                    Some(Offsets { layout, stored: stored.clone() })
                }
            };
            let dtype = frame.metalayer().dtype_text().map(Into::into);
            (*frame.geometry(), dtype, offsets)
        };
        file.check()?;
        let array = Self(Arc::new(OpenedFrame {
            file,
            start,
            container,
            header,
            tail,
            offsets,
            geometry,
            dtype,
            folder,
            decoders: Mutex::default(),
        }));
        array.check_places()?;
        Ok(array)
    }

    /// Checks that every entry of the offsets chunk is a valid place.
    fn check_places(&self) -> Result<()> {
        let frame = self.frame()?;
        let mut places = self.places();
        (0..self.0.geometry.chunk_count())
            .try_for_each(|number| places.get(&frame, number).map(drop))
    }

    /// Returns the frame, whose header and tail were checked on opening.
    pub(super) fn frame(&self) -> Result<Frame<'_>> {
        Ok(Frame::open(self.0.container, &self.0.header, &self.0.tail)?)
    }

    /// Lends a decoder of blocks, an idle one if there is one: its buffers are as large as blocks.
    pub(super) fn with_decoder(&self, work: impl FnOnce(&mut Decoder)) {
        let idle = lock_shared(&self.0.decoders).pop();
        let mut decoder = idle.unwrap_or_else(|| {
            // No block is larger, because every chunk is checked against the geometry.
            let cap = self.0.geometry.block_size().into();
            Decoder::new(cap).with_item_size(self.item_size())
        });
        work(&mut decoder);
        lock_shared(&self.0.decoders).push(decoder);
    }

    /// Returns a reader of chunk places; reading them in ascending order is fastest.
    pub(super) fn places(&self) -> Places<'_> {
        let decoder = Decoder::new(LARGEST_WINDOW);
        Places { offsets: self.0.offsets.as_ref(), decoder, window: Vec::new(), first: 0 }
    }

    /// Returns the file of the frame.
    pub(super) fn file(&self) -> &RangedFile {
        &self.0.file
    }

    /// Returns the position in the file of a byte of the frame. Saturates to a position beyond the
    /// end.
    pub(super) fn position(&self, at: u64) -> u64 {
        self.0.start.saturating_add(at)
    }

    /// Returns whether each chunk is a separate file in the folder of the frame.
    pub fn is_sparse(&self) -> bool {
        self.0.folder.is_some()
    }

    /// Reads the stored bytes of the chunk at `position` of the frame.
    pub(super) async fn stored_chunk(&self, frame: &Frame<'_>, position: u64) -> Result<Bytes> {
        let start = self.position(position);
        let room = frame.room(position);
        let span = |len: u64| start..start.saturating_add(len); // too large: beyond the end
        let front = self.0.file.read(span(frame.chunk_front(room))).await?;
        let header = ChunkHeader::parse(&front)?;
        frame.check_chunk(&header, room)?;
        self.0.file.read(span(header.cbytes().into())).await
    }

    /// Opens the file of one chunk of a sparse frame.
    pub(super) async fn chunk_file(&self, name: &str) -> Result<RangedFile> {
        match &self.0.folder {
            Some((place, options)) => place.file(Some(name), options).await,
            None => {
                Err(Error::new(Class::BadTag, "chunk", "a chunk in the frame", "one in a file"))
            }
        }
    }

    /// Returns the geometry of chunks and blocks.
    pub fn geometry(&self) -> &BlockGeometry {
        &self.0.geometry
    }

    /// Returns the extents.
    pub fn shape(&self) -> &[u64] {
        self.0.geometry.shape().as_slice()
    }

    /// Returns the extents of a chunk.
    pub fn chunk_shape(&self) -> &[u64] {
        self.0.geometry.chunkshape().as_slice()
    }

    /// Returns the extents of a block.
    pub fn block_shape(&self) -> &[u64] {
        self.0.geometry.blockshape().as_slice()
    }

    /// Returns the bytes of an item.
    pub fn item_size(&self) -> u32 {
        self.0.geometry.item_size()
    }

    /// Returns the NumPy name of the item type, if the array states it.
    pub fn dtype(&self) -> Option<&str> {
        self.0.dtype.as_deref()
    }

    /// Returns the metalayers of the header except the array's own: name and content.
    ///
    /// # Errors
    ///
    /// Only the errors of opening.
    pub fn metalayers(&self) -> Result<Vec<(Vec<u8>, Bytes)>> {
        let frame = self.frame()?;
        let metalayer_name = frame.metalayer().name().text().as_bytes();
        let entries = frame.header().metalayers().filter(|entry| entry.name != metalayer_name);
        let entry = |entry: zvf_b2nd::Entry<'_>| {
            (entry.name.to_vec(), self.0.header.slice_ref(entry.content))
        };
        Ok(entries.map(entry).collect())
    }

    /// Returns the user metadata in the trailer: name and decoded content.
    ///
    /// # Errors
    ///
    /// When the trailer cannot be read, or an entry does not decode to at most `max_bytes`.
    #[boxed]
    pub async fn user_metadata(&self, max_bytes: u64) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let decoded = |(name, content): (Vec<u8>, Bytes)| {
            Ok((name, Chunk::parse(&content).and_then(|chunk| chunk.decode_all(max_bytes))?))
        };
        self.stored_metadata().await?.into_iter().map(decoded).collect()
    }

    /// Returns the user metadata in the trailer: name and content, each a chunk.
    pub(super) async fn stored_metadata(&self) -> Result<Vec<(Vec<u8>, Bytes)>> {
        let range = self.frame()?.trailer_range();
        let bytes = self.0.file.read(self.position(range.start)..self.position(range.end)).await?;
        let trailer = FrameTrailer::parse(&bytes)?;
        let entry = |entry: zvf_b2nd::Entry<'_>| {
            (entry.name.to_vec(), Bytes::copy_from_slice(entry.content))
        };
        Ok(trailer.entries().map(entry).collect())
    }
}

/// Reads the places of chunks, one decoded window at a time.
pub(super) struct Places<'a> {
    offsets: Option<&'a Offsets>,
    decoder: Decoder,
    window: Vec<u8>,
    first: u64, // the offset of the window in the decoded table
}

impl Places<'_> {
    /// Returns the place of chunk `number`.
    pub(super) fn get(&mut self, frame: &Frame<'_>, number: u64) -> Result<ChunkPlace> {
        let at = number.saturating_mul(ENTRY); // too large: beyond the end of the table
        let entry = match self.entry(at) {
            Some(entry) => entry,
            None => {
                self.fill(at)?;
                self.entry(at).ok_or_else(|| {
                    Error::new(Class::CountMismatch, "offsets", "an entry for each chunk", "fewer")
                })?
            }
        };
        Ok(frame.place(entry)?)
    }

    fn entry(&self, at: u64) -> Option<[u8; 8]> {
        let from = saturating_usize(at.checked_sub(self.first)?);
        self.window.get(from..)?.first_chunk::<8>().copied()
    }

    fn fill(&mut self, at: u64) -> Result<()> {
        let Some(offsets) = self.offsets else { return Ok(()) };
        let len = offsets.layout.decoded_len();
        // From the start of a block, so that no block is decoded twice.
        let step = u64::from(offsets.layout.header().blocksize()).clamp(WINDOW, LARGEST_WINDOW);
        let start = at - at % step;
        let end = start.saturating_add(step).min(len);
        let stored = StoredParts::new(vec![(0, &offsets.stored)]);
        self.window = self.decoder.decode_range(&offsets.layout, &stored, start.min(end)..end)?;
        self.first = start;
        Ok(())
    }
}

pub(super) const INDEX: &str = "chunks.b2frame";
/// The bytes read for a header: its fixed part, and usually all of it.
const FRONT: u64 = 512;
const ENTRY: u64 = 8;
/// The decoded bytes of the offsets chunk that are kept: a block, as other writers make it.
const WINDOW: u64 = 16 << 10;
/// The limit for larger blocks of other writers.
const LARGEST_WINDOW: u64 = 64 << 20;

/// Locks data that tasks share; a task that panicked left it consistent.
pub(super) fn lock_shared<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
