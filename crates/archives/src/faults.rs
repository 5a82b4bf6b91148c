//! An object store with planned failures, for tests.
//!
//! [`FaultStore`] wraps memory and counts operations from 0. A [`Refused`] planned for operation n
//! happens once; all others pass. Every operation is also recorded, so that a test can check the
//! requests.
//!
//! Several clients may share one memory, each with its own count. A test can also plan the actions
//! of one client right before request n of another, so that every order of two writers can be
//! tested.
//!
//! Nothing takes real time: a fault without a response sleeps on tokio's clock, which tests pause,
//! and the age of objects follows that clock.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result,
};
use tokio::time::Instant;

/// The fault of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The reply is this HTTP status, with the message of a backend.
    Status(u16),
    /// The connection breaks before a reply.
    Reset,
    /// There is no reply at all.
    Silence,
    /// The reply comes after this long.
    Delay(Duration),
    /// The body ends after this many bytes without an error.
    ShortBody(usize),
    /// The body ends with an error after this many bytes.
    BrokenBody(usize),
    /// The body stalls after this many bytes, and the connection stays open.
    StalledBody(usize),
    /// The body continues beyond the requested range.
    LongBody,
    /// The body comes in pieces of this many bytes.
    Pieces(usize),
    /// The reply has the range next to the requested one.
    WrongRange,
    /// The object exists, but the reply is "not found".
    Missing,
    /// The object is replaced by these bytes before the reply.
    Changed(Bytes),
    /// The object is replaced by these bytes before the reply, and conditions are ignored.
    ChangedUnseen(Bytes),
    /// The backend reports that it does not support the operation.
    NotSupported,
    /// The operation is done, and the connection breaks before the reply.
    AnswerLost,
    /// The operation is done, but there is no reply.
    AnswerLate,
    /// Conditions are ignored.
    Unconditional,
    /// The put is done, and is repeated when [`FaultStore::send_late`] is called.
    Repeated,
    /// The list lacks the last puts, as many as stated.
    OldList(usize),
}

/// The put conditions that a backend supports. It accepts and ignores others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// Puts of an object that must not exist.
    pub if_none_match: bool,
    /// Puts of an object that must be unchanged.
    pub if_match: bool,
    /// Whether the backend supports such puts at all; otherwise it reports that it does not.
    pub has_if_match: bool,
    /// Whether the tag of an object is derived from its bytes, as on S3: restored bytes get their
    /// old tag.
    pub tags_are_of_bytes: bool,
}

impl Default for Conditions {
    fn default() -> Self {
        Self { if_none_match: true, if_match: true, has_if_match: true, tags_are_of_bytes: false }
    }
}

/// A recorded operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `get`, `head`, `list`, `children`, or another operation of the trait.
    pub what: &'static str,
    /// The object or prefix.
    pub path: String,
    /// The range, as HTTP writes it.
    pub range: Option<String>,
    /// Whether the request has a condition.
    pub conditional: bool,
    /// The bytes that a reply to a get sends, or to a head describes.
    pub bytes: u64,
}

/// An object store in memory with planned failures.
///
/// ```
/// use archives::faults::{Fault, FaultStore};
/// use object_store::{ObjectStoreExt, path::Path};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let store = FaultStore::new();
/// store.insert("a/b", b"hello").await;
/// store.plan(0, Fault::Status(503));
/// let path = Path::from("a/b");
/// assert!(store.get(&path).await.is_err());
/// assert_eq!(store.get(&path).await.unwrap().bytes().await.unwrap(), "hello");
/// assert_eq!(store.requests().len(), 2);
/// # }
/// ```
///
/// A clone is the same client.
#[derive(Clone, Default)]
pub struct FaultStore {
    inner: Arc<InMemory>,
    state: Arc<Mutex<FaultState>>,
}

#[derive(Default)]
struct FaultState {
    begun: Option<Instant>,
    /// The time of each put; objects put again are listed again.
    puts: Vec<(Path, Instant)>,
    requests: Vec<Request>,
    planned: BTreeMap<usize, Fault>,
    always: Option<Fault>,
    /// Calls right before requests.
    callbacks: BTreeMap<usize, Box<dyn FnOnce() + Send>>,
    conditions: Conditions,
    /// Puts that will be repeated.
    late: Vec<(Path, PutPayload, PutOptions)>,
    in_flight: usize,
    max_in_flight: usize,
    denied_deletes: usize,
}

impl FaultState {
    fn record_put(&mut self, path: &Path) {
        let now = Instant::now();
        self.begun.get_or_insert(now);
        self.puts.push((path.clone(), now));
    }

    /// Returns the time from the first put to the last put of `path`.
    fn age_at_put(&self, path: &Path) -> Duration {
        let put = self.puts.iter().rfind(|(other, _)| other == path);
        let ends = self.begun.zip(put);
        ends.map_or(Duration::ZERO, |(begun, (_, put))| put.saturating_duration_since(begun))
    }
}

impl FaultStore {
    /// Creates an empty store without faults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts `bytes` under `path`, uncounted.
    ///
    /// # Panics
    ///
    /// When `path` is not a path of the store.
    pub async fn insert(&self, path: &str, bytes: &[u8]) {
        let payload = PutPayload::from(Bytes::copy_from_slice(bytes));
        let path = Path::parse(path).unwrap_or_default();
        let put = self.inner.put(&path, payload).await;
        assert!(put.is_ok(), "{put:?}");
        self.state().record_put(&path);
    }

    /// Returns all objects by their paths, uncounted and without faults.
    pub async fn objects(&self) -> BTreeMap<String, Bytes> {
        let mut objects = BTreeMap::new();
        for meta in self.inner.list(None).collect::<Vec<_>>().await {
            let path = meta.expect("memory is listed").location;
            let got = self.inner.get(&path).await.expect("it was listed");
            objects.insert(path.to_string(), got.bytes().await.expect("bytes of memory are whole"));
        }
        objects
    }

    /// Plans a fault for the `nth` operation from now on.
    pub fn plan(&self, nth: usize, fault: Fault) {
        let mut state = self.state();
        let at = state.requests.len().saturating_add(nth);
        state.planned.insert(at, fault);
    }

    /// Plans a call right before the `nth` operation from now on.
    pub fn plan_call(&self, nth: usize, call: impl FnOnce() + Send + 'static) {
        let mut state = self.state();
        let at = state.requests.len().saturating_add(nth);
        state.callbacks.insert(at, Box::new(call));
    }

    /// Returns another client of the same memory, which has no faults and counts its own
    /// operations.
    pub fn new_client(&self) -> Self {
        let state = FaultState { conditions: self.state().conditions, ..FaultState::default() };
        Self { inner: Arc::clone(&self.inner), state: Arc::new(Mutex::new(state)) }
    }

    /// Repeats puts with [`Refused::Repeated`]. Returns their number.
    pub async fn send_late(&self) -> usize {
        let late = std::mem::take(&mut self.state().late);
        let count = late.len();
        for (path, payload, options) in late {
            // The reply is not needed.
            let _reply = self.put_if(&path, payload, options).await;
        }
        count
    }

    /// Plans a fault for every other operation; `None` ends that.
    pub fn always(&self, fault: Option<Fault>) {
        self.state().always = fault;
    }

    /// Sets whether the store accepts conditions of puts and ignores them.
    pub fn ignore_conditions(&self, is_blind: bool) {
        let [if_none_match, if_match] = [!is_blind; 2];
        self.set_conditions(Conditions { if_none_match, if_match, ..Conditions::default() });
    }

    /// Sets the put conditions that the store supports.
    pub fn set_conditions(&self, conditions: Conditions) {
        self.state().conditions = conditions;
    }

    /// Returns the operations so far, in order.
    pub fn requests(&self) -> Vec<Request> {
        self.state().requests.clone()
    }

    /// Returns the number of deletes that were answered with "not found" and not done.
    pub fn denied_deletes(&self) -> usize {
        self.state().denied_deletes
    }

    /// Drops recorded operations and planned faults.
    pub fn forget(&self) {
        let mut state = self.state();
        state.requests.clear();
        state.planned.clear();
        state.callbacks.clear();
        state.max_in_flight = 0;
    }

    /// Returns the largest number of concurrent gets, until their bodies begin.
    pub fn max_in_flight(&self) -> usize {
        self.state().max_in_flight
    }

    fn state(&self) -> MutexGuard<'_, FaultState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an operation, runs the callback planned before it, and returns its fault.
    fn note(&self, what: &'static str, path: &Path, options: Option<&GetOptions>) -> Option<Fault> {
        let range = options.and_then(|options| options.range.as_ref());
        let request = Request {
            what,
            path: path.to_string(),
            range: range.map(GetRange::to_string),
            conditional: options.is_some_and(|options| options.if_match.is_some()),
            bytes: 0,
        };
        let (fault, callback) = {
            let mut state = self.state();
            let nth = state.requests.len();
            state.requests.push(request);
            let fault = state.planned.remove(&nth).or_else(|| state.always.clone());
            (fault, state.callbacks.remove(&nth))
        };
        if let Some(call) = callback {
            // In another thread: the other client waits for its own requests and must not take the
            // wake-ups of this one.
            std::thread::scope(|scope| drop(scope.spawn(call).join()));
        }
        fault
    }

    /// Puts an object if the supported conditions hold.
    async fn put_if(
        &self,
        path: &Path,
        payload: PutPayload,
        mut options: PutOptions,
    ) -> Result<PutResult> {
        let known = self.state().conditions;
        let is_known = match &options.mode {
            PutMode::Create => known.if_none_match,
            PutMode::Update(_) => known.if_match,
            PutMode::Overwrite => true,
        };
        if matches!(options.mode, PutMode::Update(_)) && !known.has_if_match {
            return Err(not_supported());
        }
        if !is_known {
            options.mode = PutMode::Overwrite;
        }
        if !known.tags_are_of_bytes {
            return self.inner.put_opts(path, payload, options).await;
        }
        if let PutMode::Update(expected) = &options.mode {
            if self.tag(path).await? != expected.e_tag {
                return Err(status_error(412, path));
            }
            options.mode = PutMode::Overwrite;
        }
        let done = self.inner.put_opts(path, payload, options).await?;
        Ok(PutResult { e_tag: self.tag(path).await?, ..done })
    }

    /// Returns the tag derived from the bytes of an object.
    async fn tag(&self, path: &Path) -> Result<Option<String>> {
        let mut hasher = DefaultHasher::new();
        self.inner.get(path).await?.bytes().await?.hash(&mut hasher);
        Ok(Some(format!("\"{:016x}\"", hasher.finish())))
    }

    /// Records an operation, and does what its fault does before a reply; returns the fault, or the
    /// error of a request that is refused before it has an effect.
    async fn begin(
        &self,
        what: &'static str,
        path: &Path,
        options: Option<&GetOptions>,
    ) -> Result<Option<Fault>> {
        let fault = self.note(what, path, options);
        match &fault {
            Some(Fault::Status(status)) => return Err(status_error(*status, path)),
            Some(Fault::Reset) => return Err(reset()),
            Some(Fault::Missing) => return Err(status_error(404, path)),
            Some(Fault::NotSupported) => return Err(not_supported()),
            Some(Fault::Silence) => return Err(never(path).await),
            Some(Fault::Delay(time)) => tokio::time::sleep(*time).await,
            Some(Fault::Changed(bytes) | Fault::ChangedUnseen(bytes)) => {
                self.inner.put(path, PutPayload::from(bytes.clone())).await?;
            }
            _ => {}
        }
        Ok(fault)
    }

    /// Returns the reply to an operation that was done, where it has one.
    async fn reply_when_done<T>(fault: Option<Fault>, path: &Path, done: T) -> Result<T> {
        match fault {
            Some(Fault::AnswerLost) => Err(reset()),
            Some(Fault::AnswerLate) => Err(never(path).await),
            _ => Ok(done),
        }
    }

    async fn reply(&self, path: &Path, mut options: GetOptions) -> Result<GetResult> {
        let what = if options.head { "head" } else { "get" };
        let fault = self.begin(what, path, Some(&options)).await?;
        if matches!(fault, Some(Fault::ChangedUnseen(_))) {
            (options.if_match, options.if_none_match) = (None, None);
        }
        let has_tag = self.state().conditions.tags_are_of_bytes;
        let tag = if has_tag { self.tag(path).await? } else { None };
        if tag.is_some() && options.if_match.take().is_some_and(|asked| Some(asked) != tag) {
            return Err(status_error(412, path));
        }
        let mut reply = self.inner.get_opts(path, options).await?;
        reply.meta.e_tag = tag.or(reply.meta.e_tag);
        // The Unix epoch plus the time of the put.
        reply.meta.last_modified = Default::default();
        reply.meta.last_modified += self.state().age_at_put(path);
        if let Some(asked) = self.state().requests.iter_mut().rfind(|r| r.path == path.as_ref()) {
            asked.bytes += reply.range.end - reply.range.start;
        }
        let Some(fault) = fault else { return Ok(reply) };
        let (meta, range) = (reply.meta.clone(), reply.range.clone());
        let (attributes, extensions) = (reply.attributes.clone(), reply.extensions.clone());
        let bytes = reply.bytes().await?;
        let range = if fault == Fault::WrongRange { shifted(&range) } else { range };
        let payload = GetResultPayload::Stream(body(bytes, &fault));
        Ok(GetResult { payload, meta, range, attributes, extensions })
    }
}

impl fmt::Display for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaultStore")
    }
}

impl fmt::Debug for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[async_trait]
impl ObjectStore for FaultStore {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let _guard = InFlight::enter(self);
        // A request yields at least once, so that concurrency is tested.
        tokio::task::yield_now().await;
        self.reply(location, options).await
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let path = prefix.cloned().unwrap_or_default();
        match self.note("list", &path, None) {
            Some(Fault::Status(status)) => {
                // The beginning of a list does not guarantee its end, and callers must handle that.
                let first = self.inner.list(prefix).take(1);
                first.chain(stream::iter([Err(status_error(status, &path))])).boxed()
            }
            Some(Fault::Silence) => stream::pending().boxed(),
            Some(Fault::Missing) => stream::iter([Err(status_error(404, &path))]).boxed(),
            Some(Fault::OldList(count)) => {
                let puts = self.state().puts.clone();
                let late = puts.into_iter().rev().take(count).map(|(path, _)| path);
                let late: Vec<Path> = late.collect();
                let is_listed = move |meta: &Result<ObjectMeta>| {
                    let is_late = meta.as_ref().is_ok_and(|meta| late.contains(&meta.location));
                    std::future::ready(!is_late)
                };
                self.inner.list(prefix).filter(is_listed).boxed()
            }
            _ => self.inner.list(prefix),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let path = prefix.cloned().unwrap_or_default();
        self.begin("children", &path, None).await?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        mut opts: PutOptions,
    ) -> Result<PutResult> {
        let fault = self.begin("put", location, None).await?;
        if fault == Some(Fault::Unconditional) {
            opts.mode = PutMode::Overwrite;
        }
        if fault == Some(Fault::Repeated) {
            self.state().late.push((location.clone(), payload.clone(), opts.clone()));
        }
        let done = self.put_if(location, payload, opts).await;
        if done.is_ok() {
            self.state().record_put(location);
        }
        Self::reply_when_done(fault, location, done).await?
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.begin("put in parts", location, None).await?;
        self.inner.put_multipart_opts(location, opts).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let store = self.clone();
        let answers = locations.then(move |location| {
            let store = store.clone();
            async move {
                let location = location?;
                let begun = store.begin("delete", &location, None).await;
                if matches!(begun, Err(Error::NotFound { .. })) {
                    store.state().denied_deletes += 1;
                }
                let fault = begun?;
                store.inner.delete(&location).await?;
                Self::reply_when_done(fault, &location, location.clone()).await
            }
        });
        answers.boxed()
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.begin("copy", from, None).await?;
        self.inner.copy_opts(from, to, options).await
    }
}

/// Counts a request until drop.
struct InFlight<'a>(&'a FaultStore);

impl<'a> InFlight<'a> {
    fn enter(store: &'a FaultStore) -> Self {
        let mut state = store.state();
        state.in_flight = state.in_flight.saturating_add(1);
        state.max_in_flight = state.max_in_flight.max(state.in_flight);
        Self(store)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.in_flight = state.in_flight.saturating_sub(1);
    }
}

/// Returns the stream that `fault` makes from `bytes`.
fn body(bytes: Bytes, fault: &Fault) -> BoxStream<'static, Result<Bytes>> {
    let first = |n: usize| stream::iter([Ok(bytes.slice(..n.min(bytes.len())))]);
    match fault {
        Fault::ShortBody(n) => first(*n).boxed(),
        Fault::BrokenBody(n) => {
            let broken = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
            first(*n).chain(stream::iter([Err(generic(broken))])).boxed()
        }
        Fault::StalledBody(n) => first(*n).chain(stream::pending()).boxed(),
        Fault::LongBody => stream::iter([Ok(bytes), Ok(Bytes::from_static(b"more"))]).boxed(),
        Fault::Pieces(n) => {
            let piece = |piece: &[u8]| Ok(bytes.slice_ref(piece));
            let pieces: Vec<_> = bytes.chunks((*n).max(1)).map(piece).collect();
            stream::iter(pieces).boxed()
        }
        _ => stream::iter([Ok(bytes)]).boxed(),
    }
}

fn shifted(range: &Range<u64>) -> Range<u64> {
    range.start.saturating_add(1)..range.end.saturating_add(1)
}

fn status_error(status: u16, path: &Path) -> Error {
    let source = format!("Server returned non-2xx status code: {status}: ");
    let path = path.to_string();
    match status {
        401 => Error::Unauthenticated { path, source: source.into() },
        403 => Error::PermissionDenied { path, source: source.into() },
        404 => Error::NotFound { path, source: source.into() },
        409 => Error::AlreadyExists { path, source: source.into() },
        412 => Error::Precondition { path, source: source.into() },
        _ => generic(source),
    }
}

/// Waits longer than any client.
async fn never(path: &Path) -> Error {
    tokio::time::sleep(FOR_EVER).await;
    status_error(504, path)
}

fn not_supported() -> Error {
    Error::NotSupported { source: "not here".into() }
}

fn reset() -> Error {
    generic(std::io::Error::from(std::io::ErrorKind::ConnectionReset))
}

fn generic(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Generic { store: "FaultStore", source: source.into() }
}

const FOR_EVER: Duration = Duration::from_secs(100 * 24 * 3600);
