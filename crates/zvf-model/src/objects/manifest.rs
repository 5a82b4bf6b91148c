//! The manifest of one object: its fragments in order, with their chunks.

use bytes::Bytes;
use zvf_error::Result;
use zvf_format::key::ChunkKey;
use zvf_format::manifest::{Manifest, ManifestBlob};

/// The fragments of one object, in order.
///
/// ```
/// use zvf_model::ObjectManifest;
///
/// // One block: chunk 4, fragment 5.
/// let blob = &b"\x01\0\0\0\x04\0\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0"[..];
/// let manifest = ObjectManifest::new(0, 1, blob.into())?;
/// let (chunk, fragment) = manifest.references().next().unwrap();
/// assert_eq!((chunk.to_string(), fragment), ("4".into(), 5));
/// assert!(ObjectManifest::new(1, 1, Vec::new().into())?.is_empty());
/// # Ok::<(), zvf_error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectManifest {
    row: u64,
    blob: ManifestBlob<Bytes>,
}

impl ObjectManifest {
    /// Checks the blob of `row`; chunk keys have `rank` components. An empty blob has no fragments.
    ///
    /// # Errors
    ///
    /// When it is not a manifest.
    pub fn new(row: u64, rank: u64, blob: Bytes) -> Result<Self> {
        let blob = if blob.is_empty() { Bytes::from_static(NONE) } else { blob };
        Ok(Self { row, blob: ManifestBlob::parse(blob, rank)? })
    }

    /// Returns the row of the index that contains it.
    pub const fn row(&self) -> u64 {
        self.row
    }

    /// Returns the blocks and references.
    pub fn view(&self) -> Manifest<'_> {
        self.blob.view()
    }

    /// Returns the blob, as new writers store it.
    pub fn blob(&self) -> &[u8] {
        self.blob.bytes()
    }

    /// Returns whether the object has no fragments.
    pub fn is_empty(&self) -> bool {
        self.view().is_empty()
    }

    /// Returns whether the blob is empty or a manifest without blocks.
    pub fn is_absent(&self) -> bool {
        *self.blob() == *NONE
    }

    /// Iterates over chunks and fragments in order, lazily: a manifest may claim to have any number
    /// of them.
    pub fn references(&self) -> impl Iterator<Item = (ChunkKey, u64)> + '_ {
        self.view().references().map(|reference| {
            (chunk_key(reference.chunk.iter().map(|c| c.get())), reference.fragment)
        })
    }

    /// Returns each fragment with the one that follows it on the same line: a block without
    /// fragments ends a line.
    pub fn steps(&self) -> impl Iterator<Item = ((ChunkKey, u64), (ChunkKey, u64))> + '_ {
        let places = self.view().blocks().flat_map(|block| {
            let chunk = chunk_key(block.chunk.iter().map(|c| c.get()));
            let end = block.fragments.is_empty().then_some(None);
            let places = block.fragments.iter().map(move |fragment| Some((chunk, fragment)));
            end.into_iter().chain(places)
        });
        let steps =
            places.scan(None, |last, place| Some(std::mem::replace(last, place).zip(place)));
        steps.flatten()
    }
}

/// Returns the key with the components of a block of a manifest.
#[expect(clippy::expect_used, reason = "manifests with another rank are not parsed")]
pub(crate) fn chunk_key(components: impl Iterator<Item = i64>) -> ChunkKey {
    let mut buffer = [0; zvf_format::key::MAX_RANK];
    let mut rank = 0_usize;
    for (to, from) in buffer.iter_mut().zip(components) {
        *to = from;
        rank += 1;
    }
    ChunkKey::new(&buffer[..rank]).expect("manifests with another rank are not parsed")
}

/// A manifest without blocks.
const NONE: &[u8] = &[0; 4];
