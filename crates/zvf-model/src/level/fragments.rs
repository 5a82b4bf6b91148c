//! The fragment indexes of chunks, checked once and kept.

use bytes::Bytes;
use zvf_format::fragment::FragmentIndex;
use zvf_format::key::ChunkKey;
use zvf_format::{Class, Expected};
use zvf_store::Caching;

use super::LevelReader;
use crate::ModelError;

/// The fragments of one chunk: the blob, known to be sound.
#[derive(Clone, Debug)]
pub struct ChunkFragments {
    blob: Bytes, // parses
    len: u64,
}

impl ChunkFragments {
    /// Checks a blob.
    ///
    /// # Errors
    ///
    /// When it is not a fragment index.
    pub fn new(blob: Bytes) -> Result<Self, ModelError> {
        let len = FragmentIndex::parse(&blob)?.len();
        Ok(Self { blob, len })
    }

    /// The index.
    ///
    /// # Errors
    ///
    /// Never: the blob was checked. A caller need not know that.
    pub fn view(&self) -> Result<FragmentIndex<'_>, ModelError> {
        Ok(FragmentIndex::parse(&self.blob)?)
    }

    /// How many fragments there are, empty ones included.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The blob as stored.
    #[must_use]
    pub const fn blob(&self) -> &Bytes {
        &self.blob
    }
}

impl LevelReader {
    /// The fragments of the chunks `keys`, in their order. They stay with the handle.
    ///
    /// Each answer has its own fault. A chunk that has vertices and no fragments is one: nothing says
    /// which of its rows count.
    pub async fn fragments(&self, keys: &[ChunkKey]) -> Vec<Result<ChunkFragments, ModelError>> {
        let cells = self.fragment_cells();
        let blobs = cells.read_many(keys, Caching::Keep).await;
        let each = blobs.into_iter().zip(keys).map(|(blob, key)| {
            let place = |error: ModelError| error.in_array(cells.path()).in_chunk(key);
            match blob.map_err(ModelError::from).map_err(place)? {
                Some(blob) => ChunkFragments::new(blob).map_err(place),
                None => {
                    let expected = Expected::Rule("a fragment index for every chunk with vertices");
                    Err(place(ModelError::refused(Class::NotFound, "fragments", expected, "none")))
                }
            }
        });
        each.collect()
    }
}
