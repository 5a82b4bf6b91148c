//! The claim of a build on a prefix of an object store.
//!
//! ```text
//! <prefix>/.tmp-build/claim    who builds, created only if absent, renewed while the build lives
//! <prefix>/.tmp-build/<build>  the same under a name of its own: where the backend ignores conditions, and
//!                              to read the clock of the store
//! ```
//!
//! Readers skip both names, and removing the prefix removes them. A build is dead if its claim was
//! not renewed for the stated time, by the clock of the store, or if it belongs to a process of
//! this machine that has ended. The next build then replaces the claim, provided that it has not
//! changed since it was read.
//!
//! A backend that ignores conditions cannot decide who was first. There, each build writes its own
//! claim and then lists the others: if two see each other, the one with the smaller name continues
//! once the other has withdrawn.
//!
//! The claim is checked before the root document is created, and once more after that, to detect a
//! lost claim.
//!
//! Not here: building, and removing what was built (`upload`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use object_store::ObjectMeta;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use zvf_error::{Error, Result, quote};
use zvf_format::Class;

use super::process::Process;
use crate::clock::Instant;
use crate::error::into_cause;
use crate::key::Key;
use crate::source::Remote;
use crate::source::remote::Created;
use crate::sync::lock;

/// The claim of one build.
#[derive(Debug)]
pub(crate) struct Claim {
    held: Arc<Held>,
    runtime: Handle,
    is_shared: bool, // other processes build under the same claim: dropping it releases nothing
    renewal: Mutex<Option<AbortHandle>>,
}

/// The state that a claim, its renewal and its release share.
#[derive(Debug)]
struct Held {
    remote: Remote,
    key: Key,
    own_key: Key,
    record: Record,
    is_written: AtomicBool,     // whether `key` may be ours
    is_own_written: AtomicBool, // whether `own_key` may be there
    is_listed: AtomicBool,      // whether `own_key` is what counts
    is_lost: AtomicBool,
    renewed: Mutex<Instant>, // when the last renewal began that succeeded
}

impl Claim {
    /// Claims the prefix of `remote` for the build `id`; returns whether a dead build held it
    /// before.
    ///
    /// # Errors
    ///
    /// [`Class::Conflict`] when another build that may be alive holds it.
    pub(crate) async fn take(
        remote: &Remote,
        runtime: &Handle,
        id: &str,
        is_shared: bool,
    ) -> Result<(Self, bool)> {
        let folder = Key::root().child(FOLDER)?;
        let lease = if is_shared { SHARED_LEASE } else { LEASE };
        let process = if is_shared { None } else { Process::current() };
        let held = Arc::new(Held {
            remote: remote.clone(),
            key: folder.child(CLAIM)?,
            own_key: folder.child(id)?,
            record: Record { build: id.to_owned(), lease, process },
            // The response may be lost: from the request on, dropping this releases the claim.
            is_written: AtomicBool::new(true),
            // Another process of the same build may have written it and ended.
            is_own_written: AtomicBool::new(is_shared),
            is_listed: AtomicBool::new(false),
            is_lost: AtomicBool::new(false),
            renewed: Mutex::new(Instant::now()),
        });
        let claim = Self { held, runtime: runtime.clone(), is_shared, renewal: Mutex::new(None) };
        match claim.held.take().await {
            Ok(is_inherited) => {
                claim.begin_renewal();
                Ok((claim, is_inherited))
            }
            Err(error) => {
                if !is_shared {
                    // Whether or not this succeeds, the first error is returned.
                    let _released = claim.release().await;
                }
                Err(error)
            }
        }
    }

    /// Removes the claims of the build `id`, if any.
    pub(crate) async fn remove_claims(remote: &Remote, id: &str) -> Result<()> {
        let folder = Key::root().child(FOLDER)?;
        let (key, own_key) = (folder.child(CLAIM)?, folder.child(id)?);
        let mut keys = Vec::new();
        if remote.head(&own_key).await?.is_some() {
            keys.push(own_key);
        }
        let found = remote.read(&key).await?;
        if found.is_some_and(|bytes| Record::parse(&bytes).build == id) {
            keys.push(key);
        }
        // Without permission to delete, a build that left nothing can still be joined.
        if keys.is_empty() { Ok(()) } else { remote.remove(&keys).await }
    }

    /// Returns whether another build is known to have taken over the prefix, without a request.
    pub(crate) fn is_lost(&self) -> bool {
        self.held.is_lost.load(Ordering::Relaxed)
    }

    /// Returns whether the claim is too young for another build to have considered it dead.
    pub(crate) fn is_fresh(&self) -> bool {
        lock(&self.held.renewed).elapsed() < self.held.record.lease / 2
    }

    /// Requests the claim to see whether it still exists.
    ///
    /// # Errors
    ///
    /// [`Class::Conflict`] when it does not.
    pub(crate) async fn verify(&self) -> Result<()> {
        self.held.verify().await
    }

    /// Returns the error of a build that lost its prefix.
    pub(crate) fn claim_lost_error(&self) -> Error {
        self.held.claim_lost_error()
    }

    /// Releases the prefix.
    pub(crate) async fn release(&self) -> Result<()> {
        self.end_renewal();
        self.held.release().await
    }

    /// Leaves the claim in place, because the outcome of the build is unknown.
    pub(crate) fn keep_claim(&self) {
        self.end_renewal();
        self.held.forget();
    }

    /// Lets the next build take over the prefix and the objects in it.
    pub(crate) async fn offer_takeover(&self) {
        self.end_renewal();
        let held = &self.held;
        if held.verify().await.is_ok() {
            let (build, lease) = (DEAD.to_owned(), Duration::ZERO);
            let dead = Record { build, lease, process: None };
            // If that fails, the lease expires by itself.
            let _written = held.remote.put(held.counted_key(), &[dead.encode(0)]).await;
        }
        let is_listed = held.is_listed.load(Ordering::Relaxed);
        if !is_listed && held.is_own_written.load(Ordering::Relaxed) {
            let _removed = held.remote.remove(std::slice::from_ref(&held.own_key)).await;
        }
        held.forget();
    }

    /// Returns whether a key below the prefix is one of the names of claims.
    pub(crate) fn is_name(name: &str) -> bool {
        name.strip_prefix(FOLDER).is_some_and(|rest| rest.starts_with('/'))
    }

    fn begin_renewal(&self) {
        let held = Arc::clone(&self.held);
        let renewing = self.runtime.spawn(async move {
            for beat in 1.. {
                if !held.remote.sleep(held.record.lease.min(LEASE) / 10).await {
                    return; // no clock, no renewal
                }
                match held.renew(beat).await {
                    Ok(true) => {}
                    Ok(false) => return held.is_lost.store(true, Ordering::Relaxed),
                    Err(_passing) => {} // the next one may succeed
                }
            }
        });
        *lock(&self.renewal) = Some(renewing.abort_handle());
    }

    fn end_renewal(&self) {
        let renewal = lock(&self.renewal).take();
        if let Some(renewal) = renewal {
            renewal.abort();
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.end_renewal();
        let is_written = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        let held = Arc::clone(&self.held);
        if !self.is_shared && (is_written(&held.is_written) || is_written(&held.is_own_written)) {
            self.runtime.spawn(async move { held.release().await });
        }
    }
}

impl Held {
    async fn take(&self) -> Result<bool> {
        let bytes = self.record.encode(0);
        for _ in 0..MAX_CLAIM_READS {
            match self.remote.create(&self.key, &bytes, None).await {
                Ok(Created::Guarded) => return Ok(false),
                Ok(Created::Looked) => return self.take_listed().await,
                Err(error) if error.class() == Class::AlreadyExists => {}
                Err(error) => return Err(into_cause(error)),
            }
            let Some((found, meta)) = self.read_record(&self.key).await? else { continue };
            if found.build == self.record.build {
                return Ok(false);
            }
            if !self.is_dead(&found, &meta).await? {
                return Err(found.in_use_error(&self.key));
            }
            match self.remote.replace(&self.key, &bytes, &meta, None).await {
                Ok(()) => {
                    if self.remote.probe(&self.key, &bytes).await == Created::Looked {
                        self.take_listed().await?;
                    }
                    return Ok(true);
                }
                Err(error) if LOST.contains(&error.class()) => {} // another one was faster
                Err(error) if error.class() == Class::Unsupported => {
                    return Err(found.in_use_error(&self.key));
                }
                Err(error) => return Err(error),
            }
        }
        let error =
            Error::new(Class::Conflict, "claim", "one that stays the same", "others, by turns");
        Err(error.at_key(&self.key))
    }

    /// Takes the claim on a backend that ignores conditions: writes it under a unique name, and
    /// looks for others.
    async fn take_listed(&self) -> Result<bool> {
        self.is_listed.store(true, Ordering::Relaxed);
        let mut is_inherited = false;
        for turn in 0..MAX_TURNS {
            self.write_own(0).await?;
            let mut rivals = Vec::new();
            for key in self.list_claims().await? {
                let (Some((found, meta)), false) = (self.read_record(&key).await?, key == self.key)
                else {
                    continue;
                };
                if found.build == self.record.build {
                    continue;
                }
                if self.is_dead(&found, &meta).await? {
                    self.remote.remove(std::slice::from_ref(&key)).await?;
                    is_inherited = true;
                } else {
                    rivals.push((key, found));
                }
            }
            let Some((first, rival)) = rivals.into_iter().min_by(|a, b| a.0.cmp(&b.0)) else {
                return Ok(is_inherited);
            };
            // If two see each other, this one withdraws; the other one waits for that.
            if first < self.own_key || turn + 1 == MAX_TURNS {
                return Err(rival.in_use_error(&first));
            }
            self.remote.sleep(TURN_PAUSE).await;
        }
        Ok(is_inherited)
    }

    async fn verify(&self) -> Result<()> {
        let begun = Instant::now();
        let key = self.counted_key();
        let mut found = self.read_record(key).await?;
        if found.is_none() {
            // A claim does not vanish by itself, but a response may be wrong once.
            self.remote.sleep(TURN_PAUSE).await;
            found = self.read_record(key).await?;
        }
        if found.is_some_and(|(found, _)| found.build == self.record.build) {
            *lock(&self.renewed) = begun;
            return Ok(());
        }
        self.is_lost.store(true, Ordering::Relaxed);
        Err(self.claim_lost_error())
    }

    fn claim_lost_error(&self) -> Error {
        Error::new(Class::Conflict, "claim", "the one of this build", "another one, or none")
            .at_key(&self.key)
    }

    /// Returns the key of the claim that other builds look at.
    fn counted_key(&self) -> &Key {
        if self.is_listed.load(Ordering::Relaxed) { &self.own_key } else { &self.key }
    }

    /// Writes the claim again unless another build has taken it; returns whether it was written.
    async fn renew(&self, beat: u64) -> Result<bool> {
        let (begun, key) = (Instant::now(), self.counted_key());
        let Some((found, meta)) = self.read_record(key).await? else { return Ok(false) };
        if found.build != self.record.build {
            return Ok(false);
        }
        let bytes = self.record.encode(beat);
        match self.remote.replace(key, &bytes, &meta, None).await {
            Err(error) if error.class() == Class::Unsupported => {
                // Without conditional replacement, no build takes over a claim either.
                self.remote.put(key, &[bytes]).await?;
            }
            replaced => replaced?,
        }
        *lock(&self.renewed) = begun;
        Ok(true)
    }

    /// Removes the claim, but not that of another build.
    async fn release(&self) -> Result<()> {
        let mut keys = Vec::new();
        if self.is_own_written.load(Ordering::Relaxed) {
            keys.push(self.own_key.clone());
        }
        if self.is_written.load(Ordering::Relaxed) {
            let mut found = self.remote.read(&self.key).await?;
            if found.is_none() {
                found = self.remote.read(&self.key).await?; // as in `verify`
            }
            if found.is_some_and(|bytes| Record::parse(&bytes).build == self.record.build) {
                keys.push(self.key.clone());
            }
        }
        if !keys.is_empty() {
            self.remote.remove(&keys).await?;
        }
        self.forget();
        Ok(())
    }

    /// Forgets that something was written, so that nothing is removed.
    fn forget(&self) {
        self.is_written.store(false, Ordering::Relaxed);
        self.is_own_written.store(false, Ordering::Relaxed);
    }

    async fn read_record(&self, key: &Key) -> Result<Option<(Record, ObjectMeta)>> {
        let Some(meta) = self.remote.head(key).await? else { return Ok(None) };
        let bytes = self.remote.read(key).await?;
        Ok(bytes.map(|bytes| (Record::parse(&bytes), meta)))
    }

    /// Returns the claims under unique names.
    async fn list_claims(&self) -> Result<Vec<Key>> {
        let folder = Key::root().child(FOLDER)?;
        let listed = self.remote.list_all(&folder).await?;
        listed.into_iter().map(|(name, _)| folder.join(&name)).collect()
    }

    async fn write_own(&self, beat: u64) -> Result<()> {
        self.is_own_written.store(true, Ordering::Relaxed);
        self.remote.put(&self.own_key, &[self.record.encode(beat)]).await
    }

    /// Returns whether the build that wrote `found` is known to have ended.
    async fn is_dead(&self, found: &Record, meta: &ObjectMeta) -> Result<bool> {
        if found.process.as_ref().is_some_and(Process::has_ended) {
            return Ok(true);
        }
        // The age is measured with the clock of the store, not of this machine.
        self.write_own(0).await?;
        let Some(now) = self.remote.head(&self.own_key).await? else { return Ok(false) };
        let age = now.last_modified.signed_duration_since(meta.last_modified);
        Ok(age.to_std().is_ok_and(|age| age >= found.lease))
    }
}

/// The content of a claim.
#[derive(Debug)]
struct Record {
    build: String,
    lease: Duration,
    process: Option<Process>,
}

impl Record {
    fn encode(&self, beat: u64) -> Bytes {
        let mut object = serde_json::Map::new();
        object.insert("build".to_owned(), self.build.clone().into());
        // Makes the bytes of each renewal unique, because some backends derive the version from the
        // bytes.
        object.insert("beat".to_owned(), beat.into());
        object.insert("lease_seconds".to_owned(), self.lease.as_secs().into());
        if let Some(process) = &self.process {
            object.insert("process".to_owned(), process.to_string().into());
        }
        serde_json::Value::Object(object).to_string().into()
    }

    /// Parses a claim. An unreadable claim is assumed to have the longest lease.
    fn parse(bytes: &[u8]) -> Self {
        let value: serde_json::Value = serde_json::from_slice(bytes).unwrap_or_default();
        let text = |name: &str| value.get(name).and_then(serde_json::Value::as_str);
        let seconds = value.get("lease_seconds").and_then(serde_json::Value::as_u64);
        Self {
            build: text("build").unwrap_or_default().to_owned(),
            lease: seconds.map_or(SHARED_LEASE, Duration::from_secs),
            process: text("process").and_then(Process::parse),
        }
    }

    /// Returns the error of a build that finds this claim under `key`.
    fn in_use_error(&self, key: &Key) -> Error {
        let rule = if self.lease > LEASE {
            "a prefix that no other build has: wait for it, or, if it is dead, remove all that lies \
             below the prefix or wait a day"
        } else {
            "a prefix that no other build has: wait for it, or, if it is dead, for ten minutes"
        };
        let found = format!("build {}", self.build);
        Error::new(Class::Conflict, "claim", rule, quote(&found)).at_key(key)
    }
}

/// The folder of claims; readers skip names that begin with `.tmp-`.
const FOLDER: &str = ".tmp-build";
const CLAIM: &str = "claim";
/// The build name of a claim that was given up.
const DEAD: &str = "none";
/// Time without renewal after which a build counts as dead.
const LEASE: Duration = Duration::from_secs(600);
/// The same for a build by many processes, with pauses between them.
const SHARED_LEASE: Duration = Duration::from_secs(24 * 3600);
/// Number of reads of a claim that changes while it is examined.
const MAX_CLAIM_READS: u32 = 8;
/// The number of rounds, and the pause between them, for which a build on a backend without
/// conditions waits for other builds to withdraw.
const MAX_TURNS: u32 = 20;
const TURN_PAUSE: Duration = Duration::from_millis(500);
/// Classes of a conditional replacement that came too late.
const LOST: [Class; 3] = [Class::FileChanged, Class::AlreadyExists, Class::NotFound];
