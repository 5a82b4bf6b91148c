//! Single objects of a backend, by key: read, create if absent, replace if unchanged (compare and swap).
//!
//! Journals on object stores are built on these. Every call waits, retries and resolves unknown
//! outcomes as reads and builds do: if the response to a create is lost, the stored object decides.
//!
//! Not here: stores and their cells; the meaning of objects.

use async_recursion::async_recursion as boxed;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};
use zvf_error::{Error, Result};
use zvf_format::Class;

use crate::budget::Budget;
use crate::key::Key;
use crate::options::OpenOptions;
use crate::source::remote::{Created, Until};
use crate::source::{Backend, Remote};

/// The objects below one prefix of a backend.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// use std::sync::Arc;
/// use object_store::memory::InMemory;
/// use zvf_store::{Objects, OpenOptions};
///
/// let objects = Objects::new(Arc::new(InMemory::new()), &"a".into(), &OpenOptions::default());
/// assert!(objects.create("log/1", &"one".into()).await?);
/// assert!(!objects.create("log/1", &"two".into()).await?);
/// let (bytes, seen) = objects.read_versioned("log/1").await?.expect("it is there");
/// assert_eq!(bytes, "one");
/// assert!(objects.replace("log/1", &"three".into(), &seen).await.is_ok());
/// assert!(objects.replace("log/1", &"four".into(), &seen).await.is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Objects {
    remote: Remote,
    until: Option<Until>,
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").finish_non_exhaustive()
    }
}

/// The version of an object that was read.
#[derive(Clone, Debug)]
pub struct SeenVersion(ObjectMeta);

impl Objects {
    /// Returns the objects below `prefix` of `store`.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: &Path, options: &OpenOptions) -> Self {
        let backend = Backend::from_caller(store, prefix.clone(), options);
        Self { remote: Remote::new(backend, Budget::new(options), options), until: None }
    }

    /// Returns the same objects, but requests are not repeated once `other` has an object `key`:
    /// the data is then out of date, and [`create`](Self::create) and [`replace`](Self::replace)
    /// end with `FileChanged`.
    ///
    /// # Errors
    ///
    /// When `key` is invalid.
    pub fn until(&self, other: &Self, key: &str) -> Result<Self> {
        let until = Some((other.remote.clone(), Key::parse(key)?));
        Ok(Self { until, ..self.clone() })
    }

    /// Reads an object; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// When the backend fails.
    #[boxed]
    pub async fn read(&self, key: &str) -> Result<Option<Bytes>> {
        self.remote.read(&Key::parse(key)?).await
    }

    /// Reads an object and its version.
    ///
    /// # Errors
    ///
    /// When the backend fails, or the object keeps changing.
    #[boxed]
    pub async fn read_versioned(&self, key: &str) -> Result<Option<(Bytes, SeenVersion)>> {
        let key = Key::parse(key)?;
        for _ in 0..READ_TRIES {
            let Some(before) = self.remote.head(&key).await? else { return Ok(None) };
            let bytes = self.remote.read(&key).await?;
            let after = self.remote.head(&key).await?;
            let same = after.is_some_and(|after| {
                (after.size, &after.e_tag, &after.version)
                    == (before.size, &before.e_tag, &before.version)
            });
            if let Some(bytes) = bytes.filter(|_| same) {
                return Ok(Some((bytes, SeenVersion(before))));
            }
        }
        Err(Error::replaced().at_key(&key))
    }

    /// Returns whether an object exists.
    ///
    /// # Errors
    ///
    /// When the backend fails.
    #[boxed]
    pub async fn exists(&self, key: &str) -> Result<bool> {
        Ok(self.remote.head(&Key::parse(key)?).await?.is_some())
    }

    /// Returns the length of an object and the time of its last put; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// When the backend fails.
    #[boxed]
    pub async fn head(&self, key: &str) -> Result<Option<(u64, SystemTime)>> {
        let meta = self.remote.head(&Key::parse(key)?).await?;
        Ok(meta.map(|meta| (meta.size, meta.last_modified.into())))
    }

    /// Lists every object below a prefix: its key below that prefix and its size.
    ///
    /// # Errors
    ///
    /// When the backend cannot be listed.
    #[boxed]
    pub async fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        self.remote.list_all(&prefix_key(prefix)?).await
    }

    /// Lists the names directly below a prefix.
    ///
    /// # Errors
    ///
    /// When the backend cannot be listed.
    #[boxed]
    pub async fn children(&self, prefix: &str) -> Result<Vec<String>> {
        let children = self.remote.children(&prefix_key(prefix)?).await?;
        Ok(children.into_iter().map(|child| child.name).collect())
    }

    /// Creates an object if none exists; returns false if there is another one.
    ///
    /// # Errors
    ///
    /// [`CommitUnknown`](zvf_format::Class::CommitUnknown) when it may have been put; otherwise when it was not.
    #[boxed]
    pub async fn create(&self, key: &str, bytes: &Bytes) -> Result<bool> {
        match self.remote.create(&Key::parse(key)?, bytes, self.until.as_ref()).await {
            Ok(Created::Guarded | Created::Looked) => Ok(true),
            Err(error) if error.class() == Class::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Puts an object, replacing any existing one.
    ///
    /// # Errors
    ///
    /// When the backend refuses.
    #[boxed]
    pub async fn put(&self, key: &str, bytes: &Bytes) -> Result<()> {
        self.remote.put(&Key::parse(key)?, std::slice::from_ref(bytes)).await
    }

    /// Puts a local file, replacing any existing object; a long file is sent in parts. The object
    /// appears when all parts have arrived.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or the backend refuses.
    #[cfg(not(target_arch = "wasm32"))]
    #[boxed]
    pub async fn upload(&self, from: &std::path::Path, key: &str) -> Result<()> {
        self.remote.put_file(&Key::parse(key)?, from).await
    }

    /// Copies an object within the backend, replacing any existing one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> zvf_error::Result<()> {
    /// use std::sync::Arc;
    /// use object_store::memory::InMemory;
    /// use zvf_store::{Objects, OpenOptions};
    ///
    /// let objects = Objects::new(Arc::new(InMemory::new()), &"a".into(), &OpenOptions::default());
    /// objects.put("runs/1", &"bytes".into()).await?;
    /// objects.copy("runs/1", "result").await?;
    /// assert_eq!(objects.read("result").await?.expect("it is there"), "bytes");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`NotFound`](zvf_format::Class::NotFound) when it does not exist; otherwise when the backend
    /// refuses.
    #[cfg(not(target_arch = "wasm32"))]
    #[boxed]
    pub async fn copy(&self, from: &str, to: &str) -> Result<()> {
        self.remote.copy(&Key::parse(from)?, &Key::parse(to)?).await
    }

    /// Replaces an object if it is still the version `seen`.
    ///
    /// # Errors
    ///
    /// `FileChanged` or `Conflict` when it is another version; otherwise when the backend refuses.
    #[boxed]
    pub async fn replace(&self, key: &str, bytes: &Bytes, seen: &SeenVersion) -> Result<()> {
        let until = self.until.as_ref();
        self.remote.replace(&Key::parse(key)?, bytes, &seen.0, until).await
    }

    /// Removes objects, if they exist.
    ///
    /// # Errors
    ///
    /// When the backend refuses.
    #[boxed]
    pub async fn remove(&self, keys: &[String]) -> Result<()> {
        let keys: Result<Vec<Key>> = keys.iter().map(|key| Key::parse(key)).collect();
        self.remote.remove(&keys?).await
    }

    /// Removes all objects below a prefix.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> zvf_error::Result<()> {
    /// use std::sync::Arc;
    /// use object_store::memory::InMemory;
    /// use zvf_store::{Objects, OpenOptions};
    ///
    /// let objects = Objects::new(Arc::new(InMemory::new()), &"a".into(), &OpenOptions::default());
    /// for key in ["runs/1/a", "runs/1/b", "runs/10"] {
    ///     objects.put(key, &"bytes".into()).await?;
    /// }
    /// objects.remove_below("runs/1").await?;
    /// assert_eq!(objects.list("").await?, [("runs/10".to_owned(), 5)]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// When the backend cannot be listed, or refuses.
    #[boxed]
    pub async fn remove_below(&self, prefix: &str) -> Result<()> {
        let above = prefix_key(prefix)?;
        let listed = self.remote.list_all(&above).await?;
        let keys: Result<Vec<Key>> = listed.iter().map(|(key, _bytes)| above.join(key)).collect();
        let keys = keys?;
        if keys.is_empty() { Ok(()) } else { self.remote.remove(&keys).await }
    }

    /// Returns whether the backend refuses to create an existing object and to replace a changed
    /// one. It tests this with an object under `key`, which remains.
    ///
    /// # Errors
    ///
    /// When the object cannot be put at all.
    #[boxed]
    pub async fn probe(&self, key: &str) -> Result<bool> {
        let (key, bytes) = (Key::parse(key)?, Bytes::from_static(b"probe\n"));
        if self.remote.read(&key).await?.is_none() {
            self.remote.put(&key, std::slice::from_ref(&bytes)).await?;
        }
        if self.remote.probe(&key, &bytes).await != Created::Guarded {
            return Ok(false);
        }
        let Some(mut other) = self.remote.head(&key).await? else { return Ok(false) };
        // A version that no object has: for this caller, the object has changed.
        (other.e_tag, other.version) = (Some(NO_TAG.to_owned()), Some("0".to_owned()));
        match self.remote.replace(&key, &bytes, &other, None).await {
            Ok(()) => Ok(false),
            Err(error) => Ok(matches!(
                error.class(),
                Class::FileChanged | Class::Conflict | Class::AlreadyExists
            )),
        }
    }
}

/// A tag that no object has.
const NO_TAG: &str = "\"00000000000000000000000000000000\"";

/// Returns the key of a prefix; the root if it is empty.
fn prefix_key(prefix: &str) -> Result<Key> {
    if prefix.is_empty() { Ok(Key::root()) } else { Key::parse(prefix) }
}

/// Number of reads of an object that changes while it is read.
const READ_TRIES: usize = 20;

#[cfg(test)]
mod tests {
    use archives::faults::{Fault, FaultStore};

    use super::*;

    #[tokio::test]
    async fn an_object_that_changes_without_a_pause_is_an_error() {
        let store = Arc::new(FaultStore::new());
        store.insert("a/log", b"1").await;
        let objects = Objects::new(Arc::clone(&store) as _, &"a".into(), &OpenOptions::default());
        assert!(objects.read_versioned("log").await.unwrap().is_some());
        store.always(Some(Fault::Changed(Bytes::from_static(b"2"))));
        let error = objects.read_versioned("log").await.map(drop).unwrap_err();
        assert_eq!(error.class(), Class::FileChanged, "{error}");
    }
}
