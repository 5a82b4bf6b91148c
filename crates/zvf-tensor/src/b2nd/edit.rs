//! Editing a block array on this machine: a new one is written next to it, and then renamed.
//!
//! ```text
//! unchanged chunk                     its stored bytes; of a folder a link to its file
//! changed chunk                       decoded unless all of it is written, changed, encoded
//! ```
//!
//! Readers that have the array open continue with the old one. Appending writes beyond the end of
//! one axis: the last chunks of the axis are changed, the others keep their bytes under other
//! numbers.
//!
//! Encoding of chunks is in `write`.

use async_recursion::async_recursion as boxed;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use zvf_b2nd::{ChunkPlace, Frame};
use zvf_error::{Error, Result};
use zvf_format::num::{saturating_usize, to_u64, usize_from_u32};
use zvf_format::{Class, Expected};
use zvf_store::OpenOptions;
use zvf_store::item_box::{ItemBox, paste_items};

use super::frame::{BlockArray, Places};
use super::new::NewBlocks;
use super::write::BlockFile;
use crate::error::request_error;
use crate::memory::Memory;
use crate::slice::Slice;

/// Changes to a block array, which become visible together.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("a.b2nd");
/// # std::fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/caterva/frames/b2_seed_2d_i4.b2nd"), &path)?;
/// use zvf_tensor::{BlockArray, BlockEdit, Memory};
///
/// let mut edit = BlockEdit::open(&path).await?;
/// edit.write(&"1:2,1:3".parse()?, [7_i32.to_le_bytes(), 8_i32.to_le_bytes()].concat())?;
/// let edited = edit.commit(&Memory::default()).await?;
/// assert_eq!((edited.rewritten, edited.kept), (1, 3));
///
/// let array = BlockArray::open(path.to_str().unwrap(), &Default::default()).await?;
/// let row = array.slice(&"1:2,0:4".parse()?, &Memory::default()).await?;
/// assert_eq!(row.bytes().chunks(4).map(|item| item[0]).collect::<Vec<_>>(), [5, 7, 8, 8]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct BlockEdit {
    array: BlockArray,
    path: PathBuf,
    shape: Vec<u64>,
    writes: Vec<Written>,
}

/// The items of a box.
#[derive(Debug)]
struct Written {
    place: ItemBox,
    items: Bytes, // as many as the box has
}

/// The totals of an edit.
///
/// ```
/// assert_eq!(zvf_tensor::EditCounts::default().rewritten, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EditCounts {
    /// Chunks that were encoded.
    pub rewritten: u64,
    /// Chunks that kept their bytes.
    pub kept: u64,
}

impl BlockEdit {
    /// Begins to edit the array at `path`, a frame or the folder of a sparse one.
    ///
    /// # Errors
    ///
    /// When it does not exist, is not an array, or cannot be read.
    #[boxed]
    pub async fn open(path: &Path) -> Result<Self> {
        let Some(address) = path.to_str() else {
            return Err(request_error("path", "text", "bytes that are none"));
        };
        let array = BlockArray::open(address, &OpenOptions::default()).await?;
        let shape = array.shape().to_vec();
        Ok(Self { array, path: path.to_owned(), shape, writes: Vec::new() })
    }

    /// Returns the array before the edit.
    pub const fn array(&self) -> &BlockArray {
        &self.array
    }

    /// Returns the extents after the edit.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Writes the items of a slice, in C order.
    ///
    /// # Errors
    ///
    /// When the slice does not fit the array or has steps, or `items` does not have its length.
    pub fn write(&mut self, slice: &Slice, items: impl Into<Bytes>) -> Result<()> {
        let axes = slice.axes(&self.shape, |_, _| None)?;
        if axes.iter().any(|axis| axis.step != 1) {
            return Err(request_error("step", "1, to write", "another"));
        }
        let place = ItemBox {
            start: axes.iter().map(|axis| axis.start).collect(),
            stop: axes.iter().map(|axis| axis.stop).collect(),
        };
        if !place.is_inside(&self.shape) {
            return Err(request_error("slice", "one inside of the array", "another"));
        }
        self.push(place, items.into())
    }

    /// Appends items along `axis`: a whole number of layers.
    ///
    /// # Errors
    ///
    /// When there is no such axis, or `items` is not a whole number of layers.
    pub fn append(&mut self, axis: usize, items: impl Into<Bytes>) -> Result<()> {
        let items = items.into();
        // If the length of a layer exceeds 64 bits, `items` has no whole layer.
        let others = self.shape.iter().enumerate().filter(|(at, _)| *at != axis);
        let layer =
            others.fold(u64::from(self.array.item_size()), |n, (_, e)| n.saturating_mul(*e));
        let len = to_u64(items.len());
        let layers = len.checked_div(layer).filter(|layers| layers.checked_mul(layer) == Some(len));
        let mut place = ItemBox::whole(&self.shape);
        let ends = (place.start.get_mut(axis), place.stop.get_mut(axis), layers);
        let (Some(start), Some(stop), Some(layers)) = ends else {
            let rule = "an axis of the array, and whole layers of it";
            return Err(request_error("append", rule, "something else"));
        };
        (*start, *stop) = (*stop, *stop + layers);
        self.shape.clone_from(&place.stop);
        self.push(place, items)
    }

    fn push(&mut self, place: ItemBox, items: Bytes) -> Result<()> {
        let byte_len = place.items().checked_mul(self.array.item_size().into());
        if byte_len != Some(to_u64(items.len())) {
            let expected = Expected::Exactly(byte_len.unwrap_or(u64::MAX).into()); // for the message
            return Err(Error::new(
                Class::InvalidArgument,
                "bytes of a slice",
                expected,
                items.len(),
            ));
        }
        self.writes.push(Written { place, items });
        Ok(())
    }

    /// Applies the edit to the array.
    ///
    /// # Errors
    ///
    /// When a changed chunk cannot be decoded or is more than `memory` allows, or something cannot
    /// be written. The array is then unchanged.
    #[boxed]
    pub async fn commit(self, memory: &Memory) -> Result<EditCounts> {
        let new = NewBlocks::with_settings_of(&self.array, &self.shape).await?;
        let mut file = BlockFile::create(&self.path, new, self.array.is_sparse(), true)?;
        let frame = self.array.frame()?;
        let mut places = self.array.places();
        let mut edited = EditCounts::default();
        while let Some((start, stop)) = file.writer().next_box() {
            let chunk = ItemBox { start, stop };
            if self.writes.iter().any(|write| write.place.meets(&chunk)) {
                let items = self.apply_writes(&chunk, memory).await?;
                file.writer().put_chunk(&items)?;
                edited.rewritten += 1;
            } else {
                self.keep(&frame, &mut places, &chunk, &mut file).await?;
                edited.kept += 1;
            }
        }
        self.array.file().check()?;
        file.publish()?;
        Ok(edited)
    }

    /// Returns the items of a chunk after the writes.
    async fn apply_writes(&self, chunk: &ItemBox, memory: &Memory) -> Result<Vec<u8>> {
        let item = usize_from_u32(self.array.item_size());
        let mut items = vec![0; saturating_usize(chunk.items()) * item]; // less than 2 GiB
        let before = chunk.clamp_to(self.array.shape());
        if before.items() > 0 && !self.writes.iter().any(|write| write.place.holds(chunk)) {
            let slice = Slice::from_bounds(&before.start, &before.stop);
            let values = self.array.slice(&slice, memory).await?;
            paste_items(item, (values.bytes(), &before), (&mut items, chunk));
        }
        for write in &self.writes {
            paste_items(item, (&write.items, &write.place), (&mut items, chunk));
        }
        Ok(items)
    }

    /// Copies a chunk as it is stored.
    async fn keep(
        &self,
        frame: &Frame<'_>,
        places: &mut Places<'_>,
        chunk: &ItemBox,
        file: &mut BlockFile,
    ) -> Result<()> {
        let geometry = self.array.geometry();
        let extents = chunk.start.iter().zip(self.array.chunk_shape());
        let at: Vec<u64> = extents.map(|(at, n)| at / n).collect();
        let Some(number) = geometry.chunk_number(&at) else {
            return Err(request_error("chunk", "one of the array", "another"));
        };
        match places.get(frame, number)? {
            ChunkPlace::File(name) => file.writer().put_file(&self.path.join(name.to_string())),
            ChunkPlace::Frame(at) => {
                let stored = self.array.stored_chunk(frame, at).await?;
                file.writer().put(&stored)
            }
            place @ (ChunkPlace::Zeros | ChunkPlace::Nan | ChunkPlace::Unwritten) => {
                file.writer().put_place(place);
                Ok(())
            }
        }
    }
}
