//! Bytes from JavaScript, as a backend of zvf-store: GET of whole objects and of ranges, and names where they are known.
//!
//! The page gives an object with `get(key, first, last, suffix, signal) -> Promise<{status, bytes, first, total, etag}>`:
//! `fetch` over HTTP, slices of files that were dropped, or buffers. Dropping a request here aborts it there. It may have
//! `list(prefix, deep) -> Promise<{keys, sizes, folders}>` too: names below the prefix, all of them or those directly
//! below it. A static host has none, and is read as one that cannot be listed.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::DateTime;
use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use futures_util::stream::{self, BoxStream};
use js_sys::{Reflect, Uint8Array};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result,
};
use tokio::sync::oneshot;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{JsFuture, spawn_local};

#[wasm_bindgen]
extern "C" {
    /// Where bytes come from.
    pub type Source;

    /// Asks for a range of an object, or for all of it where `first` is -1; `suffix` asks for its last bytes.
    #[wasm_bindgen(method)]
    fn get(
        this: &Source,
        key: &str,
        first: f64,
        last: f64,
        suffix: f64,
        signal: &JsValue,
    ) -> js_sys::Promise;

    /// Lists the names below a prefix.
    #[wasm_bindgen(method)]
    fn list(this: &Source, prefix: &str, deep: bool) -> js_sys::Promise;

    type AbortController;

    #[wasm_bindgen(constructor)]
    fn new() -> AbortController;

    #[wasm_bindgen(method, getter)]
    fn signal(this: &AbortController) -> JsValue;

    #[wasm_bindgen(method)]
    fn abort(this: &AbortController);
}

/// What came of a request.
struct Reply {
    status: u16,
    bytes: Bytes,
    first: u64,
    total: u64,
    version: Option<String>,
}

/// The names below a prefix, relative to it.
struct Names {
    keys: Vec<(String, u64)>,
    folders: Vec<String>,
}

/// The backend. Futures of JavaScript run on this thread.
pub(crate) struct PageStore {
    source: Arc<Source>,
    lists: bool,
}

impl PageStore {
    pub(crate) fn new(source: Source) -> Self {
        let lists = Reflect::get(&source, &"list".into()).is_ok_and(|list| list.is_function());
        Self { source: Arc::new(source), lists }
    }

    /// Returns whether the page can list names.
    pub(crate) const fn can_list(&self) -> bool {
        self.lists
    }

    /// Lists the names below `prefix`.
    async fn names(&self, prefix: Option<&Path>, deep: bool) -> Result<Names> {
        if !self.lists {
            return Err(read_only("list"));
        }
        let prefix = prefix.map(ToString::to_string).unwrap_or_default();
        let (answer, names) = oneshot::channel();
        spawn_local(send_names(Arc::clone(&self.source), prefix, deep, answer));
        answered(names).await
    }
}

type Sender<T> = oneshot::Sender<std::result::Result<T, String>>;
type Receiver<T> = oneshot::Receiver<std::result::Result<T, String>>;

/// Returns what a task was asked for, once the source has given it.
async fn answered<T>(reply: Receiver<T>) -> Result<T> {
    let fault = |source: String| Error::Generic { store: "page", source: source.into() };
    reply.await.map_err(|_closed| fault("the page is closed".to_owned()))?.map_err(fault)
}

async fn send_names(source: Arc<Source>, prefix: String, deep: bool, sender: Sender<Names>) {
    let names = match JsFuture::from(source.list(&prefix, deep)).await {
        Ok(names) => parse_names(&names).ok_or_else(|| "the source gave no names".to_owned()),
        Err(error) => Err(message(&error)),
    };
    // An error says that nobody waits any more.
    let _ = sender.send(names);
}

fn parse_names(names: &JsValue) -> Option<Names> {
    let list = |name: &str| {
        let list = Reflect::get(names, &name.into()).ok()?;
        list.is_array().then(|| js_sys::Array::from(&list))
    };
    let texts = |list: js_sys::Array| list.iter().map(|name| name.as_string()).collect();
    let keys: Option<Vec<String>> = texts(list("keys")?);
    // Without sizes they are not asked for: names alone are.
    let sizes = list("sizes");
    let size = |at: usize| match &sizes {
        Some(sizes) => sizes.get(at as u32).as_f64().map(|size| size as u64),
        None => Some(0),
    };
    let keys = keys?.into_iter().enumerate().map(|(at, key)| Some((key, size(at)?)));
    Some(Names { keys: keys.collect::<Option<_>>()?, folders: texts(list("folders")?)? })
}

async fn send_bytes(
    source: Arc<Source>,
    key: String,
    range: Option<GetRange>,
    mut sender: Sender<Reply>,
) {
    let controller = AbortController::new();
    let (first, last, suffix) = match range {
        None => (-1.0, -1.0, 0.0),
        Some(GetRange::Bounded(Range { start, end })) => (number(start), number(end) - 1.0, 0.0),
        Some(GetRange::Offset(start)) => (number(start), -1.0, 0.0),
        Some(GetRange::Suffix(bytes)) => (-1.0, -1.0, number(bytes)),
    };
    let reply = JsFuture::from(source.get(&key, first, last, suffix, &controller.signal()));
    let first = {
        let closed = std::pin::pin!(sender.closed());
        match select(reply, closed).await {
            Either::Left((reply, _)) => Some(reply),
            Either::Right(_) => None,
        }
    };
    let Some(done) = first else {
        controller.abort();
        return;
    };
    let done = match done {
        Ok(reply) => parse_reply(&reply).ok_or_else(|| "the source gave something else".to_owned()),
        Err(error) => Err(message(&error)),
    };
    // An error says that nobody waits any more.
    let _ = sender.send(done);
}

/// Converts the size of an object, which is far below 2^53.
fn number(n: u64) -> f64 {
    n as f64
}

fn message(error: &JsValue) -> String {
    let text = Reflect::get(error, &"message".into()).ok().and_then(|text| text.as_string());
    text.or_else(|| error.as_string()).unwrap_or_else(|| "the request failed".to_owned())
}

fn parse_reply(reply: &JsValue) -> Option<Reply> {
    let field = |name: &str| Reflect::get(reply, &name.into()).ok();
    let number = |name: &str| field(name)?.as_f64().filter(|n| *n >= 0.0).map(|n| n as u64);
    let bytes = field("bytes").filter(|bytes| bytes.is_instance_of::<Uint8Array>())?;
    let bytes = Uint8Array::from(bytes).to_vec().into();
    Some(Reply {
        status: u16::try_from(number("status")?).ok()?,
        bytes,
        first: number("first")?,
        total: number("total")?,
        version: field("etag").and_then(|tag| tag.as_string()),
    })
}

impl fmt::Debug for PageStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PageStore")
    }
}

impl fmt::Display for PageStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PageStore")
    }
}

#[async_trait]
impl ObjectStore for PageStore {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let key = location.to_string();
        let (answer, reply) = oneshot::channel();
        let (source, range) = (Arc::clone(&self.source), options.range.clone());
        spawn_local(send_bytes(source, key.clone(), range, answer));
        let reply = answered(reply).await?;
        let source = || format!("status {}", reply.status).into();
        match reply.status {
            200 | 206 => {}
            404 | 403 | 410 => return Err(Error::NotFound { path: key, source: source() }),
            401 => return Err(Error::Unauthenticated { path: key, source: source() }),
            412 => return Err(Error::Precondition { path: key, source: source() }),
            _ => return Err(Error::Generic { store: "page", source: source() }),
        }
        let bytes = if reply.status == 200 {
            cut(reply.bytes, options.range.as_ref())
        } else {
            (reply.first, reply.bytes)
        };
        let (first, bytes) = bytes;
        let meta = ObjectMeta { e_tag: reply.version, ..meta_of(location.clone(), reply.total) };
        let range = first..first + bytes.len() as u64;
        let payload = GetResultPayload::Stream(stream::iter([Ok(bytes)]).boxed());
        Ok(GetResult {
            payload,
            meta,
            range,
            attributes: object_store::Attributes::default(),
            extensions: object_store::Extensions::default(),
        })
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(read_only("put"))
    }

    async fn put_multipart_opts(
        &self,
        _: &Path,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        Err(read_only("put"))
    }

    fn delete_stream(
        &self,
        _: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        stream::iter([Err(read_only("delete"))]).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let source = Self { source: Arc::clone(&self.source), lists: self.lists };
        let prefix = prefix.cloned();
        let listed = async move {
            match source.names(prefix.as_ref(), true).await {
                Ok(names) => {
                    names.keys.into_iter().map(|key| meta_below(prefix.as_ref(), key)).collect()
                }
                Err(error) => vec![Err(error)],
            }
        };
        stream::once(listed).flat_map(stream::iter).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let Names { keys, folders } = self.names(prefix, false).await?;
        let objects = keys.into_iter().map(|key| meta_below(prefix, key));
        let common_prefixes = folders.iter().map(|folder| path_below(prefix, folder));
        Ok(ListResult {
            objects: objects.collect::<Result<_>>()?,
            common_prefixes: common_prefixes.collect::<Result<_>>()?,
            extensions: object_store::Extensions::default(),
        })
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(read_only("copy"))
    }
}

fn meta_of(location: Path, size: u64) -> ObjectMeta {
    let last_modified = DateTime::UNIX_EPOCH;
    ObjectMeta { location, last_modified, size, e_tag: None, version: None }
}

fn meta_below(prefix: Option<&Path>, (name, size): (String, u64)) -> Result<ObjectMeta> {
    Ok(meta_of(path_below(prefix, &name)?, size))
}

fn path_below(prefix: Option<&Path>, name: &str) -> Result<Path> {
    let whole = prefix.map_or_else(|| name.to_owned(), |prefix| format!("{prefix}/{name}"));
    Ok(Path::parse(whole)?)
}

/// Returns the part asked for, out of an answer that is the whole object: a server without ranges.
fn cut(bytes: Bytes, range: Option<&GetRange>) -> (u64, Bytes) {
    let length = bytes.len() as u64;
    let part = range.map_or(Ok(0..length), |range| range.as_range(length));
    let Range { start, end } = part.unwrap_or(length..length); // it begins past the end
    (start, bytes.slice(start as usize..end as usize))
}

fn read_only(what: &str) -> Error {
    Error::NotImplemented { operation: what.to_owned(), implementer: "page".to_owned() }
}
