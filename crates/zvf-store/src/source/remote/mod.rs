//! A store behind the `ObjectStore` trait: a service on the network, memory, or the caller's own.
//!
//! Pieces of a batch are fetched concurrently, as many as the budget allows. Only this layer
//! retries: the backends built here do not. A body that breaks off is continued from that point
//! with the same version, or else restarted, so that no answer mixes two versions; pieces of one
//! object with different versions are an error.
//!
//! A backend may lack operations. Without suffix ranges, the size is requested first; without
//! ranges, the whole object is fetched and cut; plain HTTP is never listed. Outside a tokio runtime
//! there are no timeouts and no retries, which is sufficient for stores in memory.
//!
//! Not here: which backend a URL names ([`super::url`]), which errors are transient ([`verdict`])
//! and when ([`retry`]).

mod attempts;
#[cfg(not(target_arch = "wasm32"))]
mod blocks;
#[cfg(feature = "_net")]
pub(super) mod clients;
mod part;
mod put;
#[cfg(feature = "_net")]
mod refusal;
pub(super) mod retry;
mod verdict;

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use futures_util::stream::{self, StreamExt};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, ListResult, ObjectMeta, ObjectStore};
use zvf_error::{Error, Locate as _, Result};
use zvf_format::Class;

use self::attempts::{AttemptError, Attempts, Batch, Reports};
use self::part::ArrivingBody;
pub(crate) use self::put::{Created, Until, store_exists_error};
use self::retry::Retry;
use super::plan::{Object, Read, deliver, plan};
use super::{
    Backend, ByteRange, Child, Get, GetAnswer, IoStats, MAX_LISTED_KEYS, Version, check_listed,
};
use crate::budget::Budget;
use crate::clock::Instant;
use crate::error::{BackendAnswer, backend_error, length_error};
use crate::key::Key;
use crate::options::OpenOptions;

/// A backend and the location of the store in it; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Remote(Arc<RemoteState>);

#[derive(Debug)]
struct RemoteState {
    store: Arc<dyn ObjectStore>,
    root: Path,
    can_list: bool,
    budget: Budget,
    at_once: usize,
    retry: Retry,
    /// Operations that the backend turned out not to support.
    no_ranges: AtomicBool,
    no_suffix: AtomicBool,
    no_conditions: AtomicBool,
    /// Whether the runtime turned out to have no timers.
    no_timers: AtomicBool,
    reports: Option<Reports>,
    requests: AtomicU64,
    bytes_read: AtomicU64,
    retries: AtomicU64,
}

impl Remote {
    /// Returns the store at `backend`.
    pub(crate) fn new(backend: Backend, budget: Budget, options: &OpenOptions) -> Self {
        let Backend { store, prefix, can_list } = backend;
        let seed = RandomState::new().hash_one(prefix.as_ref());
        Self(Arc::new(RemoteState {
            store,
            root: prefix,
            can_list,
            budget,
            at_once: options.requests_in_flight.max(1),
            retry: Retry::new(options.timeouts, seed),
            no_ranges: AtomicBool::new(false),
            no_suffix: AtomicBool::new(false),
            no_conditions: AtomicBool::new(false),
            no_timers: AtomicBool::new(false),
            reports: options.on_retry.clone().map(Reports::new),
            requests: AtomicU64::new(0),
            bytes_read: AtomicU64::new(0),
            retries: AtomicU64::new(0),
        }))
    }

    /// Returns the objects with the name of this prefix plus `suffix`; `None` for a whole bucket,
    /// which has no sibling.
    pub(crate) fn beside(&self, suffix: &str, options: &OpenOptions) -> Option<Self> {
        let parts: Vec<_> = self.0.root.parts().collect();
        let (last, above) = parts.split_last()?;
        let name = format!("{}{suffix}", last.as_ref());
        let prefix = above.iter().cloned().collect::<Path>().join(name);
        let backend =
            Backend { store: Arc::clone(&self.0.store), prefix, can_list: self.0.can_list };
        Some(Self::new(backend, self.0.budget.clone(), options))
    }

    pub(crate) async fn read_many(&self, gets: &[Get]) -> Vec<Result<Option<GetAnswer>>> {
        let objects = plan(gets, MERGE_GAP_BYTES);
        let mut versions: Vec<Option<Version>> = vec![None; objects.len()];
        let pieces =
            objects.into_iter().enumerate().flat_map(|(at, Object { key, pieces, .. })| {
                pieces.into_iter().map(move |piece| (at, key.clone(), piece))
            });
        let batch = Arc::new(Batch::begin());
        let fetches = pieces.map(|(at, key, piece)| {
            let (shared, batch) = (Arc::clone(&self.0), Arc::clone(&batch));
            async move {
                let outcome = shared.read(&key, piece.range, &batch).await;
                batch.count(&outcome);
                (at, key, piece, outcome)
            }
        });
        let mut answers = vec![None; gets.len()];
        let mut fetched = stream::iter(fetches).buffer_unordered(self.0.at_once);
        while let Some((at, key, piece, outcome)) = fetched.next().await {
            let Some(version) = versions.get_mut(at) else { continue };
            let outcome = outcome.and_then(|read| check_version(version, read));
            deliver(gets, &key, &piece, outcome, &mut answers);
        }
        let unanswered = || Err(Error::replaced());
        answers.into_iter().map(|answer| answer.unwrap_or_else(unanswered)).collect()
    }

    pub(crate) fn can_list(&self) -> bool {
        self.0.can_list
    }

    pub(crate) async fn children(&self, prefix: &Key) -> Result<Vec<Child>> {
        self.0.check_listing(prefix)?;
        let path = self.0.path(prefix)?;
        let listing = self.0.children(prefix, &path).await?;
        let name = |path: &Path, is_dir| {
            let name = path.filename()?.to_owned();
            prefix.listed_child(&name).map(|_| Child { name, is_dir })
        };
        let folders = listing.common_prefixes.iter().filter_map(|path| name(path, true));
        let objects = listing.objects.iter().filter(|meta| meta.location != path);
        let objects = objects.filter_map(|meta| name(&meta.location, false));
        let mut children: Vec<Child> = folders.chain(objects).collect();
        children.sort_unstable();
        children.dedup();
        Ok(children)
    }

    pub(crate) async fn list(&self, prefix: &Key) -> Result<Vec<(Key, u64)>> {
        self.0.check_listing(prefix)?;
        let path = self.0.path(prefix)?;
        let listed = self.0.list(prefix, &path).await?;
        check_listed(listed.len()).at_key(prefix)?;
        let mut keys: Vec<(Key, u64)> = listed
            .into_iter()
            .filter_map(|(name, size)| {
                let is_visible = name.split('/').all(|segment| !segment.starts_with(".tmp-"));
                let key = prefix.join(&name).ok().filter(|_| is_visible)?;
                Some((key, size))
            })
            .collect();
        keys.sort_unstable();
        Ok(keys)
    }

    pub(crate) fn stats(&self) -> IoStats {
        IoStats {
            requests: self.0.requests.load(Ordering::Relaxed),
            bytes_read: self.0.bytes_read.load(Ordering::Relaxed),
            retries: self.0.retries.load(Ordering::Relaxed),
        }
    }
}

impl RemoteState {
    /// Reads the existing part of `range`; `None` if there is no object.
    async fn read(&self, key: &Key, range: ByteRange, batch: &Batch) -> Result<Option<Read>> {
        let path = self.path(key)?;
        let _request = self.budget.request().await;
        let mut attempts = Attempts::new(self, "read", key, batch.waiting_since());
        let mut part = None;
        loop {
            match self.attempt(&path, range, &mut part, &mut attempts).await {
                Ok(done) => return Ok(done),
                Err(miss) => attempts.retry_or_fail(miss).await?,
            }
        }
    }

    /// Creates one attempt; continues with `part` if an earlier attempt got that far.
    async fn attempt(
        &self,
        path: &Path,
        range: ByteRange,
        part: &mut Option<ArrivingBody>,
        attempts: &mut Attempts<'_>,
    ) -> Result<Option<Read>, AttemptError> {
        if let Some(begun) = part {
            match attempts.get(path, begun.rest_request()).await {
                Ok(reply) if begun.continues(&reply) => {
                    return self.receive(reply, part, attempts).await.map(Some);
                }
                // The version has changed: start again with the new one.
                Ok(_) => *part = None,
                Err(miss) if miss.class() == Some(Class::FileChanged) => *part = None,
                Err(miss) => return Err(miss),
            }
        }
        match self.begin(path, range, attempts).await? {
            None => Ok(None),
            Some(ReadStart::Known(read)) => Ok(Some(read)),
            Some(ReadStart::Reply(reply, expected)) => {
                let (meta, found) = (reply.meta.clone(), reply.range.clone());
                *part = Some(self.admit(meta, found, expected, attempts).await?);
                self.receive(reply, part, attempts).await.map(Some)
            }
        }
    }

    /// Requests `range` in a way that this backend supports.
    async fn begin(
        &self,
        path: &Path,
        mut range: ByteRange,
        attempts: &Attempts<'_>,
    ) -> Result<Option<ReadStart>, AttemptError> {
        loop {
            let requested = match range {
                ByteRange::At { len: 0, .. } | ByteRange::First(0) | ByteRange::Last(0) => {
                    return self.size(path, attempts).await.map(|size| size.map(ReadStart::Known));
                }
                ByteRange::All => None,
                _ if self.no_ranges.load(Ordering::Relaxed) => None,
                ByteRange::At { start, len } => {
                    // No object is so large that this saturates, and a short answer is refused.
                    Some(GetRange::Bounded(start..start.saturating_add(len)))
                }
                ByteRange::First(len) => Some(GetRange::Bounded(0..len)),
                ByteRange::Last(len) if self.no_suffix.load(Ordering::Relaxed) => {
                    let Some(meta) = self.size(path, attempts).await? else { return Ok(None) };
                    if meta.size == 0 {
                        return Ok(Some(ReadStart::Known(meta)));
                    }
                    let len = len.min(meta.size);
                    range = ByteRange::At { start: meta.size - len, len };
                    continue;
                }
                ByteRange::Last(len) => Some(GetRange::Suffix(len)),
            };
            let options = GetOptions { range: requested.clone(), ..GetOptions::default() };
            let miss = match attempts.get(path, options).await {
                Ok(reply) => {
                    let range = if requested.is_some() { range } else { ByteRange::All };
                    let expected = range.clamp_to(reply.meta.size);
                    return Ok(Some(ReadStart::Reply(reply, expected)));
                }
                Err(miss) => miss,
            };
            match (miss.class(), requested) {
                _ if miss.is_absence() => return Ok(None),
                (Some(Class::Unsupported), Some(GetRange::Suffix(_))) => {
                    self.no_suffix.store(true, Ordering::Relaxed);
                }
                (Some(Class::Unsupported), Some(_)) => {
                    self.no_ranges.store(true, Ordering::Relaxed);
                }
                // Backends refuse a range past the end in many ways; the size decides.
                (Some(Class::OutOfBounds | Class::Io | Class::InvalidArgument), Some(_)) => {
                    return match self.size(path, attempts).await? {
                        Some(meta) if range.clamp_to(meta.size).is_empty() => {
                            Ok(Some(ReadStart::Known(meta)))
                        }
                        Some(_) => Err(miss),
                        None => Ok(None),
                    };
                }
                _ => return Err(miss),
            }
        }
    }

    /// Requests the size of an object.
    async fn size(
        &self,
        path: &Path,
        attempts: &Attempts<'_>,
    ) -> Result<Option<Read>, AttemptError> {
        let options = GetOptions { head: true, ..GetOptions::default() };
        match attempts.get(path, options).await {
            Ok(reply) => {
                let size = reply.meta.size;
                let version = Version::from_meta(&reply.meta);
                Ok(Some(Read { bytes: Bytes::new(), start: size, size, version }))
            }
            // This response has no body that could name a missing bucket; other requests will
            // report it.
            Err(miss) if miss.class() == Some(Class::NotFound) => Ok(None),
            Err(miss) => Err(miss),
        }
    }

    /// Reserves memory for a response that begins, if it is the requested version.
    async fn admit(
        &self,
        meta: ObjectMeta,
        found: Range<u64>,
        expected: Range<u64>,
        attempts: &mut Attempts<'_>,
    ) -> Result<ArrivingBody, AttemptError> {
        let len = expected.end - expected.start;
        if found != expected {
            let found = found.end.saturating_sub(found.start); // as the backend says
            return Err(AttemptError::Final(length_error(len, found)));
        }
        let asked = attempts.deadline.map(|_| Instant::now());
        let held = self.budget.reserve(len).await.map_err(AttemptError::Final)?;
        // Waiting for the budget, and a long body, are not the store's fault.
        attempts.extend(asked.map_or(Duration::ZERO, |asked| asked.elapsed()));
        attempts.allow_body(self.retry.timeouts.transfer(len));
        Ok(ArrivingBody {
            range: expected,
            size: meta.size,
            version: Version::from_meta(&meta),
            tag: meta.e_tag.filter(|tag| !tag.starts_with("W/")),
            bytes: BytesMut::new(),
            _held: held,
        })
    }

    /// Receives the body of `reply` as the rest of `part`.
    async fn receive(
        &self,
        reply: GetResult,
        part: &mut Option<ArrivingBody>,
        attempts: &Attempts<'_>,
    ) -> Result<Read, AttemptError> {
        let Some(begun) = part else { return Err(AttemptError::Length { expected: 0, found: 0 }) };
        let len = begun.range.end - begun.range.start;
        let body = begun.fill(reply.into_stream(), &self.bytes_read);
        let whole = match attempts.run_within("body", self.retry.timeouts.body(len), body).await {
            Ok(Ok(whole)) => whole,
            Ok(Err(miss)) | Err(miss) => {
                *part = part.take().filter(|begun| begun.tag.is_some());
                return Err(miss);
            }
        };
        let (start, size) = (begun.range.start, begun.size);
        let bytes = whole.unwrap_or_else(|| std::mem::take(&mut begun.bytes).freeze());
        Ok(Read { bytes, start, size, version: begun.version.clone() })
    }

    /// Returns an error if names cannot be listed: over plain HTTP, a listing is no evidence of
    /// absence.
    fn check_listing(&self, prefix: &Key) -> Result<()> {
        if self.can_list {
            return Ok(());
        }
        Err(Error::new(
            Class::Unsupported,
            "store",
            "one that can be listed; name what to read instead",
            "plain HTTP",
        )
        .at_key(prefix))
    }

    /// Returns the entries directly below `path`. If there are none, stores return an empty list;
    /// "not found" refers to the location itself, and is no evidence of absence.
    async fn children(&self, prefix: &Key, path: &Path) -> Result<ListResult> {
        let _request = self.budget.request().await;
        let mut attempts = Attempts::new(self, "list", prefix, None);
        let below = (!path.as_ref().is_empty()).then_some(path);
        loop {
            self.requests.fetch_add(1, Ordering::Relaxed);
            let listed = self.store.list_with_delimiter(below);
            match attempts.run_within("list", self.retry.timeouts.first_byte, listed).await {
                Ok(listed) => return Ok(listed),
                Err(miss) => attempts.retry_or_fail(miss).await?,
            }
        }
    }

    /// Returns the names and sizes of all objects below `path`, relative to it.
    async fn list(&self, prefix: &Key, path: &Path) -> Result<Vec<(String, u64)>> {
        let _request = self.budget.request().await;
        let mut attempts = Attempts::new(self, "list", prefix, None);
        loop {
            match self.list_once(path, &mut attempts).await {
                Ok(done) => return Ok(done),
                Err(miss) => attempts.retry_or_fail(miss).await?,
            }
        }
    }

    async fn list_once(
        &self,
        path: &Path,
        attempts: &mut Attempts<'_>,
    ) -> Result<Vec<(String, u64)>, AttemptError> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let below = (!path.as_ref().is_empty()).then_some(path);
        let mut found = Vec::new();
        let mut listed = self.store.list(below);
        let limit = self.retry.timeouts.first_byte;
        while let Some(meta) =
            attempts.run_within("list", limit, listed.next().map(Option::transpose)).await?
        {
            // A listing may take any time as long as it makes progress.
            attempts.restart();
            // An object elsewhere, or at the location itself, has no name below it.
            let name = meta.location.as_ref().strip_prefix(path.as_ref()).unwrap_or_default();
            let name = name.strip_prefix('/').unwrap_or(name);
            if !name.is_empty() {
                found.push((name.to_owned(), meta.size));
            }
            if found.len() >= MAX_LISTED_KEYS {
                break;
            }
        }
        Ok(found)
    }

    /// Returns the path of `key` in the backend.
    fn path(&self, key: &Key) -> Result<Path> {
        let slash = if key.is_root() || self.root.as_ref().is_empty() { "" } else { "/" };
        let path = [self.root.as_ref(), slash, key.as_str()].concat();
        Path::parse(path).map_err(|error| {
            let (class, answer) = (Class::InvalidKey, BackendAnswer::Refusal);
            backend_error(class, "name", answer, error.into()).at_key(key)
        })
    }
}

/// A response that has begun, or an answer without a request.
enum ReadStart {
    /// With the expected range.
    Reply(GetResult, Range<u64>),
    Known(Read),
}

/// Returns `read`, unless another piece of the object had another version.
fn check_version(version: &mut Option<Version>, read: Option<Read>) -> Result<Option<Read>> {
    let Some(read) = read else { return Ok(None) };
    let first = version.get_or_insert_with(|| read.version.clone());
    if *first == read.version { Ok(Some(read)) } else { Err(Error::replaced()) }
}

/// On a network, a request costs about as much as this many bytes. A page joins the requests of
/// several readers itself.
pub(super) const MERGE_GAP_BYTES: u64 = if cfg!(target_arch = "wasm32") { 0 } else { 256 << 10 };

#[cfg(test)]
mod tests;
