//! The object index of a level: from an object to its fragments.
//!
//! ```text
//! layout                 manifests                             id of row r
//! none (0.6, early 0.7)  data, offsets: blobs back to back     r
//! vlen_manifests_v1      manifests: one blob a row             r
//! vlen_manifests_v2      manifests: one blob a row             object_ids[r]
//! dense_manifests_v1     manifest_spans, manifest_blocks       object_ids[r]
//! ```
//!
//! The declared layout decides, not the existing arrays. Only if the declared array is missing and
//! the other one exists, that one is read. Rows past `num_objects` are leftovers of an interrupted
//! append and are ignored. An empty row is an object without fragments.
//!
//! Rows are requested in batches, and nothing here ever holds all of them: an index may have 10^8.
//!
//! Not here: the objects of a fragment (`owners`), and the values of objects (`rowwise`).

mod attributes;
mod dense;
mod follow;
mod ids;
mod manifest;
mod open;

use async_recursion::async_recursion as boxed;
use std::ops::Range;
use std::sync::Arc;

use tokio::sync::OnceCell;
use zvf_error::{Error, Result};
use zvf_format::num::i64s_from_le;
use zvf_format::{Class, Expected};
use zvf_store::{DenseArray, Rows};

pub use follow::{FollowedObjects, FragmentVisit, ObjectRuns};
pub use manifest::ObjectManifest;
pub(crate) use manifest::chunk_key;

use crate::ObjectId;
use ids::{IdTable, SparseIndex};

/// The objects of a level; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/bridge.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// # let level = zvf_model::LevelReader::open(&store, zvf_model::LevelId(0)).await?;
/// use zvf_model::ObjectId;
///
/// let objects = level.objects().await?.expect("the level has an index");
/// assert_eq!(objects.find(&[ObjectId(7), ObjectId(8)]).await?, [Some(0), None]);
/// let manifest = objects.manifests(&[0]).await?.remove(0);
/// assert_eq!(manifest.references().count(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ObjectIndex {
    inner: Arc<OpenedIndex>,
}

#[derive(Debug)]
struct OpenedIndex {
    path: String,
    slots: u64, // at most `open::MAX_OBJECTS`
    rank: u64,  // components of a chunk key
    form: Form,
    ids: Ids,
    cap: u64, // bytes that a table of ids may take
}

#[derive(Debug)]
enum Form {
    Blobs(Rows),
    Dense { spans: DenseArray, blocks: DenseArray },
}

#[derive(Debug)]
enum Ids {
    /// The id is the row number.
    Row,
    /// Ids are stored in a column. There is no table if it would be too large, and no sparse index
    /// if ids do not ascend.
    Column {
        ids: DenseArray,
        table: OnceCell<Option<IdTable>>,
        sparse: OnceCell<Option<SparseIndex>>,
    },
}

impl ObjectIndex {
    /// Returns the number of rows of the index, including objects without fragments.
    pub fn slots(&self) -> u64 {
        self.inner.slots
    }

    /// Returns its path below the root of the store.
    pub fn path(&self) -> &str {
        &self.inner.path
    }

    /// Returns the ids of the rows `range`.
    ///
    /// # Errors
    ///
    /// When there are not so many rows, or the ids cannot be read.
    #[boxed]
    pub async fn ids(&self, range: Range<u64>) -> Result<Vec<ObjectId>> {
        self.check_end(range.end)?;
        match &self.inner.ids {
            Ids::Row => range.map(|row| self.as_id(row)).collect(),
            Ids::Column { ids, .. } => {
                // The bytes read at once are bounded; the result belongs to the caller.
                let mut all = Vec::new();
                for piece in dense::pieces(range) {
                    all.extend(i64s_from_le(&ids.rows(piece).await?).map(ObjectId));
                }
                Ok(all)
            }
        }
    }

    /// Returns the ids of `rows`, in that order.
    ///
    /// # Errors
    ///
    /// As [`ids`](Self::ids).
    #[boxed]
    pub async fn ids_of(&self, rows: &[u64]) -> Result<Vec<ObjectId>> {
        self.check_rows(rows)?;
        match &self.inner.ids {
            Ids::Row => rows.iter().map(|row| self.as_id(*row)).collect(),
            Ids::Column { ids, table, sparse } => {
                if let Some(Some(table)) = table.get()
                    && let Some(ids) =
                        rows.iter().map(|row| table.id(*row)).collect::<Option<Vec<_>>>()
                {
                    return Ok(ids);
                }
                if let Some(Some(sparse)) = sparse.get()
                    && let Some(ids) = sparse.ids(rows)
                {
                    return Ok(ids);
                }
                let bytes = ids.take(rows).await?;
                Ok(i64s_from_le(&bytes).map(ObjectId).collect())
            }
        }
    }

    /// Returns the row of each of `ids`; `None` if there is no such object.
    ///
    /// # Errors
    ///
    /// [`Class::Duplicate`] when several rows claim one of them; otherwise when the ids cannot be read.
    #[boxed]
    pub async fn find(&self, ids: &[ObjectId]) -> Result<Vec<Option<u64>>> {
        let found = match &self.inner.ids {
            Ids::Row => {
                let row =
                    |id: &ObjectId| u64::try_from(id.0).ok().filter(|row| *row < self.slots());
                return Ok(ids.iter().map(row).collect());
            }
            Ids::Column { ids: column, .. } => match self.table().await? {
                Some(table) => ids.iter().map(|id| table.find(*id)).collect(),
                None => match self.sparse_index().await? {
                    Some(index) => index.find(column, self.slots(), ids).await?,
                    None => ids::search(column, self.slots(), ids).await?,
                },
            },
        };
        let rows = found.into_iter().zip(ids).map(|(found, id)| {
            if *id == ObjectId::RESERVED {
                return Ok(None); // of no object, however many rows have it
            }
            found.map_err(|rows| {
                let error = Error::new(Class::Duplicate, "rows of one id", 1, rows);
                error.at_array(format!("{}/object_ids", self.inner.path)).at_object(id.0)
            })
        });
        rows.collect()
    }

    /// Returns the manifests of `rows`, in that order.
    ///
    /// # Errors
    ///
    /// [`Class::OutOfBounds`] for a missing row; otherwise when a manifest is invalid or cannot be
    /// read, with the object.
    #[boxed]
    pub async fn manifests(&self, rows: &[u64]) -> Result<Vec<ObjectManifest>> {
        self.check_rows(rows)?;
        let found = match &self.inner.form {
            Form::Blobs(blobs) => {
                let blobs = blobs.rows(rows).await?;
                let row_blobs = blobs.into_iter().zip(rows);
                row_blobs
                    .map(|(blob, row)| ObjectManifest::new(*row, self.inner.rank, blob))
                    .collect()
            }
            Form::Dense { spans, blocks } => {
                dense::manifests(spans, blocks, rows, self.inner.rank).await?
            }
        };
        let mut manifests = Vec::with_capacity(rows.len());
        for (manifest, row) in found.into_iter().zip(rows) {
            match manifest {
                Ok(manifest) => manifests.push(manifest),
                Err(error) => return Err(self.blame(error, *row).await),
            }
        }
        Ok(manifests)
    }

    /// Calls `visit` with every manifest, in row order, with a bounded number of them in memory.
    ///
    /// # Errors
    ///
    /// As [`manifests`](Self::manifests), and the first error of `visit`, with the object added.
    pub async fn scan(&self, mut visit: impl FnMut(&ObjectManifest) -> Result<()>) -> Result<()> {
        self.scan_while(|manifest| visit(manifest).map(|()| true)).await
    }

    /// Like [`scan`](Self::scan), until `visit` returns false.
    pub(crate) async fn scan_while(
        &self,
        mut visit: impl FnMut(&ObjectManifest) -> Result<bool>,
    ) -> Result<()> {
        let mut start = 0;
        while start < self.slots() {
            let end = (start + BATCH).min(self.slots());
            let rows: Vec<u64> = (start..end).collect();
            for manifest in self.manifests(&rows).await? {
                match visit(&manifest) {
                    Ok(true) => {}
                    Ok(false) => return Ok(()),
                    Err(error) => return Err(self.blame(error, manifest.row()).await),
                }
            }
            start = end;
        }
        Ok(())
    }

    /// Returns the error with the object at `row` added.
    async fn blame(&self, error: Error, row: u64) -> Error {
        let error = error.at_array(&self.inner.path);
        match self.ids_of(&[row]).await.as_deref() {
            Ok([id]) => error.at_object(id.0),
            _ => error,
        }
    }

    /// Returns the ids by value, built once; `None` if there are too many.
    async fn table(&self) -> Result<Option<&IdTable>> {
        let Ids::Column { ids, table, .. } = &self.inner.ids else { return Ok(None) };
        let table = table.get_or_try_init(|| async {
            if self.slots() * IdTable::BYTES > self.inner.cap {
                return Ok(None);
            }
            let bytes = dense::all_rows(ids, self.slots()).await?;
            Ok::<_, Error>(IdTable::new(bytes))
        });
        Ok(table.await?.as_ref())
    }

    /// Returns the sparse index of ids that are too many for a table, built once; `None` if they do
    /// not ascend.
    async fn sparse_index(&self) -> Result<Option<&SparseIndex>> {
        let Ids::Column { ids, sparse, .. } = &self.inner.ids else { return Ok(None) };
        let read = || SparseIndex::read(ids, self.slots(), self.inner.cap);
        Ok(sparse.get_or_try_init(read).await?.as_ref())
    }

    fn as_id(&self, row: u64) -> Result<ObjectId> {
        i64::try_from(row).map(ObjectId).map_err(|_too_large| {
            Error::new(Class::Overflow, "row", Expected::AtMost(i64::MAX.into()), row)
                .at_array(&self.inner.path)
        })
    }

    fn check_rows(&self, rows: &[u64]) -> Result<()> {
        let last = rows.iter().copied().max().map_or(0, |row| row.saturating_add(1)); // refused, as any so large
        self.check_end(last)
    }

    fn check_end(&self, end: u64) -> Result<()> {
        if end <= self.slots() {
            return Ok(());
        }
        let (what, most) = ("end of rows of the object index", self.slots().into());
        let error = Error::new(Class::OutOfBounds, what, Expected::AtMost(most), end);
        Err(error.at_array(&self.inner.path))
    }
}

/// Number of rows that are read at a time: as many as writers put in one Zarr chunk.
const BATCH: u64 = 16_384;

const fn shareable<T: Clone + Send + Sync + 'static>() {}
const _: () = shareable::<ObjectIndex>();
