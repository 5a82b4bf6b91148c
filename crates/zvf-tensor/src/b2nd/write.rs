//! Writing a block array, chunk by chunk, as one file or as a folder.
//!
//! ```text
//! frame     header (written last) | chunks as they come | offsets | trailer
//! folder    chunks.b2frame: header (written last) | offsets | trailer; 00000000.chunk, 00000001.chunk, ...
//! ```
//!
//! Items outside the array or the chunk are stored as zeros. A chunk of zeros is stored only as an
//! entry of the offsets chunk. Memory holds the offsets and the chunks that are being compressed.
//! The same calls give the same bytes.
//!
//! Editing an existing array is in [`BlockEdit`](super::BlockEdit).

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};
use zvf_b2nd::{
    BlockGeometry, BlockPart, Body, ChunkFile, ChunkHeader, ChunkPart, ChunkPlace, FrameKind,
    FrameTrailer, Special, encode_offsets,
};
use zvf_blosc::{Encoder, constant_chunk};
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::{saturating_usize, to_u64, usize_from_u32};
use zvf_publish::{CommitGate, StagingDir};

use super::new::NewBlocks;
use crate::error::{finish_with_start, request_error, write_error};
use crate::publish::{AtomicTensorFile, new_folder};

/// The constant value of an array.
///
/// ```
/// assert_ne!(zvf_tensor::Constant::Zeros, zvf_tensor::Constant::Item(vec![0; 4]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Constant {
    /// Zero bytes.
    Zeros,
    /// NaN, in floats of 4 or 8 bytes.
    Nan,
    /// This item.
    Item(Vec<u8>),
}

/// A block array being written.
///
/// ```
/// use std::io::Cursor;
/// use zvf_tensor::{BlockArray, BlockWriter, NewBlocks};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// let new = NewBlocks::new(&[3, 5], &[2, 4], &[2, 2], 1)?.with_dtype("|u1");
/// let mut writer = BlockWriter::frame(Cursor::new(Vec::new()), new)?;
/// assert_eq!(writer.next_box(), Some((vec![0, 0], vec![2, 4])));
/// writer.put_array(b"abcdefghijklmno")?;
/// let bytes = writer.finish()?.into_inner();
///
/// let array = BlockArray::from_file(zvf_store::RangedFile::from_bytes(bytes.into())).await?;
/// let part = array.slice(&"1:3,3:5".parse()?, &Default::default()).await?;
/// assert_eq!(part.bytes()[..], *b"ijno");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct BlockWriter<W> {
    new: NewBlocks,
    out: W,
    // The staging folder for the chunks of a sparse frame, which is synced as a whole, with all
    // names, when it is published.
    folder: Option<PathBuf>,
    header_len: u32,
    data: u64, // bytes of all chunks
    places: Vec<ChunkPlace>,
    encoder: Encoder,
}

impl<W: Write + Seek> BlockWriter<W> {
    /// Begins an array in one file, `out`.
    ///
    /// # Errors
    ///
    /// When the header would be refused, or `out` is not seekable.
    pub fn frame(out: W, new: NewBlocks) -> Result<Self> {
        Self::begin(out, new, None)
    }

    fn begin(mut out: W, new: NewBlocks, folder: Option<PathBuf>) -> Result<Self> {
        let kind = if folder.is_some() { FrameKind::Sparse } else { FrameKind::Contiguous };
        let header = new.header(kind, 0, PLACEHOLDER)?;
        let header_len = u32::try_from(header.len()).unwrap_or(u32::MAX); // parsed, so it fits
        out.seek(SeekFrom::Start(header_len.into())).map_err(write_error)?;
        let (places, encoder) = (Vec::new(), Encoder::default());
        Ok(Self { new, out, folder, header_len, data: 0, places, encoder })
    }

    /// Returns the description of the array.
    pub const fn array(&self) -> &NewBlocks {
        &self.new
    }

    /// Returns the box of the next chunk, with an exclusive end; `None` when all are written.
    pub fn next_box(&self) -> Option<(Vec<u64>, Vec<u64>)> {
        let geometry = self.new.geometry();
        let at = geometry.chunk_coordinate(to_u64(self.places.len()))?;
        Some(chunk_box(geometry, at.as_slice()))
    }

    /// Writes the next chunk: the items of its box, in C order.
    ///
    /// # Errors
    ///
    /// When all are written, `items` has another length than the box, or it cannot be encoded or
    /// written.
    pub fn put_chunk(&mut self, items: &[u8]) -> Result<()> {
        let Some((start, stop)) = self.next_box() else { return Err(no_more_error()) };
        let geometry = *self.new.geometry();
        let selection = geometry.select(&start, &stop)?;
        check_len("bytes of a chunk", selection.bytes(), items.len())?;
        let part = selection.chunks().next().ok_or_else(no_more_error)?;
        let chunk = encode_chunk(&mut self.encoder, &self.new, &part, items)?;
        self.put(&chunk)
    }

    /// Writes all chunks from the items of the array, in C order, compressing several at once on
    /// the current rayon pool.
    ///
    /// # Errors
    ///
    /// As [`put_chunk`](Self::put_chunk), and when `items` has another length than the array, or
    /// one of its chunks was written before.
    pub fn put_array(&mut self, items: &[u8]) -> Result<()> {
        let geometry = *self.new.geometry();
        let all = geometry.select_all()?;
        check_len("bytes of an array", all.bytes(), items.len())?;
        if !self.places.is_empty() {
            return Err(request_error("array", "one without chunks yet", "some"));
        }
        let at_once = (WAVE / usize_from_u32(geometry.chunk_size()).max(1)).max(1);
        let mut parts = all.chunks();
        loop {
            let wave: Vec<ChunkPart<'_>> = parts.by_ref().take(at_once).collect();
            if wave.is_empty() {
                return Ok(());
            }
            let new = &self.new;
            let encode = |encoder: &mut Encoder, part| encode_chunk(encoder, new, &part, items);
            let chunks: Result<Vec<_>> =
                wave.into_par_iter().map_init(Encoder::default, encode).collect();
            for chunk in chunks? {
                self.put(&chunk)?;
            }
        }
    }

    /// Fills all items that were not written.
    ///
    /// # Errors
    ///
    /// When the constant is NaN and items do not have 4 or 8 bytes, or the length of the item is
    /// not that of an item of the array.
    pub fn fill(&mut self, constant: &Constant) -> Result<()> {
        let geometry = *self.new.geometry();
        let item_size = geometry.item_size();
        let chunk = match constant {
            Constant::Zeros => Err(ChunkPlace::Zeros),
            Constant::Nan if item_size == 4 || item_size == 8 => Err(ChunkPlace::Nan),
            Constant::Nan => {
                return Err(request_error("NaN", "items of 4 or 8 bytes", "others"));
            }
            Constant::Item(item) => {
                check_len("bytes of an item", item_size.into(), item.len())?;
                let (size, settings) = (geometry.chunk_size(), self.new.coding());
                let special = Special::Value(item_size);
                Ok(constant_chunk(special, item, usize_from_u32(size), settings)?)
            }
        };
        while to_u64(self.places.len()) < geometry.chunk_count() {
            match &chunk {
                Ok(chunk) => self.put(chunk)?,
                Err(place) => self.places.push(*place),
            }
        }
        Ok(())
    }

    /// Writes offsets, trailer and header, and returns the file.
    ///
    /// # Errors
    ///
    /// When a chunk is missing, or something cannot be written.
    pub fn finish(mut self) -> Result<W> {
        let (chunk_count, found) = (self.new.geometry().chunk_count(), self.places.len());
        check_len("chunks", chunk_count, found)?;
        let offsets = if self.places.is_empty() {
            Vec::new()
        } else {
            encode_offsets(self.header_len, &self.places)?
        };
        let trailer = FrameTrailer::encode(&self.new.user())?;
        let (kind, inside) = match self.folder {
            None => (FrameKind::Contiguous, self.data),
            Some(_) => (FrameKind::Sparse, 0),
        };
        let tail = to_u64(offsets.len()) + to_u64(trailer.len());
        let frame_len = (u64::from(self.header_len) + inside) + tail;
        let header = self.new.header(kind, self.data, frame_len)?;
        self.out.write_all(&offsets).map_err(write_error)?;
        self.out.write_all(&trailer).map_err(write_error)?;
        finish_with_start(self.out, &header)
    }

    /// Writes an encoded chunk; a chunk of zeros only as a place.
    pub(super) fn put(&mut self, chunk: &[u8]) -> Result<()> {
        if ChunkHeader::parse(chunk)?.body() == Body::Special(Special::Zeros) {
            self.places.push(ChunkPlace::Zeros);
            return Ok(());
        }
        let Some(folder) = &self.folder else {
            self.out.write_all(chunk).map_err(write_error)?;
            let at = u64::from(self.header_len) + self.data;
            self.count(to_u64(chunk.len()), ChunkPlace::Frame(at));
            return Ok(());
        };
        let name = self.next_file()?;
        let path = folder.join(name.to_string());
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        let written = file.and_then(|mut file| {
            file.write_all(chunk)?;
            file.sync_all()
        });
        written.map_err(write_error)?;
        self.count(to_u64(chunk.len()), ChunkPlace::File(name));
        Ok(())
    }

    /// Adds a place that needs no bytes.
    pub(super) fn put_place(&mut self, place: ChunkPlace) {
        self.places.push(place);
    }

    /// Adds the file of a chunk of another sparse frame, unchanged.
    pub(super) fn put_file(&mut self, from: &Path) -> Result<()> {
        let (name, Some(folder)) = (self.next_file()?, &self.folder) else {
            return Err(no_more_error());
        };
        let to = folder.join(name.to_string());
        if std::fs::hard_link(from, &to).is_err() {
            std::fs::copy(from, &to).map_err(write_error)?;
        }
        let len = to.metadata().map_err(write_error)?.len();
        self.count(len, ChunkPlace::File(name));
        Ok(())
    }

    /// Returns the file of the next chunk.
    fn next_file(&self) -> Result<ChunkFile> {
        let number = u32::try_from(self.places.len());
        number.map(ChunkFile).map_err(|_more_than_offsets_have| no_more_error())
    }

    /// Adds the place of a stored chunk of `len` bytes.
    fn count(&mut self, len: u64, place: ChunkPlace) {
        self.data += len;
        self.places.push(place);
    }
}

/// A block array under construction at a path, where it appears once it is complete.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("zeros.b2nd");
/// use zvf_tensor::{BlockFile, Constant, NewBlocks};
///
/// let new = NewBlocks::new(&[1000, 1000], &[100, 100], &[10, 100], 8)?.with_dtype("<f8");
/// let mut file = BlockFile::create(&path, new, false, false)?;
/// file.writer().fill(&Constant::Zeros)?;
/// assert!(!path.exists());
/// file.publish()?;
/// assert!(path.metadata()?.len() < 2000);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct BlockFile {
    writer: BlockWriter<File>,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Frame(AtomicTensorFile),
    Sparse(StagingDir),
}

impl BlockFile {
    /// Begins the array at `path`: a file, or if `sparse`, a folder with one file per chunk. An
    /// existing array is replaced only if `replace`.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` when the path exists and `replace` is false; otherwise when the header would
    /// be refused or the folder cannot be written.
    pub fn create(path: &Path, new: NewBlocks, sparse: bool, replace: bool) -> Result<Self> {
        Self::create_gated(path, new, sparse, replace, &CommitGate::default())
    }

    /// Begins the array as [`create`](Self::create); `gate` is passed right before the array
    /// becomes visible.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    pub fn create_gated(
        path: &Path,
        new: NewBlocks,
        sparse: bool,
        replace: bool,
        gate: &CommitGate,
    ) -> Result<Self> {
        if !sparse {
            let mut file = AtomicTensorFile::create_gated(path, replace, gate)?;
            let out = file.file().try_clone().map_err(write_error)?;
            return Ok(Self { writer: BlockWriter::frame(out, new)?, place: Place::Frame(file) });
        }
        let folder = new_folder(path, replace, super::frame::INDEX, gate)?;
        let index = folder.path().join(super::frame::INDEX);
        let out =
            OpenOptions::new().write(true).create_new(true).open(index).map_err(write_error)?;
        let writer = BlockWriter::begin(out, new, Some(folder.path().to_owned()))?;
        Ok(Self { writer, place: Place::Sparse(folder) })
    }

    /// Returns the writer of chunks.
    pub const fn writer(&mut self) -> &mut BlockWriter<File> {
        &mut self.writer
    }

    /// Finishes the array and renames it to its path.
    ///
    /// # Errors
    ///
    /// When a chunk is missing, another object took the name, or something cannot be written.
    pub fn publish(self) -> Result<()> {
        let file = self.writer.finish()?;
        file.sync_all().map_err(write_error)?;
        match self.place {
            Place::Frame(new) => new.publish(),
            Place::Sparse(new) => Ok(new.publish()?),
        }
    }
}

/// Encodes the chunk of `part` from `items`, which are all items of its selection.
fn encode_chunk(
    encoder: &mut Encoder,
    new: &NewBlocks,
    part: &ChunkPart<'_>,
    items: &[u8],
) -> Result<Vec<u8>> {
    let geometry = new.geometry();
    let size = usize_from_u32(geometry.block_size());
    let mut padded = vec![0; usize_from_u32(geometry.chunk_size())];
    for block in part.blocks() {
        fill_block(&block, items, &mut padded[size * usize_from_u32(block.number())..]);
    }
    Ok(encoder.encode_blosc2(&padded, new.coding())?)
}

/// Copies the items of a block from a selection.
pub(crate) fn fill_block(block: &BlockPart<'_>, items: &[u8], target: &mut [u8]) {
    for run in block.runs() {
        let [to, from, len] = [run.from, run.to, run.len].map(saturating_usize);
        target[to..to + len].copy_from_slice(&items[from..from + len]);
    }
}

/// Returns the first item of the chunk at these coordinates, and the end of the chunk.
pub(crate) fn chunk_box(geometry: &BlockGeometry, at: &[u64]) -> (Vec<u64>, Vec<u64>) {
    let chunk = geometry.chunkshape();
    let start: Vec<u64> = at.iter().zip(chunk.as_slice()).map(|(at, n)| at * n).collect();
    let ends = start.iter().zip(chunk.as_slice()).zip(geometry.shape().as_slice());
    // A partition keeps the sum of an extent and one of its chunks below 2^63.
    let stop = ends.map(|((at, n), end)| (at + n).min(*end)).collect();
    (start, stop)
}

/// Compares a number with the expected one.
fn check_len(what: &'static str, expected_len: u64, found: usize) -> Result<()> {
    if to_u64(found) == expected_len {
        return Ok(());
    }
    Err(Error::new(Class::InvalidArgument, what, expected_len, found))
}

fn no_more_error() -> Error {
    request_error("chunk", "one of the array that is not written", "another")
}

/// The assumed length of an unfinished frame: enough for any header.
const PLACEHOLDER: u64 = 1 << 40;
/// Total uncompressed length in bytes of the chunks that are compressed at once.
const WAVE: usize = 32 << 20;
