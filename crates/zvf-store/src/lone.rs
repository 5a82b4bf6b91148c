//! A standalone Zarr array at its own address, in any group or none: chunks of numbers, one by one.
//!
//! ```text
//! zarr.json      shape, chunks or shards, codecs: refused here when they cannot be decoded
//! c/0/1, ...     chunks, or shards of them, under the names that the document declares
//! ```
//!
//! Only shard indexes are cached. Chunks are returned little-endian and in C order.
//!
//! Not here: arrays of stores (`Store`), selections of items (`zvf-tensor`).

use async_recursion::async_recursion as boxed;
use std::sync::Arc;

use bytes::Bytes;
use zvf_error::{Error, Result};
use zvf_format::num::to_u64;
use zvf_format::{Class, Found};
use zvf_metadata::{ArrayDoc, DataTypeKind, Dtype, Node};

use crate::budget::Budget;
use crate::cache::Caching;
use crate::codec::{Caps, Items};
use crate::docs::Docs;
use crate::key::Key;
use crate::layout::{ChunkArray, fill_item};
use crate::options::OpenOptions;
use crate::source::Origin;

/// An open Zarr array; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # let store = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/three.zarrvectors");
/// use zvf_store::LoneArray;
///
/// let array = LoneArray::open(&format!("{store}/parametric/objects"), &Default::default()).await?;
/// assert_eq!((array.document().shape.as_slice(), array.dtype().size), (&[1, 5][..], 8));
/// let chunk = array.chunks(&[vec![0, 0]]).await?.remove(0).expect("it is stored");
/// assert_eq!(chunk[32..40], (-2.5_f64).to_le_bytes());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LoneArray(Arc<LoneState>);

#[derive(Debug)]
struct LoneState {
    source: Origin,
    doc: ArrayDoc,
    dtype: Dtype,
    fill: Box<[u8]>, // one item
    array: ChunkArray,
    items: Items,
    chunk_bytes: u64, // within what may be in flight
}

impl LoneArray {
    /// Opens the array at `address`: a path or URL of the folder with its document.
    ///
    /// # Errors
    ///
    /// `NotFound` when there is no document; otherwise when it is not that of an array of numbers,
    /// names an unknown codec, or has chunks above the budget, or when it cannot be read.
    #[boxed]
    pub async fn open(address: &str, options: &OpenOptions) -> Result<Self> {
        let budget = Budget::new(options);
        let source = Origin::find(address, &budget, options).await?;
        let (key, docs) = (Key::root(), Docs::default());
        let node = docs.node(&source, &key).await?.ok_or_else(|| {
            Error::new(Class::NotFound, "zarr.json", "a document of an array", "none")
        })?;
        let refused = |what, rule, found| Error::new(Class::BadTag, what, rule, found);
        let Node::Array(doc) = &*node else {
            return Err(refused("node", "an array", Found::Text("a group")));
        };
        let DataTypeKind::Fixed(dtype) = *doc.data_type.kind() else {
            return Err(refused("data_type", "items of one size", Found::Text("another")));
        };
        let (array, packing) = ChunkArray::of_items(&key, doc, 0)?;
        let items = doc.inner_chunk_shape().iter().copied();
        let chunk_bytes = items.fold(dtype.size, u64::saturating_mul); // a claim, above every limit then
        if chunk_bytes > budget.max_bytes() {
            let max = budget.max_bytes();
            return Err(Error::limit("bytes of a chunk", max, chunk_bytes));
        }
        let fill = fill_item(doc.fill_value.fill(), dtype);
        let doc = (**doc).clone();
        let inner = LoneState { source, doc, dtype, fill, array, items: packing, chunk_bytes };
        Ok(Self(Arc::new(inner)))
    }

    /// Returns the document.
    pub fn document(&self) -> &ArrayDoc {
        &self.0.doc
    }

    /// Returns the type of a returned item: never big-endian.
    pub fn dtype(&self) -> Dtype {
        self.0.dtype
    }

    /// Returns the fill value.
    pub fn fill(&self) -> &[u8] {
        &self.0.fill
    }

    /// Returns the items of the chunks at these indexes (inner chunks, if there are shards); `None`
    /// for chunks that were never stored.
    ///
    /// # Errors
    ///
    /// When a chunk cannot be read, or does not decode to its shape.
    #[boxed]
    pub async fn chunks(&self, wanted: &[Vec<u64>]) -> Result<Vec<Option<Bytes>>> {
        let LoneState { source, array, items, chunk_bytes, .. } = &*self.0;
        let read =
            array.chunks(source, wanted, Caps::from_chunk_len(*chunk_bytes), Caching::Keep).await;
        let ordered = |(place, bytes): (crate::layout::Located, Bytes)| {
            if to_u64(bytes.len()) != *chunk_bytes {
                let (class, found) = (Class::CountMismatch, bytes.len());
                return Err(place.locate_error(Error::new(class, "bytes", *chunk_bytes, found)));
            }
            Ok(items.unpack(bytes))
        };
        read.into_iter().map(|chunk| chunk?.map(ordered).transpose()).collect()
    }
}
