//! Uploads of files of any length to a store behind the `ObjectStore` trait, and server-side
//! copies.
//!
//! A store limits the size of one request. A file that is longer than a block is sent block by
//! block, with one block in memory; the object appears when all blocks have arrived. Objects that
//! are built in memory are sent in one request ([`super::put`]).
//!
//! A single block cannot be retried, because `object_store` numbers blocks as they are sent. So a
//! retry sends the file from its start, and attempts end if no block was accepted within the time
//! limit of a request.
//!
//! Not here: the uploaded files and their names.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path as FilePath;

use bytes::Bytes;
use object_store::{MultipartUpload as _, ObjectStoreExt as _, PutMode};
use zvf_error::{Error, Result};
use zvf_format::num::to_u64;

use super::attempts::{AttemptError, Attempts};
use super::{Remote, RemoteState};
use crate::key::Key;

impl Remote {
    /// Puts a local file, replacing any existing object.
    pub(crate) async fn put_file(&self, key: &Key, from: &FilePath) -> Result<()> {
        let mut attempts = Attempts::new(&self.0, "write", key, None);
        loop {
            match self.0.send_file(key, from, &mut attempts).await {
                Ok(done) => return Ok(done),
                Err(miss) => attempts.retry_or_fail(miss).await?,
            }
        }
    }

    /// Copies an object within the store, replacing any existing one.
    pub(crate) async fn copy(&self, from: &Key, to: &Key) -> Result<()> {
        let Some(meta) = self.head(from).await? else {
            return Err(Error::missing(from, "it is to be copied"));
        };
        let (source, target) = (self.0.path(from)?, self.0.path(to)?);
        let mut attempts = Attempts::new(&self.0, "write", to, None);
        attempts.allow_body(self.0.retry.timeouts.transfer(meta.size));
        let limit = self.0.retry.timeouts.body(meta.size);
        loop {
            let request = self.0.budget.request().await;
            let copied = attempts.send(limit, self.0.store.copy(&source, &target)).await;
            drop(request);
            match copied {
                Ok(()) => return Ok(()),
                Err(miss) => attempts.retry_or_fail(miss).await?,
            }
        }
    }
}

impl RemoteState {
    /// Creates one attempt to put a file.
    async fn send_file(
        &self,
        key: &Key,
        from: &FilePath,
        attempts: &mut Attempts<'_>,
    ) -> Result<(), AttemptError> {
        let mut file = File::open(from).map_err(|error| unreadable_error(from, &error))?;
        let first = read_block(&mut file, from)?;
        if first.len() < BLOCK_BYTES {
            attempts.allow_body(self.retry.timeouts.transfer(to_u64(first.len())));
            return attempts.put(&[first], PutMode::Overwrite).await;
        }
        self.send_blocks(key, first, || read_block(&mut file, from), attempts).await
    }

    /// Sends `first` and the blocks that `next` returns, up to an empty block.
    async fn send_blocks(
        &self,
        key: &Key,
        first: Bytes,
        mut next: impl FnMut() -> Result<Bytes, AttemptError>,
        attempts: &mut Attempts<'_>,
    ) -> Result<(), AttemptError> {
        let path = self.path(key).map_err(AttemptError::Final)?;
        let _request = self.budget.request().await;
        let timeouts = &self.retry.timeouts;
        let begun = self.store.put_multipart(&path);
        let mut upload = attempts.send(timeouts.body(0), begun).await?;
        let mut block = first;
        while !block.is_empty() {
            let len = to_u64(block.len());
            // An upload may take any time as long as it makes progress.
            attempts.restart();
            attempts.extend(timeouts.transfer(len));
            let sent = attempts.send(timeouts.body(len), upload.put_part(block.into())).await;
            block = match sent.and_then(|()| next()) {
                Ok(next) => next,
                Err(miss) => {
                    // The first error is reported; stores remove the remaining parts eventually.
                    drop(upload.abort().await);
                    return Err(miss);
                }
            };
        }
        attempts.restart();
        attempts.send(timeouts.body(0), upload.complete()).await.map(drop)
    }
}

/// Reads the next bytes of a file; empty at its end.
fn read_block(file: &mut File, from: &FilePath) -> Result<Bytes, AttemptError> {
    let mut block = Vec::new();
    let read = file.take(to_u64(BLOCK_BYTES)).read_to_end(&mut block);
    read.map(|_len| block.into()).map_err(|error| unreadable_error(from, &error))
}

fn unreadable_error(from: &FilePath, error: &io::Error) -> AttemptError {
    let text = format!("{}: {error}", from.display());
    AttemptError::Final(Error::io("read", io::Error::new(error.kind(), text)))
}

/// Size of all blocks of an upload except the last; a store accepts 10 000 blocks.
const BLOCK_BYTES: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use archives::faults::{Fault, FaultStore, Request};
    use object_store::ObjectStore;
    use object_store::path::Path;

    use super::*;
    use crate::budget::Budget;
    use crate::options::OpenOptions;
    use crate::source::Backend;

    fn remote(store: &Arc<FaultStore>) -> Remote {
        let (options, store) = (OpenOptions::default(), Arc::<FaultStore>::clone(store));
        let store: Arc<dyn ObjectStore> = store;
        Remote::new(Backend::new(store, Path::from("root")), Budget::new(&options), &options)
    }

    fn key(name: &str) -> Key {
        Key::root().join(name).unwrap()
    }

    fn list_requests(requests: &[Request]) -> String {
        requests.iter().map(|request| request.what).collect::<Vec<_>>().join(", ")
    }

    /// Returns the bytes of two blocks and a remainder, all different.
    fn two_blocks() -> Vec<u8> {
        let block = |n: u8| vec![n; BLOCK_BYTES];
        [block(1), block(2), vec![3; 5]].concat()
    }

    #[tokio::test(start_paused = true)]
    async fn files_are_sent_in_one_request_or_in_blocks() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        let whole_blocks = vec![9; BLOCK_BYTES];
        #[rustfmt::skip]
        let table: [(&[u8], Option<Fault>, &str); 6] = [
            (b"", None, "put"),
            (b"short", None, "put"),
            (b"short", Some(Fault::Status(503)), "put, put"),
            (&whole_blocks, None, "put in parts"),
            (&two_blocks(), None, "put in parts"),
            (&two_blocks(), Some(Fault::Reset), "put in parts, put in parts"),
        ];
        for (bytes, fault, expected) in table {
            std::fs::write(&file, bytes).unwrap();
            let store = Arc::new(FaultStore::new());
            let context = format!("{} bytes, {fault:?}", bytes.len());
            if let Some(fault) = fault {
                store.plan(0, fault);
            }
            let remote = remote(&store);
            remote.put_file(&key("a"), &file).await.unwrap();
            assert_eq!(list_requests(&store.requests()), expected, "{context}");
            assert!(remote.read(&key("a")).await.unwrap().unwrap() == bytes, "{context}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn stores_copy_on_the_server() {
        let store = Arc::new(FaultStore::new());
        store.insert("root/a", b"bytes").await;
        let remote = remote(&store);
        store.plan(1, Fault::Status(503));
        remote.copy(&key("a"), &key("b/c")).await.unwrap();
        assert_eq!(list_requests(&store.requests()), "head, copy, copy");
        assert_eq!(remote.read(&key("b/c")).await.unwrap().unwrap(), b"bytes".as_slice());
        let error = remote.copy(&key("x"), &key("y")).await.unwrap_err();
        assert_eq!((error.class(), error.key()), (zvf_format::Class::NotFound, Some("x")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_file_is_named_and_nothing_is_sent() {
        let store = Arc::new(FaultStore::new());
        let error =
            remote(&store).put_file(&key("a"), FilePath::new("/no/file")).await.unwrap_err();
        assert_eq!(error.class(), zvf_format::Class::NotFound);
        assert!(
            error.cause_as::<io::Error>().unwrap().to_string().starts_with("/no/file: "),
            "{error}"
        );
        assert_eq!(list_requests(&store.requests()), "");
    }
}
