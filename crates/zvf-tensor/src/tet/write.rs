//! Writing a `.tet` file: payloads one after the other, the index last.
//!
//! ```text
//! 0              superblock, directory, index    written by finish, when every size is known
//! 64, 128, ...   payloads in grid order          as they come; zeros between them
//! end            footer of version 1             when there is one
//! ```
//!
//! Memory holds the rows of the index and the chunks that are being compressed. A chunk is stored
//! compressed only if that is smaller. The same calls give the same bytes: nothing depends on a
//! clock.
//!
//! The output is anything that implements `Write` and `Seek`, such as [`crate::AtomicTensorFile`].

use std::io::{Seek, SeekFrom, Write};

use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};
use serde_json::json;
use zvf_error::{Error, Result};
use zvf_format::num::{saturating_usize, to_u64};
use zvf_format::{Class, Expected};
use zvf_tet::{
    CopyRun, DatasetSpec, MemoryBudget, TensorCodec, TensorDtype, TetLayout, Tile, TileGeometry,
    TileSelection, encode_footer,
};

use super::file::TensorFile;
use super::metadata::Metadata;
use crate::error::{finish_with_start, in_dataset, request_error, write_error};

/// The description of a tensor to write.
///
/// ```
/// use zvf_tet::TensorDtype;
/// use zvf_tensor::{Compression, NewTensor};
///
/// let grid = NewTensor::new("grid", TensorDtype::F32, &[7, 5], &[3, 2])?;
/// let grid = grid.with_compression(Compression::Zstd(3));
/// assert_eq!(grid.geometry().tile_count(), 9);
/// # Ok::<(), zvf_error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTensor {
    name: Box<str>,
    geometry: TileGeometry,
    alignment: u64,
    compression: Compression,
}

/// How payloads are stored.
///
/// ```
/// assert_eq!(zvf_tensor::Compression::default(), zvf_tensor::Compression::None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// Uncompressed; can be read from a map without a copy.
    #[default]
    None,
    /// One zstd frame per payload at this level, if that is smaller.
    Zstd(i32),
}

impl NewTensor {
    /// Describes a tensor whose payloads are not compressed and start at multiples of 64.
    ///
    /// # Errors
    ///
    /// When the ranks differ or are not 1 to 8, a chunk extent is 0, or the bytes do not fit in 64
    /// bits.
    pub fn new(
        name: &str,
        element: TensorDtype,
        shape: &[u64],
        chunk_shape: &[u64],
    ) -> Result<Self> {
        let geometry = TileGeometry::new(element, shape, chunk_shape).ok_or_else(|| {
            let rule = "1 to 8 axes of both, chunks that are not empty, less than 2^64 bytes";
            in_dataset(Error::new(Class::BadShape, "shape", rule, "others"), name)
        })?;
        Ok(Self::from_geometry(name, geometry))
    }

    pub(crate) fn from_geometry(name: &str, geometry: TileGeometry) -> Self {
        let (alignment, compression) = (ALIGNMENT, Compression::None);
        Self { name: name.into(), geometry, alignment, compression }
    }

    /// Sets the compression.
    #[must_use]
    pub fn with_compression(self, compression: Compression) -> Self {
        Self { compression, ..self }
    }

    /// Sets the alignment of payloads to this power of two.
    #[must_use]
    pub fn with_alignment(self, alignment: u64) -> Self {
        Self { alignment, ..self }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns grid, tiles and type.
    pub const fn geometry(&self) -> &TileGeometry {
        &self.geometry
    }

    /// Returns the compression.
    pub const fn compression(&self) -> Compression {
        self.compression
    }

    fn spec(&self) -> DatasetSpec<'_> {
        DatasetSpec::new(&self.name, self.geometry).with_alignment(self.alignment)
    }
}

/// A `.tet` file being written.
///
/// ```
/// use std::io::Cursor;
/// use zvf_tet::TensorDtype;
/// use zvf_tensor::{Memory, NewTensor, Slice, TensorFile, TetWriter};
///
/// let counts = NewTensor::new("counts", TensorDtype::U8, &[5], &[3])?;
/// let mut writer = TetWriter::new(Cursor::new(Vec::new()), vec![counts], Default::default())?;
/// writer.put_tensor(b"abcde")?;
/// let bytes = writer.finish(None)?.into_inner();
///
/// let file = TensorFile::from_bytes(bytes.into())?;
/// let counts = file.tensor("counts")?;
/// assert_eq!(counts.touched_chunks(&"2:4".parse::<Slice>()?)?, [[0], [1]]);
/// # Ok::<(), zvf_error::Error>(())
/// ```
#[derive(Debug)]
pub struct TetWriter<W> {
    tensors: Vec<NewTensor>,
    layout: TetLayout,
    out: W,
    at: u64,   // bytes of `out` written or skipped
    open: u64, // bytes missing from the current payload
}

impl<W: Write + Seek> TetWriter<W> {
    /// Begins a file with these tensors, whose payloads follow in this order.
    ///
    /// # Errors
    ///
    /// When a name is invalid for a new dataset or occurs twice, an alignment is not a power of
    /// two, or `out` is not seekable.
    pub fn new(mut out: W, tensors: Vec<NewTensor>, budget: MemoryBudget) -> Result<Self> {
        let specs: Vec<DatasetSpec<'_>> = tensors.iter().map(NewTensor::spec).collect();
        let layout = TetLayout::new(&specs, budget)?;
        let at = layout.prefix_len();
        out.seek(SeekFrom::Start(at)).map_err(write_error)?;
        Ok(Self { tensors, layout, out, at, open: 0 })
    }

    /// Begins a file with the tensors of `old`, whose payloads are copied as they are stored, and
    /// with new ones, whose payloads follow. The old file is not changed.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and when a tensor of `old` has an unknown type, lacks a chunk or
    /// cannot be read.
    pub async fn append_to(out: W, old: &TensorFile, tensors: Vec<NewTensor>) -> Result<Self> {
        let mut all = Vec::new();
        for tensor in old.tensors() {
            all.push(NewTensor::from_geometry(tensor.name(), tensor.geometry()?));
        }
        all.extend(tensors);
        let mut writer = Self::new(out, all, old.memory_budget())?;
        for tensor in old.tensors() {
            let lookup = old.container().lookup(tensor.dataset())?;
            if lookup.geometry().is_empty() {
                continue;
            }
            for touched in lookup.select_all()?.tiles() {
                let row = *touched?.row();
                let stored = old.bytes().read(row.payload_offset()..row.payload_end()).await?;
                writer.place(row.codec(), to_u64(stored.len()))?;
                writer.write(&stored)?;
            }
        }
        old.bytes().check()?;
        Ok(writer)
    }

    /// Returns the tensor of the next chunk, and its coordinates; `None` when all are written.
    pub fn next_chunk(&self) -> Option<(&NewTensor, Tile)> {
        let (at, tile) = self.layout.next_tile()?;
        Some((self.tensors.get(at)?, tile))
    }

    /// Writes the next chunk: all of its elements, little-endian and row-major.
    ///
    /// # Errors
    ///
    /// When all are written, `elements` has another length than the chunk, or it cannot be
    /// compressed or written.
    pub fn put_chunk(&mut self, elements: &[u8]) -> Result<()> {
        self.check_closed()?;
        let compression = self.next_chunk().map_or(Compression::None, |(new, _)| new.compression);
        self.check_len(elements.len())?;
        let packed = compress_chunk(elements, compression)?;
        self.put_packed(elements, packed.as_deref())
    }

    /// Writes all chunks of the next tensor from its elements in memory, compressing several at
    /// once on the current rayon pool.
    ///
    /// # Errors
    ///
    /// As [`put_chunk`](Self::put_chunk), and when `elements` has another length than the tensor,
    /// or a chunk of it was written before.
    pub fn put_tensor(&mut self, elements: &[u8]) -> Result<()> {
        let Some((tensor, first)) = self.next_chunk() else { return Err(no_more_error()) };
        let (geometry, compression) = (*tensor.geometry(), tensor.compression);
        if to_u64(elements.len()) != geometry.byte_len() || first.coords().iter().any(|c| *c != 0) {
            return Err(Error::new(
                Class::InvalidArgument,
                "bytes of a tensor",
                geometry.byte_len(),
                elements.len(),
            ));
        }
        let all = TileSelection::all(&geometry)?;
        let mut next = 0;
        while next < geometry.tile_count() {
            let (mut wave, mut held) = (Vec::new(), 0_u64);
            while let Some(tile) = geometry.nth_tile(next).filter(|_| held < WAVE) {
                held += tile.byte_len();
                wave.push(tile);
                next += 1;
            }
            let pack = |tile: Tile| {
                let chunk = cut_out(elements, &all, &tile);
                compress_chunk(&chunk, compression).map(|packed| (chunk, packed))
            };
            let chunks: Result<Vec<_>> = wave.into_par_iter().map(pack).collect();
            for (chunk, packed) in chunks? {
                self.put_packed(&chunk, packed.as_deref())?;
            }
        }
        Ok(())
    }

    /// Begins the next chunk, uncompressed; its elements follow piece by piece through
    /// [`write`](Self::write).
    ///
    /// # Errors
    ///
    /// When all are written, or the current one is incomplete.
    pub fn begin_chunk(&mut self) -> Result<()> {
        let Some((_, tile)) = self.next_chunk() else { return Err(no_more_error()) };
        self.place(TensorCodec::Raw, tile.byte_len())
    }

    /// Writes the next piece of the current chunk.
    ///
    /// # Errors
    ///
    /// When the chunk has fewer bytes left, or they cannot be written.
    pub fn write(&mut self, piece: &[u8]) -> Result<()> {
        let len = to_u64(piece.len());
        if len > self.open {
            return Err(Error::new(
                Class::InvalidArgument,
                "bytes of a chunk",
                Expected::AtMost(self.open.into()),
                piece.len(),
            ));
        }
        self.out.write_all(piece).map_err(write_error)?;
        self.open -= len;
        self.at += len;
        Ok(())
    }

    /// Writes footer and index, and returns the file. The footer holds `metadata`, in the version
    /// that most readers support.
    ///
    /// # Errors
    ///
    /// When a chunk is missing, the metadata is larger than readers accept, or something cannot be
    /// written.
    pub fn finish(mut self, metadata: Option<&Metadata>) -> Result<W> {
        self.check_closed()?;
        let end = self.layout.payload_end();
        if let Some(metadata) = metadata {
            let history = json!({ "history": [], "metadata": metadata });
            let footer = encode_footer(history.to_string().as_bytes())?;
            self.pad_to(end)?;
            self.out.write_all(&footer).map_err(write_error)?;
        }
        let prefix = self.layout.finish(metadata.is_some())?;
        finish_with_start(self.out, &prefix)
    }

    fn put_packed(&mut self, elements: &[u8], packed: Option<&[u8]>) -> Result<()> {
        let (codec, stored) = match packed {
            Some(packed) => (TensorCodec::Zstd, packed),
            None => (TensorCodec::Raw, elements),
        };
        self.place(codec, to_u64(stored.len()))?;
        self.write(stored)
    }

    /// Allocates the place of the next payload, and seeks to it.
    fn place(&mut self, codec: TensorCodec, stored: u64) -> Result<()> {
        self.check_closed()?;
        let offset = self.layout.place(codec, stored)?;
        self.pad_to(offset)?;
        self.open = stored;
        Ok(())
    }

    /// Writes zeros up to `offset`.
    fn pad_to(&mut self, offset: u64) -> Result<()> {
        let mut left = offset.saturating_sub(self.at); // nothing to do beyond it
        while left > 0 {
            let some = &ZEROS[..saturating_usize(left).min(ZEROS.len())];
            self.out.write_all(some).map_err(write_error)?;
            left -= to_u64(some.len());
        }
        self.at = self.at.max(offset);
        Ok(())
    }

    fn check_closed(&self) -> Result<()> {
        if self.open == 0 {
            return Ok(());
        }
        Err(Error::new(
            Class::InvalidArgument,
            "bytes left of a chunk",
            "all bytes of a chunk",
            self.open,
        ))
    }

    fn check_len(&self, found: usize) -> Result<()> {
        let Some((tensor, tile)) = self.next_chunk() else { return Err(no_more_error()) };
        if to_u64(found) == tile.byte_len() {
            return Ok(());
        }
        let error = Error::new(Class::InvalidArgument, "bytes of a chunk", tile.byte_len(), found);
        Err(in_dataset(error, tensor.name()))
    }
}

/// Copies the elements of a tile from those of the whole tensor, all of which are in memory.
fn cut_out(elements: &[u8], all: &TileSelection, tile: &Tile) -> Vec<u8> {
    let size = all.geometry().element().size();
    let mut chunk = vec![0; saturating_usize(tile.byte_len())];
    for CopyRun { src, dst, count, .. } in all.runs(tile) {
        // All of a tensor is selected, so runs are contiguous in source and destination.
        let len = saturating_usize(count * size);
        let [src, dst] = [src, dst].map(saturating_usize);
        chunk[src..src + len].copy_from_slice(&elements[dst..dst + len]);
    }
    chunk
}

/// Compresses a chunk; `None` if that is not smaller.
fn compress_chunk(elements: &[u8], compression: Compression) -> Result<Option<Vec<u8>>> {
    let Compression::Zstd(level) = compression else { return Ok(None) };
    let packed =
        zstd::bulk::compress(elements, level).map_err(|error| Error::io("encode", error))?;
    Ok((packed.len() < elements.len()).then_some(packed))
}

fn no_more_error() -> Error {
    request_error("chunk", "no more chunks", "one more")
}

const ALIGNMENT: u64 = 64;
const ZEROS: [u8; 4096] = [0; 4096];
/// Total length in bytes of the chunks that are cut and compressed at once; a single chunk may
/// exceed it.
const WAVE: u64 = 32 << 20;
