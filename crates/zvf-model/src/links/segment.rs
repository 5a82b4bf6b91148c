//! A segment of a link family: cells with the same offset and form.

use async_recursion::async_recursion as boxed;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::OnceCell;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::key::{ChunkKey, Offsets};
use zvf_format::link::{Body, LinkCell, LinkPolicy, LinkStorage, PartitionedLinks, RowShape};
use zvf_format::{Class, FormatError};
use zvf_store::{Caching, Cells, DenseArray, KeyTable};

use super::blob::Blob;
use super::records::LinkRecords;
use crate::level::draco::DracoCells;

/// Cells of links with one location in the store; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/bridge.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// # let level = zvf_model::LevelReader::open(&store, zvf_model::LevelId(0)).await?;
/// let links = level.links(zvf_format::key::Delta::SAME).await?.expect("the level has links");
/// let bridges = &links.segments()[0];
/// let records = bridges.read(&[0], zvf_store::Caching::Once).await.remove(0)?;
/// let ends: Vec<_> = records.endpoints(0).map(|(chunk, row)| format!("{chunk}/{row}")).collect();
/// assert_eq!(ends, ["1.0/0", "0.0/1"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LinkSegment {
    inner: Arc<OpenedSegment>,
    tried: Option<Arc<KeyTable>>, // sources that are tried where nothing says which there are
}

#[derive(Debug)]
struct OpenedSegment {
    policy: LinkPolicy,
    form: Form,
}

/// The location of cells.
#[derive(Debug)]
pub(super) enum Form {
    /// Records from chunk c to the chunks at `offsets` from it, stored under c.
    Sources { cells: Cells, offsets: Arc<Offsets>, shape: RowShape, body: Body },
    /// Records between chunks whose keys are joined into one.
    Tuples { cells: Cells, shape: RowShape },
    /// One blob.
    Flat { data: DenseArray, blob: OnceCell<Arc<Blob>> },
    /// The faces in the Draco streams of vertices.
    Streams { streams: DracoCells, offsets: Arc<Offsets> },
    /// One blob for each set of chunks.
    Partitioned { leaves: Vec<(Vec<ChunkKey>, DenseArray)> },
}

/// The cells of a segment, and the chunks that each joins.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/bridge.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// # let level = zvf_model::LevelReader::open(&store, zvf_model::LevelId(0)).await?;
/// let links = level.links(zvf_format::key::Delta::SAME).await?.expect("the level has links");
/// let cells = links.segments()[0].cells().await?;
/// let chunks: Vec<String> = cells.chunks(0)?.iter().map(ToString::to_string).collect();
/// assert_eq!((cells.len(), chunks), (1, vec!["0.0".to_owned(), "1.0".to_owned()]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LinkCells {
    policy: LinkPolicy,
    list: CellList,
}

#[derive(Clone, Debug)]
enum CellList {
    Sources { table: Arc<KeyTable>, offsets: Arc<Offsets> },
    Tuples(Arc<KeyTable>),
    Listed(Vec<Vec<ChunkKey>>),
}

impl LinkSegment {
    pub(super) fn new(policy: LinkPolicy, form: Form) -> Self {
        Self { inner: Arc::new(OpenedSegment { policy, form }), tried: None }
    }

    /// Returns the same segment with `chunks` as sources, if the actual ones are not listed.
    pub(super) fn with_candidates(&self, chunks: &Arc<KeyTable>) -> Self {
        Self { inner: Arc::clone(&self.inner), tried: Some(Arc::clone(chunks)) }
    }

    /// Returns the offsets of the other chunks from the source; `None` if each cell names all its
    /// chunks.
    pub fn offsets(&self) -> Option<&Offsets> {
        match &self.inner.form {
            Form::Sources { offsets, .. } | Form::Streams { offsets, .. } => Some(offsets),
            Form::Tuples { .. } | Form::Flat { .. } | Form::Partitioned { .. } => None,
        }
    }

    /// Returns whether all endpoints of its records are in one chunk.
    pub fn is_intra(&self) -> bool {
        self.offsets().is_some_and(Offsets::are_zero)
    }

    /// Returns its path below the root of the store.
    pub fn path(&self) -> String {
        match &self.inner.form {
            Form::Sources { cells, .. } | Form::Tuples { cells, .. } => cells.path().to_string(),
            Form::Streams { streams, .. } => streams.cells.path().to_string(),
            Form::Flat { data, .. } => data.path().to_string(),
            Form::Partitioned { leaves } => {
                leaves.first().map_or_else(String::new, |(_, leaf)| leaf.path().to_string())
            }
        }
    }

    /// Returns the non-empty cells.
    ///
    /// # Errors
    ///
    /// When presence is recorded wrongly, or not at all and the backend cannot list; in the flat
    /// form of 0.6 and 0.7, when the blob is invalid or cannot be read.
    #[boxed]
    pub async fn cells(&self) -> Result<LinkCells> {
        let list = match &self.inner.form {
            Form::Sources { cells, offsets, .. }
            | Form::Streams { streams: DracoCells { cells, .. }, offsets } => {
                let table = match (cells.presence().await, &self.tried) {
                    (Err(error), Some(tried)) if error.class() == Class::Unsupported => {
                        Arc::clone(tried)
                    }
                    (table, _) => table?,
                };
                CellList::Sources { table, offsets: Arc::clone(offsets) }
            }
            Form::Tuples { cells, .. } => CellList::Tuples(cells.presence().await?),
            Form::Flat { .. } => {
                let blob = self.blob().await?;
                CellList::Listed(blob.cells.iter().map(|cell| cell.chunks().to_vec()).collect())
            }
            Form::Partitioned { leaves } => {
                CellList::Listed(leaves.iter().map(|(chunks, _)| chunks.clone()).collect())
            }
        };
        Ok(LinkCells { policy: self.inner.policy, list })
    }

    /// Returns the records of the cells at `places` of [`cells`](Self::cells), in that order.
    ///
    /// Each answer has its own error, which names the cell: it cannot be read, or does not contain
    /// records.
    #[boxed]
    pub async fn read(&self, places: &[usize], caching: Caching) -> Vec<Result<LinkRecords>> {
        let all = |error: Error| places.iter().map(|_| Err(error.clone())).collect();
        let listed = match self.cells().await {
            Ok(listed) => listed,
            Err(error) => return all(error),
        };
        match &self.inner.form {
            Form::Sources { cells, shape, body, .. } => {
                self.read_cells(cells, &listed, places, *shape, *body, caching).await
            }
            Form::Tuples { cells, shape } => {
                self.read_cells(cells, &listed, places, *shape, Body::Inline, caching).await
            }
            Form::Streams { streams, .. } => {
                let keys: Vec<Option<ChunkKey>> =
                    places.iter().map(|place| listed.key(*place)).collect();
                self.read_streams(streams, &keys, caching).await
            }
            Form::Flat { .. } => match self.blob().await {
                Ok(blob) => places
                    .iter()
                    .map(|place| blob.cells.get(*place).cloned().ok_or_else(missing_place_error))
                    .collect(),
                Err(error) => all(error),
            },
            Form::Partitioned { leaves } => {
                let read = |place: &usize| {
                    let leaf = leaves.get(*place);
                    async move {
                        let (chunks, leaf) = leaf.ok_or_else(missing_place_error)?;
                        self.read_leaf(chunks, leaf).await
                    }
                };
                futures_util::future::join_all(places.iter().map(read)).await
            }
        }
    }

    /// Returns the array whose chunks are the cells, if there is one.
    pub(super) fn array(&self) -> Option<&Cells> {
        match &self.inner.form {
            Form::Sources { cells, .. } | Form::Tuples { cells, .. } => Some(cells),
            Form::Flat { .. } | Form::Partitioned { .. } | Form::Streams { .. } => None,
        }
    }

    /// Returns the faces in the streams of chunks.
    async fn read_streams(
        &self,
        streams: &DracoCells,
        keys: &[Option<ChunkKey>],
        caching: Caching,
    ) -> Vec<Result<LinkRecords>> {
        let present_keys: Vec<ChunkKey> = keys.iter().flatten().copied().collect();
        let mut chunks = streams.decode(&present_keys, caching).await.into_iter();
        let records = |key: &Option<ChunkKey>| {
            let key = key.ok_or_else(missing_place_error)?;
            let chunk = chunks.next().transpose()?.flatten();
            let mut records = self.empty_records(&vec![key; self.inner.policy.link_width()]);
            for face in chunk.iter().flat_map(|chunk| &chunk.faces) {
                records.push_rows(&face.map(u64::from));
            }
            Ok(records)
        };
        keys.iter().map(records).collect()
    }

    /// Returns whether this is the flat form of 0.6 and 0.7.
    pub(super) fn is_flat(&self) -> bool {
        matches!(self.inner.form, Form::Flat { .. })
    }

    async fn read_cells(
        &self,
        cells: &Cells,
        listed: &LinkCells,
        places: &[usize],
        shape: RowShape,
        body: Body,
        caching: Caching,
    ) -> Vec<Result<LinkRecords>> {
        let keys: Vec<Option<ChunkKey>> = places.iter().map(|place| listed.key(*place)).collect();
        let present_keys: Vec<ChunkKey> = keys.iter().flatten().copied().collect();
        let mut payloads = cells.read_many(&present_keys, caching).await.into_iter();
        let records = |(key, place): (&Option<ChunkKey>, &usize)| {
            let key = key.ok_or_else(missing_place_error)?;
            let in_cell = |error: Error| error.at_array(cells.path()).at_chunk(&key);
            let payload = payloads.next().transpose().map_err(&in_cell)?.flatten();
            let chunks = listed.chunks(*place).map_err(in_cell)?;
            // A listed cell has no bytes, or a cell that was tried does not exist.
            self.parse_cell(&chunks, &payload.unwrap_or_default(), shape, body)
                .map_err(|error| in_cell(error.into()))
        };
        keys.iter().zip(places).map(records).collect()
    }

    fn parse_cell(
        &self,
        chunks: &[ChunkKey],
        payload: &Bytes,
        shape: RowShape,
        body: Body,
    ) -> Result<LinkRecords, FormatError> {
        let mut records = self.empty_records(chunks);
        let cell = LinkCell::parse(payload, body, shape)?;
        records.push_cell(&cell);
        Ok(records)
    }

    async fn read_leaf(&self, chunks: &[ChunkKey], leaf: &DenseArray) -> Result<LinkRecords> {
        let bytes = leaf.read_all().await?;
        let slots = u8::try_from(chunks.len()).unwrap_or(u8::MAX); // at most 8
        let links = PartitionedLinks::parse(&bytes, self.inner.policy.link_width(), slots)
            .at_array(leaf.path())?;
        let mut records = self.empty_records(chunks);
        records.reserve(links.len());
        for record in links.records() {
            records.push_ends(record.endpoints().map(|(slot, row)| (usize::from(slot), row)));
        }
        Ok(records)
    }

    fn empty_records(&self, chunks: &[ChunkKey]) -> LinkRecords {
        let policy = &self.inner.policy;
        LinkRecords::new(chunks, policy.link_width())
            .with_duplicated(policy.store() == LinkStorage::Duplicate)
    }

    /// Returns the flat form, which is read once.
    async fn blob(&self) -> Result<Arc<Blob>> {
        let Form::Flat { data, blob } = &self.inner.form else {
            return Ok(Arc::new(Blob { cells: Vec::new() }));
        };
        let policy = &self.inner.policy;
        let blob = blob.get_or_try_init(|| async {
            let bytes = data.read_all().await?;
            let blob = Blob::new(&bytes, policy.link_width(), policy.sid_ndim());
            blob.map(Arc::new).at_array(data.path())
        });
        Ok(Arc::clone(blob.await?))
    }
}

impl LinkCells {
    /// Returns the number of cells.
    pub fn len(&self) -> usize {
        match &self.list {
            CellList::Sources { table, .. } | CellList::Tuples(table) => table.len(),
            CellList::Listed(cells) => cells.len(),
        }
    }

    /// Returns whether there are no cells.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the chunks that the records of the cell at `place` join. The first is the source;
    /// the others belong to the level that the family links to.
    ///
    /// # Errors
    ///
    /// When there is no such cell, or the key of one of its chunks overflows 64 bits.
    pub fn chunks(&self, place: usize) -> Result<Vec<ChunkKey>> {
        match &self.list {
            CellList::Sources { table, offsets } => {
                let source = table.get(place).ok_or_else(missing_place_error)?;
                Ok(self.policy.endpoint_chunks(&source, offsets)?.chunks().to_vec())
            }
            CellList::Tuples(table) => {
                let row = table.row(place).ok_or_else(missing_place_error)?;
                let chunks = row.chunks_exact(self.policy.sid_ndim()).map(ChunkKey::new);
                Ok(chunks.collect::<Result<_, _>>()?)
            }
            CellList::Listed(cells) => cells.get(place).cloned().ok_or_else(missing_place_error),
        }
    }

    /// Returns the source of the cell at `place`.
    pub fn source(&self, place: usize) -> Option<ChunkKey> {
        match &self.list {
            CellList::Sources { table, .. } => table.get(place),
            CellList::Tuples(table) => table
                .row(place)
                .and_then(|row| ChunkKey::new(row.get(..self.policy.sid_ndim())?).ok()),
            CellList::Listed(cells) => cells.get(place)?.first().copied(),
        }
    }

    /// Returns the cell with records from `source`, in a segment with at most one such cell.
    pub fn find(&self, source: &ChunkKey) -> Option<usize> {
        match &self.list {
            CellList::Sources { table, .. } => table.find(source),
            CellList::Tuples(_) | CellList::Listed(_) => None,
        }
    }

    /// Returns the positions of the cells in the enumeration order of a family: by the text of
    /// their keys.
    pub fn cell_order(&self) -> Vec<usize> {
        match &self.list {
            CellList::Sources { table, .. } | CellList::Tuples(table) => table.string_order(),
            CellList::Listed(cells) => (0..cells.len()).collect(),
        }
    }

    fn key(&self, place: usize) -> Option<ChunkKey> {
        match &self.list {
            CellList::Sources { table, .. } | CellList::Tuples(table) => table.get(place),
            CellList::Listed(_) => None,
        }
    }
}

pub(super) fn missing_place_error() -> Error {
    Error::new(
        Class::InvalidArgument,
        "cell of links",
        "a place among the cells of the segment",
        "one past them",
    )
}
