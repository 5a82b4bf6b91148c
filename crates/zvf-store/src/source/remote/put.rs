//! Writes to a store behind the `ObjectStore` trait.
//!
//! An object under a unique name may be sent any number of times. A create-if-absent may not be
//! repeated blindly: if the outcome of an attempt is unknown, the stored object is read to decide.
//! Our bytes mean success, other bytes mean that another writer won, and no object means another
//! attempt. The object is also looked for before the first attempt: some backends cannot put
//! conditionally, or accept the condition and ignore it, and then the caller is notified.
//!
//! A put is not retried once an object exists that forbids it ([`Until`]): its data is then out of
//! date.
//!
//! Objects of a build are new as well: an existing object is the same one from an earlier attempt,
//! or a foreign one, which then stays.
//!
//! Not here: the contents of writes, and their order.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use object_store::{GetOptions, ObjectMeta, ObjectStore as _, PutMode, UpdateVersion};
use zvf_error::{Error, Locate as _, Result, quote};
use zvf_format::Class;
use zvf_format::num::to_u64;

use super::super::{Get, check_listed};
use super::Remote;
use super::attempts::{AttemptError, Attempts};
use super::verdict::Verdict;
use crate::codec::is_joined;
use crate::error::commit_unknown_error;
use crate::key::Key;

/// The guarantee that an object is the first under its name.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Created {
    /// The store guarantees it.
    Guarded,
    /// The store cannot guarantee it; no object existed right before.
    Looked,
}

/// An object that forbids retrying a put, once it exists.
pub(crate) type Until = (Remote, Key);

/// Returns an error for a retried put once the object that forbids it exists.
async fn check_until(until: Option<&Until>) -> Result<()> {
    let Some((remote, key)) = until else { return Ok(()) };
    match remote.head(key).await? {
        None => Ok(()),
        Some(_) => Err(Error::replaced()),
    }
}

impl Remote {
    /// Puts an object if none exists, or the same one.
    pub(crate) async fn put_new(&self, key: &Key, parts: &[Bytes]) -> Result<()> {
        let mut attempts = Attempts::new(&self.0, "write", key, None);
        loop {
            let is_blind = self.0.no_conditions.load(Ordering::Relaxed);
            let mode = if is_blind { PutMode::Overwrite } else { PutMode::Create };
            let miss = match attempts.put(parts, mode).await {
                Ok(()) => return Ok(()),
                Err(miss) => miss,
            };
            if miss.class() == Some(Class::Unsupported) && !is_blind {
                self.0.no_conditions.store(true, Ordering::Relaxed);
                continue;
            }
            if miss.is_taken()
                && !is_blind
                && let Some(found) = self.read(key).await?
            {
                let expected = "none, or the one of this build";
                let other = quote("one of another writer");
                let error = Error::new(Class::Conflict, "object", expected, other).at_key(key);
                return if is_joined(&found, parts) { Ok(()) } else { Err(error) };
            }
            // A refusal although no object exists is a race that the other request lost, too.
            let miss = if miss.is_taken() { RACE } else { miss };
            attempts.retry_or_fail(miss).await?;
        }
    }

    /// Puts an object, replacing any existing one.
    pub(crate) async fn put(&self, key: &Key, parts: &[Bytes]) -> Result<()> {
        let mut attempts = Attempts::new(&self.0, "write", key, None);
        loop {
            match attempts.put(parts, PutMode::Overwrite).await {
                Ok(done) => return Ok(done),
                Err(miss) => attempts.retry_or_fail(miss).await?,
            }
        }
    }

    /// Replaces the object under `key` if it is still the version `seen`.
    ///
    /// If the outcome is unknown, the object is read, so no other writer may put the same bytes.
    pub(crate) async fn replace(
        &self,
        key: &Key,
        bytes: &Bytes,
        seen: &ObjectMeta,
        until: Option<&Until>,
    ) -> Result<()> {
        let version = UpdateVersion { e_tag: seen.e_tag.clone(), version: seen.version.clone() };
        let parts = std::slice::from_ref(bytes);
        let mut attempts = Attempts::new(&self.0, "write", key, None);
        let mut is_open = false; // whether an earlier try may have arrived
        loop {
            let mode = PutMode::Update(version.clone());
            let miss = match attempts.put(parts, mode).await {
                Ok(()) if is_open => return check_until(until).await,
                Ok(()) => return Ok(()),
                Err(miss) => miss,
            };
            is_open |= miss.is_transient();
            if is_open && self.read(key).await?.as_ref() == Some(bytes) {
                return check_until(until).await;
            }
            attempts.retry_or_fail(miss).await?;
            check_until(until).await?;
        }
    }

    /// Waits for `pause`; returns false at once if there is no clock.
    pub(crate) async fn sleep(&self, pause: Duration) -> bool {
        match self.0.sleep(pause) {
            Some(sleep) => {
                sleep.await;
                true
            }
            None => false,
        }
    }

    /// Returns the backend's metadata of an object, if it exists.
    pub(crate) async fn head(&self, key: &Key) -> Result<Option<ObjectMeta>> {
        let path = self.0.path(key)?;
        let mut attempts = Attempts::new(&self.0, "read", key, None);
        loop {
            let options = GetOptions { head: true, ..GetOptions::default() };
            match attempts.get(&path, options).await {
                Ok(reply) => return Ok(Some(reply.meta)),
                Err(miss) if miss.is_absence() => return Ok(None),
                Err(miss) => attempts.retry_or_fail(miss).await?,
            }
        }
    }

    /// Puts an object if none exists yet.
    pub(crate) async fn create(
        &self,
        key: &Key,
        bytes: &Bytes,
        until: Option<&Until>,
    ) -> Result<Created> {
        let created = self.create_once(key, bytes, until).await;
        created.at_key(key)
    }

    async fn create_once(
        &self,
        key: &Key,
        bytes: &Bytes,
        until: Option<&Until>,
    ) -> Result<Created> {
        let parts = std::slice::from_ref(bytes);
        if self.read(key).await?.is_some() {
            return Err(store_exists_error());
        }
        let mut attempts = Attempts::new(&self.0, "publish", key, None);
        let mut open = false; // whether an earlier try may have arrived
        loop {
            let miss = match attempts.put(parts, PutMode::Create).await {
                Ok(()) => return Ok(check_create_guard(parts, &mut attempts).await),
                Err(miss) if miss.class() == Some(Class::Unsupported) => break,
                Err(miss) => miss,
            };
            let exists = miss.is_taken();
            if !exists && !miss.is_transient() {
                return Err(miss.judge("publish").0);
            }
            open |= !exists;
            match self.read(key).await {
                Ok(Some(found)) if open && found == *bytes => return Ok(Created::Guarded),
                Ok(Some(_)) => return Err(store_exists_error()),
                Ok(None) => {}
                Err(_unreadable) => {
                    return Err(commit_unknown_error(miss.judge("publish").0));
                }
            }
            // A refusal although no object exists is a race that the other request lost, too.
            let miss = if exists { RACE } else { miss };
            let again = attempts.retry_or_fail(miss).await;
            again.map_err(|error| if open { commit_unknown_error(error) } else { error })?;
            check_until(until).await?;
        }
        if self.read(key).await?.is_some() {
            return Err(store_exists_error());
        }
        self.put(key, parts).await.map(|()| Created::Looked)
    }

    /// Returns whether the store refuses to create an existing object, even with the same bytes.
    pub(crate) async fn probe(&self, key: &Key, bytes: &Bytes) -> Created {
        let mut attempts = Attempts::new(&self.0, "write", key, None);
        check_create_guard(std::slice::from_ref(bytes), &mut attempts).await
    }

    /// Reads a whole object.
    pub(crate) async fn read(&self, key: &Key) -> Result<Option<Bytes>> {
        let answer = self.read_many(&[Get::object(key.clone())]).await.pop();
        Ok(answer.transpose()?.flatten().map(|got| got.bytes))
    }

    /// Returns the names and sizes of all objects below `prefix`, relative to it, including those
    /// that readers ignore.
    pub(crate) async fn list_all(&self, prefix: &Key) -> Result<Vec<(String, u64)>> {
        let path = self.0.path(prefix)?;
        let listed = match self.0.list(prefix, &path).await {
            Err(error) if error.class() == Class::NotFound => Vec::new(),
            listed => listed?,
        };
        check_listed(listed.len())?;
        Ok(listed)
    }

    /// Removes these objects, if they exist. An object that the backend reports as missing is
    /// checked once more, because a wrong response would leave it in place.
    pub(crate) async fn remove(&self, keys: &[Key]) -> Result<()> {
        let denied = self.remove_once(keys).await?;
        let mut left = Vec::new();
        for key in denied {
            if self.head(&key).await?.is_some() {
                left.push(key);
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        self.remove_once(&left).await.map(drop)
    }

    /// Sends one delete request; returns the objects that are reported as missing.
    async fn remove_once(&self, keys: &[Key]) -> Result<Vec<Key>> {
        let paths: Result<Vec<_>> = keys.iter().map(|key| self.0.path(key)).collect();
        let paths = paths?;
        let mut attempts = Attempts::new(&self.0, "write", &Key::root(), None);
        let denied: BTreeSet<String> = loop {
            let removed = self.0.store.delete_stream(stream::iter(paths.clone()).map(Ok).boxed());
            let denied = removed.try_filter_map(|_path| std::future::ready(Ok(None::<String>)));
            let denied = denied.or_else(|error| {
                std::future::ready(if let object_store::Error::NotFound { path, .. } = error {
                    Ok(path)
                } else {
                    Err(error)
                })
            });
            // The time limit for this many bytes.
            let limit = self.0.retry.timeouts.body(to_u64(paths.len()) << 10);
            match attempts.send(limit, denied.try_collect()).await {
                Ok(denied) => break denied,
                Err(miss) => attempts.retry_or_fail(miss).await?,
            }
        };
        let found = keys.iter().zip(&paths).filter(|(_, path)| denied.contains(path.as_ref()));
        Ok(found.map(|(key, _)| key.clone()).collect())
    }
}

/// Checks whether the store honours create-if-absent: if so, it refuses to create the same object
/// again. If it ignores the condition, writing the same bytes again is harmless.
async fn check_create_guard(parts: &[Bytes], attempts: &mut Attempts<'_>) -> Created {
    loop {
        let Err(miss) = attempts.put(parts, PutMode::Create).await else { return Created::Looked };
        if miss.is_taken() {
            return Created::Guarded;
        }
        // If this cannot be determined, the condition is not relied on.
        if attempts.retry_or_fail(miss).await.is_err() {
            return Created::Looked;
        }
    }
}

impl AttemptError {
    /// Returns whether the same request may succeed later.
    fn is_transient(&self) -> bool {
        match self {
            Self::Fault(error) => Verdict::classify(error).again,
            Self::Late { .. } | Self::Length { .. } => true,
            Self::Final(_) => false,
        }
    }
}

pub(crate) fn store_exists_error() -> Error {
    Error::new(Class::AlreadyExists, "store", "none yet", "another one")
}

/// Two requests raced, and neither object exists.
const RACE: AttemptError = AttemptError::Late { what: "object", after: Duration::ZERO };
