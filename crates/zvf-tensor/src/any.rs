//! A dense array in any of the supported forms, read by boxes of items.
//!
//! ```text
//! .tet         a dataset of a file         chunks
//! B2ND         a frame or a folder         chunks of blocks
//! Zarr v3      a folder with zarr.json     chunks, or shards of chunks
//! ```
//!
//! Items are returned as they are stored; those of a Zarr array are always little-endian.
//!
//! Conversion to another form is in `convert`.

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use zvf_b2nd::{Axes, BlockGeometry, Partition};
use zvf_error::{Error, Result};
use zvf_format::num::{saturating_usize, to_u64, usize_from_u32};
use zvf_format::{Class, Expected};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_store::{LoneArray, OpenOptions, RangedFile};
use zvf_tet::{MemoryBudget, TensorDtype};

use crate::b2nd::BlockArray;
use crate::error::request_error;
use crate::memory::Memory;
use crate::slice::Slice;
use crate::tet::TensorFile;

/// An open array, cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/caterva/frames/b2_seed_2d_i4.b2nd");
/// use zvf_tensor::{AnyArray, Memory};
///
/// let array = AnyArray::open(path, None, &Default::default()).await?;
/// assert_eq!((array.shape(), array.dtype().unwrap().to_string().as_str()), (&[7, 5][..], "int32"));
/// assert_eq!(array.read(&[0, 2], &[1, 4], &Memory::default()).await?[..4], [2, 0, 0, 0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct AnyArray(Form);

#[derive(Clone, Debug)]
enum Form {
    Tet { file: TensorFile, name: Box<str>, element: TensorDtype },
    Blocks(BlockArray),
    Zarr { array: LoneArray, geometry: Box<BlockGeometry> },
}

impl AnyArray {
    /// Opens the array at `address`; in a `.tet` file the dataset called `dataset`, or the only
    /// one.
    ///
    /// # Errors
    ///
    /// When nothing is there, its form is unknown, the dataset must be named, or it cannot be read.
    #[boxed]
    pub async fn open(address: &str, dataset: Option<&str>, options: &OpenOptions) -> Result<Self> {
        let missing = match RangedFile::open(address, options).await {
            Ok(file) => {
                let front = file.read(0..file.len().min(4)).await?;
                if front.starts_with(b"TETR") {
                    return Self::from_tet(TensorFile::from_file(file).await?, dataset);
                }
                return BlockArray::from_file(file).await.map(Self::from_blocks);
            }
            Err(error) if error.class() == Class::NotFound => error,
            Err(error) => return Err(error),
        };
        match BlockArray::open(address, options).await {
            Err(error) if error.class() == Class::NotFound => {}
            opened => return opened.map(Self::from_blocks),
        }
        match LoneArray::open(address, options).await {
            Ok(array) => Self::from_zarr(array),
            Err(error) if error.class() == Class::NotFound => Err(missing),
            Err(error) => Err(error),
        }
    }

    /// Opens a dataset of an open file; the only one if `dataset` is `None`.
    ///
    /// # Errors
    ///
    /// When there is no such dataset, or several and none is named, or its type is unknown.
    pub fn from_tet(file: TensorFile, dataset: Option<&str>) -> Result<Self> {
        let tensor = match dataset {
            Some(name) => file.tensor(name)?,
            None => {
                let mut tensors = file.tensors();
                let only = tensors.next().filter(|_| tensors.len() == 0);
                only.ok_or_else(|| {
                    let rule = "the name of one, where a file has none or several";
                    request_error("dataset", rule, names_in(&file).as_str())
                })?
            }
        };
        let element = tensor.geometry()?.element();
        let name = tensor.name().into();
        Ok(Self(Form::Tet { file, name, element }))
    }

    /// Wraps an open block array.
    pub const fn from_blocks(array: BlockArray) -> Self {
        Self(Form::Blocks(array))
    }

    /// Wraps an open Zarr array.
    ///
    /// # Errors
    ///
    /// When it has more than 16 axes, or a chunk of it is 2 GiB or more.
    pub fn from_zarr(array: LoneArray) -> Result<Self> {
        let (doc, dtype) = (array.document(), array.dtype());
        let inner = doc.inner_chunk_shape();
        let size = u32::try_from(dtype.size).map_err(|_too_large| {
            Error::new(
                Class::Overflow,
                "bytes of an item",
                Expected::AtMost(u32::MAX.into()),
                dtype.size,
            )
        })?;
        let geometry = BlockGeometry::new(Partition::new(&doc.shape, inner, inner)?, size)?;
        Ok(Self(Form::Zarr { array, geometry: Box::new(geometry) }))
    }

    /// Returns the extents.
    pub fn shape(&self) -> &[u64] {
        match &self.0 {
            Form::Tet { file, name, .. } => file.tensor(name).map_or(&[], |tensor| tensor.shape()),
            Form::Blocks(array) => array.shape(),
            Form::Zarr { array, .. } => &array.document().shape,
        }
    }

    /// Returns the extents of a chunk; for a Zarr array with shards, those of a shard.
    pub fn chunk_shape(&self) -> &[u64] {
        match &self.0 {
            Form::Tet { file, name, .. } => {
                file.tensor(name).map_or(&[], |tensor| tensor.chunk_shape())
            }
            Form::Blocks(array) => array.chunk_shape(),
            Form::Zarr { array, .. } => &array.document().chunk_shape,
        }
    }

    /// Returns the extents of a block; for a Zarr array with shards, those of an inner chunk.
    /// `None` if chunks are not divided.
    pub fn block_shape(&self) -> Option<&[u64]> {
        match &self.0 {
            Form::Tet { .. } => None,
            Form::Blocks(array) => Some(array.block_shape()),
            Form::Zarr { array, .. } => array.document().sharding().map(|s| &*s.chunk_shape),
        }
    }

    /// Returns the bytes of an item.
    pub fn item_size(&self) -> u32 {
        match &self.0 {
            Form::Tet { element, .. } => u32::try_from(element.size()).unwrap_or(1), // at most 16
            Form::Blocks(array) => array.item_size(),
            Form::Zarr { geometry, .. } => geometry.item_size(),
        }
    }

    /// Returns the type of returned items, if it is a number or text.
    pub fn dtype(&self) -> Option<Dtype> {
        match &self.0 {
            Form::Tet { element, .. } => Some(dtype_of(*element)),
            Form::Blocks(array) => {
                let dtype = array.dtype()?.parse::<Dtype>().ok()?;
                (dtype.size == u64::from(array.item_size())).then_some(dtype)
            }
            Form::Zarr { array, .. } => Some(array.dtype()),
        }
    }

    /// Returns the NumPy name of the item type, if it is known; also for types that are not
    /// numbers.
    pub fn numpy_dtype(&self) -> Option<String> {
        match &self.0 {
            Form::Blocks(array) => array.dtype().map(str::to_owned),
            Form::Tet { .. } | Form::Zarr { .. } => self.dtype().map(code_of),
        }
    }

    /// Returns the block array, if it is one.
    pub const fn blocks(&self) -> Option<&BlockArray> {
        match &self.0 {
            Form::Blocks(array) => Some(array),
            Form::Tet { .. } | Form::Zarr { .. } => None,
        }
    }

    /// Reads the items from `start` to below `stop`, in C order.
    ///
    /// # Errors
    ///
    /// When the box does not fit the array; `LimitExceeded` when it is more than `memory` allows;
    /// otherwise when a chunk is damaged or cannot be read.
    #[boxed]
    pub async fn read(&self, start: &[u64], stop: &[u64], memory: &Memory) -> Result<Bytes> {
        // An array without items has no box that a form could read.
        if self.shape().contains(&0) && stop == self.shape() {
            return Ok(Bytes::new());
        }
        let slice = if start.is_empty() { Slice::all() } else { Slice::from_bounds(start, stop) };
        match &self.0 {
            Form::Tet { file, name, .. } => {
                Ok(file.tensor(name)?.slice(&slice, memory).await?.bytes().clone())
            }
            Form::Blocks(array) => Ok(array.slice(&slice, memory).await?.bytes().clone()),
            Form::Zarr { array, geometry } => {
                zarr_box(array, geometry, start, stop, memory).await.map(Bytes::from)
            }
        }
    }
}

/// Reads a box of a Zarr array, whose chunks are blocks like those of a block array.
async fn zarr_box(
    array: &LoneArray,
    geometry: &BlockGeometry,
    start: &[u64],
    stop: &[u64],
    memory: &Memory,
) -> Result<Vec<u8>> {
    let selection = geometry.select(start, stop)?;
    let (bytes, max_bytes) = (selection.bytes(), memory.limit(MemoryBudget::DEFAULT));
    if bytes > max_bytes {
        return Err(Error::limit("bytes of a selection", max_bytes, bytes));
    }
    // The limit was checked. A length that does not fit in `usize` cannot be allocated anyway.
    let mut out: Vec<u8> =
        array.fill().iter().copied().cycle().take(saturating_usize(bytes)).collect();
    let at_once = (WAVE / usize_from_u32(geometry.chunk_size()).max(1)).max(1);
    let mut parts = selection.chunks();
    loop {
        let wave: Vec<_> = parts.by_ref().take(at_once).collect();
        if wave.is_empty() {
            return Ok(out);
        }
        let index = |number| chunk_coordinate(geometry, number).map(|at| at.as_slice().to_vec());
        let coordinates = wave.iter().map(|part| index(part.number()));
        let coordinates: Vec<Vec<u64>> = coordinates.collect::<Result<_, _>>()?;
        for (part, chunk) in wave.iter().zip(array.chunks(&coordinates).await?) {
            let Some(chunk) = chunk else { continue };
            for run in part.blocks().flat_map(|block| block.runs()) {
                // Returned chunks have the byte length of the chunk shape, and runs lie inside
                // them.
                let [from, to, len] = [run.from, run.to, run.len].map(saturating_usize);
                out[to..to + len].copy_from_slice(&chunk[from..from + len]);
            }
        }
    }
}

/// Returns the coordinate of a chunk, which must exist: no chunk of an array may be skipped.
pub(crate) fn chunk_coordinate(geometry: &BlockGeometry, number: u64) -> Result<Axes> {
    geometry.chunk_coordinate(number).ok_or_else(|| {
        Error::new(
            Class::OutOfBounds,
            "number of a chunk",
            Expected::AtMost(i128::from(geometry.chunk_count()) - 1),
            number,
        )
    })
}

/// Returns the type of the elements of a `.tet` file.
const fn dtype_of(element: TensorDtype) -> Dtype {
    let (kind, size) = match element {
        TensorDtype::F16 => (DtypeKind::Float, 2),
        TensorDtype::F32 => (DtypeKind::Float, 4),
        TensorDtype::F64 => (DtypeKind::Float, 8),
        TensorDtype::I16 => (DtypeKind::Int, 2),
        TensorDtype::I32 => (DtypeKind::Int, 4),
        TensorDtype::I64 => (DtypeKind::Int, 8),
        TensorDtype::U8 => (DtypeKind::UInt, 1),
        TensorDtype::U16 => (DtypeKind::UInt, 2),
        TensorDtype::U32 => (DtypeKind::UInt, 4),
        TensorDtype::U64 => (DtypeKind::UInt, 8),
    };
    Dtype { kind, size, big_endian: false }
}

/// Returns the element type of a `.tet` file for a type; booleans are bytes.
pub(crate) fn element_of(dtype: Dtype) -> Option<TensorDtype> {
    let kind = if dtype.kind == DtypeKind::Bool { DtypeKind::UInt } else { dtype.kind };
    let wanted = Dtype { kind, size: dtype.size, big_endian: false };
    TensorDtype::ALL.iter().copied().find(|element| dtype_of(*element) == wanted)
}

/// Lists the datasets of a file for a message.
fn names_in(file: &TensorFile) -> String {
    let mut tensors = file.tensors();
    let shown: Vec<String> =
        tensors.by_ref().take(NAMES_SHOWN).map(|tensor| tensor.name().to_owned()).collect();
    match (shown.is_empty(), tensors.len()) {
        (true, _) => "a file without any".to_owned(),
        (false, 0) => format!("no name, where there is {}", shown.join(", ")),
        (false, more) => format!("no name, where there is {} and {more} more", shown.join(", ")),
    }
}

/// The largest number of dataset names in a message.
const NAMES_SHOWN: usize = 8;

/// Returns the NumPy code of a type.
fn code_of(dtype: Dtype) -> String {
    let order = match (dtype.size, dtype.big_endian) {
        (1, _) => '|',
        (_, false) => '<',
        (_, true) => '>',
    };
    let (letter, number) = match dtype.kind {
        DtypeKind::Bool => ('b', dtype.size),
        DtypeKind::Int => ('i', dtype.size),
        DtypeKind::UInt => ('u', dtype.size),
        DtypeKind::Float => ('f', dtype.size),
        DtypeKind::Text => ('U', dtype.size.div_ceil(to_u64(TEXT_UNIT))),
    };
    format!("{order}{letter}{number}")
}

/// Total decoded length in bytes of the chunks that are read at once.
const WAVE: usize = 32 << 20;
/// The bytes of one character of text.
pub(crate) const TEXT_UNIT: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_numpy_and_of_tet() {
        for (text, code, element) in [
            ("float16", "<f2", Some(TensorDtype::F16)),
            (">f4", ">f4", Some(TensorDtype::F32)),
            ("float64", "<f8", Some(TensorDtype::F64)),
            ("int8", "|i1", None),
            ("int16", "<i2", Some(TensorDtype::I16)),
            ("int32", "<i4", Some(TensorDtype::I32)),
            ("int64", "<i8", Some(TensorDtype::I64)),
            ("bool", "|b1", Some(TensorDtype::U8)),
            ("uint8", "|u1", Some(TensorDtype::U8)),
            ("uint16", "<u2", Some(TensorDtype::U16)),
            ("uint32", "<u4", Some(TensorDtype::U32)),
            ("uint64", "<u8", Some(TensorDtype::U64)),
            ("<U3", "<U3", None),
        ] {
            let dtype = text.parse::<Dtype>().unwrap();
            assert_eq!(code_of(dtype), code);
            assert_eq!(element_of(dtype), element, "{text}");
            if let Some(element) = element.filter(|_| dtype.kind != DtypeKind::Bool) {
                assert_eq!(dtype_of(element), Dtype { big_endian: false, ..dtype });
            }
        }
    }
}
