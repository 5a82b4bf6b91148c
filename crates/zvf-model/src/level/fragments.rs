//! The fragment indexes of chunks, checked once and kept.

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::Class;
use zvf_format::fragment::{FragmentBlob, FragmentIndex};
use zvf_format::key::ChunkKey;
use zvf_store::{Caching, Cells, Key};

use super::LevelReader;

/// The fragments of one chunk: the blob, known to be sound.
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
    #[must_use]
    pub fn view(&self) -> FragmentIndex<'_> {
        self.blob.view()
    }

    /// Returns the chunk they are of.
    #[must_use]
    pub const fn chunk(&self) -> &ChunkKey {
        &self.chunk
    }

    /// Returns how many fragments there are, empty ones included; a `u64`, as the store counts them.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Returns the first row number that no fragment reaches, as all above it: counted once, when the blob was checked.
    #[must_use]
    pub const fn extent(&self) -> u64 {
        self.extent
    }

    /// Returns whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the blob as stored.
    #[must_use]
    pub const fn blob(&self) -> &Bytes {
        self.blob.bytes()
    }

    /// Checks that no fragment names a row past the `rows` that the chunk has.
    ///
    /// # Errors
    ///
    /// [`Class::OutOfBounds`] for the first one that does.
    pub fn check_rows(&self, rows: u64) -> Result<()> {
        self.view().check_rows(rows).at_array(&self.array).at_chunk(&self.chunk)
    }
}

impl LevelReader {
    /// Returns the fragments of the chunks `keys`, in their order. They stay with the handle.
    ///
    /// Each answer has its own fault. A chunk that has vertices and no fragments is one: nothing says
    /// which of its rows count.
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

    /// Returns the groups of link rows of the chunks `keys`; `None` where nothing is stored.
    ///
    /// Each answer has its own fault: a blob that cannot be read or is no fragment index.
    #[boxed]
    pub async fn link_fragments(&self, keys: &[ChunkKey]) -> Vec<Result<Option<ChunkFragments>>> {
        match self.node().cells("link_fragments").await {
            Ok(Some(cells)) => indexes(&cells, keys).await,
            Ok(None) => keys.iter().map(|_| Ok(None)).collect(),
            Err(error) => keys.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    /// Returns the chunks that have fragments and no vertices: none in a sound store, where at most an index without
    /// fragments lies beside no vertices.
    ///
    /// Presence lists of the same length are taken to name the same chunks. A chunk with vertices and
    /// without fragments is refused where it is read.
    ///
    /// # Errors
    ///
    /// When presence is recorded wrongly, or a fragment index cannot be read.
    #[boxed]
    pub async fn fragments_without_vertices(&self) -> Result<Vec<ChunkFragments>> {
        let (vertices, fragments) = (self.chunks().await, self.fragment_cells().presence().await);
        // Where nothing lists the chunks, none can be compared.
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

    /// Returns whether rows of vertices lie in logical order as they are stored: the level claims it, and its
    /// first chunk bears it out. A first chunk that cannot be read does not: the others are still answered.
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

/// Returns the fragment indexes in the cells `keys`; `None` where nothing is stored.
async fn indexes(cells: &Cells, keys: &[ChunkKey]) -> Vec<Result<Option<ChunkFragments>>> {
    let blobs = cells.read_many(keys, Caching::Keep).await;
    let fragments = blobs.into_iter().zip(keys).map(|(blob, key)| {
        let place = |error: Error| error.at_array(cells.path()).at_chunk(key);
        let blob = blob.map_err(&place)?;
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
