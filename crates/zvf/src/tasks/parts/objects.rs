//! Parts in an object store: what is there, uploads, and copies that the store makes itself.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use object_store::path::Path as ObjectPath;
use object_store::{MultipartUpload as _, ObjectStore, ObjectStoreExt as _};
use zvf_store::{Objects, Op, OpenOptions, StoreError};

use super::in_place;
use crate::Error;

/// The objects beside a result, by their keys.
#[derive(Debug)]
pub(in crate::tasks) struct PartObjects {
    store: Arc<dyn ObjectStore>,
    above: ObjectPath, // what keys are below
    objects: Objects,
}

impl PartObjects {
    /// Those below `above`.
    pub(super) fn new(
        store: Arc<dyn ObjectStore>,
        above: ObjectPath,
        options: &OpenOptions,
    ) -> Self {
        let objects = Objects::new(Arc::clone(&store), &above, options);
        Self { store, above, objects }
    }

    /// The length of an object, whose name is empty, or the names and lengths of all objects below its name.
    pub(super) async fn sizes(&self, key: &str) -> Result<Vec<(String, u64)>, Error> {
        if let Some((bytes, _changed)) = self.objects.about(key).await? {
            return Ok(vec![(String::new(), bytes)]);
        }
        let listed = self.objects.list(key).await?.into_iter();
        let mut sizes: Vec<_> = listed.map(|(name, bytes)| (format!("/{name}"), bytes)).collect();
        sizes.sort();
        Ok(sizes)
    }

    /// Removes all objects below a name.
    pub(super) async fn remove_below(&self, key: &str) -> Result<(), Error> {
        Ok(self.objects.remove_below(key).await?)
    }

    /// Copies a file to an object, which appears whole.
    pub(super) async fn upload(&self, from: &Path, key: &str) -> Result<(), Error> {
        let failed = |error: std::io::Error| in_place(Op::Read, from, &error);
        if fs::metadata(from).map_err(failed)?.len() < BLOCK_BYTES {
            let bytes = Bytes::from(fs::read(from).map_err(failed)?);
            return Ok(self.objects.put(key, &bytes).await?);
        }
        let to = self.path(key)?;
        insist(|| upload_blocks(&*self.store, from, &to).boxed()).await
    }

    /// Has the store copy an object.
    pub(super) async fn copy(&self, from: &str, to: &str) -> Result<(), Error> {
        let (from, to) = (self.path(from)?, self.path(to)?);
        insist(|| copy(&*self.store, &from, &to).boxed()).await
    }

    fn path(&self, key: &str) -> Result<ObjectPath, Error> {
        let slash = if self.above.as_ref().is_empty() { "" } else { "/" };
        let path = ObjectPath::parse(format!("{}{slash}{key}", self.above));
        path.map_err(|_refused| Error::bad_request("a part", "a name that objects may have", key))
    }
}

/// Uploads a file block by block.
async fn upload_blocks(store: &dyn ObjectStore, from: &Path, to: &ObjectPath) -> Result<(), Error> {
    let read = |file: &mut fs::File| {
        let mut block = Vec::new();
        let read = file.take(BLOCK_BYTES).read_to_end(&mut block);
        read.map(|_bytes| block).map_err(|error| in_place(Op::Read, from, &error))
    };
    let failed = |error: object_store::Error| at_object(Op::Write, to, &error);
    let mut file = fs::File::open(from).map_err(|error| in_place(Op::Read, from, &error))?;
    let mut block = read(&mut file)?;
    let mut upload = store.put_multipart(to).await.map_err(failed)?;
    while !block.is_empty() {
        let put = upload.put_part(block.into()).await.map_err(failed);
        match put.and_then(|()| read(&mut file)) {
            Ok(next) => block = next,
            Err(error) => {
                // The first error is the one to report; stores remove what is left of it in time.
                drop(upload.abort().await);
                return Err(error);
            }
        }
    }
    upload.complete().await.map(drop).map_err(failed)
}

async fn copy(store: &dyn ObjectStore, from: &ObjectPath, to: &ObjectPath) -> Result<(), Error> {
    store.copy(from, to).await.map_err(|error| at_object(Op::Publish, to, &error))
}

/// Tries again what a network did not let through.
async fn insist<'a>(
    mut ask: impl FnMut() -> BoxFuture<'a, Result<(), Error>>,
) -> Result<(), Error> {
    for wait in WAITS {
        match ask().await {
            Err(error) if error.retryable() => tokio::time::sleep(wait).await,
            done => return done,
        }
    }
    ask().await
}

fn at_object(op: Op, object: &ObjectPath, error: &object_store::Error) -> Error {
    use object_store::Error as Refusal;
    let kind = if matches!(error, Refusal::NotFound { .. }) {
        std::io::ErrorKind::NotFound
    } else if matches!(error, Refusal::PermissionDenied { .. } | Refusal::Unauthenticated { .. }) {
        std::io::ErrorKind::PermissionDenied
    } else {
        std::io::ErrorKind::Other
    };
    StoreError::io(op, std::io::Error::new(kind, format!("{object}: {error}"))).into()
}

/// Bytes of an upload that go at once; all but the last of an object are as long, and a store takes 10 000.
pub(super) const BLOCK_BYTES: u64 = 16 << 20;
const WAITS: [Duration; 4] = [
    Duration::from_millis(200),
    Duration::from_millis(800),
    Duration::from_secs(3),
    Duration::from_secs(10),
];
