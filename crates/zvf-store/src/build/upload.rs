//! Builds a store on an object store, with many concurrent uploads.
//!
//! Uploads run as tasks of the caller's runtime; `put` returns at once, unless the memory limit is
//! reached (backpressure). The first error is recorded and returned to later callers; nothing is
//! sent after it.
//!
//! ```text
//! begin      the prefix is claimed, and nothing may lie below it but what a dead build left: that is removed
//! put        every object is created, none is replaced
//! publish    the claim is still there, so are all objects and no others, and documents fit them; then the
//!            root document is created, where there is none; then the claim is removed
//! abandon    what was sent is removed, and nothing else; then the claim
//! ```
//!
//! The root document is created last, with create-if-absent, so objects without one are not a
//! store.
//!
//! Processes that build one store together share a claim, whose name is in their folder. The
//! process that creates the root document first records it there (write-ahead intent). If it is
//! killed before it gets the response, the next process compares the record with the stored
//! document.
//!
//! Not here: who may build (`claim`); single requests and their retries (`source::remote`).

mod publish;

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Notify;
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_publish::{Disk, KeyedFolder};

use super::claim::Claim;
use super::memory_limiter::{MemoryLimiter, MemoryPermit};
use crate::docs::{DOCUMENT, document};
use crate::error::WithOp as _;
use crate::key::Key;
use crate::source::remote::store_exists_error;
use crate::source::{Get, Remote};
use crate::sync::lock;

/// The uploads of one build.
#[derive(Debug)]
pub(crate) struct Uploads {
    remote: Remote,
    runtime: Handle,
    shared: Arc<SharedUpload>,
    claim: Option<Claim>, // none when a store that many processes build was there already
    work: Option<PathBuf>, // others build the same store: their folder, where its root document is written down first
}

#[derive(Debug, Default)]
struct SharedUpload {
    state: Mutex<UploadState>,
    settled: Notify,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct UploadState {
    under_way: usize,
    failure: Option<Error>,
    /// Name and length, hashed, of each object that may have arrived, and whether it has.
    sent: HashMap<u64, bool>,
    done: bool,
}

impl Uploads {
    /// Begins uploads to `remote`, below which only leftovers of a dead build may exist.
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
                // Whether or not this succeeds, the first error is returned.
                let _released = claim.release().await;
            }
            return Err(error);
        }
        Ok(Self { remote, runtime, shared: Arc::default(), claim: Some(claim), work: None })
    }

    /// Begins uploads to `remote` together with other processes, which upload other objects of the
    /// same store and share the folder `work`.
    pub(crate) async fn join(remote: Remote, work: &Path) -> Result<Self> {
        let (runtime, work_folder) = (runtime()?, Some(work.to_owned()));
        let id = shared_id(&Disk::default(), work).with_op("open")?;
        let mut joined =
            Self { remote, runtime, shared: Arc::default(), claim: None, work: work_folder };
        if joined.is_published().await? {
            // The process that published it may have left the claim.
            Claim::remove_claims(&joined.remote, &id).await?;
            return Ok(joined);
        }
        let (claim, is_inherited) = Claim::take(&joined.remote, &joined.runtime, &id, true).await?;
        // The store may have been published, and its claim removed, in the meantime. A foreign
        // store is detected here and not by its objects: some backends accept conditions and ignore
        // them, and would replace these.
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
                // Others may have put objects under this claim, or be about to, so it stays until
                // it expires.
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

    /// Returns whether the root document that one of the processes wanted to create exists.
    pub(crate) async fn is_published(&self) -> Result<bool> {
        let Some(work) = &self.work else { return Ok(self.shared.state().done) };
        let intent = zvf_publish::found(std::fs::read(work.join(INTENT)));
        let Some(root) = intent.with_op("publish")? else { return Ok(false) };
        let found = self.remote.read(&document(&Key::root())?).await?;
        Ok(found.is_some_and(|found| found == root))
    }

    /// Reads the object under `key`; `None` if it does not exist.
    pub(super) async fn read(&self, key: &Key) -> Result<Option<Bytes>> {
        self.remote.read(key).await
    }

    /// Returns which of `objects`, all below `array`, are missing. If a listing omits an object,
    /// the object may still exist, so it is requested by name.
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

    /// Returns whether a thread may wait for uploads, because another thread runs them.
    pub(crate) fn may_wait(&self) -> bool {
        !matches!(self.runtime.runtime_flavor(), RuntimeFlavor::CurrentThread)
    }

    /// Queues the object under `key` for upload, once the memory limit allows it.
    pub(crate) fn put(&self, key: Key, parts: Vec<Bytes>, room: &MemoryLimiter) -> Result<()> {
        let permit = room.acquire_blocking(crate::codec::len(&parts));
        self.send(key, parts, permit)
    }

    /// Like [`put`](Self::put), for a task, which waits for memory without blocking its thread.
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

    /// Removes everything that was sent, unless it is published, and releases the prefix.
    pub(crate) async fn abandon(&self) -> Result<()> {
        self.fail();
        let Some(claim) = self.claim.as_ref().filter(|_| !self.is_shared()) else {
            return Ok(());
        };
        remove(&self.remote, &self.shared, claim).await
    }

    /// Stops further uploads.
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

/// Writes a file of the folder `work` atomically, and syncs it before returning.
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

/// Waits until nothing is in progress. Then removes the sent objects, unless they form a store by
/// now or another build has the prefix, and releases the prefix. The next build removes anything
/// that remains.
async fn remove(remote: &Remote, shared: &SharedUpload, claim: &Claim) -> Result<()> {
    shared.wait_until_idle().await;
    let (is_asked, is_empty) = {
        let state = shared.state();
        (state.done, state.sent.is_empty())
    };
    if is_asked {
        // The root document may be in flight. The build that later finds the claim dead will find
        // out.
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

async fn remove_sent(remote: &Remote, shared: &SharedUpload, claim: &Claim) -> Result<()> {
    claim.verify().await?;
    if remote.read(&root_document()?).await?.is_some() {
        return Ok(());
    }
    for _ in 0..MAX_LIST_ATTEMPTS {
        let mut keys = Vec::new();
        let mut hashes = Vec::new();
        for (name, len) in remote.list_all(&Key::root()).await? {
            if shared.was_sent(&name, len) {
                keys.push(Key::parse(&name)?);
                hashes.push(shared.hash(&name, len));
            }
        }
        if keys.is_empty() {
            if shared.forget(&hashes) {
                return Ok(());
            }
            // A listing may be older than the last put.
            remote.sleep(LIST_PAUSE).await;
            continue;
        }
        remote.remove(&keys).await?;
        shared.forget(&hashes);
    }
    Err(Error::new(Class::Unavailable, "objects to remove", "all that was sent", "fewer"))
}

/// Refuses a prefix that is not empty, after removing the leftovers of a dead build.
async fn prepare(remote: &Remote, is_inherited: bool) -> Result<()> {
    let listed = remote.list_all(&Key::root()).await?;
    let names: Vec<String> =
        listed.into_iter().map(|(name, _)| name).filter(|name| !Claim::is_name(name)).collect();
    let is_left = |name: &String| is_inherited && is_store_name(name) && name != DOCUMENT;
    if !names.iter().all(is_left) {
        return Err(prefix_in_use_error());
    }
    if names.is_empty() {
        return Ok(());
    }
    let keys: Result<Vec<Key>> = names.iter().map(|name| Key::parse(name)).collect();
    remote.remove(&keys?).await
}

fn prefix_in_use_error() -> Error {
    Error::new(Class::AlreadyExists, "store", "a prefix with nothing below it", "objects")
}

/// Returns whether an object of a store can have this name: a document, or a chunk by its indexes.
fn is_store_name(name: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or(name);
    let is_number = |text: &str| {
        let digits = text.strip_prefix('-').unwrap_or(text);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    DOCUMENTS.contains(&last) || last.split('.').all(|part| part == "c" || is_number(part))
}

fn root_document() -> Result<Key> {
    document(&Key::root())
}

/// Returns a unique name.
fn new_id() -> String {
    // The system seeds each state with new random values.
    let half = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", half(), half())
}

/// Returns the name shared by all processes with this folder. It is synced before use: a claim by
/// another name would belong to another build.
fn shared_id(disk: &Disk, work: &Path) -> std::io::Result<String> {
    let folder = KeyedFolder::new(disk.clone(), work.to_owned());
    loop {
        if let Some(id) = zvf_publish::found(std::fs::read_to_string(folder.path(ID)))? {
            // The process that created it may have died before it was synced.
            folder.sync_folders([ID].into_iter())?;
            return Ok(id);
        }
        folder.create(ID, new_id().into())?; // not in place of that of another process
    }
}

impl SharedUpload {
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

    /// Returns the hash of the name and length of an object.
    fn hash(&self, name: &str, len: u64) -> u64 {
        self.hasher.hash_one((name, len))
    }

    /// Records that these were removed; returns whether none of the arrived objects is left.
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

    fn state(&self) -> MutexGuard<'_, UploadState> {
        lock(&self.state)
    }
}

/// One object in flight; its state is settled however the upload ends.
struct Upload {
    shared: Arc<SharedUpload>,
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

/// The root document that is about to be created.
const INTENT: &str = "root.json";
/// The name of a build by many processes.
const ID: &str = "store.id";
const DOCUMENTS: [&str; 4] = [DOCUMENT, ".zarray", ".zgroup", ".zattrs"];
/// Number of listings, and the pause between them, until all put objects are listed.
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

    /// Each step precedes the one that depends on it; the two folders may be synced in either
    /// order.
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
        // Another process does not know whether the first one lived long enough to sync it.
        let second_disk = Disk::with_recording();
        assert_eq!(shared_id(&second_disk, &work).unwrap(), id);
        assert_eq!(steps(&second_disk, &work, ID), ["folder synced", "names synced"]);
        assert_eq!(std::fs::read_dir(&work).unwrap().count(), 1);
    }
}
