//! The description of a new block array: its geometry, its item type, and the encoding of chunks.
//!
//! The chunks are in `write`.

use bytes::Bytes;
use zvf_b2nd::{
    BlockGeometry, FILTER_SLOTS, Filter, FilterSlot, FrameFields, FrameHeader, FrameKind,
    Metalayer, MetalayerName, Partition,
};
use zvf_blosc::{Blosc2Settings, Compressor, Encoder};
use zvf_error::{Error, Result, quote};
use zvf_format::Class;

use super::frame::BlockArray;

/// The description of a block array to write.
///
/// ```
/// use zvf_tensor::NewBlocks;
///
/// let new = NewBlocks::new(&[100, 80], &[50, 40], &[10, 10], 4)?.with_dtype("<f4");
/// assert_eq!((new.geometry().chunk_count(), new.geometry().block_count()), (4, 20));
/// # Ok::<(), zvf_error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct NewBlocks {
    geometry: BlockGeometry,
    dtype: Option<Box<str>>,
    coding: Blosc2Settings, // items and blocks are those of the geometry
    metalayers: Vec<(Box<str>, Bytes)>,
    user: Vec<(Box<str>, Bytes)>, // each content a chunk
}

impl NewBlocks {
    /// Describes a Caterva array: items of `item_size` bytes without a type; chunks are encoded
    /// with a shuffle and Zstandard.
    ///
    /// # Errors
    ///
    /// When the ranks differ or exceed 16, an extent of a chunk or block is 0 although the array is
    /// not empty, or a padded chunk is 2 GiB or more.
    pub fn new(
        shape: &[u64],
        chunk_shape: &[u64],
        block_shape: &[u64],
        item_size: u32,
    ) -> Result<Self> {
        let geometry =
            BlockGeometry::new(Partition::new(shape, chunk_shape, block_shape)?, item_size)?;
        Ok(Self::from_geometry(geometry))
    }

    fn from_geometry(geometry: BlockGeometry) -> Self {
        let coding = Blosc2Settings {
            typesize: geometry.typesize(),
            block_size: geometry.block_size().max(1),
            ..Blosc2Settings::default()
        };
        Self { geometry, dtype: None, coding, metalayers: Vec::new(), user: Vec::new() }
    }

    /// Sets the item type by its NumPy name, which makes it a B2ND array.
    #[must_use]
    pub fn with_dtype(self, dtype: &str) -> Self {
        Self { dtype: Some(dtype.into()), ..self }
    }

    /// Sets the encoding of chunks; the sizes of items and blocks stay those of the array.
    #[must_use]
    pub fn with_coding(self, coding: Blosc2Settings) -> Self {
        let Blosc2Settings { typesize, block_size, .. } = self.coding;
        Self { coding: Blosc2Settings { typesize, block_size, ..coding }, ..self }
    }

    /// Adds a user metalayer to the header.
    #[must_use]
    pub fn with_metalayer(mut self, name: &str, content: impl Into<Bytes>) -> Self {
        self.metalayers.push((name.into(), content.into()));
        self
    }

    /// Adds user metadata to the trailer.
    ///
    /// # Errors
    ///
    /// When the content is 2 GiB or more.
    pub fn with_user_metadata(mut self, name: &str, content: &[u8]) -> Result<Self> {
        let settings = Blosc2Settings {
            typesize: 1,
            filters: [FilterSlot::default(); FILTER_SLOTS],
            block_size: u32::try_from(content.len()).unwrap_or(u32::MAX).max(1), // too large: refused
            ..self.coding
        };
        let chunk = Encoder::default().encode_blosc2(content, &settings)?;
        self.user.push((name.into(), chunk.into()));
        Ok(self)
    }

    /// Returns the geometry of chunks and blocks.
    pub const fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    /// Returns the encoding of chunks.
    pub const fn coding(&self) -> &Blosc2Settings {
        &self.coding
    }

    /// Returns the description of a replacement for `array` with the new `shape`. Filters and
    /// compressors that are not supported for writing are replaced by the defaults; each chunk
    /// states its own.
    pub(super) async fn with_settings_of(array: &BlockArray, shape: &[u64]) -> Result<Self> {
        let partition = Partition::new(shape, array.chunk_shape(), array.block_shape())?;
        let new = Self::from_geometry(BlockGeometry::new(partition, array.item_size())?);
        let coding = coding_of(array.frame()?.header().fields(), &new.coding);
        let new = Self { dtype: array.dtype().map(Into::into), coding, ..new };
        new.with_metadata_of(array).await
    }

    /// Adds the user metadata of another array.
    pub(crate) async fn with_metadata_of(mut self, array: &BlockArray) -> Result<Self> {
        for (name, content) in array.metalayers()? {
            self.metalayers.push((text(name)?, content));
        }
        for (name, content) in array.stored_metadata().await? {
            self.user.push((text(name)?, content));
        }
        Ok(self)
    }

    pub(super) fn user(&self) -> Vec<(&str, &[u8])> {
        self.user.iter().map(|(name, content)| (&**name, content.as_ref())).collect()
    }

    /// Returns the header of the frame, once the lengths are known.
    pub(super) fn header(
        &self,
        kind: FrameKind,
        compressed_size: u64,
        frame_len: u64,
    ) -> Result<Vec<u8>> {
        let partition = *self.geometry;
        let caterva = Metalayer::caterva(partition);
        let metalayer = match &self.dtype {
            None => caterva,
            Some(dtype) => Metalayer::b2nd(partition, dtype)?,
        };
        let (metalayer_bytes, caterva_bytes) = (metalayer.encode(), caterva.encode());
        let mut metalayers: Vec<(&str, &[u8])> = vec![(metalayer.name().text(), &metalayer_bytes)];
        for (name, content) in &self.metalayers {
            // Also writes the older description of the same array, for older readers.
            let same = **name == *MetalayerName::Caterva.text() && self.dtype.is_some();
            metalayers.push((&**name, if same { &caterva_bytes } else { content.as_ref() }));
        }
        let coding = &self.coding;
        let mut fields = FrameFields {
            frame_len,
            kind,
            codec_flags: coding.compressor.number() | coding.level << 4,
            other_flags: if coding.split { SPLIT } else { WHOLE },
            compressor: coding.compressor.number(),
            has_vlmetalayers: !self.user.is_empty(),
            ..FrameFields::array(&self.geometry, compressed_size)
        };
        if self.geometry.chunk_count() == 0 {
            fields.general_flags = NO_CHUNKS;
        }
        let slots = fields.filters.iter_mut().zip(&mut fields.filter_metas);
        for ((id, meta), slot) in slots.zip(coding.filters) {
            (*id, *meta) = (slot.filter.id(), slot.meta);
        }
        Ok(FrameHeader::encode(&fields, &metalayers)?)
    }
}

/// Returns the encoding that a frame states for new chunks, as far as it is supported.
fn coding_of(fields: &FrameFields, default: &Blosc2Settings) -> Blosc2Settings {
    let compressor = match fields.codec_flags & 0xf {
        0 => Compressor::BloscLz,
        1 => Compressor::Lz4,
        2 => Compressor::Lz4Hc,
        4 => Compressor::Zlib,
        _ => Compressor::Zstd,
    };
    let slots = fields.filters.iter().zip(fields.filter_metas);
    let mut filters = default.filters;
    for (slot, (id, meta)) in filters.iter_mut().zip(slots) {
        *slot = FilterSlot { filter: Filter::from_id(*id), meta };
    }
    // Lossy filters were chosen when the array was created, not by an edit.
    let written = |slot: &FilterSlot| {
        !matches!(
            slot.filter,
            Filter::Unknown(_) | Filter::TruncateIntegers | Filter::TruncatePrecision
        )
    };
    for slot in filters.iter_mut().filter(|slot| !written(slot)) {
        *slot = FilterSlot::default();
    }
    let split = fields.other_flags & 3 == SPLIT;
    let level = (fields.codec_flags >> 4).min(9);
    Blosc2Settings { compressor, level, filters, split, ..*default }
}

/// Returns the name of a metalayer as text.
fn text(name: Vec<u8>) -> Result<Box<str>> {
    String::from_utf8(name).map(Into::into).map_err(|name| {
        let found = String::from_utf8_lossy(name.as_bytes()).into_owned();
        Error::new(
            Class::Unsupported,
            "name of a metalayer",
            "text, to write it again",
            quote(&found),
        )
    })
}

/// The split mode of a frame: blocks are always split, or never.
const SPLIT: u8 = 0;
const WHOLE: u8 = 1;
/// The flags of a frame without chunks, as stock writers set them.
const NO_CHUNKS: u8 = 0x53;
