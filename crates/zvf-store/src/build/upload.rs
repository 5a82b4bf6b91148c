//! A store being built on an object store: objects on their way there, many at once.
//!
//! Uploads run as tasks of the caller's runtime; whoever hands an object over goes on at once, unless the
//! room is taken. The first fault is kept and told to whoever comes next; nothing is sent after it.
//!
//! A prefix is only built in when nothing lies below it. The root document goes last and is created only
//! where there is none, so that a store without one is nobody's.
//!
//! Where many processes build one store, whoever creates the root document first writes it down in their
//! folder. Killed before it knew the answer, the next one compares what it wrote down with what is there.
//!
//! Not here: single requests and when they are sent again (`source::remote`).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Notify;
use zvf_format::{Class, Expected};

use super::room::{Kept, Room};
use crate::error::{Op, StoreError};
use crate::key::Key;
use crate::source::remote::Created;
use crate::source::{Get, Remote};

/// The uploads of one build.
#[derive(Debug)]
pub(crate) struct Uploads {
    remote: Remote,
    runtime: Handle,
    shared: Arc<Shared>,
    intent: Option<PathBuf>, // others build the same store: where its root document is written down first
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    settled: Notify,
}

#[derive(Debug, Default)]
struct State {
    under_way: usize,
    failure: Option<StoreError>,
    begun: bool, // whether anything was sent
    done: bool,
}

impl Uploads {
    /// Uploads to `remote`, below which nothing may lie.
    pub(crate) async fn begin(remote: Remote) -> Result<Self, StoreError> {
        let runtime = runtime()?;
        if !remote.is_empty().await? {
            let expected = Expected::Rule("a prefix with nothing below it");
            let (class, found) = (Class::AlreadyExists, "objects");
            return Err(StoreError::refused(class, Op::Open, "store", expected, found));
        }
        Ok(Self { remote, runtime, shared: Arc::default(), intent: None })
    }

    /// Uploads to `remote`, to which other processes upload other objects of the same store; they share the
    /// folder `work`.
    pub(crate) fn join(remote: Remote, work: &Path) -> Result<Self, StoreError> {
        let intent = Some(work.join(INTENT));
        Ok(Self { remote, runtime: runtime()?, shared: Arc::default(), intent })
    }

    /// Whether other processes build the same store.
    pub(crate) const fn is_shared(&self) -> bool {
        self.intent.is_some()
    }

    /// Whether the root document that one of the processes wanted to create is there.
    pub(crate) async fn is_published(&self) -> Result<bool, StoreError> {
        let Some(intent) = &self.intent else { return Ok(self.shared.state().done) };
        let root = match std::fs::read(intent) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            root => root.map_err(|error| StoreError::io(Op::Publish, error))?,
        };
        let found = self.remote.read(&crate::docs::document(&Key::root())?).await?;
        Ok(found.is_some_and(|found| found == root))
    }

    /// Which of `objects`, all below `array`, are not there. A list that leaves one out is no proof: it is
    /// asked for by its name then.
    pub(crate) async fn lost(
        &self,
        array: &Key,
        mut objects: BTreeSet<Key>,
    ) -> Result<BTreeSet<Key>, StoreError> {
        self.settle().await?;
        if objects.is_empty() {
            return Ok(objects);
        }
        if self.remote.can_list() {
            for (key, _) in self.remote.list(array).await? {
                objects.remove(&key);
            }
        }
        let gets: Vec<Get> = objects.iter().map(|key| Get::at(key.clone(), 0, 1)).collect();
        for (get, answer) in gets.iter().zip(self.remote.read_many(&gets).await) {
            if answer?.is_some() {
                objects.remove(&get.key);
            }
        }
        Ok(objects)
    }

    /// Whether a thread may wait for uploads without being the one that does them.
    pub(crate) fn may_wait(&self) -> bool {
        !matches!(self.runtime.runtime_flavor(), RuntimeFlavor::CurrentThread)
    }

    /// Hands the object under `key` over, once there is room for it.
    pub(crate) fn put(&self, key: Key, parts: Vec<Bytes>, room: &Room) -> Result<(), StoreError> {
        let kept = room.pass(crate::codec::len(&parts));
        {
            let mut state = self.shared.state();
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            state.under_way = state.under_way.saturating_add(1);
            state.begun = true;
        }
        let upload = Upload { shared: Arc::clone(&self.shared), _kept: kept };
        let remote = self.remote.clone();
        self.runtime.spawn(async move {
            if upload.shared.state().failure.is_none()
                && let Err(error) = remote.put(&key, &parts).await
            {
                upload.shared.state().failure.get_or_insert(error);
            }
            drop((parts, upload));
        });
        Ok(())
    }

    /// Waits until nothing is under way.
    pub(crate) async fn settle(&self) -> Result<(), StoreError> {
        self.shared.quiet().await;
        let failure = self.shared.state().failure.clone();
        failure.map_or(Ok(()), Err)
    }

    /// Creates the root document, after everything else has arrived.
    pub(crate) async fn publish(&self, key: &Key, root: &Bytes) -> Result<Created, StoreError> {
        self.settle().await?;
        if let Some(intent) = &self.intent {
            write_down(intent, root).map_err(|error| StoreError::io(Op::Publish, error))?;
        }
        // From here on what lies there may be a store, also when nobody waits for the answer.
        self.shared.state().done = true;
        let created = self.remote.create(key, root).await;
        if let Err(error) = &created
            && error.class() != Class::CommitUnknown
        {
            self.shared.state().done = error.class() == Class::AlreadyExists;
            // Nothing of ours is there, and what somebody else put there later is not ours.
            let _left = self.intent.as_ref().map(std::fs::remove_file);
        }
        created
    }

    /// Removes what was sent, unless it is published.
    pub(crate) async fn abandon(&self) -> Result<(), StoreError> {
        if !self.give_up() {
            return Ok(());
        }
        remove(&self.remote, &self.shared).await
    }

    /// Lets nothing be sent any more; whether there is something to remove.
    fn give_up(&self) -> bool {
        let mut state = self.shared.state();
        let expected = Expected::Rule("a build that goes on");
        state.failure.get_or_insert_with(|| {
            StoreError::refused(Class::Cancelled, Op::Write, "build", expected, "an abandoned one")
        });
        state.begun && self.intent.is_none() && !std::mem::replace(&mut state.done, true)
    }
}

impl Drop for Uploads {
    fn drop(&mut self) {
        if self.give_up() {
            let (remote, shared) = (self.remote.clone(), Arc::clone(&self.shared));
            self.runtime.spawn(async move { remove(&remote, &shared).await });
        }
    }
}

/// Writes a file that is whole when it is there, also after a loss of power.
fn write_down(path: &Path, bytes: &Bytes) -> std::io::Result<()> {
    use std::io::Write as _;
    let fresh = path.with_file_name(format!("{INTENT}.tmp"));
    let mut file = std::fs::File::create(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(fresh, path)
}

fn runtime() -> Result<Handle, StoreError> {
    Handle::try_current().map_err(|_outside| {
        let expected = Expected::Rule("a tokio runtime around the build");
        StoreError::refused(Class::InvalidArgument, Op::Open, "runtime", expected, "none")
    })
}

/// Removes what lies below the prefix once nothing is under way, unless it is a store by now.
async fn remove(remote: &Remote, shared: &Shared) -> Result<(), StoreError> {
    shared.quiet().await;
    let root = crate::docs::document(&Key::root())?;
    if remote.read(&root).await?.is_some() { Ok(()) } else { remote.clear().await }
}

impl Shared {
    /// Waits until nothing is under way.
    async fn quiet(&self) {
        loop {
            let settled = self.settled.notified();
            if self.state().under_way == 0 {
                return;
            }
            settled.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One object on its way, however it ends.
struct Upload {
    shared: Arc<Shared>,
    _kept: Kept,
}

impl Drop for Upload {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.under_way = state.under_way.saturating_sub(1);
        drop(state);
        self.shared.settled.notify_waiters();
    }
}

/// The root document, as it is about to be created.
const INTENT: &str = "root.json";
