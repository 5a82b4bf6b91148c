//! The common part of the writers of rows and items: a chunk that grows, and is then encoded and
//! written.

use zvf_error::Result;
use zvf_metadata::{ArrayDoc, Object};

use super::Build;
use super::memory_limiter::GrowingPermit;
use crate::codec::{self, CodecPipeline};
use crate::key::Key;

/// Counts of a written standalone array.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # use zvf_store::{Build, BuildOptions, DensePlan, RowPlan};
/// # let dir = tempfile::tempdir().unwrap();
/// # let build = Build::begin(dir.path().join("x").to_str().unwrap(), BuildOptions::default()).await?;
/// let mut groups = build.rows("0/groups", RowPlan::default())?;
/// groups.push(&[1; 8])?;
/// groups.push(b"")?;
/// let report = groups.finish(|_| ()).await?;
/// assert_eq!((report.rows, report.objects), (2, 1));
///
/// // One object with id 0: nothing but the fill value, so nothing is stored.
/// let mut ids = build.dense("0/object_index/object_ids", DensePlan::new(zvf_metadata::Dtype::INT64))?;
/// ids.push(&0_i64.to_le_bytes())?;
/// let report = ids.finish(|_| ()).await?;
/// assert_eq!((report.rows, report.objects), (1, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArrayReport {
    /// Number of rows, including empty ones.
    pub rows: u64,
    /// Bytes of the objects.
    pub stored_bytes: u64,
    /// Number of objects, without the document.
    pub objects: u64,
}

/// A standalone array that is written in the order of its chunks.
#[derive(Debug)]
pub(super) struct Standalone {
    build: Build,
    pub(super) key: Key,
    attributes: Object,
    codecs: CodecPipeline,
    pub(super) chunk: Vec<u8>,
    pub(super) report: ArrayReport,
    room: GrowingPermit,
}

impl Standalone {
    pub(super) fn new(build: Build, key: Key, attributes: Object, codecs: CodecPipeline) -> Self {
        let (room, report) = (GrowingPermit::new(&build.0.room), ArrayReport::default());
        Self { build, key, attributes, codecs, chunk: Vec::new(), report, room }
    }

    /// Appends these bytes to the chunk.
    pub(super) fn append(&mut self, front: &[u8], bytes: &[u8]) -> Result<()> {
        self.room.acquire_up_to(self.chunk.len() + front.len() + bytes.len())?;
        self.chunk.extend_from_slice(front);
        self.chunk.extend_from_slice(bytes);
        Ok(())
    }

    /// Returns the chunk, and begins the next one with `next`.
    pub(super) fn take(&mut self, next: Vec<u8>) -> Vec<u8> {
        self.room.clear();
        std::mem::replace(&mut self.chunk, next)
    }

    /// Encodes and writes a chunk under this name.
    pub(super) fn write(&mut self, name: &str, chunk: Vec<u8>) -> Result<()> {
        let parts = self.build.encode(&self.codecs, vec![chunk.into()])?;
        self.report.stored_bytes += codec::len(&parts);
        self.report.objects += 1;
        self.build.object(self.key.join(name)?, parts)
    }

    /// Writes the document; `attributes` may add to its attributes.
    pub(super) fn finish(
        &mut self,
        mut doc: ArrayDoc,
        attributes: impl FnOnce(&mut Object),
    ) -> Result<ArrayReport> {
        doc.codecs.extend(self.codecs.metadata());
        doc.attributes = std::mem::take(&mut self.attributes);
        attributes(&mut doc.attributes);
        self.build.array(&self.key, &doc)?;
        Ok(self.report)
    }
}
