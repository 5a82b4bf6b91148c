//! The objects of a store or of its journal, by key, wherever they lie.
//!
//! ```text
//! folder     files; changed under the lock of the journal, synced where it matters
//! backend    objects; replaced only where they still are what was seen
//! ```
//!
//! Not here: which changes belong together (`journal`).

use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::SystemTime;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use tokio::task::coop::unconstrained;
use zvf_format::Class;
use zvf_publish::{KeyedFolder, PreparedFile};
use zvf_store::{Objects, SeenVersion};

use crate::error::{EditError, Result, io_class};

/// Objects by key.
#[derive(Clone, Debug)]
pub(crate) enum Medium {
    Folder(KeyedFolder),
    Objects(Objects),
}

/// What is under a key, and which version it is.
#[derive(Clone, Debug)]
pub(crate) struct Current {
    pub(crate) bytes: Bytes,
    version: Option<SeenVersion>,
}

/// What is put under a key, and what is there now.
#[derive(Debug)]
pub(crate) struct Put<'a> {
    pub(crate) key: &'a str,
    pub(crate) bytes: Bytes,
    pub(crate) current: Option<Current>,
}

/// Files of the store that are written and synced, and get their names once the record is there.
pub(crate) type Prepared = HashMap<String, PreparedFile>;

fn with_key(key: &str) -> impl Fn(std::io::Error) -> EditError + '_ {
    move |error| EditError::new(io_class(&error), format!("{key}: {error}")).caused_by(error)
}

impl Medium {
    pub(crate) const fn is_folder(&self) -> bool {
        matches!(self, Self::Folder(_))
    }

    /// The folder, where it is one.
    pub(crate) const fn folder(&self) -> Option<&KeyedFolder> {
        match self {
            Self::Folder(folder) => Some(folder),
            Self::Objects(_) => None,
        }
    }

    /// All of an object, or none.
    pub(crate) fn get(&self, key: &str) -> Result<Option<Bytes>> {
        match self {
            Self::Folder(folder) => folder.get(key).map_err(with_key(key)),
            Self::Objects(objects) => Ok(wait(objects.read(key))?),
        }
    }

    /// The same, where a backend that says once that there is nothing is asked a second time.
    pub(crate) fn get_twice(&self, key: &str) -> Result<Option<Bytes>> {
        match self.get(key)? {
            None if !self.is_folder() && self.exists(key)? => self.get(key),
            found => Ok(found),
        }
    }

    /// The same for many keys.
    pub(crate) fn get_all(&self, keys: &[&str]) -> Result<Vec<Option<Current>>> {
        match self {
            Self::Folder(folder) => keys
                .iter()
                .map(|key| {
                    let bytes = folder.get(key).map_err(with_key(key))?;
                    Ok(bytes.map(|bytes| Current { bytes, version: None }))
                })
                .collect(),
            Self::Objects(objects) => wait(
                stream::iter(keys.iter().map(|key| async move {
                    let found = objects.read_versioned(key).await?;
                    Ok(found.map(|(bytes, version)| Current { bytes, version: Some(version) }))
                }))
                .buffered(MAX_REQUESTS)
                .try_collect(),
            ),
        }
    }

    /// Whether there is an object.
    pub(crate) fn exists(&self, key: &str) -> Result<bool> {
        match self {
            Self::Folder(folder) => Ok(folder.exists(key)),
            Self::Objects(objects) => Ok(wait(objects.exists(key))?),
        }
    }

    /// The names directly below a prefix, sorted.
    pub(crate) fn list(&self, key: &str) -> Result<Vec<String>> {
        match self {
            Self::Folder(folder) => folder.list(key).map_err(with_key(key)),
            Self::Objects(objects) => Ok(wait(objects.children(key))?),
        }
    }

    /// Every key below a prefix, sorted.
    pub(crate) fn walk(&self, prefix: &str) -> Result<Vec<String>> {
        match self {
            Self::Folder(folder) => folder.walk(prefix).map_err(with_key(prefix)),
            Self::Objects(objects) => {
                let listed = wait(objects.list(prefix))?;
                let slash = if prefix.is_empty() { "" } else { "/" };
                let mut keys: Vec<String> =
                    listed.into_iter().map(|(name, _)| format!("{prefix}{slash}{name}")).collect();
                keys.sort();
                Ok(keys)
            }
        }
    }

    /// The length of an object, and when it was last put.
    pub(crate) fn metadata(&self, key: &str) -> Result<Option<(u64, SystemTime)>> {
        match self {
            Self::Folder(folder) => match folder.path(key).metadata() {
                Ok(about) => Ok(Some((about.len(), about.modified().map_err(with_key(key))?))),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                Err(error) => Err(with_key(key)(error)),
            },
            Self::Objects(objects) => Ok(wait(objects.about(key))?),
        }
    }

    /// Makes an object where there is none; false when there is one.
    pub(crate) fn create(&self, key: &str, bytes: &Bytes) -> Result<bool> {
        match self {
            Self::Folder(folder) => folder.create(key, bytes.clone()).map_err(with_key(key)),
            Self::Objects(objects) => Ok(wait(objects.create(key, bytes))?),
        }
    }

    /// Makes or replaces an object, whatever is there.
    pub(crate) fn put(&self, key: &str, bytes: &Bytes) -> Result<()> {
        match self {
            Self::Folder(folder) => folder.put(key, bytes.clone()).map_err(with_key(key)),
            Self::Objects(objects) => Ok(wait(objects.put(key, bytes))?),
        }
    }

    /// The same for an object whose loss does no harm.
    pub(crate) fn mark(&self, key: &str, bytes: &Bytes) -> Result<()> {
        match self {
            Self::Folder(folder) => folder.mark(key, bytes.clone()).map_err(with_key(key)),
            Self::Objects(_) => self.put(key, bytes),
        }
    }

    /// Makes or replaces objects that still are what was seen; false when one of them was changed meanwhile. Those that
    /// are prepared only get their names.
    pub(crate) fn replace_all(&self, puts: Vec<Put<'_>>, prepared: &mut Prepared) -> Result<bool> {
        match self {
            Self::Folder(folder) => {
                let mut rest: Vec<(&str, Bytes)> = Vec::new();
                for put in puts {
                    // In the order of the record: what was not prepared up to here comes before what was.
                    let Some(file) = prepared.remove(put.key) else {
                        rest.push((put.key, put.bytes));
                        continue;
                    };
                    folder.put_all(&std::mem::take(&mut rest)).map_err(with_key("store"))?;
                    match file.put() {
                        // Somebody took it for garbage.
                        Err(error) if error.kind() == ErrorKind::NotFound => {
                            folder.put(put.key, put.bytes).map_err(with_key(put.key))?;
                        }
                        done => done.map_err(with_key(put.key))?,
                    }
                }
                folder.put_all(&rest).map_err(with_key("store"))?;
                Ok(true)
            }
            Self::Objects(objects) => {
                let puts = puts.into_iter().map(|put| replace(objects, put));
                let done: Vec<bool> =
                    wait(stream::iter(puts).buffer_unordered(MAX_REQUESTS).try_collect())?;
                Ok(done.into_iter().all(|done| done))
            }
        }
    }

    /// Removes objects; one that is not there is no fault.
    pub(crate) fn delete(&self, keys: &[&str]) -> Result<()> {
        match self {
            Self::Folder(folder) => {
                keys.iter().try_for_each(|key| folder.delete(key).map_err(with_key(key)))
            }
            Self::Objects(_) if keys.is_empty() => Ok(()),
            Self::Objects(objects) => {
                let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
                Ok(wait(objects.remove(&keys))?)
            }
        }
    }

    /// Removes everything below a prefix.
    pub(crate) fn delete_below(&self, prefix: &str) -> Result<()> {
        match self {
            Self::Folder(folder) => folder.delete_folder(prefix).map_err(with_key(prefix)),
            Self::Objects(_) => {
                let keys = self.walk(prefix)?;
                self.delete(&keys.iter().map(String::as_str).collect::<Vec<_>>())
            }
        }
    }

    /// Writes files that get their names later; nothing where there are no names to be given.
    pub(crate) fn prepare<'a>(
        &self,
        files: impl Iterator<Item = (&'a str, Bytes)>,
    ) -> Result<Prepared> {
        let Self::Folder(folder) = self else { return Ok(Prepared::new()) };
        files
            .map(|(key, bytes)| {
                Ok((key.to_owned(), folder.prepare(key, bytes).map_err(with_key(key))?))
            })
            .collect()
    }

    /// Waits until the names of these objects would survive a loss of power.
    pub(crate) fn sync<'a>(&self, keys: impl Iterator<Item = &'a str>) -> Result<()> {
        match self {
            Self::Folder(folder) => folder.sync_folders(keys).map_err(with_key("store")),
            Self::Objects(_) => Ok(()), // a put that was answered is there
        }
    }
}

/// Puts one object where there still is what was seen; false when there is something else by now.
async fn replace(objects: &Objects, put: Put<'_>) -> Result<bool> {
    let done = match put.current.and_then(|current| current.version) {
        Some(version) => match objects.replace(put.key, &put.bytes, &version).await {
            // Without such puts there is one writer; readers go by the checksums in the log.
            Err(error) if error.class() == Class::Unsupported => {
                objects.put(put.key, &put.bytes).await.map(|()| true)
            }
            done => done.map(|()| true),
        },
        None => objects.create(put.key, &put.bytes).await,
    };
    match done {
        Err(error) if CHANGED_CLASSES.contains(&error.class()) => Ok(false),
        done => Ok(done?),
    }
}

/// Waits on this thread for what the object store answers.
///
/// Inside a task of tokio the work would share the task's budget of steps: once that is used up, everything says that it is
/// not ready and wakes at once, for ever, since the task itself never gets to an end. So it has none.
pub(crate) fn wait<F: Future>(work: F) -> F::Output {
    let mut work = std::pin::pin!(unconstrained(work));
    let waker = Waker::from(Arc::new(Parked(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match work.as_mut().poll(&mut context) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(),
        }
    }
}

/// Wakes the thread that waits.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// What it is called when an object is not what was seen.
const CHANGED_CLASSES: [Class; 3] = [Class::FileChanged, Class::Conflict, Class::AlreadyExists];

/// Requests under way at once.
const MAX_REQUESTS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_may_wait_for_more_than_its_budget_of_steps() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let steps = runtime.block_on(async {
            let door = tokio::sync::Semaphore::new(1);
            wait(async {
                for _ in 0..1000 {
                    drop(door.acquire().await);
                }
                1000
            })
        });
        assert_eq!(steps, 1000);
    }
}
