//! Packing: the datasets of all arrays, one after the other.
//!
//! Memory holds the documents, the tables of cells, and one batch of cells. If the length of a
//! payload differs from the size that was read first, the store changed meanwhile.

use std::io::{Seek, Write};

use bytes::Bytes;
use tokio::task::yield_now;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::Class;
use zvf_format::num::{saturating_usize, to_u64};
use zvf_metadata::Node;
use zvf_store::{Caching, DenseArray, Store};
use zvf_tet::MemoryBudget;
use zvf_tet::pack::encode_documents;

use super::options::PackOptions;
use super::plan::{self, Content, PackPart};
use crate::tet::{Compression, TetWriter};

/// The progress of packing.
///
/// ```
/// assert_eq!(zvf_tensor::PackCounts::default().cells, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct PackCounts {
    /// Documents of groups and arrays.
    pub documents: u64,
    /// Arrays with stored data.
    pub arrays: u64,
    /// Cells and rows.
    pub cells: u64,
    /// Bytes in the contents of arrays.
    pub bytes: u64,
}

/// Packs `store` into a file that begins at the position of `out`, and returns `out`. Calls
/// `on_progress` from time to time.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
/// use std::io::Cursor;
/// use zvf_store::{RangedFile, Store};
/// use zvf_tensor::{PackOptions, pack};
///
/// let store = Store::open(path, Default::default()).await?;
/// let out = Cursor::new(Vec::new());
/// let (out, packed) = pack(&store, out, &PackOptions::default(), |_| ()).await?;
/// assert!(packed.cells > 0);
///
/// let file = RangedFile::from_bytes(out.into_inner().into());
/// let again = Store::open_pack(file, Default::default()).await?;
/// assert_eq!(again.root_json().trim_ascii(), store.root_json().trim_ascii());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`Class::Unsupported`] when the store cannot be listed, or this build cannot read the items or
/// codecs of an array; [`Class::FileChanged`] when the store changes meanwhile; otherwise when
/// something cannot be read or written.
pub async fn pack<W: Write + Seek>(
    store: &Store,
    out: W,
    options: &PackOptions,
    mut on_progress: impl FnMut(&PackCounts),
) -> Result<(W, PackCounts)> {
    let documents = store.nodes().documents().await?;
    let mut packed = PackCounts { documents: to_u64(documents.len()), ..PackCounts::default() };
    let texts = documents.iter().map(|(key, text)| (key.as_str(), text.as_ref()));
    let mut parts = vec![plan::documents(encode_documents(texts)?, options)?];
    for (key, text) in &documents {
        let node = Node::parse(text).at_key(key)?;
        let Node::Array(doc) = node else { continue };
        let array = plan::array(store, key, &doc, options).await?;
        packed.arrays += u64::from(!array.is_empty());
        parts.extend(array);
        yield_now().await;
    }
    drop(documents);
    // The documents come first, then small datasets: tables of cells and indexes of fragments,
    // which a remote reader gets with the first request.
    if let Some((_documents, arrays)) = parts.split_first_mut() {
        arrays.sort_by_key(|part| part.tensor.geometry().byte_len());
    }
    let tensors = parts.iter().map(|part| part.tensor.clone()).collect();
    let mut writer = TetWriter::new(out, tensors, MemoryBudget::DEFAULT)?;
    for part in parts {
        write(&mut writer, part, &mut packed, &mut on_progress).await?;
    }
    store.check_maps()?;
    Ok((writer.finish(None)?, packed))
}

/// Writes one dataset.
async fn write<W: Write + Seek>(
    writer: &mut TetWriter<W>,
    part: PackPart,
    packed: &mut PackCounts,
    on_progress: &mut impl FnMut(&PackCounts),
) -> Result<()> {
    let PackPart { tensor, content } = part;
    packed.bytes += tensor.geometry().byte_len();
    let mut stream = Stream { writer, held: Vec::new(), begun: false };
    match content {
        Content::Bytes(bytes) => stream.push(&bytes)?,
        Content::Cells(cells, sized) => {
            let mut rest = sized.as_slice();
            while !rest.is_empty() {
                let (some, after) = rest.split_at(batch(rest.iter().map(|(_, size)| *size)));
                let keys: Vec<_> = some.iter().map(|(key, _)| *key).collect();
                let payloads = cells.read_many(&keys, Caching::Once).await;
                for ((_, size), payload) in some.iter().zip(payloads) {
                    let payload = payload?.unwrap_or_default(); // absent: refused, since no size is 0
                    stream.push_sized(&payload, *size).at_key(cells.path())?;
                }
                rest = after;
                packed.cells += to_u64(some.len());
                on_progress(packed);
                yield_now().await;
            }
        }
        Content::Rows(rows, sized) => {
            let mut rest = sized.as_slice();
            while !rest.is_empty() {
                let (some, after) = rest.split_at(batch(rest.iter().map(|(_, size)| *size)));
                let places: Vec<u64> = some.iter().map(|(place, _)| *place).collect();
                for ((_, size), row) in some.iter().zip(rows.rows(&places).await?) {
                    stream.push_sized(&row, *size).at_key(rows.path())?;
                }
                rest = after;
                packed.cells += to_u64(some.len());
                on_progress(packed);
                yield_now().await;
            }
        }
        Content::Items(dense) => {
            items(stream.writer, &dense, tensor.geometry().rank()).await?;
            on_progress(packed);
            return Ok(());
        }
    }
    stream.finish()
}

/// Writes the items of an array; chunk by chunk if chunks are runs of rows.
async fn items<W: Write + Seek>(
    writer: &mut TetWriter<W>,
    dense: &DenseArray,
    rank: usize,
) -> Result<()> {
    let row_wise = |writer: &TetWriter<W>| {
        writer.next_chunk().is_some_and(|(tensor, _)| {
            let geometry = tensor.geometry();
            geometry.counts().iter().skip(1).all(|count| *count == 1)
                && geometry.shape().first() == dense.shape().first()
                && rank >= dense.shape().len()
        })
    };
    if !row_wise(writer) {
        return writer.put_tensor(&dense.read_all().await?);
    }
    let tiles = writer.next_chunk().map_or(0, |(tensor, _)| tensor.geometry().tile_count());
    for _ in 0..tiles {
        let rows = writer.next_chunk().and_then(|(_, tile)| {
            let (lo, extent) = (tile.lo().first()?, tile.extents().first()?);
            Some(*lo..lo + extent)
        });
        // When no chunk is left, the writer refuses even an empty one.
        writer.put_chunk(&dense.rows(rows.unwrap_or(0..0)).await?)?;
        yield_now().await;
    }
    Ok(())
}

/// Divides the bytes of one dataset into its chunks.
struct Stream<'w, W> {
    writer: &'w mut TetWriter<W>,
    held: Vec<u8>, // an incomplete chunk to be compressed
    begun: bool,
}

impl<W: Write + Seek> Stream<'_, W> {
    /// Adds a payload, which must have `size` bytes.
    fn push_sized(&mut self, payload: &Bytes, size: u64) -> Result<()> {
        if to_u64(payload.len()) != size {
            return Err(Error::new(Class::FileChanged, "payload", size, payload.len()));
        }
        self.push(payload)
    }

    /// Adds bytes of the dataset.
    fn push(&mut self, mut bytes: &[u8]) -> Result<()> {
        if !self.begun && self.held.is_empty() && self.is_plain() {
            self.writer.begin_chunk()?;
            self.begun = true;
        }
        if self.begun {
            return self.writer.write(bytes);
        }
        while !bytes.is_empty() {
            let len = match self.writer.next_chunk() {
                Some((_, tile)) => saturating_usize(tile.byte_len()),
                None => return self.writer.put_chunk(bytes), // which refuses it
            };
            let missing = len - self.held.len(); // what was held is less than a chunk
            let (some, rest) = bytes.split_at(missing.min(bytes.len()));
            self.held.extend_from_slice(some);
            bytes = rest;
            if self.held.len() == len {
                self.writer.put_chunk(&self.held)?;
                self.held.clear();
            }
        }
        Ok(())
    }

    /// Returns whether the dataset is one uncompressed chunk.
    fn is_plain(&self) -> bool {
        self.writer.next_chunk().is_some_and(|(tensor, _)| {
            tensor.geometry().tile_count() == 1 && tensor.compression() == Compression::None
        })
    }

    /// Writes the last chunk.
    fn finish(self) -> Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        self.writer.put_chunk(&self.held)
    }
}

/// Returns the number of payloads of these sizes that are read at once.
fn batch(sizes: impl Iterator<Item = u64>) -> usize {
    let mut held = 0_u64;
    let fits = |size: &u64| {
        let first = held == 0;
        held += *size;
        first || held <= READ_BATCH_BYTES
    };
    sizes.take(READ_BATCH_PAYLOADS).take_while(fits).count().max(1)
}

/// The number of payloads read at once, and their total size in bytes.
const READ_BATCH_PAYLOADS: usize = 1024;
const READ_BATCH_BYTES: u64 = 4 << 20;
