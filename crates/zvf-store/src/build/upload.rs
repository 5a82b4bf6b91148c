//! A store being built on an object store: many uploads at once.
//!
//! Uploads run as tasks of the caller's runtime; `put` returns at once, unless the
//! memory limit is reached (backpressure). The first fault is kept and returned to later callers; nothing is sent after it.
//!
//! ```text
//! begin      the prefix is claimed, and nothing may lie below it but what a dead build left: that is removed
//! put        every object is created, none is replaced
//! publish    the claim is still there, so are all objects and no others, and documents fit them; then the
//!            root document is created, where there is none; then the claim is removed
//! abandon    what was sent is removed, and nothing else; then the claim
//! ```
//!
//! The root document is created last, and only where there is none, so that objects without one are no store.
//!
//! Where many processes build one store, they share a claim by its name in their folder, and the one that
//! creates the root document writes it down there first (write-ahead intent). Killed before it knew the answer, the next one
//! compares what it wrote down with what is there.
//!
//! Not here: who may build (`claim`); single requests and when they are sent again (`source::remote`).

mod publish;

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Notify;
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_publish::{Disk, KeyedFolder};

use super::claim::Claim;
use super::memory_limiter::{MemoryLimiter, MemoryPermit};
use crate::key::Key;
use crate::source::{Get, Remote};

/// The uploads of one build.
#[derive(Debug)]
pub(crate) struct Uploads {
    remote: Remote,
    runtime: Handle,
    shared: Arc<Shared>,
    claim: Option<Claim>, // none when a store that many processes build was there already
    work: Option<PathBuf>, // others build the same store: their folder, where its root document is written down first
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    settled: Notify,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct State {
    under_way: usize,
    failure: Option<Error>,
    /// The name and length of each object that may have arrived, hashed, and whether it has.
    sent: HashMap<u64, bool>,
    done: bool,
}

impl Uploads {
    /// Uploads to `remote`, below which nothing may lie but what is left of a dead build.
    pub(crate) async fn begin(remote: Remote) -> Result<Self> {
        let runtime = runtime()?;
        if remote.read(&root_document()?).await?.is_some() {
            return Err(prefix_in_use_error());
        }
        let (claim, is_inherited) = Claim::take(&remote, &runtime, &new_id(), false).await?;
        let prepared = prepare(&remote, is_inherited).await;
        if let Err(error) = prepared {
            if is_inherited {
                claim.offer_takeover().await;
            } else {
                // Whether that succeeds or not, the first error is returned.
                let _released = claim.release().await;
            }
            return Err(error);
        }
        Ok(Self { remote, runtime, shared: Arc::default(), claim: Some(claim), work: None })
    }

    /// Uploads to `remote`, to which other processes upload other objects of the same store; they share the
    /// folder `work`.
    pub(crate) async fn join(remote: Remote, work: &Path) -> Result<Self> {
        let (runtime, work_folder) = (runtime()?, Some(work.to_owned()));
        let id = shared_id(&Disk::default(), work).map_err(|error| Error::io("open", error))?;
        let mut joined =
            Self { remote, runtime, shared: Arc::default(), claim: None, work: work_folder };
        if joined.is_published().await? {
            // The process that published it may have left the claim there.
            Claim::remove_claims(&joined.remote, &id).await?;
            return Ok(joined);
        }
        let (claim, is_inherited) = Claim::take(&joined.remote, &joined.runtime, &id, true).await?;
        // It may have been published, and its claim removed, in the meantime. A store of somebody else is found here and
        // not by its objects: some stores take conditions and ignore them, and would replace these.
        match joined.remote.read(&root_document()?).await {
            Ok(None) => {}
            Ok(Some(_)) if joined.is_published().await? => {
                claim.release().await?;
                return Ok(joined);
            }
            Ok(Some(_)) => {
                claim.release().await?;
                return Err(store_exists_error());
            }
            Err(error) => {
                // Others may have put objects under this claim, or be about to: it stays until it is old.
                claim.keep_claim();
                return Err(error);
            }
        }
        if is_inherited && let Err(error) = prepare(&joined.remote, true).await {
            claim.offer_takeover().await;
            return Err(error);
        }
        joined.claim = Some(claim);
        Ok(joined)
    }

    /// Returns whether other processes build the same store.
    pub(crate) const fn is_shared(&self) -> bool {
        self.work.is_some()
    }

    /// Returns whether the root document that one of the processes wanted to create is there.
    pub(crate) async fn is_published(&self) -> Result<bool> {
        let Some(work) = &self.work else { return Ok(self.shared.state().done) };
        let root = match std::fs::read(work.join(INTENT)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            root => root.map_err(|error| Error::io("publish", error))?,
        };
        let found = self.remote.read(&crate::docs::document(&Key::root())?).await?;
        Ok(found.is_some_and(|found| found == root))
    }

    /// Reads the object under `key`; `None` when there is none.
    pub(super) async fn read(&self, key: &Key) -> Result<Option<Bytes>> {
        self.remote.read(key).await
    }

    /// Returns which of `objects`, all below `array`, are not there. A list that leaves one out is no proof: it is
    /// asked for by its name then.
    pub(crate) async fn find_missing(
        &self,
        array: &Key,
        mut objects: BTreeSet<Key>,
    ) -> Result<BTreeSet<Key>> {
        self.flush().await?;
        if objects.is_empty() {
            return Ok(objects);
        }
        if self.remote.can_list() {
            for (key, _) in self.remote.list(array).await? {
                objects.remove(&key);
            }
        }
        let gets: Vec<Get> = objects.iter().map(|key| Get::range(key.clone(), 0, 1)).collect();
        for (get, answer) in gets.iter().zip(self.remote.read_many(&gets).await) {
            if answer?.is_some() {
                objects.remove(&get.key);
            }
        }
        Ok(objects)
    }

    /// Returns whether a thread may wait for uploads without being the one that does them.
    pub(crate) fn may_wait(&self) -> bool {
        !matches!(self.runtime.runtime_flavor(), RuntimeFlavor::CurrentThread)
    }

    /// Queues the object under `key` for upload, once the memory limit allows it.
    pub(crate) fn put(&self, key: Key, parts: Vec<Bytes>, room: &MemoryLimiter) -> Result<()> {
        let permit = room.acquire_blocking(crate::codec::len(&parts));
        self.send(key, parts, permit)
    }

    /// Does what [`put`](Self::put) does for a task, which waits for memory without blocking its thread.
    pub(crate) async fn put_later(
        &self,
        key: Key,
        parts: Vec<Bytes>,
        room: &MemoryLimiter,
    ) -> Result<()> {
        let permit = room.acquire(crate::codec::len(&parts)).await;
        self.send(key, parts, permit)
    }

    fn send(&self, key: Key, parts: Vec<Bytes>, permit: MemoryPermit) -> Result<()> {
        {
            let mut state = self.shared.state();
            if let Some(claim) = &self.claim
                && claim.is_lost()
            {
                state.failure.get_or_insert_with(|| claim.claim_lost_error());
            }
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            state.under_way += 1;
        }
        let upload = Upload { shared: Arc::clone(&self.shared), _permit: permit };
        let remote = self.remote.clone();
        self.runtime.spawn(async move {
            if upload.shared.state().failure.is_none() {
                let sent = upload.shared.hash(key.as_str(), crate::codec::len(&parts));
                upload.shared.state().sent.insert(sent, false);
                let put = remote.put_new(&key, &parts).await;
                let mut state = upload.shared.state();
                match put {
                    Ok(()) => drop(state.sent.insert(sent, true)),
                    Err(error) => {
                        if error.class() == Class::Conflict {
                            state.sent.remove(&sent); // another's, which stays
                        }
                        state.failure.get_or_insert(error);
                    }
                }
            }
            drop((parts, upload));
        });
        Ok(())
    }

    /// Waits until nothing is in progress.
    pub(crate) async fn flush(&self) -> Result<()> {
        self.shared.wait_until_idle().await;
        let failure = self.shared.state().failure.clone();
        failure.map_or(Ok(()), Err)
    }

    /// Removes what was sent, unless it is published, and lets others build here.
    pub(crate) async fn abandon(&self) -> Result<()> {
        self.fail();
        let Some(claim) = self.claim.as_ref().filter(|_| !self.is_shared()) else {
            return Ok(());
        };
        remove(&self.remote, &self.shared, claim).await
    }

    /// Lets nothing be sent any more.
    fn fail(&self) {
        self.shared.state().failure.get_or_insert_with(|| {
            Error::new(Class::Cancelled, "build", "a build that goes on", "an abandoned one")
        });
    }
}

impl Drop for Uploads {
    fn drop(&mut self) {
        self.fail();
        if self.is_shared() {
            return;
        }
        if let Some(claim) = self.claim.take() {
            let (remote, shared) = (self.remote.clone(), Arc::clone(&self.shared));
            self.runtime.spawn(async move { remove(&remote, &shared, &claim).await });
        }
    }
}

/// Writes a file of the folder `work` that is whole when it is there, and there when this returns, also after a loss of
/// power.
fn write_down(disk: &Disk, work: &Path, name: &str, bytes: &Bytes) -> std::io::Result<()> {
    let folder = KeyedFolder::new(disk.clone(), work.to_owned());
    folder.put(name, bytes.clone())?;
    folder.sync_folders([name].into_iter())
}

fn runtime() -> Result<Handle> {
    Handle::try_current().map_err(|_outside| {
        Error::new(Class::InvalidArgument, "runtime", "a tokio runtime around the build", "none")
    })
}

/// Removes what was sent once nothing is in progress, unless it is a store by now or another build has the
/// prefix; then gives the prefix back. What cannot be removed is left to the next build.
async fn remove(remote: &Remote, shared: &Shared, claim: &Claim) -> Result<()> {
    shared.wait_until_idle().await;
    let (is_asked, is_empty) = {
        let state = shared.state();
        (state.done, state.sent.is_empty())
    };
    if is_asked {
        // The root document may be on its way. Whoever finds the claim dead one day finds out.
        return match remote.read(&root_document()?).await {
            Ok(Some(_)) => claim.release().await,
            missing => {
                claim.keep_claim();
                missing.map(drop)
            }
        };
    }
    if !is_empty && let Err(error) = remove_sent(remote, shared, claim).await {
        claim.offer_takeover().await;
        return Err(error);
    }
    claim.release().await
}

async fn remove_sent(remote: &Remote, shared: &Shared, claim: &Claim) -> Result<()> {
    claim.verify().await?;
    if remote.read(&root_document()?).await?.is_some() {
        return Ok(());
    }
    for _ in 0..MAX_LIST_ATTEMPTS {
        let mut keys = Vec::new();
        let mut hashes = Vec::new();
        for (name, len) in remote.list_all(&Key::root()).await? {
            if shared.was_sent(&name, len) {
                keys.push(Key::root().join(&name)?);
                hashes.push(shared.hash(&name, len));
            }
        }
        if keys.is_empty() {
            if shared.forget(&hashes) {
                return Ok(());
            }
            // A list may be older than what was put.
            remote.sleep(LIST_PAUSE).await;
            continue;
        }
        remote.remove(&keys).await?;
        shared.forget(&hashes);
    }
    Err(Error::new(Class::Unavailable, "objects to remove", "all that was sent", "fewer"))
}

/// Refuses a prefix with something below it; what a dead build left is removed.
async fn prepare(remote: &Remote, is_inherited: bool) -> Result<()> {
    let listed = remote.list_all(&Key::root()).await?;
    let names: Vec<String> =
        listed.into_iter().map(|(name, _)| name).filter(|name| !Claim::is_name(name)).collect();
    let is_left = |name: &String| is_inherited && is_store_name(name) && name != ROOT;
    if !names.iter().all(is_left) {
        return Err(prefix_in_use_error());
    }
    if names.is_empty() {
        return Ok(());
    }
    let keys: Result<Vec<Key>> = names.iter().map(|name| Key::root().join(name)).collect();
    remote.remove(&keys?).await
}

fn prefix_in_use_error() -> Error {
    Error::new(Class::AlreadyExists, "store", "a prefix with nothing below it", "objects")
}

/// Returns whether an object of a store can have this name: a document, or a chunk by its numbers.
fn is_store_name(name: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or(name);
    let is_number = |text: &str| {
        let digits = text.strip_prefix('-').unwrap_or(text);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    DOCUMENTS.contains(&last) || last.split('.').all(|part| part == "c" || is_number(part))
}

fn root_document() -> Result<Key> {
    crate::docs::document(&Key::root())
}

fn store_exists_error() -> Error {
    Error::new(Class::AlreadyExists, "store", "none yet", "another one")
}

/// Returns a name that no other build has.
fn new_id() -> String {
    // Each state is seeded anew by the system.
    let half = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", half(), half())
}

/// Returns the name that all processes with this folder have. Once one has it, it survives a loss of power: a claim by
/// another name would be that of another build.
fn shared_id(disk: &Disk, work: &Path) -> std::io::Result<String> {
    let folder = KeyedFolder::new(disk.clone(), work.to_owned());
    loop {
        match std::fs::read_to_string(folder.path(ID)) {
            Ok(id) => {
                // Whoever made it may have died before it was synced.
                folder.sync_folders([ID].into_iter())?;
                return Ok(id);
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        folder.create(ID, new_id().into())?; // not in place of that of another process
    }
}

impl Shared {
    /// Waits until nothing is in progress.
    async fn wait_until_idle(&self) {
        loop {
            let settled = self.settled.notified();
            if self.state().under_way == 0 {
                return;
            }
            settled.await;
        }
    }

    /// Returns the hash of an object of this name and length.
    fn hash(&self, name: &str, len: u64) -> u64 {
        self.hasher.hash_one((name, len))
    }

    /// Notes that these are removed; whether nothing that has arrived is left.
    fn forget(&self, hashes: &[u64]) -> bool {
        let mut state = self.state();
        for hash in hashes {
            state.sent.insert(*hash, false);
        }
        !state.sent.values().any(|has_arrived| *has_arrived)
    }

    fn was_sent(&self, name: &str, len: u64) -> bool {
        let hash = self.hash(name, len);
        self.state().sent.contains_key(&hash)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One object on its way, however it ends.
struct Upload {
    shared: Arc<Shared>,
    _permit: MemoryPermit,
}

impl Drop for Upload {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.under_way -= 1;
        drop(state);
        self.shared.settled.notify_waiters();
    }
}

/// The root document, as it is about to be created.
const INTENT: &str = "root.json";
/// The name of a build, where many processes do it.
const ID: &str = "store.id";
const ROOT: &str = "zarr.json";
const DOCUMENTS: [&str; 4] = [ROOT, ".zarray", ".zgroup", ".zattrs"];
/// How often it is listed what was put, and the time between.
const MAX_LIST_ATTEMPTS: u32 = 5;
const LIST_PAUSE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use zvf_publish::Call;

    use super::*;

    /// Returns the syncs and renames of a file `name` of the folder `work`, including those of its
    /// temporary name.
    fn steps(disk: &Disk, work: &Path, name: &str) -> Vec<&'static str> {
        let parent = work.parent().unwrap();
        let calls = disk.calls().into_iter().filter_map(|call| match call {
            Call::Create(path, _) if path.parent() == Some(work) => Some("written"),
            Call::SyncFile(path) if path.parent() == Some(work) => Some("synced"),
            Call::Rename(_, to) if to == work.join(name) => Some("renamed"),
            Call::SyncDir(path) if path == work => Some("names synced"),
            Call::SyncDir(path) if path == parent => Some("folder synced"),
            _ => None,
        });
        calls.collect()
    }

    /// Each step comes before the one that depends on it; the two folders may be synced in either order.
    const DURABLE: [&str; 5] = ["written", "synced", "renamed", "folder synced", "names synced"];

    #[test]
    fn the_intent_survives_a_loss_of_power() {
        let dir = tempfile::tempdir().unwrap();
        let (disk, work) = (Disk::with_recording(), dir.path().join("work"));
        write_down(&disk, &work, INTENT, &Bytes::from_static(b"{}")).unwrap();
        assert_eq!(std::fs::read(work.join(INTENT)).unwrap(), b"{}");
        assert_eq!(steps(&disk, &work, INTENT), DURABLE);
    }

    #[test]
    fn a_shared_name_survives_a_loss_of_power_and_is_the_same_for_all() {
        let dir = tempfile::tempdir().unwrap();
        let (disk, work) = (Disk::with_recording(), dir.path().join("work"));
        let id = shared_id(&disk, &work).unwrap();
        assert_eq!(steps(&disk, &work, ID), DURABLE);
        // Another process does not know whether the first one lived to sync it.
        let second_disk = Disk::with_recording();
        assert_eq!(shared_id(&second_disk, &work).unwrap(), id);
        assert_eq!(steps(&second_disk, &work, ID), ["folder synced", "names synced"]);
        assert_eq!(std::fs::read_dir(&work).unwrap().count(), 1);
    }
}
