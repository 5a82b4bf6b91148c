//! Writing to a store behind the `ObjectStore` trait.
//!
//! An object under a name of its own may be sent again as often as it takes. One that must not be there
//! yet may not: after an answer that leaves it open whether the first try arrived, the object is read,
//! and what is there decides. Ours is a success, another's a loss; nothing at all is another try. The
//! object is looked for before as well: some backends cannot put conditionally, or take the condition and
//! ignore it, and then the caller is told.
//!
//! Not here: what is written, and when.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use object_store::{PutMode, PutOptions, PutPayload};
use zvf_format::{Class, Expected};

use super::super::Get;
use super::tries::{Miss, Tries};
use super::verdict::Verdict;
use super::{Remote, Shared};
use crate::error::{Op, StoreError};
use crate::key::Key;

/// How surely an object is the first under its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Created {
    /// The store saw to it.
    Guarded,
    /// The store cannot; nothing was there a moment before.
    Looked,
}

impl Remote {
    /// Puts an object under a name that nobody else writes.
    pub(crate) async fn put(&self, key: &Key, parts: &[Bytes]) -> Result<(), StoreError> {
        let mut tries = Tries::new(&self.0, Op::Write, key, None);
        loop {
            match self.0.send(key, parts, PutMode::Overwrite, &tries).await {
                Ok(()) => return Ok(()),
                Err(miss) => {
                    let again = tries.again(&self.0, miss).await;
                    again.map_err(|error| error.with_key(key))?;
                }
            }
        }
    }

    /// Puts an object where there is none yet.
    pub(crate) async fn create(&self, key: &Key, bytes: &Bytes) -> Result<Created, StoreError> {
        let created = self.create_once(key, bytes).await;
        created.map_err(|error| error.with_key(key))
    }

    async fn create_once(&self, key: &Key, bytes: &Bytes) -> Result<Created, StoreError> {
        let parts = std::slice::from_ref(bytes);
        if self.read(key).await?.is_some() {
            return Err(taken());
        }
        let mut tries = Tries::new(&self.0, Op::Publish, key, None);
        let mut open = false; // whether an earlier try may have arrived
        loop {
            let miss = match self.0.send(key, parts, PutMode::Create, &tries).await {
                Ok(()) => return Ok(self.guarded(key, parts, &tries).await),
                Err(miss) if miss.class() == Some(Class::Unsupported) => break,
                Err(miss) => miss,
            };
            let there = matches!(miss.class(), Some(Class::AlreadyExists | Class::FileChanged));
            if !there && !miss.passing() {
                return Err(miss.judge(Op::Publish).0);
            }
            open |= !there;
            match self.read(key).await {
                Ok(Some(found)) if open && found == *bytes => return Ok(Created::Guarded),
                Ok(Some(_)) => return Err(taken()),
                Ok(None) => {}
                Err(_unreadable) => return Err(StoreError::unknown(miss.judge(Op::Publish).0)),
            }
            // A refusal without an object behind it is a race that the other one lost, too.
            let miss =
                if there { Miss::Late { what: "object", after: Duration::ZERO } } else { miss };
            let again = tries.again(&self.0, miss).await;
            again.map_err(|error| if open { StoreError::unknown(error) } else { error })?;
        }
        if self.read(key).await?.is_some() {
            return Err(taken());
        }
        self.put(key, parts).await.map(|()| Created::Looked)
    }

    /// Whether the store saw to it that an object was created and not replaced: it refuses to create the
    /// same again. One that takes the condition and ignores it does not, and no harm is done by the same bytes.
    async fn guarded(&self, key: &Key, parts: &[Bytes], tries: &Tries) -> Created {
        match self.0.send(key, parts, PutMode::Create, tries).await {
            Ok(()) => Created::Looked,
            Err(_refused) => Created::Guarded,
        }
    }

    /// All of an object.
    pub(crate) async fn read(&self, key: &Key) -> Result<Option<Bytes>, StoreError> {
        let answer = self.read_many(&[Get::all(key.clone())]).await.pop();
        Ok(answer.transpose()?.flatten().map(|got| got.bytes))
    }

    /// Whether anything lies below the root.
    pub(crate) async fn is_empty(&self) -> Result<bool, StoreError> {
        let below = (!self.0.root.as_ref().is_empty()).then_some(&self.0.root);
        let mut tries = Tries::new(&self.0, Op::List, &Key::root(), None);
        loop {
            self.0.requests.fetch_add(1, Ordering::Relaxed);
            let first = async { self.0.store.list(below).next().await.transpose() };
            match tries.within(&self.0, "list", tries.first_byte, first).await {
                Ok(first) => return Ok(first.is_none()),
                Err(miss) if miss.class() == Some(Class::NotFound) && !miss.is_missing_bucket() => {
                    return Ok(true);
                }
                Err(miss) => tries.again(&self.0, miss).await?,
            }
        }
    }

    /// Removes everything below the root, as far as that works.
    pub(crate) async fn clear(&self) -> Result<(), StoreError> {
        let listed = self.0.list(&Key::root(), &self.0.root).await?;
        let paths = listed.into_iter().map(|(name, _)| {
            let key = Key::root().below(&name)?;
            self.0.path(&key)
        });
        let paths: Result<Vec<_>, StoreError> = paths.collect();
        let removed = self.0.store.delete_stream(stream::iter(paths?).map(Ok).boxed());
        let removed = removed.try_for_each(|_path| std::future::ready(Ok(()))).await;
        removed.map_err(|error| Miss::Fault(error).judge(Op::Write).0)
    }
}

impl Shared {
    /// One try to put an object.
    async fn send(
        &self,
        key: &Key,
        parts: &[Bytes],
        mode: PutMode,
        tries: &Tries,
    ) -> Result<(), Miss> {
        let path = self.path(key).map_err(Miss::Final)?;
        let _request = self.budget.request().await;
        self.requests.fetch_add(1, Ordering::Relaxed);
        let len = crate::codec::len(parts);
        let payload: PutPayload = parts.iter().cloned().collect();
        let options = PutOptions::from(mode);
        let sent = self.store.put_opts(&path, payload, options);
        tries.within(self, "answer", self.retry.policy.body(len), sent).await.map(drop)
    }
}

impl Miss {
    /// Whether the same request may succeed later.
    fn passing(&self) -> bool {
        match self {
            Self::Fault(error) => Verdict::of(error).again,
            Self::Late { .. } | Self::Length { .. } => true,
            Self::Final(_) => false,
        }
    }
}

fn taken() -> StoreError {
    let expected = Expected::Rule("none yet");
    StoreError::refused(Class::AlreadyExists, Op::Publish, "store", expected, "another one")
}
