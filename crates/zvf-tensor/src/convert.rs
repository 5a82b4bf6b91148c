//! Writes arrays in another form: `.tet`, B2ND or Caterva, Zarr v3.
//!
//! ```text
//!             chunk          block
//! .tet        chunk          -
//! B2ND        chunk          block
//! Zarr v3     shard          inner chunk
//! ```
//!
//! One chunk is in memory at a time. If the source has no blocks, they are computed: the longest
//! axis of the chunk is halved until a block has at most 64 KiB. A shard holds whole inner chunks,
//! so it may be slightly larger than the source chunk. Values keep their bits; big-endian values
//! are byte-swapped if the form cannot represent them.
//!
//! User metadata is kept only from one block array to another.

use std::path::Path;

use bytes::Bytes;
use tokio::task::yield_now;
use zvf_b2nd::{BlockGeometry, Filter, FilterSlot, Partition};
use zvf_blosc::{Blosc2Settings, Compressor, Shuffle};
use zvf_error::{Error, Result, quote};
use zvf_format::Class;
use zvf_format::num::{saturating_usize, usize_from_u32};
use zvf_metadata::{ArrayDoc, CodecSpec, DataType, Dtype, DtypeKind, FillValue};
use zvf_publish::CommitGate;
use zvf_store::{BloscSettings, Build, BuildOptions, CodecPipeline, count_shard_cells};

use crate::any::{AnyArray, TEXT_UNIT, chunk_coordinate, element_of};
use crate::b2nd::{BlockFile, NewBlocks, chunk_box, fill_block};
use crate::error::{in_dataset, request_error};
use crate::memory::Memory;
use crate::publish::AtomicTensorFile;
use crate::tet::{Compression, NewTensor, TetWriter};

/// An output form of arrays.
///
/// ```
/// use zvf_tensor::ArrayForm;
///
/// assert_eq!(ArrayForm::from_path("a/volume.b2nd"), Some(ArrayForm::B2nd));
/// assert_eq!(ArrayForm::from_path("volume"), None);
/// assert_eq!(ArrayForm::from_name("zarr"), Some(ArrayForm::Zarr));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArrayForm {
    /// A `.tet` file with one dataset.
    Tet,
    /// A B2ND frame.
    B2nd,
    /// A B2ND folder with a file for each chunk.
    B2ndFolder,
    /// A Caterva frame, which does not store the type of its items.
    Caterva,
    /// A Zarr v3 folder, sharded if chunks have blocks.
    Zarr,
}

impl ArrayForm {
    /// Returns the form with this name: `tet`, `b2nd`, `b2nd-folder`, `caterva` or `zarr`.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "tet" => Self::Tet,
            "b2nd" => Self::B2nd,
            "b2nd-folder" => Self::B2ndFolder,
            "caterva" => Self::Caterva,
            "zarr" => Self::Zarr,
            _ => return None,
        })
    }

    /// Returns the form of a file extension.
    pub fn from_path(path: &str) -> Option<Self> {
        let (_, extension) = path.trim_end_matches('/').rsplit_once('.')?;
        match extension {
            "b2frame" | "b2f" => Some(Self::B2nd),
            other => Self::from_name(other),
        }
    }
}

/// How an array is converted.
///
/// ```
/// use zvf_tensor::ConvertOptions;
///
/// let options = ConvertOptions { chunk_shape: Some(vec![64, 64]), ..Default::default() };
/// assert!(options.compressor.is_some() && !options.replace);
/// ```
#[derive(Clone, Debug)]
pub struct ConvertOptions {
    /// The extents of a chunk; `None` for those of the source.
    pub chunk_shape: Option<Vec<u64>>,
    /// The extents of a block; `None` for those of the source, or computed ones.
    pub block_shape: Option<Vec<u64>>,
    /// The compressor of chunks. In `.tet` files only Zstandard.
    pub compressor: Option<Compressor>,
    /// The compression level, 0 to 9.
    pub level: u8,
    /// The shuffle filter of blocks; not used in `.tet` files.
    pub shuffle: Shuffle,
    /// The name of the dataset of a `.tet` file.
    pub dataset: String,
    /// Whether an existing array is replaced.
    pub replace: bool,
    /// Limits of reading.
    pub memory: Memory,
    /// Passed right before the new array becomes visible, so that a request to stop is ordered
    /// before or after it.
    pub gate: CommitGate,
}

impl Default for ConvertOptions {
    fn default() -> Self {
        Self {
            chunk_shape: None,
            block_shape: None,
            compressor: Some(Compressor::Zstd),
            level: 5,
            shuffle: Shuffle::Bytes,
            dataset: "data".to_owned(),
            replace: false,
            memory: Memory::default(),
            gate: CommitGate::default(),
        }
    }
}

/// Writes `array` at `path` in another form; calls `on_progress` with the number of finished chunks
/// and their total.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/caterva/frames/b2_seed_2d_i4.b2nd");
/// # let dir = tempfile::tempdir().unwrap();
/// # let out = dir.path().join("seed.zarr");
/// use zvf_tensor::{AnyArray, ArrayForm, Memory, convert};
///
/// let frame = AnyArray::open(path, None, &Default::default()).await?;
/// let out = out.to_str().unwrap();
/// convert(&frame, out, ArrayForm::Zarr, &Default::default(), |_, _| ()).await?;
///
/// let zarr = AnyArray::open(out, None, &Default::default()).await?;
/// assert_eq!((zarr.chunk_shape(), zarr.block_shape()), (&[4, 4][..], Some(&[2, 2][..])));
/// assert_eq!(zarr.read(&[6, 3], &[7, 5], &Memory::default()).await?[..], [33, 0, 0, 0, 34, 0, 0, 0]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// `Unsupported` when the form cannot represent the item type or the compression; `AlreadyExists`
/// when the path exists and `replace` is false; otherwise when the shapes do not fit, or something
/// cannot be read or written.
pub async fn convert(
    array: &AnyArray,
    path: &str,
    form: ArrayForm,
    options: &ConvertOptions,
    on_progress: impl FnMut(u64, u64),
) -> Result<()> {
    match form {
        ArrayForm::Tet => {
            let named = [(options.dataset.clone(), array.clone())];
            gather(&named, Path::new(path), options, on_progress).await
        }
        ArrayForm::B2nd | ArrayForm::B2ndFolder | ArrayForm::Caterva => {
            to_blocks(array, Path::new(path), form, options, on_progress).await
        }
        ArrayForm::Zarr => to_zarr(array, path, options, on_progress).await,
    }
}

/// Writes several arrays as the datasets of one `.tet` file, in this order; `on_progress` as in
/// [`convert`].
///
/// # Errors
///
/// As [`convert`], and when a name is invalid for a dataset or occurs twice.
pub async fn gather(
    arrays: &[(String, AnyArray)],
    path: &Path,
    options: &ConvertOptions,
    mut on_progress: impl FnMut(u64, u64),
) -> Result<()> {
    let compression = match options.compressor {
        None => Compression::None,
        Some(Compressor::Zstd) => Compression::Zstd(options.level.clamp(1, 9).into()),
        Some(other) => return Err(unsupported_error("zstd, in a .tet file", other.name())),
    };
    let mut tensors = Vec::with_capacity(arrays.len());
    for (name, array) in arrays {
        let dtype = array.dtype().ok_or_else(|| untyped_error(array))?;
        let Some(element) = element_of(dtype) else {
            let found = dtype.to_string();
            return Err(in_dataset(unsupported_error("a type of .tet files", &found), name));
        };
        let chunk: Vec<u64> =
            options.chunk_shape.as_deref().unwrap_or(array.chunk_shape()).to_vec();
        let chunk: Vec<u64> = chunk.iter().map(|extent| (*extent).max(1)).collect();
        let tensor = NewTensor::new(name, element, array.shape(), &chunk)?;
        tensors.push(tensor.with_compression(compression));
    }
    // For progress only: the writer refuses a total that exceeds 64 bits.
    let total = tensors.iter().map(|t| t.geometry().tile_count()).fold(0, u64::saturating_add);
    let mut new = AtomicTensorFile::create_gated(path, options.replace, &options.gate)?;
    let mut writer = TetWriter::new(new.file(), tensors, Default::default())?;
    let mut done = 0_u64;
    for (name, array) in arrays {
        while let Some((tensor, tile)) = writer.next_chunk()
            && tensor.name() == name
        {
            let ends = tile.lo().iter().zip(tile.extents());
            let stop: Vec<u64> = ends.map(|(lo, n)| lo + n).collect();
            let items = array.read(tile.lo(), &stop, &options.memory).await?;
            writer.put_chunk(&to_little_endian(items, array.dtype()))?;
            done += 1;
            on_progress(done, total);
            yield_now().await;
        }
    }
    writer.finish(None)?;
    new.publish()
}

/// Writes a block array.
async fn to_blocks(
    array: &AnyArray,
    path: &Path,
    form: ArrayForm,
    options: &ConvertOptions,
    mut on_progress: impl FnMut(u64, u64),
) -> Result<()> {
    let (chunk, block) = cut(array, options);
    let mut new = NewBlocks::new(array.shape(), &chunk, &block, array.item_size())?;
    let shuffle = match options.shuffle {
        Shuffle::Bytes => Filter::Shuffle,
        Shuffle::Bits => Filter::Bitshuffle,
        Shuffle::None | _ => Filter::None,
    };
    let mut coding = Blosc2Settings {
        compressor: options.compressor.unwrap_or(Compressor::Lz4),
        level: if options.compressor.is_none() { 0 } else { options.level },
        split: matches!(
            options.compressor,
            Some(Compressor::Lz4 | Compressor::Lz4Hc | Compressor::BloscLz)
        ),
        ..*new.coding()
    };
    if let Some(last) = coding.filters.last_mut() {
        *last = FilterSlot { filter: shuffle, meta: 0 };
    }
    new = new.with_coding(coding);
    if form != ArrayForm::Caterva {
        let dtype = array.numpy_dtype().unwrap_or_else(|| format!("|V{}", array.item_size()));
        new = new.with_dtype(&dtype);
    }
    if let Some(blocks) = array.blocks() {
        new = new.with_metadata_of(blocks).await?;
    }
    let total = new.geometry().chunk_count();
    let sparse = form == ArrayForm::B2ndFolder;
    let mut file = BlockFile::create_gated(path, new, sparse, options.replace, &options.gate)?;
    let mut done = 0_u64;
    while let Some((start, stop)) = file.writer().next_box() {
        let items = array.read(&start, &stop, &options.memory).await?;
        file.writer().put_chunk(&items)?;
        done += 1;
        on_progress(done, total);
        yield_now().await;
    }
    file.publish()
}

/// Writes a Zarr array.
async fn to_zarr(
    array: &AnyArray,
    address: &str,
    options: &ConvertOptions,
    mut on_progress: impl FnMut(u64, u64),
) -> Result<()> {
    let dtype = array.dtype().ok_or_else(|| untyped_error(array))?;
    let (chunk, block) = cut(array, options);
    let per: Vec<u64> =
        chunk.iter().zip(&block).map(|(chunk, block)| chunk.div_ceil((*block).max(1))).collect();
    let shard = per.iter().zip(&block).map(|(n, block)| n.checked_mul(*block));
    let shard: Vec<u64> = shard.collect::<Option<_>>().ok_or_else(|| {
        request_error("chunk shape", "whole blocks below 2^64 items", "a larger one")
    })?;
    let geometry =
        BlockGeometry::new(Partition::new(array.shape(), &shard, &block)?, array.item_size())?;
    count_shard_cells(&per)?;
    let text = document(array, dtype, &shard, &block, options).print();

    let store = BuildOptions {
        replace: options.replace,
        is_store: false,
        gate: options.gate.clone(),
        ..BuildOptions::default()
    };
    let build = Build::begin(address, store).await?;
    let zarr = build.verbatim_array("", text.clone().into())?;
    let total = geometry.chunk_count();
    for number in 0..total {
        let at = chunk_coordinate(&geometry, number)?;
        let at = at.as_slice();
        let (start, stop) = chunk_box(&geometry, at);
        let items =
            to_little_endian(array.read(&start, &stop, &options.memory).await?, Some(dtype));
        let selection = geometry.select(&start, &stop)?;
        let mut first = None;
        for part in selection.chunks().flat_map(|chunk| chunk.blocks()) {
            let mut padded = vec![0; usize_from_u32(geometry.block_size())];
            fill_block(&part, &items, &mut padded);
            if padded.iter().any(|byte| *byte != 0) {
                let index = inner_index(at, &per, part.number());
                zarr.put_items(&index, padded.into())?;
                first.get_or_insert(index);
            }
        }
        if let Some(index) = first {
            zarr.close_shard(&index)?;
        }
        on_progress(number + 1, total);
        yield_now().await;
    }
    zarr.finish()?;
    build.publish_text(text).await
}

/// Returns the index among all inner chunks of block `number` of the shard at `shard`; a shard has
/// `per` inner chunks along each axis, at least one.
fn inner_index(shard: &[u64], per: &[u64], number: u32) -> Vec<u64> {
    let mut rest = u64::from(number);
    let mut index: Vec<u64> = Vec::with_capacity(per.len());
    for (at, per) in shard.iter().zip(per).rev() {
        index.push(at * per + rest % per);
        rest /= per;
    }
    index.reverse();
    index
}

/// Returns the document of the Zarr array.
fn document(
    array: &AnyArray,
    dtype: Dtype,
    shard: &[u64],
    block: &[u64],
    options: &ConvertOptions,
) -> ArrayDoc {
    let dtype = Dtype { big_endian: false, ..dtype };
    let (shape, shard) = (array.shape().to_vec(), shard.to_vec());
    let mut doc = ArrayDoc::new(shape, shard, DataType::number(dtype));
    doc.fill_value = FillValue::zero(dtype.kind);
    let bytes = if dtype.size == 1 { CodecSpec::single_bytes() } else { CodecSpec::bytes() };
    let mut codecs = vec![bytes];
    codecs.extend(codecs_of(dtype, options).metadata());
    doc.codecs = if doc.chunk_shape == block {
        codecs
    } else {
        vec![CodecSpec::sharding(block.to_vec(), codecs)]
    };
    doc
}

/// Returns the codecs of its chunks.
fn codecs_of(dtype: Dtype, options: &ConvertOptions) -> CodecPipeline {
    match (options.compressor, options.shuffle) {
        (None, _) => CodecPipeline::empty(),
        (Some(Compressor::Zstd), Shuffle::None) => CodecPipeline::zstd(options.level.into()),
        (Some(compressor), filter) => CodecPipeline::blosc(BloscSettings {
            compressor,
            level: options.level,
            filter,
            typesize: u8::try_from(dtype.size).unwrap_or(1), // as Blosc does
            ..BloscSettings::default()
        }),
    }
}

/// Returns the extents of chunks and of blocks.
fn cut(array: &AnyArray, options: &ConvertOptions) -> (Vec<u64>, Vec<u64>) {
    let size = u64::from(array.item_size());
    let chunk = match &options.chunk_shape {
        Some(chunk) => chunk.clone(),
        None => halve_longest_axis(array.chunk_shape(), size, LARGEST_CHUNK),
    };
    let block = match (&options.block_shape, array.block_shape()) {
        (Some(block), _) => block.clone(),
        (None, Some(block)) if options.chunk_shape.is_none() => {
            halve_longest_axis(block, size, LARGEST_CHUNK)
        }
        (None, _) => halve_longest_axis(&chunk, size, BLOCK),
    };
    (chunk, block)
}

/// Halves the longest axis of the shape until it has at most `max_bytes`; no extent becomes 0.
fn halve_longest_axis(shape: &[u64], size: u64, max_bytes: u64) -> Vec<u64> {
    let mut shape: Vec<u64> = shape.iter().map(|extent| (*extent).max(1)).collect();
    // Only compared with the limit, so it may saturate.
    while shape.iter().fold(size, |bytes, extent| bytes.saturating_mul(*extent)) > max_bytes {
        match shape.iter_mut().max_by_key(|extent| **extent).filter(|longest| **longest > 1) {
            Some(longest) => *longest = longest.div_ceil(2),
            None => break,
        }
    }
    shape
}

/// Converts items to little-endian.
fn to_little_endian(items: Bytes, dtype: Option<Dtype>) -> Bytes {
    let Some(dtype) = dtype.filter(|dtype| dtype.big_endian) else { return items };
    // Numbers have at most 8 bytes.
    let unit = if dtype.kind == DtypeKind::Text { TEXT_UNIT } else { saturating_usize(dtype.size) };
    let mut bytes = Vec::from(items);
    bytes.chunks_exact_mut(unit.max(1)).for_each(<[u8]>::reverse);
    bytes.into()
}

fn untyped_error(array: &AnyArray) -> Error {
    let found = array.numpy_dtype().unwrap_or_else(|| format!("{} bytes", array.item_size()));
    unsupported_error("items that are numbers or text", &found)
}

fn unsupported_error(rule: &'static str, found: &str) -> Error {
    Error::new(Class::Unsupported, "conversion", rule, quote(found))
}

/// The bytes of a computed block.
const BLOCK: u64 = 64 << 10;
/// The largest computed chunk in bytes: one chunk is in memory at a time.
const LARGEST_CHUNK: u64 = 256 << 20;
