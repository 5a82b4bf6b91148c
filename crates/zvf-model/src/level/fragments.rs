//! The fragment indexes of chunks, checked once and cached.

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::Class;
use zvf_format::fragment::{FragmentBlob, FragmentIndex};
use zvf_format::key::ChunkKey;
use zvf_store::{Caching, Cells, Key};

use super::LevelReader;

/// The fragments of one chunk: a blob that was checked.
///
/// ```
/// use zvf_format::key::ChunkKey;
/// use zvf_model::ChunkFragments;
/// use zvf_store::Key;
///
/// let blob = &b"GFVZ\x01\0\0\0\0\0\0\0\0\0\0\0"[..];
/// let chunk = ChunkKey::new(&[3, -1])?;
/// let fragments = ChunkFragments::new(blob.into(), &Key::root(), chunk)?;
/// assert!(fragments.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ChunkFragments {
    blob: FragmentBlob<Bytes>,
    len: u64,
    extent: u64,
    array: Key,
    chunk: ChunkKey,
}

impl ChunkFragments {
    /// Checks the blob of `chunk` in `array`.
    ///
    /// # Errors
    ///
    /// When it is not a fragment index.
    pub fn new(blob: Bytes, array: &Key, chunk: ChunkKey) -> Result<Self> {
        let blob = FragmentBlob::parse(blob).at_array(array).at_chunk(&chunk)?;
        let (len, extent) = (blob.view().len(), blob.view().extent());
        Ok(Self { blob, len, extent, array: array.clone(), chunk })
    }

    /// Returns the index.
    pub fn view(&self) -> FragmentIndex<'_> {
        self.blob.view()
    }

    /// Returns the chunk of the fragments.
    pub const fn chunk(&self) -> &ChunkKey {
        &self.chunk
    }

    /// Returns the number of fragments, including empty ones; a `u64`, as in the store.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Returns one more than the largest row number in any fragment, computed once when the blob
    /// was checked.
    pub const fn extent(&self) -> u64 {
        self.extent
    }

    /// Returns whether there are no fragments.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the blob as stored.
    pub const fn blob(&self) -> &Bytes {
        self.blob.bytes()
    }

    /// Checks that no fragment refers to a row past the `rows` of the chunk.
    ///
    /// # Errors
    ///
    /// [`Class::OutOfBounds`] for the first one that does.
    pub fn check_rows(&self, rows: u64) -> Result<()> {
        self.view().check_rows(rows).at_array(&self.array).at_chunk(&self.chunk)
    }
}

impl LevelReader {
    /// Returns the fragments of the chunks `keys`, in their order. The handle caches them.
    ///
    /// Each answer has its own error. A chunk with vertices but without fragments is an error,
    /// because nothing defines which of its rows count.
    #[boxed]
    pub async fn fragments(&self, keys: &[ChunkKey]) -> Vec<Result<ChunkFragments>> {
        if matches!(self.keeps_order().await, Ok(false)) {
            return self.draco_fragments(keys).await;
        }
        let cells = self.fragment_cells();
        let found = indexes(cells, keys).await;
        let fragments = found.into_iter().zip(keys).map(|(found, key)| {
            found?.ok_or_else(|| {
                let error = Error::new(
                    Class::NotFound,
                    "fragments",
                    "a fragment index for every chunk with vertices",
                    "none",
                );
                error.at_array(cells.path()).at_chunk(key)
            })
        });
        fragments.collect()
    }

    /// Returns the chunks that have fragments but no vertices. A valid store has none: at most, an
    /// empty index lies beside absent vertices.
    ///
    /// Presence lists of the same length are assumed to be equal. A chunk with vertices but without
    /// fragments is refused when it is read.
    ///
    /// # Errors
    ///
    /// When presence is recorded wrongly, or a fragment index cannot be read.
    #[boxed]
    pub async fn fragments_without_vertices(&self) -> Result<Vec<ChunkFragments>> {
        let (vertices, fragments) = (self.chunks().await, self.fragment_cells().presence().await);
        // Without a list of chunks, nothing can be compared.
        let (Ok(vertices), Ok(fragments)) = (vertices, fragments) else { return Ok(Vec::new()) };
        if vertices.len() == fragments.len() {
            return Ok(Vec::new());
        }
        let keys = (0..fragments.len()).filter_map(|at| fragments.get(at));
        let stray: Vec<ChunkKey> = keys.filter(|key| vertices.find(key).is_none()).collect();
        let mut found = Vec::new();
        for index in indexes(self.fragment_cells(), &stray).await {
            found.extend(index?.filter(|index| !index.is_empty()));
        }
        Ok(found)
    }

    /// Returns whether rows of vertices are stored in logical order: the level claims it, and its
    /// first chunk confirms it. If the first chunk cannot be read, the answer is false, and the
    /// others are still readable.
    ///
    /// # Errors
    ///
    /// When the chunks cannot be enumerated.
    #[boxed]
    pub async fn tiles(&self) -> Result<bool> {
        if !self.node().meta().fragments_tile {
            return Ok(false);
        }
        let Some(first) = self.chunks().await?.get(0) else { return Ok(true) };
        let first = [first];
        let (Some(Ok(fragments)), Some(Ok(rows))) =
            (self.fragments(&first).await.pop(), self.row_counts(&first).await.pop())
        else {
            return Ok(false);
        };
        Ok(fragments.view().tiles(rows))
    }
}

/// Returns the fragment indexes in the cells `keys`; `None` for cells that are not stored.
async fn indexes(cells: &Cells, keys: &[ChunkKey]) -> Vec<Result<Option<ChunkFragments>>> {
    let blobs = cells.read_many(keys, Caching::Keep).await;
    let fragments = blobs.into_iter().zip(keys).map(|(blob, key)| {
        let blob = blob.at_array(cells.path()).at_chunk(key)?;
        blob.map(|blob| ChunkFragments::new(blob, cells.path(), *key)).transpose()
    });
    fragments.collect()
}

#[cfg(test)]
mod tests {
    use zvf_format::fragment::FragmentIndexBuilder;

    use super::*;

    fn fragments(ranges: &[(u64, u64)]) -> ChunkFragments {
        let mut builder = FragmentIndexBuilder::new();
        for (start, count) in ranges {
            builder.push_range(*start, *count).unwrap();
        }
        let chunk = ChunkKey::new(&[7]).unwrap();
        ChunkFragments::new(
            builder.encode().into(),
            &Key::root().join("0/vertex_fragments").unwrap(),
            chunk,
        )
        .unwrap()
    }

    #[test]
    fn rows_by_fragment_or_an_error() {
        for (ranges, rows) in [
            (&[(0, 3)][..], Ok(&[0, 1, 2][..])),
            (&[(2, 1), (0, 2)], Ok(&[2, 0, 1])),
            (&[(1, 1), (1, 1)], Ok(&[1, 1])),
            (&[], Ok(&[])),
            (
                &[(0, 4)],
                Err(
                    "OutOfBounds in 0/vertex_fragments, fragment index start + count at byte 24: expected at most 3, found 4 \
                     (chunk 7)",
                ),
            ),
        ] {
            let fragments = fragments(ranges);
            let view = fragments.view();
            let all = || view.iter().flat_map(|fragment| fragment.rows()).collect::<Vec<u64>>();
            let found = fragments.check_rows(3).map(|()| all()).map_err(|error| error.to_string());
            assert_eq!(found, rows.map(<[u64]>::to_vec).map_err(str::to_owned), "{ranges:?}");
        }
    }
}
